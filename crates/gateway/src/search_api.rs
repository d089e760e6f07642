//! `/search/`: a query's parameters are collected, planned, run, and its result rendered.

mod benchmark;
mod format;
mod parameters;
mod render;
mod run;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use millrace_query::Query;

pub(crate) use self::benchmark::Figures;
use self::format::Format;
use crate::error::Kind;
use crate::metrics::Metric;
use crate::{Error, Node, http};

/// How much longer than its timeout a query may take until it is given up: its partial result needs time to be written.
const GRACE: Duration = Duration::from_millis(500);

/// Answers a query.
pub(crate) async fn handle(State(node): State<Arc<Node>>, request: Request) -> Response {
    let started = Instant::now();
    let metrics = node.metrics();
    let asked = benchmark::Asked::of(request.headers());
    let mut format = Format::default();
    let answer = search(&node, request, started, &mut format).await;
    metrics.time(Metric::QueryLatency, started.elapsed());
    metrics.count(Metric::Queries);
    match answer {
        Ok((body, figures)) => {
            let mut response = http::answer(StatusCode::OK, &format.content_type(), body);
            asked.add(&figures, response.headers_mut());
            response.extensions_mut().insert(figures);
            response
        }
        Err(error) => {
            metrics.count(match error.kind() {
                Kind::Overloaded => Metric::Rejected,
                _ => Metric::FailedQueries,
            });
            let body = render::error(&error, format);
            let mut response = http::answer(error.status(), &format.content_type(), body);
            asked.add(&Figures { errors: 1, ..Figures::default() }, response.headers_mut());
            if matches!(error.kind(), Kind::Overloaded | Kind::Unavailable) {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    }
}

/// The answer to a request; `format` is set as soon as it is known, so that errors come in it too.
async fn search(
    node: &Arc<Node>,
    request: Request,
    started: Instant,
    format: &mut Format,
) -> Result<(Vec<u8>, Figures), Error> {
    let deployment = node.deployments().current()?;
    let headers = request.headers().clone();
    let (parameters, limits) =
        parameters::read(&deployment, node.settings().request_bytes_max, request).await?;
    *format = Format::of(&parameters, &headers)?;
    let format = *format;
    let query = Arc::new(Query::from_parameters(parameters, &limits)?);
    let timeout = query.timeout;
    let caller = Caller::default();
    let (gone, worker) = (Arc::clone(&caller.gone), Arc::clone(node));
    let work = node.pool().run(move || {
        let found = run::run(&worker, &deployment, &query, started, gone)?;
        worker.metrics().record(Metric::HitsPerQuery, found.hits.len() as f64);
        worker.metrics().record(Metric::TotalHitsPerQuery, found.result.total_count as f64);
        if found.result.coverage.timed_out {
            worker.metrics().count(Metric::DegradedQueries);
        }
        render::result(&query, &found, started, format)
    });
    match tokio::time::timeout(timeout.saturating_add(GRACE), work).await {
        Ok(answer) => answer?,
        Err(_) => Err(Error::Timeout(timeout)),
    }
}

/// Says to the work under way, when it is dropped, that nobody waits any more.
#[derive(Default)]
struct Caller {
    gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}
