//! Small requests beside batches, one client with many batches beside others, and the memory of many large
//! bodies.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use millrace_client::OutgoingRequest;
use millrace_gateway::RequestLimits;
use millrace_node::Node;

use super::bulk::IN_FLIGHT;
use super::fair::{MAIL_BYTES, SMALL, SMALL_GROUPS, cheap_queries};
use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::clients::{HttpClients, Requests};
use crate::load::load;
use crate::measure::TimeSamples;
use crate::node::{self, LocalNode};
use crate::process::ServerProcess;
use crate::puts::{BATCH, BatchGroups, PutBody, PutLines, batches, puts};
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit};

pub(super) const BESIDE: Benchmark = Benchmark {
    name: "bulk --beside",
    about: "small queries and single puts while batches run at full rate, beside the same alone",
    run: beside,
};

pub(super) const FAIR: Benchmark = Benchmark {
    name: "bulk --fair",
    about: "batches of seven clients with one in flight each beside a client with 64, beside the seven alone",
    run: fair,
};

pub(super) const MEMORY: Benchmark = Benchmark {
    name: "bulk --memory",
    about: "memory of a server that gets 64 bodies of 64 MB at once, beside its budget for bodies",
    run: memory,
};

/// Requests a second of the queries, and of the puts.
const RATE: f64 = 100.0;
/// Number of times the time of a case for which a case runs: percentiles need samples.
const TIMES: u32 = 6;
/// Time that batches run before others are measured.
const LEAD: Duration = Duration::from_millis(500);
const LONGER_MAX: f64 = 2.0;
/// Seconds that a request may take longer in any case.
const MORE_MAX: f64 = 0.005;
/// First numbers of the puts alone, and beside batches.
const FIRST_PUTS: [u64; 2] = [1 << 40, 1 << 41];
/// Batches in flight of the client that has many.
const MANY: usize = 64;
/// Number of the other clients.
const OTHERS: usize = 7;
/// Bodies at once, and bytes of each.
const BODIES: usize = 64;
const BODY_BYTES: u64 = 64 << 20;
/// Memory in bytes beside the budget and that of an idle server.
const MEMORY_MORE: usize = 64 << 20;
/// Interval between looks at the memory of the server.
const LOOK: Duration = Duration::from_millis(20);

fn beside(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let mut maker = DocumentMaker::new()?;
    let ids = (1..=SMALL_GROUPS).flat_map(|group| (0..SMALL).map(move |name| (group, name)));
    load(local.node().store(), ids.map(|(group, name)| maker.mail(group, name, MAIL_BYTES)))?;
    let (clients, bulk) = (HttpClients::new(local.url())?, HttpClients::new(local.url())?);
    let (requests, _) = batches(PutBody::Line, BatchGroups::Many)?;
    let (single, _) = puts(PutBody::Small)?;
    let how_long = settings.time_per_case * TIMES;
    let small = |first: u64| -> Result<[TimeSamples; 2], Error> {
        std::thread::scope(|scope| {
            let putting = scope.spawn(|| clients.at_rate(RATE, how_long, first, &single));
            let queries = clients.at_rate(RATE, how_long, 0, &cheap_queries())?;
            let failed = |_| Err(Error::failed("a thread of the benchmark ended before its time"));
            let putting = putting.join().unwrap_or_else(failed)?;
            Ok([queries.seen.times, putting.seen.times])
        })
    };
    let alone = small(FIRST_PUTS[0])?;
    let (seen, running) = std::thread::scope(|scope| {
        let running = scope.spawn(|| bulk.at_once(IN_FLIGHT, how_long + 2 * LEAD, 0, &requests));
        std::thread::sleep(LEAD);
        let seen = small(FIRST_PUTS[1]);
        let failed = |_| Err(Error::failed("a thread of the benchmark ended before its time"));
        (seen, running.join().unwrap_or_else(failed))
    });
    let (seen, (running, _)) = (seen?, running?);
    let mut report = BenchReport::new(BESIDE.name);
    let case = format!("{:.0} documents/s in batches", running.rate() * BATCH as f64);
    for ((name, times), alone) in ["query p99", "put p99"].into_iter().zip(&seen).zip(&alone) {
        let peer = alone.quantile(0.99);
        let limit = (LONGER_MAX * peer).max(peer + MORE_MAX);
        report.push(
            Figure::new(&case, name, times.quantile(0.99), FigureUnit::Seconds)
                .beside("alone", peer)
                .with_goal(FigureGoal::AtMost(limit)),
        );
    }
    Ok(report)
}

fn fair(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let (requests, _) = batches(PutBody::Line, BatchGroups::Many)?;
    // Without credentials, clients are told apart by their addresses.
    let addresses: Vec<Ipv4Addr> = (2..).map(|host| Ipv4Addr::new(127, 0, 0, host)).take(OTHERS).collect();
    let others = HttpClients::from_addresses(local.url(), &addresses)?;
    let many = HttpClients::new(local.url())?;
    let how_long = settings.time_per_case * TIMES;
    let (alone, _) = others.at_once(OTHERS, how_long, FIRST_PUTS[0] / BATCH, &requests)?;
    let (seen, running) = std::thread::scope(|scope| {
        let running = scope.spawn(|| many.at_once(MANY, how_long + 2 * LEAD, 0, &requests));
        std::thread::sleep(LEAD);
        let seen = others.at_once(OTHERS, how_long, FIRST_PUTS[1] / BATCH, &requests);
        let failed = |_| Err(Error::failed("a thread of the benchmark ended before its time"));
        (seen, running.join().unwrap_or_else(failed))
    });
    let ((seen, _), (running, _)) = (seen?, running?);
    let mut report = BenchReport::new(FAIR.name);
    let case = format!("{OTHERS} clients beside {MANY} batches of another");
    report.push(
        Figure::new(&case, "p99", seen.times.quantile(0.99), FigureUnit::Seconds)
            .beside("the seven alone", alone.times.quantile(0.99))
            .at_most(LONGER_MAX),
    );
    let rate = |rate: f64| rate * BATCH as f64;
    report.push(
        Figure::new(&case, "rate", rate(seen.rate()), FigureUnit::PerSecond("documents"))
            .beside("the seven alone", rate(alone.rate())),
    );
    report.note(format!(
        "the client with {MANY}: {:.0} documents/s; answered 429: {} of its requests, {} of the others'",
        rate(running.rate()),
        running.refused,
        seen.refused
    ));
    Ok(report)
}

fn memory(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let node = Node::open(node::settings(directory.path()).node).map_err(Error::failed)?;
    node.deploy(application::application()?).map_err(Error::failed)?;
    node.close();
    // The server opens the same directory.
    drop(node);
    let process = ServerProcess::start(settings.program()?, directory.path())?;
    let idle = process.resident_bytes()?;
    let body = stream_of(settings.sized(BODY_BYTES))?;
    let bytes = body.len();
    let clients = HttpClients::new(process.url())?;
    let requests: Requests = Arc::new(move |_| {
        OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", body.clone())
    });
    let (over, peak) = (AtomicBool::new(false), AtomicU64::new(idle));
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(process.resident_bytes().unwrap_or_default(), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        let answered = clients.at_once(BODIES, Duration::ZERO, 0, &requests);
        over.store(true, Ordering::Relaxed);
        answered
    });
    let (seen, _) = answered?;
    let limits = RequestLimits::default();
    let budget = limits.bodies_bytes_max + limits.work_bytes_max + MEMORY_MORE;
    let case = format!("{BODIES} bodies of {bytes} bytes at once");
    let mut report = BenchReport::new(MEMORY.name);
    let more = peak.load(Ordering::Relaxed).saturating_sub(idle) as f64;
    report.push(
        Figure::new(&case, "above idle", more, FigureUnit::Bytes)
            .beside("budgets of bodies and work, and 64 MB", budget as f64)
            .at_most(1.0),
    );
    let answered = seen.times.len() as f64;
    report
        .push(Figure::new(&case, "answered", answered, FigureUnit::Count("bodies")).at_least(BODIES as f64));
    report.note(format!("idle {idle} bytes; {} answers were 429, and tried again", seen.refused));
    Ok(report)
}

/// A stream of puts of at least this many bytes.
fn stream_of(bytes: u64) -> Result<Bytes, Error> {
    let lines = PutLines::new(PutBody::Line, BatchGroups::Many)?;
    let mut stream = Vec::new();
    let mut number = 0;
    while (stream.len() as u64) < bytes {
        lines.write(number, &mut stream);
        number += 1;
    }
    Ok(stream.into())
}
