//! Conditions on the elements of a collection, found by bit masks over elements.

use millrace_column::BytesColumn;
use millrace_plan::{LeafId, PlanNode};

use super::element_words::{collect, needs_leaf};
use super::{ReadyPlan, is_among};

/// A condition on an element of a collection, whose leaves are tests of single values inside the element.
///
/// Each leaf reads the wire form of a document's collection once, and notes the elements in which it holds.
/// Then the condition is a few operations on words of bits, for 64 elements at a time.
pub(super) struct ElementLeaves<'r, 'n> {
    ready: &'r ReadyPlan<'r>,
    child: &'n PlanNode,
    /// Indices of the elements that may match; empty for all.
    only: &'n [u32],
    leaves: Vec<LeafId>,
    /// For each leaf, the elements in which it holds, one bit each.
    found: Vec<Vec<u64>>,
    buffer: String,
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
        let mut leaves = Vec::new();
        (collect(child, &mut leaves) && needs_leaf(child)).then_some(())?;
        let is_test = |leaf: &LeafId| {
            let of = &ready.plan.leaves[leaf.0].field;
            of.split('.').next() == Some(field) && ready.leaves[leaf.0].tests_elements()
        };
        leaves.iter().all(is_test).then_some(())?;
        let found = vec![Vec::new(); leaves.len()];
        Some(ElementLeaves { ready, child, only, leaves, found, buffer: String::new() })
    }

    /// True if the condition holds in an element of a document's collection; `None` if the collection has to
    /// be read in the general way.
    pub(super) fn holds(&mut self, values: &BytesColumn, document: usize) -> Option<bool> {
        let Some(bytes) = values.get(document) else { return Some(false) };
        for (leaf, found) in self.leaves.iter().zip(&mut self.found) {
            found.clear();
            self.ready.leaves[leaf.0].matching_elements(bytes, found, &mut self.buffer).then_some(())?;
        }
        let words = self.found.iter().map(Vec::len).max().unwrap_or(0);
        Some((0..words).any(|word| {
            let elements = self.word(self.child, word);
            let mut bits = (0..64u32).filter(|bit| elements >> bit & 1 == 1);
            elements != 0
                && (self.only.is_empty() || bits.any(|bit| is_among(self.only, word * 64 + bit as usize)))
        }))
    }

    /// Bits of the elements in which a part of the condition holds: 64 elements from `64 * word` on.
    fn word(&self, node: &PlanNode, word: usize) -> u64 {
        let of = |node: &PlanNode| self.word(node, word);
        match node {
            PlanNode::True => u64::MAX,
            PlanNode::False => 0,
            PlanNode::And(children) => children.iter().map(of).fold(u64::MAX, |all, one| all & one),
            PlanNode::Or(children) => children.iter().map(of).fold(0, |all, one| all | one),
            PlanNode::AndNot(positive, negatives) => {
                negatives.iter().map(of).fold(of(positive), |left, one| left & !one)
            }
            PlanNode::Rank(first, _) => of(first),
            PlanNode::Leaf(leaf) => {
                let at = self.leaves.iter().position(|known| known == leaf);
                at.and_then(|at| self.found[at].get(word)).copied().unwrap_or(0)
            }
            PlanNode::Near { .. } | PlanNode::SameElement { .. } => {
                unreachable!("conditions with these are not made")
            }
        }
    }
}
