use millrace_env::LatencyCounts;

/// Status of the store, for people and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Number of documents. Exact for a sealed bucket with one file, or if it was counted for
    /// [`Store::replica_infos`](crate::Store::replica_infos) since its files changed. Otherwise, and in the
    /// tail, versions that were replaced or removed in other files count as well, and in the tail removals.
    pub documents: u64,
    /// Bytes of segment files.
    pub segment_bytes: u64,
    /// Number of buckets.
    pub buckets: usize,
    /// Number of replicas of a cluster's buckets.
    pub replicas: usize,
    /// Those of them that are known to lack something.
    pub incomplete_replicas: usize,
    /// Number of segment files.
    pub segments: usize,
    /// Number of rows in the tail, removals among them.
    pub tail_rows: u64,
    /// Bytes of rows in the tail.
    pub tail_bytes: u64,
    /// Bytes of columns and directories that the cache holds.
    pub cache_bytes: u64,
    /// Reads that the cache answered.
    pub cache_hits: u64,
    /// Reads that went to the disk.
    pub cache_misses: u64,
    /// Writes that wait or run.
    pub writes_in_flight: usize,
    /// Rows since the start that were acknowledged before their sync.
    pub deferred_rows: u64,
    /// Longest time since the start from such a row to its sync, in microseconds.
    pub deferred_us_max: u64,
    /// Bytes free on the disk.
    pub disk_free: u64,
    /// Bytes that the disk holds in all; 0 if the system does not say.
    pub disk_total: u64,
    /// Tails sealed since the start.
    pub seals: u64,
    /// Merges of segments since the start.
    pub merges: u64,
    /// Splits of buckets since the start.
    pub splits: u64,
    /// Reason for refusing writes, if they are refused.
    pub refusing: Option<String>,
    /// Background work that failed at its last attempt.
    pub failures: Vec<String>,
    /// Panics of the store's work that were caught: bugs, each of which is in the log.
    pub panics: u64,
}

/// Durations of writes in the store since it was opened: see [`crate::Store::write_times`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTimes {
    /// Time from acceptance until the commit that has the write begins: mostly the rest of the previous
    /// commit.
    pub waited: LatencyCounts,
    /// Time of the commit: appending to the log, syncing it, and adding to the rows in memory.
    pub committed: LatencyCounts,
    /// Share of each commit in the change from one generation of the tail to the next: the wait for the one
    /// that takes writes, and the time to let the next take over.
    pub rolled: LatencyCounts,
}
