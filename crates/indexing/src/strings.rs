use millrace_document::DocumentValue;
use unicode_normalization::UnicodeNormalization;

/// Replaces all texts in a value at any depth, except keys of maps.
pub(crate) fn map_text(value: DocumentValue, change: &impl Fn(&str) -> String) -> DocumentValue {
    match value {
        DocumentValue::String(text) => DocumentValue::String(change(&text)),
        DocumentValue::Array(elements) => {
            DocumentValue::Array(elements.into_iter().map(|element| map_text(element, change)).collect())
        }
        DocumentValue::WeightedSet(elements) => {
            let mut changed: Vec<(DocumentValue, i32)> = Vec::with_capacity(elements.len());
            for (element, weight) in elements {
                let element = map_text(element, change);
                // Elements that became equal are merged, with the weight of the first.
                if !changed.iter().any(|(there, _)| *there == element) {
                    changed.push((element, weight));
                }
            }
            DocumentValue::WeightedSet(changed)
        }
        DocumentValue::Map(entries) => DocumentValue::Map(
            entries.into_iter().map(|(key, value)| (key, map_text(value, change))).collect(),
        ),
        DocumentValue::Struct(members) => DocumentValue::Struct(
            members.into_iter().map(|(name, value)| (name, map_text(value, change))).collect(),
        ),
        other => other,
    }
}

/// Removes accents from text: the combining diacritical marks, not the vowels that some scripts combine.
pub(crate) fn normalize(text: &str) -> String {
    text.nfd().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).nfc().collect()
}

/// The characters in `from..to`, both limited to the text.
pub(crate) fn substring(text: &str, from: usize, to: usize) -> String {
    text.chars().skip(from).take(to.saturating_sub(from)).collect()
}
