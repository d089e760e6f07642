//! Rows on their way to the tail.

use millrace_bucket::DocumentSortKey;
use millrace_document::{DocumentVersion, EncodedDocument, Timestamp};

use crate::Error;
use crate::tail::{KEY_LIMIT, NewRow, RowBytes, encode_fields, encode_removed, row_key};

/// Rows that are committed together, and acknowledged together.
pub(crate) enum CommitRows {
    /// A row that still needs its timestamp.
    Written { key: DocumentSortKey, value: RowValue, existed: Option<bool> },
    /// Rows that have theirs, all or none of which are kept.
    Given { rows: Vec<NewRow>, oldest: u64, newest: u64, bytes: usize, removes: bool },
}

impl CommitRows {
    pub fn bytes(&self) -> usize {
        match self {
            CommitRows::Written { key, value, .. } => key.as_bytes().len() + value.bytes.len(),
            CommitRows::Given { bytes, .. } => *bytes,
        }
    }

    /// The newest of the timestamps that came with the rows.
    pub fn newest(&self) -> Option<Timestamp> {
        match self {
            CommitRows::Given { newest, rows, .. } if !rows.is_empty() => Some(Timestamp(*newest)),
            _ => None,
        }
    }

    pub fn removes(&self) -> bool {
        match self {
            CommitRows::Written { value, .. } => value.removes,
            CommitRows::Given { removes, .. } => *removes,
        }
    }

    /// Creates rows from versions with their timestamps.
    ///
    /// # Errors
    /// One of the versions is invalid.
    pub fn given(versions: Vec<DocumentVersion>) -> Result<Self, Error> {
        let (mut oldest, mut newest, mut bytes, mut removes) = (u64::MAX, 0, 0, true);
        let mut rows = Vec::with_capacity(versions.len());
        for version in versions {
            let key = DocumentSortKey::new(&version.id);
            check_key(&key)?;
            let refused = |reason: String| Error::Version { id: version.id.to_string(), reason };
            if version.timestamp.0 == 0 || version.timestamp.0 >= TIMESTAMP_LIMIT {
                return Err(refused(format!("{} is not a time", version.timestamp.0)));
            }
            // Every version in the tail must be a valid document when it is sealed, which reads it in place.
            version.document().map_err(|error| refused(error.to_string()))?;
            if let Some(fields) = version.body.as_deref() {
                let read = EncodedDocument::parse(version.id.as_str(), fields);
                read.map_err(|error| refused(error.to_string()))?;
            }
            let value = version.body.as_deref().map_or_else(encode_removed, encode_fields);
            oldest = oldest.min(version.timestamp.0);
            newest = newest.max(version.timestamp.0);
            removes &= version.body.is_none();
            let key = row_key(&key, version.timestamp);
            bytes += key.len() + value.len();
            rows.push((key, value));
        }
        Ok(CommitRows::Given { rows, oldest, newest, bytes, removes })
    }
}

/// The value of a row, without its timestamp.
pub(crate) struct RowValue {
    pub bytes: RowBytes,
    pub removes: bool,
}

/// Checks that a key is short enough for the tail.
pub(crate) fn check_key(key: &DocumentSortKey) -> Result<(), Error> {
    let length = key.as_bytes().len();
    if length > KEY_LIMIT { Err(Error::IdTooLong { length, limit: KEY_LIMIT }) } else { Ok(()) }
}

/// No clock is trusted that has gone beyond this: above it there would be no room for later timestamps.
pub(crate) const TIMESTAMP_LIMIT: u64 = 1 << 62;
