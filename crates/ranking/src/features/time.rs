//! Age and freshness.

use millrace_column::{Column, ColumnKey};
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;

use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Age of a document without a time, in seconds.
const UNKNOWN: f64 = 1e10;

enum TimeOutput {
    Age,
    Linear { max_age: f64 },
    Logarithmic { max_age: f64, scale: f64 },
}

struct TimeFeature {
    field: String,
    of: TimeOutput,
}

/// `age(field)`
pub(crate) fn age(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.field(name, 0)?.name.to_string();
    Ok(Box::new(TimeFeature { field, of: TimeOutput::Age }))
}

/// `freshness(field)` and `freshness(field).logscale`
pub(crate) fn freshness(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.field(name, 0)?.name.to_string();
    let max_age = setup.properties.number("freshness", &field, "maxAge", 3.0 * 30.0 * 86_400.0)?;
    let half = setup.properties.number("freshness", &field, "halfResponse", 7.0 * 86_400.0)?;
    let (max_age, scale) = logarithm(max_age, half);
    let of = match name.output.as_deref() {
        None => TimeOutput::Linear { max_age },
        Some("logscale") => TimeOutput::Logarithmic { max_age, scale },
        Some(_) => return Err(Error::setup(format!("{name}: freshness has the output logscale"))),
    };
    Ok(Box::new(TimeFeature { field, of }))
}

impl RankFeature for TimeFeature {
    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.field));
        let now = request.plan.now as f64;
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            match chunk.column(column) {
                Some(Column::Fixed(fixed)) => super::attribute::numbers(fixed, chunk, values),
                _ => _ = values.numbers(chunk.len(), f64::NAN),
            }
            let FeatureValues::Numbers(numbers) = values else { return };
            for number in numbers {
                let age = if number.is_nan() { UNKNOWN } else { (now - *number).max(0.0) };
                *number = match self.of {
                    TimeOutput::Age => age,
                    TimeOutput::Linear { max_age } => (1.0 - age / max_age).max(0.0),
                    TimeOutput::Logarithmic { max_age, scale } => logarithmic(age, max_age, scale),
                };
            }
        }))
    }
}

/// Maximum and scale of [`logarithmic`], so that its value is one half at `half`. As in Vespa, both numbers
/// are at least 1, and `half` is below the middle.
pub(crate) fn logarithm(max: f64, half: f64) -> (f64, f64) {
    let (max, half) = (max.max(1.0), half.max(1.0));
    let half = if half >= max / 2.0 { max / 2.0 - 1.0 } else { half };
    (max, (half * half / (max - 2.0 * half)).max(f64::MIN_POSITIVE))
}

/// A value from 1 at `x` = 0 to 0 at `max` that falls ever more slowly.
pub(crate) fn logarithmic(x: f64, max: f64, scale: f64) -> f64 {
    if x > max {
        return 0.0;
    }
    ((max + scale).ln() - (x + scale).ln()) / ((max + scale).ln() - scale.ln())
}
