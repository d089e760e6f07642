//! The port for documents and queries.
//!
//! Most requests to a node are about single documents, and a router that matches paths, and layers that each
//! keep a future of their own, take about as long as storing a small one. So these requests bypass the
//! router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get};
use hyper::{Method, Request, StatusCode};
use millrace_access::PortKind;
use millrace_node::metrics::ApiKind;

use crate::edge::{AdmissionDecision, RequestGuard, StreamCredential, shared_with};
use crate::http::{PortAnswer, PortService, UncountedAnswer};
use crate::{
    GatewayState, access_log, application_view, document_api, forwarding, group_api, http, mcp,
    model_evaluation, page, search_api, spans, status_api,
};

/// Service for the requests of the port.
pub(crate) struct DataPort {
    node: Arc<GatewayState>,
    guard: RequestGuard,
    router_service: PortService,
}

impl DataPort {
    /// Creates the port of a node, with more endpoints in addition to its own.
    pub(crate) fn new(node: Arc<GatewayState>, more_routes: Router) -> Self {
        let router_service = http::routed(more_routes.merge(router(Arc::clone(&node))));
        DataPort { guard: RequestGuard::new(Arc::clone(&node)), router_service, node }
    }

    /// True if a request is about documents and is not logged, so that it bypasses the router.
    fn bypasses_router<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path().strip_prefix("/document/v1/");
        self.node.access_log().is_none()
            && self.node.paths().is_fast()
            && path.is_some_and(|path| !path.is_empty())
            && [Method::GET, Method::POST, Method::PUT, Method::DELETE].contains(request.method())
    }

    /// Returns the port as a service.
    pub(crate) fn into_service(self) -> PortService {
        Arc::new(move |request: Request<Body>| self.call(request))
    }

    /// Answers a request, and counts it for the API of its own path.
    fn call(&self, mut request: Request<Body>) -> PortAnswer {
        self.guard.resolve(&mut request);
        let is_of_protocol_1 = forwarding::is_of_protocol_1(request.headers());
        let is_from_client = self.node.is_from_client(request.headers());
        let api = ApiKind::from_path(request.uri().path());
        let traced = self.node.spans().and_then(|exporter| spans::begin(exporter, &mut request));
        let (answer, node) = (self.admitted(request), Arc::clone(&self.node));
        Box::pin(async move {
            // It is in flight until the answer begins, or the client leaves.
            let _in_flight = node.metrics().begin_request();
            let mut answer = answer.await;
            if let Ok(response) = &mut answer {
                node.metrics().count_response(api, response.status().as_u16());
                if let Some(traced) = traced {
                    traced.end(response);
                }
                if is_of_protocol_1 {
                    forwarding::write_protocol_1_header(response.headers_mut());
                }
                if !is_from_client {
                    // A node that has shown a certificate is known by its connection, others by the header.
                    response.extensions_mut().insert(UncountedAnswer);
                }
            }
            answer
        })
    }

    /// Checks a request by its head and its credential, and answers it.
    fn admitted(&self, mut request: Request<Body>) -> PortAnswer {
        let origin = match self.guard.check(PortKind::Data, &request) {
            AdmissionDecision::Answer(answer) => return Box::pin(async move { Ok(*answer) }),
            AdmissionDecision::Pass(origin) => origin,
        };
        let answer: PortAnswer = match self.guard.admit(PortKind::Data, &mut request) {
            Err(refused) => Box::pin(async move { Ok(*refused) }),
            Ok(turn) => {
                let credential = StreamCredential::from_request(&self.node, &request);
                let answer = self.answer(request);
                Box::pin(async move {
                    // It lasts until the answer begins.
                    let _turn = turn;
                    let answer = answer.await;
                    match credential {
                        Some(credential) => answer.map(|answer| credential.guard(answer)),
                        None => answer,
                    }
                })
            }
        };
        match origin {
            None => answer,
            Some(origin) => Box::pin(async move { answer.await.map(|answer| shared_with(answer, origin)) }),
        }
    }

    /// Answers a request that has passed the guard.
    fn answer(&self, request: Request<Body>) -> PortAnswer {
        let cluster = self.node.cluster().view().ok().flatten();
        if let Some(refused) = forwarding::refuse_misdirected(cluster, request.headers()) {
            return Box::pin(async move { Ok(refused) });
        }
        if !self.bypasses_router(&request) {
            return (self.router_service)(request);
        }
        let node = Arc::clone(&self.node);
        Box::pin(async move {
            let accepts_gzip = http::accepts_gzip(request.headers());
            let response = document_api::handle(State(node), request).await;
            Ok(if accepts_gzip { http::pack(response).await } else { response })
        })
    }
}

pub(crate) fn router(node: Arc<GatewayState>) -> Router {
    let log = node.access_log().cloned();
    let router = Router::new()
        .route("/search", any(search_api::handle))
        .route("/search/", any(search_api::handle))
        .route("/document/v1", any(document_api::handle))
        .route("/document/v1/", any(document_api::handle))
        .route("/document/v1/{*path}", any(document_api::handle))
        .route("/feed/v1", any(document_api::feed::handle))
        .route("/feed/v1/", any(document_api::feed::handle))
        .route("/group/v1", any(group_api::handle))
        .route("/group/v1/", any(group_api::handle))
        .route("/group/v1/{*path}", any(group_api::handle))
        .route("/model-evaluation/v1", any(model_evaluation::handle))
        .route("/model-evaluation/v1/", any(model_evaluation::handle))
        .route("/model-evaluation/v1/{*path}", any(model_evaluation::handle))
        .route("/mcp", any(mcp::handle))
        .route("/mcp/", any(mcp::handle))
        .merge(forwarding::routes())
        .merge(status_api::data_routes())
        .route("/page/application", get(application_view::handle))
        .merge(page::routes())
        .fallback(unknown)
        .with_state(node)
        .layer(from_fn(http::compress_response));
    match log {
        Some(log) => router.layer(from_fn_with_state(log, access_log::log)),
        None => router,
    }
}

async fn unknown(State(_): State<Arc<GatewayState>>, request: axum::extract::Request) -> Response {
    let message = format!(
        "nothing is at {}; documents are at /document/v1/, streams of operations at /feed/v1, log records at /v1/logs, queries at /search/, groups at /group/v1/, the list of handlers at /; deployments, snapshots and nodes of a cluster are at the config port",
        request.uri().path()
    );
    http::json(StatusCode::NOT_FOUND, &serde_json::json!({ "message": message }))
}
