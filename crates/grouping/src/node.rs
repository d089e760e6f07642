//! Validated expressions over a document.

use std::borrow::Cow;
use std::fmt;

use icu_collator::CollatorBorrowed;
use millrace_document::DataType;
use regex::Regex;

use crate::batch::GroupingBatch;
use crate::buckets::BucketRanges;
use crate::datum::ExpressionDatum;
use crate::field::CheckedField;
use crate::functions::{GroupingFunction, ReturnKind};
use crate::request::DistanceUnit;
use crate::zone::GroupingZone;

/// Kind of an expression's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Bool,
    Long,
    Double,
    Text,
    Raw,
    Bucket,
}

impl ValueKind {
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, ValueKind::Bool | ValueKind::Long | ValueKind::Double)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            ValueKind::Bool => "a truth value",
            ValueKind::Long => "a whole number",
            ValueKind::Double => "a number",
            ValueKind::Text => "a text",
            ValueKind::Raw => "bytes",
            ValueKind::Bucket => "a bucket",
        }
    }
}

/// An expression over a document.
#[derive(Debug)]
pub(crate) enum GroupingNode {
    Constant(ExpressionDatum<'static>),
    Field {
        field: CheckedField,
        /// Index among the row's bound elements that selects the element of the list; `None` for the whole
        /// list.
        element: Option<usize>,
    },
    Score,
    DocumentName,
    Call {
        function: &'static GroupingFunction,
        arguments: Vec<GroupingNode>,
    },
    /// Values of a type narrower than the computation, converted as that type displays them.
    Narrow {
        input: Box<GroupingNode>,
        to: NarrowType,
    },
    LongWidth {
        input: Box<GroupingNode>,
        width: i64,
    },
    DoubleWidth {
        input: Box<GroupingNode>,
        width: f64,
    },
    Predefined {
        input: Box<GroupingNode>,
        buckets: BucketRanges,
    },
    Collate {
        input: Box<GroupingNode>,
        collator: TextCollator,
    },
    Distance {
        field: CheckedField,
        latitude: f64,
        longitude: f64,
        unit: DistanceUnit,
    },
}

/// Conversion of values of a narrow type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NarrowType {
    /// Whole numbers as this many bytes, most significant first.
    Bytes(usize),
    /// Single-precision floats with the shortest distinguishing digits, so that 5.9 is not 5.900000095367432.
    Float,
}

impl NarrowType {
    fn apply(self, value: &ExpressionDatum<'_>) -> ExpressionDatum<'static> {
        match self {
            NarrowType::Bytes(count) => {
                let bytes = value.to_long().to_be_bytes();
                ExpressionDatum::Raw(Cow::Owned(bytes[bytes.len() - count..].to_vec()))
            }
            NarrowType::Float => ExpressionDatum::Double(NarrowType::shortest(value.to_double())),
        }
    }

    /// The number with the fewest digits that is the same in single precision.
    pub(crate) fn shortest(value: f64) -> f64 {
        (value as f32).to_string().parse().unwrap_or(f64::NAN)
    }
}

/// A row of a batch, and the data that expressions use beside it.
#[derive(Clone, Copy)]
pub(crate) struct RowContext<'b, 'd> {
    pub(crate) batch: &'b GroupingBatch<'d>,
    pub(crate) zone: &'b GroupingZone,
    pub(crate) row: usize,
    /// Elements of structured fields by which outer groups were created.
    pub(crate) elements: &'b [u32],
}

impl GroupingNode {
    /// Converts the node to text values; relevant for single-precision fields.
    pub(crate) fn into_text(self) -> GroupingNode {
        match self.leaf_type() {
            Some(DataType::Float | DataType::Float16) => self.narrow(NarrowType::Float),
            _ => self,
        }
    }

    /// Converts the node to values with as many bytes as the field's type has.
    pub(crate) fn into_bytes(self) -> GroupingNode {
        match self.leaf_type() {
            Some(DataType::Bool | DataType::Byte) => self.narrow(NarrowType::Bytes(1)),
            Some(DataType::Int) => self.narrow(NarrowType::Bytes(4)),
            _ => self,
        }
    }

    fn narrow(self, to: NarrowType) -> GroupingNode {
        GroupingNode::Narrow { input: Box::new(self), to }
    }

    /// Type of the field, if the values are those of a field, unchanged.
    fn leaf_type(&self) -> Option<&DataType> {
        match self {
            GroupingNode::Field { field, .. } => Some(field.leaf_type()),
            GroupingNode::Call { function, arguments } if function.returns == ReturnKind::Same => {
                arguments.first()?.leaf_type()
            }
            _ => None,
        }
    }

    pub(crate) fn eval<'b>(&'b self, context: RowContext<'b, '_>) -> ExpressionDatum<'b> {
        match self {
            GroupingNode::Constant(value) => value.borrowed(),
            GroupingNode::Field { field, element } => {
                let element = element.map(|place| context.elements[place] as usize);
                context.batch.field(field, context.row, element)
            }
            GroupingNode::Score => ExpressionDatum::Double(context.batch.score(context.row)),
            GroupingNode::DocumentName => {
                ExpressionDatum::Text(Cow::Borrowed(context.batch.document_name(context.row)))
            }
            GroupingNode::Call { function, arguments } => {
                function.apply(arguments.iter().map(|argument| argument.eval(context)), context.zone)
            }
            GroupingNode::Narrow { input, to } => input.eval(context).map_elements(|value| to.apply(&value)),
            GroupingNode::LongWidth { input, .. }
            | GroupingNode::DoubleWidth { input, .. }
            | GroupingNode::Predefined { input, .. } => {
                input.eval(context).map_elements(|value| self.bucket_of(value))
            }
            GroupingNode::Collate { input, collator } => {
                input.eval(context).map_elements(|value| collator.key(&value.to_text()))
            }
            GroupingNode::Distance { field, latitude, longitude, unit } => {
                let positions = context.batch.positions(field, context.row);
                ExpressionDatum::Double(distance_from(*latitude, *longitude, *unit)(&positions))
            }
        }
    }

    /// The bucket of a value of the input, for nodes that have buckets; for others, the value.
    pub(crate) fn bucket_of<'b>(&'b self, value: ExpressionDatum<'b>) -> ExpressionDatum<'b> {
        match self {
            GroupingNode::LongWidth { width, .. } => {
                let value = value.to_long();
                let from = value.saturating_sub(value.rem_euclid(*width));
                ExpressionDatum::LongBucket(from, from.saturating_add(*width))
            }
            GroupingNode::DoubleWidth { width, .. } => {
                let from = (value.to_double() / width).floor() * width;
                if from.is_finite() {
                    ExpressionDatum::DoubleBucket(from, from + width)
                } else {
                    ExpressionDatum::Null
                }
            }
            GroupingNode::Predefined { buckets, .. } => buckets.find(&value),
            _ => value,
        }
    }
}

/// Collation of texts in a locale.
pub(crate) struct TextCollator(pub(crate) CollatorBorrowed<'static>);

impl TextCollator {
    fn key(&self, text: &str) -> ExpressionDatum<'static> {
        let mut key = Vec::new();
        self.append_key(text, &mut key);
        ExpressionDatum::Raw(Cow::Owned(key))
    }

    /// Appends the key of a text.
    pub(crate) fn append_key(&self, text: &str, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = self.0.write_sort_key_to(text, out);
        // Keys that are stored or measured end like those of ICU.
        out.push(0);
    }
}

impl fmt::Debug for TextCollator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collator")
    }
}

/// Great-circle distance from a place to the nearest of some positions; infinite without a position.
pub(crate) fn distance_from(
    latitude: f64,
    longitude: f64,
    unit: DistanceUnit,
) -> impl Fn(&[[i32; 2]]) -> f64 {
    let b = latitude.to_radians();
    let cos_b = b.cos();
    let kilometres = move |[lat, lng]: &[i32; 2]| {
        let a = (f64::from(*lat) / 1e6).to_radians();
        let half_lat = ((b - a) / 2.0).sin();
        let half_lng = ((longitude - f64::from(*lng) / 1e6).to_radians() / 2.0).sin();
        let h = half_lat * half_lat + a.cos() * cos_b * half_lng * half_lng;
        2.0 * 6371.0088 * h.sqrt().min(1.0).asin()
    };
    move |positions: &[[i32; 2]]| {
        let nearest = positions.iter().map(kilometres).fold(f64::INFINITY, f64::min);
        nearest / unit.kilometres()
    }
}

/// A validated filter.
#[derive(Debug)]
pub(crate) enum FilterNode {
    Value(FilterTest, GroupingNode),
    Not(Box<FilterNode>),
    And(Box<FilterNode>, Box<FilterNode>),
    Or(Box<FilterNode>, Box<FilterNode>),
}

/// A test of a value.
#[derive(Debug)]
pub(crate) enum FilterTest {
    Regex(Regex),
    Range { from: f64, to: f64, inclusive: (bool, bool) },
    IsTrue,
}

impl FilterTest {
    /// True if a value passes. For a list, one passing element is enough.
    ///
    /// In ranges, text counts as the number that it spells; other text is in no range.
    pub(crate) fn passes(&self, value: &ExpressionDatum<'_>) -> bool {
        match (self, value) {
            (_, ExpressionDatum::List(list)) => list.iter().any(|value| self.passes(value)),
            (FilterTest::Regex(regex), value) => regex.is_match(&value.to_text()),
            (FilterTest::Range { from, to, inclusive }, value) => {
                let value = match value {
                    ExpressionDatum::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
                    value => value.to_double(),
                };
                let above = if inclusive.0 { value >= *from } else { value > *from };
                let below = if inclusive.1 { value <= *to } else { value < *to };
                above && below
            }
            (FilterTest::IsTrue, value) => matches!(value, ExpressionDatum::Bool(true)),
        }
    }
}

impl FilterNode {
    /// True if a row passes.
    pub(crate) fn passes(&self, context: RowContext<'_, '_>) -> bool {
        match self {
            FilterNode::Value(test, input) => test.passes(&input.eval(context)),
            FilterNode::Not(inner) => !inner.passes(context),
            FilterNode::And(a, b) => a.passes(context) && b.passes(context),
            FilterNode::Or(a, b) => a.passes(context) || b.passes(context),
        }
    }
}
