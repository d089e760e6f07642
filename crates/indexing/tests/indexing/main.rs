//! Indexing statements, and columns of documents.

mod expressions;
mod scripts;
