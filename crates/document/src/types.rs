use std::{collections::HashMap, fmt, sync::Arc};

use millrace_tensor::TensorType;

/// Type of a field's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataType {
    /// True or false.
    Bool,
    /// 8-bit signed.
    Byte,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// A half-precision float, kept as `f32` in values.
    Float16,
    /// 32-bit float.
    Float,
    /// 64-bit float.
    Double,
    /// Unicode text.
    String,
    /// A URI: text that is split into its parts for matching.
    Uri,
    /// Bytes; base64 in JSON.
    Raw,
    /// A boolean predicate over attributes; text here.
    Predicate,
    /// A geographic position.
    Position,
    /// A tensor of a fixed type.
    Tensor(TensorType),
    /// A reference to a document of the named type: its id as text.
    Reference(String),
    /// An ordered list of values.
    Array(Box<DataType>),
    /// Values with weights, each value once.
    WeightedSet {
        /// Type of the values.
        element: Box<DataType>,
        /// True if incrementing a missing value adds it.
        create_if_nonexistent: bool,
        /// True if a value is removed when its weight becomes 0.
        remove_if_zero: bool,
    },
    /// Keys with values, each key once.
    Map(Box<DataType>, Box<DataType>),
    /// Named fields.
    Struct(Arc<StructType>),
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Bool => f.write_str("bool"),
            DataType::Byte => f.write_str("byte"),
            DataType::Int => f.write_str("int"),
            DataType::Long => f.write_str("long"),
            DataType::Float16 => f.write_str("float16"),
            DataType::Float => f.write_str("float"),
            DataType::Double => f.write_str("double"),
            DataType::String => f.write_str("string"),
            DataType::Uri => f.write_str("uri"),
            DataType::Raw => f.write_str("raw"),
            DataType::Predicate => f.write_str("predicate"),
            DataType::Position => f.write_str("position"),
            DataType::Tensor(tensor_type) => write!(f, "{tensor_type}"),
            DataType::Reference(target) => write!(f, "reference<{target}>"),
            DataType::Array(element) => write!(f, "array<{element}>"),
            DataType::WeightedSet { element, .. } => write!(f, "weightedset<{element}>"),
            DataType::Map(key, value) => write!(f, "map<{key},{value}>"),
            DataType::Struct(struct_type) => f.write_str(&struct_type.name),
        }
    }
}

/// A field of a document type or struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentField {
    /// Name of the field; unique in its type.
    pub name: Arc<str>,
    /// Type of its values.
    pub data_type: DataType,
}

/// A struct type: named fields, inherited ones first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructType {
    /// The name in the schema.
    pub name: String,
    /// The fields in order.
    pub fields: Vec<DocumentField>,
}

impl StructType {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&DocumentField> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// Number of fields of which a look at each takes less time than a hash of a name.
const LINEAR_SEARCH_MAX: usize = 8;

/// A document type: a name and the fields that feeds may set, inherited ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentType {
    name: Arc<str>,
    fields: Vec<DocumentField>,
    by_name: HashMap<Arc<str>, usize>,
    /// Names of fields that indexing statements make, which feeds cannot set.
    made: Vec<Arc<str>>,
}

impl DocumentType {
    /// Creates a type with these fields; of two fields with one name, lookups find the later.
    pub fn new(name: &str, fields: Vec<DocumentField>) -> Self {
        let by_name = fields.iter().enumerate().map(|(i, field)| (Arc::clone(&field.name), i)).collect();
        DocumentType { name: name.into(), fields, by_name, made: Vec::new() }
    }

    /// Adds the names of fields that indexing statements make of its fields, which errors tell from slips.
    #[must_use]
    pub fn with_made_fields(mut self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.made.extend(names);
        self
    }

    /// The name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The fields in the schema's order.
    pub fn fields(&self) -> &[DocumentField] {
        &self.fields
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&DocumentField> {
        if self.fields.len() <= LINEAR_SEARCH_MAX {
            return self.fields.iter().rev().find(|field| *field.name == *name);
        }
        self.by_name.get(name).map(|&index| &self.fields[index])
    }

    /// True if indexing statements make the field of this name.
    pub fn makes(&self, name: &str) -> bool {
        self.made.iter().any(|made| **made == *name)
    }
}
