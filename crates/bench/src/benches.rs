//! The benchmarks by name.

mod query;

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Report};

/// What a run may use.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long each case is measured, at least.
    pub time_per_case: Duration,
    /// Where data may be written; it is removed afterwards.
    pub directory: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { time_per_case: Duration::from_secs(1), directory: std::env::temp_dir() }
    }
}

/// A benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Bench {
    /// Its name.
    pub name: &'static str,
    /// What it measures, and beside what.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Settings) -> Result<Report, Error>,
}

/// All benchmarks.
pub const BENCHES: &[Bench] = &[query::BENCH];

/// The benchmark of this name.
///
/// # Errors
/// [`Error::Unknown`], which lists the names.
pub fn find(name: &str) -> Result<&'static Bench, Error> {
    BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| Error::Unknown {
        name: name.to_owned(),
        known: BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", "),
    })
}
