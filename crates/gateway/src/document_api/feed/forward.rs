//! Operations of a feed that are executed like single requests: by the node that owns the document, or after
//! a model has answered.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use millrace_document::json::{FeedOperation, FeedPosition};
use millrace_document::{DocumentGroup, DocumentId, OperationKind};
use millrace_node::Error;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::DocumentCall;
use super::answer::{FailedOperation, IgnoredOperation};
use super::commit::StreamOutcome;
use crate::document_api::retry::RetryPause;
use crate::quota::FedBytesCounted;
use crate::status::message_of;

/// An operation to be executed like a single request.
pub(super) struct ForwardedOperation {
    /// Number in the stream, from 1.
    pub(super) number: u64,
    pub(super) position: FeedPosition,
    pub(super) single: SingleOperation,
}

/// An operation as a request of its own.
pub(super) struct SingleOperation {
    pub(super) operation: FeedOperation,
    /// Condition of a removal, whose request has no body.
    pub(super) condition: Option<String>,
}

impl SingleOperation {
    /// Document that is changed.
    pub(super) fn id(&self) -> &DocumentId {
        &self.operation.id
    }
}

impl ForwardedOperation {
    /// Executes the operation, again and again while nodes are overloaded or cannot be reached.
    pub(super) async fn run(self, call: Arc<DocumentCall>) -> StreamOutcome {
        let deadline = Instant::now() + call.timeout;
        let mut retry = RetryPause::until(deadline);
        let ForwardedOperation { number, position, single } = self;
        let SingleOperation { operation, condition } = single;
        let FeedOperation { kind, id, json, .. } = operation;
        let json = hyper::body::Bytes::from(json);
        loop {
            let target = target_of(&id, condition.as_deref(), &call);
            let mut request = request(kind, &target, json.clone());
            request
                .extensions_mut()
                .insert(Arc::clone(call.caller.as_ref().expect("a feed begins with its caller")));
            request.extensions_mut().insert(FedBytesCounted);
            let response = crate::document_api::handle(State(Arc::clone(&call.node)), request).await;
            let status = response.status();
            if status.is_success() {
                let is_ignored = response.headers().contains_key("x-vespa-ignored-operation");
                let ignored = IgnoredOperation { number, position, id: id.to_string() };
                return if is_ignored { StreamOutcome::Ignored(ignored) } else { StreamOutcome::Ok };
            }
            let is_passing =
                matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            if is_passing && retry.after(Error::Overloaded).await.is_ok() {
                continue;
            }
            let message = refusal_of(response.into_body()).await;
            let (id, status) = (id.to_string(), status.as_u16());
            let failed = FailedOperation { number, position, id, status, message };
            return StreamOutcome::Failed(failed.within(&json));
        }
    }
}

/// Message of an answer that is an error.
async fn refusal_of(body: Body) -> String {
    match body.collect().await {
        Ok(collected) => message_of(&collected.to_bytes()),
        Err(error) => error.to_string(),
    }
}

/// Returns the path and the parameters of the request for one operation.
fn target_of(id: &DocumentId, condition: Option<&str>, call: &DocumentCall) -> String {
    let mut target = format!("{}?{}", path_of(id), parameters_of(call));
    if let Some(condition) = condition {
        target.push_str(&format!("&condition={}", encoded(condition)));
    }
    target
}

/// Parameters of a stream that its operations have too.
pub(super) fn parameters_of(call: &DocumentCall) -> String {
    let mut parameters = format!("timeout={}ms", call.timeout.as_millis());
    for name in ["route", "cluster"] {
        if let Some(value) = call.parameters.get(name) {
            parameters.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    parameters
}

fn request(kind: OperationKind, target: &str, json: hyper::body::Bytes) -> Request<Body> {
    let method = match kind {
        OperationKind::Put => Method::POST,
        OperationKind::Update => Method::PUT,
        OperationKind::Remove => Method::DELETE,
    };
    let mut request = Request::new(Body::from(json));
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().expect("what is not a letter or a digit is encoded");
    request
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Path of a document below `/document/v1/`.
fn path_of(id: &DocumentId) -> String {
    let group = match id.group() {
        DocumentGroup::None => "docid".to_owned(),
        DocumentGroup::Name(name) => format!("group/{}", encoded(name)),
        DocumentGroup::Number(number) => format!("number/{number}"),
    };
    let (namespace, document_type) = (encoded(id.namespace()), encoded(id.document_type()));
    format!("/document/v1/{namespace}/{document_type}/{group}/{}", encoded(id.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document_api::path::DocumentTarget;

    #[test]
    fn the_path_of_a_document_leads_to_it() {
        for id in ["id:n:t::a", "id:n:t::a/b c?d&e#f%20", "id:n:t:g=x/y:z", "id:n:t:n=7:ü", "id:a.b:t_1::\"'"]
        {
            let id = DocumentId::parse(id).expect("an id");
            let target = DocumentTarget::parse(&path_of(&id)).expect("a path");
            assert_eq!(target, DocumentTarget::Document(id));
        }
    }
}
