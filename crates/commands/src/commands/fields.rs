//! `millrace fields`.

use std::process::ExitCode;

use hyper::Method;
use indicatif::HumanBytes;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::Value;

use crate::cli::{NodeArguments, PatienceArguments};
use crate::error::Error;
use crate::output::CommandOutput;

/// Prints the bytes on the node's disk by document type, field and form.
pub async fn run(
    node: &NodeArguments,
    patience: &PatienceArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.url, HttpProtocol::Http1)?.patient(patience.timeout);
    let request = OutgoingRequest::new(Method::GET, "/state/v1/fields");
    let answer = client.send(request).await?.checked()?.json();
    output.print(|| table(&answer), &answer);
    Ok(ExitCode::SUCCESS)
}

/// One line a column, the largest of each type first.
fn table(answer: &Value) -> String {
    let bytes = |value: &Value| value["bytes"].as_u64().unwrap_or(0);
    let all = bytes(answer).max(1);
    let line = |bytes: u64, what: &str| {
        format!("{:>12}  {:>4.1} %  {what}", HumanBytes(bytes).to_string(), 100.0 * bytes as f64 / all as f64)
    };
    let mut lines = Vec::new();
    for of_type in answer["types"].as_array().into_iter().flatten() {
        lines.push(line(bytes(of_type), of_type["type"].as_str().unwrap_or_default()));
        for column in of_type["columns"].as_array().into_iter().flatten() {
            let form = column["form"].as_str().unwrap_or_default();
            let what = match column["field"].as_str() {
                Some(field) => format!("  {field}: {form}"),
                None => format!("  {form}"),
            };
            lines.push(line(bytes(column), &what));
        }
    }
    lines.push(line(answer["directories"].as_u64().unwrap_or(0), "directories of the files"));
    lines.push(line(bytes(answer), "all segments; what waits to be sealed is not in them"));
    lines.join("\n")
}
