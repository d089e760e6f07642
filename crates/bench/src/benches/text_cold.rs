//! Two words in groups that have not been read for long: the store's caches are emptied before every query;
//! then also the pages of its files are dropped from the page cache.
//!
//! With many users this is what most queries meet. The limits are a substring search over the same text in
//! memory, and a plain read of just the bytes that the query reads, after the same dropping.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use millrace_document::DocumentValue;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::SearchEngine;
use crate::limit::{drop_page_cache, read_cold, scan_words};
use crate::load::load;
use crate::measure::{self, TimeSamples};
use crate::recorder::ReadRecorder;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "text --cold",
    about: "two words, bm25 and a date filter in groups whose columns are in no cache, beside memmem; and with the page cache dropped, beside a plain read",
    run,
};

/// Mails of the groups.
const GROUPS: [u64; 3] = [100, 2_000, 10_000];
const MAIL_BYTES: usize = 1024;
/// Numbers of the two words.
const WORDS: (u64, u64) = (300, 3_000);
const RUNS_MIN: u64 = 10;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let recorder = ReadRecorder::default();
    let disk: Arc<dyn millrace_env::Disk> = Arc::new(recorder.clone());
    let engine = SearchEngine::open(directory.path(), Some(disk))?;
    let mut maker = DocumentMaker::new()?;
    let words = (application::word(WORDS.0), application::word(WORDS.1));
    let words = [words.0.as_str(), words.1.as_str()];
    let yql = format!(
        "select * from mail where text contains \"{}\" and text contains \"{}\" and date > 1500000000",
        words[0], words[1]
    );
    let mut report = BenchReport::new(BENCH.name);
    for (group, mails) in (0..).zip(GROUPS) {
        let (mails, mut text) = (settings.sized(mails), String::new());
        let documents = (0..mails).map(|name| {
            let document = maker.mail(group, name, MAIL_BYTES)?;
            if let Some(DocumentValue::String(of_mail)) = document.get("text") {
                text.push_str(of_mail);
                text.push('\n');
            }
            Ok(document)
        });
        load(engine.store(), documents)?;
        let name = application::group_name(group);
        let query = [("yql", &*yql), ("streaming.groupname", &*name), ("presentation.summary", "short")];
        let query = engine.prepare(&query)?;
        engine.store().clear_cache();
        recorder.take();
        engine.run(&query)?;
        let files = recorder.take();
        let case = format!("{mails} mails");
        let (mut uncached, mut scan) = (TimeSamples::new(), TimeSamples::new());
        let (mut cold, mut read) = (TimeSamples::new(), TimeSamples::new());
        let mut spent = Duration::ZERO;
        while cold.len() < RUNS_MIN || spent < settings.time_per_case {
            engine.store().clear_cache();
            let time = measure::time(|| engine.run(&query));
            uncached.add(time);
            scan.add(measure::time(|| black_box(scan_words(text.as_bytes(), &words))));
            engine.store().clear_cache();
            files.iter().try_for_each(|(path, _)| drop_page_cache(path))?;
            let of_cold = measure::time(|| engine.run(&query));
            cold.add(of_cold);
            let of_files = files.iter().map(|(path, ranges)| read_cold(path, ranges));
            read.add(of_files.sum::<Result<Duration, Error>>()?);
            spent += time + of_cold;
        }
        report.push(
            Figure::new(&case, "in the page cache", uncached.median(), FigureUnit::Seconds)
                .beside("memmem", scan.median()),
        );
        report.push(
            Figure::new(&case, "on the disk", cold.median(), FigureUnit::Seconds)
                .beside("plain read", read.median()),
        );
        let bytes = files.iter().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start);
        report.push(
            Figure::new(&case, "bytes read", bytes.sum::<u64>() as f64, FigureUnit::Bytes)
                .beside("text", text.len() as f64),
        );
    }
    Ok(report)
}
