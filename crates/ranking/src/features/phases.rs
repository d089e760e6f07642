//! What earlier phases made of the hits, as later phases see it.

use std::collections::HashMap;

use millrace_expression::FeatureName;

use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

/// A number for each hit, by chunk and document.
pub(crate) type PerHit = HashMap<(usize, u16), f64>;

/// What is known of all hits together.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// The places in the first phase, from 1, of those that later phases may rank again.
    pub ranks: PerHit,
    /// The highest score of the first phase.
    pub max: Option<f64>,
    /// What the global phase normalises.
    pub normalized: Vec<PerHit>,
}

/// `firstPhaseRank`
pub(crate) fn rank(_: &Setup<'_>, _: &FeatureName) -> Result<Box<dyn Feature>, String> {
    Ok(Box::new(Rank))
}

/// `firstPhaseMax`
pub(crate) fn max(_: &Setup<'_>, _: &FeatureName) -> Result<Box<dyn Feature>, String> {
    Ok(Box::new(Max))
}

/// A number that the global phase has normalised: the one in this place of [`Earlier::normalized`].
pub(crate) fn normalized(place: usize) -> Box<dyn Feature> {
    Box::new(Normalized(place))
}

struct Rank;

impl Feature for Rank {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        per_hit(request.earlier.map(|earlier| &earlier.ranks), f64::MAX)
    }
}

struct Normalized(usize);

impl Feature for Normalized {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        per_hit(request.earlier.and_then(|earlier| earlier.normalized.get(self.0)), 0.0)
    }
}

fn per_hit<'q>(numbers: Option<&'q PerHit>, missing: f64) -> Box<dyn Executor + 'q> {
    Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
        let out = values.numbers(chunk.len(), missing);
        for (out, document) in out.iter_mut().zip(&chunk.matches.documents) {
            let known = numbers.and_then(|numbers| numbers.get(&(chunk.matches.chunk, *document)));
            *out = known.copied().unwrap_or(missing);
        }
    }))
}

struct Max;

impl Feature for Max {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let max = request.earlier.and_then(|earlier| earlier.max).unwrap_or(f64::NEG_INFINITY);
        Box::new(Run(move |_: &Chunk<'_>, values: &mut Values| *values = Values::Number(max)))
    }
}
