//! Embedders from outside: texts in, tensors out.

mod embedders;
#[path = "../../../remote/tests/mock/mod.rs"]
mod mock;
mod remote;
