//! Trees as arrays of nodes, walked by several documents at once.
//!
//! The successors of a split stand side by side, so the next node is the first of them plus the outcome of
//! the test: no branch that a processor has to predict. A leaf is its own successor. Eight documents walk a
//! tree in step, so that their loads overlap, until none of them moves any more.
//!
//! Missing values are settled before the walk: a feature has one cell in each row for each direction in which
//! its splits send them, and there a number that gives the test this outcome.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{ForestSplit, MissingDirection, SplitTest, WalkTarget};
use crate::operators::BatchNumbers;

/// Documents that walk a tree in step.
const LANES: usize = 8;
/// Number of documents whose rows stay in the first-level cache while trees pass over them.
const BLOCK: usize = 64;
/// Number of nodes that stay in the first-level cache while documents pass over them: 16 KiB.
const NODES: usize = 1024;
/// Bit of [`FlatNode::input`]: the test is one of [`TreeLayout::tests`].
const BY_TEST: u32 = 1 << 31;

/// The trees of a forest, in the order in which their leaves are added.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TreeLayout {
    nodes: Vec<FlatNode>,
    /// Value of each leaf; 0 for splits.
    values: Vec<f64>,
    roots: Vec<u32>,
    /// Cells of a row.
    cells: Vec<RowCell>,
    /// Index of each cell, by its feature and the bits of its number.
    known_cells: BTreeMap<(Option<u32>, u64), u32>,
    /// Tests that are not the comparison with a bound.
    tests: Vec<ForestTest>,
}

/// A split or a leaf: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FlatNode {
    /// The test holds for numbers below it; with [`BY_TEST`], the index of the test.
    bound: f64,
    /// Cell of the row, and [`BY_TEST`].
    input: u32,
    /// Successor if the test holds; the other one follows it.
    first: u32,
}

/// A feature of a document, with a number in place of NaN; without a feature, always that number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RowCell {
    feature: Option<u32>,
    missing: f64,
}

/// A test by category, or with a bound that no comparison expresses.
#[derive(Debug, Clone, PartialEq)]
struct ForestTest {
    test: SplitTest,
    missing: MissingDirection,
}

impl ForestTest {
    fn holds(&self, mut feature: f64) -> bool {
        if feature.is_nan() {
            match self.missing {
                MissingDirection::Holds => return true,
                MissingDirection::Fails => return false,
                MissingDirection::IsZero => feature = 0.0,
            }
        }
        match &self.test {
            SplitTest::Below(bound) => feature < *bound,
            SplitTest::AtMost(bound) => feature <= *bound,
            SplitTest::OneOf(categories) => {
                categories.binary_search_by(|category| category.total_cmp(&feature)).is_ok()
            }
        }
    }
}

impl TreeLayout {
    /// Adds a tree that is made of `splits`.
    pub fn add(&mut self, root: WalkTarget, splits: &[ForestSplit]) {
        let root_at = self.reserve(1);
        self.roots.push(root_at);
        let mut waiting = vec![(root_at, root)];
        while let Some((at, target)) = waiting.pop() {
            match target {
                WalkTarget::Leaf(value) => {
                    let input = self.cell(RowCell { feature: None, missing: 0.0 });
                    self.nodes[at as usize] = FlatNode { bound: f64::INFINITY, input, first: at };
                    self.values[at as usize] = value;
                }
                WalkTarget::Split(split) => {
                    let split = &splits[split as usize];
                    let first = self.reserve(2);
                    let (bound, input) = self.test(split);
                    self.nodes[at as usize] = FlatNode { bound, input, first };
                    waiting.extend([(first + 1, split.next[1]), (first, split.next[0])]);
                }
            }
        }
    }

    /// Number of trees.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }

    /// Adds nodes; returns the index of the first.
    fn reserve(&mut self, count: usize) -> u32 {
        let first = self.nodes.len();
        self.nodes.resize(first + count, FlatNode { bound: 0.0, input: 0, first: 0 });
        self.values.resize(first + count, 0.0);
        u32::try_from(first).expect("30 bits number the splits, and a tree has one leaf more than splits")
    }

    /// Index of a cell of the rows.
    fn cell(&mut self, cell: RowCell) -> u32 {
        let cells = &mut self.cells;
        *self.known_cells.entry((cell.feature, cell.missing.to_bits())).or_insert_with(|| {
            cells.push(cell);
            u32::try_from(cells.len() - 1).expect("a feature has at most three cells, and 30 bits number it")
        })
    }

    /// Bound and input of a split.
    fn test(&mut self, split: &ForestSplit) -> (f64, u32) {
        if let Some((bound, missing)) = split.comparison() {
            return (bound, self.cell(RowCell { feature: Some(split.input), missing }));
        }
        let at = self.tests.len();
        self.tests.push(ForestTest { test: split.test.clone(), missing: split.missing });
        (at as f64, self.cell(RowCell { feature: Some(split.input), missing: f64::NAN }) | BY_TEST)
    }

    /// Fills `rows` with the cells of each document.
    pub fn fill_rows(&self, inputs: &[BatchNumbers<'_>], documents: usize, rows: &mut Vec<f64>) {
        let width = self.cells.len();
        // Lanes beyond the last document walk over zeros.
        rows.clear();
        rows.resize(documents.next_multiple_of(LANES) * width, 0.0);
        for (cell, at) in self.cells.iter().zip(0..) {
            let cells = rows.iter_mut().skip(at).step_by(width).take(documents);
            for (number, document) in cells.zip(0..) {
                let feature = cell.feature.map_or(f64::NAN, |feature| inputs[feature as usize].get(document));
                *number = if feature.is_nan() { cell.missing } else { feature };
            }
        }
    }

    /// Adds the leaf of each of these trees to `out`, for each document with its row.
    pub fn add_leaves(&self, trees: Range<usize>, rows: &[f64], out: &mut [f64]) {
        let width = self.cells.len();
        for trees in tiles(&self.roots[trees]) {
            let blocks = out.chunks_mut(BLOCK).zip(rows.chunks(BLOCK * width));
            for (out, rows) in blocks {
                for root in trees {
                    for (out, rows) in out.chunks_mut(LANES).zip(rows.chunks_exact(LANES * width)) {
                        let leaves = if self.tests.is_empty() {
                            self.walk::<false>(*root, rows, width)
                        } else {
                            self.walk::<true>(*root, rows, width)
                        };
                        out.iter_mut().zip(leaves).for_each(|(out, leaf)| *out += self.values[leaf as usize]);
                    }
                }
            }
        }
    }

    /// Leaves of a tree that the documents of these rows reach.
    fn walk<const TESTS: bool>(&self, root: u32, rows: &[f64], width: usize) -> [u32; LANES] {
        let nodes = &self.nodes[..];
        let mut at = [root; LANES];
        loop {
            let mut moved = 0;
            for (lane, at) in at.iter_mut().enumerate() {
                let node = nodes[*at as usize];
                let holds = if !TESTS || node.input & BY_TEST == 0 {
                    rows[lane * width + node.input as usize] < node.bound
                } else {
                    let feature = rows[lane * width + (node.input & !BY_TEST) as usize];
                    self.tests[node.bound as usize].holds(feature)
                };
                let next = node.first + u32::from(!holds);
                moved |= next ^ *at;
                *at = next;
            }
            if moved == 0 {
                return at;
            }
        }
    }
}

/// The roots in runs of trees that have [`NODES`] nodes or one tree.
fn tiles(roots: &[u32]) -> impl Iterator<Item = &[u32]> {
    roots.chunk_by(|one, next| (*one as usize) / NODES == (*next as usize) / NODES)
}
