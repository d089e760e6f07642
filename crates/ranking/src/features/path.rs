//! Parts of structs and maps, named by a path: `person.name`, `prices.value`.

use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_schema::SchemaField;

use super::FeatureSetup;
use crate::Error;

/// The path of a whole field.
pub(crate) const WHOLE: &[&str] = &[];

/// A field, or a part of a field, named by a feature's parameter.
pub(crate) struct FieldPart<'s> {
    pub field: &'s SchemaField,
    /// Path from the field's value to the part; empty for the field itself.
    pub path: Vec<String>,
    /// Type of a single value: a whole number for positions that are named by their z-curve.
    pub data_type: &'s DataType,
    /// True if a document may have several values.
    pub many: bool,
    /// True if the schema makes it an attribute.
    pub is_attribute: bool,
}

impl FeatureSetup<'_> {
    /// The field, or part of a field, that a feature reads.
    pub fn part(&self, name: &FeatureName, at: usize) -> Result<FieldPart<'_>, Error> {
        let text = name.parameters.get(at).map_or("", String::as_str);
        let (first, rest) = match text.split_once('.') {
            Some((first, rest)) if !self.schema.fields.contains_key(text) => (first, rest),
            _ => (text, ""),
        };
        if let Some(field) = self.schema.field_of_zcurve(text) {
            return Ok(FieldPart {
                field,
                path: Vec::new(),
                data_type: &DataType::Long,
                many: is_collection(&field.data_type),
                is_attribute: field.attribute.is_some(),
            });
        }
        let Some(field) = self.schema.fields.get(first).filter(|_| !rest.is_empty()) else {
            let field = self.field(name, at)?;
            let (data_type, many) = (&field.data_type, is_collection(&field.data_type));
            return Ok(FieldPart {
                field,
                path: Vec::new(),
                data_type,
                many,
                is_attribute: field.attribute.is_some(),
            });
        };
        let path: Vec<String> = rest.split('.').map(str::to_owned).collect();
        let mut many = false;
        let Some(data_type) = type_at(&field.data_type, &path, &mut many) else {
            return Err(Error::setup(format!(
                "{name}: {first} is of type {}, which has no part '{rest}'",
                field.data_type
            )));
        };
        let own = field.part(rest);
        let is_attribute = field.attribute.is_some() || own.is_some_and(|own| own.attribute.is_some());
        Ok(FieldPart { field, path, data_type, many, is_attribute })
    }
}

fn is_collection(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..))
}

/// Type at the end of a path. Sets `many` if there may be several values.
fn type_at<'t>(data_type: &'t DataType, path: &[String], many: &mut bool) -> Option<&'t DataType> {
    *many |= is_collection(data_type);
    match (data_type, path) {
        (DataType::Array(element) | DataType::WeightedSet { element, .. }, _) => type_at(element, path, many),
        (DataType::Map(key, _), []) => type_at(key, path, many),
        (DataType::Map(key, value), [first, rest @ ..]) => match first.as_str() {
            "key" => type_at(key, rest, many),
            "value" => type_at(value, rest, many),
            _ => None,
        },
        (DataType::Struct(members), [first, rest @ ..]) => {
            type_at(&members.field(first)?.data_type, rest, many)
        }
        (single, []) => Some(single),
        _ => None,
    }
}
