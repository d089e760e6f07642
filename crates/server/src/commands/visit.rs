//! `millrace visit`.

use std::process::ExitCode;

use hyper::header::ACCEPT;
use hyper::{Method, StatusCode};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::Value;

use crate::cli::{NodeArguments, VisitArguments};
use crate::error::Error;
use crate::output::print_all;

/// Writes all documents of all clusters, or of one.
pub async fn run(node: &NodeArguments, arguments: &VisitArguments) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.url, HttpProtocol::Http1)?.patient(arguments.timeout);
    if let Some(document_type) = &arguments.document_type {
        expect_type(&client, document_type).await?;
    }
    let clusters = match &arguments.cluster {
        Some(cluster) => vec![Some(cluster.clone())],
        // A path with a document type is specific enough.
        None if of_type(arguments).is_some() => vec![None],
        None => clusters(&client).await?.into_iter().map(Some).collect(),
    };
    for cluster in clusters {
        visit(&client, arguments, cluster.as_deref()).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a document type that does not exist, with a list of the existing ones; a selection would silently
/// find nothing. The path of any document tests for it.
async fn expect_type(client: &NodeClient, document_type: &str) -> Result<(), Error> {
    let path = format!("/document/v1/any/{}/docid/any", millrace_client::encoded(document_type));
    let answer = client.send(OutgoingRequest::new(Method::GET, path).parameter("fieldSet", "[id]")).await?;
    match answer.status {
        // A document that is missing has no message, a type that does not exist has one.
        StatusCode::NOT_FOUND if answer.json().get("message").is_none() => Ok(()),
        _ => answer.checked().map(drop).map_err(Error::from),
    }
}

/// Content clusters of the node, taken from its refusal of an unknown one.
async fn clusters(client: &NodeClient) -> Result<Vec<String>, Error> {
    let request = OutgoingRequest::new(Method::GET, "/document/v1/").parameter("cluster", "*");
    let message = client.send(request).await?.message();
    let names = message.split_once("only ").map_or("", |(_, names)| names);
    let names: Vec<String> = names.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
    match names.is_empty() {
        true => Err(Error::Argument(message)),
        false => Ok(names),
    }
}

async fn visit(client: &NodeClient, arguments: &VisitArguments, cluster: Option<&str>) -> Result<(), Error> {
    let selection = selection(arguments);
    let mut continuation: Option<String> = None;
    loop {
        let mut request = OutgoingRequest::new(Method::GET, path(arguments))
            .header(ACCEPT, "application/jsonl")
            .parameter("stream", "true")
            .parameter("includeRemoves", if arguments.removes { "true" } else { "false" });
        let parameters = [
            ("cluster", cluster),
            ("selection", selection.as_deref()),
            ("fieldSet", arguments.fields.as_deref()),
            ("continuation", continuation.as_deref()),
        ];
        for (name, value) in parameters {
            if let Some(value) = value {
                request = request.parameter(name, value);
            }
        }
        let mut lines = VisitLines::default();
        client.stream(request, |bytes| lines.push(bytes)).await?;
        if let Some(message) = lines.failure {
            return Err(Error::Argument(message));
        }
        if lines.complete {
            return Ok(());
        }
        continuation = match lines.token {
            Some(token) if continuation.as_ref() != Some(&token) => Some(token),
            _ => return Err(Error::Argument("the visit ended before its end; try again".to_owned())),
        };
    }
}

/// Namespace and document type, if both are given: a path has both or none.
fn of_type(arguments: &VisitArguments) -> Option<(&str, &str)> {
    arguments.namespace.as_deref().zip(arguments.document_type.as_deref())
}

fn path(arguments: &VisitArguments) -> String {
    let encode = |text: &str| millrace_client::encoded(text);
    let Some((namespace, document_type)) = of_type(arguments) else { return "/document/v1/".to_owned() };
    let start = format!("/document/v1/{}/{}", encode(namespace), encode(document_type));
    match &arguments.group {
        Some(group) => format!("{start}/group/{}/", encode(group)),
        None => format!("{start}/docid/"),
    }
}

/// Selection of the documents, in addition to the path.
fn selection(arguments: &VisitArguments) -> Option<String> {
    let own = &arguments.selection;
    if of_type(arguments).is_some() {
        return own.clone();
    }
    let parts = [
        ("namespace", &arguments.namespace),
        ("type", &arguments.document_type),
        ("group", &arguments.group),
    ];
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let is =
        |(part, value): (&str, &Option<String>)| Some(format!("id.{part} == {}", quoted(value.as_deref()?)));
    let parts: Vec<String> = parts.into_iter().filter_map(is).collect();
    match (own, parts.is_empty()) {
        (own, true) => own.clone(),
        (None, false) => Some(parts.join(" and ")),
        (Some(own), false) => Some(format!("({own}) and {}", parts.join(" and "))),
    }
}

/// Lines of a streamed visit: documents go to standard output, the others show the progress.
#[derive(Default)]
struct VisitLines {
    pending: Vec<u8>,
    token: Option<String>,
    complete: bool,
    failure: Option<String>,
}

impl VisitLines {
    fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.pending.split_off(end + 1);
        let whole = std::mem::replace(&mut self.pending, rest);
        let mut documents = Vec::new();
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b"{\"put\"") || line.starts_with(b"{\"remove\"") {
                documents.extend_from_slice(line);
            } else {
                self.control(line);
            }
        }
        print_all(&documents);
    }

    fn control(&mut self, line: &[u8]) {
        let value: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        if let Some(continuation) = value.get("continuation") {
            self.token = continuation["token"].as_str().map(str::to_owned);
            self.complete = self.token.is_none();
        }
        if let Some(text) = value.pointer("/message/text").and_then(Value::as_str) {
            self.failure = Some(text.to_owned());
        }
    }
}
