//! Fields of a schema in grouping: location of the value, and the substitute for a missing value.

use std::borrow::Cow;

use millrace_document::{DataType, DocumentValue};
use millrace_schema::Schema;

use crate::Error;
use crate::datum::ExpressionDatum;
use crate::node::ValueKind;
use crate::request::{GroupingPath, GroupingPathStep};

/// A checked path into a field.
#[derive(Debug, Clone)]
pub(crate) struct CheckedField {
    /// Name of the field that has the column.
    pub(crate) name: String,
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
    /// Resolves a path in a schema.
    pub(crate) fn resolve(path: &GroupingPath, schema: &Schema) -> Result<Self, Error> {
        let no_field = || {
            let names: Vec<&str> = schema.fields.keys().map(|name| &**name).take(20).collect();
            Error::invalid(format!(
                "schema '{}' has no field '{}'; its fields are {}",
                schema.name,
                path.field,
                names.join(", ")
            ))
        };
        let field = schema.fields.get(path.field.as_str());
        let position = path
            .field
            .strip_suffix("_zcurve")
            .filter(|_| field.is_none() && path.steps.is_empty())
            .and_then(|name| schema.fields.get(name));
        if let Some(position) = position
            && is_position(&position.data_type)
        {
            return Ok(CheckedField {
                name: position.name.to_string(),
                data_type: position.data_type.clone(),
                reach: FieldReach::ZCurve,
                members: Vec::new(),
                kind: ValueKind::Long,
                leaf_type: DataType::Long,
            });
        }
        let field = field.ok_or_else(no_field)?;
        let mut at = &field.data_type;
        let mut steps = path.steps.iter();
        let wrong = |at: &DataType, cure: &str| Error::invalid(format!("'{path}' is of type {at}; {cure}"));
        let reach = match at {
            DataType::Array(element) | DataType::WeightedSet { element, .. } => {
                at = element;
                FieldReach::Elements
            }
            DataType::Map(key, value) => {
                let step = steps.next();
                at = match step {
                    Some(GroupingPathStep::Name(name)) if name == "key" => key,
                    _ => value,
                };
                match step {
                    Some(GroupingPathStep::Name(name)) if name == "key" => FieldReach::Keys,
                    Some(GroupingPathStep::Name(name)) if name == "value" => FieldReach::Values,
                    Some(GroupingPathStep::Key(key)) => FieldReach::At(key.clone()),
                    Some(GroupingPathStep::KeyOf(name)) => {
                        FieldReach::AtKeyOf(Box::new(CheckedField::resolve(
                            &GroupingPath { field: name.clone(), steps: Vec::new() },
                            schema,
                        )?))
                    }
                    _ => {
                        return Err(wrong(
                            &field.data_type,
                            &format!("write {0}.key, {0}.value or {0}{{\"key\"}}", path.field),
                        ));
                    }
                }
            }
            _ => FieldReach::Whole,
        };
        let mut members = Vec::new();
        for step in steps {
            let member = match (at, step) {
                (DataType::Struct(struct_type), GroupingPathStep::Name(name)) => struct_type.field(name),
                _ => None,
            };
            let Some(member) = member else {
                return Err(wrong(at, "the path goes on inside it with a name that it does not have"));
            };
            members.push(member.name.to_string());
            at = &member.data_type;
        }
        let kind = match at {
            DataType::Bool => ValueKind::Bool,
            DataType::Byte | DataType::Int | DataType::Long => ValueKind::Long,
            DataType::Float16 | DataType::Float | DataType::Double => ValueKind::Double,
            DataType::String | DataType::Uri | DataType::Reference(_) | DataType::Predicate => {
                ValueKind::Text
            }
            DataType::Raw => ValueKind::Raw,
            DataType::Tensor(_) => return Err(wrong(at, "tensors cannot be grouped")),
            DataType::Position => {
                return Err(wrong(at, &format!("write {}_zcurve or geo_distance(…)", path.field)));
            }
            DataType::Struct(_) => return Err(wrong(at, "name one of its fields after a dot")),
            _ => return Err(wrong(at, "a collection inside a collection cannot be grouped")),
        };
        let (leaf_type, data_type) = (at.clone(), field.data_type.clone());
        Ok(CheckedField { name: field.name.to_string(), data_type, reach, members, kind, leaf_type })
    }

    /// Resolves a position field for `geo_distance`.
    pub(crate) fn position(name: &str, schema: &Schema) -> Result<Self, Error> {
        match schema.fields.get(name) {
            Some(field) if is_position(&field.data_type) => Ok(CheckedField {
                name: name.to_owned(),
                data_type: field.data_type.clone(),
                reach: FieldReach::Whole,
                members: Vec::new(),
                kind: ValueKind::Double,
                leaf_type: DataType::Double,
            }),
            Some(field) => Err(Error::invalid(format!(
                "geo_distance needs a position, and '{name}' is of type {}",
                field.data_type
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
            (FieldReach::ZCurve, Some(DocumentValue::Array(places))) => {
                self.pick(places.len(), element, |index| zcurve(Some(&places[index])))
            }
            (FieldReach::ZCurve, value) => zcurve(value),
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
            (FieldReach::Elements | FieldReach::Keys | FieldReach::Values, _) => match element {
                Some(_) => self.undefined(),
                None => ExpressionDatum::List(Vec::new()),
            },
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

fn is_position(data_type: &DataType) -> bool {
    match data_type {
        DataType::Position => true,
        DataType::Array(element) => **element == DataType::Position,
        _ => false,
    }
}

/// Interleaves the bits of longitude (even bits) and latitude (odd bits), both in millionths of a degree.
fn zcurve(value: Option<&DocumentValue>) -> ExpressionDatum<'static> {
    let spread = |part: i32| {
        let mut bits = u64::from(part as u32);
        for (shift, mask) in [
            (16, 0x0000_ffff_0000_ffff),
            (8, 0x00ff_00ff_00ff_00ff),
            (4, 0x0f0f_0f0f_0f0f_0f0f),
            (2, 0x3333_3333_3333_3333),
            (1, 0x5555_5555_5555_5555),
        ] {
            bits = (bits | bits << shift) & mask;
        }
        bits
    };
    match value {
        Some(DocumentValue::Position { latitude, longitude }) => {
            ExpressionDatum::Long((spread(*longitude) | spread(*latitude) << 1) as i64)
        }
        _ => ExpressionDatum::Long(i64::MIN),
    }
}
