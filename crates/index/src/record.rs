//! Changes of documents, values of the two sections, and numbers as bytes.

use crate::Error;

/// Maximum length of a document's or an entry's key in bytes.
pub(crate) const KEY_LIMIT: usize = 1 << 20;

/// Version of a document, as an index sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexChange {
    /// Key of the document, in the order in which documents are stored.
    pub document: Vec<u8>,
    /// Time of the version.
    pub timestamp: u64,
    /// Keys of its entries, sorted, each once; none if it was removed.
    pub keys: Vec<Vec<u8>>,
}

impl IndexChange {
    /// Checks that it is not too long for a run.
    pub(crate) fn check_length(&self) -> Result<(), Error> {
        check_length(self.document.len(), self.keys.iter().map(Vec::len))
    }
}

/// Checks that a document and its keys, of these lengths, are not too long for a run.
pub(crate) fn check_length(document: usize, keys: impl Iterator<Item = usize>) -> Result<(), Error> {
    let length = document + keys.max().unwrap_or(0);
    match length > KEY_LIMIT {
        true => Err(Error::TooLong { length, limit: KEY_LIMIT }),
        false => Ok(()),
    }
}

/// Keys of one document, as of its newest version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentRecord {
    /// Time of the version; 0 once the document was forgotten.
    pub timestamp: u64,
    /// Keys of its entries, sorted, each once; empty if it has none or was removed.
    pub keys: Vec<Vec<u8>>,
}

/// Value of an entry: the newest change of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRecord {
    pub timestamp: u64,
    /// False for an entry that has gone.
    pub live: bool,
    /// Length of the index key; the rest of the entry's key is that of the document.
    pub key_length: usize,
}

pub(crate) fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(crate) fn read_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(read_number(bytes)?).ok()?;
    let (read, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(read)
}

pub(crate) fn write_bytes(written: &[u8], out: &mut Vec<u8>) {
    write_number(written.len() as u64, out);
    out.extend_from_slice(written);
}

/// Writes a [`DocumentRecord`] in parts.
pub(crate) fn write_document<'k>(timestamp: u64, keys: impl Iterator<Item = &'k [u8]>, out: &mut Vec<u8>) {
    write_number(timestamp, out);
    keys.for_each(|key| write_bytes(key, out));
}

impl DocumentRecord {
    /// True if the document counts as one that the copy has never seen.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.timestamp == 0
    }

    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let timestamp = read_number(&mut bytes)?;
        let mut keys = Vec::new();
        while !bytes.is_empty() {
            keys.push(read_bytes(&mut bytes)?.to_vec());
        }
        Some(DocumentRecord { timestamp, keys })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len() + 24).sum::<usize>() + 16
    }
}

impl EntryRecord {
    pub fn write(&self, out: &mut Vec<u8>) {
        write_number(self.timestamp << 1 | u64::from(self.live), out);
        write_number(self.key_length as u64, out);
    }

    pub fn read(mut bytes: &[u8]) -> Option<Self> {
        let (head, key_length) = (read_number(&mut bytes)?, read_number(&mut bytes)?);
        let key_length = usize::try_from(key_length).ok()?;
        bytes.is_empty().then_some(EntryRecord { timestamp: head >> 1, live: head & 1 == 1, key_length })
    }
}
