//! `distanceToPath(field)`: the distance of a position from a path in the query.

use millrace_column::ColumnKey;
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{SingleValue, SingleValueReader, SingleValueRef};

use super::nearest_position::NOWHERE;
use super::path::WHOLE;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

#[derive(Debug, Clone, Copy)]
enum PathOutput {
    Distance,
    Traveled,
    Product,
}

struct DistanceToPath {
    field: String,
    values: SingleValueReader,
    output: PathOutput,
    /// Rank property of the request that contains the path.
    property: String,
    fallback: Option<String>,
}

/// `distanceToPath(field).distance`, `.traveled`, `.product`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.field(name, 0)?;
    let element = match &field.data_type {
        DataType::Array(element) => element,
        single => single,
    };
    if *element != DataType::Position {
        return Err(Error::setup(format!(
            "{name} needs a field of positions, but {} is {}",
            field.name, field.data_type
        )));
    }
    let output = match name.output.as_deref() {
        Some("distance") => PathOutput::Distance,
        Some("traveled") => PathOutput::Traveled,
        Some("product") => PathOutput::Product,
        _ => {
            return Err(Error::setup(format!(
                "{name}: distanceToPath has the outputs distance, traveled and product"
            )));
        }
    };
    Ok(Box::new(DistanceToPath {
        output,
        property: format!("distanceToPath({}).path", field.name),
        fallback: setup.properties.text("distanceToPath", &field.name, "path").map(str::to_owned),
        values: SingleValueReader::new(&field.data_type, WHOLE),
        field: field.name.to_string(),
    }))
}

/// A position in millionths of degrees: east, then north, as in the path.
type Point = (f64, f64);

/// The point of a path nearest to a position.
#[derive(Debug, Clone, Copy)]
struct NearestPathPoint {
    distance: f64,
    /// Share of the path before this point, 0 to 1.
    traveled: f64,
    product: f64,
}

/// Result for a document without a position, and for all documents if the query has no path.
const NO_PATH: NearestPathPoint = NearestPathPoint { distance: NOWHERE, traveled: 1.0, product: 0.0 };

impl RankFeature for DistanceToPath {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property).or(self.fallback.as_ref());
        let path = text.and_then(|text| parse(text)).unwrap_or_default();
        let column = request.column(ColumnKey::value(&self.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), self.output.of(&NO_PATH));
            let Some(column) = chunk.column(column) else { return };
            let mut best: Vec<Option<NearestPathPoint>> = vec![None; chunk.len()];
            chunk.each_single(&self.values, column, |SingleValue { row, value, .. }| {
                let Some(SingleValueRef::Position { latitude, longitude }) = value else { return };
                let near = nearest(&path, (f64::from(longitude), f64::from(latitude)));
                best[row] = match (best[row], near) {
                    (Some(best), Some(near)) if near.distance.total_cmp(&best.distance).is_ge() => Some(best),
                    (best, near) => near.or(best),
                };
            });
            for (out, best) in out.iter_mut().zip(best) {
                *out = self.output.of(&best.unwrap_or(NO_PATH));
            }
        }))
    }
}

impl PathOutput {
    fn of(self, nearest: &NearestPathPoint) -> f64 {
        match self {
            PathOutput::Distance => nearest.distance,
            PathOutput::Traveled => nearest.traveled,
            PathOutput::Product => nearest.product,
        }
    }
}

/// Parses `(x1,y1,x2,y2,…)` of at least two points.
fn parse(text: &str) -> Option<Vec<Point>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let numbers: Vec<f64> =
        inner.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let (points, rest) = numbers.as_chunks::<2>();
    (points.len() >= 2 && rest.is_empty()).then(|| points.iter().map(|[x, y]| (*x, *y)).collect())
}

/// The nearest point of a path; the first one of several.
fn nearest(path: &[Point], place: Point) -> Option<NearestPathPoint> {
    let mut best: Option<NearestPathPoint> = None;
    let mut length = 0.0;
    for part in path.windows(2) {
        let (from, to) = (part[0], part[1]);
        let along = (to.0 - from.0, to.1 - from.1);
        let squared = along.0 * along.0 + along.1 * along.1;
        let share = match squared > 0.0 {
            true => (((place.0 - from.0) * along.0 + (place.1 - from.1) * along.1) / squared).clamp(0.0, 1.0),
            false => 0.0,
        };
        let met = (from.0 + share * along.0, from.1 + share * along.1);
        let away = (met.0 - place.0, met.1 - place.1);
        let distance = away.0.hypot(away.1);
        if best.is_none_or(|best| distance < best.distance) {
            best = Some(NearestPathPoint {
                distance,
                traveled: length + share * squared.sqrt(),
                product: along.0 * away.1 - away.0 * along.1,
            });
        }
        length += squared.sqrt();
    }
    best.map(|best| NearestPathPoint {
        traveled: if length > 0.0 { best.traveled / length } else { 0.0 },
        ..best
    })
}
