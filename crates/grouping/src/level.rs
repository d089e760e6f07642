//! A checked request: what is computed at which place.

use millrace_document::DataType;

use crate::continuation::Offsets;
use crate::datum::Datum;
use crate::functions::Function;
use crate::node::{FilterNode, Kind, Node};
use crate::request::Aggregator;
use crate::zone::Zone;

/// A request checked against a schema, ready to be executed.
#[derive(Debug)]
pub struct Grouping {
    /// The fields whose value columns are read.
    pub(crate) fields: Vec<(String, DataType)>,
    pub(crate) reads_ids: bool,
    pub(crate) zone: Zone,
    pub(crate) all_documents: bool,
    /// Only the best so many documents are grouped.
    pub(crate) top: Option<usize>,
    pub(crate) root: Level,
    /// First entries of lists that continuations ask for.
    pub(crate) offsets: Offsets,
}

impl Grouping {
    /// Whether all documents in scope are to be collected, whether they match or not: `where(true)`.
    pub fn all_documents(&self) -> bool {
        self.all_documents
    }

    /// The fields whose value columns are read.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }
}

/// What is computed for each group at one place of the request.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) outputs: Vec<(String, GroupNode)>,
    pub(crate) hit_lists: Vec<HitList>,
    pub(crate) lists: Vec<GroupsList>,
}

/// An aggregate and what it is taken of.
#[derive(Debug)]
pub(crate) struct Aggregate {
    /// Its text, by which a second mention of the same one is known.
    pub(crate) text: String,
    pub(crate) aggregator: Aggregator,
    pub(crate) input: Option<Node>,
    pub(crate) kind: Kind,
    pub(crate) quantiles: Vec<f64>,
}

/// Hits of a group.
#[derive(Debug)]
pub(crate) struct HitList {
    /// What continuations call it.
    pub(crate) tag: u32,
    pub(crate) label: String,
    pub(crate) summary: Option<String>,
    pub(crate) max: Option<usize>,
}

/// Groups inside a group.
#[derive(Debug)]
pub(crate) struct GroupsList {
    /// What continuations call it.
    pub(crate) tag: u32,
    pub(crate) label: String,
    pub(crate) by: Node,
    /// The rows inside remember which element of the list each came from.
    pub(crate) binds: bool,
    pub(crate) filter: Option<FilterNode>,
    pub(crate) order: Vec<(bool, GroupNode)>,
    pub(crate) max: Option<usize>,
    pub(crate) level: Level,
    /// Whether the groups are shown, and not only counted.
    pub(crate) shown: bool,
}

/// An expression over a group.
#[derive(Debug)]
pub(crate) enum GroupNode {
    Constant(Datum<'static>),
    /// An aggregate of the level, by place.
    Aggregate(usize),
    /// How many groups a list of the level has, by the list's place.
    GroupCount(usize),
    Call {
        function: &'static Function,
        arguments: Vec<GroupNode>,
    },
}
