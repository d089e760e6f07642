//! A server that takes puts and keeps nothing: the connections of the real one, the body read and parsed into
//! a typed operation, and an answer of the same shape. What feeding costs before anything is stored.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode};
use millrace_document::json::{FeedOperation, FeedReader};
use millrace_document::{DocumentGroup, DocumentId, OperationKind, json};
use millrace_gateway::{PortLimits, PortService, RequestLimits};
use millrace_schema::Schema;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Error;
use crate::application::{self, TYPE};
use crate::node::cores;

/// The server, on a free port.
pub(crate) struct BaselineServer {
    url: String,
    serving: Option<(Runtime, watch::Sender<bool>, JoinHandle<()>)>,
}

impl BaselineServer {
    /// Starts it, with as many threads as a node has.
    pub fn start() -> Result<Self, Error> {
        let schema = application::schema(&application::application()?)?;
        let runtime = millrace_gateway::runtime(cores(), "floor").map_err(Error::failed)?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(Error::failed)?;
        let address = listener.local_addr().map_err(Error::failed)?;
        let (stop, stopped) = watch::channel(false);
        let limits = PortLimits::new(&RequestLimits::default());
        let parses: PortService = Arc::new(move |request: Request<Body>| {
            let schema = Arc::clone(&schema);
            Box::pin(async move { Ok(parsed(&schema, request).await) })
        });
        let task = runtime.spawn(millrace_gateway::serve(
            listener,
            None,
            limits,
            parses,
            stopped,
            Duration::from_secs(1),
        ));
        Ok(BaselineServer { url: format!("http://{address}"), serving: Some((runtime, stop, task)) })
    }

    /// Returns the address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for BaselineServer {
    fn drop(&mut self) {
        if let Some((runtime, stop, task)) = self.serving.take() {
            // The server may have ended by itself; then there is no receiver, and nothing to wait for.
            let _ = stop.send(true);
            let _ = runtime.block_on(task);
        }
    }
}

/// Parses puts, and answers as if they had been done. Like a node's, its requests pass no router.
async fn parsed(schema: &Schema, request: Request<Body>) -> Response {
    parse(schema, request).await.unwrap_or_else(|error| {
        let mut response = Response::new(error.to_string().into());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    })
}

async fn parse(schema: &Schema, request: Request<Body>) -> Result<Response, Error> {
    let path = request.uri().path().to_owned();
    if path == "/feed/v1" {
        return parse_stream(schema, request).await;
    }
    let mut parts = path.rsplit('/');
    let (Some(name), Some(group)) = (parts.next(), parts.next()) else {
        return Err(Error::failed(format!("{path} does not belong to a document")));
    };
    let group = DocumentGroup::Name(group.to_owned());
    let id = DocumentId::new("bench", TYPE, &group, name).map_err(Error::failed)?;
    let body = request.into_body().collect().await.map_err(Error::failed)?.to_bytes();
    let answer = serde_json::json!({ "pathId": path, "id": id.as_str() }).to_string();
    let options = json::ParseOptions::default();
    json::parse(&body, OperationKind::Put, id, &schema.document_type, options).map_err(Error::failed)?;
    let mut response = Response::new(answer.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Parses all operations of a stream.
async fn parse_stream(schema: &Schema, request: Request<Body>) -> Result<Response, Error> {
    let body = request.into_body().collect().await.map_err(Error::failed)?.to_bytes();
    let mut operations: u64 = 0;
    for operation in FeedReader::new(&body[..]) {
        let FeedOperation { kind, id, json, .. } = operation.map_err(Error::failed)?;
        let options = json::ParseOptions::default();
        json::parse(&json, kind, id, &schema.document_type, options).map_err(Error::failed)?;
        operations += 1;
    }
    let answer = serde_json::json!({ "complete": true, "operations": operations, "ok": operations });
    let mut response = Response::new(format!("{answer}\n").into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
    Ok(response)
}
