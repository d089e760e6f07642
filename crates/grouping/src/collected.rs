//! Partial results of a node, in a form that can be sent to the merging node.

use std::mem::discriminant;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::GroupingFailure;
use crate::aggregate::AggregateValues;
use crate::execution::{GroupingExecution, HitRef, LevelState};
use crate::level::{CheckedGrouping, GroupingLevel};

/// Data collected by a [`GroupingExecution`], without the request, which the receiver already has.
#[derive(Debug, Serialize, Deserialize)]
pub struct CollectedGroups(LevelState);

impl GroupingExecution {
    /// Extracts the collected data. Call it after [`GroupingExecution::complete`].
    pub fn collected(self) -> CollectedGroups {
        CollectedGroups(self.root)
    }

    /// Hits that may be returned, each with the document summary of its list.
    pub fn hits(&self) -> Vec<(Option<&str>, HitRef)> {
        let mut found = Vec::new();
        hits(&self.grouping().root, &self.root, &mut found);
        found
    }
}

impl CollectedGroups {
    /// Restores an execution of this request from the data. The parts of its hits are numbered from
    /// `first_part`.
    ///
    /// # Errors
    /// The data was collected for another request.
    pub fn resume(
        mut self,
        grouping: Arc<CheckedGrouping>,
        first_part: u32,
    ) -> Result<GroupingExecution, GroupingFailure> {
        if !fits(&grouping.root, &self.0, 1) {
            return Err(GroupingFailure::OtherRequest);
        }
        move_parts(&mut self.0, first_part);
        Ok(GroupingExecution::with(grouping, self.0))
    }
}

fn hits<'l>(level: &'l GroupingLevel, state: &LevelState, found: &mut Vec<(Option<&'l str>, HitRef)>) {
    for (spec, lists) in level.hit_lists.iter().zip(&state.hits) {
        found.extend(lists.iter().flatten().map(|hit| (spec.summary.as_deref(), *hit)));
    }
    for (spec, list) in level.lists.iter().zip(&state.lists) {
        hits(&spec.level, &list.level, found);
    }
}

fn move_parts(state: &mut LevelState, by: u32) {
    for hit in state.hits.iter_mut().flatten().flatten() {
        hit.part = hit.part.saturating_add(by);
    }
    state.lists.iter_mut().for_each(|list| move_parts(&mut list.level, by));
}

/// True if the state matches the level and its number of groups; then every index in it is valid.
fn fits(level: &GroupingLevel, state: &LevelState, groups: usize) -> bool {
    let aggregates = level.aggregates.iter().map(AggregateValues::new).zip(&state.aggregates);
    let lists = level.lists.iter().zip(&state.lists);
    state.ranks.len() == groups
        && state.aggregates.len() == level.aggregates.len()
        && aggregates
            .into_iter()
            .all(|(own, theirs)| discriminant(&own) == discriminant(theirs) && theirs.groups() == groups)
        && state.hits.len() == level.hit_lists.len()
        && state.hits.iter().all(|hits| hits.len() == groups)
        && state.lists.len() == level.lists.len()
        && lists.into_iter().all(|(spec, list)| {
            list.table.parents.iter().all(|parent| (*parent as usize) < groups)
                && fits(&spec.level, &list.level, list.table.len())
        })
}
