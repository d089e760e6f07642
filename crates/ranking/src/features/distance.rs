//! Distances measured by query operators, and raw scores of operators.

use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::LeafMatches;
use millrace_plan::{LeafId, Plan, Predicate};
use millrace_schema::DistanceMetric;

use super::term::{leaf, leaves_labelled, match_weight};
use super::time::logarithmic;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Microdegrees per kilometre along a great circle.
const MICRODEGREES_PER_KM: f64 = 180e6 / (std::f64::consts::PI * 6371.0088);
/// Distance of a document without a position, in kilometres.
const NOWHERE_KM: f64 = 711_648.5;
/// Distance of a document without a position, in microdegrees.
const NOWHERE: f64 = 6.4e9;

/// Selection of query operators.
enum OperatorSelector {
    Field(String),
    Label(String),
}

impl OperatorSelector {
    fn leaves(&self, plan: &Plan) -> Vec<LeafId> {
        match self {
            OperatorSelector::Label(label) => leaves_labelled(plan, label),
            OperatorSelector::Field(field) => {
                (0..plan.leaves.len()).map(LeafId).filter(|id| *plan.leaves[id.0].field == **field).collect()
            }
        }
    }
}

enum DistanceOutput {
    Distance,
    Closeness,
    GeoDistance,
    GeoKilometres,
    GeoCloseness { max: f64 },
    GeoLogarithmic { max: f64, scale: f64 },
    RawScore,
}

struct MeasuredDistances {
    which: OperatorSelector,
    of: DistanceOutput,
}

fn which(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<OperatorSelector, Error> {
    match (name.parameters.first().map(String::as_str), name.parameters.get(1)) {
        (Some("field"), Some(_)) => {
            let field = setup.field(name, 1)?;
            match field.data_type {
                DataType::Tensor(_) => Ok(OperatorSelector::Field(field.name.to_string())),
                _ => Err(Error::setup(format!(
                    "{name} needs a tensor field, but {} is {}",
                    field.name, field.data_type
                ))),
            }
        }
        (Some("label"), Some(label)) => Ok(OperatorSelector::Label(label.clone())),
        _ => {
            Err(Error::setup(format!("{name}: write {}(field,name) or {}(label,name)", name.name, name.name)))
        }
    }
}

/// `distance(field,name)`, `distance(label,name)`, `distance(name)`
pub(crate) fn distance(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    if name.parameters.len() == 1 {
        let which = OperatorSelector::Field(setup.field(name, 0)?.name.to_string());
        let of = match name.output.as_deref() {
            None => DistanceOutput::GeoDistance,
            Some("km") => DistanceOutput::GeoKilometres,
            Some(output) => {
                return super::nearest_place::setup(setup, name, output)?.ok_or_else(|| {
                    Error::setup(format!(
                        "{name}: the distance to a position has the outputs km, index, latitude and longitude"
                    ))
                });
            }
        };
        return Ok(Box::new(MeasuredDistances { which, of }));
    }
    Ok(Box::new(MeasuredDistances { which: which(setup, name)?, of: DistanceOutput::Distance }))
}

/// `closeness(field,name)`, `closeness(label,name)`, `closeness(name)`
pub(crate) fn closeness(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    if name.parameters.len() == 1 {
        let field = setup.field(name, 0)?.name.to_string();
        let max = setup.properties.number("closeness", &field, "maxDistance", 9_013_305.0)?;
        let half = setup.properties.number("closeness", &field, "halfResponse", 593_861.739)?;
        let of = match name.output.as_deref() {
            None => DistanceOutput::GeoCloseness { max },
            Some("logscale") => {
                DistanceOutput::GeoLogarithmic { max, scale: half * half / (max - 2.0 * half).max(1.0) }
            }
            Some(_) => return Err(Error::setup(format!("{name}: closeness has the output logscale"))),
        };
        return Ok(Box::new(MeasuredDistances { which: OperatorSelector::Field(field), of }));
    }
    Ok(Box::new(MeasuredDistances { which: which(setup, name)?, of: DistanceOutput::Closeness }))
}

/// `rawScore(field)`
pub(crate) fn raw_score(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let which = OperatorSelector::Field(setup.field(name, 0)?.name.to_string());
    Ok(Box::new(MeasuredDistances { which, of: DistanceOutput::RawScore }))
}

/// `itemRawScore(label)`
pub(crate) fn item_raw_score(
    _: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    match name.parameters.first() {
        Some(label) => Ok(Box::new(MeasuredDistances {
            which: OperatorSelector::Label(label.clone()),
            of: DistanceOutput::RawScore,
        })),
        None => Err(Error::setup(format!("{name} needs the label of a query item"))),
    }
}

impl RankFeature for MeasuredDistances {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let plan = request.plan;
        let leaves: Vec<(LeafId, DistanceMetric)> = self
            .which
            .leaves(plan)
            .into_iter()
            .filter_map(|id| match &leaf(plan, id)?.predicate {
                Predicate::Nearest { metric, .. } => Some((id, *metric)),
                // These operators have no metric of their own, and the features that use them ignore it.
                Predicate::GeoCircle { .. } => Some((id, DistanceMetric::GeoDegrees)),
                _ if matches!(self.of, DistanceOutput::RawScore)
                    && leaf(plan, id)?.dot_product_above.is_some() =>
                {
                    Some((id, DistanceMetric::DotProduct))
                }
                _ => None,
            })
            .collect();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| match self.of {
            DistanceOutput::RawScore => raw_scores(&leaves, chunk, values),
            DistanceOutput::Closeness => {
                let out = values.numbers(chunk.len(), f64::NEG_INFINITY);
                for (id, metric) in &leaves {
                    if let LeafMatches::Distances(distances) = chunk.matches.leaf(*id) {
                        closest(out, distances, *metric);
                    }
                }
                out.iter_mut().filter(|score| **score == f64::NEG_INFINITY).for_each(|score| *score = 0.0);
            }
            _ => self.distances(&leaves, chunk, values),
        }))
    }
}

impl MeasuredDistances {
    fn distances(
        &self,
        leaves: &[(LeafId, DistanceMetric)],
        chunk: &FeatureChunk<'_>,
        values: &mut FeatureValues,
    ) {
        let out = values.numbers(chunk.len(), f64::INFINITY);
        for (id, _) in leaves {
            if let LeafMatches::Distances(distances) = chunk.matches.leaf(*id) {
                out.iter_mut()
                    .zip(distances)
                    .for_each(|(nearest, distance)| *nearest = nearest.min(*distance));
            }
        }
        for distance in out {
            let known = distance.is_finite();
            let microdegrees = if known { *distance * MICRODEGREES_PER_KM } else { NOWHERE };
            *distance = match self.of {
                DistanceOutput::GeoDistance => microdegrees,
                DistanceOutput::GeoKilometres if known => *distance,
                DistanceOutput::GeoKilometres => NOWHERE_KM,
                DistanceOutput::GeoCloseness { max } => (1.0 - microdegrees / max).max(0.0),
                DistanceOutput::GeoLogarithmic { max, scale } => logarithmic(microdegrees, max, scale),
                DistanceOutput::Distance | DistanceOutput::Closeness | DistanceOutput::RawScore if known => {
                    *distance
                }
                DistanceOutput::Distance | DistanceOutput::Closeness | DistanceOutput::RawScore => f64::MAX,
            };
        }
    }
}

/// Raises each score to the closeness of the distance, if that is greater.
fn closest(scores: &mut [f64], distances: &[f64], metric: DistanceMetric) {
    let pairs = scores.iter_mut().zip(distances);
    match metric {
        // The dot product itself; the distance is its negative.
        DistanceMetric::DotProduct => pairs.for_each(|(score, distance)| *score = score.max(-*distance)),
        _ => pairs.for_each(|(score, distance)| *score = score.max(1.0 / (1.0 + *distance))),
    }
}

fn raw_scores(leaves: &[(LeafId, DistanceMetric)], chunk: &FeatureChunk<'_>, values: &mut FeatureValues) {
    let mut one = vec![f64::NEG_INFINITY; chunk.len()];
    let out = values.numbers(chunk.len(), 0.0);
    for (id, metric) in leaves {
        let found = chunk.matches.leaf(*id);
        one.fill(f64::NEG_INFINITY);
        match found {
            LeafMatches::Distances(distances) => closest(&mut one, distances, *metric),
            other => one.iter_mut().enumerate().for_each(|(at, score)| {
                *score = match_weight(other, at).unwrap_or(f64::NEG_INFINITY);
            }),
        }
        out.iter_mut()
            .zip(&one)
            .filter(|(_, score)| score.is_finite())
            .for_each(|(sum, score)| *sum += score);
    }
}
