//! The limit of an index: the same two sections, kept in fjall.

use std::path::Path;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, UserKey};
use millrace_index::IndexChange;
use millrace_keys::KeyRange;

use crate::Error;

/// Interval between looks at the work in the background.
const TICK: Duration = Duration::from_millis(2);

/// An index in fjall: its documents by key with what they have, and its entries.
pub(crate) struct LsmPeer {
    database: Database,
    documents: Keyspace,
    entries: Keyspace,
}

impl LsmPeer {
    /// Creates one in an empty directory.
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let builder = Database::builder(directory).cache_size(cache_bytes);
        let database = builder.open().map_err(Error::failed)?;
        let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(Error::failed);
        let (documents, entries) = (keyspace("documents")?, keyspace("entries")?);
        Ok(LsmPeer { database, documents, entries })
    }

    /// Takes in changes of different documents as one batch: a get of each document, and the inserts and
    /// removals that its version needs.
    pub fn apply(&self, changes: &[IndexChange]) -> Result<(), Error> {
        let mut batch = self.database.batch();
        for change in changes {
            let former = self.documents.get(&change.document).map_err(Error::failed)?;
            let former = former.as_deref().map(FormerRecord::read).unwrap_or_default();
            if former.timestamp >= change.timestamp {
                continue;
            }
            let timestamp = change.timestamp.to_le_bytes();
            let mut record = timestamp.to_vec();
            for key in &change.keys {
                record.extend_from_slice(&(key.len() as u32).to_le_bytes());
                record.extend_from_slice(key);
                let key_length = (key.len() as u32).to_le_bytes();
                let value = [&timestamp[..], &key_length].concat();
                batch.insert(&self.entries, [&key[..], &change.document].concat(), value);
            }
            for key in former.keys.iter().filter(|key| !change.keys.iter().any(|new| new == *key)) {
                batch.remove(&self.entries, [key, &change.document[..]].concat());
            }
            batch.insert(&self.documents, change.document.clone(), record);
        }
        batch.commit().map_err(Error::failed)
    }

    /// Waits until nothing is flushed or compacted.
    pub fn settle(&self) {
        while self.database.outstanding_flushes() > 0 || self.database.active_compactions() > 0 {
            std::thread::sleep(TICK);
        }
    }

    /// Writes what is in memory to tables, and waits until the work on them ends.
    pub fn flush(&self) -> Result<(), Error> {
        for keyspace in [&self.documents, &self.entries] {
            keyspace.rotate_memtable_and_wait().map_err(Error::failed)?;
        }
        self.settle();
        Ok(())
    }

    /// Keys of the entries of some ranges.
    pub fn scan(&self, ranges: &[KeyRange]) -> Result<Vec<UserKey>, Error> {
        let mut found = Vec::new();
        for range in ranges {
            let entries = match &range.high {
                Some(high) => self.entries.range(&range.low[..]..&high[..]),
                None => self.entries.range(&range.low[..]..),
            };
            for entry in entries {
                found.push(entry.key().map_err(Error::failed)?);
            }
        }
        Ok(found)
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.documents.disk_space() + self.entries.disk_space()
    }
}

/// State of a document before a change.
#[derive(Default)]
struct FormerRecord<'a> {
    timestamp: u64,
    keys: Vec<&'a [u8]>,
}

impl<'a> FormerRecord<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let (timestamp, mut rest) = bytes.split_first_chunk::<8>().expect("each record begins with a time");
        let mut keys = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (key, next) = after.split_at(u32::from_le_bytes(*length) as usize);
            keys.push(key);
            rest = next;
        }
        FormerRecord { timestamp: u64::from_le_bytes(*timestamp), keys }
    }
}
