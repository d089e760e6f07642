//! Tables of documents: what is written, what is read, and what is refused.

mod columns;
mod tables;
