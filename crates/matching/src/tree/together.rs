//! Leaves of the same field that are searched together.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey};
use millrace_plan::{LeafId, PlanNode};

use super::{ChunkPass, EvaluatedLeaf, ReadyPlan, take};
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::ReadyLeaf;
use crate::many::{MANY_WORDS, find_any, find_each};
use crate::outcome::LeafOutcome;
use crate::pattern::WordMatcher;
use crate::words::ChunkPositions;

/// Groups the leaves of one word each by their field, and keeps the large groups. Leaves of which only the
/// documents count are not among them: those of a disjunction are one search ([`ChunkPass::any_word`]).
pub(super) fn together(ready: &ReadyPlan<'_>) -> Vec<Vec<LeafId>> {
    let mut groups: HashMap<&ColumnKey, Vec<LeafId>> = HashMap::new();
    if ready.paths.is_fast() {
        for (number, leaf) in ready.leaves.iter().enumerate() {
            if leaf.single_word().is_some() && !leaf.finds_documents {
                groups.entry(&leaf.field.key).or_default().push(LeafId(number));
            }
        }
    }
    groups.into_values().filter(|leaves| leaves.len() >= MANY_WORDS).collect()
}

/// Appends the children of a disjunction. Those of disjunctions among them (a word in any of several fields
/// is one) come in their place.
pub(super) fn alternatives<'n>(children: &'n [PlanNode], all: &mut Vec<&'n PlanNode>) {
    for child in children {
        match child {
            PlanNode::Or(children) => alternatives(children, all),
            child => all.push(child),
        }
    }
}

impl ChunkPass<'_, '_> {
    /// Evaluates leaves of one word each, all of one field, in all live documents.
    pub(super) fn seek_together(&mut self, leaves: &[LeafId]) -> Result<(), Error> {
        let live = self.live;
        let matchers: Vec<&WordMatcher> =
            leaves.iter().filter_map(|leaf| self.ready.leaves[leaf.0].single_word()).collect();
        let found = match self.column(leaves[0], &live)? {
            Some(Column::Tokens(tokens)) => {
                let (plan, taken) = (self.ready.plan, &mut self.taken);
                let located = self.ready.reads_places;
                find_each(&matchers, &tokens, &live, located, &mut |bytes| take(plan, taken, bytes))?
            }
            _ => matchers.iter().map(|_| LeafOutcome::Places(ChunkPositions::default())).collect(),
        };
        assert_eq!(found.len(), leaves.len(), "leaves that are searched together have one word each");
        for (leaf, found) in leaves.iter().zip(found) {
            self.found[leaf.0] = Some(EvaluatedLeaf { within: live, found });
        }
        Ok(())
    }

    /// Evaluates those parts of a disjunction that read the same values, where there are several, in the
    /// documents `within`: the values are read once.
    pub(super) fn seek_values(&mut self, children: &[&PlanNode], within: &DocumentBits) -> Result<(), Error> {
        let ready = self.ready;
        let mut groups: HashMap<(&ColumnKey, &[Arc<str>]), Vec<LeafId>> = HashMap::new();
        for child in children {
            let PlanNode::Leaf(id) = child else { continue };
            let leaf = &ready.leaves[id.0];
            if self.found[id.0].is_none() && leaf.tests_encoded() {
                groups.entry((&leaf.field.key, leaf.field.path.as_slice())).or_default().push(*id);
            }
        }
        for ids in groups.into_values().filter(|ids| ids.len() > 1) {
            let leaves: Vec<&ReadyLeaf> = ids.iter().map(|id| &ready.leaves[id.0]).collect();
            let Some(column) = self.column(ids[0], within)? else { continue };
            // Without their wire form each leaf reads them by itself.
            for (id, found) in
                ids.iter().zip(ReadyLeaf::find_each(&leaves, &column, within).into_iter().flatten())
            {
                take(ready.plan, &mut self.taken, found.memory_bytes())?;
                self.found[id.0] = Some(EvaluatedLeaf { within: *within, found });
            }
        }
        Ok(())
    }

    /// Documents among `within` with any of these words of one field.
    pub(super) fn any_word(
        &mut self,
        key: &ColumnKey,
        matchers: &[&WordMatcher],
        within: &DocumentBits,
    ) -> Result<DocumentBits, Error> {
        if within.is_empty() {
            return Ok(DocumentBits::NONE);
        }
        Ok(match self.window.column(key, self.chunk)? {
            Some(Column::Tokens(tokens)) => find_any(matchers, &tokens, within),
            _ => DocumentBits::NONE,
        })
    }
}
