//! Steps of an analyzer, one after the other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::characters::{CharacterStep, ReplacedText};
use super::parts::REGEX_BYTES_MAX;
use super::tokenizers::TextSplitter;
use super::word_steps::{WordChange, WordStep};
use crate::text_division::{DividedWord, TextDivision};

/// An analyzer: characters are replaced, the text is split, and its words are changed.
#[derive(Debug)]
pub(super) struct AnalyzerSteps {
    pub(super) characters: Vec<CharacterStep>,
    pub(super) splitter: TextSplitter,
    pub(super) words: Vec<WordStep>,
    /// Bytes of the lists of words that the steps have, about.
    pub(super) list_bytes: usize,
}

/// A word on its way through the steps.
#[derive(Debug, Clone)]
pub(super) struct StepWord {
    pub(super) text: String,
    /// Place in the text that was split.
    pub(super) span: Range<usize>,
    pub(super) position: usize,
    pub(super) kind: &'static str,
    /// True if no stem takes its place.
    pub(super) is_protected: bool,
}

impl StepWord {
    /// Another word at the place of this one.
    pub(super) fn with_text(&self, text: String) -> Self {
        let StepWord { ref span, position, kind, is_protected, .. } = *self;
        StepWord { text, span: span.clone(), position, kind, is_protected }
    }
}

impl AnalyzerSteps {
    /// Steps that split a text, and leave its words as they are.
    pub(super) fn of(splitter: TextSplitter) -> Self {
        AnalyzerSteps { characters: Vec::new(), splitter, words: Vec::new(), list_bytes: 0 }
    }

    /// Bytes that the steps take, about, and at most.
    pub(super) fn bytes(&self) -> usize {
        let of_characters: usize = self.characters.iter().map(CharacterStep::expressions).sum();
        let of_words: usize = self.words.iter().map(WordStep::expressions).sum();
        self.list_bytes + (of_characters + self.splitter.expressions() + of_words) * REGEX_BYTES_MAX
    }

    /// Words of a text, in the order of their positions.
    pub(super) fn words_of(&self, text: &str) -> Vec<StepWord> {
        self.words.iter().fold(self.splitter.words(text), |words, step| step.apply(words))
    }

    /// The division of texts that these steps are.
    pub(super) fn division(self) -> TextDivision {
        let is_lower = match self.words.as_slice() {
            [] => Some(false),
            [WordStep::Change(WordChange::Lower)] => Some(true),
            _ => None,
        };
        let simple = match &self.splitter {
            TextSplitter::Simple { division, longest: usize::MAX } if self.characters.is_empty() => {
                Some(division)
            }
            _ => None,
        };
        let simple = simple.filter(|simple| match simple {
            TextDivision::Words | TextDivision::Letters => is_lower == Some(true),
            _ => is_lower == Some(false),
        });
        simple.cloned().unwrap_or_else(|| TextDivision::Steps(SharedSteps(Arc::new(self))))
    }
}

/// Steps that fields and queries share. Two are equal if they are the same.
#[derive(Clone)]
pub(crate) struct SharedSteps(Arc<AnalyzerSteps>);

impl SharedSteps {
    /// Bytes that the steps take, about, and at most.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Words of a text, in the order of their positions.
    pub(crate) fn divided(&self, text: &str) -> Vec<DividedWord> {
        let mut read = ReplacedText::of(text);
        for step in &self.0.characters {
            read.apply(step);
        }
        let words = self.0.words_of(&read.text).into_iter();
        let divided = words.map(|StepWord { text, span, position, kind, .. }| DividedWord {
            text,
            span: read.span(span),
            position,
            kind,
        });
        divided.collect()
    }

    /// A word as these steps write those that they are not asked to split.
    pub(crate) fn compared(&self, word: &str) -> String {
        self.0.words.iter().fold(word.to_owned(), |word, step| match step {
            WordStep::Change(change) if change.is_of_writing() => change.apply(&word),
            _ => word,
        })
    }
}

impl fmt::Debug for SharedSteps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "steps at {:p}", Arc::as_ptr(&self.0))
    }
}

impl PartialEq for SharedSteps {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedSteps {}

impl Hash for SharedSteps {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
