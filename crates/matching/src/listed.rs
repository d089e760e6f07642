//! Lists of numbers and texts that values are compared with.

use hashbrown::HashMap;
use millrace_tensor::{ShortText, ShortTextMap};

/// Numbers with weights: looking one up takes the same time however many there are. The hash is keyed, since
/// queries choose the numbers.
pub(crate) struct ListedNumbers(HashMap<i64, i32>);

impl ListedNumbers {
    /// Creates the list. Of a number that is listed twice, the smaller weight counts.
    pub(crate) fn new(numbers: &[(i64, i32)]) -> Self {
        let mut weights = HashMap::with_capacity(numbers.len());
        for (number, weight) in numbers {
            weights
                .entry(*number)
                .and_modify(|known: &mut i32| *known = (*known).min(*weight))
                .or_insert(*weight);
        }
        ListedNumbers(weights)
    }

    /// Weight of a number; `None` if it is not listed.
    #[inline]
    pub(crate) fn weight(&self, number: i64) -> Option<i32> {
        self.0.get(&number).copied()
    }

    /// Like [`ListedNumbers::weight`], for a number that may have a fraction, or be beyond the integers.
    pub(crate) fn weight_of_float(&self, number: f64) -> Option<i32> {
        /// Beyond this, several integers are one float.
        const EXACT: f64 = (1_u64 << 53) as f64;
        if number.abs() < EXACT {
            return if number.fract() == 0.0 { self.weight(number as i64) } else { None };
        }
        let equal = self.0.iter().filter(|(listed, _)| **listed as f64 == number);
        equal.min().map(|(_, weight)| *weight)
    }
}

/// Texts with weights, looked up like [`ListedNumbers`].
pub(crate) struct ListedTexts {
    short: ShortTextMap<i32>,
    long: HashMap<Box<str>, i32>,
    /// A bit for each length in bytes of a listed text; the last one stands for all lengths from 63 on.
    lengths: u64,
}

impl ListedTexts {
    /// Creates the list. Of a text that is listed twice, the greater weight counts.
    pub(crate) fn new(texts: &[(String, i32)]) -> Self {
        let mut short: HashMap<ShortText, i32> = HashMap::with_capacity(texts.len());
        let mut long: HashMap<Box<str>, i32> = HashMap::new();
        let mut lengths = 0;
        for (text, weight) in texts {
            lengths |= length_bit(text.len());
            let known = match ShortText::new(text.as_bytes()) {
                Some(text) => short.entry(text).or_insert(*weight),
                None => long.entry(text.as_str().into()).or_insert(*weight),
            };
            *known = (*known).max(*weight);
        }
        let short: Vec<(ShortText, i32)> = short.into_iter().collect();
        ListedTexts { short: ShortTextMap::new(&short), long, lengths }
    }

    /// False if neither a text nor its folded form is listed, as its length shows: folding does not change
    /// that of ASCII.
    #[inline]
    pub(crate) fn may_have(&self, text: &[u8]) -> bool {
        self.lengths & length_bit(text.len()) != 0 || !text.is_ascii()
    }

    /// Weight of a text; `None` if it is not listed.
    #[inline]
    pub(crate) fn weight(&self, text: &str) -> Option<i32> {
        match ShortText::new(text.as_bytes()) {
            Some(short) => self.weight_of_short(short),
            None => self.long.get(text).copied(),
        }
    }

    /// Weight of a short text; `None` if it is not listed.
    #[inline]
    pub(crate) fn weight_of_short(&self, text: ShortText) -> Option<i32> {
        self.short.get(text)
    }
}

/// Bit of a length in [`ListedTexts`].
#[inline]
fn length_bit(bytes: usize) -> u64 {
    1 << bytes.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listed_number_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 7, 8, 100, 5000] {
            // Also multiples of a power of two, which a bad hash puts into few slots.
            for step in [1, 3, 1 << 30] {
                let list: Vec<(i64, i32)> = (0..count).map(|at| (at * step - step, at as i32)).collect();
                let table = ListedNumbers::new(&list);
                for (number, weight) in &list {
                    assert_eq!(table.weight(*number), Some(*weight), "{number} of {count}");
                    assert_eq!(table.weight_of_float(*number as f64), Some(*weight), "{number} of {count}");
                    assert_eq!(
                        table.weight(number + 1),
                        list.get(*weight as usize + 1).filter(|_| step == 1).map(|n| n.1)
                    );
                    assert_eq!(table.weight_of_float(*number as f64 + 0.5), None);
                }
                assert_eq!((table.weight(i64::MIN), table.weight(i64::MAX)), (None, None));
            }
        }
    }

    #[test]
    fn each_listed_text_is_found_and_no_other() {
        let long = "x".repeat(100);
        for length in 0..40 {
            let (listed, other) = ("y".repeat(length), "z".repeat(length));
            let table = ListedTexts::new(&[(listed.clone(), 3), (format!("{listed}y"), 4)]);
            assert_eq!(table.weight(&listed), Some(3), "{length}");
            assert_eq!(table.weight(&other), (length == 0).then_some(3), "{length}");
        }
        let list: Vec<(String, i32)> =
            [("", 1), ("a", 2), ("é", 3), ("a", 7), ("b", 9), ("b", 4), (&long, 5)]
                .map(|(text, weight)| (text.to_owned(), weight))
                .into();
        let table = ListedTexts::new(&list);
        let weights = ["", "a", "b", "é", &long, "c", "e", &long[1..], "xx"].map(|text| table.weight(text));
        assert_eq!(weights, [Some(1), Some(7), Some(9), Some(3), Some(5), None, None, None, None]);
        let may_have = ["ab", &long[..64], "éé", "abc"].map(|text| table.may_have(text.as_bytes()));
        assert_eq!(may_have, [true, true, true, false]);
        assert_eq!(ListedTexts::new(&[]).weight(""), None);
    }

    #[test]
    fn large_floats_equal_what_rounds_to_them() {
        let table = ListedNumbers::new(&[(i64::MAX, 7), ((1 << 53) + 1, 3), (5, 9), (5, 4)]);
        assert_eq!(table.weight_of_float(i64::MAX as f64), Some(7));
        assert_eq!(table.weight_of_float((1_u64 << 53) as f64), Some(3));
        assert_eq!(table.weight(5), Some(4));
        for none in [f64::NAN, f64::INFINITY, -0.5, 1e300] {
            assert_eq!(table.weight_of_float(none), None, "{none}");
        }
    }
}
