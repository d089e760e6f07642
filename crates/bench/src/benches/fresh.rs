//! Queries of groups of 10,000 documents that were just fed, and lie in the tail: two words, the nearest
//! vectors, and counts by a number.
//!
//! The peer is the same query over the same documents in segments. The first query of a group finds the
//! columns that the store has made in the background while other documents were loaded; or, in a store that
//! does not, makes them of the rows. Those of segments are read through the page cache.

use std::time::Instant;

use millrace_document::Document;

use super::{Benchmark, Settings, nn};
use crate::application::{self, DocumentMaker};
use crate::engine::{RepeatableQuery, SearchEngine, TailColumns};
use crate::load::{load, load_unsealed};
use crate::measure::TimeSamples;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "query --fresh",
    about: "words, vectors and grouping over 10k documents that were just fed, beside the same sealed",
    run,
};

/// Makes the query of a case, over a group.
type QueryMaker = fn(&SearchEngine, u64, &[f32]) -> Result<RepeatableQuery, Error>;

const CASES: [(&str, QueryMaker); 3] =
    [("two words", two_words), ("nearest vectors", nn::nearest), ("counts by a number", counts)];

/// Groups of each case, of which no other reads.
const GROUPS: u64 = 3;
const DOCUMENTS: u64 = 10_000;
const TEXT_BYTES: usize = 500;
const RATIO_MAX: f64 = 1.3;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let (of_fresh, of_asked, of_sealed) =
        (settings.workplace()?, settings.workplace()?, settings.workplace()?);
    let fresh = SearchEngine::unsealed(of_fresh.path(), TailColumns::Ahead)?;
    let asked = SearchEngine::unsealed(of_asked.path(), TailColumns::OnRequest)?;
    let sealed = SearchEngine::open(of_sealed.path(), None)?;
    let size = settings.sized(DOCUMENTS).max(nn::HITS as u64);
    for unsealed in [&fresh, &asked] {
        load_unsealed(unsealed.store(), documents(size)?)?;
    }
    load(sealed.store(), documents(size)?)?;
    sealed.store().clear_cache();
    let vector = DocumentMaker::new()?.vector();
    let mut report = BenchReport::new(BENCH.name);
    for (case, (name, make)) in CASES.into_iter().enumerate() {
        let (mut first, mut first_asked) = (TimeSamples::new(), TimeSamples::new());
        let mut first_sealed = TimeSamples::new();
        let groups = case as u64 * GROUPS..(case as u64 + 1) * GROUPS;
        for group in groups.clone() {
            let found = timed(&fresh, &make(&fresh, group, &vector)?, &mut first)?;
            timed(&asked, &make(&asked, group, &vector)?, &mut first_asked)?;
            let peer = timed(&sealed, &make(&sealed, group, &vector)?, &mut first_sealed)?;
            if found != peer || found == 0 {
                let reason = format!("{name}: {found} documents just fed are found, and {peer} sealed");
                return Err(Error::failed(reason));
            }
        }
        let (query, of_peer) = (make(&fresh, groups.start, &vector)?, make(&sealed, groups.start, &vector)?);
        let (again, again_sealed) =
            measure::alternately(settings.time_per_case, 20, || fresh.run(&query), || sealed.run(&of_peer));
        let case = format!("{size} documents, {name}");
        report.push(
            Figure::new(&case, "median", again.median(), FigureUnit::Seconds)
                .beside("sealed", again_sealed.median())
                .at_most(RATIO_MAX),
        );
        report.push(
            Figure::new(&case, "first query", first.median(), FigureUnit::Seconds)
                .beside("sealed, in no cache", first_sealed.median())
                .at_most(RATIO_MAX),
        );
        let on_request = "first query, columns made on request";
        report.push(
            Figure::new(&case, on_request, first_asked.median(), FigureUnit::Seconds)
                .beside("sealed, in no cache", first_sealed.median()),
        );
    }
    match fresh.store().status().segments {
        0 => Ok(report),
        segments => Err(Error::failed(format!("the documents just fed are in {segments} segments"))),
    }
}

/// The documents of all groups, each with a text, a date and a vector.
fn documents(size: u64) -> Result<impl Iterator<Item = Result<Document, Error>>, Error> {
    let mut maker = DocumentMaker::new()?;
    let groups = 0..CASES.len() as u64 * GROUPS;
    let places = groups.flat_map(move |group| (0..size).map(move |name| (group, name)));
    Ok(places.map(move |(group, name)| -> Result<Document, Error> {
        let mut document = maker.mail(group, name, TEXT_BYTES)?;
        let of_vector = maker.embedded(group, name)?.fields;
        document.fields.extend(of_vector.into_iter().filter(|(field, _)| &**field == "embedding"));
        Ok(document)
    }))
}

/// Runs a query once; returns the number of documents that it finds.
fn timed(engine: &SearchEngine, query: &RepeatableQuery, times: &mut TimeSamples) -> Result<u64, Error> {
    let began = Instant::now();
    let outcome = engine.run(query)?;
    times.add(began.elapsed());
    Ok(outcome.result.total_count)
}

fn two_words(engine: &SearchEngine, group: u64, _: &[f32]) -> Result<RepeatableQuery, Error> {
    let [first, second] = [3, 30].map(application::word);
    let yql = format!("select * from mail where text contains \"{first}\" and text contains \"{second}\"");
    of_group(engine, group, &yql)
}

fn counts(engine: &SearchEngine, group: u64, _: &[f32]) -> Result<RepeatableQuery, Error> {
    let request = "all(group(fixedwidth(date, 100000000)) each(output(count())))";
    of_group(engine, group, &format!("select * from mail where true limit 0 | {request}"))
}

fn of_group(engine: &SearchEngine, group: u64, yql: &str) -> Result<RepeatableQuery, Error> {
    let name = application::group_name(group);
    engine.prepare(&[("yql", yql), ("streaming.groupname", &*name), ("presentation.summary", "short")])
}
