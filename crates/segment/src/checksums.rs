use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Checksums of the parts of a file, computed while it is written:
/// [`Segment::verify_with`](crate::SegmentFile::verify_with) does not read these parts again. The offsets of
/// the parts are only a hint. Parts without a checksum are read.
pub struct FileChecksums {
    /// Lengths of the consecutive parts, from the beginning of the file.
    outline: Vec<u32>,
    /// Index of the current part.
    part: usize,
    /// Offset of the current part, and the length received.
    begin: u64,
    taken: u32,
    hash: Xxh3Default,
    /// Offset, length and checksum of each complete part.
    known: Vec<(u64, u32, u64)>,
}

impl FileChecksums {
    /// Creates the checksums of a file whose parts have these lengths.
    pub fn new(outline: Vec<u32>) -> Self {
        FileChecksums { outline, part: 0, begin: 0, taken: 0, hash: Xxh3Default::new(), known: Vec::new() }
    }

    /// Adds the next bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while let Some(length) = self.outline.get(self.part).copied() {
            let missing = (length - self.taken) as usize;
            if bytes.len() < missing {
                self.hash.update(bytes);
                self.taken += bytes.len() as u32;
                return;
            }
            let (end, rest) = bytes.split_at(missing);
            let checksum = if self.taken == 0 {
                xxh3_64(end)
            } else {
                self.hash.update(end);
                self.hash.digest()
            };
            if self.taken > 0 {
                self.hash.reset();
            }
            if length > 0 {
                self.known.push((self.begin, length, checksum));
            }
            self.begin += u64::from(length);
            self.taken = 0;
            self.part += 1;
            bytes = rest;
        }
    }

    /// True if no part is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Checksum of this range, if it was a part.
    pub(crate) fn of_part(&self, offset: u64, length: u64) -> Option<u64> {
        let index = self.known.binary_search_by_key(&offset, |(begin, ..)| *begin).ok()?;
        let (_, known, checksum) = self.known[index];
        (u64::from(known) == length).then_some(checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_however_the_bytes_come() {
        let bytes: Vec<u8> = (0..1000_u32).map(|number| number as u8).collect();
        let outline = [64, 100, 0, 700, 36];
        for step in [1, 7, 64, 163, 164, 1000] {
            let mut checksums = FileChecksums::new(outline.to_vec());
            bytes.chunks(step).for_each(|piece| checksums.add(piece));
            assert_eq!(checksums.of_part(0, 64), Some(xxh3_64(&bytes[..64])), "{step}");
            assert_eq!(checksums.of_part(164, 700), Some(xxh3_64(&bytes[164..864])), "{step}");
            assert_eq!(checksums.of_part(864, 36), Some(xxh3_64(&bytes[864..900])), "{step}");
            assert_eq!(checksums.of_part(164, 699), None, "{step}");
            assert_eq!(checksums.of_part(165, 699), None, "{step}");
            assert_eq!(checksums.of_part(900, 100), None, "{step}");
        }
    }
}
