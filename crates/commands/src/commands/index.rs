//! `millrace index`: the indexes of a server, or of all nodes of a cluster.

mod placed;

pub use placed::PlacedOverview;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hyper::Method;
use indicatif::{HumanBytes, HumanCount};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Value, json};

use crate::cli::{IndexCommand, NamedIndex, NodeArguments, WaitIndexes};
use crate::error::Error;
use crate::output::{CommandOutput, counted};

/// Pause between two reads.
const PAUSE: Duration = Duration::from_millis(500);

/// Timeout of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Width of a progress bar.
const BAR: usize = 12;

/// Runs an action on indexes.
pub async fn run(
    node: &NodeArguments,
    command: &IndexCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?;
    match command {
        IndexCommand::List(node_timeout) => {
            let answer = list(&client.with_timeout(node_timeout.timeout)).await?;
            output.print(|| table(&answer), &answer);
            Ok(ExitCode::SUCCESS)
        }
        IndexCommand::Show(named) => {
            let client = client.with_timeout(named.timeout);
            let index = find(&client, named).await?;
            output.print(|| details(&index), &index);
            Ok(ExitCode::SUCCESS)
        }
        IndexCommand::Build(named) => ask(&client, named, "build", output).await,
        IndexCommand::Rebuild(named) => ask(&client, named, "rebuild", output).await,
        IndexCommand::Verify(named) => verify(&client.with_timeout(named.timeout), named, output).await,
        IndexCommand::Wait(arguments) => wait(&client.with_timeout(READ_TIMEOUT), arguments, output).await,
        IndexCommand::Plan(arguments) => {
            placed::plan(
                &client.with_timeout(arguments.node_timeout.timeout),
                arguments.method.as_deref(),
                output,
            )
            .await
        }
        IndexCommand::Rebalance(node_timeout) => {
            placed::rebalance(&client.with_timeout(node_timeout.timeout), Method::POST, output).await
        }
        IndexCommand::Stop(node_timeout) => {
            placed::rebalance(&client.with_timeout(node_timeout.timeout), Method::DELETE, output).await
        }
        IndexCommand::Move(moved) => {
            placed::move_copy(&client.with_timeout(moved.node_timeout.timeout), moved, output).await
        }
        IndexCommand::Settings(changed) => {
            placed::settings(&client.with_timeout(changed.node_timeout.timeout), changed, output).await
        }
    }
}

async fn list(client: &NodeClient) -> Result<Value, Error> {
    Ok(client.send(OutgoingRequest::new(Method::GET, "/index/v1/")).await?.checked()?.json())
}

/// The index of a name; the server's own message says what there is if it has none.
async fn find(client: &NodeClient, named: &NamedIndex) -> Result<Value, Error> {
    let path = path(client, &named.name).await?;
    Ok(client.send(OutgoingRequest::new(Method::GET, path)).await?.checked()?.json())
}

/// Path of an index, with the content cluster that declares it.
async fn path(client: &NodeClient, name: &str) -> Result<String, Error> {
    let all = list(client).await?;
    let found = indexes(&all).find(|index| index["name"] == name);
    let content = found.and_then(|index| index["content"].as_str()).unwrap_or("any");
    Ok(format!("/index/v1/{content}/{name}"))
}

fn indexes(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["indexes"].as_array().into_iter().flatten()
}

async fn ask(
    client: &NodeClient,
    named: &NamedIndex,
    action: &str,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let answer = post(client, named, action).await?;
    let text = || {
        let message = answer["message"].as_str().unwrap_or("done");
        let mut lines = vec![format!("{}: {message}", named.name)];
        lines.extend(refusals(&answer));
        lines.join("\n")
    };
    output.print(text, &answer);
    Ok(outcome(&answer))
}

fn nodes(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["nodes"].as_array().into_iter().flatten()
}

/// Lines for the nodes of a cluster that did not do it.
fn refusals(answer: &Value) -> impl Iterator<Item = String> {
    nodes(answer).filter_map(|node| {
        let reason = node["reason"].as_str()?;
        Some(format!("  node {}: {reason}", node["name"].as_str().unwrap_or("")))
    })
}

/// Success if all nodes that serve have done it.
fn outcome(answer: &Value) -> ExitCode {
    if answer["complete"] == false { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn post(client: &NodeClient, named: &NamedIndex, action: &str) -> Result<Value, Error> {
    let path = format!("{}/{action}", path(client, &named.name).await?);
    Ok(client.send(OutgoingRequest::new(Method::POST, path)).await?.checked()?.json())
}

/// Result of a verification, of one node or of all.
fn differences_text(answer: &Value) -> String {
    let number = |name: &str, one: &str, many: &str| counted(answer[name].as_u64().unwrap_or(0), one, many);
    format!(
        "{}; {} and {} compared",
        number("differences", "difference", "differences"),
        number("documents", "document", "documents"),
        number("entries", "entry", "entries")
    )
}

async fn verify(client: &NodeClient, named: &NamedIndex, output: &CommandOutput) -> Result<ExitCode, Error> {
    let answer = post(client, named, "verify").await?;
    let differences = answer["differences"].as_u64().unwrap_or(u64::MAX);
    let text = || {
        let examples = answer["examples"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut lines = vec![format!("{}: {}", named.name, differences_text(&answer))];
        lines.extend(examples.map(|id| format!("  {id}")));
        lines.extend(nodes(&answer).filter(|node| node["reason"].is_null()).map(|node| {
            format!("  node {}: {}", node["name"].as_str().unwrap_or(""), differences_text(node))
        }));
        lines.extend(refusals(&answer));
        if differences > 0 {
            lines.push(format!("mend it with: millrace index rebuild {}", named.name));
        }
        lines.join("\n")
    };
    output.print(text, &answer);
    Ok(if differences == 0 { outcome(&answer) } else { ExitCode::FAILURE })
}

/// Waits until all indexes are ready, and their copies in their places if that is wanted; deferred ones are
/// not waited for.
async fn wait(client: &NodeClient, wait: &WaitIndexes, output: &CommandOutput) -> Result<ExitCode, Error> {
    let end = Instant::now() + wait.timeout;
    let bar = placed::RebalanceBar::new(wait.balanced && !output.is_json());
    loop {
        let answer = list(client).await?;
        let mut left: Vec<String> = indexes(&answer)
            .filter(|index| !matches!(index["state"].as_str(), Some("ready" | "deferred")))
            .filter_map(|index| index["name"].as_str().map(str::to_owned))
            .collect();
        if wait.balanced {
            left.extend(placed::remaining_work(client, &bar).await?);
        }
        if left.is_empty() {
            bar.clear();
            let text = if wait.balanced {
                "all indexes are ready, and their copies are in their places"
            } else {
                "all indexes are ready"
            };
            output.print(|| text.to_owned(), &json!({ "done": true, "left": left }));
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= end {
            bar.clear();
            let failed = indexes(&answer).filter(|index| index["state"] == "failed").filter_map(|index| {
                Some(format!("\n{}: {}", index["name"].as_str()?, index["reason"].as_str()?))
            });
            let text = || format!("not ready yet: {}{}", left.join(", "), failed.collect::<String>());
            output.print(text, &json!({ "done": false, "left": left }));
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn table(answer: &Value) -> String {
    let mut lines = Vec::new();
    for index in indexes(answer) {
        lines.push(line(index));
        // Of a cluster, the nodes that are not as far as the index should be.
        lines.extend(nodes(index).filter(|node| node["state"] != "ready").map(of_node));
    }
    match lines.is_empty() {
        true => "no indexes are declared: see docs/indexes.md".to_owned(),
        false => lines.join("\n"),
    }
}

/// Line for an index on a node of a cluster.
fn of_node(node: &Value) -> String {
    format!("  node {:17} {:12} {}", node["name"].as_str().unwrap_or(""), "", state(node))
}

fn line(index: &Value) -> String {
    let text = |name: &str| index[name].as_str().unwrap_or("").to_owned();
    format!("{:24} {:12} {}", text("name"), text("document"), state(index))
}

/// State of an index, and its progress, reason or size.
fn state(index: &Value) -> String {
    let text = |name: &str| index[name].as_str().unwrap_or("").to_owned();
    let progress = index["progress"].as_f64().unwrap_or(0.0);
    let state = text("state");
    let mut line = format!("{state:9}");
    match state.as_str() {
        "building" => {
            let filled = ((progress * BAR as f64) as usize).min(BAR);
            line += &format!(" {}{} {:.0} %", "▇".repeat(filled), "▁".repeat(BAR - filled), progress * 100.0);
            if let Some(seconds) = index["seconds-left"].as_f64() {
                line += &format!("   about {seconds:.0} s left");
            }
            line += &placed::lacking_reason(index);
        }
        "deferred" => {}
        "ready" => {
            let count = |name: &str| index[name].as_u64().unwrap_or(0);
            line += &format!(" {} entries   {}", HumanCount(count("entries")), HumanBytes(count("bytes")));
            line += &index["lag"].as_u64().map_or_else(String::new, |lag| format!("   lags by {lag} s"));
            if count("waiting") > 0 {
                line += &format!("   {} changes wait", HumanCount(count("waiting")));
            }
            line += &placed::missing(index);
            line += &placed::lacking_reason(index);
        }
        _ => line += &format!(" {}", text("reason")),
    }
    line
}

fn details(index: &Value) -> String {
    let keys: Vec<String> = index["keys"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|key| {
            let descending = if key["order"] == "descending" { " descending" } else { "" };
            format!("{}{descending}", key["field"].as_str().unwrap_or(""))
        })
        .collect();
    let mut lines = vec![line(index), format!("  keys: {}", keys.join(", "))];
    let stored: Vec<&str> =
        index["stored"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !stored.is_empty() {
        lines.push(format!("  stored: {}", stored.join(", ")));
    }
    lines.extend(index["selection"].as_str().map(|selection| format!("  selection: {selection}")));
    if index["placed"] == true {
        lines.extend(placed::copies(index));
        lines.extend(placed::verified(index));
    } else {
        lines.push(format!("  files: {}, changes that wait: {}", index["runs"], index["waiting"]));
    }
    if index["stale-buckets"].as_u64() > Some(0) {
        lines.push(format!("  buckets that are to be read again: {}", index["stale-buckets"]));
    }
    lines.extend(nodes(index).map(of_node));
    if index["placed"] != true {
        lines.extend(index["reason"].as_str().map(|reason| format!("  last error: {reason}")));
    }
    lines.join("\n")
}
