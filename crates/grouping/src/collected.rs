//! What one node has collected, on its way to where it is merged with what others have.

use std::mem::discriminant;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::aggregate::Accumulator;
use crate::execution::{Execution, HitRef, LevelState};
use crate::level::{Grouping, Level};

/// What an [`Execution`] has collected, without the request: that is known where it goes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Collected(LevelState);

impl Execution {
    /// What has been collected; to be called once it is completed.
    pub fn collected(self) -> Collected {
        Collected(self.root)
    }

    /// The hits that may be shown, each with the document summary that its list names.
    pub fn hits(&self) -> Vec<(Option<&str>, HitRef)> {
        let mut found = Vec::new();
        hits(&self.grouping().root, &self.root, &mut found);
        found
    }
}

impl Collected {
    /// An execution of this request that has collected this. The parts of its hits are counted from `first_part` on.
    ///
    /// # Errors
    /// It was collected for another request.
    pub fn resume(mut self, grouping: Arc<Grouping>, first_part: u32) -> Result<Execution, Error> {
        if !fits(&grouping.root, &self.0, 1) {
            return Err(Error::Read(
                "a node has answered another request than the one that was asked; do all nodes run the same version?".to_owned(),
            ));
        }
        move_parts(&mut self.0, first_part);
        Ok(Execution::with(grouping, self.0))
    }
}

fn hits<'l>(level: &'l Level, state: &LevelState, found: &mut Vec<(Option<&'l str>, HitRef)>) {
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

/// Whether this is the state of so many groups of the level: then no number in it points to what is not there.
fn fits(level: &Level, state: &LevelState, groups: usize) -> bool {
    let aggregates = level.aggregates.iter().map(Accumulator::new).zip(&state.aggregates);
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
