//! Predicates over single values.

use millrace_document::{EncodedLeaf, ValueRef};
use millrace_linguistics::FieldAnalyzer;
use millrace_plan::{NumberRange, Predicate, QueryAttributes};
use regex::Regex;

use crate::Error;
use crate::geo::{GeoBox, GeoCircle};
use crate::listed::ListedNumbers;
use crate::nested::NestedValue;
use crate::pattern::WordMatcher;

/// A prepared predicate over one value.
pub(crate) struct ValueTest {
    kind: ValueMatchKind,
    /// Folds the compared text; `None` if case matters.
    folding: Option<FieldAnalyzer>,
    /// The word, if texts of ASCII match that equal it without regard to case.
    ascii_word: Option<Box<[u8]>>,
}

enum ValueMatchKind {
    Pattern(WordMatcher),
    In(Vec<(String, i32)>),
    Words { matchers: Vec<WordMatcher>, analyzer: FieldAnalyzer },
    WordIn { words: Vec<(String, i32)>, analyzer: FieldAnalyzer },
    Range(NumberRange),
    NumberIn(ListedNumbers),
    Bool(bool),
    Circle(GeoCircle),
    Box(GeoBox),
    Conditions(QueryAttributes),
    Present,
}

impl ValueTest {
    /// Prepares the predicate of a leaf. `analyzer` returns the field's analyzer. `None` if the predicate is
    /// not about single values.
    pub(crate) fn new(
        field: &str,
        predicate: &Predicate,
        analyzer: impl Fn() -> FieldAnalyzer,
    ) -> Result<Option<Self>, Error> {
        let sorted = |values: &[(String, i32)]| {
            let mut values = values.to_vec();
            values.sort();
            values
        };
        let mut folding = None;
        let kind = match predicate {
            Predicate::Value { pattern, cased } => {
                folding = (!cased).then(&analyzer);
                ValueMatchKind::Pattern(WordMatcher::new(field, pattern, *cased)?)
            }
            Predicate::ValueIn { values, cased } => {
                folding = (!cased).then(&analyzer);
                ValueMatchKind::In(sorted(values))
            }
            Predicate::Words(patterns) => ValueMatchKind::Words {
                matchers: patterns
                    .iter()
                    .map(|p| WordMatcher::new(field, p, false))
                    .collect::<Result<_, _>>()?,
                analyzer: analyzer(),
            },
            Predicate::WordIn(words) => ValueMatchKind::WordIn { words: sorted(words), analyzer: analyzer() },
            Predicate::Number(range) => ValueMatchKind::Range(*range),
            Predicate::NumberIn(numbers) => ValueMatchKind::NumberIn(ListedNumbers::new(numbers)),
            Predicate::Bool(wanted) => ValueMatchKind::Bool(*wanted),
            Predicate::GeoCircle { latitude, longitude, radius_km } => ValueMatchKind::Circle(GeoCircle {
                latitude: *latitude,
                longitude: *longitude,
                radius_km: *radius_km,
            }),
            Predicate::GeoBox(corners) => ValueMatchKind::Box(GeoBox(*corners)),
            Predicate::Conditions(attributes) => ValueMatchKind::Conditions(attributes.clone()),
            Predicate::Present => ValueMatchKind::Present,
            Predicate::Nearest { .. } => return Ok(None),
        };
        let ascii_word = ascii_word(&kind).filter(|_| folding.is_some()).map(|word| word.as_bytes().into());
        Ok(Some(ValueTest { kind, folding, ascii_word }))
    }

    /// The query's weight of a matching value; 1 if the query gives none. `buffer` is reused, so that many
    /// texts need one allocation.
    pub(crate) fn value(&self, value: &impl NestedValue, buffer: &mut String) -> Option<i32> {
        match value.single() {
            Some(single) => self.single(single, buffer),
            None => self.present(),
        }
    }

    /// Like [`ValueTest::value`].
    #[inline]
    fn single(&self, value: ValueRef<'_>, buffer: &mut String) -> Option<i32> {
        match value {
            ValueRef::Bool(value) => self.truth(value),
            ValueRef::Byte(number) => self.integer(i64::from(number)),
            ValueRef::Int(number) => self.integer(i64::from(number)),
            ValueRef::Long(number) => self.integer(number),
            ValueRef::Float(number) => self.float(f64::from(number)),
            ValueRef::Double(number) => self.float(number),
            ValueRef::String(text) => self.text(text, buffer),
            ValueRef::Position { latitude, longitude } => self.position(latitude, longitude),
            _ => self.present(),
        }
    }

    /// Like [`ValueTest::value`], for a value in its wire form. A text that is not UTF-8 does not match.
    #[inline]
    pub(crate) fn leaf(&self, leaf: &EncodedLeaf<'_>, buffer: &mut String) -> Option<i32> {
        if let (Some(word), Some(text)) = (&self.ascii_word, leaf.text_bytes())
            && text.is_ascii()
        {
            return text.eq_ignore_ascii_case(word).then_some(1);
        }
        self.single(leaf.value()?, buffer)
    }

    /// A regular expression that may be searched in all texts at once, if they are ASCII and need no folding.
    pub(crate) fn free_regex(&self) -> Option<&Regex> {
        match &self.kind {
            ValueMatchKind::Pattern(matcher) => matcher.free_regex(),
            _ => None,
        }
    }

    /// Like [`ValueTest::value`].
    pub(crate) fn text(&self, text: &str, buffer: &mut String) -> Option<i32> {
        match &self.kind {
            ValueMatchKind::Pattern(matcher) => {
                if let Some(word) = &self.ascii_word
                    && text.is_ascii()
                {
                    return text.as_bytes().eq_ignore_ascii_case(word).then_some(1);
                }
                // A regular expression ignores case itself, and ASCII has no accents.
                let matches = match matcher.is_regex() && text.is_ascii() {
                    true => matcher.matches(text),
                    false => matcher.matches(self.folded(text, buffer)),
                };
                matches.then_some(1)
            }
            ValueMatchKind::Conditions(attributes) => attributes.satisfy(text).then_some(1),
            ValueMatchKind::In(values) => weight(values, self.folded(text, buffer)),
            ValueMatchKind::Words { .. } => {
                let mut found = false;
                self.places(text, |_| found = true);
                found.then_some(1)
            }
            ValueMatchKind::WordIn { words, analyzer } => {
                let mut best = None;
                analyzer.tokens(text, |token| best = best.max(weight(words, token.text)));
                best
            }
            _ => self.present(),
        }
    }

    /// Calls `each` with the position of the first word of each occurrence in a text, ascending, for a
    /// predicate on words; nothing for another. Returns the number of words of the text.
    pub(crate) fn places(&self, text: &str, mut each: impl FnMut(u32)) -> u32 {
        let ValueMatchKind::Words { matchers, analyzer } = &self.kind else { return 0 };
        // Number of matched words of each phrase that may have started.
        let (mut begun, mut place) = (Vec::new(), 0);
        analyzer.tokens(text, |token| {
            begun.push(0);
            begun.retain_mut(|words| {
                let goes_on = matchers.get(*words).is_some_and(|next| next.matches_token(&token));
                *words += 1;
                goes_on
            });
            place += 1;
            if !matchers.is_empty() && begun.contains(&matchers.len()) {
                each(place - matchers.len() as u32);
            }
        });
        place
    }

    /// Like [`ValueTest::value`].
    pub(crate) fn integer(&self, number: i64) -> Option<i32> {
        match &self.kind {
            ValueMatchKind::Range(NumberRange::Integer { low, high }) => {
                (*low..=*high).contains(&number).then_some(1)
            }
            ValueMatchKind::Range(_) => self.float(number as f64),
            ValueMatchKind::NumberIn(numbers) => numbers.weight(number),
            _ => self.present(),
        }
    }

    /// Like [`ValueTest::value`]. NaN is in no range.
    pub(crate) fn float(&self, number: f64) -> Option<i32> {
        match &self.kind {
            ValueMatchKind::Range(NumberRange::Integer { low, high }) => {
                (number >= *low as f64 && number <= *high as f64).then_some(1)
            }
            ValueMatchKind::Range(NumberRange::Float { low, low_inclusive, high, high_inclusive }) => {
                let above = number > *low || (*low_inclusive && number == *low);
                let below = number < *high || (*high_inclusive && number == *high);
                (above && below).then_some(1)
            }
            ValueMatchKind::NumberIn(numbers) => numbers.weight_of_float(number),
            _ => self.present(),
        }
    }

    /// Like [`ValueTest::value`].
    pub(crate) fn truth(&self, value: bool) -> Option<i32> {
        match &self.kind {
            ValueMatchKind::Bool(wanted) => (value == *wanted).then_some(1),
            _ => self.integer(i64::from(value)),
        }
    }

    /// The weight if the predicate holds for every existing value.
    pub(crate) fn present(&self) -> Option<i32> {
        matches!(self.kind, ValueMatchKind::Present).then_some(1)
    }

    fn position(&self, latitude: i32, longitude: i32) -> Option<i32> {
        let (latitude, longitude) = (f64::from(latitude) / 1e6, f64::from(longitude) / 1e6);
        match &self.kind {
            ValueMatchKind::Circle(circle) => circle.contains(latitude, longitude).then_some(1),
            ValueMatchKind::Box(geo_box) => geo_box.contains(latitude, longitude).then_some(1),
            _ => self.present(),
        }
    }

    fn folded<'b>(&self, text: &'b str, buffer: &'b mut String) -> &'b str {
        let Some(analyzer) = &self.folding else { return text };
        buffer.clear();
        analyzer.fold_value_into(text, buffer);
        buffer
    }
}

/// The one word of a pattern that stands for itself, if it is of ASCII.
fn ascii_word(kind: &ValueMatchKind) -> Option<&str> {
    let ValueMatchKind::Pattern(matcher) = kind else { return None };
    match matcher.stems() {
        Some([word]) if matcher.written().is_none() && word.is_ascii() => Some(word),
        _ => None,
    }
}

/// The greatest weight given to a word; the list is sorted.
fn weight(words: &[(String, i32)], word: &str) -> Option<i32> {
    let after = words.partition_point(|(listed, _)| listed.as_str() <= word);
    words[..after].last().filter(|(listed, _)| listed == word).map(|(_, weight)| *weight)
}

/// Matches of a leaf among all values at the end of its path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueWeights {
    best: Option<i32>,
    product: i64,
}

impl ValueWeights {
    /// Adds a matching value: the query's weight for it, and the document's.
    pub(crate) fn add(&mut self, query: i32, document: i32, listed: bool) {
        self.best = self.best.max(Some(if listed { query } else { document }));
        self.product = self.product.saturating_add(i64::from(query) * i64::from(document));
    }

    /// The weight to report; `None` if the leaf does not match.
    pub(crate) fn weight(self, dot_product_above: Option<f64>) -> Option<i64> {
        match dot_product_above {
            None => self.best.map(i64::from),
            Some(least) => (self.best.is_some() && self.product as f64 > least).then_some(self.product),
        }
    }
}
