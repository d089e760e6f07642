//! `/mcp/`: search for assistants, by the Model Context Protocol, where services.xml has its handler.
//!
//! Messages are JSON-RPC 2.0, one in the body of each `POST`; the answer is in the body of the response.
//! There are no sessions, and no messages except answers. A body that is no message gets the status 400 and
//! an error in the form of JSON-RPC, without an id. The available tools are in [`tools`].

mod examples;
mod tools;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, Method, StatusCode};
use millrace_access::RequestCaller;
use millrace_node::Error;
use millrace_node::pool::BodySizeClass;
use millrace_node::work::WorkKind;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::GatewayState;
use crate::edge::caller_of;
use crate::http::{self, BudgetReservation};
use crate::status::HttpError;

/// Supported versions of the protocol, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Header with the version on which client and server have agreed.
const VERSION: &str = "mcp-protocol-version";

/// A method of requests.
#[derive(Debug, Clone, Copy)]
enum RpcMethod {
    Initialize,
    Ping,
    ListTools,
    CallTool,
    ListResources,
    ListResourceTemplates,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

/// Names of the methods.
const METHODS: [(&str, RpcMethod); 9] = [
    ("initialize", RpcMethod::Initialize),
    ("ping", RpcMethod::Ping),
    ("tools/list", RpcMethod::ListTools),
    ("tools/call", RpcMethod::CallTool),
    ("resources/list", RpcMethod::ListResources),
    ("resources/templates/list", RpcMethod::ListResourceTemplates),
    ("resources/read", RpcMethod::ReadResource),
    ("prompts/list", RpcMethod::ListPrompts),
    ("prompts/get", RpcMethod::GetPrompt),
];

/// A message: a request, without an `id` a notification, or without a `method` the response to a request.
#[derive(Deserialize)]
struct RpcMessage<'m> {
    jsonrpc: String,
    #[serde(borrow, default)]
    id: MessageId<'m>,
    method: Option<String>,
    /// Unparsed parameters: a list of millions of numbers is not converted to values here.
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(default)]
    result: MemberPresence,
    #[serde(default)]
    error: MemberPresence,
}

/// True if a message has a member, whose value may be null.
#[derive(Default)]
struct MemberPresence(bool);

impl<'de> Deserialize<'de> for MemberPresence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| MemberPresence(true))
    }
}

/// The unparsed `id` of a message, if it has one. `null` is a value, which no message may have.
#[derive(Default)]
struct MessageId<'m>(Option<&'m RawValue>);

impl<'de: 'm, 'm> Deserialize<'de> for MessageId<'m> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'m RawValue>::deserialize(deserializer).map(|id| MessageId(Some(id)))
    }
}

/// A request, whose unparsed parts are parts of the body.
struct RpcRequest {
    id: Bytes,
    method: String,
    params: Option<Bytes>,
}

impl RpcRequest {
    /// Reads the message in a body; `None` if it wants no answer: a notification, or a response, which is
    /// ignored since the server sends no requests.
    fn read(body: &Bytes) -> Result<Option<Self>, (Option<Bytes>, RpcRefusal)> {
        let wrong = |reason: String| (None, RpcRefusal::new(RpcRefusal::NO_REQUEST, reason));
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(wrong(
                "a list of messages is not supported; send each in a request of its own".to_owned(),
            ));
        }
        let message: RpcMessage<'_> = serde_json::from_slice(body).map_err(|error| {
            let code = if error.is_data() { RpcRefusal::NO_REQUEST } else { RpcRefusal::NOT_JSON };
            (None, RpcRefusal::new(code, format!("no JSON-RPC request: {error}")))
        })?;
        let part = |value: &RawValue| body.slice_ref(value.get().as_bytes());
        let id = message.id.0;
        if id.is_some_and(|id| !is_id(id.get())) {
            return Err(wrong("'id' is a text or a whole number".to_owned()));
        }
        let id = id.map(part);
        let refused = |code: i32, reason: &str| (id.clone(), RpcRefusal::new(code, reason));
        if message.jsonrpc != "2.0" {
            return Err(refused(RpcRefusal::NO_REQUEST, "'jsonrpc' is \"2.0\""));
        }
        let Some(method) = message.method else {
            return match message.result.0 || message.error.0 {
                true => Ok(None),
                false => Err(refused(RpcRefusal::NO_REQUEST, "'method' is missing; name one")),
            };
        };
        if message.params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(refused(RpcRefusal::WRONG_PARAMETERS, "'params' is an object"));
        }
        Ok(id.map(|id| RpcRequest { id, method, params: message.params.map(part) }))
    }
}

/// True for the JSON of a text or a whole number.
fn is_id(id: &str) -> bool {
    let digits = id.strip_prefix('-').unwrap_or(id);
    id.starts_with('"') || digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Relevant part of a client's description of itself.
#[derive(Deserialize)]
struct McpRequest {
    #[serde(rename = "protocolVersion")]
    version: String,
}

/// Place in a list of several pages.
#[derive(Deserialize)]
struct ListPage {
    cursor: Option<String>,
}

/// Name of the requested prompt, or URI of the requested resource.
#[derive(Deserialize)]
struct RequestSubject {
    name: Option<String>,
    uri: Option<String>,
}

/// Answer to a message. Its id is written as the client wrote it: not all numbers and texts of JSON have a
/// value here.
#[derive(Serialize)]
struct RpcAnswer<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcRefusal>,
}

/// Error of a message without a result.
#[derive(Serialize)]
struct RpcRefusal {
    code: i32,
    message: String,
}

impl RpcRefusal {
    const NOT_JSON: i32 = -32_700;
    const NO_REQUEST: i32 = -32_600;
    const NO_SUCH_METHOD: i32 = -32_601;
    const WRONG_PARAMETERS: i32 = -32_602;
    const INTERNAL: i32 = -32_603;
    const NO_SUCH_RESOURCE: i32 = -32_002;

    fn new(code: i32, message: impl Into<String>) -> Self {
        RpcRefusal { code, message: message.into() }
    }
}

/// Answers a message.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    let read = match caller_of(&request) {
        Ok(caller) => body(&node, request).await.map(|(body, room)| (body, room, caller)),
        Err(error) => Err(error),
    };
    let (body, room, caller) = match read {
        Ok(read) => read,
        Err(error) => return failed(&error),
    };
    let size = BodySizeClass::of_query(body.len());
    let held = Arc::clone(&room);
    let read = move || {
        let _held = held;
        RpcRequest::read(&body)
    };
    let message = match node.pool().run_sized(size, read).await {
        Ok(Ok(Some(message))) => message,
        // A notification: it has no answer.
        Ok(Ok(None)) => return http::answer(StatusCode::ACCEPTED, "application/json", Vec::new()),
        Ok(Err((id, refusal))) => return refused(id.as_ref(), &refusal),
        Err(error) => return failed(&error),
    };
    match answer(&node, &message, &room, &caller).await {
        Ok(result) => http::json(StatusCode::OK, &RpcAnswer::new(Some(&message.id), Ok(&result))),
        Err(refusal) => refused(Some(&message.id), &refusal),
    }
}

/// Answer to a message that is not read.
fn failed(error: &Error) -> Response {
    let mut response = http::json(error.status(), &json!({ "message": error.to_string() }));
    response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
    response
}

impl<'a> RpcAnswer<'a> {
    fn new(id: Option<&'a Bytes>, outcome: Result<&'a Value, &'a RpcRefusal>) -> Self {
        let unparsed =
            |id: &'a Bytes| serde_json::from_slice(id).expect("it was a value in the JSON of the message");
        let (result, error) = (outcome.ok(), outcome.err());
        RpcAnswer { jsonrpc: "2.0", id: id.map(unparsed), result, error }
    }
}

/// Answer to a request that is refused, or without an id to a body that is no message.
fn refused(id: Option<&Bytes>, refusal: &RpcRefusal) -> Response {
    let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    http::json(status, &RpcAnswer::new(id, Err(refusal)))
}

/// Reads the body of a permitted request, and reserves the memory for it and for the query in it.
async fn body(node: &Arc<GatewayState>, request: Request) -> Result<(Bytes, Arc<BudgetReservation>), Error> {
    let deployment = node.deployments().current()?;
    if !deployment.application.container.assistants {
        return Err(Error::NotFound(
            "no search for assistants: add <handler id='ai.vespa.mcp.McpRequestHandler'> to the container in services.xml"
                .to_owned(),
        ));
    }
    if request.method() != Method::POST {
        return Err(Error::MethodNotAllowed { method: request.method().to_string(), allowed: "POST" });
    }
    let (parts, body) = request.into_parts();
    check_version(&parts.headers)?;
    node.quotas().admit_address(parts.extensions.get(), Instant::now(), node.metrics())?;
    let (body, mut room) =
        http::read_body(node, &parts.headers, body, node.query_bounds()).await?.into_parts();
    room.work(WorkKind::Assistant(deployment.input_block), &body).await?;
    Ok((body, Arc::new(room)))
}

/// Refuses a version of the protocol that is not spoken here, as the protocol demands. Clients of its earlier
/// versions send none.
fn check_version(headers: &HeaderMap) -> Result<(), Error> {
    match headers.get(VERSION) {
        Some(asked) if !VERSIONS.iter().any(|known| asked.as_bytes() == known.as_bytes()) => {
            Err(Error::BadRequest(format!(
                "{VERSION} '{}' is not known; send the version that the answer to initialize has, one of {}",
                String::from_utf8_lossy(asked.as_bytes()),
                VERSIONS.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

fn parameters_of<'m, P: Deserialize<'m>>(message: &'m RpcRequest) -> Result<P, RpcRefusal> {
    serde_json::from_slice(message.params.as_deref().unwrap_or(b"{}"))
        .map_err(|error| RpcRefusal::new(RpcRefusal::WRONG_PARAMETERS, format!("wrong parameters: {error}")))
}

/// Refuses a place in a list. Each list is on one page, so no answer has named a place.
fn check_page(message: &RpcRequest) -> Result<(), RpcRefusal> {
    match parameters_of::<ListPage>(message)?.cursor {
        None => Ok(()),
        Some(cursor) => {
            let reason = format!("cursor '{cursor}' is unknown; leave it out: the list is on one page");
            Err(RpcRefusal::new(RpcRefusal::WRONG_PARAMETERS, reason))
        }
    }
}

async fn answer(
    node: &Arc<GatewayState>,
    message: &RpcRequest,
    room: &Arc<BudgetReservation>,
    caller: &Arc<RequestCaller>,
) -> Result<Value, RpcRefusal> {
    let Some((_, method)) = METHODS.iter().find(|(name, _)| *name == message.method) else {
        let known: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
        let reason = format!("no method '{}'; there are {}", message.method, known.join(", "));
        return Err(RpcRefusal::new(RpcRefusal::NO_SUCH_METHOD, reason));
    };
    let subject = || parameters_of::<RequestSubject>(message);
    match method {
        RpcMethod::Initialize => {
            let params = message.params.as_ref();
            let asked = params.and_then(|params| serde_json::from_slice::<McpRequest>(params).ok());
            let asked = asked.map(|asked| asked.version).unwrap_or_default();
            let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
            Ok(json!({
                "protocolVersion": version,
                "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
                "serverInfo": { "name": "millrace", "version": env!("CARGO_PKG_VERSION") },
                "instructions": "Call getSchemas to see what there is to search, readQueryExamples for the form of queries, then executeQuery.",
            }))
        }
        RpcMethod::Ping => Ok(json!({})),
        RpcMethod::ListTools => {
            check_page(message)?;
            Ok(json!({ "tools": tools::all(caller) }))
        }
        RpcMethod::CallTool => tools::call(node, message.params.clone(), room, caller).await,
        RpcMethod::ListResources => {
            check_page(message)?;
            Ok(json!({ "resources": [examples::resource()] }))
        }
        RpcMethod::ListResourceTemplates => {
            check_page(message)?;
            Ok(json!({ "resourceTemplates": [] }))
        }
        RpcMethod::ReadResource => examples::read(&subject()?.uri.unwrap_or_default()),
        RpcMethod::ListPrompts => {
            check_page(message)?;
            Ok(json!({ "prompts": [tools::prompt()] }))
        }
        RpcMethod::GetPrompt => tools::prompted(&subject()?.name.unwrap_or_default(), caller),
    }
}
