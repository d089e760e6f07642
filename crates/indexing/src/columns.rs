use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::{
    BytesBuilder, Column, ColumnForm, ColumnKey, Compression, StoreLayout, TokensBuilder, ValueBuilder, value,
};
use millrace_document::{DataType, DocumentValue, EncodedDocument, ValueRef, wire};
use millrace_env::pace;
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_schema::{Application, FieldMatching, MatchMode, Schema, SchemaField};

use crate::languages::{FieldLanguage, languages};

/// Columns of each document type, and their construction: the information about an application that a store
/// needs. The default is that of no application, without document types.
#[derive(Default)]
pub struct DocumentColumns {
    types: HashMap<Arc<str>, TypeColumns>,
}

struct TypeColumns {
    keys: Vec<ColumnKey>,
    fields: HashMap<Arc<str>, FieldColumns>,
}

struct FieldColumns {
    data_type: DataType,
    matching: FieldMatching,
    language: FieldLanguage,
    compression: Compression,
}

impl DocumentColumns {
    /// Columns of an application's document types.
    pub fn new(application: &Application) -> Self {
        let types = application
            .schemas
            .values()
            .map(|schema| (Arc::clone(&schema.name), TypeColumns::new(schema)))
            .collect();
        DocumentColumns { types }
    }

    /// A field by name, or a part of one by path.
    fn field(&self, document_type: &str, path: &str) -> Option<&FieldColumns> {
        self.types.get(document_type)?.fields.get(path)
    }
}

impl TypeColumns {
    fn new(schema: &Schema) -> Self {
        let mut keys = schema.columns();
        keys.sort_unstable();
        keys.dedup();
        let mut languages = languages(schema);
        let of_field = |(name, field): (&Arc<str>, &SchemaField)| {
            let language = languages.remove(name).unwrap_or(FieldLanguage::Always(TextLanguage::Unknown));
            let compression = value_compression(field);
            let columns = |part: &SchemaField| {
                let (data_type, matching) = (part.data_type.clone(), part.matching.clone());
                let language = language.clone();
                (Arc::clone(&part.name), FieldColumns { data_type, matching, language, compression })
            };
            field.with_parts().map(columns).collect::<Vec<_>>()
        };
        TypeColumns { keys, fields: schema.fields.iter().flat_map(of_field).collect() }
    }
}

impl StoreLayout for DocumentColumns {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        self.types.get(document_type).map(|of| of.keys.clone())
    }

    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let field = self.field(document_type, &key.field);
        Ok(match (key.form, field) {
            (ColumnForm::Value, Some(field)) => {
                let (mut builder, mut near) = (ValueBuilder::new(&field.data_type), 0);
                for document in documents {
                    pace::short_step();
                    builder.push_encoded(document.get_near(&key.field, &mut near))?;
                }
                builder.finish()
            }
            (ColumnForm::Tokens, Some(field)) => {
                let mut builder = TokensBuilder::new();
                let mut analyzer = field.analyzer(TextLanguage::Unknown);
                let mut analyzed = TextLanguage::Unknown;
                let (path, mut near) = (field.path_in_value(key), 0);
                for document in documents {
                    pace::short_step();
                    let language = field.language.in_document(document)?;
                    if language != analyzed {
                        (analyzer, analyzed) = (field.analyzer(language), language);
                    }
                    let value = document.get_near(key.root(), &mut near);
                    add_encoded(&analyzer, value, &path, &mut builder)?;
                }
                Column::Tokens(builder.finish())
            }
            (ColumnForm::Id, _) => {
                let mut builder = BytesBuilder::new();
                documents.iter().for_each(|document| builder.push(Some(document.id().as_bytes())));
                Column::Bytes(builder.finish())
            }
            // Documents have no value in a field that the type lacks. Columns without a field belong to the
            // store.
            (ColumnForm::Value | ColumnForm::Tokens, None)
            | (ColumnForm::Timestamp | ColumnForm::Removed | ColumnForm::Overflow, _) => {
                let mut builder = BytesBuilder::new();
                documents.iter().for_each(|_| builder.push(None));
                Column::Bytes(builder.finish())
            }
        })
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, values: &Column) -> Option<Column> {
        let field = self.field(document_type, &key.field)?;
        if key.form != ColumnForm::Tokens {
            return None;
        }
        // A language set by another field is not known here: words are then stemmed by script.
        let analyzer = field.analyzer(match &field.language {
            FieldLanguage::Always(language) => *language,
            FieldLanguage::SetByField(_) => TextLanguage::Unknown,
        });
        let whole = self.field(document_type, key.root())?;
        let path = field.path_in_value(key);
        let mut builder = TokensBuilder::new();
        for index in 0..values.len() {
            pace::short_step();
            add_document(&analyzer, value(values, &whole.data_type, index).as_ref(), &path, &mut builder);
        }
        Some(Column::Tokens(builder.finish()))
    }

    fn compression(&self, document_type: &str, key: &ColumnKey) -> Compression {
        match (key.form, self.field(document_type, key.root())) {
            (ColumnForm::Tokens, _) => Compression::Whole,
            (ColumnForm::Value, Some(field)) => field.compression,
            // A field that the schema does not have any more is not read.
            (ColumnForm::Value, None) => Compression::Blocks,
            (ColumnForm::Id | ColumnForm::Timestamp | ColumnForm::Removed | ColumnForm::Overflow, _) => {
                Compression::Small
            }
        }
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        self.field(document_type, field).map(|field| field.data_type.clone())
    }
}

/// Compression of the values of a field. Tensors are close to random bytes, and ranking reads those that are
/// no attributes, too.
fn value_compression(field: &SchemaField) -> Compression {
    match field.data_type {
        DataType::Tensor(_) => Compression::Small,
        _ if field.is_scanned() => Compression::Small,
        _ => Compression::Blocks,
    }
}

impl FieldColumns {
    fn analyzer(&self, language: TextLanguage) -> FieldAnalyzer {
        FieldAnalyzer::new(&self.matching, language)
    }

    /// Names of members from a field's value to the text of a column. The parts of an address are made of the
    /// whole text.
    fn path_in_value<'k>(&self, key: &'k ColumnKey) -> Vec<&'k str> {
        match self.matching.mode {
            MatchMode::Uri(_) => Vec::new(),
            _ => key.field.split('.').skip(1).collect(),
        }
    }
}

/// Adds the words at the end of `path` in the wire form of one document's value. A text is not copied.
fn add_encoded(
    analyzer: &FieldAnalyzer,
    value: Option<&[u8]>,
    path: &[&str],
    builder: &mut TokensBuilder,
) -> Result<(), millrace_document::Error> {
    match value.map(ValueRef::parse).transpose()? {
        Some(ValueRef::String(text)) if path.is_empty() => {
            add_text(analyzer, text, builder);
            builder.end_document();
        }
        _ => add_document(analyzer, value.map(wire::decode_value).transpose()?.as_ref(), path, builder),
    }
    Ok(())
}

/// Adds the words at the end of `path` in one document's value; elements of collections are separated.
fn add_document(
    analyzer: &FieldAnalyzer,
    value: Option<&DocumentValue>,
    path: &[&str],
    builder: &mut TokensBuilder,
) {
    let mut first = true;
    if let Some(value) = value {
        add_value(analyzer, value, path, builder, &mut first);
    }
    builder.end_document();
}

fn add_text(analyzer: &FieldAnalyzer, text: &str, builder: &mut TokensBuilder) {
    let stemmer = analyzer.stemmer_number();
    analyzer.written_tokens(text, |token| {
        let (text, length) = (token.onward.as_bytes(), token.written.len());
        builder.stemmed_by(stemmer, text, length, |stem| token.stem_into(stem));
    });
}

fn add_value(
    analyzer: &FieldAnalyzer,
    value: &DocumentValue,
    path: &[&str],
    builder: &mut TokensBuilder,
    first: &mut bool,
) {
    match value {
        DocumentValue::String(text) if path.is_empty() => {
            if !std::mem::take(first) {
                builder.boundary();
            }
            add_text(analyzer, text, builder);
        }
        DocumentValue::Array(elements) => {
            elements.iter().for_each(|element| add_value(analyzer, element, path, builder, first));
        }
        DocumentValue::WeightedSet(elements) => {
            elements.iter().for_each(|(element, _)| add_value(analyzer, element, path, builder, first));
        }
        DocumentValue::Map(entries) => {
            let Some((part, rest)) = path.split_first() else { return };
            for (key, value) in entries {
                let part = if *part == "key" { key } else { value };
                add_value(analyzer, part, rest, builder, first);
            }
        }
        DocumentValue::Struct(members) => {
            let Some((name, rest)) = path.split_first() else { return };
            let member = members.iter().find(|(member, _)| **member == **name);
            member.into_iter().for_each(|(_, value)| add_value(analyzer, value, rest, builder, first));
        }
        _ => {}
    }
}
