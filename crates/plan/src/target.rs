//! Resolution of names in a query to fields.

use std::sync::Arc;

use millrace_document::DataType;
use millrace_query::simple::TermEnd;
use millrace_schema::{FieldMatching, Fieldset, MatchMode, Schema, SchemaField, UriPart, did_you_mean};

use crate::Error;

/// A field, or a part of one, that a predicate can refer to.
pub(crate) struct PredicateTarget<'s> {
    /// Path in the document: `title`, `person.name`.
    pub path: Arc<str>,
    /// Settings of the field.
    pub field: &'s SchemaField,
    /// Settings of the part, if it has its own.
    part: Option<&'s SchemaField>,
    /// Type of a single value: the element of an array or weighted set, the key of a map.
    pub value_type: &'s DataType,
    /// Selected map entries, outermost first.
    pub keys: Vec<MapKey>,
}

/// One entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapKey {
    /// Path of the map, like [`PredicateTarget::path`].
    pub map: Arc<str>,
    pub key: String,
}

impl<'s> PredicateTarget<'s> {
    /// Match settings for query terms.
    pub fn matching(&self) -> &'s FieldMatching {
        &self.part.unwrap_or(self.field).matching
    }

    /// True if query text is split into words.
    pub fn is_text(&self) -> bool {
        match self.part {
            Some(part) => part.is_text(),
            None => self.field.is_text(),
        }
    }

    /// True if case matters in whole values. The field says so; annotations of a term are about its words.
    pub fn is_cased(&self) -> bool {
        let attribute = self.part.unwrap_or(self.field).attribute.as_ref();
        self.matching().cased || attribute.is_some_and(|attribute| attribute.dictionary.cased)
    }

    /// Settings of the order by its values: those of the part, if it is an attribute, else of the field.
    pub fn sorting(&self) -> &'s [(String, String)] {
        let of_part = self.part.and_then(|part| part.attribute.as_ref());
        let attribute = of_part.or(self.field.attribute.as_ref());
        attribute.map(|attribute| attribute.sorting.as_slice()).unwrap_or_default()
    }

    fn is_searchable(&self) -> bool {
        [Some(self.field), self.part]
            .into_iter()
            .flatten()
            .any(|field| field.index.is_some() || field.attribute.is_some())
            || self
                .field
                .struct_fields
                .iter()
                .any(|(_, part)| part.index.is_some() || part.attribute.is_some())
    }
}

/// Fields denoted by `name`: those of a fieldset, or one field (by name, alias, or path). The alias of an
/// index denotes what the index does. A struct or a map denotes all of its searchable members. Of names that
/// differ only in case, the exact one is used, or any if there is no exact one.
pub(crate) fn resolve<'s>(schema: &'s Schema, name: &str) -> Result<Vec<PredicateTarget<'s>>, Error> {
    let name = schema.index_aliases.get(name).map_or(name, String::as_str);
    if let Some(fieldset) = fieldset(schema, name) {
        let (mut targets, mut fault) = (Vec::with_capacity(fieldset.fields.len()), None);
        for field in &fieldset.fields {
            match target(schema, field) {
                Ok(target) => targets.extend(members(target)),
                // A field that is only shown is passed over beside others.
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        return match fault {
            Some(error) if targets.is_empty() => Err(error),
            _ => Ok(targets),
        };
    }
    Ok(members(target(schema, name)?))
}

/// The fieldset with this name, or with this alias of its index.
fn fieldset<'s>(schema: &'s Schema, name: &str) -> Option<&'s Fieldset> {
    let name = schema.index_aliases.get(name).map_or(name, String::as_str);
    let in_any_case = || {
        let is_field = schema.fields.contains_key(name);
        schema.fieldsets.iter().find(|(known, _)| !is_field && known.eq_ignore_ascii_case(name))
    };
    schema.fieldsets.get(name).or_else(|| in_any_case().map(|(_, fieldset)| fieldset))
}

/// Commands of the fieldset with this name, then those of these fields (`query-command`).
fn query_commands<'a>(
    schema: &'a Schema,
    name: &str,
    targets: &'a [PredicateTarget<'_>],
) -> impl Iterator<Item = &'a str> {
    let of_fieldset = fieldset(schema, name).into_iter().flat_map(|fieldset| &fieldset.query_commands);
    let of_fields = targets.iter().flat_map(|target| &target.field.query_commands);
    of_fieldset.chain(of_fields).map(String::as_str)
}

/// True if typed words that punctuation joins are a phrase in these fields (`query-command:
/// phrase-segmenting` of the fieldset or one of its fields).
pub(crate) fn joins_words(schema: &Schema, name: &str, targets: &[PredicateTarget<'_>]) -> bool {
    let setting =
        query_commands(schema, name, targets).find_map(|command| command.strip_prefix("phrase-segmenting"));
    setting.is_some_and(|setting| setting.trim() != "false")
}

/// Rule for the end of a term by the commands of a field or fieldset.
fn commanded_end<'a>(mut commands: impl Iterator<Item = &'a str>) -> Option<TermEnd> {
    commands.find_map(|command| match command {
        "word" => Some(TermEnd::Blank),
        "exact" => Some(TermEnd::Terminator(" ".to_owned())),
        _ => command.strip_prefix("exact ").map(|terminator| TermEnd::Terminator(terminator.to_owned())),
    })
}

/// The target itself, or the members of a struct or map.
fn members(target: PredicateTarget<'_>) -> Vec<PredicateTarget<'_>> {
    let inside = target.path.split_once('.').map_or("", |(_, path)| path);
    let part_of = |path: &str| match inside {
        "" => true,
        _ => path.strip_prefix(inside).is_some_and(|rest| rest.starts_with('.')),
    };
    let field = target.field;
    if field.is_text() {
        return vec![target];
    }
    let parts = field
        .struct_fields
        .iter()
        .filter(|(path, part)| part_of(path) && (part.index.is_some() || part.attribute.is_some()));
    let found: Vec<PredicateTarget<'_>> = parts
        .filter_map(|(path, part)| {
            Some(PredicateTarget {
                path: Arc::clone(&part.name),
                field,
                part: Some(part),
                value_type: value_type(&field.data_type, path)?,
                keys: target.keys.clone(),
            })
        })
        .collect();
    if found.is_empty() { vec![target] } else { found }
}

/// True if `name` denotes a field.
pub(crate) fn exists(schema: &Schema, name: &str) -> bool {
    name == "sddocname" || resolve(schema, name).is_ok()
}

/// Rule for the end of a term in typed text for `name`; `None` if it denotes nothing. The `match` of a
/// fieldset decides, or its fields, which must agree. What then ends with a word can have a `query-command`.
pub(crate) fn term_end(schema: &Schema, name: &str) -> Option<TermEnd> {
    if name == "sddocname" {
        return Some(TermEnd::Word);
    }
    let targets = resolve(schema, name).ok()?;
    let of_value = |matching: &FieldMatching| match matching.mode {
        MatchMode::Exact => TermEnd::Terminator(matching.terminator().to_owned()),
        _ => TermEnd::Blank,
    };
    let end = match fieldset(schema, name).and_then(|fieldset| fieldset.matching.as_ref()) {
        Some(matching) if matches!(matching.mode, MatchMode::Text | MatchMode::Gram { .. }) => TermEnd::Word,
        Some(matching) => of_value(matching),
        None => {
            let mut ends = targets.iter().map(|target| {
                let matching = target.matching();
                match matching.mode {
                    MatchMode::Uri(UriPart::Hostname) => TermEnd::Hostname,
                    MatchMode::Uri(_) => TermEnd::Blank,
                    _ if !holds_text(target.value_type) || target.is_text() => TermEnd::Word,
                    _ => of_value(matching),
                }
            });
            let first = ends.next()?;
            if ends.all(|end| end == first) { first } else { TermEnd::Word }
        }
    };
    Some(match end {
        TermEnd::Word => commanded_end(query_commands(schema, name, &targets)).unwrap_or_default(),
        end => end,
    })
}

fn target<'s>(schema: &'s Schema, name: &str) -> Result<PredicateTarget<'s>, Error> {
    let (plain, keys) = without_keys(name);
    let (first, rest) = plain.split_once('.').unwrap_or((plain.as_str(), ""));
    let field = find(schema, first).or_else(|| find(schema, &plain).filter(|_| rest.is_empty()));
    let Some(field) = field else { return Err(unknown(schema, name)) };
    // The parts of an address are no members of a struct, but have settings.
    let of_part = || value_type(&field.part(rest)?.data_type, "");
    let Some(value_type) = value_type(&field.data_type, rest).or_else(of_part) else {
        return Err(Error::Field {
            field: name.to_owned(),
            reason: format!("'{first}' is of type {}, which has no part '{rest}'", field.data_type),
        });
    };
    let path =
        if rest.is_empty() { Arc::clone(&field.name) } else { format!("{}.{rest}", field.name).into() };
    let part = field.part(rest);
    // The field may be given by an alias.
    let map = |path: String| match path.split_once('.') {
        Some((_, rest)) => format!("{}.{rest}", field.name).into(),
        None => Arc::clone(&field.name),
    };
    let keys = keys.into_iter().map(|(path, key)| MapKey { map: map(path), key }).collect();
    let target = PredicateTarget { path, field, part, value_type, keys };
    if target.is_searchable() {
        return Ok(target);
    }
    let (setting, example) = match holds_text(value_type) {
        true => ("index or attribute", "summary | index"),
        false => ("attribute", "summary | attribute"),
    };
    Err(Error::Field {
        field: name.to_owned(),
        reason: format!(
            "it cannot be searched, since it is neither index nor attribute; add {setting} to it, as in: indexing: {example}"
        ),
    })
}

/// A path without its `{key}` parts, and the keys with the paths of their maps.
fn without_keys(name: &str) -> (String, Vec<(String, String)>) {
    let (mut path, mut keys, mut rest) = (String::new(), Vec::new(), name);
    while let Some((before, after)) = rest.split_once('{')
        && let Some((key, after)) = after.split_once('}')
    {
        path.push_str(before);
        keys.push((path.clone(), key.trim_matches('"').to_owned()));
        // The path after the key is part of the map's value.
        path.push_str(".value");
        rest = after;
    }
    path.push_str(rest);
    (path, keys)
}

fn find<'s>(schema: &'s Schema, name: &str) -> Option<&'s SchemaField> {
    let by_alias = || schema.fields.values().find(|field| field.aliases.iter().any(|alias| alias == name));
    let in_any_case = || schema.fields.values().find(|field| field.name.eq_ignore_ascii_case(name));
    schema.fields.get(name).or_else(by_alias).or_else(in_any_case)
}

/// Type of a single value at `path` (`name`, `value.name`) inside a type: the element of an array or weighted
/// set, the key of a map.
pub fn value_type<'t>(data_type: &'t DataType, path: &str) -> Option<&'t DataType> {
    match data_type {
        DataType::Array(element) => value_type(element, path),
        DataType::WeightedSet { element, .. } if path.is_empty() => Some(element),
        DataType::Map(key, _) if path.is_empty() => Some(key),
        DataType::Map(key, value) => match path.split_once('.').unwrap_or((path, "")) {
            ("key", rest) => value_type(key, rest),
            ("value", rest) => value_type(value, rest),
            _ => None,
        },
        _ if path.is_empty() => Some(data_type),
        DataType::Struct(fields) => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            value_type(&fields.field(first)?.data_type, rest)
        }
        _ => None,
    }
}

/// True if single values are strings.
pub(crate) fn holds_text(value_type: &DataType) -> bool {
    matches!(value_type, DataType::String | DataType::Uri | DataType::Reference(_))
}

fn unknown(schema: &Schema, name: &str) -> Error {
    let known = schema.fields.keys().map(|name| &**name).chain(schema.fieldsets.keys().map(String::as_str));
    let mut hint = did_you_mean(name, known);
    if name == "default" && hint.is_empty() {
        hint = "; name a field, or declare: fieldset default { fields: … }".to_owned();
    }
    Error::UnknownField { field: name.to_owned(), schema: schema.name.to_string(), hint }
}
