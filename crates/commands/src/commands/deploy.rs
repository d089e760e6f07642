//! `millrace deploy`.

use std::process::ExitCode;

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest, pack};
use serde_json::Value;

use crate::cli::{DeployArguments, NodeArguments};
use crate::error::Error;
use crate::output::CommandOutput;

/// Sends an application package, and shows the node's messages about it.
pub async fn run(
    node: &NodeArguments,
    arguments: &DeployArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let package = pack(&arguments.application)?;
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?.with_timeout(arguments.timeout);
    let request = OutgoingRequest::new(Method::POST, "/application/v2/tenant/default/prepareandactivate")
        .body("application/zip", package);
    let answer = client.send(request).await?.checked()?.json();
    output.print(|| text(&answer), &answer);
    Ok(ExitCode::SUCCESS)
}

fn text(answer: &Value) -> String {
    let mut lines = Vec::new();
    for entry in answer["log"].as_array().into_iter().flatten() {
        lines.push(format!("{}: {}", shown(&entry["level"]).to_lowercase(), shown(&entry["message"])));
    }
    for action in ["restart", "refeed", "reindex"] {
        let named = answer["configChangeActions"][action].as_array();
        for message in named.into_iter().flatten().flat_map(|entry| entry["messages"].as_array()).flatten() {
            lines.push(format!("{action}: {}", shown(message)));
        }
    }
    lines.push(format!("active: generation {}", shown(&answer["session-id"])));
    lines.join("\n")
}

fn shown(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
