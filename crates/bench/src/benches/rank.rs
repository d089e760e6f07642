//! First phase of ten features with weights over all documents of a group, with the best ten kept.
//!
//! The peer computes the same sums in a plain loop over the same columns, document by document, and keeps the
//! best one.

use std::hint::black_box;

use millrace_column::Column;
use millrace_document::{Document, DocumentValue};

use super::{Benchmark, Settings};
use crate::application;
use crate::engine::SearchEngine;
use crate::load::load;
use crate::random::BenchRandom;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "rank",
    about: "a linear profile of 10 features over 100k documents, beside a plain loop over the same columns",
    run,
};

const DOCUMENTS: u64 = 100_000;
const FEATURES: usize = 10;
const HITS: usize = 10;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::with_schema(&schema(), directory.path())?;
    let documents = settings.sized(DOCUMENTS).max(HITS as u64);
    let mut random = BenchRandom::new(42);
    load(engine.store(), (0..documents).map(|name| document(&mut random, name)))?;
    let group = application::group_name(0);
    let query = engine.prepare(&[
        ("yql", "select * from mail where true"),
        ("ranking", "linear"),
        ("presentation.summary", "short"),
        ("streaming.groupname", &*group),
    ])?;
    engine.check(&query, HITS)?;
    let columns: Vec<Vec<Column>> =
        (0..FEATURES).map(|at| engine.columns(0, &field(at))).collect::<Result<_, _>>()?;
    let relevance = engine.run(&query)?.result.hits.first().map_or(f64::NAN, |hit| hit.relevance);
    if (relevance - best(&columns)).abs() > 1e-6 {
        return Err(Error::failed("the query and the plain loop differ about the best score"));
    }
    let (search, peer) =
        measure::alternately(settings.time_per_case, 20, || engine.run(&query), || black_box(best(&columns)));
    let case = format!("{documents} documents, {FEATURES} features");
    let per = |seconds: f64| seconds / (documents as f64 * FEATURES as f64);
    let mut report = BenchReport::new(BENCH.name);
    report.push(
        Figure::new(&case, "per document and feature", per(search.median()), FigureUnit::Seconds)
            .beside("plain loop", per(peer.median())),
    );
    report.push(Figure::new(&case, "median", search.median(), FigureUnit::Seconds));
    Ok(report)
}

fn field(at: usize) -> String {
    format!("signal{at}")
}

fn weight(at: usize) -> f64 {
    (at + 1) as f64 / 8.0
}

/// Schema in which half of the features are integers.
fn schema() -> String {
    let data_type = |at: usize| if at.is_multiple_of(2) { "float" } else { "int" };
    let fields: String = (0..FEATURES)
        .map(|at| format!("field {} type {} {{ indexing: attribute }}\n", field(at), data_type(at)))
        .collect();
    let terms: Vec<String> =
        (0..FEATURES).map(|at| format!("{} * attribute({})", weight(at), field(at))).collect();
    format!(
        "schema mail {{ document mail {{ {fields} }} document-summary short {{ summary signal0 {{}} }}
         rank-profile linear {{ first-phase {{ expression: {} }} }} }}",
        terms.join(" + ")
    )
}

fn document(random: &mut BenchRandom, name: u64) -> Result<Document, Error> {
    let value = |at: usize, random: &mut BenchRandom| match at.is_multiple_of(2) {
        true => DocumentValue::Float(random.share() as f32),
        false => DocumentValue::Int(random.below(100) as i32),
    };
    let fields = (0..FEATURES).map(|at| (field(at).into(), value(at, random))).collect();
    Ok(Document { id: application::id(0, name)?, fields })
}

/// Highest sum of any document.
fn best(columns: &[Vec<Column>]) -> f64 {
    let mut best = f64::NEG_INFINITY;
    let chunks = columns.first().map_or(0, Vec::len);
    for chunk in 0..chunks {
        let documents = columns[0][chunk].len();
        let mut sums = vec![0.0; documents];
        for (at, columns) in columns.iter().enumerate() {
            let Column::Fixed(column) = &columns[chunk] else { continue };
            let weight = weight(at);
            match at.is_multiple_of(2) {
                true => add(&mut sums, column.cells::<f32>(), weight),
                false => add(&mut sums, column.cells::<i32>(), weight),
            }
        }
        best = sums.into_iter().fold(best, f64::max);
    }
    best
}

fn add<T: Copy + Into<f64>>(sums: &mut [f64], cells: &[T], weight: f64) {
    sums.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += weight * (*cell).into());
}
