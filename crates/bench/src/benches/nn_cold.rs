//! Exact nearest neighbours of a group that has not been read for long: the store's caches are emptied, and
//! the pages of its files are dropped from the page cache, before every query.
//!
//! The limit is a plain read of just the bytes that the query reads, after the same dropping. The number of
//! these bytes relative to those of the vectors alone is a figure of its own, so that reading too much does
//! not hide in the limit.

use std::time::Duration;

use super::nn::{HITS, nearest};
use super::{Benchmark, Settings};
use crate::application::{DocumentMaker, VECTOR_BYTES};
use crate::engine::SearchEngine;
use crate::limit::{drop_page_cache, read_cold};
use crate::load::load;
use crate::measure::{self, TimeSamples};
use crate::recorder::ReadRecorder;
use crate::{BenchReport, CurvePlot, Error, Figure, FigureUnit, PlotAxis, PlotCurve};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "nn --cold",
    about: "the same with the page cache dropped, beside a plain read of just the bytes needed",
    run,
};

const GROUPS: [u64; 3] = [1_000, 10_000, 100_000];
const RATIO_MAX: f64 = 1.25;
/// Maximum ratio of bytes read to those of the vectors: the rest are a few pages of directories, times, and
/// the hits' ids.
const BYTES_RATIO_MAX: f64 = 1.25;
const RUNS_MIN: u64 = 5;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let recorder = ReadRecorder::default();
    let disk: std::sync::Arc<dyn millrace_env::Disk> = std::sync::Arc::new(recorder.clone());
    let engine = SearchEngine::open(directory.path(), Some(disk))?;
    let mut maker = DocumentMaker::new()?;
    let mut report = BenchReport::new(BENCH.name);
    let mut of_search = PlotCurve { name: "search, cold".to_owned(), points: Vec::new() };
    let mut of_read = PlotCurve { name: "plain read, cold".to_owned(), points: Vec::new() };
    for (group, documents) in GROUPS.into_iter().enumerate() {
        let (group, size) = (group as u64, settings.sized(documents).max(HITS as u64));
        load(engine.store(), (0..size).map(|name| maker.embedded(group, name)))?;
        let query = nearest(&engine, group, &maker.vector())?;
        engine.store().clear_cache();
        recorder.take();
        engine.check(&query, HITS)?;
        let files = recorder.take();
        let (mut search, mut read) = (TimeSamples::new(), TimeSamples::new());
        let mut spent = Duration::ZERO;
        while search.len() < RUNS_MIN || spent < settings.time_per_case {
            engine.store().clear_cache();
            for (path, _) in &files {
                drop_page_cache(path)?;
            }
            let time = measure::time(|| engine.run(&query));
            search.add(time);
            let mut of_files = Duration::ZERO;
            for (path, ranges) in &files {
                of_files += read_cold(path, ranges)?;
            }
            read.add(of_files);
            spent += time + of_files;
        }
        let case = format!("{size} documents");
        report.push(
            Figure::new(&case, "median", search.median(), FigureUnit::Seconds)
                .beside("plain read", read.median())
                .at_most(RATIO_MAX),
        );
        let bytes: u64 =
            files.iter().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start).sum();
        let vectors = size as f64 * VECTOR_BYTES as f64;
        let bytes =
            Figure::new(&case, "bytes read", bytes as f64, FigureUnit::Bytes).beside("vectors", vectors);
        report.push(if documents > GROUPS[0] { bytes.at_most(BYTES_RATIO_MAX) } else { bytes });
        of_search.points.push((size as f64, search.median()));
        of_read.points.push((size as f64, read.median()));
    }
    report.plots.push(CurvePlot {
        title: "Exact nearest neighbours from the disk".to_owned(),
        x: PlotAxis {
            label: "documents of the group".to_owned(),
            unit: FigureUnit::Count(""),
            logarithmic: true,
        },
        y: PlotAxis { label: "time of a query".to_owned(), unit: FigureUnit::Seconds, logarithmic: true },
        lines: vec![of_search, of_read],
    });
    Ok(report)
}
