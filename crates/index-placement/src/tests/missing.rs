//! Copies that are missing, with the reasons that operators read.

use super::scenario::PlacementScenario;
use crate::{PlacementSituation, missing_copies};

#[test]
fn missing_copies_have_their_reasons() {
    let full = "each node that takes copies has one of the slice: add nodes with the role 'index', or declare fewer copies";
    let due = "it is to be made: nodes make few copies at once";
    let failed = "the copy on n1 has failed; it is made again once its files are removed";
    for (line, expected) in [
        ("0 1 | a*2=0,1", vec![]),
        ("0 1 | a*2=0,1c0", vec![]),
        ("0 1m | a*2=0,1", vec![]),
        ("0 1 | a?*2=", vec![]),
        // A move in progress lacks nothing.
        ("0 1 | a*1=0,1c0>0", vec![]),
        ("0 1 | a*2=0/0,1", vec![(0, 1, due)]),
        ("0 1 2 | a*3=0", vec![(0, 2, due)]),
        ("0 | a*2=0", vec![(0, 1, full)]),
        ("0 1d | a*2=0,1", vec![(0, 1, full)]),
        ("0 1 | a*2=0,1f", vec![(0, 1, failed)]),
        ("0 1 | a*2=0,1lf", vec![(0, 1, failed)]),
        ("0 1 2 | a*2=0,1f", vec![(0, 1, due)]),
        ("0 1 | a*2=0,1l", vec![(0, 1, "it is made once n1 has removed an earlier copy of the slice")]),
        (
            "0m 1x | a*1=",
            vec![(
                0,
                1,
                "no node takes copies (n0: it is in maintenance; n1: it does not have the role 'index')",
            )],
        ),
        (" | a*1=", vec![(0, 1, "the cluster has no nodes")]),
    ] {
        let scenario = PlacementScenario::parse(line);
        let (nodes, wanted) = (&scenario.nodes, &scenario.wanted);
        let situation = PlacementSituation { nodes, wanted, commands: &[] };
        let missing = missing_copies(&scenario.table, &situation);
        let found: Vec<(u8, u64, &str)> =
            missing.iter().map(|missing| (missing.slice.slice, missing.count, &*missing.reason)).collect();
        assert_eq!(found, expected, "{line}");
    }
}
