//! `millrace visit`.

use std::io::{self, BufWriter, IsTerminal as _};
use std::process::ExitCode;

use arrow_ipc::reader::StreamReader;
use hyper::header::ACCEPT;
use hyper::{Method, StatusCode};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_document::FieldSet;
use millrace_table::TableColumns;
use serde_json::Value;

use crate::cli::{NodeArguments, TableKind, VisitArguments};
use crate::error::Error;
use crate::output::{OutputStream, TableBytes};
use crate::table_file::TableOutput;

/// Writes all documents of all clusters, or of one.
pub async fn run(node: &NodeArguments, arguments: &VisitArguments) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.url, HttpProtocol::Http1)?.with_timeout(arguments.timeout);
    if let Some(document_type) = &arguments.document_type {
        expect_type(&client, document_type).await?;
    }
    let clusters = match &arguments.cluster {
        Some(cluster) => vec![Some(cluster.clone())],
        // A path with a document type is specific enough.
        None if of_type(arguments).is_some() => vec![None],
        None => clusters(&client).await?.into_iter().map(Some).collect(),
    };
    let mut output = match arguments.table {
        None => VisitOutput::Lines(OutputStream::open()),
        Some(kind) => {
            if io::stdout().is_terminal() {
                let reason =
                    "a table is binary: redirect it to a file, as in millrace visit … > notes.parquet";
                return Err(Error::Argument(reason.to_owned()));
            }
            VisitOutput::Table(Box::new(VisitedTable::new(&client, arguments, kind).await?))
        }
    };
    for cluster in clusters {
        visit(&client, arguments, cluster.as_deref(), &mut output).await?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Destination of the documents.
enum VisitOutput {
    /// JSON lines on standard output.
    Lines(OutputStream),
    Table(Box<VisitedTable>),
}

impl VisitOutput {
    /// Writes lines with a document each.
    fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        match self {
            VisitOutput::Lines(output) => output.write(lines),
            VisitOutput::Table(table) => table.write(lines)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            VisitOutput::Lines(_) => Ok(()),
            VisitOutput::Table(table) => table.output.finish(),
        }
    }
}

/// A table of documents on standard output.
struct VisitedTable {
    columns: TableColumns,
    output: TableOutput<BufWriter<TableBytes>>,
}

impl VisitedTable {
    /// Asks the node for the columns of the document type.
    async fn new(client: &NodeClient, arguments: &VisitArguments, kind: TableKind) -> Result<Self, Error> {
        let document_type = arguments.document_type.as_deref().unwrap_or_default();
        let request = OutgoingRequest::new(Method::GET, "/feed/v1").parameter("type", document_type);
        let table = client.send(request).await?.checked()?.body;
        let wrong = |reason: String| Error::Argument(format!("the columns of {document_type}: {reason}"));
        let table = StreamReader::try_new(&table[..], None).map_err(|error| wrong(error.to_string()))?;
        let shown = shown_fields(arguments.fields.as_deref(), document_type)?;
        let columns = TableColumns::of_schema(&table.schema(), |field| {
            shown.as_ref().is_none_or(|shown| shown.iter().any(|name| name == field))
        });
        let columns = columns.map_err(|error| wrong(error.to_string()))?;
        let output = match kind {
            TableKind::Arrow => TableOutput::arrow(BufWriter::new(TableBytes), columns.schema())?,
            TableKind::Parquet => TableOutput::parquet(BufWriter::new(TableBytes), columns.schema())?,
        };
        Ok(VisitedTable { columns, output })
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        let batch = self.columns.documents(lines).and_then(|documents| self.columns.batch(&documents));
        self.output.write(&batch.map_err(|error| Error::Argument(error.to_string()))?)
    }
}

/// Fields that are shown; `None` for all.
fn shown_fields(field_set: Option<&str>, document_type: &str) -> Result<Option<Vec<String>>, Error> {
    match field_set
        .map(str::parse::<FieldSet>)
        .transpose()
        .map_err(|error| Error::Argument(error.to_string()))?
    {
        None | Some(FieldSet::All | FieldSet::Document) => Ok(None),
        Some(FieldSet::Id | FieldSet::None) => Ok(Some(Vec::new())),
        Some(FieldSet::Fields { document_type: of, fields }) if of == document_type => Ok(Some(fields)),
        Some(FieldSet::Fields { document_type: of, .. }) => {
            Err(Error::Argument(format!("--fields has fields of {of}, and --type is {document_type}")))
        }
    }
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

async fn visit(
    client: &NodeClient,
    arguments: &VisitArguments,
    cluster: Option<&str>,
    output: &mut VisitOutput,
) -> Result<(), Error> {
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
            // A table is made of the cells as they are.
            ("format.tensors", arguments.table.map(|_| "hex")),
        ];
        for (name, value) in parameters {
            if let Some(value) = value {
                request = request.parameter(name, value);
            }
        }
        let mut lines = VisitLines::default();
        let mut written = Ok(());
        client
            .stream(request, |bytes| {
                let documents = lines.push(bytes);
                if written.is_ok() && !documents.is_empty() {
                    written = output.write(&documents);
                }
            })
            .await?;
        written?;
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

/// Lines of a streamed visit: documents are passed on, the others show the progress.
#[derive(Default)]
struct VisitLines {
    pending: Vec<u8>,
    token: Option<String>,
    complete: bool,
    failure: Option<String>,
}

impl VisitLines {
    /// Adds bytes, and returns the lines of documents that are complete.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
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
        documents
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
