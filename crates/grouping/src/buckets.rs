//! Buckets of `predefined(…)`.

use std::borrow::Cow;

use crate::Error;
use crate::datum::{ExpressionDatum, double_order};
use crate::request::{BucketBound, LiteralBucket};

/// Buckets of one kind, ascending and disjoint.
#[derive(Debug)]
pub(crate) enum BucketRanges {
    Long(Vec<(i64, i64)>),
    Double(Vec<(f64, f64)>),
    Text(Vec<(String, String)>),
    Raw(Vec<(Vec<u8>, Vec<u8>)>),
}

impl BucketRanges {
    /// The bucket of a value, after conversion to the buckets' kind; null without a bucket.
    pub(crate) fn find<'b>(&'b self, value: &ExpressionDatum<'_>) -> ExpressionDatum<'b> {
        match self {
            BucketRanges::Long(buckets) => {
                let value = value.to_long();
                let index = buckets.partition_point(|(_, to)| *to <= value && *to != i64::MAX);
                match buckets.get(index) {
                    Some((from, to)) if *from <= value => ExpressionDatum::LongBucket(*from, *to),
                    _ => ExpressionDatum::Null,
                }
            }
            BucketRanges::Double(buckets) => {
                let value = value.to_double();
                // NaN orders below all numbers, so only a bucket from −∞ contains it.
                let index = buckets
                    .partition_point(|(_, to)| double_order(*to, value).is_le() && *to != f64::INFINITY);
                match buckets.get(index) {
                    Some((from, to)) if *from <= value || *from == f64::NEG_INFINITY => {
                        ExpressionDatum::DoubleBucket(*from, *to)
                    }
                    _ => ExpressionDatum::Null,
                }
            }
            BucketRanges::Text(buckets) => {
                let value = value.to_text();
                match buckets.get(buckets.partition_point(|(_, to)| **to <= *value)) {
                    Some((from, to)) if **from <= *value => {
                        ExpressionDatum::TextBucket(Cow::Borrowed(from), Cow::Borrowed(to))
                    }
                    _ => ExpressionDatum::Null,
                }
            }
            BucketRanges::Raw(buckets) => {
                let value = value.to_raw();
                match buckets.get(buckets.partition_point(|(_, to)| **to <= *value)) {
                    Some((from, to)) if **from <= *value => {
                        ExpressionDatum::RawBucket(Cow::Borrowed(from), Cow::Borrowed(to))
                    }
                    _ => ExpressionDatum::Null,
                }
            }
        }
    }
}

/// Converts buckets to half-open ranges of one kind.
pub(crate) fn check_buckets(buckets: &[LiteralBucket]) -> Result<BucketRanges, Error> {
    let bounds = || buckets.iter().flat_map(|bucket| std::iter::once(&bucket.from).chain(&bucket.to));
    let mixed = || Error::invalid("the buckets of predefined(…) must be all numbers, all texts or all bytes");
    let is = |wanted: fn(&BucketBound) -> bool| {
        bounds().all(|bound| wanted(bound) || *bound == BucketBound::Infinite)
    };
    let overlap = || Error::invalid("the buckets of predefined(…) must ascend and not overlap");
    if is(|bound| matches!(bound, BucketBound::Long(_))) {
        let ranges = half_open(
            buckets,
            i64::MIN,
            i64::MAX,
            |bound| match bound {
                BucketBound::Long(value) => Some(*value),
                _ => None,
            },
            |value| value.saturating_add(1),
        );
        ascending(&ranges, i64::cmp).then_some(BucketRanges::Long(ranges)).ok_or_else(overlap)
    } else if is(|bound| matches!(bound, BucketBound::Long(_) | BucketBound::Double(_))) {
        let ranges = half_open(
            buckets,
            f64::NEG_INFINITY,
            f64::INFINITY,
            |bound| match bound {
                BucketBound::Long(value) => Some(*value as f64),
                BucketBound::Double(value) => Some(*value),
                _ => None,
            },
            |value| value.next_up(),
        );
        ascending(&ranges, f64::total_cmp).then_some(BucketRanges::Double(ranges)).ok_or_else(overlap)
    } else if is(|bound| matches!(bound, BucketBound::Text(_))) {
        let ranges = half_open(
            buckets,
            String::new(),
            char::MAX.to_string(),
            |bound| match bound {
                BucketBound::Text(text) => Some(text.clone()),
                _ => None,
            },
            |text| text + " ",
        );
        ascending(&ranges, String::cmp).then_some(BucketRanges::Text(ranges)).ok_or_else(overlap)
    } else if is(|bound| matches!(bound, BucketBound::Raw(_))) {
        let ranges = half_open(
            buckets,
            Vec::new(),
            vec![0xff; 16],
            |bound| match bound {
                BucketBound::Raw(bytes) => Some(bytes.clone()),
                _ => None,
            },
            |mut bytes| {
                bytes.push(0);
                bytes
            },
        );
        ascending(&ranges, Vec::cmp).then_some(BucketRanges::Raw(ranges)).ok_or_else(overlap)
    } else {
        Err(mixed())
    }
}

fn half_open<T: Clone>(
    buckets: &[LiteralBucket],
    lowest: T,
    highest: T,
    value: impl Fn(&BucketBound) -> Option<T>,
    next: impl Fn(T) -> T,
) -> Vec<(T, T)> {
    let range = |bucket: &LiteralBucket| {
        let start = value(&bucket.from);
        let end = match &bucket.to {
            None => start.clone().map(&next),
            Some(to) if bucket.to_inclusive => value(to).map(&next),
            Some(to) => value(to),
        };
        let start = if bucket.from_inclusive { start } else { start.map(&next) };
        (start.unwrap_or_else(|| lowest.clone()), end.unwrap_or_else(|| highest.clone()))
    };
    buckets.iter().map(range).collect()
}

fn ascending<T>(ranges: &[(T, T)], order: impl Fn(&T, &T) -> std::cmp::Ordering) -> bool {
    ranges.iter().all(|(from, to)| order(from, to).is_le())
        && ranges.windows(2).all(|pair| order(&pair[0].1, &pair[1].0).is_le())
}
