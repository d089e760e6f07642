use std::sync::Arc;
use std::time::Instant;

use millrace_column::View;
use millrace_matching::{Demands, Matches};
use millrace_plan::Plan;
use millrace_result::Feature;
use millrace_schema::Schema;

use crate::Error;

/// A compiled rank profile.
#[derive(Debug)]
pub struct Profile {
    name: String,
}

/// The best of what matched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranked {
    /// Best first; of equal scores the earlier document in the view first.
    pub hits: Vec<RankedHit>,
    /// How many documents matched and were not dropped by a score limit.
    pub total: u64,
    /// The deadline passed before all of them had a score.
    pub timed_out: bool,
}

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedHit {
    /// The chunk's number in the view.
    pub chunk: usize,
    /// The document's place in the chunk.
    pub document: u16,
    /// Never NaN.
    pub score: f64,
}

impl Profile {
    /// Compiles the profile `name` of a schema.
    ///
    /// # Errors
    /// Whatever is wrong with its expressions, with the place in the application package.
    pub fn compile(schema: &Schema, name: &str) -> Result<Self, Error> {
        match schema.rank_profiles.get(name) {
            Some(profile) => Ok(Profile { name: profile.name.clone() }),
            None => Err(Error::UnknownProfile {
                schema: schema.name.to_string(),
                profile: name.to_owned(),
                known: schema.rank_profiles.keys().cloned().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What matching has to find for this profile.
    pub fn demands(&self, _plan: &Plan) -> Demands {
        Demands::default()
    }

    /// The best `wanted` (hits and offset) of what matched.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn rank(
        &self,
        _plan: &Plan,
        _view: &dyn View,
        _matches: &Matches,
        _wanted: usize,
        _deadline: Instant,
    ) -> Result<Ranked, Error> {
        Ok(Ranked::default())
    }

    /// The score of every matched document, chunk by chunk as in `matches.chunks`, for grouping.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn scores(
        &self,
        _plan: &Plan,
        _view: &dyn View,
        matches: &Matches,
        _deadline: Instant,
    ) -> Result<Vec<Vec<f64>>, Error> {
        Ok(matches.chunks.iter().map(|chunk| vec![0.0; chunk.documents.len()]).collect())
    }

    /// `match-features` of these hits, in the profile's order; one list a hit, empty lists where the profile has none.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn match_features(
        &self,
        _plan: &Plan,
        _view: &dyn View,
        _matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Vec<(Arc<str>, Feature)>>, Error> {
        Ok(vec![Vec::new(); hits.len()])
    }

    /// `summary-features` of these hits, as [`Profile::match_features`].
    ///
    /// # Errors
    /// A column could not be read.
    pub fn summary_features(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Vec<(Arc<str>, Feature)>>, Error> {
        self.match_features(plan, view, matches, hits)
    }

    /// `rankfeatures` of these hits (`ranking.listFeatures`): those that the profile names, and the usual ones of every field.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn rank_features(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Vec<(Arc<str>, Feature)>>, Error> {
        self.match_features(plan, view, matches, hits)
    }
}
