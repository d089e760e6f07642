//! The benchmarks by name, each in a module of its own.

mod bulk;
mod bulk_beside;
mod bulk_elastic;
mod bulk_logs;
mod bulk_nodes;
mod bulk_slow_node;
mod bytes;
mod cliffs;
mod drop;
mod drop_replicas;
mod fair;
mod feed;
mod feed_arrow;
mod feed_stream;
mod feed_tail;
mod fresh;
mod grouping;
mod heal;
mod index_apply;
mod index_build;
mod index_move;
mod index_scale_out;
mod index_scan;
mod index_visible;
mod maxsim;
mod model;
mod model_feed;
mod model_overhead;
mod model_rank;
mod moving;
mod moving_load;
mod nn;
mod nn_cold;
mod nn_http;
mod patterns;
mod placement;
mod quality;
mod query;
mod rank;
mod restart;
mod scan_large;
mod text;
mod text_cold;
mod text_stemmed;
mod token;
mod users;
mod visible;
mod write_replicas;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::{BenchProgress, BenchReport, Error};

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Minimum time for which each case is measured.
    pub time_per_case: Duration,
    /// Directory for data, which is removed afterwards. Its file system is part of the measurement.
    pub directory: PathBuf,
    /// Amount of data, as a share of the default of a benchmark.
    pub size: f64,
    /// The program `millrace`, for benchmarks that start servers.
    pub program: Option<PathBuf>,
    /// Filter of the cases of `model`.
    pub only: CaseFilter,
    /// Amounts of data of benchmarks of placed indexes.
    pub counts: DataCounts,
    /// Receiver of progress reports.
    pub progress: BenchProgress,
}

/// Filter of the cases of a benchmark; all by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaseFilter {
    /// Run only cases with this in their name.
    pub case: Option<String>,
    /// Run only cases with one of these numbers of clients.
    pub clients: Vec<usize>,
}

/// Amounts of data of a benchmark; its own where none is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataCounts {
    /// Number of indexes.
    pub indexes: Option<u64>,
    /// Number of documents, independent of [`Settings::size`].
    pub documents: Option<u64>,
}

impl CaseFilter {
    /// Returns true if this case is run.
    fn takes(&self, case: &str, clients: usize) -> bool {
        self.case.as_deref().is_none_or(|part| case.contains(part))
            && (self.clients.is_empty() || self.clients.contains(&clients))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            time_per_case: Duration::from_secs(1),
            directory: std::env::temp_dir(),
            size: 1.0,
            program: None,
            only: CaseFilter::default(),
            counts: DataCounts::default(),
            progress: BenchProgress::default(),
        }
    }
}

impl Settings {
    /// The number `of` multiplied by the requested size; at least 1.
    fn sized(&self, of: u64) -> u64 {
        ((of as f64 * self.size).round() as u64).max(1)
    }

    /// The program `millrace`, or why there is none.
    fn program(&self) -> Result<&Path, Error> {
        let reason = "this benchmark starts servers: build `millrace` beside `millrace-bench`, or name it by MILLRACE_BIN";
        self.program.as_deref().ok_or_else(|| Error::failed(reason))
    }

    /// An empty directory, removed when it is dropped.
    fn workplace(&self) -> Result<TempDir, Error> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("millrace-bench-").tempdir_in(&self.directory).map_err(Error::file(&self.directory))
    }
}

/// A benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// Name of the benchmark as it is written on the command line; `nn --cold` for a variant of `nn`.
    pub name: &'static str,
    /// The measurement, and its comparison.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Settings) -> Result<BenchReport, Error>,
}

/// All benchmarks.
pub const BENCHES: &[Benchmark] = &[
    query::BENCH,
    fresh::BENCH,
    nn::BENCH,
    nn_http::BENCH,
    token::NEAREST,
    token::GET,
    nn_cold::BENCH,
    users::NEAREST,
    text::BENCH,
    text_cold::BENCH,
    text_stemmed::BENCH,
    users::TEXT,
    patterns::PREFIX,
    patterns::REGEX,
    patterns::FUZZY,
    grouping::BENCH,
    rank::BENCH,
    maxsim::BENCH,
    cliffs::BENCH,
    feed::VECTORS,
    feed::SMALL,
    feed_tail::BENCH,
    feed_stream::BENCH,
    feed_arrow::BENCH,
    bulk::BENCH,
    bulk::TAIL,
    bulk_beside::BESIDE,
    bulk_beside::FAIR,
    bulk_beside::MEMORY,
    bulk_nodes::BENCH,
    bulk_elastic::BENCH,
    bulk_slow_node::BENCH,
    bulk_logs::RETENTION,
    bulk_logs::LOGS,
    bulk_logs::ASYNC,
    visible::BENCH,
    fair::BENCH,
    bytes::BENCH,
    drop::BENCH,
    restart::MEMORY,
    restart::START,
    restart::MEMORY_INDEX,
    restart::START_INDEX,
    index_apply::BENCH,
    index_build::BENCH,
    index_scan::BENCH,
    index_visible::BENCH,
    index_scale_out::BENCH,
    index_move::BENCH,
    placement::BENCH,
    scan_large::BENCH,
    moving::BENCH,
    moving_load::BENCH,
    heal::BENCH,
    drop_replicas::BENCH,
    write_replicas::BENCH,
    model::BENCH,
    model_overhead::BENCH,
    model_feed::BENCH,
    model_rank::BENCH,
    quality::BENCH,
];

/// The benchmark of this name.
///
/// # Errors
/// [`Error::Unknown`], which lists the names.
pub fn find(name: &str) -> Result<&'static Benchmark, Error> {
    BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| Error::Unknown {
        name: name.to_owned(),
        known: BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", "),
    })
}
