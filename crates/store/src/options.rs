use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use millrace_column::ExecutionPaths;
use millrace_env::{Disk, RealDisk, SystemClock, WallClock};
use millrace_segment::SegmentFormat;

use crate::StoreTuning;

/// Number of threads after which one that reads rows and writes files is busy.
const SEAL_THREADS_MAX: usize = 8;

/// Options for opening a store. [`StoreOptions::new`] gives the defaults.
#[derive(Clone)]
pub struct StoreOptions {
    /// The data directory; made when it is not there.
    pub data_dir: PathBuf,
    /// Bytes of decoded columns and directory pages kept in memory. Default: 256 MB.
    pub cache_bytes: u64,
    /// Bytes of rows after which the tail is sealed. Twice as much may be in memory while that runs, beside
    /// up to 5 bytes a document for filters of ids, and 48 bytes a document while it is sealed. From three
    /// and a half times as much on batches are refused with [`crate::Error::Overloaded`], and from four times
    /// on single writes. Default: 32 MB.
    pub tail_bytes: u64,
    /// Time without a write after which the tail is sealed, if that is worth it. Default: 2 seconds.
    pub seal_idle: Duration,
    /// Threads that seal: they take one core together, and one each while that has fallen behind. Default: as
    /// many as there are cores, at most 8.
    pub seal_threads: usize,
    /// Bytes that stay free on the disk: below it writes other than removes are refused. Default: 256 MB.
    pub disk_reserve: u64,
    /// Writes that wait or run at one time; more are refused with [`crate::Error::Overloaded`]. Default:
    /// 16,384.
    pub queue_writes: usize,
    /// Bytes of writes that wait or run at one time. Default: 64 MB.
    pub queue_bytes: usize,
    /// Time within which a write that was acknowledged before its sync is synced, if a sync takes no more
    /// than half of it. Default: 100 milliseconds.
    pub deferred_sync: Duration,
    /// Time after the drop of a group within which its bytes leave the disk. Default: 30 days.
    pub erase_within: Duration,
    /// Time for which logs of sealed generations are kept, for points in time between snapshots; zero: none
    /// is kept. Default: zero.
    pub keep_logs: Duration,
    /// Bytes of kept logs; beyond them the oldest are deleted. Default: 16 GB.
    pub keep_logs_bytes: u64,
    /// Settings that can be changed later.
    pub tuning: StoreTuning,
    /// Format of new segments, which other nodes of a cluster must know; see
    /// [`crate::Store::set_segment_format`]. Default: the newest.
    pub segment_format: SegmentFormat,
    /// Merge segments and split buckets in the background. Default: true.
    pub maintenance: bool,
    /// Make the columns of groups that were just imported, before they are queried, in the background and in
    /// the cache. Default: true.
    pub columns_ahead: bool,
    /// Read paths: plain ones use neither caches nor precomputed properties of a group as a whole. Default:
    /// fast.
    pub paths: ExecutionPaths,
    /// Tells the time.
    pub clock: Arc<dyn WallClock>,
    /// Holds segments and the manifest.
    pub disk: Arc<dyn Disk>,
}

impl StoreOptions {
    /// True if columns are made ahead of queries, and there is a cache for them.
    pub(crate) fn prepares_columns(&self) -> bool {
        self.columns_ahead && self.paths.is_fast()
    }

    /// The defaults, for this data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        const MB: u64 = 1 << 20;
        StoreOptions {
            data_dir: data_dir.into(),
            cache_bytes: 256 * MB,
            tail_bytes: 32 * MB,
            seal_idle: Duration::from_secs(2),
            seal_threads: available_parallelism().map_or(1, usize::from).min(SEAL_THREADS_MAX),
            disk_reserve: 256 * MB,
            queue_writes: 16_384,
            queue_bytes: 64 << 20,
            deferred_sync: Duration::from_millis(100),
            erase_within: Duration::from_secs(30 * 24 * 3600),
            keep_logs: Duration::ZERO,
            keep_logs_bytes: 16 << 30,
            tuning: StoreTuning::default(),
            segment_format: SegmentFormat::default(),
            maintenance: true,
            columns_ahead: true,
            paths: ExecutionPaths::Fast,
            clock: Arc::new(SystemClock),
            disk: Arc::new(RealDisk),
        }
    }
}
