//! State of the deployment: the active application, and its convergence.

use axum::response::Response;
use hyper::StatusCode;
use millrace_node::Error;
use serde_json::json;

use crate::GatewayState;
use crate::http;

/// `GET …/application/`.
pub(super) fn applications(node: &GatewayState, base: &str) -> Response {
    const PATH: &str =
        "/application/v2/tenant/default/application/default/environment/prod/region/default/instance/default";
    let active: Vec<String> =
        node.deployments().current().map(|_| format!("{base}{PATH}")).into_iter().collect();
    http::json(StatusCode::OK, &json!(active))
}

/// `GET …/application/default`.
pub(super) fn application(node: &GatewayState) -> Result<Response, Error> {
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

/// `GET …/serviceconverge`: an activation answers when it is in effect, so the services have always
/// converged.
pub(super) fn services(node: &GatewayState, base: &str) -> Result<Response, Error> {
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

/// The active deployment. On the config port its absence is a 404.
pub(super) fn active(
    node: &GatewayState,
) -> Result<std::sync::Arc<millrace_node::CompiledApplication>, Error> {
    node.deployments()
        .current()
        .map_err(|_| Error::NotFound("No application is active; deploy one".to_owned()))
}
