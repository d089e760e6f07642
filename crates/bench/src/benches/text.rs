//! Conjunction of two words, ranked by bm25, with a range of dates, over 10,000 mails of 1 KB.
//!
//! The peer is a bare substring search (`memmem`) for both words over the same text, one mail after another
//! in one piece of memory: the cost of a scan that counts nothing, ranks nothing and knows no words.

use std::hint::black_box;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::SearchEngine;
use crate::limit::scan_words;
use crate::load::load;
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "text",
    about: "two words, bm25 and a date filter over 10k mails of 1 KB, beside memmem for both words",
    run,
};

const MAILS: u64 = 10_000;
const MAIL_BYTES: usize = 1024;
/// Word pairs by frequency: of the frequent words nearly every mail has both, of the rare ones nearly none.
const PAIRS: [(&str, u64, u64); 3] = [("frequent", 3, 30), ("usual", 30, 300), ("rare", 300, 3_000)];
const SECONDS_MAX: f64 = 1.5e-3;
const SHARE_MIN: f64 = 0.6;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let mut maker = DocumentMaker::new()?;
    let mails = settings.sized(MAILS);
    let mut text = String::new();
    let documents: Vec<_> =
        (0..mails).map(|name| maker.mail(0, name, MAIL_BYTES)).collect::<Result<_, Error>>()?;
    for document in &documents {
        if let Some(millrace_document::DocumentValue::String(of_mail)) = document.get("text") {
            text.push_str(of_mail);
            text.push('\n');
        }
    }
    load(engine.store(), documents.into_iter().map(Ok))?;
    let group = application::group_name(0);
    let mut report = BenchReport::new(BENCH.name);
    for (name, first, second) in PAIRS {
        let (first, second) = (application::word(first), application::word(second));
        let yql = format!(
            "select * from mail where text contains \"{first}\" and text contains \"{second}\" and date > 1500000000"
        );
        let query = [("yql", &*yql), ("streaming.groupname", &*group), ("presentation.summary", "short")];
        let query = engine.prepare(&query)?;
        let found = engine.run(&query)?;
        let words = [first.as_str(), second.as_str()];
        let (search, peer) = measure::alternately(
            settings.time_per_case,
            20,
            || engine.run(&query),
            || black_box(scan_words(text.as_bytes(), &words)),
        );
        let case = format!("{mails} mails, {name} words, {} found", found.result.total_count);
        report.push(
            Figure::new(&case, "median", search.median(), FigureUnit::Seconds)
                .with_goal(FigureGoal::AtMost(SECONDS_MAX)),
        );
        let rate = |seconds: f64| text.len() as f64 / seconds;
        report.push(
            Figure::new(&case, "rate", rate(search.median()), FigureUnit::BytesPerSecond)
                .beside("memmem", rate(peer.median()))
                .at_least(SHARE_MIN),
        );
        report.push(Figure::new(&case, "p99", search.quantile(0.99), FigureUnit::Seconds));
    }
    Ok(report)
}
