use std::collections::BTreeSet;

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;

use super::scenario::{PlacementScenario, node};
use crate::PlacementCommand;

/// The answer to the last command.
fn answer(line: &str) -> String {
    let plan = PlacementScenario::parse(line).plan();
    match plan.answers.last().expect("a command") {
        Ok(()) => PlacementScenario::steps_as_text(&plan.table, &plan.steps),
        Err(error) => error.to_string(),
    }
}

#[test]
fn commands_are_answered_with_a_cure() {
    for (line, expected) in [
        (
            "0 1 | a*1=0 | move a/0 0 1",
            "slice 0 of index 0 is to move from node 0 to node 1; a/0 on 1 from 0 instead of 0: asked",
        ),
        (
            "0 1 | a*1=0 | move b/0 0 1",
            "index 'b' of content cluster 'mail' is not placed; the placed indexes are a",
        ),
        ("0 1 | a*1=0 | move a/1 0 1", "slice 1 of index 0 does not exist: the index has slices 0 to 0"),
        ("0 1 | a*1=0 | move a/0 0 7", "node 7 is not a node of this cluster"),
        ("0 1 | a*1=0 | move a/0 7 1", "node 7 is not a node of this cluster"),
        ("0 1m | a*1=0 | move a/0 0 1", "node 1 takes no copies: it is in maintenance"),
        ("0 1r | a*1=0 | move a/0 0 1", "node 1 takes no copies: it is retired"),
        ("0 1x | a*1=0 | move a/0 0 1", "node 1 takes no copies: it does not have the role 'index'"),
        (
            "0 1 2 | a*1=0 | move a/0 1 2",
            "node 1 has no ready copy of slice 0 of index 0; ready copies are on 0",
        ),
        (
            "0 1 | a*2=0,1 | move a/0 0 1",
            "node 1 has a copy of slice 0 of index 0 already; choose a node without one",
        ),
        (
            "0 1 2 | a*1=0,1c0>0 | move a/0 0 2",
            "the copy of slice 0 of index 0 on node 0 is being moved; wait until this has ended",
        ),
        (
            "0 1 2 | a*1=0 | move a/0 0 1; move a/0 0 2",
            "the copy of slice 0 of index 0 on node 0 is being moved; wait until this has ended",
        ),
        (
            "0 1 | a*1=0 | build b",
            "index 'b' of content cluster 'mail' is not placed; the placed indexes are a",
        ),
        (
            "0 1 | a*1=0 | rebuild a; rebuild a",
            "index 1 is built beside the one that serves; wait until it is ready",
        ),
        (
            "0 1 | a*1=0/0 | rebalance; rebalance",
            "rebalance 0 runs, with 0 moves left; wait until it has ended, or stop it first",
        ),
        ("0 1 | a*1=0 | stop", "a rebalance is not in progress"),
    ] {
        assert_eq!(answer(line), expected, "{line}");
    }
}

#[test]
fn a_move_that_was_asked_for_waits_for_its_turn() {
    let line = "0 1 2 | a*1=0,1c0>0/0,1c0>0/0/0 | running; move a/2 0 2; set {\"transfers-per-node\": 2}";
    let mut scenario = PlacementScenario::parse(line);
    let plan = scenario.plan();
    assert_eq!(plan.answers, vec![Ok(()), Ok(())]);
    assert_eq!(plan.table.requested.len(), 1, "{:?}", plan.steps);
    scenario.perform(plan.table);
    let steps = scenario.settle();
    let text = PlacementScenario::steps_as_text(&scenario.table, &steps);
    assert!(text.contains("a/2 on 2 from 0 instead of 0: asked"), "{text}");
    assert!(scenario.table.requested.is_empty(), "{text}");
}

#[test]
fn a_changed_definition_serves_until_the_new_one_does() {
    let mut scenario = PlacementScenario::parse("0 1 | a*2=0,1/0,1 | define a");
    let old = scenario.table.usable("mail", "a").expect("it serves");
    let mut usable = Vec::new();
    for _ in 0..20 {
        let plan = scenario.plan();
        usable.push(plan.table.usable("mail", "a").expect("one of the two serves at any time"));
        scenario.perform(plan.table);
    }
    let new = scenario.table.declared("mail", "a").expect("it is declared");
    assert_ne!(old, new);
    assert_eq!(usable.first(), Some(&old), "{usable:?}");
    assert_eq!(usable.last(), Some(&new), "{usable:?}");
    assert_eq!(scenario.table.indexes().len(), 1);
}

#[test]
fn steps_are_sentences() {
    let line = "0 1 2 | a*1=0/0/0/1 b*2=0,1f c*1=1b! | rebalance; set {\"batch\": 7}";
    let plan = PlacementScenario::parse(line).plan();
    let lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let expected = [
        "rebalance 0 begins, as asked for by test",
        "the settings of placement have changed",
        "slice 0 of index 1 leaves node 1: the copy failed: disk full",
        "slice 0 of index 2 is ready on node 1",
        "slice 0 of index 1 comes to node 2 from node 0: the slice has too few copies",
        "slice 0 of index 0 comes to node 2 from node 0, instead of node 0: a rebalance was asked for",
    ];
    assert_eq!(lines, expected);
}

/// Numbers of copies on the nodes.
fn loads(scenario: &PlacementScenario) -> Vec<usize> {
    scenario.nodes.iter().map(|node| scenario.table.of_node(node.key).count()).collect()
}

#[test]
fn a_node_whose_last_copy_was_moved_away_stays_empty() {
    let parsed = || PlacementScenario::parse("0 1 | a*1=0/0/0/1 | move a/3 1 0");
    let mut scenario = parsed();
    scenario.settle();
    assert_eq!(loads(&scenario), [4, 0], "the move is not undone");
    for state in [NodeState::Maintenance, NodeState::Down, NodeState::Up] {
        scenario.nodes[1].state = state;
        scenario.settle();
        assert_eq!(loads(&scenario), [4, 0], "{state:?}");
    }
    scenario.commands.push(PlacementCommand::Rebalance { by: "test".to_owned() });
    scenario.settle();
    assert_eq!(loads(&scenario), [2, 2], "a rebalance was asked for");

    let mut scenario = parsed();
    scenario.settle();
    scenario.nodes.push(node(2, NodeState::Up));
    scenario.settle();
    assert_eq!(loads(&scenario), [2, 0, 2], "another node is filled, and it alone");

    let mut scenario = parsed();
    scenario.settle();
    scenario.nodes[0].state = NodeState::Retired;
    scenario.settle();
    assert_eq!(loads(&scenario), [0, 4], "it takes what has to leave another node");
    scenario.nodes[0].state = NodeState::Up;
    scenario.settle();
    assert_eq!(loads(&scenario), [2, 2], "no operator has moved its last copy away");
}

#[test]
fn a_node_whose_filling_was_stopped_stays_empty() {
    let mut scenario = PlacementScenario::parse("0 1 | a*1=0,1c0>0f/0/0/0 | filling 1; stop");
    scenario.settle();
    assert_eq!(loads(&scenario), [4, 0], "the copy that was in progress has failed, and is unlinked");
    assert_eq!(scenario.table.unfilled, BTreeSet::from([NodeKey(1)]));
}
