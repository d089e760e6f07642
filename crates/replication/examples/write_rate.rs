//! Number of writes per second that one distributor orders: three replicas each, without network and storage.
//!
//! `cargo run --profile quick -p millrace-replication --example write_rate`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, MachineTime, NodeEntry, NodeHierarchy, NodeKey, NodeReply,
    NodeRequest, NodeResponse, NodeState, ReplicaDistribution,
};
use millrace_document::{DocumentGroup, DocumentId, Timestamp};
use millrace_replication::distributor::{
    ClientWrite, Distributor, DistributorEffect, DistributorEvent, DocumentChange, RequestTicket, Settings,
};

const WRITES: u64 = 1_000_000;
/// Number of writes that a shell finds waiting at each turn.
const TURN: u64 = 64;

fn main() {
    for bits in [10, 16] {
        let state = state(bits);
        let mut distributor = Distributor::new(NodeKey(0), Incarnation::new(1), Settings::default());
        let mut clock = ExampleClock { began: Instant::now() };
        let mut figures = ExampleFigures::default();
        run(&mut distributor, vec![DistributorEvent::State(Arc::clone(&state))], &mut clock, &mut figures);
        let ids: Vec<DocumentId> = (0..)
            .map(id)
            .filter(|id| state.owner(state.bucket(id.location())) == Some(NodeKey(0)))
            .take(200_000)
            .collect();
        let body: Arc<[u8]> = vec![7; 400].into();
        let began = Instant::now();
        for turn in 0..WRITES / TURN {
            let mut events = vec![DistributorEvent::Confirmed {
                version: ClusterVersion::new(1),
                asked: clock.now().monotonic,
            }];
            for number in turn * TURN..(turn + 1) * TURN {
                let id = ids[number as usize % ids.len()].clone();
                let deadline = clock.now().monotonic + Duration::from_secs(60);
                let change = DocumentChange::Put { id, body: Arc::clone(&body) };
                events.push(DistributorEvent::Write(ClientWrite {
                    ticket: RequestTicket(number),
                    deadline,
                    change,
                }));
            }
            run(&mut distributor, events, &mut clock, &mut figures);
        }
        let took = began.elapsed().as_secs_f64();
        println!(
            "{{\"figure\":\"distributor\",\"buckets\":{},\"writes_per_second\":{:.0},\"answered\":{},\"rows_per_message\":{:.1}}}",
            distributor.metrics().buckets,
            WRITES as f64 / took,
            figures.answered,
            figures.rows as f64 / figures.messages as f64,
        );
    }
}

#[derive(Default)]
struct ExampleFigures {
    answered: u64,
    rows: u64,
    messages: u64,
}

struct ExampleClock {
    began: Instant,
}

impl ExampleClock {
    fn now(&mut self) -> MachineTime {
        let monotonic = self.began.elapsed();
        MachineTime { monotonic, wall_us: 1_700_000_000_000_000 + monotonic.as_micros() as u64 }
    }
}

/// Handles events, and those that follow from them, until there are no more.
fn run(
    distributor: &mut Distributor,
    mut events: Vec<DistributorEvent>,
    clock: &mut ExampleClock,
    figures: &mut ExampleFigures,
) {
    let mut effects = Vec::new();
    while !events.is_empty() {
        distributor.handle(clock.now(), events.drain(..), &mut effects);
        for effect in effects.drain(..) {
            match effect {
                DistributorEffect::Send { to, fence, request } => {
                    if let Some(response) = answer(request, figures) {
                        let reply = NodeReply { version: fence.version, response };
                        events.push(DistributorEvent::Reply { from: to, number: fence.number, reply });
                    }
                }
                DistributorEffect::Written { outcome, .. } => {
                    outcome.expect("every node answers");
                    figures.answered += 1;
                }
                DistributorEffect::Found { .. }
                | DistributorEffect::Decide { .. }
                | DistributorEffect::FetchState { .. } => {}
            }
        }
    }
}

/// The first answer of a node without replicas, or a later answer of a node that accepts everything.
fn answer(request: NodeRequest, figures: &mut ExampleFigures) -> Option<NodeResponse> {
    match request {
        NodeRequest::Ping => Some(NodeResponse::Pong { votes: false }),
        NodeRequest::Owned { .. } => {
            Some(NodeResponse::Replicas { replicas: Vec::new(), newest: Timestamp(0) })
        }
        NodeRequest::Apply(rows) => {
            figures.rows += rows.len() as u64;
            figures.messages += 1;
            Some(NodeResponse::Applied(Vec::new()))
        }
        _ => None,
    }
}

fn id(number: u64) -> DocumentId {
    DocumentId::new("bench", "note", &DocumentGroup::Number(number % 50_000), &number.to_string())
        .expect("its parts are there")
}

fn state(bits: u8) -> Arc<ClusterState> {
    let entry = |key| NodeEntry {
        name: format!("n{key}"),
        address: format!("n{key}:1"),
        state: NodeState::Up,
        capacity: 1.0,
        incarnation: Incarnation::new(1),
        lease_ended: false,
    };
    let nodes: BTreeMap<NodeKey, NodeEntry> = (0..5).map(|key| (NodeKey(key), entry(key))).collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    let state =
        ClusterState::new(ClusterVersion::new(1), nodes, ReplicaDistribution { bits, redundancy: 3, layout });
    Arc::new(state.expect("all nodes of the layout are listed"))
}
