//! Documents: their types, ids, locations and values, and the operations on them.
//!
//! The main types are [`DocumentType`] (the fields), [`DocumentId`] (with its [`DocumentGroup`] and
//! [`Location`]), [`Document`] (an id and values) and [`DocumentOperation`] (put, update, remove). The module
//! [`json`] reads and writes JSON, the module [`wire`] the compact row form. Replicas exchange
//! [`DocumentVersion`]s.
//!
//! This crate is independent of the storage of documents and of the schema's use of fields.

mod document;
mod encoded;
mod encoded_document;
mod error;
mod field_set;
mod id;
pub mod json;
mod leaves;
mod operation;
mod path;
mod predicate;
mod refusal;
pub mod scalar;
mod serial;
mod types;
mod update;
mod value;
mod version;
mod visible;
pub mod wire;
mod zcurve;

pub use document::{Document, Timestamp};
pub use encoded::{
    EncodedArray, EncodedMap, EncodedStruct, EncodedTensor, EncodedTensorType, EncodedWeightedSet, ValueRef,
};
pub use encoded_document::EncodedDocument;
pub use error::Error;
pub use field_set::FieldSet;
pub use id::{DocumentGroup, DocumentId, Location, ReversedLocation};
pub use leaves::{EncodedLeafReader, EncodedLeafValues, LeafColumn};
pub use operation::{DocumentOperation, OperationAction, OperationKind};
pub use path::{UpdatePath, UpdatePathStep};
pub use predicate::{PredicateExpression, PredicateMistake};
pub use refusal::{WriteRefusal, WriteRefusalKind};
pub use types::{DataType, DocumentField, DocumentType, StructType};
pub use update::{ArithmeticOperator, DocumentUpdate, FieldUpdate, MissingNumber, ValueChange};
pub use value::{DocumentValue, unique_keys};
pub use version::{DocumentVersion, DropScope, DroppedScope};
pub use visible::{ValueVisibility, is_of_type, unrecorded_type};
pub use zcurve::{ZCURVE_SUFFIX, zcurve};
