//! Tests of batches at the owner of their buckets: which rows go out together, and what becomes of a part
//! that cannot be sent.

use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, MachineTime, NodeFailure, NodeKey, NodeReply, NodeRequest,
    NodeResponse, RowContent,
};
use millrace_document::{DocumentId, Timestamp};
use millrace_replication::distributor::{
    ClientWrite, DecidedModification, Distributor, DistributorEffect, DistributorEvent, DocumentChange,
    RequestTicket, Settings,
};

use crate::states;

/// State of nodes that all have replicas of each bucket, by their letters.
fn state(version: u64, letters: &str) -> Arc<ClusterState> {
    states::state(version, letters, letters.len() as u16)
}

/// Groups that node 0 owns, `a` and `b` in different buckets; `c` of node 1. A document is `a1`.
fn id(name: &str) -> DocumentId {
    let all = state(1, "uu");
    let owned = |owner: u16| {
        let of = move |number: &u64| {
            let id = DocumentId::parse(&format!("id:n:note:n={number}:x")).expect("an id");
            all.owner(all.bucket(id.location())) == Some(NodeKey(owner))
        };
        (0..256).filter(of)
    };
    let group = match &name[..1] {
        "a" => owned(0).next(),
        "b" => owned(0).nth(1),
        _ => owned(1).next(),
    };
    let group = group.expect("each node owns some of 256 buckets");
    DocumentId::parse(&format!("id:n:note:n={group}:{name}")).expect("an id")
}

fn change(text: &str) -> DocumentChange {
    let (kind, name) = text.split_at(1);
    match kind {
        "+" => DocumentChange::Put { id: id(name), body: Arc::from(&b"body"[..]) },
        "-" => DocumentChange::Remove(id(name)),
        _ => {
            let modify = Box::new(|_| Ok(DecidedModification::Put(Arc::from(&b"changed"[..]))));
            DocumentChange::Modify { id: id(name), modify }
        }
    }
}

/// Node 0's distributor, driven by words.
struct BatchHarness {
    distributor: Distributor,
    now: Duration,
    version: u64,
    /// Names of the writes, by ticket.
    writes: Vec<String>,
    asked: Vec<(NodeKey, u64, NodeRequest)>,
    decisions: Vec<DistributorEffect>,
    /// Messages with rows, and answers, in order.
    log: Vec<String>,
}

impl BatchHarness {
    fn new(settings: Settings) -> Self {
        let mut harness = BatchHarness {
            distributor: Distributor::new(NodeKey(0), Incarnation::new(1), settings),
            now: Duration::from_secs(100),
            version: 0,
            writes: Vec::new(),
            asked: Vec::new(),
            decisions: Vec::new(),
            log: Vec::new(),
        };
        harness.adopt("uu");
        harness.answer(|request| {
            let replicas = Vec::new();
            matches!(request, NodeRequest::Owned { .. })
                .then_some(NodeResponse::Replicas { replicas, newest: Timestamp(1) })
        });
        harness
    }

    fn handle(&mut self, events: impl IntoIterator<Item = DistributorEvent>) {
        self.now += Duration::from_millis(1);
        let now = MachineTime { monotonic: self.now, wall_us: 1_000_000 + self.now.as_micros() as u64 };
        let mut effects = Vec::new();
        self.distributor.handle(now, events, &mut effects);
        for effect in effects {
            match effect {
                DistributorEffect::Send { to, fence, request } => {
                    if let NodeRequest::Apply(rows) = &request {
                        let names = rows.iter().map(|row| match &*row.content {
                            RowContent::Version(version) => version.id.name().to_owned(),
                            RowContent::Drop(_) => "drop".to_owned(),
                        });
                        self.log.push(format!("n{to}: {}", names.collect::<Vec<_>>().join(" ")));
                    }
                    self.asked.push((to, fence.number, request));
                }
                DistributorEffect::Written { ticket, outcome } => {
                    let name = &self.writes[ticket.0 as usize];
                    let outcome = outcome.map_or_else(|error| error.to_string(), |_| "written".to_owned());
                    let first = outcome.split([';', ',']).next().unwrap_or_default().to_owned();
                    self.log.push(format!("{name} {first}"));
                }
                DistributorEffect::Decide { .. } => self.decisions.push(effect),
                DistributorEffect::Found { .. } | DistributorEffect::FetchState { .. } => {}
            }
        }
    }

    fn adopt(&mut self, letters: &str) {
        self.version += 1;
        self.asked.clear();
        let (number, asked) = (self.version, self.now);
        let state = DistributorEvent::State(state(number, letters));
        let version = ClusterVersion::new(number);
        self.handle([state, DistributorEvent::Confirmed { version, asked }]);
    }

    fn answer(&mut self, with: impl Fn(&NodeRequest) -> Option<NodeResponse>) {
        let version = ClusterVersion::new(self.version);
        let mut replies = Vec::new();
        self.asked.retain(|(from, number, request)| {
            let Some(response) = with(request) else { return true };
            let reply = NodeReply { version, response };
            replies.push(DistributorEvent::Reply { from: *from, number: *number, reply });
            false
        });
        self.handle(replies);
    }

    /// Steps: `[+a1 -a2]` is a batch, `+a1` a single write; `ok` answers all rows, `full` says that the nodes
    /// have too much to do, `wait` passes the time until rows are sent again, `decide` runs modifications,
    /// `late` passes the time of all writes, `away` takes this node out of service.
    fn step(&mut self, step: &str) {
        match step {
            "ok" => self.answer(|request| match request {
                NodeRequest::Apply(_) => Some(NodeResponse::Applied(Vec::new())),
                NodeRequest::Read { .. } => Some(NodeResponse::Document(None)),
                _ => None,
            }),
            "full" => self.answer(|request| match request {
                NodeRequest::Apply(rows) => {
                    let failed = (0..rows.len()).map(|place| (place, NodeFailure::Overloaded));
                    Some(NodeResponse::Applied(failed.collect()))
                }
                _ => None,
            }),
            "wait" => {
                self.now += Settings::default().retry;
                self.handle([]);
            }
            "decide" => {
                for effect in std::mem::take(&mut self.decisions) {
                    let DistributorEffect::Decide { decision, modify, current } = effect else { continue };
                    self.handle([DistributorEvent::Decided { decision, outcome: (modify.0)(current) }]);
                }
            }
            "late" => {
                self.now += Duration::from_secs(60);
                self.handle([]);
            }
            "away" => self.adopt("mu"),
            writes => {
                let deadline = self.now + Duration::from_secs(60);
                let batch: Vec<ClientWrite> = writes
                    .trim_matches(['[', ']'])
                    .split(' ')
                    .map(|text| {
                        let ticket = RequestTicket(self.writes.len() as u64);
                        self.writes.push(text.to_owned());
                        ClientWrite { ticket, deadline, change: change(text) }
                    })
                    .collect();
                match writes.starts_with('[') {
                    true => self.handle([DistributorEvent::WriteBatch(batch)]),
                    false => self.handle(batch.into_iter().map(DistributorEvent::Write)),
                }
            }
        }
    }
}

/// Checks the messages with rows to node 1, and the answers, after each step.
#[track_caller]
fn check_with(settings: Settings, steps: &[(&str, &str)]) {
    let mut harness = BatchHarness::new(settings);
    for (step, expected) in steps {
        harness.log.clear();
        harness.step(step);
        harness.log.retain(|line| !line.starts_with("n0:"));
        assert_eq!(harness.log.join("; "), *expected, "after {step} of {steps:?}");
    }
}

#[track_caller]
fn check(steps: &[(&str, &str)]) {
    check_with(Settings::default(), steps);
}

#[test]
fn one_message_for_all_buckets() {
    check(&[("[+a1 +b1 -a2]", "n1: a1 a2 b1"), ("ok", "+a1 written; -a2 written; +b1 written")]);
    // Rows of another node's bucket are for that node; they keep the others from nothing.
    check(&[
        ("[+a1 +c1 +a2]", "+c1 no node serves the documents now; n1: a1 a2"),
        ("ok", "+a1 written; +a2 written"),
    ]);
    // What is decided after reading comes in a message of its own.
    check(&[("[+a1 ~a2 +a3]", "n1: a1 a3"), ("ok", "+a1 written; +a3 written")]);
}

#[test]
fn a_part_of_a_batch_waits_for_all_of_its_documents() {
    check(&[
        ("~a1", ""),
        ("[+a1 +a2 +b1]", "n1: b1"),
        ("decide", "n1: a1"),
        ("ok", "+b1 written; ~a1 written; n1: a1 a2"),
        ("ok", "+a1 written; +a2 written"),
    ]);
    // Two parts that wait for the same do not wait for each other.
    check(&[
        ("~a1", ""),
        ("[+a1 +a2]", ""),
        ("[+a2 +a1]", ""),
        ("decide", "n1: a1"),
        ("ok", "~a1 written; n1: a1 a2 a2 a1"),
        ("ok", "+a1 written; +a2 written; +a2 written; +a1 written"),
    ]);
}

#[test]
fn a_part_that_was_not_sent_fails_as_a_whole() {
    const LATE: &str = "the deadline passed before the documents could be reached";
    let late = format!("~a1 {LATE}; +a2 {LATE}; +a1 {LATE}");
    check(&[("~a1", ""), ("[+a2 +a1]", ""), ("late", &late)]);
    const MOVED: &str = "no node serves the documents now";
    let moved = format!("~a1 {MOVED}; +a2 {MOVED}; +a1 {MOVED}; +a3 {MOVED}");
    check(&[("~a1", ""), ("[+a2 +a1 +a3]", ""), ("away", &moved)]);
    const FULL: &str = "too many operations are waiting";
    let full = format!("+b1 {FULL}; +b2 {FULL}; n1: a1 a2 a3");
    check_with(
        Settings { requests_max: 2, ..Settings::default() },
        &[("[+a1 +b1 +a2 +b2 +a3]", &full), ("ok", "+a1 written; +a2 written; +a3 written")],
    );
}

#[test]
fn the_rows_of_a_part_stay_in_one_message() {
    let tiny = Settings { batch_bytes: 1, ..Settings::default() };
    check_with(
        tiny,
        &[
            ("[+a1 +a2 +a3 +b1]", "n1: a1 a2 a3; n1: b1"),
            ("full", ""),
            ("wait", "n1: a1 a2 a3; n1: b1"),
            ("ok", "+a1 written; +a2 written; +a3 written; +b1 written"),
        ],
    );
}
