//! Writes to two replicas on two nodes, compared with writes to one on the same two nodes and cores: the cost
//! of a second copy.

use std::time::Duration;

use super::{Benchmark, Settings};
use crate::clients::ClientLatencies;
use crate::cluster::{LocalCluster, NO_ETCD};
use crate::puts::{PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "write --replicas 2",
    about: "puts to two replicas on two nodes, beside puts to one on the same cores",
    run,
};

const NODES: usize = 2;
/// Number of concurrent requests.
const TOGETHER: usize = 64;
const ROUNDS: usize = 2;
/// Duration before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Minimum share of the rate; a half would be the same work per replica.
const SHARE_MIN: f64 = 0.45;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let mut seen = [ClientLatencies::default(), ClientLatencies::default()];
    for _ in 0..ROUNDS {
        for (replicas, seen) in (1..).zip(&mut seen) {
            let directory = settings.workplace()?;
            let started = LocalCluster::start(settings.program()?, directory.path(), NODES, replicas)?;
            let Some(cluster) = started else {
                report.note(NO_ETCD);
                return Ok(report);
            };
            let (requests, _) = puts(PutBody::Small)?;
            let clients = cluster.clients(0);
            let (_, next) = clients.at_once(TOGETHER, WARM_UP, 0, &requests)?;
            let (of_round, _) = clients.at_once(TOGETHER, settings.time_per_case * 4, next, &requests)?;
            seen.merge(&of_round);
        }
    }
    let [one, two] = seen;
    report.push(
        Figure::new(
            "documents of 300 bytes, two nodes",
            "two replicas",
            two.rate(),
            FigureUnit::PerSecond("documents"),
        )
        .beside("one replica", one.rate())
        .at_least(SHARE_MIN),
    );
    let p99 = two.times.quantile(0.99);
    report.push(
        Figure::new("documents of 300 bytes, two nodes", "two replicas, p99", p99, FigureUnit::Seconds)
            .beside("one replica, p99", one.times.quantile(0.99)),
    );
    report.note("all requests go to one node, which hands half of them on to the other; etcd and clients share the cores");
    Ok(report)
}
