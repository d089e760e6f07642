//! Times that sealing takes for each column, for the decision which fields are worth it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_column::ColumnKey;
use parking_lot::Mutex;

/// Times since the start, by document type and column.
#[derive(Default)]
pub(crate) struct SealTimes(Mutex<BTreeMap<String, BTreeMap<ColumnKey, Duration>>>);

impl SealTimes {
    /// Adds the times of a section with these columns.
    pub fn add(&self, document_type: &str, columns: &[ColumnKey], times: &ColumnTimes) {
        let mut all = self.0.lock();
        let of_type = all.entry(document_type.to_owned()).or_default();
        for (key, time) in columns.iter().zip(&times.0) {
            *of_type.entry(key.clone()).or_default() += Duration::from_nanos(time.load(Ordering::Relaxed));
        }
    }

    /// Time of a column; zero if none was sealed since the start.
    pub fn of_column(&self, document_type: &str, key: &ColumnKey) -> Duration {
        self.0.lock().get(document_type).and_then(|of_type| of_type.get(key)).copied().unwrap_or_default()
    }
}

/// Times of the columns of a section whose chunks several threads make, in nanoseconds.
pub(crate) struct ColumnTimes(Vec<AtomicU64>);

impl ColumnTimes {
    /// Times of this number of columns: none yet.
    pub fn new(columns: usize) -> Self {
        ColumnTimes((0..columns).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds time that was spent on a column.
    pub fn add(&self, column: usize, spent: Duration) {
        self.0[column].fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    }
}
