//! `bucket_script` and `bucket_selector`: formulas of the figures of each bucket.

use serde_json::{Map, Value, json};

use super::pipelines::{figure_or_gap, filled};
use super::values::FieldSource;
use super::{AggregationScope, RequestedAggregation};
use crate::Error;
use crate::formulas::{FormulaInputs, ScriptFormula};
use crate::kept_hits::take;

/// Figures of a bucket by their names in a formula.
struct NamedFigures<'b>(Vec<(&'b str, f64)>);

impl FormulaInputs for NamedFigures<'_> {
    fn score(&self) -> f64 {
        f64::NAN
    }

    fn figure(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure)
    }

    fn numbers(&self, _: &str) -> Vec<f64> {
        Vec::new()
    }

    fn count(&self, _: &str) -> usize {
        0
    }

    fn vector(&self, _: &str) -> Option<Vec<f64>> {
        None
    }
}

/// Names of the figures that a formula has, and their paths.
///
/// # Errors
/// A path is not a text.
pub(super) fn figures_of(requested: &RequestedAggregation) -> Result<Vec<(&str, &str)>, Error> {
    let paths = match requested.options.get("buckets_path") {
        Some(Value::String(path)) => return Ok(vec![("_value", path.as_str())]),
        Some(Value::Object(paths)) => paths,
        _ => {
            return Err(Error::IllegalArgument(format!(
                "[buckets_path] of [{}] must be an object of paths by the names of [script]",
                requested.name
            )));
        }
    };
    if paths.values().any(|path| !path.is_string()) {
        return Err(Error::IllegalArgument(format!(
            "a path in [buckets_path] of [{}] is not a text",
            requested.name
        )));
    }
    Ok(paths.iter().filter_map(|(name, path)| Some((name.as_str(), path.as_str()?))).collect())
}

/// Formula of a pipeline of these figures.
///
/// # Errors
/// There is none, or its script is more than a formula.
pub(super) fn formula_of(
    requested: &RequestedAggregation,
    figures: &[(&str, &str)],
) -> Result<ScriptFormula, Error> {
    let names: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
    match requested.options.get("script") {
        Some(script) => ScriptFormula::parse(script, &names),
        None => Err(Error::IllegalArgument(format!("Required [script] of [{}]", requested.name))),
    }
}

/// Adds a figure to each bucket, or leaves out the buckets for which the formula is not true. A bucket that
/// lacks a figure gets none, and is left out.
///
/// # Errors
/// A path leads to no figures; the answer takes more memory than it may.
pub(super) fn apply(
    requested: &RequestedAggregation,
    inner: &[RequestedAggregation],
    buckets: &mut Vec<Map<String, Value>>,
    scope: &AggregationScope<'_>,
) -> Result<(), Error> {
    let paths = figures_of(requested)?;
    let formula = formula_of(requested, &paths)?;
    let source = FieldSource::of_figures(requested.options.get("format"));
    let name =
        if scope.names_types { format!("simple_value#{}", requested.name) } else { requested.name.clone() };
    for mut bucket in std::mem::take(buckets) {
        let mut figures = Vec::with_capacity(paths.len());
        for (name, path) in &paths {
            let figure = match *path {
                "_key" => bucket.get("key").and_then(Value::as_f64),
                path => figure_or_gap(&bucket, path, inner)?,
            };
            figures.extend(filled(requested, figure).map(|figure| (*name, figure)));
        }
        let value = match figures.len() == paths.len() {
            true => Some(formula.value(&NamedFigures(figures))?).filter(|value| value.is_finite()),
            false => None,
        };
        if requested.kind == "bucket_selector" {
            if value.is_some_and(|value| value != 0.0) {
                buckets.push(bucket);
            }
            continue;
        }
        if let Some(value) = value {
            let mut figure = json!({ "value": value });
            if let Some(text) = source.text_of_number(value) {
                figure["value_as_string"] = text.into();
            }
            take(scope.memory, requested.text_bytes())?;
            if let Some(meta) = &requested.meta {
                figure["meta"] = meta.clone();
            }
            bucket.insert(name.clone(), figure);
        }
        buckets.push(bucket);
    }
    Ok(())
}
