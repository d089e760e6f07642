use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ClusterState, ClusterVersion, Incarnation};

/// A superseded state, with the nodes that may not know of a newer one.
///
/// Nodes act by a state for as long as most of its nodes agree on it. So a state that takes a majority of any
/// earlier state out of service must not be published, unless these nodes are known to have received a newer
/// one: they could be cut off together, and continue. A cluster state carries all earlier states for which
/// this is still possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupersededState {
    version: ClusterVersion,
    /// Number of nodes that can confirm it among themselves.
    majority: usize,
    /// Nodes that may act by it, by name, each with the incarnation of its process.
    runs: BTreeMap<String, Incarnation>,
}

impl SupersededState {
    /// A state at the time of its publication: all serving nodes may act by it.
    pub fn of(state: &ClusterState) -> Self {
        let serving = state.nodes().values().filter(|node| node.state.serves());
        SupersededState {
            version: state.version(),
            majority: state.nodes().len() / 2 + 1,
            runs: serving.map(|node| (node.name.clone(), node.incarnation)).collect(),
        }
    }

    /// Version of the state.
    pub(crate) fn version(&self) -> ClusterVersion {
        self.version
    }

    /// Removes the nodes that cannot act by it any more.
    pub(crate) fn retain(&mut self, mut may_act: impl FnMut(&str, Incarnation) -> bool) {
        self.runs.retain(|name, incarnation| may_act(name, *incarnation));
    }

    /// Names of the nodes that may act by it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// True if the nodes for which `out` holds are enough to continue by this state.
    pub(crate) fn can_continue(&self, out: impl Fn(&str) -> bool) -> bool {
        self.runs.keys().filter(|name| out(name)).count() >= self.majority
    }

    /// True if every set of nodes that leaves too few behind of this state does so for `other` as well.
    fn implies(&self, other: &SupersededState) -> bool {
        let has = |(name, incarnation): (&String, &Incarnation)| self.runs.get(name) == Some(incarnation);
        self.majority <= other.majority && other.runs.iter().all(has)
    }

    /// Keeps the relevant states: enough nodes may act by each, and no later one implies it.
    pub(crate) fn retain_relevant(all: &mut Vec<SupersededState>) {
        all.retain(|earlier| earlier.can_continue(|_| true));
        let mut kept: Vec<SupersededState> = Vec::new();
        for earlier in all.drain(..).rev() {
            if !kept.iter().any(|later| later.implies(&earlier)) {
                kept.push(earlier);
            }
        }
        kept.reverse();
        *all = kept;
    }
}
