//! What a schema does with a document before it is stored: its indexing statements, and its columns.
//!
//! - [`Scripts`] are the statements of a schema, compiled: they refuse what cannot work when an application is deployed, and
//!   fill in fields when a document is written.
//! - [`Columns`] says which columns documents have, and builds them; it is the [`Layout`](millrace_store::Layout) of a store.
//! - [`Components`] is the seam for embedders, chunkers and generators, which are not here.
//!
//! A statement is a pipe: each expression gets the value of the one before it.
//!
//! ```text
//! input title . " " . input body | lowercase | split "," | index words;
//! ```
//!
//! This crate does not know JSON, queries, or how columns are stored.

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
