//! Rank features and phases: matches to scores.
//!
//! A [`Profile`] is compiled once, at deployment; everything that can be wrong with it is found there. For a request it says
//! what matching has to count ([`Profile::demands`]), ranks what matched ([`Profile::rank`]), and computes features of the
//! hits that are returned.
//!
//! Features stand in one table, [`FEATURES`]. A feature is set up once for a profile, bound once to a request, and run for
//! chunk after chunk: what can be wrong with it is found while it is set up.
//!
//! ONNX models are run by whoever implements [`Models`]: for all hits of a phase at once.
//!
//! This crate does not know how documents are matched, nor where their columns come from.

mod best;
mod compile;
mod diversity;
mod error;
mod features;
mod forests;
mod global;
mod later;
mod modelled;
mod onnx;
mod profile;
mod properties;
mod shown;
mod stage;
mod tokens;

pub use compile::check_constants;
pub use error::Error;
pub use features::{FEATURES, FeatureInfo};
pub use forests::TreeModel;
pub use later::{Known, Rerank, Reranking, Standing};
pub use onnx::{Evaluation, Model, ModelFailure, Models, NoModels};
pub use profile::{BestHits, Documents, FirstPhase, Profile, Ranked, RankedHit};
pub use shown::{Features, Shown};
