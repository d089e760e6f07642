//! What is deployed, and whether it is in effect.

use axum::response::Response;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

use crate::http;
use crate::{Error, Node};

/// `GET …/application/`.
pub(super) fn applications(node: &Node, base: &str) -> Response {
    const PATH: &str =
        "/application/v2/tenant/default/application/default/environment/prod/region/default/instance/default";
    let active: Vec<String> =
        node.deployments().current().map(|_| format!("{base}{PATH}")).into_iter().collect();
    http::json(StatusCode::OK, &json!(active))
}

/// `GET …/application/default`.
pub(super) fn application(node: &Node) -> Result<Response, Error> {
    let deployment = active(node)?;
    Ok(http::json(
        StatusCode::OK,
        &json!({
            "generation": deployment.generation,
            "applicationPackageFileReference": "",
            "modelVersions": [env!("CARGO_PKG_VERSION")],
        }),
    ))
}

/// `GET …/serviceconverge`: an activation answers when it is in effect, so the services have always converged.
pub(super) fn services(node: &Node, base: &str) -> Result<Response, Error> {
    let deployment = active(node)?;
    let generation = deployment.generation;
    let port = node.port();
    Ok(http::json(
        StatusCode::OK,
        &json!({
            "services": [{
                "host": "localhost",
                "port": port,
                "type": "container",
                "clusterName": deployment.application.container.id,
                "url": format!("{base}/application/v2/tenant/default/application/default/serviceconverge/localhost:{port}"),
                "currentGeneration": generation,
            }],
            "url": format!("{base}/application/v2/tenant/default/application/default/serviceconverge"),
            "currentGeneration": generation,
            "wantedGeneration": generation,
            "converged": true,
        }),
    ))
}

/// `GET …/reindexing`: documents are not run through changed indexing statements again, so nothing is ever under way.
pub(super) fn reindexing(node: &Node) -> Result<Response, Error> {
    let deployment = active(node)?;
    let clusters: Map<String, Value> = deployment
        .application
        .content
        .iter()
        .map(|cluster| (cluster.id.to_string(), json!({ "pending": {}, "ready": {} })))
        .collect();
    Ok(http::json(StatusCode::OK, &json!({ "enabled": false, "clusters": clusters })))
}

/// `POST …/reindex`: says what to do instead.
pub(super) fn reindex(node: &Node) -> Result<Response, Error> {
    active(node)?;
    let message = "Reindexing is not supported: words are derived again when they are read; where other indexing statements \
                   changed, visit the documents and feed them again";
    Ok(http::json(StatusCode::NOT_IMPLEMENTED, &json!({ "message": message })))
}

/// The active deployment. On the config port its absence is a 404.
fn active(node: &Node) -> Result<std::sync::Arc<crate::Deployment>, Error> {
    node.deployments()
        .current()
        .map_err(|_| Error::NotFound("No application is active; deploy one".to_owned()))
}
