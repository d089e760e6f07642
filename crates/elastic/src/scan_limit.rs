//! Limits of one search: its time, and the number of documents that it may find.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_node::pool;
use serde_json::{Map, Value};

use crate::Error;
use crate::request::ElasticParameters;

/// Time limit of a search that has none of its own, and the longest that one can have.
const LONGEST: Duration = Duration::from_secs(60);

/// Time after which a brief search ends.
const LATE: Duration = Duration::from_secs(20);

/// Documents between two looks at the clock. A document may have megabytes, and a query thousands of words.
const STEP: u32 = 8;

/// Limits as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScanLimit {
    /// Time after which the search ends with what it has.
    timeout: Option<Duration>,
    /// Documents after which the search ends.
    terminate_after: Option<u64>,
    /// True if a search that ran out of time is answered with what it has.
    allows_partial: bool,
}

impl ScanLimit {
    /// Parses `timeout`, `terminate_after` and `allow_partial_search_results`; parameters count before the
    /// members of the body.
    ///
    /// # Errors
    /// A value is malformed.
    pub(crate) fn parse(body: &Map<String, Value>, parameters: &ElasticParameters) -> Result<Self, Error> {
        let of_body = |name: &str| body.get(name).filter(|value| !value.is_null());
        let timeout = match (parameters.get("timeout"), of_body("timeout")) {
            (Some(text), _) => duration_of(text)?,
            (None, Some(Value::String(text))) => duration_of(text)?,
            (None, Some(other)) => return Err(malformed(&other.to_string())),
            (None, None) => None,
        };
        let terminate_after = match (parameters.integer("terminate_after")?, of_body("terminate_after")) {
            (Some(number), _) => number,
            (None, Some(number)) => number.as_i64().unwrap_or(-1),
            (None, None) => 0,
        };
        if terminate_after < 0 {
            return Err(Error::IllegalArgument("terminateAfter must be > 0".to_owned()));
        }
        let allows = parameters.flag("allow_partial_search_results")?;
        let of_body = of_body("allow_partial_search_results").and_then(Value::as_bool);
        Ok(ScanLimit {
            timeout,
            terminate_after: (terminate_after > 0).then_some(terminate_after as u64),
            allows_partial: allows.or(of_body).unwrap_or(true),
        })
    }

    /// True if the search was asked to end after a number of documents.
    pub(crate) fn may_terminate(&self) -> bool {
        self.terminate_after.is_some()
    }

    /// Documents after which a search that has found some ends; `None` if it was asked for all.
    fn left_after(&self, found: u64) -> Option<u64> {
        self.terminate_after.map(|limit| limit.saturating_sub(found))
    }

    /// Hits that a scroll shows after those that it has found, `wanted` at most.
    pub(crate) fn wanted_after(&self, found: u64, wanted: usize) -> usize {
        let left = self.left_after(found).map(|left| usize::try_from(left).unwrap_or(usize::MAX));
        left.map_or(wanted, |left| left.min(wanted))
    }
}

fn malformed(text: &str) -> Error {
    Error::IllegalArgument(format!(
        "failed to parse setting [timeout] with value [{text}] as a time value: unit is missing or unrecognized"
    ))
}

/// Duration of a text such as `500ms`; `None` for -1, which is no limit.
pub(crate) fn duration_of(text: &str) -> Result<Option<Duration>, Error> {
    let text = text.trim();
    if text == "-1" || text.is_empty() {
        return Ok(None);
    }
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| malformed(text))?;
    let nanos: u64 = match unit {
        "nanos" => 1,
        "micros" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        "" if number == 0 => 0,
        _ => return Err(malformed(text)),
    };
    Ok(Some(Duration::from_nanos(number.saturating_mul(nanos))))
}

/// Time of a search, or of a part of it. Work on many documents looks at it before each, so that other work
/// of the node gets its turn.
pub(crate) struct SearchPace<'l> {
    limit: &'l ScanLimit,
    /// True once the client has left.
    gone: &'l AtomicBool,
    began: Instant,
    until_look: Cell<u32>,
    is_over: Cell<bool>,
}

impl<'l> SearchPace<'l> {
    /// Begins the time, which ends at the time limit, or when `gone` is true: the client has left.
    pub(crate) fn begin(limit: &'l ScanLimit, gone: &'l AtomicBool) -> Self {
        SearchPace { limit, gone, began: Instant::now(), until_look: Cell::new(0), is_over: Cell::new(false) }
    }

    /// True if the time was over before the work was done.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Looks at the time and the client before work on a document. Breaks off once the time is over.
    ///
    /// # Errors
    /// The time is over, and the search does not take a part for the whole; or its client has left.
    pub(crate) fn next(&self) -> Result<ControlFlow<()>, Error> {
        if self.is_over() {
            return Ok(ControlFlow::Break(()));
        }
        if !self.is_due() {
            return Ok(ControlFlow::Continue(()));
        }
        self.give_way()?;
        self.check_time()
    }

    /// Counts a document, and returns true if the time and the client are to be looked at.
    fn is_due(&self) -> bool {
        let left = self.until_look.get();
        self.until_look.set(left.checked_sub(1).unwrap_or(STEP));
        left == 0
    }

    /// Gives other work of the node its turn, as long as the client is there.
    fn give_way(&self) -> Result<(), Error> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(Error::Timeout("the client left before the search had ended".to_owned()));
        }
        pause();
        Ok(())
    }

    fn check_time(&self) -> Result<ControlFlow<()>, Error> {
        let passed = self.began.elapsed();
        match self.limit.timeout {
            Some(timeout) if passed >= timeout.min(LONGEST) => {
                if !self.limit.allows_partial {
                    return Err(Error::Timeout("Time exceeded".to_owned()));
                }
                self.is_over.set(true);
                Ok(ControlFlow::Break(()))
            }
            None if passed >= LONGEST => Err(Error::Timeout(format!(
                "the search took longer than {} s; narrow it, or give it a [timeout] for what it finds until then",
                LONGEST.as_secs()
            ))),
            _ => Ok(ControlFlow::Continue(())),
        }
    }
}

/// Gives other work of the node its turn.
pub(crate) fn pause() {
    pool::pause(Instant::now());
}

/// A search under its limits.
pub(crate) struct ScanProgress<'l> {
    pace: SearchPace<'l>,
    found: u64,
    /// True if the time ran out before all documents were read.
    pub(crate) is_timed_out: bool,
    /// True if enough documents were found before all were read.
    pub(crate) is_terminated: bool,
    /// True to end early, with what was found until then.
    pub(crate) is_brief: bool,
    /// True if it has ended early.
    pub(crate) is_late: bool,
}

impl<'l> ScanProgress<'l> {
    /// Begins a search, which ends when `gone` is true: its client has left.
    pub(crate) fn begin(limit: &'l ScanLimit, gone: &'l AtomicBool) -> Self {
        ScanProgress {
            pace: SearchPace::begin(limit, gone),
            found: 0,
            is_timed_out: false,
            is_terminated: false,
            is_brief: false,
            is_late: false,
        }
    }

    /// The same for a part of a search that has found some documents before.
    pub(crate) fn after(self, found: u64) -> Self {
        ScanProgress { found, ..self }
    }

    /// Its time, for work on what is not a document.
    pub(crate) fn pace(&self) -> &SearchPace<'l> {
        &self.pace
    }

    /// True if the search was asked to end after a number of documents.
    pub(crate) fn may_terminate(&self) -> bool {
        self.pace.limit.may_terminate()
    }

    /// True if the search ended before its last document.
    pub(crate) fn is_over(&self) -> bool {
        self.is_timed_out || self.is_terminated || self.is_late
    }

    /// Looks at the time and the client before a document is read. Other work of the node gets its turn.
    ///
    /// # Errors
    /// The time of the search is over, and it does not take a part for the whole; or its client has left.
    pub(crate) fn next(&mut self) -> Result<ControlFlow<()>, Error> {
        if !self.pace.is_due() {
            return Ok(ControlFlow::Continue(()));
        }
        self.look()
    }

    /// Looks at them before many documents are read.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub(crate) fn look(&mut self) -> Result<ControlFlow<()>, Error> {
        self.pace.give_way()?;
        if self.is_brief && self.pace.began.elapsed() >= LATE {
            self.is_late = true;
            return Ok(ControlFlow::Break(()));
        }
        let flow = self.pace.check_time()?;
        self.is_timed_out |= flow.is_break();
        Ok(flow)
    }

    /// Counts a document that matches.
    pub(crate) fn count(&mut self) -> ControlFlow<()> {
        self.found += 1;
        if self.pace.limit.terminate_after.is_some_and(|limit| self.found >= limit) {
            self.is_terminated = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("1s", Some(1_000)),
            ("250ms", Some(250)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("0", Some(0)),
            ("-1", None),
        ] {
            let duration = duration_of(text).expect("the time is well-formed");
            assert_eq!(duration.map(|duration| duration.as_millis()), expected, "{text}");
        }
        for text in ["1", "s", "1.5s", "1y", "-2s", "99999999999999999999s"] {
            assert!(duration_of(text).is_err(), "{text} is taken");
        }
    }

    #[test]
    fn a_search_ends_at_its_limits() {
        let parsed = |body: Value, query: &str| {
            ScanLimit::parse(body.as_object().expect("an object"), &ElasticParameters::parse(query))
        };
        let limit = parsed(json!({ "timeout": "1h", "terminate_after": 9 }), "timeout=0&terminate_after=2")
            .expect("the limits are well-formed");
        let gone = AtomicBool::new(false);
        let mut progress = ScanProgress::begin(&limit, &gone);
        assert_eq!(progress.next().expect("a part is allowed"), ControlFlow::Break(()));
        assert!(progress.is_timed_out && progress.is_over());
        assert_eq!(progress.count(), ControlFlow::Continue(()));
        assert_eq!(progress.count(), ControlFlow::Break(()));
        let mut rest = ScanProgress::begin(&limit, &gone).after(1);
        assert_eq!(rest.count(), ControlFlow::Break(()), "the first was found before");
        for (found, wanted, expected) in [(0, 9, 2), (0, 1, 1), (1, 9, 1), (2, 9, 0), (7, 9, 0)] {
            assert_eq!(limit.wanted_after(found, wanted), expected, "{wanted} after {found}");
        }
        let strict = parsed(json!({ "timeout": "0", "allow_partial_search_results": false }), "");
        let strict = strict.expect("the limits are well-formed");
        let status = |limit, gone| ScanProgress::begin(limit, gone).next().err().map(|error| error.status());
        assert_eq!(status(&strict, &gone), Some(408));
        let endless = parsed(json!({}), "").expect("the limits are well-formed");
        assert_eq!(endless.wanted_after(1_000_000, 9), 9);
        assert_eq!(status(&endless, &gone), None);
        gone.store(true, Ordering::Relaxed);
        assert_eq!(status(&endless, &gone), Some(408), "the client has left");
        assert!(parsed(json!({ "terminate_after": -1 }), "").is_err());
        assert!(parsed(json!({ "timeout": 5 }), "").is_err());
    }
}
