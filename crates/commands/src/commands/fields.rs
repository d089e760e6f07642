//! `millrace fields`.

use std::process::ExitCode;

use hyper::Method;
use indicatif::{HumanBytes, HumanCount};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::Value;

use crate::cli::{NodeArguments, NodeTimeout};
use crate::error::Error;
use crate::output::CommandOutput;

/// Prints the bytes on the node's disk by document type, field and form, and the uses of the fields.
pub async fn run(
    node: &NodeArguments,
    node_timeout: &NodeTimeout,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = NodeClient::new(&node.url, HttpProtocol::Http1)?.with_timeout(node_timeout.timeout);
    let request = OutgoingRequest::new(Method::GET, "/state/v1/fields");
    let answer = client.send(request).await?.checked()?.json();
    output.print(|| table(&answer), &answer);
    Ok(ExitCode::SUCCESS)
}

/// One line a column, the largest of each type first; then one line a field.
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
    for (part, what) in [("filters", "filters of ids"), ("directories", "directories of the files")] {
        lines.push(line(answer[part].as_u64().unwrap_or(0), what));
    }
    lines.push(line(bytes(answer), "all segments; what waits to be sealed is not in them"));
    lines.extend(uses(answer));
    lines.join("\n")
}

/// Uses of each field by queries, and the savings without those that have none.
fn uses(answer: &Value) -> Vec<String> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(0.0);
    let types = list(answer, "types");
    let columns = types.iter().flat_map(|of_type| list(of_type, "columns"));
    let all_sealing = columns.map(|column| number(&column, "sealing_ms")).sum::<f64>();
    let percent = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 0.0 };
    let mut lines = Vec::new();
    for of_type in &types {
        for field in list(of_type, "fields") {
            let (bytes, sealing) = (number(&field, "bytes"), number(&field, "sealing_ms"));
            let counts = field["uses"].as_object().cloned().unwrap_or_default();
            let used = counts.iter().filter_map(|(kind, count)| Some((kind, count.as_u64()?)));
            let used: Vec<String> = used
                .filter(|(_, count)| *count > 0)
                .map(|(kind, count)| format!("{kind} {}", HumanCount(count)))
                .collect();
            let what = match used.is_empty() {
                true => format!(
                    "not used; without it {} ({:.1} %) and {:.1} % of sealing less",
                    HumanBytes(bytes as u64),
                    percent(bytes, number(answer, "bytes")),
                    percent(sealing, all_sealing),
                ),
                false => format!("{}; {:.1} s of sealing", used.join(", "), sealing / 1000.0),
            };
            let names = (of_type["type"].as_str(), field["field"].as_str());
            lines.push(format!("{}.{}: {what}", names.0.unwrap_or_default(), names.1.unwrap_or_default()));
        }
    }
    if !lines.is_empty() {
        lines.insert(0, format!("\nqueries that used each field; days counted: {}", number(answer, "days")));
    }
    lines
}
