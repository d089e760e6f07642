//! Documents: their types, ids, locations and values, and the operations on them.
//!
//! The main types are [`DocumentType`] (the fields), [`DocumentId`] (with its [`Group`] and [`Location`]),
//! [`Document`] (an id and values) and [`Operation`] (put, update, remove). The module [`json`] reads and
//! writes JSON, the module [`wire`] the compact row form. Replicas exchange [`Version`]s.
//!
//! This crate is independent of the storage of documents and of the schema's use of fields.

mod document;
mod encoded;
mod error;
mod field_set;
mod id;
pub mod json;
mod operation;
mod path;
mod refusal;
pub mod scalar;
mod types;
mod update;
mod value;
mod version;
mod visible;
pub mod wire;

pub use document::{Document, Timestamp};
pub use encoded::{EncodedArray, EncodedMap, EncodedStruct, EncodedTensor, EncodedWeightedSet, ValueRef};
pub use error::Error;
pub use field_set::FieldSet;
pub use id::{DocumentId, Group, Location};
pub use operation::{Action, Operation, OperationKind};
pub use path::{FieldPath, Step};
pub use refusal::Refusal;
pub use types::{DataType, DocumentType, Field, StructType};
pub use update::{Change, FieldUpdate, Operator, Update};
pub use value::Value;
pub use version::{Drop, DropScope, Version};
pub use visible::{Visibility, is_of_type, unrecorded_type};
