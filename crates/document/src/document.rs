use std::sync::Arc;

use crate::{DocumentId, Value};

/// When a version of a document was written: microseconds since 1970 from a hybrid logical clock.
///
/// Of two versions of a document the one with the higher timestamp holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub u64);

/// An id and the fields that have values.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The id.
    pub id: DocumentId,
    /// Names with values, each name once.
    pub fields: Vec<(Arc<str>, Value)>,
}

impl Document {
    /// The value of the field `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| &**field == name).map(|(_, value)| value)
    }

    /// Sets or replaces the value of the field `name`.
    pub fn set(&mut self, name: &Arc<str>, value: Value) {
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((Arc::clone(name), value)),
        }
    }

    /// Takes away the value of the field `name`.
    pub fn clear(&mut self, name: &str) {
        self.fields.retain(|(field, _)| &**field != name);
    }
}
