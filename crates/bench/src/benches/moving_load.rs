//! Move of buckets while the source answers queries and accepts writes, at half of its capacity: the slowdown
//! of these, and the speed of the move. Source, target and clients share the cores.
//!
//! The capacity of the source follows from the processor time of an operation, on both sides and in the
//! background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use millrace_bucket::BucketId;
use millrace_client::OutgoingRequest;
use millrace_content::TransferThrottle;
use millrace_env::ThreadClass;

use super::moving::{BYTES, GROUPS, TEXT_BYTES, fill, move_as_fast_as};
use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::clients::{ClientLatencies, HttpClients, Requests};
use crate::engine::SearchEngine;
use crate::measure::process_time;
use crate::node::{LocalNode, cores};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "move --load",
    about: "buckets moved beside queries and writes at half capacity: their p99 beside that without movement",
    run,
};

/// Bits of each bucket.
const BITS: u8 = 4;
/// Divisor for the documents of `move`: this part is moved repeatedly.
const SHARE: u64 = 32;
/// Number of clients that determine the capacity of the source.
const CLIENTS: usize = 32;
/// Number of operations of which one is a write.
const WRITES: u64 = 10;
/// Number of different bodies of writes.
const BODIES: u64 = 1024;
/// Share of the rate of busy clients that is used to measure the cost of an operation.
const TRIAL: f64 = 0.25;
/// Share of the source's capacity.
const LOAD: f64 = 0.5;
/// Number of phases without and with movement, in turns: the source's own work, sealing and merging, affects
/// both.
const ROUNDS: u32 = 2;
/// Seconds of each phase, for each second of a case: long enough for the tail to be sealed in each.
const PHASE: u32 = 30;
const HARM_MAX: f64 = 1.2;
/// Interval at which transfers learn the latency of operations, as on nodes.
const OBSERVE: Duration = Duration::from_secs(1);

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let source = LocalNode::start(&directory.path().join("source"))?;
    let documents = settings.sized(BYTES / SHARE / TEXT_BYTES as u64);
    fill(source.node().store(), BITS, documents)?;
    let phase = settings.time_per_case * PHASE;
    let operations = LoadOperations::new(&source, documents)?;
    let (rate, next) = operations.capacity(phase)?;
    let rate = rate * LOAD;

    let throttle = Arc::new(TransferThrottle::new(None));
    let (mut without, mut with) = (LoadLatencies::default(), LoadLatencies::default());
    let (mut next, mut bytes) = (next, 0);
    for round in 0..ROUNDS {
        without.merge(&operations.at_rate(rate, phase, next, &throttle)?);
        let (over, place) = (AtomicBool::new(false), directory.path().join(format!("target{round}")));
        let (before, meanwhile) = (throttle.moved(), next + count(rate, phase));
        let (load, moved) = std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                // Transfer threads of a node do the same, and so do those that they start.
                ThreadClass::Background.enter();
                while !over.load(Ordering::Relaxed) {
                    move_all(&throttle, &source, &place)?;
                }
                Ok(())
            });
            let load = operations.at_rate(rate, phase, meanwhile, &throttle);
            // Later transfers do not disturb any operation.
            bytes += throttle.moved() - before;
            over.store(true, Ordering::Relaxed);
            let ended = |_| Err(Error::failed("the thread that moves ended before its time"));
            (load, mover.join().unwrap_or_else(ended))
        });
        moved?;
        with.merge(&load?);
        next = meanwhile + count(rate, phase);
    }

    let mut report = BenchReport::new(BENCH.name);
    let case = format!("{documents} documents, {rate:.0} operations a second");
    for (measure, with, without) in
        [("queries, p99", &with.queries, &without.queries), ("writes, p99", &with.writes, &without.writes)]
    {
        report.push(
            Figure::new(&case, measure, with.times.quantile(0.99), FigureUnit::Seconds)
                .beside("without movement", without.times.quantile(0.99))
                .at_most(HARM_MAX),
        );
    }
    let moved = bytes as f64 / with.queries.lasted.as_secs_f64();
    report.push(Figure::new(&case, "moved meanwhile", moved, FigureUnit::BytesPerSecond));
    report.note("the time of an operation counts from when it was due");
    let refused = [&with, &without].map(|load| load.writes.refused);
    if refused != [0, 0] {
        report.note(format!("{} answers were 429 with movement, {} without", refused[0], refused[1]));
    }
    Ok(report)
}

/// Number of operations at this rate.
fn count(rate: f64, how_long: Duration) -> u64 {
    (rate * how_long.as_secs_f64()) as u64
}

/// Moves all buckets into a new store, once.
fn move_all(
    throttle: &Arc<TransferThrottle>,
    source: &LocalNode,
    place: &std::path::Path,
) -> Result<(), Error> {
    let buckets: Vec<BucketId> = (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).collect();
    let target = SearchEngine::open(place, None)?;
    move_as_fast_as(throttle, source.node().store(), target.store(), &buckets)?;
    drop(target);
    std::fs::remove_dir_all(place).map_err(Error::file(place))
}

/// Operations of clients: queries of a group, with occasional writes.
struct LoadOperations<'a> {
    node: &'a LocalNode,
    clients: HttpClients,
    queries: Requests,
    writes: Requests,
}

/// Observations of the clients.
#[derive(Default)]
struct LoadLatencies {
    queries: ClientLatencies,
    writes: ClientLatencies,
}

impl LoadLatencies {
    fn merge(&mut self, other: &LoadLatencies) {
        self.queries.merge(&other.queries);
        self.writes.merge(&other.writes);
    }
}

impl<'a> LoadOperations<'a> {
    /// Written documents existed before.
    fn new(node: &'a LocalNode, documents: u64) -> Result<Self, Error> {
        let mut maker = DocumentMaker::new()?;
        let bodies: Vec<Bytes> = (0..BODIES).map(|_| Bytes::from(maker.mail_json(TEXT_BYTES))).collect();
        let yql = format!("select * from mail where text contains \"{}\"", application::word(30));
        let query = move |number: u64| {
            let group = application::group_name(number * 13 % GROUPS);
            let body = serde_json::json!({ "yql": yql, "streaming.groupname": group }).to_string();
            OutgoingRequest::new(Method::POST, "/search/").body("application/json", body)
        };
        let write = move |number: u64| {
            let (name, body) = (number % documents, bodies[(number % BODIES) as usize].clone());
            OutgoingRequest::new(Method::POST, application::path(name % GROUPS, name))
                .body("application/json", body)
        };
        Ok(LoadOperations {
            node,
            clients: HttpClients::new(node.url())?,
            queries: Arc::new(query),
            writes: Arc::new(write),
        })
    }

    /// Operations per second that would use all cores, including sealing and merging, and the number of the
    /// next one.
    fn capacity(&self, how_long: Duration) -> Result<(f64, u64), Error> {
        let (queries, writes) = (Arc::clone(&self.queries), Arc::clone(&self.writes));
        let mixed: Requests = Arc::new(move |number| match number.is_multiple_of(WRITES) {
            true => writes(number),
            false => queries(number),
        });
        let (busy, next) = self.clients.at_once(CLIENTS, how_long / 2, 0, &mixed)?;
        // Requests that arrive one by one cost more than those of clients that are never idle.
        let before = process_time();
        let load = self.at_rate(busy.rate() * TRIAL, how_long / 2, next, &TransferThrottle::new(None))?;
        let spent = process_time().saturating_sub(before).as_secs_f64();
        let operations = load.queries.times.len() + load.writes.times.len();
        Ok((operations as f64 * cores() as f64 / spent, next + operations))
    }

    /// Runs clients at a rate for this time; transfers learn the latency of the answers.
    fn at_rate(
        &self,
        rate: f64,
        how_long: Duration,
        first: u64,
        throttle: &TransferThrottle,
    ) -> Result<LoadLatencies, Error> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(OBSERVE);
                    throttle.observe(&self.node.node().take_slowest());
                }
            });
            let of_writes = rate / WRITES as f64;
            let writes = scope.spawn(move || self.clients.at_rate(of_writes, how_long, first, &self.writes));
            let queries = self.clients.at_rate(rate - of_writes, how_long, first, &self.queries);
            let ended = |_| Err(Error::failed("the thread that writes ended before its time"));
            let writes = writes.join().unwrap_or_else(ended);
            over.store(true, Ordering::Relaxed);
            Ok(LoadLatencies { queries: queries?.seen, writes: writes?.seen })
        })
    }
}
