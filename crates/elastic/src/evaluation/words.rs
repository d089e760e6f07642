//! Words of texts, and the words of a match in them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::{SearchedDocument, SearchedPath};
use crate::Error;
use crate::analyzers::IndexAnalyzers;
use crate::fields::each_at;
use crate::query::{MatchOptions, text_of};
use crate::query_terms::WORDS_MAX;
use crate::text_division::{TextDivision, TextWords};

/// Words of the texts of one document, which are split once for all clauses of a query.
#[derive(Default)]
pub(crate) struct SearchedWords {
    by_division: RefCell<HashMap<TextDivision, HashMap<String, Rc<PathWords>>>>,
    /// Number of the words that analyzers with steps have made.
    made: Cell<usize>,
}

impl SearchedWords {
    /// Words of the texts at a source path of the document, always the same one, by their division.
    pub(super) fn at(
        &self,
        source: &Map<String, Value>,
        source_path: &str,
        by: &TextDivision,
    ) -> Rc<PathWords> {
        let mut known = self.by_division.borrow_mut();
        let by_path = known.entry(by.clone()).or_default();
        if let Some(words) = by_path.get(source_path) {
            return Rc::clone(words);
        }
        let mut texts = Vec::new();
        let is_made = matches!(by, TextDivision::Steps(_));
        each_at(source, source_path, &mut |value| {
            let made = self.made.get();
            if made < by.words_max() {
                let words = by.words(&text_of(value));
                self.made.set(made + if is_made { words.count() } else { 0 });
                texts.push(words);
            }
        });
        let words = Rc::new(PathWords { texts, passes: Cell::new(0), counts: OnceCell::new() });
        by_path.insert(source_path.to_owned(), Rc::clone(&words));
        words
    }
}

/// Times that all words are gone through for one of them, after which they are counted: a query may have
/// thousands of words.
const PASSES_MAX: usize = 8;

/// Words of the texts at one source path of a document.
pub(super) struct PathWords {
    texts: Vec<TextWords>,
    /// Number of times that all words were gone through.
    passes: Cell<usize>,
    /// Number of each word.
    counts: OnceCell<HashMap<String, usize>>,
}

impl PathWords {
    /// Number of all words.
    pub(super) fn length(&self) -> usize {
        self.texts.iter().map(TextWords::count).sum()
    }

    /// Number of occurrences of a word.
    pub(super) fn count(&self, wanted: &str) -> usize {
        let passes = self.passes.replace(self.passes.get() + 1);
        if passes < PASSES_MAX {
            return self.texts.iter().flat_map(TextWords::iter).filter(|word| *word == wanted).count();
        }
        self.counts().get(wanted).copied().unwrap_or_default()
    }

    /// Number of occurrences of the words that pass a test.
    pub(super) fn count_of(&self, test: impl Fn(&str) -> bool) -> usize {
        self.counts().iter().filter(|(word, _)| test(word)).map(|(_, count)| count).sum()
    }

    /// True if any word passes a test.
    pub(super) fn any(&self, test: &mut impl FnMut(&str) -> bool) -> bool {
        self.texts.iter().flat_map(TextWords::iter).any(|word| test(word))
    }

    /// True if a phrase is in one of the texts, its words moved by up to `slop` places.
    pub(super) fn has_phrase(
        &self,
        wanted: &TextWords,
        slop: usize,
        fits: &impl Fn(usize, &[String]) -> bool,
    ) -> bool {
        self.texts.iter().any(|words| phrases(words, wanted, slop, fits).next().is_some())
    }

    fn counts(&self) -> &HashMap<String, usize> {
        self.counts.get_or_init(|| {
            let mut counts = HashMap::new();
            for word in self.texts.iter().flat_map(TextWords::iter) {
                match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => _ = counts.insert(word.clone(), 1),
                }
            }
            counts
        })
    }
}

/// Words of a text as they are searched: lower case, split at what is neither letter nor number.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    word_spans(text).into_iter().map(|span| text[span].to_lowercase()).collect()
}

/// Places of the words of a text.
pub(crate) fn word_spans(text: &str) -> Vec<Range<usize>> {
    let is_inner = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '\'';
    let (mut spans, mut begin) = (Vec::new(), None);
    for (at, letter) in text.char_indices() {
        match begin {
            None if is_inner(letter) || letter == '.' => begin = Some(at),
            Some(from) if !is_inner(letter) && letter != '.' => {
                add_words(text, from..at, &mut spans);
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(from) = begin {
        add_words(text, from..text.len(), &mut spans);
    }
    spans
}

/// Adds the words of a part of a text that has letters, numbers and dots.
fn add_words(text: &str, part: Range<usize>, spans: &mut Vec<Range<usize>>) {
    let trimmed = text[part.clone()].trim_start_matches('.');
    let mut from = part.end - trimmed.len();
    let end = from + trimmed.trim_end_matches('.').len();
    while let Some(at) = text[from..end].find('.').map(|at| from + at) {
        // A dot stays between two digits, as in 1.5.
        let is_number = text[from..at].ends_with(|letter: char| letter.is_ascii_digit())
            && text[at + 1..].starts_with(|letter: char| letter.is_ascii_digit());
        if is_number {
            break;
        }
        if from < at {
            spans.push(from..at);
        }
        from = at + 1;
    }
    if from < end {
        spans.push(from..end);
    }
}

impl MatchOptions {
    /// Division of the text of a match in a field.
    pub(crate) fn division(
        &self,
        analyzers: &IndexAnalyzers,
        definition: &Map<String, Value>,
    ) -> TextDivision {
        let named = self.analyzer.as_deref().and_then(|name| analyzers.named(name));
        named.unwrap_or_else(|| match self.is_phrase {
            true => analyzers.of_phrases(definition),
            false => analyzers.of_search(definition),
        })
    }

    /// True if only the words themselves fit at a position of those that are wanted.
    pub(super) fn is_exact(&self, wanted: &TextWords, at: usize) -> bool {
        self.fuzziness.is_none() && !(self.is_prefix && at + 1 == wanted.len())
    }

    /// True if a word is one of those at a position of the wanted ones.
    pub(crate) fn fits(&self, wanted: &TextWords, at: usize, word: &str) -> bool {
        let is_last = self.is_prefix && at + 1 == wanted.len();
        wanted.at(at).iter().any(|wanted| match (is_last, self.fuzziness) {
            (true, _) => word.starts_with(wanted),
            (false, Some(fuzziness)) => fuzziness.has(word, wanted),
            (false, None) => word == wanted,
        })
    }

    /// True if one of the words at a position of a text is one of those at a position of the wanted ones. Any
    /// are, where an analyzer has left out a wanted one.
    pub(crate) fn fits_any(&self, wanted: &TextWords, at: usize, words: &[String]) -> bool {
        wanted.at(at).is_empty() || words.iter().any(|word| self.fits(wanted, at, word))
    }
}

impl SearchedDocument<'_> {
    /// Score of words in a text field. It grows with the share of the text that the words are.
    pub(super) fn match_words(
        &self,
        searched: &SearchedPath<'_>,
        text: &str,
        options: &MatchOptions,
    ) -> Result<Option<f64>, Error> {
        let wanted = options.division(self.analyzers, &searched.definition).words(text);
        if wanted.is_empty() {
            return Ok(options.matches_without_words.then_some(1.0));
        }
        // An analyzer can make many of one.
        if wanted.count() > WORDS_MAX {
            return Err(Error::IllegalArgument(format!(
                "maxClauseCount is set to {WORDS_MAX} words of a text, and the analyzer of [{}] makes {} of that of the query",
                searched.path,
                wanted.count()
            )));
        }
        let own = self.words_at(searched);
        let length = own.length();
        if options.is_phrase {
            let fits = |at: usize, words: &[String]| options.fits_any(&wanted, at, words);
            let is_there = own.has_phrase(&wanted, options.slop, &fits);
            return Ok(is_there.then(|| wanted.len() as f64 / (1.0 + length as f64 / 10.0)));
        }
        let (mut matched, mut all, mut score) = (0, 0, 0.0);
        for at in (0..wanted.len()).filter(|at| !wanted.at(*at).is_empty()) {
            all += 1;
            let count: usize = match options.is_exact(&wanted, at) {
                true => wanted.at(at).iter().map(|word| own.count(word)).sum(),
                false => own.count_of(|word| options.fits(&wanted, at, word)),
            };
            let count = count as f64;
            if count > 0.0 {
                matched += 1;
                score += count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length as f64 / 10.0));
            }
        }
        let otherwise = if options.needs_all { all } else { 1 };
        let minimum = options.minimum.as_ref();
        let needed = minimum.map_or(otherwise, |minimum| minimum.of(all)).max(1);
        Ok((matched >= needed).then_some(score))
    }
}

/// Beginnings and ends of the places where a phrase is in a text. Its words may be moved by up to `slop`
/// places against each other: a word between counts one, and two words that change places count two. A
/// position of the text is compared once with each one of the phrase, and stands for one of them. Those of
/// the phrase that have no word are passed over.
pub(crate) fn phrases<'w>(
    words: &'w TextWords,
    wanted: &'w TextWords,
    slop: usize,
    fits: &'w impl Fn(usize, &[String]) -> bool,
) -> impl Iterator<Item = (usize, usize)> + 'w {
    let length = wanted.len();
    let slop = slop.min(words.len() + length);
    // For each word of the phrase, the first place of the text that was not compared, or that fits; and the
    // last one that does.
    let mut next = vec![(0, None); length];
    // The last round in which each place was that of a word of the phrase.
    let mut taken = vec![0; if slop > 0 { words.len() } else { 0 }];
    // The least distance of a place of the text from that in the phrase, `length` being none.
    let (mut round, mut least) = (0_usize, 0);
    std::iter::from_fn(move || {
        if wanted.is_empty() {
            return None;
        }
        'rounds: loop {
            round += 1;
            let (mut nearest, mut begin, mut end) = (usize::MAX, usize::MAX, 0);
            for (number, (next, fitting)) in next.iter_mut().enumerate() {
                if wanted.at(number).is_empty() {
                    continue;
                }
                *next = (least + number).saturating_sub(length).max(*next);
                let is_free = |place: usize| taken.get(place) != Some(&round);
                let is_at = |place: usize| *fitting == Some(place) || fits(number, words.at(place));
                while *next < words.len() && !(is_free(*next) && is_at(*next)) {
                    *next += 1;
                }
                if *next == words.len() {
                    return None;
                }
                *fitting = Some(*next);
                let distance = *next + length - number;
                if distance > least + slop {
                    least = distance - slop;
                    continue 'rounds;
                }
                if let Some(taken) = taken.get_mut(*next) {
                    *taken = round;
                }
                nearest = nearest.min(distance);
                (begin, end) = (begin.min(*next), end.max(*next + 1));
            }
            least = nearest + 1;
            return Some((begin, end));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_what_is_neither_letter_nor_number() {
        for (text, expected) in [
            ("", ""),
            ("One two", "one two"),
            ("...a..b. c.", "a b c"),
            ("v1.5, 2.x and x.2", "v1.5 2 x and x 2"),
            ("it's snake_case e-mail", "it's snake_case e mail"),
            ("ÄÖ/ü \u{1f600} 3", "äö ü 3"),
        ] {
            assert_eq!(words_of(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn words_of_phrases_are_moved_by_few_places() {
        #[track_caller]
        fn check(text: &str, phrase: &str, slop: usize, expected: &[(usize, usize)]) {
            let (words, wanted) = (TextDivision::Words.words(text), TextDivision::Words.words(phrase));
            let fits = |at: usize, words: &[String]| words == wanted.at(at);
            let found: Vec<(usize, usize)> = phrases(&words, &wanted, slop, &fits).collect();
            assert_eq!(found, expected, "{phrase} in {text}, moved by {slop}");
        }
        check("a b a b", "a b", 0, &[(0, 2), (2, 4)]);
        check("a x b a b", "a b", 0, &[(3, 5)]);
        check("a x b a b", "a b", 1, &[(0, 3), (3, 5)]);
        check("a a b", "a b", 1, &[(0, 3), (1, 3)]);
        check("a x b x c", "a b c", 1, &[]);
        check("a x b x c", "a b c", 2, &[(0, 5)]);
        check("a b", "a b c", 9, &[]);
        check("", "a", 9, &[]);
        check(&"a ".repeat(200_000), "a z", usize::MAX, &[]);
        check("b a", "a b", 1, &[]);
        check("b a", "a b", 2, &[(0, 2)]);
        check("the wind rises", "wind rises the", 2, &[]);
        check("the wind rises", "wind rises the", 3, &[(0, 3)]);
        check("a x a", "a a", 0, &[]);
        check("a x a", "a a", 1, &[(0, 3)]);
        check("a", "a a", 9, &[]);
        check("c b a x", "a b c", 4, &[(0, 3)]);

        // Each word is compared once with each of the phrase, however long one waits for the other.
        let (words, wanted) = (format!("{}z", "a ".repeat(1_000)), "a z");
        let (words, wanted) = (TextDivision::Words.words(&words), TextDivision::Words.words(wanted));
        let compared = Cell::new(0);
        let fits = |at: usize, words: &[String]| {
            compared.set(compared.get() + 1);
            words == wanted.at(at)
        };
        assert_eq!(phrases(&words, &wanted, usize::MAX, &fits).count(), 1_000);
        assert!(compared.get() <= words.len() * wanted.len(), "{} comparisons", compared.get());
    }

    #[test]
    fn words_are_counted_as_one_by_one() {
        let text = "b a c a d a e b f";
        let source = serde_json::json!({ "t": [text, "a z"] });
        let source = source.as_object().expect("the test's document is an object");
        let words = SearchedWords::default();
        for _ in 0..4 {
            for (word, expected) in [("a", 4), ("b", 2), ("z", 1), ("x", 0)] {
                assert_eq!(words.at(source, "t", &TextDivision::Words).count(word), expected, "{word}");
            }
        }
        assert_eq!(words.at(source, "t", &TextDivision::Words).count_of(|word| word < "c"), 6);
        assert_eq!(
            (
                words.at(source, "t", &TextDivision::Words).length(),
                words.at(source, "u", &TextDivision::Words).length()
            ),
            (11, 0)
        );
    }
}
