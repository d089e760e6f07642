use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::{BytesBuilder, Column, ColumnKey, Form, TokensBuilder, ValueBuilder, value};
use millrace_document::{DataType, Document, Value};
use millrace_linguistics::{Analyzer, Language};
use millrace_schema::{Application, Schema, SchemaField};
use millrace_store::Layout;

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
    analyzer: Analyzer,
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
        let field = |(name, field): (&Arc<str>, &SchemaField)| {
            let analyzer = Analyzer::new(&field.matching, Language::Unknown);
            (Arc::clone(name), FieldColumns { data_type: field.data_type.clone(), analyzer })
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
                documents.iter().for_each(|document| {
                    field.add_document(document.get(&key.field), &mut builder);
                });
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
        let mut builder = TokensBuilder::new();
        for index in 0..values.len() {
            field.add_document(value(values, &field.data_type, index).as_ref(), &mut builder);
        }
        Some(Column::Tokens(builder.finish()))
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        self.field(document_type, field).map(|field| field.data_type.clone())
    }
}

impl FieldColumns {
    /// Adds the words of one document's value; the elements of collections are separated.
    fn add_document(&self, value: Option<&Value>, builder: &mut TokensBuilder) {
        let mut first = true;
        if let Some(value) = value {
            self.add_value(value, builder, &mut first);
        }
        builder.end_document();
    }

    fn add_value(&self, value: &Value, builder: &mut TokensBuilder, first: &mut bool) {
        match value {
            Value::String(text) => {
                if !std::mem::take(first) {
                    builder.boundary();
                }
                self.analyzer.tokens(text, |token| builder.word(token.text.as_bytes()));
            }
            Value::Array(elements) => {
                elements.iter().for_each(|element| self.add_value(element, builder, first));
            }
            Value::WeightedSet(elements) => {
                elements.iter().for_each(|(element, _)| self.add_value(element, builder, first));
            }
            _ => {}
        }
    }
}
