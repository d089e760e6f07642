//! Who may still act by which earlier state.

use std::collections::BTreeMap;

use super::node::{Judgement, Record};
use super::{Inputs, Wish};
use crate::{ClusterState, Earlier, NodeKey};

/// The states that enough nodes may still act by to go on by them, the previous one among them.
pub(super) struct Followers(Vec<Earlier>);

impl Followers {
    pub(super) fn new(
        inputs: &Inputs<'_>,
        records: &BTreeMap<String, Record>,
        previous: Option<&ClusterState>,
    ) -> Self {
        let mut all: Vec<Earlier> = previous.into_iter().flat_map(ClusterState::earlier).cloned().collect();
        all.extend(previous.map(Earlier::of));
        for earlier in &mut all {
            let version = earlier.version();
            earlier.retain(|name, incarnation| match inputs.registrations.get(name) {
                // A new run says something once nothing counts any more that the one before has promised.
                Some(registration) if registration.incarnation != incarnation => registration.adopted == 0,
                None if matches!(inputs.wish(name), Wish::Down | Wish::Removed) => false,
                Some(registration) if registration.adopted > version => false,
                _ => records.get(name).is_none_or(|record| record.may_act_by(incarnation, version)),
            });
        }
        Earlier::that_matter(&mut all);
        Followers(all)
    }

    /// Leaves nodes as they are for now that are there, if too many would be taken out of service together. Returned are the names of those
    /// that would be too many all the same.
    pub(super) fn spare(
        &self,
        inputs: &Inputs<'_>,
        previous: Option<&ClusterState>,
        judged: &mut BTreeMap<NodeKey, (String, Judgement)>,
    ) -> Vec<String> {
        let there: Vec<NodeKey> = judged
            .iter()
            .filter(|(_, (name, judgement))| inputs.runs(name, judgement.incarnation))
            .map(|(key, _)| *key)
            .collect();
        for key in there.into_iter().rev() {
            if self.left_behind(judged).is_empty() {
                break;
            }
            let before = previous.and_then(|state| state.nodes().get(&key)).map(|entry| entry.state);
            if let Some((_, judgement)) = judged.get_mut(&key)
                && let Some(before) = before.filter(|before| before.serves())
                && !judgement.state.serves()
            {
                judgement.state = before;
            }
        }
        self.left_behind(judged)
    }

    /// The nodes that would be taken out and could go on together; none where they are too few.
    fn left_behind(&self, judged: &BTreeMap<NodeKey, (String, Judgement)>) -> Vec<String> {
        let serves: BTreeMap<&str, bool> =
            judged.values().map(|(name, judgement)| (&**name, judgement.state.serves())).collect();
        let out = |name: &str| !serves.get(name).copied().unwrap_or(false);
        let going_on = self.0.iter().find(|earlier| earlier.goes_on(out));
        going_on.map_or_else(Vec::new, |earlier| earlier.names().filter(|name| out(name)).collect())
    }

    /// To be carried by the next state.
    pub(super) fn into_earlier(self) -> Vec<Earlier> {
        self.0
    }
}
