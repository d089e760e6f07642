//! Who may still act by which earlier state.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{Judgement, Record};
use super::{Inputs, Wish};
use crate::{ClusterState, Earlier, NodeKey};

/// The states that enough nodes may still act by to go on by them, the previous one among them.
pub(super) struct Followers {
    earlier: Vec<Earlier>,
    /// The names of nodes that have ended, by their own word or that of an operator.
    ended: BTreeSet<String>,
}

impl Followers {
    pub(super) fn new(
        inputs: &Inputs<'_>,
        records: &BTreeMap<String, Record>,
        previous: Option<&ClusterState>,
    ) -> Self {
        let mut earlier: Vec<Earlier> =
            previous.into_iter().flat_map(ClusterState::earlier).cloned().collect();
        earlier.extend(previous.map(Earlier::of));
        for state in &mut earlier {
            let version = state.version();
            state.retain(|name, incarnation| match inputs.registrations.get(name) {
                // A new run says something once nothing counts any more that the one before has promised.
                Some(registration) if registration.incarnation != incarnation => registration.adopted == 0,
                Some(registration) => registration.adopted <= version,
                None => records.get(name).is_none_or(|record| record.adopted(incarnation) <= version),
            });
        }
        Earlier::that_matter(&mut earlier);
        let stopped = records.iter().filter(|(_, record)| record.stopped());
        let given_up = inputs.wishes.iter().filter(|(name, wish)| {
            matches!(wish, Wish::Down | Wish::Removed) && !inputs.registrations.contains_key(*name)
        });
        let ended = stopped.map(|(name, _)| name).chain(given_up.map(|(name, _)| name)).cloned().collect();
        Followers { earlier, ended }
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
            if self.left_behind(judged, &self.ended).is_empty() {
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
        self.left_behind(judged, &self.ended)
    }

    /// Whether everyone who can have been confirmed by votes has one from a node that serves, and that will keep what it promised by it.
    pub(super) fn votes_are_kept(&self, judged: &BTreeMap<NodeKey, (String, Judgement)>) -> bool {
        // Who has ended may have voted shortly before.
        self.left_behind(judged, &BTreeSet::new()).is_empty()
    }

    /// Whether votes could confirm an earlier state to the node of this name: not where too few could give it one.
    pub(super) fn may_be_confirmed(&self, name: &str) -> bool {
        self.earlier.iter().flat_map(Earlier::names).any(|known| known == name)
    }

    /// The nodes that would be taken out and could go on together, but for those that have ended; none where they are too few.
    fn left_behind(
        &self,
        judged: &BTreeMap<NodeKey, (String, Judgement)>,
        ended: &BTreeSet<String>,
    ) -> Vec<String> {
        let serving = judged.values().filter(|(_, judgement)| judgement.state.serves());
        let serving: BTreeSet<&str> = serving.map(|(name, _)| &**name).collect();
        let out = |name: &str| !serving.contains(name) && !ended.contains(name);
        let going_on = self.earlier.iter().find(|earlier| earlier.goes_on(out));
        going_on.map_or_else(Vec::new, |earlier| {
            earlier.names().filter(|name| out(name)).map(str::to_owned).collect()
        })
    }

    /// To be carried by the next state.
    pub(super) fn into_earlier(self) -> Vec<Earlier> {
        self.earlier
    }
}
