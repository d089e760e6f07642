//! What a node asks of other services: embeddings, answers of language models, and files of models.
//!
//! - [`OutboundHttp`] is the one client of a process, with a thread of its own that waits for answers.
//! - [`RemoteEmbeddings`] asks a service for embeddings, in OpenAI's protocol or one of its kin
//!   ([`ServiceDialect`]): texts that wait together go together, failures that pass are tried again, and all
//!   others are told apart by what can be done about them ([`Error`]).
//! - [`ChatModel`] asks a service that speaks the OpenAI chat protocol; its answer comes in pieces, no faster
//!   than they are taken, or whole.
//! - [`download`] fetches a file once, whole or not at all.
//! - [`OutboundPolicy`] says which addresses any of them may connect to.
//!
//! Callers wait on threads that may wait, but for a language model's pieces, which are awaited. This crate
//! knows neither tensors nor documents.

mod address_range;
mod chat;
mod connect;
mod download;
mod embeddings;
mod error;
mod http;
mod outbound;
mod protocol;
mod queue;
mod retry;
mod sha256;
mod usage;

pub use address_range::AddressRange;
pub use chat::{AnswerPieces, ChatModel, ChatPrompt, InferenceOptions};
pub use download::{FileSource, download};
pub use embeddings::{EmbeddingOptions, RemoteEmbeddings};
pub use error::Error;
pub use http::OutboundHttp;
pub use outbound::{OutboundPolicy, OutboundRefusal};
pub use protocol::{ServiceDialect, VectorCells};
pub use sha256::Sha256Digest;
pub use usage::ServiceUsage;
