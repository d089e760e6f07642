//! Ideal state of a large cluster: the time to determine the moves after a node is added, and their amount.

use millrace_bucket::BucketId;
use millrace_bucket::{GroupMembers, IdealState, NodeGroup, Topology, TopologyNode};

use super::{Benchmark, Settings};
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit, measure};

pub(super) const BENCH: Benchmark =
    Benchmark { name: "placement", about: "what moves when a node comes, beside the least that could", run };

const BUCKET_BITS: u8 = 20;
const NODES: u16 = 1000;
const REDUNDANCY: usize = 2;

/// Maximum time in seconds; a controller that computes longer than this after every change is always late.
const SECONDS_MAX: f64 = 2.0;
/// Maximum ratio of the moved data to the new node's share; a random draw deviates a little.
const SKEW_MAX: f64 = 1.1;

/// Capacity of a node by its key.
type Capacity = fn(u16) -> f64;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new("placement");
    let buckets = settings.sized(1 << BUCKET_BITS);
    report.note(format!(
        "{buckets} buckets on {NODES} nodes, {REDUNDANCY} replicas, one thread; where the replicas are takes {} bytes a bucket",
        size_of::<[u16; REDUNDANCY]>()
    ));
    let cases: [(&str, Capacity); 2] =
        [("equal nodes", |_| 1.0), ("capacities 1 to 4", |key| 1.0 + f64::from(key % 4))];
    for (case, capacity) in cases {
        let (before, after) = (state(NODES, capacity)?, state(NODES + 1, capacity)?);
        let mut nodes = Vec::new();
        let held: Vec<[u16; REDUNDANCY]> =
            (0..buckets).map(|bits| replicas(&before, bits, &mut nodes)).collect();
        let mut moved = 0;
        let time = measure::time(|| {
            let moves = |(bits, held): (u64, &[u16; REDUNDANCY])| replicas(&after, bits, &mut nodes) != *held;
            moved = (0..).zip(&held).map(moves).filter(|moves| *moves).count();
        });
        report.push(
            Figure::new(case, "finding what moves", time.as_secs_f64(), FigureUnit::Seconds)
                .with_goal(FigureGoal::AtMost(SECONDS_MAX)),
        );
        let all: f64 = (0..=NODES).map(capacity).sum();
        let least = REDUNDANCY as f64 * buckets as f64 * capacity(NODES) / all;
        let figure = Figure::new(case, "buckets that move", moved as f64, FigureUnit::Count("buckets"));
        report.push(figure.beside("the new node's share", least).at_most(SKEW_MAX));
    }
    Ok(report)
}

fn state(nodes: u16, capacity: Capacity) -> Result<IdealState, Error> {
    let nodes = (0..nodes).map(|key| TopologyNode { key, capacity: capacity(key) }).collect();
    let root = NodeGroup { key: 0, members: GroupMembers::Nodes(nodes) };
    Ok(Topology::new(REDUNDANCY as u16, root).map_err(Error::failed)?.ideal(|_| true))
}

fn replicas(state: &IdealState, bits: u64, nodes: &mut Vec<u16>) -> [u16; REDUNDANCY] {
    state.nodes_into(BucketId::new(BUCKET_BITS, bits), nodes);
    std::array::from_fn(|replica| nodes.get(replica).copied().unwrap_or(u16::MAX))
}
