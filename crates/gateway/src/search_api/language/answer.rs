//! Delivery of a language model's answer: as events while it is generated, or as a result when it is
//! complete.

use std::convert::Infallible;
use std::fmt::Display;

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use millrace_node::Error;
use millrace_node::remote_kind;
use millrace_remote::{AnswerPieces, Error as Remote};
use millrace_render::ErrorMessage;
use serde_json::{Value, json};

use super::ResultFormat;
use crate::http::{self, AnswerShare};
use crate::search_api::render;
use crate::status::status_of;

/// An answer that is being generated.
pub(super) struct LanguageAnswer {
    pub(super) pieces: AnswerPieces,
    /// Id of the model.
    pub(super) source: String,
    /// Prompt, if it is to be shown.
    pub(super) prompt: Option<String>,
    /// Result of the search in JSON, if it is to be shown.
    pub(super) hits: Option<String>,
    /// Memory of these two.
    pub(super) room: Option<AnswerShare>,
    /// Errors of the search, beside its hits.
    pub(super) errors: Vec<ErrorMessage>,
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
        let mut shown: Vec<u8> = Vec::new();
        if let Some(prompt) = self.prompt.take() {
            shown.extend_from_slice(&event("prompt", &json!({ "prompt": prompt })));
        }
        if let Some(hits) = self.hits.take() {
            shown.extend_from_slice(&event("hits", &hits));
        }
        if let Some(room) = self.room.take()
            && sender.send_data(http::counted_page(shown, room)).await.is_err()
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
        // They come last: clients take an error for the end.
        if !self.errors.is_empty() {
            let events = render::errors(&self.errors, ResultFormat::Events);
            // The client may have left.
            let _ = sender.send_data(Bytes::from(events)).await;
        }
    }

    /// Returns it as a result in CBOR or JSON, when it is complete.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn whole(mut self, format: ResultFormat) -> Result<Response, Error> {
        let kind = self.kind();
        let mut events: Vec<(&str, String)> = Vec::new();
        events.extend(self.prompt.take().map(|prompt| ("prompt", prompt)));
        events.extend(self.hits.take().map(|hits| ("hits", hits)));
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
        let id = if self.streams { "token_stream" } else { "completion" };
        let mut root = json!({ "id": id, "relevance": 1.0, "fields": { "totalCount": 0 } });
        let mut errors = std::mem::take(&mut self.errors);
        errors.extend(failure.map(|error| ErrorMessage {
            code: 5,
            summary: "Unspecified error".to_owned(),
            message: Some(error.to_string()),
            source: Some(self.source.clone()),
            transient: None,
        }));
        if !errors.is_empty() {
            root["errors"] = json!(errors);
        }
        root["children"] = json!([stream]);
        let result = json!({ "root": root });
        let (format, body) = match format {
            ResultFormat::Cbor => (format, millrace_render::cbor(&result)),
            _ => (ResultFormat::Json, result.to_string().into_bytes()),
        };
        Ok(http::answer(StatusCode::OK, &format.content_type(), body))
    }
}

/// Formats one event, whose data has no line break.
pub(in crate::search_api) fn event(name: &str, data: &impl Display) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Error for an event: with the service's own status, if it gave one.
fn error_event(source: &str, error: &Remote) -> Value {
    let status = error.status().unwrap_or_else(|| status_of(remote_kind(error)).as_u16());
    json!({ "source": source, "error": status, "message": error.to_string() })
}
