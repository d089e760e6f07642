//! Requests, versions and measures of plans, as tables.

use millrace_cluster::{NodeKey, NodeState};
use millrace_index_placement::{
    CopyProgress, CopyReport, DefinitionHash, PlacedCopy, PlacedCopyState, PlacementCommand,
    PlacementSettingsUpdate, RequestedCopyMove,
};

use super::*;

#[test]
fn plans_follow_each_other_soon_and_take_a_tenth_of_the_time() {
    for (took_ms, expected_ms) in [(0, 100), (10, 100), (20, 200), (90, 900), (100, 1_000), (5_000, 1_000)] {
        let interval = interval_after(Duration::from_millis(took_ms));
        assert_eq!(interval, Duration::from_millis(expected_ms), "after {took_ms} ms");
    }
}

/// Two nodes with ready copies of two of four slices each, and what `change` makes of it.
fn inputs(change: impl FnOnce(&mut PlanInputs)) -> PlanInputs {
    let node = |key: u16| IndexNode {
        key: NodeKey(key),
        name: format!("n{key}").into(),
        state: NodeState::Up,
        has_role: true,
        group: Vec::new(),
        reports: BTreeMap::new(),
    };
    let due = WantedIndex::new(("mail", "due"), DefinitionHash(7), 1, 4).expect("valid numbers");
    let mut inputs = PlanInputs {
        table: Arc::default(),
        nodes: vec![node(0), node(1)],
        wanted: vec![due],
        requests: Vec::new(),
    };
    settle(&mut inputs);
    change(&mut inputs);
    inputs
}

/// Plans at a time, and lets nodes do all that the table says.
fn turn(inputs: &mut PlanInputs, now_ms: u64) {
    inputs.table = Arc::new(planned(inputs, now_ms).plan.table);
    inputs.requests.clear();
    let table = Arc::clone(&inputs.table);
    let progress = |copy: &PlacedCopy| match copy.state {
        PlacedCopyState::Leaving => CopyProgress::Gone,
        _ => CopyProgress::CaughtUp,
    };
    for node in &mut inputs.nodes {
        let own = table.of_node(node.key);
        node.reports =
            own.map(|(_, copy)| (copy.id, CopyReport { progress: progress(copy), bytes: 100 })).collect();
    }
}

/// Takes turns until nothing is left to do.
fn settle(inputs: &mut PlanInputs) {
    (0..20).for_each(|_| turn(inputs, 1_000));
}

fn request(text: &str) -> Option<PlacementRequest> {
    let (content, name) = ("mail".to_owned(), "due".to_owned());
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "rebalance" => PlacementRequest::Rebalance { by: "n0".to_owned() },
        "stop" => PlacementRequest::Stop,
        "build" => PlacementRequest::Build { content, name: rest.to_owned() },
        "rebuild" => PlacementRequest::Rebuild { content, name: rest.to_owned() },
        "move" => {
            let copy = RequestedCopyMove::from_json(rest.as_bytes()).expect("a move");
            PlacementRequest::Move { content, name, copy }
        }
        "set" => PlacementRequest::settings(rest.as_bytes()).expect("valid settings"),
        "unknown" => return None,
        _ => panic!("'{text}' is not a request"),
    })
}

/// Slices with the nodes of their copies.
fn places(inputs: &PlanInputs) -> Vec<(u8, u16)> {
    inputs.table.all_copies().map(|(slice, copy)| (slice.slice, copy.node.0)).collect()
}

#[test]
fn requests_are_answered_as_the_table_says() {
    let start = inputs(|_| ());
    assert_eq!(places(&start), [(0, 0), (1, 1), (2, 0), (3, 1)], "the table below is about these places");
    let even: fn(&mut PlanInputs) = |_| ();
    let none: fn(&mut PlanInputs) = |inputs| {
        (inputs.wanted, inputs.table) = (Vec::new(), Arc::default());
    };
    let no_role: fn(&mut PlanInputs) = |inputs| inputs.nodes[1].has_role = false;
    let away: fn(&mut PlanInputs) = |inputs| inputs.nodes[1].state = NodeState::Maintenance;
    let moving: fn(&mut PlanInputs) = |inputs| {
        inputs.requests = vec![request(r#"move {"slice":0,"from":"n0","to":"n1"}"#)];
        inputs.table = Arc::new(planned(inputs, 1_000).plan.table);
    };
    let running: fn(&mut PlanInputs) = |inputs| {
        inputs.requests = vec![request(r#"move {"slice":0,"from":"n0","to":"n1"}"#)];
        settle(inputs);
        inputs.requests = vec![request("rebalance")];
        inputs.table = Arc::new(planned(inputs, 1_000).plan.table);
    };
    for (state, asked, expected) in [
        (even, "rebalance", "done"),
        (even, "stop", "conflict: a rebalance is not in progress"),
        (even, "build due", "done"),
        (
            even,
            "build other",
            "unknown: index 'other' of content cluster 'mail' is not placed; the placed indexes are due",
        ),
        (even, "rebuild due", "done"),
        (even, r#"move {"slice":0,"from":"n0","to":"n1"}"#, "done"),
        (even, r#"move {"slice":0,"from":0,"to":1}"#, "done"),
        (even, r#"move {"slice":0,"from":"0","to":"n1"}"#, "done"),
        (
            even,
            r#"move {"slice":1,"from":"n0","to":"n1"}"#,
            "conflict: node 0 has no ready copy of slice 1 of index 0; ready copies are on 1",
        ),
        (
            even,
            r#"move {"slice":0,"from":"n0","to":"n0"}"#,
            "conflict: node 0 has a copy of slice 0 of index 0 already; choose a node without one",
        ),
        (
            even,
            r#"move {"slice":4,"from":"n0","to":"n1"}"#,
            "unknown: slice 4 of index 0 does not exist: the index has slices 0 to 3",
        ),
        (even, r#"move {"slice":0,"from":"n7","to":"n1"}"#, "unknown: no node 'n7'; the cluster has n0, n1"),
        (even, r#"move {"slice":0,"from":"n0","to":7}"#, "unknown: no node '7'; the cluster has n0, n1"),
        (even, r#"set {"batch":5}"#, "done"),
        (
            even,
            "unknown",
            "unavailable: the leader runs an earlier version, which does not know this request; upgrade all nodes",
        ),
        (
            no_role,
            r#"move {"slice":0,"from":"n0","to":"n1"}"#,
            "conflict: node 1 takes no copies: it does not have the role 'index'",
        ),
        (
            away,
            r#"move {"slice":0,"from":"n0","to":"n1"}"#,
            "conflict: node 1 takes no copies: it is in maintenance",
        ),
        (
            moving,
            r#"move {"slice":0,"from":"n0","to":"n1"}"#,
            "conflict: the copy of slice 0 of index 0 on node 0 is being moved; wait until this has ended",
        ),
        (
            running,
            "rebalance",
            "conflict: rebalance 0 runs, with 1 moves left; wait until it has ended, or stop it first",
        ),
        (running, "stop", "done"),
        (none, "rebalance", "conflict: no index is placed: declare some in <index-service placed=\"true\">"),
        (none, "stop", "conflict: no index is placed: declare some in <index-service placed=\"true\">"),
        (
            none,
            "build due",
            "unknown: index 'due' of content cluster 'mail' is not placed; the placed indexes are none",
        ),
        (none, r#"set {"batch":5}"#, "done"),
    ] {
        let mut inputs = inputs(state);
        inputs.requests = vec![request(asked)];
        let answers = planned(&inputs, 1_000).answers;
        let answer = match &answers[..] {
            [PlacementAnswer::Done] => "done".to_owned(),
            [PlacementAnswer::Refused { kind, reason }] => {
                format!("{}: {reason}", format!("{kind:?}").to_lowercase())
            }
            other => panic!("{asked}: {other:?}"),
        };
        assert_eq!(answer, expected, "{asked}");
    }
}

#[test]
fn each_request_of_a_turn_gets_its_own_answer() {
    let mut inputs = inputs(|_| ());
    let asked =
        ["unknown", "stop", r#"set {"batch":5}"#, r#"move {"slice":0,"from":"x","to":"n1"}"#, "rebalance"];
    inputs.requests = asked.map(request).to_vec();
    let answered = planned(&inputs, 1_000);
    let is_done: Vec<bool> = answered.answers.iter().map(|answer| *answer == PlacementAnswer::Done).collect();
    assert_eq!(is_done, [false, false, true, false, true]);
    assert_eq!(answered.plan.table.settings().batch, 5);
}

#[test]
fn tables_are_published_when_coordination_does_not_have_them() {
    let reports =
        |table| BTreeMap::from([("n0".to_owned(), NodeReports { table, ..NodeReports::default() })]);
    let used = |version| (*inputs(|_| ()).table).clone().published_as(version);
    let unused = PlacementTable::default;
    let changed = |table: &PlacementTable| {
        let update = PlacementSettingsUpdate::from_json(br#"{"batch":9}"#).expect("valid settings");
        let commands = [PlacementCommand::Settings(update)];
        let situation = PlacementSituation { commands: &commands, ..PlacementSituation::default() };
        plan(table, &situation).table
    };
    // In coordination, known to the leader, planned, the highest version that a node reports.
    for (there, base, next, reported, expected) in [
        (None, unused(), unused(), 0, None),
        (None, unused(), changed(&unused()), 0, Some(1)),
        (Some(used(4)), used(4), used(4), 0, None),
        (Some(used(4)), used(4), changed(&used(4)), 0, Some(5)),
        // Coordination has lost the table, or has an older one.
        (None, used(4), used(4), 0, Some(5)),
        (Some(used(3)), used(4), used(4), 0, Some(5)),
        // A node knows a newer one than the leader.
        (Some(used(4)), used(4), used(4), 9, Some(10)),
        (Some(used(4)), used(4), used(4), 4, None),
        (None, unused(), unused(), 9, Some(10)),
    ] {
        let version = next_version(there.as_ref(), &base, &next, &reports(reported));
        let there = there.map(|table| table.version());
        assert_eq!(version, expected, "{there:?}, {}, {reported}", base.version());
    }
}

#[test]
fn a_rebalance_is_measured_and_its_speed_is_remembered() {
    let mut inputs = inputs(|_| ());
    inputs.requests = vec![request(r#"move {"slice":0,"from":"n0","to":"n1"}"#)];
    settle(&mut inputs);
    assert_eq!(places(&inputs), [(0, 1), (1, 1), (2, 0), (3, 1)]);
    inputs.requests = vec![request("rebalance")];
    turn(&mut inputs, 5_000);
    let extent = inputs.table.rebalance().and_then(|run| run.extent).expect("it runs, and is measured");
    assert_eq!((extent.began_ms, extent.moves, extent.bytes), (5_000, 1, 100));
    (0..5).for_each(|_| turn(&mut inputs, 7_000));
    assert!(inputs.table.rebalance().is_none(), "{:?}", inputs.table);
    assert_eq!(inputs.table.pace().map(|pace| pace.bytes_per_second), Some(50));
}
