//! `millrace get`, `put`, `update` and `remove`.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use hyper::{Method, StatusCode};
use millrace_client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest, document_path};
use millrace_document::{DocumentGroup, DocumentId};
use serde_json::{Value, json};

use crate::cli::{GetArguments, GroupArguments, NodeArguments, NodeTimeout, RemoveArguments, WriteArguments};
use crate::commands::feed::{IGNORED, WITHOUT_GROUP};
use crate::error::Error;
use crate::output::{CommandOutput, note};

/// Shows a document. The exit status is 1 if it does not exist.
pub async fn get(
    node: &NodeArguments,
    arguments: &GetArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let mut request = OutgoingRequest::new(Method::GET, document_path(&arguments.id)?);
    if let Some(fields) = &arguments.fields {
        request = request.parameter("fieldSet", fields);
    }
    let answer = client(node, &arguments.within, &arguments.node_timeout)?.send(request).await?;
    if answer.status == StatusCode::NOT_FOUND {
        let value = json!({ "id": arguments.id, "found": false });
        output.print(|| format!("{} does not exist", arguments.id), &value);
        return Ok(ExitCode::FAILURE);
    }
    let mut document = answer.checked()?.json();
    if let Some(document) = document.as_object_mut() {
        // The other fields keep their order.
        document.shift_remove("pathId");
    }
    output.print(|| pretty(&document), &document);
    Ok(ExitCode::SUCCESS)
}

/// Writes a document.
pub async fn put(
    node: &NodeArguments,
    arguments: &WriteArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    write(node, Method::POST, arguments, output).await
}

/// Changes fields of a document.
pub async fn update(
    node: &NodeArguments,
    arguments: &WriteArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    write(node, Method::PUT, arguments, output).await
}

async fn write(
    node: &NodeArguments,
    method: Method,
    arguments: &WriteArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let body = match (&arguments.json, &arguments.file) {
        (Some(json), _) => json.clone().into_bytes(),
        (None, Some(path)) => read(path)?,
        (None, None) => return Err(Error::Argument("give the document's JSON, or --file".to_owned())),
    };
    let mut request =
        OutgoingRequest::new(method.clone(), document_path(&arguments.id)?).body("application/json", body);
    if let Some(condition) = &arguments.condition {
        request = request.parameter("condition", condition);
    }
    if arguments.create {
        request = request.parameter("create", "true");
    }
    let answer = client(node, &arguments.within, &arguments.node_timeout)?.send(request).await?.checked()?;
    let id = &arguments.id;
    if !done(&answer, id, output) {
        return Ok(ExitCode::SUCCESS);
    }
    let without_group = DocumentId::parse(id).is_ok_and(|id| matches!(id.group(), DocumentGroup::None));
    if method == Method::POST && without_group && arguments.within.group.is_none() {
        note(format_args!("note: {WITHOUT_GROUP}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a document, and says if there was none: a slip in an id should be seen.
pub async fn remove(
    node: &NodeArguments,
    arguments: &RemoveArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = client(node, &arguments.within, &arguments.node_timeout)?;
    let path = document_path(&arguments.id)?;
    let look = OutgoingRequest::new(Method::GET, path.clone()).parameter("fieldSet", "[id]");
    // Who may write need not be allowed to read: then it is not known.
    let is_absent = client.send(look).await?.status == StatusCode::NOT_FOUND;
    let mut request = OutgoingRequest::new(Method::DELETE, path);
    if let Some(condition) = &arguments.condition {
        request = request.parameter("condition", condition);
    }
    let answer = client.send(request).await?.checked()?;
    if done(&answer, &arguments.id, output) && is_absent {
        note(format_args!("note: {} did not exist", arguments.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports if the operation was done, or ignored by the node.
fn done(answer: &ClientAnswer, id: &str, output: &CommandOutput) -> bool {
    let ignored = answer.is_ignored();
    let value = json!({ "id": id, "ignored": ignored });
    output
        .print(|| if ignored { format!("ignored: {id}: {IGNORED}") } else { format!("done: {id}") }, &value);
    !ignored
}

fn client(
    node: &NodeArguments,
    within: &GroupArguments,
    node_timeout: &NodeTimeout,
) -> Result<NodeClient, Error> {
    Ok(NodeClient::new(&within.url(node), HttpProtocol::Http1)?.with_timeout(node_timeout.timeout))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(fail)?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(fail)
}

fn pretty(value: &Value) -> String {
    // A value that was parsed from JSON can be written as JSON.
    serde_json::to_string_pretty(value).unwrap_or_default()
}
