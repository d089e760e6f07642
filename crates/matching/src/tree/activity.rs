//! Documents in which each leaf takes part in the match.
//!
//! Ranking sees a leaf only where its subtree takes part: below a condition that fails in a document, all
//! leaves are without a match there, even if the document matches for other reasons. Distances are no
//! matches: they are measured in every document.

use millrace_plan::{LeafId, PlanNode};

use super::ChunkPass;
use crate::Error;
use crate::bits::DocumentBits;

/// True if a tree has a part that may fail in a document that matches, and there have a leaf that does not.
pub(super) fn has_idle_parts(node: &PlanNode) -> bool {
    let may_fail = |node: &PlanNode| !holds_with_any_leaf(node) || has_idle_parts(node);
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => false,
        // Excluded words may stand elsewhere in the document.
        PlanNode::Near { excluded, .. } => !excluded.is_empty(),
        PlanNode::And(children) => children.iter().any(has_idle_parts),
        PlanNode::Or(children) => children.iter().any(may_fail),
        PlanNode::AndNot(first, others) | PlanNode::Rank(first, others) => {
            has_idle_parts(first) || others.iter().any(may_fail)
        }
        // An excluded leaf may match in another element.
        PlanNode::SameElement { child, .. } => excludes_leaves(child),
    }
}

/// True if a condition on one element excludes a leaf.
fn excludes_leaves(node: &PlanNode) -> bool {
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => false,
        PlanNode::And(children) | PlanNode::Or(children) => children.iter().any(excludes_leaves),
        PlanNode::AndNot(..) => true,
        PlanNode::Rank(first, others) => excludes_leaves(first) || others.iter().any(excludes_leaves),
        PlanNode::Near { excluded, .. } => !excluded.is_empty(),
        PlanNode::SameElement { child, .. } => excludes_leaves(child),
    }
}

/// True if a tree holds wherever one of its leaves does: a term in one field, or in any of several. Where it
/// fails, its leaves have no match.
fn holds_with_any_leaf(node: &PlanNode) -> bool {
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => true,
        PlanNode::Or(children) => children.iter().all(holds_with_any_leaf),
        PlanNode::And(_)
        | PlanNode::AndNot(..)
        | PlanNode::Rank(..)
        | PlanNode::Near { .. }
        | PlanNode::SameElement { .. } => false,
    }
}

impl ChunkPass<'_, '_> {
    /// For each leaf, the documents among `matched` in which it takes part; `None` if that is all of them for
    /// every leaf. Nearest neighbours count as found wherever they may still be.
    pub(crate) fn activity(&mut self, matched: &DocumentBits) -> Result<Option<Vec<DocumentBits>>, Error> {
        if !self.ready.has_idle_parts {
            return Ok(None);
        }
        let plan = self.ready.plan;
        // A leaf outside of the tree depends on nothing.
        let uses = super::narrowing::uses_of(&plan.root, self.ready.leaves.len());
        let mut active: Vec<DocumentBits> =
            uses.iter().map(|uses| if *uses == 0 { *matched } else { DocumentBits::NONE }).collect();
        self.activate(&plan.root, matched, &mut active)?;
        Ok(Some(active))
    }

    /// Marks the leaves of a tree that takes part in the documents `within`, where it holds.
    fn activate(
        &mut self,
        node: &PlanNode,
        within: &DocumentBits,
        active: &mut [DocumentBits],
    ) -> Result<(), Error> {
        let mut mark = |leaf: &LeafId| active[leaf.0] = active[leaf.0].or(within);
        match node {
            PlanNode::True | PlanNode::False => {}
            PlanNode::Leaf(leaf) => mark(leaf),
            PlanNode::Near { leaves, .. } => leaves.iter().for_each(mark),
            PlanNode::And(children) => {
                for child in children {
                    self.activate(child, within, active)?;
                }
            }
            PlanNode::Or(children) => {
                for child in children {
                    self.activate_where_it_holds(child, within, active)?;
                }
            }
            PlanNode::AndNot(first, _) => self.activate(first, within, active)?,
            PlanNode::Rank(first, others) => {
                self.activate(first, within, active)?;
                for child in others {
                    self.activate_where_it_holds(child, within, active)?;
                }
            }
            // Of its element, see `narrowing`.
            PlanNode::SameElement { child, .. } => super::narrowing::leaves_of(child).iter().for_each(mark),
        }
        Ok(())
    }

    fn activate_where_it_holds(
        &mut self,
        node: &PlanNode,
        within: &DocumentBits,
        active: &mut [DocumentBits],
    ) -> Result<(), Error> {
        let here = match holds_with_any_leaf(node) {
            true => *within,
            false => self.node(node, within)?.at_most(within),
        };
        self.activate(node, &here, active)
    }
}
