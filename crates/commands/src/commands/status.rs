//! `millrace status`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hyper::{Method, StatusCode};
use indicatif::{HumanBytes, HumanCount};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Map, Value, json};

use crate::cli::{NodeArguments, NodeTimeout};
use crate::document_counts::{self, documents_text};
use crate::error::Error;
use crate::output::{CommandOutput, noun};
use crate::overview::ClusterOverview;

/// Path of the application.
const APPLICATION: &str = "/application/v2/tenant/default/application/default";

/// Prints the deployed application and the amount of stored data. The exit status is 1 if there is no
/// application, or if the node does not serve.
pub async fn run(
    node: &NodeArguments,
    node_timeout: &NodeTimeout,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let config = NodeClient::new(&node.config_url, HttpProtocol::Http1)?.with_timeout(node_timeout.timeout);
    let answer = config.send(OutgoingRequest::new(Method::GET, APPLICATION)).await?;
    if answer.status == StatusCode::NOT_FOUND {
        let cure = "no application is deployed: millrace deploy DIR";
        output.print(|| cure.to_owned(), &json!({ "generation": null, "message": cure }));
        return Ok(ExitCode::FAILURE);
    }
    let generation = answer.checked()?.json()["generation"].clone();
    let path = format!("{APPLICATION}/reindexing");
    let reindexing = config.send(OutgoingRequest::new(Method::GET, path)).await?.checked()?.json();
    let data = NodeClient::new(&node.url, HttpProtocol::Http1)?.with_timeout(node_timeout.timeout);
    let metrics = data.send(OutgoingRequest::new(Method::GET, "/state/v1/metrics")).await?.checked()?.json();
    // The status code says the same as the body.
    let health = data.send(OutgoingRequest::new(Method::GET, "/state/v1/health")).await?.json();
    let health = &health["status"];
    let mut values = Map::new();
    for metric in metrics["metrics"]["values"].as_array().into_iter().flatten() {
        let Some(name) = metric["name"].as_str() else { continue };
        // Counters have a rate; gauges do not.
        let value = if metric["values"].get("rate").is_some() { "count" } else { "last" };
        values.insert(name.to_owned(), metric["values"][value].clone());
    }
    let documents = document_counts::count_documents(&data).await?;
    let overview = match ClusterOverview::read(&config).await {
        Ok(mut overview) => {
            overview.ask_nodes().await;
            overview.ask_indexes(&config).await;
            Some(overview)
        }
        // The node is not in a cluster.
        Err(Error::Argument(_) | Error::NoCluster { .. }) => None,
        Err(error) => return Err(error),
    };
    let text = || {
        let cluster = overview.as_ref().map_or_else(String::new, |overview| format!("\n{}", overview.text()));
        let health = reported(health).map_or_else(String::new, |reason| format!("health       {reason}\n"));
        format!(
            "application  generation {generation}\n{health}{}{cluster}",
            metrics_text(&values, documents.as_ref(), &reindexing)
        )
    };
    let mut value = json!({ "generation": generation, "health": health, "documents": documents, "metrics": values, "reindexing": reindexing["clusters"] });
    if let Some(overview) = &overview {
        value["cluster"] = overview.value();
    }
    output.print(text, &value);
    let is_down = health["code"].as_str().is_some_and(|code| code != "up");
    Ok(if is_down { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The code and the reason of a node that is not up, or has something to report, such as a damaged file.
fn reported(health: &Value) -> Option<String> {
    let code = health["code"].as_str()?;
    match health["message"].as_str() {
        None if code == "up" => None,
        message => Some(format!("{code}: {}", message.unwrap_or("see its log"))),
    }
}

/// Formats the metrics of a node's state, for people.
fn metrics_text(
    metrics: &Map<String, Value>,
    documents: Option<&BTreeMap<String, u64>>,
    reindexing: &Value,
) -> String {
    let value = |name: &str| metrics.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let count = |name: &str| HumanCount(value(name) as u64);
    let counted = |name: &str, one: &str, many: &str| {
        let number = value(name) as u64;
        format!("{} {}", HumanCount(number), noun(number, one, many))
    };
    let bytes = |name: &str| HumanBytes(value(name) as u64);
    let (hits, misses) = (value("millrace.store.cache_hits"), value("millrace.store.cache_misses"));
    let documents = documents.map_or_else(
        || {
            let versions = counted("content.proton.documentdb.documents.total", "document", "documents");
            format!("about {versions}: replaced versions count until they are merged away")
        },
        documents_text,
    );
    [
        format!("documents    {documents}"),
        format!(
            "files        {}, {}; {} wait to be sealed",
            counted("vds.datastored.alldisks.buckets", "bucket", "buckets"),
            counted("millrace.store.segments", "segment", "segments"),
            bytes("millrace.store.tail_bytes"),
        ),
        format!(
            "disk         {} in segments, {} free",
            bytes("content.proton.documentdb.disk_usage"),
            bytes("millrace.disk_free"),
        ),
        format!(
            "queries      {} answered, {} with an error, {} out of time",
            count("queries"),
            count("failed_queries"),
            count("degraded_queries"),
        ),
        format!(
            "operations   {}, {}, {}, {}, {}; {} failed, {} refused under load",
            counted("httpapi_num_puts", "put", "puts"),
            counted("httpapi_num_updates", "update", "updates"),
            counted("httpapi_num_removes", "remove", "removes"),
            counted("httpapi_num_gets", "get", "gets"),
            counted("httpapi_num_visits", "visit", "visits"),
            count("httpapi_failed"),
            count("jdisc.http.requests.rejected"),
        ),
        format!(
            "cache        {}, {:.0} % of columns found in it",
            bytes("millrace.store.cache_bytes"),
            100.0 * hits / (hits + misses).max(1.0),
        ),
        format!(
            "background   {} collected as garbage; {}",
            counted("vds.idealstate.garbage_collection.documents_removed", "document", "documents"),
            reindexing_text(reindexing),
        ),
        "All metrics: millrace --format json status".to_owned(),
    ]
    .join("\n")
}

/// Formats pending reindexing with its progress.
fn reindexing_text(answer: &Value) -> String {
    let of_types = |clusters: &'static str| {
        let clusters_of = answer["clusters"].as_object().into_iter().flatten();
        clusters_of.flat_map(move |(_, cluster)| cluster[clusters].as_object().into_iter().flatten())
    };
    let pending = of_types("pending").map(|(name, generation)| {
        format!("{name} needs it since generation {generation} (POST {APPLICATION}/reindex to the config port, then deploy)")
    });
    let asked = of_types("ready").filter_map(|(name, status)| match status["state"].as_str()? {
        "pending" => Some(format!("{name} begins with the next deployment")),
        "running" => {
            Some(format!("{name} is {:.0} % done", 100.0 * status["progress"].as_f64().unwrap_or(0.0)))
        }
        "failed" => Some(format!(
            "{name} fails and is tried again: {}",
            status["message"].as_str().unwrap_or("see the log")
        )),
        _ => None,
    });
    let types: Vec<String> = pending.chain(asked).collect();
    match types.is_empty() {
        true => "nothing is to be reindexed".to_owned(),
        false => format!("reindexing: {}", types.join("; ")),
    }
}
