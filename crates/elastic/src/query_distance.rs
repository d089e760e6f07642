//! `distance_feature` queries: the nearer a date of a document is to a point in time, the more it scores.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Error;
use crate::dates::{DateReading, DateText};
use crate::evaluation::{FieldValueKind, SearchedDocument, kind_of};
use crate::mapping::type_of;
use crate::query::text_of;
use crate::scan_limit::duration_of;

/// A query for documents with a date, by its distance from another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DistanceQuery {
    pub(crate) field: String,
    origin: String,
    /// Distance at which the score is half of that at the origin.
    pivot_ms: f64,
}

impl DistanceQuery {
    /// Parses the members of a query.
    ///
    /// # Errors
    /// One is missing, or is not a time.
    pub(crate) fn parse(members: &Map<String, Value>) -> Result<Self, Error> {
        let needed = |name: &str| {
            let value = members.get(name).map(text_of);
            value.ok_or_else(|| Error::Parsing(format!("Required [{name}] of [distance_feature] is missing")))
        };
        let (field, origin, pivot) = (needed("field")?, needed("origin")?, needed("pivot")?);
        match duration_of(&pivot).ok().flatten().filter(|pivot| !pivot.is_zero()) {
            Some(length) => Ok(DistanceQuery { field, origin, pivot_ms: length.as_secs_f64() * 1_000.0 }),
            None => Err(Error::IllegalArgument(format!(
                "[pivot] of [distance_feature] is [{pivot}], and is a time above 0 here, such as 7d: distances are those of dates"
            ))),
        }
    }
}

impl SearchedDocument<'_> {
    /// Score of the document by its nearest date; `None` if it has none.
    ///
    /// # Errors
    /// The field has no dates, or the origin is no date.
    pub(crate) fn score_distance(&self, query: &DistanceQuery) -> Result<Option<f64>, Error> {
        let Some((definition, _)) = self.field(&query.field) else { return Ok(None) };
        if kind_of(type_of(&definition)) != FieldValueKind::Date {
            return Err(Error::IllegalArgument(format!(
                "[distance_feature] is for fields of dates here, and [{}] is of type [{}]",
                query.field,
                type_of(&definition)
            )));
        }
        let reading =
            DateReading { format: None, now_ms: self.now_ms, zone: &TimeZone::UTC, round_up: false };
        let origin = DateText::resolve(&query.origin, &reading).ok_or_else(|| {
            Error::IllegalArgument(format!(
                "[origin] of [distance_feature] is not a date: [{}]",
                query.origin
            ))
        })?;
        let (_, times) = self.numbers_of(&query.field);
        let nearest = times.into_iter().map(|time| (time - origin as f64).abs()).reduce(f64::min);
        Ok(nearest.map(|distance| query.pivot_ms / (query.pivot_ms + distance)))
    }
}
