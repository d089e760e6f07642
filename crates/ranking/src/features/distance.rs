//! Distances measured by query operators, and raw scores of operators.

use millrace_column::ColumnKey;
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{GeoCentre, LeafMatches, SingleValue, SingleValueReader, SingleValueRef};
use millrace_plan::{LeafId, Plan, PlanLeaf, Predicate};
use millrace_schema::{DistanceMetric, SchemaField};

use super::nearest_position;
use super::term::{leaf, leaves_labelled, match_weight};
use super::{
    ClosureExecutor, ColumnSlot, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    RankFeature,
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

/// Property of the operators that a query names.
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
    Positions(&'s SchemaField),
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
        data_type if data_type.has_nested_positions() => Ok(MeasuredObject::Positions(field)),
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
        MeasuredObject::Positions(field) => nearest_position::distance(field, name),
        MeasuredObject::Vectors(which) => {
            no_output(name)?;
            Ok(Box::new(MeasuredDistances { which, of: DistanceOutput::Distance }))
        }
    }
}

/// `closeness(name)`, `closeness(field,name)`, `closeness(label,name)`
pub(crate) fn closeness(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    match measured(setup, name)? {
        MeasuredObject::Positions(field) => nearest_position::closeness(setup, field, name),
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
        MeasuredObject::Positions(field) => nearest_position::great_circle(field, name),
        MeasuredObject::Vectors(_) => Err(Error::setup(format!("{name} needs a field of positions"))),
    }
}

/// `rawScore(field)`
pub(crate) fn raw_score(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let which = OperatorSelector::Field(setup.searchable_field(name, 0)?.name.to_string());
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

impl MeasuredDistances {
    /// Source of an operator's scores; `None` if this feature reads nothing of it.
    fn measure(&self, leaf: &PlanLeaf, request: &mut FeatureRequest<'_>) -> Option<LeafMeasure> {
        let is_raw = matches!(self.of, DistanceOutput::RawScore);
        match &leaf.predicate {
            Predicate::Nearest { metric, threshold, .. } => {
                Some(LeafMeasure::Vectors { metric: *metric, threshold: *threshold })
            }
            Predicate::GeoCircle { latitude, longitude, .. } => {
                let plan = request.plan;
                let (name, path) = leaf.field.split_once('.').unwrap_or((&*leaf.field, ""));
                let path: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
                let field = plan.schema.fields.get(name)?;
                Some(LeafMeasure::Place {
                    centre: GeoCentre::new(*latitude, *longitude),
                    values: SingleValueReader::new(&field.data_type, &path),
                    column: request.column(ColumnKey::value(name)),
                })
            }
            // A box has no centre: every position in it is as near as can be.
            Predicate::GeoBox(_) => Some(LeafMeasure::Score(1.0)),
            Predicate::Labeled { score, .. } if is_raw => Some(LeafMeasure::Score(*score)),
            _ if is_raw && leaf.dot_product_above.is_some() => Some(LeafMeasure::Weight),
            _ => None,
        }
    }
}

impl RankFeature for MeasuredDistances {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let plan = request.plan;
        let mut leaves = Vec::new();
        for id in self.which.leaves(plan) {
            if let Some(of) = leaf(plan, id).and_then(|leaf| self.measure(leaf, request)) {
                leaves.push(MeasuredLeaf { id, of });
            }
        }
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| match self.of {
            DistanceOutput::RawScore => {
                let out = values.numbers(chunk.len(), 0.0);
                for leaf in &leaves {
                    let scores = leaf.raw_scores(chunk);
                    out.iter_mut()
                        .zip(scores)
                        .filter(|(_, score)| score.is_finite())
                        .for_each(|(sum, score)| *sum += score);
                }
            }
            DistanceOutput::Closeness => {
                let out = values.numbers(chunk.len(), f64::NEG_INFINITY);
                for leaf in &leaves {
                    match (&leaf.of, chunk.matches.leaf(leaf.id)) {
                        (LeafMeasure::Vectors { metric, .. }, LeafMatches::Distances(distances)) => {
                            closest(out, distances, *metric);
                        }
                        (LeafMeasure::Vectors { .. }, _) => {}
                        _ => {
                            let scores = leaf.raw_scores(chunk);
                            out.iter_mut().zip(scores).for_each(|(best, score)| *best = best.max(score));
                        }
                    }
                }
                out.iter_mut().filter(|score| **score == f64::NEG_INFINITY).for_each(|score| *score = 0.0);
            }
            DistanceOutput::Distance => {
                let out = values.numbers(chunk.len(), f64::MAX);
                for leaf in &leaves {
                    match (&leaf.of, chunk.matches.leaf(leaf.id)) {
                        (LeafMeasure::Vectors { .. }, LeafMatches::Distances(distances)) => {
                            out.iter_mut()
                                .zip(distances)
                                .for_each(|(nearest, distance)| *nearest = nearest.min(*distance));
                        }
                        (LeafMeasure::Vectors { .. }, _) => {}
                        _ => {
                            let scores = leaf.raw_scores(chunk);
                            out.iter_mut()
                                .zip(scores)
                                .filter(|(_, score)| score.is_finite())
                                .for_each(|(nearest, score)| *nearest = nearest.min(1.0 / score - 1.0));
                        }
                    }
                }
            }
        }))
    }
}

/// A query operator with the source of its scores.
struct MeasuredLeaf {
    id: LeafId,
    of: LeafMeasure,
}

/// Source of an operator's raw scores.
enum LeafMeasure {
    /// Distances of vectors. Beyond the threshold the operator does not match.
    Vectors { metric: DistanceMetric, threshold: Option<f64> },
    /// Positions of the documents, and the one in the query.
    Place { centre: GeoCentre, values: SingleValueReader, column: ColumnSlot },
    /// Weights of the matches. A dot product has no metric: its weight is the raw score.
    Weight,
    /// Score of every match, as the query gives it.
    Score(f64),
}

impl MeasuredLeaf {
    /// Raw scores in a chunk, one for each document; negative infinity where the operator does not match.
    fn raw_scores(&self, chunk: &FeatureChunk<'_>) -> Vec<f64> {
        let mut scores = vec![f64::NEG_INFINITY; chunk.len()];
        let found = chunk.matches.leaf(self.id);
        match &self.of {
            LeafMeasure::Vectors { metric, threshold } => {
                let LeafMatches::Distances(distances) = found else { return scores };
                closest(&mut scores, distances, *metric);
                let limit = threshold.unwrap_or(f64::INFINITY);
                let far = scores.iter_mut().zip(distances).filter(|(_, distance)| **distance > limit);
                far.for_each(|(score, _)| *score = f64::NEG_INFINITY);
            }
            LeafMeasure::Place { centre, values, column } => {
                let Some(column) = chunk.column(*column) else { return scores };
                chunk.each_single(values, column, |SingleValue { row, value, .. }| {
                    let Some(SingleValueRef::Position { latitude, longitude }) = value else { return };
                    if match_weight(found, row).is_some() {
                        let kilometres = centre.plane_distance_km(latitude, longitude);
                        scores[row] = scores[row].max(1.0 / (1.0 + kilometres));
                    }
                });
            }
            LeafMeasure::Weight | LeafMeasure::Score(_) => {
                for (at, score) in scores.iter_mut().enumerate() {
                    let weight = match_weight(found, at);
                    *score = match self.of {
                        LeafMeasure::Score(given) => weight.map_or(f64::NEG_INFINITY, |_| given),
                        _ => weight.unwrap_or(f64::NEG_INFINITY),
                    };
                }
            }
        }
        scores
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
