//! Number of writes per second that one distributor orders: three replicas each, without network and storage.
//!
//! `cargo run --profile quick -p millrace-cluster --example figures`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::distributor::{Change, Distributor, Effect, Event, Settings, Ticket, Write};
use millrace_cluster::{
    ClusterState, Distribution, Layout, NodeEntry, NodeKey, NodeState, Now, Reply, Request, Response,
};
use millrace_document::{DocumentId, Group, Timestamp};

const WRITES: u64 = 1_000_000;
/// Number of writes that a shell finds waiting at each turn.
const TURN: u64 = 64;

fn main() {
    for bits in [10, 16] {
        let state = state(bits);
        let mut distributor = Distributor::new(NodeKey(0), 1, Settings::default());
        let mut clock = Clock { began: Instant::now() };
        let mut figures = Figures::default();
        run(&mut distributor, vec![Event::State(Arc::clone(&state))], &mut clock, &mut figures);
        let ids: Vec<DocumentId> = (0..)
            .map(id)
            .filter(|id| state.owner(state.bucket(id.location())) == Some(NodeKey(0)))
            .take(200_000)
            .collect();
        let body: Arc<[u8]> = vec![7; 400].into();
        let began = Instant::now();
        for turn in 0..WRITES / TURN {
            let mut events = vec![Event::Confirmed { version: 1, asked: clock.now().monotonic }];
            for number in turn * TURN..(turn + 1) * TURN {
                let id = ids[number as usize % ids.len()].clone();
                let deadline = clock.now().monotonic + Duration::from_secs(60);
                let change = Change::Put { id, body: Arc::clone(&body) };
                events.push(Event::Write(Write { ticket: Ticket(number), deadline, change }));
            }
            run(&mut distributor, events, &mut clock, &mut figures);
        }
        let took = began.elapsed().as_secs_f64();
        println!(
            "{{\"figure\":\"distributor\",\"buckets\":{},\"writes_per_second\":{:.0},\"answered\":{},\"rows_per_message\":{:.1}}}",
            distributor.figures().buckets,
            WRITES as f64 / took,
            figures.answered,
            figures.rows as f64 / figures.messages as f64,
        );
    }
}

#[derive(Default)]
struct Figures {
    answered: u64,
    rows: u64,
    messages: u64,
}

struct Clock {
    began: Instant,
}

impl Clock {
    fn now(&mut self) -> Now {
        let monotonic = self.began.elapsed();
        Now { monotonic, wall_us: 1_700_000_000_000_000 + monotonic.as_micros() as u64 }
    }
}

/// Handles events, and those that follow from them, until there are no more.
fn run(distributor: &mut Distributor, mut events: Vec<Event>, clock: &mut Clock, figures: &mut Figures) {
    let mut effects = Vec::new();
    while !events.is_empty() {
        distributor.handle(clock.now(), events.drain(..), &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, fence, request } => {
                    if let Some(response) = answer(request, figures) {
                        let reply = Reply { version: fence.version, response };
                        events.push(Event::Reply { from: to, number: fence.number, reply });
                    }
                }
                Effect::Written { outcome, .. } => {
                    outcome.expect("every node answers");
                    figures.answered += 1;
                }
                Effect::Found { .. } | Effect::Decide { .. } | Effect::FetchState { .. } => {}
            }
        }
    }
}

/// The first answer of a node without replicas, or a later answer of a node that accepts everything.
fn answer(request: Request, figures: &mut Figures) -> Option<Response> {
    match request {
        Request::Ping => Some(Response::Here { votes: false }),
        Request::Owned { .. } => Some(Response::Replicas { replicas: Vec::new(), newest: Timestamp(0) }),
        Request::Apply(rows) => {
            figures.rows += rows.len() as u64;
            figures.messages += 1;
            Some(Response::Applied(Vec::new()))
        }
        _ => None,
    }
}

fn id(number: u64) -> DocumentId {
    DocumentId::new("bench", "note", &Group::Number(number % 50_000), &number.to_string())
        .expect("its parts are there")
}

fn state(bits: u8) -> Arc<ClusterState> {
    let entry = |key| NodeEntry {
        name: format!("n{key}"),
        address: format!("n{key}:1"),
        state: NodeState::Up,
        capacity: 1.0,
        incarnation: 1,
        lease_ended: false,
    };
    let nodes: BTreeMap<NodeKey, NodeEntry> = (0..5).map(|key| (NodeKey(key), entry(key))).collect();
    let layout = Layout::Nodes(nodes.keys().copied().collect());
    let state = ClusterState::new(1, nodes, Distribution { bits, redundancy: 3, layout });
    Arc::new(state.expect("all nodes of the layout are listed"))
}
