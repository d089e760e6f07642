//! `millrace snapshot`: snapshots of a server or a cluster, and their restoration.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_cluster::CLUSTER_DIRECTORY;
use millrace_document::Timestamp;
use millrace_env::unix_time;
use millrace_store::{SnapshotName, restore_point, restore_snapshot};
use serde_json::{Value, json};

use crate::cli::{NodeArguments, SnapshotCommand, SnapshotCreation, SnapshotRestoration};
use crate::commands::group::{date, time};
use crate::error::Error;
use crate::output::{CommandOutput, counted};

/// Runs an action on snapshots.
pub async fn run(
    node: &NodeArguments,
    command: &SnapshotCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    match command {
        SnapshotCommand::Create(creation) => create(node, creation, output).await,
        SnapshotCommand::List(node_timeout) => {
            let answer = ask(node, Method::GET, "", node_timeout.timeout).await?;
            output.say(&format!(
                "{:<24}  {:<20}  {:>12}  {:>14}  missing on",
                "name", "time", "documents", "bytes"
            ));
            for snapshot in answer["snapshots"].as_array().into_iter().flatten() {
                output.print(|| line(snapshot), snapshot);
            }
            Ok(outcome(&answer))
        }
        SnapshotCommand::Show(named) => {
            let answer = ask(node, Method::GET, &named.name, named.node_timeout.timeout).await?;
            output.print(|| details(&answer), &answer);
            Ok(ExitCode::SUCCESS)
        }
        SnapshotCommand::Delete(named) => {
            let answer = ask(node, Method::DELETE, &named.name, named.node_timeout.timeout).await?;
            output.print(|| format!("deleted {}{}", named.name, reasons(&answer["missing"])), &answer);
            Ok(outcome(&answer))
        }
        SnapshotCommand::Restore(restoration) => match (&restoration.group, &restoration.from) {
            (Some(group), _) => restore_group(node, restoration, group, output).await,
            (None, Some(from)) => restore_all(restoration, from, output),
            (None, None) => unreachable!("one of the two is required"),
        },
    }
}

/// Sends a request about snapshots, or about one.
async fn ask(node: &NodeArguments, method: Method, name: &str, timeout: Duration) -> Result<Value, Error> {
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?.with_timeout(timeout);
    let path = format!("/snapshot/v1/{}", millrace_client::encoded(name));
    let request = OutgoingRequest::new(method, path).parameter("timeout", &timeout_text(timeout));
    Ok(client.send(request).await?.checked()?.json())
}

/// Time limit as the server reads it.
fn timeout_text(timeout: Duration) -> String {
    format!("{}ms", timeout.as_millis())
}

/// Success if all nodes have done it.
fn outcome(answer: &Value) -> ExitCode {
    if answer["complete"] == false { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn create(
    node: &NodeArguments,
    creation: &SnapshotCreation,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let name = creation.name.clone().unwrap_or_else(|| name_of_time(unix_time()));
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?.with_timeout(creation.timeout);
    let request = OutgoingRequest::new(Method::POST, "/snapshot/v1/")
        .parameter("name", &name)
        .parameter("timeout", &timeout_text(creation.timeout));
    let answer = client.send(request).await?.checked()?.json();
    output.print(|| format!("made {}", details(&answer)), &answer);
    Ok(outcome(&answer))
}

/// Name by the date and time in UTC.
fn name_of_time(now: Duration) -> String {
    let (days, second) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02}-{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Lines for nodes that have not done it.
fn reasons(nodes: &Value) -> String {
    let lines = nodes.as_array().into_iter().flatten().filter_map(|node| {
        Some(format!("\n  node {}: {}", node["name"].as_str()?, node["reason"].as_str()?))
    });
    lines.collect()
}

fn line(snapshot: &Value) -> String {
    let name = snapshot["name"].as_str().unwrap_or_default();
    if let Some(reason) = snapshot["reason"].as_str() {
        return format!("{name:<24}  {reason}");
    }
    let missing: Vec<&str> =
        snapshot["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (time, documents, bytes) =
        (time(&snapshot["time"]), number(&snapshot["documents"]), number(&snapshot["bytes"]));
    format!("{name:<24}  {time:<20}  {documents:>12}  {bytes:>14}  {}", missing.join(", "))
}

fn details(snapshot: &Value) -> String {
    let figures = |of: &Value| match of["reason"].as_str() {
        Some(reason) => reason.to_owned(),
        None => format!(
            "{}, {} in {}, application {}, {}",
            counted(number(&of["documents"]), "document", "documents"),
            counted(number(&of["bytes"]), "byte", "bytes"),
            counted(number(&of["files"]), "file", "files"),
            number(&of["application"]),
            of["path"].as_str().unwrap_or_default()
        ),
    };
    let mut text =
        format!("{} of {}", snapshot["name"].as_str().unwrap_or_default(), time(&snapshot["time"]));
    match snapshot["nodes"].as_array() {
        None => text.push_str(&format!("\n  {}", figures(snapshot))),
        Some(nodes) => {
            for node in nodes {
                let name = node["name"].as_str().unwrap_or_default();
                text.push_str(&format!("\n  node {name}: {}", figures(node)));
            }
        }
    }
    text.push_str(&reasons(&snapshot["missing"]));
    let lacking = snapshot["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    text.extend(lacking.map(|name| format!("\n  node {name}: it is missing")));
    text
}

/// Makes a data directory of a snapshot.
fn restore_all(
    restoration: &SnapshotRestoration,
    from: &Path,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let name = restoration.name.as_deref().map(SnapshotName::parse).transpose()?;
    if name.is_none() && from.join(CLUSTER_DIRECTORY).is_dir() {
        return Err(Error::UnnamedSnapshot { path: from.to_owned() });
    }
    let to = restoration.data_dir.as_deref().expect("--from requires --data-dir");
    let description = match (restoration.at, &name) {
        (Some(until), name) => restore_point(from, name.as_ref(), to, until)?,
        (None, name) => {
            let name = name.as_ref().map(SnapshotName::as_str).unwrap_or_default();
            let of_data_dir = from.join("snapshots").join(name);
            let snapshot = if of_data_dir.is_dir() { of_data_dir } else { from.join(name) };
            restore_snapshot(&snapshot, to)?
        }
    };
    let name = &description.name;
    let until = restoration.at.map(|until| json!(until.0));
    let path = to.display().to_string();
    let value = json!({
        "name": name, "time": description.time, "until": until, "documents": description.documents,
        "files": description.files, "bytes": description.bytes, "dataDir": path,
    });
    let text = || {
        let replayed = match &value["until"] {
            Value::Null => String::new(),
            until => format!(", and the writes after it until {}", time(until)),
        };
        format!(
            "restored {name} of {}: {} in {}, every checksum compared{replayed}\nstart a server with \
             --data-dir {path}; API keys and settings are not in a snapshot",
            time(&value["time"]),
            counted(number(&value["documents"]), "document", "documents"),
            counted(number(&value["files"]), "file", "files")
        )
    };
    output.print(text, &value);
    Ok(ExitCode::SUCCESS)
}

/// A time, as the server reads it.
fn shown(time: Timestamp) -> String {
    let instant = i64::try_from(time.0).ok().and_then(|time| jiff::Timestamp::from_microsecond(time).ok());
    instant.expect("an argument that was parsed as a time is one").to_string()
}

/// Restores one group on a running server. The exit status is 1 if an operation failed.
async fn restore_group(
    node: &NodeArguments,
    restoration: &SnapshotRestoration,
    group: &str,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.url, HttpProtocol::Http1)?.with_timeout(restoration.timeout);
    let path = format!("/group/v1/{}/restore", millrace_client::encoded(group));
    let mut request = OutgoingRequest::new(Method::POST, path);
    let mut subject = format!("group {group}");
    if let Some(name) = &restoration.name {
        request = request.parameter("snapshot", name);
        subject.push_str(&format!(" of snapshot {name}"));
    }
    if let Some(at) = restoration.at {
        request = request.parameter("at", &shown(at));
        subject.push_str(&format!(" as of {}", shown(at)));
    }
    if restoration.number {
        request = request.parameter("kind", "number");
    }
    if restoration.missing {
        request = request.parameter("missing", "true");
    }
    let mut answer = Vec::new();
    client.stream(request, |bytes| answer.extend_from_slice(bytes)).await?;
    let lines = answer.split(|byte| *byte == b'\n');
    let lines: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let total = lines.last().cloned().unwrap_or(Value::Null);
    let failures = lines.iter().filter(|line| line["operation"].is_u64() && line["status"].is_u64());
    let text = || {
        let mut text = format!(
            "restored {subject}: {}, {} failed",
            counted(number(&total["operations"]), "operation", "operations"),
            number(&total["failed"])
        );
        let shown = failures.clone().take(FAILURES_MAX);
        text.extend(shown.map(|failed| {
            let (id, message) = (failed["id"].as_str(), failed["message"].as_str());
            format!("\n  {}: {}", id.unwrap_or_default(), message.unwrap_or_default())
        }));
        if total["complete"] != true {
            let reason = total["message"].as_str().unwrap_or("the answer broke off");
            text.push_str(&format!("\nit is not complete: {reason}; repeat it"));
        }
        text
    };
    output.print(text, &total);
    let is_whole = total["complete"] == true && number(&total["failed"]) == 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Number of failed operations that are shown.
const FAILURES_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_name() {
        let name = name_of_time(Duration::from_secs(951_782_461));
        assert_eq!(name, "2000-02-29-000101");
        assert!(SnapshotName::parse(&name).is_ok());
    }
}
