//! Quality of words alone, vectors alone, and both together, for questions with known answers.
//!
//! The mails are those of the example, in one mailbox; their vectors are computed by MiniLM during feeding.
//! `examples/mail/questions.jsonl` has the questions: a mail is a correct answer if its text contains one of
//! the phrases listed with the question.

use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use millrace_client::OutgoingRequest;
use serde_json::Value;

use super::{Benchmark, Settings};
use crate::clients::HttpClients;
use crate::embedders;
use crate::mailbox::{self, BenchMail};
use crate::node::LocalNode;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "quality",
    about: "nDCG@10 and recall@10 of words, of MiniLM's vectors, and of the hybrid profile, over 60 questions to the example's mails",
    run,
};

const QUESTIONS: &str = include_str!("../../../../examples/mail/questions.jsonl");

/// Number of mails of the mailbox.
const MAILS: u64 = 1000;
/// Number of mails that are fed concurrently, so that their texts are embedded together.
const FEEDERS: usize = 16;
/// Number of hits that are evaluated.
const HITS: usize = 10;

/// A question, and phrases of which a correct answer contains one.
struct QualityQuestion {
    text: String,
    right: Vec<String>,
}

impl QualityQuestion {
    fn is_right(&self, text: &str) -> bool {
        self.right.iter().any(|phrase| text.contains(phrase))
    }
}

/// The three methods: name, query, and profile.
const WAYS: [(&str, &str, &str); 3] = [
    ("words", "select * from mail where userQuery()", "default"),
    (
        "vectors",
        "select * from mail where {targetHits: 100}nearestNeighbor(embedding, embedding)",
        "semantic",
    ),
    (
        "hybrid",
        "select * from mail where userQuery() or {targetHits: 1000}nearestNeighbor(embedding, embedding)",
        "hybrid",
    ),
];

/// Halves of the questions. The weights of the hybrid profile were tuned on every other question, beginning
/// with the first; the figures of the rest show its quality for questions that it was not tuned for.
const HALVES: [(&str, usize); 2] = [("questions that weights were chosen by", 0), ("other questions", 1)];

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let Some(model) = embedders::model("minilm") else {
        report.note("skipped: MiniLM is not there; scripts/models minilm makes it");
        return Ok(report);
    };
    let questions = questions()?;
    let directory = settings.workplace()?;
    let node = LocalNode::start_with(directory.path(), embedders::application(&model)?)?;
    let clients = HttpClients::new(node.url())?;
    let mails = mailbox::mails(settings.sized(MAILS) as usize);
    feed(&clients, &mails)?;
    for (half, first) in HALVES {
        let mut found = [AnswerQuality::default(); WAYS.len()];
        for question in questions.iter().skip(first).step_by(HALVES.len()) {
            let right: Vec<bool> = mails.iter().map(|mail| question.is_right(&mail.text)).collect();
            if !right.contains(&true) {
                continue;
            }
            for ((_, yql, profile), found) in WAYS.iter().zip(&mut found) {
                found.add(&right, &ask(&clients, &question.text, yql, profile)?);
            }
        }
        show(half, &found, &mut report);
        report.note(format!(
            "{half}: {} of them have right answers among {} mails",
            found[0].asked,
            mails.len()
        ));
    }
    Ok(report)
}

/// Quality of a method.
#[derive(Clone, Copy, Default)]
struct AnswerQuality {
    asked: u32,
    gain: f64,
    recall: f64,
}

impl AnswerQuality {
    /// Adds a question's hits, by numbers of mails, best first.
    fn add(&mut self, right: &[bool], hits: &[usize]) {
        let all = right.iter().filter(|right| **right).count().min(HITS);
        let hits: Vec<bool> =
            hits.iter().map(|number| right.get(*number).copied().unwrap_or(false)).collect();
        self.asked += 1;
        self.gain += discounted_gain(&hits) / discounted_gain(&vec![true; all]);
        self.recall += hits.iter().filter(|right| **right).count() as f64 / all as f64;
    }

    fn gain(&self) -> f64 {
        self.gain / f64::from(self.asked.max(1))
    }

    fn recall(&self) -> f64 {
        self.recall / f64::from(self.asked.max(1))
    }
}

fn show(half: &str, found: &[AnswerQuality; WAYS.len()], report: &mut BenchReport) {
    let [words, vectors, hybrid] = found;
    for (measure, of) in
        [("nDCG@10", AnswerQuality::gain as fn(&AnswerQuality) -> f64), ("recall@10", AnswerQuality::recall)]
    {
        for ((way, ..), found) in WAYS.iter().zip([words, vectors]) {
            report.push(Figure::new(format!("{half}, {way}"), measure, of(found), FigureUnit::Count("")));
        }
        report.push(
            Figure::new(format!("{half}, hybrid"), measure, of(hybrid), FigureUnit::Count(""))
                .beside("the better of words and vectors", of(words).max(of(vectors)))
                .at_least(1.0),
        );
    }
}

fn questions() -> Result<Vec<QualityQuestion>, Error> {
    let read = |line: &str| {
        let json: Value = serde_json::from_str(line).ok()?;
        let right = json["right"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(QualityQuestion { text: json["question"].as_str()?.to_owned(), right })
    };
    let all: Option<Vec<QualityQuestion>> = QUESTIONS.lines().map(read).collect();
    all.ok_or_else(|| Error::failed("examples/mail/questions.jsonl has a line that is not a question"))
}

/// Feeds the mails under their numbers.
fn feed(clients: &HttpClients, mails: &[BenchMail]) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Error> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(mail) = mails.get(number) else { return Ok(()) };
            clients.ask(mailbox::put(mail, "me", number as u64))?;
        }
    };
    std::thread::scope(|scope| {
        let feeders: Vec<_> = (0..FEEDERS).map(|_| scope.spawn(work)).collect();
        feeders.into_iter().try_for_each(|feeder| {
            feeder.join().unwrap_or_else(|_| Err(Error::failed("a feeder ended in a panic")))
        })
    })
}

/// Numbers of the mails found, best first.
fn ask(clients: &HttpClients, question: &str, yql: &str, profile: &str) -> Result<Vec<usize>, Error> {
    let hits = HITS.to_string();
    let request = [
        ("yql", yql),
        ("query", question),
        ("type", "any"),
        ("ranking", profile),
        ("streaming.groupname", "me"),
        ("hits", hits.as_str()),
        ("timeout", "60s"),
        ("input.query(embedding)", "embed(minilm, @query)"),
    ];
    let of_text = profile == "default";
    let request = request
        .iter()
        .filter(|(name, _)| !of_text || !name.starts_with("input"))
        .fold(OutgoingRequest::new(Method::GET, "/search/"), |request, (name, value)| {
            request.parameter(name, value)
        });
    let answer = clients.ask(request)?.json();
    let found = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    let number = |hit: &Value| hit["id"].as_str()?.rsplit(':').next()?.parse().ok();
    Ok(found.iter().filter_map(number).collect())
}

/// Discounted cumulative gain of hits that are correct or not.
fn discounted_gain(right: &[bool]) -> f64 {
    right
        .iter()
        .zip(2_u32..)
        .filter(|(right, _)| **right)
        .map(|(_, place)| 1.0 / f64::from(place).log2())
        .sum()
}
