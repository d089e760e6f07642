//! Figures of a query: as headers for load generators that do not read bodies, requested by
//! `X-Yahoo-Vespa-Benchmarkdata`; and for the access log.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_result::SearchCoverage;
use serde_json::{Value, json};

/// Figures of a query in headers and in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueryFigures {
    pub(super) hits: usize,
    pub(super) total_count: u64,
    pub(super) hits_asked: usize,
    pub(super) offset: usize,
    pub(super) group_hits: usize,
    pub(super) errors: usize,
    pub(super) search_ms: u128,
    pub(super) fill_ms: u128,
    pub(super) coverage: SearchCoverage,
}

impl QueryFigures {
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

/// Figures that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedFigures {
    figures: bool,
    coverage: bool,
}

impl RequestedFigures {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        RequestedFigures {
            figures: headers.contains_key("x-yahoo-vespa-benchmarkdata"),
            coverage: headers.contains_key("x-yahoo-vespa-benchmarkdata-coverage"),
        }
    }

    /// Adds the requested figures to the headers of an answer.
    pub(super) fn add(self, figures: &QueryFigures, headers: &mut HeaderMap) {
        let mut put = |name: &'static str, value: u128| {
            if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        if self.figures {
            put("x-yahoo-vespa-numhits", figures.hits as u128);
            put("x-yahoo-vespa-numfasthits", figures.hits as u128);
            put("x-yahoo-vespa-numgrouphits", figures.group_hits as u128);
            put("x-yahoo-vespa-numerrors", figures.errors as u128);
            put("x-yahoo-vespa-totalhitcount", u128::from(figures.total_count));
            put("x-yahoo-vespa-queryhits", figures.hits_asked as u128);
            put("x-yahoo-vespa-queryoffset", figures.offset as u128);
            put("x-yahoo-vespa-searchtime", figures.search_ms);
            put("x-yahoo-vespa-filltime", figures.fill_ms);
        }
        if self.coverage {
            let coverage = figures.coverage;
            put("x-yahoo-vespa-nodessearched", u128::from(coverage.nodes));
            put("x-yahoo-vespa-docssearched", u128::from(coverage.documents));
            put("x-yahoo-vespa-fullcoverage", u128::from(u8::from(coverage.is_full())));
        }
    }
}
