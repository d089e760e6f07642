//! Reindexing over HTTP: `…/reindexing` shows its status; `…/reindex` requests it and sets its speed.

use std::sync::Arc;

use axum::response::Response;
use hyper::StatusCode;
use millrace_node::reindexing::{self, ChosenTypes};
use millrace_node::{CompiledApplication, Error};
use millrace_schema::Schema;
use serde_json::json;

use super::converge::active;
use crate::GatewayState;
use crate::http::{self, RequestParameters};

/// Maximum speed.
const SPEED_MAX: f64 = 10.0;

/// `GET …/reindexing`.
pub(super) fn status(node: &GatewayState) -> Result<Response, Error> {
    let deployment = active(node)?;
    let mut status = reindexing::render(node, &deployment)?;
    status["enabled"] = json!(true);
    Ok(http::json(StatusCode::OK, &status))
}

/// `POST …/reindex`: marks document types as ready; the next deployment begins reindexing them.
pub(super) async fn mark(
    node: &Arc<GatewayState>,
    parameters: &RequestParameters,
) -> Result<Response, Error> {
    let deployment = active(node)?;
    let speed = speed(parameters)?.unwrap_or(1.0);
    if speed == 0.0 {
        return Err(Error::parameter("speed", "must be more than 0; PUT a speed of 0 to halt a reindexing"));
    }
    let chosen = choose(&deployment, parameters)?;
    let chosen = waiting(node, move |node| reindexing::mark(node, &chosen, speed).map(|()| chosen)).await?;
    let message = match chosen.is_empty() {
        true => "No document types to reindex of application default.default".to_owned(),
        false => format!("Reindexing document types {} of application default.default", list(&chosen)),
    };
    Ok(http::json(StatusCode::OK, &json!({ "message": message })))
}

/// `PUT …/reindex`: sets the speed, from the next deployment on.
pub(super) async fn set_speed(
    node: &Arc<GatewayState>,
    parameters: &RequestParameters,
) -> Result<Response, Error> {
    let deployment = active(node)?;
    let Some(speed) = speed(parameters)? else {
        return Err(Error::parameter("speed", "must be set: a number from 0 to 10; 0 halts"));
    };
    let chosen = choose(&deployment, parameters)?;
    let changed = waiting(node, move |node| reindexing::set_speed(node, &chosen, speed)).await?;
    let message = match changed.is_empty() {
        true => "Changed no speed: none of the document types was marked; POST to mark them".to_owned(),
        false => format!(
            "Set reindexing speed to '{speed}' for document types {} of application default.default",
            list(&changed)
        ),
    };
    Ok(http::json(StatusCode::OK, &json!({ "message": message })))
}

/// Runs work that waits for the disk, or for coordination, on a thread that may block.
pub(super) async fn waiting<T: Send + 'static>(
    node: &Arc<GatewayState>,
    work: impl FnOnce(&GatewayState) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let node = Arc::clone(node);
    let done = tokio::task::spawn_blocking(move || work(&node)).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

fn speed(parameters: &RequestParameters) -> Result<Option<f64>, Error> {
    let Some(text) = parameters.get("speed") else { return Ok(None) };
    match text.parse() {
        Ok(speed) if (0.0..=SPEED_MAX).contains(&speed) => Ok(Some(speed)),
        _ => Err(Error::parameter("speed", format!("expected a number from 0 to 10, got '{text}'"))),
    }
}

/// Selects the document types that the parameters name.
fn choose(deployment: &CompiledApplication, parameters: &RequestParameters) -> Result<ChosenTypes, Error> {
    let clusters = names(parameters, "clusterId");
    let types = names(parameters, "documentType");
    let indexed_only = parameters.flag("indexedOnly")?.unwrap_or(false);
    for id in clusters.iter().flatten() {
        deployment.cluster(id)?;
    }
    let schemas = &deployment.application.schemas;
    let content = deployment.application.content.iter();
    let named: Vec<_> =
        content.filter(|cluster| clusters.as_ref().is_none_or(|ids| ids.contains(&&*cluster.id))).collect();
    if let Some(unknown) =
        types.iter().flatten().find(|name| named.iter().all(|of| of.document(name).is_none()))
    {
        let known = named.iter().flat_map(|cluster| &cluster.documents).map(|of| &*of.document_type);
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(Error::parameter("documentType", format!("there is no '{unknown}' here, only {known}")));
    }
    let mut chosen = ChosenTypes::new();
    for cluster in named {
        let wanted = cluster.documents.iter().filter(|document| {
            let name = &*document.document_type;
            let indexed =
                || document.mode.is_searched() && schemas.get(name).is_some_and(|schema| has_index(schema));
            types.as_ref().is_none_or(|types| types.contains(&name)) && (!indexed_only || indexed())
        });
        let wanted: Vec<Arc<str>> = wanted.map(|document| Arc::clone(&document.document_type)).collect();
        if !wanted.is_empty() {
            chosen.insert(Arc::clone(&cluster.id), wanted);
        }
    }
    Ok(chosen)
}

/// Names in a parameter, separated by commas; `None` if it is missing, which selects everything.
fn names<'p>(parameters: &'p RequestParameters, name: &str) -> Option<Vec<&'p str>> {
    let names = parameters.get(name)?.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.collect::<Vec<_>>()).filter(|names| !names.is_empty())
}

/// True if a field of the schema is indexed as words.
fn has_index(schema: &Schema) -> bool {
    schema.fields.values().any(|field| field.index.is_some())
}

/// Formats as in `[moo, baz] in 'foo', [moo] in 'bar'`.
fn list(chosen: &ChosenTypes) -> String {
    let of = |(cluster, types): (&Arc<str>, &Vec<Arc<str>>)| format!("[{}] in '{cluster}'", types.join(", "));
    chosen.iter().map(of).collect::<Vec<_>>().join(", ")
}
