//! Language of each field's texts, as set by `set_language` before their statements.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_document::{Document, Value};
use millrace_linguistics::Language;
use millrace_schema::{Schema, SchemaField};

use crate::parser;
use crate::script::Expression;
use crate::scripts::in_order;

/// Language of a field's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// The same in all documents; unknown if no statement sets it.
    Always(Language),
    /// Set by another field of the document.
    AsSaidBy(String),
}

impl Spoken {
    /// Language in a document.
    pub fn of(&self, document: &Document) -> Language {
        match self {
            Spoken::Always(language) => *language,
            Spoken::AsSaidBy(field) => match document.get(field) {
                Some(Value::String(tag)) => Language::from_tag(tag),
                _ => Language::Unknown,
            },
        }
    }
}

/// Languages of the fields that have one.
///
/// `set_language` applies to all later statements: those of its own field, and those of fields that are
/// declared later. Its input is a constant or a field; a language computed in another way is unknown.
pub(crate) fn languages(schema: &Schema) -> HashMap<Arc<str>, Spoken> {
    let mut languages = HashMap::new();
    if !schema.sets_languages() {
        return languages;
    }
    let unknown = Spoken::Always(Language::Unknown);
    let mut current = unknown.clone();
    for field in as_declared(schema) {
        // Invalid statements were rejected when the application was deployed.
        let Some(script) = field.indexing.as_ref().and_then(|source| parser::parse(source, &field.name).ok())
        else {
            continue;
        };
        for statement in &script.statements {
            let mut value = Some(Spoken::AsSaidBy(field.name.to_string()));
            for step in &statement.steps {
                match &step.expression {
                    Expression::Constant(Value::String(tag)) => {
                        value = Some(Spoken::Always(Language::from_tag(tag)));
                    }
                    Expression::Input(path) => {
                        value = path.first().filter(|_| path.len() == 1).cloned().map(Spoken::AsSaidBy);
                    }
                    Expression::SetLanguage => current = value.clone().unwrap_or_else(|| unknown.clone()),
                    Expression::Output(name) if current != unknown => {
                        if let Some((name, _)) = schema.fields.get_key_value(name.as_str()) {
                            languages.insert(Arc::clone(name), current.clone());
                        }
                    }
                    Expression::Output(_) => {}
                    _ => value = None,
                }
            }
        }
    }
    languages
}

/// Fields in the order of the schema file: those outside the document may precede it.
fn as_declared(schema: &Schema) -> Vec<&SchemaField> {
    let mut fields = in_order(schema);
    let first = fields.iter().find(|field| !field.synthetic).map(|field| field.place.clone());
    let stands_before = |field: &SchemaField| {
        first.as_ref().is_some_and(|first| {
            field.synthetic
                && field.place.file == first.file
                && (field.place.line, field.place.column) < (first.line, first.column)
        })
    };
    fields.sort_by_key(|field| !stands_before(field));
    fields
}
