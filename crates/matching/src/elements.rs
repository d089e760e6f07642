use millrace_column::ExecutionPaths;
use millrace_document::DocumentValue;
use millrace_plan::{LeafId, Plan, PlanNode};

use crate::nested::elements;
use crate::tree::{ReadyPlan, any_holds, holds, path_of};
use crate::{Error, RankingDemands};

/// Selection of the elements of a collection field that a plan matches, for `matched-elements-only`.
pub struct MatchedElements<'p> {
    ready: ReadyPlan<'p>,
    /// Parts of the plan that constrain the field's elements.
    conditions: Vec<ElementTest<'p>>,
}

enum ElementTest<'p> {
    Leaf(LeafId),
    /// Condition on an element.
    Element(&'p PlanNode),
    /// Condition on an element of a nested collection, with the path of that collection.
    Inside(&'p PlanNode, &'p str),
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

    /// Indices of the matching elements, ascending.
    pub fn of(&self, value: &DocumentValue) -> Vec<usize> {
        let mut matched = Vec::new();
        elements(value, &mut |index, element| {
            let matches = self.conditions.iter().any(|condition| match condition {
                ElementTest::Leaf(leaf) => self.ready.leaves[leaf.0].matches_element(element, 0),
                ElementTest::Element(node) => holds(&self.ready, node, element, 0),
                ElementTest::Inside(node, path) => {
                    any_holds(&self.ready, node, &[], element, &path_of(path), 0)
                }
            });
            if matches {
                matched.push(index);
            }
        });
        matched
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
            leaves.iter().filter(|leaf| *plan.leaves[leaf.0].field == *field).for_each(|leaf| {
                conditions.push(ElementTest::Leaf(*leaf));
            });
        }
        PlanNode::SameElement { field: of, child, .. } => {
            if **of == *field {
                conditions.push(ElementTest::Element(child));
            } else if of.split('.').next() == Some(field) {
                conditions.push(ElementTest::Inside(child, of));
            }
        }
    }
}
