//! Distances measured by query operators, and raw scores of operators.

use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::LeafMatches;
use millrace_plan::{LeafId, Plan, PlanLeaf, Predicate};
use millrace_schema::{DistanceMetric, SchemaField};

use super::nearest_place::{self, has_places};
use super::term::{leaf, leaves_labelled, match_weight};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Selection of query operators.
enum OperatorSelector {
    Field(String),
    Label(String),
}

impl OperatorSelector {
    fn leaves(&self, plan: &Plan) -> Vec<LeafId> {
        match self {
            OperatorSelector::Label(label) => {
                let is_mark = |leaf: &PlanLeaf| matches!(&leaf.predicate, Predicate::Labeled { label: own, .. } if own == label);
                let marks = plan.leaves.iter().enumerate().filter(|(_, leaf)| is_mark(leaf));
                leaves_labelled(plan, label).into_iter().chain(marks.map(|(at, _)| LeafId(at))).collect()
            }
            OperatorSelector::Field(field) => {
                (0..plan.leaves.len()).map(LeafId).filter(|id| *plan.leaves[id.0].field == **field).collect()
            }
        }
    }
}

/// Property of the vectors that a query names.
enum DistanceOutput {
    Distance,
    Closeness,
    RawScore,
}

struct MeasuredDistances {
    which: OperatorSelector,
    of: DistanceOutput,
}

/// Object that a distance is measured to.
enum MeasuredObject<'s> {
    Vectors(OperatorSelector),
    Places(&'s SchemaField),
}

/// Reads `(name)`, `(field,name)` and `(label,name)`: a field of tensors or positions, or a query operator.
fn measured<'s>(setup: &'s FeatureSetup<'_>, name: &FeatureName) -> Result<MeasuredObject<'s>, Error> {
    let at = match (name.parameters.first().map(String::as_str), name.parameters.get(1)) {
        (Some("label"), Some(label)) => {
            return Ok(MeasuredObject::Vectors(OperatorSelector::Label(label.clone())));
        }
        (Some("field"), Some(_)) => 1,
        (Some(_), None) => 0,
        _ => {
            let feature = &name.name;
            return Err(Error::setup(format!(
                "{name}: write {feature}(field,name) or {feature}(label,name)"
            )));
        }
    };
    let field = setup.field(name, at)?;
    match &field.data_type {
        DataType::Tensor(_) => Ok(MeasuredObject::Vectors(OperatorSelector::Field(field.name.to_string()))),
        data_type if has_places(data_type) => Ok(MeasuredObject::Places(field)),
        data_type => Err(Error::setup(format!(
            "{name} needs a tensor field or one of positions, but {} is {data_type}",
            field.name
        ))),
    }
}

fn no_output(name: &FeatureName) -> Result<(), Error> {
    match &name.output {
        None => Ok(()),
        Some(output) if output == "out" => Ok(()),
        Some(_) => Err(Error::setup(format!("{name}: {} of a vector has no outputs", name.name))),
    }
}

/// `distance(name)`, `distance(field,name)`, `distance(label,name)`
pub(crate) fn distance(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    match measured(setup, name)? {
        MeasuredObject::Places(field) => nearest_place::distance(field, name),
        MeasuredObject::Vectors(which) => {
            no_output(name)?;
            Ok(Box::new(MeasuredDistances { which, of: DistanceOutput::Distance }))
        }
    }
}

/// `closeness(name)`, `closeness(field,name)`, `closeness(label,name)`
pub(crate) fn closeness(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    match measured(setup, name)? {
        MeasuredObject::Places(field) => nearest_place::closeness(setup, field, name),
        MeasuredObject::Vectors(which) => {
            no_output(name)?;
            Ok(Box::new(MeasuredDistances { which, of: DistanceOutput::Closeness }))
        }
    }
}

/// `great_circle_distance(name)`, `great_circle_distance(field,name)`
pub(crate) fn great_circle(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    match measured(setup, name)? {
        MeasuredObject::Places(field) => nearest_place::great_circle(field, name),
        MeasuredObject::Vectors(_) => Err(Error::setup(format!("{name} needs a field of positions"))),
    }
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
        let leaves: Vec<MeasuredLeaf> = self
            .which
            .leaves(plan)
            .into_iter()
            .filter_map(|id| match &leaf(plan, id)?.predicate {
                Predicate::Nearest { metric, threshold, .. } => {
                    Some(MeasuredLeaf { id, metric: *metric, threshold: *threshold, score: None })
                }
                Predicate::Labeled { score, .. } if matches!(self.of, DistanceOutput::RawScore) => {
                    let metric = DistanceMetric::DotProduct;
                    Some(MeasuredLeaf { id, metric, threshold: None, score: Some(*score) })
                }
                // A dot product has no metric; its weight is the raw score.
                _ if matches!(self.of, DistanceOutput::RawScore)
                    && leaf(plan, id)?.dot_product_above.is_some() =>
                {
                    let metric = DistanceMetric::DotProduct;
                    Some(MeasuredLeaf { id, metric, threshold: None, score: None })
                }
                _ => None,
            })
            .collect();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| match self.of {
            DistanceOutput::RawScore => raw_scores(&leaves, chunk, values),
            DistanceOutput::Closeness => {
                let out = values.numbers(chunk.len(), f64::NEG_INFINITY);
                for MeasuredLeaf { id, metric, .. } in &leaves {
                    if let LeafMatches::Distances(distances) = chunk.matches.leaf(*id) {
                        closest(out, distances, *metric);
                    }
                }
                out.iter_mut().filter(|score| **score == f64::NEG_INFINITY).for_each(|score| *score = 0.0);
            }
            DistanceOutput::Distance => {
                let out = values.numbers(chunk.len(), f64::MAX);
                for MeasuredLeaf { id, .. } in &leaves {
                    if let LeafMatches::Distances(distances) = chunk.matches.leaf(*id) {
                        out.iter_mut()
                            .zip(distances)
                            .for_each(|(nearest, distance)| *nearest = nearest.min(*distance));
                    }
                }
            }
        }))
    }
}

/// A query operator, with the metric and the threshold of its distances.
struct MeasuredLeaf {
    id: LeafId,
    metric: DistanceMetric,
    /// Maximum distance of a match.
    threshold: Option<f64>,
    /// Raw score of every match, if the query gives it.
    score: Option<f64>,
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

fn raw_scores(leaves: &[MeasuredLeaf], chunk: &FeatureChunk<'_>, values: &mut FeatureValues) {
    let mut one = vec![f64::NEG_INFINITY; chunk.len()];
    let out = values.numbers(chunk.len(), 0.0);
    for MeasuredLeaf { id, metric, threshold, score } in leaves {
        let found = chunk.matches.leaf(*id);
        one.fill(f64::NEG_INFINITY);
        match found {
            LeafMatches::Distances(distances) => {
                closest(&mut one, distances, *metric);
                // Beyond the threshold the operator does not match.
                let most = threshold.unwrap_or(f64::INFINITY);
                let far = one.iter_mut().zip(distances).filter(|(_, distance)| **distance > most);
                far.for_each(|(score, _)| *score = f64::NEG_INFINITY);
            }
            other => one.iter_mut().enumerate().for_each(|(at, one)| {
                let weight = match_weight(other, at);
                *one = weight.map_or(f64::NEG_INFINITY, |weight| score.unwrap_or(weight));
            }),
        }
        out.iter_mut()
            .zip(&one)
            .filter(|(_, score)| score.is_finite())
            .for_each(|(sum, score)| *sum += score);
    }
}
