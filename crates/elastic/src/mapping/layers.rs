//! Mappings of several sources as one: those of templates, and that of the request which makes an index.

use serde_json::{Map, Value, json};

use super::{DEPTH_MAX, is_object, type_of};

/// Lays a later mapping over another: of a field that both have the later definition counts, and objects are
/// joined.
pub(crate) fn lay_over(mappings: &mut Map<String, Value>, later: &Map<String, Value>) {
    for (name, value) in expanded(later) {
        match (mappings.get_mut(&name), value) {
            (Some(Value::Object(own)), Value::Object(fields)) if name == "properties" => {
                *own = expanded_fields(own);
                lay_fields(own, fields);
            }
            (Some(Value::Array(own)), Value::Array(templates)) if name == "dynamic_templates" => {
                lay_templates(own, templates);
            }
            (_, value) => drop(mappings.insert(name, value)),
        }
    }
}

fn lay_fields(own: &mut Map<String, Value>, later: Map<String, Value>) {
    for (name, field) in later {
        match (own.get_mut(&name), field) {
            (Some(Value::Object(known)), Value::Object(field))
                if type_of(known) == type_of(&field) && is_object(type_of(known)) =>
            {
                for (member, value) in field {
                    match (known.get_mut(&member), value) {
                        (Some(Value::Object(known)), Value::Object(fields)) if member == "properties" => {
                            lay_fields(known, fields);
                        }
                        (_, value) => drop(known.insert(member, value)),
                    }
                }
            }
            (_, field) => drop(own.insert(name, field)),
        }
    }
}

/// Replaces dynamic templates by later ones of the same names, and adds the others.
fn lay_templates(own: &mut Vec<Value>, later: Vec<Value>) {
    let name = |template: &Value| template.as_object().and_then(|named| named.keys().next().cloned());
    for template in later {
        match own.iter_mut().find(|known| name(known) == name(&template)) {
            Some(known) => *known = template,
            None => own.push(template),
        }
    }
}

/// A mapping, or an object in it, with objects for the names of fields that have dots.
pub(super) fn expanded(mappings: &Map<String, Value>) -> Map<String, Value> {
    let mut expanded = mappings.clone();
    if let Some(Value::Object(fields)) = expanded.get_mut("properties") {
        *fields = expanded_fields(fields);
    }
    expanded
}

/// Fields with objects for the names that have dots.
pub(super) fn expanded_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, field) in fields {
        let mut field = match field {
            Value::Object(field) => Value::Object(expanded(field)),
            other => other.clone(),
        };
        let mut parts: Vec<&str> = name.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) || parts.len() > DEPTH_MAX + 1 {
            parts = vec![name.as_str()];
        }
        let first = parts.remove(0);
        for part in parts.into_iter().rev() {
            let mut fields = Map::new();
            fields.insert(part.to_owned(), field);
            field = json!({ "properties": fields });
        }
        let mut one = Map::new();
        one.insert(first.to_owned(), field);
        lay_fields(&mut all, one);
    }
    all
}
