//! All tables of few copies beside a search over all final positions.

use std::collections::HashMap;

use super::scenario::PlacementScenario;

const NODES_MAX: usize = 5;

/// A slice by the set of nodes that have a copy.
type NodeSet = u8;

/// Rules of a family of tables.
struct TableFamily {
    nodes: usize,
    copies: usize,
    /// Nodes to be emptied.
    retired: NodeSet,
    /// Groups of nodes; none if there are no groups.
    groups: &'static [NodeSet],
}

fn nodes_of(set: NodeSet) -> impl Iterator<Item = usize> {
    (0..NODES_MAX).filter(move |node| set & (1 << node) != 0)
}

impl TableFamily {
    /// True if the copies of a slice are spread over the groups as they should be.
    fn is_spread(&self, set: NodeSet) -> bool {
        let room = |share: usize| -> usize {
            self.groups.iter().map(|group| ((group & !self.retired).count_ones() as usize).min(share)).sum()
        };
        let copies = set.count_ones() as usize;
        let share = (1..=copies).find(|share| room(*share) >= copies).unwrap_or(copies);
        self.groups.iter().all(|group| (set & group).count_ones() as usize <= share)
    }

    /// Calls `visit` for each table: sets of nodes in order.
    fn each(&self, visit: &mut impl FnMut(&[NodeSet])) {
        let sets = (1..1u8 << self.nodes).filter(|set| set.count_ones() <= 4);
        let sets: Vec<NodeSet> = sets.filter(|set| self.is_spread(*set)).collect();
        self.extend(&sets, self.copies, &mut Vec::new(), visit);
    }

    fn extend(
        &self,
        sets: &[NodeSet],
        left: usize,
        table: &mut Vec<NodeSet>,
        visit: &mut impl FnMut(&[NodeSet]),
    ) {
        visit(table);
        for (at, set) in sets.iter().enumerate() {
            let copies = set.count_ones() as usize;
            if copies <= left {
                table.push(*set);
                self.extend(&sets[at..], left - copies, table, visit);
                table.pop();
            }
        }
    }

    /// True for one of the tables that only differ by the names of nodes: loads do not increase.
    fn is_canonical(&self, table: &[NodeSet]) -> bool {
        if self.retired != 0 || !self.groups.is_empty() {
            return true;
        }
        let load = |node: usize| table.iter().filter(|set| **set & (1 << node) != 0).count();
        (1..self.nodes).all(|node| load(node - 1) >= load(node))
    }

    /// The copies left on nodes to be emptied, those above ⌈mean⌉, and the moves, of the best final
    /// positions.
    fn best(&self, table: &[NodeSet]) -> (usize, usize, usize) {
        let all: usize = table.iter().map(|set| set.count_ones() as usize).sum();
        let takes = !self.retired & ((1 << self.nodes) - 1);
        let mean = all.div_ceil(takes.count_ones() as usize);
        let mut states: HashMap<[u8; NODES_MAX], usize> = HashMap::from([([0; NODES_MAX], 0)]);
        for set in table {
            let fits = |other: &NodeSet| {
                other.count_ones() == set.count_ones()
                    && other & self.retired & !set == 0
                    && self.is_spread(*other)
            };
            let options: Vec<NodeSet> = (1..1u8 << self.nodes).filter(fits).collect();
            let mut next = HashMap::new();
            for (loads, moves) in &states {
                for option in &options {
                    let mut loads = *loads;
                    nodes_of(*option).for_each(|node| loads[node] += 1);
                    let moves = moves + (option & !set).count_ones() as usize;
                    let known = next.entry(loads).or_insert(moves);
                    *known = moves.min(*known);
                }
            }
            states = next;
        }
        let judged = states.iter().map(|(loads, moves)| self.judged(loads, *moves, mean));
        judged.min().expect("the present positions are among them")
    }

    fn judged(&self, loads: &[u8; NODES_MAX], moves: usize, mean: usize) -> (usize, usize, usize) {
        let left = nodes_of(self.retired).map(|node| usize::from(loads[node])).sum();
        let takes = nodes_of(!self.retired).filter(|node| *node < self.nodes);
        let above = takes.map(|node| usize::from(loads[node]).saturating_sub(mean)).sum();
        (left, above, moves)
    }

    /// The same of the planner.
    fn planned(&self, table: &[NodeSet]) -> (usize, usize, usize) {
        let group_of = |node: usize| self.groups.iter().position(|group| group & (1 << node) != 0);
        let node = |node: usize| {
            let group = group_of(node).map_or(String::new(), |group| format!("/{group}"));
            let retired = if self.retired & (1 << node) != 0 { "r" } else { "" };
            format!("{node}{retired}{group}")
        };
        let nodes: Vec<String> = (0..self.nodes).map(node).collect();
        let index = |(at, set): (usize, &NodeSet)| {
            let keys: Vec<String> = nodes_of(*set).map(|node| node.to_string()).collect();
            format!("i{at}*{}={}", keys.len(), keys.join(","))
        };
        let indexes: Vec<String> = table.iter().enumerate().map(index).collect();
        let line = format!("{} | {}", nodes.join(" "), indexes.join(" "));
        let plan = PlacementScenario::parse(&line).preview();
        let mut loads = [0u8; NODES_MAX];
        table.iter().for_each(|set| nodes_of(*set).for_each(|node| loads[node] += 1));
        for pair in &plan.pairs {
            loads[usize::from(pair.from.0)] -= pair.moves as u8;
            loads[usize::from(pair.to.0)] += pair.moves as u8;
        }
        let all: usize = loads.iter().map(|load| usize::from(*load)).sum();
        let takes = !self.retired & ((1 << self.nodes) - 1);
        let mean = all.div_ceil(takes.count_ones() as usize);
        self.judged(&loads, plan.moves as usize, mean)
    }

    /// Compares all tables; returns their number, and the largest number of moves.
    fn compare(&self) -> (usize, usize) {
        let (mut tables, mut most) = (0, 0);
        self.each(&mut |table| {
            if self.is_canonical(table) {
                let best = self.best(table);
                assert_eq!(self.planned(table), best, "{table:?} of {} nodes", self.nodes);
                (tables, most) = (tables + 1, most.max(best.2));
            }
        });
        (tables, most)
    }
}

#[test]
fn all_small_tables_agree_with_exhaustive_search() {
    let mut tables = 0;
    for nodes in 1..=NODES_MAX {
        let (compared, most) = TableFamily { nodes, copies: 10, retired: 0, groups: &[] }.compare();
        assert!(nodes == 1 || most >= 5, "{nodes} nodes, at most {most} moves");
        tables += compared;
    }
    assert!(tables > 5_000, "{tables} tables");
}

#[test]
fn all_small_tables_with_a_retired_node_agree_with_exhaustive_search() {
    for nodes in 2..=4 {
        let (tables, _) = TableFamily { nodes, copies: 7, retired: 1, groups: &[] }.compare();
        assert!(tables > 50, "{tables} tables of {nodes} nodes");
    }
}

#[test]
fn all_small_tables_in_groups_agree_with_exhaustive_search() {
    for (nodes, copies, groups) in
        [(4, 8, &[0b0011, 0b1100][..]), (5, 7, &[0b00011, 0b11100][..]), (4, 8, &[0b0001, 0b1110][..])]
    {
        let (tables, _) = TableFamily { nodes, copies, retired: 0, groups }.compare();
        assert!(tables > 500, "{tables} tables of {nodes} nodes");
    }
}
