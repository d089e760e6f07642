//! `fieldInfo(field)`: the matches of all terms in a field.

use millrace_expression::FeatureName;
use millrace_matching::{Demands, LeafMatches};
use millrace_plan::LeafId;

use super::term::{Positions, count, terms_of};
use super::{Chunk, Executor, Feature, Request, Run, Setup, Values, terms};

/// Output of the feature.
#[derive(Debug, Clone, Copy)]
enum Output {
    Searched,
    Hit,
    First,
    Last,
    Count,
}

struct FieldInfo {
    field: String,
    output: Output,
}

/// `fieldInfo(field).search`, `.hit`, `.first`, `.last`, `.cnt`
pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let field = setup.searched(name, 0)?.name.to_string();
    let output = match name.output.as_deref() {
        Some("search") => Output::Searched,
        Some("hit") => Output::Hit,
        Some("first") => Output::First,
        Some("last") => Output::Last,
        Some("cnt") => Output::Count,
        _ => return Err(format!("{name}: fieldInfo has the outputs search, hit, first, last and cnt")),
    };
    Ok(Box::new(FieldInfo { field, output }))
}

impl Feature for FieldInfo {
    fn demands(&self) -> Demands {
        match self.output {
            Output::Searched | Output::Hit => Demands::default(),
            Output::First | Output::Last | Output::Count => {
                Demands { counts: true, positions: true, ..Demands::default() }
            }
        }
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let found = terms_of(request.plan, &self.field);
        let terms: Vec<Vec<LeafId>> = found
            .chunk_by(|one, other| one.term == other.term)
            .map(|of_term| of_term.iter().map(|found| found.leaf).collect())
            .collect();
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            let missing = match self.output {
                Output::Searched => f64::from(u8::from(!terms.is_empty())),
                Output::Hit | Output::Count => 0.0,
                Output::First | Output::Last => terms::FAR,
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
    fn add(&self, leaves: &[LeafId], chunk: &Chunk<'_>, out: &mut [f64]) {
        let found: Vec<&LeafMatches> = leaves.iter().map(|leaf| chunk.matches.leaf(*leaf)).collect();
        let mut positions: Vec<Positions<'_>> = found.iter().map(|found| Positions::of(found)).collect();
        let mut places: Vec<u32> = Vec::new();
        for (document, out) in out.iter_mut().enumerate() {
            places.clear();
            positions.iter_mut().for_each(|leaf| places.extend(leaf.next().unwrap_or_default()));
            places.sort_unstable();
            places.dedup();
            let (first, last) = (places.first().copied(), places.last().copied());
            match self.output {
                Output::Searched => {}
                Output::Hit if found.iter().any(|found| count(found, document) > 0) => *out = 1.0,
                Output::Hit => {}
                // A match without positions counts as one occurrence.
                Output::Count if places.is_empty() => {
                    *out += found.iter().map(|found| f64::from(count(found, document))).fold(0.0, f64::max);
                }
                Output::Count => *out += places.len() as f64,
                Output::First => *out = first.map_or(*out, |first| out.min(f64::from(first))),
                Output::Last if *out == terms::FAR => *out = last.map_or(*out, f64::from),
                Output::Last => *out = last.map_or(*out, |last| out.max(f64::from(last))),
            }
        }
    }
}
