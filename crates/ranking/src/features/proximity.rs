//! How near the query's words are to each other in a document.

use millrace_expression::FeatureName;
use millrace_matching::Demands;
use millrace_plan::{LeafId, Plan, TermId};
use millrace_schema::SchemaField;

use super::boost::Table;
use super::native::{fields, is_index, table, table_max};
use super::term::{FieldTerm, Positions, connectedness, significance, terms_of, weight};
use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

/// `nativeProximity`
pub(crate) struct NativeProximity {
    fields: Vec<ProximityField>,
    /// How many neighbouring terms are paired.
    window: usize,
}

struct ProximityField {
    name: String,
    weight: f64,
    forward: Table,
    reverse: Table,
    importance: f64,
    max: f64,
}

impl NativeProximity {
    pub fn new(setup: &Setup<'_>, name: &FeatureName) -> Result<Self, String> {
        const FEATURE: &str = "nativeProximity";
        let of = |field: &SchemaField| {
            let forward = table(setup, FEATURE, field, "proximityTable")?;
            let reverse = table(setup, FEATURE, field, "reverseProximityTable")?;
            let importance = setup.properties.number(FEATURE, &field.name, "proximityImportance", 0.5)?;
            Ok(ProximityField {
                name: field.name.to_string(),
                weight: setup.weight(field),
                max: importance * table_max(setup, &forward)
                    + (1.0 - importance) * table_max(setup, &reverse),
                forward,
                reverse,
                importance,
            })
        };
        let fields = fields(setup, name, is_index)?.into_iter().map(of).collect::<Result<_, String>>()?;
        let window =
            setup.properties.number(FEATURE, "", "slidingWindowSize", 4.0)?.clamp(1.0, 100.0) as usize;
        Ok(NativeProximity { fields, window })
    }
}

/// Two terms of a field, and what being near is worth.
struct Pair<'q> {
    field: &'q ProximityField,
    leaves: (LeafId, LeafId),
    importance: f64,
}

impl Feature for NativeProximity {
    fn demands(&self) -> Demands {
        Demands { counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let (plan, matches) = (request.plan, request.matches);
        let importance = |id: TermId| significance(plan, matches, id) * weight(plan, id);
        let mut divisor = 0.0;
        let mut pairs = Vec::new();
        for field in &self.fields {
            let terms = terms_of(plan, &field.name);
            for (i, a) in terms.iter().enumerate() {
                for (distance, b) in terms[i + 1..].iter().take(self.window.saturating_sub(1)).enumerate() {
                    let connected = weakest(plan, &terms[i + 1..i + 2 + distance]) / (distance + 1) as f64;
                    let importance = field.weight * connected * (importance(a.term) + importance(b.term));
                    divisor += importance * field.max;
                    pairs.push(Pair { field, leaves: (a.leaf, b.leaf), importance });
                }
            }
        }
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            let out = values.numbers(chunk.len(), 0.0);
            for Pair { field, leaves, importance } in &pairs {
                let first = Positions::of(chunk.matches.leaf(leaves.0));
                let second = Positions::of(chunk.matches.leaf(leaves.1));
                for (out, (a, b)) in out.iter_mut().zip(first.zip(second)) {
                    let near = |table: &Table, distance: Option<u32>| {
                        distance.map_or(0.0, |distance| table.at(distance as usize - 1))
                    };
                    *out += importance
                        * (field.importance * near(&field.forward, distance(a, b))
                            + (1.0 - field.importance) * near(&field.reverse, distance(b, a)));
                }
            }
            if divisor != 0.0 {
                out.iter_mut().for_each(|score| *score /= divisor);
            }
        }))
    }
}

/// The weakest connection along a row of terms.
fn weakest(plan: &Plan, terms: &[FieldTerm]) -> f64 {
    terms.iter().map(|found| connectedness(plan, found.term)).fold(f64::INFINITY, f64::min)
}

/// The least distance from a position of `a` to a later one of `b`; both ascend.
pub(crate) fn distance(a: &[u32], b: &[u32]) -> Option<u32> {
    pair_at_distance(a, b).map(|(from, to)| to - from)
}

/// The pair of positions that are at that distance.
pub(crate) fn pair_at_distance(a: &[u32], b: &[u32]) -> Option<(u32, u32)> {
    let mut nearest: Option<(u32, u32)> = None;
    let mut before = a.iter().copied().peekable();
    let mut last = None;
    for &to in b {
        while let Some(from) = before.next_if(|from| *from < to) {
            last = Some(from);
        }
        if let Some(from) = last
            && nearest.is_none_or(|(a, b)| to - from < b - a)
        {
            nearest = Some((from, to));
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_is_to_the_nearest_later_position() {
        assert_eq!(distance(&[1, 10], &[4, 12]), Some(2));
        assert_eq!(distance(&[5], &[1, 2]), None);
        assert_eq!(distance(&[5], &[5, 9]), Some(4));
        assert_eq!(distance(&[], &[1]), None);
    }
}
