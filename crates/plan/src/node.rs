use std::sync::Arc;

use millrace_query::Annotations;
use millrace_schema::DistanceMetric;
use millrace_tensor::Tensor;

/// The place of a [`Leaf`] in [`crate::Plan::leaves`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafId(pub usize);

/// The place of a [`Term`] in [`crate::Plan::terms`]: what rank features call term number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TermId(pub usize);

/// A term of the query as ranking and highlighting see it: one item, in one or (a fieldset) several fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The text as asked, for bolding and the statistics' trace.
    pub text: String,
    /// Annotations.
    pub annotations: Annotations,
    /// Its leaves: one a field, or several where its words are equivalents.
    pub leaves: Vec<LeafId>,
}

/// A node of the typed tree. Leaves are referred to by number, so that what was found for each can stand in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Every document.
    True,
    /// No document.
    False,
    /// All children.
    And(Vec<Node>),
    /// Any child.
    Or(Vec<Node>),
    /// The first and none of the others.
    AndNot(Box<Node>, Vec<Node>),
    /// The first; the others are evaluated for ranking where the first matches.
    Rank(Box<Node>, Vec<Node>),
    /// One leaf.
    Leaf(LeafId),
    /// The leaves' positions are near each other in one field.
    Near {
        /// The leaves, all of one field.
        leaves: Vec<LeafId>,
        /// Leaves of the same field that must not stand near them.
        excluded: Vec<LeafId>,
        /// All leaves have an occurrence in `P..=P + distance`, where P is the position of the first of them.
        distance: u32,
        /// Those of `excluded` have none nearer than this to the occurrences that match.
        exclusion_distance: u32,
        /// In the order given.
        ordered: bool,
    },
    /// All children match in one element of a field, or of a collection inside of one.
    SameElement {
        /// The path of the collection: a field, or a part of one (`person.phones`, `map.value`).
        field: Arc<str>,
        /// The tree of what must match; its leaves' paths are those of the whole document (`field.member`), and the field itself
        /// for the element as a whole.
        child: Box<Node>,
        /// Only elements of these indices, ascending; all of them where it is empty.
        elements: Vec<u32>,
    },
}

/// One predicate over one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// The field, or the path inside one (`person.name`, `map.key`).
    pub field: Arc<str>,
    /// What must hold.
    pub predicate: Predicate,
    /// The term it belongs to; none where ranking is not to see it.
    pub term: Option<TermId>,
    /// For predicates with weights: the sum of products of the query's weights and the document's is the leaf's raw score, and
    /// it matches only where that is greater than this. None where weights are not multiplied.
    pub dot_product_above: Option<f64>,
}

/// What must hold of a field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// These words stand one after another among the field's tokens. One word is a plain term.
    Words(Vec<WordPattern>),
    /// A string value (or an element or key of a collection) as a whole; folded unless `cased`.
    Value {
        /// The pattern for the whole value.
        pattern: WordPattern,
        /// Upper and lower case differ.
        cased: bool,
    },
    /// A string value is one of these, sorted; folded unless `cased`.
    ValueIn {
        /// Values with weights (1 where none was given).
        values: Vec<(String, i32)>,
        /// Upper and lower case differ.
        cased: bool,
    },
    /// Any word of the text is one of these, each with a weight.
    WordIn(Vec<(String, i32)>),
    /// A number within bounds.
    Number(NumberRange),
    /// A number is one of these, sorted, each with a weight.
    NumberIn(Vec<(i64, i32)>),
    /// A truth value.
    Bool(bool),
    /// Among the nearest to a tensor.
    Nearest {
        /// The query tensor, of the field's indexed dimensions.
        target: Arc<Tensor>,
        /// The measure.
        metric: DistanceMetric,
        /// How many of those that match everything else are kept; ties with the last are kept too.
        target_hits: u32,
        /// Documents farther away do not match.
        threshold: Option<f64>,
    },
    /// A position within a distance in kilometres (no limit if none) of a place in degrees.
    GeoCircle {
        /// Degrees, north positive.
        latitude: f64,
        /// Degrees, east positive.
        longitude: f64,
        /// Kilometres.
        radius_km: Option<f64>,
    },
    /// A position within south, west, north, east in degrees.
    GeoBox([f64; 4]),
    /// There is a value.
    Present,
}

/// A pattern for one word (or whole value), already folded as its field's words are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPattern {
    /// Exactly this: a stem, where the field's words have stems.
    Exact(String),
    /// Any of these (stems, equivalents).
    Any(Vec<String>),
    /// Exactly this as it was written, whether the field's words have stems or not.
    Written(String),
    /// This as it was written, or any word with one of these stems: where the languages of query and documents may differ.
    Word {
        /// The word.
        written: String,
        /// Its stems in the languages that it may be of.
        stems: Vec<String>,
    },
    /// Begins with this.
    Prefix(String),
    /// Ends with this.
    Suffix(String),
    /// Has this inside.
    Substring(String),
    /// A regular expression, checked.
    Regex(String),
    /// Within some edits.
    Fuzzy {
        /// The word.
        word: String,
        /// The most edits.
        max_edits: u32,
        /// How many first characters must be the same.
        prefix_length: u32,
        /// The rest of the word does not count.
        prefix: bool,
    },
}

/// Bounds of a number in the field's own type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberRange {
    /// For whole-number fields: both bounds inclusive.
    Integer {
        /// The smallest that matches.
        low: i64,
        /// The largest that matches.
        high: i64,
    },
    /// For other numbers.
    Float {
        /// The lower bound.
        low: f64,
        /// Whether the lower bound itself matches.
        low_inclusive: bool,
        /// The upper bound.
        high: f64,
        /// Whether the upper bound itself matches.
        high_inclusive: bool,
    },
}
