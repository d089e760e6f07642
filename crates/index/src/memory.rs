//! Changes that are not in a run yet.

use std::collections::BTreeMap;

use crate::Error;
use crate::record::{DocumentRecord, EntryRecord};
use crate::run_writer::RunWriter;

#[derive(Default)]
pub(crate) struct MemoryTable {
    pub documents: BTreeMap<Vec<u8>, DocumentRecord>,
    pub entries: BTreeMap<Vec<u8>, EntryRecord>,
    pub bytes: usize,
    /// Entries that come with this table, less those that go.
    pub balance: i64,
}

/// Approximate overhead of a node of a tree, in bytes.
const NODE_BYTES: usize = 48;

impl MemoryTable {
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Writes all changes to a run.
    pub fn write(&self, writer: &mut RunWriter<'_>) -> Result<(), Error> {
        self.documents.iter().try_for_each(|(key, record)| writer.document(key, record))?;
        self.entries.iter().try_for_each(|(key, record)| writer.entry(key, record))
    }

    /// Takes the newest version of a document in, where `before` has its former keys.
    pub fn apply(&mut self, document: &[u8], record: DocumentRecord, before: &[Vec<u8>]) {
        let timestamp = record.timestamp;
        for key in before.iter().filter(|key| record.keys.binary_search(key).is_err()) {
            self.entry(document, key, timestamp, false);
        }
        for key in &record.keys {
            self.entry(document, key, timestamp, true);
        }
        self.bytes += document.len() + record.bytes() + NODE_BYTES;
        self.documents.insert(document.to_vec(), record);
    }

    fn entry(&mut self, document: &[u8], key: &[u8], timestamp: u64, live: bool) {
        let whole = [key, document].concat();
        self.bytes += whole.len() + NODE_BYTES;
        let before = self.entries.insert(whole, EntryRecord { timestamp, live, key_length: key.len() });
        self.balance += match live {
            true => i64::from(!before.is_some_and(|before| before.live)),
            false => -i64::from(before.is_none_or(|before| before.live)),
        };
    }
}
