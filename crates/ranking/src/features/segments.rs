//! fieldMatch: the query's terms found in the field, segment by segment.
//!
//! Terms are looked up in the query's order. From where one was found, the next is looked for to the right, at most
//! [`Parameters::limit`] positions away, and then as far to the left; found there, it belongs to the same segment. Found only
//! farther away, it begins a new one. Terms that the field lacks are passed over. The first segmentation found so is taken.

use millrace_column::ColumnKey;
use millrace_expression::FeatureName;
use millrace_matching::Demands;
use millrace_plan::TermId;

use super::bm25::field_lengths;
use super::term::{FieldTerm, Positions, connectedness, significance, terms_of, weight};
use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

struct FieldMatch {
    field: String,
    output: Output,
    parameters: Parameters,
}

type Output = fn(&Metrics<'_>) -> f64;

/// What rank properties can set.
struct Parameters {
    limit: u32,
    occurrences_max: f64,
    proximity_completeness: f64,
    relatedness: f64,
    earliness: f64,
    segment_proximity: f64,
    occurrence: f64,
    field_completeness: f64,
}

/// The outputs by name; the first is that of `fieldMatch(field)`.
const OUTPUTS: [(&str, Output); 29] = [
    ("match", |m| m.total()),
    ("proximity", |m| m.proximity()),
    ("completeness", |m| m.completeness()),
    ("queryCompleteness", |m| m.query_completeness()),
    ("fieldCompleteness", |m| m.field_completeness()),
    ("orderness", |m| if m.pairs > 0.0 { 1.0 - m.out_of_order / m.pairs } else { 1.0 }),
    ("relatedness", |m| m.relatedness()),
    ("earliness", |m| m.earliness()),
    ("longestSequenceRatio", |m| m.longest_sequence / m.matches),
    ("segmentProximity", |m| m.segment_proximity()),
    ("unweightedProximity", |m| m.unweighted_proximity()),
    ("absoluteProximity", |m| m.absolute_proximity()),
    ("occurrence", |m| m.occurrence(|_| 1.0)),
    ("absoluteOccurrence", |m| m.absolute_occurrence(|_| 1.0)),
    ("weightedOccurrence", |m| m.occurrence(|term| term.weight)),
    ("weightedAbsoluteOccurrence", |m| m.absolute_occurrence(|term| term.weight)),
    ("significantOccurrence", |m| m.occurrence(|term| term.significance)),
    ("weight", |m| m.share(|term| term.weight, m.query.weight)),
    ("significance", |m| m.share(|term| term.significance, m.query.significance)),
    ("importance", |m| {
        (m.share(|term| term.weight, m.query.weight)
            + m.share(|term| term.significance, m.query.significance))
            / 2.0
    }),
    ("segments", |m| m.segments),
    ("matches", |m| m.matches),
    ("outOfOrder", |m| m.out_of_order),
    ("gaps", |m| m.gaps),
    ("gapLength", |m| m.gap_length),
    ("longestSequence", |m| m.longest_sequence),
    ("head", |m| f64::from(m.first)),
    ("tail", |m| (m.length - 1.0 - f64::from(m.last)).max(0.0)),
    ("segmentDistance", |m| m.segment_distance),
];

/// `fieldMatch(field)` and its outputs.
pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let field = setup.text_field(name, 0)?.name.to_string();
    let wanted = name.output.as_deref().unwrap_or("match");
    let Some((_, output)) = OUTPUTS.iter().find(|(known, _)| *known == wanted) else {
        return Err(format!(
            "{name}: fieldMatch has the outputs {}",
            OUTPUTS.map(|(known, _)| known).join(", ")
        ));
    };
    let number = |property, default| setup.properties.number("fieldMatch", &field, property, default);
    let parameters = Parameters {
        limit: number("proximityLimit", 10.0)?.clamp(1.0, 1000.0) as u32,
        occurrences_max: number("maxOccurrences", 100.0)?.max(1.0),
        proximity_completeness: number("proximityCompletenessImportance", 0.9)?,
        relatedness: number("relatednessImportance", 0.9)?,
        earliness: number("earlinessImportance", 0.05)?,
        segment_proximity: number("segmentProximityImportance", 0.05)?,
        occurrence: number("occurrenceImportance", 0.05)?,
        field_completeness: number("fieldCompletenessImportance", 0.05)?,
    };
    Ok(Box::new(FieldMatch { field, output: *output, parameters }))
}

/// The query as one field sees it.
struct Query {
    terms: Vec<QueryTerm>,
    /// Of all terms of the query, whatever they search.
    weight: f64,
    significance: f64,
}

struct QueryTerm {
    found: FieldTerm,
    weight: f64,
    significance: f64,
    connectedness: f64,
}

impl Feature for FieldMatch {
    fn demands(&self) -> Demands {
        Demands { counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let (plan, matches) = (request.plan, request.matches);
        let all = || (0..plan.terms.len()).map(TermId);
        let term = |found: FieldTerm| QueryTerm {
            found,
            weight: weight(plan, found.term),
            significance: significance(plan, matches, found.term),
            connectedness: connectedness(plan, found.term),
        };
        let query = Query {
            terms: terms_of(plan, &self.field).into_iter().map(term).collect(),
            weight: all().map(|id| weight(plan, id)).sum(),
            significance: all().map(|id| significance(plan, matches, id)).sum(),
        };
        let tokens = request.column(ColumnKey::tokens(&self.field));
        let mut lengths = Vec::new();
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            field_lengths(chunk, chunk.tokens(tokens), &mut lengths);
            let mut lists: Vec<Positions<'_>> =
                query.terms.iter().map(|term| Positions::of(chunk.matches.leaf(term.found.leaf))).collect();
            let out = values.numbers(chunk.len(), 0.0);
            for (out, length) in out.iter_mut().zip(&lengths) {
                let positions: Vec<&[u32]> =
                    lists.iter_mut().map(|list| list.next().unwrap_or_default()).collect();
                if let Some(metrics) = Metrics::new(&query, &self.parameters, &positions, *length) {
                    *out = (self.output)(&metrics);
                }
            }
        }))
    }
}

/// What a segmentation amounts to.
struct Metrics<'m> {
    query: &'m Query,
    parameters: &'m Parameters,
    positions: &'m [&'m [u32]],
    length: f64,
    matches: f64,
    segments: f64,
    /// Pairs of terms that follow each other in a segment.
    pairs: f64,
    out_of_order: f64,
    gaps: f64,
    gap_length: f64,
    longest_sequence: f64,
    segment_distance: f64,
    /// The first and the last position of any segment.
    first: u32,
    last: u32,
    /// Sums over pairs: of proximity, of proximity times connectedness, of connectedness.
    proximity_sum: f64,
    weighted_sum: f64,
    connectedness_sum: f64,
}

impl<'m> Metrics<'m> {
    /// Segments a field; `None` where no term matches. `positions` are those of each of the query's terms, ascending.
    fn new(
        query: &'m Query,
        parameters: &'m Parameters,
        positions: &'m [&'m [u32]],
        length: f64,
    ) -> Option<Self> {
        let mut found = positions.iter().enumerate().filter(|(_, positions)| !positions.is_empty());
        let (_, first) = found.next()?;
        let begin = first[0];
        let mut metrics = Metrics {
            query,
            parameters,
            positions,
            length,
            matches: 1.0,
            segments: 1.0,
            pairs: 0.0,
            out_of_order: 0.0,
            gaps: 0.0,
            gap_length: 0.0,
            longest_sequence: 1.0,
            segment_distance: 0.0,
            first: begin,
            last: begin,
            proximity_sum: 0.0,
            weighted_sum: 0.0,
            connectedness_sum: 0.0,
        };
        let (mut at, mut sequence, mut starts) = (begin, 1.0, vec![begin]);
        for (term, positions) in found {
            metrics.matches += 1.0;
            let (next, near) = next_position(positions, at, parameters.limit);
            if near {
                metrics.step(at, next, query.terms[term].connectedness);
            } else {
                metrics.segments += 1.0;
                starts.push(next);
            }
            sequence = if near && next == at + 1 { sequence + 1.0 } else { 1.0 };
            metrics.longest_sequence = metrics.longest_sequence.max(sequence);
            metrics.first = metrics.first.min(next);
            metrics.last = metrics.last.max(next);
            at = next;
        }
        starts.sort_unstable();
        metrics.segment_distance = starts.windows(2).map(|pair| f64::from(pair[1] - pair[0])).sum();
        Some(metrics)
    }

    /// From one term to the next in a segment.
    fn step(&mut self, from: u32, to: u32, connectedness: f64) {
        self.pairs += 1.0;
        let distance = f64::from(to) - f64::from(from);
        if distance < 0.0 {
            self.out_of_order += 1.0;
        }
        if distance != 1.0 {
            self.gaps += 1.0;
            self.gap_length += if distance > 0.0 { distance - 1.0 } else { -distance };
        }
        // Halved by every two positions in between; backward a third of that.
        let proximity = match distance > 0.0 {
            true => 0.5f64.powf((distance - 1.0) / 2.0),
            false => 0.5f64.powf((-distance - 1.0).max(0.0) / 2.0) / 3.0,
        };
        self.proximity_sum += proximity;
        self.weighted_sum += proximity * connectedness;
        self.connectedness_sum += connectedness;
    }

    fn query_completeness(&self) -> f64 {
        self.matches / self.query.terms.len() as f64
    }

    fn field_completeness(&self) -> f64 {
        (self.matches / self.length.max(1.0)).min(1.0)
    }

    fn completeness(&self) -> f64 {
        let importance = self.parameters.field_completeness;
        self.query_completeness() * (1.0 - importance) + importance * self.field_completeness()
    }

    fn relatedness(&self) -> f64 {
        if self.matches < 2.0 { 1.0 } else { 1.0 - (self.segments - 1.0) / (self.matches - 1.0) }
    }

    fn earliness(&self) -> f64 {
        1.0 - f64::from(self.first) / (self.length.max(6.0) - 1.0)
    }

    fn segment_proximity(&self) -> f64 {
        (1.0 - self.segment_distance / self.length.max(1.0)).max(0.0)
    }

    /// 1 where no two terms are in one segment: how many segments there are tells of that.
    fn unweighted_proximity(&self) -> f64 {
        if self.pairs > 0.0 { self.proximity_sum / self.pairs } else { 1.0 }
    }

    fn absolute_proximity(&self) -> f64 {
        if self.pairs > 0.0 { self.weighted_sum / self.pairs } else { 0.1 }
    }

    fn proximity(&self) -> f64 {
        if self.connectedness_sum > 0.0 { self.weighted_sum / self.connectedness_sum } else { 1.0 }
    }

    /// The sum over the terms of a factor times how often the term occurs, against the most that counts.
    fn occurrences(&self, factor: impl Fn(&QueryTerm) -> f64, most: f64) -> f64 {
        let most = most.min(self.parameters.occurrences_max).max(1.0);
        let terms = || self.query.terms.iter().zip(self.positions);
        let counted: f64 = terms().map(|(term, found)| factor(term) * (found.len() as f64).min(most)).sum();
        let whole: f64 = terms().map(|(term, _)| factor(term) * most).sum();
        if whole > 0.0 { counted / whole } else { 0.0 }
    }

    fn occurrence(&self, factor: impl Fn(&QueryTerm) -> f64) -> f64 {
        self.occurrences(factor, self.length)
    }

    fn absolute_occurrence(&self, factor: impl Fn(&QueryTerm) -> f64) -> f64 {
        self.occurrences(factor, f64::INFINITY)
    }

    /// What the terms that match have of the whole query.
    fn share(&self, of: impl Fn(&QueryTerm) -> f64, whole: f64) -> f64 {
        let terms = self.query.terms.iter().zip(self.positions).filter(|(_, found)| !found.is_empty());
        let matched: f64 = terms.map(|(term, _)| of(term)).sum();
        if whole > 0.0 { matched / whole } else { 0.0 }
    }

    fn total(&self) -> f64 {
        let p = self.parameters;
        let related = 1.0 - p.relatedness + p.relatedness * self.relatedness();
        let sum =
            p.proximity_completeness * related * self.proximity() * self.completeness() * self.completeness()
                + p.earliness * self.earliness()
                + p.segment_proximity * self.segment_proximity()
                + p.occurrence * self.occurrence(|_| 1.0);
        sum / (p.proximity_completeness + p.earliness + p.segment_proximity + p.occurrence)
    }
}

/// Where to go on from `at`, and whether that is near enough for the same segment. There is at least one position.
fn next_position(positions: &[u32], at: u32, limit: u32) -> (u32, bool) {
    let after = positions.partition_point(|position| *position <= at);
    let right = positions.get(after).copied();
    let left = positions[..after].iter().rev().find(|position| **position < at).copied();
    match (right, left) {
        (Some(right), _) if right - at <= limit => (right, true),
        (_, Some(left)) if at - left <= limit => (left, true),
        (Some(right), _) => (right, false),
        (None, Some(left)) => (left, false),
        // Two terms at one position.
        (None, None) => (at, true),
    }
}
