use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;

use crate::{CopyId, NoCopiesReason};

/// A node of the cluster, as the planner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexNode {
    /// Its key.
    pub key: NodeKey,
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: NodeState,
    /// True if it has the role `index`.
    pub has_role: bool,
    /// Keys of the groups that it is in, the outermost first.
    pub group: Vec<u16>,
    /// Its last report about each of its copies. Of copies without one nothing is known.
    pub reports: BTreeMap<CopyId, CopyReport>,
}

/// Report of a node about one of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    /// Its progress.
    pub progress: CopyProgress,
    /// Size of its files.
    pub bytes: u64,
}

/// Progress of a copy at its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyProgress {
    /// Being made.
    Working,
    /// Complete up to the moment at which it asked, and following: it can be scanned.
    CaughtUp,
    /// It cannot be made, or a file of it is damaged. A node that reports this waits before it reports that
    /// the copy is gone, so that copies that fail are not made again at once.
    Failed(Arc<str>),
    /// The node does not have it: it has unlinked a leaving copy, or lost a ready one.
    Gone,
}

/// Availability of a node for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeAvailability {
    /// With copies, and taking others.
    Takes,
    /// With copies that are scanned until they have moved away.
    Sheds,
    /// Back soon: its copies stay, and are not made elsewhere.
    Pauses,
    /// Down: its copies are made elsewhere.
    Down,
}

impl IndexNode {
    pub(crate) fn availability(&self) -> NodeAvailability {
        match (self.state, self.has_role) {
            (NodeState::Up, true) => NodeAvailability::Takes,
            (NodeState::Up, false) | (NodeState::Retired, _) => NodeAvailability::Sheds,
            (NodeState::Maintenance, _) => NodeAvailability::Pauses,
            (NodeState::Down, _) => NodeAvailability::Down,
        }
    }

    /// Reason why it takes no copies, if it takes none.
    pub(crate) fn takes_none(&self) -> Option<NoCopiesReason> {
        match (self.state, self.has_role) {
            (NodeState::Up, true) => None,
            (NodeState::Up, false) => Some(NoCopiesReason::Role),
            (state, _) => Some(NoCopiesReason::State(state)),
        }
    }

    pub(crate) fn progress(&self, copy: CopyId) -> Option<&CopyProgress> {
        self.reports.get(&copy).map(|report| &report.progress)
    }
}
