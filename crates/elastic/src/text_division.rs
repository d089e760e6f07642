//! Division of texts into words, as an analyzer does it.

use std::ops::Range;

use crate::analyzers::SharedSteps;
use crate::evaluation::word_spans;

/// Words that analyzers with steps make of the texts of a document, at most: those of further texts are left
/// out, as are further ones of a text before the steps.
pub(crate) const STEPS_WORDS_MAX: usize = 2_000_000;

/// Division of a text into words.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) enum TextDivision {
    /// Words of letters and digits in lower case: that of texts whose field names none.
    #[default]
    Words,
    /// Words of letters alone, in lower case.
    Letters,
    /// Parts between blanks, as they stand.
    Blanks,
    /// The text is one word.
    Whole,
    /// Words that the steps of an analyzer make.
    Steps(SharedSteps),
}

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DividedWord {
    /// The word as it is compared.
    pub(crate) text: String,
    /// Place in the text.
    pub(crate) span: Range<usize>,
    /// Position among the words: several may have the same one, and some have none.
    pub(crate) position: usize,
    /// Type of the word as it is shown.
    pub(crate) kind: &'static str,
}

impl TextDivision {
    /// Words of a text with their places, in the order of their positions.
    pub(crate) fn divided(&self, text: &str) -> Vec<DividedWord> {
        if let TextDivision::Steps(steps) = self {
            return steps.divided(text);
        }
        let spans = self.spans(text).into_iter().enumerate();
        let word = |(position, span): (usize, Range<usize>)| {
            let kind = self.kind_of_word(&text[span.clone()]);
            DividedWord { text: self.compared(&text[span.clone()]), span, position, kind }
        };
        spans.map(word).collect()
    }

    /// Places of the words of a text.
    pub(crate) fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let divided = |is_between: fn(char) -> bool| {
            let parts = text.split(is_between).filter(|part| !part.is_empty());
            let place = |part: &str| {
                let start = part.as_ptr() as usize - text.as_ptr() as usize;
                start..start + part.len()
            };
            parts.map(place).collect()
        };
        match self {
            TextDivision::Words => word_spans(text),
            TextDivision::Letters => divided(|letter| !letter.is_alphabetic()),
            TextDivision::Blanks => divided(char::is_whitespace),
            TextDivision::Whole if text.is_empty() => Vec::new(),
            TextDivision::Whole => std::iter::once(0..text.len()).collect(),
            TextDivision::Steps(steps) => steps.divided(text).into_iter().map(|word| word.span).collect(),
        }
    }

    /// A word as it is compared.
    pub(crate) fn compared(&self, word: &str) -> String {
        match self {
            TextDivision::Words | TextDivision::Letters => word.to_lowercase(),
            TextDivision::Blanks | TextDivision::Whole => word.to_owned(),
            TextDivision::Steps(steps) => steps.compared(word),
        }
    }

    /// Words of a text as they are compared.
    pub(crate) fn words(&self, text: &str) -> TextWords {
        match self {
            TextDivision::Steps(steps) => TextWords::of(&steps.divided(text)),
            simple => {
                let words = simple.spans(text).into_iter().map(|span| simple.compared(&text[span]));
                TextWords { words: words.collect(), ends: None }
            }
        }
    }

    /// Number of the words of a document from which on this one makes no others: it can make many of one.
    pub(crate) fn words_max(&self) -> usize {
        match self {
            TextDivision::Steps(_) => STEPS_WORDS_MAX,
            _ => usize::MAX,
        }
    }

    /// Type of a word as it is shown.
    pub(crate) fn kind_of_word(&self, word: &str) -> &'static str {
        match self {
            TextDivision::Words if word.starts_with(|letter: char| letter.is_ascii_digit()) => "<NUM>",
            TextDivision::Words => "<ALPHANUM>",
            _ => "word",
        }
    }
}

/// Words of a text by their positions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TextWords {
    words: Vec<String>,
    /// For each position, the number of words up to it; `None` if each position has one word.
    ends: Option<Vec<usize>>,
}

impl TextWords {
    /// Words with their positions, from the first one that has a word on.
    pub(crate) fn of(divided: &[DividedWord]) -> Self {
        let (mut ends, mut words) = (Vec::new(), Vec::with_capacity(divided.len()));
        let first = divided.first().map_or(0, |word| word.position);
        for word in divided {
            while ends.len() <= word.position - first {
                ends.push(words.len());
            }
            words.push(word.text.clone());
            if let Some(end) = ends.last_mut() {
                *end = words.len();
            }
        }
        TextWords { words, ends: Some(ends) }
    }

    /// True if there is no word.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        self.ends.as_ref().map_or(self.words.len(), Vec::len)
    }

    /// Words at a position; none behind the last one.
    pub(crate) fn at(&self, position: usize) -> &[String] {
        let range = match &self.ends {
            None => position..position + 1,
            Some(ends) => {
                let from = position.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied());
                match (from, ends.get(position)) {
                    (Some(from), Some(end)) => from..*end,
                    _ => return &[],
                }
            }
        };
        self.words.get(range).unwrap_or_default()
    }

    /// All words, with their positions.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (usize, &String)> {
        (0..self.len()).flat_map(|position| self.at(position).iter().map(move |word| (position, word)))
    }

    /// All words.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, String> {
        self.words.iter()
    }

    /// All words, without their positions.
    pub(crate) fn into_words(self) -> Vec<String> {
        self.words
    }

    /// Number of the words.
    pub(crate) fn count(&self) -> usize {
        self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyzers::IndexAnalyzers;

    #[test]
    fn texts_have_the_words_of_their_analyzers() {
        let analyzers = IndexAnalyzers::default();
        for (analyzer, text, expected) in [
            ("standard", "It's 2 Wi-Fi nets.", "it's|2|wi|fi|nets"),
            ("simple", "It's 2 Wi-Fi nets.", "it|s|wi|fi|nets"),
            ("whitespace", " It's 2\tWi-Fi  nets. ", "It's|2|Wi-Fi|nets."),
            ("keyword", " It's 2", " It's 2"),
            ("keyword", "", ""),
            ("whitespace", "\u{e9}t\u{e9} \u{2003}x", "\u{e9}t\u{e9}|x"),
            ("stop", "The Foxes and 2 of it", "foxes"),
            ("pattern", "A-b_c, D", "a|b_c|d"),
            ("english", "The owner's Foxes are running", "owner|fox|run"),
        ] {
            let division = analyzers.of_request(analyzer).expect(analyzer);
            assert_eq!(division.words(text).into_words().join("|"), expected, "{analyzer}: {text}");
        }
        assert!(analyzers.of_request("none").is_err());
    }

    #[test]
    fn positions_may_have_no_word_or_several() {
        let word =
            |text: &str, position| DividedWord { text: text.to_owned(), span: 0..0, position, kind: "" };
        let words = TextWords::of(&[word("a", 2), word("b", 2), word("c", 4)]);
        assert_eq!((words.len(), words.count()), (3, 3));
        let at = |position| words.at(position).join("|");
        assert_eq!([at(0), at(1), at(2), at(3)], ["a|b", "", "c", ""]);
        assert_eq!(words.placed().map(|(position, _)| position).collect::<Vec<_>>(), [0, 0, 2]);
        assert_eq!(TextWords::of(&[]).len(), 0);
        let simple = TextDivision::Words.words("one two");
        assert_eq!((simple.len(), simple.at(1), simple.at(2).len()), (2, &["two".to_owned()][..], 0));
    }
}
