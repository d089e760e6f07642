//! Batches of puts through `/feed/v1`, and their latency at half load while the store seals and merges.
//!
//! There are two limits: the same server stack, restricted to reading and parsing the same bodies
//! ([`BaselineServer`]), and bare appends of the same bytes, each followed by an fsync. Single puts of the
//! same documents are measured in the same run, since a batch should cost less of the processors for each
//! document.

use std::time::Duration;

use super::feed_tail::appending_meanwhile;
use super::{Benchmark, Settings};
use crate::clients::{ClientLatencies, HttpClients};
use crate::floor::BaselineServer;
use crate::limit::append_durably;
use crate::measure::{TimeSamples, process_time};
use crate::node::LocalNode;
use crate::puts::{BATCH, BatchGroups, PutBody, batches, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "bulk",
    about: "batches of 1,000 documents of 500 bytes, 8 in flight, beside parsing alone, bare appends, single puts",
    run,
};

pub(super) const TAIL: Benchmark = Benchmark {
    name: "bulk --tail",
    about: "latency of batches at half load while sealing and merging run, beside bare appends with fsync",
    run: tail,
};

/// Number of concurrent batches.
pub(super) const IN_FLIGHT: usize = 8;
/// Number of concurrent single puts.
const PUTS_IN_FLIGHT: usize = 64;
/// First number of single puts: their ids are not those of batches.
const FIRST_PUT: u64 = 1 << 40;
const ROUNDS: usize = 4;
const NODE_TURNS: u32 = 3;
/// Number of bare appends in each round.
const APPENDS: usize = 30;
const SHARE_MIN: f64 = 0.4;
const CHEAPER_MIN: f64 = 4.0;
/// Duration at half load, in multiples of a case's time.
const TAIL_TURNS: u32 = 12;
const RATIO_MAX: f64 = 3.0;
/// Maximum share of a commit in the change of generations, in seconds: a bound of a bucket of the histogram.
const ROLL_MAX: f64 = 5e-3;

/// Observations of batches, with the processor time that clients and server used.
#[derive(Default)]
pub(super) struct ObservedBatches {
    pub(super) seen: ClientLatencies,
    used: Duration,
}

impl ObservedBatches {
    /// Adds a round of requests from `first` on; returns the number of the next request.
    pub(super) fn round(
        &mut self,
        first: u64,
        ask: impl FnOnce(u64) -> Result<(ClientLatencies, u64), Error>,
    ) -> Result<u64, Error> {
        let before = process_time();
        let (seen, next) = ask(first)?;
        self.used += process_time().saturating_sub(before);
        self.seen.merge(&seen);
        Ok(next)
    }

    /// Documents for each second of a processor, given the documents of a request.
    pub(super) fn per_processor_second(&self, documents: u64) -> f64 {
        (self.seen.times.len() * documents) as f64 / self.used.as_secs_f64().max(1e-9)
    }
}

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let floor = BaselineServer::start()?;
    let (of_node, of_floor) = (HttpClients::new(local.url())?, HttpClients::new(floor.url())?);
    let (requests, bytes) = batches(PutBody::Line, BatchGroups::Many)?;
    let (single, _) = puts(PutBody::Line)?;
    let time = settings.time_per_case;
    let (mut node, mut parsing) = (ObservedBatches::default(), ObservedBatches::default());
    let mut alone = ObservedBatches::default();
    let mut appends = TimeSamples::new();
    let (mut next, mut next_put) = (0, FIRST_PUT);
    for _ in 0..ROUNDS {
        parsing.round(0, |first| of_floor.at_once(IN_FLIGHT, time, first, &requests))?;
        next = node.round(next, |first| of_node.at_once(IN_FLIGHT, time * NODE_TURNS, first, &requests))?;
        next_put = alone.round(next_put, |first| of_node.at_once(PUTS_IN_FLIGHT, time, first, &single))?;
        appends.merge(&append_durably(directory.path(), std::iter::repeat_n(bytes, APPENDS))?);
    }
    let documents = node.seen.times.len() * BATCH;
    local.check_documents(documents + alone.seen.times.len())?;
    let case = format!("{BATCH} documents of {} bytes, {IN_FLIGHT} batches in flight", bytes as u64 / BATCH);
    let rate = node.seen.rate() * BATCH as f64;
    let parsed = parsing.seen.rate() * BATCH as f64;
    let appended = BATCH as f64 / appends.median();
    let mut report = BenchReport::new(BENCH.name);
    let figure = |measure: &str| Figure::new(&case, measure, rate, FigureUnit::PerSecond("documents"));
    report.push(figure("rate").beside("reading and parsing alone", parsed));
    report.push(figure("rate").beside("appending the same bytes with fsync", appended));
    report.push(figure("rate").beside("the slower of both", parsed.min(appended)).at_least(SHARE_MIN));
    let cheap = node.per_processor_second(BATCH);
    report.push(
        Figure::new(&case, "for a processor second", cheap, FigureUnit::Count("documents"))
            .beside("single puts", alone.per_processor_second(1))
            .at_least(CHEAPER_MIN),
    );
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        report.push(Figure::new(&case, name, node.seen.times.quantile(share), FigureUnit::Seconds));
    }
    let status = local.node().store().status();
    report.note(format!(
        "{} seals, {} merges meanwhile; {} batches were answered 429 before they were taken",
        status.seals, status.merges, node.seen.refused
    ));
    Ok(report)
}

fn tail(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let (requests, bytes) = batches(PutBody::Line, BatchGroups::Many)?;
    // At first the tail takes batches faster than they are sealed.
    let time = settings.time_per_case * TAIL_TURNS / 2;
    let (_, next) = clients.at_once(IN_FLIGHT, time, 0, &requests)?;
    let (full, next) = clients.at_once(IN_FLIGHT, time, next, &requests)?;
    let store = local.node().store();
    store.seal().map_err(Error::failed)?;
    let rate = full.rate() / 2.0;
    let (before, times_before) = (store.status(), store.write_times());
    let (half, meanwhile) = appending_meanwhile(directory.path(), bytes, rate, || {
        clients.at_rate(rate, settings.time_per_case * TAIL_TURNS, next, &requests)
    })?;
    let status = store.status();
    let case = format!("{:.0} documents/s in batches of {BATCH}", rate * BATCH as f64);
    let times = &half.seen.times;
    let seconds =
        |name: &str, share: f64| Figure::new(&case, name, times.quantile(share), FigureUnit::Seconds);
    let mut report = BenchReport::new(TAIL.name);
    let peer = "bare appends of the same bytes meanwhile";
    report.push(seconds("p50", 0.5).beside(peer, meanwhile.median()));
    report.push(seconds("p99", 0.99).beside("p50", times.median()).at_most(RATIO_MAX));
    report.push(seconds("p99.9", 0.999).beside(peer, meanwhile.quantile(0.999)).at_most(RATIO_MAX));
    report.push(seconds("slowest", 1.0).beside(peer, meanwhile.slowest()));
    let rolled = store.write_times().rolled.percentile_since(&times_before.rolled, 1.0).unwrap_or_default();
    let of_roll = "slowest change of generations within a commit";
    report.push(Figure::new(&case, of_roll, rolled.as_secs_f64(), FigureUnit::Seconds).at_most(ROLL_MAX));
    report.note(format!(
        "{} batches, {} appends of {bytes} bytes meanwhile; {} seals, {} merges meanwhile; {} answers were 429",
        times.len(),
        meanwhile.len(),
        status.seals - before.seals,
        status.merges - before.merges,
        half.seen.refused
    ));
    Ok(report)
}
