use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use millrace_document::PredicateExpression;
use millrace_query::{ItemAnnotations, PredicateAttribute};
use millrace_schema::DistanceMetric;
use millrace_tensor::Tensor;

/// Index of a [`PlanLeaf`] in [`crate::Plan::leaves`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeafId(pub usize);

/// Index of a [`PlanTerm`] in [`crate::Plan::terms`]: the term number of rank features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TermId(pub usize);

/// A term of the query for ranking and highlighting: one item, in one field or (for a fieldset) several.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTerm {
    /// Original text, for bolding and for the statistics trace.
    pub text: String,
    /// Annotations.
    pub annotations: ItemAnnotations,
    /// The words of a `wordAlternatives`, any of which is meant; empty for other terms.
    pub alternatives: Vec<String>,
    /// Leaves of the term: one per field, or several if its words are equivalents. Those of a `sameElement`
    /// are the leaves of its conditions, each of which is a term itself.
    pub leaves: Vec<LeafId>,
    /// The field of a `sameElement`; `None` for other terms.
    pub elements_of: Option<Arc<str>>,
}

/// A node of the typed tree. Leaves are referenced by number, so that the matches of each can be stored in a
/// table.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanNode {
    /// Every document.
    True,
    /// No document.
    False,
    /// All children.
    And(Vec<PlanNode>),
    /// Any child.
    Or(Vec<PlanNode>),
    /// The first and none of the others.
    AndNot(Box<PlanNode>, Vec<PlanNode>),
    /// The first child; the others are evaluated only for ranking, if the first one matches.
    Rank(Box<PlanNode>, Vec<PlanNode>),
    /// One leaf.
    Leaf(LeafId),
    /// Proximity of the leaves' positions in one field.
    Near {
        /// Leaves, all of one field.
        leaves: Vec<LeafId>,
        /// Leaves of the same field that must not be near.
        excluded: Vec<LeafId>,
        /// Maximum distance: all leaves have an occurrence in `P..=P + distance`, where P is the position of
        /// the first of them.
        distance: u32,
        /// Minimum distance of `excluded` leaves from the matching occurrences.
        exclusion_distance: u32,
        /// True if the leaves must occur in the given order.
        ordered: bool,
    },
    /// All children match in one element of a field, or of a nested collection.
    SameElement {
        /// Path of the collection: a field, or a part of one (`person.phones`, `map.value`).
        field: Arc<str>,
        /// Condition on the element. The paths of its leaves start at the document (`field.member`); the
        /// field itself denotes the whole element.
        child: Box<PlanNode>,
        /// Element indices to consider, ascending; empty for all.
        elements: Vec<u32>,
    },
}

/// A predicate over one field.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanLeaf {
    /// The field, or the path inside one (`person.name`, `map.key`).
    pub field: Arc<str>,
    /// The predicate.
    pub predicate: Predicate,
    /// The term it belongs to; `None` if it is hidden from ranking.
    pub term: Option<TermId>,
    /// Threshold of the dot product of the query's and the document's weights, for predicates with weights.
    /// The dot product is the leaf's raw score, and the leaf matches only if it exceeds the threshold. `None`
    /// if weights are not multiplied.
    pub dot_product_above: Option<f64>,
}

/// Predicate over a field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// These words in sequence among the field's tokens. A single word is a plain term.
    Words(Vec<WordPattern>),
    /// A whole string value (or an element or key of a collection); folded unless `cased`.
    Value {
        /// Pattern for the whole value.
        pattern: WordPattern,
        /// True if case matters.
        cased: bool,
    },
    /// A string value is one of these, sorted; folded unless `cased`.
    ValueIn {
        /// Values with weights (1 by default).
        values: Vec<(String, i32)>,
        /// True if case matters.
        cased: bool,
    },
    /// At least one word of the text is one of these, each with a weight.
    WordIn(Vec<(String, i32)>),
    /// A number within bounds.
    Number(NumberRange),
    /// A number is one of these, sorted, each with a weight.
    NumberIn(Vec<(i64, i32)>),
    /// A truth value.
    Bool(bool),
    /// One of the nearest neighbours of a tensor.
    Nearest {
        /// Query tensor, with the field's indexed dimensions.
        target: Arc<Tensor>,
        /// Distance metric.
        metric: DistanceMetric,
        /// Number of neighbours kept among the documents that match everything else; ties with the last one
        /// are kept, too.
        target_hits: u32,
        /// Maximum distance of a match.
        threshold: Option<f64>,
    },
    /// A position within a distance of a centre.
    GeoCircle {
        /// Degrees, north positive.
        latitude: f64,
        /// Degrees, east positive.
        longitude: f64,
        /// Maximum distance in kilometres; `None` for no limit.
        radius_km: Option<f64>,
    },
    /// A position within south, west, north and east, in degrees.
    GeoBox([f64; 4]),
    /// A predicate holds for the attributes of the query.
    Conditions(QueryAttributes),
    /// The field has a value.
    Present,
    /// Every document, without a field: a mark that the condition beside it holds.
    Labeled {
        /// Name for rank features.
        label: String,
        /// Raw score.
        score: f64,
    },
}

/// Attributes that a query sends to predicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryAttributes {
    values: Vec<PredicateAttribute<String>>,
    /// Attributes with numbers, which ranges are asked for.
    numbers: Vec<PredicateAttribute<i64>>,
    /// Subqueries by the name and the value of attributes: documents may ask for as many as queries have.
    by_value: HashMap<String, HashMap<String, u64>>,
    /// Numbers in order, with their subqueries, by the name of attributes.
    by_number: HashMap<String, Vec<(i64, u64)>>,
    /// Disjoint sets of subqueries, all 64 together; those of a set have the same attributes.
    classes: Vec<u64>,
}

impl QueryAttributes {
    /// Attributes with values, and attributes with numbers.
    pub fn new(values: Vec<PredicateAttribute<String>>, numbers: Vec<PredicateAttribute<i64>>) -> Self {
        let sets = values.iter().map(|of| of.subqueries).chain(numbers.iter().map(|of| of.subqueries));
        let mut classes = vec![u64::MAX];
        for set in sets {
            let parts = classes.iter().flat_map(|class| [class & set, class & !set]);
            classes = parts.filter(|part| *part != 0).collect();
        }
        let mut by_value: HashMap<String, HashMap<String, u64>> = HashMap::new();
        for of in &values {
            let values = by_value.entry(of.name.clone()).or_default();
            *values.entry(of.value.clone()).or_default() |= of.subqueries;
        }
        let mut by_number: HashMap<String, Vec<(i64, u64)>> = HashMap::new();
        for of in &numbers {
            by_number.entry(of.name.clone()).or_default().push((of.value, of.subqueries));
        }
        by_number.values_mut().for_each(|numbers| numbers.sort_unstable());
        QueryAttributes { values, numbers, by_value, by_number, classes }
    }

    /// True if a predicate, given as text, holds for the attributes of a subquery; false if the text is not a
    /// predicate.
    pub fn satisfy(&self, predicate: &str) -> bool {
        self.subqueries(predicate) != 0
    }

    /// The bits of the subqueries for whose attributes a predicate, given as text, holds; none if the text is
    /// not a predicate.
    pub fn subqueries(&self, predicate: &str) -> u64 {
        let Ok(predicate) = PredicateExpression::parse(predicate) else { return 0 };
        let holds = |class: &&u64| {
            let has = |name: &str, value: &str| {
                let subqueries = self.by_value.get(name).and_then(|values| values.get(value));
                subqueries.is_some_and(|subqueries| subqueries & **class != 0)
            };
            let has_within = |name: &str, low: i64, high: i64| {
                let Some(numbers) = self.by_number.get(name) else { return false };
                let from = numbers.partition_point(|(number, _)| *number < low);
                let mut within = numbers[from..].iter().take_while(|(number, _)| *number <= high);
                within.any(|(_, subqueries)| subqueries & **class != 0)
            };
            predicate.holds(&has, &has_within)
        };
        self.classes.iter().filter(holds).fold(0, |bits, class| bits | class)
    }
}

impl Display for QueryAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter().map(ToString::to_string);
        let numbers = self.numbers.iter().map(ToString::to_string);
        f.write_str(&values.chain(numbers).collect::<Vec<_>>().join(" "))
    }
}

/// A pattern for one word (or a whole value), already folded like the field's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPattern {
    /// Exactly this word: a stem, if the field's words have stems.
    Exact(String),
    /// Any of these (stems, equivalents).
    Any(Vec<String>),
    /// Exactly this written form, even if the field's words have stems.
    Written(String),
    /// This written form, or any word with one of these stems: used if the languages of query and documents
    /// may differ.
    Word {
        /// The word.
        written: String,
        /// Stems in all languages that the word may belong to.
        stems: Vec<String>,
    },
    /// Begins with this.
    Prefix(String),
    /// Ends with this.
    Suffix(String),
    /// Contains this.
    Substring(String),
    /// A regular expression; its syntax is valid.
    Regex(String),
    /// Within a number of edits.
    Fuzzy {
        /// The word.
        word: String,
        /// Maximum number of edits.
        max_edits: u32,
        /// Number of leading characters that must be equal.
        prefix_length: u32,
        /// True to compare only the start of the word.
        prefix: bool,
    },
}

/// Bounds of a number in the field's own type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberRange {
    /// For whole-number fields; both bounds are inclusive.
    Integer {
        /// Smallest matching number.
        low: i64,
        /// Largest matching number.
        high: i64,
    },
    /// For other numbers.
    Float {
        /// Lower bound.
        low: f64,
        /// True if the lower bound itself matches.
        low_inclusive: bool,
        /// Upper bound.
        high: f64,
        /// True if the upper bound itself matches.
        high_inclusive: bool,
    },
}
