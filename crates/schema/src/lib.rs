//! An application package, parsed and validated: schemas, services, and accompanying files.
//!
//! The main type is [`Application`]. Its [`Schema`]s define the documents
//! ([`millrace_document::DocumentType`]), the settings of each field ([`SchemaField`]), and ranking and
//! document summaries. Ranking expressions and indexing statements stay text here, with their location; the
//! crates `ranking` and `indexing` compile them.
//!
//! A package passes three steps, each in its own folder: `parse` converts files to declarations with
//! locations, `resolve` adds inherited settings and defaults, `services` reads the clusters. An error in a
//! part ends the reading of that part: it is added to the [`PackageFindings`], and everything that depends on
//! the part is skipped. The rest is an [`ApplicationDraft`], which other crates compile and report on in the
//! same way, so that a package is rejected with all of its [`PackageMistakes`]. Finally, [`change::compare`]
//! determines the effects of a new version of an application.
//!
//! ```
//! let files = [
//!     ("services.xml", "<services><content id='c'><documents><document type='note' mode='streaming'/></documents></content></services>"),
//!     ("schemas/note.sd", "schema note { document note { field text type string { indexing: index } } }"),
//! ];
//! let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into();
//! let application = millrace_schema::Application::from_files(files)?;
//! assert!(application.schemas["note"].fields["text"].is_text());
//! # Ok::<(), millrace_schema::PackageMistakes>(())
//! ```
//!
//! This crate is independent of documents' values, queries, and storage.

mod application;
mod binding;
pub mod change;
mod embedder;
mod error;
mod federation;
mod field;
mod index_service;
mod language;
mod mistakes;
mod overrides;
mod package;
mod package_settings;
mod parse;
mod profile;
mod query_profile;
mod resolve;
mod schema;
mod services;
mod significance;
mod suggest;
mod unpack;
mod xml;

pub use application::{
    Application, ApplicationClients, ApplicationDraft, ClusterDocument, ContainerCluster, ContentCluster,
    ContentTuning, DocumentMode, SnippetLengths, SnippetSettings, SummaryMarkup,
};
pub use binding::{BoundHandler, HandlerBinding};
pub use embedder::{
    ColbertTokens, EmbedderConfig, EmbedderImplementation, EmbedderKind, EmbeddingService, ModelExecution,
    ModelFile, PrependTexts, RemoteModel, TokenPooling, TransformerConfig, TransformerNames,
    VectorQuantization,
};
pub use error::{Error, SourcePosition};
pub use federation::{FederatedSource, FederationConfig, FederationOptions, SourceChain, SourceTarget};
pub use field::{
    AttributeSettings, DictionarySettings, DistanceMetric, IndexSettings, LinguisticsProfile, SchemaField,
    SummaryMode, literal_name,
};
pub use index_service::{IndexConfig, IndexKeyConfig, IndexServiceConfig};
pub use language::{
    FieldGenerator, InvalidAnswerPolicy, LanguageChain, LanguageModelConfig, PromptTemplate, SearchChain,
};
pub use millrace_linguistics::{DefaultTerm, FieldMatching, FieldStemming, MatchMode, UriPart, did_you_mean};
pub use mistakes::{InvalidNames, PackageFindings, PackageMistake, PackageMistakes};
pub use overrides::ValidationOverride;
pub use package::FILES_MAX;
pub use parse::{SchemaBlock, SchemaKeyword, schema_blocks};
pub use profile::{FunctionDef, InputDef, InputType, RankPhase, RankProfile, SourcedText};
pub use query_profile::{ParameterLookup, ProfileValue, QueryProfiles};
pub use resolve::unknown_engine_property;
pub use schema::{DocumentSummary, Fieldset, OnnxModelConfig, Schema, SchemaConstant, SummaryField};
pub use services::{ServiceBlock, ServiceSetting, service_blocks};
pub use significance::{SignificanceModels, WordFrequencies};
