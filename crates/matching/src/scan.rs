//! Passes over columns with one value for each document.

use std::ops::Range;

use millrace_column::{BytesColumn, Column, FixedColumn};
use millrace_plan::NumberRange;
use regex::Regex;

use crate::bits::DocumentBits;
use crate::value::ValueTest;

/// Documents with the value true.
pub(crate) fn true_documents(column: Option<&Column>) -> DocumentBits {
    let Some(Column::Fixed(column)) = column else { return DocumentBits::NONE };
    MatchingNumbers.over(column.cells::<u8>(), |number| (*number != 0).then_some(1)).and(&present(column))
}

/// A pass over one number per document, without decoding.
trait NumberPass {
    type Found;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> Self::Found;
}

/// Runs a pass over the cells of a column.
fn pass_over<P: NumberPass>(pass: P, test: &ValueTest, column: &FixedColumn) -> P::Found {
    use millrace_column::CellKind;
    match column.cell() {
        CellKind::Bool => pass.over(column.cells::<u8>(), |number| test.truth(*number != 0)),
        CellKind::I8 => pass.over(column.cells::<i8>(), |number| test.integer(i64::from(*number))),
        CellKind::I32 => pass.over(column.cells::<i32>(), |number| test.integer(i64::from(*number))),
        CellKind::I64 => pass.over(column.cells::<i64>(), |number| test.integer(*number)),
        CellKind::U64 => pass
            .over(column.cells::<u64>(), |number| test.integer(i64::try_from(*number).unwrap_or(i64::MAX))),
        CellKind::F32 => pass.over(column.cells::<f32>(), |number| test.float(f64::from(*number))),
        CellKind::F64 => pass.over(column.cells::<f64>(), |number| test.float(*number)),
        CellKind::BF16 => pass.over(column.cells::<half::bf16>(), |number| test.float(number.to_f64())),
    }
}

/// Pass for the documents whose number matches.
struct MatchingNumbers;

impl NumberPass for MatchingNumbers {
    type Found = DocumentBits;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> DocumentBits {
        let mut bits = DocumentBits::NONE;
        for (index, block) in numbers.chunks(64).enumerate() {
            let word = block
                .iter()
                .enumerate()
                .fold(0, |word, (bit, number)| word | u64::from(test(number).is_some()) << bit);
            bits.set_word(index, word);
        }
        bits
    }
}

/// Pass for the query's weights of the numbers of some documents.
struct NumberWeights<'b>(&'b DocumentBits);

impl NumberPass for NumberWeights<'_> {
    type Found = Vec<(u16, i64)>;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> Vec<(u16, i64)> {
        let weight = |document: usize| Some((document as u16, i64::from(test(numbers.get(document)?)?)));
        self.0.iter().filter_map(weight).collect()
    }
}

/// Pass for the documents whose number is in a range.
fn in_range(range: &NumberRange, column: &FixedColumn) -> DocumentBits {
    use millrace_column::CellKind;
    let closed = ClosedRange::new(range);
    match column.cell() {
        CellKind::Bool => integers(range, column.cells::<u8>(), |number| i64::from(*number != 0)),
        CellKind::I8 => integers(range, column.cells::<i8>(), |number| i64::from(*number)),
        CellKind::I32 => match range {
            // Numbers of 32 bits are compared as such, twice as many at a time.
            NumberRange::Integer { low, high } => {
                let bound = |bound: i64| bound.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                if *low > i32::MAX.into() || *high < i32::MIN.into() {
                    return DocumentBits::NONE;
                }
                let (low, high) = (bound(*low), bound(*high));
                marked(column.cells::<i32>(), |number| (*number >= low) & (*number <= high))
            }
            NumberRange::Float { .. } => integers(range, column.cells::<i32>(), |number| i64::from(*number)),
        },
        CellKind::I64 => integers(range, column.cells::<i64>(), |number| *number),
        CellKind::U64 => {
            integers(range, column.cells::<u64>(), |number| i64::try_from(*number).unwrap_or(i64::MAX))
        }
        CellKind::F32 => marked(column.cells::<f32>(), |number| closed.contains(f64::from(*number))),
        CellKind::F64 => marked(column.cells::<f64>(), |number| closed.contains(*number)),
        CellKind::BF16 => marked(column.cells::<half::bf16>(), |number| closed.contains(number.to_f64())),
    }
}

fn integers<T>(range: &NumberRange, numbers: &[T], widened: impl Fn(&T) -> i64) -> DocumentBits {
    match range {
        NumberRange::Integer { low, high } => {
            let (low, high) = (*low, *high);
            marked(numbers, |number| (widened(number) >= low) & (widened(number) <= high))
        }
        NumberRange::Float { .. } => {
            let closed = ClosedRange::new(range);
            marked(numbers, |number| closed.contains(widened(number) as f64))
        }
    }
}

/// Range of floats with both bounds in it.
#[derive(Clone, Copy)]
struct ClosedRange {
    low: f64,
    high: f64,
}

impl ClosedRange {
    fn new(range: &NumberRange) -> Self {
        match *range {
            NumberRange::Integer { low, high } => ClosedRange { low: low as f64, high: high as f64 },
            NumberRange::Float { low, low_inclusive, high, high_inclusive } => {
                // No number is above infinity: then nothing is in the range, as with a bound that is NaN.
                let above = if low == f64::INFINITY { f64::NAN } else { low.next_up() };
                let below = if high == f64::NEG_INFINITY { f64::NAN } else { high.next_down() };
                ClosedRange {
                    low: if low_inclusive { low } else { above },
                    high: if high_inclusive { high } else { below },
                }
            }
        }
    }

    /// False for NaN.
    fn contains(self, number: f64) -> bool {
        (number >= self.low) & (number <= self.high)
    }
}

/// Numbers that hold, as bits. The loop over a block has no branch and makes a byte of each number, so that
/// it is compiled to vector instructions.
pub(crate) fn marked<T>(numbers: &[T], holds: impl Fn(&T) -> bool) -> DocumentBits {
    let mut bits = DocumentBits::NONE;
    for (index, block) in numbers.chunks(64).enumerate() {
        let mut marks = [0_u8; 64];
        for (mark, number) in marks.iter_mut().zip(block) {
            *mark = u8::from(holds(number));
        }
        let mut word = 0;
        for (at, eight) in marks.as_chunks::<8>().0.iter().enumerate() {
            // The product moves the lowest bit of each byte to its place in the highest byte.
            let packed = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            word |= packed << (at * 8);
        }
        bits.set_word(index, word);
    }
    bits
}

/// Documents whose number matches.
pub(crate) fn numbers(test: &ValueTest, column: &FixedColumn, within: &DocumentBits) -> DocumentBits {
    let matching = match test.range() {
        Some(range) => in_range(range, column),
        None => pass_over(MatchingNumbers, test, column),
    };
    matching.and(&present(column).and(within))
}

/// The query's weights of the numbers that match.
pub(crate) fn number_weights(
    test: &ValueTest,
    column: &FixedColumn,
    within: &DocumentBits,
) -> Vec<(u16, i64)> {
    pass_over(NumberWeights(&present(column).and(within)), test, column)
}

fn present(column: &FixedColumn) -> DocumentBits {
    DocumentBits::from_words(column.presence().words())
}

/// Texts of a column with one for each document.
struct ColumnTexts<'c> {
    column: &'c BytesColumn,
    /// All texts, one after another. `None` if few of them are read: a compressed column is not decompressed
    /// as a whole for these. Also where not all is UTF-8, which is nearly never so.
    all: Option<&'c str>,
}

impl<'c> ColumnTexts<'c> {
    /// The texts of a column, of which those of `documents` are read.
    fn new(column: &'c BytesColumn, documents: &DocumentBits) -> Self {
        /// Number of texts that are checked together in the time of one that is checked alone.
        const TOGETHER: usize = 8;
        let reads_most = documents.count() * TOGETHER >= column.len();
        // One check for all values instead of one for each.
        let all = if reads_most { std::str::from_utf8(column.data()).ok() } else { None };
        ColumnTexts { column, all }
    }

    /// All texts, if they are ASCII and most are read.
    fn ascii(&self) -> Option<&'c str> {
        self.all.filter(|all| all.is_ascii())
    }

    /// Text of a document that has one.
    fn get(&self, document: usize) -> Option<&'c str> {
        match self.all {
            Some(all) => {
                let offsets = self.column.offsets();
                all.get(offsets[document] as usize..offsets[document + 1] as usize)
            }
            None => std::str::from_utf8(self.column.get(document)?).ok(),
        }
    }
}

/// Documents whose text matches as a whole.
pub(crate) fn texts(test: &ValueTest, column: &BytesColumn, within: &DocumentBits) -> DocumentBits {
    let mut bits = DocumentBits::NONE;
    let mut buffer = String::new();
    let present = DocumentBits::from_words(column.presence().words()).and(within);
    let (texts, offsets) = (ColumnTexts::new(column, &present), column.offsets());
    if let Some((condition, all)) = test.ascii().zip(texts.ascii()) {
        for document in present.iter() {
            let text = &all.as_bytes()[offsets[document] as usize..offsets[document + 1] as usize];
            if condition.matches(text) {
                bits.set(document);
            }
        }
        return bits;
    }
    if texts.all.is_some() {
        let text = |document: usize| Some((document, texts.get(document)?.as_bytes()));
        let (documents, values): (Vec<usize>, Vec<&[u8]>) = present.iter().filter_map(text).unzip();
        if let Some(matched) = test.matched_repeated(&values) {
            matched.iter().for_each(|value| bits.set(documents[value.index]));
            return bits;
        }
    }
    if let Some((regex, all)) = test.free_regex().zip(texts.ascii()) {
        return anywhere(regex, all, offsets).and(&present);
    }
    let candidates = match test.prefilter() {
        Some(prefilter) if texts.all.is_some() => prefilter.narrow(column, &present),
        _ => present,
    };
    for document in candidates.iter() {
        if texts.get(document).is_some_and(|text| test.text(text, &mut buffer).is_some()) {
            bits.set(document);
        }
    }
    bits
}

/// The query's weights of the texts that match as a whole.
pub(crate) fn text_weights(test: &ValueTest, column: &BytesColumn, within: &DocumentBits) -> Vec<(u16, i64)> {
    let present = DocumentBits::from_words(column.presence().words()).and(within);
    let (texts, mut buffer) = (ColumnTexts::new(column, &present), String::new());
    let weight =
        |document: usize| Some((document as u16, i64::from(test.text(texts.get(document)?, &mut buffer)?)));
    present.iter().filter_map(weight).collect()
}

/// Documents whose part of a text matches a regular expression, by one scan over all of them.
fn anywhere(regex: &Regex, all: &str, offsets: &[u32]) -> DocumentBits {
    let mut bits = DocumentBits::NONE;
    let part = |document: usize| offsets[document] as usize..offsets[document + 1] as usize;
    matching_parts(regex, all, offsets.len() - 1, part, |document| bits.set(document));
    bits
}

/// Calls `each` with the parts of a text that have a match of a regular expression, by one scan over all of
/// them. `part` returns where each of the `count` parts lies, ascending. A match must not be empty, nor
/// depend on the text around it.
pub(crate) fn matching_parts(
    regex: &Regex,
    all: &str,
    count: usize,
    part: impl Fn(usize) -> Range<usize>,
    mut each: impl FnMut(usize),
) {
    let (mut from, mut at) = (0, 0);
    while let Some(found) = regex.find_at(all, from) {
        while at + 1 < count && part(at + 1).start <= found.start() {
            at += 1;
        }
        // A match that extends into the next part does not count; this part may have another one that ends
        // earlier.
        loop {
            let here = part(at);
            let inside = here.start <= found.start() && found.end() <= here.end;
            if inside || regex.is_match(&all[here]) {
                each(at);
            }
            at += 1;
            if at >= count || part(at).start >= found.end() {
                break;
            }
        }
        if at >= count {
            break;
        }
        from = part(at).start;
    }
}

#[cfg(test)]
mod tests {
    use millrace_column::{BytesBuilder, CellKind, FixedBuilder, FixedColumn};
    use millrace_document::DataType;
    use millrace_linguistics::{FieldAnalyzer, TextLanguage};
    use millrace_plan::{NumberRange, Predicate, WordPattern};
    use proptest::prelude::*;

    use super::{ClosedRange, integers, marked, number_weights, numbers};
    use crate::bits::DocumentBits;
    use crate::value::ValueTest;

    /// A column of 150 cells: small numbers of either sign, the ends of the type, and some that are absent.
    fn column(kind: CellKind) -> FixedColumn {
        let mut column = FixedBuilder::new(kind, 1);
        for row in 0..150_i32 {
            let small = row % 11 - 5;
            let pick = |low: f64, high: f64| match row % 13 {
                0 => low,
                1 => high,
                2 => f64::NAN,
                _ => f64::from(small) / 2.0,
            };
            let floats = (pick(f64::MIN, f64::MAX), pick(f64::NEG_INFINITY, f64::INFINITY));
            match kind {
                _ if row % 7 == 3 => column.push_absent(),
                CellKind::Bool => column.push(&[(row % 2) as u8]),
                CellKind::I8 => column.push(&(pick(-128.0, 127.0) as i8).to_le_bytes()),
                CellKind::I32 => column.push(&(pick(-3e9, 3e9) as i32).to_le_bytes()),
                CellKind::I64 => column.push(&(pick(-1e19, 1e19) as i64).to_le_bytes()),
                CellKind::U64 => column.push(&(pick(0.0, 2e19) as u64).to_le_bytes()),
                CellKind::BF16 => column.push(&half::bf16::from_f64(floats.1).to_le_bytes()),
                CellKind::F32 => column.push(&(floats.1 as f32).to_le_bytes()),
                CellKind::F64 => column.push(&floats.0.to_le_bytes()),
            }
        }
        column.finish()
    }

    /// Conditions on whole texts, and expressions that depend on the text around a match, or go over lines.
    fn patterns() -> Vec<WordPattern> {
        let shapes: [fn(String) -> WordPattern; 4] =
            [WordPattern::Exact, WordPattern::Prefix, WordPattern::Suffix, WordPattern::Substring];
        let words = ["ab", "kb", "b"].into_iter().flat_map(|word| shapes.map(|shape| shape(word.to_owned())));
        let expressions = [
            "ab", "a.*b", "(?s)a.*b", "(?s)a.+", "[^a]b", "[^k]*b", "a\\s*b", "\\n", "\\x00", "^ab", "ab$",
            "^ab$", "(?m)^ab$", "\\bab\\b", "a\\B", "kb|ab", "b*",
        ];
        words.chain(expressions.map(|text| WordPattern::Regex(text.to_owned()))).collect()
    }

    proptest! {
        #[test]
        fn texts_of_a_column_match_as_each_by_itself(
            texts in prop::collection::vec(prop::option::of("[abkAÉ\u{212A}\n\u{0}]{0,5}"), 1..80),
            is_ascii in any::<bool>(),
            pattern in prop::sample::select(patterns()),
            cased in any::<bool>(),
            part in prop::sample::select(vec![1, 2, 16]),
            times in prop::sample::select(vec![1, 10]),
        ) {
            // Where they repeat, each is tested once.
            let mut texts: Vec<Option<String>> = (0..times).flat_map(|_| texts.iter().cloned()).collect();
            if is_ascii {
                texts.iter_mut().flatten().for_each(|text| text.retain(|c| c.is_ascii()));
            }
            let matching = millrace_fixtures::field("f", DataType::String, false).matching;
            let analyzer = || FieldAnalyzer::new(&matching, TextLanguage::Unknown);
            let predicate = Predicate::Value { pattern: pattern.clone(), cased };
            let test = ValueTest::new("f", &predicate, analyzer).expect("it is valid").expect("it is on values");
            let mut column = BytesBuilder::new();
            texts.iter().for_each(|text| column.push(text.as_deref().map(str::as_bytes)));
            let within = texts.len() / part;
            let found = super::texts(&test, &column.finish(), &DocumentBits::first(within));
            let mut buffer = String::new();
            let mut matches = |text: &Option<String>| {
                text.as_ref().is_some_and(|text| test.text(text, &mut buffer).is_some())
            };
            let alone: Vec<usize> = (0..within).filter(|at| matches(&texts[*at])).collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), alone, "{:?} in {:?}", pattern, texts);
        }
    }

    #[test]
    fn each_kind_of_cell_is_in_a_range_as_each_number_by_itself() {
        let ends =
            [i64::MIN, i64::from(i32::MIN) - 1, -128, -2, 0, 1, 127, i64::from(i32::MAX) + 1, i64::MAX];
        let pairs = ends.into_iter().flat_map(|low| ends.map(|high| (low, high)));
        let mut ranges: Vec<NumberRange> =
            pairs.clone().map(|(low, high)| NumberRange::Integer { low, high }).collect();
        for (low, high) in pairs {
            for (low_inclusive, high_inclusive) in [(false, true), (true, false)] {
                let (low, high) = (low as f64 / 2.0, high as f64 / 2.0);
                ranges.push(NumberRange::Float { low, low_inclusive, high, high_inclusive });
            }
        }
        for kind in CellKind::ALL {
            let (column, all) = (column(kind), DocumentBits::first(150));
            for range in &ranges {
                let analyzer = || unreachable!("numbers are not analyzed");
                let test = ValueTest::new("number", &Predicate::Number(*range), analyzer)
                    .expect("the range is valid")
                    .expect("a range is about single values");
                let alone = number_weights(&test, &column, &all);
                let alone: Vec<usize> = alone.into_iter().map(|(row, _)| usize::from(row)).collect();
                let together: Vec<usize> = numbers(&test, &column, &all).iter().collect();
                assert_eq!(together, alone, "{kind:?} {range:?}");
            }
        }
    }

    #[test]
    fn a_closed_range_has_the_numbers_of_its_range() {
        let numbers =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::MAX, f64::INFINITY];
        for (low, high) in numbers.iter().flat_map(|low| numbers.map(|high| (*low, high))) {
            for (low_inclusive, high_inclusive) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let range = NumberRange::Float { low, low_inclusive, high, high_inclusive };
                let closed = ClosedRange::new(&range);
                for number in numbers.into_iter().chain([f64::NAN]) {
                    let above = number > low || low_inclusive && number == low;
                    let below = number < high || high_inclusive && number == high;
                    assert_eq!(closed.contains(number), above && below, "{number} in {range:?}");
                }
            }
        }
    }

    #[test]
    fn marks_are_at_the_places_of_their_numbers() {
        let numbers: Vec<i64> = (0..200).map(|at| at * 37 % 101).collect();
        for length in [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 200] {
            for (low, high) in [(0, 100), (50, 50), (20, 70), (101, 200), (i64::MIN, i64::MAX)] {
                let range = NumberRange::Integer { low, high };
                let found = integers(&range, &numbers[..length], |number| *number);
                let expected: Vec<usize> =
                    (0..length).filter(|at| (low..=high).contains(&numbers[*at])).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{length} {range:?}");
            }
        }
        assert_eq!(marked(&[true; 65], |mark| *mark).count(), 65);
    }
}
