use std::fmt;
use std::str::FromStr;

use millrace_bucket::NodeKey;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Number of an index in the table; never used again. An index whose definition changes gets another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IndexNumber(pub u32);

/// Number of a copy in the table; never used again. So a late report about a copy that a node had earlier is
/// not taken for one about the copy that it has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CopyId(pub u64);

/// A slice of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SliceId {
    /// The index.
    pub index: IndexNumber,
    /// The lowest location bits of its documents.
    pub slice: u8,
}

/// A copy of a slice on a node.
///
/// Its text form is that of the table: `17@3` (ready), `17@3 leaving`, `17@3 building for few`,
/// `17@3 copying from 1 replacing 5 for empty`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedCopy {
    /// Its number.
    pub id: CopyId,
    /// The node that has it, or is making it.
    pub node: NodeKey,
    /// Its state.
    pub state: PlacedCopyState,
}

/// State of a copy, as the cluster agrees on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacedCopyState {
    /// The node makes it, and it is not scanned.
    Made {
        /// The node whose copy is taken over as files; `None`: it is built from the documents.
        from: Option<NodeKey>,
        /// The ready copy that leaves when this one is ready; with one, this is a move.
        replacing: Option<CopyId>,
        /// Reason of its existence.
        reason: PlacementReason,
    },
    /// Ready to be scanned.
    Ready,
    /// Closed to new scans; unlinked by the node when the running ones have ended.
    Leaving,
}

/// Reason why a copy is made, in the order of urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementReason {
    /// The slice has no ready copy on a node that serves.
    None,
    /// The slice has fewer copies than its index should have.
    Few,
    /// Copies of the slice are together in a group of nodes, while another has room.
    Together,
    /// The node of the other copy is retired, or has lost its role.
    Retired,
    /// An operator has asked for the move.
    Asked,
    /// The node had no copies.
    Empty,
    /// An operator has asked for a rebalance.
    Rebalance,
}

const REASONS: [(PlacementReason, &str); 7] = [
    (PlacementReason::None, "none"),
    (PlacementReason::Few, "few"),
    (PlacementReason::Together, "together"),
    (PlacementReason::Retired, "retired"),
    (PlacementReason::Asked, "asked"),
    (PlacementReason::Empty, "empty"),
    (PlacementReason::Rebalance, "rebalance"),
];

impl PlacementReason {
    /// The word of the table.
    pub(crate) fn word(self) -> &'static str {
        REASONS.iter().find(|(reason, _)| *reason == self).map_or("", |(_, word)| word)
    }

    /// A sentence for operators.
    pub fn sentence(self) -> &'static str {
        match self {
            PlacementReason::None => "the slice has no ready copy",
            PlacementReason::Few => "the slice has too few copies",
            PlacementReason::Together => "copies of the slice are together in a group of nodes",
            PlacementReason::Retired => "the node of the other copy is to be emptied",
            PlacementReason::Asked => "the move was asked for",
            PlacementReason::Empty => "the node had no copies",
            PlacementReason::Rebalance => "a rebalance was asked for",
        }
    }
}

impl PlacedCopy {
    /// True if it may be scanned.
    pub fn is_ready(&self) -> bool {
        self.state == PlacedCopyState::Ready
    }

    /// True if the node is making it.
    pub fn is_made(&self) -> bool {
        matches!(self.state, PlacedCopyState::Made { .. })
    }

    /// True if the node is making it because an operator has asked for this.
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self.state, PlacedCopyState::Made { reason: PlacementReason::Asked, .. })
    }

    /// The copy that leaves when this one is ready.
    pub fn replacing(&self) -> Option<CopyId> {
        match self.state {
            PlacedCopyState::Made { replacing, .. } => replacing,
            _ => None,
        }
    }
}

impl fmt::Display for IndexNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} of index {}", self.slice, self.index)
    }
}

impl fmt::Display for PlacedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id.0, self.node)?;
        match self.state {
            PlacedCopyState::Ready => Ok(()),
            PlacedCopyState::Leaving => f.write_str(" leaving"),
            PlacedCopyState::Made { from, replacing, reason } => {
                match from {
                    Some(node) => write!(f, " copying from {node}")?,
                    None => f.write_str(" building")?,
                }
                if let Some(copy) = replacing {
                    write!(f, " replacing {}", copy.0)?;
                }
                write!(f, " for {}", reason.word())
            }
        }
    }
}

impl FromStr for PlacedCopy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |reason| Error::CopyText { text: text.to_owned(), reason };
        let mut words = text.split(' ');
        let (id, node) = words
            .next()
            .and_then(|word| word.split_once('@'))
            .ok_or_else(|| refused("expected its number and its node, as in '17@3'"))?;
        let id = CopyId(id.parse().map_err(|_| refused("expected a number before '@'"))?);
        let node = NodeKey(node.parse().map_err(|_| refused("expected the key of a node behind '@'"))?);
        let state = match words.next() {
            None => PlacedCopyState::Ready,
            Some("leaving") => PlacedCopyState::Leaving,
            Some(kind @ ("building" | "copying")) => {
                let mut next = words.next();
                let mut from = None;
                if kind == "copying" {
                    if next != Some("from") {
                        return Err(refused("expected 'from' behind 'copying'"));
                    }
                    let key = words.next().and_then(|word| word.parse().ok());
                    from = Some(NodeKey(key.ok_or_else(|| refused("expected a node behind 'from'"))?));
                    next = words.next();
                }
                let mut replacing = None;
                if next == Some("replacing") {
                    let copy = words.next().and_then(|word| word.parse().ok());
                    replacing =
                        Some(CopyId(copy.ok_or_else(|| refused("expected a copy behind 'replacing'"))?));
                    next = words.next();
                }
                let word = words.next().filter(|_| next == Some("for"));
                let reason = REASONS.iter().find(|(_, known)| Some(*known) == word);
                let reason = reason.ok_or_else(|| refused("expected 'for' and a reason"))?.0;
                PlacedCopyState::Made { from, replacing, reason }
            }
            Some(_) => return Err(refused("expected 'building', 'copying from' or 'leaving'")),
        };
        match words.next() {
            Some(_) => Err(refused("expected nothing more")),
            None => Ok(PlacedCopy { id, node, state }),
        }
    }
}

impl Serialize for PlacedCopy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlacedCopy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
