use std::sync::Arc;

use millrace_tensor::Tensor;

/// The value of a field. A field without a value is absent from its document; there is no null.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentValue {
    /// `bool`.
    Bool(bool),
    /// `byte`.
    Byte(i8),
    /// `int`.
    Int(i32),
    /// `long`.
    Long(i64),
    /// `float`, and `float16` (rounded).
    Float(f32),
    /// `double`.
    Double(f64),
    /// `string`, `uri`, `predicate` and `reference`.
    String(String),
    /// `raw`.
    Raw(Vec<u8>),
    /// `position`, in millionths of a degree.
    Position {
        /// North positive.
        latitude: i32,
        /// East positive.
        longitude: i32,
    },
    /// `tensor`.
    Tensor(Tensor),
    /// `array`.
    Array(Vec<DocumentValue>),
    /// `weightedset`: each value once, in the order given.
    WeightedSet(Vec<(DocumentValue, i32)>),
    /// `map`: each key once, in the order given.
    Map(Vec<(DocumentValue, DocumentValue)>),
    /// A struct: the fields that are set.
    Struct(Vec<(Arc<str>, DocumentValue)>),
}

impl DocumentValue {
    /// True for text, bytes or a collection without content; as the value of a field it is equivalent to
    /// none.
    pub fn is_empty(&self) -> bool {
        match self {
            DocumentValue::String(text) => text.is_empty(),
            DocumentValue::Raw(bytes) => bytes.is_empty(),
            DocumentValue::Array(values) => values.is_empty(),
            DocumentValue::WeightedSet(values) => values.is_empty(),
            DocumentValue::Map(entries) => entries.is_empty(),
            DocumentValue::Struct(fields) => fields.is_empty(),
            DocumentValue::Bool(_)
            | DocumentValue::Byte(_)
            | DocumentValue::Int(_)
            | DocumentValue::Long(_)
            | DocumentValue::Float(_)
            | DocumentValue::Double(_)
            | DocumentValue::Position { .. }
            | DocumentValue::Tensor(_) => false,
        }
    }

    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        let inside = match self {
            DocumentValue::String(text) => text.len(),
            DocumentValue::Raw(bytes) => bytes.len(),
            DocumentValue::Tensor(tensor) => tensor.memory_bytes(),
            DocumentValue::Array(values) => values.iter().map(DocumentValue::memory_bytes).sum(),
            DocumentValue::WeightedSet(values) => {
                values.iter().map(|(value, weight)| value.memory_bytes() + size_of_val(weight)).sum()
            }
            DocumentValue::Map(entries) => {
                entries.iter().map(|(key, value)| key.memory_bytes() + value.memory_bytes()).sum()
            }
            DocumentValue::Struct(fields) => {
                fields.iter().map(|(name, value)| size_of_val(name) + value.memory_bytes()).sum()
            }
            DocumentValue::Bool(_)
            | DocumentValue::Byte(_)
            | DocumentValue::Int(_)
            | DocumentValue::Long(_)
            | DocumentValue::Float(_)
            | DocumentValue::Double(_)
            | DocumentValue::Position { .. } => 0,
        };
        size_of::<Self>() + inside
    }

    /// Size of its wire form in bytes, but for lengths and counts of more than one byte. That of a tensor is
    /// its memory.
    pub fn stored_bytes(&self) -> usize {
        let inside = match self {
            DocumentValue::Bool(_) | DocumentValue::Byte(_) => 1,
            DocumentValue::Int(_) | DocumentValue::Float(_) => 4,
            DocumentValue::Long(_) | DocumentValue::Double(_) | DocumentValue::Position { .. } => 8,
            DocumentValue::String(text) => 1 + text.len(),
            DocumentValue::Raw(bytes) => 1 + bytes.len(),
            DocumentValue::Tensor(tensor) => tensor.memory_bytes(),
            DocumentValue::Array(values) => 1 + values.iter().map(DocumentValue::stored_bytes).sum::<usize>(),
            DocumentValue::WeightedSet(values) => {
                let entries = values.iter().map(|(value, weight)| value.stored_bytes() + size_of_val(weight));
                1 + entries.sum::<usize>()
            }
            DocumentValue::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| key.stored_bytes() + value.stored_bytes());
                1 + entries.sum::<usize>()
            }
            DocumentValue::Struct(fields) => stored_bytes_of(fields),
        };
        1 + inside
    }
}

/// [`DocumentValue::stored_bytes`] of named values together.
pub(crate) fn stored_bytes_of(fields: &[(Arc<str>, DocumentValue)]) -> usize {
    1 + fields.iter().map(|(name, value)| 1 + name.len() + value.stored_bytes()).sum::<usize>()
}

/// Returns the entries of a map or a weighted set with the last one of each key, in the order given.
pub fn unique_keys<T>(entries: Vec<(DocumentValue, T)>) -> Vec<(DocumentValue, T)> {
    // Sorting avoids quadratic time for very many keys.
    let mut order: Vec<(Vec<u8>, usize)> =
        entries.iter().enumerate().map(|(at, (key, _))| (crate::wire::encode_value(key), at)).collect();
    order.sort_unstable();
    let mut last = vec![false; entries.len()];
    for (place, (key, at)) in order.iter().enumerate() {
        last[*at] = order.get(place + 1).is_none_or(|(next, _)| next != key);
    }
    let mut last = last.into_iter();
    entries.into_iter().filter(|_| last.next() == Some(true)).collect()
}
