//! `millrace demo`: what this is about, in half a minute.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::feed::{Options, feed};
use millrace_client::{Client, Protocol, Request};
use millrace_gateway::{Node, Server, Settings};
use millrace_mail::corpus::{Corpus, CorpusMail, Settings as CorpusSettings, embed};
use millrace_schema::Application;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::feed::{Bar, text};
use super::lines::Lines;
use super::query;
use crate::cli::Demo;
use crate::error::Error;

/// The application in examples/mail.
const APPLICATION: [(&str, &str); 2] = [
    ("services.xml", include_str!("../../../../examples/mail/services.xml")),
    ("schemas/mail.sd", include_str!("../../../../examples/mail/schemas/mail.sd")),
];

/// How often each query is asked; the median time is shown.
const REPEATS: usize = 7;

/// A query that is shown.
struct Shown {
    title: &'static str,
    parameters: Value,
}

/// Starts a node with temporary data, feeds it, asks, and says how to go on.
pub async fn run(arguments: &Demo) -> Result<ExitCode, Error> {
    let directory =
        tempfile::tempdir().map_err(|source| Error::File { path: std::env::temp_dir(), source })?;
    let node =
        Node::open(Settings { port: 0, config_port: 0, ..Settings::new(directory.path().join("data")) })?;
    let files = APPLICATION.map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
    let fail = |reason: String| Error::Application { path: "examples/mail".into(), reason };
    let application = Application::from_files(files.into()).map_err(|error| fail(error.to_string()))?;
    node.deploy(application).map_err(|error| fail(error.to_string()))?;
    let server = Server::bind(node).await?;
    let (address, _) = server.addresses().map_err(Error::Runtime)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move {
        // The sender is dropped at the end, which says the same.
        let _ = stopped.await;
    }));
    let url = format!("http://{address}");
    println!("A node runs at {url}, with the application examples/mail.\n");

    let settings = CorpusSettings { mails: arguments.mails.max(300), ..CorpusSettings::default() };
    fill(&url, settings).await?;
    ask(&url, settings).await?;
    println!("{GO_ON}");

    drop(stop);
    // It was asked to end; if it panicked, that has been logged.
    let _ = serving.await;
    Ok(ExitCode::SUCCESS)
}

const GO_ON: &str = "\
Go on with your own mail:
  make up                                               a server on ports 8080 and 19071 (in another terminal)
  target/release/millrace import mbox ~/archive.mbox --group me
  target/release/millrace query 'select * from mail where default contains \"budget\"' streaming.groupname=me
  target/release/millrace --help                        everything else";

async fn fill(url: &str, settings: CorpusSettings) -> Result<(), Error> {
    println!("Feeding {} mails of {} people:", settings.mails, settings.mailboxes);
    let bar = Bar::new(None, false);
    let lines = Lines::new(Corpus::new(settings).map(|mail| mail.operation()));
    let fed = feed(url, "mails", lines, &Options::default(), None, |progress| bar.show(progress)).await;
    bar.end();
    println!("{}\n", text("mails", &fed?));
    Ok(())
}

/// Asks the queries over the largest mailbox.
async fn ask(url: &str, settings: CorpusSettings) -> Result<(), Error> {
    let client = Client::new(url, Protocol::Http1)?;
    let corpus = Corpus::new(settings);
    let Some((group, size)) = corpus.groups().next().map(|(group, size)| (group.as_str().to_owned(), size))
    else {
        return Ok(());
    };
    let mails: Vec<CorpusMail> = corpus.filter(|mail| mail.group.as_str() == group).collect();
    println!("Six queries over the {size} mails of {group}, each over HTTP, median of {REPEATS}:\n");
    for (number, shown) in queries(&mails).into_iter().enumerate() {
        let mut parameters = shown.parameters;
        parameters["streaming.groupname"] = json!(group);
        let body = parameters.to_string();
        let mut times = Vec::with_capacity(REPEATS);
        let mut answer = Value::Null;
        for _ in 0..REPEATS {
            let request = Request::new(Method::POST, "/search/").body("application/json", body.clone());
            let started = Instant::now();
            let answered = client.send(request).await?.checked()?;
            times.push(started.elapsed());
            answer = answered.json();
        }
        times.sort();
        let yql = parameters["yql"].as_str().unwrap_or("");
        println!("{}. {}: {:.2} ms\n   {yql}", number + 1, shown.title, milliseconds(times[REPEATS / 2]));
        for line in query::text(&answer).lines() {
            println!("   {line}");
        }
        println!();
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The queries, over what these mails have.
fn queries(mails: &[CorpusMail]) -> Vec<Shown> {
    let thread = most_common(mails.iter().map(|mail| mail.message.thread.as_str()));
    let folder = most_common(mails.iter().map(|mail| mail.message.folder.as_str()));
    let dates = mails.iter().filter_map(|mail| mail.message.date);
    let newest = dates.max().unwrap_or(0);
    let year = newest - 365 * 86_400;
    let brief = |yql: String| json!({ "yql": yql, "hits": 3, "presentation.summary": "line" });
    vec![
        Shown {
            title: "Two words, ranked by bm25, with what was found",
            parameters: json!({
                "yql": "select subject, from_name, body from mail where default contains 'meeting' and default contains 'budget'",
                "hits": 2,
            }),
        },
        Shown {
            title: "A word, in one folder, of the last year",
            parameters: brief(format!(
                "select * from mail where default contains 'copy' and folder contains '{folder}' and date > {year}"
            )),
        },
        Shown {
            title: "A phrase",
            parameters: brief("select * from mail where body contains phrase('send', 'me')".to_owned()),
        },
        Shown {
            title: "The newest of a thread",
            parameters: json!({
                "yql": format!("select * from mail where thread contains '{thread}' order by date desc"),
                "hits": 10, "presentation.summary": "line",
            }),
        },
        Shown {
            title: "Who writes most",
            parameters: json!({
                "yql": "select * from mail where true limit 0 | all(group(from_address) max(5) order(-count()) \
                        each(output(count())))",
            }),
        },
        Shown {
            title: "The nearest vectors to 'a train to the mountains', exactly",
            parameters: json!({
                "yql": "select * from mail where {targetHits: 3}nearestNeighbor(embedding, embedding)",
                "hits": 3, "presentation.summary": "line", "ranking": "semantic",
                "input.query(embedding)": embed("a train to the mountains"),
            }),
        },
    ]
}

fn most_common<'a>(values: impl Iterator<Item = &'a str>) -> &'a str {
    let mut counts = std::collections::BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(value, _)| value)
}
