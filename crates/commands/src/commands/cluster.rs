//! `millrace node` and `millrace cluster`: administration of a cluster.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::json;

use crate::cli::{ClusterCommand, NodeArguments, NodeChange, NodeCommand, WAIT_MAX, WaitArguments};
use crate::error::Error;
use crate::output::{CommandOutput, note};
use crate::overview::ClusterOverview;

/// Pause between two reads of the cluster.
const PAUSE: Duration = Duration::from_millis(500);

/// Timeout of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets the wanted state of a node. The exit status is 1 if the cluster does not follow.
pub async fn node(
    node: &NodeArguments,
    command: &NodeCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let (state, change) = match command {
        NodeCommand::Retire(change) => ("retired", change),
        NodeCommand::Maintenance(change) => ("maintenance", change),
        NodeCommand::Down(change) => ("down", change),
        NodeCommand::Up(change) => ("up", change),
        NodeCommand::Remove(change) => ("removed", change),
    };
    let client =
        NodeClient::new(&node.config_url, HttpProtocol::Http1)?.with_timeout(change.node_timeout.timeout);
    let overview = ClusterOverview::read(&client).await?;
    let path = overview.path_of(&change.name)?;
    let request = match command {
        NodeCommand::Remove(_) => {
            let force = change.force || is_empty(&overview, &change.name).await;
            OutgoingRequest::new(Method::DELETE, path)
                .parameter("force", if force { "true" } else { "false" })
        }
        _ => {
            let condition = if change.force { "FORCE" } else { "SAFE" };
            let user = json!({ "state": state, "reason": change.reason.as_deref().unwrap_or("") });
            let body = json!({ "state": { "user": user }, "condition": condition });
            OutgoingRequest::new(Method::PUT, path).body("application/json", body.to_string())
        }
    };
    let answer = client.send(request).await?.checked()?.json();
    let reason = answer["reason"].as_str().unwrap_or("");
    let done = reason == "ok";
    let text = || match (done, answer["wasModified"].as_bool()) {
        (false, _) => format!("{} stays as it is: {reason}", change.name),
        (true, Some(false)) => format!("{} was {state} already", change.name),
        (true, _) => format!("{}: {state}{}", change.name, follow_up(command, change)),
    };
    output.print(text, &answer);
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Next step for the operator.
fn follow_up(command: &NodeCommand, change: &NodeChange) -> String {
    match command {
        NodeCommand::Retire(_) => {
            format!(
                "; when it is empty (millrace cluster wait --ideal), stop it, and when it is down (millrace cluster show): millrace node \
                 remove {}",
                change.name
            )
        }
        NodeCommand::Maintenance(_) => format!("; when it is back: millrace node up {}", change.name),
        _ => String::new(),
    }
}

/// True if a retired node reports that it has no data left.
async fn is_empty(overview: &ClusterOverview, name: &str) -> bool {
    let Some(node) = overview.nodes.iter().find(|node| node.name == name) else { return false };
    if node.state != "retired" {
        return false;
    }
    node.stats().await.is_ok_and(|stats| stats.buckets.replicas == 0)
}

/// Shows the cluster, or waits for it.
pub async fn cluster(
    node: &NodeArguments,
    command: &ClusterCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?;
    match command {
        ClusterCommand::Show(node_timeout) => {
            let client = client.with_timeout(node_timeout.timeout);
            let mut overview = ClusterOverview::read(&client).await?;
            overview.ask_nodes().await;
            overview.ask_indexes(&client).await;
            output.print(|| overview.text(), &overview.value());
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Wait(arguments) => wait(&client.with_timeout(READ_TIMEOUT), arguments, output).await,
    }
}

/// Waits until nothing is left to do. The exit status is 1 after a timeout.
async fn wait(client: &NodeClient, wait: &WaitArguments, output: &CommandOutput) -> Result<ExitCode, Error> {
    let began = Instant::now();
    let end = began + Duration::from_secs(wait.timeout).min(WAIT_MAX);
    let (mut seen, mut is_told) = (0, false);
    loop {
        let (left, away) = match ClusterOverview::read(client).await {
            Ok(mut overview) => {
                overview.ask_nodes().await;
                (overview.remaining_work(wait.ideal), overview.away())
            }
            // An application comes to the nodes one after another.
            Err(error @ (Error::Client(_) | Error::NoCluster { .. })) => {
                if matches!(error, Error::NoCluster { .. }) && !std::mem::replace(&mut is_told, true) {
                    note(format_args!("note: {error}; waiting for it"));
                }
                (Some(error.to_string()), None)
            }
            Err(error) => return Err(error),
        };
        // Twice in a row: between a new state and its consequences, no node has found out yet that there is
        // something to do.
        seen = if left.is_none() { seen + 1 } else { 0 };
        let seconds = began.elapsed().as_secs_f64();
        let report = |text: String, left: Option<&str>| {
            output.print(|| text, &json!({ "done": left.is_none(), "seconds": seconds, "left": left }));
        };
        if seen == 2 {
            let away = away.map_or_else(String::new, |away| format!("; {away}"));
            report(format!("done after {seconds:.1} seconds{away}"), None);
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= end {
            let left = left.unwrap_or_else(|| "it was looked at once only".to_owned());
            report(format!("not yet after {seconds:.0} seconds: {left}"), Some(&left));
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
