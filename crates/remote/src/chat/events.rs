//! Parser of server-sent events from bytes in arbitrary pieces.

/// Complete events, and the beginning of the next.
#[derive(Default)]
pub(crate) struct EventStream {
    pending: Vec<u8>,
    /// Number of bytes read.
    read: usize,
    /// Data of an incomplete event.
    data: Option<String>,
}

impl EventStream {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.drain(..self.read);
        self.read = 0;
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the data of the next complete event. Comments, names and events without data are skipped.
    pub fn next(&mut self) -> Option<String> {
        loop {
            let rest = &self.pending[self.read..];
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let line = String::from_utf8_lossy(&rest[..end]);
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                self.read += end + 1;
                match self.data.take() {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            if let Some(data) = line.strip_prefix("data:") {
                let data = data.strip_prefix(' ').unwrap_or(data);
                match &mut self.data {
                    Some(before) => {
                        before.push('\n');
                        before.push_str(data);
                    }
                    None => self.data = Some(data.to_owned()),
                }
            }
            self.read += end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_come() {
        let text = ": hello\r\nevent: x\r\ndata: {\"a\":1}\r\n\r\n\ndata:two\ndata: \u{e9}lines\n\nid: 7\n\ndata: open\n";
        let expected = ["{\"a\":1}", "two\n\u{e9}lines"];
        for size in 1..text.len() {
            let mut events = EventStream::default();
            let mut found = Vec::new();
            for bytes in text.as_bytes().chunks(size) {
                events.push(bytes);
                found.extend(std::iter::from_fn(|| events.next()));
            }
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }
}
