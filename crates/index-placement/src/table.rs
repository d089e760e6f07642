use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::NodeKey;
use serde::{Deserialize, Serialize};

use crate::{
    CopyId, CopyMethod, Error, IndexNumber, PlacedCopy, PlacementSettings, RemainingRebalance, SliceId,
};

/// Format of the table that this program writes; it reads those up to this one.
pub const TABLE_FORMAT: u32 = 1;

/// Number of copies that all indexes together may want. It bounds the table to less than a transaction of
/// coordination can have.
pub const COPIES_MAX: usize = 32_768;

/// Highest number of an index that is next: a new one each second for decades.
const NEXT_INDEX_MAX: u32 = 1 << 31;

/// Highest number of a copy, a rebalance or a version that is next.
const NUMBER_MAX: u64 = 1 << 53;

/// Largest number of copies of a slice that can be wanted.
pub(crate) const COPIES_OF_SLICE_MAX: usize = 4;

/// The table of copies: which node has which copy, in which state.
///
/// It is a value of its own in coordination, written by the leader alone, and checked when it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlacementTable {
    /// Number of the publication, from 1; 0 before the first.
    #[serde(default)]
    pub(crate) version: u64,
    pub(crate) settings: PlacementSettings,
    pub(crate) next_index: u32,
    pub(crate) next_copy: u64,
    pub(crate) next_rebalance: u64,
    pub(crate) indexes: BTreeMap<IndexNumber, PlacedIndex>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rebalance: Option<RebalanceRun>,
    /// Moves that operators have asked for, and that have not begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) requested: Vec<RequestedMove>,
    /// Nodes without copies that get none by themselves until a rebalance is asked for, because their filling
    /// was stopped, or an operator has moved their last copy away.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) unfilled: BTreeSet<NodeKey>,
    /// Speed of the last rebalance that was carried out to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pace: Option<RebalancePace>,
}

/// Speed of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RebalancePace {
    /// Origin of its copies, as the settings had it at its end.
    pub method: CopyMethod,
    /// Bytes in a second.
    pub bytes_per_second: u64,
}

/// Hash of the definition of an index: copies with equal ones have equal entries for equal documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DefinitionHash(pub u64);

/// An index of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedIndex {
    /// Content cluster.
    pub content: String,
    /// Its name.
    pub name: String,
    /// Hash of its definition.
    pub definition: DefinitionHash,
    /// Wanted number of copies of each slice.
    pub copies: u8,
    /// True if it is not built before it is asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deferred: bool,
    /// True if another index has its name, and this one serves until that one can.
    #[serde(default, skip_serializing_if = "is_false")]
    pub superseded: bool,
    /// Copies of each slice.
    pub slices: Vec<Vec<PlacedCopy>>,
}

/// A rebalance that is in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RebalanceRun {
    /// Its number; never used again.
    pub id: u64,
    /// Its beginner.
    pub cause: RebalanceCause,
    /// True if no further moves begin.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopping: bool,
    /// Number of moves that are in progress or still to begin.
    pub moves_left: u64,
    /// Nodes that had no copies when it reached them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub filling: BTreeSet<NodeKey>,
    /// Those of them that answer no scans yet, because of [`ActivationUnit::Node`](crate::ActivationUnit).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub held: BTreeSet<NodeKey>,
    /// Its extent; `None` before the leader has measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<RebalanceExtent>,
}

/// Extent of a rebalance, by which its progress is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RebalanceExtent {
    /// Time of its beginning, in milliseconds since 1970.
    pub began_ms: u64,
    /// Largest number of moves that were left.
    pub moves: u64,
    /// Largest number of bytes that were left.
    pub bytes: u64,
}

/// Beginner of a rebalance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebalanceCause {
    /// A node had no copies: copies move only onto such nodes.
    EmptyNode,
    /// An operator has asked for it, through this node or in this name.
    Requested(String),
}

/// A move that an operator has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestedMove {
    pub index: IndexNumber,
    pub slice: u8,
    pub copy: CopyId,
    pub to: NodeKey,
}

impl RequestedMove {
    pub(crate) fn slice(&self) -> SliceId {
        SliceId { index: self.index, slice: self.slice }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Serialized form: the format comes first, so that it is readable in every format.
#[derive(Serialize)]
struct WrittenTable<'a> {
    format: u32,
    table: &'a PlacementTable,
}

/// A table as read, before its parts are compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadTable {
    #[serde(rename = "format")]
    _format: u32,
    table: PlacementTable,
}

impl PlacementTable {
    /// Parses the output of [`PlacementTable::to_json`].
    ///
    /// # Errors
    /// Bytes that are not the JSON of a table; a format of a later program; parts that contradict each other.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        /// Part of a table that is readable in every format.
        #[derive(Deserialize)]
        struct TableHeader {
            format: u32,
        }
        let refused = |error: serde_json::Error| Error::Format { reason: error.to_string() };
        let header: TableHeader = serde_json::from_slice(bytes).map_err(refused)?;
        if header.format != TABLE_FORMAT {
            return Err(Error::Version(header.format));
        }
        let read: ReadTable = serde_json::from_slice(bytes).map_err(refused)?;
        read.table.check()?;
        Ok(read.table)
    }

    /// The table as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let written = WrittenTable { format: TABLE_FORMAT, table: self };
        serde_json::to_vec(&written).expect("numbers, texts and lists of them always have a JSON form")
    }

    /// Number of the publication. Of two tables of a cluster, the one with the larger number is newer.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The same table with the number of its publication.
    pub fn published_as(self, version: u64) -> Self {
        PlacementTable { version, ..self }
    }

    /// The same table with the extent of its rebalance, as far as more is left than was noted before.
    pub fn measured(mut self, now_ms: u64, left: RemainingRebalance) -> Self {
        if let Some(run) = &mut self.rebalance {
            let known = run.extent.unwrap_or(RebalanceExtent { began_ms: now_ms, moves: 0, bytes: 0 });
            let (moves, bytes) = (known.moves.max(left.moves), known.bytes.max(left.bytes));
            run.extent = Some(RebalanceExtent { moves, bytes, ..known });
        }
        self
    }

    /// The same table with the speed of the rebalance of an earlier one, if it has ended since.
    pub fn paced(mut self, now_ms: u64, earlier: &PlacementTable) -> Self {
        let Some(run) = earlier.rebalance.as_ref().filter(|run| !run.stopping) else { return self };
        let extent = run.extent.filter(|extent| extent.bytes > 0);
        let has_ended = self.rebalance.is_none();
        if let Some(extent) = extent.filter(|_| has_ended) {
            let took_ms = now_ms.saturating_sub(extent.began_ms).max(1);
            let bytes_per_second = u128::from(extent.bytes) * 1_000 / u128::from(took_ms);
            let bytes_per_second = u64::try_from(bytes_per_second).unwrap_or(u64::MAX);
            self.pace = Some(RebalancePace { method: self.settings.method, bytes_per_second });
        }
        self
    }

    /// Speed of the last rebalance that was carried out to its end.
    pub fn pace(&self) -> Option<RebalancePace> {
        self.pace
    }

    /// True if the table has never had an index: such a table needs no publication.
    pub fn is_unused(&self) -> bool {
        self.next_index == 0 && self.settings == PlacementSettings::default()
    }

    /// The settings.
    pub fn settings(&self) -> &PlacementSettings {
        &self.settings
    }

    /// All indexes by their numbers, with those that are superseded.
    pub fn indexes(&self) -> &BTreeMap<IndexNumber, PlacedIndex> {
        &self.indexes
    }

    /// The rebalance in progress.
    pub fn rebalance(&self) -> Option<&RebalanceRun> {
        self.rebalance.as_ref()
    }

    /// Copies of a slice in all states; none if the slice does not exist.
    pub fn copies(&self, slice: SliceId) -> &[PlacedCopy] {
        let index = self.indexes.get(&slice.index);
        index.and_then(|index| index.slices.get(usize::from(slice.slice))).map_or(&[], Vec::as_slice)
    }

    /// Copies of a slice that may be scanned. Those on nodes that do not serve at the moment are among them.
    pub fn serving(&self, slice: SliceId) -> impl Iterator<Item = &PlacedCopy> {
        self.copies(slice).iter().filter(|copy| copy.is_ready())
    }

    /// Copies that a node has or should make, in all states. It deletes all others that it has.
    pub fn of_node(&self, node: NodeKey) -> impl Iterator<Item = (SliceId, &PlacedCopy)> {
        self.all_copies().filter(move |(_, copy)| copy.node == node)
    }

    /// The index that answers queries by this name: the one that is declared, or the earlier one while a
    /// slice of that one has no ready copy. `None` if neither has a ready copy of each slice.
    pub fn usable(&self, content: &str, name: &str) -> Option<IndexNumber> {
        let named = self.named(content, name).filter(|(_, index)| index.is_usable());
        named.min_by_key(|(_, index)| index.superseded).map(|(number, _)| number)
    }

    /// The declared index of this name, which the copies that are made belong to.
    pub fn declared(&self, content: &str, name: &str) -> Option<IndexNumber> {
        self.named(content, name).find(|(_, index)| !index.superseded).map(|(number, _)| number)
    }

    /// The indexes of a name.
    pub fn named(&self, content: &str, name: &str) -> impl Iterator<Item = (IndexNumber, &PlacedIndex)> {
        let named =
            self.indexes.iter().filter(move |(_, index)| index.content == content && index.name == name);
        named.map(|(number, index)| (*number, index))
    }

    /// All copies, slice by slice.
    pub fn all_copies(&self) -> impl Iterator<Item = (SliceId, &PlacedCopy)> {
        self.indexes.iter().flat_map(|(number, index)| {
            let slices = (0..).zip(&index.slices);
            slices.flat_map(move |(slice, copies)| {
                copies.iter().map(move |copy| (SliceId { index: *number, slice }, copy))
            })
        })
    }

    /// Checks what holds for every table:
    ///
    /// 1. Numbers of indexes, copies and rebalances are below the next ones, and no two copies share one.
    /// 2. An index has 1, 2, 4 … 64 slices, and wants 1 to 4 copies. A deferred one has no copies.
    /// 3. Of the indexes of one name, one at most is not superseded.
    /// 4. A node has at most one copy of a slice.
    /// 5. A copy is not made from its own node. It replaces a ready copy of its slice, and that copy is
    ///    replaced by no other.
    /// 6. Held nodes are among those that are filled.
    /// 7. There is room for further numbers.
    ///
    /// # Errors
    /// [`Error::Inconsistent`], or [`Error::Setting`] for a setting that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        self.settings.check()?;
        let refused = |place: &dyn std::fmt::Display, reason: &str| {
            Err(Error::Inconsistent { place: place.to_string(), reason: reason.to_owned() })
        };
        let last = [u64::from(self.next_index), self.next_copy, self.next_rebalance, self.version];
        let highest = [u64::from(NEXT_INDEX_MAX), NUMBER_MAX, NUMBER_MAX, NUMBER_MAX];
        if last.iter().zip(highest).any(|(next, highest)| *next > highest) {
            return refused(&"its numbers", "one of them is higher than any that was given out");
        }
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (number, index) in &self.indexes {
            let place = format!("index {number}");
            if number.0 >= self.next_index {
                return refused(&place, "its number is not below the next one");
            }
            if !(index.slices.len().is_power_of_two() && index.slices.len() <= 64) {
                return refused(&place, "the number of its slices is not 1, 2, 4, 8, 16, 32 or 64");
            }
            if !(1..=COPIES_OF_SLICE_MAX).contains(&usize::from(index.copies)) {
                return refused(&place, "the number of its copies is not 1 to 4");
            }
            if index.deferred && index.slices.iter().any(|copies| !copies.is_empty()) {
                return refused(&place, "it is deferred, and has copies");
            }
            if !index.superseded && !names.insert((&index.content, &index.name)) {
                return refused(&place, "another index has its name");
            }
        }
        for (slice, copy) in self.all_copies() {
            let place = format!("copy {copy} of {slice}");
            if copy.id.0 >= self.next_copy {
                return refused(&place, "its number is not below the next one");
            }
            if !ids.insert(copy.id) {
                return refused(&place, "another copy has its number");
            }
            let copies = self.copies(slice);
            if copies.iter().any(|other| other.node == copy.node && other.id != copy.id) {
                return refused(&place, "its node has another copy of the slice");
            }
            if let crate::PlacedCopyState::Made { from, replacing, .. } = copy.state {
                if from == Some(copy.node) {
                    return refused(&place, "its source is its own node");
                }
                let is_replaced = |other: &PlacedCopy| Some(other.id) == replacing && other.is_ready();
                if replacing.is_some() && !copies.iter().any(is_replaced) {
                    return refused(&place, "the copy that it replaces is not a ready one of its slice");
                }
                let same = copies.iter().filter(|other| other.replacing() == replacing);
                if replacing.is_some() && same.count() > 1 {
                    return refused(&place, "another copy replaces the same one");
                }
            }
        }
        if let Some(rebalance) = &self.rebalance {
            if rebalance.id >= self.next_rebalance {
                return refused(&"the rebalance", "its number is not below the next one");
            }
            if !rebalance.held.is_subset(&rebalance.filling) {
                return refused(&"the rebalance", "a node is held that is not filled");
            }
        }
        let requested = self.requested.iter();
        let lost = requested
            .filter(|request| !self.copies(request.slice()).iter().any(|copy| copy.id == request.copy));
        match lost.count() {
            0 => Ok(()),
            _ => refused(&"the requested moves", "a copy that is to be moved does not exist"),
        }
    }
}

impl PlacedIndex {
    /// True if each slice has a ready copy.
    pub fn is_usable(&self) -> bool {
        self.slices.iter().all(|copies| copies.iter().any(PlacedCopy::is_ready))
    }
}

impl Serialize for DefinitionHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for DefinitionHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(DefinitionHash).map_err(serde::de::Error::custom)
    }
}
