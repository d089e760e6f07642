//! The slowest acknowledged puts, at half the rate that the node can take, while the tail is sealed, segments are merged and logs
//! roll. A put's time counts from the moment it was due, so waiting in line is not left out.
//!
//! What a put waited for is told as well: how long in the store's queue and for its commit. What is left of its time is that of sockets,
//! parsing, and waiting for a core, on both sides.
//!
//! The peer is a bare file to which pieces of the same size are appended, each followed by an fsync, before and after.

use super::feed::{IN_FLIGHT, row_bytes};
use super::{Bench, Settings};
use crate::clients::Clients;
use crate::limit::append_durably;
use crate::measure::Samples;
use crate::node::LocalNode;
use crate::puts::{Body, puts};
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "feed --tail",
    about: "latency of puts at half load while sealing and merging run, beside bare appends with fsync",
    run,
};

/// At half load for so many times a case's time.
const TURNS: u32 = 12;
/// Bare appends, before and again after.
const APPENDS: u64 = 1500;
const RATIO_MAX: f64 = 3.0;

fn run(settings: &Settings) -> Result<Report, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = Clients::new(local.url())?;
    let (requests, bytes) = puts(Body::Vector)?;
    let (full, next) = clients.at_once(IN_FLIGHT, settings.time_per_case * 2, 0, &requests)?;
    let store = local.node().store();
    store.seal().map_err(Error::failed)?;

    let row_bytes = row_bytes(local.node(), full.times.len());
    let appends = || append_durably(directory.path(), (0..settings.sized(APPENDS)).map(|_| row_bytes));
    let mut bare: Samples = appends()?;
    let rate = full.rate() / 2.0;
    let (before, times_before) = (store.status(), store.write_times());
    let half = clients.at_rate(rate, settings.time_per_case * TURNS, next, &requests)?;
    bare.merge(&appends()?);
    let (status, times) = (store.status(), store.write_times());

    let case = format!("{rate:.0} puts/s, bodies of {bytes} bytes");
    let mut report = Report::new(BENCH.name);
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let figure = Figure::new(&case, name, half.times.quantile(share), Unit::Seconds)
            .beside("bare appends with fsync", bare.quantile(share));
        report.push(if name == "p99.9" { figure.at_most(RATIO_MAX) } else { figure });
    }
    let waited = times.waited.since(&times_before.waited).quantile(0.999);
    let committed = times.committed.since(&times_before.committed).quantile(0.999);
    for (name, time) in [("p99.9, waiting for its commit", waited), ("p99.9, commit", committed)] {
        report.push(Figure::new(&case, name, time.as_secs_f64(), Unit::Seconds));
    }
    report.note(format!(
        "{} puts and {} appends of {row_bytes} bytes; {} seals, {} merges meanwhile; {} answers were 429",
        half.times.len(),
        bare.len(),
        status.seals - before.seals,
        status.merges - before.merges,
        half.refused
    ));
    Ok(report)
}
