//! Scrolls: the hits of a search at one instant, read page by page.
//!
//! They are kept in the memory of this node, a bounded amount of them, and end by themselves.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{now_ms, random_text};
use crate::door::ElasticDoor;
use crate::fields::names_of;
use crate::request::{DoorParameters, DoorReply, DoorRequest, object_of};
use crate::search::{FoundHits, answer};
use crate::search_request::HitSearch;

/// Scrolls that may be open.
const SCROLLS_MAX: usize = 500;

/// Bytes of documents that all scrolls keep, about.
const BYTES_MAX: usize = 256 << 20;

/// Time without a request until a scroll ends, in milliseconds.
const IDLE_MS: u64 = 5 * 60 * 1_000;

/// Open scrolls by their ids.
#[derive(Default)]
pub(crate) struct OpenScrolls(Mutex<BTreeMap<String, ScrollState>>);

struct ScrollState {
    request: HitSearch,
    found: FoundHits,
    /// Hits that were given.
    given: usize,
    bytes: usize,
    used_ms: u64,
}

impl OpenScrolls {
    /// Opens a scroll after its first page.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn open(&self, request: HitSearch, found: FoundHits) -> Result<String, Error> {
        let now = now_ms();
        let mut scrolls = self.0.lock();
        scrolls.retain(|_, scroll| scroll.used_ms + IDLE_MS > now);
        let bytes: usize = found.hits.iter().map(|hit| hit.stored.source.len() * 3 + 400).sum();
        let all: usize = scrolls.values().map(|scroll| scroll.bytes).sum();
        if scrolls.len() >= SCROLLS_MAX || all + bytes > BYTES_MAX {
            return Err(Error::Rejected(format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: [{SCROLLS_MAX}], with {BYTES_MAX} bytes of \
                 documents together; clear others first"
            )));
        }
        let id = random_text(32);
        let given = request.size.min(found.hits.len());
        scrolls.insert(id.clone(), ScrollState { request, found, given, bytes, used_ms: now });
        Ok(id)
    }
}

fn ids_of(body: &Map<String, Value>, parameters: &DoorParameters, path: Option<&str>) -> Vec<String> {
    let of_body = body.get("scroll_id").map(names_of).unwrap_or_default();
    let of_request = parameters.list("scroll_id").unwrap_or_default();
    let of_path = path.map(|path| path.split(',').map(str::to_owned).collect()).unwrap_or_default();
    [of_body, of_request, of_path].into_iter().find(|ids| !ids.is_empty()).unwrap_or_default()
}

/// Next page of a scroll.
pub(crate) fn next(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    path: Option<&str>,
) -> Result<DoorReply, Error> {
    let began_ms = now_ms();
    let ids = ids_of(&object_of(&request.body)?, parameters, path);
    let Some(id) = ids.first() else {
        return Err(Error::Validation(vec!["scrollId is missing".to_owned()]));
    };
    let mut scrolls = door.scrolls.0.lock();
    let Some(scroll) = scrolls.get_mut(id) else {
        return Err(Error::NotFound(format!("No search context found for id [{id}]")));
    };
    scroll.used_ms = began_ms;
    let from = scroll.given;
    let to = (from + scroll.request.size).min(scroll.found.hits.len());
    scroll.given = to;
    let mut page = answer(&scroll.request, &scroll.found, &scroll.found.hits[from..to], began_ms)?;
    if parameters.flag("rest_total_hits_as_int")?.unwrap_or(false)
        && let Some(total) = page["hits"]["total"].get("value").cloned()
    {
        page["hits"]["total"] = total;
    }
    page["_scroll_id"] = id.as_str().into();
    DoorReply::ok(page)
}

/// `DELETE` of scrolls.
pub(crate) fn clear(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    path: Option<&str>,
) -> Result<DoorReply, Error> {
    let ids = ids_of(&object_of(&request.body)?, parameters, path);
    let mut scrolls = door.scrolls.0.lock();
    let before = scrolls.len();
    match ids.iter().any(|id| id == "_all") {
        true => scrolls.clear(),
        false => scrolls.retain(|id, _| !ids.contains(id)),
    }
    let freed = before - scrolls.len();
    let is_all = ids.iter().any(|id| id == "_all");
    let status = if freed == 0 && !is_all { 404 } else { 200 };
    Ok(DoorReply::Json(status, json!({ "succeeded": true, "num_freed": freed })))
}
