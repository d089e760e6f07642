use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use crate::fold::CharacterFolding;
use crate::stem::CachedStemmer;
use crate::{
    DefaultTerm, FieldMatching, FieldStemming, MatchMode, TextLanguage, UriPart, WordBeginnings, split, uri,
};

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToken<'a> {
    /// The word, folded and stemmed; not empty.
    pub text: &'a str,
    /// The word, only folded.
    pub written: &'a str,
    /// Byte range in the original text.
    pub range: Range<usize>,
    /// Number of tokens before it.
    pub position: u32,
}

/// A word of a text, whose stem is computed when it is needed.
#[derive(Debug, Clone, Copy)]
pub struct WrittenToken<'a> {
    /// The word, only folded; not empty.
    pub written: &'a str,
    /// The word, and what follows it in the folded text, if that is at hand.
    pub onward: &'a str,
    stemming: Option<CachedStemmer>,
}

impl WrittenToken<'_> {
    /// Writes the stem into an empty `stem`; the word itself if it has none.
    pub fn stem_into(&self, stem: &mut String) {
        stem.push_str(self.written);
        if let Some(stemming) = &self.stemming {
            stemming.stem(stem);
        }
    }
}

/// Memory for the forms of a word.
#[derive(Debug, Default)]
pub struct WordBuffers {
    written: String,
    stem: String,
}

/// Converter of text to words by the settings of one field.
///
/// Creation is cheap; one analyzer serves any number of texts and threads.
pub struct FieldAnalyzer {
    mode: MatchMode,
    folding: CharacterFolding,
    stemming: Option<CachedStemmer>,
    max_length: usize,
    max_token_length: usize,
    max_occurrences: u32,
}

impl FieldAnalyzer {
    /// Creates the analyzer of a field. Words are not stemmed if case matters, because stemmers only know
    /// lower case, or if parts of words match by default. `stemming: multiple` gives the single available
    /// stem. With `match: exact` letters keep their accents.
    pub fn new(matching: &FieldMatching, language: TextLanguage) -> Self {
        let stemmed = matching.mode == MatchMode::Text
            && matching.default_term == DefaultTerm::Word
            && !matching.cased
            && matching.stemming != FieldStemming::None;
        FieldAnalyzer {
            mode: matching.mode,
            folding: CharacterFolding {
                case: !matching.cased,
                accents: matching.normalizing && matching.mode != MatchMode::Exact,
            },
            stemming: CachedStemmer::new(language).filter(|_| stemmed),
            max_length: matching.max_length.unwrap_or(usize::MAX),
            max_token_length: matching.max_token_length.unwrap_or(usize::MAX),
            max_occurrences: matching
                .max_occurrences
                .map_or(u32::MAX, |length| u32::try_from(length).unwrap_or(u32::MAX)),
        }
    }

    /// Creates the analyzer of a text field without its own settings.
    pub fn text(language: TextLanguage) -> Self {
        FieldAnalyzer {
            mode: MatchMode::Text,
            folding: CharacterFolding { case: true, accents: true },
            stemming: CachedStemmer::new(language),
            max_length: usize::MAX,
            max_token_length: usize::MAX,
            max_occurrences: u32::MAX,
        }
    }

    /// The same analyzer without stemming: `stem: false` of a query term.
    pub fn without_stemming(mut self) -> Self {
        self.stemming = None;
        self
    }

    /// The same analyzer, but letters keep their accents: `accentDrop: false` of a query term.
    pub fn with_accents(mut self) -> Self {
        self.folding.accents = false;
        self
    }

    /// The same analyzer, but letters keep their case: `normalizeCase: false` of a query term. Words are then
    /// not stemmed.
    pub fn with_case(mut self) -> Self {
        self.folding.case = false;
        self.stemming = None;
        self
    }

    /// True if words are stemmed.
    pub const fn is_stemming(&self) -> bool {
        self.stemming.is_some()
    }

    /// Number of the language by which words are stemmed; 0 if they are not.
    pub fn stemmer_number(&self) -> u8 {
        self.stemming.as_ref().map_or(0, CachedStemmer::number)
    }

    /// Calls `sink` with the words of the tokens of [`FieldAnalyzer::tokens`], in order, before they are
    /// stemmed: for callers that remember the stems of words.
    pub fn written_tokens(&self, text: &str, mut sink: impl FnMut(WrittenToken<'_>)) {
        let stemming = self.stemming;
        let is_limited = self.max_token_length != usize::MAX || self.max_occurrences != u32::MAX;
        if is_limited || self.mode != MatchMode::Text {
            // The limits are those of stems.
            return self.tokens(text, |token| {
                sink(WrittenToken { written: token.written, onward: token.written, stemming });
            });
        }
        let (text, mut folded) = (self.cut(text), String::new());
        split::parts(text, |part| {
            let part = &text[part];
            if part.is_ascii() {
                // Its characters are folded each by itself, so the words can be those of the folded text.
                folded.clear();
                self.folding.fold(part, &mut folded);
                return split::words(&folded, |range| {
                    let onward = &folded[range.start..];
                    sink(WrittenToken { written: &onward[..range.len()], onward, stemming });
                });
            }
            split::words(part, |range| {
                folded.clear();
                self.folding.fold(&part[range], &mut folded);
                if !folded.is_empty() {
                    sink(WrittenToken { written: &folded, onward: &folded, stemming });
                }
            });
        });
    }

    /// True if the token of a word depends on nothing but the word: the field's text is split into words, and
    /// neither the length nor the number of tokens is limited.
    pub fn is_by_word(&self) -> bool {
        let is_limited = self.max_token_length != usize::MAX || self.max_occurrences != u32::MAX;
        self.mode == MatchMode::Text && !is_limited
    }

    /// The beginnings of ASCII words whose token has one of the `stems` as its text, or whose folded form
    /// begins with one of `written`: for [`FieldAnalyzer::admitted_words`].
    pub fn beginnings<'b>(
        &self,
        stems: impl Iterator<Item = &'b str>,
        written: impl Iterator<Item = &'b str>,
    ) -> WordBeginnings {
        let stemming = self.stemming.as_ref();
        if stemming.is_some_and(CachedStemmer::drops_words) {
            // No word may be passed over, since it would be counted also where it has no token.
            return WordBeginnings::new(std::iter::once(""));
        }
        let of_stems = stems.map(|stem| stemming.map_or(stem, |stemming| stemming.beginning(stem)));
        WordBeginnings::new(of_stems.chain(written).filter(|beginning| beginning.is_ascii()))
    }

    /// Calls `sink` with words of `text` in order, for an analyzer that
    /// [goes by words](FieldAnalyzer::is_by_word): the number of words before each and its byte range, of
    /// which [`FieldAnalyzer::word_token`] makes its token. Words that are passed over begin otherwise, and
    /// have a token. Returns the number of words.
    ///
    /// `skip` is asked, with a number of bytes, for pieces of the text and for words among them; true passes
    /// over them without counting.
    pub fn admitted_words(
        &self,
        text: &str,
        beginnings: &WordBeginnings,
        skip: impl FnMut(usize) -> bool,
        sink: impl FnMut(usize, Range<usize>),
    ) -> usize {
        split::admitted_words(self.cut(text), beginnings, skip, sink)
    }

    /// Calls `sink` with tokens of [`FieldAnalyzer::tokens`], in order: with those of
    /// [`FieldAnalyzer::beginnings`] and some others. Returns the number of all tokens.
    pub fn admitted_tokens(
        &self,
        text: &str,
        beginnings: &WordBeginnings,
        mut sink: impl FnMut(TextToken<'_>),
    ) -> u32 {
        if !self.is_by_word() {
            let mut count = 0;
            self.tokens(text, |token| {
                count += 1;
                sink(token);
            });
            return count;
        }
        let (mut without_token, mut buffers) = (0, WordBuffers::default());
        let words = self.admitted_words(
            text,
            beginnings,
            |_| false,
            |before, range| {
                let position = (before - without_token) as u32;
                let token = self.word_token(&text[range.clone()], &mut buffers, |token| {
                    sink(TextToken { range, position, ..token });
                });
                without_token += usize::from(token.is_none());
            },
        );
        (words - without_token) as u32
    }

    /// Calls `sink` with the token of one of [`FieldAnalyzer::admitted_words`], as if it were the first of a
    /// text. Some words have none: those of signs that are folded away. `buffers` are reused from word to
    /// word.
    pub fn word_token<T>(
        &self,
        word: &str,
        buffers: &mut WordBuffers,
        sink: impl FnOnce(TextToken<'_>) -> T,
    ) -> Option<T> {
        let WordBuffers { written, stem } = buffers;
        written.clear();
        self.folding.fold(word, written);
        let text = match &self.stemming {
            Some(stemming) => {
                stem.clone_from(written);
                stemming.stem(stem);
                stem
            }
            None => &*written,
        };
        let token = TextToken { text, written, range: 0..word.len(), position: 0 };
        (!text.is_empty()).then(|| sink(token))
    }

    /// Calls `sink` with each token of `text` in order.
    ///
    /// - There is no token for text past `max-length` characters, for words longer than `max-token-length`
    ///   characters, and for a word's occurrences past `max-occurrences`; the positions of later tokens
    ///   decrease accordingly.
    /// - With `match: word` and `match: exact` the whole text is one token.
    /// - The words of a hostname are between two tokens without text, [`UriPart::ANCHORS`].
    pub fn tokens(&self, text: &str, mut sink: impl FnMut(TextToken<'_>)) {
        let text = self.cut(text);
        let (mut folded, mut stem) = (String::new(), String::new());
        let mut position = 0;
        let mut limits = TokenLimits::new(self);
        let anchors = (self.mode == MatchMode::Uri(UriPart::Hostname)).then_some(UriPart::ANCHORS);
        if let Some([start, _]) = anchors {
            sink(TextToken { text: start, written: start, range: 0..0, position });
            position += 1;
        }
        let mut emit = |range: Range<usize>| {
            folded.clear();
            self.folding.fold(&text[range.clone()], &mut folded);
            let text = match &self.stemming {
                Some(stemming) => {
                    stem.clone_from(&folded);
                    stemming.stem(&mut stem);
                    &stem
                }
                None => &folded,
            };
            if !text.is_empty() && limits.admit(text) {
                sink(TextToken { text, written: &folded, range, position });
                position += 1;
            }
        };
        match self.mode {
            MatchMode::Word | MatchMode::Exact => emit(0..text.len()),
            MatchMode::Text => split::words(text, emit),
            MatchMode::Gram { size } => split::words(text, |word| split::grams(text, word, size, &mut emit)),
            MatchMode::Uri(part) => uri::words(text, part, emit),
        }
        if let Some([_, end]) = anchors {
            sink(TextToken { text: end, written: end, range: text.len()..text.len(), position });
        }
    }

    /// Folds a whole value for comparison, without splitting or stemming.
    pub fn fold_value(&self, value: &str) -> String {
        let mut folded = String::with_capacity(value.len());
        self.fold_value_into(value, &mut folded);
        folded
    }

    /// [`FieldAnalyzer::fold_value`] appended to `out`, for folding many values.
    pub fn fold_value_into(&self, value: &str, out: &mut String) {
        self.folding.fold(value, out);
    }

    /// Byte ranges of `text` whose tokens `wanted` accepts, in order. Ranges that overlap or touch (grams)
    /// are merged. For bolding and snippets.
    pub fn ranges(&self, text: &str, mut wanted: impl FnMut(&str) -> bool) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        self.tokens(text, |token| {
            if wanted(token.text) {
                match ranges.last_mut() {
                    Some(last) if token.range.start <= last.end => last.end = token.range.end,
                    _ => ranges.push(token.range),
                }
            }
        });
        ranges
    }

    fn cut<'t>(&self, text: &'t str) -> &'t str {
        if text.len() <= self.max_length {
            return text;
        }
        text.char_indices().nth(self.max_length).map_or(text, |(end, _)| &text[..end])
    }
}

impl fmt::Debug for FieldAnalyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analyzer")
            .field("mode", &self.mode)
            .field("folding", &self.folding)
            .field("stemming", &self.stemming)
            .finish_non_exhaustive()
    }
}

/// State of the limits `max-token-length` and `max-occurrences` for one text.
struct TokenLimits {
    max_token_length: usize,
    max_occurrences: u32,
    seen: HashMap<String, u32>,
}

impl TokenLimits {
    fn new(analyzer: &FieldAnalyzer) -> Self {
        TokenLimits {
            max_token_length: analyzer.max_token_length,
            max_occurrences: analyzer.max_occurrences,
            seen: HashMap::new(),
        }
    }

    fn admit(&mut self, word: &str) -> bool {
        if word.len() > self.max_token_length && word.chars().count() > self.max_token_length {
            return false;
        }
        if self.max_occurrences == u32::MAX {
            return true;
        }
        let count = match self.seen.get_mut(word) {
            Some(count) => count,
            None => self.seen.entry(word.to_owned()).or_default(),
        };
        *count = count.saturating_add(1);
        *count <= self.max_occurrences
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(analyzer: &FieldAnalyzer, text: &str, expected: &str) {
        let mut found = Vec::new();
        analyzer.tokens(text, |token| {
            assert_eq!(token.position as usize, found.len());
            found.push(format!("{}@{}..{}", token.text, token.range.start, token.range.end));
        });
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn text_is_split_folded_and_stemmed() {
        let english = FieldAnalyzer::text(TextLanguage::Unknown);
        check(&english, "The Quick foxes", "the@0..3 quick@4..9 fox@10..15");
        check(&english, "CAFÉS Cafe\u{301}", "cafe@0..6 cafe@7..13");
        check(&english, "ﬁne ① Straße Ｆｕｌｌ", "fine@0..5 1@6..9 straße@10..17 full@18..30");
        check(&FieldAnalyzer::text(TextLanguage::from_tag("de_CH")), "Häuser", "haus@0..7");
        check(&FieldAnalyzer::text(TextLanguage::from_tag("ja")), "東京 cats", "東@0..3 京@3..6 cats@7..11");
        check(&FieldAnalyzer::text(TextLanguage::Unstemmed).with_accents(), "Cafe\u{301}", "café@0..6");
        check(&FieldAnalyzer::text(TextLanguage::Unstemmed).with_case(), "Éa", "Ea@0..3");
        check(
            &FieldAnalyzer::text(TextLanguage::from_tag("el")).without_stemming(),
            "ΣΟΦΟΣ σοφος",
            "σοφοσ@0..10 σοφοσ@11..21",
        );
    }

    #[test]
    fn settings_of_the_field() {
        let word = FieldAnalyzer::new(&FieldMatching::new(MatchMode::Word), TextLanguage::Unknown);
        check(&word, "New York", "new york@0..8");
        check(&word, "", "");
        let gram =
            FieldAnalyzer::new(&FieldMatching::new(MatchMode::Gram { size: 2 }), TextLanguage::Unknown);
        check(&gram, "Été a", "et@0..3 te@2..5 a@6..7");
        let cased = FieldMatching { cased: true, normalizing: false, ..FieldMatching::new(MatchMode::Text) };
        check(&FieldAnalyzer::new(&cased, TextLanguage::Unknown), "Cats É", "Cats@0..4 É@5..7");
        let unstemmed =
            FieldMatching { stemming: FieldStemming::None, ..FieldMatching::new(MatchMode::Text) };
        check(&FieldAnalyzer::new(&unstemmed, TextLanguage::Unknown), "Cats", "cats@0..4");
        let limited = FieldMatching {
            max_length: Some(12),
            max_token_length: Some(3),
            max_occurrences: Some(2),
            ..FieldMatching::new(MatchMode::Text)
        };
        check(
            &FieldAnalyzer::new(&limited, TextLanguage::Unknown),
            "a long a b a cut",
            "a@0..1 a@7..8 b@9..10",
        );
    }

    #[test]
    fn ranges_of_wanted_words() {
        let text = "Cats and a cat";
        let ranges = FieldAnalyzer::text(TextLanguage::Unknown).ranges(text, |word| word == "cat");
        assert_eq!(ranges, [0..4, 11..14]);
        let grams =
            FieldAnalyzer::new(&FieldMatching::new(MatchMode::Gram { size: 2 }), TextLanguage::Unknown);
        let joined: Vec<&str> = grams
            .ranges("abcd xbc", |gram| gram == "ab" || gram == "bc")
            .into_iter()
            .map(|r| &"abcd xbc"[r])
            .collect();
        assert_eq!(joined, ["abc", "bc"]);
    }

    proptest! {
        #[test]
        fn written_tokens_have_the_stems_of_tokens(text in "(\\PC|[a-z]{1,8}| |CAFÉS|running|книгами){0,20}") {
            let limits = FieldMatching {
                max_length: Some(30),
                max_token_length: Some(5),
                max_occurrences: Some(1),
                ..FieldMatching::new(MatchMode::Text)
            };
            let german = TextLanguage::from_tag("de");
            for analyzer in [
                FieldAnalyzer::text(TextLanguage::Unknown),
                FieldAnalyzer::text(german),
                FieldAnalyzer::text(TextLanguage::Unstemmed),
                FieldAnalyzer::new(&limits, TextLanguage::Unknown),
                FieldAnalyzer::new(&FieldMatching::new(MatchMode::Gram { size: 2 }), german),
                FieldAnalyzer::new(&FieldMatching::new(MatchMode::Word), german),
                FieldAnalyzer::new(&FieldMatching::new(MatchMode::Uri(UriPart::Hostname)), german),
            ] {
                let (mut tokens, mut written) = (Vec::new(), Vec::new());
                analyzer.tokens(&text, |token| tokens.push((token.written.to_owned(), token.text.to_owned())));
                analyzer.written_tokens(&text, |token| {
                    let mut stem = String::new();
                    token.stem_into(&mut stem);
                    assert!(token.onward.starts_with(token.written), "{analyzer:?}");
                    written.push((token.written.to_owned(), stem));
                });
                assert_eq!(tokens, written, "{analyzer:?}");
            }
        }

        /// Also beside words that have no token, such as `leri` in Turkish, and those that are not ASCII.
        #[test]
        fn tokens_with_wanted_stems_or_beginnings_are_admitted(
            text in "((\\PC|[a-z]{1,3}|[A-Z]{1,3}|CAFÉS|книга|\u{ad})?(leri|maan|ying|ies|ico|emment)?[ ,]){0,60}",
            wanted in any::<prop::sample::Index>(),
            times in 1usize..30,
        ) {
            let text = text.repeat(times);
            for tag in ["", "de", "en", "fi", "fr", "nl", "ru", "tr", "ja"] {
                let analyzer = FieldAnalyzer::text(TextLanguage::from_tag(tag));
                let mut tokens: Vec<(Range<usize>, u32, String, String)> = Vec::new();
                analyzer.tokens(&text, |token| {
                    tokens.push((token.range, token.position, token.text.to_owned(), token.written.to_owned()));
                });
                let Some((_, _, stem, written)) = tokens.get(wanted.index(tokens.len().max(1))).cloned() else {
                    continue;
                };
                let beginning = written.chars().take(2).collect::<String>();
                let is_wanted = |is: &(Range<usize>, u32, String, String)| {
                    [is.2 == stem, is.3.starts_with(&beginning), is.2 == stem || is.3.starts_with(&beginning)]
                };
                for (case, (stems, starts)) in [(1, 0), (0, 1), (1, 1)].into_iter().enumerate() {
                    let beginnings = analyzer.beginnings(
                        [&*stem].into_iter().take(stems),
                        [&*beginning].into_iter().take(starts),
                    );
                    let mut found = Vec::new();
                    let count = analyzer.admitted_tokens(&text, &beginnings, |token| {
                        let forms = (token.text.to_owned(), token.written.to_owned());
                        found.push((token.range, token.position, forms.0, forms.1));
                    });
                    found.retain(|token| is_wanted(token)[case]);
                    let expected: Vec<_> =
                        tokens.iter().filter(|token| is_wanted(token)[case]).cloned().collect();
                    assert_eq!(found, expected, "{tag}: {stem} {beginning}");
                    assert_eq!(count as usize, tokens.len(), "{tag}");
                }
            }
        }

        /// A query taken from a document's text finds the document.
        #[test]
        fn a_word_alone_gives_the_token_it_gave_in_its_text(text in "\\PC{0,40}") {
            let analyzer = FieldAnalyzer::text(TextLanguage::Unknown);
            analyzer.tokens(&text, |token| {
                let mut alone = Vec::new();
                analyzer.tokens(&text[token.range.clone()], |token| alone.push(token.text.to_owned()));
                assert_eq!(alone, [token.text]);
            });
        }
    }
}
