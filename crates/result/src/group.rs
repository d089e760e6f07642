use crate::Hit;

/// What one grouping request gave: its root group.
#[derive(Debug, Clone)]
pub struct GroupingResult {
    /// The root.
    pub root: Group,
    /// The continuation that gives this very page again; empty where every list is at its first page.
    pub continuation: String,
}

/// A group: what its documents have in common, what was computed over them, and the groups inside.
#[derive(Debug, Clone)]
pub struct Group {
    /// The value that its documents share.
    pub id: GroupId,
    /// What it is sorted by among its siblings.
    pub relevance: f64,
    /// Outputs in the order asked for: label and value.
    pub outputs: Vec<(String, GroupValue)>,
    /// The groups inside, or the hits (`each(output(summary()))`).
    pub lists: Vec<GroupList>,
}

/// What is inside a group.
#[derive(Debug, Clone)]
pub enum GroupList {
    /// Groups by an expression.
    Groups {
        /// The label: `as(…)`, or the expression's text.
        label: String,
        /// In their order.
        groups: Vec<Group>,
        /// The continuation of the next page and of the previous one.
        continuation: (Option<String>, Option<String>),
    },
    /// Hits.
    Hits {
        /// The label.
        label: String,
        /// Best first.
        hits: Vec<Hit>,
        /// The continuation of the next page and of the previous one.
        continuation: (Option<String>, Option<String>),
    },
}

/// What the documents of a group share.
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
    /// Quantiles: which, from 0 to 1, and the value there.
    Quantiles(Vec<(f64, f64)>),
}
