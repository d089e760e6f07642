//! Similarity of the query and a field, or its elements.

use millrace_column::ColumnKey;
use millrace_document::DataType;
use millrace_expression::{EvaluationScratch, FeatureName};
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;

use super::lengths::{BoundWords, FieldWords, element_weights};
use super::similarity_output::OutputFormula;
use super::term::{DocumentLeaf, FieldTerm, each_document, positioned_terms_of, weight};
use super::{
    ClosureExecutor, ColumnSlot, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    RankFeature,
};
use crate::Error;

/// Distance in positions beyond which words are not near.
const FAR: f64 = 8.0;

#[derive(Debug, Clone, Copy)]
enum SimilarityOutput {
    Score,
    Proximity,
    Order,
    QueryCoverage,
    FieldCoverage,
    /// The output of [`SimilarityKind::Completeness`].
    Completeness,
    ElementWeight,
}

enum SimilarityKind {
    /// The field as a whole.
    Text,
    /// All matching elements, combined by a formula.
    Elements(OutputFormula),
    /// The most complete element.
    Completeness,
}

struct ElementSimilarity {
    field: FieldWords,
    data_type: DataType,
    kind: SimilarityKind,
    output: SimilarityOutput,
    /// Parameter of [`SimilarityKind::Completeness`]: weight of the field against the query.
    importance: f64,
}

fn similarity(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
    kind: SimilarityKind,
    outputs: &[(&str, SimilarityOutput)],
) -> Result<ElementSimilarity, Error> {
    let field = setup.word_field(name, 0)?;
    let wanted = name.output.as_deref().unwrap_or_default();
    let Some((_, output)) = outputs.iter().find(|(known, _)| *known == wanted) else {
        let known: Vec<&str> =
            outputs.iter().map(|(known, _)| *known).filter(|known| !known.is_empty()).collect();
        return Err(Error::setup(format!("{name}: {} has the outputs {}", name.name, known.join(", "))));
    };
    let importance =
        setup.properties.number("elementCompleteness", &field.name, "fieldCompletenessImportance", 0.5)?;
    let (field, data_type) = (FieldWords::of(setup, field), field.data_type.clone());
    Ok(ElementSimilarity { field, data_type, kind, output: *output, importance })
}

/// `textSimilarity(field)`
pub(crate) fn text(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let outputs = [
        ("", SimilarityOutput::Score),
        ("score", SimilarityOutput::Score),
        ("proximity", SimilarityOutput::Proximity),
        ("order", SimilarityOutput::Order),
        ("queryCoverage", SimilarityOutput::QueryCoverage),
        ("fieldCoverage", SimilarityOutput::FieldCoverage),
    ];
    Ok(Box::new(similarity(setup, name, SimilarityKind::Text, &outputs)?))
}

/// `elementSimilarity(field)`, `elementSimilarity(field).name`
pub(crate) fn element(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let output = name.output.as_deref().unwrap_or("default");
    let property = format!("output.{output}");
    let formula = match setup.properties.text("elementSimilarity", &field.name, &property) {
        Some(text) => text,
        None if output == "default" => "max((0.35*p+0.15*o+0.30*q+0.20*f)*w)",
        None => {
            return Err(Error::setup(format!(
                "{name}: set the rank property elementSimilarity({}).{property}",
                field.name
            )));
        }
    };
    let formula = OutputFormula::parse(formula).map_err(|reason| {
        Error::setup(format!("rank property elementSimilarity({}).{property}: {reason}", field.name))
    })?;
    let plain = FeatureName { output: None, ..name.clone() };
    Ok(Box::new(similarity(
        setup,
        &plain,
        SimilarityKind::Elements(formula),
        &[("", SimilarityOutput::Score)],
    )?))
}

/// `elementCompleteness(field)`
pub(crate) fn completeness(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let outputs = [
        ("", SimilarityOutput::Completeness),
        ("completeness", SimilarityOutput::Completeness),
        ("fieldCompleteness", SimilarityOutput::FieldCoverage),
        ("queryCompleteness", SimilarityOutput::QueryCoverage),
        ("elementWeight", SimilarityOutput::ElementWeight),
    ];
    Ok(Box::new(similarity(setup, name, SimilarityKind::Completeness, &outputs)?))
}

/// An occurrence of a term: its position, then the index of the term in the query. As one number it is sorted
/// with few instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TermOccurrence(u64);

impl TermOccurrence {
    fn new(position: u32, term: u32) -> Self {
        TermOccurrence(u64::from(position) << 32 | u64::from(term))
    }

    fn position(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn term(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Weights of the query's terms, and their sum.
#[derive(Debug, Clone, Copy)]
struct TermWeights<'w> {
    weights: &'w [f64],
    total: f64,
    /// True if several terms may count at one position.
    may_coincide: bool,
}

/// Measures of one element, or of a whole field.
#[derive(Debug, Clone, Copy, Default)]
struct ElementMeasures {
    proximity: f64,
    order: f64,
    query: f64,
    field: f64,
}

impl ElementMeasures {
    /// Measures `occurrences`, which ascend. Each term counts once, and so does each position unless terms
    /// may coincide. `used` is memory that is reused; it has a value for each term, which is false before and
    /// after.
    fn of(occurrences: &[TermOccurrence], terms: &TermWeights<'_>, length: f64, used: &mut [bool]) -> Self {
        let weights = terms.weights;
        let mut unused = weights.len();
        let mut last: Option<TermOccurrence> = None;
        let (mut matched, mut near, mut in_order, mut covered) = (0.0f64, 0.0, 0.0, 0.0);
        for occurrence in occurrences {
            let (position, term) = (occurrence.position(), occurrence.term());
            let is_taken = !terms.may_coincide && last.is_some_and(|last| last.position() == position);
            if used[term] || is_taken {
                continue;
            }
            if let Some(last) = last {
                near += nearness(f64::from(position - last.position()));
                in_order += f64::from(u8::from(term > last.term()));
            }
            used[term] = true;
            covered += weights[term];
            matched += 1.0;
            last = Some(*occurrence);
            unused -= 1;
            if unused == 0 {
                break;
            }
        }
        // A field may have many elements, and a query many terms: only those here are forgotten.
        occurrences.iter().for_each(|occurrence| used[occurrence.term()] = false);
        if matched == 0.0 || length == 0.0 {
            return ElementMeasures::default();
        }
        let total = terms.total;
        let (proximity, order) = match matched < 2.0 {
            true => (nearness(length), 1.0),
            false => (near / (matched - 1.0), in_order / (matched - 1.0)),
        };
        let query = if total > 0.0 { covered / total } else { 0.0 };
        ElementMeasures { proximity, order, query, field: (matched / length).min(1.0) }
    }

    fn score(&self) -> f64 {
        0.35 * self.proximity + 0.15 * self.order + 0.30 * self.query + 0.20 * self.field
    }
}

/// Nearness of a distance in positions: 1 for adjacent words, 0 beyond [`FAR`].
fn nearness(distance: f64) -> f64 {
    if distance > FAR { 0.0 } else { 1.0 - ((distance - 1.0) / FAR).powi(2) }
}

impl RankFeature for ElementSimilarity {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut terms = positioned_terms_of(request, self.field.name());
        terms.retain(|found| weight(request.plan, found.term) != 0.0);
        let weights: Vec<f64> = terms.iter().map(|found| weight(request.plan, found.term)).collect();
        let total: f64 = weights.iter().sum();
        let words = self.field.bind(request);
        let weighted = matches!(self.data_type, DataType::WeightedSet { .. });
        let elements = weighted.then(|| request.column(ColumnKey::value(self.field.name())));
        let mut work = SimilarityScratch { used: vec![false; weights.len()], ..SimilarityScratch::default() };
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let may_coincide = matches!(self.kind, SimilarityKind::Completeness);
            let weights = TermWeights { weights: &weights, total, may_coincide };
            self.run(chunk, &terms, &weights, (words, elements), &mut work, out);
        }))
    }
}

impl ElementSimilarity {
    fn run(
        &self,
        chunk: &FeatureChunk<'_>,
        terms: &[FieldTerm],
        weights: &TermWeights<'_>,
        (words, elements): (BoundWords<'_>, Option<ColumnSlot>),
        work: &mut SimilarityScratch,
        out: &mut [f64],
    ) {
        let leaves: Vec<LeafId> = terms.iter().map(|found| found.leaf).collect();
        let mut occurrences = Vec::new();
        let mut measured = MeasuredRows::default();
        let is_whole = matches!(self.kind, SimilarityKind::Text);
        if is_whole {
            words.lengths(chunk, &mut work.lengths);
        }
        each_document(chunk.matches, &leaves, |at, found| {
            occurrences.clear();
            for DocumentLeaf { number, positions } in found {
                let term = *number as u32;
                occurrences.extend(positions.iter().map(|position| TermOccurrence::new(*position, term)));
            }
            if occurrences.is_empty() {
                return;
            }
            occurrences.sort_unstable();
            let document = usize::from(chunk.matches.documents[at]);
            let set = elements
                .and_then(|slot| chunk.column(slot))
                .and_then(|column| chunk.value(column, &self.data_type, document));
            let weights_of_elements = set.map(|set| element_weights(&set));
            if !is_whole {
                words.element_lengths(chunk, document, &mut work.element_lengths);
            }
            match &self.kind {
                SimilarityKind::Elements(formula) => {
                    measured.add(at, &occurrences, weights, weights_of_elements, work);
                    if measured.elements() >= MEASURED_AT_ONCE {
                        measured.combine(formula, work, out);
                    }
                }
                SimilarityKind::Text | SimilarityKind::Completeness => {
                    out[at] = self.of(at, &occurrences, weights, weights_of_elements, work);
                }
            }
        });
        if let SimilarityKind::Elements(formula) = &self.kind {
            measured.combine(formula, work, out);
        }
    }

    /// The output for the document in a row that matches at least one term, unless it is a formula.
    fn of(
        &self,
        row: usize,
        occurrences: &[TermOccurrence],
        weights: &TermWeights<'_>,
        element_weights: Option<Vec<f64>>,
        work: &mut SimilarityScratch,
    ) -> f64 {
        let SimilarityScratch { lengths, element_lengths, used, .. } = work;
        if let SimilarityKind::Text = self.kind {
            return self.output(&ElementMeasures::of(occurrences, weights, lengths[row], used), 1.0);
        }
        // Elements whose weight is not above 0 are not the best.
        let (mut best, mut best_output) = (0.0, 0.0);
        each_element(occurrences, weights, element_lengths, used, |element, measures| {
            let weight = weight_of(element_weights.as_deref(), element);
            let rank = self.completeness(&measures) * weight;
            if rank > best {
                (best, best_output) = (rank, self.output(&measures, weight));
            }
        });
        best_output
    }

    fn completeness(&self, measures: &ElementMeasures) -> f64 {
        measures.query * (1.0 - self.importance) + self.importance * measures.field
    }

    fn output(&self, measures: &ElementMeasures, weight: f64) -> f64 {
        match self.output {
            SimilarityOutput::Score => measures.score() * weight,
            SimilarityOutput::Proximity => measures.proximity,
            SimilarityOutput::Order => measures.order,
            SimilarityOutput::QueryCoverage => measures.query,
            SimilarityOutput::FieldCoverage => measures.field,
            SimilarityOutput::Completeness => self.completeness(measures),
            SimilarityOutput::ElementWeight => weight.max(0.0),
        }
    }
}

/// Number of elements after which their formula is computed.
const MEASURED_AT_ONCE: usize = 1 << 12;

/// Documents whose elements are measured, by their rows, each with the number of elements up to its end.
#[derive(Default)]
struct MeasuredRows(Vec<(usize, usize)>);

impl MeasuredRows {
    fn elements(&self) -> usize {
        self.0.last().map_or(0, |(_, end)| *end)
    }

    /// Measures the elements of the document in a row that matches at least one term.
    fn add(
        &mut self,
        row: usize,
        occurrences: &[TermOccurrence],
        weights: &TermWeights<'_>,
        element_weights: Option<Vec<f64>>,
        work: &mut SimilarityScratch,
    ) {
        let SimilarityScratch { element_lengths, used, measures, .. } = work;
        each_element(occurrences, weights, element_lengths, used, |element, of_element| {
            let ElementMeasures { proximity, order, query, field } = of_element;
            let weight = weight_of(element_weights.as_deref(), element);
            let all = [proximity, order, query, field, weight];
            measures.iter_mut().zip(all).for_each(|(list, one)| list.push(one));
        });
        self.0.push((row, measures[0].len()));
    }

    /// Writes the outputs of the documents, and forgets them.
    fn combine(&mut self, formula: &OutputFormula, work: &mut SimilarityScratch, out: &mut [f64]) {
        let SimilarityScratch { measures, scratch, values, .. } = work;
        formula.evaluate(measures, scratch, values);
        let mut begin = 0;
        for (row, end) in self.0.drain(..) {
            out[row] = formula.combine(&values[begin..end]);
            begin = end;
        }
        measures.iter_mut().for_each(Vec::clear);
    }
}

/// Weight of an element of a weighted set; 1 for others.
fn weight_of(weights: Option<&[f64]>, element: usize) -> f64 {
    weights.and_then(|weights| weights.get(element)).copied().unwrap_or(1.0)
}

/// Reusable memory.
#[derive(Default)]
struct SimilarityScratch {
    /// Number of words of each document of a chunk, for [`SimilarityKind::Text`].
    lengths: Vec<f64>,
    /// Number of words of each element of a document, for the other kinds.
    element_lengths: Vec<u32>,
    /// For each term, true while it is counted in an element.
    used: Vec<bool>,
    /// Measures of elements, and the values of the formula.
    measures: [Vec<f64>; 5],
    scratch: EvaluationScratch,
    values: Vec<f64>,
}

/// Measures each element with an occurrence.
fn each_element(
    occurrences: &[TermOccurrence],
    weights: &TermWeights<'_>,
    lengths: &[u32],
    used: &mut [bool],
    mut visit: impl FnMut(usize, ElementMeasures),
) {
    let (mut begin, mut rest) = (0u32, occurrences);
    for (element, length) in lengths.iter().enumerate() {
        let end = begin + length;
        // A document has many elements, and few of them have an occurrence.
        let here = rest.iter().take_while(|occurrence| occurrence.position() < end).count();
        let (here, after) = rest.split_at(here);
        rest = after;
        // The position between two elements belongs to the boundary.
        begin = end + 1;
        if !here.is_empty() {
            visit(element, ElementMeasures::of(here, weights, f64::from(*length), used));
        }
    }
}
