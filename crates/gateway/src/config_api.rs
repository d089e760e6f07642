//! The config port: deploys application packages, and reports the deployed one.
//!
//! There is one tenant and one application, both `default`; the longer paths with environment, region and
//! instance lead to it too, with any names.

mod access_keys;
mod content;
mod converge;
mod deploy;
mod indexes;
mod reindexing;
mod sessions;
mod snapshots;
mod upload;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use millrace_node::Error;
use millrace_node::ErrorKind;
use serde_json::json;

use crate::http;
use crate::status::HttpError;
use crate::{GatewayState, status_api};

pub(crate) use sessions::UploadSessions;

/// The routes of the config port.
pub(crate) fn router(node: Arc<GatewayState>) -> Router {
    Router::new()
        .route("/application/v2/tenant", axum::routing::any(handle))
        .route("/application/v2/tenant/{*path}", axum::routing::any(handle))
        .route("/application/v2/tenant/", axum::routing::any(handle))
        .route("/application/v2/host/{name}", axum::routing::get(host))
        .route("/access/v1/key", axum::routing::any(access_keys::handle))
        .route("/access/v1/key/", axum::routing::any(access_keys::handle))
        .route("/access/v1/key/{name}", axum::routing::any(access_keys::handle))
        .route("/index/v1", axum::routing::any(indexes::handle))
        .route("/index/v1/{*path}", axum::routing::any(indexes::handle))
        .route("/index/v1/", axum::routing::any(indexes::handle))
        .route("/snapshot/v1", axum::routing::any(snapshots::handle))
        .route("/snapshot/v1/", axum::routing::any(snapshots::handle))
        .route("/snapshot/v1/{name}", axum::routing::any(snapshots::handle))
        .merge(status_api::config_routes())
        .fallback(unknown)
        .with_state(node)
}

async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    match route(node, request).await {
        Ok(response) => response,
        Err(error) => render(&error),
    }
}

async fn host() -> Response {
    let value = json!({ "tenant": "default", "application": "default", "environment": "prod",
                        "region": "default", "instance": "default" });
    http::json(StatusCode::OK, &value)
}

async fn unknown(request: Request) -> Response {
    render(&Error::NotFound(format!(
        "nothing is at {}; deploy at /application/v2/tenant/default/prepareandactivate, and send documents and queries to the \
         data port",
        request.uri().path()
    )))
}

/// Target of a path below `/application/v2/tenant/`.
#[derive(Debug, PartialEq, Eq)]
enum ConfigTarget<'a> {
    Tenants,
    Tenant,
    PrepareAndActivate,
    NewSession,
    Session(u64, SessionPart<'a>),
    Applications,
    Application(ApplicationPart<'a>),
}

#[derive(Debug, PartialEq, Eq)]
enum SessionPart<'a> {
    Prepared,
    Active,
    Content(&'a str),
}

#[derive(Debug, PartialEq, Eq)]
enum ApplicationPart<'a> {
    Whole,
    Content(&'a str),
    ServiceConverge,
    Reindexing,
    Reindex,
}

impl<'a> ConfigTarget<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/application/v2/tenant")?.trim_start_matches('/');
        let (tenant, rest) = rest.split_once('/').unwrap_or((rest, ""));
        match (tenant, rest.split_once('/').unwrap_or((rest, ""))) {
            ("", _) => Some(ConfigTarget::Tenants),
            ("default", ("", _)) => Some(ConfigTarget::Tenant),
            ("default", ("prepareandactivate", "")) => Some(ConfigTarget::PrepareAndActivate),
            ("default", ("session", "")) => Some(ConfigTarget::NewSession),
            ("default", ("session", rest)) => {
                let (id, part) = rest.split_once('/')?;
                let part = match part.split_once('/').unwrap_or((part, "")) {
                    ("prepared", "") => SessionPart::Prepared,
                    ("active", "") => SessionPart::Active,
                    ("content", path) => SessionPart::Content(path),
                    _ => return None,
                };
                Some(ConfigTarget::Session(id.parse().ok()?, part))
            }
            ("default", ("application", "")) => Some(ConfigTarget::Applications),
            ("default", ("application", rest)) => {
                application_part(rest.strip_prefix("default")?).map(ConfigTarget::Application)
            }
            _ => None,
        }
    }
}

/// Parses the rest of a path after the application's name: optionally environment, region and instance, and
/// optionally a part of the application.
fn application_part(mut rest: &str) -> Option<ApplicationPart<'_>> {
    rest = rest.strip_prefix('/').unwrap_or(rest);
    for level in ["environment/", "region/", "instance/"] {
        if let Some(named) = rest.strip_prefix(level) {
            rest = named.split_once('/').map_or("", |(_, rest)| rest);
        }
    }
    match rest.split_once('/').unwrap_or((rest, "")) {
        ("", _) => Some(ApplicationPart::Whole),
        ("content", path) => Some(ApplicationPart::Content(path)),
        ("serviceconverge", _) => Some(ApplicationPart::ServiceConverge),
        ("reindexing", "") => Some(ApplicationPart::Reindexing),
        ("reindex", "") => Some(ApplicationPart::Reindex),
        _ => None,
    }
}

async fn route(node: Arc<GatewayState>, request: Request) -> Result<Response, Error> {
    let path = request.uri().path().to_owned();
    let method = request.method().as_str().to_owned();
    let target = ConfigTarget::parse(&path).ok_or_else(|| {
        Error::NotFound(format!(
            "nothing is at {path}: there is one tenant and one application, both called 'default'"
        ))
    })?;
    let base = base_url(&node, &request);
    let not_allowed = |allowed| Err(Error::MethodNotAllowed { method: method.clone(), allowed });
    match (&target, method.as_str()) {
        (ConfigTarget::Tenants, "GET") => Ok(http::json(StatusCode::OK, &json!(["default"]))),
        (ConfigTarget::Tenants, _) => not_allowed("GET"),
        (ConfigTarget::Tenant, "GET" | "PUT") => {
            Ok(http::json(StatusCode::OK, &json!({ "message": "Tenant 'default' exists." })))
        }
        (ConfigTarget::Tenant, _) => not_allowed("GET, PUT"),
        (ConfigTarget::PrepareAndActivate, "POST") => {
            deploy::prepare_and_activate(node, &base, request).await
        }
        (ConfigTarget::PrepareAndActivate, _) => not_allowed("POST"),
        (ConfigTarget::NewSession, "POST") => deploy::create_session(node, &base, request).await,
        (ConfigTarget::NewSession, _) => not_allowed("POST"),
        (ConfigTarget::Session(id, SessionPart::Prepared), "PUT") => deploy::prepare(node, &base, *id).await,
        (ConfigTarget::Session(id, SessionPart::Prepared), "GET") => {
            deploy::prepared(&node, &base, *id).await
        }
        (ConfigTarget::Session(_, SessionPart::Prepared), _) => not_allowed("GET, PUT"),
        (ConfigTarget::Session(id, SessionPart::Active), "PUT") => deploy::activate(node, &base, *id).await,
        (ConfigTarget::Session(_, SessionPart::Active), _) => not_allowed("PUT"),
        (ConfigTarget::Session(id, SessionPart::Content(file)), "GET") => {
            let asked = content::ContentRequest::read(&node, base, file, &request)?;
            content::read_session(node, *id, asked).await
        }
        (ConfigTarget::Session(id, SessionPart::Content(file)), "PUT") => {
            content::write(node, &base, *id, file, request).await
        }
        (ConfigTarget::Session(id, SessionPart::Content(file)), "DELETE") => {
            content::delete(&node, &base, *id, file).await
        }
        (ConfigTarget::Session(_, SessionPart::Content(_)), _) => not_allowed("GET, PUT, DELETE"),
        (ConfigTarget::Applications, "GET") => Ok(converge::applications(&node, &base)),
        (ConfigTarget::Applications, _) => not_allowed("GET"),
        (ConfigTarget::Application(ApplicationPart::Whole), "GET") => converge::application(&node),
        (ConfigTarget::Application(ApplicationPart::Whole), "DELETE") => deploy::delete(node).await,
        (ConfigTarget::Application(ApplicationPart::Whole), _) => not_allowed("GET, DELETE"),
        (ConfigTarget::Application(ApplicationPart::Content(file)), "GET") => {
            let asked = content::ContentRequest::read(&node, base, file, &request)?;
            content::read_active(node, asked).await
        }
        (ConfigTarget::Application(ApplicationPart::ServiceConverge), "GET") => {
            converge::services(&node, &base)
        }
        (ConfigTarget::Application(ApplicationPart::Reindexing), "GET") => reindexing::status(&node),
        (ConfigTarget::Application(ApplicationPart::Reindex), "POST") => {
            reindexing::mark(&node, &query_parameters(&node, &request)?).await
        }
        (ConfigTarget::Application(ApplicationPart::Reindex), "PUT") => {
            reindexing::set_speed(&node, &query_parameters(&node, &request)?).await
        }
        (ConfigTarget::Application(ApplicationPart::Reindex), _) => not_allowed("POST, PUT"),
        (ConfigTarget::Application(_), _) => not_allowed("GET"),
    }
}

fn query_parameters(node: &GatewayState, request: &Request) -> Result<http::RequestParameters, Error> {
    http::RequestParameters::parse(request.uri().query().unwrap_or(""), node.settings().limits.parameters_max)
}

/// Scheme, host and port from the client's view, for addresses in answers.
fn base_url(node: &GatewayState, request: &Request) -> String {
    let authority = request.uri().authority().map(|authority| authority.as_str().to_owned());
    let host =
        request.headers().get(hyper::header::HOST).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let scheme = if node.settings().tls.is_some() { "https" } else { "http" };
    let host = authority.or(host).unwrap_or_else(|| format!("localhost:{}", node.settings().config_port));
    format!("{scheme}://{host}")
}

/// Renders an error in the format of the config port.
pub(super) fn render(error: &Error) -> Response {
    let code = match (error, error.kind()) {
        (Error::Package(_), _) => "INVALID_APPLICATION_PACKAGE",
        (_, ErrorKind::BadRequest | ErrorKind::TooLarge | ErrorKind::Precondition) => "BAD_REQUEST",
        (_, ErrorKind::Unauthenticated) => "UNAUTHORIZED",
        (_, ErrorKind::Forbidden) => "FORBIDDEN",
        (_, ErrorKind::NotFound) => "NOT_FOUND",
        (_, ErrorKind::MethodNotAllowed) => "METHOD_NOT_ALLOWED",
        (_, ErrorKind::Conflict) => "ACTIVATION_CONFLICT",
        (_, ErrorKind::Timeout) => "REQUEST_TIMEOUT",
        (_, ErrorKind::Storage) => "OUT_OF_CAPACITY",
        (_, ErrorKind::Overloaded | ErrorKind::Unavailable | ErrorKind::Internal) => "INTERNAL_SERVER_ERROR",
    };
    let mut response = http::json(error.status(), &json!({ "error-code": code, "message": error.message() }));
    response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        #[track_caller]
        fn check(path: &str, expected: Option<ConfigTarget>) {
            assert_eq!(ConfigTarget::parse(path), expected, "{path}");
        }
        const LONG: &str = "/application/v2/tenant/default/application/default/environment/prod/region/default/instance/default";
        check("/application/v2/tenant/", Some(ConfigTarget::Tenants));
        check("/application/v2/tenant", Some(ConfigTarget::Tenants));
        check("/application/v2/tenant/default", Some(ConfigTarget::Tenant));
        check("/application/v2/tenant/default/prepareandactivate", Some(ConfigTarget::PrepareAndActivate));
        check("/application/v2/tenant/default/session", Some(ConfigTarget::NewSession));
        check(
            "/application/v2/tenant/default/session/3/prepared",
            Some(ConfigTarget::Session(3, SessionPart::Prepared)),
        );
        check(
            "/application/v2/tenant/default/session/3/active",
            Some(ConfigTarget::Session(3, SessionPart::Active)),
        );
        check(
            "/application/v2/tenant/default/session/3/content/schemas/a.sd",
            Some(ConfigTarget::Session(3, SessionPart::Content("schemas/a.sd"))),
        );
        check("/application/v2/tenant/default/session/x/active", None);
        check("/application/v2/tenant/default/application/", Some(ConfigTarget::Applications));
        check(
            "/application/v2/tenant/default/application/default",
            Some(ConfigTarget::Application(ApplicationPart::Whole)),
        );
        check(LONG, Some(ConfigTarget::Application(ApplicationPart::Whole)));
        check(
            &format!("{LONG}/serviceconverge"),
            Some(ConfigTarget::Application(ApplicationPart::ServiceConverge)),
        );
        check(&format!("{LONG}/content/"), Some(ConfigTarget::Application(ApplicationPart::Content(""))));
        check(
            "/application/v2/tenant/default/application/default/content/services.xml",
            Some(ConfigTarget::Application(ApplicationPart::Content("services.xml"))),
        );
        check("/application/v2/tenant/other", None);
    }
}
