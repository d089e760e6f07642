//! Pipelines: figures of finished buckets.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::metrics::figures;
use super::values::FieldSource;
use super::{AggregationScope, RequestedAggregation, bucket_formulas};
use crate::Error;
use crate::kept_hits::take;
use crate::query::text_of;
use crate::scan_limit::duration_of;
use crate::small_sort::sort_few;

/// Place of a pipeline beside the buckets that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineKind {
    /// Inside of the aggregation whose buckets it reads; each of them gets a figure.
    OfBuckets,
    /// Beside the aggregation whose buckets it reads.
    OfSiblings,
}

impl PipelineKind {
    /// Place of a kind; `None` if it is no pipeline.
    pub(super) fn of(kind: &str) -> Option<Self> {
        match kind {
            "derivative" | "cumulative_sum" | "serial_diff" | "moving_fn" | "bucket_sort"
            | "bucket_script" | "bucket_selector" => Some(PipelineKind::OfBuckets),
            "avg_bucket"
            | "sum_bucket"
            | "min_bucket"
            | "max_bucket"
            | "stats_bucket"
            | "extended_stats_bucket"
            | "percentiles_bucket" => Some(PipelineKind::OfSiblings),
            _ => None,
        }
    }
}

/// Functions of `moving_fn`.
const MOVING: [&str; 5] = ["max", "min", "sum", "unweightedAvg", "linearWeightedAvg"];

/// Checks a pipeline in its place.
///
/// # Errors
/// An option is missing or malformed, or the pipeline cannot stand there.
pub(super) fn check(
    requested: &RequestedAggregation,
    siblings: &[RequestedAggregation],
    around: &[&str],
) -> Result<(), Error> {
    let Some(place) = PipelineKind::of(&requested.kind) else { return Ok(()) };
    let (name, kind) = (&requested.name, &requested.kind);
    match requested.options.get("gap_policy").map(text_of).as_deref() {
        None | Some("skip" | "insert_zeros") => {}
        Some(other) => {
            return Err(Error::Parsing(format!(
                "Invalid gap policy: [{other}], accepted values: [insert_zeros, skip]"
            )));
        }
    }
    if kind == "moving_fn" {
        let window = requested.options.get("window").and_then(whole_of).unwrap_or(0);
        if window <= 0 {
            return Err(Error::IllegalArgument("[window] must be a positive, non-zero integer.".to_owned()));
        }
        moving_function(requested)?;
    }
    if place == PipelineKind::OfBuckets {
        let Some(parent) = around.last() else {
            return Err(Error::Validation(vec![format!(
                "{kind} aggregation [{name}] must be declared inside of another aggregation"
            )]));
        };
        if !kind.starts_with("bucket_") && !parent.ends_with("histogram") {
            return Err(Error::Validation(vec![format!(
                "{kind} aggregation [{name}] must have a histogram, date_histogram or auto_date_histogram as parent"
            )]));
        }
    }
    if kind == "bucket_sort" {
        return Ok(());
    }
    let paths = match kind.starts_with("bucket_") {
        true => {
            let named = bucket_formulas::figures_of(requested)?;
            bucket_formulas::formula_of(requested, &named)?;
            named.into_iter().map(|(_, path)| path).collect()
        }
        false => path_of(requested).into_iter().collect::<Vec<&str>>(),
    };
    if paths.is_empty() {
        return Err(Error::IllegalArgument(format!("Required [buckets_path] of [{name}], a text")));
    }
    for path in paths {
        let first = path.split(['>', '.', '[']).next().unwrap_or_default();
        let is_there = siblings.iter().any(|one| path.starts_with(&one.name) || one.name == first);
        let is_own = matches!(first, "_count" | "_key") && place == PipelineKind::OfBuckets;
        if !is_there && !is_own {
            return Err(Error::Validation(vec![format!("No aggregation found for path [{path}]")]));
        }
    }
    Ok(())
}

/// A whole number, or a text that is one.
fn whole_of(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn path_of(requested: &RequestedAggregation) -> Option<&str> {
    match requested.options.get("buckets_path")? {
        Value::String(path) => Some(path),
        Value::Array(paths) if paths.len() == 1 => paths[0].as_str(),
        _ => None,
    }
}

/// End of a path through the answer of an aggregation.
pub(super) enum PathEnd<'v> {
    /// A figure; `None` if it has no value.
    Figure(Option<f64>),
    /// More than one bucket, at the aggregation of this name.
    Buckets(&'v str),
    Nowhere,
}

/// Member of an answer by the name of its aggregation, which may have its type before it.
fn member<'v>(answer: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let typed = || {
        let is_named = |key: &str| key.split_once('#').is_some_and(|(_, own)| own == name);
        answer.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
    };
    answer.get(name).or_else(typed)
}

/// End of a path in a bucket.
pub(super) fn end_of_path<'v>(bucket: &'v Map<String, Value>, path: &'v str) -> PathEnd<'v> {
    let (step, rest) = path.split_once('>').map_or((path, None), |(step, rest)| (step, Some(rest)));
    if step == "_count" && rest.is_none() {
        return PathEnd::Figure(bucket.get("doc_count").and_then(Value::as_f64));
    }
    // A name may have dots, as may the key of a percentile: the longest name that there is counts.
    let dots = step.match_indices('.').map(|(at, _)| at).rev();
    let found = std::iter::once(step.len()).chain(dots).find_map(|at| {
        let value = member(bucket, &step[..at])?;
        Some((value, &step[..at], step[at..].trim_start_matches('.')))
    });
    let Some((value, name, property)) = found else { return PathEnd::Nowhere };
    if value.get("buckets").is_some() {
        return match property {
            "_bucket_count" => {
                let buckets = &value["buckets"];
                let count = buckets.as_array().map(Vec::len).or(buckets.as_object().map(Map::len));
                PathEnd::Figure(count.map(|count| count as f64))
            }
            _ => PathEnd::Buckets(name),
        };
    }
    let Value::Object(members) = value else { return PathEnd::Nowhere };
    if let Some(rest) = rest {
        return end_of_path(members, rest);
    }
    let property = if property.is_empty() { "value" } else { property };
    if property == "_count" {
        return PathEnd::Figure(members.get("doc_count").and_then(Value::as_f64));
    }
    let of_list = || {
        let values = members.get("values")?;
        let is_wanted = |key: &str| key == property || key.strip_suffix(".0") == Some(property);
        values.as_object()?.iter().find(|(key, _)| is_wanted(key)).map(|(_, value)| value)
    };
    match members.get(property).or_else(of_list) {
        Some(Value::Null) => PathEnd::Figure(None),
        Some(value) if value.is_number() => PathEnd::Figure(value.as_f64()),
        _ => PathEnd::Nowhere,
    }
}

fn figure(bucket: &Map<String, Value>, path: &str) -> Result<Option<f64>, Error> {
    match end_of_path(bucket, path) {
        PathEnd::Figure(figure) => Ok(figure),
        PathEnd::Buckets(name) => Err(Error::IllegalArgument(format!(
            "buckets_path must reference either a number value or a single value numeric metric aggregation, got: [Object[]] at \
             aggregation [{name}]"
        ))),
        PathEnd::Nowhere => Err(Error::IllegalArgument(format!(
            "buckets_path must reference either a number value or a single value numeric metric aggregation; nothing of that kind \
             is at [{path}]"
        ))),
    }
}

/// A figure of a bucket, which some buckets lack if it is that of a pipeline of `all`.
pub(super) fn figure_or_gap(
    bucket: &Map<String, Value>,
    path: &str,
    all: &[RequestedAggregation],
) -> Result<Option<f64>, Error> {
    match end_of_path(bucket, path) {
        PathEnd::Nowhere if ends_at_pipeline(all, path) => Ok(None),
        _ => figure(bucket, path),
    }
}

/// True if a path leads to a pipeline, through aggregations with one bucket.
fn ends_at_pipeline(all: &[RequestedAggregation], path: &str) -> bool {
    all.iter().any(|one| match path.strip_prefix(one.name.as_str()) {
        Some(rest) if rest.is_empty() || rest.starts_with('.') => PipelineKind::of(&one.kind).is_some(),
        Some(rest) => rest.strip_prefix('>').is_some_and(|rest| ends_at_pipeline(&one.inner, rest)),
        None => false,
    })
}

/// The pipelines on the buckets around them: each after the one whose figures it reads.
fn in_order(inner: &[RequestedAggregation]) -> Vec<&RequestedAggregation> {
    let is_meant = |requested: &&RequestedAggregation| {
        PipelineKind::of(&requested.kind) == Some(PipelineKind::OfBuckets)
    };
    let all: Vec<&RequestedAggregation> = inner.iter().filter(is_meant).collect();
    let places: HashMap<&str, usize> =
        all.iter().enumerate().map(|(at, requested)| (requested.name.as_str(), at)).collect();
    let mut is_reached = vec![false; all.len()];
    let mut is_placed = vec![false; all.len()];
    let mut ordered = Vec::with_capacity(all.len());
    let mut waiting: Vec<usize> = (0..all.len()).rev().collect();
    while let Some(at) = waiting.pop() {
        if !std::mem::replace(&mut is_reached[at], true) {
            // It comes again once those that it reads are placed.
            waiting.push(at);
            let read = all[at].paths().into_iter().filter_map(|path| path.split(['>', '.']).next());
            let read = read.filter_map(|name| places.get(name).copied());
            waiting.extend(read.filter(|other| !is_reached[*other]));
        } else if !std::mem::replace(&mut is_placed[at], true) {
            ordered.push(all[at]);
        }
    }
    ordered
}

impl RequestedAggregation {
    /// Paths of the figures that a pipeline reads.
    fn paths(&self) -> Vec<&str> {
        match self.options.get("buckets_path") {
            Some(Value::String(path)) => vec![path.as_str()],
            Some(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).collect(),
            Some(Value::Object(paths)) => paths.values().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Buckets that lack a figure are left out, or count as zero.
pub(super) fn filled(requested: &RequestedAggregation, figure: Option<f64>) -> Option<f64> {
    let inserts_zeros = requested.options.get("gap_policy").is_some_and(|policy| policy == "insert_zeros");
    figure.filter(|figure| figure.is_finite()).or(inserts_zeros.then_some(0.0))
}

/// Runs a pipeline on the buckets of an aggregation beside it.
///
/// # Errors
/// Its path leads to no figures.
pub(super) fn of_siblings(
    requested: &RequestedAggregation,
    siblings: &[RequestedAggregation],
    answer: &Map<String, Value>,
) -> Result<(&'static str, Value), Error> {
    let path = path_of(requested).unwrap_or_default();
    let wrong = || {
        Error::IllegalArgument(format!(
            "[buckets_path] [{path}] of [{}] must lead through an aggregation with buckets to a figure of each",
            requested.name
        ))
    };
    // Through aggregations with one bucket to the first with several.
    let (mut here, mut rest) = (answer, path);
    let buckets = loop {
        // The longest name that there is ends with the path, `>` or a dot.
        let ends = rest.match_indices(['>', '.']).map(|(at, _)| at).rev();
        let mut ends = std::iter::once(rest.len()).chain(ends);
        let found = ends.find_map(|at| Some((member(here, &rest[..at])?.as_object()?, at)));
        let (value, at) = found.ok_or_else(wrong)?;
        rest = rest[at..].get(1..).unwrap_or("_count");
        match value.get("buckets") {
            Some(buckets) => break buckets,
            None if rest == "_count" || !siblings.iter().any(|one| path.starts_with(&one.name)) => {
                return Err(wrong());
            }
            None => here = value,
        }
    };
    let buckets: Vec<(String, &Map<String, Value>)> = match buckets {
        Value::Array(buckets) => {
            let key = |bucket: &Map<String, Value>| {
                bucket.get("key_as_string").or(bucket.get("key")).map(text_of).unwrap_or_default()
            };
            buckets.iter().filter_map(Value::as_object).map(|bucket| (key(bucket), bucket)).collect()
        }
        Value::Object(buckets) => {
            let named = buckets.iter().filter_map(|(key, bucket)| Some((key.clone(), bucket.as_object()?)));
            named.collect()
        }
        _ => Vec::new(),
    };
    let mut found: Vec<(String, f64)> = Vec::new();
    for (key, bucket) in buckets {
        let figure = match end_of_path(bucket, rest) {
            PathEnd::Nowhere if ends_at_pipeline(siblings, path) => None,
            _ => figure(bucket, rest)?,
        };
        found.extend(filled(requested, figure).map(|figure| (key, figure)));
    }
    let numbers: Vec<f64> = found.iter().map(|(_, figure)| *figure).collect();
    let source = FieldSource::of_figures(requested.options.get("format"));
    match requested.kind.as_str() {
        kind @ ("min_bucket" | "max_bucket") => {
            let (_, mut answer) =
                figures(kind.trim_end_matches("_bucket"), &requested.options, numbers, &source)?;
            let best = answer["value"].as_f64();
            let keys = found.iter().filter(|(_, figure)| Some(*figure) == best);
            answer["keys"] = keys.map(|(key, _)| Value::from(key.as_str())).collect();
            Ok(("bucket_metric_value", answer))
        }
        kind @ ("avg_bucket" | "sum_bucket") => {
            let (_, answer) =
                figures(kind.trim_end_matches("_bucket"), &requested.options, numbers, &source)?;
            Ok(("simple_value", answer))
        }
        kind => figures(kind, &requested.options, numbers, &source),
    }
}

/// Runs the pipelines that stand inside of an aggregation on its buckets.
///
/// # Errors
/// A path leads to no figures.
pub(super) fn of_buckets(
    inner: &[RequestedAggregation],
    buckets: &mut Vec<Map<String, Value>>,
    scope: &AggregationScope<'_>,
) -> Result<(), Error> {
    for requested in in_order(inner) {
        match requested.kind.as_str() {
            "bucket_sort" => {
                sort(requested, inner, buckets)?;
                continue;
            }
            "bucket_script" | "bucket_selector" => {
                bucket_formulas::apply(requested, inner, buckets, scope)?;
                continue;
            }
            _ => {}
        }
        let path = path_of(requested).unwrap_or_default();
        let figures = buckets.iter().map(|bucket| match path {
            "_key" => Ok(bucket["key"].as_f64()),
            path => figure_or_gap(bucket, path, inner),
        });
        let figures: Vec<Option<f64>> = figures.collect::<Result<_, _>>()?;
        let figures: Vec<Option<f64>> = figures.into_iter().map(|figure| filled(requested, figure)).collect();
        let kind = if requested.kind == "derivative" { "derivative" } else { "simple_value" };
        let name =
            if scope.names_types { format!("{kind}#{}", requested.name) } else { requested.name.clone() };
        let source = FieldSource::of_figures(requested.options.get("format"));
        let keys: Vec<f64> = buckets.iter().map(|bucket| bucket["key"].as_f64().unwrap_or(0.0)).collect();
        for (at, value) in results(requested, &figures)? {
            let mut result = json!({ "value": value });
            if let Some(text) = value.and_then(|value| source.text_of_number(value)) {
                result["value_as_string"] = text.into();
            }
            if let (Some(unit_ms), Some(value), true) = (unit_ms(requested)?, value, at > 0) {
                result["normalized_value"] = json!(value / ((keys[at] - keys[at - 1]) / unit_ms));
            }
            take(scope.memory, requested.text_bytes())?;
            if let Some(meta) = &requested.meta {
                result["meta"] = meta.clone();
            }
            buckets[at].insert(name.clone(), result);
        }
    }
    Ok(())
}

fn unit_ms(requested: &RequestedAggregation) -> Result<Option<f64>, Error> {
    let Some(unit) = requested.options.get("unit").map(text_of) else { return Ok(None) };
    let unit = match unit.as_str() {
        "second" => "1s",
        "minute" => "1m",
        "hour" => "1h",
        "day" => "1d",
        "week" => "7d",
        other => other,
    };
    Ok(duration_of(unit)?.map(|unit| unit.as_secs_f64() * 1_000.0))
}

/// Results of a pipeline, `None` for one without value, with the positions of their buckets. Some buckets
/// have none.
fn results(
    requested: &RequestedAggregation,
    figures: &[Option<f64>],
) -> Result<Vec<(usize, Option<f64>)>, Error> {
    let number = |name: &str| requested.options.get(name).and_then(whole_of);
    Ok(match requested.kind.as_str() {
        "cumulative_sum" => {
            let mut sum = 0.0;
            let add = |figure: &Option<f64>| {
                sum += figure.unwrap_or(0.0);
                Some(sum)
            };
            figures.iter().map(add).enumerate().collect()
        }
        "moving_fn" => {
            let (window, shift) = (number("window").unwrap_or(1), number("shift").unwrap_or(0));
            let function = moving_function(requested)?;
            let length = figures.len() as i64;
            let of = |at: usize| {
                let after = (at as i64).saturating_add(shift);
                let end = after.clamp(0, length) as usize;
                let start = after.saturating_sub(window).clamp(0, length) as usize;
                let inside: Vec<f64> = figures[start..end].iter().flatten().copied().collect();
                (at, moved(function, &inside))
            };
            (0..figures.len()).filter(|at| figures[*at].is_some()).map(of).collect()
        }
        kind => {
            let lag = if kind == "serial_diff" { number("lag").unwrap_or(1) } else { 1 };
            if lag <= 0 {
                return Err(Error::Parsing("Lag must be a positive, non-zero integer".to_owned()));
            }
            let lag = lag as usize;
            let pairs = figures.iter().skip(lag).zip(figures);
            let differences =
                pairs.map(|(figure, before)| figure.zip(*before).map(|(figure, before)| figure - before));
            (lag..).zip(differences).collect()
        }
    })
}

/// Name of the function in the script of `moving_fn`, `MovingFunctions.NAME(values)`.
fn moving_function(requested: &RequestedAggregation) -> Result<&'static str, Error> {
    let script = match requested.options.get("script") {
        Some(Value::Object(script)) => script.get("source").map(text_of),
        script => script.map(text_of),
    };
    let script = script.unwrap_or_default().replace(' ', "");
    let name = script.strip_prefix("MovingFunctions.").and_then(|call| call.strip_suffix("(values)"));
    MOVING.into_iter().find(|known| Some(*known) == name).ok_or_else(|| {
        Error::unsupported(&format!(
            "a script of [moving_fn] other than MovingFunctions.{{{}}}(values)",
            MOVING.join(",")
        ))
    })
}

fn moved(function: &str, values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let some = |number: f64| number.is_finite().then_some(number);
    match function {
        "max" => some(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        "min" => some(values.iter().copied().fold(f64::INFINITY, f64::min)),
        "sum" => Some(values.iter().sum()),
        "unweightedAvg" => some(values.iter().sum::<f64>() / count),
        _ => {
            let weighted: f64 = values.iter().enumerate().map(|(at, value)| value * (at + 1) as f64).sum();
            some(weighted / (count * (count + 1.0) / 2.0))
        }
    }
}

/// One key by which `bucket_sort` orders buckets.
struct FigureOrder {
    path: String,
    is_descending: bool,
}

fn sort(
    requested: &RequestedAggregation,
    inner: &[RequestedAggregation],
    buckets: &mut Vec<Map<String, Value>>,
) -> Result<(), Error> {
    let malformed = || Error::Parsing(format!("[sort] of [{}] is malformed", requested.name));
    let one = |order: &Value| match order {
        Value::String(path) => Ok(FigureOrder { path: path.clone(), is_descending: false }),
        Value::Object(members) => {
            let (Some((path, way)), 1) = (members.iter().next(), members.len()) else {
                return Err(malformed());
            };
            let way = way.get("order").map_or_else(|| text_of(way), text_of);
            Ok(FigureOrder { path: path.clone(), is_descending: way == "desc" })
        }
        _ => Err(malformed()),
    };
    let orders = match requested.options.get("sort") {
        None => Vec::new(),
        Some(Value::Array(orders)) => orders.iter().map(one).collect::<Result<Vec<_>, _>>()?,
        Some(order) => vec![one(order)?],
    };
    let mut keyed = Vec::new();
    for bucket in std::mem::take(buckets) {
        let figures = orders.iter().map(|order| match order.path.as_str() {
            "_key" => Ok(bucket.get("key").cloned()),
            path => Ok(filled(requested, figure_or_gap(&bucket, path, inner)?).map(|figure| json!(figure))),
        });
        let figures: Vec<Option<Value>> = figures.collect::<Result<_, Error>>()?;
        if figures.iter().all(Option::is_some) {
            keyed.push((figures.into_iter().flatten().collect::<Vec<_>>(), bucket));
        }
    }
    sort_few(&mut keyed, |left, right| {
        let figures = orders.iter().zip(left.0.iter().zip(&right.0));
        figures.fold(Ordering::Equal, |found, (order, (left, right))| {
            found.then_with(|| {
                // Texts are in the order of texts, also those that are numbers.
                let next = match (left.as_f64(), right.as_f64()) {
                    (Some(left), Some(right)) => left.total_cmp(&right),
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => text_of(left).cmp(&text_of(right)),
                };
                if order.is_descending { next.reverse() } else { next }
            })
        })
    });
    let count = |name: &str| {
        let count = requested.options.get(name).and_then(whole_of)?;
        usize::try_from(count).ok()
    };
    let sorted = keyed.into_iter().map(|(_, bucket)| bucket);
    *buckets = sorted.skip(count("from").unwrap_or(0)).take(count("size").unwrap_or(usize::MAX)).collect();
    Ok(())
}
