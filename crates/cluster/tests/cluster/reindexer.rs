//! The decisions of one node that reindexes alone in its cluster, as text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::reindexing::{
    BucketHolders, ReindexEffect, ReindexEvent, ReindexNotes, ReindexRecord, ReindexedApplication, Reindexer,
    SharedNote, WalkedPage,
};
use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, MachineTime, NodeEntry, NodeHierarchy, NodeKey, NodeState,
    ReplicaDistribution,
};

use millrace_document::Timestamp;

const ME: NodeKey = NodeKey(0);

/// A node with its machine, and coordination.
struct ReindexingNode {
    machine: Reindexer,
    now: Duration,
    notes: BTreeMap<String, SharedNote>,
    revision: u64,
    /// Version of the cluster state.
    version: ClusterVersion,
    /// The newest timestamp of the owner.
    newest: Timestamp,
    lines: Vec<String>,
}

fn application(generation: u64, based_on: u64) -> Arc<ReindexedApplication> {
    let types = BTreeMap::from([("sim".into(), ["note".into()].into())]);
    Arc::new(ReindexedApplication { generation, based_on, types, changed: BTreeMap::new() })
}

fn state(away: Option<NodeState>) -> Arc<ClusterState> {
    let entry = |state| NodeEntry {
        name: "n".to_owned(),
        address: "localhost:1".to_owned(),
        state,
        capacity: 1.0,
        incarnation: Incarnation::new(1),
        lease_ended: false,
    };
    let states = [Some(NodeState::Up), away].into_iter().flatten();
    let nodes: BTreeMap<_, _> = (0..).map(NodeKey).zip(states.map(entry)).collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    let distribution = ReplicaDistribution { bits: 1, redundancy: 1, layout };
    let version = ClusterVersion::new(nodes.len() as u64);
    Arc::new(ClusterState::new(version, nodes, distribution).expect("it can be placed"))
}

impl ReindexingNode {
    /// A node with this generation of the application in a cluster whose record has been marked at another.
    fn new(recorded: u64) -> Self {
        let mut record = ReindexRecord::default();
        record.types.mark(&BTreeMap::from([("sim".into(), vec!["note".into()])]), 1.0, 7);
        record.generation = recorded;
        let mut node = ReindexingNode {
            machine: Reindexer::new(ME),
            now: Duration::from_secs(1),
            notes: BTreeMap::new(),
            revision: 0,
            version: ClusterVersion::new(1),
            newest: Timestamp::default(),
            lines: Vec::new(),
        };
        node.write(vec![record.note()]);
        node
    }

    fn write(&mut self, notes: Vec<(String, Option<Vec<u8>>)>) {
        self.revision += 1;
        for (name, value) in notes {
            match value {
                Some(value) => {
                    let note = SharedNote { value: value.into(), changed: self.revision };
                    self.notes.insert(name, note);
                }
                None => drop(self.notes.remove(&name)),
            }
        }
    }

    /// Passes events and the notes to the machine, and executes its effects until there are none.
    fn give(&mut self, mut events: Vec<ReindexEvent>) {
        loop {
            let notes = ReindexNotes::read(&self.notes).expect("it can be read");
            events.push(ReindexEvent::Notes(Arc::new(notes)));
            let now = MachineTime { monotonic: self.now, wall_us: self.now.as_micros() as u64 };
            let mut effects = Vec::new();
            self.machine.handle(now, std::mem::take(&mut events), &mut effects);
            let Some(effect) = effects.pop() else { return };
            assert!(effects.is_empty(), "the next effect comes after the answer");
            events.push(self.execute(effect));
        }
    }

    fn execute(&mut self, effect: ReindexEffect) -> ReindexEvent {
        match effect {
            ReindexEffect::Write { job, guard, notes } => {
                let record = self.notes.get(ReindexNotes::RECORD).map(|note| note.changed);
                for (name, value) in &notes {
                    let text = value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                    let clean = if text.contains("\"clean\":") && !text.contains("\"clean\":null") {
                        " clean"
                    } else {
                        ""
                    };
                    let deleted = if value.is_none() { " deleted" } else { "" };
                    self.lines.push(format!("{name}{clean}{deleted}"));
                }
                let written = record == guard;
                if written {
                    self.write(notes);
                }
                ReindexEvent::Written { job, outcome: Ok(written) }
            }
            ReindexEffect::Inspect { job, bucket } => {
                self.lines.push(format!("inspect {}", bucket.bits()));
                let holders =
                    BucketHolders { version: self.version, nodes: vec![ME], full: true, newest: self.newest };
                ReindexEvent::Inspected { job, outcome: Ok(holders) }
            }
            ReindexEffect::Walk { job, walk } => {
                self.lines.push(format!("walk {} {:?}", walk.bucket.bits(), walk.position));
                let position = walk.position.is_none().then(|| "middle".to_owned());
                let page = WalkedPage { position, holds: true, confirmed: true };
                ReindexEvent::Walked { job, outcome: Ok(page) }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.give(Vec::new());
        }
    }

    #[track_caller]
    fn check(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.lines), expected);
    }
}

#[test]
fn the_mark_is_stored_before_the_first_page_and_the_end_after_the_last() {
    let mut node = ReindexingNode::new(2);
    node.give(vec![ReindexEvent::Application(application(3, 2)), ReindexEvent::State(state(None))]);
    node.pass(Duration::from_secs(2));
    let mark = "reindexed/sim/note/0";
    let clean = format!("{mark} clean");
    let deleted = format!("{mark} deleted");
    node.check(&[
        "reindexing",
        mark,
        "inspect 0",
        "walk 0 None",
        "inspect 0",
        "walk 0 Some(\"middle\")",
        "inspect 1",
        "walk 1 None",
        "inspect 1",
        "walk 1 Some(\"middle\")",
        &clean,
        "reindexing",
        &deleted,
    ]);
    node.pass(Duration::from_secs(60));
    node.check(&[]);
}

#[test]
fn nothing_is_walked_while_a_node_is_away() {
    let mut node = ReindexingNode::new(2);
    let away = state(Some(NodeState::Maintenance));
    node.give(vec![ReindexEvent::Application(application(3, 2)), ReindexEvent::State(away)]);
    node.pass(Duration::from_secs(60));
    node.check(&["reindexing", "reindexed/sim/note/0"]);
}

#[test]
fn an_application_that_no_node_knows_the_changes_of_is_followed_later() {
    let mut node = ReindexingNode::new(2);
    node.give(vec![ReindexEvent::Application(application(3, 0)), ReindexEvent::State(state(None))]);
    node.pass(Duration::from_secs(29));
    node.check(&[]);
    node.pass(Duration::from_secs(3));
    assert_eq!(node.lines.first().map(String::as_str), Some("reindexing"));
    let notes = ReindexNotes::read(&node.notes).expect("it can be read");
    let pending: Vec<_> = notes.record.types.in_cluster("sim").map(|(_, status)| status.pending).collect();
    assert_eq!((notes.record.generation, pending), (3, vec![Some(3)]));
}

#[test]
fn a_mark_that_was_replaced_by_an_earlier_one_is_stored_again() {
    let mut node = ReindexingNode::new(2);
    node.version = ClusterVersion::new(2);
    // The other node does not reindex, so that there is no end.
    let both = state(Some(NodeState::Up));
    node.give(vec![ReindexEvent::Application(application(3, 2)), ReindexEvent::State(both)]);
    let mark = "reindexed/sim/note/0";
    node.pass(Duration::from_secs(2));
    let clean = format!("{mark} clean");
    assert_eq!(node.lines.last(), Some(&clean), "{:?}", node.lines);
    node.lines.clear();
    let late = br#"{"ready_ms":7,"started_ms":1,"done":{},"at":null,"clean":null,"failure":null}"#;
    node.write(vec![(mark.to_owned(), Some(late.to_vec()))]);
    node.pass(Duration::from_secs(7));
    node.check(&[&clean]);
    node.pass(Duration::from_secs(60));
    node.check(&[]);
}

#[test]
fn the_time_of_the_last_rewrite_is_stored_before_it_and_outlives_the_reindexing() {
    let mut node = ReindexingNode::new(2);
    // Another node's clock is an hour ahead.
    node.newest = Timestamp(3_600_000_000);
    node.give(vec![ReindexEvent::Application(application(3, 2)), ReindexEvent::State(state(None))]);
    node.pass(Duration::from_secs(2));
    let mark = "reindexed/sim/note/0";
    assert_eq!(node.lines[..6], ["reindexing", mark, "inspect 0", mark, "inspect 0", "walk 0 None"]);
    let deleted = format!("{mark} deleted");
    assert_eq!(node.lines.last(), Some(&deleted));
    let until = |node: &ReindexingNode| {
        let notes = ReindexNotes::read(&node.notes).expect("it can be read");
        notes.rewritten_until(&["note".into()].into())
    };
    assert_eq!(until(&node), Timestamp(3_620_000_000));
    // The next reindexing keeps it.
    let mut record = ReindexNotes::read(&node.notes).expect("it can be read").record;
    record.types.mark(&BTreeMap::from([("sim".into(), vec!["note".into()])]), 1.0, 9);
    let record = record.following(&application(4, 3)).expect("it is a newer one");
    node.write(vec![record.note()]);
    assert_eq!(until(&node), Timestamp(3_620_000_000));
}
