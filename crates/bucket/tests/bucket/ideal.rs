//! Properties of the ideal state that its users rely on: stability over time, minimal movement, low skew.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, GroupMembers, IdealState, NodeGroup, Topology, TopologyNode};
use proptest::prelude::*;

fn nodes(capacities: &[(u16, f64)]) -> GroupMembers {
    GroupMembers::Nodes(
        capacities.iter().map(|(key, capacity)| TopologyNode { key: *key, capacity: *capacity }).collect(),
    )
}

fn flat(redundancy: u16, capacities: &[(u16, f64)]) -> IdealState {
    Topology::new(redundancy, NodeGroup { key: 0, members: nodes(capacities) }).unwrap().ideal(|_| true)
}

/// Groups of nodes with equal weights; node 7 of group 2 is 207.
fn grouped(redundancy: u16, distribution: &str, sizes: &[u16]) -> Topology {
    let group = |(key, size): (usize, &u16)| NodeGroup {
        key: key as u16,
        members: nodes(&(0..*size).map(|node| (key as u16 * 100 + node, 1.0)).collect::<Vec<_>>()),
    };
    let groups = sizes.iter().enumerate().map(group).collect();
    Topology::new(
        redundancy,
        NodeGroup { key: 0, members: GroupMembers::Groups(distribution.parse().unwrap(), groups) },
    )
    .unwrap()
}

fn buckets(count: u64) -> impl Iterator<Item = BucketId> {
    (0..count).map(|bits| BucketId::new(20, bits))
}

fn share(count: usize, of: usize) -> f64 {
    count as f64 / of as f64
}

#[test]
fn the_draws_are_those_of_every_release() {
    let mut text = String::new();
    let even: Vec<(u16, f64)> = (0..5).map(|key| (key, 1.0)).collect();
    let uneven: Vec<(u16, f64)> = (0..100).map(|key| (key * 7, 0.5 + f64::from(key % 4))).collect();
    let states = [
        ("five", flat(3, &even)),
        ("uneven", flat(2, &uneven)),
        ("grouped", grouped(4, "2|1|*", &[3, 4, 5, 6]).ideal(|key| key != 101)),
    ];
    for (name, state) in &states {
        for bucket in [
            BucketId::ROOT,
            BucketId::new(1, 1),
            BucketId::new(16, 0x1234),
            BucketId::new(20, 0x000f_ffff),
            BucketId::new(32, 0xdead_beef),
            BucketId::new(40, 0x12_dead_beef),
            BucketId::new(58, 0x3ff_ffff_dead_beef),
        ] {
            text.push_str(&format!("{name} {bucket} {:?}\n", state.nodes(bucket)));
        }
    }
    assert_eq!(
        text,
        include_str!("../golden.txt"),
        "data lies where these draws put it: they must never change"
    );
}

#[test]
fn a_split_moves_half_until_twenty_bits_and_then_nothing_but_parts_of_large_groups() {
    let state = flat(1, &(0..200).map(|key| (key, 1.0)).collect::<Vec<_>>());
    let moved = |used_bits: u8| {
        let parents =
            (0..1000u64).map(|bits| BucketId::new(used_bits, bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let halves = parents
            .map(|parent| parent.children().unwrap().map(|child| state.nodes(child) != state.nodes(parent)));
        let halves: Vec<[bool; 2]> = halves.collect();
        [0, 1].map(|half| share(halves.iter().filter(|moved| moved[half]).count(), halves.len()))
    };
    assert_eq!(moved(3)[0], 0.0);
    assert!(moved(3)[1] > 0.98);
    assert_eq!(moved(19)[0], 0.0);
    assert_eq!(moved(20), [0.0, 0.0]);
    assert_eq!(moved(31), [0.0, 0.0]);
    assert_eq!(moved(33)[0], 0.0);
    assert!(moved(33)[1] > 0.98);
}

#[test]
fn nodes_get_data_by_capacity() {
    let capacities = [(0, 1.0), (1, 2.0), (2, 0.5), (3, 4.0), (4, 1.0), (5, 1.5)];
    let state = flat(1, &capacities);
    let mut counts = BTreeMap::<u16, usize>::new();
    for bucket in buckets(100_000) {
        *counts.entry(state.nodes(bucket)[0]).or_default() += 1;
    }
    for (key, capacity) in capacities {
        let expected = capacity / 10.0;
        // Four standard deviations of the binomial distribution.
        let bound = 4.0 * (expected * (1.0 - expected) / 100_000.0).sqrt();
        assert!((share(counts[&key], 100_000) - expected).abs() < bound, "node {key}: {}", counts[&key]);
    }
}

#[test]
fn replicas_spread_over_groups_as_asked() {
    let check = |distribution: &str, redundancy: u16, expected: &[usize]| {
        let state = grouped(redundancy, distribution, &[4, 4, 4]).ideal(|_| true);
        for bucket in buckets(200) {
            let mut counts = BTreeMap::<u16, usize>::new();
            let nodes = state.nodes(bucket);
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
            nodes.iter().for_each(|node| *counts.entry(node / 100).or_default() += 1);
            let mut counts: Vec<usize> = counts.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(counts, expected);
        }
    };
    check("*", 2, &[2]);
    check("1|*", 2, &[1, 1]);
    check("1|*", 4, &[3, 1]);
    check("*|*", 4, &[2, 2]);
    check("1|1|*", 3, &[1, 1, 1]);
    check("2|1|*", 4, &[2, 1, 1]);
    check("*|*|*", 2, &[1, 1]);
}

#[test]
fn a_failure_moves_data_inside_its_group_and_a_lost_group_is_skipped() {
    let topology = grouped(2, "1|*", &[3, 3, 3]);
    let (all, without, lost) =
        (topology.ideal(|_| true), topology.ideal(|key| key != 101), topology.ideal(|key| key / 100 != 1));
    for bucket in buckets(2000) {
        let (before, after) = (all.nodes(bucket), without.nodes(bucket));
        let groups = |nodes: &[u16]| nodes.iter().map(|node| node / 100).collect::<Vec<_>>();
        assert_eq!(groups(&before), groups(&after));
        let kept: Vec<u16> = before.iter().copied().filter(|node| *node != 101).collect();
        assert!(kept.iter().all(|node| after.contains(node)));
        let after = lost.nodes(bucket);
        assert_eq!(after.len(), 2);
        assert!(after.iter().all(|node| node / 100 != 1));
        assert!(before.iter().filter(|node| *node / 100 != 1).all(|node| after.contains(node)));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |redundancy, members| {
        Topology::new(redundancy, NodeGroup { key: 0, members }).unwrap_err().to_string()
    };
    assert!(refused(1, nodes(&[(3, 1.0), (3, 1.0)])).contains("distribution key 3 is given to two nodes"));
    assert!(refused(1, nodes(&[(4, 0.0)])).contains("node 4 has capacity 0"));
    assert!(refused(1, nodes(&[(4, f64::NAN)])).contains("NaN"));
    let pair = |key| NodeGroup { key, members: nodes(&[(0, 1.0)]) };
    assert!(
        refused(2, GroupMembers::Groups("1|*".parse().unwrap(), vec![pair(5), pair(5)]))
            .contains("key 5 is given to two groups")
    );
    assert!(
        refused(2, GroupMembers::Groups("2|1|*".parse().unwrap(), vec![pair(1)]))
            .contains("places 3 replicas, but there are 2")
    );
    for text in ["", "1", "*|1", "0|*", "x|*", "1||*", "-1|*"] {
        assert!(text.parse::<millrace_bucket::GroupDistribution>().is_err(), "{text}");
    }
}

/// Nodes with keys and capacities of all kinds.
fn cluster() -> impl Strategy<Value = BTreeMap<u16, f64>> {
    proptest::collection::btree_map(0u16..2000, prop_oneof![Just(1.0), 0.1f64..8.0], 2..150)
}

fn of(redundancy: u16, cluster: &BTreeMap<u16, f64>) -> IdealState {
    flat(redundancy, &cluster.iter().map(|(key, capacity)| (*key, *capacity)).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn only_the_changed_node_moves_data(cluster in cluster(), pick: prop::sample::Index, redundancy in 1u16..4, grown in 1.1f64..3.0) {
        let changed = *pick.get(&cluster.keys().copied().collect::<Vec<_>>());
        let all = of(redundancy, &cluster);
        let mut fewer = cluster.clone();
        fewer.remove(&changed);
        let fewer = of(redundancy, &fewer);
        let mut larger = cluster.clone();
        larger.entry(changed).and_modify(|capacity| *capacity *= grown);
        let larger = of(redundancy, &larger);
        for bucket in buckets(50) {
            let with = all.nodes(bucket);
            let without = fewer.nodes(bucket);
            let order: Vec<u16> = with.iter().copied().filter(|node| *node != changed).collect();
            // The other nodes keep their order, with and without the node.
            prop_assert_eq!(&without[..order.len()], &order[..]);
            // A node that grows takes from others and gives to none.
            let grown = larger.nodes(bucket);
            let kept: Vec<u16> = grown.iter().copied().filter(|node| *node != changed).collect();
            prop_assert_eq!(&without[..kept.len()], &kept[..]);
            prop_assert!(!with.contains(&changed) || grown.contains(&changed));
        }
    }

    /// Compares the fast selection with sorting all scores.
    #[test]
    fn the_best_are_the_best(cluster in cluster(), bits: u64, redundancy in 1u16..5) {
        let bucket = BucketId::new(58, bits);
        let all = of(cluster.len() as u16, &cluster).nodes(bucket);
        prop_assert_eq!(all.len(), cluster.len());
        let some = of(redundancy, &cluster).nodes(bucket);
        prop_assert_eq!(&all[..some.len()], &some[..]);
        prop_assert_eq!(some.len(), cluster.len().min(usize::from(redundancy)));
    }
}
