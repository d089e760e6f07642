use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ClusterState;

/// A state that newer ones have followed, and who may not know that.
///
/// Nodes go on by a state for as long as most of its nodes agree on it. So nothing may be published that takes a majority of any state
/// out of service, unless they are known to have heard of a newer one: they could be cut off together, and go on. A cluster state carries all
/// earlier ones of which that could still become true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    version: u64,
    /// So many nodes can confirm it among themselves.
    majority: usize,
    /// The nodes that may act by it, by their names, each with the run of its process that does.
    runs: BTreeMap<String, u64>,
}

impl Earlier {
    /// A state as it is when it is published: all that serve may act by it.
    pub(crate) fn of(state: &ClusterState) -> Self {
        let serving = state.nodes().values().filter(|node| node.state.serves());
        Earlier {
            version: state.version(),
            majority: state.nodes().len() / 2 + 1,
            runs: serving.map(|node| (node.name.clone(), node.incarnation)).collect(),
        }
    }

    /// Which state it is.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Takes out whoever cannot act by it any more.
    pub(crate) fn retain(&mut self, mut may_act: impl FnMut(&str, u64) -> bool) {
        self.runs.retain(|name, incarnation| may_act(name, *incarnation));
    }

    /// The names of those who may act by it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.runs.keys().map(String::as_str)
    }

    /// Whether those of its nodes for which `out` holds would be enough to go on by it.
    pub(crate) fn goes_on(&self, out: impl Fn(&str) -> bool) -> bool {
        self.runs.keys().filter(|name| out(name)).count() >= self.majority
    }

    /// Whether whatever leaves too few behind of this one does so of the other as well.
    fn stands_for(&self, other: &Earlier) -> bool {
        let has = |(name, incarnation): (&String, &u64)| self.runs.get(name) == Some(incarnation);
        self.majority <= other.majority && other.runs.iter().all(has)
    }

    /// Those that matter: enough nodes may act by each, and no later one stands for it.
    pub(crate) fn that_matter(all: &mut Vec<Earlier>) {
        all.retain(|earlier| earlier.goes_on(|_| true));
        let mut kept: Vec<Earlier> = Vec::new();
        for earlier in all.drain(..).rev() {
            if !kept.iter().any(|later| later.stands_for(&earlier)) {
                kept.push(earlier);
            }
        }
        kept.reverse();
        *all = kept;
    }
}
