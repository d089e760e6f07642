//! Blocks: some records of a section, with the beginnings that keys share left out.

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
        let shared = self.last.iter().zip(key).take_while(|(one, other)| one == other).count();
        write_number(shared as u64, &mut self.bytes);
        write_bytes(&key[shared..], &mut self.bytes);
        write_bytes(value, &mut self.bytes);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
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
    pub fn next<'b>(&mut self, block: &'b [u8]) -> Result<Option<&'b [u8]>, Malformed> {
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
        Ok(Some(value))
    }
}

/// Bytes that are not a block.
pub(crate) struct Malformed;
