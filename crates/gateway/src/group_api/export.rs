//! Export of a group: its documents as JSON lines, or those of one type as a table, as a feed takes them.
//!
//! An export copies no page of the visits that it makes: the lines of documents are parts of it, with its
//! share of the memory of answers. A table counts for itself.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_table::{TableColumns, TableWriter};
use serde_json::Value;

use super::GroupCall;
use crate::GatewayState;
use crate::document_api::{self, feed};
use crate::edge::StreamCredential;
use crate::http::{counted_page, form_encode};

/// Size of a page, in bytes, from which on its lines are found by a thread of the pool.
const POOLED_BYTES_MIN: usize = 64 << 10;

/// Format of an export.
enum ExportFormat {
    /// JSON lines.
    Lines,
    /// A table of the documents of one type.
    Table(Box<TableWriter>),
}

/// Streams the documents of the caller's only group, in all content clusters; with a parameter `type`, those
/// of one document type.
///
/// # Errors
/// No application is deployed; the document type does not exist, or is missing for a table.
pub(super) async fn answer(call: GroupCall, group: &DocumentGroup) -> Result<Response, Error> {
    let caller = Arc::new(call.caller.within(group.clone())?);
    let document_type = call.parameters.get("type").map(str::to_owned);
    let is_table = feed::accepts_table(&call.request_headers);
    let GroupCall { node, headers, credential, .. } = call;
    let deployment = node.deployments().current()?;
    let kind = document_type.as_deref().map(|name| deployment.kind(name)).transpose()?;
    let format = match (is_table, kind) {
        (false, _) => ExportFormat::Lines,
        (true, Some(kind)) => {
            let table = TableColumns::new(&kind.schema.document_type, |_| true).and_then(TableWriter::new);
            let table = table.map_err(|error| Error::BadRequest(error.to_string()))?;
            ExportFormat::Table(Box::new(table))
        }
        (true, None) => {
            let reason = "is missing: a table has the documents of one type";
            return Err(Error::parameter("type", reason.to_owned()));
        }
    };
    let mut clusters = node.content_clusters().into_iter();
    let Some(cluster) = clusters.next() else { return Ok(Response::new(Body::empty())) };
    let mut export = GroupExport {
        node,
        caller,
        headers,
        credential,
        document_type,
        cluster,
        continuation: None,
        field_set: None,
        format: Some(format),
    };
    // A refusal is answered before the export begins.
    let first = export.visit().await?;
    if first.status() != StatusCode::OK {
        return Ok(first);
    }
    let (sender, body) = Channel::<Bytes, io::Error>::new(1);
    tokio::spawn(async move {
        let mut sender = sender;
        if let Err(ExportEnd::Failed(reason)) = export.run(first, clusters, &mut sender).await {
            tracing::warn!(reason, "an export of a group ends early; the client sees a broken answer");
            sender.abort(io::Error::other(reason));
        }
    });
    let mut response = Response::new(Body::new(body));
    let content_type =
        HeaderValue::from_static(if is_table { feed::ARROW } else { "application/jsonl;charset=utf-8" });
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// Ids of the documents of the caller's only group, in all content clusters.
///
/// # Errors
/// No application is deployed; the documents cannot be read.
pub(super) async fn ids(
    node: Arc<GatewayState>,
    caller: Arc<RequestCaller>,
    headers: HeaderMap,
    credential: Option<StreamCredential>,
) -> Result<HashSet<String>, Error> {
    let mut clusters = node.content_clusters().into_iter();
    let mut ids = HashSet::new();
    let Some(cluster) = clusters.next() else { return Ok(ids) };
    let mut export = GroupExport {
        node,
        caller,
        headers,
        credential,
        document_type: None,
        cluster,
        continuation: None,
        field_set: Some("[id]"),
        format: Some(ExportFormat::Lines),
    };
    let first = export.visit().await?;
    let (mut sender, mut body) = Channel::<Bytes, io::Error>::new(1);
    let run = async move {
        let ended = export.run(first, clusters, &mut sender).await;
        if let Err(ExportEnd::Failed(reason)) = &ended {
            sender.abort(io::Error::other(reason.clone()));
        }
    };
    let collect = async {
        // Each frame has whole lines.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Error::Unsettled(error.to_string()))?;
            for line in frame.data_ref().map_or(&[][..], |data| data).split(|byte| *byte == b'\n') {
                let line: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
                ids.extend(line["put"].as_str().map(str::to_owned));
            }
        }
        Ok(ids)
    };
    tokio::join!(run, collect).1
}

/// Reason why an export ends before its end.
enum ExportEnd {
    /// The client has left.
    Left,
    /// The documents cannot be read.
    Failed(String),
}

struct GroupExport {
    node: Arc<GatewayState>,
    caller: Arc<RequestCaller>,
    headers: HeaderMap,
    /// Credential of the request that the export answers.
    credential: Option<StreamCredential>,
    /// Type of the wanted documents.
    document_type: Option<String>,
    cluster: String,
    /// Start of the next visit.
    continuation: Option<String>,
    /// Set of the fields; `None`: the fields of the document.
    field_set: Option<&'static str>,
    /// `None` while documents are written.
    format: Option<ExportFormat>,
}

fn table_error(error: millrace_table::Error) -> Error {
    Error::Internal(error.to_string())
}

impl GroupExport {
    /// Sends the documents of visit after visit.
    async fn run(
        &mut self,
        first: Response,
        mut clusters: impl Iterator<Item = String>,
        sender: &mut Sender<Bytes, io::Error>,
    ) -> Result<(), ExportEnd> {
        let mut visit = first;
        loop {
            if visit.status() != StatusCode::OK {
                return Err(ExportEnd::Failed(format!("a visit was answered with {}", visit.status())));
            }
            let mut lines = ExportLines::default();
            let mut body = visit.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| ExportEnd::Failed(error.to_string()))?;
                let Ok(page) = frame.into_data() else { continue };
                let found = self.format_page(&mut lines, page).await;
                let documents = found.map_err(|error| ExportEnd::Failed(error.message()))?;
                for part in documents {
                    sender.send_data(part).await.map_err(|_| ExportEnd::Left)?;
                }
            }
            if let Some(reason) = lines.failure {
                return Err(ExportEnd::Failed(reason));
            }
            match (lines.token, lines.is_complete) {
                (_, true) => match clusters.next() {
                    Some(cluster) => (self.cluster, self.continuation) = (cluster, None),
                    None => return self.finish(sender).await,
                },
                (Some(token), false) if self.continuation.as_ref() != Some(&token) => {
                    self.continuation = Some(token);
                }
                _ => return Err(ExportEnd::Failed("a visit ended without a place to continue".to_owned())),
            }
            visit = self.visit().await.map_err(|error| ExportEnd::Failed(error.message()))?;
        }
    }

    /// Finds the documents of a page, in the format of the export. Large pages are work for a thread of the
    /// pool.
    async fn format_page(&mut self, lines: &mut ExportLines, page: Bytes) -> Result<Vec<Bytes>, Error> {
        if page.len() < POOLED_BYTES_MIN {
            let documents = lines.push(page);
            return self.format_lines(documents).await;
        }
        let mut taken = std::mem::take(lines);
        let push = move || {
            let documents = taken.push(page);
            (taken, documents)
        };
        let (pushed, documents) = self.node.pool().run(push).await?;
        *lines = pushed;
        self.format_lines(documents).await
    }

    /// Documents in the format of the export, made by a thread of the pool.
    async fn format_lines(&mut self, lines: Vec<Bytes>) -> Result<Vec<Bytes>, Error> {
        let mut table = match self.format.take() {
            Some(ExportFormat::Table(table)) if !lines.is_empty() => table,
            format => {
                self.format = format;
                return Ok(lines);
            }
        };
        let write = move || {
            let mut batches = Vec::with_capacity(lines.len());
            for part in lines {
                let documents = table.columns().documents(&part);
                batches.push(documents.and_then(|documents| table.batch(&documents)));
            }
            (table, batches)
        };
        let (table, batches) = self.node.pool().run(write).await?;
        self.format = Some(ExportFormat::Table(table));
        let mut counted = Vec::with_capacity(batches.len());
        for batch in batches {
            let batch = batch.map_err(table_error)?;
            let share = self.node.budget().count_answer(batch.len());
            counted.push(counted_page(batch, share));
        }
        Ok(counted)
    }

    /// Sends the end of a table.
    async fn finish(&mut self, sender: &mut Sender<Bytes, io::Error>) -> Result<(), ExportEnd> {
        let Some(ExportFormat::Table(table)) = self.format.take() else { return Ok(()) };
        let end = table.finish().map_err(|error| ExportEnd::Failed(error.to_string()))?;
        sender.send_data(Bytes::from(end)).await.map_err(|_| ExportEnd::Left)
    }

    /// Visits the group, from the continuation on.
    async fn visit(&self) -> Result<Response, Error> {
        let continuation = self.continuation.as_deref().map(|token| ("continuation", token));
        let parameters = [("cluster", self.cluster.as_str()), ("stream", "true")];
        let selection = self.document_type.as_deref().map(|name| ("selection", name));
        // A table is made of the cells as they are.
        let tensors =
            matches!(self.format, Some(ExportFormat::Table(_))).then_some(("format.tensors", "hex"));
        let field_set = self.field_set.map(|name| ("fieldSet", name));
        let optional = selection.into_iter().chain(tensors).chain(field_set).chain(continuation);
        let query = form_encode(parameters.into_iter().chain(optional));
        let request = Request::get(format!("/document/v1/?{query}"));
        let request = request.extension(Arc::clone(&self.caller)).body(Body::empty());
        let mut request = request.map_err(|error| Error::Internal(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        if let Some(credential) = &self.credential {
            request.extensions_mut().insert(credential.clone());
        }
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/jsonl"));
        Ok(document_api::handle(State(Arc::clone(&self.node)), request).await)
    }
}

/// Lines of a visit: documents are passed on, the others show its state.
#[derive(Default)]
struct ExportLines {
    pending: Vec<u8>,
    token: Option<String>,
    is_complete: bool,
    failure: Option<String>,
}

impl ExportLines {
    /// Adds bytes, and returns the lines of documents that are complete. They are parts of the bytes, which
    /// have a share of the memory of answers.
    fn push(&mut self, mut bytes: Bytes) -> Vec<Bytes> {
        let mut documents = Vec::new();
        if !self.pending.is_empty() {
            let Some(end) = line_end(&bytes) else {
                self.pending.extend_from_slice(&bytes);
                return documents;
            };
            let mut line = std::mem::take(&mut self.pending);
            line.extend_from_slice(&bytes.split_to(end));
            match is_document(&line) {
                true => documents.push(Bytes::from(line)),
                false => self.control(&line),
            }
        }
        // Lines of documents that follow each other are one part.
        let (mut from, mut at) = (0, 0);
        while let Some(length) = line_end(&bytes[at..]) {
            let end = at + length;
            if !is_document(&bytes[at..end]) {
                documents.extend((from < at).then(|| bytes.slice(from..at)));
                self.control(&bytes[at..end]);
                from = end;
            }
            at = end;
        }
        documents.extend((from < at).then(|| bytes.slice(from..at)));
        self.pending.extend_from_slice(&bytes[at..]);
        documents
    }

    fn control(&mut self, line: &[u8]) {
        let value: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        if let Some(continuation) = value.get("continuation") {
            self.token = continuation["token"].as_str().map(str::to_owned);
            self.is_complete = self.token.is_none();
        }
        if let Some(text) = value.pointer("/message/text").and_then(Value::as_str) {
            self.failure = Some(text.to_owned());
        }
    }
}

/// End of the first line, if that is complete.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

fn is_document(line: &[u8]) -> bool {
    line.starts_with(b"{\"put\"")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::{BudgetBounds, RequestBudget};

    const PAGE: &str =
        "{\"put\":\"a\"}\n{\"put\":\"b\"}\n{\"continuation\":{\"token\":\"t\"}}\n{\"put\":\"c\"}\n";

    #[test]
    fn documents_are_found_however_the_bytes_come() {
        for piece in [1, 3, 14, 1000] {
            let mut lines = ExportLines::default();
            let parts =
                PAGE.as_bytes().chunks(piece).flat_map(|piece| lines.push(Bytes::copy_from_slice(piece)));
            let documents = parts.collect::<Vec<_>>().concat();
            assert_eq!(documents, b"{\"put\":\"a\"}\n{\"put\":\"b\"}\n{\"put\":\"c\"}\n", "{piece}");
            assert_eq!((lines.token.as_deref(), lines.is_complete), (Some("t"), false));
            assert!(lines.pending.is_empty() && lines.failure.is_none());
        }
        let mut lines = ExportLines::default();
        assert_eq!(lines.push(Bytes::from(PAGE)).len(), 2, "those that follow each other are one part");
    }

    #[test]
    fn a_page_is_counted_until_its_documents_are_sent() {
        let bounds = BudgetBounds {
            bodies: 0,
            work: 0,
            answers: 1000,
            wait_max: Duration::ZERO,
            return_memory: || {},
        };
        let budget = RequestBudget::new(bounds);
        let page = counted_page(PAGE.as_bytes().to_vec(), budget.count_answer(PAGE.len()));
        let mut documents = ExportLines::default().push(page);
        assert_eq!(documents.len(), 2);
        documents.pop();
        assert_eq!(budget.of_answers().reserved, PAGE.len());
        drop(documents);
        assert_eq!(budget.of_answers().reserved, 0);
    }
}
