//! Shares of groups of nodes: copies of a slice are in different groups as far as these have nodes.

use std::collections::BTreeMap;

use crate::table::COPIES_OF_SLICE_MAX;

/// Numbers of the groups that nodes are in, and the number of copies of a slice that each may have.
pub(crate) struct GroupShares {
    /// For each number of copies, the share of each group.
    shares: Vec<Vec<usize>>,
}

/// A group: its path of keys, its number, and its nodes.
struct NumberedGroup {
    number: usize,
    nodes: usize,
    /// Nodes that are in none of its groups.
    direct: usize,
    groups: Vec<NumberedGroup>,
}

impl GroupShares {
    /// Numbers the groups of nodes, of which each has its path, and `true` if it can have copies. Returns for
    /// each node the numbers of its groups, the outermost first, too.
    pub fn new<'a>(nodes: impl Iterator<Item = (&'a [u16], bool)> + Clone) -> (Self, Vec<Vec<usize>>) {
        let mut numbers: BTreeMap<&[u16], usize> = BTreeMap::new();
        for (path, _) in nodes.clone() {
            for length in 1..=path.len() {
                let next = numbers.len();
                numbers.entry(&path[..length]).or_insert(next);
            }
        }
        let groups_of = |path: &[u16]| (1..=path.len()).map(|length| numbers[&path[..length]]).collect();
        let of_nodes = nodes.clone().map(|(path, _)| groups_of(path)).collect();
        let paths: Vec<&[u16]> = nodes.filter(|(_, counts)| *counts).map(|(path, _)| path).collect();
        let root = numbered(&[], &paths, &numbers);
        let shares = (0..=COPIES_OF_SLICE_MAX).map(|copies| {
            // Groups without nodes that count have no share.
            let mut shares = vec![0; numbers.len()];
            root.share(copies, &mut shares);
            shares
        });
        (GroupShares { shares: shares.collect() }, of_nodes)
    }

    /// The number of copies that a group may have, of `copies` of a slice.
    pub fn share(&self, copies: usize, group: usize) -> usize {
        self.shares[copies.min(COPIES_OF_SLICE_MAX)][group]
    }
}

/// The group with this path, and those in it.
fn numbered(path: &[u16], paths: &[&[u16]], numbers: &BTreeMap<&[u16], usize>) -> NumberedGroup {
    let mut inner: BTreeMap<u16, Vec<&[u16]>> = BTreeMap::new();
    let mut direct = 0;
    for node in paths {
        match node.get(path.len()) {
            Some(key) => inner.entry(*key).or_default().push(node),
            None => direct += 1,
        }
    }
    let groups = inner.values().map(|paths| numbered(&paths[0][..path.len() + 1], paths, numbers));
    let groups = groups.collect();
    NumberedGroup { number: numbers.get(path).copied().unwrap_or(0), nodes: paths.len(), direct, groups }
}

impl NumberedGroup {
    /// Divides the copies of a slice among the groups in this one: all get the same share, the smallest that
    /// suffices.
    fn share(&self, copies: usize, shares: &mut [usize]) {
        let room = |share: usize| {
            self.direct + self.groups.iter().map(|group| group.nodes.min(share)).sum::<usize>()
        };
        let share = (1..=copies).find(|share| room(*share) >= copies).unwrap_or(copies);
        for group in &self.groups {
            shares[group.number] = share;
            group.share(share, shares);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares as `group=share` for nodes given by their paths, with two copies, three and four.
    #[test]
    fn groups_get_equal_shares_as_far_as_they_have_nodes() {
        for (nodes, expected) in [
            ("", ["", "", ""]),
            ("1 1 2 2", ["1=1 2=1", "1=2 2=2", "1=2 2=2"]),
            ("1 2 2 2 2", ["1=1 2=1", "1=2 2=2", "1=3 2=3"]),
            ("1 2 3 4", ["1=1 2=1 3=1 4=1", "1=1 2=1 3=1 4=1", "1=1 2=1 3=1 4=1"]),
            ("1 1 1", ["1=2", "1=3", "1=4"]),
            (
                "1.1 1.1 1.2 2.1",
                ["1=1 1.1=1 1.2=1 2=1 2.1=1", "1=2 1.1=1 1.2=1 2=2 2.1=2", "1=3 1.1=2 1.2=2 2=3 2.1=3"],
            ),
        ] {
            let paths: Vec<Vec<u16>> = nodes
                .split_whitespace()
                .map(|path| path.split('.').map(|key| key.parse().expect("a key")).collect())
                .collect();
            let (shares, of_nodes) = GroupShares::new(paths.iter().map(|path| (path.as_slice(), true)));
            for (copies, expected) in (2..).zip(expected) {
                let mut lines = BTreeMap::new();
                for (path, groups) in paths.iter().zip(&of_nodes) {
                    for (length, group) in (1..).zip(groups) {
                        let keys: Vec<String> = path[..length].iter().map(u16::to_string).collect();
                        lines.insert(keys.join("."), shares.share(copies, *group));
                    }
                }
                let lines: Vec<String> =
                    lines.iter().map(|(path, share)| format!("{path}={share}")).collect();
                assert_eq!(lines.join(" "), expected, "{copies} copies on {nodes}");
            }
        }
    }
}
