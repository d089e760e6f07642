//! Benchmarks: each prints a figure, the limit or peer measured in the same run, and their ratio.
//!
//! Times differ between machines and hours; ratios much less. So a [`Benchmark`] never reports a figure alone
//! if there is something to compare it with: the rate at which memory is read, a plain read of the same
//! bytes, bare appends with fsync. Both sides of a comparison are measured in turns
//! ([`measure::alternately`]), so that a busy moment of the machine affects both.
//!
//! A [`BenchReport`] is printed as a table, as JSON lines, or drawn ([`CurvePlot`]).
//!
//! ```
//! use millrace_bench::{BenchReport, Figure, FigureUnit};
//!
//! let mut report = BenchReport::new("nn");
//! let scan = Figure::new("10000 documents", "scan", 9.1e9, FigureUnit::BytesPerSecond);
//! report.push(scan.beside("memory read", 1.2e10).at_least(0.7));
//! assert!(report.figures[0].is_met() == Some(true));
//! assert!(report.table().contains("9.10 GB/s"));
//! ```

mod application;
mod benches;
mod clients;
mod cluster;
mod embedders;
mod engine;
mod error;
mod floor;
mod index_peer;
mod index_rows;
pub mod limit;
mod load;
mod mailbox;
pub mod measure;
mod node;
mod placed;
mod process;
mod puts;
pub mod random;
mod recorder;
mod report;

pub use benches::{BENCHES, Benchmark, CaseFilter, DataCounts, Settings, find};
pub use error::Error;
pub use report::{
    BenchProgress, BenchReport, CurvePlot, Figure, FigureGoal, FigureUnit, PlotAxis, PlotCurve,
};
