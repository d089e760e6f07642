//! Encoding of a row of the tail as bytes. `docs/format.md` describes it.

use std::cell::RefCell;
use std::fmt::Display;

use millrace_bucket::{DocumentSortKey, reversed_location};
use millrace_document::{Document, DocumentId, EncodedDocument, ReversedLocation, Timestamp, wire};

use super::{RowBytes, SharedRow};
use crate::Error;

/// Maximum length of a row's key in bytes: the embedded store counts them in 16 bits.
pub(crate) const KEY_LIMIT: usize = 65_000;

const SUFFIX: usize = 9;
const PUT: u8 = 0;
const REMOVED: u8 = 1;

/// The key of a version: the document's sort key, a 0 byte, and the timestamp's complement, big-endian, so
/// that the newest version of a document comes first.
pub(crate) fn row_key(key: &DocumentSortKey, timestamp: Timestamp) -> RowBytes {
    gathered(|bytes| {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&(!timestamp.0).to_be_bytes());
    })
}

/// Bytes of the memory that a thread keeps to encode rows in.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The value of a document's row.
pub(crate) fn encode_put(document: &Document) -> RowBytes {
    encode(|bytes| wire::write_fields(bytes, document))
}

/// The wire form of a document's fields in the value of its row.
pub(crate) fn fields_of_put(value: &[u8]) -> &[u8] {
    value.strip_prefix(&[PUT]).expect("the value of a put begins with its kind")
}

/// The same for the wire form of a document's fields.
pub(crate) fn encode_fields(fields: &[u8]) -> RowBytes {
    encode(|bytes| bytes.extend_from_slice(fields))
}

/// The value of a put's row, whose fields are appended by `write`.
fn encode(write: impl FnOnce(&mut Vec<u8>)) -> RowBytes {
    gathered(|bytes| {
        bytes.push(PUT);
        write(bytes);
    })
}

/// The bytes that `write` appends, with one allocation.
fn gathered(write: impl FnOnce(&mut Vec<u8>)) -> RowBytes {
    ENCODED.with_borrow_mut(|bytes| {
        bytes.clear();
        write(bytes);
        let gathered = RowBytes::from(bytes.as_slice());
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        gathered
    })
}

/// The value of a removal's row.
pub(crate) fn encode_removed() -> RowBytes {
    RowBytes::from(&[REMOVED][..])
}

/// Returns true if a row with this value is a removal.
pub(crate) fn is_removal(value: &[u8]) -> bool {
    value.first() == Some(&REMOVED)
}

/// The wire form of the fields in a row's value; `None` for a removal.
///
/// # Errors
/// The value is neither a document nor a removal.
pub(crate) fn fields_of(value: &[u8]) -> Result<Option<&[u8]>, Error> {
    match value.split_first() {
        Some((&PUT, fields)) => Ok(Some(fields)),
        Some((&REMOVED, [])) => Ok(None),
        _ => Err(damaged_row(&"its value is not one that the store writes")),
    }
}

/// The parts of a row's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowKey<'a> {
    /// The sort key's bytes.
    pub sort_key: &'a [u8],
    pub timestamp: Timestamp,
    /// The first 32 bits of the reversed location.
    pub location: u32,
    /// The group's key.
    pub group: &'a str,
    pub id: &'a str,
}

impl<'a> RowKey<'a> {
    /// Takes a key apart.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::split(bytes).ok_or_else(|| damaged_row(&"its key is not one that the store writes"))
    }

    fn split(bytes: &'a [u8]) -> Option<Self> {
        let (sort_key, suffix) = bytes.split_at_checked(bytes.len().checked_sub(SUFFIX)?)?;
        let timestamp = Timestamp(!u64::from_be_bytes(suffix[1..].try_into().ok()?));
        let (location, rest) = sort_key.split_first_chunk::<4>()?;
        let group_end = rest.iter().position(|byte| *byte == 0)?;
        let id = rest.get(group_end + 5..)?;
        Some(RowKey {
            sort_key,
            timestamp,
            location: u32::from_be_bytes(*location),
            group: std::str::from_utf8(&rest[..group_end]).ok()?,
            id: std::str::from_utf8(id).ok()?,
        })
    }

    /// The sort key in a key, without taking all of it apart; `None`: it is not one that the store writes.
    pub fn sort_key_in(key: &[u8]) -> Option<&[u8]> {
        key.get(..key.len().checked_sub(SUFFIX)?)
    }

    /// The id in a key, without taking all of it apart; `None`: it is not one that the store writes.
    pub fn id_in(key: &[u8]) -> Option<&[u8]> {
        RowKey::id_in_sort_key(RowKey::sort_key_in(key)?)
    }

    /// The id in a document's sort key, in the same way.
    pub fn id_in_sort_key(sort_key: &[u8]) -> Option<&[u8]> {
        let rest = sort_key.get(4..)?;
        let group_end = rest.iter().position(|byte| *byte == 0)?;
        rest.get(group_end + 5..)
    }

    /// The first key after those of all versions of the document.
    pub fn after_document(&self) -> Vec<u8> {
        [self.sort_key, &[0], &[u8::MAX; 8], &[0]].concat()
    }

    /// All bits of the reversed location, from both of their places in the key.
    pub fn reversed_location(&self) -> ReversedLocation {
        reversed_location(self.sort_key)
    }

    /// The document type, as the id names it.
    pub fn document_type(&self) -> &'a str {
        self.id.split(':').nth(2).unwrap_or_default()
    }
}

/// A version of a document, decoded.
#[derive(Debug, Clone)]
pub(crate) struct TailRow {
    /// The document; only its id where it is removed.
    pub document: Document,
    pub timestamp: Timestamp,
    pub removed: bool,
}

impl TailRow {
    /// The version of this key and value.
    pub fn decode(key: &RowKey<'_>, value: &[u8]) -> Result<Self, Error> {
        let id = DocumentId::parse(key.id).map_err(|error| damaged_row(&error))?;
        match fields_of(value)? {
            Some(fields) => {
                let fields = wire::decode_named(fields).map_err(|error| damaged_row(&error))?;
                let document = Document { id, fields };
                Ok(TailRow { document, timestamp: key.timestamp, removed: false })
            }
            None => Ok(TailRow {
                document: Document { id, fields: Vec::new() },
                timestamp: key.timestamp,
                removed: true,
            }),
        }
    }
}

/// The error for a row that cannot be read.
pub(crate) fn damaged_row(reason: &dyn Display) -> Error {
    Error::Tail { action: "read a row of the tail", reason: reason.to_string() }
}

/// A version of a document in the tail, not decoded, in the memory of its generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TailVersion {
    row: SharedRow,
    pub timestamp: Timestamp,
    pub removed: bool,
}

impl TailVersion {
    /// The version of a row with this timestamp in its key, which was parsed.
    pub fn new(row: SharedRow, timestamp: Timestamp) -> Self {
        let removed = is_removal(row.value());
        TailVersion { row, timestamp, removed }
    }

    /// The key of the row.
    pub fn key(&self) -> &[u8] {
        self.row.key()
    }

    /// Bytes of the row.
    pub fn bytes(&self) -> usize {
        self.row.key().len() + self.row.value().len()
    }

    /// The bytes of the document's id.
    pub fn id(&self) -> &[u8] {
        RowKey::id_in(self.key()).expect("the key of a version was parsed, and has an id")
    }

    /// The wire form of the document's fields; `None` for a removal.
    pub fn fields(&self) -> Result<Option<&[u8]>, Error> {
        fields_of(self.row.value())
    }

    /// The document with its values in their wire form.
    pub fn encoded(&self) -> Result<EncodedDocument<'_>, Error> {
        let id = RowKey::parse(self.key())?.id;
        match self.fields()? {
            Some(fields) => EncodedDocument::parse(id, fields).map_err(|error| damaged_row(&error)),
            None => Ok(EncodedDocument::without_fields(id)),
        }
    }
}
