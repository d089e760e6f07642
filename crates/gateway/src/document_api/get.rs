//! Reading one document.

use axum::response::Response;
use hyper::StatusCode;
use millrace_document::DocumentId;
use serde_json::Value;

use super::Call;
use super::format::Shape;
use crate::Error;
use crate::http;
use crate::metrics::Metric;

/// `GET` of a document.
pub(super) async fn document(call: &Call, id: &DocumentId) -> Result<Response, Error> {
    let deployment = call.deployment()?;
    deployment.kind(id.document_type())?;
    if let Some(cluster) = call.parameters.get("cluster") {
        deployment.cluster(cluster)?;
    }
    let shape = Shape::of(call, &deployment)?;
    let mut answer = call.answer(Some(id));
    let (store, wanted) = (call.node.store().clone(), id.clone());
    let rendered = call.node.pool().run(move || -> Result<Option<Value>, Error> {
        let Some((document, _)) = store.get(&wanted)? else { return Ok(None) };
        let fields = serde_json::to_value(shape.fields(&deployment, &document));
        fields.map(Some).map_err(|error| Error::Internal(error.to_string()))
    });
    let rendered = call.within(async { rendered.await? }).await?;
    call.node.metrics().count(Metric::Gets);
    Ok(match rendered {
        Some(fields) => {
            answer.insert("fields".to_owned(), fields);
            http::json(StatusCode::OK, &Value::Object(answer))
        }
        None => http::json(StatusCode::NOT_FOUND, &Value::Object(answer)),
    })
}
