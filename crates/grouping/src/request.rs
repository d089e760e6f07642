//! Syntax tree of the grouping language, and its canonical text, which provides labels.

use std::fmt;

use crate::functions::Function;

/// One parsed grouping request. Names are not yet resolved against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The outermost operation.
    pub root: Operation,
    /// Opaque continuations in the order given; later ones override earlier ones.
    pub continuations: Vec<String>,
}

/// Scope of an operation: a list as a whole, or each of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// `all(…)`.
    All,
    /// `each(…)`.
    Each,
}

/// `all(…)` or `each(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// `all` or `each`.
    pub each: Each,
    /// `group(…)`.
    pub group_by: Option<Expression>,
    /// `filter(…)`.
    pub filter: Option<Filter>,
    /// `where(true)`: all documents in scope, including those that do not match.
    pub all_documents: bool,
    /// `order(…)`.
    pub order: Vec<Order>,
    /// `max(…)`.
    pub max: Option<Limit>,
    /// `output(…)`.
    pub outputs: Vec<Output>,
    /// The operations inside, in order.
    pub children: Vec<Operation>,
    /// `as(…)`.
    pub label: Option<String>,
}

impl Operation {
    pub(crate) fn new(each: Each) -> Self {
        Operation {
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
pub enum Limit {
    /// A maximum number.
    Count(usize),
    /// `inf`.
    Unlimited,
}

/// One key of `order(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Prefixed by `-`.
    pub descending: bool,
    /// Over aggregates of the group.
    pub by: Expression,
}

/// One entry of `output(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Value to output.
    pub expression: Expression,
    /// `as(…)`; by default the text of the expression.
    pub label: Option<String>,
}

impl Output {
    /// Name in the result.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.expression.to_string())
    }
}

/// A filter over values.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `regex("…", exp)`: the pattern must match the whole text of the value.
    Regex(String, Expression),
    /// `range(from, to, exp)`.
    Range {
        /// The lower bound.
        from: f64,
        /// The upper bound.
        to: f64,
        /// True for each bound that is itself in the range.
        inclusive: (bool, bool),
        /// Value to compare.
        input: Expression,
    },
    /// `istrue(exp)`.
    IsTrue(Expression),
    /// `not`.
    Not(Box<Filter>),
    /// `and`.
    And(Box<Filter>, Box<Filter>),
    /// `or`.
    Or(Box<Filter>, Box<Filter>),
}

/// A field, with a path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// Name of the field.
    pub field: String,
    /// Steps of the path.
    pub steps: Vec<Step>,
}

/// A step inside a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `.name`: a struct's field, or a map's `key` or `value`.
    Name(String),
    /// `{"key"}`: the map's value for a key.
    Key(String),
    /// `{attribute(field)}`: the map's value for the key in another field of the document.
    KeyOf(String),
}

/// Aggregate over the documents of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregator {
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

impl Aggregator {
    /// Name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Aggregator::Count => "count",
            Aggregator::Sum => "sum",
            Aggregator::Avg => "avg",
            Aggregator::Min => "min",
            Aggregator::Max => "max",
            Aggregator::Xor => "xor",
            Aggregator::Stddev => "stddev",
            Aggregator::Quantiles => "quantiles",
        }
    }
}

/// An expression over a document or, with aggregates, over a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A whole number.
    Long(i64),
    /// Any other number.
    Double(f64),
    /// Text.
    Text(String),
    /// A field's value.
    Field {
        /// Path of the field.
        path: FieldPath,
        /// True if written as `attribute(name)`.
        wrapped: bool,
    },
    /// A function of the table. `min`, `max` and `xor` of one argument are aggregates in the context of a
    /// group.
    Call {
        /// The function.
        function: &'static Function,
        /// Arguments.
        arguments: Vec<Expression>,
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
        input: Box<Expression>,
        /// Buckets, ascending and disjoint.
        buckets: Vec<Bucket>,
    },
    /// `fixedwidth(exp, width)`.
    FixedWidth {
        /// Value to put into buckets.
        input: Box<Expression>,
        /// The width as written.
        width: Number,
    },
    /// `uca(exp, "locale", "strength")`.
    Collate {
        /// Text to collate.
        input: Box<Expression>,
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
        /// True for `.miles`, false for `.km`.
        miles: bool,
    },
    /// An aggregate over the documents of a group.
    Aggregate {
        /// The aggregate function.
        aggregator: Aggregator,
        /// Its input; `None` for `count()`.
        input: Option<Box<Expression>>,
        /// The shares for `quantiles`.
        quantiles: Vec<f64>,
    },
    /// `summary(class)`.
    Summary(Option<String>),
}

/// A number as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number.
    Long(i64),
    /// Any other.
    Double(f64),
}

/// A bucket as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Lower end.
    pub from: Bound,
    /// True if the lower end is in the bucket.
    pub from_inclusive: bool,
    /// Upper end; `None` if only one value was given.
    pub to: Option<Bound>,
    /// True if the upper end is in the bucket.
    pub to_inclusive: bool,
}

/// An end of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
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

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        for step in &self.steps {
            match step {
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "{{{}}}", Quoted(key))?,
                Step::KeyOf(field) => write!(f, "{{attribute({field})}}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Long(value) => write!(f, "{value}"),
            Expression::Double(value) => write!(f, "{}", DisplayDouble(*value)),
            Expression::Text(text) => write!(f, "{}", Quoted(text)),
            Expression::Field { path, wrapped: false } => write!(f, "{path}"),
            Expression::Field { path, wrapped: true } => write!(f, "attribute({path})"),
            Expression::Call { function, arguments } => {
                write!(f, "{}(", function.name)?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Expression::Relevance => f.write_str("relevance()"),
            Expression::Now => f.write_str("now()"),
            Expression::DocumentName => f.write_str("docidnsspecific()"),
            Expression::Predefined { input, buckets } => {
                write!(f, "predefined({input}")?;
                buckets.iter().try_for_each(|bucket| write!(f, ", {bucket}"))?;
                f.write_str(")")
            }
            Expression::FixedWidth { input, width: Number::Long(width) } => {
                write!(f, "fixedwidth({input}, {width})")
            }
            Expression::FixedWidth { input, width: Number::Double(width) } => {
                write!(f, "fixedwidth({input}, {})", DisplayDouble(*width))
            }
            Expression::Collate { input, locale, strength } => {
                write!(f, "uca({input}, {}", Quoted(locale))?;
                if let Some(strength) = strength {
                    write!(f, ", {}", Quoted(strength))?;
                }
                f.write_str(")")
            }
            Expression::GeoDistance { field, latitude, longitude, miles } => write!(
                f,
                "geo_distance(attribute({field}), {}, {}).{}",
                DisplayDouble(*latitude),
                DisplayDouble(*longitude),
                if *miles { "miles" } else { "km" }
            ),
            Expression::Aggregate { aggregator, input, quantiles } => {
                write!(f, "{}(", aggregator.name())?;
                if *aggregator == Aggregator::Quantiles {
                    let list: Vec<String> = quantiles.iter().map(|q| DisplayDouble(*q).to_string()).collect();
                    write!(f, "[{}],", list.join(","))?;
                }
                if let Some(input) = input {
                    write!(f, "{input}")?;
                }
                f.write_str(")")
            }
            Expression::Summary(class) => write!(f, "summary({})", class.as_deref().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.from_inclusive { '[' } else { '<' };
        write!(f, "bucket{open}")?;
        match &self.from {
            Bound::Infinite => f.write_str("-inf")?,
            from => write!(f, "{from}")?,
        }
        if let Some(to) = &self.to {
            write!(f, ", {to}")?;
        }
        f.write_str(if self.to_inclusive { "]" } else { ">" })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Infinite => f.write_str("inf"),
            Bound::Long(value) => write!(f, "{value}"),
            Bound::Double(value) => write!(f, "{}", DisplayDouble(*value)),
            Bound::Text(text) => write!(f, "{}", Quoted(text)),
            Bound::Raw(bytes) => {
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
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
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
