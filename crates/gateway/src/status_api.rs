//! Status of the node over HTTP.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use hyper::{HeaderMap, StatusCode};
use millrace_column::ColumnForm;
use millrace_node::{Error, FieldUseSummary};
use millrace_search::FieldUseKind;
use millrace_store::StoredColumn;
use serde_json::{Map, Value, json};

use crate::GatewayState;
use crate::http::{self, answer};
use crate::{openapi, page};

/// Routes of the data port.
pub(crate) fn data_routes() -> Router<Arc<GatewayState>> {
    shared_routes(get(data_health)).route("/", get(root)).route("/status.html", get(status_page))
}

/// Routes of the config port.
pub(crate) fn config_routes() -> Router<Arc<GatewayState>> {
    shared_routes(get(config_health)).route("/status.html", get(config_status_page))
}

/// Routes of both ports. Those of Vespa's interfaces may end in a slash, as there.
fn shared_routes(health: MethodRouter<Arc<GatewayState>>) -> Router<Arc<GatewayState>> {
    let slashed = [
        ("/state/v1", listed("/state/v1", &["config", "fields", "health", "metrics", "version"])),
        ("/state/v1/health", health),
        ("/state/v1/config", get(config)),
        ("/state/v1/version", get(version)),
        ("/state/v1/metrics", get(metrics)),
        ("/state/v1/fields", get(fields)),
        ("/metrics/v1", listed("/metrics/v1", &["values"])),
        ("/metrics/v1/values", get(services_metrics)),
        ("/metrics/v2", listed("/metrics/v2", &["values"])),
        ("/metrics/v2/values", get(node_metrics)),
        ("/prometheus/v1", listed("/prometheus/v1", &["values"])),
        ("/prometheus/v1/values", get(prometheus_of_vespa)),
    ];
    let router = Router::new()
        .route("/ApplicationStatus", get(application_status))
        .route("/metrics", get(prometheus))
        .route("/openapi.json", get(openapi::handle));
    slashed.into_iter().fold(router, |router, (path, handler)| {
        router.route(path, handler.clone()).route(&format!("{path}/"), handler)
    })
}

/// The handlers, as Vespa names them: clients search for the paths they need.
fn handlers(port: u16) -> Value {
    let handler = |id: &str, class: &str, paths: &[&str]| {
        let bindings: Vec<String> = paths
            .iter()
            .flat_map(|path| [format!("http://*:{port}{path}"), format!("http://*{path}")])
            .collect();
        json!({ "id": id, "class": class, "bundle": "millrace", "serverBindings": bindings })
    };
    json!([
        handler(
            "com.yahoo.document.restapi.resource.DocumentV1ApiHandler",
            "com.yahoo.document.restapi.resource.DocumentV1ApiHandler",
            &["/document/v1/*", "/document/v1/*/"],
        ),
        handler(
            "com.yahoo.search.handler.SearchHandler",
            "com.yahoo.search.handler.SearchHandler",
            &["/search/*"],
        ),
        handler(
            "com.yahoo.container.jdisc.state.StateHandler",
            "com.yahoo.container.jdisc.state.StateHandler",
            &["/state/v1", "/state/v1/*"],
        ),
    ])
}

/// The list of handlers, or the page for a browser.
async fn root(State(node): State<Arc<GatewayState>>, headers: HeaderMap) -> Response {
    if page::accepts_html(&headers) {
        return page::answer();
    }
    http::json(StatusCode::OK, &json!({ "handlers": handlers(node.port()) }))
}

async fn application_status(State(node): State<Arc<GatewayState>>) -> Response {
    let application = match node.deployments().current() {
        Ok(deployment) => json!({
            "meta": {
                "name": "default",
                "user": "",
                "path": "",
                "generation": deployment.generation,
                "timestamp": deployment.made_ms,
                "date": "",
                "checksum": "",
            },
            "user": { "version": deployment.application.container.version },
            "schemas": deployment.application.schemas.keys().map(|name| json!(&**name)).collect::<Value>(),
        }),
        Err(_) => json!({ "meta": { "name": "", "generation": 0 } }),
    };
    http::json(
        StatusCode::OK,
        &json!({
            "application": application,
            "abstract-components": [],
            "handlers": handlers(node.port()),
            "config": { "generation": node.deployments().generation() },
        }),
    )
}

/// Checks that this node can answer requests for documents and queries: an application is active, documents
/// can be written, and the cluster of the node, if any, counts on it.
///
/// # Errors
/// One of Vespa's codes of health, and the reason.
fn ready(node: &GatewayState) -> Result<(), (&'static str, String)> {
    node.deployments().current().map_err(|error| ("initializing", Error::to_string(&error)))?;
    if let Some(unfit) = node.unfit() {
        return Err(("down", unfit.to_string()));
    }
    node.cluster().serves().map_err(|error| ("down", error.to_string()))
}

async fn status_page(State(node): State<Arc<GatewayState>>) -> Response {
    match ready(&node) {
        Ok(()) => answer(StatusCode::OK, "text/html", b"<title>OK</title>\nOK\n".to_vec()),
        Err((_, reason)) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain;charset=utf-8", reason.into_bytes())
        }
    }
}

async fn config_status_page() -> Response {
    answer(StatusCode::OK, "text/html", b"<title>OK</title>\nOK\n".to_vec())
}

/// Handler of a path that lists the resources below it.
fn listed(api: &'static str, names: &'static [&'static str]) -> MethodRouter<Arc<GatewayState>> {
    get(move || async move {
        let list: Vec<Value> = names.iter().map(|name| json!({ "url": format!("{api}/{name}") })).collect();
        http::json_lines(StatusCode::OK, &json!({ "resources": list }))
    })
}

async fn data_health(State(node): State<Arc<GatewayState>>) -> Response {
    let metrics = node.metrics().health();
    match ready(&node) {
        Ok(()) => {
            let mut warnings = node.node().store().failures();
            warnings.extend(node.certificate_warnings());
            let status = match warnings.is_empty() {
                true => json!({ "code": "up" }),
                false => json!({ "code": "up", "message": warnings.join("; ") }),
            };
            health(StatusCode::OK, status, metrics)
        }
        Err((code, message)) => {
            health(StatusCode::SERVICE_UNAVAILABLE, json!({ "code": code, "message": message }), metrics)
        }
    }
}

/// Up whenever it can be deployed to. Requests are counted at the data port alone.
async fn config_health(State(node): State<Arc<GatewayState>>) -> Response {
    let metrics = json!({ "snapshot": node.metrics().snapshot(), "values": [] });
    health(StatusCode::OK, json!({ "code": "up" }), metrics)
}

fn health(status: StatusCode, code: Value, metrics: Value) -> Response {
    let now = millrace_env::unix_time().as_millis() as u64;
    http::json_lines(status, &json!({ "time": now, "status": code, "metrics": metrics }))
}

async fn config(State(node): State<Arc<GatewayState>>) -> Response {
    let generation = node.deployments().generation();
    http::json_lines(
        StatusCode::OK,
        &json!({ "config": { "generation": generation, "container": { "generation": generation } } }),
    )
}

async fn version() -> Response {
    http::json_lines(StatusCode::OK, &json!({ "version": env!("CARGO_PKG_VERSION") }))
}

async fn metrics(State(node): State<Arc<GatewayState>>) -> Response {
    let now = millrace_env::unix_time().as_millis() as u64;
    let metrics = node.metrics().state(&node.gauges());
    let status = json!({ "time": now, "status": { "code": "up" }, "metrics": metrics });
    uncounted(http::json_lines(StatusCode::OK, &status))
}

/// The response, which is sent although no memory is left for answers. Its size depends on the number of
/// metrics and models alone.
fn uncounted(mut response: Response) -> Response {
    response.extensions_mut().insert(http::UncountedAnswer);
    response
}

/// Bytes of the columns in the segment files of the node, and uses of the fields by its queries.
async fn fields(State(node): State<Arc<GatewayState>>) -> Response {
    let store = node.node().store().clone();
    let read = tokio::task::spawn_blocking(move || {
        Ok((store.stored_columns()?, store.filter_bytes(), store.status().segment_bytes))
    });
    let failed =
        |message: String| http::json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "message": message }));
    match read.await {
        Ok(Ok((columns, filters, all))) => {
            let uses = node.node().field_uses().summary();
            http::json(StatusCode::OK, &fields_value(&columns, filters, all, &uses))
        }
        Ok(Err::<_, millrace_store::Error>(error)) => failed(format!("a segment cannot be read: {error}")),
        Err(_) => failed("the directories of the segments were not read to the end; see the log".to_owned()),
    }
}

fn fields_value(columns: &[StoredColumn], filters: u64, all: u64, uses: &FieldUseSummary) -> Value {
    let bytes = |columns: &[StoredColumn]| columns.iter().map(|column| column.bytes).sum::<u64>();
    let column = |column: &StoredColumn| {
        let form = match column.key.form {
            ColumnForm::Value => "values",
            ColumnForm::Tokens => "words",
            ColumnForm::Id => "ids",
            ColumnForm::Timestamp => "timestamps",
            ColumnForm::Removed => "removals",
            ColumnForm::Overflow => "fields without a column",
        };
        let sealing = milliseconds(column.seal_time);
        let mut value = json!({ "form": form, "bytes": column.bytes, "sealing_ms": sealing });
        if !column.key.field.is_empty() {
            value["field"] = json!(column.key.field);
        }
        value
    };
    let of_type = |columns: &[StoredColumn]| {
        let name = columns.first().map(|column| &column.document_type);
        let list: Vec<Value> = columns.iter().map(column).collect();
        let fields = fields_by_size(columns, uses);
        json!({ "type": name, "bytes": bytes(columns), "columns": list, "fields": fields })
    };
    let types = columns.chunk_by(|a, b| a.document_type == b.document_type).map(of_type);
    // The files may have changed since their directories were read.
    let directories = all.saturating_sub(bytes(columns) + filters);
    let types = types.collect::<Vec<Value>>();
    json!({
        "bytes": all, "directories": directories, "filters": filters, "days": uses.days, "types": types,
    })
}

/// Size, sealing time and uses of each field of a document type, the largest first.
fn fields_by_size(columns: &[StoredColumn], uses: &FieldUseSummary) -> Vec<Value> {
    let mut fields: BTreeMap<(&str, &str), (u64, Duration)> = BTreeMap::new();
    for column in columns.iter().filter(|column| !column.key.field.is_empty()) {
        let name = (column.document_type.as_str(), column.key.root());
        let (bytes, sealing) = fields.entry(name).or_default();
        *bytes += column.bytes;
        *sealing += column.seal_time;
    }
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_by_key(|(_, (bytes, _))| Reverse(*bytes));
    let value = |((document_type, field), (bytes, sealing)): ((&str, &str), (u64, Duration))| {
        let counts = FieldUseKind::ALL.iter().zip(uses.counts(document_type, field));
        let counts: Map<String, Value> =
            counts.map(|(kind, count)| (kind.name().to_owned(), json!(count))).collect();
        json!({ "field": field, "bytes": bytes, "sealing_ms": milliseconds(sealing), "uses": counts })
    };
    fields.into_iter().map(value).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

async fn services_metrics(State(node): State<Arc<GatewayState>>) -> Response {
    uncounted(http::json(StatusCode::OK, &json!({ "services": node.metrics().services(&node.gauges()) })))
}

async fn node_metrics(State(node): State<Arc<GatewayState>>) -> Response {
    uncounted(http::json(StatusCode::OK, &node.metrics().node("localhost", &node.gauges())))
}

async fn prometheus(State(node): State<Arc<GatewayState>>) -> Response {
    prometheus_text(node.metrics().prometheus(&node.gauges(), &node.histograms()))
}

async fn prometheus_of_vespa(State(node): State<Arc<GatewayState>>) -> Response {
    prometheus_text(node.metrics().prometheus_of_vespa(&node.gauges(), &node.histograms()))
}

fn prometheus_text(text: String) -> Response {
    uncounted(answer(StatusCode::OK, "text/plain; version=0.0.4", text.into_bytes()))
}
