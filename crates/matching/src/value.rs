//! Predicates over single values.

use std::sync::OnceLock;

use millrace_document::{EncodedLeafValues, ValueRef};
use millrace_linguistics::{FieldAnalyzer, WordBeginnings};
use millrace_plan::{NumberRange, Predicate, QueryAttributes};
use millrace_tensor::ShortText;
use regex::Regex;

use crate::Error;
use crate::geo::{GeoBox, GeoCircle};
use crate::listed::{ListedNumbers, ListedTexts};
use crate::matched::MatchedValues;
use crate::nested::NestedValue;
use crate::pattern::{WordMatcher, WordShape};
use crate::positions::LongPhrase;
use crate::prefilter::TextPrefilter;
use crate::repeated::RepeatedTexts;
use crate::scan::matching_parts;

/// Number of bytes of texts from which on they are scanned together.
const LINES_MAX: usize = 64 << 10;

/// A prepared predicate over one value.
pub(crate) struct ValueTest {
    kind: ValueMatchKind,
    /// Folds the compared text; `None` if case matters.
    folding: Option<FieldAnalyzer>,
    /// The condition on texts of ASCII, if it is one that ignores case and needs no folding.
    ascii: Option<AsciiCondition>,
    prefilter: Option<TextPrefilter>,
}

enum ValueMatchKind {
    Pattern(WordMatcher),
    In(ListedTexts),
    Words {
        matchers: Vec<WordMatcher>,
        long: Option<LongPhrase>,
        analyzer: FieldAnalyzer,
        /// Those of the matchers' words, made for the first text: most conditions look words up elsewhere.
        beginnings: OnceLock<Box<WordBeginnings>>,
    },
    WordIn {
        words: ListedTexts,
        analyzer: FieldAnalyzer,
    },
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
        let mut folding = None;
        let kind = match predicate {
            Predicate::Value { pattern, cased } => {
                folding = (!cased).then(&analyzer);
                ValueMatchKind::Pattern(WordMatcher::with_case(field, pattern, *cased)?)
            }
            Predicate::ValueIn { values, cased } => {
                folding = (!cased).then(&analyzer);
                ValueMatchKind::In(ListedTexts::new(values))
            }
            Predicate::Words(patterns) => {
                let matchers = patterns.iter().map(|pattern| WordMatcher::new(field, pattern));
                let matchers: Vec<WordMatcher> = matchers.collect::<Result<_, _>>()?;
                let long = LongPhrase::new(&matchers);
                ValueMatchKind::Words { matchers, long, analyzer: analyzer(), beginnings: OnceLock::new() }
            }
            Predicate::WordIn(words) => {
                ValueMatchKind::WordIn { words: ListedTexts::new(words), analyzer: analyzer() }
            }
            Predicate::Number(range) => ValueMatchKind::Range(*range),
            Predicate::NumberIn(numbers) => ValueMatchKind::NumberIn(ListedNumbers::new(numbers)),
            Predicate::Bool(wanted) => ValueMatchKind::Bool(*wanted),
            Predicate::GeoCircle { latitude, longitude, radius_km } => {
                ValueMatchKind::Circle(GeoCircle::new(*latitude, *longitude, *radius_km))
            }
            Predicate::GeoBox(corners) => ValueMatchKind::Box(GeoBox(*corners)),
            Predicate::Conditions(attributes) => ValueMatchKind::Conditions(attributes.clone()),
            Predicate::Present => ValueMatchKind::Present,
            Predicate::Nearest { .. } | Predicate::Labeled { .. } => return Ok(None),
        };
        let ascii = match &kind {
            ValueMatchKind::Pattern(matcher) if folding.is_some() => AsciiCondition::new(matcher),
            _ => None,
        };
        let prefilter = match &kind {
            ValueMatchKind::Pattern(matcher) => TextPrefilter::new(matcher, folding.is_none()),
            _ => None,
        };
        Ok(Some(ValueTest { kind, folding, ascii, prefilter }))
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

    /// The values that match. A text that is not UTF-8 does not match.
    pub(crate) fn matched(&self, values: &EncodedLeafValues<'_>) -> MatchedValues {
        match (values, &self.kind) {
            (
                EncodedLeafValues::Integers(numbers),
                ValueMatchKind::Range(NumberRange::Integer { low, high }),
            ) => {
                let (low, high) = (*low, *high);
                MatchedValues::passing(numbers, |number| (low <= *number) & (*number <= high))
            }
            (EncodedLeafValues::Integers(numbers), _) => {
                MatchedValues::weighed(numbers, |number| self.integer(*number))
            }
            (EncodedLeafValues::Floats(numbers), _) => {
                MatchedValues::weighed(numbers, |number| self.float(*number))
            }
            (EncodedLeafValues::Bools(values), _) => {
                MatchedValues::weighed(values, |value| self.truth(*value))
            }
            (EncodedLeafValues::Texts(texts), _) => self.matched_texts(texts),
            (EncodedLeafValues::Raws(values), _) => MatchedValues::weighed(values, |_| self.present()),
            (EncodedLeafValues::Positions(positions), _) => {
                MatchedValues::weighed(positions, |[latitude, longitude]| {
                    self.position(*latitude, *longitude)
                })
            }
        }
    }

    /// The texts that have a match of a regular expression: those of ASCII by scans over many of them, one
    /// after another in lines.
    fn matched_anywhere(&self, regex: &Regex, texts: &[&[u8]], buffer: &mut String) -> MatchedValues {
        let mut matches = vec![false; texts.len()];
        let (mut lines, mut starts, mut of): (Vec<u8>, Vec<usize>, Vec<usize>) = Default::default();
        for (index, text) in texts.iter().enumerate() {
            if is_ascii(text) {
                of.push(index);
                starts.push(lines.len());
                lines.extend_from_slice(text);
                lines.push(b'\n');
            } else if let Ok(text) = std::str::from_utf8(text) {
                matches[index] = self.text(text, buffer).is_some();
            }
            if lines.len() > LINES_MAX || index + 1 == texts.len() {
                let end = |line: usize| starts.get(line + 1).copied().unwrap_or(lines.len()) - 1;
                let part = |line: usize| starts[line]..end(line);
                // All of it is ASCII; it is checked at once.
                if let Ok(all) = std::str::from_utf8(&lines) {
                    matching_parts(regex, all, starts.len(), part, |line| matches[of[line]] = true);
                }
                lines.clear();
                starts.clear();
                of.clear();
            }
        }
        MatchedValues::passing(&matches, |matches| *matches)
    }

    fn matched_texts(&self, texts: &[&[u8]]) -> MatchedValues {
        let mut buffer = String::new();
        if let ValueMatchKind::In(listed) = &self.kind {
            return MatchedValues::weighed(texts, |text| {
                if !listed.may_have(text) {
                    return None;
                }
                match self.short(text) {
                    Some(short) => listed.weight_of_short(short),
                    None => listed.weight(self.folded(std::str::from_utf8(text).ok()?, &mut buffer)),
                }
            });
        }
        self.matched_repeated(texts).unwrap_or_else(|| self.matched_each(texts, &mut buffer))
    }

    /// The texts that match, each tested once; `None` if they hardly repeat, or testing takes little time.
    pub(crate) fn matched_repeated(&self, texts: &[&[u8]]) -> Option<MatchedValues> {
        let is_quick = match &self.kind {
            ValueMatchKind::In(_) => true,
            ValueMatchKind::Pattern(pattern) => self.folding.is_none() && pattern.is_comparison(),
            _ => false,
        };
        if is_quick || self.ascii.is_some() {
            return None;
        }
        let repeated = RepeatedTexts::new(texts)?;
        Some(repeated.matched(&self.matched_each(&repeated.distinct, &mut String::new())))
    }

    /// The texts that match, each tested however often it is there.
    fn matched_each(&self, texts: &[&[u8]], buffer: &mut String) -> MatchedValues {
        if let Some(regex) = self.free_regex() {
            return self.matched_anywhere(regex, texts, buffer);
        }
        let mut general = |text: &[u8]| self.text(std::str::from_utf8(text).ok()?, buffer);
        match &self.ascii {
            None => MatchedValues::weighed(texts, |text| general(text)),
            Some(condition) => MatchedValues::weighed(texts, |text| match condition.matches(text) {
                true => Some(1),
                // Only accents and other letters make a difference to the condition.
                false if is_ascii(text) => None,
                false => general(text),
            }),
        }
    }

    /// The condition on texts of ASCII, which needs no folding.
    pub(crate) fn ascii(&self) -> Option<&AsciiCondition> {
        self.ascii.as_ref()
    }

    /// A search for the documents with texts that can match, for predicates that no other values match.
    pub(crate) fn prefilter(&self) -> Option<&TextPrefilter> {
        self.prefilter.as_ref()
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
                if let Some(condition) = &self.ascii
                    && text.is_ascii()
                {
                    return condition.matches(text.as_bytes()).then_some(1);
                }
                // A regular expression ignores case itself, and ASCII has no accents.
                let matches = match matcher.is_regex() && text.is_ascii() {
                    true => matcher.matches(text),
                    false => matcher.matches(self.folded(text, buffer)),
                };
                matches.then_some(1)
            }
            ValueMatchKind::Conditions(attributes) => attributes.satisfy(text).then_some(1),
            ValueMatchKind::In(listed) if !listed.may_have(text.as_bytes()) => None,
            ValueMatchKind::In(listed) => match self.short(text.as_bytes()) {
                Some(short) => listed.weight_of_short(short),
                None => listed.weight(self.folded(text, buffer)),
            },
            ValueMatchKind::Words { .. } => {
                let mut found = false;
                self.word_positions(text, |_| found = true);
                found.then_some(1)
            }
            ValueMatchKind::WordIn { words, analyzer } => {
                let mut best = None;
                analyzer.tokens(text, |token| best = best.max(words.weight(token.text)));
                best
            }
            _ => self.present(),
        }
    }

    /// Calls `each` with the position of the first word of each occurrence in a text, ascending, for a
    /// predicate on words; nothing for another. Returns the number of words of the text.
    pub(crate) fn word_positions(&self, text: &str, mut each: impl FnMut(u32)) -> u32 {
        let ValueMatchKind::Words { matchers, long, analyzer, beginnings } = &self.kind else { return 0 };
        if let Some(long) = long {
            return long.each_occurrence(text, analyzer, each);
        }
        let beginnings = beginnings.get_or_init(|| Box::new(word_beginnings(matchers, analyzer)));
        // Number of matched words of each phrase that may have started.
        let (mut begun, mut position) = (Vec::new(), 0);
        analyzer.admitted_tokens(text, beginnings, |token| {
            if token.position != position {
                // Words that are passed over match nothing.
                begun.clear();
            }
            begun.push(0);
            begun.retain_mut(|words| {
                let goes_on = matchers.get(*words).is_some_and(|next| next.matches_token(&token));
                *words += 1;
                goes_on
            });
            position = token.position + 1;
            if !matchers.is_empty() && begun.contains(&matchers.len()) {
                each(position - matchers.len() as u32);
            }
        })
    }

    /// The range of numbers, if the predicate is one.
    pub(crate) fn range(&self) -> Option<&NumberRange> {
        match &self.kind {
            ValueMatchKind::Range(range) => Some(range),
            _ => None,
        }
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

    /// The form of a short text that is compared. `None` for a text that is long, or takes more than small
    /// letters.
    #[inline]
    fn short(&self, text: &[u8]) -> Option<ShortText> {
        let short = ShortText::new(text)?;
        // Folding ignores case, and ASCII has no accents.
        if self.folding.is_some() { short.lowercase_ascii() } else { Some(short) }
    }

    fn folded<'b>(&self, text: &'b str, buffer: &'b mut String) -> &'b str {
        let Some(analyzer) = &self.folding else { return text };
        buffer.clear();
        analyzer.fold_value_into(text, buffer);
        buffer
    }
}

/// The beginnings of all words of a phrase.
fn word_beginnings(words: &[WordMatcher], analyzer: &FieldAnalyzer) -> WordBeginnings {
    let stems = words.iter().filter_map(WordMatcher::stems).flatten().map(String::as_str);
    let written = words.iter().filter_map(WordMatcher::written);
    let patterns = words.iter().filter(|word| !word.names_words()).map(WordMatcher::prefix);
    analyzer.beginnings(stems, written.chain(patterns))
}

/// A condition on texts of ASCII without regard to case.
pub(crate) enum AsciiCondition {
    /// Texts that are this word.
    Equal(Box<[u8]>),
    /// Texts that begin with this.
    Prefix(Box<[u8]>),
    /// Texts that end with this.
    Suffix(Box<[u8]>),
}

impl AsciiCondition {
    /// The condition of a pattern for folded texts. `None` if it has another form, or letters beyond ASCII.
    fn new(matcher: &WordMatcher) -> Option<Self> {
        let ascii = |text: &str| text.is_ascii().then(|| text.as_bytes().into());
        match (matcher.stems(), matcher.shape()) {
            (Some([word]), _) if matcher.written().is_none() => ascii(word).map(AsciiCondition::Equal),
            (None, WordShape::Suffix(suffix)) => ascii(suffix).map(AsciiCondition::Suffix),
            (None, WordShape::Other) if matcher.is_prefix() => {
                ascii(matcher.prefix()).map(AsciiCondition::Prefix)
            }
            _ => None,
        }
    }

    /// True for a text of ASCII that matches; false for any text with other letters in the compared part.
    #[inline(always)]
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let part = match self {
            AsciiCondition::Equal(word) => return text.len() == word.len() && equal(text, word),
            AsciiCondition::Prefix(prefix) => text.get(..prefix.len()).zip(Some(prefix)),
            AsciiCondition::Suffix(suffix) => {
                text.len().checked_sub(suffix.len()).map(|start| &text[start..]).zip(Some(suffix))
            }
        };
        part.is_some_and(|(part, wanted)| equal(part, wanted))
    }
}

/// True for a text of ASCII: where it is short, without a loop over its bytes.
#[inline]
fn is_ascii(text: &[u8]) -> bool {
    ShortText::new(text).map_or_else(|| text.is_ascii(), ShortText::is_ascii)
}

/// Equality of texts of one length, without regard to the case of letters of ASCII.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    // Nearly all texts differ, and eight bytes at a time show it.
    let differ = |a: &[u8; 8], b: &[u8; 8]| {
        (u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b)) & !0x2020_2020_2020_2020 != 0
    };
    let starts = a.first_chunk().zip(b.first_chunk());
    let ends = a.last_chunk().zip(b.last_chunk());
    if starts.is_some_and(|(a, b)| differ(a, b)) || ends.is_some_and(|(a, b)| differ(a, b)) {
        return false;
    }
    a.eq_ignore_ascii_case(b)
}

/// Source of the weight that a matching value gives to its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightSource {
    /// None: the field is not a weighted set.
    Unweighted,
    /// The weighted set of the document.
    Stored,
    /// The list of values in the query.
    Listed,
}

impl WeightSource {
    /// The source of a test that has no list of values.
    pub(crate) fn of_field(is_weighted_set: bool) -> Self {
        if is_weighted_set { WeightSource::Stored } else { WeightSource::Unweighted }
    }
}

/// Matches of a leaf among all values at the end of its path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueWeights {
    best: Option<i32>,
    product: i64,
}

impl ValueWeights {
    /// Adds a matching value: the query's weight for it, and the document's.
    pub(crate) fn add(&mut self, query: i32, document: i32, source: WeightSource) {
        let weight = match source {
            WeightSource::Listed => query,
            WeightSource::Stored | WeightSource::Unweighted => document,
        };
        self.best = self.best.max(Some(weight));
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

#[cfg(test)]
mod tests {
    use millrace_document::DataType;
    use millrace_linguistics::{TextLanguage, TextToken};
    use millrace_plan::WordPattern;
    use proptest::prelude::*;

    use super::*;

    /// Words with stems in common, and some that have none in Turkish.
    const WORDS: &[&str] = &["hope", "Hoping", "hopes", "man", "Maan", "café", "leri", "x1", "東"];

    proptest! {
        #[test]
        fn texts_are_scanned_together_as_each_by_itself(
            texts in prop::collection::vec("[abkAÉ\n\u{0}]{0,5}", 0..40),
            pattern in prop::sample::select(vec![
                "ab", "a.*b", "[^a]", "a\\s*b", "(?:a|bb)k", "b+", "\\n", "\\x00", "(?s)a.*b", "(?s)a.", "(?m)^b$", "^a",
                "a$", "\\bb", "k*",
            ]),
            cased in any::<bool>(),
            (length, times) in prop::sample::select(vec![(0, 1), (10_000, 1), (0, 9)]),
        ) {
            let matching = millrace_fixtures::field("f", DataType::String, false).matching;
            let analyzer = || FieldAnalyzer::new(&matching, TextLanguage::Unknown);
            let predicate = Predicate::Value { pattern: WordPattern::Regex(pattern.to_owned()), cased };
            let test = ValueTest::new("f", &predicate, analyzer).expect("it is valid").expect("it is on values");
            let texts: Vec<String> = texts.iter().map(|text| "x".repeat(length) + text).collect();
            // Where they repeat, each is tested once.
            let texts: Vec<&String> = (0..times).flat_map(|_| &texts).collect();
            let bytes: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
            let matched = test.matched(&EncodedLeafValues::Texts(bytes));
            let matched: Vec<usize> = matched.iter().map(|value| value.index).collect();
            let mut buffer = String::new();
            let alone = texts.iter().enumerate().filter(|(_, text)| test.text(text, &mut buffer).is_some());
            prop_assert_eq!(matched, alone.map(|(index, _)| index).collect::<Vec<_>>(), "{}", pattern);
        }

        #[test]
        fn words_that_are_passed_over_change_no_positions(
            tag in prop::sample::select(vec!["en", "fi", "nl", "tr", "ja"]),
            phrase in prop::collection::vec((0usize..5, prop::sample::select(WORDS.to_vec())), 1..4),
            text in prop::collection::vec(
                (prop::sample::select(WORDS.to_vec()), prop::sample::select(vec![" ", ", ", "-", "é ", "—"])),
                0..30,
            ),
        ) {
            let analyzer = || FieldAnalyzer::text(TextLanguage::from_tag(tag));
            let tokens = |text: &str| {
                let mut tokens: Vec<(String, String)> = Vec::new();
                analyzer().tokens(text, |token| tokens.push((token.written.to_owned(), token.text.to_owned())));
                tokens
            };
            let pattern = |&(kind, word): &(usize, &str)| {
                let (written, stem) = tokens(word).pop()?;
                Some(match kind {
                    0 => WordPattern::Exact(stem),
                    1 => WordPattern::Written(written),
                    2 => WordPattern::Word { written, stems: vec![stem] },
                    3 => WordPattern::Prefix(written.chars().take(2).collect()),
                    _ => WordPattern::Suffix(written.chars().skip(1).collect()),
                })
            };
            let patterns: Vec<WordPattern> = phrase.iter().filter_map(pattern).collect();
            prop_assume!(!patterns.is_empty());
            let matchers = patterns.iter().map(|pattern| WordMatcher::new("f", pattern).expect("it is valid"));
            let matchers: Vec<WordMatcher> = matchers.collect();
            let predicate = Predicate::Words(patterns);
            let test = ValueTest::new("f", &predicate, analyzer).expect("it is valid").expect("it is on values");
            let text: String = text.iter().flat_map(|(word, gap)| [*word, *gap]).collect();
            let all = tokens(&text);
            let fits = |(matcher, (written, stem)): (&WordMatcher, &(String, String))| {
                matcher.matches_token(&TextToken { text: stem, written, range: 0..0, position: 0 })
            };
            let starts = all.windows(matchers.len()).enumerate();
            let starts = starts.filter(|(_, tokens)| matchers.iter().zip(*tokens).all(fits));
            let expected: Vec<usize> = starts.map(|(start, _)| start).collect();
            let mut found = Vec::new();
            let count = test.word_positions(&text, |position| found.push(position as usize));
            prop_assert_eq!((found, count as usize), (expected, all.len()), "{:?}: {}", predicate, text);
        }
    }
}
