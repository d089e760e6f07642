/// What the store holds, for people and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Documents. Those of a sealed bucket are exact where it has one file, or where they were counted for
    /// [`Store::replica_infos`](crate::Store::replica_infos) since its files changed; elsewhere, and in the
    /// tail, versions that those in other files have replaced or removed count as well, and in the tail
    /// removals.
    pub documents: u64,
    /// Bytes of segment files.
    pub segment_bytes: u64,
    /// Buckets.
    pub buckets: usize,
    /// Replicas of a cluster's buckets.
    pub replicas: usize,
    /// Those of them that are known to lack something.
    pub incomplete_replicas: usize,
    /// Segment files.
    pub segments: usize,
    /// Rows in the tail.
    pub tail_rows: u64,
    /// Bytes of rows in the tail.
    pub tail_bytes: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Reads that the cache answered.
    pub cache_hits: u64,
    /// Reads that went to the disk.
    pub cache_misses: u64,
    /// Writes that wait or run.
    pub writes_in_flight: usize,
    /// Bytes free on the disk.
    pub disk_free: u64,
    /// Tails sealed since the start.
    pub seals: u64,
    /// Merges of segments since the start.
    pub merges: u64,
    /// Splits of buckets since the start.
    pub splits: u64,
    /// Why writes are refused, if they are.
    pub refusing: Option<String>,
    /// What in the background did not work when it was last tried.
    pub troubles: Vec<String>,
    /// Panics of the store's work that were caught: bugs, each of which is in the log.
    pub panics: u64,
}
