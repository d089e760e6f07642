use std::fmt;

/// A place in text that is read piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: u64,
    /// From 1.
    pub line: u64,
    /// Characters of the line up to it, from 1, as editors count them.
    pub column: u64,
}

impl Default for Place {
    /// The beginning.
    fn default() -> Self {
        Place { offset: 0, line: 1, column: 1 }
    }
}

impl Place {
    /// Moves over `bytes`, which may be cut anywhere.
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
        // Every character of UTF-8 has one byte that does not continue another.
        self.column += of_line.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
    }

    /// The place after `bytes` that begin here.
    #[must_use]
    pub fn after(mut self, bytes: &[u8]) -> Self {
        self.advance(bytes);
        self
    }

    /// The place in the text around `json`, which begins here, of what an error says of `json` alone: a line, and a column in bytes,
    /// both from 1.
    #[must_use]
    pub fn within(self, json: &[u8], line: usize, column: usize) -> Self {
        let start = match line.checked_sub(2) {
            Some(newline) => memchr::memchr_iter(b'\n', json).nth(newline).map_or(json.len(), |at| at + 1),
            None => 0,
        };
        let end = start.saturating_add(column.saturating_sub(1)).min(json.len());
        self.after(&json[..end])
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Takes the line and the column off the end of what an [`Error`](crate::Error) about JSON says: what is left, and the two, as
/// [`Place::within`] reads them. `None` where it says no place.
pub fn split_place(message: &str) -> Option<(&str, usize, usize)> {
    let (reason, place) = message.strip_suffix(')')?.rsplit_once(" (line ")?;
    let (line, column) = place.split_once(", column ")?;
    Some((reason, line.parse().ok()?, column.parse().ok()?))
}
