//! Removal of a group in a cluster: the owner of its bucket drops the documents of all types.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use serde_json::{Value, json};

use super::{GroupCall, erasure, value_of};
use crate::document_api;
use crate::http::form_encode;
use crate::status::kind_of;

/// Maximum bytes of the answer about a portion of the documents.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Drops all documents of the group in all content clusters, lowers the bound of their erasure if the request
/// says so, and answers with their number.
///
/// # Errors
/// Nodes do not answer in time: some documents may have been dropped, and the request can be repeated.
pub(super) async fn answer(
    call: &GroupCall,
    group: DocumentGroup,
    within: Option<Duration>,
) -> Result<Response, Error> {
    let before = call.one(&group).await?;
    let caller = Arc::new(call.caller.within(group.clone())?);
    // Those that an owner of an earlier version has removed one by one.
    let mut documents = 0;
    for cluster in call.node.content_clusters() {
        let mut continuation: Option<String> = None;
        loop {
            let next = continuation.as_deref().map(|token| ("continuation", token));
            let parameters = [("cluster", cluster.as_str()), ("selection", "true"), ("wholeGroup", "true")];
            let query = form_encode(parameters.into_iter().chain(next));
            let request = Request::delete(format!("/document/v1/?{query}"));
            let request = request.extension(Arc::clone(&caller)).body(Body::empty());
            let mut request = request.map_err(|error| Error::Internal(error.to_string()))?;
            request.headers_mut().extend(call.headers.clone());
            if let Some(credential) = &call.credential {
                request.extensions_mut().insert(credential.clone());
            }
            let answer = document_api::handle(State(Arc::clone(&call.node)), request).await;
            let status = answer.status();
            let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
            let body = body
                .map_err(|error| Error::Unknown(format!("documents removed: {documents}, then: {error}")))?;
            let removed: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            if status != StatusCode::OK {
                let reason = removed["message"].as_str().unwrap_or("no reason is known");
                let message = format!("{reason}; documents removed before: {documents}");
                return Err(Error::Remote { kind: kind_of(status), message });
            }
            documents += removed["documentCount"].as_u64().unwrap_or(0);
            continuation = removed["continuation"].as_str().map(str::to_owned);
            if continuation.is_none() {
                break;
            }
        }
    }
    if let Some(within) = within {
        erasure::lower_erasure_bound(call, &group, within).await?;
    }
    let erasure = erasure::of_group(call, &group).await?;
    let after = call.one(&group).await?;
    let mut answer = value_of(&after.size);
    answer.remove("lastWrite");
    answer.insert("documents".to_owned(), json!(before.size.documents.max(documents)));
    answer.insert("erased".to_owned(), json!(erasure.as_ref().is_some_and(erasure::is_finished)));
    answer.extend(erasure.map(|erasure| ("erasure".to_owned(), erasure)));
    Ok(call.sized(answer, before.is_complete && after.is_complete))
}
