//! `millrace groups` and `millrace group`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;

use hyper::{Method, StatusCode};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Value, json};

use crate::cli::{GroupCommand, GroupDeletion, GroupExportArguments, NamedGroup, NodeArguments, NodeTimeout};
use crate::error::Error;
use crate::output::{CommandOutput, OutputStream, counted, note};

/// Lists all groups, page by page.
pub async fn list(
    node: &NodeArguments,
    node_timeout: &NodeTimeout,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = client(node, node_timeout)?;
    let mut continuation: Option<String> = None;
    output.say(&format!("{:>12}  {:>14}  {:<20}  group", "documents", "bytes", "last write"));
    loop {
        let mut request = OutgoingRequest::new(Method::GET, "/group/v1/").parameter("count", "1000");
        if let Some(continuation) = &continuation {
            request = request.parameter("continuation", continuation);
        }
        let page = client.send(request).await?.checked()?.json();
        for group in page["groups"].as_array().into_iter().flatten() {
            output.print(|| line(group), group);
        }
        continuation = match page["continuation"].as_str() {
            Some(next) if continuation.as_deref() != Some(next) => Some(next.to_owned()),
            _ => return Ok(ExitCode::SUCCESS),
        };
    }
}

/// Runs an action on a group.
pub async fn run(
    node: &NodeArguments,
    command: &GroupCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    match command {
        GroupCommand::Show(named) => show(node, named, output).await,
        GroupCommand::Export(arguments) => export(node, arguments).await,
        GroupCommand::Delete(arguments) => delete(node, arguments, output).await,
        GroupCommand::Erasures(node_timeout) => erasures(node, node_timeout, output).await,
    }
}

/// Shows a group. The exit status is 1 if there is nothing of it.
async fn show(node: &NodeArguments, named: &NamedGroup, output: &CommandOutput) -> Result<ExitCode, Error> {
    let answer = client(node, &named.node_timeout)?.send(request(Method::GET, named, "")).await?;
    if answer.status == StatusCode::NOT_FOUND {
        let erasure = answer.json()["erasure"].take();
        let value = json!({ "group": named.name, "found": false, "erasure": erasure });
        output.print(|| format!("{}{}", answer.message(), receipt(&erasure)), &value);
        return Ok(ExitCode::FAILURE);
    }
    let group = answer.checked()?.json();
    let text = || {
        let (documents, bytes) = (&group["documents"], &group["bytes"]);
        // A cluster does not count them.
        let files = group["files"].as_u64().map(|files| format!("files       {files}\n")).unwrap_or_default();
        let written = time(&group["lastWrite"]);
        let erasure = receipt(&group["erasure"]);
        format!("documents   {documents}\nbytes       {bytes}\n{files}last write  {written}{erasure}")
    };
    output.print(text, &group);
    Ok(ExitCode::SUCCESS)
}

async fn export(node: &NodeArguments, arguments: &GroupExportArguments) -> Result<ExitCode, Error> {
    let client = client(node, &arguments.named.node_timeout)?;
    let request = request(Method::POST, &arguments.named, "/export");
    let mut is_empty = true;
    if let Some(path) = &arguments.to {
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::ExistingFile { path: path.clone() },
            _ => Error::File { path: path.clone(), source },
        };
        let mut file = File::create_new(path).map_err(fail)?;
        let mut written = Ok(());
        let write = |bytes: &[u8]| {
            is_empty &= bytes.is_empty();
            if written.is_ok() {
                written = file.write_all(bytes);
            }
        };
        client.stream(request, write).await?;
        written.and_then(|()| file.sync_all()).map_err(fail)?;
    } else {
        let mut output = OutputStream::open();
        let write = |bytes: &[u8]| {
            is_empty &= bytes.is_empty();
            output.write(bytes);
        };
        client.stream(request, write).await?;
    }
    if is_empty {
        let name = &arguments.named.name;
        note(format_args!("note: the group '{name}' has no documents; millrace groups lists the groups"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(
    node: &NodeArguments,
    arguments: &GroupDeletion,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let mut request = request(Method::DELETE, &arguments.named, "");
    let within = if arguments.erase { Some("0") } else { arguments.within.as_deref() };
    if let Some(within) = within {
        request = request.parameter("within", within);
    }
    let answer = client(node, &arguments.named.node_timeout)?.send(request).await?.checked()?.json();
    let text = || {
        let rest = match answer["erased"].as_bool() {
            Some(true) => {
                format!("; no file of the store has them any more{}", holders(&answer["erasure"]))
            }
            _ => receipt(&answer["erasure"]),
        };
        let documents = answer["documents"].as_u64().unwrap_or(0);
        format!("deleted {}{rest}", counted(documents, "document", "documents"))
    };
    output.print(text, &answer);
    Ok(ExitCode::SUCCESS)
}

/// Lists the erasures of the node.
async fn erasures(
    node: &NodeArguments,
    node_timeout: &NodeTimeout,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let request = OutgoingRequest::new(Method::GET, "/group/v1/").parameter("erasures", "true");
    let answer = client(node, node_timeout)?.send(request).await?.checked()?.json();
    output.say(&format!("{:<20}  {:<20}  {:<20}  group, node", "deleted", "erase by", "erased"));
    for erasure in answer["erasures"].as_array().into_iter().flatten() {
        let line = || {
            let node = erasure["node"].as_str().map(|node| format!("  {node}")).unwrap_or_default();
            if let Some(reason) = erasure["error"].as_str() {
                return format!("{reason}{node}");
            }
            let [deleted, by, erased] = ["dropped", "eraseBy", "erased"].map(|name| time(&erasure[name]));
            format!("{deleted:<20}  {by:<20}  {erased:<20}  {}{node}", group_of(erasure))
        };
        output.print(line, erasure);
    }
    Ok(ExitCode::SUCCESS)
}

/// Sentence about the snapshots that have something of a deleted group.
fn holders(erasure: &Value) -> String {
    let nodes = erasure["nodes"].as_array().map_or(std::slice::from_ref(erasure), Vec::as_slice);
    let names = nodes.iter().flat_map(|node| node["snapshots"].as_array().into_iter().flatten());
    let names: BTreeSet<&str> = names.filter_map(Value::as_str).collect();
    match names.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = names.into_iter().collect();
            format!(", but snapshots have: {} (millrace snapshot delete NAME)", names.join(", "))
        }
    }
}

/// Lines about an erasure, in a cluster for each node; nothing where there is none.
fn receipt(erasure: &Value) -> String {
    match erasure["nodes"].as_array() {
        Some(nodes) => nodes.iter().map(receipt).collect(),
        None if erasure.is_null() => String::new(),
        None => {
            let node =
                erasure["node"].as_str().map(|node| format!("\nnode        {node}")).unwrap_or_default();
            if let Some(reason) = erasure["error"].as_str() {
                return format!("{node}\nunknown     {reason}");
            }
            let [deleted, by, erased] = ["dropped", "eraseBy", "erased"].map(|name| time(&erasure[name]));
            let times = format!("{node}\ndeleted     {deleted}\nerase by    {by}\nerased      {erased}");
            let holding = erasure["snapshots"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let holding: Vec<&str> = holding.collect();
            let snapshots = match holding.is_empty() {
                true => String::new(),
                false => format!("\nsnapshots   {} (millrace snapshot delete NAME)", holding.join(", ")),
            };
            if erasure["erased"].is_u64() {
                return format!("{times}{snapshots}");
            }
            let indexes = if erasure["indexes"] == true { ", indexes" } else { "" };
            let number = |name: &str| erasure[name].as_u64().unwrap_or(0);
            let files = counted(number("files"), "file", "files");
            let logs = counted(number("logs"), "log", "logs");
            format!("{times}\nleft in     {files}, {logs}{indexes}{snapshots}")
        }
    }
}

fn client(node: &NodeArguments, node_timeout: &NodeTimeout) -> Result<NodeClient, Error> {
    Ok(NodeClient::new(&node.url, HttpProtocol::Http1)?.with_timeout(node_timeout.timeout))
}

fn request(method: Method, named: &NamedGroup, action: &str) -> OutgoingRequest {
    let path = format!("/group/v1/{}{action}", millrace_client::encoded(&named.name));
    let request = OutgoingRequest::new(method, path);
    if named.number { request.parameter("kind", "number") } else { request }
}

fn line(group: &Value) -> String {
    let name = group_of(group);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (documents, bytes) = (number(&group["documents"]), number(&group["bytes"]));
    format!("{documents:>12}  {bytes:>14}  {:<20}  {name}", time(&group["lastWrite"]))
}

/// Group of a line, as ids have it.
fn group_of(group: &Value) -> String {
    match &group["name"] {
        Value::String(name) => format!("g={name}"),
        _ => format!("n={}", group["number"]),
    }
}

/// Time in microseconds since 1970, in UTC.
pub(super) fn time(microseconds: &Value) -> String {
    microseconds.as_u64().map_or("-".to_owned(), |time| time_of(time / 1_000_000))
}

/// Time in seconds since 1970, in UTC.
pub(super) fn time_of(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of the Gregorian calendar, by the number of days since 1970.
pub(super) fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March: then the leap day is the last one. 719,468 days are from then in year 0 to 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let shown = |seconds: u64| time(&json!(seconds * 1_000_000));
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(shown(1_735_689_599), "2024-12-31 23:59:59");
        assert_eq!(time(&Value::Null), "-");
    }
}
