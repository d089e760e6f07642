//! Reindexing by several nodes: each does what it owns, everything is done once, and all of them report the
//! same.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_bucket::BucketId;
use serde_json::{Value, json};

use crate::support::{TestNodes, low_bits};

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
  }
  fieldset default { fields: title }
}";

const APPLICATION: &str = "/application/v2/tenant/default/application/default";

/// Number of groups, each with three documents.
const GROUPS: u32 = 24;

/// The schema with a field that indexing statements compute.
fn with(field: &str) -> String {
    NOTE.replace("fieldset default", &format!("field made type {field}\n fieldset default"))
}

fn shouting() -> String {
    with("string { indexing: input title . \" again\" | summary | index }")
}

fn with_notes() -> TestNodes {
    let nodes = TestNodes::start(3, NOTE);
    for (group, number) in (0..GROUPS).flat_map(|group| (0..3).map(move |number| (group, number))) {
        nodes.put(0, &format!("g{group}"), number, &json!({ "title": format!("note {number}") }));
    }
    nodes
}

/// The node that owns a group's bucket by default.
fn owner(group: &str) -> usize {
    low_bits(group) as usize % 16 % 3
}

#[track_caller]
fn until<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, mut ask: impl FnMut() -> T) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let found = ask();
        if found == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {found:?} is not {expected:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status(nodes: &TestNodes, node: usize) -> Value {
    let (status, answer) = nodes.config(node, Method::GET, &format!("{APPLICATION}/reindexing"));
    assert_eq!((status, &answer["enabled"]), (200, &json!(true)), "{answer}");
    answer["clusters"]["notes"].clone()
}

fn state(nodes: &TestNodes, node: usize) -> String {
    status(nodes, node)["ready"]["note"]["state"].as_str().unwrap_or("none").to_owned()
}

/// Deploys the next generation to these nodes, which starts the marked types.
fn deploy(nodes: &TestNodes, which: &[usize], schema: &str) {
    which.iter().for_each(|node| nodes.deploy(*node, schema));
    let generation = nodes.nodes[which[0]].generation();
    until("it is taken into account", &Some(generation), || {
        let notes = nodes.world.notes.lock();
        let record: Option<Value> =
            notes.get("reindexing").and_then(|note| serde_json::from_slice(&note.value).ok());
        record?["generation"].as_u64()
    });
}

/// Changes the statements, marks the type at one of the nodes, and deploys to these nodes.
fn begin(nodes: &TestNodes, which: &[usize], schema: &str) {
    deploy(nodes, which, schema);
    until("it is pending", &json!({ "note": 2 }), || status(nodes, 1)["pending"].clone());
    let (status, answer) = nodes.config(2, Method::POST, &format!("{APPLICATION}/reindex?speed=10"));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(state(nodes, 0), "pending");
    deploy(nodes, which, schema);
}

/// Stored mark of a node's progress.
fn mark(nodes: &TestNodes, node: usize) -> Option<Value> {
    let notes = nodes.world.notes.lock();
    let note = notes.get(&format!("reindexed/notes/note/{node}"))?;
    serde_json::from_slice(&note.value).ok()
}

/// True if a node has stored that it has done all that it owns.
fn is_clean(nodes: &TestNodes, node: usize) -> bool {
    mark(nodes, node).is_some_and(|mark| mark["clean"].is_u64())
}

/// Changes the cluster state: one node is away, or none.
fn is_one_away(nodes: &TestNodes, is_away: bool) {
    nodes.world.is_one_away.store(is_away, Ordering::SeqCst);
    nodes.world.next_version();
}

/// Number of documents with the computed field, by owner.
fn computed(nodes: &TestNodes) -> BTreeMap<usize, usize> {
    let mut made = BTreeMap::new();
    for group in 0..GROUPS {
        let group = format!("g{group}");
        let path = format!("/document/v1/notes/note/group/{group}?fieldSet=%5Ball%5D&timeout=60s");
        let (status, answer) = nodes.call(0, Method::GET, &path, "");
        assert_eq!(status, 200, "{answer}");
        for document in answer["documents"].as_array().into_iter().flatten() {
            let fields = &document["fields"];
            let expected = format!("{} again", fields["title"].as_str().unwrap_or_default());
            *made.entry(owner(&group)).or_default() += usize::from(fields["made"] == expected);
        }
    }
    made
}

fn all(nodes: &TestNodes) -> bool {
    computed(nodes).values().sum::<usize>() == GROUPS as usize * 3
}

#[test]
fn a_node_that_has_an_older_application_waits_for_the_newer_one() {
    let nodes = with_notes();
    let none = computed(&nodes);
    assert!(none.len() == 3 && none.values().all(|count| *count == 0), "{none:?}");
    begin(&nodes, &[0, 1], &shouting());
    until("the others do theirs", &true, || is_clean(&nodes, 0) && is_clean(&nodes, 1));
    let looked = || nodes.world.notes_read.lock().get(&2).copied().unwrap_or_default();
    let before = looked();
    until("the third has seen what is to be done", &true, || looked() > before + 4);
    let made = computed(&nodes);
    assert!(made[&0] > 0 && made[&1] > 0 && made[&2] == 0, "{made:?}");
    assert_eq!((mark(&nodes, 2), state(&nodes, 2)), (None, "running".to_owned()));
    nodes.deploy(2, &shouting());
    nodes.deploy(2, &shouting());
    until("it ends", &true, || (0..3).all(|node| state(&nodes, node) == "successful"));
    assert!(all(&nodes));
    let ended = status(&nodes, 0);
    let note = &ended["ready"]["note"];
    assert!(note["readyMillis"].as_u64() <= note["startedMillis"].as_u64(), "{ended}");
    assert!(note["startedMillis"].as_u64() <= note["endedMillis"].as_u64(), "{ended}");
    assert_eq!((&status(&nodes, 1), &status(&nodes, 2)), (&ended, &ended));
    let names = || nodes.world.notes.lock().keys().cloned().collect::<Vec<_>>();
    until("what the nodes had noted is forgotten", &vec!["reindexing".to_owned()], names);
}

#[test]
fn what_was_read_while_the_cluster_state_changed_is_done_again() {
    let nodes = with_notes();
    nodes.world.doubts.store(30, Ordering::SeqCst);
    nodes.world.refusals.store(10, Ordering::SeqCst);
    begin(&nodes, &[0, 1, 2], &shouting());
    until("it ends", &"successful".to_owned(), || state(&nodes, 1));
    assert_eq!(nodes.world.doubts.load(Ordering::SeqCst), 0, "nobody asked whether what was read counts");
    assert_eq!(nodes.world.refusals.load(Ordering::SeqCst), 0, "what was refused was not written again");
    assert!(all(&nodes));
}

#[test]
fn nothing_is_done_while_a_node_is_away_that_may_have_newer_documents() {
    let nodes = with_notes();
    is_one_away(&nodes, true);
    begin(&nodes, &[0, 1, 2], &shouting());
    let looked = || nodes.world.notes_read.lock().values().min().copied().unwrap_or_default();
    let before = looked();
    until("all have looked", &true, || looked() > before + 6);
    let note = status(&nodes, 0)["ready"]["note"].clone();
    assert_eq!((&note["state"], &note["progress"]), (&json!("running"), &json!(0.0)));
    assert!(computed(&nodes).values().all(|count| *count == 0));
    is_one_away(&nodes, false);
    until("it ends", &"successful".to_owned(), || state(&nodes, 1));
    assert!(all(&nodes));
}

#[test]
fn what_one_owner_has_done_the_next_one_does_not_do_again() {
    let nodes = TestNodes::start(3, NOTE);
    let (bucket, first, second) =
        (BucketId::new(4, low_bits("ann").into()), owner("ann"), (owner("ann") + 1) % 3);
    let third = (second + 1) % 3;
    let place = |holders: [usize; 2]| {
        let holders = holders.map(|node| node as u16).to_vec();
        nodes.world.placed.lock().insert(bucket, holders);
        nodes.world.next_version();
    };
    place([first, second]);
    nodes.put(first, "ann", 1, &json!({ "title": "note" }));
    begin(&nodes, &[first, second], &shouting());
    let at_owner = || {
        nodes.call(first, Method::GET, "/document/v1/notes/note/group/ann/1?fieldSet=%5Ball%5D", "").1["fields"].clone()
    };
    until("the first has done it", &json!("note again"), || at_owner()["made"].clone());
    until("and noted", &true, || is_clean(&nodes, first));
    // Only the owner writes in this test: the other's copy is unchanged.
    place([second, first]);
    nodes.deploy(third, &shouting());
    nodes.deploy(third, &shouting());
    until("it ends", &"successful".to_owned(), || state(&nodes, third));
    assert_eq!(at_owner(), json!({ "title": "note" }));
}

#[test]
fn a_document_that_the_statements_cannot_take_is_named_by_all_and_holds_up_its_owner_alone() {
    let nodes = TestNodes::start(3, NOTE);
    for group in 0..GROUPS {
        nodes.put(0, &format!("g{group}"), 0, &json!({ "title": group.to_string() }));
    }
    let wrong = owner("wrong");
    nodes.put(0, "wrong", 7, &json!({ "title": "no number" }));
    begin(&nodes, &[0, 1, 2], &with("int { indexing: input title | to_int | summary | attribute }"));
    for node in 0..3 {
        until("it fails", &"failed".to_owned(), || state(&nodes, node));
        let told = status(&nodes, node)["ready"]["note"]["message"].clone();
        let told = told.as_str().unwrap_or_default();
        assert!(
            told.starts_with(&format!("node {wrong}: ")) && told.contains("id:notes:note:g=wrong:7"),
            "{told}"
        );
    }
    for group in (0..GROUPS).map(|group| format!("g{group}")).filter(|group| owner(group) != wrong) {
        let path = format!("/document/v1/notes/note/group/{group}/0?fieldSet=%5Ball%5D");
        let number = || nodes.call(0, Method::GET, &path, "").1["fields"]["made"].clone();
        until("others are done", &json!(group[1..].parse::<u32>().expect("a number")), number);
    }
}
