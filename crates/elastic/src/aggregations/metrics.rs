//! Figures of the documents of a bucket.

use serde_json::{Map, Value, json};

use super::BucketAggregation;
use super::values::FieldSource;
use crate::Error;
use crate::evaluation::number_of;
use crate::search::SearchHit;

/// Percentiles without a list of them.
const PERCENTS: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];

/// Kinds of figures.
const KINDS: [&str; 14] = [
    "avg",
    "sum",
    "min",
    "max",
    "stats",
    "extended_stats",
    "value_count",
    "cardinality",
    "percentiles",
    "percentile_ranks",
    "median_absolute_deviation",
    "weighted_avg",
    "top_hits",
    "top_metrics",
];

/// True for kinds that have no buckets.
pub(super) fn is_metric(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// Checks the options of a figure that have bounds.
///
/// # Errors
/// One is outside of them.
pub(super) fn check(name: &str, kind: &str, options: &Map<String, Value>) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::IllegalArgument(reason));
    let number = |members: &Map<String, Value>, member: &str| members.get(member).and_then(number_of);
    match kind {
        "cardinality" => match number(options, "precision_threshold") {
            Some(threshold) if threshold < 0.0 => refuse(format!(
                "[precisionThreshold] must be greater than or equal to 0. Found [{threshold}] in [{name}]"
            )),
            _ => Ok(()),
        },
        "extended_stats" | "extended_stats_bucket" => match number(options, "sigma") {
            Some(sigma) if sigma < 0.0 => {
                refuse(format!("[sigma] must be greater than or equal to 0. Found [{sigma:?}] in [{name}]"))
            }
            _ => Ok(()),
        },
        "median_absolute_deviation" => match number(options, "compression") {
            Some(compression) if compression <= 0.0 => {
                refuse(format!("[compression] must be greater than 0. Found [{compression:?}] in [{name}]"))
            }
            _ => Ok(()),
        },
        "percentiles" | "percentile_ranks" | "percentiles_bucket" => {
            let wanted = if kind == "percentile_ranks" { "values" } else { "percents" };
            let list = options.get(wanted);
            let is_list = |list: &Value| {
                list.as_array().is_some_and(|list| list.iter().all(|one| number_of(one).is_some()))
            };
            if list.is_some_and(|list| !is_list(list)) || list.is_none() && kind == "percentile_ranks" {
                return refuse(format!("[{wanted}] must be an array of numbers in [{name}]"));
            }
            let numbers = numbers_in(list);
            if kind != "percentile_ranks" {
                if list.is_some() && numbers.is_empty() {
                    return refuse(format!("[percents] must not be empty: [{name}]"));
                }
                if let Some(wrong) = numbers.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
                    return refuse(format!("percent must be in [0,100], got [{wrong:?}]: [{name}]"));
                }
            }
            if let Some(Value::Object(digest)) = options.get("tdigest")
                && let Some(compression) = number(digest, "compression").filter(|value| *value < 0.0)
            {
                return refuse(format!(
                    "[compression] must be greater than or equal to 0. Found [{compression:?}] in [{name}]"
                ));
            }
            if let Some(Value::Object(digest)) = options.get("hdr")
                && digest.contains_key(DIGITS)
                && number(digest, DIGITS).is_none_or(|digits| !(0.0..=5.0).contains(&digits))
            {
                return refuse(format!("[numberOfSignificantValueDigits] must be between 0 and 5: [{name}]"));
            }
            Ok(())
        }
        "weighted_avg" => {
            let part = |part: &str| match options.get(part) {
                Some(Value::Object(members)) => {
                    match members.keys().find(|name| !["field", "missing"].contains(&name.as_str())) {
                        Some(unknown) => Err(Error::Parsing(format!("[{part}] unknown field [{unknown}]"))),
                        None => Ok(()),
                    }
                }
                _ => Err(Error::IllegalArgument(format!("[weighted_avg] needs [{part}] with a field"))),
            };
            part("value").and(part("weight"))
        }
        "top_metrics" if !options.contains_key("sort") => {
            refuse(format!("[sort] of [{name}] is missing, by which the metrics are chosen"))
        }
        "top_metrics" if fields_of(options).is_empty() => {
            refuse(format!("[metrics] of [{name}] must be an object with a [field], or several in an array"))
        }
        _ => Ok(()),
    }
}

/// Fields whose values `top_metrics` shows; none if the option is malformed.
pub(super) fn fields_of(options: &Map<String, Value>) -> Vec<&str> {
    let one = |metric: &'_ Value| metric.get("field").and_then(Value::as_str).is_some();
    let metrics: &[Value] = match options.get("metrics") {
        Some(Value::Array(metrics)) => metrics,
        Some(metric) => std::slice::from_ref(metric),
        None => &[],
    };
    match metrics.iter().all(one) {
        true => metrics.iter().filter_map(|metric| metric["field"].as_str()).collect(),
        false => Vec::new(),
    }
}

/// Option of the percentiles of a histogram of high dynamic range.
const DIGITS: &str = "number_of_significant_value_digits";

fn numbers_in(list: Option<&Value>) -> Vec<f64> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(number_of).collect()
}

impl BucketAggregation<'_> {
    pub(super) fn metric(&self) -> Result<(&'static str, Value), Error> {
        match self.requested.kind.as_str() {
            "value_count" => {
                let source = self.source()?;
                let mut count = 0;
                self.each(|hit| {
                    count += source.all(hit).len();
                    Ok(())
                })?;
                Ok(("value_count", json!({ "value": count })))
            }
            "cardinality" => {
                let source = self.source()?;
                let mut different = std::collections::BTreeSet::new();
                self.each(|hit| {
                    different.extend(source.of(hit));
                    Ok(())
                })?;
                Ok(("cardinality", json!({ "value": different.len() })))
            }
            "weighted_avg" => Ok(("weighted_avg", self.weighted_average()?)),
            _ => {
                let source = self.numeric_source()?;
                let mut numbers: Vec<f64> = Vec::new();
                self.each(|hit| {
                    numbers.extend(source.numbers(hit));
                    Ok(())
                })?;
                figures(&self.requested.kind, &self.requested.options, numbers, &source)
            }
        }
    }

    pub(super) fn numeric_source(&self) -> Result<FieldSource, Error> {
        FieldSource::of_numbers(&self.requested.kind, &self.requested.options, self.scope.indexes)
    }

    /// Sources of `weighted_avg`: of the values, and of their weights.
    pub(super) fn weighted_sources(&self) -> Result<[FieldSource; 2], Error> {
        let part = |name: &str| match self.option(name) {
            Some(Value::Object(options)) => {
                FieldSource::of_numbers("weighted_avg", options, self.scope.indexes)
            }
            _ => Err(Error::IllegalArgument(format!("[weighted_avg] needs [{name}] with a field"))),
        };
        Ok([part("value")?, part("weight")?])
    }

    fn weighted_average(&self) -> Result<Value, Error> {
        let sources = self.weighted_sources()?;
        let mut sums = WeightedSums::default();
        self.each(|hit| sums.add(&self.requested.name, &sources, hit))?;
        Ok(sums.answer(self.requested.options.get("format")))
    }
}

/// Sums of the weighted values of documents, and of their weights.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WeightedSums {
    sum: f64,
    weights: f64,
}

impl WeightedSums {
    /// Adds a document.
    ///
    /// # Errors
    /// It has several weights.
    pub(super) fn add(
        &mut self,
        name: &str,
        [value, weight]: &[FieldSource; 2],
        hit: &SearchHit,
    ) -> Result<(), Error> {
        let (values, own) = (value.numbers(hit), weight.numbers(hit));
        if own.len() > 1 {
            return Err(Error::IllegalArgument(format!(
                "Encountered more than one weight for a single document in [{name}]. Use a field with one value"
            )));
        }
        if let Some(own) = own.first() {
            self.sum += values.iter().map(|value| value * own).sum::<f64>();
            self.weights += own * values.len() as f64;
        }
        Ok(())
    }

    /// Adds those of other documents.
    pub(super) fn merge(&mut self, other: WeightedSums) {
        self.sum += other.sum;
        self.weights += other.weights;
    }

    pub(super) fn answer(self, format: Option<&Value>) -> Value {
        let average = (self.weights != 0.0).then(|| self.sum / self.weights);
        let mut answer = json!({ "value": average });
        let source = FieldSource::of_figures(format);
        if let Some(text) = average.and_then(|average| source.text_of_number(average)) {
            answer["value_as_string"] = text.into();
        }
        answer
    }
}

/// Number, sum and ends of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberSummary {
    count: usize,
    sum: f64,
    /// Error of rounding, which is carried along.
    carried: f64,
    min: f64,
    max: f64,
}

impl Default for NumberSummary {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        NumberSummary { count: 0, sum: 0.0, carried: 0.0, min, max }
    }
}

impl NumberSummary {
    fn of(numbers: &[f64]) -> Self {
        let mut summary = NumberSummary::default();
        numbers.iter().for_each(|number| summary.add(*number));
        summary
    }

    pub(super) fn add(&mut self, number: f64) {
        let next = self.sum + number;
        let lost = match self.sum.abs() >= number.abs() {
            true => (self.sum - next) + number,
            false => (number - next) + self.sum,
        };
        self.carried += if lost.is_finite() { lost } else { 0.0 };
        self.sum = next;
        self.count += 1;
        (self.min, self.max) = (self.min.min(number), self.max.max(number));
    }

    /// Adds that of other numbers.
    pub(super) fn merge(&mut self, other: NumberSummary) {
        let (count, before) = (self.count + other.count, (self.min, self.max));
        self.add(other.sum);
        self.carried += other.carried;
        self.count = count;
        // The sum is none of the numbers.
        (self.min, self.max) = (before.0.min(other.min), before.1.max(other.max));
    }

    fn total(&self) -> f64 {
        self.sum + self.carried
    }
}

/// Figures of numbers: of the values of documents, or of the figures of buckets.
pub(super) fn figures(
    kind: &str,
    options: &Map<String, Value>,
    numbers: Vec<f64>,
    source: &FieldSource,
) -> Result<(&'static str, Value), Error> {
    figures_with(kind, options, NumberSummary::of(&numbers), numbers, source)
}

/// True for figures that a summary is enough for.
pub(super) fn is_of_summary(kind: &str) -> bool {
    ["avg", "sum", "min", "max", "stats"].contains(&kind)
}

/// [`figures`] of a summary. Kinds that it is enough for need no numbers.
pub(super) fn figures_with(
    kind: &str,
    options: &Map<String, Value>,
    summary: NumberSummary,
    numbers: Vec<f64>,
    source: &FieldSource,
) -> Result<(&'static str, Value), Error> {
    let one = |kind: &'static str, number: Option<f64>| {
        let mut answer = json!({ "value": number });
        if let Some(text) = number.and_then(|number| source.text_of_number(number)) {
            answer["value_as_string"] = text.into();
        }
        Ok((kind, answer))
    };
    let sum = summary.total();
    let count = summary.count as f64;
    let some = |number: f64| (summary.count > 0).then_some(number);
    let (min, max) = (some(summary.min), some(summary.max));
    match kind {
        "avg" => one("avg", some(sum / count)),
        "sum" => one("sum", Some(sum)),
        "min" => one("min", min),
        "max" => one("max", max),
        "median_absolute_deviation" => {
            let mut numbers = numbers;
            let deviation = quantile(&mut numbers, 0.5).map(|median| {
                let mut deviations: Vec<f64> = numbers.iter().map(|number| (number - median).abs()).collect();
                quantile(&mut deviations, 0.5).unwrap_or(0.0)
            });
            one("median_absolute_deviation", deviation)
        }
        "stats" | "stats_bucket" | "extended_stats" | "extended_stats_bucket" => {
            let mut answer = Map::new();
            answer.insert("count".to_owned(), summary.count.into());
            let average = some(sum / count);
            for (name, number) in [("min", min), ("max", max), ("avg", average), ("sum", Some(sum))] {
                answer.insert(name.to_owned(), json!(number));
                let text = number.and_then(|number| source.text_of_number(number));
                answer.extend(text.map(|text| (format!("{name}_as_string"), text.into())));
            }
            if kind.starts_with("extended") {
                let sigma = options.get("sigma").and_then(number_of).unwrap_or(2.0);
                answer.extend(spread(&numbers, sigma));
            }
            let kind = match kind {
                "stats" => "stats",
                "stats_bucket" => "stats_bucket",
                "extended_stats" => "extended_stats",
                _ => "extended_stats_bucket",
            };
            Ok((kind, Value::Object(answer)))
        }
        "percentiles" | "percentile_ranks" | "percentiles_bucket" => {
            percentiles(kind, options, numbers, source)
        }
        other => Err(Error::unknown(&format!("Unknown aggregation type [{other}]"))),
    }
}

/// Sum of numbers, with the error of rounding carried along.
fn sum_of(numbers: &[f64]) -> f64 {
    NumberSummary::of(numbers).total()
}

/// Variances and deviations of numbers.
fn spread(numbers: &[f64], sigma: f64) -> Map<String, Value> {
    let count = numbers.len() as f64;
    let average = sum_of(numbers) / count;
    let squares = sum_of(&numbers.iter().map(|number| number * number).collect::<Vec<_>>());
    let deviations = sum_of(&numbers.iter().map(|number| (number - average).powi(2)).collect::<Vec<_>>());
    let some = |number: f64| (number.is_finite()).then_some(number);
    let (population, sampling) = (some(deviations / count), some(deviations / (count - 1.0)));
    let root = |variance: Option<f64>| variance.map(f64::sqrt);
    let bound = |variance: Option<f64>, sign: f64| root(variance).map(|root| average + sign * sigma * root);
    let members = json!({
        "sum_of_squares": if numbers.is_empty() { None } else { Some(squares) },
        "variance": population,
        "variance_population": population,
        "variance_sampling": sampling,
        "std_deviation": root(population),
        "std_deviation_population": root(population),
        "std_deviation_sampling": root(sampling),
        "std_deviation_bounds": {
            "upper": bound(population, 1.0),
            "lower": bound(population, -1.0),
            "upper_population": bound(population, 1.0),
            "lower_population": bound(population, -1.0),
            "upper_sampling": bound(sampling, 1.0),
            "lower_sampling": bound(sampling, -1.0),
        },
    });
    members.as_object().cloned().unwrap_or_default()
}

/// Quantile of numbers, which are sorted for it: each number stands for the middle of its share, and between
/// two of them it grows evenly.
fn quantile(numbers: &mut [f64], share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    let at = (share * numbers.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (below, above) = (numbers[at.floor() as usize], numbers[at.ceil() as usize]);
    Some(below * (1.0 - at.fract()) + above * at.fract())
}

/// Share of numbers, in percent, that are at most a value, by the same rule.
fn rank_of(sorted: &[f64], value: f64) -> Option<f64> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    if value < *first {
        return Some(0.0);
    }
    if value >= *last {
        return Some(100.0);
    }
    let below = sorted.partition_point(|number| *number <= value);
    let (left, right) = (sorted[below - 1], sorted[below]);
    let at = below as f64 - 0.5 + (value - left) / (right - left);
    Some(100.0 * at / sorted.len() as f64)
}

/// Number as a histogram of high dynamic range keeps it: the largest one that its digits do not tell apart,
/// where `min` is the least number that the histogram has.
fn of_range(number: f64, min: f64, digits: u32) -> f64 {
    let steps = (2.0 * 10_f64.powi(digits as i32)).log2().ceil() - 1.0;
    let power = |number: f64| number.log2().floor();
    if number <= 0.0 {
        return 0.0;
    }
    let scale = (steps - power(min)).exp2();
    let size = (power(number * scale) - steps).max(0.0).exp2();
    ((number * scale / size).floor() * size + size - 1.0) / scale
}

fn percentiles(
    kind: &str,
    options: &Map<String, Value>,
    mut numbers: Vec<f64>,
    source: &FieldSource,
) -> Result<(&'static str, Value), Error> {
    let hdr = options.get("hdr").and_then(Value::as_object);
    if hdr.is_some() && numbers.iter().any(|number| *number < 0.0) {
        return Err(Error::IllegalArgument("[hdr] takes no negative values; use [tdigest]".to_owned()));
    }
    let wanted = match kind {
        "percentile_ranks" => numbers_in(options.get("values")),
        _ => match options.get("percents") {
            Some(percents) => numbers_in(Some(percents)),
            None => PERCENTS.to_vec(),
        },
    };
    numbers.sort_by(f64::total_cmp);
    let min = numbers.iter().copied().find(|number| *number > 0.0).unwrap_or(1.0);
    let digits = hdr.and_then(|hdr| hdr.get(DIGITS)).and_then(Value::as_u64).unwrap_or(3) as u32;
    let figure = |numbers: &mut Vec<f64>, wanted: f64| -> Option<f64> {
        if numbers.is_empty() {
            return None;
        }
        // The figure of a bucket that is nearest, and the share of those up to a number.
        let nearest = (wanted / 100.0 * numbers.len() as f64).ceil().max(1.0) as usize - 1;
        let nearest = numbers[nearest.min(numbers.len() - 1)];
        match (kind, hdr.is_some()) {
            ("percentile_ranks", true) => {
                let below = numbers.iter().filter(|number| **number <= wanted).count();
                Some(100.0 * below as f64 / numbers.len() as f64)
            }
            ("percentile_ranks", false) => rank_of(numbers, wanted),
            ("percentiles_bucket", _) => Some(nearest),
            (_, true) => Some(of_range(nearest, min, digits)),
            (_, false) => quantile(numbers, wanted / 100.0),
        }
    };
    let is_keyed = options.get("keyed") != Some(&Value::Bool(false));
    let (mut keyed, mut listed) = (Map::new(), Vec::new());
    for wanted in wanted {
        let number = figure(&mut numbers, wanted);
        let text = number.and_then(|number| source.text_of_number(number));
        let key = format!("{wanted:?}");
        if is_keyed {
            keyed.insert(key.clone(), json!(number));
            keyed.extend(text.map(|text| (format!("{key}_as_string"), text.into())));
        } else {
            let mut one = json!({ "key": wanted, "value": number });
            if let Some(text) = text {
                one["value_as_string"] = text.into();
            }
            listed.push(one);
        }
    }
    let kind = match (kind, hdr.is_some()) {
        ("percentiles_bucket", _) => "percentiles_bucket",
        ("percentile_ranks", true) => "hdr_percentile_ranks",
        ("percentile_ranks", false) => "tdigest_percentile_ranks",
        (_, true) => "hdr_percentiles",
        (_, false) => "tdigest_percentiles",
    };
    Ok((kind, json!({ "values": if is_keyed { Value::Object(keyed) } else { Value::Array(listed) } })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_numbers() {
        let numbers = [1.0, 51.0, 101.0, 151.0];
        for (share, expected) in [(0.0, 1.0), (0.05, 1.0), (0.25, 26.0), (0.5, 76.0), (0.99, 151.0)] {
            assert_eq!(quantile(&mut numbers.to_vec(), share), Some(expected), "{share}");
        }
        assert_eq!(quantile(&mut [], 0.5), None);
        for (value, expected) in [(0.0, 0.0), (26.0, 25.0), (76.0, 50.0), (151.0, 100.0)] {
            assert_eq!(rank_of(&numbers, value), Some(expected), "{value}");
        }
    }

    #[test]
    fn numbers_of_a_high_dynamic_range_keep_their_digits() {
        for (number, expected) in [(1.0, 1.0), (51.0, 51.030_273_437_5), (101.0, 101.061_523_437_5)] {
            assert_eq!(of_range(number, 1.0, 3), expected, "{number}");
        }
    }

    #[test]
    fn sums_lose_nothing_to_rounding() {
        assert_eq!(sum_of(&[1e16, 1.0, 1.0, -1e16]), 2.0);
        assert_eq!(sum_of(&[]), 0.0);
    }
}
