use std::fmt;

/// A position in text that is read in pieces, or a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPosition {
    /// Number of bytes before it.
    pub offset: u64,
    /// Line, or row, from 1.
    pub line: u64,
    /// Column in characters, from 1, as in editors; 0 for a row.
    pub column: u64,
}

impl Default for FeedPosition {
    /// The start of the text.
    fn default() -> Self {
        FeedPosition { offset: 0, line: 1, column: 1 }
    }
}

impl FeedPosition {
    /// True for a row of a table.
    pub const fn is_row(&self) -> bool {
        self.column == 0
    }

    /// Advances over `bytes`, which may be cut anywhere.
    pub fn advance(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        let of_line = match memchr::memrchr(b'\n', bytes) {
            Some(end) => {
                self.line += memchr::memchr_iter(b'\n', &bytes[..=end]).count() as u64;
                self.column = 1;
                &bytes[end + 1..]
            }
            None => bytes,
        };
        // Every UTF-8 character has exactly one byte that is not a continuation byte.
        self.column += of_line.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
    }

    /// The position after `bytes` that start here.
    #[must_use]
    pub fn after(mut self, bytes: &[u8]) -> Self {
        self.advance(bytes);
        self
    }

    /// Converts a position reported for `json` alone to one in the surrounding text. `json` starts here; the
    /// line and the column in bytes count from 1. A row stays as it is: its JSON is not in the table.
    #[must_use]
    pub fn within(self, json: &[u8], line: usize, column: usize) -> Self {
        if self.is_row() {
            return self;
        }
        let start = match line.checked_sub(2) {
            Some(newline) => memchr::memchr_iter(b'\n', json).nth(newline).map_or(json.len(), |at| at + 1),
            None => 0,
        };
        let end = start.saturating_add(column.saturating_sub(1)).min(json.len());
        self.after(&json[..end])
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_row() {
            true => write!(f, "row {}", self.line),
            false => write!(f, "line {}, column {}", self.line, self.column),
        }
    }
}

/// Splits line and column off the end of an [`Error`](crate::Error) message about JSON. Returns the rest of
/// the message and the two numbers for [`FeedPosition::within`]; `None` if there is no position.
pub fn split_position(message: &str) -> Option<(&str, usize, usize)> {
    let (reason, position) = message.strip_suffix(')')?.rsplit_once(" (line ")?;
    let (line, column) = position.split_once(", column ")?;
    Some((reason, line.parse().ok()?, column.parse().ok()?))
}
