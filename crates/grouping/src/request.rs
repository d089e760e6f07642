//! The grouping language as values, and back as its canonical text: what labels are made of.

use std::fmt;

use crate::functions::Function;

/// One grouping request, parsed. Names are still to be checked against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The outermost operation.
    pub root: Operation,
    /// Opaque continuations in the order given; later ones override earlier ones.
    pub continuations: Vec<String>,
}

/// Whether an operation works on a list as a whole or on each of its members.
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
    /// Which of the two.
    pub each: Each,
    /// `group(…)`.
    pub group_by: Option<Expression>,
    /// `filter(…)`.
    pub filter: Option<Filter>,
    /// `where(true)`: all documents in scope, not only those that match.
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
    /// At most as many.
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
    /// What is put out.
    pub expression: Expression,
    /// `as(…)`; the expression's own text where it is not given.
    pub label: Option<String>,
}

impl Output {
    /// The name in the result.
    pub fn name(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.expression.to_string())
    }
}

/// A filter over values.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `regex("…", exp)`: the pattern matches the whole of the value's text.
    Regex(String, Expression),
    /// `range(from, to, exp)`.
    Range {
        /// The lower bound.
        from: f64,
        /// The upper bound.
        to: f64,
        /// Whether each bound itself is inside.
        inclusive: (bool, bool),
        /// What is compared.
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

/// A field, and the path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// The field.
    pub field: String,
    /// Steps inside.
    pub steps: Vec<Step>,
}

/// A step inside a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `.name`: a struct's field, or a map's `key` or `value`.
    Name(String),
    /// `{"key"}`: the map's value for a key.
    Key(String),
    /// `{attribute(field)}`: the map's value for the key that another field of the document names.
    KeyOf(String),
}

/// What computes over the documents of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregator {
    /// How many.
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
    /// Quantiles, exactly.
    Quantiles,
}

impl Aggregator {
    /// The name in the language.
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

/// An expression over a document, or, with aggregates in it, over a group.
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
        /// Which.
        path: FieldPath,
        /// Written as `attribute(name)`.
        wrapped: bool,
    },
    /// A function of the table. `min`, `max` and `xor` of one argument are aggregates where a group is asked for.
    Call {
        /// Which.
        function: &'static Function,
        /// Its arguments.
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
        /// What is put into buckets.
        input: Box<Expression>,
        /// Ascending, without overlap.
        buckets: Vec<Bucket>,
    },
    /// `fixedwidth(exp, width)`.
    FixedWidth {
        /// What is put into buckets.
        input: Box<Expression>,
        /// The width as written.
        width: Number,
    },
    /// `uca(exp, "locale", "strength")`.
    Collate {
        /// Text.
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
        /// `.miles` and not `.km`.
        miles: bool,
    },
    /// An aggregate over the documents of a group.
    Aggregate {
        /// Which.
        aggregator: Aggregator,
        /// Of what; none for `count()`.
        input: Option<Box<Expression>>,
        /// For `quantiles`: which.
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
    /// Where it begins.
    pub from: Bound,
    /// Whether that value itself is inside.
    pub from_inclusive: bool,
    /// Where it ends; none where only one value was given.
    pub to: Option<Bound>,
    /// Whether that value itself is inside.
    pub to_inclusive: bool,
}

/// An end of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// `-inf` as the beginning, `inf` as the end.
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

/// A float that keeps a decimal point, so that its text is a float's again.
pub(crate) struct DisplayDouble(pub(crate) f64);

impl fmt::Display for DisplayDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Text in double quotes, as the parser reads it.
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
