//! Ranking from outside: profiles over small views of documents, to scores and features.

mod comparison;
mod features;
mod field_kinds;
mod onnx;
mod phases;
mod properties;
mod several_terms;
mod several_vectors;
#[path = "../support/mod.rs"]
mod support;
