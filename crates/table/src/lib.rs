//! Arrow tables as documents, and documents as Arrow tables.
//!
//! A table has a row for each document: a column with the id or the name, perhaps one with the group, and a
//! column for each field. [`TableReader`] reads the stream form of Arrow IPC as operations of a feed;
//! [`TableWriter`] makes such a stream of documents.
//!
//! - `column` has the table of types: which Arrow types a field takes, and the one that is written.
//! - `cell` reads one value of a column, `tensor` one that is a tensor, `row` a whole document; `arrow` gives
//!   access to the values of arrays, `shape` compares the shapes that columns of tensors declare.
//! - `array` makes a column of values.
//!
//! This crate knows neither a store nor a network: its operations go to a feed, and its documents come from a
//! visit.

mod array;
mod arrow;
mod cell;
mod column;
mod error;
mod reader;
mod row;
mod shape;
mod size;
mod tensor;
mod writer;

pub use error::Error;
pub use reader::{ReadRow, TableBounds, TableReader};
pub use row::{RowMapping, TableRow};
pub use writer::{TableColumns, TableWriter};
