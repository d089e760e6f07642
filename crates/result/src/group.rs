use crate::ResultHit;

/// Result of one grouping request: its root group.
#[derive(Debug, Clone)]
pub struct GroupingResult {
    /// The root.
    pub root: ResultGroup,
    /// Continuation of this page itself; empty if every list is at its first page.
    pub continuation: String,
}

/// A group: the common value of its documents, computed outputs, and nested groups.
#[derive(Debug, Clone)]
pub struct ResultGroup {
    /// Common value of the documents.
    pub id: GroupId,
    /// Sort value among its siblings.
    pub relevance: f64,
    /// Outputs in the requested order: label and value.
    pub outputs: Vec<(String, GroupValue)>,
    /// Nested groups, or hits (`each(output(summary()))`).
    pub lists: Vec<GroupList>,
}

/// A list inside a group.
#[derive(Debug, Clone)]
pub enum GroupList {
    /// Groups by an expression.
    Groups {
        /// Label: `as(…)`, or the text of the expression.
        label: String,
        /// Groups in order.
        groups: Vec<ResultGroup>,
        /// Continuations of the next and of the previous page.
        continuation: (Option<String>, Option<String>),
    },
    /// Hits.
    Hits {
        /// Label of the list.
        label: String,
        /// Hits, best first.
        hits: Vec<ResultHit>,
        /// Continuations of the next and of the previous page.
        continuation: (Option<String>, Option<String>),
    },
}

/// Common value of a group's documents.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupId {
    /// The root.
    Root,
    /// No value.
    Null,
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// Bytes.
    Raw(Vec<u8>),
    /// A bucket of whole numbers, from (inclusive) to (exclusive).
    LongBucket(i64, i64),
    /// A bucket of numbers.
    DoubleBucket(f64, f64),
    /// A bucket of texts.
    StringBucket(String, String),
    /// A bucket of bytes.
    RawBucket(Vec<u8>, Vec<u8>),
}

/// An output of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupValue {
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// Text.
    String(String),
    /// A truth value.
    Bool(bool),
    /// Bytes.
    Raw(Vec<u8>),
    /// Quantiles: the share, from 0 to 1, and its value.
    Quantiles(Vec<(f64, f64)>),
}
