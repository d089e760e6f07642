//! What words alone, vectors alone, and both together find, for questions whose right answers are known.
//!
//! The mails are those of the example, in one mailbox; their vectors come from MiniLM, where they are fed. `examples/mail/questions.jsonl` has the
//! questions: a mail is a right answer where its text has one of the phrases that stand beside the question.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use millrace_client::Request;
use millrace_mail::corpus::{Corpus, Settings as CorpusSettings};
use millrace_schema::Application;
use serde_json::{Value, json};

use super::model::models_directory;
use super::{Bench, Settings};
use crate::clients::Clients;
use crate::node::LocalNode;
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "quality",
    about: "nDCG@10 and recall@10 of words, of MiniLM's vectors, and of the hybrid profile, over 60 questions to the example's mails",
    run,
};

const SCHEMA: &str = include_str!("../../../../examples/mail/schemas/mail.sd");
const QUESTIONS: &str = include_str!("../../../../examples/mail/questions.jsonl");
const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'>
    <search/><document-api/>
    <component id='minilm' type='hugging-face-embedder'>
      <transformer-model path='models/model.onnx'/>
      <tokenizer-model path='models/tokenizer.json'/>
      <normalize>true</normalize>
    </component>
  </container>
  <content id='mail' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='mail' mode='streaming'/></documents>
  </content>
</services>";

/// Mails of the mailbox.
const MAILS: u64 = 1000;
/// Mails that are fed at the same time, so that their texts are embedded together.
const FEEDERS: usize = 16;
/// Hits that are looked at.
const HITS: usize = 10;

/// A question, and phrases of which a right answer has one.
struct Question {
    text: String,
    right: Vec<String>,
}

/// The three ways of asking: name, query, and profile.
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

fn run(settings: &Settings) -> Result<Report, Error> {
    let mut report = Report::new(BENCH.name);
    let Some(model) =
        models_directory().map(|all| all.join("minilm")).filter(|one| one.join("model.onnx").is_file())
    else {
        report.note("skipped: MiniLM is not there; scripts/models minilm makes it");
        return Ok(report);
    };
    let questions = questions()?;
    let directory = settings.workplace()?;
    let node = LocalNode::start_with(directory.path(), application(&model)?)?;
    let clients = Clients::new(node.url())?;
    let mails: Vec<(String, String)> = feed(&clients, settings.sized(MAILS) as usize)?;
    let is_right =
        |question: &Question, text: &str| question.right.iter().any(|phrase| text.contains(phrase));
    let mut asked = 0;
    let mut sums = [(0.0, 0.0); WAYS.len()];
    for question in &questions {
        let right: Vec<bool> = mails.iter().map(|(_, text)| is_right(question, text)).collect();
        let count = right.iter().filter(|right| **right).count();
        if count == 0 {
            continue;
        }
        asked += 1;
        for ((_, yql, profile), (gain, recall)) in WAYS.iter().zip(&mut sums) {
            let hits = ask(&clients, &question.text, yql, profile)?;
            let found: Vec<bool> =
                hits.iter().map(|number| right.get(*number).copied().unwrap_or(false)).collect();
            *gain += discounted_gain(&found) / discounted_gain(&vec![true; count.min(HITS)]);
            *recall += found.iter().filter(|found| **found).count() as f64 / count.min(HITS) as f64;
        }
    }
    let mean = |sum: f64| sum / f64::from(asked.max(1));
    let better = |of: fn(&(f64, f64)) -> f64| mean(of(&sums[0]).max(of(&sums[1])));
    for ((name, ..), sum) in WAYS.iter().zip(&sums) {
        let figure = |measure: &str, of: fn(&(f64, f64)) -> f64| {
            let figure = Figure::new(*name, measure, mean(of(sum)), Unit::Count(""));
            match *name {
                "hybrid" => figure.beside("the better of words and vectors", better(of)).at_least(1.0),
                _ => figure,
            }
        };
        report.push(figure("nDCG@10", |sum| sum.0));
        report.push(figure("recall@10", |sum| sum.1));
    }
    report.note(format!(
        "{asked} of {} questions have right answers among {} mails",
        questions.len(),
        mails.len()
    ));
    Ok(report)
}

/// The example's schema, whose vectors come from the embedder instead of from the client.
fn application(model: &Path) -> Result<Application, Error> {
    let cut = |text: &str, from: &str, to: &str| {
        let (from, to) = (text.find(from)?, text.find(to)?);
        Some((text.get(..from)?.to_owned(), text.get(to..)?.to_owned()))
    };
    let (before, after) = cut(SCHEMA, "        # Of length 1", "    fieldset default")
        .ok_or_else(|| Error::failed("the example's schema has another shape"))?;
    let schema = format!(
        "{before}    }}
    field embedding type tensor<bfloat16>(x[384]) {{
        indexing: (input subject || \"\") . \" \" . (input body || \"\") | embed minilm | attribute
        attribute {{ distance-metric: prenormalized-angular }}
    }}
{after}"
    );
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.into()),
        ("schemas/mail.sd".to_owned(), schema.into_bytes()),
    ]);
    for name in ["model.onnx", "tokenizer.json"] {
        let path = model.join(name);
        files.insert(format!("models/{name}"), std::fs::read(&path).map_err(Error::file(&path))?);
    }
    Application::from_files(files).map_err(Error::failed)
}

fn questions() -> Result<Vec<Question>, Error> {
    let read = |line: &str| {
        let json: Value = serde_json::from_str(line).ok()?;
        let right = json["right"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Some(Question { text: json["question"].as_str()?.to_owned(), right })
    };
    let all: Option<Vec<Question>> = QUESTIONS.lines().map(read).collect();
    all.ok_or_else(|| Error::failed("examples/mail/questions.jsonl has a line that is no question"))
}

/// Feeds the mailbox; and the text of each mail, by its number.
fn feed(clients: &Clients, count: usize) -> Result<Vec<(String, String)>, Error> {
    let corpus = Corpus::new(CorpusSettings { seed: 1, mails: count, mailboxes: 1 });
    let mails: Vec<(String, String)> = corpus
        .map(|mut mail| {
            mail.message.embedding = None;
            let operation: Value = serde_json::from_str(&mail.operation()).unwrap_or_default();
            let text = format!("{}\n{}", mail.message.subject, mail.message.body);
            (json!({ "fields": operation["fields"] }).to_string(), text)
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), Error> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((body, _)) = mails.get(number) else { return Ok(()) };
            let path = format!("/document/v1/mail/mail/group/me/{number}");
            clients.ask(Request::new(Method::POST, path).body("application/json", body.clone()))?;
        }
    };
    std::thread::scope(|scope| {
        let feeders: Vec<_> = (0..FEEDERS).map(|_| scope.spawn(work)).collect();
        feeders.into_iter().try_for_each(|feeder| {
            feeder.join().unwrap_or_else(|_| Err(Error::failed("a feeder ended in a panic")))
        })
    })?;
    Ok(mails)
}

/// The numbers of the mails found, best first.
fn ask(clients: &Clients, question: &str, yql: &str, profile: &str) -> Result<Vec<usize>, Error> {
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
        .fold(Request::new(Method::GET, "/search/"), |request, (name, value)| request.parameter(name, value));
    let answer = clients.ask(request)?.json();
    let found = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    let number = |hit: &Value| hit["id"].as_str()?.rsplit(':').next()?.parse().ok();
    Ok(found.iter().filter_map(number).collect())
}

/// The discounted cumulative gain of hits that are right or not.
fn discounted_gain(right: &[bool]) -> f64 {
    right
        .iter()
        .zip(2_u32..)
        .filter(|(right, _)| **right)
        .map(|(_, place)| 1.0 / f64::from(place).log2())
        .sum()
}
