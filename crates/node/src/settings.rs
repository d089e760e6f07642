//! Settings that a node is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_column::ExecutionPaths;
use millrace_env::{Disk, ObservedDisk, RealDisk};
use millrace_plan::{PlanContext, QUERY_MEMORY_MAX};
use millrace_remote::{OutboundPolicy, SecretBinding};
use millrace_store::SegmentFormat;

/// The settings of a node. [`Settings::new`] has sensible ones for everything but the data directory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directory of all stored data.
    pub data_dir: PathBuf,
    /// Destinations from which models may be fetched and at which they may be called.
    pub outbound: OutboundPolicy,
    /// Hosts that secrets may be sent to.
    pub secrets: Vec<SecretBinding>,
    /// Number of worker threads.
    pub threads: usize,
    /// Maximum number of requests that wait for a thread.
    pub queue_max: usize,
    /// Maximum number of regular expressions of a query.
    pub query_regexes_max: usize,
    /// Maximum memory of the results of one query, in bytes.
    pub query_memory_max: usize,
    /// Maximum memory of the results of all queries, in bytes.
    pub queries_memory_max: usize,
    /// Maximum size of the columns kept in memory between requests, in bytes.
    pub cache_bytes: u64,
    /// Bytes that stay free on the disk: below it, writes other than removes are refused.
    pub disk_reserve: u64,
    /// Time for which the disk may be full before the node reports that it is down.
    pub space_wait: Duration,
    /// Time within which writes are synced that were acknowledged before.
    pub deferred_sync: Duration,
    /// Time after the deletion of a group within which its bytes leave the disk.
    pub erase_within: Duration,
    /// Time for which logs are kept, for points in time between snapshots; zero: none is kept.
    pub keep_logs: Duration,
    /// Maximum bytes of kept logs.
    pub keep_logs_bytes_max: u64,
    /// Format of new segments, until a cluster state names another: of a node of a cluster, the first.
    pub segment_format: SegmentFormat,
    /// Maximum number of segment files kept open; others are opened when they are read.
    pub open_files_max: usize,
    /// Time after which an unused model is unloaded from memory.
    pub model_idle: Duration,
    /// True if requests take the plain paths instead of the fast ones: for tests that compare them.
    pub plain_paths: bool,
    /// Time that each sync of the store takes longer: for tests and benchmarks with a slow disk.
    pub sync_delay: Duration,
    /// Holds segments, the manifest and indexes; another than the default for tests that fill it.
    pub disk: Arc<dyn Disk>,
}

impl Settings {
    /// Returns the code paths that requests take.
    pub fn paths(&self) -> ExecutionPaths {
        if self.plain_paths { ExecutionPaths::Plain } else { ExecutionPaths::Fast }
    }

    /// Returns the disk of the store.
    pub(crate) fn disk_of_store(&self) -> Arc<dyn Disk> {
        let disk = Arc::clone(&self.disk);
        match self.sync_delay.is_zero() {
            true => disk,
            false => Arc::new(ObservedDisk::with_slow_syncs(disk, self.sync_delay)),
        }
    }

    /// Creates the default settings.
    pub fn new(data_dir: PathBuf) -> Self {
        Settings {
            data_dir,
            outbound: OutboundPolicy::default(),
            secrets: Vec::new(),
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            queue_max: 4096,
            query_regexes_max: PlanContext::standalone().regexes_max,
            query_memory_max: QUERY_MEMORY_MAX,
            queries_memory_max: 2 * QUERY_MEMORY_MAX,
            cache_bytes: 512 << 20,
            disk_reserve: 256 << 20,
            space_wait: Duration::from_secs(60),
            deferred_sync: Duration::from_millis(100),
            erase_within: Duration::from_secs(30 * 24 * 3600),
            keep_logs: Duration::ZERO,
            keep_logs_bytes_max: 16 << 30,
            segment_format: SegmentFormat::default(),
            open_files_max: 4096,
            model_idle: Duration::from_secs(900),
            plain_paths: false,
            sync_delay: Duration::ZERO,
            disk: Arc::new(RealDisk),
        }
    }
}
