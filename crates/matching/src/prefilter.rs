//! Documents that can match a condition on texts, also on those inside nested values, found by their bytes.

use millrace_column::BytesColumn;

use crate::bits::DocumentBits;
use crate::kernels::{NeedleAnchors, begins_wide};
use crate::pattern::{WordMatcher, WordShape};

/// A byte string that lies in every text for which a condition holds.
///
/// Texts lie in a column, and in the wire form of collections and structs, as they are. So one search through
/// the bytes of all documents of a chunk leaves the few whose values are worth reading.
#[derive(Debug)]
pub(crate) struct TextPrefilter {
    needle: Box<[u8]>,
    cased: bool,
    anchors: NeedleAnchors,
}

impl TextPrefilter {
    /// The prefilter of a condition on whole texts; without `cased`, on folded ones. `None` if matching texts
    /// have no common part of at least two bytes, or one with letters beyond ASCII that have many forms.
    pub(crate) fn new(matcher: &WordMatcher, cased: bool) -> Option<Self> {
        let needle = match (matcher.stems(), matcher.shape()) {
            (Some([word]), _) if matcher.written().is_none() => word.as_bytes(),
            (Some(_), _) | (None, WordShape::Fuzzy(_)) => return None,
            (None, WordShape::Suffix(part) | WordShape::Substring(part)) => part.as_bytes(),
            (None, WordShape::Other) if matcher.is_prefix() => matcher.prefix().as_bytes(),
            (None, WordShape::Other) => matcher.required_part()?,
        };
        if !cased && !needle.is_ascii() {
            return None;
        }
        let needle: Box<[u8]> = needle.into();
        let anchors = NeedleAnchors::new(&needle, cased)?;
        Some(TextPrefilter { needle, cased, anchors })
    }

    /// Positions in the bytes of a chunk where the needle is in a text that can match, ascending. `None`
    /// where so few documents are left in `within` that reading their values costs less than a search through
    /// the whole chunk.
    pub(crate) fn places(&self, values: &BytesColumn, within: &DocumentBits) -> Option<Vec<u32>> {
        if is_few(values, within) {
            return None;
        }
        let (data, mut found) = (values.data(), Vec::new());
        self.anchors.find(data, &mut found);
        found.retain(|at| self.can_match(data, *at as usize));
        Some(found)
    }

    /// The documents of `within` that can match; all of them where [`TextPrefilter::places`] has none.
    pub(crate) fn narrow(&self, values: &BytesColumn, within: &DocumentBits) -> DocumentBits {
        if is_few(values, within) {
            return *within;
        }
        let (data, offsets) = (values.data(), values.offsets());
        let mut found = Vec::new();
        self.anchors.find(data, &mut found);
        let (mut candidates, mut document, mut from) = (DocumentBits::NONE, 0, 0);
        for at in found {
            // A document is a candidate once.
            if at < from || !self.can_match(data, at as usize) {
                continue;
            }
            document += offsets[document + 1..].partition_point(|end| *end <= at);
            candidates.set(document);
            from = offsets[document + 1];
        }
        candidates.and(within)
    }

    /// True if the needle is at a position, or a character with other forms of its letters begins there.
    fn can_match(&self, data: &[u8], at: usize) -> bool {
        let part = data[at..].get(..self.needle.len());
        match self.cased {
            true => part == Some(&self.needle),
            false => {
                part.is_some_and(|part| part.eq_ignore_ascii_case(&self.needle))
                    || data.get(at + 1).is_some_and(|next| begins_wide(data[at], *next))
            }
        }
    }
}

/// True if reading the values of some documents costs less than a search through all bytes of the chunk.
fn is_few(values: &BytesColumn, within: &DocumentBits) -> bool {
    within.count() * 4 < values.len()
}

/// The documents in whose bytes any of these places lies; `offsets` are those of their column.
pub(crate) fn documents_at(places: &[u32], offsets: &[u32]) -> DocumentBits {
    let (mut documents, mut document) = (DocumentBits::NONE, 0);
    for at in places {
        while offsets[document + 1] <= *at {
            document += 1;
        }
        documents.set(document);
    }
    documents
}

/// Indices of the texts in which any of these places of `data` lies, and of those that do not lie in `data`.
pub(crate) fn texts_at(places: &[u32], data: &[u8], texts: &[&[u8]]) -> Vec<usize> {
    let (base, mut next, mut before) = (data.as_ptr().addr(), 0, 0);
    let mut has_place = |text: &[u8]| {
        let start = text.as_ptr().addr().checked_sub(base).filter(|start| *start < data.len());
        let Some(start) = start else { return true };
        if start < before {
            // Texts of a column ascend; others are found, too.
            next = 0;
        }
        before = start;
        while places.get(next).is_some_and(|at| (*at as usize) < start) {
            next += 1;
        }
        places.get(next).is_some_and(|at| (*at as usize) < start + text.len())
    };
    texts.iter().enumerate().filter(|(_, text)| has_place(text)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use millrace_column::{Column, ValueBuilder};
    use millrace_document::{DataType, DocumentValue};
    use millrace_linguistics::{FieldAnalyzer, TextLanguage};
    use millrace_plan::{Predicate, WordPattern};
    use proptest::prelude::*;

    use super::*;
    use crate::value::ValueTest;

    #[test]
    fn texts_are_those_with_a_place() {
        let (data, elsewhere) = (b"one two  three", b"four");
        let texts = [&data[0..3], &data[4..7], &elsewhere[..], &data[9..14], &data[0..3]];
        assert_eq!(texts_at(&[2, 8, 9], data, &texts), [0, 2, 3, 4]);
        assert_eq!(texts_at(&[3, 7, 14], data, &texts), [2]);
        assert_eq!(documents_at(&[2, 8, 9], &[0, 3, 3, 8, 9, 14]).rows(), [0, 3, 4]);
    }

    /// Texts of letters with several forms: upper case, accents, and the sign for Kelvin.
    fn text(length: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let letter = prop::sample::select(vec!['a', 'A', 'e', 'É', 'é', 'k', '\u{212A}', '7', ' ']);
        prop::collection::vec(letter, length).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn no_document_with_a_matching_text_is_left_out(
            documents in prop::collection::vec(prop::collection::vec((text(0..12), any::<i32>()), 0..4), 1..40),
            part in text(2..4),
            shape in 0..5_usize,
            cased in any::<bool>(),
        ) {
            let data_type = DataType::WeightedSet {
                element: Box::new(DataType::String),
                create_if_nonexistent: false,
                remove_if_zero: false,
            };
            let matching = millrace_fixtures::field("f", data_type.clone(), false).matching;
            let analyzer = || FieldAnalyzer::new(&matching, TextLanguage::Unknown);
            let mut folded = part.clone();
            if !cased {
                folded.clear();
                analyzer().fold_value_into(&part, &mut folded);
            }
            let regex = |part: String| WordPattern::Regex(format!("{part}[a7]?"));
            let shapes: [fn(String) -> WordPattern; 5] = [
                WordPattern::Exact,
                WordPattern::Prefix,
                WordPattern::Suffix,
                WordPattern::Substring,
                regex,
            ];
            let predicate = Predicate::Value { pattern: shapes[shape](folded), cased };
            let test = ValueTest::new("f", &predicate, analyzer).expect("it is valid").expect("it is on values");
            let mut builder = ValueBuilder::new(&data_type);
            for texts in &documents {
                let weighted = texts.iter().map(|(text, weight)| (DocumentValue::String(text.clone()), *weight));
                builder.push(Some(&DocumentValue::WeightedSet(weighted.collect())));
            }
            let Column::Bytes(values) = builder.finish() else { panic!("sets are encoded") };
            let all = DocumentBits::first(documents.len());
            let narrowed = test.prefilter().map_or(all, |prefilter| prefilter.narrow(&values, &all));
            let mut buffer = String::new();
            for (document, texts) in documents.iter().enumerate() {
                let matches = texts.iter().any(|(text, _)| test.text(text, &mut buffer).is_some());
                prop_assert!(!matches || narrowed.get(document), "document {}: {:?}", document, texts);
            }
        }
    }

    #[test]
    fn documents_without_the_text_are_left_out() {
        let mut builder = ValueBuilder::new(&DataType::Array(Box::new(DataType::String)));
        let array = |texts: &[&str]| {
            DocumentValue::Array(texts.iter().map(|text| DocumentValue::String((*text).to_owned())).collect())
        };
        for texts in [&["Tag17", "tag3"][..], &["tag18"], &["tag1", "7"], &[], &["xtag17y"], &["täg17"]] {
            builder.push(Some(&array(texts)));
        }
        let Column::Bytes(values) = builder.finish() else { panic!("arrays are encoded") };
        for (cased, word, within, expected) in [
            (false, "tag17", 6, &[0, 4, 5][..]),
            (true, "tag17", 6, &[4]),
            (true, "Tag17", 6, &[0]),
            // Another document has the bytes, but not among these.
            (true, "xtag17y", 4, &[]),
            // Reading one document costs less than the search.
            (true, "tag17", 1, &[0]),
        ] {
            let matcher = WordMatcher::with_case("f", &WordPattern::Exact(word.to_owned()), cased)
                .expect("it is a word");
            let prefilter = TextPrefilter::new(&matcher, cased).expect("it has two bytes");
            let narrowed = prefilter.narrow(&values, &DocumentBits::first(within));
            assert_eq!(narrowed.iter().collect::<Vec<_>>(), expected, "{word} {cased} {within}");
        }
        let expression = WordPattern::Regex("tag1[78]".to_owned());
        let matcher = WordMatcher::with_case("f", &expression, true).expect("it is an expression");
        let prefilter = TextPrefilter::new(&matcher, true).expect("it has four bytes in all matches");
        let narrowed = prefilter.narrow(&values, &DocumentBits::first(6));
        assert_eq!(narrowed.iter().collect::<Vec<_>>(), [1, 2, 4]);
    }
}
