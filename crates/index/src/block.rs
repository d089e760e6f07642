//! Blocks: some records of a section, with the beginnings that keys share left out.

use std::mem::size_of_val;

use crate::record::{KEY_LIMIT, read_bytes, read_number, write_bytes, write_number};

/// Size at which a block is complete, in bytes.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;

/// Block that is written.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    pub bytes: Vec<u8>,
    pub first: Vec<u8>,
    last: Vec<u8>,
}

impl BlockBuilder {
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.bytes.is_empty() {
            self.first = key.to_vec();
            self.last.clear();
        }
        let shared = common(&self.last, key);
        write_number(shared as u64, &mut self.bytes);
        write_bytes(&key[shared..], &mut self.bytes);
        write_bytes(value, &mut self.bytes);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
    }
}

/// Number of first bytes that both have.
pub(crate) fn common(one: &[u8], other: &[u8]) -> usize {
    const LANE: usize = 8;
    let lanes = one.chunks_exact(LANE).zip(other.chunks_exact(LANE));
    let equal = lanes.take_while(|(one, other)| one == other).count() * LANE;
    let rest = one[equal..].iter().zip(&other[equal..]);
    equal + rest.take_while(|(one, other)| one == other).count()
}

/// Records from one seek place of a block to the next.
const SEEK_RECORDS: usize = 16;

/// Bytes of a part of a run, in memory. A block that is sought in again and again has places between its
/// records at which reading can begin; they are not in the file.
pub(crate) struct RunBytes {
    bytes: Box<[u8]>,
    /// True if the places were made.
    is_seekable: bool,
    places: Vec<SeekPoint>,
    /// Keys of the records before the places.
    keys: Vec<u8>,
}

/// Position between two records of a block.
struct SeekPoint {
    /// Offset of the record after it.
    offset: usize,
    /// End of the key of the record before it, in [`RunBytes::keys`].
    key_end: usize,
}

impl RunBytes {
    /// A part that is read from its start.
    pub fn plain(bytes: Vec<u8>) -> Self {
        RunBytes { bytes: bytes.into(), is_seekable: false, places: Vec::new(), keys: Vec::new() }
    }

    /// A block with seek places. Costs one pass over it. One that is malformed has places before the fault,
    /// which the pass that reaches it reports.
    pub fn seekable(bytes: Vec<u8>) -> Self {
        let mut block = RunBytes { is_seekable: true, ..RunBytes::plain(bytes) };
        let mut position = BlockPosition::default();
        'places: loop {
            for _ in 0..SEEK_RECORDS {
                let Ok(Some(_)) = position.read(&block.bytes) else { break 'places };
            }
            block.keys.extend_from_slice(&position.key);
            block.places.push(SeekPoint { offset: position.offset, key_end: block.keys.len() });
        }
        block.places.shrink_to_fit();
        block.keys.shrink_to_fit();
        block
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True for a block with seek places.
    pub fn is_seekable(&self) -> bool {
        self.is_seekable
    }

    /// Bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.places[..]) + self.keys.len()
    }

    /// Key of the record before a place.
    fn key_before(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.places[before].key_end);
        &self.keys[start..self.places[place].key_end]
    }

    /// The last place all records before which are below `wanted`: the offset of the next record, and the key
    /// of the one before it.
    fn place_before(&self, wanted: &[u8]) -> Option<(usize, &[u8])> {
        let (mut first, mut end) = (0, self.places.len());
        while first < end {
            let middle = first + (end - first) / 2;
            match self.key_before(middle) < wanted {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        let place = first.checked_sub(1)?;
        Some((self.places[place].offset, self.key_before(place)))
    }
}

/// Position in a block that is read.
#[derive(Default)]
pub(crate) struct BlockPosition {
    offset: usize,
    /// Key of the last record read.
    pub key: Vec<u8>,
}

impl BlockPosition {
    /// Reads the next record: its key is in [`BlockPosition::key`], its value is returned. `Ok(None)` at the
    /// end, `Err` if the block is not one.
    pub fn next<'b>(&mut self, block: &'b RunBytes) -> Result<Option<&'b [u8]>, Malformed> {
        Ok(self.read(&block.bytes)?.map(|(_, value)| value))
    }

    /// Reads on to the first record whose key is `wanted` or above it, as [`BlockPosition::next`] does;
    /// `Ok(None)` if all are below. Called at the start of a block.
    ///
    /// A record that shares more with the one before it than that one shares with `wanted` is below `wanted`
    /// as well. So most keys are not compared.
    pub fn seek<'b>(&mut self, block: &'b RunBytes, wanted: &[u8]) -> Result<Option<&'b [u8]>, Malformed> {
        let mut matched = 0;
        if let Some((offset, key)) = block.place_before(wanted) {
            self.offset = offset;
            self.key.extend_from_slice(key);
            matched = common(key, wanted);
        }
        while let Some((shared, value)) = self.read(&block.bytes)? {
            if shared > matched {
                continue;
            }
            let (key, wanted) = (&self.key[shared..], &wanted[shared..]);
            let equal = common(key, wanted);
            if key[equal..] >= wanted[equal..] {
                return Ok(Some(value));
            }
            matched = shared + equal;
        }
        Ok(None)
    }

    /// Reads the next record; returns its value, and the length that its key shares with the one before.
    fn read<'b>(&mut self, block: &'b [u8]) -> Result<Option<(usize, &'b [u8])>, Malformed> {
        let mut rest = &block[self.offset..];
        if rest.is_empty() {
            return Ok(None);
        }
        let shared = read_number(&mut rest).ok_or(Malformed)? as usize;
        let suffix = read_bytes(&mut rest).ok_or(Malformed)?;
        let value = read_bytes(&mut rest).ok_or(Malformed)?;
        if shared > self.key.len() || shared + suffix.len() > KEY_LIMIT * 2 {
            return Err(Malformed);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        self.offset = block.len() - rest.len();
        Ok(Some((shared, value)))
    }
}

/// Bytes that are not a block.
#[derive(Debug)]
pub(crate) struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seek_ends_where_reading_on_would() {
        let parts = ["", "a", "ab", "abab", "abb", "b", "ba", "bb"];
        let mut keys: Vec<Vec<u8>> =
            parts.iter().flat_map(|one| parts.map(|other| [one, "c", other].concat().into_bytes())).collect();
        keys.sort_unstable();
        let wanted: Vec<Vec<u8>> = keys
            .iter()
            .flat_map(|key| ["", "a", "b", "c"].map(|end| [key, end.as_bytes()].concat()))
            .collect();
        while !keys.is_empty() {
            let mut builder = BlockBuilder::default();
            keys.iter().for_each(|key| builder.add(key, key));
            let blocks = [RunBytes::plain(builder.bytes.clone()), RunBytes::seekable(builder.bytes)];
            for (block, wanted) in blocks.iter().flat_map(|block| wanted.iter().map(move |to| (block, to))) {
                let mut position = BlockPosition::default();
                let found = position.seek(block, wanted).expect("the block is one");
                let expected = keys.iter().find(|key| *key >= wanted).map(Vec::as_slice);
                assert_eq!(found, expected, "{wanted:?} in {keys:?}");
                if found.is_some() {
                    assert_eq!(Some(&position.key[..]), expected);
                }
            }
            keys.remove(keys.len() / 2);
        }
    }
}
