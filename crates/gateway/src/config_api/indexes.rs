//! Indexes over HTTP, at `/index/v1/`: their state, and requests to build, rebuild and verify them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_node::Error;
use millrace_node::indexes::{IndexStatus, NodeIndexes};
use serde_json::{Value, json};

use super::reindexing::waiting;
use super::render;
use crate::{GatewayState, http};

/// Target of a path below `/index/v1/`.
#[derive(Debug, PartialEq, Eq)]
enum IndexTarget<'a> {
    All,
    One { content: &'a str, name: &'a str },
    Action { content: &'a str, name: &'a str, action: &'a str },
}

impl<'a> IndexTarget<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/index/v1")?;
        let mut parts = rest.split('/').filter(|part| !part.is_empty());
        Some(match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => IndexTarget::All,
            (Some(content), Some(name), None, _) => IndexTarget::One { content, name },
            (Some(content), Some(name), Some(action), None) => IndexTarget::Action { content, name, action },
            _ => return None,
        })
    }
}

pub(super) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    let (path, method) = (request.uri().path().to_owned(), request.method().as_str().to_owned());
    route(&node, &path, &method).await.unwrap_or_else(|error| render(&error))
}

async fn route(node: &Arc<GatewayState>, path: &str, method: &str) -> Result<Response, Error> {
    let target = IndexTarget::parse(path).ok_or_else(|| {
        Error::NotFound(format!("nothing is at {path}: indexes are at /index/v1/ and /index/v1/CONTENT/NAME"))
    })?;
    let not_allowed = |allowed| Err(Error::MethodNotAllowed { method: method.to_owned(), allowed });
    match (target, method) {
        (IndexTarget::All, "GET") => Ok(list(node)),
        (IndexTarget::One { content, name }, "GET") => {
            Ok(http::json(StatusCode::OK, &value(&find(node.indexes(), content, name)?)))
        }
        (IndexTarget::Action { content, name, action }, "POST") => act(node, content, name, action).await,
        (IndexTarget::All | IndexTarget::One { .. }, _) => not_allowed("GET"),
        (IndexTarget::Action { .. }, _) => not_allowed("POST"),
    }
}

fn list(node: &GatewayState) -> Response {
    let indexes: Vec<Value> = node.indexes().statuses().iter().map(value).collect();
    let mut answer = json!({ "indexes": indexes });
    if node.cluster().is_some() {
        answer["message"] = json!("indexes are kept by a server that runs alone, and not in a cluster");
    }
    http::json(StatusCode::OK, &answer)
}

fn find(indexes: &NodeIndexes, content: &str, name: &str) -> Result<IndexStatus, Error> {
    let statuses = indexes.statuses();
    let found = statuses
        .iter()
        .find(|status| status.definition.name() == name && *status.definition.content == *content);
    found.cloned().ok_or_else(|| {
        let known: Vec<String> = statuses
            .iter()
            .map(|status| format!("{}/{}", status.definition.content, status.definition.name()))
            .collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::NotFound(format!("no index '{name}' in content cluster '{content}'; this server has {known}"))
    })
}

/// Executes an action on an index.
async fn act(node: &Arc<GatewayState>, content: &str, name: &str, action: &str) -> Result<Response, Error> {
    find(node.indexes(), content, name)?;
    let (own, see) = (name.to_owned(), format!("/index/v1/{content}/{name}"));
    match action {
        "build" => {
            let began = node.indexes().build(name)?;
            let message = if began { "The build has begun" } else { "It is built, or being built, already" };
            Ok(http::json(StatusCode::ACCEPTED, &json!({ "message": message, "status": see })))
        }
        "rebuild" => {
            waiting(node, move |node| node.indexes().rebuild(&own)).await?;
            let message = "The index was discarded, and its build has begun";
            Ok(http::json(StatusCode::ACCEPTED, &json!({ "message": message, "status": see })))
        }
        "verify" => {
            let found = waiting(node, move |node| node.indexes().verify(&own)).await?;
            Ok(http::json(
                StatusCode::OK,
                &json!({
                    "name": name,
                    "documents": found.documents,
                    "entries": found.entries,
                    "differences": found.differences,
                    "examples": found.examples,
                }),
            ))
        }
        "move" => Err(Error::Conflict(format!(
            "index '{name}' is on the one server that there is: copies are not moved"
        ))),
        other => {
            Err(Error::NotFound(format!("no action '{other}' on an index: POST to build, rebuild or verify")))
        }
    }
}

fn value(status: &IndexStatus) -> Value {
    let config = &status.definition.config;
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
        "content": &*status.definition.content,
        "document": &*config.document_type,
        "keys": keys,
        "stored": config.stored,
        "selection": status.definition.selection(),
        "build": if config.deferred { "deferred" } else { "immediate" },
        "copies": config.copies,
        "slices": config.slices,
        "state": status.state.name(),
        "progress": status.progress,
        "seconds-left": status.seconds_left,
        "entries": status.entries,
        "bytes": status.bytes,
        "runs": status.runs,
        "waiting": status.waiting,
        "replaces": status.replaced,
        "reason": status.reason,
    })
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
        check("/index/v1/mail/due", Some(IndexTarget::One { content, name }));
        check("/index/v1/mail/due/", Some(IndexTarget::One { content, name }));
        check("/index/v1/mail/due/build", Some(IndexTarget::Action { content, name, action: "build" }));
        check("/index/v1/mail/due/build/now", None);
    }
}
