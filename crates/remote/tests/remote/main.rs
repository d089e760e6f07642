//! Calls of other services from outside: a mock of the service answers over real sockets.

mod chat;
mod download;
mod embeddings;
#[path = "../mock/mod.rs"]
mod mock;
