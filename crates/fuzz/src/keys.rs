//! Keys of indexes.

use millrace_document::DocumentValue;
use millrace_keys::{CUT_LENGTH, ComponentCondition, ComponentValue, KeyComponent, KeyLayout, KeyType};

/// Two texts, separated by a line feed: their keys compare as they do, in both orders, and the ranges of the
/// second one have the first if they should. Any bytes can be read as a key.
pub fn keys(input: &[u8]) {
    read(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (one, other) = text.split_once('\n').unwrap_or((text, ""));
    for descending in [false, true] {
        let component = KeyComponent { key_type: KeyType::Text, analyzer: None, descending, several: false };
        let layout = KeyLayout::new(vec![component]).expect("one component is a key");
        let key = |text: &str| {
            let value = DocumentValue::String(text.to_owned());
            layout.entries(&[vec![&value]]).keys.remove(0)
        };
        let is_in = |condition| {
            let ranges = layout.ranges(&[condition]).expect("the component is text");
            ranges.iter().any(|range| range.contains(&key(one)))
        };
        let (is_prefix, is_whole) = (
            is_in(ComponentCondition::Prefix(other.to_owned())),
            is_in(ComponentCondition::Texts(vec![other.to_owned()])),
        );
        if one.len().max(other.len()) <= CUT_LENGTH {
            let order = one.as_bytes().cmp(other.as_bytes());
            let order = if descending { order.reverse() } else { order };
            assert_eq!(key(one).cmp(&key(other)), order, "keys compare as their texts");
            assert_eq!(is_prefix, one.starts_with(other), "a range has the texts with a prefix");
            assert_eq!(is_whole, one == other, "a range has one text");
            let text = ComponentValue::Text(one.to_owned());
            assert_eq!(layout.values(&key(one)), Some(vec![text]), "a key has its text");
        } else {
            assert!(is_prefix || !one.starts_with(other), "a cut text is found by its prefix");
            assert!(is_whole || one != other, "a cut text is found");
        }
    }
}

/// Reads bytes as a key of two components of each type.
fn read(input: &[u8]) {
    for key_type in [KeyType::Bool, KeyType::Integer, KeyType::Float, KeyType::Text] {
        let component = KeyComponent { key_type, analyzer: None, descending: false, several: false };
        let layout = KeyLayout::new(vec![component.clone(), component]).expect("two components are a key");
        let values = layout.values(input);
        assert!(values.is_none_or(|values| values.len() == 2), "a key has a value of each component");
    }
}
