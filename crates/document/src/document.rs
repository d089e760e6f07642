use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::stored_bytes_of;
use crate::{DocumentId, DocumentValue};

/// Write time of a document version: microseconds since 1970 from a hybrid logical clock.
///
/// Of two versions of a document, the one with the higher timestamp wins. Serialized as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A document: its id, and the fields that have values.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Document id.
    pub id: DocumentId,
    /// Fields with values, each name once.
    pub fields: Vec<(Arc<str>, DocumentValue)>,
}

impl Document {
    /// The value of the field `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<&DocumentValue> {
        self.fields.iter().find(|(field, _)| &**field == name).map(|(_, value)| value)
    }

    /// Size of the fields as rows have them, in bytes: see [`DocumentValue::stored_bytes`].
    pub fn stored_bytes(&self) -> usize {
        stored_bytes_of(&self.fields)
    }

    /// Sets or replaces the value of the field `name`.
    pub fn set(&mut self, name: &Arc<str>, value: DocumentValue) {
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((Arc::clone(name), value)),
        }
    }

    /// Removes the value of the field `name`.
    pub fn clear(&mut self, name: &str) {
        self.fields.retain(|(field, _)| &**field != name);
    }
}
