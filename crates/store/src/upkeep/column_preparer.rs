//! Columns of groups that were just imported, made ahead of the first query.
//!
//! The first view of a group in the tail finds its rows, and the first query makes their columns: words are
//! split and stemmed, values copied. After a large import that takes tens of milliseconds, and the next query
//! a fraction of one. So groups that got many rows are noted, and once no more have come for a while, a
//! background thread views them and makes the columns that searches scan. They go to the cache of views,
//! within its bounds: the first query makes those that do not fit.
//!
//! Nothing here changes what a view shows. A group whose rows keep coming is not prepared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_bucket::group_prefix;
use millrace_column::{ColumnForm, ColumnKey, Compression};
use millrace_document::DocumentGroup;
use millrace_env::pace;
use parking_lot::Mutex;

use crate::Error;
use crate::context::StoreContext;
use crate::read::columns::compression;
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkSource, StoreSnapshot};
use crate::tail::chunk::memory_of;
use crate::tail::{NewRow, RowKey};

/// Rows of a group one after another in a commit, from which on they are noted.
const RUN_ROWS: usize = 32;
/// Noted rows of a group from which on it is prepared.
const ROWS_MIN: usize = 512;
/// Time without more rows after which a group is prepared.
const QUIET_TIME: Duration = Duration::from_millis(50);
/// Groups that are noted at a time. Others that are imported at the same time are not.
const GROUPS_MAX: usize = 64;
/// Divisor of the bytes of the cache that gives the share that one group may fill.
const SHARE_OF_CACHE: u64 = 2;

/// Groups that got many rows lately.
#[derive(Default)]
pub(crate) struct FreshGroups(Mutex<HashMap<FreshGroup, FreshRows>>);

/// A group of a type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FreshGroup {
    document_type: String,
    /// The group's key.
    key: String,
}

/// Rows that a group got, and the time of the last of them.
#[derive(Debug, Clone, Copy)]
struct FreshRows {
    rows: usize,
    last: Instant,
}

impl FreshGroups {
    /// Groups with many of these rows one after another, and their number. Costs a comparison for each row.
    pub fn of(rows: &[NewRow]) -> Vec<(FreshGroup, usize)> {
        if rows.len() < RUN_ROWS {
            return Vec::new();
        }
        let is_next = |(one, _): &NewRow, (next, _): &NewRow| next.starts_with(group_part(one));
        let of_run = |run: &[NewRow]| {
            let key = RowKey::parse(&run.first()?.0).ok()?;
            let group =
                FreshGroup { document_type: key.document_type().to_owned(), key: key.group.to_owned() };
            (!key.group.is_empty()).then_some((group, run.len()))
        };
        rows.chunk_by(is_next).filter(|run| run.len() >= RUN_ROWS).filter_map(of_run).collect()
    }

    /// Notes rows that were committed just now.
    pub fn note(&self, groups: Vec<(FreshGroup, usize)>) {
        if groups.is_empty() {
            return;
        }
        let (mut noted, last) = (self.0.lock(), Instant::now());
        for (group, rows) in groups {
            let known = noted.get(&group).map(|known| known.rows);
            if known.is_some() || noted.len() < GROUPS_MAX {
                let rows = known.unwrap_or(0).saturating_add(rows);
                noted.insert(group, FreshRows { rows, last });
            }
        }
    }

    /// Takes the groups that have got no more rows for a while; returns those that got many.
    fn take_due(&self) -> Vec<FreshGroup> {
        let mut noted = self.0.lock();
        let due = noted.extract_if(|_, rows| rows.last.elapsed() >= QUIET_TIME);
        due.filter(|(_, rows)| rows.rows >= ROWS_MIN).map(|(group, _)| group).collect()
    }
}

/// The beginning of a key that all rows of its group share, and no other rows.
fn group_part(key: &[u8]) -> &[u8] {
    const LOCATION: usize = 4;
    let end = key.iter().skip(LOCATION).position(|byte| *byte == 0);
    end.and_then(|end| key.get(..LOCATION + end + 1)).unwrap_or(key)
}

/// Prepares groups for their first query.
pub(crate) struct ColumnPreparer {
    shared: Arc<StoreContext>,
}

impl ColumnPreparer {
    pub fn new(shared: Arc<StoreContext>) -> Self {
        ColumnPreparer { shared }
    }

    /// Prepares the groups that were just imported, until the store closes.
    ///
    /// # Errors
    /// A group cannot be read; the others are prepared.
    pub fn prepare_due(&self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for group in self.shared.fresh.take_due() {
            // Its rows are sealed soon, and sealing is short of time.
            if !self.shared.is_behind() && !self.is_closed() {
                outcome = outcome.and(self.prepare(&group));
            }
        }
        outcome
    }

    fn is_closed(&self) -> bool {
        self.shared.health.closed.load(Ordering::SeqCst)
    }

    fn prepare(&self, group: &FreshGroup) -> Result<(), Error> {
        let FreshGroup { document_type, key } = group;
        let Some(group) = DocumentGroup::from_key(key) else { return Ok(()) };
        let Some(prefix) = group_prefix(&group) else { return Ok(()) };
        let reading = StoreSnapshot::ahead(&self.shared, RowOrder::Age);
        let Some(mut columns) = reading.layout.columns(document_type) else { return Ok(()) };
        columns.retain(|key| {
            let is_shown_only = compression(&*reading.layout, document_type, key) == Compression::Blocks;
            key.form == ColumnForm::Tokens || !is_shown_only
        });
        columns.push(ColumnKey::id());
        let bytes_max = self.shared.caches.tail_chunks.capacity() / SHARE_OF_CACHE;
        let bytes = memory_of(reading.tail_bytes(&prefix, |_| true)?);
        // Those that were sealed meanwhile have their columns.
        if bytes == 0 || bytes > bytes_max {
            return Ok(());
        }
        let parts = reading.group(document_type, &group, None)?;
        // Generations that are sealed meanwhile can go.
        drop(reading);
        for part in &parts {
            let ChunkSource::Tail(chunk) = &part.source else { continue };
            for key in &columns {
                if self.is_closed() {
                    return Ok(());
                }
                chunk.prepare(key)?;
                pace::step();
            }
        }
        Ok(())
    }
}
