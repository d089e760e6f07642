use millrace_document::DocumentGroup;

use crate::CallerGroups;

/// Documents that a request is about, by their groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedGroups<'g> {
    /// Documents of any group.
    All,
    /// Documents of these groups.
    These(&'g [DocumentGroup]),
}

/// Permission to read and write documents.
///
/// Only [`crate::RequestCaller::permit`] makes one for a request, and [`Permit::of_server`] for work of the
/// server itself. It retains the groups of the caller: a later function can check a narrower request again.
#[derive(Debug, Clone)]
pub struct Permit {
    groups: CallerGroups,
}

impl Permit {
    pub(crate) const fn of(groups: CallerGroups) -> Self {
        Permit { groups }
    }

    /// Creates the permit for work that no request has caused: upkeep, metrics, and shares of queries that
    /// another node has permitted.
    pub const fn of_server() -> Self {
        Permit { groups: CallerGroups::All }
    }

    /// Creates the permit that covers no group, for a request that has not been parsed.
    pub fn of_nothing() -> Self {
        Permit { groups: CallerGroups::Only([].into()) }
    }

    /// Returns true if it covers these documents.
    pub fn covers(&self, wanted: WantedGroups<'_>) -> bool {
        self.groups.cover(wanted)
    }
}
