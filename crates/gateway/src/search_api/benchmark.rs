//! Statistics of a query: as headers for load generators that do not read bodies, requested by
//! `X-Yahoo-Vespa-Benchmarkdata`; and for the access log.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_node::search::SearchOutcome;
use millrace_result::SearchCoverage;
use millrace_search::SearchTrace;
use serde_json::{Map, Value, json};

use super::slow::seconds;

/// Statistics of a query in headers and in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueryStats {
    pub(crate) hits: usize,
    pub(crate) total_count: u64,
    pub(super) hits_asked: usize,
    pub(super) offset: usize,
    pub(super) group_hits: usize,
    pub(super) errors: usize,
    pub(super) search_ms: u128,
    pub(super) fill_ms: u128,
    pub(super) coverage: SearchCoverage,
    pub(crate) phases: SearchPhases,
}

impl QueryStats {
    /// Form of the access log.
    pub(crate) fn logged(&self) -> Value {
        let mut coverage =
            json!({ "coverage": self.coverage.percent(), "documents": self.coverage.documents });
        if self.coverage.timed_out {
            coverage["degraded"] = json!({ "timeout": true });
        }
        json!({ "totalhits": self.total_count, "hits": self.hits, "coverage": coverage })
    }
}

/// Time of each part of a query, as the sum over its schemas.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SearchPhases {
    plan: Duration,
    select: Duration,
    matching: Duration,
    order: Duration,
    group: Duration,
    fill: Duration,
}

impl SearchPhases {
    pub(super) fn of_outcome(found: &SearchOutcome) -> Self {
        let traces: Vec<SearchTrace> = found.traces.iter().map(|(_, trace)| *trace).collect();
        SearchPhases { plan: found.planned, ..SearchPhases::of_share(&traces) }
    }

    /// Times of one node's share of a query, which does not plan.
    pub(crate) fn of_share(traces: &[SearchTrace]) -> Self {
        let sum = |part: fn(&SearchTrace) -> Duration| traces.iter().map(part).sum();
        SearchPhases {
            plan: Duration::ZERO,
            select: sum(|trace| trace.select),
            matching: sum(|trace| trace.matching),
            order: sum(|trace| trace.order),
            group: sum(|trace| trace.group),
            fill: sum(|trace| trace.summary),
        }
    }

    /// Parts that took any time, in order.
    pub(crate) fn nonzero_times(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let parts = [
            ("plan", self.plan),
            ("select", self.select),
            ("match", self.matching),
            ("rank", self.order),
            ("group", self.group),
            ("fill", self.fill),
        ];
        parts.into_iter().filter(|(_, time)| !time.is_zero())
    }

    /// Seconds of each part that took any.
    pub(super) fn logged(&self) -> Value {
        Value::Object(
            self.nonzero_times().map(|(name, time)| (name.to_owned(), seconds(time))).collect::<Map<_, _>>(),
        )
    }
}

/// Statistics that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedStats {
    stats: bool,
    coverage: bool,
}

impl RequestedStats {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        RequestedStats {
            stats: headers.contains_key("x-yahoo-vespa-benchmarkdata"),
            coverage: headers.contains_key("x-yahoo-vespa-benchmarkdata-coverage"),
        }
    }

    /// Adds the requested statistics to the headers of an answer.
    pub(super) fn add(self, stats: &QueryStats, headers: &mut HeaderMap) {
        let mut put = |name: &'static str, value: u128| {
            if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        if self.stats {
            put("x-yahoo-vespa-numhits", stats.hits as u128);
            put("x-yahoo-vespa-numfasthits", stats.hits as u128);
            put("x-yahoo-vespa-numgrouphits", stats.group_hits as u128);
            put("x-yahoo-vespa-numerrors", stats.errors as u128);
            put("x-yahoo-vespa-totalhitcount", u128::from(stats.total_count));
            put("x-yahoo-vespa-queryhits", stats.hits_asked as u128);
            put("x-yahoo-vespa-queryoffset", stats.offset as u128);
            put("x-yahoo-vespa-searchtime", stats.search_ms);
            put("x-yahoo-vespa-filltime", stats.fill_ms);
        }
        if self.coverage {
            let coverage = stats.coverage;
            put("x-yahoo-vespa-nodessearched", u128::from(coverage.nodes));
            put("x-yahoo-vespa-docssearched", u128::from(coverage.documents));
            put("x-yahoo-vespa-fullcoverage", u128::from(u8::from(coverage.is_full())));
        }
    }
}
