use millrace_expression::FeatureName;
use millrace_matching::{LeafMatches, RankingDemands};

use super::lengths::FieldWords;
use super::term::{FieldTerm, count, leaves_labelled, positioned_terms_of, term};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// BM25 parameters: the influence of frequency and of length.
pub(crate) struct Bm25Weights {
    k1: f64,
    b: f64,
    average_length: Option<f64>,
}

/// Default average element length: a fixed number, as it is not measured.
const ELEMENT_LENGTH: f64 = 100.0;

impl Bm25Weights {
    /// Reads the rank properties of `feature(field)`.
    pub fn new(setup: &FeatureSetup<'_>, feature: &str, field: &str, average: &str) -> Result<Self, Error> {
        let number = |property, default| setup.properties.number(feature, field, property, default);
        let (k1, b, average) = (number("k1", 1.2)?, number("b", 0.75)?, number(average, 0.0)?);
        Ok(Bm25Weights { k1, b, average_length: (average > 0.0).then_some(average) })
    }

    /// Reads the rank properties of an `elementwise` feature, falling back to those of the field's `bm25`.
    pub fn of_elements(setup: &FeatureSetup<'_>, name: &FeatureName, field: &str) -> Result<Self, Error> {
        let whole = Bm25Weights::new(setup, "bm25", field, "averageFieldLength")?;
        let parameters = name.parameters.join(",");
        let number =
            |property, default| setup.properties.number("elementwise", &parameters, property, default);
        let average = number("averageElementLength", whole.average_length.unwrap_or(0.0))?;
        Ok(Bm25Weights {
            k1: number("k1", whole.k1)?,
            b: number("b", whole.b)?,
            average_length: (average > 0.0).then_some(average),
        })
    }

    /// Average field length of the profile; by default that of the group.
    pub fn average_field_length(&self, request: &FeatureRequest<'_>, field: &str) -> f64 {
        self.average_length.unwrap_or_else(|| {
            request.matches.statistics.fields.get(field).map_or(1.0, |field| field.average_length())
        })
    }

    /// Average element length of the profile.
    pub fn average_element_length(&self) -> f64 {
        self.average_length.unwrap_or(ELEMENT_LENGTH)
    }

    /// Length normalization: the factor by which a length weakens frequencies.
    pub fn norm(&self, average: f64) -> impl Fn(f64) -> f64 + use<> {
        let (k1, b) = (self.k1, self.b);
        move |length| k1 * (1.0 - b + b * length / average)
    }

    /// Score of one term.
    pub fn score(&self, rarity: f64, count: f64, norm: f64) -> f64 {
        rarity * (self.k1 + 1.0) * count / (count + norm).max(f64::MIN_POSITIVE)
    }
}

/// The terms that search a field, each with its inverse document frequency.
pub(crate) fn weigh(request: &FeatureRequest<'_>, field: &str) -> Vec<(FieldTerm, f64)> {
    let statistics = &request.matches.statistics;
    let rarity = |found: &FieldTerm| {
        let annotations = term(request.plan, found.term).map(|term| &term.annotations);
        let documents = statistics.documents as f64;
        let counted = || statistics.document_frequency.get(found.leaf.0).copied().unwrap_or_default() as f64;
        let share = annotations.and_then(|annotations| annotations.document_frequency);
        annotations
            .and_then(|annotations| annotations.significance)
            .unwrap_or_else(|| rarity(documents, share.map_or_else(counted, |share| share * documents)))
    };
    positioned_terms_of(request, field).into_iter().map(|found| (found, rarity(&found))).collect()
}

/// `bm25(field)` and `bm25(field:name,label:label)`
struct Bm25Feature {
    field: FieldWords,
    label: Option<String>,
    weights: Bm25Weights,
}

pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let named = |key: &str| {
        let prefix = format!("{key}:");
        let given = name.parameters.iter().find_map(|parameter| parameter.strip_prefix(&prefix));
        given.map(|value| value.trim_matches('"').to_owned())
    };
    let label = named("label");
    let plain = FeatureName {
        parameters: vec![named("field").or_else(|| name.parameters.first().cloned()).unwrap_or_default()],
        ..name.clone()
    };
    let field = FieldWords::of(setup, setup.word_field(&plain, 0)?);
    let weights = Bm25Weights::new(setup, "bm25", field.name(), "averageFieldLength")?;
    Ok(Box::new(Bm25Feature { label, weights, field }))
}

impl RankFeature for Bm25Feature {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let labelled = self.label.as_ref().map(|label| leaves_labelled(request.plan, label));
        let mut terms = weigh(request, self.field.name());
        terms.retain(|(found, _)| labelled.as_ref().is_none_or(|labelled| labelled.contains(&found.leaf)));
        let norm = self.weights.norm(self.weights.average_field_length(request, self.field.name()));
        let words = self.field.bind(request);
        let mut norms = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            words.lengths(chunk, &mut norms);
            norms.iter_mut().for_each(|length| *length = norm(*length));
            let scores = values.numbers(chunk.len(), 0.0);
            for (found, rarity) in &terms {
                match chunk.matches.leaf(found.leaf) {
                    // Of many words, most are in no document of a chunk.
                    LeafMatches::None => {}
                    LeafMatches::Words(occurrences) => {
                        for ((score, count), norm) in scores.iter_mut().zip(&occurrences.counts).zip(&norms) {
                            *score += self.weights.score(*rarity, f64::from(*count), *norm);
                        }
                    }
                    matches => {
                        for (document, (score, norm)) in scores.iter_mut().zip(&norms).enumerate() {
                            *score += self.weights.score(*rarity, f64::from(count(matches, document)), *norm);
                        }
                    }
                }
            }
        }))
    }
}

/// The inverse document frequency.
fn rarity(documents: f64, frequency: f64) -> f64 {
    let frequency = frequency.min(documents);
    (1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln()
}

/// `averageFieldLength(field)`
pub(crate) fn average_field_length(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(AverageFieldLength(setup.word_field(name, 0)?.name.to_string())))
}

struct AverageFieldLength(String);

impl RankFeature for AverageFieldLength {
    fn demands(&self) -> RankingDemands {
        RankingDemands { statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let field = request.matches.statistics.fields.get(self.0.as_str());
        let length = field.map_or(0.0, |field| field.average_length());
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Number(length)
        }))
    }
}
