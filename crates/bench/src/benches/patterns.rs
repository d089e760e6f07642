//! Words that are described by a pattern: a prefix, a regular expression, or a word and its edit distance.
//!
//! The peer is the `regex` crate over the same text, folded and contiguous in memory, with an expression that
//! finds just these words: it ranks nothing and knows no documents. Texts with stems and without are two
//! cases, since a stem does not have all letters of its word.

use std::hint::black_box;

use millrace_document::{Document, DocumentValue};
use regex::Regex;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::SearchEngine;
use crate::load::load;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const PREFIX: Benchmark = Benchmark {
    name: "prefix",
    about: "words that begin with some letters in 10k mails of 1 KB, beside the regex crate",
    run: |settings| run(PREFIX.name, settings, &[prefix(30, 2), prefix(300, 3), prefix(3_000, 4)]),
};

pub(super) const REGEX: Benchmark = Benchmark {
    name: "regex",
    about: "a regular expression over a field of words in 10k documents, beside the regex crate",
    run: |settings| run(REGEX.name, settings, &[regex(30), regex(300), regex(3_000)]),
};

pub(super) const FUZZY: Benchmark = Benchmark {
    name: "fuzzy",
    about: "words with up to two letters changed in 10k mails of 1 KB, beside the regex crate",
    run: |settings| run(FUZZY.name, settings, &[fuzzy(30), fuzzy(300), fuzzy(3_000)]),
};

const SCHEMA: &str = "schema mail {
    document mail {
        field text type string { indexing: index | summary }
        field unstemmed type string {
            indexing: index | summary
            stemming: none
        }
        field subject type string { indexing: attribute | summary }
        field date type long { indexing: attribute | summary }
    }
    document-summary short { summary date {} }
}";

const MAILS: u64 = 10_000;
const MAIL_BYTES: usize = 1024;
const SUBJECT_BYTES: usize = 100;
const SHARE_MIN: f64 = 0.5;

/// A pattern, in the query's syntax and in that of the peer.
struct PatternCase {
    name: String,
    fields: &'static [&'static str],
    /// Part of the query after the field.
    condition: String,
    regex: String,
}

/// Words that begin with the first letters of the word with this number.
fn prefix(number: u64, letters: usize) -> PatternCase {
    let start: String = application::word(number).chars().take(letters).collect();
    PatternCase {
        name: format!("{start}*"),
        fields: &["unstemmed", "text"],
        condition: format!("contains ({{prefix: true}}\"{start}\")"),
        regex: format!("(?-u:\\b){start}[a-z0-9]*"),
    }
}

/// The word with this number, with any letters in place of its second and third, and any suffix.
fn regex(number: u64) -> PatternCase {
    let word = application::word(number);
    let expression = format!("{}[a-z]{{2}}{}[a-z]* ", &word[..1], &word[3..]);
    PatternCase {
        name: expression.clone(),
        fields: &["subject"],
        condition: format!("matches \"{expression}\""),
        regex: expression,
    }
}

/// Words similar to the word with this number.
fn fuzzy(number: u64) -> PatternCase {
    let word = application::word(number);
    let mut like = vec![word.clone()];
    for _ in 0..2 {
        like = like.iter().flat_map(|text| edited(text)).collect();
        like.sort_unstable();
        like.dedup();
    }
    PatternCase {
        name: format!("{word}, 2 edits"),
        fields: &["unstemmed", "text"],
        condition: format!("contains fuzzy(\"{word}\")"),
        regex: format!("(?-u:\\b)(?:{})(?-u:\\b)", like.join("|").replace('?', "[a-z0-9]")),
    }
}

/// A text and all with one letter more, less, or another in its place; `?` is any letter.
fn edited(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    for at in 0..=text.len() {
        let (before, after) = text.split_at(at);
        all.push(format!("{before}?{after}"));
        if let Some(rest) = after.get(1..) {
            all.push(format!("{before}{rest}"));
            all.push(format!("{before}?{rest}"));
        }
    }
    all
}

fn run(name: &'static str, settings: &Settings, patterns: &[PatternCase]) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::with_schema(SCHEMA, directory.path())?;
    let mut maker = DocumentMaker::new()?;
    let mails: Vec<(String, String)> =
        (0..settings.sized(MAILS)).map(|_| (maker.text(MAIL_BYTES), maker.text(SUBJECT_BYTES))).collect();
    load(engine.store(), (0..).zip(&mails).map(|(name, (text, subject))| document(name, text, subject)))?;
    let group = application::group_name(0);
    let mut report = BenchReport::new(name);
    for PatternCase { name, fields, condition, regex } in patterns {
        let regex = Regex::new(regex).map_err(Error::failed)?;
        for field in *fields {
            let texts = mails.iter().map(|(text, subject)| if *field == "subject" { subject } else { text });
            let matching = texts.clone().filter(|text| regex.is_match(text)).count() as u64;
            let column: String = texts.flat_map(|text| [text.as_str(), "\n"]).collect();
            let yql = format!("select * from mail where {field} {condition}");
            let query = engine.prepare(&[
                ("yql", &*yql),
                ("ranking", "unranked"),
                ("presentation.summary", "short"),
                ("streaming.groupname", &*group),
            ])?;
            let found = engine.run(&query)?.result.total_count;
            if found != matching {
                return Err(Error::failed(format!("{yql} found {found} documents instead of {matching}")));
            }
            let (search, peer) = measure::alternately(
                settings.time_per_case,
                20,
                || engine.run(&query),
                || black_box(regex.find_iter(&column).count()),
            );
            let rate = |seconds: f64| column.len() as f64 / seconds;
            report.push(
                Figure::new(
                    format!("{field}: {name}, {found} found"),
                    "rate",
                    rate(search.median()),
                    FigureUnit::BytesPerSecond,
                )
                .beside("regex", rate(peer.median()))
                .at_least(SHARE_MIN),
            );
        }
    }
    Ok(report)
}

fn document(name: u64, text: &str, subject: &str) -> Result<Document, Error> {
    let fields = vec![
        ("text".into(), DocumentValue::String(text.to_owned())),
        ("unstemmed".into(), DocumentValue::String(text.to_owned())),
        ("subject".into(), DocumentValue::String(subject.to_owned())),
        ("date".into(), DocumentValue::Long(name as i64)),
    ];
    Ok(Document { id: application::id(0, name)?, fields })
}
