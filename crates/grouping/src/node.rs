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
use crate::numbers::NumberColumn;
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
        miles: bool,
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
    fn apply<'a>(self, value: ExpressionDatum<'a>) -> ExpressionDatum<'a> {
        match self {
            NarrowType::Bytes(count) => {
                let bytes = value.to_long().to_be_bytes();
                ExpressionDatum::Raw(Cow::Owned(bytes[bytes.len() - count..].to_vec()))
            }
            NarrowType::Float => {
                let short = (value.to_double() as f32).to_string();
                ExpressionDatum::Double(short.parse().unwrap_or(f64::NAN))
            }
        }
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
            GroupingNode::Constant(ExpressionDatum::Text(text)) => ExpressionDatum::Text(Cow::Borrowed(text)),
            GroupingNode::Constant(value) => value.clone(),
            GroupingNode::Field { field, element } => {
                let element = element.map(|place| context.elements[place] as usize);
                context.batch.field(field, context.row, element)
            }
            GroupingNode::Score => ExpressionDatum::Double(context.batch.score(context.row)),
            GroupingNode::DocumentName => context.batch.document_name(context.row),
            GroupingNode::Call { function, arguments } => {
                function.apply(arguments.iter().map(|argument| argument.eval(context)), context.zone)
            }
            GroupingNode::Narrow { input, to } => each(input.eval(context), |value| to.apply(value)),
            GroupingNode::LongWidth { input, .. }
            | GroupingNode::DoubleWidth { input, .. }
            | GroupingNode::Predefined { input, .. } => {
                each(input.eval(context), |value| self.bucket_of(value))
            }
            GroupingNode::Collate { input, collator } => {
                each(input.eval(context), |value| collator.key(&value.to_text()))
            }
            GroupingNode::Distance { field, latitude, longitude, miles } => {
                let positions = context.batch.positions(field, context.row);
                let km = kilometres(&positions, *latitude, *longitude);
                ExpressionDatum::Double(if *miles { km / 1.609_344 } else { km })
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

    /// Evaluates the node in many rows at once. `None` if it, or a node inside, may have lists, or values
    /// that are not numbers.
    pub(crate) fn numbers(
        &self,
        batch: &GroupingBatch<'_>,
        zone: &GroupingZone,
        rows: &[u32],
    ) -> Option<NumberColumn> {
        match self {
            GroupingNode::Constant(value) => NumberColumn::repeat(value, rows.len()),
            GroupingNode::Field { field, element: None } => batch.numbers(field, rows),
            GroupingNode::Score => {
                let scores = rows.iter().map(|row| batch.score(*row as usize));
                Some(NumberColumn::Doubles(scores.collect()))
            }
            GroupingNode::Call { function, arguments } => {
                let columns = arguments.iter().map(|argument| argument.numbers(batch, zone, rows));
                function.apply_columns(columns, zone)
            }
            GroupingNode::Distance { .. } => {
                let distance = |row: &u32| {
                    let context = RowContext { batch, zone, row: *row as usize, elements: &[] };
                    self.eval(context).to_double()
                };
                Some(NumberColumn::Doubles(rows.iter().map(distance).collect()))
            }
            GroupingNode::Field { .. }
            | GroupingNode::DocumentName
            | GroupingNode::Narrow { .. }
            | GroupingNode::LongWidth { .. }
            | GroupingNode::DoubleWidth { .. }
            | GroupingNode::Predefined { .. }
            | GroupingNode::Collate { .. } => None,
        }
    }
}

fn each<'a>(
    value: ExpressionDatum<'a>,
    code: impl Fn(ExpressionDatum<'a>) -> ExpressionDatum<'a>,
) -> ExpressionDatum<'a> {
    match value {
        ExpressionDatum::List(list) => ExpressionDatum::List(list.into_iter().map(code).collect()),
        value => code(value),
    }
}

/// Collation of texts in a locale.
pub(crate) struct TextCollator(pub(crate) CollatorBorrowed<'static>);

impl TextCollator {
    fn key(&self, text: &str) -> ExpressionDatum<'static> {
        let mut key = Vec::new();
        // Writing to a Vec cannot fail.
        let _ = self.0.write_sort_key_to(text, &mut key);
        // Keys that are stored or measured end like those of ICU.
        key.push(0);
        ExpressionDatum::Raw(Cow::Owned(key))
    }
}

impl fmt::Debug for TextCollator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collator")
    }
}

/// Great-circle distance to the nearest of some positions, in kilometres; infinite without a position.
fn kilometres(positions: &[[i32; 2]], latitude: f64, longitude: f64) -> f64 {
    let b = latitude.to_radians();
    let cos_b = b.cos();
    let distance = |[lat, lng]: &[i32; 2]| {
        let a = (f64::from(*lat) / 1e6).to_radians();
        let half_lat = ((b - a) / 2.0).sin();
        let half_lng = ((longitude - f64::from(*lng) / 1e6).to_radians() / 2.0).sin();
        let h = half_lat * half_lat + a.cos() * cos_b * half_lng * half_lng;
        2.0 * 6371.0088 * h.sqrt().min(1.0).asin()
    };
    positions.iter().map(distance).fold(f64::INFINITY, f64::min)
}

/// A validated filter.
#[derive(Debug)]
pub(crate) enum FilterNode {
    Regex(Regex, GroupingNode),
    Range { from: f64, to: f64, inclusive: (bool, bool), input: GroupingNode },
    IsTrue(GroupingNode),
    Not(Box<FilterNode>),
    And(Box<FilterNode>, Box<FilterNode>),
    Or(Box<FilterNode>, Box<FilterNode>),
}

impl FilterNode {
    /// True if a row passes. For a list, one passing element is enough.
    ///
    /// In ranges, text counts as the number that it spells; other text is in no range.
    pub(crate) fn passes(&self, context: RowContext<'_, '_>) -> bool {
        match self {
            FilterNode::Regex(regex, input) => {
                any(&input.eval(context), |value| regex.is_match(&value.to_text()))
            }
            FilterNode::Range { from, to, inclusive, input } => any(&input.eval(context), |value| {
                let value = match value {
                    ExpressionDatum::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
                    value => value.to_double(),
                };
                let above = if inclusive.0 { value >= *from } else { value > *from };
                let below = if inclusive.1 { value <= *to } else { value < *to };
                above && below
            }),
            FilterNode::IsTrue(input) => {
                any(&input.eval(context), |value| matches!(value, ExpressionDatum::Bool(true)))
            }
            FilterNode::Not(inner) => !inner.passes(context),
            FilterNode::And(a, b) => a.passes(context) && b.passes(context),
            FilterNode::Or(a, b) => a.passes(context) || b.passes(context),
        }
    }
}

fn any(value: &ExpressionDatum<'_>, holds: impl Fn(&ExpressionDatum<'_>) -> bool) -> bool {
    match value {
        ExpressionDatum::List(list) => list.iter().any(holds),
        value => holds(value),
    }
}
