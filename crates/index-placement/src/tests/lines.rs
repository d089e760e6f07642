use super::scenario::PlacementScenario;

/// Plans for one situation; refused commands come first.
#[track_caller]
fn check(line: &str, expected: &str) {
    let scenario = PlacementScenario::parse(line);
    let plan = scenario.plan();
    let refused = plan.answers.iter().filter_map(|answer| answer.as_ref().err());
    let mut found: Vec<String> = refused.map(|error| format!("refused: {error}")).collect();
    if found.is_empty() || !plan.steps.is_empty() {
        found.push(PlacementScenario::steps_as_text(&plan.table, &plan.steps));
    }
    let found = found.join("; ");
    if std::env::var_os("BLESS").is_some() {
        println!("{line}\n    {found}");
    } else {
        assert_eq!(found, expected, "{line}");
    }
    // The same reports again lead to nothing more.
    let again = PlacementScenario { table: plan.table, commands: Vec::new(), ..scenario }.plan();
    assert_eq!(PlacementScenario::steps_as_text(&again.table, &again.steps), "nothing", "{line}, again");
}

#[test]
fn copies_are_made_where_they_are_missing() {
    for (line, expected) in [
        ("0 1 | a*2=0,1", "nothing"),
        // The first copy is built; the second one is sent when it is ready.
        ("0 1 | a*2=", "a/0 on 0 built: none"),
        ("0 1 | a*2=0b", "nothing"),
        ("0 1 | a*2=0b!", "a/0 on 0 ready; a/0 on 1 from 0: few"),
        ("0 1 | a*2=0,1c0!", "a/0 on 1 ready"),
        ("0 1 | a*2=0,1c0", "nothing"),
        // Slices are spread evenly.
        (
            "0 1 2 | a*1=///",
            "a/0 on 0 built: none; a/1 on 1 built: none; a/2 on 2 built: none; a/3 on 0 built: none",
        ),
        ("0 1 2 | a*1=0/0// b*1=", "a/2 on 1 built: none; a/3 on 2 built: none; b/0 on 1 built: none"),
        // More copies than nodes: as many as there are nodes.
        ("0 1 | a*4=0", "a/0 on 1 from 0: few"),
        // A deferred index waits for its command.
        ("0 1 | a?*2=", "nothing"),
        ("0 1 | a?*1= | build a", "index 0 is to be built; a/0 on 0 built: none"),
        // Other methods.
        (
            "0 1 | a*2=0 | set {\"method\": \"rebuild\"}",
            "the settings of placement have changed; a/0 on 1 built: few",
        ),
        (
            "0 1 | a*2= | set {\"method\": \"file\"}",
            "the settings of placement have changed; a/0 on 0 built: none",
        ),
        // A slice without a ready copy comes before one with too few.
        (
            "0 1 | a*2=0 b*1= | set {\"transfers-per-node\": 1}",
            "the settings of placement have changed; b/0 on 0 built: none; a/0 on 1 from 0: few",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn nodes_make_few_copies_at_once() {
    for (line, expected) in [
        // A node without scans builds many indexes at once, one with scans three.
        (
            "0 | a*1= b*1= c*1= d*1= e*1= | set {\"empty-node-batch\": 4}",
            "the settings of placement have changed; a/0 on 0 built: none; b/0 on 0 built: none; c/0 on 0 built: none; d/0 on 0 built: none",
        ),
        ("0 | z*1=0 a*1= b*1= c*1= d*1=", "a/0 on 0 built: none; b/0 on 0 built: none; c/0 on 0 built: none"),
        // All slices of an index are built together.
        (
            "0 | z*1=0 a*1=/// | set {\"batch\": 1}",
            "the settings of placement have changed; a/0 on 0 built: none; a/1 on 0 built: none; a/2 on 0 built: none; a/3 on 0 built: none",
        ),
        ("0 1 | a*2=0/0/0/0", "a/0 on 1 from 0: few; a/1 on 1 from 0: few"),
        (
            "0 1 2 | a*2=0/0/0/0 | set {\"transfers-per-node\": 1}",
            "the settings of placement have changed; rebalance 0 begins: a node has no copies; a/0 on 1 from 0: few",
        ),
        // A copy that has caught up does not count any more.
        ("0 1 | a*2=0,1c0/0,1c0/0/0", "nothing"),
        ("0 1 | a*2=0,1c0!/0,1c0/0/0", "a/0 on 1 ready; a/2 on 1 from 0: few"),
    ] {
        check(line, expected);
    }
}

#[test]
fn copies_of_failed_nodes_are_made_elsewhere() {
    for (line, expected) in [
        // In maintenance nothing is made elsewhere.
        ("0 1m 2 | a*2=0,1", "nothing"),
        ("0m 1 2 | a*1=0", "nothing"),
        ("0 1d 2 | a*2=0,1", "a/0 on 2 from 0: few"),
        ("0 1d 2 | a*2=0,1,2c0!", "a/0 on 2 ready; a/0 forgotten on 1: the node is down"),
        // The node is back before its copy was replaced.
        ("0 1 2 | a*2=0,1,2c0", "a/0 leaves 2: the slice has more copies than wanted"),
        ("0 1 2 | a*2=0,1,2c0!", "a/0 leaves 2: the slice has more copies than wanted"),
        // None is left: built.
        ("0d 1 | a*1=0", "a/0 on 1 built: none"),
        ("0d 1m 2 | a*2=0,1", "nothing"),
        // The copy in progress dies with its node, and the source of another one.
        ("0 1d 2 | a*2=0,1c0", "a/0 forgotten on 1: the node is down; a/0 on 2 from 0: few"),
        ("0d 1 2 | a*2=0,1,2c0", "a/0 on 2 now from 1"),
        ("0d 1 | a*1=0,1c0", "a/0 on 1 now built"),
        ("0m 1 2 | a*2=0,1c0", "nothing"),
        ("0m 1 2 | a*3=0,1,2c0", "a/0 on 2 now from 1"),
        // A damaged copy is replaced, also on its own node once it is unlinked.
        ("0 1 2 | a*2=0,1f", "a/0 leaves 1: the copy failed: disk full; a/0 on 2 from 0: few"),
        ("0 1 | a*2=0,1f", "a/0 leaves 1: the copy failed: disk full"),
        ("0 1 | a*2=0,1lg", "a/0 forgotten on 1: the node has unlinked it; a/0 on 1 from 0: few"),
        ("0 | a*1=0f", "a/0 leaves 0: the copy failed: disk full"),
        ("0 1 | a*2=0,1g", "a/0 forgotten on 1: the node does not have it any more; a/0 on 1 from 0: few"),
        ("0 1 2 | a*2=0,1bf", "a/0 leaves 1: the copy failed: disk full; a/0 on 2 from 0: few"),
        // A node that was removed.
        (
            "0 1 | a*2=0,7 b*1=7",
            "a/0 forgotten on 7: the node was removed from the cluster; b/0 forgotten on 7: the node was removed from the cluster; b/0 on 0 built: none; a/0 on 1 from 0: few",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn copies_leave_nodes_that_are_to_be_emptied() {
    for (line, expected) in [
        ("0r 1 2 | a*1=0 b*1=1 c*1=2", "a/0 on 1 from 0 instead of 0: retired"),
        ("0x 1 2 | a*1=0", "rebalance 0 begins: a node has no copies; a/0 on 1 from 0 instead of 0: retired"),
        ("0r 1 | a*1=0,1c0>0!", "a/0 on 1 ready; a/0 leaves 0: it has moved to node 1"),
        // No other node can take it: it stays.
        ("0r 1 | a*2=0,1", "nothing"),
        ("0r | a*1=0", "nothing"),
        // What was to come to it, does not.
        ("0 1r 2 | a*1=0,1c0>0", "a/0 leaves 1: the node is to be emptied"),
        // A swap: everything goes to the new node, nothing between old ones.
        (
            "0 1 2r 3 | a*1=0/0/1/1/1/2/2/2",
            "rebalance 0 begins: a node has no copies; a/5 on 3 from 2 instead of 2: retired; a/6 on 3 from 2 instead of 2: retired",
        ),
        // One out, two in.
        (
            "0 1r 2 3 | a*1=0/0/0/0/1/1/1/1",
            "rebalance 0 begins: a node has no copies; a/4 on 2 from 1 instead of 1: retired; a/5 on 3 from 1 instead of 1: retired; a/0 on 2 from 0 instead of 0: empty",
        ),
        // Down instead of retired.
        ("0 1d 2 | a*1=0/0/1/1", "a/2 on 2 built: none; a/3 on 2 built: none"),
    ] {
        check(line, expected);
    }
}

#[test]
fn empty_nodes_are_filled() {
    for (line, expected) in [
        (
            "0 1 2 | a*1=0/0/0/0/1/1/1/1",
            "rebalance 0 begins: a node has no copies; a/0 on 2 from 0 instead of 0: empty; a/4 on 2 from 1 instead of 1: empty",
        ),
        // Nothing to gain: ⌈mean⌉ is not exceeded.
        ("0 1 2 | a*1=0/1", "nothing"),
        // Old nodes stay as uneven as they are.
        ("0 1 | a*1=0/0/0/0 b*1=1", "nothing"),
        (
            "0 1 2 | a*1=0/0/0/0/0/0/1/1",
            "rebalance 0 begins: a node has no copies; a/0 on 2 from 0 instead of 0: empty; a/1 on 2 from 0 instead of 0: empty",
        ),
        // Held until all have come.
        ("0 1 | a*1=0,1c0>0!/0,1c0>0/0/0 | filling 1", "nothing"),
        (
            "0 1 | a*1=0,1c0>0!/0,1c0>0!/0/0 | filling 1",
            "a/0 on 1 ready; a/0 leaves 0: it has moved to node 1; a/1 on 1 ready; a/1 leaves 0: it has moved to node 1; rebalance 0 has ended",
        ),
        (
            "0 1 | a*1=0,1c0>0!/0,1c0>0/0/0 | filling 1; set {\"activation\": \"slice\"}",
            "the settings of placement have changed; a/0 on 1 ready; a/0 leaves 0: it has moved to node 1",
        ),
        // Those count that have not begun.
        ("0 1 | a*1=0,1c0>0!/0/0/0 | filling 1", "a/1 on 1 from 0 instead of 0: empty"),
        // A slice that has no other copy to scan is not held.
        ("0 1 2 | a*1=0,1c0>0/2/2/1b! | filling 1", "a/3 on 1 ready"),
        // Stopped: what is in flight ends, and nothing begins by itself.
        ("0 1 | a*1=0,1c0>0/0/0/0 | filling 1; stop", "rebalance 0 begins no further moves"),
        (
            "0 1 | a*1=0,1c0>0f/0/0/0 | filling 1; stop",
            "rebalance 0 begins no further moves; a/0 leaves 1: the copy failed: disk full; rebalance 0 has ended",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn all_nodes_are_balanced_on_request_alone() {
    for (line, expected) in [
        (
            "0 1 | a*1=0/0/0/0 b*1=1 | rebalance",
            "rebalance 0 begins, as asked for by test; a/0 on 1 from 0 instead of 0: rebalance",
        ),
        ("0 1 | a*1=0/0/1/1 | rebalance", "rebalance 0 begins, as asked for by test; rebalance 0 has ended"),
        ("0 1 | a*1=0/0/0/0,1c0>0 b*1=1 | running", "nothing"),
        // The copy that leaves the sizes even.
        (
            "0 1 | a*1=0:10/0:20/0:10/0:20 b*1=1:10/1:10 | rebalance",
            "rebalance 0 begins, as asked for by test; a/1 on 1 from 0 instead of 0: rebalance",
        ),
        // Two moves for one copy, whose slice has another one on the only node with room.
        (
            "0r 1 2 3 | a*2=0,3 b*1=1/1 c*1=2/2 | rebalance",
            "rebalance 0 begins, as asked for by test; a/0 on 1 from 0 instead of 0: retired; b/0 on 3 from 1 instead of 1: rebalance",
        ),
        // Without a rebalance it goes where it can.
        ("0r 1 2 3 | a*2=0,3 b*1=1/1 c*1=2/2", "a/0 on 1 from 0 instead of 0: retired"),
        // A second one while one runs; one that replaces an automatic one.
        (
            "0 1 | a*1=0/0 | running; rebalance",
            "refused: rebalance 0 runs, with 0 moves left; wait until it has ended, or stop it first; a/0 on 1 from 0 instead of 0: rebalance",
        ),
        (
            "0 1 | a*1=0,1c0>0/0/0/0 | filling 1; rebalance",
            "rebalance 1 begins, as asked for by test; a/1 on 1 from 0 instead of 0: rebalance",
        ),
        ("0 1 | a*1=0/1 | stop", "refused: a rebalance is not in progress"),
        // Nodes in maintenance neither give nor take.
        (
            "0 1 2m | a*1=0/0/0/0/1/2/2/2 | rebalance",
            "rebalance 0 begins, as asked for by test; a/0 on 1 from 0 instead of 0: rebalance",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn copies_of_a_slice_are_in_different_groups() {
    for (line, expected) in [
        ("0/1 1/1 2/2 3/2 | a*2=0,2", "nothing"),
        ("0/1 1/1 2/2 3/2 | a*2=0", "a/0 on 2 from 0: few"),
        ("0/1 1/1 2/2 3/2 | a*2=0,1", "a/0 on 2 from 0 instead of 0: together"),
        ("0/1 1/1 2/2 | a*3=0,1,2", "nothing"),
        ("0/1 1/1 2d/2 3d/2 | a*2=0,2", "a/0 on 1 from 0: few"),
        ("0/1 1/1 2m/2 3m/2 | a*2=0,2", "nothing"),
        (
            "0r/1 1/1 2/2 3/2 | a*2=0,2",
            "rebalance 0 begins: a node has no copies; a/0 on 1 from 0 instead of 0: retired",
        ),
        ("0/1.1 1/1.1 2/1.2 3/2.1 | a*3=0,1,3", "a/0 on 2 from 0 instead of 0: together"),
        (
            "0/1 1/1 2/2 3/2 | a*2=0,2/0,2/0,2/0,3 | rebalance",
            "rebalance 0 begins, as asked for by test; a/0 on 1 from 0 instead of 0: rebalance; a/0 on 3 from 2 instead of 2: rebalance; a/1 on 1 from 0 instead of 0: rebalance",
        ),
    ] {
        check(line, expected);
    }
}

#[test]
fn declarations_change() {
    for (line, expected) in [
        ("0 1 | | want a*1/2", "index 0 ('a') is to be placed; a/0 on 0 built: none; a/1 on 1 built: none"),
        ("0 1 | a*1=0 b*2=0,1 | drop a", "index 0 ('a') is removed: it is not declared any more"),
        ("0 1 | a*1=0 | want a*2/1", "the number of copies of index 0 should be 2; a/0 on 1 from 0: few"),
        (
            "0 1 2 | a*3=0,1,2 | want a*1/1",
            "the number of copies of index 0 should be 1; a/0 leaves 2: the slice has more copies than wanted; a/0 leaves 1: the slice has more copies than wanted",
        ),
        (
            "0 1 2 | a*2=0,1,2c1>1 | want a*1/1",
            "the number of copies of index 0 should be 1; a/0 leaves 1: the slice has more copies than wanted; a/0 leaves 2: the slice has more copies than wanted",
        ),
        // A new definition is built beside the old one, if that one serves.
        (
            "0 1 | a*1=0/1 | define a",
            "index 1 ('a') is to be placed; a/0 on 0 built: none; a/1 on 1 built: none",
        ),
        (
            "0 1 | a*1=0/1b | define a",
            "index 0 ('a') is removed: it is superseded, and has not a ready copy of each slice; index 1 ('a') is to be placed; a/0 on 0 built: none; a/1 on 1 built: none",
        ),
        (
            "0 1 | a*1=0 | want a*1/2",
            "index 1 ('a') is to be placed; a/0 on 0 built: none; a/1 on 1 built: none",
        ),
        ("0 1 | a*1=0 | rebuild a", "index 1 ('a') is to be placed; a/0 on 0 built: none"),
        (
            "0 1 | a*1=0,1c0>0 | rebuild a",
            "a/0 leaves 1: its definition is superseded; index 1 ('a') is to be placed; a/0 on 0 built: none",
        ),
    ] {
        check(line, expected);
    }
}
