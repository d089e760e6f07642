//! Conditions on the elements of a collection, found by bit masks over the elements of many documents.

use std::ops::Range;

use millrace_column::Column;
use millrace_plan::{LeafId, PlanNode};

use super::element_words::{collect, needs_leaf};
use super::{ReadyPlan, is_among};
use crate::bits::DocumentBits;

/// A condition on an element of a collection, whose leaves are tests of single values inside the element.
///
/// The elements of all documents are numbered one after the other. Each leaf notes the elements in which it
/// holds, as bits; then the condition is a few operations on words of bits. In a conjunction, a leaf reads
/// only the documents that the leaves before it have left.
pub(super) struct ElementLeaves<'r, 'n> {
    ready: &'r ReadyPlan<'r>,
    child: &'n PlanNode,
    /// Indices of the elements that may match; empty for all.
    only: &'n [u32],
    /// A leaf of the condition, which is read in all documents.
    first: LeafId,
}

/// Documents in which a condition on elements holds.
pub(super) struct ElementMatches {
    pub(super) documents: DocumentBits,
    /// Documents that have to be read in the general way.
    pub(super) irregular: DocumentBits,
}

impl<'r, 'n> ElementLeaves<'r, 'n> {
    /// The condition `child` on the elements of `field`, or `None` if it needs more than tests of single
    /// values of this field, or if an element without any match can satisfy it.
    pub(super) fn new(
        ready: &'r ReadyPlan<'r>,
        field: &str,
        child: &'n PlanNode,
        only: &'n [u32],
    ) -> Option<Self> {
        let (mut leaves, mut near) = (Vec::new(), Vec::new());
        (collect(child, &mut leaves, &mut near) && near.is_empty() && needs_leaf(child)).then_some(())?;
        let is_test = |leaf: &LeafId| {
            let of = &ready.plan.leaves[leaf.0].field;
            of.split('.').next() == Some(field) && ready.leaves[leaf.0].tests_elements()
        };
        leaves.iter().all(is_test).then_some(())?;
        Some(ElementLeaves { ready, child, only, first: *leaves.first()? })
    }

    /// The documents among `within` in which the condition holds; `None` if the column's values are not in
    /// their wire form.
    pub(super) fn find(&self, column: &Column, within: &DocumentBits) -> Option<ElementMatches> {
        let rows = self.narrow(self.child, column, *within).rows();
        let (leaves, matched) = self.ready.leaves[self.first.0].matching_values(column, &rows)?;
        let elements: Vec<Range<usize>> = (0..rows.len()).map(|row| leaves.elements(row)).collect();
        let mut irregular = DocumentBits::NONE;
        leaves.irregular().iter().for_each(|row| irregular.set(usize::from(rows[*row])));
        let mut bits = vec![0; elements.last().map_or(0, |last| last.end.div_ceil(64))];
        matched.iter().for_each(|value| set(&mut bits, leaves.element(value.index)));
        let pass = ElementPass { of: self, column, rows: &rows, elements: &elements, first: bits };
        let found = pass.node(self.child, &(0..rows.len()).collect::<Vec<_>>())?;
        let mut documents = DocumentBits::NONE;
        pass.rows_with(&found, 0..rows.len(), |row, element| {
            if is_among(self.only, element) {
                documents.set(usize::from(rows[row]));
            }
        });
        Some(ElementMatches { documents, irregular })
    }

    /// The documents of `within` with an element in which the condition `node` can hold.
    fn narrow(&self, node: &PlanNode, column: &Column, within: DocumentBits) -> DocumentBits {
        match node {
            PlanNode::Leaf(leaf) => self.ready.leaves[leaf.0].narrow(column, &within),
            PlanNode::And(children) => {
                children.iter().fold(within, |within, child| self.narrow(child, column, within))
            }
            PlanNode::Or(children) => {
                let narrow = |child| self.narrow(child, column, within);
                children.iter().map(narrow).fold(DocumentBits::NONE, |any, one| any.or(&one))
            }
            PlanNode::AndNot(first, _) | PlanNode::Rank(first, _) => self.narrow(first, column, within),
            PlanNode::False => DocumentBits::NONE,
            PlanNode::True | PlanNode::Near { .. } | PlanNode::SameElement { .. } => within,
        }
    }
}

/// Evaluation of a condition in some rows of a chunk.
struct ElementPass<'p, 'r, 'n> {
    of: &'p ElementLeaves<'r, 'n>,
    column: &'p Column,
    rows: &'p [u16],
    /// Numbers of each row's elements.
    elements: &'p [Range<usize>],
    /// Elements in which the first leaf holds.
    first: Vec<u64>,
}

impl ElementPass<'_, '_, '_> {
    /// Bits of the elements of the rows `left` in which a part of the condition holds; those of other rows
    /// have no meaning. `None` if the column's values are not in their wire form.
    fn node(&self, node: &PlanNode, left: &[usize]) -> Option<Vec<u64>> {
        let combine = |into: &mut Vec<u64>, node: &PlanNode, left: &[usize], by: fn(u64, u64) -> u64| {
            let bits = self.node(node, left)?;
            into.iter_mut().zip(bits).for_each(|(into, bits)| *into = by(*into, bits));
            Some(())
        };
        Some(match node {
            PlanNode::True => vec![u64::MAX; self.first.len()],
            PlanNode::False => vec![0; self.first.len()],
            PlanNode::And(children) => {
                let mut all = vec![u64::MAX; self.first.len()];
                let mut left = left.to_vec();
                for (index, child) in children.iter().enumerate() {
                    combine(&mut all, child, &left, |all, one| all & one)?;
                    if index + 1 < children.len() {
                        left = self.some_left(&all, &left);
                    }
                }
                all
            }
            PlanNode::Or(children) => {
                let mut any = vec![0; self.first.len()];
                children.iter().try_for_each(|child| combine(&mut any, child, left, |any, one| any | one))?;
                any
            }
            PlanNode::AndNot(positive, negatives) => {
                let mut bits = self.node(positive, left)?;
                let left = self.some_left(&bits, left);
                negatives
                    .iter()
                    .try_for_each(|child| combine(&mut bits, child, &left, |all, not| all & !not))?;
                bits
            }
            PlanNode::Rank(first, _) => self.node(first, left)?,
            PlanNode::Leaf(leaf) if *leaf == self.of.first => self.first.clone(),
            PlanNode::Leaf(leaf) => self.leaf(*leaf, left)?,
            PlanNode::Near { .. } | PlanNode::SameElement { .. } => {
                unreachable!("conditions with these are not made")
            }
        })
    }

    /// Bits of the elements of the rows `left` in which a leaf holds.
    fn leaf(&self, leaf: LeafId, left: &[usize]) -> Option<Vec<u64>> {
        let rows: Vec<u16> = left.iter().map(|row| self.rows[*row]).collect();
        let (leaves, matched) = self.of.ready.leaves[leaf.0].matching_values(self.column, &rows)?;
        let mut bits = vec![0; self.first.len()];
        matched.each_row(&leaves, &mut |row, values| {
            let (here, all) = (leaves.elements(row).start, self.elements[left[row]].start);
            values.iter().for_each(|value| set(&mut bits, leaves.element(value.index) - here + all));
        });
        Some(bits)
    }

    /// The rows of `left` with at least one of the elements.
    fn some_left(&self, bits: &[u64], left: &[usize]) -> Vec<usize> {
        let mut with = Vec::new();
        self.rows_with(bits, left.iter().copied(), |row, _| {
            if with.last() != Some(&row) {
                with.push(row);
            }
        });
        with
    }

    /// Calls `each` with each of the rows' elements whose bits are set: the row, and the index of the element
    /// in it.
    fn rows_with(&self, bits: &[u64], rows: impl Iterator<Item = usize>, mut each: impl FnMut(usize, usize)) {
        for row in rows {
            let Range { start, end } = self.elements[row].clone();
            let mut at = start;
            while at < end {
                let rest = bits[at / 64] >> (at % 64);
                match rest {
                    0 => at = (at / 64 + 1) * 64,
                    rest => {
                        at += rest.trailing_zeros() as usize;
                        if at < end {
                            each(row, at - start);
                        }
                        at += 1;
                    }
                }
            }
        }
    }
}

fn set(bits: &mut [u64], index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}
