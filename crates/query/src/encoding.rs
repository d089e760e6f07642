//! Detection of text that was encoded as UTF-8 twice: `Ã¥` instead of `å`. Such a query finds nothing,
//! without an indication of the cause.

use crate::{QueryItem, UserText};

/// The first text in an item or its descendants that looks encoded as UTF-8 twice; `None` if there is none.
pub fn double_encoded(item: &QueryItem) -> Option<&str> {
    match item {
        QueryItem::Term { text, .. } => if_double_encoded(&text.text),
        QueryItem::Phrase { words, .. } => words.iter().find_map(|word| if_double_encoded(&word.text.text)),
        QueryItem::Alternatives { words, .. } => words.iter().find_map(|(word, _)| if_double_encoded(word)),
        QueryItem::In { values, .. } => values.iter().find_map(|value| if_double_encoded(value)),
        QueryItem::Weighted { tokens, .. } => tokens.iter().find_map(|(token, _)| if_double_encoded(token)),
        QueryItem::Text(UserText { text, filter, .. }) => {
            if_double_encoded(text).or_else(|| filter.as_deref().and_then(if_double_encoded))
        }
        other => other.children().find_map(double_encoded),
    }
}

/// The text, if its characters interpreted as bytes are valid UTF-8 and not all ASCII.
fn if_double_encoded(text: &str) -> Option<&str> {
    if text.is_ascii() {
        return None;
    }
    let bytes: Vec<u8> = text.chars().map(u8::try_from).collect::<Result<_, _>>().ok()?;
    std::str::from_utf8(&bytes).is_ok().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::if_double_encoded;

    #[test]
    fn only_texts_that_make_sense_decoded_once_more_look_double_encoded() {
        for (text, expected) in [
            ("plain", false),
            ("åååå", false),
            ("Ã¥Ã¥Ã¥", true),
            ("a word and Ã¥", true),
            ("Ã¥ and å", false),
            ("naïve café", false),
            ("日本", false),
            ("æ\u{97}¥", true),
        ] {
            assert_eq!(if_double_encoded(text).is_some(), expected, "{text}");
        }
    }
}
