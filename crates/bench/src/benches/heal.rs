//! Loss of one of five nodes: the time until every bucket has all its replicas again, including detection,
//! compared with a plain transfer of as many bytes on this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::body::Bytes;
use millrace_client::OutgoingRequest;

use super::moving::plain_speed;
use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::clients::Requests;
use crate::cluster::{LocalCluster, NO_ETCD};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "heal",
    about: "a node of five killed: until all of 4 GB has two replicas again, beside a plain copy",
    run,
};

const NODES: usize = 5;
const REPLICAS: usize = 2;
/// Bytes of documents; each replica has them.
const BYTES: u64 = 4 << 30;
const TEXT_BYTES: usize = 2000;
const GROUPS: u64 = 4096;
/// Number of different bodies; more would not change the result.
const BODIES: usize = 512;
const TOGETHER: usize = 64;
const HEAL_TIMEOUT: Duration = Duration::from_secs(900);
/// Bytes of the plain copy.
const COPIED: u64 = 256 << 20;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let directory = settings.workplace()?;
    let started = LocalCluster::start(settings.program()?, directory.path(), NODES, REPLICAS)?;
    let Some(mut cluster) = started else {
        report.note(NO_ETCD);
        return Ok(report);
    };
    let documents = settings.sized(BYTES / TEXT_BYTES as u64);
    feed(&cluster, documents)?;
    cluster.until(HEAL_TIMEOUT, "settle after they were fed", |cluster| cluster.is_ideal(NODES))?;
    let case = format!("{documents} documents, {NODES} nodes, {REPLICAS} replicas");

    let killed = Instant::now();
    let last = NODES - 1;
    cluster.kill(last)?;
    // Transfers of the remaining nodes.
    let before = moved(&cluster);
    cluster.until(HEAL_TIMEOUT, "find out that one is gone", |cluster| {
        cluster.state_of(last).is_some_and(|state| state == "down")
    })?;
    let noticed = killed.elapsed();
    // The state is older than its consequences.
    cluster
        .until(HEAL_TIMEOUT, "begin to heal", |cluster| !cluster.is_ideal(last) || moved(cluster) > before)?;
    cluster.until(HEAL_TIMEOUT, "heal", |cluster| cluster.is_ideal(last))?;
    let healed = killed.elapsed();
    // Both ends count.
    let bytes = moved(&cluster).saturating_sub(before) / 2;
    let speed = bytes as f64 / (healed - noticed).as_secs_f64();
    report.push(Figure::new(&case, "killed to full redundancy", healed.as_secs_f64(), FigureUnit::Seconds));
    report.push(Figure::new(
        &case,
        "of it until the node is down",
        noticed.as_secs_f64(),
        FigureUnit::Seconds,
    ));
    report.push(Figure::new(&case, "bytes that moved", bytes as f64, FigureUnit::Bytes));
    let plain = plain_speed(directory.path(), COPIED)?;
    report.push(
        Figure::new(&case, "moved", speed, FigureUnit::BytesPerSecond).beside("plain copy with fsync", plain),
    );
    let found = count(&cluster)?;
    if found != documents {
        return Err(Error::Failed(format!("{found} documents are left of {documents}")));
    }
    Ok(report)
}

fn feed(cluster: &LocalCluster, documents: u64) -> Result<(), Error> {
    let mut maker = DocumentMaker::new()?;
    let bodies: Vec<Bytes> = (0..BODIES).map(|_| Bytes::from(maker.mail_json(TEXT_BYTES))).collect();
    let requests: Requests = Arc::new(move |number: u64| {
        // Requests beyond the last document write that again.
        let number = number.min(documents - 1);
        let body = bodies[number as usize % bodies.len()].clone();
        OutgoingRequest::new(Method::POST, application::path(number % GROUPS, number))
            .body("application/json", body)
    });
    let mut next = 0;
    while next < documents {
        (_, next) = cluster.clients(0).at_once(TOGETHER, Duration::from_millis(200), next, &requests)?;
    }
    Ok(())
}

/// Bytes that nodes have sent and received.
fn moved(cluster: &LocalCluster) -> u64 {
    cluster.figures().iter().filter_map(|of| of["pace"]["bytes"].as_u64()).sum()
}

/// Number of documents that a query of all groups finds.
fn count(cluster: &LocalCluster) -> Result<u64, Error> {
    let request = OutgoingRequest::new(Method::GET, "/search/")
        .parameter("yql", "select * from mail where true limit 0")
        .parameter("streaming.selection", "true")
        .parameter("timeout", "60s")
        .timeout(Duration::from_secs(90));
    Ok(cluster.clients(0).query(request)?.matches)
}
