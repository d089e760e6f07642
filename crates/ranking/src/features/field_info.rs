//! `fieldInfo(field)`: the matches of all terms in a field.

use millrace_expression::FeatureName;
use millrace_matching::{LeafMatches, RankingDemands};
use millrace_plan::LeafId;

use super::term::{LeafPositions, count, terms_of};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
    terms,
};
use crate::Error;

/// Output of the feature.
#[derive(Debug, Clone, Copy)]
enum FieldInfoOutput {
    Searched,
    Hit,
    First,
    Last,
    Count,
}

struct FieldInfo {
    field: String,
    output: FieldInfoOutput,
}

/// `fieldInfo(field).search`, `.hit`, `.first`, `.last`, `.cnt`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.searched(name, 0)?.name.to_string();
    let output = match name.output.as_deref() {
        Some("search") => FieldInfoOutput::Searched,
        Some("hit") => FieldInfoOutput::Hit,
        Some("first") => FieldInfoOutput::First,
        Some("last") => FieldInfoOutput::Last,
        Some("cnt") => FieldInfoOutput::Count,
        _ => {
            return Err(Error::setup(format!(
                "{name}: fieldInfo has the outputs search, hit, first, last and cnt"
            )));
        }
    };
    Ok(Box::new(FieldInfo { field, output }))
}

impl RankFeature for FieldInfo {
    fn demands(&self) -> RankingDemands {
        match self.output {
            FieldInfoOutput::Searched | FieldInfoOutput::Hit => RankingDemands::default(),
            FieldInfoOutput::First | FieldInfoOutput::Last | FieldInfoOutput::Count => {
                RankingDemands { counts: true, positions: true, ..RankingDemands::default() }
            }
        }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let found = terms_of(request.plan, &self.field);
        let terms: Vec<Vec<LeafId>> = found
            .chunk_by(|one, other| one.term == other.term)
            .map(|of_term| of_term.iter().map(|found| found.leaf).collect())
            .collect();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let missing = match self.output {
                FieldInfoOutput::Searched => f64::from(u8::from(!terms.is_empty())),
                FieldInfoOutput::Hit | FieldInfoOutput::Count => 0.0,
                FieldInfoOutput::First | FieldInfoOutput::Last => terms::FAR,
            };
            let out = values.numbers(chunk.len(), missing);
            for leaves in &terms {
                self.add(leaves, chunk, out);
            }
        }))
    }
}

impl FieldInfo {
    /// Adds the matches of one term. A position that several leaves found counts once.
    fn add(&self, leaves: &[LeafId], chunk: &FeatureChunk<'_>, out: &mut [f64]) {
        let found: Vec<&LeafMatches> = leaves.iter().map(|leaf| chunk.matches.leaf(*leaf)).collect();
        let mut positions: Vec<LeafPositions<'_>> =
            found.iter().map(|found| LeafPositions::of(found)).collect();
        let mut places: Vec<u32> = Vec::new();
        for (document, out) in out.iter_mut().enumerate() {
            places.clear();
            positions.iter_mut().for_each(|leaf| places.extend(leaf.next().unwrap_or_default()));
            places.sort_unstable();
            places.dedup();
            let (first, last) = (places.first().copied(), places.last().copied());
            match self.output {
                FieldInfoOutput::Searched => {}
                FieldInfoOutput::Hit if found.iter().any(|found| count(found, document) > 0) => *out = 1.0,
                FieldInfoOutput::Hit => {}
                // A match without positions counts as one occurrence.
                FieldInfoOutput::Count if places.is_empty() => {
                    *out += found.iter().map(|found| f64::from(count(found, document))).fold(0.0, f64::max);
                }
                FieldInfoOutput::Count => *out += places.len() as f64,
                FieldInfoOutput::First => *out = first.map_or(*out, |first| out.min(f64::from(first))),
                FieldInfoOutput::Last if *out == terms::FAR => *out = last.map_or(*out, f64::from),
                FieldInfoOutput::Last => *out = last.map_or(*out, |last| out.max(f64::from(last))),
            }
        }
    }
}
