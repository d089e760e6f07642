//! OpenAI chat protocol: JSON out, JSON or events in.

use hyper::Response;
use hyper::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::AnswerFault;
use crate::protocol::message;

/// Options of an answer. The service decides on missing ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct InferenceOptions {
    /// Name of the model at the service.
    pub model: String,
    /// Maximum number of tokens of an answer.
    #[serde(rename = "max_completion_tokens", skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    /// Temperature, from 0, always the most probable token, to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Restriction to the most probable tokens that together have this share of the probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed; the same seed requests the same answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Number of generated answers, of which the first is used.
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    pub choices: Option<u32>,
    /// Penalty for tokens by their frequency so far; from -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// Penalty for tokens that have occurred; from -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Effort of a reasoning model, in the service's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// JSON schema of the answer.
    #[serde(skip)]
    pub schema: Option<Value>,
    /// True if the service must follow the schema strictly.
    #[serde(skip)]
    pub is_strict: bool,
}

#[derive(Serialize)]
struct ChatRequest<'r> {
    #[serde(flatten)]
    inference: &'r InferenceOptions,
    messages: [ChatMessage<'r>; 1],
    stream: bool,
    /// The limit under its older name, which many services still read, and OpenAI's own refuse.
    #[serde(rename = "max_tokens", skip_serializing_if = "Option::is_none")]
    older_tokens_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
}

#[derive(Serialize)]
struct ChatMessage<'r> {
    role: &'static str,
    content: &'r str,
}

#[derive(Deserialize)]
struct ChatAnswer {
    choices: Vec<ChatChoice>,
}

#[derive(Deserialize)]
struct ChatChoice {
    #[serde(default)]
    index: usize,
    #[serde(alias = "delta")]
    message: Option<ChatContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChatContent {
    content: Option<String>,
}

/// Content of an event.
#[derive(Debug, PartialEq)]
pub(super) enum ChatPiece {
    /// Next part of the answer, which may be empty, and true if it is the last.
    Text(String, bool),
    /// End of the answer.
    End,
}

/// URL of the protocol, from the address of a service.
pub(super) fn address(endpoint: &str) -> String {
    const PATH: &str = "/chat/completions";
    let endpoint = endpoint.trim_end_matches('/');
    if endpoint.ends_with(PATH) { endpoint.to_owned() } else { format!("{endpoint}{PATH}") }
}

/// True for OpenAI's own services and Azure's, which refuse a limit under both names.
pub(super) fn is_openai(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host.split(['/', ':', '?']).next().unwrap_or_default();
    ["openai.com", "azure.com"].iter().any(|domain| host == *domain || host.ends_with(&format!(".{domain}")))
}

/// Body of a request to `address` for an answer.
pub(super) fn request(address: &str, text: &str, inference: &InferenceOptions, streams: bool) -> Vec<u8> {
    let response_format = inference.schema.as_ref().map(|schema| {
        let schema = json!({ "name": "answer", "schema": schema, "strict": inference.is_strict });
        json!({ "type": "json_schema", "json_schema": schema })
    });
    let messages = [ChatMessage { role: "user", content: text }];
    // Strings and numbers always have a JSON form.
    let older_tokens_max = inference.tokens_max.filter(|_| !is_openai(address));
    let request = ChatRequest { inference, messages, stream: streams, older_tokens_max, response_format };
    serde_json::to_vec(&request).unwrap_or_default()
}

/// True if an answer consists of events: a service may ignore the request for them.
pub(super) fn is_stream<B>(response: &Response<B>) -> bool {
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media.is_some_and(|media| media.trim_start().starts_with("text/event-stream"))
}

/// Parses an event; the error is that of a failed answer.
pub(super) fn piece(event: &str) -> Result<ChatPiece, AnswerFault> {
    if event.trim() == "[DONE]" {
        return Ok(ChatPiece::End);
    }
    match serde_json::from_str::<ChatAnswer>(event) {
        Ok(answer) => {
            let choice = first(answer);
            let is_last = choice.as_ref().is_some_and(|choice| choice.finish_reason.is_some());
            Ok(ChatPiece::Text(choice.and_then(content).unwrap_or_default(), is_last))
        }
        Err(_) => Err(AnswerFault::Message(message(event.as_bytes()))),
    }
}

/// Text of a complete answer.
pub(super) fn text(body: &[u8]) -> Result<String, AnswerFault> {
    let answer: ChatAnswer =
        serde_json::from_slice(body).map_err(|error| AnswerFault::NotUnderstood(error.to_string()))?;
    first(answer).and_then(content).ok_or(AnswerFault::NoText)
}

fn first(answer: ChatAnswer) -> Option<ChatChoice> {
    answer.choices.into_iter().find(|choice| choice.index == 0)
}

fn content(choice: ChatChoice) -> Option<String> {
    choice.message?.content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_not_sent() {
        let asked = |address: &str, inference: &InferenceOptions| -> Value {
            serde_json::from_slice(&request(address, "why?", inference, true)).expect("JSON")
        };
        let body = |inference: &InferenceOptions| asked("http://h/v1/chat/completions", inference);
        let plain = InferenceOptions { model: "m".to_owned(), ..InferenceOptions::default() };
        let messages = json!([{ "role": "user", "content": "why?" }]);
        assert_eq!(body(&plain), json!({ "model": "m", "messages": messages, "stream": true }));
        let full = InferenceOptions {
            tokens_max: Some(9),
            temperature: Some(0.5),
            choices: Some(1),
            schema: Some(json!({ "type": "object" })),
            ..plain
        };
        let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": { "type": "object" }, "strict": false } });
        assert_eq!(
            body(&full),
            json!({
                "model": "m", "messages": messages, "stream": true, "max_completion_tokens": 9, "max_tokens": 9,
                "temperature": 0.5, "n": 1, "response_format": format,
            })
        );
        for address in ["https://api.openai.com/v1/chat/completions", "https://x.openai.azure.com/v1?a=b"] {
            assert_eq!(asked(address, &full).get("max_tokens"), None, "{address}");
        }
        assert_eq!(asked("http://notopenai.com/v1", &full)["max_tokens"], json!(9));
    }

    #[test]
    fn addresses_get_the_path_once() {
        for endpoint in ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"] {
            assert_eq!(address(endpoint), "http://h/v1/chat/completions");
        }
    }

    #[test]
    fn events_are_pieces_the_end_or_an_error() {
        let text = |text: &str| Ok(ChatPiece::Text(text.to_owned(), false));
        let last = |text: &str| Ok(ChatPiece::Text(text.to_owned(), true));
        let error = |reason: &str| Err(reason.to_owned());
        for (event, expected) in [
            (r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#, text("a")),
            (r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#, text("")),
            (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, last("")),
            (r#"{"choices":[],"usage":{"total_tokens":7}}"#, text("")),
            (" [DONE]", Ok(ChatPiece::End)),
            (r#"{"error":{"message":"too long"}}"#, error("too long")),
            ("<html>", error("<html>")),
        ] {
            assert_eq!(piece(event).map_err(|fault| fault.to_string()), expected, "{event}");
        }
    }
}
