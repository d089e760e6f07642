//! Matching from outside: predicates over views of documents, to matches.

mod conditions;
mod costs;
mod elements;
mod equalities;
mod many_words;
mod plain;
mod reference;
mod vectors;
