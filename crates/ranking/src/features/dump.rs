//! The features that `ranking.listFeatures` returns for every hit.

use millrace_schema::SchemaField;

use super::FeatureSetup;
use super::native::is_index;
use super::segments;
use crate::Error;

/// Default number of query terms.
const TERMS: f64 = 5.0;

/// Names of these features: those of the query, of each text field, and of each attribute that is a single
/// number.
pub(crate) fn default_features(setup: &FeatureSetup<'_>) -> Result<Vec<String>, Error> {
    let mut features: Vec<String> = [
        "firstPhase",
        "nativeAttributeMatch",
        "nativeFieldMatch",
        "nativeProximity",
        "nativeRank",
        "queryTermCount",
    ]
    .map(str::to_owned)
    .to_vec();
    let count = |feature: &str, field: &str| -> Result<usize, Error> {
        Ok(setup.properties.number(feature, field, "numTerms", TERMS)?.clamp(0.0, 1000.0) as usize)
    };
    for term in 0..count("term", "")? {
        features.extend(
            ["connectedness", "significance", "weight"].map(|output| format!("term({term}).{output}")),
        );
    }
    for field in setup.schema.fields.values() {
        if setup.is_filter(field) {
            features.push(format!("matches({})", field.name));
        } else if is_index(field) {
            of_text(field, count("fieldTermMatch", &field.name)?, &mut features);
        } else if field.attribute.is_some() {
            of_attribute(field, &mut features);
        }
    }
    Ok(features)
}

fn of_text(field: &SchemaField, terms: usize, features: &mut Vec<String>) {
    let name = &field.name;
    features.extend([format!("bm25({name})"), format!("matches({name})"), format!("fieldMatch({name})")]);
    let outputs = segments::outputs().filter(|output| *output != "match");
    features.extend(outputs.map(|output| format!("fieldMatch({name}).{output}")));
    let outputs = ["completeness", "elementWeight", "fieldCompleteness", "queryCompleteness"];
    features.extend(outputs.map(|output| format!("elementCompleteness({name}).{output}")));
    let outputs = ["score", "proximity", "order", "queryCoverage", "fieldCoverage"];
    features.extend(outputs.map(|output| format!("textSimilarity({name}).{output}")));
    for term in 0..terms {
        let outputs = ["firstPosition", "occurrences", "weight"];
        features.extend(outputs.map(|output| format!("fieldTermMatch({name},{term}).{output}")));
    }
}

fn of_attribute(field: &SchemaField, features: &mut Vec<String>) {
    use millrace_document::DataType;
    let name = &field.name;
    features.push(format!("matches({name})"));
    match field.data_type {
        DataType::Tensor(_) | DataType::Struct(_) | DataType::Map(..) | DataType::Position => {}
        DataType::Array(_) | DataType::WeightedSet { .. } => {
            features.push(format!("attribute({name}).count"))
        }
        _ => features.push(format!("attribute({name})")),
    }
}
