use millrace_bucket::NodeKey;

use crate::table::COPIES_OF_SLICE_MAX;
use crate::{DefinitionHash, Error, PlacementSettingsUpdate};

/// An index that the application declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedIndex {
    pub(crate) content: String,
    pub(crate) name: String,
    pub(crate) definition: DefinitionHash,
    pub(crate) copies: u8,
    pub(crate) slices: u8,
    pub(crate) deferred: bool,
}

impl WantedIndex {
    /// An index of a content cluster, with the hash of its definition, the number of copies of each slice (1
    /// to 4), and the number of slices (a power of two up to 64). It is built at once.
    ///
    /// # Errors
    /// [`Error::Declaration`] for other numbers.
    pub fn new(
        (content, name): (&str, &str),
        definition: DefinitionHash,
        copies: u8,
        slices: u8,
    ) -> Result<Self, Error> {
        let refused = |reason| Error::Declaration { name: name.to_owned(), reason };
        if !(1..=COPIES_OF_SLICE_MAX).contains(&usize::from(copies)) {
            return Err(refused("the number of copies is 1 to 4"));
        }
        if !(slices.is_power_of_two() && slices <= 64) {
            return Err(refused("the number of slices is 1, 2, 4, 8, 16, 32 or 64"));
        }
        let (content, name) = (content.to_owned(), name.to_owned());
        Ok(WantedIndex { content, name, definition, copies, slices, deferred: false })
    }

    /// Content cluster and name.
    pub fn name(&self) -> (&str, &str) {
        (&self.content, &self.name)
    }

    /// The same index, built only when this is asked for.
    pub fn deferred(self) -> Self {
        WantedIndex { deferred: true, ..self }
    }
}

/// A command of an operator, as the planner carries it out. Indexes are given by content cluster and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementCommand {
    /// Even the copies out over the nodes. An automatic rebalance onto empty nodes becomes part of it.
    Rebalance {
        /// Origin of the request.
        by: String,
    },
    /// Begin no further moves. Those in progress end, or are undone if they fail.
    Stop,
    /// Move a copy to a node.
    Move {
        /// Content cluster and name of the index.
        index: (String, String),
        /// The slice.
        slice: u8,
        /// The node that gives it up.
        from: NodeKey,
        /// The node that gets it.
        to: NodeKey,
    },
    /// Build a deferred index.
    Build {
        /// Content cluster and name of the index.
        index: (String, String),
    },
    /// Build an index once more, beside the copies that serve.
    Rebuild {
        /// Content cluster and name of the index.
        index: (String, String),
    },
    /// Change settings.
    Settings(PlacementSettingsUpdate),
}
