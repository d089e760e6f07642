//! Aggregates of many groups at once: one vector per statistic, one entry per group.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::datum::{ExpressionDatum, double_order};
use crate::level::CheckedAggregate;
use crate::node::ValueKind;
use crate::numbers::NumberColumn;
use crate::request::GroupAggregator;

/// Running values of one aggregate, by group number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AggregateValues {
    Count(Vec<u64>),
    SumLong(Vec<i64>),
    SumDouble(Vec<f64>),
    /// Sums and counts. The sums stay exact as long as all values are whole numbers.
    AvgLong(Vec<(i64, u64)>),
    AvgDouble(Vec<(f64, u64)>),
    Extreme {
        /// The extreme so far.
        values: Vec<Option<ExpressionDatum<'static>>>,
        /// Keeps the largest value instead of the smallest.
        largest: bool,
        /// Extreme of no values: every value of the kind is better.
        none: ExpressionDatum<'static>,
        /// Memory of the contents of `values`, in bytes; not counted in values of other nodes.
        #[serde(skip)]
        contents: usize,
    },
    Xor(Vec<u64>),
    Spread(Vec<VarianceSums>),
    Values(Vec<Vec<f64>>),
}

/// Count, mean, and sum of squared deviations. Merging does not lose small deviations (Welford, Chan).
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct VarianceSums {
    count: f64,
    mean: f64,
    squares: f64,
}

impl VarianceSums {
    const fn of(value: f64) -> Self {
        VarianceSums { count: 1.0, mean: value, squares: 0.0 }
    }

    fn add(&mut self, other: VarianceSums) {
        let count = self.count + other.count;
        if other.count == 0.0 {
            return;
        }
        let delta = other.mean - self.mean;
        self.mean += delta * other.count / count;
        self.squares += other.squares + delta * delta * self.count * other.count / count;
        self.count = count;
    }
}

impl AggregateValues {
    pub(crate) fn new(aggregate: &CheckedAggregate) -> Self {
        let double = !matches!(aggregate.kind, ValueKind::Bool | ValueKind::Long);
        match aggregate.aggregator {
            GroupAggregator::Count => AggregateValues::Count(Vec::new()),
            GroupAggregator::Sum if double => AggregateValues::SumDouble(Vec::new()),
            GroupAggregator::Sum => AggregateValues::SumLong(Vec::new()),
            GroupAggregator::Avg if double => AggregateValues::AvgDouble(Vec::new()),
            GroupAggregator::Avg => AggregateValues::AvgLong(Vec::new()),
            GroupAggregator::Min => AggregateValues::extreme(aggregate.kind, false),
            GroupAggregator::Max => AggregateValues::extreme(aggregate.kind, true),
            GroupAggregator::Xor => AggregateValues::Xor(Vec::new()),
            GroupAggregator::Stddev => AggregateValues::Spread(Vec::new()),
            GroupAggregator::Quantiles => AggregateValues::Values(Vec::new()),
        }
    }

    fn extreme(kind: ValueKind, largest: bool) -> Self {
        let none = match kind {
            ValueKind::Bool | ValueKind::Long => {
                ExpressionDatum::Long(if largest { i64::MIN } else { i64::MAX })
            }
            ValueKind::Double => ExpressionDatum::Double(if largest { f64::MIN } else { f64::MAX }),
            ValueKind::Text => ExpressionDatum::text(String::new()),
            ValueKind::Raw => ExpressionDatum::Raw(Cow::Borrowed(&[])),
            ValueKind::Bucket => ExpressionDatum::Null,
        };
        AggregateValues::Extreme { values: Vec::new(), largest, none, contents: 0 }
    }

    /// Resizes to `groups` groups.
    pub(crate) fn grow(&mut self, groups: usize) {
        match self {
            AggregateValues::Count(values) | AggregateValues::Xor(values) => values.resize(groups, 0),
            AggregateValues::SumLong(values) => values.resize(groups, 0),
            AggregateValues::SumDouble(values) => values.resize(groups, 0.0),
            AggregateValues::AvgLong(values) => values.resize(groups, (0, 0)),
            AggregateValues::AvgDouble(values) => values.resize(groups, (0.0, 0)),
            AggregateValues::Extreme { values, .. } => values.resize(groups, None),
            AggregateValues::Spread(values) => values.resize(groups, VarianceSums::default()),
            AggregateValues::Values(values) => values.resize(groups, Vec::new()),
        }
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> usize {
        match self {
            AggregateValues::Count(values) | AggregateValues::Xor(values) => values.len(),
            AggregateValues::SumLong(values) => values.len(),
            AggregateValues::SumDouble(values) => values.len(),
            AggregateValues::AvgLong(values) => values.len(),
            AggregateValues::AvgDouble(values) => values.len(),
            AggregateValues::Extreme { values, .. } => values.len(),
            AggregateValues::Spread(values) => values.len(),
            AggregateValues::Values(values) => values.len(),
        }
    }

    /// Memory that it takes, in bytes, without the entries of [`AggregateValues::Values`].
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            AggregateValues::Count(values) | AggregateValues::Xor(values) => size_of_val(&**values),
            AggregateValues::SumLong(values) => size_of_val(&**values),
            AggregateValues::SumDouble(values) => size_of_val(&**values),
            AggregateValues::AvgLong(values) => size_of_val(&**values),
            AggregateValues::AvgDouble(values) => size_of_val(&**values),
            AggregateValues::Extreme { values, contents, .. } => size_of_val(&**values) + contents,
            AggregateValues::Spread(values) => size_of_val(&**values),
            AggregateValues::Values(values) => size_of_val(&**values),
        }
    }

    /// Counts a document in each of these groups.
    pub(crate) fn count(&mut self, groups: &[u32]) {
        if let AggregateValues::Count(values) = self {
            groups.iter().for_each(|group| values[*group as usize] += 1);
        }
    }

    /// Adds a document's value to a group; for a list, each element.
    pub(crate) fn add_value(&mut self, group: u32, value: ExpressionDatum<'_>) {
        if let ExpressionDatum::List(list) = value {
            list.into_iter().for_each(|value| self.add_value(group, value));
            return;
        }
        if matches!(value, ExpressionDatum::Null) {
            return;
        }
        let group = group as usize;
        match self {
            AggregateValues::Count(values) => values[group] += 1,
            AggregateValues::SumLong(values) => values[group] = values[group].wrapping_add(value.to_long()),
            AggregateValues::SumDouble(values) => values[group] += value.to_double(),
            AggregateValues::AvgLong(values) => {
                values[group].0 = values[group].0.wrapping_add(value.to_long());
                values[group].1 += 1;
            }
            AggregateValues::AvgDouble(values) => {
                values[group].0 += value.to_double();
                values[group].1 += 1;
            }
            AggregateValues::Extreme { values, largest, contents, .. } => {
                let better = values[group].as_ref().is_none_or(|kept| {
                    let order = value.order(kept);
                    if *largest { order.is_gt() } else { order.is_lt() }
                });
                if better {
                    *contents += value.content_bytes();
                    let before = values[group].replace(value.into_owned());
                    let freed = before.map_or(0, |before| before.content_bytes());
                    *contents = contents.saturating_sub(freed);
                }
            }
            AggregateValues::Xor(values) => values[group] ^= value.low_bits(),
            AggregateValues::Spread(values) => values[group].add(VarianceSums::of(value.to_double())),
            AggregateValues::Values(values) => values[group].push(value.to_double()),
        }
    }

    /// Adds numbers, each to the group at its index, with the results of [`AggregateValues::add_value`].
    pub(crate) fn add_numbers(&mut self, groups: &[u32], numbers: NumberColumn) {
        let at = || groups.iter().map(|group| *group as usize);
        match self {
            AggregateValues::Count(_) => self.count(groups),
            AggregateValues::SumLong(values) => {
                at().zip(numbers.into_longs()).for_each(|(at, value)| {
                    values[at] = values[at].wrapping_add(value);
                });
            }
            AggregateValues::SumDouble(values) => {
                at().zip(numbers.into_doubles()).for_each(|(at, value)| values[at] += value);
            }
            AggregateValues::AvgLong(values) => {
                at().zip(numbers.into_longs()).for_each(|(at, value)| {
                    values[at] = (values[at].0.wrapping_add(value), values[at].1 + 1);
                });
            }
            AggregateValues::AvgDouble(values) => {
                at().zip(numbers.into_doubles()).for_each(|(at, value)| {
                    values[at] = (values[at].0 + value, values[at].1 + 1);
                });
            }
            AggregateValues::Extreme { values, largest, .. } => {
                let is_better = |order: Ordering| if *largest { order.is_gt() } else { order.is_lt() };
                for (index, at) in at().enumerate() {
                    // Numbers have no contents beside them.
                    let better = match (&numbers, &values[at]) {
                        (NumberColumn::Longs(longs), Some(ExpressionDatum::Long(kept))) => {
                            is_better(longs[index].cmp(kept))
                        }
                        (NumberColumn::Doubles(doubles), Some(ExpressionDatum::Double(kept))) => {
                            is_better(double_order(doubles[index], *kept))
                        }
                        (numbers, Some(kept)) => is_better(numbers.datum(index).order(kept)),
                        (_, None) => true,
                    };
                    if better {
                        values[at] = Some(numbers.datum(index));
                    }
                }
            }
            AggregateValues::Xor(values) => {
                at().zip(numbers.into_longs()).for_each(|(at, value)| values[at] ^= value as u64);
            }
            AggregateValues::Spread(values) => {
                at().zip(numbers.into_doubles())
                    .for_each(|(at, value)| values[at].add(VarianceSums::of(value)));
            }
            AggregateValues::Values(values) => {
                at().zip(numbers.into_doubles()).for_each(|(at, value)| values[at].push(value));
            }
        }
    }

    /// Merges another accumulator: its group `n` is group `numbers[n]` here. Call [`AggregateValues::grow`]
    /// first.
    pub(crate) fn merge(&mut self, other: AggregateValues, numbers: &[u32]) {
        let at = |index: usize| numbers[index] as usize;
        match (self, other) {
            (AggregateValues::Count(a), AggregateValues::Count(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] += value);
            }
            (AggregateValues::Xor(a), AggregateValues::Xor(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] ^= value);
            }
            (AggregateValues::SumLong(a), AggregateValues::SumLong(b)) => {
                b.into_iter()
                    .enumerate()
                    .for_each(|(index, value)| a[at(index)] = a[at(index)].wrapping_add(value));
            }
            (AggregateValues::SumDouble(a), AggregateValues::SumDouble(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] += value);
            }
            (AggregateValues::AvgLong(a), AggregateValues::AvgLong(b)) => {
                for (index, (sum, count)) in b.into_iter().enumerate() {
                    let kept = &mut a[at(index)];
                    *kept = (kept.0.wrapping_add(sum), kept.1 + count);
                }
            }
            (AggregateValues::AvgDouble(a), AggregateValues::AvgDouble(b)) => {
                for (index, (sum, count)) in b.into_iter().enumerate() {
                    let kept = &mut a[at(index)];
                    *kept = (kept.0 + sum, kept.1 + count);
                }
            }
            (this @ AggregateValues::Extreme { .. }, AggregateValues::Extreme { values: theirs, .. }) => {
                for (index, value) in theirs.into_iter().enumerate() {
                    if let Some(value) = value {
                        this.add_value(numbers[index], value);
                    }
                }
            }
            (AggregateValues::Spread(a), AggregateValues::Spread(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)].add(value));
            }
            (AggregateValues::Values(a), AggregateValues::Values(b)) => {
                b.into_iter().enumerate().for_each(|(index, mut values)| a[at(index)].append(&mut values));
            }
            // Both were created from the same plan.
            _ => {}
        }
    }

    /// Value of a group; 0 or the equivalent if nothing was added. Quantiles are not a single value, see
    /// [`AggregateValues::quantiles`].
    pub(crate) fn value(&self, group: usize) -> ExpressionDatum<'static> {
        match self {
            AggregateValues::Count(values) => ExpressionDatum::Long(values[group] as i64),
            AggregateValues::Xor(values) => ExpressionDatum::Long(values[group] as i64),
            AggregateValues::SumLong(values) => ExpressionDatum::Long(values[group]),
            AggregateValues::SumDouble(values) => ExpressionDatum::Double(values[group]),
            AggregateValues::AvgLong(values) => {
                ExpressionDatum::Double(mean(values[group].0 as f64, values[group].1))
            }
            AggregateValues::AvgDouble(values) => {
                ExpressionDatum::Double(mean(values[group].0, values[group].1))
            }
            AggregateValues::Extreme { values, none, .. } => values[group].as_ref().unwrap_or(none).clone(),
            AggregateValues::Spread(values) => {
                let VarianceSums { count, squares, .. } = values[group];
                ExpressionDatum::Double(if count > 0.0 { (squares / count).sqrt() } else { 0.0 })
            }
            AggregateValues::Values(_) => ExpressionDatum::Null,
        }
    }

    /// Quantiles of a group: the smallest value that at least this share of the values does not exceed.
    pub(crate) fn quantiles(&self, group: usize, wanted: &[f64]) -> Option<Vec<(f64, f64)>> {
        let AggregateValues::Values(values) = self else { return None };
        let mut values = values[group].clone();
        values.sort_unstable_by(|a, b| double_order(*a, *b));
        let at = |quantile: f64| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        Some(wanted.iter().map(|quantile| (*quantile, at(*quantile))).collect())
    }
}

fn mean(sum: f64, count: u64) -> f64 {
    if count > 0 { sum / count as f64 } else { 0.0 }
}
