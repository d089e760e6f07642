//! Words as they were written, in fields whose tokens are stems: what begins with, ends with or is like a part of a word is about its
//! letters. Texts are split again for it; those that cannot have the letters are passed over.

use millrace_column::{Column, Layout, TokensBuilder, layout};
use millrace_document::{DataType, Value};
use millrace_linguistics::Analyzer;
use millrace_plan::WordPattern;

use crate::bits::Bits;
use crate::pattern::WordMatcher;
use crate::value::{Element, elements};
use crate::words::{self, Places};

/// Words one after another, at least one of them only a part of a word.
pub(crate) struct SurfaceWords {
    matchers: Vec<WordMatcher>,
    analyzer: Analyzer,
    /// Small letters that every match has, where they are ASCII.
    letters: Option<String>,
}

/// Whether the words of a field are to be looked at as they were written: they are kept as stems, and a pattern is about letters.
pub(crate) fn is_surface(patterns: &[WordPattern], analyzer: &Analyzer) -> bool {
    analyzer.is_stemming() && patterns.iter().any(WordPattern::is_open)
}

impl SurfaceWords {
    pub(crate) fn new(matchers: Vec<WordMatcher>, analyzer: Analyzer) -> Self {
        let letters = matchers.iter().filter_map(WordMatcher::letters).max_by_key(|letters| letters.len());
        let letters = letters.filter(|letters| !letters.is_empty() && letters.is_ascii()).map(str::to_owned);
        SurfaceWords { matchers, analyzer: analyzer.without_stemming(), letters }
    }

    /// Where the words stand in the texts of a value column.
    pub(crate) fn find(&self, column: &Column, data_type: &DataType, within: &Bits) -> Places {
        let mut builder = TokensBuilder::new();
        for document in 0..column.len() {
            if within.get(document) {
                self.split(column, data_type, document, &mut builder);
            }
            builder.end_document();
        }
        words::find(&self.matchers, &builder.finish(), within)
    }

    fn split(&self, column: &Column, data_type: &DataType, document: usize, builder: &mut TokensBuilder) {
        if let (Column::Bytes(column), Layout::Text) = (column, layout(data_type)) {
            let text = column.get(document).and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(text) = text.filter(|text| self.may_match(text)) {
                self.analyzer.tokens(text, |token| builder.word(token.text.as_bytes()));
            }
            return;
        }
        let Some(value) = millrace_column::value(column, data_type, document) else { return };
        let mut first = true;
        elements(&value, &mut |_, element| {
            if let Element::Value(Value::String(text), _) = element {
                if !std::mem::take(&mut first) {
                    builder.boundary();
                }
                // Even a text that cannot match has its place among the others.
                self.analyzer.tokens(text, |token| builder.word(token.text.as_bytes()));
            }
        });
    }

    /// False for texts that lack the letters; what folding does to other text is for the analyzer to say.
    fn may_match(&self, text: &str) -> bool {
        match &self.letters {
            Some(letters) if text.is_ascii() => {
                let (first, length) = (letters.as_bytes()[0], letters.len());
                let bytes = text.as_bytes();
                let starts = memchr::memchr2_iter(first, first.to_ascii_uppercase(), bytes);
                let mut windows = starts.filter_map(|at| bytes.get(at..at + length));
                windows.any(|window| window.eq_ignore_ascii_case(letters.as_bytes()))
            }
            _ => true,
        }
    }
}
