//! `millrace status`.

use std::process::ExitCode;

use hyper::{Method, StatusCode};
use millrace_client::{Client, Protocol, Request};
use serde_json::{Map, Value, json};

use crate::cli::NodeArguments;
use crate::error::Error;
use crate::output::Output;

/// Tells what is deployed and how much is stored. The exit status is 1 when there is no application.
pub async fn run(node: &NodeArguments, output: &Output) -> Result<ExitCode, Error> {
    let config = Client::new(&node.config_url, Protocol::Http1)?;
    let application = "/application/v2/tenant/default/application/default";
    let answer = config.send(Request::new(Method::GET, application)).await?;
    if answer.status == StatusCode::NOT_FOUND {
        let cure = "no application is deployed: millrace deploy DIR";
        output.print(|| cure.to_owned(), &json!({ "generation": null, "message": cure }));
        return Ok(ExitCode::FAILURE);
    }
    let generation = answer.checked()?.json()["generation"].clone();
    let data = Client::new(&node.url, Protocol::Http1)?;
    let metrics = data.send(Request::new(Method::GET, "/state/v1/metrics")).await?.checked()?.json();
    let mut values = Map::new();
    for metric in metrics["metrics"]["values"].as_array().into_iter().flatten() {
        let Some(name) = metric["name"].as_str() else { continue };
        // What is counted has a rate; what is read has not.
        let value = if metric["values"].get("rate").is_some() { "count" } else { "last" };
        values.insert(name.to_owned(), metric["values"][value].clone());
    }
    let text = || {
        let lines = values.iter().map(|(name, value)| format!("{name:<45} {}", number(value)));
        format!("{:<45} {generation}\n{}", "generation", lines.collect::<Vec<_>>().join("\n"))
    };
    output.print(text, &json!({ "generation": generation, "metrics": values }));
    Ok(ExitCode::SUCCESS)
}

fn number(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.3}"),
        None => value.to_string(),
    }
}
