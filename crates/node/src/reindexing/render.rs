//! Status of reindexing in the format of `GET …/reindexing`.

use millrace_cluster::reindexing::{ReindexRun, ReindexStatus, ReindexedTypes};
use serde_json::{Map, Value, json};

use crate::CompiledApplication;

/// Status of all types; `deployment` gives the content clusters.
pub(super) fn types(types: &ReindexedTypes, deployment: &CompiledApplication) -> Value {
    let content = deployment.application.content.iter();
    let clusters: Map<String, Value> =
        content.map(|of| (of.id.to_string(), cluster(types, &of.id))).collect();
    json!({ "clusters": clusters })
}

fn cluster(types: &ReindexedTypes, id: &str) -> Value {
    let mut pending = Map::new();
    let mut ready = Map::new();
    for (name, status) in types.in_cluster(id) {
        if let Some(generation) = status.pending {
            pending.insert(name.to_string(), json!(generation));
        }
        if let Some(shown) = requested(status) {
            ready.insert(name.to_string(), shown);
        }
    }
    json!({ "pending": pending, "ready": ready })
}

/// The last request of a type, and its effect; `None`: there was none.
fn requested(status: &ReindexStatus) -> Option<Value> {
    let ready = status.ready.as_ref()?;
    let mut shown = Map::new();
    shown.insert("readyMillis".to_owned(), json!(ready.ready_ms));
    let run = status.run.as_ref().filter(|run| run.ready_ms == ready.ready_ms);
    if let Some(run) = run {
        details(run, &mut shown);
    }
    shown.insert("state".to_owned(), json!(run.map_or("pending", |run| run.state().name())));
    shown.insert("speed".to_owned(), json!(ready.speed));
    Some(Value::Object(shown))
}

fn details(run: &ReindexRun, shown: &mut Map<String, Value>) {
    if let Some(started) = run.started_ms {
        shown.insert("startedMillis".to_owned(), json!(started));
    }
    if let Some(ended) = run.ended_ms {
        shown.insert("endedMillis".to_owned(), json!(ended));
        return;
    }
    if run.started_ms.is_some() {
        shown.insert("progress".to_owned(), json!(run.progress));
    }
    if let Some(failure) = &run.failure {
        shown.insert("message".to_owned(), json!(failure.reason));
    }
}
