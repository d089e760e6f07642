//! Exact nearest neighbours inside the engine: from a planned query to its ten hits with their ids, on one
//! thread, with all data in the store's cache.
//!
//! The limit is a plain read of the vectors' bytes, in memory where the store has them, by the same thread in
//! turns with the query. No exact search can be faster than that.

use std::hint::black_box;

use millrace_column::Column;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, VECTOR_BYTES};
use crate::engine::{RepeatableQuery, SearchEngine};
use crate::limit::read_memory;
use crate::load::load;
use crate::{BenchReport, CurvePlot, Error, Figure, FigureGoal, FigureUnit, PlotAxis, PlotCurve, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "nn",
    about: "exact top 10 of groups of 1k to 100k vectors on one thread, beside reading their bytes in memory",
    run,
};

/// Numbers of documents of the groups.
const GROUPS: [u64; 4] = [1_000, 10_000, 50_000, 100_000];
/// Size of the group that most figures are about.
pub(super) const TYPICAL: u64 = 10_000;
/// Number of hits of a query.
pub(super) const HITS: usize = 10;
const RATE_MIN: f64 = 30e6;
const SHARE_OF_LIMIT_MIN: f64 = 0.7;
/// Maximum time of a search of the typical group, in seconds.
const SECONDS_MAX: f64 = 350e-6;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let mut maker = DocumentMaker::new()?;
    let mut report = BenchReport::new(BENCH.name);
    let mut of_search = PlotCurve { name: "search".to_owned(), points: Vec::new() };
    let mut of_memory = PlotCurve { name: "memory read".to_owned(), points: Vec::new() };
    for (group, documents) in GROUPS.into_iter().enumerate() {
        let (group, size) = (group as u64, settings.sized(documents).max(HITS as u64));
        load(engine.store(), (0..size).map(|name| maker.embedded(group, name)))?;
        let query = nearest(&engine, group, &maker.vector())?;
        engine.check(&query, HITS)?;
        let columns = engine.columns(group, "embedding")?;
        let read = || {
            let read = |column: &Column| match column {
                Column::Fixed(column) => read_memory(column.raw()),
                _ => 0,
            };
            columns.iter().map(read).fold(0, u64::wrapping_add)
        };
        let (search, memory) =
            measure::alternately(settings.time_per_case, 20, || engine.run(&query), || black_box(read()));
        let case = format!("{size} documents");
        let (size, bytes) = (size as f64, size as f64 * VECTOR_BYTES as f64);
        let rate = |seconds: f64| bytes / seconds;
        report.push(
            Figure::new(&case, "rate", size / search.median(), FigureUnit::PerSecond("documents"))
                .with_goal(FigureGoal::AtLeast(RATE_MIN)),
        );
        report.push(
            Figure::new(&case, "scan", rate(search.median()), FigureUnit::BytesPerSecond)
                .beside("memory read", rate(memory.median()))
                .at_least(SHARE_OF_LIMIT_MIN),
        );
        let median = Figure::new(&case, "median", search.median(), FigureUnit::Seconds);
        report.push(if documents == TYPICAL { median.at_most(SECONDS_MAX) } else { median });
        report.push(Figure::new(&case, "p99", search.quantile(0.99), FigureUnit::Seconds));
        of_search.points.push((size, size / search.median()));
        of_memory.points.push((size, size / memory.median()));
    }
    report.plots.push(CurvePlot {
        title: "Exact nearest neighbours, one thread".to_owned(),
        x: PlotAxis {
            label: "documents of the group".to_owned(),
            unit: FigureUnit::Count(""),
            logarithmic: true,
        },
        y: PlotAxis {
            label: "documents a second".to_owned(),
            unit: FigureUnit::PerSecond("documents"),
            logarithmic: false,
        },
        lines: vec![of_search, of_memory],
    });
    Ok(report)
}

/// Parameters of the query for the nearest neighbours of a vector.
pub(super) fn parameters(group: u64, vector: &[f32]) -> [(&'static str, String); 5] {
    let yql = format!("select * from mail where {{targetHits:{HITS}}}nearestNeighbor(embedding, q)");
    [
        ("yql", yql),
        ("ranking", "nearest".to_owned()),
        ("input.query(q)", application::vector_json(vector)),
        ("presentation.summary", "short".to_owned()),
        ("streaming.groupname", application::group_name(group)),
    ]
}

/// Query for the nearest neighbours of a vector.
pub(super) fn nearest(engine: &SearchEngine, group: u64, vector: &[f32]) -> Result<RepeatableQuery, Error> {
    let parameters = parameters(group, vector);
    engine.prepare(&parameters.each_ref().map(|(name, value)| (*name, value.as_str())))
}
