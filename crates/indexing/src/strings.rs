use millrace_document::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Replaces all texts in a value at any depth, except keys of maps.
pub(crate) fn map_text(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(elements) => {
            Value::Array(elements.into_iter().map(|element| map_text(element, change)).collect())
        }
        Value::WeightedSet(elements) => {
            let mut changed: Vec<(Value, i32)> = Vec::with_capacity(elements.len());
            for (element, weight) in elements {
                let element = map_text(element, change);
                // Elements that became equal are merged, with the weight of the first.
                if !changed.iter().any(|(there, _)| *there == element) {
                    changed.push((element, weight));
                }
            }
            Value::WeightedSet(changed)
        }
        Value::Map(entries) => {
            Value::Map(entries.into_iter().map(|(key, value)| (key, map_text(value, change))).collect())
        }
        Value::Struct(members) => {
            Value::Struct(members.into_iter().map(|(name, value)| (name, map_text(value, change))).collect())
        }
        other => other,
    }
}

/// Removes accents from text, and replaces compatibility forms.
pub(crate) fn normalize(text: &str) -> String {
    text.nfkd().filter(|c| !is_combining_mark(*c)).nfc().collect()
}

/// The characters in `from..to`, both limited to the text.
pub(crate) fn substring(text: &str, from: usize, to: usize) -> String {
    text.chars().skip(from).take(to.saturating_sub(from)).collect()
}
