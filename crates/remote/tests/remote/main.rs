//! Calls of other services from outside: a twin of the service answers over real sockets.

mod chat;
mod download;
mod embeddings;
#[path = "../twin/mod.rs"]
mod twin;
