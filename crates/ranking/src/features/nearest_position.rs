//! Distances of a document's positions from those in the query: `distance(field)`, `closeness(field)` and
//! `great_circle_distance(field)`.

use millrace_column::ColumnKey;
use millrace_expression::FeatureName;
use millrace_matching::{GeoCentre, SingleValue, SingleValueReader, SingleValueRef};
use millrace_plan::{Plan, Predicate};
use millrace_schema::SchemaField;

use super::path::WHOLE;
use super::time::{logarithm, logarithmic};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Microdegrees per kilometre along a great circle.
const MICRODEGREES_PER_KM: f64 = 180e6 / (std::f64::consts::PI * 6371.0088);
/// Distance of a document without a position, in kilometres.
const NOWHERE_KM: f64 = 40_000.0;
/// Distance of a document without a position, in microdegrees.
pub(super) const NOWHERE: f64 = 6.4e9;

/// Property of the pair of positions that are nearest to each other.
#[derive(Debug, Clone, Copy)]
enum PositionOutput {
    Microdegrees,
    Kilometres {
        nowhere: f64,
    },
    Closeness {
        max: f64,
    },
    Logarithmic {
        max: f64,
        scale: f64,
    },
    /// Index of the document's position.
    Index,
    /// Degrees, north positive.
    Latitude,
    /// Degrees, east positive.
    Longitude,
}

fn feature(field: &SchemaField, output: PositionOutput) -> Box<dyn RankFeature> {
    Box::new(NearestPosition {
        field: field.name.to_string(),
        values: SingleValueReader::new(&field.data_type, WHOLE),
        output,
    })
}

/// Sets up `distance` of positions.
pub(super) fn distance(field: &SchemaField, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let output = match name.output.as_deref() {
        None | Some("out") => PositionOutput::Microdegrees,
        Some("km") => PositionOutput::Kilometres { nowhere: NOWHERE_KM },
        Some("index") => PositionOutput::Index,
        Some("latitude") => PositionOutput::Latitude,
        Some("longitude") => PositionOutput::Longitude,
        Some(_) => {
            return Err(Error::setup(format!(
                "{name}: the distance to a position has the outputs km, index, latitude and longitude"
            )));
        }
    };
    Ok(feature(field, output))
}

/// Sets up `great_circle_distance`.
pub(super) fn great_circle(field: &SchemaField, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let output = match name.output.as_deref() {
        None | Some("km") => PositionOutput::Kilometres { nowhere: f64::MAX },
        Some("latitude") => PositionOutput::Latitude,
        Some("longitude") => PositionOutput::Longitude,
        Some(_) => {
            return Err(Error::setup(format!(
                "{name}: great_circle_distance has the outputs km, latitude and longitude"
            )));
        }
    };
    Ok(feature(field, output))
}

/// Sets up `closeness` of positions.
pub(super) fn closeness(
    setup: &FeatureSetup<'_>,
    field: &SchemaField,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let parameters = name.parameters.join(",");
    let property = |property, default| setup.properties.number("closeness", &parameters, property, default);
    let (max, scale) =
        logarithm(property("maxDistance", 9_013_305.0)?, property("halfResponse", 593_861.739)?);
    let output = match name.output.as_deref() {
        None | Some("out") => PositionOutput::Closeness { max },
        Some("logscale") => PositionOutput::Logarithmic { max, scale },
        Some(_) => return Err(Error::setup(format!("{name}: closeness has the output logscale"))),
    };
    Ok(feature(field, output))
}

struct NearestPosition {
    field: String,
    values: SingleValueReader,
    output: PositionOutput,
}

/// A position of the document: its distance from the query's, its index, and its position in degrees.
#[derive(Clone, Copy)]
struct FoundPosition {
    kilometres: f64,
    index: usize,
    degrees: (f64, f64),
}

/// The positions of a query in a field; where it has none there, those in its other fields.
fn positions(plan: &Plan, field: &str) -> Vec<GeoCentre> {
    let positions = plan.leaves.iter().filter_map(|leaf| match leaf.predicate {
        Predicate::GeoCircle { latitude, longitude, .. } => {
            Some((*leaf.field == *field, GeoCentre::new(latitude, longitude)))
        }
        _ => None,
    });
    let (own, others): (Vec<_>, Vec<_>) = positions.partition(|(is_own, _)| *is_own);
    let chosen = if own.is_empty() { others } else { own };
    chosen.into_iter().map(|(_, position)| position).collect()
}

impl RankFeature for NearestPosition {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let positions = positions(request.plan, &self.field);
        let column = request.column(ColumnKey::value(&self.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), self.output.of(None));
            let Some(column) = chunk.column(column) else { return };
            let mut best: Vec<Option<FoundPosition>> = vec![None; chunk.len()];
            chunk.each_single(&self.values, column, |SingleValue { row, index, value, .. }| {
                let Some(SingleValueRef::Position { latitude, longitude }) = value else { return };
                let degrees = (f64::from(latitude) / 1e6, f64::from(longitude) / 1e6);
                let away = positions
                    .iter()
                    .map(|position| position.distance_km(degrees.0, degrees.1))
                    .reduce(f64::min);
                if let Some(kilometres) = away
                    && best[row].is_none_or(|best| kilometres < best.kilometres)
                {
                    best[row] = Some(FoundPosition { kilometres, index, degrees });
                }
            });
            for (out, best) in out.iter_mut().zip(best) {
                *out = self.output.of(best);
            }
        }))
    }
}

impl PositionOutput {
    fn of(self, found: Option<FoundPosition>) -> f64 {
        let microdegrees = found.as_ref().map_or(NOWHERE, |found| found.kilometres * MICRODEGREES_PER_KM);
        match self {
            PositionOutput::Microdegrees => microdegrees,
            PositionOutput::Kilometres { nowhere } => found.map_or(nowhere, |found| found.kilometres),
            PositionOutput::Closeness { max } => (1.0 - microdegrees / max).max(0.0),
            PositionOutput::Logarithmic { max, scale } => logarithmic(microdegrees, max, scale),
            PositionOutput::Index => found.map_or(-1.0, |found| found.index as f64),
            PositionOutput::Latitude => found.map_or(90.0, |found| found.degrees.0),
            PositionOutput::Longitude => found.map_or(-180.0, |found| found.degrees.1),
        }
    }
}
