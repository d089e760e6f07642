//! `_migration/deprecations`: differences of indexes from what their settings ask for.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::analyzers;
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions};
use crate::request::{ElasticParameters, ReplyContent};
use crate::service::ElasticService;

/// `GET` of `_migration/deprecations`.
pub(crate) fn get(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    let mut indexes = Map::new();
    for index in names::resolve(&*service.catalog.read()?, expression, options.with(parameters)?)? {
        let notes = analyzers::notes(&index.entry.settings, &index.entry.mappings).into_iter();
        let notes: Vec<Value> = notes
            .map(|note| {
                json!({
                    "level": "warning", "message": note, "details": "docs/elastic.md lists what analyzers do",
                    "url": "", "resolve_during_rolling_upgrade": false,
                })
            })
            .collect();
        if !notes.is_empty() {
            let notes = Value::Array(notes);
            take_answer(&service.answer_memory, &notes)?;
            indexes.insert(index.entry.name.clone(), notes);
        }
    }
    ReplyContent::ok(json!({
        "cluster_settings": [], "node_settings": [], "ml_settings": [], "index_settings": indexes,
        "data_streams": {}, "templates": {}, "ilm_policies": {},
    }))
}
