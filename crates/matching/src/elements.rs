use millrace_column::{ExecutionPaths, TokenIds};
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
                // They may lie in several elements.
                ElementTest::Near(_) => false,
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
                self.collect_near(node, value, &mut ends, &mut matched);
            }
        }
        matched.sort_unstable();
        matched.dedup();
        matched
    }

    /// Adds the elements in which words are near each other, and those for which `ends` is true.
    fn collect_near(
        &self,
        node: &PlanNode,
        value: &DocumentValue,
        ends: &mut impl FnMut(usize) -> bool,
        matched: &mut Vec<usize>,
    ) {
        let PlanNode::Near { leaves, excluded, .. } = node else { return };
        let Some(near) = self.ready.nearness(node) else { return };
        let mut all: Vec<ElementPositions> = Vec::new();
        elements(value, &mut |index, element| {
            if ends(index) {
                return matched.push(index);
            }
            let mut here = ElementPositions::default();
            for leaf in leaves.iter().chain(excluded) {
                let (positions, length) = self.ready.leaves[leaf.0].positions_in_element(element, 0);
                here.length = here.length.max(length);
                here.of_leaves.push(positions);
            }
            all.push(here);
        });
        for at in 0..all.len() {
            if ends(at) {
                return matched.extend(at..all.len());
            }
            // With a gap, words in the next element may be near, and what is excluded may be in the elements
            // before and after these.
            let (from, end) = match near.element_gap {
                None => (at, at + 1),
                Some(_) => (at.saturating_sub(1), (at + 3).min(all.len())),
            };
            let (positions, boundaries) = joined(&all[from..end]);
            let positions: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
            let (wanted, excluded) = positions.split_at(leaves.len());
            let before = |end: u32| boundaries.partition_point(|boundary| *boundary < end);
            let distance = |first: u32, last: u32| {
                TokenIds::distance_over(first, last, before(last) - before(first), near.element_gap)
            };
            // Those that begin in another element are found there.
            let spans = near.spans_by(wanted, excluded, distance);
            for (_, last) in spans.filter(|(first, _)| from + before(*first) == at) {
                matched.extend(at..=from + before(last));
            }
        }
    }
}

/// Occurrences of several leaves in one element.
#[derive(Default)]
struct ElementPositions {
    /// Positions of each leaf, ascending.
    of_leaves: Vec<Vec<u32>>,
    /// Number of positions of the element.
    length: u32,
}

/// The positions of each leaf in adjacent elements together, and those of the boundaries between these, as in
/// the tokens of a document.
fn joined(elements: &[ElementPositions]) -> (Vec<Vec<u32>>, Vec<u32>) {
    let leaves = elements.first().map_or(0, |element| element.of_leaves.len());
    let (mut positions, mut boundaries) = (vec![Vec::new(); leaves], Vec::new());
    let mut start = 0u32;
    for element in elements {
        for (all, here) in positions.iter_mut().zip(&element.of_leaves) {
            all.extend(here.iter().map(|position| position.saturating_add(start)));
        }
        let boundary = start.saturating_add(element.length);
        boundaries.push(boundary);
        start = boundary.saturating_add(1);
    }
    (positions, boundaries)
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
