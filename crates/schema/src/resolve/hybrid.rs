//! The built-in profile `hybrid`, which schemas can inherit without declaring it: a combination of words,
//! vectors and age.
//!
//! It is generated in the schema language with the schema's own fields, so that an inheriting profile can
//! override its functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use millrace_document::DataType;
use millrace_tensor::{CellType, TensorType};

use crate::{DistanceMetric, Fieldset, SchemaField};

type Fields = BTreeMap<Arc<str>, SchemaField>;

/// Names of fields with a document's date, by preference.
const DATES: [&str; 8] = ["date", "timestamp", "sent", "published", "created", "modified", "updated", "time"];

/// Text of the profile for a schema with these fields.
///
/// # Errors
/// The schema lacks a required field; the text gives the requirement.
pub(super) fn text(fields: &Fields, fieldset: Option<&Fieldset>) -> Result<String, String> {
    let is_in = |field: &SchemaField| {
        fieldset.is_none_or(|set| set.fields.iter().any(|name| name.as_str() == &*field.name))
    };
    let words: Vec<&SchemaField> = fields.values().filter(|field| field.is_text() && is_in(field)).collect();
    let vectors: Vec<(&SchemaField, &TensorType)> = fields.values().filter_map(vector).collect();
    let [(vector, tensor_type)] = vectors.as_slice() else {
        let names: Vec<&str> = vectors.iter().map(|(field, _)| &*field.name).collect();
        let found =
            if names.is_empty() { "has none".to_owned() } else { format!("has {}", names.join(", ")) };
        return Err(format!(
            "the profile 'hybrid' needs one tensor attribute with vectors, as in tensor<bfloat16>(x[384]), and the schema {found}: declare a profile of your own"
        ));
    };
    if words.is_empty() {
        return Err("the profile 'hybrid' needs a text field with 'indexing: index'".to_owned());
    }
    let date = DATES.iter().find_map(|name| {
        fields.get(*name).filter(|field| field.attribute.is_some() && field.data_type == DataType::Long)
    });
    // The best field of a document counts: a word in two fields is not twice as significant.
    let scores = words.iter().map(|field| format!("bm25({})", field.name));
    let text_score = scores.reduce(|all, score| format!("max({all}, {score})")).unwrap_or_default();
    let (name, sizes) = (&vector.name, sizes(tensor_type));
    let age = date.map_or_else(|| "0".to_owned(), |date| format!("freshness({}).logscale", date.name));
    let mut text = format!(
        "rank-profile hybrid {{
            inputs {{
                query({name}) tensor<float>({sizes})
                query(text_weight): 0.15
                query(vector_weight): 1.0
                query(age_weight): 0.05
            }}
            function text_score() {{ expression: {text_score} }}
            function vector_score() {{ expression: closeness(field, {name}) }}
            function age_score() {{ expression: {age} }}
            first-phase {{ expression: text_score + 10 * vector_score }}
            global-phase {{
                rerank-count: 1000
                expression: query(text_weight) * normalize_linear(text_score) + query(vector_weight) * normalize_linear(vector_score) + query(age_weight) * age_score
            }}
            match-features: text_score vector_score age_score\n"
    );
    if let Some(date) = date {
        // Five years, with half of the weight after half a year.
        let _ = writeln!(
            text,
            "rank-properties {{\n freshness({0}).maxAge: 157680000\n freshness({0}).halfResponse: 15768000\n }}",
            date.name
        );
    }
    text.push('}');
    Ok(text)
}

/// The field's vectors, if it has any.
fn vector(field: &SchemaField) -> Option<(&SchemaField, &TensorType)> {
    let DataType::Tensor(tensor_type) = &field.data_type else { return None };
    let metric = field.attribute.as_ref()?.distance_metric;
    let compared = metric != DistanceMetric::Hamming && tensor_type.cell() != CellType::Int8;
    (compared && tensor_type.indexed().count() == 1).then_some((field, tensor_type))
}

fn sizes(tensor_type: &TensorType) -> String {
    tensor_type.indexed().map(|(name, size)| format!("{name}[{size}]")).collect::<Vec<_>>().join(",")
}
