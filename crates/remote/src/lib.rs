//! Clients of other services: embeddings, answers of language models, files of models, and traces.
//!
//! - [`OutboundHttp`] is the client of an application's services, with its own thread that waits for answers;
//!   the key set of signed tokens has another.
//! - [`RemoteEmbeddings`] requests embeddings from a service, by OpenAI's protocol or a similar one
//!   ([`ServiceDialect`]): waiting texts are batched, transient failures are retried, and other errors are
//!   classified by their remedy ([`Error`]).
//! - [`ChatModel`] uses a service with the OpenAI chat protocol; its answer arrives in pieces, no faster than
//!   the caller takes them, or whole.
//! - [`download`] downloads a file once, completely or not at all; [`fetch_text`] returns a short text.
//! - [`SpanExporter`] sends the spans of requests to a collector of distributed traces.
//! - [`OutboundPolicy`] determines the addresses that any of them may connect to, and [`SecretBinding`] the
//!   hosts that a [`secret`] may be sent to.
//!
//! Callers block on threads that may block, except for a language model's pieces, which are awaited. This
//! crate does not depend on tensors or documents.

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
mod secrets;
mod sha256;
mod spans;
mod text;
mod usage;

pub use address_range::AddressRange;
pub use chat::{AnswerPieces, ChatModel, ChatPrompt, InferenceOptions};
pub use download::{FileSource, download};
pub use embeddings::{EmbeddingOptions, RemoteEmbeddings};
pub use error::{DownloadFailure, Error};
pub use http::OutboundHttp;
pub use outbound::{OutboundPolicy, OutboundRefusal, fuzz};
pub use protocol::{ServiceDialect, VectorCells};
pub use secrets::{SecretBinding, fuzz as fuzz_secrets, secret};
pub use sha256::Sha256Digest;
pub use spans::{FinishedSpan, SpanContext, SpanExporter, SpanSettings, SpanValue, TraceParent};
pub use text::fetch_text;
pub use usage::ServiceUsage;
