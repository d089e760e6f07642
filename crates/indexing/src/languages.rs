//! Language of each field's texts, as set by `set_language` before their statements.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_document::{DocumentValue, EncodedDocument, ValueRef};
use millrace_linguistics::TextLanguage;
use millrace_schema::{Schema, SchemaField};

use crate::parser;
use crate::script::IndexingExpression;
use crate::scripts::in_order;

/// Language of a field's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldLanguage {
    /// The same in all documents; unknown if no statement sets it.
    Always(TextLanguage),
    /// Set by another field of the document.
    SetByField(String),
}

impl FieldLanguage {
    /// Language in a document.
    ///
    /// # Errors
    /// The value of the field that sets it cannot be read.
    pub fn in_document(
        &self,
        document: &EncodedDocument<'_>,
    ) -> Result<TextLanguage, millrace_document::Error> {
        Ok(match self {
            FieldLanguage::Always(language) => *language,
            FieldLanguage::SetByField(field) => match document.get(field).map(ValueRef::parse).transpose()? {
                Some(ValueRef::String(tag)) => TextLanguage::from_tag(tag),
                _ => TextLanguage::Unknown,
            },
        })
    }
}

/// Languages of the fields that have one.
///
/// `set_language` applies to all later statements: those of its own field, and those of fields that are
/// declared later. Its input is a constant or a field; a language computed in another way is unknown.
pub(crate) fn languages(schema: &Schema) -> HashMap<Arc<str>, FieldLanguage> {
    let mut languages = HashMap::new();
    if !schema.sets_languages() {
        return languages;
    }
    let unknown = FieldLanguage::Always(TextLanguage::Unknown);
    let mut current = unknown.clone();
    for field in as_declared(schema) {
        // Invalid statements were rejected when the application was deployed.
        let Some(script) = field.indexing.as_ref().and_then(|source| parser::parse(source, &field.name).ok())
        else {
            continue;
        };
        for statement in &script.statements {
            let mut value = Some(FieldLanguage::SetByField(field.name.to_string()));
            for step in &statement.steps {
                match &step.expression {
                    IndexingExpression::Constant(DocumentValue::String(tag)) => {
                        value = Some(FieldLanguage::Always(TextLanguage::from_tag(tag)));
                    }
                    IndexingExpression::Input(path) => {
                        value =
                            path.first().filter(|_| path.len() == 1).cloned().map(FieldLanguage::SetByField);
                    }
                    IndexingExpression::SetLanguage => {
                        current = value.clone().unwrap_or_else(|| unknown.clone())
                    }
                    IndexingExpression::Output(name) if current != unknown => {
                        if let Some((name, _)) = schema.fields.get_key_value(name.as_str()) {
                            languages.insert(Arc::clone(name), current.clone());
                        }
                    }
                    IndexingExpression::Output(_) => {}
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
    let first = fields.iter().find(|field| !field.synthetic).map(|field| field.position.clone());
    let stands_before = |field: &SchemaField| {
        first.as_ref().is_some_and(|first| {
            field.synthetic
                && field.position.file == first.file
                && (field.position.line, field.position.column) < (first.line, first.column)
        })
    };
    fields.sort_by_key(|field| !stands_before(field));
    fields
}
