//! Spans of requests to the data port, for distributed traces (W3C Trace Context, OTLP).
//!
//! A request that is traced gets the header `traceparent` of its own span in the place of its client's, so
//! that everything that forwards it continues the trace. Its extension [`TracedRequest`] observes the parts
//! of a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};
use millrace_env::unix_time;
use millrace_node::metrics::without_person;
use millrace_node::search::QueryObserver;
use millrace_remote::{FinishedSpan, SpanContext, SpanExporter, SpanValue};
use millrace_search::SearchTrace;

use crate::forwarding::HOP;
use crate::http::rest_below;
use crate::search_api::{QueryStats, SearchPhases};

/// Header with the sender's span.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// First parts of the paths that are traced. What monitors ask regularly is not among them.
const TRACED: [&str; 6] =
    ["/search", "/document/v1", "/feed/v1", "/group/v1", "/model-evaluation/v1", "/mcp"];

/// A request that is traced.
pub(crate) struct TracedRequest {
    exporter: Arc<SpanExporter>,
    context: SpanContext,
    parent: Option<[u8; 8]>,
    method: String,
    /// Its path, as far as all requests of a kind have it.
    route: &'static str,
    /// True if another node has sent it.
    is_forwarded: bool,
    started: Instant,
    /// True once the query has shares, which have the times of its parts.
    has_shares: AtomicBool,
}

/// Begins the span of a request; `None` if it is not traced.
pub(crate) fn begin(exporter: &Arc<SpanExporter>, request: &mut Request<Body>) -> Option<Arc<TracedRequest>> {
    let path = request.uri().path();
    let route = TRACED.into_iter().find(|route| is_below(path, route))?;
    let is_forwarded = request.headers().contains_key(HOP);
    let header = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    if is_forwarded && header.is_none() {
        // The node that has sent it does not record it.
        return None;
    }
    let (context, parent) = exporter.begin(header)?;
    let traced = Arc::new(TracedRequest {
        exporter: Arc::clone(exporter),
        context,
        parent,
        method: request.method().to_string(),
        route,
        is_forwarded,
        started: Instant::now(),
        has_shares: AtomicBool::new(false),
    });
    continue_in(request.headers_mut(), Some(context.header()));
    request.extensions_mut().insert(Arc::clone(&traced));
    Some(traced)
}

/// True for a path and those below it, for all documents or those of a person.
fn is_below(path: &str, route: &str) -> bool {
    rest_below(without_person(path), route).is_some()
}

/// Sets the header by which the receiver continues a trace.
pub(crate) fn continue_in(headers: &mut HeaderMap, header: Option<String>) {
    if let Some(value) = header.and_then(|header| HeaderValue::try_from(header).ok()) {
        headers.insert(TRACEPARENT, value);
    }
}

/// Observer of the query of a request, if that is traced.
pub(crate) fn observer_of<B>(request: &Request<B>) -> Option<Arc<dyn QueryObserver>> {
    let traced = request.extensions().get::<Arc<TracedRequest>>()?;
    Some(Arc::clone(traced) as _)
}

impl TracedRequest {
    /// Ends the span with the head of the answer. Texts of queries, ids and groups are not part of it.
    pub(crate) fn end(&self, response: &Response) {
        let status = response.status();
        let mut attributes = vec![
            ("http.request.method", SpanValue::Text(self.method.clone())),
            ("http.route", SpanValue::Text(self.route.to_owned())),
            ("http.response.status_code", SpanValue::Number(status.as_u16().into())),
        ];
        if self.is_forwarded {
            attributes.push(("millrace.forwarded", SpanValue::Number(1)));
        }
        if let Some(stats) = response.extensions().get::<QueryStats>() {
            attributes.push(("millrace.matched", SpanValue::Number(stats.total_count)));
            attributes.push(("millrace.hits", SpanValue::Number(stats.hits as u64)));
            if !self.has_shares.load(Ordering::Relaxed) {
                self.phases(self.context, self.started, &stats.phases);
            }
        }
        self.export(FinishedSpan {
            name: format!("{} {}", self.method, self.route),
            parent: self.parent,
            is_request: true,
            attributes,
            is_error: status.is_server_error(),
            ..self.part(self.context, self.started, self.started.elapsed())
        });
    }

    /// Spans of the parts of a search, one after another: their times are measured, and their beginnings
    /// follow from their order.
    fn phases(&self, parent: SpanContext, started: Instant, phases: &SearchPhases) {
        let mut begin = started;
        for (name, time) in phases.nonzero_times() {
            let span = self.part(parent.child(), begin, time);
            self.export(FinishedSpan { name: name.to_owned(), parent: Some(parent.span_id), ..span });
            begin += time;
        }
    }

    fn export(&self, span: FinishedSpan) {
        self.exporter.export(span);
    }

    /// A span of work of this node, without a name.
    fn part(&self, context: SpanContext, started: Instant, time: Duration) -> FinishedSpan {
        let start = unix_time().saturating_sub(started.elapsed());
        FinishedSpan {
            name: String::new(),
            context,
            parent: Some(self.context.span_id),
            is_request: false,
            start,
            end: start + time,
            attributes: Vec::new(),
            is_error: false,
        }
    }
}

impl QueryObserver for TracedRequest {
    fn header(&self) -> String {
        self.has_shares.store(true, Ordering::Relaxed);
        self.context.header()
    }

    fn share_ended(&self, started: Instant, traces: &[SearchTrace]) {
        self.has_shares.store(true, Ordering::Relaxed);
        let context = self.context.child();
        let documents = traces.iter().map(|trace| trace.documents).sum();
        let matched = traces.iter().map(|trace| trace.matched).sum();
        self.export(FinishedSpan {
            name: "share".to_owned(),
            attributes: vec![
                ("millrace.documents", SpanValue::Number(documents)),
                ("millrace.matched", SpanValue::Number(matched)),
            ],
            ..self.part(context, started, started.elapsed())
        });
        self.phases(context, started, &SearchPhases::of_share(traces));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_found_for_everyone_and_a_person() {
        for (path, expected) in [
            ("/search/", true),
            ("/search", true),
            ("/person/ann/search/", true),
            ("/person-number/7/search/", true),
            ("/searching/", false),
            ("/person/search", false),
            ("/state/v1/health", false),
        ] {
            assert_eq!(is_below(path, "/search"), expected, "{path}");
        }
    }
}
