//! Adapter that reads an iterator of lines as a stream of bytes.

use std::io::{self, Read};

/// Reads the lines of an iterator, each ended by a newline. Only one line is in memory.
pub struct LineReader<I> {
    lines: I,
    line: Vec<u8>,
    read: usize,
}

impl<I: Iterator<Item = String>> LineReader<I> {
    /// Creates the reader; the iterator is not advanced yet.
    pub fn new(lines: I) -> Self {
        LineReader { lines, line: Vec::new(), read: 0 }
    }
}

impl<I: Iterator<Item = String>> Read for LineReader<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            let Some(next) = self.lines.next() else { return Ok(0) };
            self.line = next.into_bytes();
            self.line.push(b'\n');
            self.read = 0;
        }
        let count = buffer.len().min(self.line.len() - self.read);
        buffer[..count].copy_from_slice(&self.line[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_bytes() {
        let mut text = String::new();
        let lines = ["one", "", "three"].map(str::to_owned).into_iter();
        LineReader::new(lines).read_to_string(&mut text).expect("memory can be read");
        assert_eq!(text, "one\n\nthree\n");
    }
}
