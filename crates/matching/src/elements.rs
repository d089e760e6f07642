use millrace_column::ExecutionPaths;
use millrace_document::DocumentValue;
use millrace_plan::{LeafId, Plan, PlanNode};

use crate::nested::elements;
use crate::tree::{ReadyPlan, any_holds, holds, is_among, path_of};
use crate::{Error, RankingDemands};

/// Elements between two questions if it is time to stop.
const ELEMENTS_PER_STOP: usize = 64;

/// Selection of the elements of a collection field that a plan matches, for `matched-elements-only`.
pub struct MatchedElements<'p> {
    ready: ReadyPlan<'p>,
    /// Parts of the plan that constrain the field's elements.
    conditions: Vec<ElementTest<'p>>,
}

enum ElementTest<'p> {
    Leaf(LeafId),
    /// Words near each other, in one element, or in two neighbours if elements have a gap.
    Near(&'p PlanNode),
    /// Condition on an element, with the indices of the elements to consider; none for all.
    Element(&'p PlanNode, &'p [u32]),
    /// Condition on an element of a nested collection, with these indices and the path of that collection.
    Inside(&'p PlanNode, &'p [u32], &'p str),
}

impl<'p> MatchedElements<'p> {
    /// Creates the selection for one field of the plan. Excluded parts of the plan are ignored.
    ///
    /// # Errors
    /// A pattern of the plan is invalid.
    pub fn new(plan: &'p Plan, field: &str) -> Result<Self, Error> {
        let mut conditions = Vec::new();
        collect(plan, &plan.root, field, &mut conditions);
        Ok(MatchedElements {
            ready: ReadyPlan::new(plan, ExecutionPaths::Fast, RankingDemands::default())?,
            conditions,
        })
    }

    /// Indices of the matching elements, ascending. Once `stop` is true, which is called now and then, all
    /// elements that are still to be looked at count as matching: to show more is better than to hide some.
    pub fn of(&self, value: &DocumentValue, stop: &dyn Fn() -> bool) -> Vec<usize> {
        let (mut matched, mut stopped) = (Vec::new(), false);
        let mut ends = |index: usize| {
            stopped = stopped || index.is_multiple_of(ELEMENTS_PER_STOP) && stop();
            stopped
        };
        elements(value, &mut |index, element| {
            if ends(index) {
                return matched.push(index);
            }
            let matches = self.conditions.iter().any(|condition| match condition {
                ElementTest::Leaf(leaf) => self.ready.leaves[leaf.0].matches_element(element, 0),
                ElementTest::Near(node) => holds(&self.ready, node, element, 0),
                ElementTest::Element(node, only) => {
                    is_among(only, index) && holds(&self.ready, node, element, 0)
                }
                ElementTest::Inside(node, only, path) => {
                    any_holds(&self.ready, node, only, element, &path_of(path), 0)
                }
            });
            if matches {
                matched.push(index);
            }
        });
        for condition in &self.conditions {
            if let ElementTest::Near(node) = condition {
                self.collect_neighbours(node, value, &mut ends, &mut matched);
            }
        }
        matched.sort_unstable();
        matched.dedup();
        matched
    }

    /// Adds the elements in which words near each other lie on both sides of a boundary, and those for which
    /// `ends` is true.
    fn collect_neighbours(
        &self,
        node: &PlanNode,
        value: &DocumentValue,
        ends: &mut impl FnMut(usize) -> bool,
        matched: &mut Vec<usize>,
    ) {
        let PlanNode::Near { leaves, excluded, .. } = node else { return };
        let Some(near) = self.ready.nearness(node) else { return };
        let Some(gap) = near.element_gap else { return };
        let mut before: Vec<(Vec<u32>, u32)> = Vec::new();
        elements(value, &mut |index, element| {
            if ends(index) {
                return matched.push(index);
            }
            let all = leaves.iter().chain(excluded);
            let here: Vec<(Vec<u32>, u32)> =
                all.map(|leaf| self.ready.leaves[leaf.0].positions_in_element(element, 0)).collect();
            let joined: Vec<Vec<u32>> = before
                .iter()
                .zip(&here)
                .map(|((first, length), (second, _))| {
                    let start = length.saturating_add(gap);
                    let second = second.iter().map(|position| position.saturating_add(start));
                    first.iter().copied().chain(second).collect()
                })
                .collect();
            let joined: Vec<&[u32]> = joined.iter().map(Vec::as_slice).collect();
            if let Some((positions, excluded)) = joined.split_at_checked(leaves.len()) {
                let boundary = before.first().map_or(0, |(_, length)| *length);
                let mut spans = near.spans_in_element(positions, excluded);
                if spans.any(|(first, last)| first < boundary && last >= boundary) {
                    matched.extend([index - 1, index]);
                }
            }
            before = here;
        });
    }
}

fn collect<'p>(plan: &'p Plan, node: &'p PlanNode, field: &str, conditions: &mut Vec<ElementTest<'p>>) {
    match node {
        PlanNode::True | PlanNode::False => {}
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| collect(plan, child, field, conditions));
        }
        PlanNode::AndNot(positive, _) => collect(plan, positive, field, conditions),
        PlanNode::Rank(first, others) => {
            std::iter::once(&**first).chain(others).for_each(|child| collect(plan, child, field, conditions));
        }
        PlanNode::Leaf(leaf) => {
            let path = &plan.leaves[leaf.0].field;
            if path.split('.').next() == Some(field) {
                conditions.push(ElementTest::Leaf(*leaf));
            }
        }
        PlanNode::Near { leaves, .. } => {
            let path = leaves.first().map(|leaf| &*plan.leaves[leaf.0].field);
            if path.is_some_and(|path| path.split('.').next() == Some(field)) {
                conditions.push(ElementTest::Near(node));
            }
        }
        PlanNode::SameElement { field: of, child, elements: only } => {
            if **of == *field {
                conditions.push(ElementTest::Element(child, only));
            } else if of.split('.').next() == Some(field) {
                conditions.push(ElementTest::Inside(child, only, of));
            }
        }
    }
}
