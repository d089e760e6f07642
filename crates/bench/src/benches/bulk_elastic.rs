//! Batches through Elasticsearch's `_bulk`, beside the same documents through `/feed/v1`.

use std::sync::Arc;

use hyper::Method;
use millrace_client::OutgoingRequest;

use super::bulk::{IN_FLIGHT, ObservedBatches};
use super::{Benchmark, Settings};
use crate::clients::{HttpClients, Requests};
use crate::node::LocalNode;
use crate::puts::{BATCH, BatchGroups, PutBody, batches, bodies};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "bulk --elastic",
    about: "batches of 1,000 documents of 500 bytes through Elasticsearch's _bulk, beside /feed/v1",
    run,
};

const ROUNDS: usize = 4;
const SHARE_MIN: f64 = 0.8;
/// First number of the documents with ids.
const FIRST_WITH_ID: u64 = 1 << 40;

/// Bulks of one batch each, one for each number; with ids, or with those that the server makes.
fn bulks(with_ids: bool) -> Result<Requests, Error> {
    let documents: Vec<Vec<u8>> = bodies(PutBody::Line)?.iter().map(|body| document_of(body)).collect();
    let request = move |number: u64| {
        let mut lines = Vec::new();
        for number in number * BATCH..(number + 1) * BATCH {
            match with_ids {
                true => {
                    lines.extend_from_slice(format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n").as_bytes())
                }
                false => lines.extend_from_slice(b"{\"create\":{}}\n"),
            }
            lines.extend_from_slice(&documents[number as usize % documents.len()]);
            lines.push(b'\n');
        }
        OutgoingRequest::new(Method::POST, "/elastic/bench/_bulk").body("application/x-ndjson", lines)
    };
    Ok(Arc::new(request))
}

/// The fields of a put.
pub(super) fn document_of(put: &[u8]) -> Vec<u8> {
    const BEFORE: &[u8] = b"{\"fields\":";
    put.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(b"}")).unwrap_or(put).to_vec()
}

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let (puts, bytes) = batches(PutBody::Line, BatchGroups::Many)?;
    let (new, with_ids) = (bulks(false)?, bulks(true)?);
    let [mut feed, mut created, mut indexed] = [(); 3].map(|()| ObservedBatches::default());
    let (mut next_put, mut next_new, mut next_with_id) = (0, 0, FIRST_WITH_ID / BATCH);
    let time = settings.time_per_case;
    for _ in 0..ROUNDS {
        next_put = feed.round(next_put, |first| clients.at_once(IN_FLIGHT, time, first, &puts))?;
        next_new = created.round(next_new, |first| clients.at_once(IN_FLIGHT, time, first, &new))?;
        let round = |first| clients.at_once(IN_FLIGHT, time, first, &with_ids);
        next_with_id = indexed.round(next_with_id, round)?;
    }
    let answered: u64 = [&feed, &created, &indexed].iter().map(|way| way.seen.times.len() * BATCH).sum();
    local.check_documents(answered)?;
    let mut report = BenchReport::new(BENCH.name);
    let peer = "/feed/v1";
    for (case, way) in [("ids of the server", &created), ("ids of the client", &indexed)] {
        let case = format!("{BATCH} documents of {} bytes, {case}", bytes as u64 / BATCH);
        report.push(
            Figure::new(&case, "rate", way.seen.rate() * BATCH as f64, FigureUnit::PerSecond("documents"))
                .beside(peer, feed.seen.rate() * BATCH as f64)
                .at_least(SHARE_MIN),
        );
        let cheap = way.per_processor_second(BATCH);
        report.push(
            Figure::new(&case, "for a processor second", cheap, FigureUnit::Count("documents"))
                .beside(peer, feed.per_processor_second(BATCH)),
        );
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            report.push(
                Figure::new(&case, name, way.seen.times.quantile(share), FigureUnit::Seconds)
                    .beside(peer, feed.seen.times.quantile(share)),
            );
        }
    }
    report.note(format!("{} and {} bulks were answered 429", created.seen.refused, indexed.seen.refused));
    Ok(report)
}
