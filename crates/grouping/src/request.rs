//! Syntax tree of the grouping language, and its canonical text, which provides labels.

use std::fmt;

use crate::functions::GroupingFunction;

/// One parsed grouping request. Names are not yet resolved against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingRequest {
    /// The outermost operation.
    pub root: GroupingOperation,
    /// Opaque continuations in the order given; later ones override earlier ones.
    pub continuations: Vec<String>,
}

/// Scope of an operation: a list as a whole, or each of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationTarget {
    /// `all(…)`.
    All,
    /// `each(…)`.
    Each,
}

/// `all(…)` or `each(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupingOperation {
    /// `all` or `each`.
    pub each: OperationTarget,
    /// `group(…)`.
    pub group_by: Option<GroupingExpression>,
    /// `filter(…)`.
    pub filter: Option<ValueFilter>,
    /// `where(true)`: all documents in scope, including those that do not match.
    pub all_documents: bool,
    /// `order(…)`.
    pub order: Vec<OrderKey>,
    /// `max(…)`.
    pub max: Option<GroupLimit>,
    /// `output(…)`.
    pub outputs: Vec<OutputEntry>,
    /// The operations inside, in order.
    pub children: Vec<GroupingOperation>,
    /// `as(…)`.
    pub label: Option<String>,
}

impl GroupingOperation {
    pub(crate) fn new(each: OperationTarget) -> Self {
        GroupingOperation {
            each,
            group_by: None,
            filter: None,
            all_documents: false,
            order: Vec::new(),
            max: None,
            outputs: Vec::new(),
            children: Vec::new(),
            label: None,
        }
    }
}

/// `max(…)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupLimit {
    /// A maximum number.
    Count(usize),
    /// `inf`.
    Unlimited,
}

/// One key of `order(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderKey {
    /// Prefixed by `-`.
    pub descending: bool,
    /// Over aggregates of the group.
    pub by: GroupingExpression,
}

/// One entry of `output(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputEntry {
    /// Value to output.
    pub expression: GroupingExpression,
    /// `as(…)`; by default the text of the expression.
    pub label: Option<String>,
}

impl OutputEntry {
    /// Name in the result.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.expression.to_string())
    }
}

/// A filter over values.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueFilter {
    /// `regex("…", exp)`: the pattern must match the whole text of the value.
    Regex(String, GroupingExpression),
    /// `range(from, to, exp)`.
    Range {
        /// The lower bound.
        from: f64,
        /// The upper bound.
        to: f64,
        /// True for each bound that is itself in the range.
        inclusive: (bool, bool),
        /// Value to compare.
        input: GroupingExpression,
    },
    /// `istrue(exp)`.
    IsTrue(GroupingExpression),
    /// `not`.
    Not(Box<ValueFilter>),
    /// `and`.
    And(Box<ValueFilter>, Box<ValueFilter>),
    /// `or`.
    Or(Box<ValueFilter>, Box<ValueFilter>),
}

/// A field, with a path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupingPath {
    /// Name of the field.
    pub field: String,
    /// Steps of the path.
    pub steps: Vec<GroupingPathStep>,
}

/// A step inside a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupingPathStep {
    /// `.name`: a struct's field, or a map's `key` or `value`.
    Name(String),
    /// `{"key"}`: the map's value for a key.
    Key(String),
    /// `{attribute(field)}`: the map's value for the key in another field of the document.
    KeyOf(GroupingPath),
}

/// Aggregate over the documents of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupAggregator {
    /// Number of values.
    Count,
    /// The sum.
    Sum,
    /// The mean.
    Avg,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Exclusive or of the least significant 64 bits.
    Xor,
    /// The population standard deviation.
    Stddev,
    /// Exact quantiles.
    Quantiles,
}

impl GroupAggregator {
    /// Name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            GroupAggregator::Count => "count",
            GroupAggregator::Sum => "sum",
            GroupAggregator::Avg => "avg",
            GroupAggregator::Min => "min",
            GroupAggregator::Max => "max",
            GroupAggregator::Xor => "xor",
            GroupAggregator::Stddev => "stddev",
            GroupAggregator::Quantiles => "quantiles",
        }
    }
}

/// Unit of a `geo_distance`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistanceUnit {
    /// `.km`
    Kilometre,
    /// `.miles`
    Mile,
}

impl DistanceUnit {
    /// Length of the unit in kilometres.
    pub(crate) fn kilometres(self) -> f64 {
        match self {
            DistanceUnit::Kilometre => 1.0,
            DistanceUnit::Mile => 1.609_344,
        }
    }
}

impl fmt::Display for DistanceUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DistanceUnit::Kilometre => "km",
            DistanceUnit::Mile => "miles",
        })
    }
}

/// An expression over a document or, with aggregates, over a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupingExpression {
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// Text.
    Text(String),
    /// A field's value.
    Field {
        /// Path of the field.
        path: GroupingPath,
        /// True if written as `attribute(name)`.
        wrapped: bool,
    },
    /// A function of the table. `min`, `max` and `xor` of one argument are aggregates in the context of a
    /// group.
    Call {
        /// The function.
        function: &'static GroupingFunction,
        /// Arguments.
        arguments: Vec<GroupingExpression>,
    },
    /// `relevance()`.
    Relevance,
    /// `now()`: seconds since 1970.
    Now,
    /// `docidnsspecific()`: the part of the document id after the second colon of the location.
    DocumentName,
    /// `predefined(exp, bucket…)`.
    Predefined {
        /// Value to put into buckets.
        input: Box<GroupingExpression>,
        /// Buckets, ascending and disjoint.
        buckets: Vec<LiteralBucket>,
    },
    /// `fixedwidth(exp, width)`.
    FixedWidth {
        /// Value to put into buckets.
        input: Box<GroupingExpression>,
        /// The width as written.
        width: GroupingNumber,
    },
    /// `uca(exp, "locale", "strength")`.
    Collate {
        /// Text to collate.
        input: Box<GroupingExpression>,
        /// The locale.
        locale: String,
        /// `PRIMARY` to `IDENTICAL`.
        strength: Option<String>,
    },
    /// `geo_distance(attribute(field), latitude, longitude).km`.
    GeoDistance {
        /// The position field.
        field: String,
        /// Degrees, north positive.
        latitude: f64,
        /// Degrees, east positive.
        longitude: f64,
        /// Unit of the distance.
        unit: DistanceUnit,
    },
    /// An aggregate over the documents of a group.
    Aggregate {
        /// The aggregate function.
        aggregator: GroupAggregator,
        /// Its input; `None` for `count()`.
        input: Option<Box<GroupingExpression>>,
        /// The shares for `quantiles`.
        quantiles: Vec<f64>,
    },
    /// `summary(class)`.
    Summary(Option<String>),
}

/// A number as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GroupingNumber {
    /// A whole number.
    Long(i64),
    /// Any other.
    Double(f64),
}

/// A bucket as written.
#[derive(Debug, Clone, PartialEq)]
pub struct LiteralBucket {
    /// Lower end.
    pub from: BucketBound,
    /// True if the lower end is in the bucket.
    pub from_inclusive: bool,
    /// Upper end; `None` if only one value was given.
    pub to: Option<BucketBound>,
    /// True if the upper end is in the bucket.
    pub to_inclusive: bool,
}

/// An end of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum BucketBound {
    /// `-inf` as the lower end, `inf` as the upper end.
    Infinite,
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Raw(Vec<u8>),
}

impl fmt::Display for GroupingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        for step in &self.steps {
            match step {
                GroupingPathStep::Name(name) => write!(f, ".{name}")?,
                GroupingPathStep::Key(key) => write!(f, "{{{}}}", QuotedText(key))?,
                GroupingPathStep::KeyOf(field) => write!(f, "{{attribute({field})}}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for GroupingExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupingExpression::Long(value) => write!(f, "{value}"),
            GroupingExpression::Double(value) => write!(f, "{}", DisplayDouble(*value)),
            GroupingExpression::Text(text) => write!(f, "{}", QuotedText(text)),
            GroupingExpression::Field { path, wrapped: false } => write!(f, "{path}"),
            GroupingExpression::Field { path, wrapped: true } => write!(f, "attribute({path})"),
            GroupingExpression::Call { function, arguments } => {
                write!(f, "{}(", function.name)?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            GroupingExpression::Relevance => f.write_str("relevance()"),
            GroupingExpression::Now => f.write_str("now()"),
            GroupingExpression::DocumentName => f.write_str("docidnsspecific()"),
            GroupingExpression::Predefined { input, buckets } => {
                write!(f, "predefined({input}")?;
                buckets.iter().try_for_each(|bucket| write!(f, ", {bucket}"))?;
                f.write_str(")")
            }
            GroupingExpression::FixedWidth { input, width: GroupingNumber::Long(width) } => {
                write!(f, "fixedwidth({input}, {width})")
            }
            GroupingExpression::FixedWidth { input, width: GroupingNumber::Double(width) } => {
                write!(f, "fixedwidth({input}, {})", DisplayDouble(*width))
            }
            GroupingExpression::Collate { input, locale, strength } => {
                write!(f, "uca({input}, {}", QuotedText(locale))?;
                if let Some(strength) = strength {
                    write!(f, ", {}", QuotedText(strength))?;
                }
                f.write_str(")")
            }
            GroupingExpression::GeoDistance { field, latitude, longitude, unit } => write!(
                f,
                "geo_distance(attribute({field}), {}, {}).{unit}",
                DisplayDouble(*latitude),
                DisplayDouble(*longitude)
            ),
            GroupingExpression::Aggregate { aggregator, input, quantiles } => {
                write!(f, "{}(", aggregator.name())?;
                if *aggregator == GroupAggregator::Quantiles {
                    let list: Vec<String> = quantiles.iter().map(|q| DisplayDouble(*q).to_string()).collect();
                    write!(f, "[{}],", list.join(","))?;
                }
                if let Some(input) = input {
                    write!(f, "{input}")?;
                }
                f.write_str(")")
            }
            GroupingExpression::Summary(class) => {
                write!(f, "summary({})", class.as_deref().unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for LiteralBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.from_inclusive { '[' } else { '<' };
        write!(f, "bucket{open}")?;
        match &self.from {
            BucketBound::Infinite => f.write_str("-inf")?,
            from => write!(f, "{from}")?,
        }
        if let Some(to) = &self.to {
            write!(f, ", {to}")?;
        }
        f.write_str(if self.to_inclusive { "]" } else { ">" })
    }
}

impl fmt::Display for BucketBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BucketBound::Infinite => f.write_str("inf"),
            BucketBound::Long(value) => write!(f, "{value}"),
            BucketBound::Double(value) => write!(f, "{}", DisplayDouble(*value)),
            BucketBound::Text(text) => write!(f, "{}", QuotedText(text)),
            BucketBound::Raw(bytes) => {
                let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
                write!(f, "{{{}}}", list.join(", "))
            }
        }
    }
}

/// A float with a decimal point in its text, so that it is parsed as a float again.
pub(crate) struct DisplayDouble(pub(crate) f64);

impl fmt::Display for DisplayDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Text in double quotes, as accepted by the parser.
struct QuotedText<'a>(&'a str);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
