//! Features that compare the query's terms with a field word by word: `proximity`, `reverseProximity`,
//! `queryCompleteness`, `jaroWinklerDistance` and `termFieldMd`.

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::{LeafId, TermId};

use super::lengths::{BoundShape, DocumentElements, ElementBoundaries};
use super::proximity::pair_at_distance;
use super::term::{
    LeafPositions, TermPositions, count, is_positioned, leaves_by_term, match_weight, positioned_terms_of,
    terms_of, weight,
};
use super::terms::number;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// The row of a table of outputs that a feature's name selects; the first one without a name.
pub(super) fn output<T: Copy>(name: &FeatureName, outputs: &[(&str, T)]) -> Result<T, Error> {
    let wanted = name.output.as_deref().unwrap_or(outputs[0].0);
    let found = outputs.iter().find(|(known, _)| *known == wanted);
    found.map(|(_, output)| *output).ok_or_else(|| {
        let known: Vec<&str> = outputs.iter().map(|(known, _)| *known).collect();
        Error::setup(format!("{name}: {} has the outputs {}", name.name, known.join(", ")))
    })
}

const POSITIONS: RankingDemands =
    RankingDemands { leaves: true, counts: true, positions: true, statistics: false };

#[derive(Debug, Clone, Copy, PartialEq)]
enum PairOutput {
    Distance,
    PositionOfFirst,
    PositionOfSecond,
}

/// The nearest occurrences of two terms in one element, one before the other.
struct NearestPair {
    field: String,
    shape: ElementBoundaries,
    terms: (usize, usize),
    /// True if the second term precedes the first one.
    is_reversed: bool,
    output: PairOutput,
}

/// `proximity(field,a,b)`
pub(crate) fn proximity(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    pair(setup, name, false)
}

/// `reverseProximity(field,a,b)`
pub(crate) fn reverse_proximity(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    pair(setup, name, true)
}

fn pair(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
    is_reversed: bool,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let outputs = [
        ("out", PairOutput::Distance),
        ("posA", PairOutput::PositionOfFirst),
        ("posB", PairOutput::PositionOfSecond),
    ];
    Ok(Box::new(NearestPair {
        field: field.name.to_string(),
        shape: ElementBoundaries::of(field),
        terms: (number(name, 1)?, number(name, 2)?),
        is_reversed,
        output: output(name, &outputs)?,
    }))
}

impl RankFeature for NearestPair {
    fn demands(&self) -> RankingDemands {
        POSITIONS
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut terms = leaves_by_term(&positioned_terms_of(request, &self.field));
        let mut leaves = |term: usize| {
            let found = terms.iter_mut().find(|(found, _)| *found == TermId(term));
            found.map(|(_, leaves)| leaves.clone())
        };
        let pair = leaves(self.terms.0).zip(leaves(self.terms.1));
        let pair: Option<[Vec<LeafId>; 2]> = pair.map(|(a, b)| [a, b]);
        let shape = self.shape.bind(&self.field, request);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), self.missing());
            let Some(pair) = &pair else { return };
            let mut positions = TermPositions::of(chunk.matches, pair);
            for (document, place) in chunk.documents() {
                if let [a, b] = positions.next() {
                    let elements = shape.elements(chunk, place);
                    out[document] = self.of(a, b, &elements).unwrap_or(out[document]);
                }
            }
        }))
    }
}

impl NearestPair {
    /// The value without a pair.
    fn missing(&self) -> f64 {
        match self.output {
            PairOutput::Distance => f64::MAX,
            PairOutput::PositionOfFirst if self.is_reversed => f64::MIN,
            PairOutput::PositionOfSecond if !self.is_reversed => f64::MIN,
            PairOutput::PositionOfFirst | PairOutput::PositionOfSecond => f64::MAX,
        }
    }

    fn of(&self, a: &[u32], b: &[u32], elements: &DocumentElements) -> Option<f64> {
        let (before, after) = if self.is_reversed { (b, a) } else { (a, b) };
        let element = |position: &u32| elements.element(*position);
        let (mut before_rest, mut after_rest) = (before, after);
        let mut best: Option<(u32, u32)> = None;
        // Elements ascend with positions, so both lists are cut into elements from the front.
        while let (Some(first), Some(second)) = (before_rest.first(), after_rest.first()) {
            let here = element(first).max(element(second));
            before_rest = &before_rest[before_rest.partition_point(|at| element(at) < here)..];
            after_rest = &after_rest[after_rest.partition_point(|at| element(at) < here)..];
            let (one, later) = before_rest.split_at(before_rest.partition_point(|at| element(at) == here));
            let (other, later_other) =
                after_rest.split_at(after_rest.partition_point(|at| element(at) == here));
            (before_rest, after_rest) = (later, later_other);
            if let Some((from, to)) = nearest_pair(one, other, self.is_reversed)
                && best.is_none_or(|(known, end)| to - from < end - known)
            {
                best = Some((from, to));
            }
        }
        let (from, to) = best?;
        let (of_first, of_second) = if self.is_reversed { (to, from) } else { (from, to) };
        Some(f64::from(match self.output {
            PairOutput::Distance => to - from,
            PairOutput::PositionOfFirst => elements.offset(of_first),
            PairOutput::PositionOfSecond => elements.offset(of_second),
        }))
    }
}

/// The nearest pair of a position of `before` and one of `after` that follows it, or, as in Vespa's
/// `reverseProximity`, is the same.
fn nearest_pair(before: &[u32], after: &[u32], may_be_same: bool) -> Option<(u32, u32)> {
    let mut common = after.iter().filter(|at| may_be_same && before.binary_search(at).is_ok());
    common.next().map(|at| (*at, *at)).or_else(|| pair_at_distance(before, after))
}

/// The terms that match a field between two positions, or that do not.
struct QueryCompleteness {
    field: String,
    shape: ElementBoundaries,
    begin: u32,
    end: u32,
    /// True for the terms that match.
    is_hit: bool,
}

/// `queryCompleteness(field)`, `queryCompleteness(field,begin)`, `queryCompleteness(field,begin,end)`
pub(crate) fn query_completeness(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let position = |at: usize, default: u32| match name.parameters.get(at) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| Error::setup(format!("{name} needs a position, from 0, as parameter {}", at + 1))),
    };
    let (begin, end) = (position(1, 0)?, position(2, u32::MAX)?);
    if begin >= end {
        return Err(Error::setup(format!("{name}: the range from {begin} to {end} contains no position")));
    }
    Ok(Box::new(QueryCompleteness {
        field: field.name.to_string(),
        shape: ElementBoundaries::of(field),
        begin,
        end,
        is_hit: output(name, &[("hit", true), ("miss", false)])?,
    }))
}

impl RankFeature for QueryCompleteness {
    fn demands(&self) -> RankingDemands {
        POSITIONS
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let all = leaves_by_term(&terms_of(request.plan, &self.field)).len();
        let terms = leaves_by_term(&positioned_terms_of(request, &self.field));
        let shape = self.shape.bind(&self.field, request);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let mut positions = TermPositions::of(chunk.matches, terms.iter().map(|(_, leaves)| leaves));
            for (document, place) in chunk.documents() {
                let elements = shape.elements(chunk, place);
                let is_inside = |at: &u32| (self.begin..self.end).contains(&elements.offset(*at));
                let hits = positions.next().iter().filter(|here| here.iter().any(is_inside)).count();
                out[document] = if self.is_hit { hits } else { all - hits } as f64;
            }
        }))
    }
}

/// `jaroWinklerDistance(field)`
pub(crate) fn jaro_winkler(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let property =
        |property, default| setup.properties.number("jaroWinklerDistance", &field.name, property, default);
    Ok(Box::new(JaroWinkler {
        field: field.name.to_string(),
        shape: ElementBoundaries::of(field),
        boost_threshold: property("boostThreshold", 0.7)?,
        prefix_size: property("prefixSize", 4.0)?.max(0.0) as usize,
    }))
}

/// The distance of Jaro and Winkler, with terms for letters.
struct JaroWinkler {
    field: String,
    shape: ElementBoundaries,
    /// Proximity from which an equal beginning counts.
    boost_threshold: f64,
    /// Greatest number of terms of an equal beginning.
    prefix_size: usize,
}

impl RankFeature for JaroWinkler {
    fn demands(&self) -> RankingDemands {
        POSITIONS
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let found = leaves_by_term(&positioned_terms_of(request, &self.field));
        // Terms that search other fields count, and match nowhere.
        let mut terms: Vec<Vec<LeafId>> = request.plan.terms.iter().map(|_| Vec::new()).collect();
        for (term, leaves) in found {
            if let Some(place) = terms.get_mut(term.0) {
                *place = leaves;
            }
        }
        let shape: BoundShape = self.shape.bind(&self.field, request);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 1.0);
            let mut positions = TermPositions::of(chunk.matches, &terms);
            for (document, place) in chunk.documents() {
                let here = positions.next();
                let length = shape.elements(chunk, place).longest(here.iter().flatten().copied());
                out[document] = 1.0 - self.proximity(here, length as usize);
            }
        }))
    }
}

impl JaroWinkler {
    fn proximity(&self, terms: &[Vec<u32>], length: usize) -> f64 {
        let (mut matched, mut moved) = (0u32, 0u32);
        let half = terms.len().min(length) / 2 + 1;
        for (at, positions) in terms.iter().enumerate() {
            let near = at.saturating_sub(half)..=length.min(at + half);
            let found = positions.iter().map(|position| *position as usize).find(|at| near.contains(at));
            if let Some(found) = found {
                matched += 1;
                moved += u32::from(found != at);
            }
        }
        if matched == 0 || length == 0 {
            return 0.0;
        }
        let (matched, transpositions) = (f64::from(matched), f64::from(moved / 2));
        let measure =
            (matched / terms.len() as f64 + matched / length as f64 + (matched - transpositions) / matched)
                / 3.0;
        let proximity = measure.clamp(0.0, 1.0);
        if proximity <= self.boost_threshold {
            return proximity;
        }
        let prefix = terms.iter().take(length.min(self.prefix_size)).enumerate();
        let equal = prefix.take_while(|(at, positions)| positions.first() == Some(&(*at as u32))).count();
        proximity + 0.1 * equal as f64 * (1.0 - proximity)
    }
}

#[derive(Debug, Clone, Copy)]
enum TermFieldOutput {
    Score,
    Terms,
    Match,
    TermsMatched,
    FirstWeight,
    Occurrences,
    MaxTermWeight,
}

/// Sums over the terms that match a field.
struct TermFieldSums {
    field: String,
    output: TermFieldOutput,
}

/// `termFieldMd(field)`
pub(crate) fn term_field(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let outputs = [
        ("score", TermFieldOutput::Score),
        ("terms", TermFieldOutput::Terms),
        ("match", TermFieldOutput::Match),
        ("termsmatched", TermFieldOutput::TermsMatched),
        ("firstweight", TermFieldOutput::FirstWeight),
        ("occurrences", TermFieldOutput::Occurrences),
        ("maxTermWeight", TermFieldOutput::MaxTermWeight),
    ];
    let field = setup.searchable_field(name, 0)?.name.to_string();
    Ok(Box::new(TermFieldSums { field, output: output(name, &outputs)? }))
}

impl RankFeature for TermFieldSums {
    fn demands(&self) -> RankingDemands {
        POSITIONS
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let found = leaves_by_term(&terms_of(request.plan, &self.field));
        let of_term = |(term, leaves): (TermId, Vec<LeafId>)| {
            (weight(request.plan, term), is_positioned(request, &self.field, term), leaves)
        };
        let terms: Vec<(f64, bool, Vec<LeafId>)> = found.into_iter().map(of_term).collect();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            if matches!(self.output, TermFieldOutput::Terms) {
                out.fill(terms.len() as f64);
                return;
            }
            for (term_weight, has_positions, leaves) in &terms {
                let found: Vec<_> = leaves.iter().map(|leaf| chunk.matches.leaf(*leaf)).collect();
                let mut positions: Vec<_> = found.iter().map(|found| LeafPositions::of(found)).collect();
                for (document, out) in out.iter_mut().enumerate() {
                    let occurrences: usize =
                        positions.iter_mut().map(|list| list.next().unwrap_or_default().len()).sum();
                    let matched = found.iter().filter(|found| count(found, document) > 0);
                    let Some(weight) =
                        matched.filter_map(|found| match_weight(found, document)).reduce(f64::max)
                    else {
                        continue;
                    };
                    match self.output {
                        TermFieldOutput::Score => *out += weight,
                        TermFieldOutput::Terms => {}
                        TermFieldOutput::Match => *out = 1.0,
                        TermFieldOutput::TermsMatched => *out += 1.0,
                        TermFieldOutput::FirstWeight if *out == 0.0 => *out = weight,
                        TermFieldOutput::FirstWeight => {}
                        TermFieldOutput::Occurrences if *has_positions => *out += occurrences as f64,
                        TermFieldOutput::Occurrences => {}
                        TermFieldOutput::MaxTermWeight => *out = out.max(*term_weight),
                    }
                }
            }
        }))
    }
}

/// `termInfo(n).queryidx`: the number of a term, or -1 if the query has fewer.
pub(crate) fn term_info(_: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let term = number(name, 0)?;
    output(name, &[("queryidx", ())])?;
    Ok(Box::new(super::PerRequest(
        move |request: &FeatureRequest<'_>| {
            if term < request.plan.terms.len() { term as f64 } else { -1.0 }
        },
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_at_one_position_only_where_it_may_be() {
        assert_eq!(nearest_pair(&[1, 4], &[3, 4], true), Some((4, 4)));
        assert_eq!(nearest_pair(&[1, 5], &[3, 4], true), Some((1, 3)));
        assert_eq!(nearest_pair(&[1, 4], &[3, 4], false), Some((1, 3)));
        assert_eq!(nearest_pair(&[4], &[4], false), None);
    }
}
