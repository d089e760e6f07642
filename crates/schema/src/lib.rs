//! An application package, parsed and checked: schemas, services, and the files beside them.
//!
//! The chief type is [`Application`], whose [`Schema`]s say what a document is ([`millrace_document::DocumentType`]), what is
//! done with each field ([`SchemaField`]), and how documents are ranked and shown. Ranking expressions and indexing statements
//! stay text here, with the place where they stand; `ranking` and `indexing` compile them.
//!
//! A package goes through three steps, each in a folder of its own: `parse` reads files to declarations with places,
//! `resolve` puts in what is inherited and what is left out, `services` reads the clusters. A mistake in a part ends the reading of that part:
//! it goes to the [`Findings`], and what depends on the part is passed over. What is left is a [`Draft`], which others compile and tell
//! of in the same way, so that a package is refused with all its [`Mistakes`]. Then [`change::compare`] says what a new version of an
//! application needs.
//!
//! ```
//! let files = [
//!     ("services.xml", "<services><content id='c'><documents><document type='note' mode='streaming'/></documents></content></services>"),
//!     ("schemas/note.sd", "schema note { document note { field text type string { indexing: index } } }"),
//! ];
//! let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into();
//! let application = millrace_schema::Application::from_files(files)?;
//! assert!(application.schemas["note"].fields["text"].is_text());
//! # Ok::<(), millrace_schema::Mistakes>(())
//! ```
//!
//! This crate does not know documents' values, queries, or where anything is stored.

mod application;
pub mod change;
mod embedder;
mod error;
mod federation;
mod field;
mod language;
mod mistakes;
mod overrides;
mod package;
mod parse;
mod profile;
mod query_profile;
mod resolve;
mod schema;
mod services;
mod significance;
mod suggest;
mod xml;

pub use application::{
    Application, ClusterDocument, Container, ContentCluster, DocumentMode, Draft, Snippets, Tuning,
};
pub use embedder::{
    ColbertTokens, Embedder, EmbedderKind, EmbedderMeans, EmbeddingService, Execution, ModelFile, Pooling,
    Prepend, Quantization, RemoteModel, Transformer, TransformerNames,
};
pub use error::{Error, Place};
pub use federation::{FederatedSource, Federation, FederationOptions, Source, SourceChain};
pub use field::{
    Attribute, DefaultTerm, Dictionary, DistanceMetric, IndexSettings, LinguisticsProfile, MatchMode,
    Matching, SchemaField, Stemming, SummaryMode,
};
pub use language::{Asking, FieldGenerator, LanguageModel, OnMisfit, PromptTemplate, SearchChain};
pub use mistakes::{Broken, Findings, Mistake, Mistakes};
pub use overrides::ValidationOverride;
pub use package::FILES_MAX;
pub use profile::{FunctionDef, InputDef, InputType, Phase, RankProfile, Sourced};
pub use query_profile::{ProfileValue, QueryProfiles};
pub use schema::{Constant, DocumentSummary, Fieldset, OnnxModel, Schema, SummaryField};
pub use significance::{SignificanceModels, WordFrequencies};
pub use suggest::did_you_mean;
