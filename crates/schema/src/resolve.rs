//! Resolution of declarations to schemas: inheritance, defaults, and name lookup.
//!
//! A schema is resolved after the schemas and documents that it inherits.

mod alias;
mod engine_properties;
mod feature_properties;
mod field;
mod hybrid;
mod literal;
mod profile;
mod sources;
mod summary;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_document::{DataType, DocumentField, DocumentType};

use crate::parse::Name;
use crate::parse::syntax::{DocumentDecl, FieldDecl, FieldsetDecl, SchemaDecl, StructDecl};
use crate::suggest::did_you_mean;
use crate::{
    Error, FieldStemming, Fieldset, InvalidNames, OnnxModelConfig, PackageFindings, Schema, SchemaConstant,
    SchemaField, SourcePosition,
};
pub use engine_properties::unknown_engine_property;
use sources::PackageSources;

/// Maximum depth of inheritance of schemas, documents, structs and profiles.
const INHERITANCE_MAX: usize = 32;

/// Declared schemas of a package.
#[derive(Default)]
pub(crate) struct DeclaredSchemas {
    pub schemas: Vec<SchemaDecl>,
    /// Names of schemas that could not be read.
    pub invalid: InvalidNames,
    /// Rank profiles in unreadable files, by schema.
    pub invalid_profiles: BTreeMap<String, InvalidNames>,
}

/// Schemas of a package, without invalid parts.
pub(crate) struct ResolvedSchemas {
    pub sound: BTreeMap<Arc<str>, Arc<Schema>>,
    /// Names of schemas that are omitted.
    pub invalid: InvalidNames,
    /// Names of parts that the other schemas lack.
    pub invalid_names: InvalidNames,
}

/// Resolves all schemas of a package.
pub(crate) fn schemas(
    declared: &DeclaredSchemas,
    files: &BTreeMap<String, Vec<u8>>,
    findings: &mut PackageFindings,
) -> ResolvedSchemas {
    let mut by_name: BTreeMap<&str, &SchemaDecl> = BTreeMap::new();
    for decl in &declared.schemas {
        if let Some(first) = by_name.get(decl.name.value.as_str()) {
            let reason =
                format!("schema '{}' is declared at {} already", decl.name.value, first.name.position);
            findings.ok_or_report(invalid::<()>(&decl.name, reason));
        } else {
            by_name.insert(&decl.name.value, decl);
        }
    }
    let mut resolver = SchemaResolver {
        decls: by_name,
        done: BTreeMap::new(),
        invalid: declared.invalid.clone(),
        invalid_profiles: &declared.invalid_profiles,
        sources: PackageSources::new(files),
        findings,
    };
    for decl in &declared.schemas {
        resolver.visit(&decl.name, &mut Vec::new());
    }
    let mut invalid_names = InvalidNames::default();
    resolver.done.values().for_each(|resolved| invalid_names.extend(&resolved.invalid_parts.names));
    let sound =
        resolver.done.into_iter().map(|(name, resolved)| (Arc::from(name), resolved.schema)).collect();
    ResolvedSchemas { sound, invalid: resolver.invalid, invalid_names }
}

/// A resolved schema, with the declarations that inheriting schemas need.
struct ResolvedSchema {
    schema: Arc<Schema>,
    document_fields: Vec<FieldDecl>,
    structs: Vec<StructDecl>,
    outside_fields: Vec<FieldDecl>,
    invalid_parts: InvalidParts,
}

/// Names of the invalid parts of a schema.
#[derive(Debug, Clone, Default)]
struct InvalidParts {
    /// Fields, fieldsets, constants and models: names used in expressions and statements.
    names: InvalidNames,
    profiles: InvalidNames,
    summaries: InvalidNames,
}

impl InvalidParts {
    fn extend(&mut self, other: &InvalidParts) {
        self.names.extend(&other.names);
        self.profiles.extend(&other.profiles);
        self.summaries.extend(&other.summaries);
    }
}

struct SchemaResolver<'a> {
    decls: BTreeMap<&'a str, &'a SchemaDecl>,
    done: BTreeMap<String, ResolvedSchema>,
    invalid: InvalidNames,
    invalid_profiles: &'a BTreeMap<String, InvalidNames>,
    sources: PackageSources<'a>,
    findings: &'a mut PackageFindings,
}

impl<'a> SchemaResolver<'a> {
    /// Resolves the schema with this name after those it inherits; `within` is the chain of dependent
    /// schemas. `None` if it, or one that it inherits, is invalid.
    fn visit(&mut self, name: &Name, within: &mut Vec<&'a str>) -> Option<()> {
        if self.done.contains_key(&name.value) {
            return Some(());
        }
        if self.invalid.has(&name.value) {
            return None;
        }
        let found = self.find(name, within);
        let (key, decl) = self.findings.ok_or_report(found)?;
        within.push(key);
        let inherited = parents(decl).try_for_each(|parent| self.visit(parent, within));
        within.pop();
        let resolved = inherited.and_then(|()| {
            let resolved = self.resolve(decl);
            self.findings.ok_or_report(resolved)
        });
        match resolved {
            Some(resolved) => self.done.insert(key.to_owned(), resolved),
            None => {
                self.invalid.add(key);
                return None;
            }
        };
        Some(())
    }

    /// The declaration with this name; an error if the chain of dependent schemas has a cycle or is too long.
    fn find(&self, name: &Name, within: &[&'a str]) -> Result<(&'a str, &'a SchemaDecl), Error> {
        let Some((&key, &decl)) = self.decls.get_key_value(name.value.as_str()) else {
            let hint = did_you_mean(&name.value, self.decls.keys().copied());
            return invalid(
                name,
                format!("no schema '{0}' to inherit{hint}: add schemas/{0}.sd", name.value),
            );
        };
        if within.contains(&key) {
            return invalid(
                &decl.name,
                format!("schema '{key}' inherits itself: {} → {key}", within.join(" → ")),
            );
        }
        if within.len() == INHERITANCE_MAX {
            return invalid(&decl.name, format!("schemas inherit more than {INHERITANCE_MAX} deep"));
        }
        Ok((key, decl))
    }

    /// The schema without its invalid parts, whose errors are reported.
    fn resolve(&mut self, decl: &SchemaDecl) -> Result<ResolvedSchema, Error> {
        let Some(document) = &decl.document else {
            return invalid(
                &decl.name,
                format!("schema '{0}' has no document: add 'document {0} {{ … }}'", decl.name.value),
            );
        };
        let InheritedDocument { ancestors, fields: mut document_fields, mut structs, mut invalid_parts } =
            InheritedDocument::of(document, &self.done);
        let base = base_schema(decl, document, &ancestors, &self.done)?;
        if let Some(unread) = self.invalid_profiles.get(&decl.name.value) {
            invalid_parts.profiles.extend(unread);
        }
        let mut faults = SchemaFaults { findings: self.findings, invalid_parts };
        add_own(&mut document_fields, &document.fields, "field", |field| &field.name, &mut faults);
        let own_structs: Vec<StructDecl> = document.structs.iter().chain(&decl.structs).cloned().collect();
        add_own(&mut structs, &own_structs, "struct", |decl| &decl.name, &mut faults);
        let mut outside_fields = base.map(|base| base.outside_fields.clone()).unwrap_or_default();
        add_own(&mut outside_fields, &decl.fields, "field", |field| &field.name, &mut faults);
        literal::add_fields(&document_fields, &mut outside_fields, faults.findings);

        let stemming = decl.stemming.or(base.map(|base| base.schema.stemming)).unwrap_or(FieldStemming::Best);
        let fields = resolve_fields(decl, &document_fields, &outside_fields, &structs, stemming, &mut faults);
        let shown: Vec<&FieldDecl> = document_fields.iter().chain(&outside_fields).collect();
        let no_profiles = BTreeMap::new();
        let inherited_profiles = profile::InheritedProfiles {
            of_schema: base.map_or(&no_profiles, |base| &base.schema.rank_profiles),
            of_documents: ancestors
                .iter()
                .filter_map(|ancestor| Some(&self.done.get(&**ancestor)?.schema.rank_profiles))
                .collect(),
        };
        let position = &decl.name.position;

        let mut fieldsets = inherited(base, |schema| &schema.fieldsets);
        fieldsets.extend(resolve_fieldsets(decl, &fields, &mut faults));
        let inherited_aliases = inherited(base, |schema| &schema.index_aliases);
        let index_aliases = alias::resolve(&shown, &fields, &fieldsets, inherited_aliases, &mut faults);
        let mut constants = inherited(base, |schema| &schema.constants);
        constants.extend(resolve_constants(decl, &self.sources, &mut faults));
        let mut onnx_models = inherited(base, |schema| &schema.onnx_models);
        onnx_models.extend(resolve_onnx_models(decl, &mut faults));
        let inherited_summaries = inherited(base, |schema| &schema.summaries);
        let hybrid = || hybrid::text(&fields, fieldsets.get("default"));
        let rank_profiles = profile::resolve(
            &decl.profiles,
            &inherited_profiles,
            position,
            &self.sources,
            &hybrid,
            &mut faults,
        );
        let mut schema = Schema {
            name: decl.name.value.as_str().into(),
            document_type: Arc::new(document_type(&document.name, &document_fields, &fields)),
            summaries: summary::resolve(&decl.summaries, &shown, &fields, inherited_summaries, &mut faults),
            rank_profiles,
            fields,
            fieldsets,
            index_aliases,
            constants,
            onnx_models,
            models: Arc::clone(&self.sources.models),
            ancestors,
            raw_as_base64: decl.raw_as_base64.or(base.map(|base| base.schema.raw_as_base64)).unwrap_or(true),
            stemming,
            position: position.clone(),
        };
        check_profiles(decl, &schema, &mut faults);
        summary::check_selections(&schema, &mut faults);
        self.sources.check_models(&schema, &mut faults);
        let invalid_parts = faults.invalid_parts;
        let invalid_parts = remove_dependents(&mut schema, invalid_parts);
        Ok(ResolvedSchema {
            schema: Arc::new(schema),
            document_fields,
            structs,
            outside_fields,
            invalid_parts,
        })
    }
}

/// Parts that a document has from the documents that it inherits.
#[derive(Default)]
struct InheritedDocument {
    /// Names of the schemas of these documents, and of those that they inherit.
    ancestors: Vec<Arc<str>>,
    fields: Vec<FieldDecl>,
    structs: Vec<StructDecl>,
    invalid_parts: InvalidParts,
}

impl InheritedDocument {
    /// Collects the parts from resolved schemas.
    fn of(document: &DocumentDecl, done: &BTreeMap<String, ResolvedSchema>) -> Self {
        let mut all = InheritedDocument::default();
        for parent in document.inherits.iter().filter_map(|parent| done.get(&parent.value)) {
            let names = std::iter::once(&parent.schema.name).chain(&parent.schema.ancestors);
            for name in names {
                if !all.ancestors.contains(name) {
                    all.ancestors.push(Arc::clone(name));
                }
            }
            add_inherited(&mut all.fields, &parent.document_fields, |field| &field.name);
            add_inherited(&mut all.structs, &parent.structs, |decl| &decl.name);
            all.invalid_parts.extend(&parent.invalid_parts);
        }
        all
    }
}

/// The schema that a schema inherits, if any; its document must be one that the schema's document inherits.
fn base_schema<'d>(
    decl: &SchemaDecl,
    document: &DocumentDecl,
    ancestors: &[Arc<str>],
    done: &'d BTreeMap<String, ResolvedSchema>,
) -> Result<Option<&'d ResolvedSchema>, Error> {
    match &decl.inherits {
        None => Ok(None),
        Some(parent) if ancestors.iter().any(|name| **name == *parent.value) => Ok(done.get(&parent.value)),
        Some(parent) => {
            let reason = format!(
                "schema '{}' inherits '{2}', so its document does too: document {1} inherits {2} {{",
                decl.name.value, document.name.value, parent.value
            );
            invalid(parent, reason)
        }
    }
}

/// A copy of a part of the inherited schema; the empty part if none is inherited.
fn inherited<T: Clone + Default>(base: Option<&ResolvedSchema>, part: fn(&Schema) -> &T) -> T {
    base.map(|base| part(&base.schema).clone()).unwrap_or_default()
}

/// Errors in the parts of a schema: reported, and recorded by name.
struct SchemaFaults<'f> {
    findings: &'f mut PackageFindings,
    invalid_parts: InvalidParts,
}

impl SchemaFaults<'_> {
    /// Returns a field, fieldset, constant or model, or records its name as invalid.
    fn ok_or_report<T>(&mut self, name: &str, read: Result<T, Error>) -> Option<T> {
        if read.is_err() {
            self.invalid_parts.names.add(name);
        }
        self.findings.ok_or_report(read)
    }
}

/// Removes the parts of a schema that depend on invalid ones; they then count as invalid, too.
fn remove_dependents(schema: &mut Schema, mut invalid_parts: InvalidParts) -> InvalidParts {
    for (name, model) in &schema.onnx_models {
        if model.inputs.iter().any(|(_, source)| invalid_parts.names.is_in(&source.value)) {
            invalid_parts.names.add(name);
        }
    }
    schema.rank_profiles.retain(|name, profile| {
        let depends = profile.depends_on(&invalid_parts.names);
        if depends {
            invalid_parts.profiles.add(name);
        }
        !depends
    });
    for field in schema.fields.values_mut() {
        field.indexing =
            field.indexing.take().filter(|statements| !invalid_parts.names.is_in(&statements.value));
    }
    invalid_parts
}

/// Schemas and documents that a schema inherits.
fn parents(decl: &SchemaDecl) -> impl Iterator<Item = &Name> {
    decl.inherits.iter().chain(decl.document.iter().flat_map(|document| &document.inherits))
}

/// Adds the entries of a parent; of two parents' entries with one name the first wins.
fn add_inherited<T: Clone>(all: &mut Vec<T>, inherited: &[T], name: fn(&T) -> &Name) {
    let known: BTreeSet<String> = all.iter().map(|item| name(item).value.clone()).collect();
    all.extend(inherited.iter().filter(|item| !known.contains(&name(item).value)).cloned());
}

/// Adds declared entries, replacing inherited ones. Two entries with one name in one schema are an error.
fn add_own<T: Clone>(
    all: &mut Vec<T>,
    own: &[T],
    what: &str,
    name: fn(&T) -> &Name,
    faults: &mut SchemaFaults<'_>,
) {
    let mut seen: BTreeMap<&str, &SourcePosition> = BTreeMap::new();
    let mut once: Vec<T> = Vec::new();
    for item in own {
        let Name { value, position } = name(item);
        match seen.get(value.as_str()) {
            Some(first) => {
                let reason = format!("{what} '{value}' is declared at {first} already");
                faults.ok_or_report::<()>(value, invalid(name(item), reason));
            }
            None => {
                seen.insert(value, position);
                once.push(item.clone());
            }
        }
    }
    all.retain(|item| !seen.contains_key(name(item).value.as_str()));
    all.extend(once);
}

fn resolve_fields(
    decl: &SchemaDecl,
    document_fields: &[FieldDecl],
    outside_fields: &[FieldDecl],
    structs: &[StructDecl],
    stemming: FieldStemming,
    faults: &mut SchemaFaults<'_>,
) -> BTreeMap<Arc<str>, SchemaField> {
    let mut types = types::StructTypes::new(structs, faults.findings);
    let defaults = field::FieldDefaults { stemming, schema: decl };
    let mut fields: BTreeMap<Arc<str>, SchemaField> = BTreeMap::new();
    let written = document_fields
        .iter()
        .map(|field| (field, false))
        .chain(outside_fields.iter().map(|field| (field, true)));
    for (field_decl, synthetic) in written {
        let warnings = &mut faults.findings.warnings;
        let field = field::resolve(field_decl, &mut types, synthetic, &defaults, warnings);
        let Some(field) = faults.ok_or_report(&field_decl.name.value, field) else { continue };
        if let Some(first) = fields.get(&field.name) {
            let reason = format!("field '{}' is declared at {} already", field.name, first.position);
            faults.ok_or_report::<()>(&field.name, invalid(&field_decl.name, reason));
            continue;
        }
        fields.insert(Arc::clone(&field.name), field);
    }
    for (index, _) in &decl.indexes {
        if !fields.contains_key(index.value.as_str()) && !faults.invalid_parts.names.has(&index.value) {
            let hint = did_you_mean(&index.value, fields.keys().map(|name| &**name));
            let warning = format!(
                "{}: no field '{}' for this index{hint}: it has no effect",
                index.position, index.value
            );
            faults.findings.warnings.push(warning);
        }
    }
    fields
}

/// Type of the fields that feeds may set, in the order of declaration.
fn document_type(name: &Name, decls: &[FieldDecl], all: &BTreeMap<Arc<str>, SchemaField>) -> DocumentType {
    let fields = decls
        .iter()
        .filter_map(|decl| all.get(decl.name.value.as_str()))
        .map(|field| DocumentField { name: Arc::clone(&field.name), data_type: field.data_type.clone() })
        .collect();
    let made = all.values().filter(|field| field.synthetic).map(|field| Arc::clone(&field.name));
    DocumentType::new(&name.value, fields).with_made_fields(made)
}

fn resolve_fieldsets(
    decl: &SchemaDecl,
    fields: &BTreeMap<Arc<str>, SchemaField>,
    faults: &mut SchemaFaults<'_>,
) -> BTreeMap<String, Fieldset> {
    let mut fieldsets = BTreeMap::new();
    for fieldset in &decl.fieldsets {
        let name = &fieldset.name;
        if fieldset.fields.iter().any(|field| faults.invalid_parts.names.has(&field.value)) {
            faults.invalid_parts.names.add(&name.value);
            continue;
        }
        let read = resolve_fieldset(fieldset, fields, &mut faults.findings.warnings)
            .and_then(|fieldset| profile::add_once(&mut fieldsets, "fieldset", name, fieldset));
        faults.ok_or_report(&name.value, read);
    }
    fieldsets
}

fn resolve_fieldset(
    decl: &FieldsetDecl,
    fields: &BTreeMap<Arc<str>, SchemaField>,
    warnings: &mut Vec<String>,
) -> Result<Fieldset, Error> {
    let mut members = Vec::new();
    for name in &decl.fields {
        members.push(find_field(name, fields, &format!("fieldset '{}'", decl.name.value))?);
    }
    let Some(first) = members.first() else {
        return invalid(
            &decl.name,
            format!("fieldset '{}' has no fields: add 'fields: a, b'", decl.name.value),
        );
    };
    let own = decl.matching.position.is_some();
    if let Some(other) = members.iter().find(|field| !own && field.matching.mode != first.matching.mode) {
        warnings.push(format!(
            "{}: fieldset '{}' has fields that match in different ways ('{}' and '{}'): query text is processed as for '{}'",
            decl.name.position, decl.name.value, first.name, other.name, first.name
        ));
    }
    let has_mode = decl.matching.mode.is_some();
    let matching = has_mode.then(|| field::override_matching(first.matching.clone(), &decl.matching));
    let fields = decl.fields.iter().map(|name| name.value.clone()).collect();
    Ok(Fieldset { fields, matching, query_commands: decl.query_commands.clone() })
}

/// Constants of a schema by name, with their files read.
fn resolve_constants(
    decl: &SchemaDecl,
    sources: &PackageSources<'_>,
    faults: &mut SchemaFaults<'_>,
) -> BTreeMap<String, SchemaConstant> {
    let mut constants = BTreeMap::new();
    for constant in &decl.constants {
        let name = &constant.name;
        let read = profile::constant(constant, sources)
            .and_then(|constant| profile::add_once(&mut constants, "constant", name, constant));
        faults.ok_or_report(&name.value, read);
    }
    constants
}

/// Models in ONNX format of a schema, by name.
fn resolve_onnx_models(
    decl: &SchemaDecl,
    faults: &mut SchemaFaults<'_>,
) -> BTreeMap<String, OnnxModelConfig> {
    let mut models = BTreeMap::new();
    for (name, model) in &decl.onnx_models {
        let read = profile::add_once(&mut models, "onnx-model", name, model.clone());
        faults.ok_or_report(&name.value, read);
    }
    models
}

/// The field denoted by `name` or its first part.
fn find_field<'f>(
    name: &Name,
    fields: &'f BTreeMap<Arc<str>, SchemaField>,
    user: &str,
) -> Result<&'f SchemaField, Error> {
    let (base, path) =
        name.value.split_once('.').map_or((name.value.as_str(), None), |(base, path)| (base, Some(path)));
    let Some(field) = fields.get(base) else {
        let hint = did_you_mean(base, fields.keys().map(|name| &**name));
        return invalid(name, format!("{user} names '{base}', which is not a field{hint}"));
    };
    if let Some(Err(reason)) = path.map(|path| types::at_path(&field.data_type, path)) {
        return invalid(name, reason);
    }
    Ok(field)
}

/// Checks the fields used in rank profiles. As in Vespa, settings of unknown fields have no effect, but for a
/// warning.
fn check_profiles(decl: &SchemaDecl, schema: &Schema, faults: &mut SchemaFaults<'_>) {
    for profile in &decl.profiles {
        let user = format!("rank-profile '{}'", profile.name.value);
        let named =
            profile.rank.iter().map(|(name, _)| name).chain(profile.rank_types.iter().map(|(name, _)| name));
        let named = named.chain(profile.weights.iter().map(|(name, _)| name));
        for name in named.filter(|name| !faults.invalid_parts.names.has(&name.value)) {
            if let Err(error) = find_field(name, &schema.fields, &user) {
                faults.findings.warnings.push(format!("{error}: the setting has no effect"));
            }
        }
        let diversity = profile.diversity.as_ref().map(|(name, _)| name);
        if let Some(name) = diversity.filter(|name| !faults.invalid_parts.names.has(&name.value)) {
            faults.findings.ok_or_report(check_diversity(name, schema, &user));
        }
    }
}

fn check_diversity(name: &Name, schema: &Schema, user: &str) -> Result<(), Error> {
    let field = find_field(name, &schema.fields, user)?;
    let single =
        !matches!(field.data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..));
    if field.attribute.is_none() || !single {
        return invalid(
            name,
            format!("diversity is by a single-valued attribute; '{}' is not one", name.value),
        );
    }
    Ok(())
}

fn invalid<T>(name: &Name, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { position: name.position.clone(), reason })
}
