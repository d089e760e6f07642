//! A position in text, as parsers of all languages need it: [`TextCursor`] skips blanks and comments, takes
//! symbols and words, and knows its line and column. [`NestingDepth`] bounds recursion.
//!
//! Each language keeps its own rules: the letters of names, quotes, numbers.
//!
//! ```
//! use millrace_cursor::{CommentStyle, TextCursor};
//!
//! let mut cursor = TextCursor::with_comments("limit /* of hits */ = 10", &[CommentStyle::Block("/*", "*/")]);
//! assert_eq!(cursor.word(char::is_alphabetic), Some("limit"));
//! assert!(cursor.take("="));
//! cursor.skip_blanks();
//! assert_eq!((cursor.position().column, cursor.take_digits()), (23, "10"));
//! ```
//!
//! This crate has no errors: a parser reports [`TextCursor::found`] and [`TextCursor::position`] in its own.

use std::cell::Cell;
use std::fmt;

/// Number of characters of the text that an error shows.
const FOUND_CHARS: usize = 20;

/// Form of comments, which are skipped like blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentStyle {
    /// From a mark to the end of the line.
    Line(&'static str),
    /// From one mark to another. Without the second mark it is not a comment.
    Block(&'static str, &'static str),
}

/// Line and column of a character, both from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// Line, after the last `\n`.
    pub line: usize,
    /// Number of the character in the line.
    pub column: usize,
}

impl TextPosition {
    /// Position of the first character.
    pub const START: TextPosition = TextPosition { line: 1, column: 1 };

    /// Position of an offset in bytes; of the end, if the offset is after it.
    pub fn of(text: &str, offset: usize) -> Self {
        TextPosition::START.after(text.get(..offset).unwrap_or(text))
    }

    /// Position after a text that starts here.
    pub fn after(self, passed: &str) -> Self {
        match passed.rfind('\n') {
            Some(last) => TextPosition {
                line: self.line + passed.matches('\n').count(),
                column: passed[last + 1..].chars().count() + 1,
            },
            None => TextPosition { line: self.line, column: self.column + passed.chars().count() },
        }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A position in a text, between two characters.
#[derive(Debug, Clone)]
pub struct TextCursor<'t> {
    text: &'t str,
    offset: usize,
    comments: &'static [CommentStyle],
    /// The last position that was asked for, with its offset: positions are counted from here, so that those
    /// of all tokens cost one pass.
    last: Cell<(usize, TextPosition)>,
}

impl<'t> TextCursor<'t> {
    /// The start of a text without comments.
    pub fn new(text: &'t str) -> Self {
        TextCursor::with_comments(text, &[])
    }

    /// The start of a text with comments.
    pub fn with_comments(text: &'t str, comments: &'static [CommentStyle]) -> Self {
        TextCursor { text, offset: 0, comments, last: Cell::new((0, TextPosition::START)) }
    }

    /// The whole text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Offset in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Moves to an offset that [`TextCursor::offset`] returned, to read again from there.
    ///
    /// # Panics
    /// The offset is not between two characters of the text.
    pub fn go_to(&mut self, offset: usize) {
        assert!(self.text.is_char_boundary(offset), "offsets are between characters");
        self.offset = offset;
    }

    /// Moves forward by a number of bytes.
    ///
    /// # Panics
    /// There is not as much text, or the offset would be within a character.
    pub fn skip(&mut self, bytes: usize) {
        self.go_to(self.offset + bytes);
    }

    /// The text after the cursor.
    pub fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }

    /// The next character, blanks included.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes the next character, blanks included.
    pub fn take_char(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    /// True if no text follows, not even a blank.
    pub fn is_at_end(&self) -> bool {
        self.offset == self.text.len()
    }

    /// Skips white space and comments.
    pub fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest().trim_start();
            let after = self.comments.iter().find_map(|style| style.after(rest));
            self.offset = self.text.len() - after.unwrap_or(rest).len();
            if after.is_none() {
                return;
            }
        }
    }

    /// True if a symbol is next, after blanks, which are skipped.
    pub fn sees(&mut self, symbol: &str) -> bool {
        self.skip_blanks();
        self.rest().starts_with(symbol)
    }

    /// Takes a symbol if it is next, after blanks, which are skipped.
    pub fn take(&mut self, symbol: &str) -> bool {
        self.skip_blanks();
        self.take_here(symbol)
    }

    /// Takes a symbol if it is next, without blanks before it.
    pub fn take_here(&mut self, symbol: &str) -> bool {
        let is_next = self.rest().starts_with(symbol);
        if is_next {
            self.offset += symbol.len();
        }
        is_next
    }

    /// Takes a word of these characters after blanks, which are skipped; `None` if there is none.
    pub fn word(&mut self, is_part: impl Fn(char) -> bool) -> Option<&'t str> {
        self.skip_blanks();
        Some(self.take_while(is_part)).filter(|word| !word.is_empty())
    }

    /// Takes this word, if it is next as a whole, after blanks, which are skipped.
    pub fn take_word(&mut self, word: &str, is_part: impl Fn(char) -> bool) -> bool {
        self.skip_blanks();
        let is_next = self.rest().strip_prefix(word).is_some_and(|after| !after.starts_with(is_part));
        if is_next {
            self.offset += word.len();
        }
        is_next
    }

    /// Takes the characters for which `is_part` is true; may be empty.
    pub fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.offset += taken.len();
        taken
    }

    /// Takes the digits 0 to 9 that are next; may be empty.
    pub fn take_digits(&mut self) -> &'t str {
        self.take_while(|c| c.is_ascii_digit())
    }

    /// The next text after white space, for an error: up to 20 characters of the line in quotes, or "the
    /// end".
    pub fn found(&self) -> String {
        let line = self.rest().trim_start().lines().next().unwrap_or_default();
        let found: String = line.chars().take(FOUND_CHARS).collect();
        if found.is_empty() { "the end".to_owned() } else { format!("'{found}'") }
    }

    /// Line and column of the cursor.
    pub fn position(&self) -> TextPosition {
        self.position_at(self.offset)
    }

    /// Line and column of an offset.
    pub fn position_at(&self, offset: usize) -> TextPosition {
        let (last, position) = self.last.get();
        let position = match self.text.get(last..offset) {
            Some(passed) => position.after(passed),
            None => TextPosition::of(self.text, offset),
        };
        self.last.set((offset.min(self.text.len()), position));
        position
    }

    /// Number of the character at an offset, from 1, in a text without lines.
    pub fn character_at(&self, offset: usize) -> usize {
        self.text.get(..offset).unwrap_or(self.text).chars().count() + 1
    }
}

impl CommentStyle {
    /// The text after a comment of this style with which `text` begins.
    fn after(self, text: &str) -> Option<&str> {
        match self {
            CommentStyle::Line(mark) => {
                let comment = text.strip_prefix(mark)?;
                Some(&comment[comment.find(['\n', '\r']).unwrap_or(comment.len())..])
            }
            CommentStyle::Block(open, close) => {
                text.strip_prefix(open)?.split_once(close).map(|(_, after)| after)
            }
        }
    }
}

/// The nesting of a recursive parser, which is bounded.
#[derive(Debug, Clone, Copy)]
pub struct NestingDepth {
    depth: usize,
    max: usize,
}

impl NestingDepth {
    /// The outermost level; at most `max` are inside.
    pub fn new(max: usize) -> Self {
        NestingDepth { depth: 0, max }
    }

    /// Maximum number of levels.
    pub fn max(self) -> usize {
        self.max
    }

    /// Goes one level in; false if that would be too deep.
    #[must_use]
    pub fn enter(&mut self) -> bool {
        let can = self.depth < self.max;
        self.depth += usize::from(can);
        can
    }

    /// Goes one level out.
    pub fn leave(&mut self) {
        assert!(self.depth > 0, "each level is left once");
        self.depth -= 1;
    }
}
