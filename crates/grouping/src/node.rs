//! Validated expressions over a document.

use std::borrow::Cow;
use std::fmt;

use icu_collator::CollatorBorrowed;
use millrace_document::{DataType, Value};
use regex::Regex;

use crate::batch::Batch;
use crate::buckets::Buckets;
use crate::datum::Datum;
use crate::field::Field;
use crate::functions::{Function, Returns};
use crate::zone::Zone;

/// Kind of an expression's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Long,
    Double,
    Text,
    Raw,
    Bucket,
}

impl Kind {
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Kind::Bool | Kind::Long | Kind::Double)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Bool => "a truth value",
            Kind::Long => "a whole number",
            Kind::Double => "a number",
            Kind::Text => "a text",
            Kind::Raw => "bytes",
            Kind::Bucket => "a bucket",
        }
    }
}

/// An expression over a document.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Datum<'static>),
    Field {
        field: Field,
        /// Index among the row's bound elements that selects the element of the list; `None` for the whole
        /// list.
        element: Option<usize>,
    },
    Score,
    DocumentName,
    Call {
        function: &'static Function,
        arguments: Vec<Node>,
    },
    /// Values of a type narrower than the computation, converted as that type displays them.
    Narrow {
        input: Box<Node>,
        to: Narrow,
    },
    LongWidth {
        input: Box<Node>,
        width: i64,
    },
    DoubleWidth {
        input: Box<Node>,
        width: f64,
    },
    Predefined {
        input: Box<Node>,
        buckets: Buckets,
    },
    Collate {
        input: Box<Node>,
        collator: Collator,
    },
    Distance {
        field: Field,
        latitude: f64,
        longitude: f64,
        miles: bool,
    },
}

/// Conversion of values of a narrow type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrow {
    /// Whole numbers as this many bytes, most significant first.
    Bytes(usize),
    /// Single-precision floats with the shortest distinguishing digits, so that 5.9 is not 5.900000095367432.
    Float,
}

impl Narrow {
    fn apply<'a>(self, value: Datum<'a>) -> Datum<'a> {
        match self {
            Narrow::Bytes(count) => {
                let bytes = value.to_long().to_be_bytes();
                Datum::Raw(Cow::Owned(bytes[bytes.len() - count..].to_vec()))
            }
            Narrow::Float => {
                let short = (value.to_double() as f32).to_string();
                Datum::Double(short.parse().unwrap_or(f64::NAN))
            }
        }
    }
}

/// A row of a batch, and the data that expressions use beside it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'b> {
    pub(crate) batch: &'b Batch<'b>,
    pub(crate) zone: &'b Zone,
    pub(crate) row: usize,
    /// Elements of structured fields by which outer groups were created.
    pub(crate) elements: &'b [u32],
}

impl Node {
    /// Converts the node to text values; relevant for single-precision fields.
    pub(crate) fn into_text(self) -> Node {
        match self.leaf_type() {
            Some(DataType::Float | DataType::Float16) => self.narrow(Narrow::Float),
            _ => self,
        }
    }

    /// Converts the node to values with as many bytes as the field's type has.
    pub(crate) fn into_bytes(self) -> Node {
        match self.leaf_type() {
            Some(DataType::Bool | DataType::Byte) => self.narrow(Narrow::Bytes(1)),
            Some(DataType::Int) => self.narrow(Narrow::Bytes(4)),
            _ => self,
        }
    }

    fn narrow(self, to: Narrow) -> Node {
        Node::Narrow { input: Box::new(self), to }
    }

    /// Type of the field, if the values are those of a field, unchanged.
    fn leaf_type(&self) -> Option<&DataType> {
        match self {
            Node::Field { field, .. } => Some(field.leaf_type()),
            Node::Call { function, arguments } if function.returns == Returns::Same => {
                arguments.first()?.leaf_type()
            }
            _ => None,
        }
    }

    pub(crate) fn eval<'b>(&'b self, context: Context<'b>) -> Datum<'b> {
        match self {
            Node::Constant(Datum::Text(text)) => Datum::Text(Cow::Borrowed(text)),
            Node::Constant(value) => value.clone(),
            Node::Field { field, element } => {
                let element = element.map(|place| context.elements[place] as usize);
                context.batch.field(field, context.row, element)
            }
            Node::Score => Datum::Double(context.batch.score(context.row)),
            Node::DocumentName => context.batch.document_name(context.row),
            Node::Call { function, arguments } => {
                function.apply(arguments.iter().map(|argument| argument.eval(context)), context.zone)
            }
            Node::Narrow { input, to } => each(input.eval(context), |value| to.apply(value)),
            Node::LongWidth { input, width } => each(input.eval(context), |value| {
                let value = value.to_long();
                let from = value.saturating_sub(value.rem_euclid(*width));
                Datum::LongBucket(from, from.saturating_add(*width))
            }),
            Node::DoubleWidth { input, width } => each(input.eval(context), |value| {
                let from = (value.to_double() / width).floor() * width;
                if from.is_finite() { Datum::DoubleBucket(from, from + width) } else { Datum::Null }
            }),
            Node::Predefined { input, buckets } => each(input.eval(context), |value| buckets.find(&value)),
            Node::Collate { input, collator } => {
                each(input.eval(context), |value| collator.key(&value.to_text()))
            }
            Node::Distance { field, latitude, longitude, miles } => {
                let km = kilometres(context.batch.value(field, context.row), *latitude, *longitude);
                Datum::Double(if *miles { km / 1.609_344 } else { km })
            }
        }
    }
}

fn each<'a>(value: Datum<'a>, code: impl Fn(Datum<'a>) -> Datum<'a>) -> Datum<'a> {
    match value {
        Datum::List(list) => Datum::List(list.into_iter().map(code).collect()),
        value => code(value),
    }
}

/// Collation of texts in a locale.
pub(crate) struct Collator(pub(crate) CollatorBorrowed<'static>);

impl Collator {
    fn key(&self, text: &str) -> Datum<'static> {
        let mut key = Vec::new();
        // Writing to a Vec cannot fail.
        let _ = self.0.write_sort_key_to(text, &mut key);
        // Keys that are stored or measured end like those of ICU.
        key.push(0);
        Datum::Raw(Cow::Owned(key))
    }
}

impl fmt::Debug for Collator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collator")
    }
}

/// Great-circle distance to the nearest position of the value, in kilometres; infinite without a position.
fn kilometres(value: Option<&Value>, latitude: f64, longitude: f64) -> f64 {
    match value {
        Some(Value::Position { latitude: lat, longitude: lng }) => {
            let (a, b) = ((f64::from(*lat) / 1e6).to_radians(), latitude.to_radians());
            let half_lat = ((b - a) / 2.0).sin();
            let half_lng = ((longitude - f64::from(*lng) / 1e6).to_radians() / 2.0).sin();
            let h = half_lat * half_lat + a.cos() * b.cos() * half_lng * half_lng;
            2.0 * 6371.0088 * h.sqrt().min(1.0).asin()
        }
        Some(Value::Array(places)) => places
            .iter()
            .map(|place| kilometres(Some(place), latitude, longitude))
            .fold(f64::INFINITY, f64::min),
        _ => f64::INFINITY,
    }
}

/// A validated filter.
#[derive(Debug)]
pub(crate) enum FilterNode {
    Regex(Regex, Node),
    Range { from: f64, to: f64, inclusive: (bool, bool), input: Node },
    IsTrue(Node),
    Not(Box<FilterNode>),
    And(Box<FilterNode>, Box<FilterNode>),
    Or(Box<FilterNode>, Box<FilterNode>),
}

impl FilterNode {
    /// True if a row passes. For a list, one passing element is enough.
    ///
    /// In ranges, text counts as the number that it spells; other text is in no range.
    pub(crate) fn passes(&self, context: Context<'_>) -> bool {
        match self {
            FilterNode::Regex(regex, input) => {
                any(&input.eval(context), |value| regex.is_match(&value.to_text()))
            }
            FilterNode::Range { from, to, inclusive, input } => any(&input.eval(context), |value| {
                let value = match value {
                    Datum::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
                    value => value.to_double(),
                };
                let above = if inclusive.0 { value >= *from } else { value > *from };
                let below = if inclusive.1 { value <= *to } else { value < *to };
                above && below
            }),
            FilterNode::IsTrue(input) => {
                any(&input.eval(context), |value| matches!(value, Datum::Bool(true)))
            }
            FilterNode::Not(inner) => !inner.passes(context),
            FilterNode::And(a, b) => a.passes(context) && b.passes(context),
            FilterNode::Or(a, b) => a.passes(context) || b.passes(context),
        }
    }
}

fn any(value: &Datum<'_>, holds: impl Fn(&Datum<'_>) -> bool) -> bool {
    match value {
        Datum::List(list) => list.iter().any(holds),
        value => holds(value),
    }
}
