use millrace_column::{ColumnKey, ELEMENT_BOUNDARY, TokenIds, Tokens};
use millrace_expression::FeatureName;
use millrace_matching::{Demands, LeafMatches};
use millrace_plan::LeafId;

use super::term::{leaves_labelled, term, terms_of};
use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

/// `bm25(field)` and `bm25(field:name,label:label)`
struct Bm25 {
    field: String,
    label: Option<String>,
    k1: f64,
    b: f64,
    average_length: Option<f64>,
}

pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let named = |key: &str| {
        let prefix = format!("{key}:");
        name.parameters.iter().find_map(|parameter| parameter.strip_prefix(&prefix)).map(str::to_owned)
    };
    let label = named("label").map(|label| label.trim_matches('"').to_owned());
    let plain = FeatureName {
        parameters: vec![named("field").or_else(|| name.parameters.first().cloned()).unwrap_or_default()],
        ..name.clone()
    };
    let field = setup.text_field(&plain, 0)?.name.to_string();
    let number = |property, default| setup.properties.number("bm25", &field, property, default);
    let (k1, b, average) = (number("k1", 1.2)?, number("b", 0.75)?, number("averageFieldLength", 0.0)?);
    let average_length = (average > 0.0).then_some(average);
    Ok(Box::new(Bm25 { label, k1, b, average_length, field }))
}

impl Feature for Bm25 {
    fn demands(&self) -> Demands {
        Demands { counts: true, statistics: true, ..Demands::default() }
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let statistics = &request.matches.statistics;
        let labelled = self.label.as_ref().map(|label| leaves_labelled(request.plan, label));
        let terms: Vec<(LeafId, f64)> = terms_of(request.plan, &self.field)
            .into_iter()
            .filter(|found| labelled.as_ref().is_none_or(|labelled| labelled.contains(&found.leaf)))
            .map(|found| {
                let annotated = term(request.plan, found.term).and_then(|term| term.annotations.significance);
                let frequency = statistics.document_frequency.get(found.leaf.0).copied().unwrap_or_default();
                (
                    found.leaf,
                    annotated.unwrap_or_else(|| rarity(statistics.documents as f64, frequency as f64)),
                )
            })
            .collect();
        let average = self.average_length.unwrap_or_else(|| {
            statistics.fields.get(self.field.as_str()).map_or(1.0, |field| field.average_length())
        });
        let tokens = request.column(ColumnKey::tokens(&self.field));
        let mut norms = Vec::new();
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            field_lengths(chunk, chunk.tokens(tokens), &mut norms);
            for norm in &mut norms {
                *norm = self.k1 * (1.0 - self.b + self.b * *norm / average);
            }
            let scores = values.numbers(chunk.len(), 0.0);
            for (leaf, rarity) in &terms {
                let LeafMatches::Words(occurrences) = chunk.matches.leaf(*leaf) else { continue };
                let factor = rarity * (self.k1 + 1.0);
                for ((score, count), norm) in scores.iter_mut().zip(&occurrences.counts).zip(&norms) {
                    let count = f64::from(*count);
                    *score += factor * count / (count + norm).max(f64::MIN_POSITIVE);
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

/// The number of words in each matched document.
pub(crate) fn field_lengths(chunk: &Chunk<'_>, tokens: Option<&Tokens>, lengths: &mut Vec<f64>) {
    lengths.clear();
    let Some(tokens) = tokens else {
        lengths.resize(chunk.len(), 0.0);
        return;
    };
    let starts = tokens.starts();
    // Element boundaries are no words; most columns have none, which one look at all numbers tells.
    let has_boundaries = match tokens.ids() {
        TokenIds::Narrow(ids) => ids.contains(&0),
        TokenIds::Wide(ids) => ids.contains(&ELEMENT_BOUNDARY),
    };
    lengths.extend(chunk.documents().map(|(_, document)| {
        let all = starts[document + 1] - starts[document];
        if !has_boundaries {
            return f64::from(all);
        }
        let boundaries = tokens.document(document).iter().filter(|id| *id == ELEMENT_BOUNDARY).count();
        f64::from(all) - boundaries as f64
    }));
}

/// `fieldLength(field)`: 1000000 where no term matches.
pub(crate) fn field_length(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    Ok(Box::new(FieldLength(setup.text_field(name, 0)?.name.to_string())))
}

struct FieldLength(String);

impl Feature for FieldLength {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let terms = terms_of(request.plan, &self.0);
        let tokens = request.column(ColumnKey::tokens(&self.0));
        let mut lengths = Vec::new();
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            field_lengths(chunk, chunk.tokens(tokens), &mut lengths);
            let out = values.numbers(chunk.len(), super::terms::FAR);
            for (document, (out, length)) in out.iter_mut().zip(&lengths).enumerate() {
                if terms.iter().any(|found| super::term::count(chunk.matches.leaf(found.leaf), document) > 0)
                {
                    *out = *length;
                }
            }
        }))
    }
}

/// `averageFieldLength(field)`
pub(crate) fn average_field_length(
    setup: &Setup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn Feature>, String> {
    Ok(Box::new(AverageFieldLength(setup.text_field(name, 0)?.name.to_string())))
}

struct AverageFieldLength(String);

impl Feature for AverageFieldLength {
    fn demands(&self) -> Demands {
        Demands { statistics: true, ..Demands::default() }
    }

    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let field = request.matches.statistics.fields.get(self.0.as_str());
        let length = field.map_or(0.0, |field| field.average_length());
        Box::new(Run(move |_: &Chunk<'_>, values: &mut Values| *values = Values::Number(length)))
    }
}
