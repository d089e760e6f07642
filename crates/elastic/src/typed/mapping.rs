//! Mappings of document types: their fields with the types that searches here treat them as.

use millrace_document::DataType;
use millrace_schema::{Schema, SchemaField};
use serde_json::{Map, Value, json};

/// Mapping of the index that a schema is.
pub(super) fn of_schema(schema: &Schema) -> Map<String, Value> {
    let fields = schema.document_type.fields().iter();
    let properties: Map<String, Value> = fields
        .map(|field| {
            let settings = schema.fields.get(&field.name);
            (field.name.to_string(), definition(&field.data_type, settings))
        })
        .collect();
    let mut mapping = Map::new();
    mapping.insert("dynamic".to_owned(), "strict".into());
    mapping.insert("_routing".to_owned(), json!({ "required": true }));
    mapping.insert("properties".to_owned(), Value::Object(properties));
    mapping
}

fn definition(data_type: &DataType, settings: Option<&SchemaField>) -> Value {
    let is_text = settings.is_some_and(SchemaField::is_text);
    let name = match data_type {
        DataType::Bool => "boolean",
        DataType::Byte => "byte",
        DataType::Int => "integer",
        DataType::Long => "long",
        DataType::Float16 => "half_float",
        DataType::Float => "float",
        DataType::Double => "double",
        DataType::String if is_text => "text",
        DataType::String | DataType::Uri | DataType::Reference(_) | DataType::Predicate => "keyword",
        DataType::Raw => "binary",
        DataType::Position => "geo_point",
        // The elements of an array are values of the field.
        DataType::Array(element) => return definition(element, settings),
        // Keys are names in JSON, and every document has others.
        DataType::WeightedSet { .. } | DataType::Map(..) => "flattened",
        DataType::Tensor(_) => return json!({ "type": "object", "enabled": false }),
        DataType::Struct(structure) => {
            let member = |field: &millrace_document::DocumentField| {
                let settings = settings.and_then(|settings| settings.part(&field.name));
                (field.name.to_string(), definition(&field.data_type, settings))
            };
            let members: Map<String, Value> = structure.fields.iter().map(member).collect();
            return json!({ "properties": members });
        }
    };
    json!({ "type": name })
}
