//! Documents: their types, ids, locations, values, and the operations on them.
//!
//! The chief types are [`DocumentType`] (which fields there are), [`DocumentId`] (with its [`Group`] and [`Location`]),
//! [`Document`] (an id and values) and [`Operation`] (put, update, remove). JSON ([`json`]) and the compact row form
//! ([`wire`]) are read and written here. A [`Version`] is what replicas send each other.
//!
//! This crate does not know where documents are stored, nor what a schema does with a field.

mod document;
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
pub mod wire;

pub use document::{Document, Timestamp};
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
