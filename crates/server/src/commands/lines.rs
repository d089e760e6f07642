//! Lines as a stream of bytes, made as they are read.

use std::io::{self, Read};

/// Reads as all lines of an iterator, each followed by a line feed.
pub struct Lines<I> {
    lines: I,
    pending: Vec<u8>,
    at: usize,
}

impl<I: Iterator<Item = String>> Lines<I> {
    /// The lines of `lines`.
    pub fn new(lines: I) -> Self {
        Lines { lines, pending: Vec::new(), at: 0 }
    }
}

impl<I: Iterator<Item = String>> Read for Lines<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.pending.len() {
            let Some(line) = self.lines.next() else { return Ok(0) };
            self.pending = line.into_bytes();
            self.pending.push(b'\n');
            self.at = 0;
        }
        let step = buffer.len().min(self.pending.len() - self.at);
        buffer[..step].copy_from_slice(&self.pending[self.at..self.at + step]);
        self.at += step;
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_each_other() {
        let mut text = String::new();
        let lines = ["one", "", "three"].map(str::to_owned);
        Lines::new(lines.into_iter()).read_to_string(&mut text).expect("lines cannot fail");
        assert_eq!(text, "one\n\nthree\n");
    }
}
