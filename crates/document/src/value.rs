use std::sync::Arc;

use millrace_tensor::Tensor;

/// The value of a field. A field without a value is absent from its document; there is no null.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
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
    Array(Vec<Value>),
    /// `weightedset`: each value once, in the order given.
    WeightedSet(Vec<(Value, i32)>),
    /// `map`: each key once, in the order given.
    Map(Vec<(Value, Value)>),
    /// A struct: the fields that are set.
    Struct(Vec<(Arc<str>, Value)>),
}

impl Value {
    /// True for text, bytes or a collection without content; as the value of a field it is equivalent to
    /// none.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::String(text) => text.is_empty(),
            Value::Raw(bytes) => bytes.is_empty(),
            Value::Array(values) => values.is_empty(),
            Value::WeightedSet(values) => values.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Struct(fields) => fields.is_empty(),
            Value::Bool(_)
            | Value::Byte(_)
            | Value::Int(_)
            | Value::Long(_)
            | Value::Float(_)
            | Value::Double(_)
            | Value::Position { .. }
            | Value::Tensor(_) => false,
        }
    }
}
