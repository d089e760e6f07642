//! `auto_date_histogram`: intervals of one length, as short as possible, of which there are as many as are
//! asked for at most.

use std::collections::BTreeMap;

use serde_json::Value;

use super::histograms::{DateRounding, check_points, date_head};
use super::values::FieldSource;
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::search::SearchHit;

/// Intervals that `auto_date_histogram` chooses from.
const AUTOMATIC: [(char, i64); 19] = [
    ('s', 1),
    ('s', 5),
    ('s', 10),
    ('s', 30),
    ('m', 1),
    ('m', 5),
    ('m', 10),
    ('m', 30),
    ('h', 1),
    ('h', 3),
    ('h', 12),
    ('d', 1),
    ('d', 7),
    ('M', 1),
    ('M', 3),
    ('y', 1),
    ('y', 5),
    ('y', 10),
    ('y', 100),
];

/// Division of points in time into intervals that are chosen when all points are known.
pub(super) struct AutomaticDivision {
    source: FieldSource,
    /// Intervals at most.
    wanted: usize,
    /// Position of the shortest interval in the list.
    shortest: usize,
}

impl AutomaticDivision {
    /// Position of the shortest interval that may be chosen.
    pub(super) fn shortest(&self) -> usize {
        self.shortest
    }

    /// Points in time of a document, in milliseconds.
    pub(super) fn points(&self, hit: &SearchHit) -> Vec<i64> {
        self.source.numbers(hit).into_iter().map(|millis| millis as i64).collect()
    }

    fn rounding(&self, step: usize) -> DateRounding {
        let (letter, count) = AUTOMATIC[step];
        DateRounding::of_units(count, letter, &self.source.zone)
    }

    /// Beginning of the unit of time, that of the interval at a position, which has a point.
    pub(super) fn unit_start(&self, step: usize, millis: i64) -> Option<i64> {
        self.rounding(step).start(millis)
    }

    /// Position of the first interval of the next unit, if there are more units with points than intervals of
    /// the unit at `step` can be wanted for.
    pub(super) fn coarser(&self, step: usize, units: usize) -> Option<usize> {
        let unit = AUTOMATIC[step].0;
        let of_unit = AUTOMATIC.iter().filter(|(letter, _)| *letter == unit);
        let longest = of_unit.map(|(_, count)| *count as usize).max().unwrap_or(1);
        let is_passed = units > self.wanted.saturating_mul(longest);
        let next = AUTOMATIC.iter().skip(step).position(|(letter, _)| *letter != unit);
        next.filter(|_| is_passed).map(|next| step + next)
    }

    /// The shortest interval, from a position on, of which there are few enough from one point to another,
    /// and where each begins. If there is none, it is the longest, and one more than wanted.
    pub(super) fn chosen(&self, from: usize, first: i64, last: i64) -> (usize, Vec<i64>) {
        let mut chosen = (from, Vec::new());
        for step in from..AUTOMATIC.len() {
            let starts = self.rounding(step).starts(first, last, self.wanted);
            let is_enough = starts.len() <= self.wanted;
            chosen = (step, starts);
            if is_enough {
                break;
            }
        }
        chosen
    }
}

/// Beginning of the interval that has a point, of intervals in their order.
pub(super) fn interval_of(starts: &[i64], millis: i64) -> Option<i64> {
    starts[..starts.partition_point(|start| *start <= millis)].last().copied()
}

impl BucketAggregation<'_> {
    pub(super) fn automatic_division(&self) -> Result<AutomaticDivision, Error> {
        let source = self.source()?;
        check_points(&source, "auto_date_histogram")?;
        let wanted = self.count_of("buckets", 10)?;
        self.check_steps(i64::try_from(wanted).unwrap_or(i64::MAX))?;
        if wanted == 0 {
            return Err(Error::IllegalArgument(format!(
                "buckets must be a positive integer for [{}]",
                self.requested.name
            )));
        }
        let unit = match self.text_option("minimum_interval").as_deref() {
            None | Some("second") => 's',
            Some("minute") => 'm',
            Some("hour") => 'h',
            Some("day") => 'd',
            Some("month") => 'M',
            Some("year") => 'y',
            Some(other) => {
                return Err(Error::IllegalArgument(format!("[minimum_interval] cannot be [{other}]")));
            }
        };
        let shortest = AUTOMATIC.iter().position(|(letter, _)| *letter == unit).unwrap_or_default();
        Ok(AutomaticDivision { source, wanted, shortest })
    }

    pub(super) fn auto_date_histogram(&self) -> Result<Value, Error> {
        let division = self.automatic_division()?;
        let mut points: Vec<(i64, &SearchHit)> = Vec::new();
        self.each(|hit| {
            points.extend(division.points(hit).into_iter().map(|millis| (millis, hit)));
            Ok(())
        })?;
        let first = points.iter().map(|(millis, _)| *millis).min();
        let last = points.iter().map(|(millis, _)| *millis).max();
        let (step, starts) = match first.zip(last) {
            Some((first, last)) => division.chosen(division.shortest, first, last),
            None => (division.shortest, Vec::new()),
        };
        let mut parts: BTreeMap<i64, Vec<&SearchHit>> =
            starts.iter().map(|start| (*start, Vec::new())).collect();
        for (millis, hit) in points {
            let Some(start) = interval_of(&starts, millis) else { continue };
            let hits = parts.entry(start).or_default();
            // Several points of a document count once.
            if hits.last().is_none_or(|last| !std::ptr::eq(*last, hit)) {
                hits.push(hit);
            }
        }
        self.finish_automatic(&division, step, parts)
    }

    /// Buckets of the intervals at a position of the list.
    pub(super) fn finish_automatic(
        &self,
        division: &AutomaticDivision,
        step: usize,
        parts: BTreeMap<i64, impl BucketContent>,
    ) -> Result<Value, Error> {
        let (letter, count) = AUTOMATIC[step];
        let mut answer = self.intervals(parts, 0, &|key| date_head(&division.source, key))?;
        answer["interval"] = format!("{count}{letter}").into();
        Ok(answer)
    }
}
