//! Further names in queries: of fields, and of indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SchemaFaults;
use crate::parse::Name;
use crate::parse::syntax::FieldDecl;
use crate::suggest::did_you_mean;
use crate::{Error, Fieldset, MatchMode, SchemaField};

/// Names of indexes, by alias: `inherited` from the schema's parent, and of `alias index: name` in fields. In
/// a field of addresses, the index may be the name of a part alone (`alias hostname: site`).
///
/// An alias of an unknown index has no effect, as in Vespa, but for a warning.
pub(super) fn resolve(
    decls: &[&FieldDecl],
    fields: &BTreeMap<Arc<str>, SchemaField>,
    fieldsets: &BTreeMap<String, Fieldset>,
    inherited: BTreeMap<String, String>,
    faults: &mut SchemaFaults<'_>,
) -> BTreeMap<String, String> {
    let mut all = inherited;
    // Fields of parents are declared again here, with the aliases that the parent has resolved.
    let all_aliases =
        decls.iter().flat_map(|field| field.index_aliases.iter().map(move |decl| (&field.name.value, decl)));
    for (owner, decl) in all_aliases {
        let (index, alias) = (&decl.index.value, &decl.alias.value);
        if is_address_part(fields.get(owner.as_str()), index) {
            all.insert(alias.clone(), format!("{owner}.{index}"));
            continue;
        }
        let base = index.split('.').next().unwrap_or_default();
        if faults.invalid_parts.names.has(base) {
            continue;
        }
        if !fields.contains_key(base) && !fieldsets.contains_key(index) {
            let known = fields.keys().map(|name| &**name).chain(fieldsets.keys().map(String::as_str));
            let hint = did_you_mean(index, known);
            let position = &decl.index.position;
            let warning =
                format!("{position}: no field or fieldset '{index}' for this alias{hint}: it has no effect");
            faults.findings.warnings.push(warning);
            continue;
        }
        all.insert(alias.clone(), index.clone());
    }
    check(decls, fields, fieldsets, faults);
    all
}

/// True for a part of the addresses in a field, by its own name: `hostname`.
fn is_address_part(field: Option<&SchemaField>, name: &str) -> bool {
    let part = field.and_then(|field| field.part(name));
    part.is_some_and(|part| matches!(part.matching.mode, MatchMode::Uri(_)))
}

/// Refuses aliases that are names of fields or fieldsets, and those that are given twice.
fn check(
    decls: &[&FieldDecl],
    fields: &BTreeMap<Arc<str>, SchemaField>,
    fieldsets: &BTreeMap<String, Fieldset>,
    faults: &mut SchemaFaults<'_>,
) {
    let mut meanings: BTreeMap<&str, &str> = BTreeMap::new();
    for decl in decls {
        let Some(field) = fields.get(decl.name.value.as_str()) else { continue };
        let own = field.aliases.iter().map(|alias| (alias.as_str(), &*field.name, &decl.name));
        let others = decl.index_aliases.iter().map(|other| {
            let name: &Name = &other.alias;
            (name.value.as_str(), other.index.value.as_str(), name)
        });
        for (alias, index, name) in own.chain(others) {
            let is_other = |other: &&str| *other != index;
            let reason = if fields.contains_key(alias) {
                format!("'{alias}' is a field already, so it cannot be an alias of '{index}'")
            } else if fieldsets.contains_key(alias) {
                format!("'{alias}' is a fieldset already, so it cannot be an alias of '{index}'")
            } else if let Some(first) = meanings.insert(alias, index).filter(is_other) {
                format!("'{alias}' is an alias of '{first}' already, so it cannot be one of '{index}'")
            } else {
                continue;
            };
            if decl.index_names.iter().any(|name| name == alias) {
                // An index of its own elsewhere, which no query can name.
                let warning = format!("{}: {reason}: it has no effect", name.position);
                faults.findings.warnings.push(warning);
                continue;
            }
            faults.findings.report(Error::Invalid { position: name.position.clone(), reason });
        }
    }
}
