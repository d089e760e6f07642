//! Grouping from outside: requests over small views of documents, to groups as text.

mod in_place;
mod numbers;
mod paging;
mod plain;
mod requests;
mod support;
