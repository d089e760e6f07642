//! Batches to a cluster: whole batches to one bucket, batches spread over many buckets, and single puts.

use std::time::Duration;

use super::bulk::IN_FLIGHT;
use super::{Benchmark, Settings};
use crate::clients::ClientLatencies;
use crate::cluster::{LocalCluster, NO_ETCD};
use crate::puts::{BATCH, BatchGroups, PutBody, batches, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "bulk --nodes 3",
    about: "batches of one group on three nodes, beside batches of many groups and single puts",
    run,
};

const NODES: usize = 3;
const ROUNDS: usize = 2;
/// Duration before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of concurrent single puts.
const PUTS_IN_FLIGHT: usize = 64;
/// First numbers of batches of many groups, and of single puts: no document is written twice.
const FIRST_SPREAD: u64 = 1 << 30;
const FIRST_PUT: u64 = 1 << 50;
/// Minimum rate of whole batches, and maximum p99.
const RATIO: f64 = 1.0;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let (whole, _) = batches(PutBody::Line, BatchGroups::One)?;
    let (spread, _) = batches(PutBody::Line, BatchGroups::Many)?;
    let (single, _) = puts(PutBody::Line)?;
    for replicas in [1, 2] {
        let directory = settings.workplace()?;
        let started = LocalCluster::start(settings.program()?, directory.path(), NODES, replicas)?;
        let Some(cluster) = started else {
            report.note(NO_ETCD);
            return Ok(report);
        };
        let clients = cluster.clients(0);
        let (_, next) = clients.at_once(IN_FLIGHT, WARM_UP, 0, &whole)?;
        let mut seen = [ClientLatencies::default(), ClientLatencies::default(), ClientLatencies::default()];
        let mut first = [next, FIRST_SPREAD, FIRST_PUT];
        for _ in 0..ROUNDS {
            for (kind, requests) in [&whole, &spread, &single].into_iter().enumerate() {
                let in_flight = if kind == 2 { PUTS_IN_FLIGHT } else { IN_FLIGHT };
                let time = settings.time_per_case * 4;
                let (of_round, next) = clients.at_once(in_flight, time, first[kind], requests)?;
                seen[kind].merge(&of_round);
                first[kind] = next;
            }
        }
        let [whole, spread, single] = &seen;
        let case = format!("{replicas} replicas, batches of one group");
        let rate = |seen: &ClientLatencies| seen.rate() * BATCH as f64;
        let figure = || Figure::new(&case, "rate", rate(whole), FigureUnit::PerSecond("documents"));
        report.push(figure().beside("batches of many groups", rate(spread)).at_least(RATIO));
        report.push(figure().beside("single puts", single.rate()));
        report.push(
            Figure::new(&case, "p99", whole.times.quantile(0.99), FigureUnit::Seconds)
                .beside("batches of many groups", spread.times.quantile(0.99))
                .at_most(RATIO),
        );
        report.publish(settings.progress);
    }
    report.note("all requests go to one node; etcd, nodes and clients share the cores");
    Ok(report)
}
