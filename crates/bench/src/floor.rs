//! A server that takes puts and keeps nothing: the connections of the real one, the body read and parsed into a typed operation, and
//! an answer of the same shape. What feeding costs before anything is stored.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use millrace_document::{DocumentId, Group, OperationKind, json};
use millrace_schema::Schema;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Error;
use crate::application::{self, TYPE};
use crate::node::cores;

/// The server, on a free port.
pub(crate) struct Floor {
    url: String,
    serving: Option<(Runtime, watch::Sender<bool>, JoinHandle<()>)>,
}

impl Floor {
    /// Starts it, with as many threads as a node has.
    pub fn start() -> Result<Self, Error> {
        let schema = application::schema(&application::application()?)?;
        let router = Router::new()
            .route(&format!("/document/v1/bench/{TYPE}/group/{{group}}/{{name}}"), post(parse))
            .with_state(schema);
        let runtime = millrace_gateway::runtime(cores(), "floor").map_err(Error::failed)?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(Error::failed)?;
        let address = listener.local_addr().map_err(Error::failed)?;
        let (stop, stopped) = watch::channel(false);
        let task =
            runtime.spawn(millrace_gateway::serve(listener, None, router, stopped, Duration::from_secs(1)));
        Ok(Floor { url: format!("http://{address}"), serving: Some((runtime, stop, task)) })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        if let Some((runtime, stop, task)) = self.serving.take() {
            // The server may have ended by itself; then there is nobody to stop, and nothing to wait for.
            let _ = stop.send(true);
            let _ = runtime.block_on(task);
        }
    }
}

/// Parses a put, and answers as if it had been done.
async fn parse(
    State(schema): State<Arc<Schema>>,
    Path((group, name)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let parsed = DocumentId::new("bench", TYPE, &Group::Name(group), &name).and_then(|id| {
        let text = id.as_str().to_owned();
        let options = json::ParseOptions::default();
        json::parse(&body, OperationKind::Put, id, &schema.document_type, options).map(|_| text)
    });
    match parsed {
        Ok(id) => {
            let answer = serde_json::json!({ "pathId": id, "id": id }).to_string();
            ([(header::CONTENT_TYPE, "application/json")], Body::from(answer)).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}
