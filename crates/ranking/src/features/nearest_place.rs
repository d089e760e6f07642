//! `distance(field)`: the position of a document nearest to those in the query.

use millrace_column::{ColumnKey, value};
use millrace_document::{DataType, DocumentValue};
use millrace_expression::FeatureName;
use millrace_matching::distance_km;
use millrace_plan::Predicate;

use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

#[derive(Debug, Clone, Copy)]
enum NearestPlaceOutput {
    Index,
    Latitude,
    Longitude,
}

struct NearestPlace {
    field: String,
    data_type: DataType,
    output: NearestPlaceOutput,
}

/// Sets up `distance(field).index`, `.latitude` or `.longitude`; `None` for other outputs.
pub(crate) fn setup(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
    output: &str,
) -> Result<Option<Box<dyn RankFeature>>, Error> {
    let output = match output {
        "index" => NearestPlaceOutput::Index,
        "latitude" => NearestPlaceOutput::Latitude,
        "longitude" => NearestPlaceOutput::Longitude,
        _ => return Ok(None),
    };
    let field = setup.field(name, 0)?;
    Ok(Some(Box::new(NearestPlace {
        field: field.name.to_string(),
        data_type: field.data_type.clone(),
        output,
    })))
}

impl RankFeature for NearestPlace {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let places: Vec<(f64, f64)> = request
            .plan
            .leaves
            .iter()
            .filter(|leaf| *leaf.field == *self.field)
            .filter_map(|leaf| match leaf.predicate {
                Predicate::GeoCircle { latitude, longitude, .. } => Some((latitude, longitude)),
                _ => None,
            })
            .collect();
        let column = request.column(ColumnKey::value(&self.field));
        let missing = match self.output {
            NearestPlaceOutput::Index => -1.0,
            NearestPlaceOutput::Latitude => 90.0,
            NearestPlaceOutput::Longitude => -180.0,
        };
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), missing);
            let Some(column) = chunk.column(column) else { return };
            for (at, document) in chunk.documents() {
                let value = value(column, &self.data_type, document);
                let positions = match &value {
                    Some(DocumentValue::Array(elements)) => elements.as_slice(),
                    Some(single) => std::slice::from_ref(single),
                    None => &[],
                };
                let mut best = f64::INFINITY;
                for (index, position) in positions.iter().enumerate() {
                    let DocumentValue::Position { latitude, longitude } = position else { continue };
                    let here = (f64::from(*latitude) / 1e6, f64::from(*longitude) / 1e6);
                    let away =
                        places.iter().map(|place| distance_km(*place, here)).fold(f64::INFINITY, f64::min);
                    if away < best {
                        best = away;
                        out[at] = match self.output {
                            NearestPlaceOutput::Index => index as f64,
                            NearestPlaceOutput::Latitude => here.0,
                            NearestPlaceOutput::Longitude => here.1,
                        };
                    }
                }
            }
        }))
    }
}
