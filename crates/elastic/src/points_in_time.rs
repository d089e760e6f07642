//! Points in time: searches of what was written before one.
//!
//! A point is in its id alone: the indexes, and for each the number of the first write that does not count.
//! So nothing is kept for it, it has no end, and clients may have as many as they like.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_node::pool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{OpenIndex, now_ms};
use crate::dated_names::with_dates;
use crate::fields::names_of;
use crate::index_admin::shards_of;
use crate::names::{self, NameOptions};
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::duration_of;
use crate::scrolls::seq_no_end;
use crate::search::indexes_of;
use crate::search_request::HitSearch;
use crate::service::ElasticService;

/// Bytes of an id.
const ID_BYTES_MAX: usize = 1 << 20;

/// A point in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointInTime {
    /// Names by which it was opened: aliases among them have filters.
    expression: String,
    routing: Option<Vec<String>>,
    indexes: Vec<PointOfIndex>,
}

/// Part of a point in time that is about one index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PointOfIndex {
    name: String,
    uuid: String,
    /// Sequence number of the first write that does not count.
    end: i64,
}

/// Form of the answers about points in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointForm {
    Elasticsearch,
    OpenSearch,
}

impl PointInTime {
    fn id(&self) -> String {
        let text = serde_json::to_vec(self).expect("names and numbers have a text");
        URL_SAFE_NO_PAD.encode(text)
    }

    fn of_id(id: &str) -> Result<Self, Error> {
        let text = (id.len() <= ID_BYTES_MAX).then(|| URL_SAFE_NO_PAD.decode(id).ok()).flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok())
            .ok_or_else(|| Error::IllegalArgument("invalid id of a point in time".to_owned()))
    }

    /// Takes the point in time out of the body of a search; `None` if it has none.
    ///
    /// # Errors
    /// It is malformed, or the search has parts that the point has already.
    pub(crate) fn take(
        body: &mut Map<String, Value>,
        parameters: &ElasticParameters,
        expression: &str,
    ) -> Result<Option<Self>, Error> {
        let Some(given) = body.remove("pit") else { return Ok(None) };
        for (name, value) in given.as_object().into_iter().flatten() {
            match name.as_str() {
                "id" => {}
                "keep_alive" => {
                    duration_of(value.as_str().unwrap_or_default())?;
                }
                other => return Err(Error::Content(format!("[pit] unknown field [{other}]"))),
            }
        }
        let Some(id) = given.get("id").and_then(Value::as_str) else {
            return Err(Error::IllegalArgument("[pit] needs the [id] of a point in time".to_owned()));
        };
        if !expression.is_empty() {
            return Err(Error::Validation(vec![
                "[indices] cannot be used with point in time. Do not specify any index with point in time."
                    .to_owned(),
            ]));
        }
        if let Some(other) = ["scroll", "routing"].iter().find(|name| parameters.has(name)) {
            return Err(Error::Validation(vec![format!("[{other}] cannot be used with point in time")]));
        }
        PointInTime::of_id(id).map(Some)
    }

    /// Names by which it was opened.
    pub(crate) fn expression(&self) -> &str {
        &self.expression
    }

    /// Id with which it goes on.
    pub(crate) fn shown_id(&self) -> Value {
        self.id().into()
    }

    /// Its indexes, as they are now.
    ///
    /// # Errors
    /// One was deleted, and may have been made again since, or is not behind the names any more by which the
    /// point was opened: the filter of an alias would be gone with it. Or the caller may not read it.
    pub(crate) fn indexes(&self, service: &ElasticService) -> Result<Vec<OpenIndex>, Error> {
        let names: Vec<&str> = self.indexes.iter().map(|index| index.name.as_str()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let found = indexes_of(service, &ElasticParameters::default(), &names.join(","))?;
        let options = NameOptions { ignore_unavailable: true, hidden: true, ..NameOptions::LENIENT };
        let named = names::resolve(&*service.catalog.read()?, &self.expression, options)?;
        let is_there = |index: &&PointOfIndex| {
            found.iter().any(|found| found.entry.name == index.name && found.entry.uuid == index.uuid)
                && named.iter().any(|named| named.entry.name == index.name)
        };
        match self.indexes.iter().find(|index| !is_there(index)) {
            Some(gone) => Err(Error::NotFound(format!(
                "No search context found: the index [{}] is gone, or not behind [{}] any more",
                gone.name, self.expression
            ))),
            None => Ok(found),
        }
    }

    /// Restricts a search to it. Hits that are equal in the order of the search get an order: pages that go
    /// on after the last hit have each hit once.
    pub(crate) fn restrict(&self, indexes: &[OpenIndex], request: &mut HitSearch) {
        let end = |index: &OpenIndex| {
            let own = self.indexes.iter().find(|own| own.name == index.entry.name);
            own.map_or(i64::MAX, |own| own.end)
        };
        request.seq_nos_end = Some(indexes.iter().map(end).collect());
        request.routing.clone_from(&self.routing);
        request.order = request.order.take().map(|order| order.with_ties(indexes.len() > 1));
    }
}

/// Opens a point in time.
pub(crate) fn open(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
    form: PointForm,
) -> Result<ReplyContent, Error> {
    match parameters.get("keep_alive") {
        Some(text) => {
            duration_of(text)?;
        }
        None => return Err(Error::Validation(vec!["[keep_alive] is not specified".to_owned()])),
    }
    if let Some(member) = object_of(&request.body)?.keys().next() {
        return Err(Error::unsupported(&format!("[{member}] of a point in time")));
    }
    let expression = with_dates(expression)?.into_owned();
    let indexes = indexes_of(service, parameters, &expression)?;
    // Writes that are under way are waited for.
    let ends: Vec<i64> =
        pool::wait_without_slot(|| indexes.iter().map(|index| seq_no_end(service, index, false)).collect());
    let of_index = |(index, end): (&OpenIndex, i64)| PointOfIndex {
        name: index.entry.name.clone(),
        uuid: index.entry.uuid.clone(),
        end,
    };
    let shards: u64 = indexes.iter().map(shards_of).sum();
    let id = PointInTime {
        expression,
        routing: parameters.list("routing"),
        indexes: indexes.iter().zip(ends).map(of_index).collect(),
    }
    .id();
    if id.len() > ID_BYTES_MAX {
        return Err(Error::IllegalArgument(format!(
            "a point in time of {} indexes has an id of more than {ID_BYTES_MAX} bytes; name fewer",
            indexes.len()
        )));
    }
    let shards = json!({ "total": shards, "successful": shards, "skipped": 0, "failed": 0 });
    ReplyContent::ok(match form {
        PointForm::Elasticsearch => json!({ "id": id, "_shards": shards }),
        PointForm::OpenSearch => json!({ "pit_id": id, "_shards": shards, "creation_time": now_ms() }),
    })
}

/// `DELETE` of points in time: they are none of this service's, and are forgotten by their clients.
pub(crate) fn close(request: &ElasticRequest, form: PointForm) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    let member = if form == PointForm::Elasticsearch { "id" } else { "pit_id" };
    let ids = body.get(member).map(names_of).unwrap_or_default();
    if ids.is_empty() {
        return Err(Error::Validation(vec![format!("[{member}] of a point in time is missing")]));
    }
    ids.iter().try_for_each(|id| PointInTime::of_id(id).map(drop))?;
    ReplyContent::ok(match form {
        PointForm::Elasticsearch => json!({ "succeeded": true, "num_freed": ids.len() }),
        PointForm::OpenSearch => {
            let closed = ids.iter().map(|id| json!({ "pit_id": id, "successful": true }));
            json!({ "pits": closed.collect::<Vec<_>>() })
        }
    })
}

/// Points in time that are kept: none.
pub(crate) fn list() -> Result<ReplyContent, Error> {
    ReplyContent::ok(json!({ "pits": [] }))
}
