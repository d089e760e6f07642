//! Tools for assistants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use millrace_access::RequestCaller;
use millrace_node::pool::BodySizeClass;
use millrace_schema::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{RpcRefusal, examples};
use crate::http::BudgetReservation;
use crate::{GatewayState, application_view, search_api};

/// Call of a tool.
#[derive(Deserialize)]
struct ToolCall<'c> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'c RawValue>,
}

/// Names of the tools, for messages.
const NAMES: &str = "getSchemas, executeQuery and readQueryExamples";

/// List of the tools. A caller with one group does not choose it.
pub(super) fn all(caller: &RequestCaller) -> Value {
    let mut tools = json!([
        {
            "name": "getSchemas",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "description": "The schemas that can be searched: their fields with types and what can be done with them, rank profiles with their inputs, and document summaries.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "schemaNames": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Names of schemas; all schemas if omitted.",
                    },
                },
                "additionalProperties": false,
            },
        },
        {
            "name": "executeQuery",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "description": "Searches the documents of one group, best first. Give the conditions in YQL, such as: select * from sources * where title contains \"fox\" and year > 2000 limit 5",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "yql": { "type": "string", "minLength": 1, "description": "The query in YQL." },
                    "groupname": { "type": "string", "description": "Whose documents to search: the group's name." },
                    "queryProfileName": { "type": "string", "description": "Query profile with further parameters." },
                    "parameters": {
                        "type": "object",
                        "description": "Further parameters of the query API by name, such as ranking, hits, query (for userQuery()) or input.query(name).",
                        "additionalProperties": true,
                    },
                },
                "required": ["yql"],
                "additionalProperties": false,
            },
        },
        {
            "name": "readQueryExamples",
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
            "description": "Examples of queries in YQL, and how to call executeQuery with them.",
            "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
        },
    ]);
    if caller.only_group().is_some()
        && let Some(Value::Object(arguments)) = tools.pointer_mut("/1/inputSchema/properties")
    {
        // The credential has chosen the group.
        arguments.remove("groupname");
    }
    tools
}

/// The prompt that lists the tools.
pub(super) fn prompt() -> Value {
    json!({ "name": "listTools", "description": "List all tools and their descriptions.", "arguments": [] })
}

/// Messages of the prompt with this name.
pub(super) fn prompted(name: &str, caller: &RequestCaller) -> Result<Value, RpcRefusal> {
    if name != "listTools" {
        let message = format!("no prompt '{name}'; there is listTools");
        return Err(RpcRefusal::new(RpcRefusal::WRONG_PARAMETERS, message));
    }
    let tools = all(caller);
    let lines = tools.as_array().into_iter().flatten().map(|tool| {
        format!("\n{} - {}", tool["name"].as_str().unwrap_or(""), tool["description"].as_str().unwrap_or(""))
    });
    let text = format!("Summarize the available tools:\n{}", lines.collect::<String>());
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    Ok(json!({ "description": "The tools of this server", "messages": [message] }))
}

/// Result of a call.
pub(super) async fn call(
    node: &Arc<GatewayState>,
    parameters: Option<Bytes>,
    room: &Arc<BudgetReservation>,
    caller: &Arc<RequestCaller>,
) -> Result<Value, RpcRefusal> {
    let wrong = |message: String| RpcRefusal::new(RpcRefusal::WRONG_PARAMETERS, message);
    let parameters = parameters.unwrap_or(Bytes::from_static(b"null"));
    let parameters_max = node.settings().limits.parameters_max;
    let size = BodySizeClass::of_query(parameters.len());
    let held = Arc::clone(room);
    let read = move || {
        let _held = held;
        ReadCall::read(&parameters, parameters_max)
    };
    let read = node.pool().run_sized(size, read).await;
    match read.map_err(|error| RpcRefusal::new(RpcRefusal::INTERNAL, error.to_string()))?? {
        ReadCall::Schemas(names) => {
            let deployment = node.deployments().current().map_err(|error| wrong(error.to_string()))?;
            let schemas = schemas(&deployment.application.schemas, names);
            Ok(answer_content(&schemas.to_string()))
        }
        ReadCall::Examples => Ok(answer_content(&json!(examples::TEXT).to_string())),
        ReadCall::Faulty(fault) => Ok(fault_content(&fault)),
        ReadCall::Query(body) => match query(node, body, room, caller).await {
            Ok((answer, false)) => Ok(answer_content(&answer)),
            Ok((answer, true)) => Ok(fault_content(&answer)),
            Err(fault @ ToolFault::NoJson) => Ok(fault_content(&fault.to_string())),
            Err(fault) => Err(RpcRefusal::new(RpcRefusal::INTERNAL, fault.to_string())),
        },
    }
}

/// A call, as far as it can be understood without the node.
enum ReadCall {
    /// Names of the wanted schemas; all without.
    Schemas(Option<BTreeSet<String>>),
    Examples,
    /// Body of the request to `/search/`.
    Query(Vec<u8>),
    /// Fault of the arguments of a tool. It is a result, which hosts show to the assistant, so that it can
    /// call the tool again. They do not show errors of the protocol.
    Faulty(String),
}

impl ReadCall {
    fn read(parameters: &[u8], parameters_max: usize) -> Result<Self, RpcRefusal> {
        let wrong = |message: String| RpcRefusal::new(RpcRefusal::WRONG_PARAMETERS, message);
        let ToolCall { name, arguments } = serde_json::from_slice(parameters)
            .map_err(|error| wrong(format!("a call has the name of a tool and its arguments: {error}")))?;
        let read = match name.as_str() {
            "getSchemas" => {
                let example = r#"{"schemaNames": ["NAME"]}, or {} for all schemas"#;
                read_arguments::<SchemaArguments>(arguments, example)
                    .map(|wanted| ReadCall::Schemas(wanted.names))
            }
            "readQueryExamples" => {
                read_arguments::<NoArguments>(arguments, "{}").map(|NoArguments {}| ReadCall::Examples)
            }
            "executeQuery" => query_body(arguments, parameters_max).map(ReadCall::Query),
            other => return Err(wrong(format!("no tool '{other}'; there are {NAMES}"))),
        };
        Ok(read.unwrap_or_else(|fault| ReadCall::Faulty(fault.to_string())))
    }
}

/// Arguments of a tool, which may be omitted as a whole. Its error shows those of `example`.
fn read_arguments<'a, A: Deserialize<'a>>(
    arguments: Option<&'a RawValue>,
    example: &'static str,
) -> Result<A, ToolFault> {
    Ok(serde_json::from_str(argument_object(arguments, example)?)?)
}

/// The JSON object of the arguments of a tool.
fn argument_object<'a>(arguments: Option<&'a RawValue>, example: &'static str) -> Result<&'a str, ToolFault> {
    let arguments = arguments.map_or("{}", RawValue::get);
    if arguments.starts_with('{') { Ok(arguments) } else { Err(ToolFault::NoArguments(example)) }
}

/// Result of a tool that has answered.
fn answer_content(answer: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": answer }], "isError": false })
}

/// Result of a tool that has failed.
fn fault_content(fault: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": fault }], "isError": true })
}

/// Fault of the arguments of a tool, or of the answer of executeQuery.
#[derive(Debug, thiserror::Error)]
enum ToolFault {
    #[error(transparent)]
    Parameters(#[from] millrace_query::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("'arguments' is an object, as in {0}")]
    NoArguments(&'static str),
    #[error("'parameters' is an object, as in {{\"hits\": 5}}")]
    NoObject,
    #[error("executeQuery has no argument '{0}'; tools/list shows those that there are")]
    Unknown(String),
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
    #[error(transparent)]
    Body(#[from] axum::Error),
    #[error("the result is not JSON: leave out presentation.format")]
    NoJson,
}

/// Arguments of getSchemas.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaArguments {
    #[serde(rename = "schemaNames")]
    names: Option<BTreeSet<String>>,
}

/// Arguments of a tool without any.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// Details of the wanted schemas by name. In place of an unknown one, a text says so.
fn schemas(schemas: &BTreeMap<Arc<str>, Arc<Schema>>, wanted: Option<BTreeSet<String>>) -> Value {
    let names = wanted.unwrap_or_else(|| schemas.keys().map(|name| name.to_string()).collect());
    let details = names.into_iter().map(|name| {
        let schema = schemas.get(&*name);
        let details =
            schema.map_or_else(|| "Schema not found".into(), |schema| application_view::details(schema));
        (name, details)
    });
    Value::Object(details.collect())
}

/// Arguments of executeQuery.
type Arguments<'a> = BTreeMap<String, &'a RawValue>;

/// Entries of an object, at most as many as a request may have parameters.
fn entries<'a>(object: &'a str, parameters_max: usize) -> Result<Arguments<'a>, ToolFault> {
    let commas = object.bytes().filter(|byte| *byte == b',').count();
    // Each entry but the first follows a comma; those in lists and texts are excluded only if there are
    // many.
    if commas >= parameters_max {
        millrace_query::flatten(object.as_bytes(), parameters_max)?;
    }
    Ok(serde_json::from_str(object)?)
}

/// Body of the request to `/search/` with these arguments of executeQuery.
fn query_body(arguments: Option<&RawValue>, parameters_max: usize) -> Result<Vec<u8>, ToolFault> {
    let example = r#"{"yql": "select * from sources * where true"}"#;
    let mut arguments = entries(argument_object(arguments, example)?, parameters_max)?;
    // Many assistants write null for arguments that they leave out. It is not to replace one of 'parameters'.
    arguments.retain(|_, given| given.get() != "null");
    let mut asked = match arguments.remove("parameters").map(RawValue::get) {
        None => Arguments::new(),
        Some(parameters) if parameters.starts_with('{') => entries(parameters, parameters_max)?,
        Some(_) => return Err(ToolFault::NoObject),
    };
    for (argument, parameter) in
        [("yql", "yql"), ("groupname", "streaming.groupname"), ("queryProfileName", "queryProfile")]
    {
        asked.extend(arguments.remove(argument).map(|value| (parameter.to_owned(), value)));
    }
    if let Some(unknown) = arguments.keys().next() {
        return Err(ToolFault::Unknown(unknown.clone()));
    }
    Ok(serde_json::to_vec(&asked)?)
}

/// Answer of `/search/` to a request with this body, and true if the query is refused.
/// Its memory is that of the message, `room`.
async fn query(
    node: &Arc<GatewayState>,
    body: Vec<u8>,
    room: &Arc<BudgetReservation>,
    caller: &Arc<RequestCaller>,
) -> Result<(String, bool), ToolFault> {
    let request = Request::post("/search/")
        .header(CONTENT_TYPE, "application/json")
        .extension(Arc::clone(room))
        .extension(Arc::clone(caller))
        .body(Body::from(body))?;
    let response = search_api::handle(State(Arc::clone(node)), request).await;
    let is_error = !response.status().is_success();
    // It lies in memory.
    let body = response.into_body().collect().await?.to_bytes();
    let answer: &RawValue = serde_json::from_slice(&body).map_err(|_| ToolFault::NoJson)?;
    Ok((answer.get().to_owned(), is_error))
}
