//! Columns of logs that are made ahead of searches.
//!
//! Files that are sealed or merged have new chunks, of which the next search would read and parse each
//! document. So the columns that searches of an index have read lately are made for the newest of its
//! partitions, in the background. Chunks that still grow are left to the searches. The cache is full most of
//! the time, mostly of columns of files that are gone: so there is always room for new ones, but each is made
//! ahead once.

use std::sync::Arc;
use std::time::Duration;

use millrace_column::{CHUNK_DOCS, ChunkIdentity};
use millrace_env::pace;

use crate::Error;
use crate::catalog::{OpenIndex, now_ms};
use crate::hit_scan::make_columns;
use crate::log_columns::LogColumnName;
use crate::service::ElasticService;
use crate::storage::GroupChunks;

/// Time in milliseconds since the end of a partition after which nothing is made for it.
const RECENT_MS: u64 = 600_000;

/// Chunks that one pass makes columns for, at most.
const CHUNKS_MAX: u64 = 256;

impl ElasticService {
    /// Makes columns that searches of logs have read lately, for chunks that lack them. Returns the number of
    /// these chunks; none on a node of a cluster that does not answer searches.
    ///
    /// # Errors
    /// The catalog or the store cannot be read. Columns of other indexes are made.
    pub fn prepare_log_columns(&self) -> Result<u64, Error> {
        // On a node without such searches nothing is read.
        if !self.log_columns.is_read() || !self.owns_home()? {
            return Ok(0);
        }
        let entries = self.catalog.read()?;
        let indexes: Vec<OpenIndex> =
            entries.indexes.values().filter(|index| index.is_log()).cloned().collect();
        drop(entries);
        // It takes a quarter of a core, as other work ahead of requests does.
        pace::during(Box::new(|worked: Duration| worked * 3), || {
            let (mut prepared, mut outcome) = (0, Ok(()));
            for index in &indexes {
                let names = self.log_columns.read_of(&index.entry.uuid);
                if names.is_empty() || prepared >= CHUNKS_MAX {
                    continue;
                }
                match self.prepare_index(index, &names, CHUNKS_MAX - prepared) {
                    Ok(chunks) => prepared += chunks,
                    Err(error) => outcome = Err(error),
                }
            }
            outcome.map(|()| prepared)
        })
    }

    /// Prepares the newest partitions of an index first.
    fn prepare_index(
        &self,
        index: &OpenIndex,
        names: &[Arc<LogColumnName>],
        most: u64,
    ) -> Result<u64, Error> {
        let (now_ms, mut prepared) = (now_ms(), 0);
        let partitions = index.live.partitions.all();
        for partition in partitions.iter().rev().filter(|partition| partition.was_open_in(now_ms, RECENT_MS))
        {
            let Some(chunks) = GroupChunks::of(&self.node, partition.group())? else { continue };
            for (chunk, content) in chunks.all().iter().enumerate() {
                if prepared >= most || self.node.is_stopping() {
                    return Ok(prepared);
                }
                let identity = chunks.identity(chunk).filter(|identity| match identity {
                    ChunkIdentity::Segment { .. } => true,
                    ChunkIdentity::Rows(_) => content.documents >= CHUNK_DOCS,
                });
                let Some(identity) = identity else { continue };
                let is_wanted = |name: &&Arc<LogColumnName>| self.log_columns.is_wanted_ahead(identity, name);
                let wanted: Vec<Arc<LogColumnName>> = names.iter().filter(is_wanted).cloned().collect();
                if wanted.is_empty() {
                    continue;
                }
                // Also where it fails: another pass goes on with the next chunk.
                wanted.iter().for_each(|name| self.log_columns.note_ahead(identity, name));
                make_columns(self, &chunks, chunk, &wanted)?;
                prepared += 1;
            }
        }
        Ok(prepared)
    }
}
