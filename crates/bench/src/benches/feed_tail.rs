//! Slowest acknowledged puts, at half of the node's maximum rate, while the tail is sealed, segments are
//! merged and logs roll. A put's time counts from the moment it was due, so time in the queue is included.
//!
//! The waits of a put are reported as well: of the client for a core, in the store's queue, and for its
//! commit. The rest of its time is that of sockets, parsing, and waiting for a core.
//!
//! The peer is a bare file to which pieces of the same size are appended, each followed by an fsync. Before
//! and after, it has the machine to itself, unlike any put: client, server and background share its cores. So
//! it is appended to meanwhile as well, by one thread that does nothing else: any write on this machine would
//! have its waits. A server that only reads and parses the same puts at the same rate shows the part of a
//! put's time without any store.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::feed::{IN_FLIGHT, row_bytes};
use super::{Benchmark, Settings};
use crate::clients::{HttpClients, PacedLatencies, Requests};
use crate::floor::BaselineServer;
use crate::limit::{append_durably, append_when_due};
use crate::measure::TimeSamples;
use crate::node::LocalNode;
use crate::puts::{PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "feed --tail",
    about: "latency of puts at half load while sealing and merging run, beside bare appends with fsync",
    run,
};

/// Duration at half load, in multiples of a case's time.
const TURNS: u32 = 12;
/// Duration for the server that stores nothing, in multiples of a case's time.
const FLOOR_TURNS: u32 = 4;
/// Number of bare appends alone, before and again after.
const APPENDS: u64 = 5000;
/// Rate of bare appends in the background: too low to be a load of their own.
const APPENDS_PER_SECOND: f64 = 500.0;
const RATIO_MAX: f64 = 3.0;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let (requests, bytes) = puts(PutBody::Vector)?;
    let (full, next) = clients.at_once(IN_FLIGHT, settings.time_per_case * 2, 0, &requests)?;
    let store = local.node().store();
    store.seal().map_err(Error::failed)?;

    let row_bytes = row_bytes(local.node(), full.times.len());
    let appends = || append_durably(directory.path(), (0..settings.sized(APPENDS)).map(|_| row_bytes));
    let mut alone = appends()?;
    let rate = full.rate() / 2.0;
    let (before, times_before) = (store.status(), store.write_times());
    let (half, meanwhile) = appending_meanwhile(directory.path(), row_bytes, APPENDS_PER_SECOND, || {
        clients.at_rate(rate, settings.time_per_case * TURNS, next, &requests)
    })?;
    let (status, times) = (store.status(), store.write_times());
    alone.merge(&appends()?);
    let parsed = parse_only(rate, settings, &requests)?;

    let case = format!("{rate:.0} puts/s, bodies of {bytes} bytes");
    let mut report = BenchReport::new(BENCH.name);
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let time = half.seen.times.quantile(share);
        let beside = |peer: &str, times: &TimeSamples| {
            Figure::new(&case, name, time, FigureUnit::Seconds).beside(peer, times.quantile(share))
        };
        let figure = beside("bare appends with fsync meanwhile", &meanwhile);
        report.push(if name == "p99.9" { figure.at_most(RATIO_MAX) } else { figure });
        report.push(beside("bare appends with fsync alone", &alone));
        report.push(beside("reading and parsing alone", &parsed.seen.times));
    }
    let waited = times.waited.percentile_since(&times_before.waited, 0.999).unwrap_or_default();
    let committed = times.committed.percentile_since(&times_before.committed, 0.999).unwrap_or_default();
    for (name, time) in [
        ("p99.9, until the client begins", half.late.quantile(0.999)),
        ("p99.9, waiting for its commit", waited.as_secs_f64()),
        ("p99.9, commit", committed.as_secs_f64()),
    ] {
        report.push(Figure::new(&case, name, time, FigureUnit::Seconds));
    }
    report.note(format!(
        "{} puts, {} appends of {row_bytes} bytes meanwhile and {} alone; {} seals, {} merges meanwhile; {} answers were 429",
        half.seen.times.len(),
        meanwhile.len(),
        alone.len(),
        status.seals - before.seals,
        status.merges - before.merges,
        half.seen.refused
    ));
    Ok(report)
}

/// Runs work, with concurrent appends to a bare file.
pub(super) fn appending_meanwhile(
    directory: &Path,
    size: usize,
    per_second: f64,
    work: impl FnOnce() -> Result<PacedLatencies, Error>,
) -> Result<(PacedLatencies, TimeSamples), Error> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let appends = scope.spawn(|| append_when_due(directory, size, per_second, &over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        let failed = |_| Err(Error::failed("the thread that appends ended before its time"));
        Ok((done?, appends.join().unwrap_or_else(failed)?))
    })
}

/// Sends the same puts at the same rate to a server that stores nothing.
fn parse_only(rate: f64, settings: &Settings, requests: &Requests) -> Result<PacedLatencies, Error> {
    let floor = BaselineServer::start()?;
    HttpClients::new(floor.url())?.at_rate(rate, settings.time_per_case * FLOOR_TURNS, 0, requests)
}
