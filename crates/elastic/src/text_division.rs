//! Division of texts into words, by the analyzers that there are.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::Error;
use crate::evaluation::word_spans;

/// Division of a text into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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
}

impl TextDivision {
    /// Division by the name of an analyzer; `None` if there is no such analyzer.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "standard" | "default" => Some(TextDivision::Words),
            "simple" => Some(TextDivision::Letters),
            "whitespace" => Some(TextDivision::Blanks),
            "keyword" => Some(TextDivision::Whole),
            _ => None,
        }
    }

    /// Division by the name of an analyzer.
    ///
    /// # Errors
    /// There is no such analyzer.
    pub(crate) fn of_analyzer(name: &str) -> Result<Self, Error> {
        Self::named(name).ok_or_else(|| {
            Error::unsupported(&format!(
                "the analyzer [{name}], as all but [standard], [simple], [whitespace] and [keyword],"
            ))
        })
    }

    /// Division of the texts of a field.
    pub(crate) fn of_field(definition: &Map<String, Value>) -> Self {
        definition.get("analyzer").and_then(Value::as_str).and_then(Self::named).unwrap_or_default()
    }

    /// Division of the texts that a field is searched for.
    pub(crate) fn of_search(definition: &Map<String, Value>) -> Self {
        let own = definition.get("search_analyzer").and_then(Value::as_str).and_then(Self::named);
        own.unwrap_or_else(|| Self::of_field(definition))
    }

    /// Places of the words of a text.
    pub(crate) fn spans(self, text: &str) -> Vec<Range<usize>> {
        let apart = |is_between: fn(char) -> bool| {
            let parts = text.split(is_between).filter(|part| !part.is_empty());
            let place = |part: &str| {
                let start = part.as_ptr() as usize - text.as_ptr() as usize;
                start..start + part.len()
            };
            parts.map(place).collect()
        };
        match self {
            TextDivision::Words => word_spans(text),
            TextDivision::Letters => apart(|letter| !letter.is_alphabetic()),
            TextDivision::Blanks => apart(char::is_whitespace),
            TextDivision::Whole if text.is_empty() => Vec::new(),
            TextDivision::Whole => std::iter::once(0..text.len()).collect(),
        }
    }

    /// A word as it is compared.
    pub(crate) fn compared(self, word: &str) -> String {
        match self {
            TextDivision::Words | TextDivision::Letters => word.to_lowercase(),
            TextDivision::Blanks | TextDivision::Whole => word.to_owned(),
        }
    }

    /// Words of a text as they are compared.
    pub(crate) fn words(self, text: &str) -> Vec<String> {
        self.spans(text).into_iter().map(|span| self.compared(&text[span])).collect()
    }

    /// Type of a word as it is shown.
    pub(crate) fn kind_of_word(self, word: &str) -> &'static str {
        match self {
            TextDivision::Blanks | TextDivision::Whole | TextDivision::Letters => "word",
            TextDivision::Words if word.starts_with(|letter: char| letter.is_ascii_digit()) => "<NUM>",
            TextDivision::Words => "<ALPHANUM>",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_words_of_their_analyzers() {
        for (analyzer, text, expected) in [
            ("standard", "It's 2 Wi-Fi nets.", "it's|2|wi|fi|nets"),
            ("simple", "It's 2 Wi-Fi nets.", "it|s|wi|fi|nets"),
            ("whitespace", " It's 2\tWi-Fi  nets. ", "It's|2|Wi-Fi|nets."),
            ("keyword", " It's 2", " It's 2"),
            ("keyword", "", ""),
            ("whitespace", "\u{e9}t\u{e9} \u{2003}x", "\u{e9}t\u{e9}|x"),
        ] {
            let division = TextDivision::of_analyzer(analyzer).expect(analyzer);
            assert_eq!(division.words(text).join("|"), expected, "{analyzer}: {text}");
        }
        assert!(TextDivision::of_analyzer("english").is_err());
    }
}
