//! Groups of a cluster: sizes are exact at every node, also of divided groups and of copies that differ.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::Method;
use millrace_bucket::BucketId;
use millrace_store::{StoreVisit, VisitedVersion};
use serde_json::{Value, json};

use crate::support::{TestNodes, low_bits};

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
  }
  fieldset default { fields: title }
}";

/// Three nodes with documents of a large group that is divided, and of small ones.
fn filled() -> (TestNodes, BTreeMap<String, u64>) {
    let nodes = TestNodes::start(3, NOTE);
    nodes.divide("large", 2);
    let mut expected = BTreeMap::new();
    for number in 0..40u32 {
        let group = if number % 2 == 0 { "large".to_owned() } else { format!("g{}", number % 7) };
        nodes.put(number as usize % 3, &group, number, &json!({ "title": "a note", "stars": number }));
        *expected.entry(group).or_default() += 1;
    }
    // A replaced and a removed document do not count.
    nodes.put(0, "g1", 1, &json!({ "title": "again" }));
    let removed = nodes.call(1, Method::DELETE, "/document/v1/notes/note/group/g3/3", "");
    assert_eq!(removed.0, 200, "{}", removed.1);
    *expected.get_mut("g3").expect("a group") -= 1;
    (nodes, expected)
}

/// Groups with their numbers of documents, in the order of the list, by pages of `count`.
fn listed(nodes: &TestNodes, node: usize, count: usize) -> Vec<(String, u64)> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    loop {
        let (status, page) = nodes.call(node, Method::GET, &format!("/group/v1/?count={count}{rest}"), "");
        assert_eq!((status, &page["complete"]), (200, &Value::Null), "{page}");
        let groups = page["groups"].as_array().expect("a list");
        assert!(groups.len() <= count, "{page}");
        for group in groups {
            assert!(group["bytes"].as_u64() > Some(0) && group["lastWrite"].as_u64() > Some(0), "{group}");
            let name = group["name"].as_str().expect("a name").to_owned();
            found.push((name, group["documents"].as_u64().expect("a number")));
        }
        match page["continuation"].as_str() {
            Some(next) => rest = format!("&continuation={next}"),
            None => return found,
        }
    }
}

fn shown(nodes: &TestNodes, node: usize, group: &str) -> (u16, Option<u64>) {
    let (status, answer) = nodes.call(node, Method::GET, &format!("/group/v1/{group}?timeout=5s"), "");
    (status, answer["documents"].as_u64())
}

#[test]
fn every_node_lists_and_shows_all_groups() {
    let (nodes, expected) = filled();
    let first = listed(&nodes, 0, 100);
    assert_eq!(first.iter().cloned().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(first.len(), expected.len(), "each group once");
    for node in 0..3 {
        for count in [1, 2, 3, 100] {
            assert_eq!(listed(&nodes, node, count), first, "node {node}, pages of {count}");
        }
        for (group, documents) in &expected {
            assert_eq!(shown(&nodes, node, group), (200, Some(*documents)), "{group} at node {node}");
        }
        assert_eq!(shown(&nodes, node, "nothing"), (404, None));
    }
}

#[test]
fn sizes_are_read_again_when_the_cluster_state_changes_and_say_what_is_missing() {
    let (mut nodes, expected) = filled();
    for (path, wanted) in [("/group/v1/large", expected["large"]), ("/group/v1/g1", expected["g1"])] {
        nodes.world.doubts.store(2, Ordering::SeqCst);
        let (status, answer) = nodes.call(0, Method::GET, path, "");
        assert_eq!((status, &answer["documents"]), (200, &json!(wanted)), "{answer}");
        assert_eq!(nodes.world.doubts.load(Ordering::SeqCst), 0);
    }
    nodes.world.doubts.store(usize::MAX, Ordering::SeqCst);
    let (status, answer) = nodes.call(0, Method::GET, "/group/v1/large?timeout=300ms", "");
    assert_eq!(status, 503, "{answer}");
    nodes.world.doubts.store(0, Ordering::SeqCst);
    nodes.world.partial.store(true, Ordering::SeqCst);
    for path in ["/group/v1/large?timeout=600ms", "/group/v1/?timeout=600ms"] {
        let (status, answer) = nodes.call(1, Method::GET, path, "");
        assert_eq!((status, &answer["complete"]), (200, &json!(false)), "{answer}");
    }
    nodes.world.partial.store(false, Ordering::SeqCst);
    // A node that has given its replicas up counts nothing.
    nodes.world.emptied.lock().insert(2);
    let (status, answer) = nodes.call(1, Method::GET, "/group/v1/?timeout=300ms", "");
    assert_eq!(status, 503, "{answer}");
    nodes.world.emptied.lock().clear();
    nodes.stop(2);
    let (status, answer) = nodes.call(1, Method::GET, "/group/v1/?timeout=300ms", "");
    assert_eq!(status, 503, "{answer}");
}

#[test]
fn a_bucket_with_several_copies_is_counted_once() {
    let nodes = TestNodes::start(3, NOTE);
    let bucket = BucketId::new(4, u64::from(low_bits("ann")));
    nodes.world.placed.lock().insert(bucket, vec![1, 2, 0]);
    for number in 0..5 {
        nodes.put(number as usize % 3, "ann", number, &json!({ "title": "a note" }));
    }
    for last_first in [false, true] {
        nodes.world.last_first.store(last_first, Ordering::SeqCst);
        for node in 0..3 {
            assert_eq!(listed(&nodes, node, 10), [("ann".to_owned(), 5)]);
            assert_eq!(shown(&nodes, node, "ann"), (200, Some(5)));
        }
    }
}

#[test]
fn a_group_is_exported_deleted_and_restored_at_any_node() {
    let (nodes, expected) = filled();
    for (node, group) in [(0, "large"), (1, "g1"), (2, "g5")] {
        let exported = nodes.text(node, Method::POST, &format!("/group/v1/{group}/export"), "");
        let lines: Vec<&str> = exported.lines().collect();
        assert_eq!(lines.len() as u64, expected[group], "{exported}");
        let of_group = format!("{{\"put\":\"id:notes:note:g={group}:");
        assert!(lines.iter().all(|line| line.starts_with(&of_group)), "{exported}");
        let path = format!("/group/v1/{group}");
        let (status, answer) = nodes.call((node + 1) % 3, Method::DELETE, &path, "");
        assert_eq!((status, &answer["documents"]), (200, &json!(expected[group])), "{answer}");
        assert_eq!(answer["erased"], false);
        let others: Vec<(String, u64)> =
            expected.clone().into_iter().filter(|(name, _)| name != group).collect();
        for at in 0..3 {
            let mut left = listed(&nodes, at, 2);
            left.sort();
            assert_eq!(left, others, "node {at}, without {group}");
        }
        let (status, answer) = nodes.call(node, Method::DELETE, &path, "");
        assert_eq!((status, &answer["documents"]), (200, &json!(0)), "{answer}");
        let restored = nodes.text((node + 2) % 3, Method::POST, &format!("{path}/restore"), &exported);
        assert!(restored.contains(&format!("\"ok\":{}", expected[group])), "{restored}");
        assert_eq!(shown(&nodes, node, group), (200, Some(expected[group])));
    }
    // A group by its number, as well.
    let seventh = r#"{"fields":{"title":"seventh"}}"#;
    let (status, answer) = nodes.call(1, Method::POST, "/document/v1/notes/note/number/7/1", seventh);
    assert_eq!(status, 200, "{answer}");
    let exported = nodes.text(2, Method::POST, "/group/v1/7/export?kind=number", "");
    assert!(exported.starts_with("{\"put\":\"id:notes:note:n=7:1\""), "{exported}");
    let (status, answer) = nodes.call(0, Method::DELETE, "/group/v1/7?kind=number", "");
    assert_eq!((status, &answer["documents"]), (200, &json!(1)), "{answer}");
    assert_eq!(shown(&nodes, 0, "g1"), (200, Some(expected["g1"])));
    for path in ["/group/v1/g1?within=31d", "/group/v1/g1?within=soon"] {
        let (status, answer) = nodes.call(0, Method::DELETE, path, "");
        assert_eq!(status, 400, "{path}: {answer}");
    }
    // Each node erases, and all of them are asked for receipts.
    let (status, answer) = nodes.call(0, Method::DELETE, "/group/v1/large?within=0&timeout=120s", "");
    assert_eq!((status, &answer["erased"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["erasure"]["nodes"].as_array().map(Vec::len), Some(3), "{answer}");
    let (status, shown) = nodes.call(1, Method::GET, "/group/v1/large", "");
    assert_eq!((status, &shown["erasure"]), (404, &answer["erasure"]), "{shown}");
    let (_, all) = nodes.call(2, Method::GET, "/group/v1/?erasures=true", "");
    let of_large = all["erasures"].as_array().expect("a list").iter().filter(|of| of["name"] == "large");
    assert_eq!(of_large.count(), 3, "{all}");
}

/// Names of the documents that a visit finds, a few at a time.
fn visited(nodes: &TestNodes, node: usize, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut continuation = String::new();
    loop {
        let next = format!("{path}wantedDocumentCount=7&timeout=10s{continuation}");
        let (status, answer) = nodes.call(node, Method::GET, &next, "");
        assert_eq!(status, 200, "{next}: {answer}");
        let documents = answer["documents"].as_array().cloned().unwrap_or_default();
        found.extend(documents.iter().map(|of| of["id"].as_str().unwrap_or_default().to_owned()));
        match answer["continuation"].as_str() {
            Some(token) => continuation = format!("&continuation={token}"),
            None => break,
        }
    }
    found.sort();
    found
}

#[test]
fn a_divided_group_is_visited_changed_and_dropped_part_by_part() {
    let nodes = TestNodes::start(3, NOTE);
    for number in 0..20 {
        let group = if number % 2 == 0 { "even" } else { "odd" };
        nodes.put(number as usize % 3, group, number, &json!({ "title": "a note", "stars": number }));
    }
    nodes.divide("large", 3);
    for number in 0..60 {
        nodes.put(number as usize % 3, "large", number, &json!({ "title": "a note", "stars": number }));
    }
    let of_group = |group: &str, numbers: std::ops::Range<u32>| -> Vec<String> {
        let mut ids: Vec<String> =
            numbers.map(|number| format!("id:notes:note:g={group}:{number}")).collect();
        ids.sort();
        ids
    };
    let large = of_group("large", 0..60);
    let (all, group) = ("/document/v1/?cluster=notes&", "/document/v1/notes/note/group/large/?");
    let everything = visited(&nodes, 0, all);
    assert_eq!(everything.len(), 80);
    for node in 0..3 {
        assert_eq!(visited(&nodes, node, all), everything);
        assert_eq!(visited(&nodes, node, group), large);
        let (status, answer) = nodes.call(node, Method::GET, "/document/v1/notes/note/group/large/7", "");
        assert_eq!((status, answer["fields"]["stars"].as_u64()), (200, Some(7)), "{answer}");
    }
    let (status, answer) =
        nodes.call(0, Method::GET, &format!("{group}wantedDocumentCount=100&timeout=20s"), "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(60)), "{answer}");
    let of_node = |node: &Arc<millrace_node::Node>| {
        let everything = StoreVisit { wanted: 1000, ..StoreVisit::all(&["note"]) };
        let visited = node.store().visit(&everything).expect("it can be read").visited;
        let large = |of: &&VisitedVersion| matches!(of, VisitedVersion::Document(of, _) if of.id.as_str().contains("g=large:"));
        visited.iter().filter(large).count()
    };
    let spread: Vec<usize> = nodes.nodes.iter().map(of_node).collect();
    assert!(spread.iter().all(|count| *count > 0) && spread.iter().sum::<usize>() == 60, "{spread:?}");
    // A part, then all of the rest: each bucket at once.
    let some = "/document/v1/notes/note/group/large/?selection=note.stars%3C10&cluster=notes&timeout=20s";
    let (status, answer) = nodes.call(1, Method::DELETE, some, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(10)), "{answer}");
    assert_eq!(visited(&nodes, 2, group).len(), 50);
    let whole = "/document/v1/notes/note/group/large/?selection=true&cluster=notes&timeout=20s";
    let (status, answer) = nodes.call(2, Method::DELETE, whole, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(50)), "{answer}");
    for node in 0..3 {
        assert_eq!(visited(&nodes, node, group), Vec::<String>::new());
        assert_eq!(visited(&nodes, node, all).len(), 20);
    }
}
