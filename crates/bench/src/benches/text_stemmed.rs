//! Cost of stems: the query of `text` over a field whose words are stored as stems, compared with a field
//! that stores them as written; and indexing of the words of documents.

use millrace_document::{Document, DocumentValue};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::SearchEngine;
use crate::load::load;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "text --stemmed",
    about: "two words and bm25 over 10k mails of 1 KB, in a field with stems beside one without",
    run,
};

const SCHEMA: &str = "schema mail {
    document mail {
        field text type string {
            indexing: index | summary
            index: enable-bm25
        }
        field unstemmed type string {
            indexing: index | summary
            index: enable-bm25
            stemming: none
        }
        field date type long { indexing: attribute | summary }
    }
    document-summary short { summary date {} }
    rank-profile text { first-phase { expression: bm25(text) } }
    rank-profile unstemmed { first-phase { expression: bm25(unstemmed) } }
}";

const MAILS: u64 = 10_000;
const MAIL_BYTES: usize = 1024;
const PAIRS: [(&str, u64, u64); 2] = [("frequent", 3, 30), ("usual", 30, 300)];
const TIMES_MAX: f64 = 1.3;
/// English endings of words, so that there is something to stem. Each word occurs with one of them, and
/// without.
const ENDINGS: [&str; 4] = ["s", "ing", "ed", "ly"];

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::with_schema(SCHEMA, directory.path())?;
    let mut maker = DocumentMaker::new()?;
    let mails = settings.sized(MAILS);
    let texts: Vec<String> = (0..mails).map(|_| with_endings(&maker.text(MAIL_BYTES))).collect();
    load(engine.store(), (0..).zip(&texts).map(|(name, text)| document(name, text)))?;
    let group = application::group_name(0);
    let mut report = BenchReport::new(BENCH.name);
    for (name, first, second) in PAIRS {
        let (first, second) = (application::word(first), application::word(second));
        let prepare = |field: &str| {
            let yql = format!(
                "select * from mail where {field} contains \"{first}\" and {field} contains \"{second}\" and date > 1500000000"
            );
            engine.prepare(&[
                ("yql", &*yql),
                ("ranking", field),
                ("presentation.summary", "short"),
                ("streaming.groupname", &*group),
            ])
        };
        let (stemmed, unstemmed) = (prepare("text")?, prepare("unstemmed")?);
        let found = engine.run(&stemmed)?.result.total_count;
        let (search, peer) = measure::alternately(
            settings.time_per_case,
            20,
            || engine.run(&stemmed),
            || engine.run(&unstemmed),
        );
        report.push(
            Figure::new(
                format!("{mails} mails, {name} words, {found} found"),
                "median",
                search.median(),
                FigureUnit::Seconds,
            )
            .beside("without stems", peer.median())
            .at_most(TIMES_MAX),
        );
    }
    let words = |analyzer: &FieldAnalyzer| {
        let mut words = 0u64;
        texts.iter().for_each(|text| analyzer.tokens(text, |_| words += 1));
        words
    };
    let stemming = FieldAnalyzer::text(TextLanguage::from_tag("en"));
    let plain = FieldAnalyzer::text(TextLanguage::from_tag("en")).without_stemming();
    let (of_stems, of_words) =
        measure::alternately(settings.time_per_case, 3, || words(&stemming), || words(&plain));
    let bytes = texts.iter().map(String::len).sum::<usize>() as f64;
    report.push(
        Figure::new("words of documents", "rate", bytes / of_stems.median(), FigureUnit::BytesPerSecond)
            .beside("without stems", bytes / of_words.median()),
    );
    Ok(report)
}

fn with_endings(text: &str) -> String {
    let of_word = |word: &str| ENDINGS[word.len() % ENDINGS.len()];
    let words = text.split(' ').enumerate().map(|(place, word)| match place.is_multiple_of(2) {
        true => format!("{word}{}", of_word(word)),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn document(name: u64, text: &str) -> Result<Document, Error> {
    let fields = vec![
        ("text".into(), DocumentValue::String(text.to_owned())),
        ("unstemmed".into(), DocumentValue::String(text.to_owned())),
        ("date".into(), DocumentValue::Long(1_400_000_000 + (name as i64 * 7_919_000) % 300_000_000)),
    ];
    Ok(Document { id: application::id(0, name)?, fields })
}
