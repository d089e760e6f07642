//! Queries of many users in turns at random: each query reads the data of another group, and all groups
//! together are larger than the processor's caches.
//!
//! The limit is reading the same kind of data of another group drawn at random, by the same thread in turns
//! with the queries.

use std::hint::black_box;

use millrace_column::Column;
use millrace_document::{Document, DocumentValue};

use super::nn::{HITS, nearest};
use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, VECTOR_BYTES};
use crate::engine::{RepeatableQuery, SearchEngine};
use crate::limit::{read_memory, scan_words};
use crate::load::load;
use crate::random::BenchRandom;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const NEAREST: Benchmark = Benchmark {
    name: "nn --users 64",
    about: "exact top 10 in one of 64 groups of 5k vectors, drawn at random, beside reading those of another in memory",
    run: run_nearest,
};

pub(super) const TEXT: Benchmark = Benchmark {
    name: "text --users 64",
    about: "two words, bm25 and a date filter in one of 64 groups of 2k mails of 1 KB, drawn at random, beside memmem over those of another",
    run: run_text,
};

/// Number of groups.
const USERS: u64 = 64;
/// Number of vectors of a group: 3.8 MB, and 246 MB of all groups.
const VECTORS: u64 = 5_000;
/// Number of mails of a group: 2 MB, and 131 MB of all groups.
const MAILS: u64 = 2_000;
const MAIL_BYTES: usize = 1024;
/// Numbers of the two words: nearly no mail has both, so that the scan is what is measured.
const WORDS: (u64, u64) = (300, 3_000);
const SHARE_MIN: f64 = 0.7;
/// Number of queries measured at least: each group several times.
const QUERIES_MIN: usize = 8 * USERS as usize;

fn run_nearest(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let mut maker = DocumentMaker::new()?;
    let size = settings.sized(VECTORS).max(HITS as u64);
    let mut queries = Vec::new();
    for group in 0..USERS {
        load(engine.store(), (0..size).map(|name| maker.embedded(group, name)))?;
        let query = nearest(&engine, group, &maker.vector())?;
        engine.check(&query, HITS)?;
        queries.push(query);
    }
    let mut columns: Vec<Vec<Column>> = Vec::new();
    for group in 0..USERS {
        columns.push(engine.columns(group, "embedding")?);
    }
    let read = |group: usize| {
        let read = |column: &Column| match column {
            Column::Fixed(column) => read_memory(column.raw()),
            _ => 0,
        };
        columns[group].iter().map(read).fold(0, u64::wrapping_add)
    };
    let mut report = BenchReport::new(NEAREST.name);
    let case = format!("{USERS} groups of {size} documents");
    let bytes = size as f64 * VECTOR_BYTES as f64;
    let users =
        UserQueries { engine: &engine, queries: &queries, case, limit: "memory read", bytes, read: &read };
    users.measure(settings, &mut report);
    Ok(report)
}

fn run_text(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let mut maker = DocumentMaker::new()?;
    let mails = settings.sized(MAILS);
    let (first, second) = (application::word(WORDS.0), application::word(WORDS.1));
    let yql = format!(
        "select * from mail where text contains \"{first}\" and text contains \"{second}\" and date > 1500000000"
    );
    let (mut queries, mut texts) = (Vec::new(), Vec::new());
    for group in 0..USERS {
        let documents: Vec<Document> =
            (0..mails).map(|name| maker.mail(group, name, MAIL_BYTES)).collect::<Result<_, Error>>()?;
        texts.push(text_of(&documents));
        load(engine.store(), documents.into_iter().map(Ok))?;
        let name = application::group_name(group);
        let query = [("yql", &*yql), ("streaming.groupname", &*name), ("presentation.summary", "short")];
        let query = engine.prepare(&query)?;
        engine.run(&query)?;
        queries.push(query);
    }
    let words = [first.as_str(), second.as_str()];
    let scan = |group: usize| scan_words(texts[group].as_bytes(), &words) as u64;
    let mut report = BenchReport::new(TEXT.name);
    let case = format!("{USERS} groups of {mails} mails");
    let bytes = texts.iter().map(String::len).sum::<usize>() as f64 / USERS as f64;
    let users = UserQueries { engine: &engine, queries: &queries, case, limit: "memmem", bytes, read: &scan };
    users.measure(settings, &mut report);
    Ok(report)
}

/// Text of documents, one line each.
fn text_of(documents: &[Document]) -> String {
    let mut text = String::new();
    for document in documents {
        if let Some(DocumentValue::String(of_mail)) = document.get("text") {
            text.push_str(of_mail);
            text.push('\n');
        }
    }
    text
}

/// Queries of groups, and plain reads of the same groups' data.
struct UserQueries<'a> {
    engine: &'a SearchEngine,
    /// The query of each group.
    queries: &'a [RepeatableQuery],
    case: String,
    /// Name of the limit.
    limit: &'a str,
    /// Bytes of a group.
    bytes: f64,
    /// Reads the data of a group.
    read: &'a dyn Fn(usize) -> u64,
}

impl UserQueries<'_> {
    /// Measures queries of groups drawn at random, and of one group again and again.
    fn measure(&self, settings: &Settings, report: &mut BenchReport) {
        for (order, groups) in [("at random", self.queries.len() as u64), ("one group", 1)] {
            let (mut of_queries, mut of_reads) = (BenchRandom::new(1), BenchRandom::new(2));
            let (search, peer) = measure::alternately(
                settings.time_per_case,
                QUERIES_MIN,
                || self.engine.run(&self.queries[of_queries.below(groups) as usize]),
                || black_box((self.read)(of_reads.below(groups) as usize)),
            );
            let case = format!("{}, {order}", self.case);
            let rate = |seconds: f64| self.bytes / seconds;
            report.push(
                Figure::new(&case, "scan", rate(search.median()), FigureUnit::BytesPerSecond)
                    .beside(self.limit, rate(peer.median()))
                    .at_least(SHARE_MIN),
            );
            report.push(Figure::new(&case, "median", search.median(), FigureUnit::Seconds));
            report.push(Figure::new(&case, "p99", search.quantile(0.99), FigureUnit::Seconds));
        }
    }
}
