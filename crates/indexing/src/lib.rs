//! Processing of a document before it is stored: the schema's indexing statements, and its columns.
//!
//! - [`SchemaScripts`] are the compiled statements of a schema: they reject invalid statements when an
//!   application is deployed, and set fields when a document is written.
//! - [`DocumentColumns`] defines the columns of documents and builds them; it is the
//!   [`StoreLayout`](millrace_column::StoreLayout) of a store.
//! - [`IndexingComponents`] is the interface of embedders, chunkers and generators, which are implemented
//!   elsewhere.
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
mod environment;
mod error;
mod execute;
mod languages;
mod lexer;
mod parser;
mod resolve;
mod script;
mod scripts;
mod strings;
mod tensors;

pub use columns::DocumentColumns;
pub use components::{
    ComponentCall, ComponentFailure, GeneratorTarget, IndexingCaller, IndexingComponents, NoComponents,
};
pub use environment::IndexingEnvironment;
pub use error::Error;
pub(crate) use error::StatementFailure;
pub use parser::{IndexingKeyword, indexing_keywords};
pub use scripts::SchemaScripts;
