//! A validated request: the computations at each level.

use millrace_document::DataType;

use crate::continuation::Offsets;
use crate::datum::ExpressionDatum;
use crate::functions::GroupingFunction;
use crate::node::{FilterNode, GroupingNode, ValueKind};
use crate::request::GroupAggregator;
use crate::zone::GroupingZone;

/// A request validated against a schema, ready for execution.
#[derive(Debug)]
pub struct CheckedGrouping {
    /// Fields whose value columns are read.
    pub(crate) fields: Vec<(String, DataType)>,
    pub(crate) reads_ids: bool,
    pub(crate) zone: GroupingZone,
    pub(crate) all_documents: bool,
    /// Limit on the documents that are grouped, best first.
    pub(crate) top: Option<usize>,
    pub(crate) root: GroupingLevel,
    /// First entries of lists, from continuations.
    pub(crate) offsets: Offsets,
}

impl CheckedGrouping {
    /// True for `where(true)`: all documents in scope are collected, including those that do not match.
    pub fn all_documents(&self) -> bool {
        self.all_documents
    }

    /// Names of the fields whose value columns are read.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }
}

/// Computations for each group at one level of the request.
#[derive(Debug, Default)]
pub(crate) struct GroupingLevel {
    pub(crate) aggregates: Vec<CheckedAggregate>,
    pub(crate) outputs: Vec<(String, GroupNode)>,
    pub(crate) hit_lists: Vec<HitList>,
    pub(crate) lists: Vec<GroupsList>,
}

/// An aggregate with its input.
#[derive(Debug)]
pub(crate) struct CheckedAggregate {
    /// Text of the aggregate, used to share equal ones.
    pub(crate) text: String,
    pub(crate) aggregator: GroupAggregator,
    pub(crate) input: Option<GroupingNode>,
    pub(crate) kind: ValueKind,
    pub(crate) quantiles: Vec<f64>,
}

/// Hits of a group.
#[derive(Debug)]
pub(crate) struct HitList {
    /// Tag in continuations.
    pub(crate) tag: u32,
    pub(crate) label: String,
    pub(crate) summary: Option<String>,
    pub(crate) max: Option<usize>,
}

/// Groups inside a group.
#[derive(Debug)]
pub(crate) struct GroupsList {
    /// Tag in continuations.
    pub(crate) tag: u32,
    pub(crate) label: String,
    pub(crate) by: GroupingNode,
    /// True if rows inside keep the index of the list element they come from.
    pub(crate) binds: bool,
    pub(crate) filter: Option<FilterNode>,
    pub(crate) order: Vec<(bool, GroupNode)>,
    pub(crate) max: Option<usize>,
    pub(crate) level: GroupingLevel,
    /// True if the groups are returned, false if they are only counted.
    pub(crate) shown: bool,
}

/// An expression over a group.
#[derive(Debug)]
pub(crate) enum GroupNode {
    Constant(ExpressionDatum<'static>),
    /// An aggregate of the level, by index.
    Aggregate(usize),
    /// Number of groups in a list of the level, by the list's index.
    GroupCount(usize),
    Call {
        function: &'static GroupingFunction,
        arguments: Vec<GroupNode>,
    },
}
