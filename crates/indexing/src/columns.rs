use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::{BytesBuilder, Column, ColumnKey, Form, TokensBuilder, ValueBuilder, value};
use millrace_document::{DataType, Document, Value};
use millrace_linguistics::{Analyzer, Language};
use millrace_schema::{Application, Matching, Schema, SchemaField};
use millrace_store::Layout;

use crate::languages::{Spoken, languages};

/// Which columns documents of each type have, and how they are built: what a store needs to know of an application. The default
/// is that of no application: no type is known.
#[derive(Default)]
pub struct Columns {
    types: HashMap<Arc<str>, TypeColumns>,
}

struct TypeColumns {
    keys: Vec<ColumnKey>,
    fields: HashMap<Arc<str>, FieldColumns>,
}

struct FieldColumns {
    data_type: DataType,
    matching: Matching,
    spoken: Spoken,
}

impl Columns {
    /// The columns of an application's document types.
    pub fn new(application: &Application) -> Self {
        let types = application
            .schemas
            .values()
            .map(|schema| (Arc::clone(&schema.name), TypeColumns::new(schema)))
            .collect();
        Columns { types }
    }

    fn field(&self, document_type: &str, field: &str) -> Option<&FieldColumns> {
        self.types.get(document_type)?.fields.get(field)
    }
}

impl TypeColumns {
    fn new(schema: &Schema) -> Self {
        let mut keys = schema.columns();
        keys.sort_unstable();
        keys.dedup();
        let mut languages = languages(schema);
        let field = |(name, field): (&Arc<str>, &SchemaField)| {
            let spoken = languages.remove(name).unwrap_or(Spoken::Always(Language::Unknown));
            let (data_type, matching) = (field.data_type.clone(), field.matching.clone());
            (Arc::clone(name), FieldColumns { data_type, matching, spoken })
        };
        TypeColumns { keys, fields: schema.fields.iter().map(field).collect() }
    }
}

impl Layout for Columns {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        self.types.get(document_type).map(|of| of.keys.clone())
    }

    fn build(&self, document_type: &str, key: &ColumnKey, documents: &[&Document]) -> Column {
        let field = self.field(document_type, &key.field);
        match (key.form, field) {
            (Form::Value, Some(field)) => {
                let mut builder = ValueBuilder::new(&field.data_type);
                documents.iter().for_each(|document| builder.push(document.get(&key.field)));
                builder.finish()
            }
            (Form::Tokens, Some(field)) => {
                let mut builder = TokensBuilder::new();
                let mut analyzer = field.analyzer(Language::Unknown);
                let mut of = Language::Unknown;
                for document in documents {
                    let language = field.spoken.of(document);
                    if language != of {
                        (analyzer, of) = (field.analyzer(language), language);
                    }
                    add_document(&analyzer, document.get(&key.field), &mut builder);
                }
                Column::Tokens(builder.finish())
            }
            (Form::Id, _) => {
                let mut builder = BytesBuilder::new();
                documents.iter().for_each(|document| builder.push(Some(document.id.as_str().as_bytes())));
                Column::Bytes(builder.finish())
            }
            // Of a field that the type lacks no document has a value. The columns of no field are the store's own.
            (Form::Value | Form::Tokens, None) | (Form::Timestamp | Form::Removed | Form::Rest, _) => {
                let mut builder = BytesBuilder::new();
                documents.iter().for_each(|_| builder.push(None));
                Column::Bytes(builder.finish())
            }
        }
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, values: &Column) -> Option<Column> {
        let field = self.field(document_type, &key.field)?;
        if key.form != Form::Tokens {
            return None;
        }
        // What another field says of the language is not known here: words are stemmed by their scripts then.
        let analyzer = field.analyzer(match &field.spoken {
            Spoken::Always(language) => *language,
            Spoken::AsSaidBy(_) => Language::Unknown,
        });
        let mut builder = TokensBuilder::new();
        for index in 0..values.len() {
            add_document(&analyzer, value(values, &field.data_type, index).as_ref(), &mut builder);
        }
        Some(Column::Tokens(builder.finish()))
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        self.field(document_type, field).map(|field| field.data_type.clone())
    }
}

impl FieldColumns {
    fn analyzer(&self, language: Language) -> Analyzer {
        Analyzer::new(&self.matching, language)
    }
}

/// Adds the words of one document's value; the elements of collections are separated.
fn add_document(analyzer: &Analyzer, value: Option<&Value>, builder: &mut TokensBuilder) {
    let mut first = true;
    if let Some(value) = value {
        add_value(analyzer, value, builder, &mut first);
    }
    builder.end_document();
}

fn add_value(analyzer: &Analyzer, value: &Value, builder: &mut TokensBuilder, first: &mut bool) {
    match value {
        Value::String(text) => {
            if !std::mem::take(first) {
                builder.boundary();
            }
            analyzer.tokens(text, |token| {
                builder.stemmed(token.written.as_bytes(), token.text.as_bytes());
            });
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| add_value(analyzer, element, builder, first));
        }
        Value::WeightedSet(elements) => {
            elements.iter().for_each(|(element, _)| add_value(analyzer, element, builder, first));
        }
        _ => {}
    }
}
