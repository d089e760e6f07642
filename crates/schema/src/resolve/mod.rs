//! Declarations to schemas: what is inherited is put in, defaults are filled in, names are looked up.
//!
//! A schema is resolved after the schema and the documents that it inherits.

mod field;
mod profile;
mod summary;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_document::{DataType, DocumentType, Field};

use crate::parse::Name;
use crate::parse::syntax::{FieldDecl, SchemaDecl, StructDecl, TextOrFile};
use crate::suggest::did_you_mean;
use crate::{Error, Fieldset, ModelFile, Place, Schema, SchemaField, Sourced, Stemming};

/// How deep schemas, documents, structs and profiles inherit before a package is refused.
const INHERITANCE_MAX: usize = 32;

/// Resolves all schemas of a package.
pub(crate) fn schemas(
    decls: &[SchemaDecl],
    files: &BTreeMap<String, Vec<u8>>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<Arc<str>, Arc<Schema>>, Error> {
    let mut by_name: BTreeMap<&str, &SchemaDecl> = BTreeMap::new();
    for decl in decls {
        if let Some(first) = by_name.insert(&decl.name.value, decl) {
            return invalid(
                &decl.name,
                format!("schema '{}' is declared at {} already", decl.name.value, first.name.place),
            );
        }
    }
    let mut resolver =
        Resolver { decls: by_name, done: BTreeMap::new(), sources: Sources::new(files), warnings };
    for decl in decls {
        resolver.visit(&decl.name, &mut Vec::new())?;
    }
    Ok(resolver.done.into_iter().map(|(name, resolved)| (Arc::from(name), resolved.schema)).collect())
}

/// A resolved schema, and the declarations that its heirs need.
struct Resolved {
    schema: Arc<Schema>,
    document_fields: Vec<FieldDecl>,
    structs: Vec<StructDecl>,
    outside_fields: Vec<FieldDecl>,
}

struct Resolver<'a> {
    decls: BTreeMap<&'a str, &'a SchemaDecl>,
    done: BTreeMap<String, Resolved>,
    sources: Sources<'a>,
    warnings: &'a mut Vec<String>,
}

impl<'a> Resolver<'a> {
    /// Resolves the schema of this name after those it inherits; `within` are those that wait for it.
    fn visit(&mut self, name: &Name, within: &mut Vec<&'a str>) -> Result<(), Error> {
        if self.done.contains_key(&name.value) {
            return Ok(());
        }
        let Some((&key, &decl)) = self.decls.get_key_value(name.value.as_str()) else {
            let hint = did_you_mean(&name.value, self.decls.keys().copied());
            return invalid(
                name,
                format!("there is no schema '{0}' to inherit{hint}: add schemas/{0}.sd", name.value),
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
        within.push(key);
        for parent in parents(decl) {
            self.visit(parent, within)?;
        }
        within.pop();
        let resolved = self.resolve(decl)?;
        self.done.insert(key.to_owned(), resolved);
        Ok(())
    }

    fn resolve(&mut self, decl: &SchemaDecl) -> Result<Resolved, Error> {
        let Some(document) = &decl.document else {
            return invalid(
                &decl.name,
                format!("schema '{0}' has no document: add 'document {0} {{ … }}'", decl.name.value),
            );
        };
        let mut ancestors: Vec<Arc<str>> = Vec::new();
        let (mut document_fields, mut structs) = (Vec::new(), Vec::new());
        for parent in document.inherits.iter().filter_map(|parent| self.done.get(&parent.value)) {
            let names = std::iter::once(&parent.schema.name).chain(&parent.schema.ancestors);
            for name in names {
                if !ancestors.contains(name) {
                    ancestors.push(Arc::clone(name));
                }
            }
            add_inherited(&mut document_fields, &parent.document_fields, |field| &field.name);
            add_inherited(&mut structs, &parent.structs, |decl| &decl.name);
        }
        let base = match &decl.inherits {
            None => None,
            Some(parent) if ancestors.iter().any(|name| **name == *parent.value) => {
                self.done.get(&parent.value)
            }
            Some(parent) => {
                let reason = format!(
                    "schema '{}' inherits '{2}', so its document does too: document {1} inherits {2} {{",
                    decl.name.value, document.name.value, parent.value
                );
                return invalid(parent, reason);
            }
        };
        add_own(&mut document_fields, &document.fields, "field", |field| &field.name)?;
        let own_structs: Vec<StructDecl> = document.structs.iter().chain(&decl.structs).cloned().collect();
        add_own(&mut structs, &own_structs, "struct", |decl| &decl.name)?;
        let mut outside_fields = base.map(|base| base.outside_fields.clone()).unwrap_or_default();
        add_own(&mut outside_fields, &decl.fields, "field", |field| &field.name)?;

        let stemming = decl.stemming.or(base.map(|base| base.schema.stemming)).unwrap_or(Stemming::Best);
        let fields =
            resolve_fields(decl, &document_fields, &outside_fields, &structs, stemming, self.warnings)?;
        let shown: Vec<&FieldDecl> = document_fields.iter().chain(&outside_fields).collect();
        let inherited_summaries = base.map(|base| base.schema.summaries.clone()).unwrap_or_default();
        let no_profiles = BTreeMap::new();
        let inherited_profiles = base.map_or(&no_profiles, |base| &base.schema.rank_profiles);
        let place = &decl.name.place;

        let mut fieldsets = base.map(|base| base.schema.fieldsets.clone()).unwrap_or_default();
        fieldsets.extend(resolve_fieldsets(decl, &fields, self.warnings)?);
        let mut constants = base.map(|base| base.schema.constants.clone()).unwrap_or_default();
        constants.extend(profile::constants(&decl.constants, &self.sources)?);
        let mut onnx_models = base.map(|base| base.schema.onnx_models.clone()).unwrap_or_default();
        onnx_models.extend(profile::unique(
            "onnx-model",
            decl.onnx_models.iter().map(|(name, model)| (name, model.clone())),
        )?);

        let schema = Schema {
            name: decl.name.value.as_str().into(),
            document_type: Arc::new(document_type(&document.name, &document_fields, &fields)),
            summaries: summary::resolve(&decl.summaries, &shown, &fields, inherited_summaries)?,
            rank_profiles: profile::resolve(&decl.profiles, inherited_profiles, place, &self.sources)?,
            fields,
            fieldsets,
            constants,
            onnx_models,
            models: Arc::clone(&self.sources.models),
            ancestors,
            raw_as_base64: decl.raw_as_base64.or(base.map(|base| base.schema.raw_as_base64)).unwrap_or(true),
            stemming,
            place: place.clone(),
        };
        check_profiles(decl, &schema)?;
        self.sources.check_models(&schema)?;
        Ok(Resolved { schema: Arc::new(schema), document_fields, structs, outside_fields })
    }
}

/// The schemas and documents that a schema inherits.
fn parents(decl: &SchemaDecl) -> impl Iterator<Item = &Name> {
    decl.inherits.iter().chain(decl.document.iter().flat_map(|document| &document.inherits))
}

/// Adds what a parent has; of two parents with one name the first holds.
fn add_inherited<T: Clone>(all: &mut Vec<T>, inherited: &[T], name: fn(&T) -> &Name) {
    let known: BTreeSet<String> = all.iter().map(|item| name(item).value.clone()).collect();
    all.extend(inherited.iter().filter(|item| !known.contains(&name(item).value)).cloned());
}

/// Adds what is declared, in place of what is inherited; twice in one schema is an error.
fn add_own<T: Clone>(all: &mut Vec<T>, own: &[T], what: &str, name: fn(&T) -> &Name) -> Result<(), Error> {
    let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
    for item in own {
        let Name { value, place } = name(item);
        if let Some(first) = seen.insert(value, place) {
            return invalid(name(item), format!("{what} '{value}' is declared at {first} already"));
        }
    }
    all.retain(|item| !seen.contains_key(name(item).value.as_str()));
    all.extend(own.iter().cloned());
    Ok(())
}

fn resolve_fields(
    decl: &SchemaDecl,
    document_fields: &[FieldDecl],
    outside_fields: &[FieldDecl],
    structs: &[StructDecl],
    stemming: Stemming,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<Arc<str>, SchemaField>, Error> {
    let mut types = types::Types::new(structs)?;
    let defaults = field::Defaults { stemming, schema: decl };
    let mut fields: BTreeMap<Arc<str>, SchemaField> = BTreeMap::new();
    let written = document_fields
        .iter()
        .map(|field| (field, false))
        .chain(outside_fields.iter().map(|field| (field, true)));
    for (field_decl, synthetic) in written {
        let field = field::resolve(field_decl, &mut types, synthetic, &defaults, warnings)?;
        if let Some(first) = fields.get(&field.name) {
            return invalid(
                &field_decl.name,
                format!("field '{}' is declared at {} already", field.name, first.place),
            );
        }
        fields.insert(Arc::clone(&field.name), field);
    }
    for field in fields.values() {
        if let Some(alias) = field.aliases.iter().find(|alias| fields.contains_key(alias.as_str())) {
            let reason =
                format!("'{alias}' is a field already, so it cannot be an alias of '{}'", field.name);
            return Err(Error::Invalid { place: field.place.clone(), reason });
        }
    }
    for (index, _) in &decl.indexes {
        if !fields.contains_key(index.value.as_str()) {
            let hint = did_you_mean(&index.value, fields.keys().map(|name| &**name));
            return invalid(index, format!("there is no field '{}' for this index{hint}", index.value));
        }
    }
    Ok(fields)
}

/// What feeds may set, in the order of declaration.
fn document_type(name: &Name, decls: &[FieldDecl], fields: &BTreeMap<Arc<str>, SchemaField>) -> DocumentType {
    let fields = decls
        .iter()
        .filter_map(|decl| fields.get(decl.name.value.as_str()))
        .map(|field| Field { name: Arc::clone(&field.name), data_type: field.data_type.clone() })
        .collect();
    DocumentType::new(&name.value, fields)
}

fn resolve_fieldsets(
    decl: &SchemaDecl,
    fields: &BTreeMap<Arc<str>, SchemaField>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, Fieldset>, Error> {
    let mut fieldsets = Vec::new();
    for fieldset in &decl.fieldsets {
        let mut members = Vec::new();
        for name in &fieldset.fields {
            members.push(find_field(name, fields, &format!("fieldset '{}'", fieldset.name.value))?);
        }
        let Some(first) = members.first() else {
            return invalid(
                &fieldset.name,
                format!("fieldset '{}' has no fields: add 'fields: a, b'", fieldset.name.value),
            );
        };
        let own = fieldset.matching.place.is_some();
        if let Some(other) = members.iter().find(|field| !own && field.matching.mode != first.matching.mode) {
            warnings.push(format!(
                "{}: fieldset '{}' has fields that match in different ways ('{}' and '{}'): query text is processed as for '{}'",
                fieldset.name.place, fieldset.name.value, first.name, other.name, first.name
            ));
        }
        let matching = own.then(|| field::override_matching(first.matching.clone(), &fieldset.matching));
        let fields = fieldset.fields.iter().map(|name| name.value.clone()).collect();
        fieldsets.push((&fieldset.name, Fieldset { fields, matching }));
    }
    profile::unique("fieldset", fieldsets.into_iter())
}

/// The field that `name` (or its first part) names.
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

/// The fields that rank profiles name.
fn check_profiles(decl: &SchemaDecl, schema: &Schema) -> Result<(), Error> {
    for profile in &decl.profiles {
        let user = format!("rank-profile '{}'", profile.name.value);
        let named =
            profile.rank.iter().map(|(name, _)| name).chain(profile.rank_types.iter().map(|(name, _)| name));
        for name in named.chain(profile.weights.iter().map(|(name, _)| name)) {
            find_field(name, &schema.fields, &user)?;
        }
        if let Some((name, _)) = &profile.diversity {
            let field = find_field(name, &schema.fields, &user)?;
            let single = !matches!(
                field.data_type,
                DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..)
            );
            if field.attribute.is_none() || !single {
                return invalid(
                    name,
                    format!("diversity is by a single-valued attribute; '{}' is not one", name.value),
                );
            }
        }
    }
    Ok(())
}

/// Text that schemas keep in files of the package.
struct Sources<'a> {
    files: &'a BTreeMap<String, Vec<u8>>,
    models: Arc<BTreeMap<String, String>>,
}

impl<'a> Sources<'a> {
    fn new(files: &'a BTreeMap<String, Vec<u8>>) -> Self {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let models = files
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix("models/")?.to_owned(), text(bytes)?)));
        Sources { models: Arc::new(models.collect()), files }
    }

    /// An expression, read from `name.expression` beside the schema where it says `file:`.
    fn expression(&self, text: &TextOrFile) -> Result<Sourced<String>, Error> {
        let file = match text {
            TextOrFile::Text(text) => return Ok(text.clone()),
            TextOrFile::File(file) => file,
        };
        if file.value.contains('/') {
            return invalid(
                file,
                "the path of an expression has no directories: put the file beside the schema".to_owned(),
            );
        }
        let name = file.value.strip_suffix(".expression").unwrap_or(&file.value);
        let own_directory = file.place.file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let candidates = [own_directory, "schemas", "searchdefinitions"]
            .map(|directory| format!("{directory}/{name}.expression"));
        for path in &candidates {
            if let Some(bytes) = self.files.get(path) {
                return Ok(Sourced {
                    value: self.text(file, path, bytes)?.trim().to_owned(),
                    place: start_of(path),
                });
            }
        }
        invalid(file, format!("there is no file {} in the package", candidates[0]))
    }

    /// The text of a constant: a literal, or the JSON of its file.
    fn constant(&self, text: &TextOrFile) -> Result<Sourced<String>, Error> {
        let file = match text {
            TextOrFile::Text(text) => return Ok(text.clone()),
            TextOrFile::File(file) => file,
        };
        if file.value.ends_with(".lz4") {
            return invalid(
                file,
                "compressed constants are not read: put the .json file into the package".to_owned(),
            );
        }
        match self.files.get(&file.value) {
            Some(bytes) => Ok(Sourced {
                value: self.text(file, &file.value, bytes)?.to_owned(),
                place: start_of(&file.value),
            }),
            None => {
                let hint = did_you_mean(&file.value, self.files.keys().map(String::as_str));
                invalid(
                    file,
                    format!(
                        "there is no file {} in the package{hint}: the path is from the package's root",
                        file.value
                    ),
                )
            }
        }
    }

    /// Whether the files of ONNX models are there.
    fn check_models(&self, schema: &Schema) -> Result<(), Error> {
        let of_profiles = schema.rank_profiles.values().flat_map(|profile| profile.onnx_models.values());
        for model in schema.onnx_models.values().chain(of_profiles) {
            let Sourced { value: ModelFile::Path(path), place } = &model.file else { continue };
            if !self.files.contains_key(path) {
                let hint = did_you_mean(path, self.files.keys().map(String::as_str));
                let reason = format!(
                    "there is no file {path} in the package{hint}: the path is from the package's root"
                );
                return Err(Error::Invalid { place: place.clone(), reason });
            }
        }
        Ok(())
    }

    fn text<'b>(&self, user: &Name, path: &str, bytes: &'b [u8]) -> Result<&'b str, Error> {
        std::str::from_utf8(bytes).or_else(|_| invalid(user, format!("{path} is not UTF-8 text")))
    }
}

/// The first place of a file.
fn start_of(path: &str) -> Place {
    Place { file: path.to_owned(), line: 1, column: 1 }
}

fn invalid<T>(name: &Name, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { place: name.place.clone(), reason })
}
