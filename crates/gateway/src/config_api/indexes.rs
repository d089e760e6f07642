//! Indexes over HTTP, at `/index/v1/`: their state, and requests to build, rebuild and verify them. In a
//! cluster each node keeps them for its own documents: all are asked, and the answer has each. Indexes whose
//! copies a cluster places are in `placed`, with their rebalances and settings.

mod placed;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_node::Error;
use millrace_node::cluster::{
    IndexAnswer, IndexName, IndexQuestion, ListedNode, NodeIndexState, indexes_of_all, own_indexes,
};
use millrace_node::indexes::{IndexDefinition, IndexDifferences, IndexStatus};
use serde_json::{Value, json};

use super::render;
use crate::{GatewayState, http};

/// Maximum number of ids of documents that differ in an answer.
const EXAMPLES_MAX: usize = 10;

/// Target of a path below `/index/v1/`.
#[derive(Debug, PartialEq, Eq)]
enum IndexTarget<'a> {
    All,
    Plan,
    Rebalance,
    Settings,
    One { content: &'a str, name: &'a str },
    Action { content: &'a str, name: &'a str, action: &'a str },
}

impl<'a> IndexTarget<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/index/v1")?;
        let mut parts = rest.split('/').filter(|part| !part.is_empty());
        Some(match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => IndexTarget::All,
            (Some("plan"), None, ..) => IndexTarget::Plan,
            (Some("rebalance"), None, ..) => IndexTarget::Rebalance,
            (Some("settings"), None, ..) => IndexTarget::Settings,
            (Some(content), Some(name), None, _) => IndexTarget::One { content, name },
            (Some(content), Some(name), Some(action), None) => IndexTarget::Action { content, name, action },
            _ => return None,
        })
    }
}

pub(super) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    route(&node, request).await.unwrap_or_else(|error| render(&error))
}

async fn route(node: &Arc<GatewayState>, request: Request) -> Result<Response, Error> {
    let (path, method) = (request.uri().path().to_owned(), request.method().as_str().to_owned());
    let target = IndexTarget::parse(&path).ok_or_else(|| {
        Error::NotFound(format!(
            "nothing is at {path}: indexes are at /index/v1/ and /index/v1/CONTENT/NAME, the placement of their copies at /index/v1/plan, \
             /index/v1/rebalance and /index/v1/settings"
        ))
    })?;
    let not_allowed = |allowed| Err(Error::MethodNotAllowed { method: method.clone(), allowed });
    match (target, method.as_str()) {
        (IndexTarget::All, "GET") => {
            let answers = ask(node, &IndexQuestion::States).await?;
            let statuses = node.indexes().statuses();
            let mut indexes: Vec<Value> = statuses.iter().map(|status| value(status, &answers)).collect();
            indexes.extend(placed::all(node));
            Ok(http::json(StatusCode::OK, &json!({ "indexes": indexes })))
        }
        (IndexTarget::Plan, "GET") => placed::plan(node, &request),
        (IndexTarget::Rebalance, "GET") => placed::rebalance(node),
        (IndexTarget::Rebalance, "POST") => placed::begin_rebalance(node).await,
        (IndexTarget::Rebalance, "DELETE") => placed::stop_rebalance(node).await,
        (IndexTarget::Settings, "GET") => placed::settings(node),
        (IndexTarget::Settings, "PUT") => placed::change_settings(node, request).await,
        (IndexTarget::One { content, name }, "GET") => {
            if let Some(value) = placed::one(node, content, name) {
                return Ok(http::json(StatusCode::OK, &value));
            }
            let status = find(node, content, name)?;
            let answers = ask(node, &IndexQuestion::States).await?;
            Ok(http::json(StatusCode::OK, &value(&status, &answers)))
        }
        (IndexTarget::Action { content, name, action }, "POST") => {
            // Each node compares with its own documents, wherever the entries are.
            match action != "verify" && placed::is_placed(node, content, name) {
                true => placed::execute(node, content, name, action, request).await,
                false => execute(node, content, name, action).await,
            }
        }
        (IndexTarget::All | IndexTarget::One { .. } | IndexTarget::Plan, _) => not_allowed("GET"),
        (IndexTarget::Rebalance, _) => not_allowed("GET, POST, DELETE"),
        (IndexTarget::Settings, _) => not_allowed("GET, PUT"),
        (IndexTarget::Action { .. }, _) => not_allowed("POST"),
    }
}

/// Answers of all nodes of a cluster, or of the server that runs alone.
enum IndexAnswers {
    Alone(IndexAnswer),
    Nodes(Vec<(ListedNode, Result<IndexAnswer, Error>)>),
}

async fn ask(node: &GatewayState, question: &IndexQuestion) -> Result<IndexAnswers, Error> {
    Ok(match node.cluster().view()? {
        None => IndexAnswers::Alone(own_indexes(node.node(), question.clone()).await?),
        Some(cluster) => IndexAnswers::Nodes(indexes_of_all(node.node(), cluster, question).await?),
    })
}

fn find(node: &GatewayState, content: &str, name: &str) -> Result<IndexStatus, Error> {
    let statuses = node.indexes().statuses();
    let found = statuses
        .iter()
        .find(|status| status.definition.name() == name && *status.definition.content == *content);
    found.cloned().ok_or_else(|| {
        let local = statuses.iter().map(|status| &status.definition);
        let placed = placed::definitions(node);
        let known: Vec<String> = local
            .chain(&placed)
            .map(|definition| format!("{}/{}", definition.content, definition.name()))
            .collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::NotFound(format!("no index '{name}' in content cluster '{content}'; this server has {known}"))
    })
}

/// Executes an action on an index, on all nodes.
async fn execute(
    node: &Arc<GatewayState>,
    content: &str,
    name: &str,
    action: &str,
) -> Result<Response, Error> {
    if !placed::is_placed(node, content, name) {
        find(node, content, name)?;
    }
    let index = IndexName { content: content.to_owned(), name: name.to_owned() };
    let (question, status) = match action {
        "build" => (IndexQuestion::Build(index), StatusCode::ACCEPTED),
        "rebuild" => (IndexQuestion::Rebuild(index), StatusCode::ACCEPTED),
        "verify" => (IndexQuestion::Verify(index), StatusCode::OK),
        "move" => {
            let reason = "its entries lie with the documents, and are not moved; only copies of an index that is declared in \
                          <index-service placed=\"true\"> are";
            return Err(Error::Conflict(format!("index '{name}': {reason}")));
        }
        other => {
            let reason = format!("no action '{other}' on an index: POST to build, rebuild or verify");
            return Err(Error::NotFound(reason));
        }
    };
    let answers = ask(node, &question).await?;
    let mut answer = match &question {
        IndexQuestion::Verify(_) => compared(name, &answers),
        _ => {
            let began = answers.answered().any(|answer| *answer == IndexAnswer::Began(true));
            let message = match (began, action) {
                (false, _) => "It is built, or being built, already",
                (true, "rebuild") => "The index was discarded, and its build has begun",
                (true, _) => "The build has begun",
            };
            json!({ "message": message, "status": format!("/index/v1/{content}/{name}") })
        }
    };
    if let IndexAnswers::Nodes(nodes) = &answers {
        let of_node = |(listed, answer): &(ListedNode, Result<IndexAnswer, Error>)| match answer {
            Ok(IndexAnswer::Began(began)) => node_value(listed, json!({ "began": began })),
            Ok(IndexAnswer::Compared(found)) => node_value(listed, differences(found)),
            Ok(IndexAnswer::States(_)) => node_value(listed, json!({})),
            Err(error) => node_value(listed, json!({ "reason": reason(listed, error) })),
        };
        answer["nodes"] = nodes.iter().map(of_node).collect();
        // A node that does not serve reads its index again, or builds it, when it comes back.
        let serving = |(listed, answer): &(ListedNode, _)| listed.away.is_some() || Result::is_ok(answer);
        answer["complete"] = json!(nodes.iter().all(serving));
    }
    Ok(http::json(status, &answer))
}

impl IndexAnswers {
    /// Answers without errors.
    fn answered(&self) -> impl Iterator<Item = &IndexAnswer> {
        let (alone, nodes) = match self {
            IndexAnswers::Alone(answer) => (Some(answer), &[][..]),
            IndexAnswers::Nodes(nodes) => (None, &nodes[..]),
        };
        alone.into_iter().chain(nodes.iter().filter_map(|(_, answer)| answer.as_ref().ok()))
    }
}

/// Sum of the comparisons of all nodes.
fn compared(name: &str, answers: &IndexAnswers) -> Value {
    let mut sum = IndexDifferences::default();
    for answer in answers.answered() {
        if let IndexAnswer::Compared(found) = answer {
            sum.documents += found.documents;
            sum.entries += found.entries;
            sum.differences += found.differences;
            sum.examples.extend(found.examples.iter().cloned());
        }
    }
    sum.examples.truncate(EXAMPLES_MAX);
    let mut value = differences(&sum);
    value["name"] = json!(name);
    value
}

fn differences(found: &IndexDifferences) -> Value {
    json!({
        "documents": found.documents,
        "entries": found.entries,
        "differences": found.differences,
        "examples": found.examples,
    })
}

/// Figures of an index on one node, or its sums over all.
#[derive(Default)]
struct IndexSums {
    state: &'static str,
    progress: f64,
    seconds_left: Option<f64>,
    entries: u64,
    bytes: u64,
    runs: u64,
    waiting: u64,
    stale_buckets: u64,
    replaced: bool,
    reason: Option<String>,
}

/// States of an index on a node, from the least ready one. A node that does not serve does not count.
const STATES: [&str; 6] = ["failed", "unreachable", "missing", "building", "deferred", "ready"];

impl IndexSums {
    fn new(state: &NodeIndexState) -> Self {
        IndexSums {
            state: state.state.name(),
            progress: state.progress,
            seconds_left: state.seconds_left,
            entries: state.entries,
            bytes: state.bytes,
            runs: state.runs,
            waiting: state.waiting,
            stale_buckets: state.stale_buckets,
            replaced: state.replaced,
            reason: state.reason.clone(),
        }
    }

    /// Figures of a node without a state of the index.
    fn without(listed: &ListedNode, answer: &Result<IndexAnswer, Error>) -> Self {
        let (state, reason) = match answer {
            Ok(_) => ("missing", "the node does not have the application yet".to_owned()),
            Err(error) => (listed.away.unwrap_or("unreachable"), reason(listed, error)),
        };
        IndexSums { state, reason: Some(reason), ..IndexSums::default() }
    }

    /// Adds another node's figures: the state and the progress are those of the least ready node.
    fn add(&mut self, node: &IndexSums, listed: &ListedNode) {
        if listed.away.is_some() {
            return;
        }
        let rank = |state: &str| STATES.iter().position(|known| *known == state).unwrap_or(STATES.len());
        if rank(node.state) < rank(self.state) {
            self.state = node.state;
        }
        self.progress = self.progress.min(node.progress);
        self.seconds_left = [self.seconds_left, node.seconds_left].into_iter().flatten().reduce(f64::max);
        self.entries += node.entries;
        self.bytes += node.bytes;
        self.runs += node.runs;
        self.waiting += node.waiting;
        self.stale_buckets += node.stale_buckets;
        self.replaced |= node.replaced;
        if self.reason.is_none() {
            self.reason = node.reason.as_ref().map(|reason| format!("node {}: {reason}", listed.name));
        }
    }

    fn value(&self) -> Value {
        json!({
            "state": self.state,
            "progress": self.progress,
            "seconds-left": self.seconds_left,
            "entries": self.entries,
            "bytes": self.bytes,
            "runs": self.runs,
            "waiting": self.waiting,
            "stale-buckets": self.stale_buckets,
            "replaces": self.replaced,
            "reason": self.reason,
        })
    }
}

/// Reason for which a node has not answered.
fn reason(listed: &ListedNode, error: &Error) -> String {
    listed.away.map_or_else(|| error.message(), |away| format!("the node is {away}"))
}

/// Adds the key and name of a node to its part of an answer.
fn node_value(listed: &ListedNode, mut of_node: Value) -> Value {
    of_node["node"] = json!(listed.key.0);
    of_node["name"] = json!(listed.name);
    of_node
}

/// State of an index by name in the answer of a node.
fn state_in<'a>(answer: &'a IndexAnswer, status: &IndexStatus) -> Option<&'a NodeIndexState> {
    let IndexAnswer::States(states) = answer else { return None };
    states.iter().find(|state| {
        state.index.name == status.definition.name() && *state.index.content == *status.definition.content
    })
}

/// Declaration of an index.
fn declaration(definition: &IndexDefinition) -> Value {
    let config = &definition.config;
    let keys: Vec<Value> = config
        .keys
        .iter()
        .map(|key| {
            let order = if key.descending { "descending" } else { "ascending" };
            json!({ "field": key.path, "order": order, "several": key.several })
        })
        .collect();
    json!({
        "name": config.name,
        "content": &*definition.content,
        "document": &*config.document_type,
        "keys": keys,
        "stored": config.stored,
        "selection": definition.selection(),
        "build": if config.deferred { "deferred" } else { "immediate" },
        "copies": config.copies,
        "slices": config.slices,
    })
}

fn value(status: &IndexStatus, answers: &IndexAnswers) -> Value {
    let mut value = declaration(&status.definition);
    let sums = match answers {
        IndexAnswers::Alone(answer) => state_in(answer, status).map(IndexSums::new).unwrap_or_default(),
        IndexAnswers::Nodes(nodes) => {
            let mut sums = IndexSums { state: "ready", progress: 1.0, ..IndexSums::default() };
            let mut of_nodes = Vec::with_capacity(nodes.len());
            for (listed, answer) in nodes {
                let state = answer.as_ref().ok().and_then(|answer| state_in(answer, status));
                let own = state.map_or_else(|| IndexSums::without(listed, answer), IndexSums::new);
                sums.add(&own, listed);
                of_nodes.push(node_value(listed, own.value()));
            }
            value["nodes"] = Value::Array(of_nodes);
            sums
        }
    };
    if let (Value::Object(value), Value::Object(sums)) = (&mut value, sums.value()) {
        value.extend(sums);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::IndexTarget;

    #[test]
    fn targets() {
        #[track_caller]
        fn check(path: &str, expected: Option<IndexTarget>) {
            assert_eq!(IndexTarget::parse(path), expected, "{path}");
        }
        let (content, name) = ("mail", "due");
        check("/index/v1", Some(IndexTarget::All));
        check("/index/v1/", Some(IndexTarget::All));
        check("/index/v1/mail", None);
        check("/index/v1/plan", Some(IndexTarget::Plan));
        check("/index/v1/rebalance/", Some(IndexTarget::Rebalance));
        check("/index/v1/settings", Some(IndexTarget::Settings));
        check("/index/v1/settings/due", Some(IndexTarget::One { content: "settings", name }));
        check("/index/v1/mail/due", Some(IndexTarget::One { content, name }));
        check("/index/v1/mail/due/", Some(IndexTarget::One { content, name }));
        check("/index/v1/mail/due/build", Some(IndexTarget::Action { content, name, action: "build" }));
        check("/index/v1/mail/due/build/now", None);
    }
}
