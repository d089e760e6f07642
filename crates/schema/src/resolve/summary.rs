//! Resolution of document summaries: those created by fields, declared ones, and inheritance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_document::{DataType, ZCURVE_SUFFIX};

use super::SchemaFaults;
use crate::parse::Name;
use crate::parse::syntax::{FieldDecl, SummaryDecl, SummaryFieldDecl};
use crate::schema::field_of_zcurve;
use crate::suggest::did_you_mean;
use crate::{DocumentSummary, Error, Schema, SchemaField, SummaryField, SummaryMode};

type Fields = BTreeMap<Arc<str>, SchemaField>;
type Summaries = BTreeMap<String, DocumentSummary>;

/// Fields of every document, without a declaration.
const IMPLICIT_SOURCES: &[&str] = &["documentid", "sddocname"];
/// Summary with the attributes of one value, which every schema with such attributes has in Vespa.
const OF_ATTRIBUTES: &str = "attributeprefetch";

/// All summaries of a schema: `inherited` from its parent, declared, and created by fields (in the order of
/// `field_decls`). An invalid summary is omitted, and so are those that inherit it.
pub(super) fn resolve(
    declared: &[SummaryDecl],
    field_decls: &[&FieldDecl],
    fields: &Fields,
    inherited: Summaries,
    faults: &mut SchemaFaults<'_>,
) -> Summaries {
    let mut summaries = inherited;
    summaries.remove("default");
    let mut pending: Vec<&SummaryDecl> = Vec::new();
    for decl in declared {
        match pending.iter().find(|other| other.name.value == decl.name.value) {
            Some(first) => {
                let reason = format!(
                    "document-summary '{}' is declared at {} already",
                    decl.name.value, first.name.position
                );
                faults.findings.ok_or_report(invalid::<()>(&decl.name, reason));
                faults.invalid_parts.summaries.add(&decl.name.value);
            }
            None => {
                summaries.remove(&decl.name.value);
                pending.push(decl);
            }
        }
    }
    from_fields(field_decls, fields, &mut summaries, faults);
    // Each round resolves the summaries with known parents; a round without progress means a cycle or an
    // unknown name.
    while !pending.is_empty() {
        let names: Vec<&str> = pending.iter().map(|decl| decl.name.value.as_str()).collect();
        let waits = |decl: &SummaryDecl| {
            decl.inherits
                .iter()
                .find(|parent| parent.value != decl.name.value && names.contains(&parent.value.as_str()))
                .cloned()
        };
        let (ready, waiting): (Vec<_>, Vec<_>) =
            pending.iter().copied().partition(|decl| waits(decl).is_none());
        if let (true, Some(parent)) = (ready.is_empty(), waiting.first().and_then(|decl| waits(decl))) {
            let reason = format!("document-summary '{}' inherits itself", parent.value);
            faults.findings.ok_or_report(invalid::<()>(&parent, reason));
            waiting.iter().for_each(|decl| faults.invalid_parts.summaries.add(&decl.name.value));
            break;
        }
        for decl in ready {
            if decl.inherits.iter().any(|parent| faults.invalid_parts.summaries.has(&parent.value)) {
                faults.invalid_parts.summaries.add(&decl.name.value);
                continue;
            }
            let read = declared_summary(decl, fields, &mut summaries, faults);
            if faults.findings.ok_or_report(read).is_none() {
                faults.invalid_parts.summaries.add(&decl.name.value);
            }
        }
        pending = waiting;
    }
    remove_sources(declared, field_decls, &mut summaries);
    complete_default(fields, &mut summaries);
    add_attributes(field_decls, fields, &mut summaries);
    summaries
}

/// Warns of fields whose elements are selected by a feature that no rank profile shows.
pub(super) fn check_selections(schema: &Schema, faults: &mut SchemaFaults<'_>) {
    let features = schema.rank_profiles.values().flat_map(|profile| &profile.summary_features);
    let known: BTreeSet<&str> = features.map(|feature| feature.value.as_str()).collect();
    let mut reported = BTreeSet::new();
    for shown in schema.summaries.values().flat_map(|summary| &summary.fields) {
        let SummaryMode::SelectElementsBy { feature, .. } = &shown.mode else { continue };
        if known.contains(feature.as_str()) || !reported.insert((&shown.source, feature)) {
            continue;
        }
        let position = schema.fields.get(&shown.source).map_or(&schema.position, |field| &field.position);
        let hint = did_you_mean(feature, known.iter().copied());
        faults.findings.warnings.push(format!(
            "{position}: select-elements-by: no rank profile has the summary feature '{feature}'{hint}; all elements of '{}' are shown",
            shown.source
        ));
    }
}

/// Removes from the default summary the fields that it shows under another name, unless something but
/// `summary` in an indexing statement says that they are shown. The rule is Vespa's.
fn remove_sources(declared: &[SummaryDecl], decls: &[&FieldDecl], summaries: &mut Summaries) {
    let of_default = declared.iter().filter(|summary| summary.name.value == "default");
    let of_default: Vec<&Name> =
        of_default.flat_map(|summary| &summary.fields).filter_map(|field| field.name.as_ref()).collect();
    let is_implicit = |name: &str| {
        if of_default.iter().any(|shown| shown.value == name) {
            return false;
        }
        decls.iter().filter(|decl| decl.name.value == name).all(|decl| {
            let names = decl.summaries.iter().map(|summary| summary.name.as_ref().unwrap_or(&decl.name));
            decl.bolding.is_none()
                && decl.summary_to.is_empty()
                && names.into_iter().all(|shown| shown.value != name)
        })
    };
    let default = summary_named("default", summaries);
    let sources: Vec<Arc<str>> = default
        .fields
        .iter()
        .filter(|shown| shown.name != shown.source)
        .flat_map(|shown| std::iter::once(&shown.source).chain(&shown.more_sources))
        .filter(|source| is_implicit(source))
        .cloned()
        .collect();
    default.fields.retain(|shown| shown.name != shown.source || !sources.contains(&shown.source));
}

/// Summaries from `summary` in indexing statements, and from `summary` and `summary-to` in fields.
fn from_fields(
    decls: &[&FieldDecl],
    fields: &Fields,
    summaries: &mut Summaries,
    faults: &mut SchemaFaults<'_>,
) {
    summary_named("default", summaries);
    for decl in decls {
        let Some(field) = fields.get(decl.name.value.as_str()) else {
            let targets = decl.summaries.iter().flat_map(|summary| &summary.to).chain(&decl.summary_to);
            targets.for_each(|target| faults.invalid_parts.summaries.add(&target.value));
            continue;
        };
        let own = SummaryField {
            name: Arc::clone(&field.name),
            source: Arc::clone(&field.name),
            more_sources: Vec::new(),
            mode: field.summary.clone(),
            bolding: field.bolding,
        };
        if field.in_summary {
            put(summary_named("default", summaries), own.clone());
        }
        for target in &decl.summary_to {
            put(summary_named(&target.value, summaries), own.clone());
        }
        for summary in &decl.summaries {
            let Some(name) = &summary.name else {
                for target in &summary.to {
                    put(summary_named(&target.value, summaries), own.clone());
                }
                continue;
            };
            let shown = summary_field(summary, name, &decl.name, fields, faults);
            let Some(Some(shown)) = faults.findings.ok_or_report(shown) else { continue };
            if summary.to.is_empty() {
                put(summary_named("default", summaries), shown.clone());
            }
            for target in &summary.to {
                put(summary_named(&target.value, summaries), shown.clone());
            }
        }
    }
}

fn declared_summary(
    decl: &SummaryDecl,
    fields: &Fields,
    summaries: &mut Summaries,
    faults: &mut SchemaFaults<'_>,
) -> Result<(), Error> {
    let mut shown = Vec::new();
    for parent in decl.inherits.iter().filter(|parent| parent.value != decl.name.value) {
        match summaries.get(&parent.value) {
            Some(summary) => shown.extend(summary.fields.iter().cloned()),
            None => {
                let hint = did_you_mean(&parent.value, summaries.keys().map(String::as_str));
                return invalid(parent, format!("unknown document-summary '{}'{hint}", parent.value));
            }
        }
    }
    for field in &decl.fields {
        let Some(name) = &field.name else { continue };
        let read = summary_field(field, name, name, fields, faults);
        shown.extend(faults.findings.ok_or_report(read).flatten());
    }
    let summary = summary_named(&decl.name.value, summaries);
    summary.omit_summary_features = decl.omit_summary_features;
    for field in shown {
        put(summary, field);
    }
    Ok(())
}

/// The field shown by `decl`; its default `source` is `implied`. `None` if its source is invalid.
fn summary_field(
    decl: &SummaryFieldDecl,
    name: &Name,
    implied: &Name,
    fields: &Fields,
    faults: &mut SchemaFaults<'_>,
) -> Result<Option<SummaryField>, Error> {
    let mut sources = Vec::new();
    let written =
        if decl.sources.is_empty() { std::slice::from_ref(implied) } else { decl.sources.as_slice() };
    if written.iter().any(|source| faults.invalid_parts.names.has(&source.value)) {
        return Ok(None);
    }
    for source in written {
        let base = source.value.split('.').next().unwrap_or_default();
        if let Some(field) = field_of_zcurve(base, fields) {
            sources.push(if decl.of_positions { Arc::clone(&field.name) } else { base.into() });
            continue;
        }
        if !fields.contains_key(base) && !IMPLICIT_SOURCES.contains(&base) {
            let hint = did_you_mean(&source.value, fields.keys().map(|name| &**name));
            let cure =
                if decl.sources.is_empty() { ": add 'source: <field>' or declare the field" } else { "" };
            return invalid(
                source,
                format!("no field '{}' to show in summary '{}'{hint}{cure}", source.value, name.value),
            );
        }
        sources.push(Arc::from(source.value.as_str()));
    }
    let source = sources.remove(0);
    let field = fields.get(&source);
    // A field keeps its own form, unless it is renamed or the summary specifies one.
    let own = field.filter(|field| *field.name == *name.value);
    let mut mode = decl.mode.clone().or(own.map(|field| field.summary.clone())).unwrap_or_default();
    if mode.is_dynamic()
        && let Some(field) = field
        && !crate::field::holds_text(&field.data_type)
    {
        let reason = format!(
            "a dynamic summary is for strings and arrays of strings; '{source}' is {}",
            field.data_type
        );
        return invalid(name, reason);
    }
    if let Some(field) = field {
        let (suitable, reason) = mode.for_type(&field.data_type);
        mode = suitable;
        // Of the field's own form the field itself is warned of.
        let reason = reason.filter(|_| decl.mode.is_some());
        let of_bolding = "bolding is for strings and arrays of strings";
        let is_bold = decl.bolding == Some(true) && !crate::field::holds_text(&field.data_type);
        for reason in reason.into_iter().chain(is_bold.then_some(of_bolding)) {
            faults.findings.warnings.push(format!(
                "{}: {reason}; '{source}' is {}, which is shown as it is",
                name.position, field.data_type
            ));
        }
    }
    let bolding = decl.bolding.unwrap_or(own.is_some_and(|field| field.bolding)) && !mode.is_dynamic();
    Ok(Some(SummaryField { name: name.value.as_str().into(), source, more_sources: sources, mode, bolding }))
}

/// Adds to the default summary the fields of other summaries that are not attributes.
fn complete_default(fields: &Fields, summaries: &mut Summaries) {
    let is_attribute = |shown: &SummaryField| {
        let is_composed = shown.source.contains('.') || !shown.more_sources.is_empty();
        !is_composed && fields.get(&shown.source).is_none_or(|field| field.attribute.is_some())
    };
    let missing: Vec<SummaryField> = summaries
        .values()
        .filter(|summary| summary.name != "default")
        .flat_map(|summary| &summary.fields)
        .filter(|shown| {
            shown.mode != SummaryMode::Tokens && (shown.mode != SummaryMode::Full || !is_attribute(shown))
        })
        .filter(|shown| !IMPLICIT_SOURCES.contains(&&*shown.source))
        .cloned()
        .collect();
    let default = summary_named("default", summaries);
    for shown in missing {
        if !default.fields.iter().any(|field| field.name == shown.name) {
            default.fields.push(shown);
        }
    }
}

/// Adds the attributes of one value to their summary, in the order of declarations. Fields that another
/// summary shows as snippets or with bold words, and tensors, are not in it. The rule is Vespa's.
fn add_attributes(decls: &[&FieldDecl], fields: &Fields, summaries: &mut Summaries) {
    for decl in decls {
        let Some(field) = fields.get(decl.name.value.as_str()) else { continue };
        let mut shown = summaries.values().flat_map(|summary| &summary.fields);
        let marks_words = field.bolding
            || field.summary.is_dynamic()
            || shown.any(|shown| shown.name == field.name && (shown.bolding || shown.mode.is_dynamic()));
        if field.attribute.is_none() || marks_words {
            continue;
        }
        let name: Arc<str> = match &field.data_type {
            DataType::Array(_)
            | DataType::WeightedSet { .. }
            | DataType::Map(..)
            | DataType::Struct(_)
            | DataType::Tensor(_) => continue,
            DataType::Position => format!("{}{ZCURVE_SUFFIX}", field.name).into(),
            _ => Arc::clone(&field.name),
        };
        put(
            summary_named(OF_ATTRIBUTES, summaries),
            SummaryField {
                source: Arc::clone(&name),
                name,
                more_sources: Vec::new(),
                mode: SummaryMode::Full,
                bolding: false,
            },
        );
    }
}

fn summary_named<'a>(name: &str, summaries: &'a mut Summaries) -> &'a mut DocumentSummary {
    summaries.entry(name.to_owned()).or_insert_with(|| DocumentSummary {
        name: name.to_owned(),
        fields: Vec::new(),
        omit_summary_features: false,
    })
}

/// Adds a field, replacing one with the same name.
fn put(summary: &mut DocumentSummary, field: SummaryField) {
    match summary.fields.iter_mut().find(|other| other.name == field.name) {
        Some(other) => *other = field,
        None => summary.fields.push(field),
    }
}

fn invalid<T>(name: &Name, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { position: name.position.clone(), reason })
}
