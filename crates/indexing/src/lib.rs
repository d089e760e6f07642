//! Processing of a document before it is stored: the schema's indexing statements, and its columns.
//!
//! - [`Scripts`] are the compiled statements of a schema: they reject invalid statements when an application
//!   is deployed, and set fields when a document is written.
//! - [`Columns`] defines the columns of documents and builds them; it is the
//!   [`Layout`](millrace_store::Layout) of a store.
//! - [`Components`] is the interface of embedders, chunkers and generators, which are implemented elsewhere.
//!
//! A statement is a pipe: each expression gets the value of the previous one.
//!
//! ```text
//! input title . " " . input body | lowercase | split "," | index words;
//! ```
//!
//! This crate is independent of JSON, queries, and the storage of columns.

mod columns;
mod components;
mod convert;
mod error;
mod execute;
mod languages;
mod lexer;
mod parser;
mod resolve;
mod script;
mod scripts;
mod strings;
mod surroundings;
mod tensors;

pub use columns::Columns;
pub use components::{Caller, ComponentCall, Components, Failure, NoComponents, Wanted};
pub use error::Error;
pub use scripts::Scripts;
pub use surroundings::Surroundings;
