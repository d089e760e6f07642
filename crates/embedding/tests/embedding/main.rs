//! Embedders from outside: texts in, tensors out.

mod embedders;
mod remote;
#[path = "../../../remote/tests/twin/mod.rs"]
mod twin;
