//! fieldMatch: a measure of the query's best segmentation in a field.

use std::collections::BTreeSet;

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::{LeafId, Plan, Predicate, TermId};

use super::lengths::{DocumentElements, ElementBoundaries};
use super::segmentation::{CONNECTEDNESS, FieldSegmentation, SegmentTerm, Settings};
use super::term::{
    DocumentLeaf, FieldTerm, connectedness, each_document, leaf, positioned_terms_of, significance, weight,
};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

struct FieldMatch {
    field: String,
    shape: ElementBoundaries,
    output: Output,
    parameters: SegmentParameters,
}

type Output = fn(&SegmentMetrics<'_>) -> f64;

/// Settings from rank properties.
struct SegmentParameters {
    segmentation: Settings,
    occurrences_max: f64,
    proximity_completeness: f64,
    relatedness: f64,
    earliness: f64,
    segment_proximity: f64,
    occurrence: f64,
    field_completeness: f64,
}

/// The outputs by name; the first is that of `fieldMatch(field)`.
const OUTPUTS: [(&str, Output); 30] = [
    ("match", |m| m.total()),
    ("proximity", |m| m.proximity()),
    ("completeness", |m| m.completeness()),
    ("queryCompleteness", |m| m.query_completeness()),
    ("fieldCompleteness", |m| m.field_completeness()),
    ("orderness", |m| m.orderness()),
    ("relatedness", |m| m.relatedness()),
    ("earliness", |m| m.earliness()),
    ("longestSequenceRatio", |m| m.of(|s| s.longest_sequence) / m.matches()),
    ("segmentProximity", |m| m.segment_proximity()),
    ("unweightedProximity", |m| m.unweighted_proximity()),
    ("absoluteProximity", |m| m.absolute_proximity()),
    ("occurrence", |m| m.occurrence()),
    ("absoluteOccurrence", |m| m.absolute_occurrence(|_| 1.0)),
    ("weightedOccurrence", |m| m.relative_occurrence(|term| term.weight)),
    ("weightedAbsoluteOccurrence", |m| m.absolute_occurrence(|term| term.weight)),
    ("significantOccurrence", |m| m.relative_occurrence(|term| term.significance)),
    ("weight", |m| m.weight()),
    ("significance", |m| m.significance()),
    ("importance", |m| (m.weight() + m.significance()) / 2.0),
    ("segments", |m| m.of(|s| s.segments)),
    ("matches", |m| m.matches()),
    ("degradedMatches", |m| m.degraded.len() as f64),
    ("outOfOrder", |m| m.of(|s| s.out_of_order)),
    ("gaps", |m| m.of(|s| s.gaps)),
    ("gapLength", |m| m.of(|s| s.gap_length)),
    ("longestSequence", |m| m.of(|s| s.longest_sequence)),
    ("head", |m| m.offset(|s| s.first)),
    ("tail", |m| m.tail()),
    ("segmentDistance", |m| m.of(FieldSegmentation::segment_distance)),
];

/// The names of the outputs.
pub(super) fn outputs() -> impl Iterator<Item = &'static str> {
    OUTPUTS.iter().map(|(name, _)| *name)
}

/// `fieldMatch(field)` and its outputs.
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let (shape, field) = (ElementBoundaries::of(field), field.name.to_string());
    let wanted = name.output.as_deref().unwrap_or("match");
    let Some((_, output)) = OUTPUTS.iter().find(|(known, _)| *known == wanted) else {
        return Err(Error::setup(format!(
            "{name}: fieldMatch has the outputs {}",
            OUTPUTS.map(|(known, _)| known).join(", ")
        )));
    };
    let number = |property, default| setup.properties.number("fieldMatch", &field, property, default);
    let limit = number("proximityLimit", 10.0)?.clamp(1.0, 1000.0) as u32;
    let segmentation = Settings {
        limit,
        proximity: proximity_table(setup, &field, limit)?,
        alternatives: number("maxAlternativeSegmentations", 10_000.0)?.clamp(0.0, 10_000.0) as u32,
    };
    let parameters = SegmentParameters {
        segmentation,
        occurrences_max: number("maxOccurrences", 100.0)?.max(1.0),
        proximity_completeness: number("proximityCompletenessImportance", 0.9)?,
        relatedness: number("relatednessImportance", 0.9)?,
        earliness: number("earlinessImportance", 0.05)?,
        segment_proximity: number("segmentProximityImportance", 0.05)?,
        occurrence: number("occurrenceImportance", 0.05)?,
        field_completeness: number("fieldCompletenessImportance", 0.05)?,
    };
    Ok(Box::new(FieldMatch { field, shape, output: *output, parameters }))
}

/// Value of each distance, rounded to hundredths: it halves every two positions; a backward distance counts
/// a third.
fn proximity_table(setup: &FeatureSetup<'_>, field: &str, limit: u32) -> Result<Vec<f64>, Error> {
    let own = setup.properties.numbers("fieldMatch", field, "proximityTable")?;
    if own.is_empty() {
        let forward = |i: u32| 0.5f64.powf(f64::from(i) / 2.0);
        let worth = (0..limit).rev().map(|i| forward(i) / 3.0).chain((0..=limit).map(forward));
        return Ok(worth.map(|worth| (worth * 100.0).round() / 100.0).collect());
    }
    let wanted = limit as usize * 2 + 1;
    if own.len() == wanted {
        return Ok(own);
    }
    Err(Error::setup(format!(
        "rank property fieldMatch({field}).proximityTable needs {wanted} values for a proximityLimit of {limit}, found {}",
        own.len()
    )))
}

/// The query from the point of view of one field.
struct FieldQuery {
    /// Terms in query order. Each word of a phrase is a term; equivalents are one term, even if some are
    /// phrases.
    terms: Vec<QueryTerm>,
    /// Weight of all query terms, including those that search other fields, unless the request says another.
    weight: f64,
    significance: f64,
}

struct QueryTerm {
    term: TermId,
    /// Leaves that find the term; several for equivalents of which some are phrases.
    leaves: Vec<LeafId>,
    /// Number of words before it in its phrase.
    offset: u32,
    weight: f64,
    significance: f64,
}

impl FieldQuery {
    fn new(request: &FeatureRequest<'_>, field: &str) -> Self {
        let (plan, matches) = (request.plan, request.matches);
        let all = || (0..plan.terms.len()).map(TermId);
        let words = |same: &[FieldTerm]| {
            let (term, count) = (same[0].term, words(plan, same));
            let leaves: Vec<LeafId> = same.iter().map(|found| found.leaf).collect();
            (0..count).map(move |offset| QueryTerm {
                term,
                leaves: leaves.clone(),
                offset,
                weight: weight(plan, term) / f64::from(count),
                significance: significance(plan, matches, term) / f64::from(count),
            })
        };
        let found = positioned_terms_of(request, field);
        let said = |total: &str| -> Option<f64> {
            let text = plan.query.ranking.properties.get(&format!("fieldMatch({field}).{total}"))?;
            text.trim().parse::<f64>().ok().filter(|total| *total > 0.0)
        };
        FieldQuery {
            terms: found.chunk_by(|one, other| one.term == other.term).flat_map(words).collect(),
            weight: said("totalTermWeight").unwrap_or_else(|| all().map(|id| weight(plan, id)).sum()),
            significance: said("totalTermSignificance")
                .unwrap_or_else(|| all().map(|id| significance(plan, matches, id)).sum()),
        }
    }
}

/// Number of words of a term: those of a phrase, otherwise 1.
fn words(plan: &Plan, same: &[FieldTerm]) -> u32 {
    match same {
        [only] => match leaf(plan, only.leaf).map(|leaf| &leaf.predicate) {
            Some(Predicate::Words(words)) => (words.len() as u32).max(1),
            _ => 1,
        },
        _ => 1,
    }
}

impl RankFeature for FieldMatch {
    fn demands(&self) -> RankingDemands {
        RankingDemands { leaves: true, counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let query = FieldQuery::new(request, &self.field);
        let connectedness: Vec<f64> =
            query.terms.iter().map(|term| connectedness(request.plan, term.term)).collect();
        let average_connectedness = average(&connectedness);
        let shape = self.shape.bind(&self.field, request);
        // All leaves, each with the number of its term.
        let of_term = |(number, term): (usize, &QueryTerm)| {
            term.leaves.iter().map(move |leaf| (*leaf, number)).collect::<Vec<_>>()
        };
        let (leaves, of): (Vec<LeafId>, Vec<usize>) =
            query.terms.iter().enumerate().flat_map(of_term).unzip();
        // Positions of each term that matches one document.
        let mut positions: Vec<Vec<u32>> = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            each_document(chunk.matches, &leaves, |document, found| {
                let same_term =
                    |one: &DocumentLeaf<'_>, other: &DocumentLeaf<'_>| of[one.number] == of[other.number];
                for (matched, found) in found.chunk_by(same_term).enumerate() {
                    if positions.len() == matched {
                        positions.push(Vec::new());
                    }
                    let (term, here) = (&query.terms[of[found[0].number]], &mut positions[matched]);
                    here.clear();
                    here.extend(found.iter().flat_map(|leaf| leaf.positions).map(|at| at + term.offset));
                    if found.len() > 1 {
                        here.sort_unstable();
                        here.dedup();
                    }
                }
                // The terms that match; those between that do not are one, which is as good as several.
                let (mut terms, mut degraded) = (Vec::with_capacity(2 * found.len() + 1), Vec::new());
                let mut next = 0;
                for (found, here) in found.chunk_by(same_term).zip(&positions) {
                    let number = of[found[0].number];
                    let QueryTerm { weight, significance, .. } = query.terms[number];
                    let connectedness = connectedness[number];
                    let term = SegmentTerm { positions: here, connectedness, weight, significance };
                    if here.is_empty() {
                        degraded.push(term);
                        continue;
                    }
                    if number > next {
                        terms.push(SegmentTerm::ABSENT);
                    }
                    terms.push(term);
                    next = number + 1;
                }
                if next < query.terms.len() {
                    terms.push(SegmentTerm::ABSENT);
                }
                let elements = shape.elements(chunk, usize::from(chunk.matches.documents[document]));
                let longest = elements.longest(terms.iter().flat_map(|here| here.positions.iter().copied()));
                let settings = &self.parameters.segmentation;
                let metrics = SegmentMetrics {
                    query: &query,
                    parameters: &self.parameters,
                    segmentation: FieldSegmentation::best(settings, &terms, elements.words()),
                    degraded,
                    average_connectedness,
                    terms: &terms,
                    elements: &elements,
                    length: f64::from(longest),
                };
                if metrics.matches() > 0.0 {
                    out[document] = (self.output)(&metrics);
                }
            });
        }))
    }
}

/// Average connectedness of all terms with their predecessors.
fn average(connectedness: &[f64]) -> f64 {
    match connectedness.get(1..) {
        Some(pairs @ [_, ..]) => {
            pairs.iter().map(|pair| pair.max(CONNECTEDNESS)).sum::<f64>() / pairs.len() as f64
        }
        _ => CONNECTEDNESS,
    }
}

/// Results of a segmentation.
struct SegmentMetrics<'m> {
    query: &'m FieldQuery,
    parameters: &'m SegmentParameters,
    /// The segmentation; `None` if no term has positions.
    segmentation: Option<FieldSegmentation>,
    /// Terms that match without positions.
    degraded: Vec<SegmentTerm<'m>>,
    average_connectedness: f64,
    terms: &'m [SegmentTerm<'m>],
    elements: &'m DocumentElements,
    /// Length of the longest element with a position.
    length: f64,
}

impl SegmentMetrics<'_> {
    /// A count of the segmentation; 0 without a segmentation.
    fn of(&self, count: impl Fn(&FieldSegmentation) -> u32) -> f64 {
        self.segmentation.as_ref().map_or(0.0, |segmentation| f64::from(count(segmentation)))
    }

    /// A position of the segmentation, counted from the start of its element; 0 without a segmentation.
    fn offset(&self, position: impl Fn(&FieldSegmentation) -> u32) -> f64 {
        let segmentation = self.segmentation.as_ref();
        segmentation.map_or(0.0, |segmentation| f64::from(self.elements.offset(position(segmentation))))
    }

    fn tail(&self) -> f64 {
        let after = |_: &FieldSegmentation| (self.length - 1.0 - self.offset(|s| s.last)).max(0.0);
        self.segmentation.as_ref().map_or(0.0, after)
    }

    fn matches(&self) -> f64 {
        self.of(|segmentation| segmentation.matches) + self.degraded.len() as f64
    }

    /// Share of the matching terms in the weight of the whole query.
    fn weight(&self) -> f64 {
        let of = |segmentation: &FieldSegmentation| segmentation.weight;
        self.share(of, |term| term.weight, self.query.weight)
    }

    /// Share of the matching terms in the significance of the whole query.
    fn significance(&self) -> f64 {
        let of = |segmentation: &FieldSegmentation| segmentation.significance;
        self.share(of, |term| term.significance, self.query.significance)
    }

    fn share(
        &self,
        of: impl Fn(&FieldSegmentation) -> f64,
        of_term: impl Fn(&SegmentTerm<'_>) -> f64,
        whole: f64,
    ) -> f64 {
        let matched = self.segmentation.as_ref().map_or(0.0, of);
        share(matched + self.degraded.iter().map(of_term).sum::<f64>(), whole)
    }

    fn orderness(&self) -> f64 {
        match &self.segmentation {
            None => 0.0,
            Some(s) if s.pairs > 0 => 1.0 - f64::from(s.out_of_order) / f64::from(s.pairs),
            Some(_) => 1.0,
        }
    }

    fn query_completeness(&self) -> f64 {
        self.matches() / self.query.terms.len() as f64
    }

    fn field_completeness(&self) -> f64 {
        (self.matches() / self.length.max(1.0)).min(1.0)
    }

    fn completeness(&self) -> f64 {
        let importance = self.parameters.field_completeness;
        self.query_completeness() * (1.0 - importance) + importance * self.field_completeness()
    }

    fn relatedness(&self) -> f64 {
        let (matches, segments) = (self.of(|s| s.matches), self.of(|s| s.segments));
        if matches < 2.0 { matches } else { 1.0 - (segments - 1.0) / (matches - 1.0) }
    }

    fn earliness(&self) -> f64 {
        let head = self.offset(|s| s.first);
        self.segmentation.as_ref().map_or(0.0, |_| 1.0 - head / (self.length.max(6.0) - 1.0))
    }

    fn segment_proximity(&self) -> f64 {
        (1.0 - self.of(FieldSegmentation::segment_distance) / self.length.max(1.0)).max(0.0)
    }

    /// 1 if no two terms share a segment; the number of segments penalizes that case.
    fn unweighted_proximity(&self) -> f64 {
        match &self.segmentation {
            None => 0.0,
            Some(s) if s.pairs > 0 => s.proximity / f64::from(s.pairs),
            Some(_) => 1.0,
        }
    }

    fn absolute_proximity(&self) -> f64 {
        self.segmentation.as_ref().map_or(0.0, FieldSegmentation::absolute_proximity)
    }

    fn proximity(&self) -> f64 {
        self.absolute_proximity() / self.average_connectedness
    }

    /// Each term with positions, and the number of these, capped. Of terms that first occur at the same
    /// position, one counts.
    fn occurrence_counts(&self) -> Vec<(&SegmentTerm<'_>, f64)> {
        let occurrences_max = self.parameters.occurrences_max;
        let mut firsts = BTreeSet::new();
        let unique =
            self.terms.iter().filter(|term| term.positions.first().is_some_and(|at| firsts.insert(*at)));
        unique.map(|term| (term, (term.positions.len() as f64).min(occurrences_max))).collect()
    }

    /// All occurrences relative to the number that fits into the field.
    fn occurrence(&self) -> f64 {
        let counts = self.occurrence_counts();
        let room = self.length.min(self.parameters.occurrences_max * counts.len() as f64);
        share(counts.iter().map(|(_, count)| count).sum(), room).min(1.0)
    }

    /// Occurrences of each term, weighted by a factor, relative to the maximum.
    fn occurrences(&self, factor: impl Fn(&SegmentTerm<'_>) -> f64, occurrences_max: f64) -> f64 {
        let counts = self.occurrence_counts();
        let counted: f64 = counts.iter().map(|(term, count)| factor(term) * count).sum();
        let whole: f64 = counts.iter().map(|(term, _)| factor(term) * occurrences_max).sum();
        share(counted, whole).min(1.0)
    }

    /// Occurrences relative to the length of the field.
    fn relative_occurrence(&self, factor: impl Fn(&SegmentTerm<'_>) -> f64) -> f64 {
        self.occurrences(factor, self.length.min(self.parameters.occurrences_max))
    }

    /// Occurrences independent of the length of the field.
    fn absolute_occurrence(&self, factor: impl Fn(&SegmentTerm<'_>) -> f64) -> f64 {
        self.occurrences(factor, self.parameters.occurrences_max)
    }

    fn total(&self) -> f64 {
        let p = self.parameters;
        let related = 1.0 - p.relatedness + p.relatedness * self.relatedness();
        let sum =
            p.proximity_completeness * related * self.proximity() * self.completeness() * self.completeness()
                + p.earliness * self.earliness()
                + p.segment_proximity * self.segment_proximity()
                + p.occurrence * self.occurrence();
        sum / (p.proximity_completeness + p.earliness + p.segment_proximity + p.occurrence)
    }
}

/// `part / whole`; 0 if there is nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
