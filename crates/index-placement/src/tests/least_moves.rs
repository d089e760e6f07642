use std::collections::BTreeMap;

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;
use millrace_fixtures::SeededRandom;

use super::SEED;
use super::scenario::{PlacementScenario, node};
use crate::draft::PlannerSabotage;
use crate::{PlacementCommand, PlacementStep};

/// A table as text with random copies on random nodes, and the number of copies on each node.
fn random_line(numbers: &mut SeededRandom, copies_max: usize) -> String {
    let nodes = 1 + numbers.index(8);
    let retired = if nodes > 2 && numbers.percent(20) { Some(numbers.index(nodes)) } else { None };
    // Nodes that have come later have fewer copies, or none.
    let used = if numbers.percent(50) { 1 + numbers.index(nodes) } else { nodes };
    let names: Vec<String> = (0..nodes)
        .map(|node| if Some(node) == retired { format!("{node}r") } else { node.to_string() })
        .collect();
    let mut indexes = Vec::new();
    for index in 0..1 + numbers.index(6) {
        let copies = (1 + numbers.index(copies_max)).min(used);
        let slices = 1 << numbers.index(4);
        let mut texts = Vec::new();
        for _ in 0..slices {
            let mut chosen: Vec<usize> = Vec::new();
            while chosen.len() < copies {
                // Lower nodes are chosen more often.
                let node = numbers.index(used).min(numbers.index(used));
                if !chosen.contains(&node) {
                    chosen.push(node);
                }
            }
            let bytes = 1 + numbers.index(1000);
            let copies: Vec<String> = chosen.iter().map(|node| format!("{node}:{bytes}")).collect();
            texts.push(copies.join(","));
        }
        indexes.push(format!("i{index}*{copies}={}", texts.join("/")));
    }
    format!("{} | {}", names.join(" "), indexes.join(" "))
}

/// Number of copies on each node, ready ones or such that are made.
fn loads(scenario: &PlacementScenario) -> BTreeMap<NodeKey, usize> {
    let mut loads: BTreeMap<NodeKey, usize> = scenario.nodes.iter().map(|node| (node.key, 0)).collect();
    for (_, copy) in scenario.table.all_copies() {
        *loads.entry(copy.node).or_default() += 1;
    }
    loads
}

/// The nodes that take copies, ⌈mean⌉ of all copies over them, and the least number of moves: one for each
/// copy on a node that is to be emptied, and for each copy above ⌈mean⌉.
fn least(scenario: &PlacementScenario) -> (usize, usize) {
    let loads = loads(scenario);
    let takes =
        |key: NodeKey| scenario.nodes.iter().any(|node| node.key == key && node.state == NodeState::Up);
    let all: usize = loads.values().sum();
    let nodes = loads.keys().filter(|key| takes(**key)).count();
    let mean = all.div_ceil(nodes);
    let moves = loads.iter().map(|(key, load)| if takes(*key) { load.saturating_sub(mean) } else { *load });
    (mean, moves.sum())
}

#[test]
fn random_tables_need_the_least_moves() {
    let mut numbers = SeededRandom::new(SEED ^ 1);
    let mut moved = 0;
    for case in 0..100_000 {
        let copies_max = 1 + case % 3;
        let line = random_line(&mut numbers, copies_max);
        let scenario = PlacementScenario::parse(&line);
        let plan = scenario.preview();
        let (mean, expected) = least(&scenario);
        moved += plan.moves;
        assert!(plan.moves >= plan.least_moves && plan.moved_bytes >= plan.least_bytes, "{line}: {plan:?}");
        // A copy on a node to be emptied may find copies of its slice on all nodes with room: this is left to
        // the exhaustive search. On other nodes it cannot be: a node with a copy of each of their slices has
        // as many copies as they.
        let is_emptied = scenario.nodes.iter().any(|node| node.state != NodeState::Up);
        if is_emptied && copies_max > 1 {
            continue;
        }
        assert_eq!((plan.moves, plan.least_moves), (expected as u64, expected as u64), "{line}: {plan:?}");
        let mut loads = loads(&scenario);
        for pair in &plan.pairs {
            *loads.entry(pair.from).or_default() -= pair.moves as usize;
            *loads.entry(pair.to).or_default() += pair.moves as usize;
        }
        assert!(loads.values().all(|load| *load <= mean), "{line}: {plan:?}");
    }
    assert!(moved > 100_000, "{moved} moves");
}

/// Runs a rebalance to its end; returns the number of moves that began.
fn run(scenario: &mut PlacementScenario) -> u64 {
    scenario.commands.push(PlacementCommand::Rebalance { by: "test".to_owned() });
    let steps = scenario.settle();
    let is_move = |step: &&PlacementStep| matches!(step, PlacementStep::CopyBegun { replaces: Some(_), .. });
    steps.iter().filter(is_move).count() as u64
}

#[test]
fn rebalances_make_the_moves_that_were_planned() {
    let mut numbers = SeededRandom::new(SEED ^ 2);
    for _ in 0..2_000 {
        let line = random_line(&mut numbers, 3);
        let mut scenario = PlacementScenario::parse(&line);
        let planned = scenario.preview();
        assert_eq!(run(&mut scenario), planned.moves, "{line}: {planned:?}");
        assert_eq!(scenario.table.rebalance(), None, "{line}");
        let after = scenario.preview();
        assert_eq!((after.moves, after.under_way), (0, 0), "{line}: {after:?}");
    }
}

#[test]
fn a_new_node_gets_its_share_from_the_others() {
    let mut scenario = PlacementScenario::default();
    let copies = |node: usize, count: usize| vec![node.to_string(); count];
    let slices = [copies(0, 34), copies(1, 33), copies(2, 33)].concat();
    let text: Vec<String> =
        slices.iter().enumerate().map(|(at, node)| format!("i{at}*1={node}:1000")).collect();
    scenario.table = PlacementScenario::parse(&format!("0 1 2 | {}", text.join(" "))).table;
    scenario.wanted = PlacementScenario::parse(&format!("0 1 2 | {}", text.join(" "))).wanted;
    scenario.nodes = (0..4).map(|key| node(key, NodeState::Up)).collect();
    let planned = scenario.preview();
    assert_eq!((planned.moves, planned.least_moves, planned.copies), (25, 25, 100));
    // The node is filled by itself.
    let steps = scenario.settle();
    let begun: Vec<&PlacementStep> =
        steps.iter().filter(|step| matches!(step, PlacementStep::CopyBegun { .. })).collect();
    assert_eq!(begun.len(), 25, "{begun:?}");
    let is_onto =
        |step: &&PlacementStep| matches!(step, PlacementStep::CopyBegun { node, .. } if node.0 == 3);
    assert!(begun.iter().all(is_onto), "{begun:?}");
    assert_eq!(loads(&scenario).into_values().collect::<Vec<_>>(), [25, 25, 25, 25]);
    assert_eq!(scenario.table.rebalance(), None);
    // Nothing is scanned on it before all have come: they become ready in one step.
    let ready = steps.iter().position(|step| matches!(step, PlacementStep::CopyReady { .. }));
    let last = steps.iter().rposition(|step| matches!(step, PlacementStep::CopyBegun { .. }));
    assert!(ready > last, "{ready:?} {last:?}");
}

#[test]
fn one_move_too_many_is_found() {
    let mut numbers = SeededRandom::new(SEED ^ 2);
    let found = (0..300).position(|_| {
        let line = random_line(&mut numbers, 3);
        let mut scenario = PlacementScenario::parse(&line);
        let planned = scenario.preview();
        scenario.sabotage = Some(PlannerSabotage::OneMoveTooMany);
        run(&mut scenario) != planned.moves
    });
    assert!(found.is_some(), "the sabotage was not found in 300 tables");
}

#[test]
fn bytes_are_even_where_the_number_of_moves_allows_it() {
    for (line, expected) in [
        // One of the copies must move: the one that leaves 40 and 40.
        ("0 1 | a*1=0:10/0:20/0:50/1:20", "0>1 1 20; 20 of 100, least 10"),
        // One large copy to each of the two nodes.
        ("0 1 2 | a*1=0:10/0:10/0:50/0:50", "0>1 1 50 0>2 1 50; 100 of 120, least 20"),
    ] {
        let plan = PlacementScenario::parse(line).preview();
        let pairs = plan.pairs.iter();
        let pairs: Vec<String> =
            pairs.map(|pair| format!("{}>{} {} {}", pair.from, pair.to, pair.moves, pair.bytes)).collect();
        let found = format!(
            "{}; {} of {}, least {}",
            pairs.join(" "),
            plan.moved_bytes,
            plan.bytes,
            plan.least_bytes
        );
        assert_eq!(found, expected, "{line}");
    }
}
