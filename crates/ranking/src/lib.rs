//! Rank features and phases: matches to scores.
//!
//! A [`CompiledProfile`] is compiled once, at deployment, which reports all errors in it. For a request it
//! states the data that matching has to collect ([`CompiledProfile::demands`]), ranks the matches
//! ([`CompiledProfile::rank`]), and computes features of the returned hits.
//!
//! [`FEATURES`] lists all features. A feature is set up once per profile, bound once per request, and run for
//! one chunk after another. Only setup can fail.
//!
//! ONNX models run behind the trait [`ModelSource`], over all hits of a phase at once.
//!
//! This crate is independent of the way documents are matched and of the source of their columns.

mod best;
mod compile;
mod diversity;
mod error;
mod features;
mod forests;
mod global;
mod later;
mod model_runs;
mod onnx;
mod phase_ranking;
mod profile;
mod properties;
mod returned_features;
mod stage;
mod tokens;

pub use compile::check_constants;
pub use error::Error;
pub use features::{FEATURES, FeatureInfo};
pub use forests::TreeModel;
pub use later::GlobalHitValues;
pub use onnx::{ModelFailure, ModelInputRows, ModelSource, RankModelEvaluation, RankModelFile};
pub use phase_ranking::{LaterPhase, PhaseRanking, PhaseRerank, PhaseReranking};
pub use profile::{BestHits, CompiledProfile, FirstPhase, RankOutcome, RankedDocuments, RankedHit};
pub use returned_features::{FeatureSelection, HitFeatures};
