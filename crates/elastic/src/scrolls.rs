//! Scrolls: the hits of a search at one instant, read page by page.
//!
//! They are kept in the memory of this node, a bounded amount of them, and end by themselves. Each is its
//! caller's: others can neither read nor clear it. When there is no room for one more, the caller that has
//! most loses the one that it has not used for longest, so that all callers can scroll.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_access::RequestCaller;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{now_ms, random_text};
use crate::door::ElasticDoor;
use crate::fields::names_of;
use crate::query::text_of;
use crate::request::{DoorParameters, DoorReply, DoorRequest, object_of};
use crate::scan_limit::duration_of;
use crate::search::{FoundHits, answer};
use crate::search_request::HitSearch;

/// Scrolls that may be open.
const SCROLLS_MAX: usize = 500;

/// Bytes of documents that all scrolls keep, about.
const BYTES_MAX: usize = 256 << 20;

/// Shortest time without a request until a scroll ends, in milliseconds: a shorter one that is asked for is
/// this one.
const IDLE_MS: u64 = 5 * 60 * 1_000;

/// Longest such time that may be asked for.
const IDLE_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Reads the time for which a scroll is kept without a request.
///
/// # Errors
/// It is no time, or longer than a day.
pub(crate) fn kept_ms_of(text: &str) -> Result<u64, Error> {
    let kept_ms = duration_of(text).ok().flatten().map(|kept| kept.as_millis());
    match kept_ms.map(u64::try_from) {
        Some(Ok(kept_ms)) if kept_ms <= IDLE_MS_MAX => Ok(kept_ms.max(IDLE_MS)),
        Some(_) => Err(Error::IllegalArgument(format!(
            "Keep alive for request ({text}) is too large. It must be less than (1d)."
        ))),
        None => Err(Error::IllegalArgument(format!(
            "failed to parse setting [scroll] with value [{text}]; name a time, such as 5m"
        ))),
    }
}

/// Open scrolls by their ids.
#[derive(Default)]
pub(crate) struct OpenScrolls(Mutex<BTreeMap<String, ScrollState>>);

/// The caller that a scroll belongs to.
#[derive(Clone)]
pub(crate) struct ScrollOwner(pub(crate) Arc<RequestCaller>);

impl ScrollOwner {
    /// True if both are one caller. Those of several groups are several: requests that another node has
    /// forwarded have one name.
    fn is(&self, other: &ScrollOwner) -> bool {
        self.0.name == other.0.name && self.0.groups == other.0.groups
    }
}

struct ScrollState {
    owner: ScrollOwner,
    request: HitSearch,
    found: FoundHits,
    /// Hits that were given.
    given: usize,
    bytes: usize,
    used_ms: u64,
    /// Time without a request until it ends.
    kept_ms: u64,
}

impl OpenScrolls {
    /// Opens a scroll of a caller after its first page.
    ///
    /// # Errors
    /// The caller has too many: no other has more.
    pub(crate) fn open(
        &self,
        owner: ScrollOwner,
        request: HitSearch,
        found: FoundHits,
        kept_ms: u64,
    ) -> Result<String, Error> {
        let now = now_ms();
        let mut scrolls = self.0.lock();
        scrolls.retain(|_, scroll| scroll.used_ms + scroll.kept_ms > now);
        let bytes: usize = found.hits.iter().map(|hit| hit.stored.source.len() * 3 + 400).sum();
        make_room(&mut scrolls, &owner, bytes)?;
        let id = random_text(32);
        let given = request.size.min(found.hits.len());
        scrolls
            .insert(id.clone(), ScrollState { owner, request, found, given, bytes, used_ms: now, kept_ms });
        Ok(id)
    }
}

/// Makes room for one more scroll of a caller, with documents of so many bytes: at the expense of the caller
/// that has most, as long as this is another one.
///
/// # Errors
/// The caller itself has most.
fn make_room(
    scrolls: &mut BTreeMap<String, ScrollState>,
    owner: &ScrollOwner,
    bytes: usize,
) -> Result<(), Error> {
    loop {
        let all: usize = scrolls.values().map(|scroll| scroll.bytes).sum();
        if scrolls.len() < SCROLLS_MAX && all.saturating_add(bytes) <= BYTES_MAX {
            return Ok(());
        }
        let mut shares: Vec<(&ScrollOwner, ScrollShare)> = Vec::new();
        for scroll in scrolls.values() {
            let at = shares.iter().position(|(other, _)| other.is(&scroll.owner)).unwrap_or_else(|| {
                shares.push((&scroll.owner, ScrollShare::default()));
                shares.len() - 1
            });
            shares[at].1.add(scroll.bytes);
        }
        let mut own =
            shares.iter().find(|(other, _)| other.is(owner)).map_or_else(ScrollShare::default, |of| of.1);
        own.add(bytes);
        let most = shares.iter().max_by(|(_, one), (_, other)| one.weight().total_cmp(&other.weight()));
        let Some((loser, _)) =
            most.filter(|(other, share)| !other.is(owner) && share.weight() > own.weight())
        else {
            return Err(Error::Rejected(format!(
                "Trying to create too many scroll contexts. Must be less than or equal to: [{SCROLLS_MAX}], with {BYTES_MAX} bytes of \
                 documents together; clear others first"
            )));
        };
        let idlest = scrolls.iter().filter(|(_, scroll)| scroll.owner.is(loser));
        let idlest = idlest.min_by_key(|(_, scroll)| scroll.used_ms).map(|(id, _)| id.clone());
        // One that has most has one.
        idlest.and_then(|id| scrolls.remove(&id));
    }
}

/// Part of all scrolls that a caller has.
#[derive(Debug, Clone, Copy, Default)]
struct ScrollShare {
    count: usize,
    bytes: usize,
}

impl ScrollShare {
    const fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// Its part of the bound that it fills most.
    fn weight(self) -> f64 {
        (self.count as f64 / SCROLLS_MAX as f64).max(self.bytes as f64 / BYTES_MAX as f64)
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
    let body = object_of(&request.body)?;
    let ids = ids_of(&body, parameters, path);
    let kept = body.get("scroll").map(text_of).or_else(|| parameters.get("scroll").map(str::to_owned));
    let kept_ms = kept.as_deref().map(kept_ms_of).transpose()?;
    let Some(id) = ids.first() else {
        return Err(Error::Validation(vec!["scrollId is missing".to_owned()]));
    };
    let owner = door.caller.scroll_owner();
    let mut scrolls = door.scrolls.0.lock();
    let Some(scroll) = scrolls.get_mut(id).filter(|scroll| scroll.owner.is(&owner)) else {
        return Err(Error::NotFound(format!("No search context found for id [{id}]")));
    };
    scroll.used_ms = began_ms;
    scroll.kept_ms = kept_ms.unwrap_or(scroll.kept_ms);
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

/// `DELETE` of scrolls of the caller.
pub(crate) fn clear(
    door: &ElasticDoor,
    request: &DoorRequest,
    parameters: &DoorParameters,
    path: Option<&str>,
) -> Result<DoorReply, Error> {
    let ids = ids_of(&object_of(&request.body)?, parameters, path);
    let is_all = ids.iter().any(|id| id == "_all");
    let owner = door.caller.scroll_owner();
    let mut scrolls = door.scrolls.0.lock();
    let before = scrolls.len();
    scrolls.retain(|id, scroll| !scroll.owner.is(&owner) || !(is_all || ids.contains(id)));
    let freed = before - scrolls.len();
    let status = if freed == 0 && !is_all { 404 } else { 200 };
    Ok(DoorReply::Json(status, json!({ "succeeded": true, "num_freed": freed })))
}
