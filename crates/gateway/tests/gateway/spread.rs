//! A query over documents of three nodes has the same answer as on one node that has them all.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::TestNodes;

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field body type string { indexing: summary | index }
    field folder type string { indexing: summary | attribute }
    field stars type int { indexing: summary | attribute }
  }
  fieldset default { fields: title, body }
  rank-profile words { first-phase { expression: bm25(title) + bm25(body) + attribute(stars) * 0.000001 } }
  rank-profile native inherits words {
    first-phase { expression: nativeRank(title, body) + attribute(stars) * 0.000001 }
    match-features: bm25(title) attribute(stars)
  }
  rank-profile twice inherits words {
    second-phase { rerank-count: 7 expression: 10 - attribute(stars) * 0.01 + firstPhaseRank * 0.5 }
    summary-features: bm25(body)
  }
  rank-profile lower inherits words {
    second-phase {
      rerank-count: 5
      rank-score-drop-limit: -150
      expression: bm25(body) * 0.001 - attribute(stars)
    }
  }
  rank-profile global inherits words {
    second-phase { rerank-count: 20 expression: attribute(stars) * 0.1 + bm25(title) }
    global-phase {
      rerank-count: 9
      expression: normalize_linear(bm25(body)) + 0.1 * normalize_linear(attribute(stars))
    }
  }
  rank-profile fused inherits words {
    global-phase { expression: reciprocal_rank(bm25(title)) + reciprocal_rank(attribute(stars), 7) }
  }
}";

const WORDS: [&str; 12] =
    ["mill", "race", "water", "wheel", "stone", "grain", "flour", "bread", "river", "sluice", "gate", "turn"];

fn fields(number: u32) -> Value {
    let mut body = String::new();
    let mut seed = number.wrapping_mul(2_654_435_761);
    for _ in 0..3 + number % 17 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let _ =
            write!(body, "{} ", WORDS[(seed >> 24) as usize * seed.leading_zeros() as usize % WORDS.len()]);
    }
    let title = format!("{} {}", WORDS[number as usize % 12], WORDS[number as usize / 5 % 12]);
    json!({ "title": title, "body": body, "stars": number, "folder": format!("f{}", number % 7) })
}

/// Creates `count` nodes with the same documents; if the group `large` is divided, its documents are in eight
/// buckets.
fn nodes(count: usize, divided: bool) -> TestNodes {
    let nodes = TestNodes::start(count, NOTE);
    if divided {
        nodes.divide("large", 3);
    }
    for number in 0..240 {
        let group = ["large", "a", "large", "b", "large", "c"][number as usize % 6];
        nodes.put(number as usize % count, group, number, &fields(number));
    }
    nodes
}

/// A result, without its information about the nodes.
fn result(nodes: &TestNodes, node: usize, parameters: &Value) -> Value {
    let (status, mut answer) = nodes.query(node, parameters);
    assert_eq!(status, 200, "{parameters}: {answer}");
    if let Some(coverage) = answer.pointer_mut("/root/coverage").and_then(Value::as_object_mut) {
        coverage.remove("nodes");
    }
    answer
}

#[test]
fn three_nodes_answer_as_one() {
    let (one, three, divided) = (nodes(1, false), nodes(3, false), nodes(3, true));
    let everywhere = json!({ "streaming.selection": "true" });
    let two_groups = json!({ "streaming.selection": "id.group == \"a\" or id.group == \"large\"" });
    let large = json!({ "streaming.groupname": "large" });
    let matching = [
        "select * from note where true",
        "select * from note where userQuery()",
        "select * from note where title contains 'mill' or rank(body contains 'water', body contains 'stone')",
        "select * from note where stars > 100 order by folder desc, stars limit 20",
        "select * from note where body contains 'bread' limit 7 offset 5",
        "select * from note where stars > 7 limit 0 | all(group(folder) order(-sum(stars)) max(4) \
         each(max(2) output(count(), sum(stars), avg(stars)) each(output(summary()))))",
        "select * from note where body contains 'gate' | all(group(fixedwidth(stars, 50)) each(output(count())))",
    ];
    let mut compared = 0;
    let cases = [
        (&everywhere, &three),
        (&two_groups, &three),
        (&large, &three),
        (&everywhere, &divided),
        (&two_groups, &divided),
        (&large, &divided),
    ];
    for (scope, several) in cases {
        for yql in matching {
            for profile in ["words", "native", "twice", "lower", "global", "fused"] {
                if profile != "words" && yql.contains("order by") {
                    continue;
                }
                let mut parameters = scope.clone();
                let given = json!({
                    "yql": yql, "query": "mill water race bread", "type": "any", "ranking": profile, "timeout": "20s"
                });
                parameters.as_object_mut().expect("a map").extend(given.as_object().cloned().expect("a map"));
                let expected = result(&one, 0, &parameters);
                for node in 0..3 {
                    assert_eq!(result(several, node, &parameters), expected, "{parameters} at node {node}");
                }
                compared += usize::from(expected["root"]["fields"]["totalCount"].as_u64() > Some(0));
            }
        }
    }
    assert!(compared > 100, "only {compared} queries find something");
}

#[test]
fn rules_rewrite_a_query_at_every_node() {
    let (one, divided) = (nodes(1, false), nodes(3, true));
    let rules = "@default\n grist -> grain;\n crumbs +> ?bread;\n fewest -> parameter.hits='3';";
    for nodes in [&one, &divided] {
        (0..nodes.nodes.len()).for_each(|node| nodes.deploy_with(node, NOTE, &[("rules/mill.sr", rules)]));
    }
    let asked = |query: &str, off: &str| {
        json!({
            "yql": "select * from note where userQuery()", "query": query, "type": "all", "ranking": "words",
            "rules.off": off, "timeout": "20s", "streaming.groupname": "large",
        })
    };
    for (query, same_as) in [("grist", "grain"), ("crumbs", "bread"), ("water grist", "water grain")] {
        let expected = result(&one, 0, &asked(same_as, "true"));
        assert!(expected["root"]["fields"]["totalCount"].as_u64() > Some(0), "{expected}");
        assert_ne!(result(&one, 0, &asked(query, "true")), expected, "{query} without rules");
        for (nodes, node) in [(&one, 0), (&divided, 0), (&divided, 1), (&divided, 2)] {
            assert_eq!(result(nodes, node, &asked(query, "false")), expected, "{query} at node {node}");
        }
    }
    for (nodes, node) in [(&one, 0), (&divided, 1)] {
        let few = result(nodes, node, &asked("grain fewest", "false"));
        assert_eq!(few["root"]["children"].as_array().map(Vec::len), Some(3), "{few}");
    }
}

/// Sources with parameters of their own, in one list and one by one, over documents of all nodes, of groups
/// on one node, and of different groups.
#[test]
fn sources_are_searched_apart_over_several_nodes() {
    let (one, divided) = (nodes(1, false), nodes(3, true));
    let yql = "select * from sources * where body contains 'mill' limit 150";
    let asked = json!({
        "yql": yql, "sources": "note,notes", "ranking": "words", "timeout": "20s", "streaming.groupname": "large"
    });
    for (own, sources) in [
        (json!({ "source.note.hits": 3, "source.notes.hits": 4 }), ["note", "notes"]),
        (json!({ "source.note.hits": 3, "source.notes.streaming.groupname": "a" }), ["note", "notes"]),
        (
            json!({ "source.note.streaming.groupname": "b", "source.notes.streaming.selection": "true" }),
            ["note", "notes"],
        ),
        (json!({ "source.notes.ranking": "twice", "source.note.offset": 5 }), ["note", "notes"]),
        (json!({ "sources": "notes", "source.notes.hits": 20 }), ["notes", "notes"]),
    ] {
        let mut parameters = asked.clone();
        parameters.as_object_mut().expect("a map").extend(own.as_object().cloned().expect("a map"));
        let expected = result(&one, 0, &parameters);
        let hits = expected["root"]["children"].as_array().expect("hits");
        for source in sources {
            assert!(hits.iter().any(|hit| hit["source"] == source), "{parameters}: {expected}");
        }
        for node in 0..3 {
            assert_eq!(result(&divided, node, &parameters), expected, "{parameters} at node {node}");
        }
    }
}

/// The node that is asked counts the replies of others, and each node its own share and the query that it
/// parses.
#[test]
fn each_node_bounds_the_memory_of_a_query() {
    let long = json!({ "title": "mill", "body": "w ".repeat(1500), "folder": "f", "stars": 1 });
    // Node and its limit in bytes, hits of the query, length of a parameter, and the status.
    let table = [
        ("nothing is large", 0, 150_000, 2, 0, 200),
        ("the replies together", 0, 230_000, 60, 0, 400),
        ("the share of the other node", 1, 60_000, 60, 0, 400),
        ("a small share of the other node", 1, 60_000, 2, 0, 200),
        ("the query at the other node", 1, 60_000, 2, 3_000, 400),
    ];
    for (what, node, limit, hits, length, status) in table {
        let nodes = TestNodes::start_with(2, NOTE, &|settings| {
            if settings.node.data_dir.ends_with(node.to_string()) {
                settings.node.query_memory_max = limit;
            }
        });
        nodes.divide("large", 3);
        (0..60).for_each(|number| nodes.put(number as usize % 2, "large", number, &long));
        let (answered, answer) = nodes.query(
            0,
            &json!({
                "yql": "select body from note where true", "streaming.groupname": "large", "hits": hits,
                "timeout": "20s", "unknown": "x".repeat(length)
            }),
        );
        assert_eq!(answered, status, "{what}: {answer}");
        let message = answer.pointer("/root/errors/0/message").map(Value::to_string).unwrap_or_default();
        assert_eq!(message.contains("query-memory-max"), status == 400, "{what}: {answer}");
    }
}
