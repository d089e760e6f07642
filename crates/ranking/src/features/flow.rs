//! `flowCompleteness(field)`: the largest assignment of terms to words of one element.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;

use super::comparison::output;
use super::lengths::{ElementBoundaries, FieldWords, WeightedWords};
use super::term::{TermPositions, leaves_by_term, positioned_terms_of, weight};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

#[derive(Debug, Clone, Copy)]
enum FlowOutput {
    Completeness,
    FieldCompleteness,
    QueryCompleteness,
    ElementWeight,
    FieldWeight,
    Flow,
}

/// Measures of the element with the best score.
#[derive(Debug, Clone, Copy, Default)]
struct ElementFlow {
    score: f64,
    completeness: f64,
    field: f64,
    query: f64,
    weight: f64,
    flow: f64,
}

struct FlowCompleteness {
    words: FieldWords,
    shape: ElementBoundaries,
    /// The field if it is a weighted set of words.
    weighted: Option<WeightedWords>,
    /// Share of the field in the completeness; the rest is that of the query.
    importance: f64,
    field_weight: f64,
    output: FlowOutput,
}

/// Sets up `flowCompleteness(field)`.
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let outputs = [
        ("completeness", FlowOutput::Completeness),
        ("fieldCompleteness", FlowOutput::FieldCompleteness),
        ("queryCompleteness", FlowOutput::QueryCompleteness),
        ("elementWeight", FlowOutput::ElementWeight),
        ("weight", FlowOutput::FieldWeight),
        ("flow", FlowOutput::Flow),
    ];
    Ok(Box::new(FlowCompleteness {
        words: FieldWords::of(setup, field),
        shape: ElementBoundaries::of(field),
        weighted: WeightedWords::of(setup, field),
        importance: setup.properties.number(
            "flowCompleteness",
            &field.name,
            "fieldCompletenessImportance",
            0.5,
        )?,
        field_weight: setup.weight(field),
        output: output(name, &outputs)?,
    }))
}

impl RankFeature for FlowCompleteness {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let found = leaves_by_term(&positioned_terms_of(request, self.words.name()));
        let terms: Vec<(f64, Vec<LeafId>)> = found
            .into_iter()
            .map(|(term, leaves)| (weight(request.plan, term), leaves))
            .filter(|(weight, _)| *weight != 0.0)
            .collect();
        let words = self.words.bind(request);
        let shape = self.shape.bind(self.words.name(), request);
        let weights = self.weighted.as_ref().map(|weighted| weighted.bind(request));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let mut positions = TermPositions::of(chunk.matches, terms.iter().map(|(_, leaves)| leaves));
            let mut lengths = Vec::new();
            for (document, place) in chunk.documents() {
                let here = positions.next();
                if here.iter().all(Vec::is_empty) {
                    out[document] = self.output_of(&ElementFlow::default());
                    continue;
                }
                let elements = shape.elements(chunk, place);
                words.element_lengths(chunk, place, &mut lengths);
                let mut by_element: BTreeMap<usize, Vec<(f64, Vec<u32>)>> = BTreeMap::new();
                for ((weight, _), positions) in terms.iter().zip(here) {
                    for in_element in positions.chunk_by(|a, b| elements.element(*a) == elements.element(*b))
                    {
                        let found = by_element.entry(elements.element(in_element[0])).or_default();
                        found.push((*weight, in_element.to_vec()));
                    }
                }
                let mut best = ElementFlow::default();
                for (element, found) in by_element {
                    let length = lengths.get(element).map_or(1.0, |length| f64::from(*length));
                    let measures = self.element(&found, terms.len(), length);
                    if measures.score > best.score {
                        let first = found.first().and_then(|(_, positions)| positions.first());
                        let weight = weights.zip(first);
                        let weight = weight.and_then(|(all, first)| all.greatest(chunk, place, &[*first]));
                        best = ElementFlow { weight: weight.unwrap_or(1.0), ..measures };
                    }
                }
                out[document] = self.output_of(&best);
            }
        }))
    }
}

impl FlowCompleteness {
    fn element(&self, found: &[(f64, Vec<u32>)], terms: usize, length: f64) -> ElementFlow {
        let flow = assigned(found.iter().map(|(_, positions)| positions.as_slice())) as f64;
        let (field, query) = (flow / length, flow / terms as f64);
        let completeness = field * self.importance + query * (1.0 - self.importance);
        let weight: f64 = found.iter().map(|(weight, _)| weight).sum();
        ElementFlow { score: completeness * weight, completeness, field, query, weight: 1.0, flow }
    }

    fn output_of(&self, best: &ElementFlow) -> f64 {
        match self.output {
            FlowOutput::Completeness => best.completeness,
            FlowOutput::FieldCompleteness => best.field,
            FlowOutput::QueryCompleteness => best.query,
            FlowOutput::ElementWeight => best.weight,
            FlowOutput::FieldWeight => self.field_weight,
            FlowOutput::Flow => best.flow,
        }
    }
}

/// Positions that are looked at for paths that pass on positions in an element, for each of its terms with
/// their positions on average. Only sets of terms that share their positions in devious ways need more.
const STEPS_PER_POSITION: usize = 64;

/// The greatest number of terms that can be given a position each, none of them twice: a maximum matching,
/// found by augmenting paths. Once the steps are used up, terms take free positions alone.
fn assigned<'p>(terms: impl Iterator<Item = &'p [u32]>) -> usize {
    let terms: Vec<&[u32]> = terms.collect();
    let all: usize = terms.iter().map(|positions| positions.len()).sum();
    let mut steps_left = all.saturating_mul(STEPS_PER_POSITION);
    let mut term_at: HashMap<u32, usize> = HashMap::new();
    let mut position_of: Vec<Option<u32>> = vec![None; terms.len()];
    // Positions from which no path leads to a free one: none ever will.
    let mut lost: HashSet<u32> = HashSet::new();
    let mut count = 0;
    for start in 0..terms.len() {
        // Breadth first from the term: `from` is the term through which a position was reached.
        let mut from: HashMap<u32, usize> = HashMap::new();
        let mut waiting = VecDeque::from([start]);
        let mut free = None;
        'search: while let Some(term) = waiting.pop_front() {
            for position in terms[term] {
                if term != start && steps_left == 0 {
                    break 'search;
                }
                steps_left = steps_left.saturating_sub(1);
                if lost.contains(position) || from.contains_key(position) {
                    continue;
                }
                from.insert(*position, term);
                match term_at.get(position) {
                    Some(holder) => waiting.push_back(*holder),
                    None => {
                        free = Some(*position);
                        break 'search;
                    }
                }
            }
        }
        let Some(mut position) = free else {
            lost.extend(from.into_keys());
            continue;
        };
        count += 1;
        // Each term of the path takes the position by which it was reached, and leaves its former one.
        while let Some(&term) = from.get(&position) {
            term_at.insert(position, term);
            match position_of[term].replace(position) {
                Some(former) => position = former,
                None => break,
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::assigned;

    #[test]
    fn the_most_terms_have_a_position_of_their_own() {
        let of = |terms: &[&[u32]]| assigned(terms.iter().copied());
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[&[1], &[1]]), 1);
        assert_eq!(of(&[&[1, 2], &[1]]), 2);
        assert_eq!(of(&[&[1, 2], &[1, 3], &[1]]), 3);
        assert_eq!(of(&[&[1, 2], &[1, 2], &[1, 2]]), 2);
        assert_eq!(of(&[&[1], &[1, 2], &[2, 3], &[3]]), 3);
        assert_eq!(of(&[&[1, 2], &[2, 3], &[1, 2], &[3, 4]]), 4);
        // More terms than positions, which all have.
        let positions: Vec<u32> = (0..1000).collect();
        let terms: Vec<&[u32]> = std::iter::repeat_n(positions.as_slice(), 3000).collect();
        assert_eq!(of(&terms), 1000);
    }
}
