//! Rank features and phases: matches to scores.
//!
//! A [`Profile`] is compiled once, at deployment; everything that can be wrong with it is found there. For a request it says
//! what matching has to count ([`Profile::demands`]), ranks what matched ([`Profile::rank`]), and computes features of the
//! hits that are returned.
//!
//! This crate does not know how documents are matched, nor where their columns come from.

mod error;
mod profile;

pub use error::Error;
pub use profile::{Profile, Ranked, RankedHit};
