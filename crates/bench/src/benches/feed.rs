//! Durable feeding through `/document/v1/`: 64 concurrent puts, the clients on the same cores as the server,
//! with sealing and merging as they occur.
//!
//! If others use the cores as well, rates say little. So the total processor time per document is reported
//! too: of the client, the server, the commit, sealing and merging.
//!
//! The limit is the same server stack, restricted to reading and parsing the same bodies
//! ([`BaselineServer`]), with the same clients, in turns. With a slow disk there is another one: all
//! concurrent puts can share one fsync, but no put can be answered before it.

use std::time::Duration;

use super::{Benchmark, Settings};
use crate::clients::{ClientLatencies, HttpClients};
use crate::floor::BaselineServer;
use crate::limit::append_durably;
use crate::measure::{TimeSamples, process_time};
use crate::node::LocalNode;
use crate::puts::{PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const VECTORS: Benchmark = Benchmark {
    name: "feed",
    about: "puts of 384 floats as JSON, durable, 64 in flight, beside a server that only parses them",
    run: |settings| run(settings, VECTORS.name, PutBody::Vector),
};

pub(super) const SMALL: Benchmark = Benchmark {
    name: "feed --small",
    about: "the same with documents of 300 bytes",
    run: |settings| run(settings, SMALL.name, PutBody::Small),
};

/// Number of concurrent puts.
pub(super) const IN_FLIGHT: usize = 64;
const SHARE_MIN: f64 = 0.6;
/// Number of rounds. The node seals several times in a round; the floor never waits.
const ROUNDS: usize = 6;
const NODE_TURNS: u32 = 3;
/// Number of bare appends in each round.
const APPENDS: usize = 50;
/// Maximum share of refused puts. A node that cannot keep up refuses puts; that should be rare.
const REFUSED_MAX: f64 = 0.01;

fn run(settings: &Settings, name: &'static str, body: PutBody) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let floor = BaselineServer::start()?;
    let (of_node, of_floor) = (HttpClients::new(local.url())?, HttpClients::new(floor.url())?);
    let (requests, bytes) = puts(body)?;
    let (mut node, mut parsing) = (ClientLatencies::default(), ClientLatencies::default());
    let mut next = 0;
    let mut appends = TimeSamples::new();
    let (mut of_puts, mut of_parsing) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let before = process_time();
        let (seen, _) = of_floor.at_once(IN_FLIGHT, settings.time_per_case, 0, &requests)?;
        parsing.merge(&seen);
        of_parsing += process_time().saturating_sub(before);
        let before = process_time();
        let (seen, after) =
            of_node.at_once(IN_FLIGHT, settings.time_per_case * NODE_TURNS, next, &requests)?;
        node.merge(&seen);
        of_puts += process_time().saturating_sub(before);
        next = after;
        let batch = IN_FLIGHT * row_bytes(local.node(), node.times.len());
        appends.merge(&append_durably(directory.path(), std::iter::repeat_n(batch, APPENDS))?);
    }
    let status = local.node().store().status();
    local.check_documents(node.times.len())?;
    let case = format!("bodies of {bytes} bytes");
    let mut report = BenchReport::new(name);
    report.push(
        Figure::new(&case, "rate", node.rate(), FigureUnit::PerSecond("documents"))
            .beside("reading and parsing alone", parsing.rate())
            .at_least(SHARE_MIN),
    );
    let each = |time: Duration, seen: &ClientLatencies| time.as_secs_f64() / seen.times.len().max(1) as f64;
    report.push(
        Figure::new(&case, "processor time", each(of_puts, &node), FigureUnit::Seconds)
            .beside("reading and parsing alone", each(of_parsing, &parsing)),
    );
    let shared_syncs = IN_FLIGHT as f64 / appends.median();
    report.push(
        Figure::new(&case, "rate", node.rate(), FigureUnit::PerSecond("documents"))
            .beside("64 for each bare append with fsync", shared_syncs),
    );
    let volume = |rate: f64| rate * bytes as f64;
    report.push(
        Figure::new(&case, "volume", volume(node.rate()), FigureUnit::BytesPerSecond)
            .beside("reading and parsing alone", volume(parsing.rate())),
    );
    report.push(Figure::new(&case, "p50", node.times.median(), FigureUnit::Seconds));
    report.push(Figure::new(&case, "p99", node.times.quantile(0.99), FigureUnit::Seconds));
    let refused = node.refused as f64 / node.times.len().max(1) as f64;
    report.push(Figure::new(&case, "answered 429", refused, FigureUnit::Count("a put")).at_most(REFUSED_MAX));
    report.note(format!("{} seals, {} merges meanwhile", status.seals, status.merges));
    Ok(report)
}

/// Bytes of a document in the store.
pub(super) fn row_bytes(node: &millrace_node::Node, documents: u64) -> usize {
    let status = node.store().status();
    ((status.segment_bytes + status.tail_bytes) / documents.max(1)) as usize
}
