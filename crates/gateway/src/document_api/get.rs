//! Reads of one document.

use std::time::Instant;

use axum::response::Response;
use hyper::StatusCode;
use millrace_access::WantedGroups;
use millrace_document::{DocumentId, DocumentVersion};
use millrace_node::Error;
use millrace_node::cluster::{ClusterView, ReadFence};
use millrace_node::metrics::CountedMetric;
use millrace_node::pool::WorkFlow;
use serde_json::Value;
use tokio::sync::oneshot;

use super::DocumentCall;
use super::format::DocumentFormat;
use crate::http;

/// `GET` of a document. If its owner may lack the newest version, the document is read at all replicas.
pub(super) async fn document(
    call: &DocumentCall,
    id: &DocumentId,
    fence: ReadFence,
) -> Result<Response, Error> {
    let deployment = call.deployment()?;
    if let Err(error) = deployment.kind(id.document_type()) {
        // A document of a type that does not exist is not found.
        let mut answer = call.answer(Some(id));
        answer.insert("message".to_owned(), Value::String(error.to_string()));
        return Ok(http::json(StatusCode::NOT_FOUND, &Value::Object(answer)));
    }
    if let Some(cluster) = call.parameters.get("cluster") {
        deployment.cluster(cluster)?;
    }
    let shape = DocumentFormat::read(call, &deployment)?;
    let mut answer = call.answer(Some(id));
    let own = WantedGroups::These(std::slice::from_ref(id.group()));
    let (store, wanted) = (call.node.store(&call.permit, own).clone(), id.clone());
    let stored = shape.stored_fields(&deployment, &[id.document_type()]);
    let mut body = serde_json::to_vec(&answer).map_err(|error| Error::Internal(error.to_string()))?;
    let newest = match call.node.cluster().view()? {
        Some(cluster) if !fence.is_full() => Some(call.within(newest(cluster, id, call.deadline())).await?),
        _ => None,
    };
    let rendered =
        call.node.pool().run_in(WorkFlow::short_of(id.group()), move || -> Result<Option<Vec<u8>>, Error> {
            let document = match newest {
                Some(newest) => newest.map(|version| version.document()).transpose()?.flatten(),
                None => store.get_fields(&wanted, stored.as_deref())?.map(|(document, _)| document),
            };
            let Some(mut document) = document else { return Ok(None) };
            deployment.kind(document.id.document_type())?.show_only(&mut document);
            // The fields follow the members of the answer, which ends with them.
            body.pop();
            body.extend_from_slice(b",\"fields\":");
            shape.write_fields(&deployment, &document, &mut body)?;
            Ok(Some(body))
        });
    let rendered = call.within(async { rendered.await? }).await?;
    call.node.metrics().count(CountedMetric::Gets);
    let effect = || if rendered.is_some() { "The document was read" } else { "The document does not exist" };
    let trace = call.trace(|| effect().to_owned())?;
    Ok(match rendered {
        Some(mut body) => {
            if let Some(trace) = trace {
                body.extend_from_slice(format!(",\"trace\":{trace}").as_bytes());
            }
            body.push(b'}');
            http::answer(StatusCode::OK, "application/json;charset=utf-8", body)
        }
        None => {
            answer.extend(trace.map(|trace| ("trace".to_owned(), trace)));
            http::json(StatusCode::NOT_FOUND, &Value::Object(answer))
        }
    })
}

/// Returns the version of the newest acknowledged write, from any replica.
async fn newest(
    cluster: &dyn ClusterView,
    id: &DocumentId,
    deadline: Instant,
) -> Result<Option<DocumentVersion>, Error> {
    let (sender, receiver) = oneshot::channel();
    cluster.read(
        id.clone(),
        deadline,
        Box::new(move |outcome| {
            // The caller may have left.
            let _ = sender.send(outcome);
        }),
    );
    match receiver.await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(Error::Unsettled("the node is being stopped".to_owned())),
    }
}
