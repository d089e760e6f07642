//! Visits: reading many documents, in the order in which they are stored.

mod pages;
mod pass;
mod sliced;
mod stream;

use std::time::{Duration, Instant};

use axum::response::Response;
use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};
use millrace_node::Error;
use millrace_node::cluster::ReadFence;
use millrace_node::metrics::CountedMetric;
use serde_json::Value;

use self::pages::{PageSource, VisitPageFormat, VisitPages};
use super::DocumentCall;
use super::format::DocumentFormat;
use super::path::DocumentScope;
use crate::http;

pub(super) use self::pass::{VisitPass, WholeGroup};
pub(super) use self::sliced::forwarded;

/// Number of documents read from the store at a time.
const PAGE: usize = 256;

/// Maximum number of documents in an answer that is not streamed.
const PAGE_DOCUMENTS_MAX: usize = 1024;

/// Size at which an answer that is not streamed ends, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Time before its timeout at which a visit ends, so that its answer still arrives.
const MARGIN: Duration = Duration::from_millis(500);

/// `GET` of many documents; with `lines`, a stream has the form of JSON lines. `fence` is the condition by
/// which this node has the documents, unless they are on several.
pub(super) async fn documents(
    call: &DocumentCall,
    documents: DocumentScope,
    fence: ReadFence,
    lines: bool,
) -> Result<Response, Error> {
    let pass = VisitPass::new(call, documents)?;
    let shape = DocumentFormat::read(call, &pass.deployment)?;
    let fields = shape.stored_fields(&pass.deployment, &pass.document_types());
    let pass = pass.with_fields(fields);
    call.parameters.number("concurrency", 1, 1000)?;
    let wanted = call.parameters.number("wantedDocumentCount", 1, u64::MAX)?;
    let wanted = wanted.map_or(PAGE_DOCUMENTS_MAX, |wanted| {
        usize::try_from(wanted).unwrap_or(PAGE_DOCUMENTS_MAX).min(PAGE_DOCUMENTS_MAX)
    });
    call.node.metrics().count(CountedMetric::Visits);
    let deadline = Instant::now() + call.time_left().saturating_sub(MARGIN);
    let streams = call.parameters.flag("stream")?.unwrap_or(false);
    let form = if streams && lines { VisitPageFormat::Lines } else { VisitPageFormat::List };
    let source = PageSource::new(call, &pass, fence, streams);
    let pages = VisitPages::new(call, pass, shape, form, deadline, source);
    if streams {
        return Ok(stream::answer(call, pages, deadline));
    }
    let (answer, count) = collect(pages, wanted, deadline, &call.path).await?;
    call.node.metrics().add(CountedMetric::DocumentsVisited, count as u64);
    Ok(http::answer(StatusCode::OK, "application/json;charset=utf-8", answer))
}

/// Returns the whole answer of a visit that is not streamed, and the number of documents in it.
async fn collect(
    pages: VisitPages,
    wanted: usize,
    deadline: Instant,
    path: &str,
) -> Result<(Vec<u8>, usize), Error> {
    let mut answer = head(path);
    let mut continuation = pages.start();
    let mut count = 0;
    loop {
        let page = pages.next(continuation, wanted - count, None).await?;
        if count > 0 && page.documents > 0 {
            answer.push(b',');
        }
        answer.extend_from_slice(&page.bytes);
        count += page.documents;
        continuation = page.next;
        let full = count >= wanted || answer.len() > ANSWER_BYTES_MAX || Instant::now() >= deadline;
        if continuation.is_none() || full {
            break;
        }
    }
    tail(&mut answer, count, pages.continuation(continuation).as_deref(), None);
    Ok((answer, count))
}

fn head(path: &str) -> Vec<u8> {
    format!("{{\"pathId\":{},\"documents\":[", Value::from(path)).into_bytes()
}

/// Adds what comes after the documents: their number, the place to continue, and the reason if the visit ends
/// with a failure.
fn tail(answer: &mut Vec<u8>, count: usize, continuation: Option<&str>, failure: Option<&str>) {
    answer.extend_from_slice(format!("],\"documentCount\":{count}").as_bytes());
    for (name, text) in [("continuation", continuation), ("message", failure)] {
        if let Some(text) = text {
            answer.extend_from_slice(format!(",\"{name}\":{}", Value::from(text)).as_bytes());
        }
    }
    answer.push(b'}');
}

/// True if the client prefers JSON lines.
pub(super) fn accepts_lines(headers: &HeaderMap) -> bool {
    let (mut lines, mut other) = (0.0_f32, 0.0_f32);
    for value in headers.get_all(ACCEPT) {
        for offer in value.to_str().unwrap_or("").split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let media = parts.next().unwrap_or("");
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
            match media {
                "application/jsonl" => lines = quality,
                _ => other = other.max(quality),
            }
        }
    }
    lines > 0.0 && lines >= other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_its_place_and_its_failure() {
        let table = [
            (None, None, r#"{"pathId":"/p","documents":[],"documentCount":3}"#),
            (
                Some("g0.ff"),
                None,
                r#"{"pathId":"/p","documents":[],"documentCount":3,"continuation":"g0.ff"}"#,
            ),
            (
                None,
                Some("a \"b\""),
                r#"{"pathId":"/p","documents":[],"documentCount":3,"message":"a \"b\""}"#,
            ),
            (
                Some("2."),
                Some("late"),
                r#"{"pathId":"/p","documents":[],"documentCount":3,"continuation":"2.","message":"late"}"#,
            ),
        ];
        for (continuation, failure, expected) in table {
            let mut answer = head("/p");
            tail(&mut answer, 3, continuation, failure);
            assert_eq!(String::from_utf8_lossy(&answer), expected);
        }
    }
}
