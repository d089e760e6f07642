//! Slices of visits, updates and removals in a cluster, of groups that are divided and others.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::json;

use crate::support::TestNodes;

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
  }
}";

/// Documents of the large group, and of each small one.
const LARGE: u32 = 80;
const SMALL: u32 = 6;

fn fill(nodes: &TestNodes) {
    for number in 0..LARGE {
        nodes.put(number as usize % 3, "large", number, &json!({ "stars": number }));
    }
    for number in 0..SMALL {
        for group in ["a", "b", "c"] {
            nodes.put(number as usize % 3, group, number, &json!({ "stars": number }));
        }
    }
}

/// Names of the documents that a visit finds, a few at a time.
fn visited(nodes: &TestNodes, node: usize, path: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut continuation = String::new();
    loop {
        let next = format!("{path}&wantedDocumentCount=7&timeout=20s{continuation}");
        let (status, answer) = nodes.call(node, Method::GET, &next, "");
        assert_eq!(status, 200, "{next}: {answer}");
        for document in answer["documents"].as_array().expect("a list") {
            let id = document["id"].as_str().expect("an id").to_owned();
            assert!(found.insert(id), "{next} finds a document twice");
        }
        match answer["continuation"].as_str() {
            Some(token) => continuation = format!("&continuation={token}"),
            None => return found,
        }
    }
}

#[test]
fn slices_make_up_the_whole_and_cut_every_group() {
    for divided in [false, true] {
        let nodes = TestNodes::start(3, NOTE);
        if divided {
            nodes.divide("large", 3);
        }
        fill(&nodes);
        let all = "/document/v1/?cluster=notes";
        for path in ["/document/v1/notes/note/group/large/?cluster=notes", all] {
            let path = format!("{path}&selection=true");
            let whole = visited(&nodes, 0, &path);
            for slices in [2, 3] {
                let mut together = BTreeSet::new();
                for slice in 0..slices {
                    let sliced = format!("{path}&slices={slices}&sliceId={slice}");
                    let part = visited(&nodes, slice, &sliced);
                    let share = whole.len() / slices;
                    assert!((share / 2..share * 2).contains(&part.len()), "{} in {sliced}", part.len());
                    assert!(part.is_disjoint(&together), "{sliced}");
                    together.extend(part);
                }
                assert_eq!(together, whole, "{slices} slices of {path}, divided: {divided}");
            }
        }
        // Changes, each through another node.
        let path = "/document/v1/notes/note/group/large/?cluster=notes&selection=true&timeout=20s";
        let mut left = visited(&nodes, 0, all);
        for slice in 0..3 {
            let sliced = format!("{path}&slices=3&sliceId={slice}");
            let part = visited(&nodes, 0, &sliced);
            let changed = [
                nodes.call(slice, Method::PUT, &sliced, r#"{"fields":{"title":{"assign":"new"}}}"#),
                nodes.call(slice, Method::DELETE, &sliced, ""),
            ];
            for (status, answer) in changed {
                let count = answer["documentCount"].as_u64();
                assert_eq!((status, count), (200, Some(part.len() as u64)), "{sliced}: {answer}");
            }
            left.retain(|id| !part.contains(id));
            assert_eq!(visited(&nodes, 1, all), left, "{sliced}, divided: {divided}");
        }
        assert_eq!(left.len() as u32, 3 * SMALL);
    }
}

#[test]
fn continuations_of_a_cluster_name_their_slice() {
    for divided in [false, true] {
        let nodes = TestNodes::start(3, NOTE);
        if divided {
            nodes.divide("large", 1);
        }
        fill(&nodes);
        for path in ["/document/v1/notes/note/group/large/?", "/document/v1/?"] {
            let path = format!("{path}cluster=notes&selection=true&timeout=20s&wantedDocumentCount=2");
            let token = |more: &str| {
                let (status, answer) = nodes.call(1, Method::GET, &format!("{path}{more}"), "");
                assert_eq!(status, 200, "{answer}");
                answer["continuation"].as_str().expect("there are more").to_owned()
            };
            let (whole, slice) = (token(""), token("&slices=4&sliceId=1"));
            let refused = |more: &str, token: &str| {
                for (node, method) in [Method::GET, Method::DELETE].into_iter().enumerate() {
                    let path = format!("{path}{more}&continuation={token}");
                    let (status, answer) = nodes.call(node, method.clone(), &path, "");
                    let message = answer["message"].as_str().unwrap_or_default();
                    assert!(status == 400 && message.contains("continuation"), "{method} {path}: {answer}");
                }
            };
            refused("&slices=4&sliceId=1", &whole);
            refused("&slices=4&sliceId=0", &slice);
            refused("", &slice);
        }
    }
}
