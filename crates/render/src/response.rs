use std::time::Duration;

use millrace_result::{Coverage, GroupingResult, Hit};
use millrace_tensor::json::Format;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::group::RootJson;
use crate::hit::HitJson;
use crate::number::JavaNumbers;

/// What a query gave, to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Response<'a> {
    /// How many documents matched.
    pub total_count: u64,
    /// The hits, in their order.
    pub hits: &'a [Hit],
    /// The groups, one for each grouping request, in order.
    pub groupings: &'a [GroupingResult],
    /// What stays by itself of each source, in order.
    pub sources: &'a [SourceGroup<'a>],
    /// Of how many results this was put together, and how many of them are full; none where there is but one.
    pub merged: Option<(usize, usize)>,
    /// What was looked at.
    pub coverage: Coverage,
    /// What went wrong.
    pub errors: &'a [ErrorMessage],
    /// How long it took, where it was asked for.
    pub timing: Option<Timing>,
    /// What happened, where it was asked for.
    pub trace: Option<&'a Trace>,
}

/// What one source gave.
#[derive(Debug, Clone, Copy)]
pub struct SourceGroup<'a> {
    /// The source's name.
    pub name: &'a str,
    /// Its hits, in their order.
    pub hits: &'a [Hit],
    /// Its groups, one for each grouping request, in order.
    pub groupings: &'a [GroupingResult],
}

impl SourceGroup<'_> {
    /// How relevant such a group is among hits.
    pub(crate) const RELEVANCE: f64 = 1.0;

    pub(crate) fn id(&self) -> String {
        format!("source:{}", self.name)
    }
}

impl Response<'_> {
    /// Of how many results it was put together, and how many of them are full.
    pub(crate) fn results(&self) -> (usize, usize) {
        self.merged.unwrap_or((1, usize::from(self.coverage.is_full())))
    }
}

/// How to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// `presentation.format.tensors`.
    pub tensors: Format,
    /// Maps as lists of keys and values, and not as objects.
    pub maps_as_lists: bool,
    /// Weighted sets as lists of items and weights, and not as objects.
    pub sets_as_lists: bool,
}

/// An error in a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorMessage {
    /// Vespa's number for this kind of error.
    pub code: u32,
    /// The kind of error in a few words.
    pub summary: String,
    /// What went wrong, and what to do.
    pub message: Option<String>,
    /// Where.
    pub source: Option<String>,
    /// Whether it may go away by itself; none where that is not known.
    pub transient: Option<bool>,
}

/// How long a query took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Matching and ranking.
    pub query: Duration,
    /// Filling the hits.
    pub summary_fetch: Duration,
    /// Everything.
    pub search: Duration,
}

/// A step of the execution, and the steps inside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// Milliseconds since the query began.
    pub timestamp_ms: Option<u64>,
    /// What happened.
    pub message: Option<String>,
    /// The steps inside.
    pub children: Vec<Trace>,
}

/// The response as JSON.
pub fn json(response: &Response<'_>, options: &Options) -> String {
    let mut out = Vec::with_capacity(256 + 512 * response.hits.len());
    write_json(response, options, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends the response as JSON.
pub fn write_json(response: &Response<'_>, options: &Options, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(out, JavaNumbers);
    // Writing to a Vec cannot fail, and all keys are text.
    let _ = ResponseJson { response, options }.serialize(&mut serializer);
}

/// Appends the response as CBOR: the same maps and lists as in JSON, in fewer bytes.
pub fn write_cbor(response: &Response<'_>, options: &Options, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail, and everything in a response can be written.
    let _ = ciborium::into_writer(&ResponseJson { response, options }, out);
}

struct ResponseJson<'a> {
    response: &'a Response<'a>,
    options: &'a Options,
}

impl Serialize for ResponseJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(trace) = self.response.trace {
            map.serialize_entry("trace", &TraceJson(trace))?;
        }
        if let Some(timing) = &self.response.timing {
            map.serialize_entry("timing", &TimingJson(timing))?;
        }
        map.serialize_entry("root", &TopLevel { response: self.response, options: self.options })?;
        map.end()
    }
}

struct TraceJson<'a>(&'a Trace);

impl Serialize for TraceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(timestamp) = self.0.timestamp_ms {
            map.serialize_entry("timestamp", &timestamp)?;
        }
        if let Some(message) = &self.0.message {
            map.serialize_entry("message", message)?;
        }
        if !self.0.children.is_empty() {
            map.serialize_entry("children", &List(self.0.children.iter().map(TraceJson)))?;
        }
        map.end()
    }
}

struct TimingJson<'a>(&'a Timing);

impl Serialize for TimingJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = |duration: Duration| duration.as_micros() as f64 / 1e6;
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("querytime", &seconds(self.0.query))?;
        map.serialize_entry("summaryfetchtime", &seconds(self.0.summary_fetch))?;
        map.serialize_entry("searchtime", &seconds(self.0.search))?;
        map.end()
    }
}

struct TopLevel<'a> {
    response: &'a Response<'a>,
    options: &'a Options,
}

impl Serialize for TopLevel<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let response = self.response;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", "toplevel")?;
        map.serialize_entry("relevance", &1.0)?;
        map.serialize_entry("fields", &TotalCount(response.total_count))?;
        if response.errors.is_empty() || response.coverage.documents > 0 {
            map.serialize_entry("coverage", &CoverageJson(response))?;
        }
        if !response.errors.is_empty() {
            map.serialize_entry("errors", &List(response.errors.iter().map(ErrorJson)))?;
        }
        let Response { hits, groupings, sources, .. } = *response;
        if !sources.is_empty() {
            let sources = sources.iter().map(|source| SourceJson { source, options: self.options });
            map.serialize_entry("children", &List(sources))?;
        } else if !hits.is_empty() || !groupings.is_empty() {
            map.serialize_entry("children", &Children { hits, groupings, options: self.options })?;
        }
        map.end()
    }
}

struct TotalCount(u64);

impl Serialize for TotalCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("totalCount", &self.0)?;
        map.end()
    }
}

struct CoverageJson<'a>(&'a Response<'a>);

impl Serialize for CoverageJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let coverage = self.0.coverage;
        let (results, results_full) = self.0.results();
        let full = coverage.is_full();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("coverage", &coverage.percent())?;
        map.serialize_entry("documents", &coverage.documents)?;
        if !full {
            map.serialize_entry(
                "degraded",
                &Degraded {
                    timed_out: coverage.timed_out,
                    non_ideal: coverage.non_ideal || !coverage.timed_out,
                },
            )?;
        }
        map.serialize_entry("full", &full)?;
        map.serialize_entry("nodes", &coverage.nodes)?;
        map.serialize_entry("results", &results)?;
        map.serialize_entry("resultsFull", &results_full)?;
        map.end()
    }
}

struct Degraded {
    timed_out: bool,
    non_ideal: bool,
}

impl Serialize for Degraded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("match-phase", &false)?;
        map.serialize_entry("timeout", &self.timed_out)?;
        map.serialize_entry("adaptive-timeout", &false)?;
        map.serialize_entry("non-ideal-state", &self.non_ideal)?;
        map.end()
    }
}

struct ErrorJson<'a>(&'a ErrorMessage);

impl Serialize for ErrorJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &error.code)?;
        map.serialize_entry("summary", &error.summary)?;
        if let Some(source) = &error.source {
            map.serialize_entry("source", source)?;
        }
        if let Some(message) = &error.message {
            map.serialize_entry("message", message)?;
        }
        if let Some(transient) = error.transient {
            map.serialize_entry("transient", &transient)?;
        }
        map.end()
    }
}

/// How many hits stand before groups: children are in the order of their relevance, and that of groups is 1. Hits in another order
/// follow them.
pub(crate) fn hits_before_groups(hits: &[Hit], groupings: &[GroupingResult]) -> usize {
    if groupings.is_empty() {
        return 0;
    }
    hits.iter().take_while(|hit| hit.sort_values.is_empty() && hit.relevance > 1.0).count()
}

/// Hits that are more relevant than groups, groups, the other hits.
struct Children<'a> {
    hits: &'a [Hit],
    groupings: &'a [GroupingResult],
    options: &'a Options,
}

impl Serialize for Children<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Children { groupings, hits, options } = *self;
        let (before, after) = hits.split_at(hits_before_groups(hits, groupings));
        let mut seq = serializer.serialize_seq(Some(groupings.len() + hits.len()))?;
        for hit in before {
            seq.serialize_element(&HitJson { hit, options })?;
        }
        for (number, grouping) in groupings.iter().enumerate() {
            seq.serialize_element(&RootJson { number, grouping, options })?;
        }
        for hit in after {
            seq.serialize_element(&HitJson { hit, options })?;
        }
        seq.end()
    }
}

struct SourceJson<'a> {
    source: &'a SourceGroup<'a>,
    options: &'a Options,
}

impl Serialize for SourceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SourceGroup { name, hits, groupings } = *self.source;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.source.id())?;
        map.serialize_entry("relevance", &SourceGroup::RELEVANCE)?;
        map.serialize_entry("source", name)?;
        if !hits.is_empty() || !groupings.is_empty() {
            map.serialize_entry("children", &Children { hits, groupings, options: self.options })?;
        }
        map.end()
    }
}

/// A list of what an iterator gives.
pub(crate) struct List<I>(pub(crate) I);

impl<I: Iterator + Clone> Serialize for List<I>
where
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}
