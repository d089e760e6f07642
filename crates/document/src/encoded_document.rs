//! A document whose values are read in place from their wire form.

use std::sync::Arc;

use crate::wire::{self, WireReader};
use crate::{Document, DocumentId, DocumentValue, Error};

/// A document in its wire form: its fields are found, and no value is decoded.
///
/// Columns of many documents copy most values as they are, and texts are split into words where they lie.
#[derive(Debug, Clone)]
pub struct EncodedDocument<'a> {
    id: &'a str,
    /// Name and encoded value of each field.
    fields: Vec<(&'a str, &'a [u8])>,
}

impl<'a> EncodedDocument<'a> {
    /// Finds the fields that [`wire::encode_fields`] has written for the document with this id.
    ///
    /// # Errors
    /// [`Error::Row`] if the bytes are not fields. Types of tensors, and UTF-8 in values, are not looked at.
    pub fn parse(id: &'a str, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = WireReader::new(bytes);
        let count = reader.count()?;
        // A wrong count must not request memory.
        let mut fields = Vec::with_capacity(count.min(FIELDS_USUAL));
        for _ in 0..count {
            let name = reader.text()?;
            let begin = bytes.len() - reader.left();
            reader.skip_value(0)?;
            fields.push((name, &bytes[begin..bytes.len() - reader.left()]));
        }
        match reader.left() {
            0 => Ok(EncodedDocument { id, fields }),
            _ => Err(Error::Row("bytes are left after the fields")),
        }
    }

    /// The document with this id that has no values.
    pub fn without_fields(id: &'a str) -> Self {
        EncodedDocument { id, fields: Vec::new() }
    }

    /// The id as text.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// The encoded value of the field `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value)
    }

    /// [`EncodedDocument::get`], for one field of many documents: most have their fields in one order, so it
    /// is looked for first at the place where the document before had it.
    pub fn get_near(&self, name: &str, near: &mut usize) -> Option<&'a [u8]> {
        if let Some((field, value)) = self.fields.get(*near)
            && *field == name
        {
            return Some(*value);
        }
        *near = self.fields.iter().position(|(field, _)| *field == name)?;
        Some(self.fields[*near].1)
    }

    /// The wire form of the fields that are wanted, each by its place and its name; `None` if it has none of
    /// them.
    pub fn encode_some(&self, mut is_wanted: impl FnMut(usize, &str) -> bool) -> Option<Vec<u8>> {
        let mut wanted: Vec<&(&str, &[u8])> = Vec::new();
        for (place, field) in self.fields.iter().enumerate() {
            if is_wanted(place, field.0) {
                wanted.push(field);
            }
        }
        if wanted.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        wire::write_number(&mut bytes, wanted.len() as u64);
        for (name, value) in wanted {
            wire::write_bytes(&mut bytes, name.as_bytes());
            bytes.extend_from_slice(value);
        }
        Some(bytes)
    }

    /// The document with its values.
    ///
    /// # Errors
    /// The id or a value is invalid.
    pub fn decode(&self) -> Result<Document, Error> {
        let mut fields: Vec<(Arc<str>, DocumentValue)> = Vec::with_capacity(self.fields.len());
        for (name, value) in &self.fields {
            fields.push((Arc::from(*name), wire::decode_value(value)?));
        }
        Ok(Document { id: DocumentId::parse(self.id)?, fields })
    }
}

/// Number of fields for which there is room at first.
const FIELDS_USUAL: usize = 16;
