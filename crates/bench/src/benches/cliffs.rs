//! Queries over every kind of field, each beside a plain loop over the same values: no kind of condition,
//! ranking, order or grouping may cost many times what its bytes cost.
//!
//! Times are net of a query that matches nothing. A condition's hits are counted by the plain loop as well,
//! and the counts must agree.

mod documents;
mod rows;

use millrace_column::Column;

use self::documents::{PlainColumns, SCHEMA};
use self::rows::{CliffRow, PlainLoop};
use super::{Benchmark, Settings};
use crate::application;
use crate::engine::SearchEngine;
use crate::limit::read_memory;
use crate::load::load;
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "cliffs",
    about: "conditions, ranking, order and grouping over every kind of field of 10k documents, beside plain loops over the same values",
    run,
};

const DOCUMENTS: u64 = 10_000;
/// A query may take this many times as long as the plain loop.
const TIMES_MAX: f64 = 4.0;
/// Or this long, in seconds.
const SECONDS_MAX: f64 = 250e-6;
/// Shortest time that a figure is given as, in seconds: less is the difference of two noisy times.
const SECONDS_MIN: f64 = 1e-6;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::with_schema(SCHEMA, directory.path())?;
    let documents = settings.sized(DOCUMENTS);
    let plain = PlainColumns::new(documents);
    load(engine.store(), (0..documents).map(|name| plain.document(name)))?;
    let group = application::group_name(0);
    let prepare = |row: &CliffRow| {
        let own = row.parameters.iter().map(|(name, value)| (*name, value.as_str()));
        let all: Vec<(&str, &str)> =
            own.chain([("streaming.groupname", &*group), ("presentation.summary", "short")]).collect();
        engine.prepare(&all).map_err(|error| Error::Failed(format!("{}: {error}", row.name)))
    };
    let empty = prepare(&CliffRow::empty())?;
    let empty = measure::repeatedly(settings.time_per_case / 4, 20, || engine.run(&empty)).median();
    let mut report = BenchReport::new(BENCH.name);
    for row in rows::all(&plain) {
        let query = prepare(&row)?;
        let found = engine.run(&query)?.result.total_count;
        let columns = match &row.plain {
            PlainLoop::Read(field) => engine.columns(0, field)?,
            PlainLoop::Count(_) | PlainLoop::Compute(_) => Vec::new(),
        };
        if let PlainLoop::Count(count) = &row.plain
            && count() != found
        {
            let counted = count();
            return Err(Error::Failed(format!("{} finds {found} documents, and a loop {counted}", row.name)));
        }
        let (search, peer) = measure::alternately(
            settings.time_per_case / 4,
            10,
            || engine.run(&query),
            || match &row.plain {
                PlainLoop::Count(run) | PlainLoop::Compute(run) => run(),
                PlainLoop::Read(_) => columns.iter().map(read).fold(0, u64::wrapping_add),
            },
        );
        let net = (search.median() - empty).max(SECONDS_MIN);
        let limit = (TIMES_MAX * peer.median()).max(SECONDS_MAX);
        report.push(
            Figure::new(&row.name, "net", net, FigureUnit::Seconds)
                .beside(row.plain.name(), peer.median())
                .with_goal(FigureGoal::AtMost(limit)),
        );
    }
    report.note(format!(
        "{documents} documents of one group, sealed; an empty query takes {:.0} µs",
        empty * 1e6
    ));
    Ok(report)
}

fn read(column: &Column) -> u64 {
    match column {
        Column::Fixed(column) => read_memory(column.raw()),
        Column::Bytes(column) => {
            (0..column.len()).map(|at| column.get(at).map_or(0, read_memory)).fold(0, u64::wrapping_add)
        }
        _ => 0,
    }
}
