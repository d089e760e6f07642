use std::time::Duration;

use millrace_result::{GroupingResult, ResultHit, SearchCoverage};
use millrace_tensor::json::TensorFormat;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::group::RootJson;
use crate::hit::HitJson;
use crate::number::JavaNumbers;

/// Result of a query, ready to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchResponse<'a> {
    /// Number of matching documents.
    pub total_count: u64,
    /// Hits in order.
    pub hits: &'a [ResultHit],
    /// Groups, one per grouping request, in order.
    pub groupings: &'a [GroupingResult],
    /// Results that stay separate per source, in order.
    pub sources: &'a [SourceGroup<'a>],
    /// Number of merged results, and number of full ones among them; `None` for a single result.
    pub merged: Option<(usize, usize)>,
    /// Share of the documents that was examined.
    pub coverage: SearchCoverage,
    /// Errors of the query.
    pub errors: &'a [ErrorMessage],
    /// Durations, if requested.
    pub timing: Option<QueryTiming>,
    /// Execution trace, if requested.
    pub trace: Option<&'a TraceStep>,
}

/// Result of one source.
#[derive(Debug, Clone, Copy)]
pub struct SourceGroup<'a> {
    /// Name of the source.
    pub name: &'a str,
    /// Hits of the source in order.
    pub hits: &'a [ResultHit],
    /// Groups of the source, one per grouping request, in order.
    pub groupings: &'a [GroupingResult],
}

impl SourceGroup<'_> {
    /// Relevance of groups among hits.
    pub(crate) const RELEVANCE: f64 = 1.0;

    pub(crate) fn id(&self) -> String {
        format!("source:{}", self.name)
    }
}

impl SearchResponse<'_> {
    /// Number of merged results, and number of full ones among them.
    pub(crate) fn results(&self) -> (usize, usize) {
        self.merged.unwrap_or((1, usize::from(self.coverage.is_full())))
    }
}

/// Output options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// `presentation.format.tensors`.
    pub tensors: TensorFormat,
    /// True to write maps as lists of keys and values, false for objects. A field whose keys are texts is an
    /// object in any case.
    pub maps_as_lists: bool,
    /// True to write weighted sets as lists of items and weights, false for objects.
    pub sets_as_lists: bool,
    /// True to write raw values as `0x` and hexadecimal digits, false for base64.
    pub raw_as_hex: bool,
}

impl RenderOptions {
    /// True if values in hits have the form that they have in documents.
    pub(crate) fn is_of_documents(&self) -> bool {
        !self.maps_as_lists && !self.sets_as_lists && !self.raw_as_hex
    }
}

/// An error in a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorMessage {
    /// Vespa's code for this kind of error.
    pub code: u32,
    /// Short name of the kind of error.
    pub summary: String,
    /// Cause and remedy.
    pub message: Option<String>,
    /// Source of the error.
    pub source: Option<String>,
    /// True if the error may resolve itself; `None` if that is unknown.
    pub transient: Option<bool>,
}

/// Durations of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueryTiming {
    /// Matching and ranking.
    pub query: Duration,
    /// Filling the hits.
    pub summary_fetch: Duration,
    /// The whole query.
    pub search: Duration,
}

/// A step of the execution, with nested steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceStep {
    /// Milliseconds since the start of the query.
    pub timestamp_ms: Option<u64>,
    /// Description of the step.
    pub message: Option<String>,
    /// Nested steps.
    pub children: Vec<TraceStep>,
}

/// Writes the response as JSON.
pub fn json(response: &SearchResponse<'_>, options: &RenderOptions) -> String {
    let mut out = Vec::with_capacity(256 + 512 * response.hits.len());
    write_json(response, options, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends the response as JSON.
pub fn write_json(response: &SearchResponse<'_>, options: &RenderOptions, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(out, JavaNumbers);
    // Writing to a Vec cannot fail, and all keys are text.
    let _ = ResponseJson { response, options }.serialize(&mut serializer);
}

/// Appends the response as CBOR: the same maps and lists as in JSON, in fewer bytes.
pub fn write_cbor(response: &SearchResponse<'_>, options: &RenderOptions, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail, and every part of a response is serializable.
    let _ = ciborium::into_writer(&ResponseJson { response, options }, out);
}

/// A value as CBOR.
pub fn cbor(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = ciborium::into_writer(value, &mut out);
    out
}

struct ResponseJson<'a> {
    response: &'a SearchResponse<'a>,
    options: &'a RenderOptions,
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

struct TraceJson<'a>(&'a TraceStep);

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
            map.serialize_entry("children", &IteratorList(self.0.children.iter().map(TraceJson)))?;
        }
        map.end()
    }
}

struct TimingJson<'a>(&'a QueryTiming);

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
    response: &'a SearchResponse<'a>,
    options: &'a RenderOptions,
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
            map.serialize_entry("errors", response.errors)?;
        }
        let SearchResponse { hits, groupings, sources, .. } = *response;
        if !sources.is_empty() {
            let sources = sources.iter().map(|source| SourceJson { source, options: self.options });
            map.serialize_entry("children", &IteratorList(sources))?;
        } else if !hits.is_empty() || !groupings.is_empty() {
            map.serialize_entry("children", &ResponseChildren { hits, groupings, options: self.options })?;
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

struct CoverageJson<'a>(&'a SearchResponse<'a>);

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
                &DegradedCoverage {
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

struct DegradedCoverage {
    timed_out: bool,
    non_ideal: bool,
}

impl Serialize for DegradedCoverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("match-phase", &false)?;
        map.serialize_entry("timeout", &self.timed_out)?;
        map.serialize_entry("adaptive-timeout", &false)?;
        map.serialize_entry("anntimeout", &false)?;
        map.serialize_entry("non-ideal-state", &self.non_ideal)?;
        map.end()
    }
}

impl Serialize for ErrorMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("summary", &self.summary)?;
        if let Some(source) = &self.source {
            map.serialize_entry("source", source)?;
        }
        if let Some(message) = &self.message {
            map.serialize_entry("message", message)?;
        }
        if let Some(transient) = self.transient {
            map.serialize_entry("transient", &transient)?;
        }
        map.end()
    }
}

/// Number of hits before groups. Children are sorted by relevance, and groups have the relevance 1. Hits in
/// another order follow the groups.
pub(crate) fn hits_before_groups(hits: &[ResultHit], groupings: &[GroupingResult]) -> usize {
    if groupings.is_empty() {
        return 0;
    }
    hits.iter().take_while(|hit| hit.sort_values.is_empty() && hit.relevance > 1.0).count()
}

/// Children of a result: hits with a higher relevance than groups, groups, other hits.
struct ResponseChildren<'a> {
    hits: &'a [ResultHit],
    groupings: &'a [GroupingResult],
    options: &'a RenderOptions,
}

impl Serialize for ResponseChildren<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ResponseChildren { groupings, hits, options } = *self;
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
    options: &'a RenderOptions,
}

impl Serialize for SourceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SourceGroup { name, hits, groupings } = *self.source;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.source.id())?;
        map.serialize_entry("relevance", &SourceGroup::RELEVANCE)?;
        map.serialize_entry("source", name)?;
        if !hits.is_empty() || !groupings.is_empty() {
            map.serialize_entry("children", &ResponseChildren { hits, groupings, options: self.options })?;
        }
        map.end()
    }
}

/// A list of an iterator's items.
pub(crate) struct IteratorList<I>(pub(crate) I);

impl<I: Iterator + Clone> Serialize for IteratorList<I>
where
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}
