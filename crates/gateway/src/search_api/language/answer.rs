//! Delivery of a language model's answer: as events while it is generated, or as a result when it is
//! complete.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use millrace_node::Error;
use millrace_node::remote_kind;
use millrace_remote::{AnswerPieces, Error as Remote};
use serde_json::{Value, json};

use super::ResultFormat;
use crate::http;
use crate::status::status_of;

/// An answer that is being generated.
pub(super) struct LanguageAnswer {
    pub(super) pieces: AnswerPieces,
    /// Id of the model.
    pub(super) source: String,
    /// Prompt, if it is to be shown.
    pub(super) prompt: Option<String>,
    /// True if it comes in pieces.
    pub(super) streams: bool,
}

impl LanguageAnswer {
    /// Event name of a piece.
    fn kind(&self) -> &'static str {
        if self.streams { "token" } else { "completion" }
    }

    /// Sends it as server-sent events, no faster than they are read.
    pub(super) fn events(self) -> Response {
        let (sender, body) = Channel::<Bytes, Infallible>::new(2);
        tokio::spawn(self.send(sender));
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&ResultFormat::Events.content_type()) {
            headers.insert(CONTENT_TYPE, value);
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Sends the pieces, until the last one or until the client has left.
    async fn send(mut self, mut sender: Sender<Bytes, Infallible>) {
        let kind = self.kind();
        if let Some(prompt) = self.prompt.take()
            && sender.send_data(event("prompt", &json!({ "prompt": prompt }))).await.is_err()
        {
            return;
        }
        while let Some(piece) = self.pieces.next().await {
            let event = match piece {
                Ok(text) => event(kind, &json!({ kind: text })),
                Err(error) => event("error", &error_event(&self.source, &error)),
            };
            if sender.send_data(event).await.is_err() {
                return;
            }
        }
    }

    /// Returns it as a result, when it is complete.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn json(mut self) -> Result<Response, Error> {
        let kind = self.kind();
        let mut events: Vec<(&str, String)> = Vec::new();
        events.extend(self.prompt.take().map(|prompt| ("prompt", prompt)));
        let (mut began, mut failure) = (false, None);
        while let Some(piece) = self.pieces.next().await {
            match piece {
                Ok(text) => {
                    began = true;
                    events.push((kind, text));
                }
                Err(error) if began => failure = Some(error),
                Err(error) => return Err(Error::Language(error)),
            }
        }
        let event = |(at, (kind, text)): (usize, (&str, String))| json!({ "id": (at + 1).to_string(), "relevance": 1.0, "fields": { kind: text } });
        let children: Vec<Value> = events.into_iter().enumerate().map(event).collect();
        let stream = json!({ "id": "event_stream", "relevance": 1.0, "children": children });
        let mut root = json!({ "id": "token_stream", "relevance": 1.0, "fields": { "totalCount": 0 } });
        if let Some(error) = failure {
            let message = error.to_string();
            root["errors"] = json!([{ "code": 5, "summary": "Unspecified error", "source": self.source, "message": message }]);
        }
        root["children"] = json!([stream]);
        let body = json!({ "root": root }).to_string().into_bytes();
        Ok(http::answer(StatusCode::OK, &ResultFormat::Json.content_type(), body))
    }
}

/// Formats one event.
pub(in crate::search_api) fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Error for an event: with the service's own status, if it gave one.
fn error_event(source: &str, error: &Remote) -> Value {
    let status = error.status().unwrap_or_else(|| status_of(remote_kind(error)).as_u16());
    json!({ "source": source, "error": status, "message": error.to_string() })
}
