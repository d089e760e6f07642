//! The slow-query log: a line of JSON for each query that took longer than a bound.
//!
//! By default a line has nothing that a user has typed: the query as its shape, groups as their number.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{HeaderMap, StatusCode};
use millrace_access::RequestCaller;
use millrace_node::cluster::ForwardKind;
use millrace_node::search;
use millrace_query::{ItemShape, Query, QuerySources};
use millrace_store::ViewScope;
use serde_json::{Map, Value, json};

use super::benchmark::QueryStats;
use super::format::ResultFormat;
use crate::PortError;
use crate::log_file::LineLog;

/// Maximum number of characters of a text in a line.
const TEXT_MAX: usize = 2_000;

/// Settings of the slow-query log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowQuerySettings {
    /// File to which lines are appended.
    pub log: PathBuf,
    /// Time from which on a query is slow.
    pub threshold: Duration,
    /// True if a line has the parameters of the query, and so its texts and groups.
    pub has_parameters: bool,
}

/// An open slow-query log.
pub(crate) struct SlowQueryLog {
    lines: LineLog,
    settings: SlowQuerySettings,
}

/// Facts about a request that become known while it is answered.
#[derive(Default)]
pub(super) struct QueryNotes {
    /// Requested format, as soon as it is known.
    pub(super) format: ResultFormat,
    /// Sender of the request.
    pub(super) stage: Option<ForwardKind>,
    /// Name of the caller.
    caller: Option<Arc<str>>,
    /// Id of the trace that the client has begun.
    trace: Option<String>,
    /// The query, once it is parsed.
    pub(super) query: Option<Arc<Query>>,
}

impl QueryNotes {
    pub(super) fn new<B>(request: &hyper::Request<B>) -> Self {
        let caller = request.extensions().get::<Arc<RequestCaller>>();
        QueryNotes {
            caller: caller.map(|caller| Arc::clone(&caller.name)),
            trace: trace_id(request.headers()),
            ..QueryNotes::default()
        }
    }
}

/// Id of the trace in the header `traceparent` (W3C Trace Context): `VERSION-TRACE-PARENT-FLAGS`.
fn trace_id(headers: &HeaderMap) -> Option<String> {
    let parent = headers.get("traceparent")?.to_str().ok()?;
    let id = parent.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_ascii_lowercase())
}

impl SlowQueryLog {
    /// Opens the log.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(settings: &SlowQuerySettings) -> Result<Self, PortError> {
        let lines = LineLog::open(&settings.log, "slow-query log");
        let failed = |source| PortError::SlowQueryLog { path: settings.log.clone(), source };
        Ok(SlowQueryLog { lines: lines.map_err(failed)?, settings: settings.clone() })
    }

    /// Number of lines left out because the disk was too slow.
    pub(crate) fn left_out(&self) -> u64 {
        self.lines.left_out()
    }

    /// Writes the queued lines.
    pub(crate) fn close(&self) {
        self.lines.close();
    }

    /// Logs a query that began at `started` and has its answer now, if that took too long.
    pub(super) fn note(
        &self,
        started: Instant,
        notes: &QueryNotes,
        status: StatusCode,
        stats: Option<&QueryStats>,
    ) {
        let took = started.elapsed();
        // The node that has sent a share has a line about the whole query.
        if took < self.settings.threshold || notes.stage == Some(ForwardKind::Share) {
            return;
        }
        let mut line = Map::new();
        let now = millrace_env::unix_time();
        line.insert("time".to_owned(), json!(now.saturating_sub(took).as_millis() as f64 / 1000.0));
        line.insert("duration".to_owned(), seconds(took));
        line.insert("code".to_owned(), json!(status.as_u16()));
        if let Some(caller) = &notes.caller {
            line.insert("user-principal".to_owned(), json!(&**caller));
        }
        if let Some(trace) = &notes.trace {
            line.insert("trace-id".to_owned(), json!(trace));
        }
        if let Some(query) = &notes.query {
            line.extend(described(query));
            if self.settings.has_parameters {
                let shown = query.parameters.iter().map(|(name, value)| (name.clone(), json!(cut(value))));
                line.insert("parameters".to_owned(), Value::Object(shown.collect()));
            }
        }
        if let Some(stats) = stats {
            line.insert("search".to_owned(), stats.logged());
            line.insert("phases".to_owned(), stats.phases.logged());
        }
        let mut line = Value::Object(line).to_string();
        line.push('\n');
        self.lines.append(line);
    }
}

/// A query without anything that a user has typed.
fn described(query: &Query) -> Map<String, Value> {
    let groups = match search::scope(query) {
        Ok(ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _)) => json!(groups.len()),
        Ok(ViewScope::All | ViewScope::Buckets(_)) => json!("all"),
        Err(_) => Value::Null,
    };
    let sources = match &query.sources {
        QuerySources::All => json!("*"),
        QuerySources::Named(names) => json!(names),
        QuerySources::Restricted { schemas, .. } => json!(schemas),
    };
    let fields = [
        ("groups", groups),
        ("sources", sources),
        ("shape", json!(cut(&ItemShape(&query.root).to_string()))),
        ("ranking", json!(query.ranking.profile)),
        ("hits", json!(query.hits)),
        ("offset", json!(query.offset)),
        ("grouping", json!(query.grouping.len())),
        ("timeout", seconds(query.timeout)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Seconds, to a microsecond.
pub(super) fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 1e6).round() / 1e6)
}

/// Beginning of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
