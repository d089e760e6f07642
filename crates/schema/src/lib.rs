//! An application package, parsed and checked: schemas, services, and the files beside them.
//!
//! The chief type is [`Application`], whose [`Schema`]s say what a document is ([`millrace_document::DocumentType`]), what is
//! done with each field ([`SchemaField`]), and how documents are ranked and shown. Ranking expressions and indexing statements
//! stay text here, with the place where they stand; `ranking` and `indexing` compile them.
//!
//! This crate does not know documents' values, queries, or where anything is stored.

mod application;
mod error;
mod field;
mod overrides;
mod package;
mod parse;
mod profile;
mod query_profile;
mod resolve;
mod schema;
mod services;
mod suggest;
mod xml;

pub use application::{
    Application, ClusterDocument, Component, Container, ContentCluster, DocumentMode, Tuning,
};
pub use error::{Error, Place};
pub use field::{
    Attribute, DefaultTerm, Dictionary, DistanceMetric, IndexSettings, LinguisticsProfile, MatchMode,
    Matching, SchemaField, Stemming, SummaryMode,
};
pub use overrides::ValidationOverride;
pub use profile::{FunctionDef, InputDef, InputType, Phase, RankProfile, Sourced};
pub use query_profile::QueryProfile;
pub use schema::{Constant, DocumentSummary, Fieldset, OnnxModel, Schema, SummaryField};
pub use suggest::did_you_mean;
