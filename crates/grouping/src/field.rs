//! Fields of a schema in grouping: location of the value, and the substitute for a missing value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millrace_document::{DataType, DocumentValue, EncodedLeafValues, LeafColumn, ZCURVE_SUFFIX, zcurve};

use crate::Error;
use crate::batch::GroupingBatch;
use crate::datum::ExpressionDatum;
use crate::level::GroupingReads;
use crate::node::ValueKind;
use crate::request::{GroupingPath, GroupingPathStep};

/// The parts of a schema to which requests refer.
#[derive(Debug, Clone)]
pub struct GroupingSchema<'s> {
    /// The name.
    pub name: &'s str,
    /// Types of all fields, by name.
    pub fields: BTreeMap<&'s str, &'s DataType>,
    /// Names of the document summaries.
    pub summaries: Vec<&'s str>,
}

impl GroupingSchema<'_> {
    fn field(&self, name: &str) -> Option<(&str, &DataType)> {
        self.fields.get_key_value(name).map(|(name, data_type)| (*name, *data_type))
    }

    fn has_no_field(&self, name: &str) -> Error {
        let names: Vec<&str> = self.fields.keys().copied().take(20).collect();
        Error::invalid(format!(
            "schema '{}' has no field '{name}'; its fields are {}",
            self.name,
            names.join(", ")
        ))
    }

    /// The field of positions whose numbers on a z-curve have this name, unless a field has it.
    fn field_of_zcurve(&self, name: &str) -> Option<(&str, &DataType)> {
        let positions = name.strip_suffix(ZCURVE_SUFFIX).filter(|_| !self.fields.contains_key(name))?;
        self.field(positions).filter(|(_, data_type)| data_type.has_positions())
    }
}

impl GroupingPath {
    fn misfit(&self, data_type: &DataType, cure: &str) -> Error {
        Error::invalid(format!("'{self}' is of type {data_type}; {cure}"))
    }

    /// Kind of the values at the end of the path, which are of this type.
    fn kind_of(&self, data_type: &DataType) -> Result<ValueKind, Error> {
        Ok(match data_type {
            DataType::Bool => ValueKind::Bool,
            DataType::Byte | DataType::Int | DataType::Long => ValueKind::Long,
            DataType::Float16 | DataType::Float | DataType::Double => ValueKind::Double,
            DataType::String | DataType::Uri | DataType::Reference(_) | DataType::Predicate => {
                ValueKind::Text
            }
            DataType::Raw => ValueKind::Raw,
            DataType::Tensor(_) => return Err(self.misfit(data_type, "tensors cannot be grouped")),
            DataType::Position => {
                let cure = format!("write {}_zcurve or geo_distance(…)", self.field);
                return Err(self.misfit(data_type, &cure));
            }
            DataType::Struct(_) => {
                return Err(self.misfit(data_type, "name one of its fields after a dot"));
            }
            _ => {
                return Err(self.misfit(data_type, "a collection inside a collection cannot be grouped"));
            }
        })
    }
}

/// A checked path into a field.
#[derive(Debug, Clone)]
pub(crate) struct CheckedField {
    /// Name of the field that has the column.
    pub(crate) name: String,
    /// Index of the field among those that are read.
    pub(crate) column: usize,
    /// Index of the path to the values; `None` if they are not read in place.
    pub(crate) path: Option<usize>,
    /// Index of the path to the keys of a map, to find an entry by its key.
    pub(crate) key_path: Option<usize>,
    pub(crate) data_type: DataType,
    pub(crate) reach: FieldReach,
    /// Struct field names from the outside in, after `reach`.
    members: Vec<String>,
    pub(crate) kind: ValueKind,
    /// Type at the end of the path.
    leaf_type: DataType,
}

/// Selected part of a field's value.
#[derive(Debug, Clone)]
pub(crate) enum FieldReach {
    /// The whole value.
    Whole,
    /// Each element of an array, or each value of a weighted set.
    Elements,
    /// Each key of a map.
    Keys,
    /// Each value of a map.
    Values,
    /// The map's value for a key.
    At(String),
    /// The map's value for the key in another field.
    AtKeyOf(Box<CheckedField>),
    /// A position as a z-curve value; for an array, each element.
    ZCurve,
}

impl CheckedField {
    /// Resolves a path in a schema, and adds it to those that are read.
    pub(crate) fn resolve(
        path: &GroupingPath,
        schema: &GroupingSchema<'_>,
        reads: &mut GroupingReads,
    ) -> Result<Self, Error> {
        if let Some(position) = schema.field_of_zcurve(&path.field)
            && path.steps.is_empty()
        {
            let (kind, leaf_type) = (ValueKind::Long, DataType::Long);
            return Ok(CheckedField::new(position, FieldReach::ZCurve, Vec::new(), kind, leaf_type, reads));
        }
        let field = schema.field(&path.field).ok_or_else(|| schema.has_no_field(&path.field))?;
        let mut steps = path.steps.iter();
        let (reach, mut at) = match field.1 {
            DataType::Array(element) | DataType::WeightedSet { element, .. } => {
                (FieldReach::Elements, &**element)
            }
            DataType::Map(key, value) => match steps.next() {
                Some(GroupingPathStep::Name(name)) if name == "key" => (FieldReach::Keys, &**key),
                Some(GroupingPathStep::Name(name)) if name == "value" => (FieldReach::Values, &**value),
                Some(GroupingPathStep::Key(key)) => (FieldReach::At(key.clone()), &**value),
                Some(GroupingPathStep::KeyOf(key)) => {
                    let key = CheckedField::resolve(key, schema, reads)?;
                    (FieldReach::AtKeyOf(Box::new(key)), &**value)
                }
                _ => {
                    let cure = format!("write {0}.key, {0}.value or {0}{{\"key\"}}", path.field);
                    return Err(path.misfit(field.1, &cure));
                }
            },
            whole => (FieldReach::Whole, whole),
        };
        let mut members = Vec::new();
        for step in steps {
            let member = match (at, step) {
                (DataType::Struct(struct_type), GroupingPathStep::Name(name)) => struct_type.field(name),
                _ => None,
            };
            let Some(member) = member else {
                return Err(path.misfit(at, "the path goes on inside it with a name that it does not have"));
            };
            members.push(member.name.to_string());
            at = &member.data_type;
        }
        let kind = path.kind_of(at)?;
        Ok(CheckedField::new(field, reach, members, kind, at.clone(), reads))
    }

    fn new(
        (name, data_type): (&str, &DataType),
        reach: FieldReach,
        members: Vec<String>,
        kind: ValueKind,
        leaf_type: DataType,
        reads: &mut GroupingReads,
    ) -> Self {
        let (name, data_type) = (name.to_owned(), data_type.clone());
        let column = reads.field(&name, &data_type);
        let first = match reach {
            FieldReach::Whole | FieldReach::Elements | FieldReach::ZCurve => None,
            FieldReach::Keys => Some("key".to_owned()),
            FieldReach::Values | FieldReach::At(_) | FieldReach::AtKeyOf(_) => Some("value".to_owned()),
        };
        let path = reads.path(column, first.into_iter().chain(members.iter().cloned()).collect());
        let key_path = match reach {
            FieldReach::At(_) | FieldReach::AtKeyOf(_) => reads.path(column, vec!["key".to_owned()]),
            _ => None,
        };
        CheckedField { name, column, path, key_path, data_type, reach, members, kind, leaf_type }
    }

    /// Resolves a position field for `geo_distance`.
    pub(crate) fn position(
        name: &str,
        schema: &GroupingSchema<'_>,
        reads: &mut GroupingReads,
    ) -> Result<Self, Error> {
        match schema.field(name) {
            Some(field) if field.1.has_positions() => {
                let (kind, leaf_type) = (ValueKind::Double, DataType::Double);
                Ok(CheckedField::new(field, FieldReach::Whole, Vec::new(), kind, leaf_type, reads))
            }
            Some((_, data_type)) => Err(Error::invalid(format!(
                "geo_distance needs a position, and '{name}' is of type {data_type}"
            ))),
            None => Err(Error::invalid(format!("schema '{}' has no field '{name}'", schema.name))),
        }
    }

    /// Type of the values.
    pub(crate) fn leaf_type(&self) -> &DataType {
        &self.leaf_type
    }

    /// True if a document can have several values.
    pub(crate) fn is_list(&self) -> bool {
        match self.reach {
            FieldReach::Elements | FieldReach::Keys | FieldReach::Values => true,
            FieldReach::ZCurve => matches!(self.data_type, DataType::Array(_)),
            FieldReach::Whole | FieldReach::At(_) | FieldReach::AtKeyOf(_) => false,
        }
    }

    /// True if elements are parts of a structure: other paths of the same field then refer to the same
    /// element.
    pub(crate) fn is_structured(&self) -> bool {
        matches!(self.reach, FieldReach::Keys | FieldReach::Values)
            || (matches!(self.reach, FieldReach::Elements) && !self.members.is_empty())
    }

    /// Value of a document that has none.
    pub(crate) fn undefined(&self) -> ExpressionDatum<'static> {
        match self.leaf_type {
            DataType::Bool => ExpressionDatum::Bool(false),
            DataType::Byte | DataType::Int | DataType::Long => ExpressionDatum::Long(0),
            DataType::Float16 | DataType::Float | DataType::Double => ExpressionDatum::Double(0.0),
            DataType::Raw => ExpressionDatum::Raw(Cow::Borrowed(&[])),
            _ => ExpressionDatum::Text(Cow::Borrowed("")),
        }
    }

    /// Extracts the path's values from the values of its batch, as [`CheckedField::take`] does from a decoded
    /// value. `None` if they are not read in place.
    pub(crate) fn take_in_place<'b>(
        &self,
        batch: &'b GroupingBatch<'_>,
        row: usize,
        element: Option<usize>,
    ) -> Option<ExpressionDatum<'b>> {
        let leaves = batch.leaves(self.path, row)?;
        let datum = |index| self.leaf_datum(leaves, index);
        let none = || ExpressionDatum::List(Vec::new());
        let entry = |key: &str| {
            let keys = batch.leaves(self.key_path, row)?;
            let found = keys.of_row(row).find(|index| is_key(keys.values(), *index, key));
            let index = found.map(|index| keys.element(index) - keys.elements(row).start);
            Some(index.map_or_else(none, |index| datum(leaves.of_element(row, index))))
        };
        Some(match &self.reach {
            FieldReach::Whole => datum(leaves.of_row(row).next()),
            FieldReach::At(key) => entry(key)?,
            FieldReach::AtKeyOf(field) => entry(&batch.field(field, row, None).to_text())?,
            FieldReach::ZCurve if !self.is_list() => match leaves.of_row(row).next() {
                Some(index) => leaf(leaves, index),
                None => zcurve_of(None),
            },
            FieldReach::Elements | FieldReach::Keys | FieldReach::Values | FieldReach::ZCurve => {
                match element {
                    Some(index) => datum(leaves.of_element(row, index)),
                    None => ExpressionDatum::List(leaves.by_element(row).map(datum).collect()),
                }
            }
        })
    }

    /// The value at `index` of those that are read in place. Without an index: that of a document that has
    /// none.
    pub(crate) fn leaf_datum<'a>(
        &self,
        leaves: &LeafColumn<'a>,
        index: Option<usize>,
    ) -> ExpressionDatum<'a> {
        index.map_or_else(|| self.undefined(), |index| leaf(leaves, index))
    }

    /// Extracts the path's values from a decoded value. With `element`, only that element of a list.
    pub(crate) fn take<'a>(
        &self,
        value: Option<&'a DocumentValue>,
        element: Option<usize>,
        key_of: impl FnOnce(&CheckedField) -> String,
    ) -> ExpressionDatum<'a> {
        match (&self.reach, value) {
            (FieldReach::Whole, value) => self.leaf(value),
            (FieldReach::At(key), Some(DocumentValue::Map(entries))) => self.entry(entries, key),
            (FieldReach::AtKeyOf(field), Some(DocumentValue::Map(entries))) => {
                self.entry(entries, &key_of(field))
            }
            (FieldReach::At(_) | FieldReach::AtKeyOf(_), _) => ExpressionDatum::List(Vec::new()),
            (FieldReach::ZCurve, Some(DocumentValue::Array(positions))) => {
                self.pick(positions.len(), element, |index| zcurve_of(position_of(&positions[index])))
            }
            (FieldReach::ZCurve, value) if !self.is_list() => zcurve_of(value.and_then(position_of)),
            (FieldReach::Elements, Some(DocumentValue::Array(items))) => {
                self.pick(items.len(), element, |index| self.leaf(Some(&items[index])))
            }
            (FieldReach::Elements, Some(DocumentValue::WeightedSet(items))) => {
                self.pick(items.len(), element, |index| self.leaf(Some(&items[index].0)))
            }
            (FieldReach::Keys, Some(DocumentValue::Map(entries))) => {
                self.pick(entries.len(), element, |index| self.leaf(Some(&entries[index].0)))
            }
            (FieldReach::Values, Some(DocumentValue::Map(entries))) => {
                self.pick(entries.len(), element, |index| self.leaf(Some(&entries[index].1)))
            }
            (FieldReach::Elements | FieldReach::Keys | FieldReach::Values | FieldReach::ZCurve, _) => {
                match element {
                    Some(_) => self.undefined(),
                    None => ExpressionDatum::List(Vec::new()),
                }
            }
        }
    }

    fn pick<'a>(
        &self,
        len: usize,
        element: Option<usize>,
        at: impl Fn(usize) -> ExpressionDatum<'a>,
    ) -> ExpressionDatum<'a> {
        match element {
            Some(element) if element < len => at(element),
            Some(_) => self.undefined(),
            None => ExpressionDatum::List((0..len).map(at).collect()),
        }
    }

    fn entry<'a>(&self, entries: &'a [(DocumentValue, DocumentValue)], key: &str) -> ExpressionDatum<'a> {
        let found = entries.iter().find(|(name, _)| match name {
            DocumentValue::String(name) => name == key,
            DocumentValue::Int(name) => key.parse() == Ok(*name),
            DocumentValue::Long(name) => key.parse() == Ok(*name),
            DocumentValue::Byte(name) => key.parse() == Ok(*name),
            _ => false,
        });
        match found {
            Some((_, value)) => self.leaf(Some(value)),
            // A missing entry belongs to no group and does not count.
            None => ExpressionDatum::List(Vec::new()),
        }
    }

    fn leaf<'a>(&self, value: Option<&'a DocumentValue>) -> ExpressionDatum<'a> {
        let mut value = value;
        for member in &self.members {
            value = match value {
                Some(DocumentValue::Struct(fields)) => {
                    fields.iter().find(|(name, _)| **name == **member).map(|(_, value)| value)
                }
                _ => None,
            };
        }
        match value {
            Some(DocumentValue::Bool(value)) => ExpressionDatum::Bool(*value),
            Some(DocumentValue::Byte(value)) => ExpressionDatum::Long(i64::from(*value)),
            Some(DocumentValue::Int(value)) => ExpressionDatum::Long(i64::from(*value)),
            Some(DocumentValue::Long(value)) => ExpressionDatum::Long(*value),
            Some(DocumentValue::Float(value)) => ExpressionDatum::Double(f64::from(*value)),
            Some(DocumentValue::Double(value)) => ExpressionDatum::Double(*value),
            Some(DocumentValue::String(text)) => ExpressionDatum::Text(Cow::Borrowed(text)),
            Some(DocumentValue::Raw(bytes)) => ExpressionDatum::Raw(Cow::Borrowed(bytes)),
            _ => self.undefined(),
        }
    }
}

/// The value at `index`.
fn leaf<'a>(leaves: &LeafColumn<'a>, index: usize) -> ExpressionDatum<'a> {
    match leaves.values() {
        EncodedLeafValues::Bools(values) => ExpressionDatum::Bool(values[index]),
        EncodedLeafValues::Integers(values) => ExpressionDatum::Long(values[index]),
        EncodedLeafValues::Floats(values) => ExpressionDatum::Double(values[index]),
        EncodedLeafValues::Texts(values) => ExpressionDatum::Text(String::from_utf8_lossy(values[index])),
        EncodedLeafValues::Raws(values) => ExpressionDatum::Raw(Cow::Borrowed(values[index])),
        EncodedLeafValues::Positions(values) => ExpressionDatum::Long(of_place(values[index])),
    }
}

/// True if the key at `index` is written as `key`.
fn is_key(keys: &EncodedLeafValues<'_>, index: usize, key: &str) -> bool {
    match keys {
        EncodedLeafValues::Texts(texts) => texts[index] == key.as_bytes(),
        EncodedLeafValues::Integers(numbers) => key.parse() == Ok(numbers[index]),
        _ => false,
    }
}

/// Latitude and longitude of a position, in millionths of a degree.
pub(crate) fn position_of(value: &DocumentValue) -> Option<[i32; 2]> {
    match value {
        DocumentValue::Position { latitude, longitude } => Some([*latitude, *longitude]),
        _ => None,
    }
}

fn of_place([latitude, longitude]: [i32; 2]) -> i64 {
    zcurve(latitude, longitude)
}

fn zcurve_of(position: Option<[i32; 2]>) -> ExpressionDatum<'static> {
    ExpressionDatum::Long(position.map_or(i64::MIN, of_place))
}
