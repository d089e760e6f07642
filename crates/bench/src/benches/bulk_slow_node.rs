//! Bulks of logs to three nodes of which one is slow: whole to a partition that is picked by load, whole to
//! one that is picked by chance, and spread over all partitions.
//!
//! One fault is a disk whose syncs take longer, the other a process that is stopped most of the time. A
//! routing value leaves the node no choice of a partition: one for each bulk is a choice by chance, and one
//! for each document spreads a bulk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::{ClientAnswer, OutgoingRequest};
use serde_json::json;
use tempfile::TempDir;

use super::bulk::IN_FLIGHT;
use super::bulk_elastic::document_of;
use super::{Benchmark, Settings};
use crate::clients::{ClientLatencies, Requests};
use crate::cluster::{LocalCluster, NO_ETCD};
use crate::puts::{BATCH, PutBody, bodies};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "bulk --slow-node",
    about: "bulks of logs to three nodes, one of which is slow, picked by load, beside by chance and spread over 12 partitions",
    run,
};

const NODES: usize = 3;
const REPLICAS: usize = 2;
const PARTITIONS: usize = 12;
const ROUNDS: usize = 3;
/// Time of a case in each round, in multiples of a case's time: two turns of a stopped node.
const TURNS: u32 = 8;
/// Time by which syncs of the slow disk take longer.
const DELAY: Duration = Duration::from_millis(100);
/// Times for which a node is stopped, and then runs.
const STOPPED: Duration = Duration::from_secs(3);
const RUNNING: Duration = Duration::from_secs(1);
/// Interval between checks whether a case is over.
const TICK: Duration = Duration::from_millis(20);
/// Maximum time for a cluster to take requests, or to come to rest.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Metric that the node counts which answers the requests.
const IGNORED: &str = "millrace_logs_documents_ignored";
const SPREAD_MIN: f64 = 2.4;
const CHANCE_MIN: f64 = 1.0;
const P99_MAX: f64 = 2.0;
const REFUSED_MAX: f64 = 10.0;

/// Partitions that the documents of a bulk go to.
#[derive(Debug, Clone, Copy)]
enum BulkDistribution {
    /// The partition that the server picks.
    ByLoad,
    /// One partition, by a number.
    ByChance,
    /// All partitions.
    Spread,
}

const PLACES: [BulkDistribution; 3] =
    [BulkDistribution::ByLoad, BulkDistribution::ByChance, BulkDistribution::Spread];

/// Lines of the bulk with a number.
fn lines(places: BulkDistribution, number: u64, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut lines = Vec::new();
    for document in number * BATCH..(number + 1) * BATCH {
        let action = match places {
            BulkDistribution::ByLoad => "{\"create\":{}}\n".to_owned(),
            BulkDistribution::ByChance => format!("{{\"create\":{{\"routing\":\"{number}\"}}}}\n"),
            BulkDistribution::Spread => format!("{{\"create\":{{\"routing\":\"{document}\"}}}}\n"),
        };
        lines.extend_from_slice(action.as_bytes());
        lines.extend_from_slice(&documents[document as usize % documents.len()]);
        lines.push(b'\n');
    }
    lines
}

/// Bulks of one batch each, one for each number.
fn bulks(places: BulkDistribution, documents: &Arc<Vec<Vec<u8>>>) -> Requests {
    let documents = Arc::clone(documents);
    Arc::new(move |number| {
        let stream = match places {
            BulkDistribution::ByLoad => "logs-picked",
            BulkDistribution::ByChance | BulkDistribution::Spread => "logs-routed",
        };
        OutgoingRequest::new(Method::POST, format!("/elastic/{stream}/_bulk"))
            .parameter("filter_path", "errors,items.*.error.type")
            .body("application/x-ndjson", lines(places, number, &documents))
    })
}

/// True if a bulk, or an item of one, was refused and may be sent again.
fn is_refused(answer: &ClientAnswer) -> Result<bool, Error> {
    const PASSING: [&str; 2] = ["es_rejected_execution_exception", "unavailable_shards_exception"];
    let text = String::from_utf8_lossy(&answer.body);
    match answer.status.as_u16() {
        429 | 503 => Ok(true),
        200 if text.contains("\"errors\":false") => Ok(false),
        200 if PASSING.iter().any(|kind| text.contains(kind)) => Ok(true),
        status => Err(Error::failed(format!("a bulk was answered {status}: {text}"))),
    }
}

/// Makes the templates of the data streams: slots of one partition, and one slot of all.
fn put_templates(cluster: &LocalCluster) -> Result<(), Error> {
    for (name, routing_size) in [("logs-picked", 1), ("logs-routed", PARTITIONS)] {
        let template = json!({
            "index_patterns": [name], "data_stream": {}, "priority": 500,
            "template": { "settings": {
                "index.mode": "logsdb", "index.number_of_shards": PARTITIONS,
                "index.number_of_routing_size": routing_size,
            } },
        });
        put(cluster, name, &template)?;
    }
    let probe = json!({
        "index_patterns": ["logs-probe"], "data_stream": {}, "priority": 500,
        "template": {
            "settings": { "index.mode": "logsdb" }, "mappings": { "properties": { "n": { "type": "long" } } },
        },
    });
    put(cluster, "logs-probe", &probe)
}

fn put(cluster: &LocalCluster, name: &str, template: &serde_json::Value) -> Result<(), Error> {
    let request = OutgoingRequest::new(Method::PUT, format!("/elastic/_index_template/{name}"));
    let body = template.to_string().into_bytes();
    cluster.clients(0).ask(request.body("application/json", body)).map(drop)
}

/// A node that answers neither the clients nor the requests that others forward: those answer for all
/// partitions, and are not the subject.
fn victim(cluster: &LocalCluster) -> Result<usize, Error> {
    cluster.until(SETTLE_TIMEOUT, "take templates", |cluster| put_templates(cluster).is_ok())?;
    let probe = OutgoingRequest::new(Method::POST, "/elastic/logs-probe/_doc");
    cluster.clients(0).ask(probe.body("application/json", br#"{"n":"no number"}"#.as_slice()))?;
    for node in 1..NODES {
        let answer = cluster.clients(node).ask(OutgoingRequest::new(Method::GET, "/metrics"))?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let mut counts = text.lines().filter(|line| line.starts_with(IGNORED));
        let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
        if counts.all(|line| count(line).is_some_and(|count| count < 1.0)) {
            return Ok(node);
        }
    }
    Err(Error::failed("all nodes say that they answer the requests of these interfaces"))
}

/// A cluster with a node whose syncs take longer, which answers no requests; `None`: etcd is not installed.
fn with_slow_disk(settings: &Settings) -> Result<Option<(TempDir, LocalCluster)>, Error> {
    for slow in 1..NODES {
        let directory = settings.workplace()?;
        let program = settings.program()?;
        let slow_disk = Some((slow, DELAY));
        let started = LocalCluster::start_with(program, directory.path(), (NODES, REPLICAS), slow_disk)?;
        let Some(cluster) = started else { return Ok(None) };
        // The slow one may be the first that answers no requests, or the other, if both do not.
        if victim(&cluster)? == slow {
            return Ok(Some((directory, cluster)));
        }
    }
    Err(Error::failed("the node with the slow disk always answered the requests; run this once more"))
}

/// Observations of the rounds of a case.
#[derive(Default)]
struct CaseRounds {
    all: ClientLatencies,
    rates: Vec<f64>,
}

impl CaseRounds {
    fn add(&mut self, seen: &ClientLatencies) {
        self.rates.push(seen.rate() * BATCH as f64);
        self.all.merge(seen);
    }

    /// Median of the documents per second of the rounds.
    fn rate(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }

    /// Refusals for each hundred requests.
    fn refused(&self) -> f64 {
        let requests = self.all.refused + self.all.times.len();
        100.0 * self.all.refused as f64 / (requests as f64).max(1.0)
    }
}

/// Stops a node most of the time until `is_over`; it runs in the end.
fn stop_in_turns(cluster: &LocalCluster, node: usize, is_over: &AtomicBool) -> Result<(), Error> {
    let mut is_paused = false;
    while !is_over.load(Ordering::Relaxed) {
        is_paused = !is_paused;
        cluster.pause(node, is_paused)?;
        let until = Instant::now() + if is_paused { STOPPED } else { RUNNING };
        while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
    }
    cluster.pause(node, false)
}

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let directory = settings.workplace()?;
    let program = settings.program()?;
    let Some(sound) = LocalCluster::start(program, directory.path(), NODES, REPLICAS)? else {
        report.note(NO_ETCD);
        return Ok(report);
    };
    let stopped = victim(&sound)?;
    let Some((_slow_directory, slow)) = with_slow_disk(settings)? else {
        report.note(NO_ETCD);
        return Ok(report);
    };
    let documents: Vec<Vec<u8>> = bodies(PutBody::Line)?.iter().map(|body| document_of(body)).collect();
    let documents = Arc::new(documents);
    let requests = PLACES.map(|places| bulks(places, &documents));
    let time = settings.time_per_case * TURNS;
    let mut next = 0;
    let mut measure = |cluster: &LocalCluster, requests: &Requests, rounds: &mut CaseRounds| {
        let clients = cluster.clients(0);
        let (seen, following) = clients.at_once_until_taken(IN_FLIGHT, time, next, requests, is_refused)?;
        next = following;
        rounds.add(&seen);
        Ok::<(), Error>(())
    };
    let mut without = CaseRounds::default();
    let [mut with_slow, mut with_stopped] = [(); 2].map(|()| PLACES.map(|_| CaseRounds::default()));
    // The first bulks make the partitions.
    for cluster in [&sound, &slow] {
        requests.iter().try_for_each(|requests| measure(cluster, requests, &mut CaseRounds::default()))?;
    }
    for _ in 0..ROUNDS {
        measure(&sound, &requests[0], &mut without)?;
        for (requests, rounds) in requests.iter().zip(&mut with_slow) {
            measure(&slow, requests, rounds)?;
        }
        for (requests, rounds) in requests.iter().zip(&mut with_stopped) {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let stopping = scope.spawn(|| stop_in_turns(&sound, stopped, &is_over));
                let measured = measure(&sound, requests, rounds);
                is_over.store(true, Ordering::Relaxed);
                let failed = |_| Err(Error::failed("the thread that stops a node ended before its time"));
                stopping.join().unwrap_or_else(failed).and(measured)
            })?;
            sound.until(SETTLE_TIMEOUT, "come to rest", |cluster| cluster.is_ideal(NODES))?;
        }
    }
    for (case, rounds) in [
        (format!("syncs {} ms longer", DELAY.as_millis()), &with_slow),
        (format!("stopped {} s of {}", STOPPED.as_secs(), (STOPPED + RUNNING).as_secs()), &with_stopped),
    ] {
        report_case(&mut report, &case, rounds, &without);
    }
    report.note("rates are medians of three rounds; all requests go to one node; etcd, nodes and clients share the cores");
    Ok(report)
}

/// Reports the bulks by their places while a node has a fault, beside those without it.
fn report_case(
    report: &mut BenchReport,
    case: &str,
    [by_load, by_chance, spread]: &[CaseRounds; 3],
    without: &CaseRounds,
) {
    let rate = || Figure::new(case, "rate", by_load.rate(), FigureUnit::PerSecond("documents"));
    report.push(rate().beside("spread over 12 partitions", spread.rate()).at_least(SPREAD_MIN));
    report.push(rate().beside("picked by chance", by_chance.rate()).at_least(CHANCE_MIN));
    report.push(rate().beside("without the fault", without.rate()));
    let p99 = |rounds: &CaseRounds| rounds.all.times.quantile(0.99);
    let figure = || Figure::new(case, "p99", p99(by_load), FigureUnit::Seconds);
    report.push(figure().beside("without the fault", p99(without)).at_most(P99_MAX));
    report.push(figure().beside("picked by chance", p99(by_chance)));
    report.push(figure().beside("spread over 12 partitions", p99(spread)));
    report.push(Figure::new(case, "refused", by_load.refused(), FigureUnit::Count("%")).at_most(REFUSED_MAX));
    report.note(format!(
        "{case}: of those picked by chance {:.1} % were refused, of those spread {:.1} %",
        by_chance.refused(),
        spread.refused()
    ));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hyper::{HeaderMap, StatusCode};
    use serde_json::Value;

    use super::*;

    #[test]
    fn bulks_have_the_routing_values_of_their_places() {
        let documents = [b"{\"a\":1}".to_vec()];
        for (places, expected) in [
            (BulkDistribution::ByLoad, 0),
            (BulkDistribution::ByChance, 1),
            (BulkDistribution::Spread, BATCH),
        ] {
            let text = String::from_utf8(lines(places, 7, &documents)).expect("lines are text");
            let actions = text
                .lines()
                .step_by(2)
                .map(|line| -> Value { serde_json::from_str(line).expect("an action is JSON") });
            let values: BTreeSet<String> = actions
                .filter_map(|action| action["create"]["routing"].as_str().map(str::to_owned))
                .collect();
            assert_eq!(values.len() as u64, expected, "{places:?}");
            assert_eq!(text.lines().count() as u64, 2 * BATCH);
        }
    }

    #[test]
    fn refusals_are_sent_again_and_errors_are_not() {
        let answer = |status: u16, body: &'static str| ClientAnswer {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: body.into(),
        };
        for (status, body, expected) in [
            (200, r#"{"errors":false}"#, Some(false)),
            (429, "", Some(true)),
            (503, "", Some(true)),
            (
                200,
                r#"{"errors":true,"items":[{"create":{"error":{"type":"unavailable_shards_exception"}}}]}"#,
                Some(true),
            ),
            (
                200,
                r#"{"errors":true,"items":[{"create":{"error":{"type":"mapper_parsing_exception"}}}]}"#,
                None,
            ),
            (404, "", None),
        ] {
            assert_eq!(is_refused(&answer(status, body)).ok(), expected, "{status} {body}");
        }
    }

    #[test]
    fn the_rate_is_the_median_of_the_rounds() {
        let rounds = CaseRounds { rates: vec![3.0, 9.0, 1.0], ..CaseRounds::default() };
        assert_eq!((rounds.rate(), CaseRounds::default().rate()), (3.0, 0.0));
        let all = ClientLatencies { refused: 1, ..ClientLatencies::default() };
        assert_eq!(
            (CaseRounds { all, rates: Vec::new() }.refused(), CaseRounds::default().refused()),
            (100.0, 0.0)
        );
    }
}
