use std::str::FromStr;

use crate::{DocumentType, Error};

/// Selection of the fields to return: `[all]`, `[document]`, `[id]`, `[none]`, or `type:field,field`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldSet {
    /// All fields, including those created by indexing statements.
    All,
    /// The fields that feeds may set.
    Document,
    /// Only the id.
    Id,
    /// Nothing, not even the id.
    None,
    /// The named fields of one document type.
    Fields {
        /// The document type.
        document_type: String,
        /// Field names.
        fields: Vec<String>,
    },
}

impl FieldSet {
    /// True if the field set contains a field of this document type.
    pub fn contains(&self, document_type: &DocumentType, field: &str) -> bool {
        match self {
            FieldSet::All => true,
            FieldSet::Document => document_type.field(field).is_some(),
            FieldSet::Id | FieldSet::None => false,
            FieldSet::Fields { document_type: of, fields } => {
                of == &**document_type.name() && fields.iter().any(|name| name == field)
            }
        }
    }
}

impl FromStr for FieldSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        match text {
            "[all]" => return Ok(FieldSet::All),
            "[document]" => return Ok(FieldSet::Document),
            "[id]" | "[docid]" => return Ok(FieldSet::Id),
            "[none]" => return Ok(FieldSet::None),
            _ => {}
        }
        let Some((document_type, fields)) = text.split_once(':').filter(|(of, _)| !of.is_empty()) else {
            return Err(Error::FieldSet { text: text.to_owned() });
        };
        match fields.trim() {
            "[document]" => Ok(FieldSet::Document),
            "[all]" => Ok(FieldSet::All),
            fields => Ok(FieldSet::Fields {
                document_type: document_type.to_owned(),
                fields: fields
                    .split(',')
                    .map(str::trim)
                    .filter(|field| !field.is_empty())
                    .map(str::to_owned)
                    .collect(),
            }),
        }
    }
}
