//! A validated request: the computations at each level.

use millrace_column::{ValueLayout, layout};
use millrace_document::{DataType, EncodedLeafReader};

use crate::continuation::Offsets;
use crate::datum::ExpressionDatum;
use crate::functions::GroupingFunction;
use crate::node::{FilterNode, GroupingNode, ValueKind};
use crate::request::GroupAggregator;
use crate::zone::GroupingZone;

/// A request validated against a schema, ready for execution.
#[derive(Debug)]
pub struct CheckedGrouping {
    pub(crate) reads: GroupingReads,
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
        self.reads.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Document summaries of the hits in its groups, one for each list of hits; `None`: that of the query.
    pub fn hit_summaries(&self) -> Vec<Option<&str>> {
        let mut summaries = Vec::new();
        self.root.add_hit_summaries(&mut summaries);
        summaries
    }
}

/// The columns that a request reads, and the paths to values inside them. Each column, and each path, is
/// read once for a batch of documents.
#[derive(Debug, Default)]
pub(crate) struct GroupingReads {
    /// Fields whose value columns are read.
    pub(crate) fields: Vec<(String, DataType)>,
    /// Paths into collections and structs.
    pub(crate) paths: Vec<GroupingFieldPath>,
    /// True if the column of document ids is read.
    pub(crate) ids: bool,
}

/// A path to values inside a field's collections and structs.
#[derive(Debug)]
pub(crate) struct GroupingFieldPath {
    /// Index of the field.
    pub(crate) field: usize,
    /// Names on the way: members, and `key` and `value` of maps.
    names: Vec<String>,
    pub(crate) reader: EncodedLeafReader,
}

impl GroupingReads {
    /// Index of a field, which is added if it is not read yet.
    pub(crate) fn field(&mut self, name: &str, data_type: &DataType) -> usize {
        let known = self.fields.iter().position(|(known, _)| known == name);
        known.unwrap_or_else(|| {
            self.fields.push((name.to_owned(), data_type.clone()));
            self.fields.len() - 1
        })
    }

    /// Index of a path into a field, which is added if it is not read yet. `None` if its values are not
    /// encoded, or of types that cannot be read in place.
    pub(crate) fn path(&mut self, field: usize, names: Vec<String>) -> Option<usize> {
        let known = self.paths.iter().position(|known| known.field == field && known.names == names);
        known.or_else(|| {
            let data_type = &self.fields[field].1;
            let is_encoded = layout(data_type) == ValueLayout::Encoded;
            let reader = is_encoded.then(|| EncodedLeafReader::new(data_type, &names)).flatten()?;
            self.paths.push(GroupingFieldPath { field, names, reader });
            Some(self.paths.len() - 1)
        })
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

impl GroupingLevel {
    fn add_hit_summaries<'l>(&'l self, summaries: &mut Vec<Option<&'l str>>) {
        summaries.extend(self.hit_lists.iter().map(|list| list.summary.as_deref()));
        self.lists.iter().for_each(|list| list.level.add_hit_summaries(summaries));
    }
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
