//! `millrace demo`: its own node, a mail corpus, and seven queries that show its features; then, if MiniLM is
//! installed, questions in other words than those of the mails.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::feed::{FeedOptions, feed};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_mail::corpus::{self, MailCorpus, embed};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::answer::text;
use crate::cli::DemoArguments;
use crate::commands::feed::{FeedBar, FeedSource, text as report};
use crate::error::Error;
use crate::lines::LineReader;
use crate::output::CommandOutput;

/// The example application, so that the demo needs only the binary.
const FILES: [(&str, &str); 2] = [
    ("services.xml", include_str!("../../../../examples/mail/services.xml")),
    ("schemas/mail.sd", include_str!("../../../../examples/mail/schemas/mail.sd")),
];

/// Number of repetitions of each query; the median is shown.
const REPEATS: usize = 21;

/// Text of two of the queries.
const TRAVEL: &str = "night train ferry luggage";

/// Share of the mails that the questions of the last step cover: they are embedded first.
const UNDERSTOOD: &str = "0.3";

/// The node of the demo, which serves in this process.
pub struct DemoNode {
    /// URL of its port for documents and queries.
    pub url: String,
    /// Stops it when dropped.
    pub stop: oneshot::Sender<()>,
    /// Runs until the node has stopped.
    pub serving: JoinHandle<()>,
}

/// Fault for which the node of the demo does not start.
type DemoFault = Box<dyn StdError + Send + Sync>;

/// Start of the demo node, in progress.
pub type DemoStarting = Pin<Box<dyn Future<Output = Result<DemoNode, DemoFault>>>>;

/// Starts the node of the demo on free ports, with its data in a directory and the application of these
/// files.
pub type DemoStart = fn(PathBuf, BTreeMap<String, Vec<u8>>) -> DemoStarting;

/// A query of the demo.
struct DemoQuestion {
    title: &'static str,
    parameters: Vec<(&'static str, String)>,
}

/// Starts the node, feeds, queries, and prints the next steps.
pub async fn run(
    arguments: &DemoArguments,
    start: DemoStart,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let directory = std::env::temp_dir().join(format!("millrace-demo-{}", std::process::id()));
    let files = FILES.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let result = show(arguments, output, start(directory.clone(), BTreeMap::from(files))).await;
    // At worst a temporary directory remains; the demo's own outcome matters more.
    let _ = std::fs::remove_dir_all(&directory);
    result
}

async fn show(
    arguments: &DemoArguments,
    output: &CommandOutput,
    start: impl Future<Output = Result<DemoNode, DemoFault>>,
) -> Result<ExitCode, Error> {
    let say = |line: &str| output.say(line);
    say("\n1. Starting a node on free ports, with an empty data directory");
    let started = Instant::now();
    let DemoNode { url, stop, serving } = start.await.map_err(Error::Demo)?;
    say(&format!(
        "   ready at {url} after {:.0} ms, application examples/mail deployed",
        ms(started.elapsed())
    ));

    let corpus = corpus::Settings {
        mails: arguments.mails,
        mailboxes: arguments.mailboxes,
        ..corpus::Settings::default()
    };
    say(&format!("\n2. Feeding {} mails of {} people, durably", corpus.mails, corpus.mailboxes));
    let bar = FeedBar::new(None, output.is_json());
    let operations = LineReader::new(MailCorpus::new(corpus).map(|mail| mail.operation()));
    let fed =
        feed(&url, "the corpus", operations, &FeedOptions::default(), None, |progress| bar.show(progress))
            .await;
    bar.end();
    let fed = fed?;
    say(&format!("   {}", report("fed", &fed, FeedSource::Made)));

    let answers = search(&url, corpus, &say).await?;

    say(
        "\n4. Asking 60 questions in other words than the mails have (examples/mail/questions.jsonl): what is found by the words, by",
    );
    say("   MiniLM's vectors, and by both (nDCG@10: 1 is every right mail first)\n");
    let is_json = output.is_json();
    let quality = tokio::task::spawn_blocking(move || measure_quality(is_json))
        .await
        .map_err(|error| Error::Runtime(error.into()))??;
    say(quality.as_deref().unwrap_or("   Not asked: the program millrace-bench is not beside this one.\n"));
    drop(stop);
    // The server's task ends with the demo; a failure has shown in the answers above.
    let _ = serving.await;

    say("\nGo on with your own mail:");
    say("   make up                                             # or: millrace serve --app examples/mail");
    say("   millrace import mbox ~/archive.mbox --group me      # or: import maildir ~/Maildir --group me");
    say(
        "   millrace query 'yql=select * from mail where userQuery()' 'query=quarterly report' streaming.groupname=me\n",
    );
    if output.is_json() {
        let lines = quality.iter().flat_map(|figures| figures.lines());
        let quality: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        output.print(
            String::new,
            &json!({ "documents_per_second": fed.rate(), "failed": fed.progress.failed, "queries": answers, "quality": quality }),
        );
    }
    Ok(if fed.progress.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the seven queries over the largest mailbox, and returns their answers as JSON.
async fn search(url: &str, corpus: corpus::Settings, say: impl Fn(&str)) -> Result<Vec<Value>, Error> {
    let (group, size) = MailCorpus::new(corpus)
        .groups()
        .next()
        .map(|(group, size)| (group.as_str().to_owned(), size))
        .ok_or_else(|| Error::Argument("the demo needs at least one mailbox".to_owned()))?;
    say(&format!(
        "\n3. Searching the largest mailbox: {group}, {size} mails (median of {REPEATS} runs, over HTTP)"
    ));
    let client = NodeClient::new(url, HttpProtocol::Http1)?;
    let mut answers = Vec::new();
    for (number, question) in questions(&client, &group).await?.iter().enumerate() {
        let (answer, time) = ask(&client, &group, &question.parameters).await?;
        say(&format!("\n   ── {}. {} ── {:.2} ms", number + 1, question.title, ms(time)));
        say(&format!("   {}\n", shown(&question.parameters)));
        text(&answer).lines().for_each(|line| say(&format!("   {line}")));
        answers.push(json!({ "title": question.title, "ms": ms(time), "answer": answer }));
    }
    Ok(answers)
}

/// The seven queries; one of them is about a thread that must be found first.
async fn questions(client: &NodeClient, group: &str) -> Result<Vec<DemoQuestion>, Error> {
    let busiest = "select * from mail where true limit 0 | all(group(thread) max(1) order(-count()) each(output(count())))";
    let (answer, _) = ask(client, group, &[("yql", busiest.to_owned())]).await?;
    let thread = find(&answer, "value").unwrap_or_default();
    let vector: Vec<String> = embed(TRAVEL).iter().map(|cell| format!("{cell:.5}")).collect();
    let query = |yql: &str| ("yql", yql.to_owned());
    let hits = |count: usize| ("hits", count.to_string());
    let line = || ("presentation.summary", "line".to_owned());
    Ok(vec![
        DemoQuestion {
            title: "two words, ranked by bm25, with snippets",
            parameters: vec![
                query("select subject, from_name, body from mail where userQuery()"),
                ("query", "budget report".to_owned()),
                ("type", "all".to_owned()),
                hits(3),
            ],
        },
        DemoQuestion {
            title: "a word, two years, one folder",
            parameters: vec![
                query(
                    "select * from mail where default contains \"invoice\" and range(date, 1577836800, 1640995199) \
                     and folder contains \"finance\"",
                ),
                hits(3),
                line(),
            ],
        },
        DemoQuestion {
            title: "a phrase",
            parameters: vec![
                query(
                    "select subject, from_name, body from mail where body contains phrase(\"night\", \"train\")",
                ),
                hits(3),
            ],
        },
        DemoQuestion {
            title: "the newest ten of the longest thread",
            parameters: vec![
                query(&format!(
                    "select * from mail where thread contains \"{thread}\" order by date desc limit 10"
                )),
                line(),
            ],
        },
        DemoQuestion {
            title: "who writes most",
            parameters: vec![query(
                "select * from mail where true limit 0 | all(group(from_address) max(5) order(-count()) each(output(count())))",
            )],
        },
        DemoQuestion {
            title: "nearest to 'night train ferry luggage', exactly",
            parameters: vec![
                query("select * from mail where {targetHits: 5}nearestNeighbor(embedding, embedding)"),
                ("ranking", "semantic".to_owned()),
                ("input.query(embedding)", format!("[{}]", vector.join(","))),
                hits(5),
                line(),
            ],
        },
        DemoQuestion {
            title: "the same words, vectors and age together: rank-profile hybrid",
            parameters: vec![
                query(
                    "select * from mail where userQuery() or {targetHits: 1000}nearestNeighbor(embedding, embedding)",
                ),
                ("query", TRAVEL.to_owned()),
                ("type", "any".to_owned()),
                ("ranking", "hybrid".to_owned()),
                ("input.query(embedding)", format!("[{}]", vector.join(","))),
                hits(5),
                line(),
            ],
        },
    ])
}

/// Results of words, vectors and both for the example's questions, over a part of the mails, as text or as
/// JSON lines; `None` without the program of the benchmarks.
fn measure_quality(is_json: bool) -> Result<Option<String>, Error> {
    let program = std::env::current_exe().map_err(Error::Runtime)?.with_file_name("millrace-bench");
    if !program.is_file() {
        return Ok(None);
    }
    let mut command = Command::new(&program);
    command.args(["quality", "--size", UNDERSTOOD]).stderr(Stdio::inherit());
    if is_json {
        command.arg("--json");
    }
    // Its exit status says if the goals are met; the figures themselves are shown here.
    let output = command.output().map_err(|source| Error::File { path: program, source })?;
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Runs a query several times; returns the answer and the median time.
async fn ask(
    client: &NodeClient,
    group: &str,
    parameters: &[(&str, String)],
) -> Result<(Value, Duration), Error> {
    let mut body: Map<String, Value> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
    body.insert("streaming.groupname".to_owned(), Value::from(group));
    let body = Value::Object(body).to_string();
    let mut times = Vec::with_capacity(REPEATS);
    let mut answer = Value::Null;
    for _ in 0..REPEATS {
        let request = OutgoingRequest::new(Method::POST, "/search/").body("application/json", body.clone());
        let started = Instant::now();
        let received = client.send(request).await?;
        times.push(started.elapsed());
        answer = received.checked()?.json();
    }
    times.sort();
    Ok((answer, times[REPEATS / 2]))
}

/// The query on one line, without the numbers of a vector.
fn shown(parameters: &[(&str, String)]) -> String {
    let shown = parameters.iter().map(|(name, value)| match value.get(..40) {
        Some(start) if *name != "yql" => format!("{name}={start}…"),
        _ => format!("{name}={value}"),
    });
    shown.collect::<Vec<_>>().join("  ")
}

/// The first text with this name, at any depth of the answer.
fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(entries) => entries
            .get(name)
            .and_then(|value| value.as_str().map(str::to_owned))
            .or_else(|| entries.values().find_map(|value| find(value, name))),
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
