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
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
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
    let newest = match call.node.cluster().view()? {
        Some(cluster) if !fence.is_full() => Some(call.within(newest(cluster, id, call.deadline())).await?),
        _ => None,
    };
    let rendered = call.node.pool().run_in(
        WorkFlow::short_of(id.group()),
        move || -> Result<Option<Box<RawValue>>, Error> {
            let document = match newest {
                Some(newest) => newest.map(|version| version.document()).transpose()?.flatten(),
                None => store.get_fields(&wanted, shape.field_set.names())?.map(|(document, _)| document),
            };
            let Some(mut document) = document else { return Ok(None) };
            deployment.kind(document.id.document_type())?.show_only(&mut document);
            let fields = to_raw_value(&shape.fields(&deployment, &document));
            fields.map(Some).map_err(|error| Error::Internal(error.to_string()))
        },
    );
    let rendered = call.within(async { rendered.await? }).await?;
    call.node.metrics().count(CountedMetric::Gets);
    let effect = || if rendered.is_some() { "The document was read" } else { "The document does not exist" };
    if let Some(trace) = call.trace(|| effect().to_owned())? {
        answer.insert("trace".to_owned(), trace);
    }
    Ok(match rendered {
        Some(fields) => http::json(StatusCode::OK, &FoundDocument { answer, fields }),
        None => http::json(StatusCode::NOT_FOUND, &Value::Object(answer)),
    })
}

/// An answer with a document. Its fields are text already, since a JSON value would turn the numbers of
/// `float` fields into `double`, with more digits than were written.
#[derive(Serialize)]
struct FoundDocument {
    #[serde(flatten)]
    answer: Map<String, Value>,
    fields: Box<RawValue>,
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
