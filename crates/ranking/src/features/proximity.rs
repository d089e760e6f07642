//! Proximity of the query's words in a document.

use millrace_column::ColumnKey;
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{LeafMatches, RankingDemands};
use millrace_plan::{LeafId, Plan, TermId};
use millrace_schema::SchemaField;

use super::boost::BoostTable;
use super::native::{fields, is_index, table, table_max};
use super::term::{FieldTerm, connectedness, each_match, positioned_terms_of, significance, weight};
use super::{
    ClosureExecutor, ColumnSlot, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    RankFeature,
};
use crate::Error;

/// `nativeProximity`
pub(crate) struct NativeProximity {
    fields: Vec<ProximityField>,
    /// Number of consecutive terms within which terms are paired.
    window: usize,
}

struct ProximityField {
    name: String,
    /// True if the text may have several elements.
    has_elements: bool,
    /// True if each value is one word: no two words are ever near each other.
    is_values: bool,
    weight: f64,
    forward: BoostTable,
    reverse: BoostTable,
    importance: f64,
    max: f64,
    gap: ElementGap,
}

/// Gap between neighbouring elements of a field.
#[derive(Clone, Copy)]
enum ElementGap {
    /// The gap of the query, or of the rank profile.
    OfPlan,
    /// A number of words, from the rank properties of the feature.
    Words(u32),
    /// No words of two elements are near.
    Infinite,
}

impl NativeProximity {
    pub fn new(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Self, Error> {
        const FEATURE: &str = "nativeProximity";
        let of = |field: &SchemaField| {
            let forward = table(setup, FEATURE, field, "proximityTable")?;
            let reverse = table(setup, FEATURE, field, "reverseProximityTable")?;
            let importance = setup.properties.number(FEATURE, &field.name, "proximityImportance", 0.5)?;
            Ok(ProximityField {
                name: field.name.to_string(),
                has_elements: field.data_type != DataType::String || field.name.contains('.'),
                is_values: field.is_value_word(),
                weight: setup.weight(field),
                max: importance * table_max(setup, &forward)
                    + (1.0 - importance) * table_max(setup, &reverse),
                forward,
                reverse,
                importance,
                gap: element_gap(setup, FEATURE, &field.name)?,
            })
        };
        let fields = fields(setup, name, is_index)?.into_iter().map(of).collect::<Result<_, Error>>()?;
        let window =
            setup.properties.number(FEATURE, "", "slidingWindowSize", 4.0)?.clamp(1.0, 100.0) as usize;
        Ok(NativeProximity { fields, window })
    }
}

/// `nativeProximity.elementGap.field` of the rank properties.
fn element_gap(setup: &FeatureSetup<'_>, feature: &str, field: &str) -> Result<ElementGap, Error> {
    match setup.properties.text(feature, field, "elementGap") {
        None => Ok(ElementGap::OfPlan),
        Some("infinity") => Ok(ElementGap::Infinite),
        Some(_) => {
            let gap = setup.properties.number(feature, field, "elementGap", 0.0)?;
            Ok(ElementGap::Words(gap.max(0.0) as u32))
        }
    }
}

/// Two terms of a field, and the value of their proximity.
struct TermPair<'q> {
    field: &'q ProximityField,
    /// Numbers of the terms; the first ascends from pair to pair.
    terms: (usize, usize),
    importance: f64,
    elements: Option<TextElements>,
}

/// Ends of the elements of a field, and the gap between neighbouring elements; without a gap, words of two
/// elements are never near.
#[derive(Clone, Copy)]
struct TextElements {
    tokens: ColumnSlot,
    gap: Option<u32>,
}

impl RankFeature for NativeProximity {
    fn demands(&self) -> RankingDemands {
        RankingDemands { leaves: true, counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let (plan, matches) = (request.plan, request.matches);
        let importance = |id: TermId| significance(plan, matches, id) * weight(plan, id);
        let mut divisor = 0.0;
        let (mut pairs, mut leaves): (Vec<TermPair<'q>>, Vec<LeafId>) = Default::default();
        for field in &self.fields {
            let terms = positioned_terms_of(request, &field.name);
            let elements =
                (field.has_elements && !field.is_values && terms.len() > 1).then(|| TextElements {
                    tokens: request.column(ColumnKey::tokens(&field.name)),
                    gap: match field.gap {
                        ElementGap::OfPlan => plan.element_gap(&field.name),
                        ElementGap::Words(words) => Some(words),
                        ElementGap::Infinite => None,
                    },
                });
            let first = leaves.len();
            leaves.extend(terms.iter().map(|found| found.leaf));
            for (i, a) in terms.iter().enumerate() {
                for (distance, b) in terms[i + 1..].iter().take(self.window.saturating_sub(1)).enumerate() {
                    let connected = weakest(plan, &terms[i + 1..i + 2 + distance]) / (distance + 1) as f64;
                    let importance = field.weight * connected * (importance(a.term) + importance(b.term));
                    divisor += importance * field.max;
                    if !field.is_values {
                        let terms = (first + i, first + i + 1 + distance);
                        pairs.push(TermPair { field, terms, importance, elements });
                    }
                }
            }
        }
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let mut lists: Vec<Option<MatchedPositions<'_>>> = leaves.iter().map(|_| None).collect();
            for TermPair { field, terms, importance, elements } in &pairs {
                for term in [terms.0, terms.1] {
                    let list = || matched_positions(chunk.matches.leaf(leaves[term]));
                    lists[term].get_or_insert_with(list);
                }
                if let Some(before) = terms.0.checked_sub(1) {
                    // It is in no pair any more.
                    lists[before] = None;
                }
                let (Some(first), Some(second)) = (&lists[terms.0], &lists[terms.1]) else { continue };
                let tokens = elements.and_then(|elements| Some((elements, chunk.tokens(elements.tokens)?)));
                for_both(first, second, |row, a, b| {
                    let (forward, reverse) = match tokens {
                        Some((elements, tokens)) => {
                            let text = tokens.document(usize::from(chunk.matches.documents[row]));
                            let distance = |from, to| text.distance(from, to, elements.gap);
                            (nearest(a, b, distance), nearest(b, a, distance))
                        }
                        None => distances(a, b),
                    };
                    let near = |table: &BoostTable, distance: Option<u32>| {
                        distance.map_or(0.0, |distance| table.at((distance as usize).saturating_sub(1)))
                    };
                    out[row] += importance
                        * (field.importance * near(&field.forward, forward)
                            + (1.0 - field.importance) * near(&field.reverse, reverse));
                });
            }
            if divisor != 0.0 {
                out.iter_mut().for_each(|score| *score /= divisor);
            }
        }))
    }
}

/// The documents with positions of a term, ascending, each with these.
type MatchedPositions<'a> = Vec<(usize, &'a [u32])>;

fn matched_positions(found: &LeafMatches) -> MatchedPositions<'_> {
    let mut matched = Vec::new();
    each_match(found, |document, _, positions| {
        if !positions.is_empty() {
            matched.push((document, positions));
        }
    });
    matched
}

/// Calls `each` with the documents that both terms have positions in, and with these.
fn for_both(a: &[(usize, &[u32])], b: &[(usize, &[u32])], mut each: impl FnMut(usize, &[u32], &[u32])) {
    let mut rest = b;
    for &(document, positions) in a {
        while let [(other, _), after @ ..] = rest
            && *other < document
        {
            rest = after;
        }
        if let Some(&(other, others)) = rest.first()
            && other == document
        {
            each(document, positions, others);
        }
    }
}

/// The weakest connection within a sequence of terms.
fn weakest(plan: &Plan, terms: &[FieldTerm]) -> f64 {
    terms.iter().map(|found| connectedness(plan, found.term)).fold(f64::INFINITY, f64::min)
}

/// The smallest distance from a position of `a` to a later one of `b`; both ascend. `distance` must grow with
/// the number of positions in between.
fn nearest(a: &[u32], b: &[u32], distance: impl Fn(u32, u32) -> Option<u32>) -> Option<u32> {
    neighbours(a, b).filter_map(|(from, to)| distance(from, to)).min()
}

/// The smallest distances from a position of `a` to a later one of `b`, and from one of `b` to a later one of
/// `a`; both ascend.
fn distances(a: &[u32], b: &[u32]) -> (Option<u32>, Option<u32>) {
    let (mut forward, mut reverse) = (u32::MAX, u32::MAX);
    let (mut before, mut after) = (0, 0);
    // The number of positions before the one that is looked at tells whether there is one to measure from.
    while let (Some(from), Some(to)) = (a.get(before), b.get(after)) {
        if from <= to && after > 0 {
            reverse = reverse.min(from - b[after - 1]);
        }
        if to <= from && before > 0 {
            forward = forward.min(to - a[before - 1]);
        }
        (before, after) = (before + usize::from(from <= to), after + usize::from(to <= from));
    }
    // Later positions of the longer list are farther away.
    if let (Some(from), Some(last)) = (a.get(before), b.last()) {
        reverse = reverse.min(from - last);
    }
    if let (Some(to), Some(last)) = (b.get(after), a.last()) {
        forward = forward.min(to - last);
    }
    let found = |distance: u32| (distance != u32::MAX).then_some(distance);
    (found(forward), found(reverse))
}

/// The nearest pair of a position of `a` and a later one of `b`; both ascend.
pub(crate) fn pair_at_distance(a: &[u32], b: &[u32]) -> Option<(u32, u32)> {
    neighbours(a, b).min_by_key(|(from, to)| to - from)
}

/// Pairs of a position of `a` and the first later position of `b`, without another position of `a` in
/// between.
fn neighbours(a: &[u32], b: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let mut before = a.iter().copied().peekable();
    let mut last = None;
    b.iter().filter_map(move |&to| {
        while let Some(from) = before.next_if(|from| *from < to) {
            last = Some(from);
        }
        last.take().map(|from| (from, to))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{distances, nearest};

    proptest! {
        #[test]
        fn both_distances_are_those_of_each_direction(
            a in proptest::collection::btree_set(0u32..40, 0..12),
            b in proptest::collection::btree_set(0u32..40, 0..12),
        ) {
            let (a, b) = (Vec::from_iter(a), Vec::from_iter(b));
            let between = |from: u32, to: u32| Some(to - from);
            prop_assert_eq!(distances(&a, &b), (nearest(&a, &b, between), nearest(&b, &a, between)));
        }
    }

    #[test]
    fn distance_is_to_the_nearest_later_position() {
        let distance = |a: &[u32], b: &[u32]| nearest(a, b, |from, to| Some(to - from));
        assert_eq!(distance(&[1, 10], &[4, 12]), Some(2));
        assert_eq!(distance(&[5], &[1, 2]), None);
        assert_eq!(distance(&[5], &[5, 9]), Some(4));
        assert_eq!(distance(&[], &[1]), None);
    }
}
