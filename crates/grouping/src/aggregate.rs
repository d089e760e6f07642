//! Aggregates of many groups at once: one vector per statistic, one entry per group.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::datum::{Datum, double_order};
use crate::level::Aggregate;
use crate::node::Kind;
use crate::request::Aggregator;

/// Running values of one aggregate, by group number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Accumulator {
    Count(Vec<u64>),
    SumLong(Vec<i64>),
    SumDouble(Vec<f64>),
    /// Sums and counts. The sums stay exact as long as all values are whole numbers.
    AvgLong(Vec<(i64, u64)>),
    AvgDouble(Vec<(f64, u64)>),
    Extreme {
        /// The extreme so far.
        values: Vec<Option<Datum<'static>>>,
        /// Keeps the largest value instead of the smallest.
        largest: bool,
        /// Extreme of no values: every value of the kind is better.
        none: Datum<'static>,
    },
    Xor(Vec<u64>),
    Spread(Vec<Spread>),
    Values(Vec<Vec<f64>>),
}

/// Count, mean, and sum of squared deviations. Merging does not lose small deviations (Welford, Chan).
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, other: Spread) {
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

impl Accumulator {
    pub(crate) fn new(aggregate: &Aggregate) -> Self {
        let double = !matches!(aggregate.kind, Kind::Bool | Kind::Long);
        match aggregate.aggregator {
            Aggregator::Count => Accumulator::Count(Vec::new()),
            Aggregator::Sum if double => Accumulator::SumDouble(Vec::new()),
            Aggregator::Sum => Accumulator::SumLong(Vec::new()),
            Aggregator::Avg if double => Accumulator::AvgDouble(Vec::new()),
            Aggregator::Avg => Accumulator::AvgLong(Vec::new()),
            Aggregator::Min => Accumulator::extreme(aggregate.kind, false),
            Aggregator::Max => Accumulator::extreme(aggregate.kind, true),
            Aggregator::Xor => Accumulator::Xor(Vec::new()),
            Aggregator::Stddev => Accumulator::Spread(Vec::new()),
            Aggregator::Quantiles => Accumulator::Values(Vec::new()),
        }
    }

    fn extreme(kind: Kind, largest: bool) -> Self {
        let none = match kind {
            Kind::Bool | Kind::Long => Datum::Long(if largest { i64::MIN } else { i64::MAX }),
            Kind::Double => Datum::Double(if largest { f64::MIN } else { f64::MAX }),
            Kind::Text => Datum::text(String::new()),
            Kind::Raw => Datum::Raw(Cow::Borrowed(&[])),
            Kind::Bucket => Datum::Null,
        };
        Accumulator::Extreme { values: Vec::new(), largest, none }
    }

    /// Resizes to `groups` groups.
    pub(crate) fn grow(&mut self, groups: usize) {
        match self {
            Accumulator::Count(values) | Accumulator::Xor(values) => values.resize(groups, 0),
            Accumulator::SumLong(values) => values.resize(groups, 0),
            Accumulator::SumDouble(values) => values.resize(groups, 0.0),
            Accumulator::AvgLong(values) => values.resize(groups, (0, 0)),
            Accumulator::AvgDouble(values) => values.resize(groups, (0.0, 0)),
            Accumulator::Extreme { values, .. } => values.resize(groups, None),
            Accumulator::Spread(values) => values.resize(groups, Spread::default()),
            Accumulator::Values(values) => values.resize(groups, Vec::new()),
        }
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> usize {
        match self {
            Accumulator::Count(values) | Accumulator::Xor(values) => values.len(),
            Accumulator::SumLong(values) => values.len(),
            Accumulator::SumDouble(values) => values.len(),
            Accumulator::AvgLong(values) => values.len(),
            Accumulator::AvgDouble(values) => values.len(),
            Accumulator::Extreme { values, .. } => values.len(),
            Accumulator::Spread(values) => values.len(),
            Accumulator::Values(values) => values.len(),
        }
    }

    /// Counts a document in each of these groups.
    pub(crate) fn count(&mut self, groups: &[u32]) {
        if let Accumulator::Count(values) = self {
            groups.iter().for_each(|group| values[*group as usize] += 1);
        }
    }

    /// Adds a document's value to a group; for a list, each element.
    pub(crate) fn take(&mut self, group: u32, value: Datum<'_>) {
        if let Datum::List(list) = value {
            list.into_iter().for_each(|value| self.take(group, value));
            return;
        }
        if matches!(value, Datum::Null) {
            return;
        }
        let group = group as usize;
        match self {
            Accumulator::Count(values) => values[group] += 1,
            Accumulator::SumLong(values) => values[group] = values[group].wrapping_add(value.to_long()),
            Accumulator::SumDouble(values) => values[group] += value.to_double(),
            Accumulator::AvgLong(values) => {
                values[group].0 = values[group].0.wrapping_add(value.to_long());
                values[group].1 += 1;
            }
            Accumulator::AvgDouble(values) => {
                values[group].0 += value.to_double();
                values[group].1 += 1;
            }
            Accumulator::Extreme { values, largest, .. } => {
                let better = values[group].as_ref().is_none_or(|kept| {
                    let order = value.order(kept);
                    if *largest { order.is_gt() } else { order.is_lt() }
                });
                if better {
                    values[group] = Some(value.into_owned());
                }
            }
            Accumulator::Xor(values) => values[group] ^= value.low_bits(),
            Accumulator::Spread(values) => {
                values[group].add(Spread { count: 1.0, mean: value.to_double(), squares: 0.0 });
            }
            Accumulator::Values(values) => values[group].push(value.to_double()),
        }
    }

    /// Merges another accumulator: its group `n` is group `numbers[n]` here. Call [`Accumulator::grow`]
    /// first.
    pub(crate) fn merge(&mut self, other: Accumulator, numbers: &[u32]) {
        let at = |index: usize| numbers[index] as usize;
        match (self, other) {
            (Accumulator::Count(a), Accumulator::Count(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] += value);
            }
            (Accumulator::Xor(a), Accumulator::Xor(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] ^= value);
            }
            (Accumulator::SumLong(a), Accumulator::SumLong(b)) => {
                b.into_iter()
                    .enumerate()
                    .for_each(|(index, value)| a[at(index)] = a[at(index)].wrapping_add(value));
            }
            (Accumulator::SumDouble(a), Accumulator::SumDouble(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)] += value);
            }
            (Accumulator::AvgLong(a), Accumulator::AvgLong(b)) => {
                for (index, (sum, count)) in b.into_iter().enumerate() {
                    let kept = &mut a[at(index)];
                    *kept = (kept.0.wrapping_add(sum), kept.1 + count);
                }
            }
            (Accumulator::AvgDouble(a), Accumulator::AvgDouble(b)) => {
                for (index, (sum, count)) in b.into_iter().enumerate() {
                    let kept = &mut a[at(index)];
                    *kept = (kept.0 + sum, kept.1 + count);
                }
            }
            (this @ Accumulator::Extreme { .. }, Accumulator::Extreme { values: theirs, .. }) => {
                for (index, value) in theirs.into_iter().enumerate() {
                    if let Some(value) = value {
                        this.take(numbers[index], value);
                    }
                }
            }
            (Accumulator::Spread(a), Accumulator::Spread(b)) => {
                b.into_iter().enumerate().for_each(|(index, value)| a[at(index)].add(value));
            }
            (Accumulator::Values(a), Accumulator::Values(b)) => {
                b.into_iter().enumerate().for_each(|(index, mut values)| a[at(index)].append(&mut values));
            }
            // Both were created from the same plan.
            _ => {}
        }
    }

    /// Value of a group; 0 or the equivalent if nothing was added. Quantiles are not a single value, see
    /// [`Accumulator::quantiles`].
    pub(crate) fn value(&self, group: usize) -> Datum<'static> {
        match self {
            Accumulator::Count(values) => Datum::Long(values[group] as i64),
            Accumulator::Xor(values) => Datum::Long(values[group] as i64),
            Accumulator::SumLong(values) => Datum::Long(values[group]),
            Accumulator::SumDouble(values) => Datum::Double(values[group]),
            Accumulator::AvgLong(values) => Datum::Double(mean(values[group].0 as f64, values[group].1)),
            Accumulator::AvgDouble(values) => Datum::Double(mean(values[group].0, values[group].1)),
            Accumulator::Extreme { values, none, .. } => values[group].as_ref().unwrap_or(none).clone(),
            Accumulator::Spread(values) => {
                let Spread { count, squares, .. } = values[group];
                Datum::Double(if count > 0.0 { (squares / count).sqrt() } else { 0.0 })
            }
            Accumulator::Values(_) => Datum::Null,
        }
    }

    /// Quantiles of a group: the smallest value that at least this share of the values does not exceed.
    pub(crate) fn quantiles(&self, group: usize, wanted: &[f64]) -> Option<Vec<(f64, f64)>> {
        let Accumulator::Values(values) = self else { return None };
        let mut values = values[group].clone();
        values.sort_unstable_by(|a, b| double_order(*a, *b));
        let at = |quantile: f64| {
            let place = (quantile * values.len() as f64).ceil() as usize;
            values.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        Some(wanted.iter().map(|quantile| (*quantile, at(*quantile))).collect())
    }
}

fn mean(sum: f64, count: u64) -> f64 {
    if count > 0 { sum / count as f64 } else { 0.0 }
}
