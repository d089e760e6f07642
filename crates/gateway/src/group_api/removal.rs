//! Removal of a group in a cluster: the owner of its bucket removes the documents of all types.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use serde_json::{Value, json};

use super::{GroupCall, value_of};
use crate::document_api;
use crate::http::{self, form_encode};
use crate::status::kind_of;

/// Maximum bytes of the answer about a portion of the documents.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Removes all documents of the group in all content clusters, and answers with their number.
///
/// # Errors
/// Nodes do not answer in time: some documents may have been removed, and the request can be repeated.
pub(super) async fn answer(call: &GroupCall, group: DocumentGroup) -> Result<Response, Error> {
    let caller = Arc::new(call.caller.within(group.clone())?);
    let mut documents = 0;
    for cluster in call.node.content_clusters() {
        let mut continuation: Option<String> = None;
        loop {
            let next = continuation.as_deref().map(|token| ("continuation", token));
            let parameters = [("cluster", cluster.as_str()), ("selection", "true")];
            let query = form_encode(parameters.into_iter().chain(next));
            let request = Request::delete(format!("/document/v1/?{query}"));
            let request = request.extension(Arc::clone(&caller)).body(Body::empty());
            let mut request = request.map_err(|error| Error::Internal(error.to_string()))?;
            request.headers_mut().extend(call.headers.clone());
            let answer = document_api::handle(State(Arc::clone(&call.node)), request).await;
            let status = answer.status();
            let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
            let body = body.map_err(|error| Error::Unknown(format!("{documents} were removed: {error}")))?;
            let removed: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            if status != StatusCode::OK {
                let reason = removed["message"].as_str().unwrap_or("no reason is known");
                let message = format!("{reason}; {documents} documents were removed before");
                return Err(Error::Remote { kind: kind_of(status), message });
            }
            documents += removed["documentCount"].as_u64().unwrap_or(0);
            continuation = removed["continuation"].as_str().map(str::to_owned);
            if continuation.is_none() {
                break;
            }
        }
    }
    let after = call.one(&group).await?;
    let mut answer = value_of(&after.size);
    answer.remove("lastWrite");
    answer.insert("documents".to_owned(), json!(documents));
    answer.insert("erased".to_owned(), json!(false));
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}
