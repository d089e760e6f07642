//! Columns that searches have read lately, by the index: those that are made ahead of the next searches.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::LogColumnName;

/// Time in milliseconds after which a column that was read is forgotten.
const LATELY_MS: u64 = 600_000;

/// Indexes of which columns are noted, and columns of each, at most.
const INDEXES_MAX: usize = 64;
const COLUMNS_MAX: usize = 32;

/// Bytes of the texts of a name that is noted, at most.
const NAME_BYTES_MAX: usize = 1024;

/// Columns with the times when they were read last, in milliseconds since 1970.
type TimedColumns = Vec<(Arc<LogColumnName>, u64)>;

/// Columns that were read, by the ids of their indexes.
#[derive(Default)]
pub(super) struct RecentColumns(Mutex<HashMap<String, TimedColumns>>);

impl RecentColumns {
    /// Notes that a search of an index reads columns now.
    pub(super) fn note<'n>(
        &self,
        index: &str,
        names: impl Iterator<Item = &'n Arc<LogColumnName>>,
        now_ms: u64,
    ) {
        let mut names = names.filter(|name| name.bytes() <= NAME_BYTES_MAX).peekable();
        if names.peek().is_none() {
            return;
        }
        let mut indexes = self.0.lock();
        if !indexes.contains_key(index) {
            if indexes.len() >= INDEXES_MAX {
                indexes.retain(|_, columns| columns.iter().any(|(_, read_ms)| is_lately(*read_ms, now_ms)));
            }
            if indexes.len() >= INDEXES_MAX {
                return;
            }
            indexes.insert(index.to_owned(), Vec::new());
        }
        let Some(columns) = indexes.get_mut(index) else { return };
        for name in names {
            if let Some((_, read_ms)) = columns.iter_mut().find(|(known, _)| known == name) {
                *read_ms = now_ms;
                continue;
            }
            let oldest = columns.iter().enumerate().min_by_key(|(_, (_, read_ms))| *read_ms);
            if let Some(oldest) = oldest.map(|(at, _)| at).filter(|_| columns.len() >= COLUMNS_MAX) {
                columns.swap_remove(oldest);
            }
            columns.push((Arc::clone(name), now_ms));
        }
    }

    /// True if no column was read lately.
    pub(super) fn is_empty(&self, now_ms: u64) -> bool {
        let mut indexes = self.0.lock();
        indexes.retain(|_, columns| columns.iter().any(|(_, read_ms)| is_lately(*read_ms, now_ms)));
        indexes.is_empty()
    }

    /// Columns of an index that were read lately.
    pub(super) fn of(&self, index: &str, now_ms: u64) -> Vec<Arc<LogColumnName>> {
        let indexes = self.0.lock();
        let columns = indexes.get(index).into_iter().flatten();
        let lately = columns.filter(|(_, read_ms)| is_lately(*read_ms, now_ms));
        lately.map(|(name, _)| Arc::clone(name)).collect()
    }
}

fn is_lately(read_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(read_ms) < LATELY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Arc<LogColumnName> {
        Arc::new(LogColumnName::Members(vec![format!("f{number}")]))
    }

    #[test]
    fn columns_that_were_read_last_are_known() {
        let read = RecentColumns::default();
        assert!(read.is_empty(0));
        let names: Vec<Arc<LogColumnName>> = (0..COLUMNS_MAX + 8).map(name).collect();
        for (at, name) in names.iter().enumerate() {
            read.note("a", std::iter::once(name), at as u64);
        }
        // The first ones made room, and one that is read again is known once.
        read.note("a", names[20..22].iter(), 100);
        let known = read.of("a", 100);
        assert_eq!(known.len(), COLUMNS_MAX);
        assert!(names[8..].iter().all(|name| known.contains(name)));
        assert!(!read.is_empty(100) && read.of("b", 100).is_empty());
        assert_eq!(read.of("a", LATELY_MS + 50).len(), 2, "the others were not read lately");

        let long = Arc::new(LogColumnName::Members(vec!["x".repeat(NAME_BYTES_MAX + 1)]));
        read.note("b", std::iter::once(&long), 100);
        read.note("c", std::iter::empty(), 100);
        assert_eq!(read.0.lock().len(), 1, "indexes without columns take no room");
        (0..2 * INDEXES_MAX).for_each(|index| read.note(&index.to_string(), names[..1].iter(), 100));
        assert!(read.0.lock().len() <= INDEXES_MAX);
        read.note("later", names[..1].iter(), LATELY_MS + 200);
        assert_eq!(
            read.of("later", LATELY_MS + 200).len(),
            1,
            "indexes that were not searched lately make room"
        );
        assert!(read.is_empty(2 * LATELY_MS + 300));
    }
}
