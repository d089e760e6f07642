//! Encoding of values as bytes that compare in the requested order.

use std::cmp::Ordering;
use std::collections::HashMap;

use millrace_plan::TextOrder;

/// Appends an integer.
pub(crate) fn integer(number: i64, key: &mut Vec<u8>) {
    key.extend(ordered_integer(number).to_be_bytes());
}

/// Appends any other number; NaN is the smallest, and both zeros are equal.
pub(crate) fn float(number: f64, key: &mut Vec<u8>) {
    key.extend(ordered_float(number).to_be_bytes());
}

/// The key of an integer as a number.
#[inline]
pub(crate) fn ordered_integer(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

/// The key of any other number as a number.
#[inline]
pub(crate) fn ordered_float(number: f64) -> u64 {
    if number.is_nan() {
        return 0;
    }
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Returns the number of a number's key. `None` if `key` is no key of a number.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Returns the text or binary data of a key.
pub(crate) fn bytes_of(key: &[u8], reversed: bool) -> Vec<u8> {
    let invert = if reversed { 0xff } else { 0 };
    let inside = &key[..key.len().saturating_sub(2)];
    let mut after_zero = false;
    let unescaped = inside.iter().map(|byte| byte ^ invert).filter(|byte| {
        let escape = after_zero && *byte == 0xff;
        after_zero = *byte == 0;
        !escape
    });
    unescaped.collect()
}

/// Inverts the order. All numbers have the same length; text ends in a terminator that no longer text
/// continues with.
pub(crate) fn reverse(key: &mut [u8]) {
    key.iter_mut().for_each(|byte| *byte = !*byte);
}

/// Appends the key of a text in an order. A text comes after its own prefixes.
pub(crate) fn text(order: &TextOrder, text: &str, key: &mut Vec<u8>) {
    let start = key.len();
    match order {
        TextOrder::Raw => key.extend_from_slice(text.as_bytes()),
        TextOrder::Lowercase if text.is_ascii() => {
            key.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        TextOrder::Lowercase => {
            let mut buffer = [0; 4];
            for c in text.chars().flat_map(char::to_lowercase) {
                key.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
        TextOrder::Collated(collation) => collation.append_key(text, key),
    }
    terminate(start, key);
}

/// Keys of texts in one order. Those in the order of a locale are kept, since texts repeat, and making such a
/// key takes much longer than finding it here.
#[derive(Default)]
pub(crate) struct TextKeys {
    kept: HashMap<String, Vec<u8>>,
    kept_max: usize,
}

impl TextKeys {
    /// Number of texts whose keys are kept in one pass, in all orders together.
    const TEXTS_MAX: usize = 1 << 10;

    /// Bytes of a text up to which its key is kept.
    const BYTES_MAX: usize = 64;

    /// Creates an empty one, for one of this many orders.
    pub(crate) fn of_orders(orders: usize) -> Self {
        TextKeys { kept: HashMap::new(), kept_max: Self::TEXTS_MAX / orders.max(1) }
    }

    /// Appends the key of a text in the order, which is the same in all calls.
    pub(crate) fn append(&mut self, order: &TextOrder, text: &str, key: &mut Vec<u8>) {
        if !matches!(order, TextOrder::Collated(_)) || text.len() > Self::BYTES_MAX {
            return self::text(order, text, key);
        }
        if let Some(kept) = self.kept.get(text) {
            return key.extend_from_slice(kept);
        }
        let start = key.len();
        self::text(order, text, key);
        if self.kept.len() < self.kept_max {
            self.kept.insert(text.to_owned(), key[start..].to_owned());
        }
    }
}

/// Compares the bytes of texts as their keys compare. Those that are not UTF-8 are replaced.
pub(crate) fn compare(order: &TextOrder, a: &[u8], b: &[u8]) -> Ordering {
    match order {
        TextOrder::Raw => a.cmp(b),
        TextOrder::Lowercase if a.is_ascii() && b.is_ascii() => {
            let shared = a.iter().zip(b).take_while(|(x, y)| x == y).count();
            let [a, b] = [a, b].map(|text| text[shared..].iter().map(u8::to_ascii_lowercase));
            a.cmp(b)
        }
        TextOrder::Lowercase => {
            let [a, b] = [a, b].map(String::from_utf8_lossy);
            let folded = |text| str::chars(text).flat_map(char::to_lowercase);
            folded(&a).cmp(folded(&b))
        }
        TextOrder::Collated(collation) => {
            collation.compare(&String::from_utf8_lossy(a), &String::from_utf8_lossy(b))
        }
    }
}

/// Appends the key of binary data, in the order of its bytes. Data comes after its own prefixes.
pub(crate) fn bytes(bytes: &[u8], key: &mut Vec<u8>) {
    let start = key.len();
    key.extend_from_slice(bytes);
    terminate(start, key);
}

/// Ends a key with two zero bytes; a zero byte inside is followed by something greater.
fn terminate(start: usize, key: &mut Vec<u8>) {
    if let Some(zero) = key[start..].iter().position(|byte| *byte == 0) {
        let rest = key.split_off(start + zero);
        let escaped = |byte: u8| std::iter::once(byte).chain((byte == 0).then_some(0xff));
        key.extend(rest.into_iter().flat_map(escaped));
    }
    key.extend([0, 0]);
}

#[cfg(test)]
mod tests {
    use millrace_plan::LocaleCollation;
    use proptest::prelude::*;

    use super::*;

    fn key(order: &TextOrder, value: &str) -> Vec<u8> {
        let mut key = Vec::new();
        text(order, value, &mut key);
        key
    }

    #[test]
    fn collation_knows_languages() {
        let order = |locale: &str, strength: &str| {
            TextOrder::Collated(LocaleCollation::new(locale, strength).unwrap())
        };
        let swedish = order("sv_SE", "TERTIARY");
        assert!(key(&swedish, "zebra") < key(&swedish, "ärlig"));
        let german = order("de", "TERTIARY");
        assert!(key(&german, "ärlig") < key(&german, "zebra"));
        let primary = order("en-US", "primary");
        assert_eq!(key(&primary, "Résumé"), key(&primary, "resume"));
        let wrong = |locale: &str, strength: &str| LocaleCollation::new(locale, strength).is_err();
        assert!(wrong("en", "MIDDLE") && wrong("not a locale", "PRIMARY"));
    }

    /// Also of texts that are too long or too many to be kept.
    #[test]
    fn keys_that_are_kept_are_those_that_are_made() {
        let order = TextOrder::Collated(LocaleCollation::new("en", "TERTIARY").unwrap());
        let texts = (0..1500).map(|number| format!("{}{}", number % 1200, "É".repeat(number % 40)));
        let mut keys = TextKeys::of_orders(4);
        for value in texts.clone().chain(texts) {
            let mut kept = vec![7];
            keys.append(&order, &value, &mut kept);
            assert_eq!(kept[1..], key(&order, &value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn integers_compare_as_their_keys(a: i64, b: i64) {
            let key = |number| { let mut key = Vec::new(); integer(number, &mut key); key };
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn floats_compare_as_their_keys(a: f64, b: f64) {
            let key = |number| { let mut key = Vec::new(); float(number, &mut key); key };
            if let Some(order) = a.partial_cmp(&b) {
                prop_assert_eq!(key(a).cmp(&key(b)), order);
            }
        }

        #[test]
        fn data_compares_as_its_keys_both_ways(
            a in proptest::collection::vec(0u8..3, 0..5), b in proptest::collection::vec(0u8..3, 0..5)
        ) {
            let key = |data: &[u8]| { let mut key = Vec::new(); bytes(data, &mut key); key };
            let (mut x, mut y) = (key(&a), key(&b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            reverse(&mut x);
            reverse(&mut y);
            prop_assert_eq!(x.cmp(&y), b.cmp(&a));
        }

        #[test]
        fn data_is_read_from_its_key(data in proptest::collection::vec(
            proptest::sample::select(vec![0u8, 1, 0xfe, 0xff]), 0..6
        )) {
            let mut key = Vec::new();
            bytes(&data, &mut key);
            prop_assert_eq!(&bytes_of(&key, false), &data);
            reverse(&mut key);
            prop_assert_eq!(&bytes_of(&key, true), &data);
        }

        #[test]
        fn texts_compare_as_their_keys_both_ways(a in "[\0a-c]{0,4}", b in "[\0a-c]{0,4}") {
            let (mut x, mut y) = (key(&TextOrder::Raw, &a), key(&TextOrder::Raw, &b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            reverse(&mut x);
            reverse(&mut y);
            prop_assert_eq!(x.cmp(&y), b.cmp(&a));
        }

        #[test]
        fn texts_compare_as_their_keys(a in "[\0aAbBéÉİßẞ]{0,4}", b in "[\0aAbBéÉİßẞ]{0,4}") {
            for order in [TextOrder::Raw, TextOrder::Lowercase] {
                let keys = key(&order, &a).cmp(&key(&order, &b));
                prop_assert_eq!(compare(&order, a.as_bytes(), b.as_bytes()), keys, "{:?}", order);
            }
        }
    }
}
