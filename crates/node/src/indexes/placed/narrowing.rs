//! Use of a placed index by a node's share of a query over all groups: the entries of one copy of each slice
//! name the documents that can be hits.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DocumentId};
use millrace_index_placement::{IndexNumber, PlacedCopy, PlacementTable, SliceId};
use millrace_keys::{KeyRange, overflow_range};
use millrace_plan::{Plan, StreamedScope};
use millrace_store::ViewScope;
use tokio::task::JoinSet;

use super::super::IndexDefinition;
use super::super::covering::CoveringEntries;
use super::super::in_order::{self, ordered_components, too_many_others};
use super::super::service::{document_id, group_key};
use super::super::usage::{
    CandidateReading, IndexChoice, IndexUse, NarrowedPart, NarrowedScope, QueriedBuckets, SOUGHT_MAX,
    candidates_max, choice, conditions,
};
use super::PlacedIndexes;
use super::message::{CopyScan, CopyScanned, PlacedAnswer, PlacedQuestion};
use super::pages::slice_bucket;
use super::service::PlacedService;
use crate::Error;
use crate::pool::wait_without_slot;

/// Entries of a slice that are asked for at first.
const FIRST: usize = 4096;

/// Share of the documents above which streaming is cheaper than the index.
const STREAMED_SHARE: u64 = 5;

/// Timeout of requests to a copy that need not be fresh.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

/// Indexes whose numbers of entries for a query are compared, the entries that are counted, and the time for
/// that.
const COMPARED_MAX: usize = 8;
const COUNTED_MAX: usize = 20_000;
const COMPARING: Duration = Duration::from_millis(500);

/// Smallest page of a slice of which the first entries are read.
const FIRST_MIN: usize = 256;

/// Entries of a copy.
type ScannedEntries = Vec<(Vec<u8>, Vec<u8>, u64)>;

/// An index that can answer a query now.
pub(super) struct UsableIndex {
    pub definition: Arc<IndexDefinition>,
    pub number: IndexNumber,
    pub slices: usize,
    pub ranges: Vec<KeyRange>,
    pub conditions: usize,
    /// Number of leading components within which the entries are in the order of the hits; `None` if they
    /// are in another order.
    pub ordered: Option<usize>,
}

/// Query for entries of all slices of an index.
#[derive(Clone, Copy)]
pub(super) struct SliceQuery<'q> {
    pub index: &'q UsableIndex,
    /// Buckets whose documents are queried.
    pub within: &'q [BucketId],
    /// Maximum number of entries.
    pub limit: usize,
    /// Time for which copies that are not fresh are waited for; `None` if they need not be.
    pub fresh_timeout: Option<Duration>,
}

impl SliceQuery<'_> {
    /// Time by which the copies have to answer.
    fn deadline(&self) -> Instant {
        Instant::now() + self.fresh_timeout.unwrap_or(COPY_TIMEOUT)
    }
}

/// Question for entries of all slices.
struct SlicesScan<'s> {
    ranges: &'s [KeyRange],
    /// Entries of each slice.
    page: usize,
    /// Entries of all that are accepted.
    count_max: usize,
    /// True to get their number alone.
    count: bool,
}

/// A page of each slice, of one moment of the cluster.
#[derive(Default)]
struct SlicePages {
    entries: ScannedEntries,
    count: usize,
    missing: Vec<BucketId>,
    /// Last keys of the pages that others follow.
    ends: Vec<Vec<u8>>,
    /// True if there are more than are accepted; then some pages are not here.
    is_over: bool,
}

/// The first entries of all slices, in their order.
pub(super) struct FirstEntries {
    entries: ScannedEntries,
    /// Those of documents with very many elements, which have no place in the order.
    others: ScannedEntries,
    missing: Vec<BucketId>,
    /// True if no entries follow.
    is_whole: bool,
}

/// Outcome of the scans of an index.
pub(super) enum ScannedSlices {
    /// All of them, and the buckets of which some may be missing.
    Entries(ScannedEntries, Vec<BucketId>),
    /// More than the query may have.
    TooMany,
}

impl PlacedIndexes {
    /// True if the application places an index of this name in the cluster.
    pub(crate) fn places(&self, name: &str) -> bool {
        self.definitions.all().iter().any(|definition| definition.name() == name)
    }

    /// True if it places any.
    pub(crate) fn places_any(&self) -> bool {
        !self.definitions.is_empty()
    }

    /// Checks the parameters of a query that names a placed index. Reads none.
    ///
    /// # Errors
    /// A value is not valid; the index cannot answer the query.
    pub(crate) fn check(&self, name: &str, plan: &Plan) -> Result<(), Error> {
        candidates_max(plan)?;
        if !matches!(plan.scope, StreamedScope::All { .. }) {
            let reason = format!("'{name}': a query of single groups reads their documents; leave it out");
            return Err(Error::parameter("index.use", reason));
        }
        let named = self.definitions.all().into_iter().find(|definition| definition.name() == name);
        match named.map(|definition| conditions(&definition, plan).map(drop)) {
            Some(Err(reason)) => Err(Error::parameter(
                "index.use",
                format!("index '{name}' cannot answer the query: {reason}"),
            )),
            _ => Ok(()),
        }
    }

    /// Narrows a share of a query, in these buckets, to the candidates that a placed index finds. Called on a
    /// thread that may wait. `documents`: the number of documents in the buckets, about. `first`: the number
    /// of entries that are read in the order of the hits, if there are too many candidates. `None`: the query
    /// reads all documents of its share.
    ///
    /// # Errors
    /// The request names an index of which a slice has no copy that answers in time, or that finds too many
    /// candidates.
    pub(crate) fn narrow(
        &self,
        plan: &Plan,
        within: &[BucketId],
        documents: u64,
        first: Option<usize>,
    ) -> Result<Option<NarrowedScope>, Error> {
        let choice = choice(plan)?;
        let named = match &choice {
            IndexChoice::None => return Ok(None),
            IndexChoice::Automatic => None,
            IndexChoice::Named(name) => Some(&**name),
        };
        let Some(service) = self.service.get().filter(|_| matches!(plan.scope, StreamedScope::All { .. }))
        else {
            return Ok(None);
        };
        let limit = usize::try_from(candidates_max(plan)?).unwrap_or(usize::MAX).min(SOUGHT_MAX);
        let usable = self.usable(service, plan, named)?;
        let Some(index) = service.wait_for_fewest(usable, within, limit) else { return Ok(None) };
        let fresh_timeout = fresh_timeout(plan);
        let query = SliceQuery { index: &index, within, limit, fresh_timeout };
        if named.is_some()
            && let Some((first, components)) = first.zip(index.ordered)
        {
            let found = service.wait_for_first(query, first, components);
            let found = found.map_err(|error| match error {
                Error::BadRequest(_) => error,
                error => index.not_ready(&error),
            });
            if let Some(found) = found? {
                return Ok(Some(found.scope(&index.definition, within, first)));
            }
        }
        let (entries, missing) = match service.wait_for_slices(query) {
            Ok(ScannedSlices::Entries(entries, missing)) => (entries, missing),
            Ok(ScannedSlices::TooMany) if named.is_none() => return Ok(None),
            Ok(ScannedSlices::TooMany) => return Err(index.too_many(limit)),
            Err(error) if named.is_none() => {
                tracing::debug!(%error, index = index.name(), "a query streams");
                return Ok(None);
            }
            Err(error) => return Err(index.not_ready(&error)),
        };
        let queried = QueriedBuckets::new(Some(within), &missing);
        let own: Vec<&[u8]> =
            entries.iter().map(|(_, document, _)| &document[..]).filter(|key| queried.has(key)).collect();
        if named.is_none() && own.len() as u64 > documents / STREAMED_SHARE {
            return Ok(None);
        }
        // What a copy lacks must not show: it may have no more than values of before.
        let mut covering = fresh_timeout.and_then(|_| CoveringEntries::new(&index.definition));
        if let Some(covering) = &mut covering {
            let own = entries.iter().filter(|(_, document, _)| queried.has(document));
            own.for_each(|(key, document, _)| covering.push(key, document));
        }
        Ok(Some(NarrowedScope { entries: covering, ..candidates_scope(index.name(), &own, queried) }))
    }

    /// Indexes that can answer a query, those that have more of its conditions first; or the named one.
    ///
    /// # Errors
    /// The named one is not ready.
    fn usable(
        &self,
        service: &PlacedService,
        plan: &Plan,
        named: Option<&str>,
    ) -> Result<Vec<UsableIndex>, Error> {
        let not_ready = |name: &str| {
            let progress = "some of its slices have no copy that is ready; see 'millrace index show'";
            Error::IndexNotReady(format!("index '{name}' is being built: {progress}"))
        };
        let Some(table) = service.table.borrow().clone() else {
            return named.map_or(Ok(Vec::new()), |name| Err(not_ready(name)));
        };
        let wanted = self.definitions.all();
        let wanted = wanted.iter().filter(|definition| named.is_none_or(|name| definition.name() == name));
        let mut found = Vec::new();
        for definition in wanted {
            let Some(number) = table.usable(&definition.content, definition.name()) else {
                let Some(name) = named else { continue };
                let declared = table.declared(&definition.content, name);
                let declared = declared.and_then(|number| table.indexes().get(&number));
                return Err(match declared.is_some_and(|index| index.deferred) {
                    true => Error::Conflict(format!(
                        "index '{name}' is deferred: build it with 'millrace index build {name}'"
                    )),
                    false => not_ready(name),
                });
            };
            let Some(placed) = table.indexes().get(&number) else { continue };
            // An earlier definition serves until the present one can.
            let serving = match definition.hash == placed.definition.0 {
                true => Some(Arc::clone(definition)),
                false => self.definitions.get(placed.definition.0),
            };
            let Some(definition) = serving else { continue };
            let Ok(conditions) = conditions(&definition, plan) else { continue };
            let ranges = definition.layout.ranges(&conditions);
            let mut ranges = ranges.map_err(|error| Error::BadRequest(error.to_string()))?;
            ranges.push(overflow_range());
            let ordered = ordered_components(&definition, plan, &conditions);
            let (slices, conditions) = (placed.slices.len(), conditions.len());
            found.push(UsableIndex { definition, number, slices, ranges, conditions, ordered });
        }
        // Of as many conditions those first that are declared first.
        found.sort_by_key(|index| Reverse(index.conditions));
        found.truncate(COMPARED_MAX);
        Ok(found)
    }
}

impl UsableIndex {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn not_ready(&self, error: &Error) -> Error {
        Error::IndexNotReady(format!("index '{}': {error}", self.name()))
    }

    fn too_many(&self, limit: usize) -> Error {
        Error::BadRequest(format!(
            "index '{}' finds more than {limit} candidates: add a condition, order the hits as the index does, or let the query stream with index.use=none",
            self.name()
        ))
    }
}

impl FirstEntries {
    /// The documents of the first entries in some buckets.
    fn scope(&self, definition: &IndexDefinition, within: &[BucketId], first: usize) -> NarrowedScope {
        let queried = QueriedBuckets::new(Some(within), &self.missing);
        let entries = self.entries.iter().map(|(_, document, time)| (&document[..], *time));
        let others = self.others.iter().map(|(_, document, _)| &document[..]);
        in_order::scope(definition, &queried, first, self.is_whole, entries, others)
    }
}

impl PlacedService {
    /// The index with the fewest entries for a query, as far as its copies say so soon; the first one if none
    /// does, or all have more than are counted.
    pub fn wait_for_fewest(
        self: &Arc<Self>,
        usable: Vec<UsableIndex>,
        within: &[BucketId],
        limit: usize,
    ) -> Option<UsableIndex> {
        if usable.len() < 2 {
            return usable.into_iter().next();
        }
        wait_without_slot(|| self.runtime.block_on(self.with_fewest(usable, within, limit)))
    }

    async fn with_fewest(
        self: &Arc<Self>,
        usable: Vec<UsableIndex>,
        within: &[BucketId],
        limit: usize,
    ) -> Option<UsableIndex> {
        let deadline = Instant::now() + COMPARING;
        let (mut fewest, mut other, mut count_max) = (None, None, limit.min(COUNTED_MAX));
        for index in usable {
            let page = count_max.saturating_add(1);
            let scan = SlicesScan { ranges: &index.ranges, page, count_max, count: true };
            let query = SliceQuery { index: &index, within, limit, fresh_timeout: None };
            let counted = self.scan_pages(query, &scan, deadline).await;
            match counted.ok().filter(|pages| !pages.is_over) {
                Some(pages) => {
                    fewest = Some(index);
                    let Some(fewer) = pages.count.checked_sub(1) else { break };
                    count_max = fewer;
                }
                None => {
                    other.get_or_insert(index);
                }
            }
        }
        fewest.or(other)
    }

    /// [`PlacedService::scan_slices`] on a thread of the pool: while it waits for copies, which may be
    /// behind or on nodes that do not answer, others have its slot.
    ///
    /// # Errors
    /// Those of [`PlacedService::scan_slices`].
    pub fn wait_for_slices(self: &Arc<Self>, query: SliceQuery<'_>) -> Result<ScannedSlices, Error> {
        wait_without_slot(|| self.runtime.block_on(self.scan_slices(query)))
    }

    /// Entries of all slices that have documents of some buckets, of one moment of the cluster.
    ///
    /// # Errors
    /// No copy of a slice answers in time; the cluster has changed meanwhile.
    async fn scan_slices(self: &Arc<Self>, query: SliceQuery<'_>) -> Result<ScannedSlices, Error> {
        let SliceQuery { index, limit, .. } = query;
        let deadline = query.deadline();
        let mut page = FIRST.min(limit);
        loop {
            let scan = SlicesScan { ranges: &index.ranges, page, count_max: limit, count: false };
            let pages = self.scan_pages(query, &scan, deadline).await?;
            if pages.ends.is_empty() && !pages.is_over {
                return Ok(ScannedSlices::Entries(pages.entries, pages.missing));
            }
            if pages.is_over || page >= limit {
                return Ok(ScannedSlices::TooMany);
            }
            // A page is of one instant, so the next one begins at the start, too.
            page = limit;
        }
    }

    /// Waits for the first entries of all slices in the order of `components` leading ones, as
    /// [`PlacedService::wait_for_slices`] does. `None`: there are no more than the limit.
    ///
    /// # Errors
    /// Those of [`PlacedService::scan_slices`]; too many documents have no place in the order.
    pub fn wait_for_first(
        self: &Arc<Self>,
        query: SliceQuery<'_>,
        first: usize,
        components: usize,
    ) -> Result<Option<FirstEntries>, Error> {
        let found = self.scan_first(query, first, components);
        wait_without_slot(|| self.runtime.block_on(found))
    }

    async fn scan_first(
        self: &Arc<Self>,
        query: SliceQuery<'_>,
        first: usize,
        components: usize,
    ) -> Result<Option<FirstEntries>, Error> {
        let SliceQuery { index, limit, .. } = query;
        let deadline = query.deadline();
        let all = SlicesScan {
            ranges: &index.ranges,
            page: limit.saturating_add(1),
            count_max: limit,
            count: true,
        };
        if !self.scan_pages(query, &all, deadline).await?.is_over {
            return Ok(None);
        }
        let overflow = overflow_range();
        let ranges: Vec<KeyRange> =
            index.ranges.iter().filter(|range| **range != overflow).cloned().collect();
        // Slices have about as many entries each; those beyond the shortest page are cut off.
        let page = (first.saturating_mul(2) / index.slices.max(1)).max(FIRST_MIN).min(first);
        let scan = SlicesScan { ranges: &ranges, page, count_max: usize::MAX, count: false };
        let mut pages = self.scan_pages(query, &scan, deadline).await?;
        let of_many = [overflow];
        let scan = SlicesScan { ranges: &of_many, page: SOUGHT_MAX, count_max: SOUGHT_MAX, count: false };
        let others = self.scan_pages(query, &scan, deadline).await?;
        if others.is_over || !others.ends.is_empty() {
            return Err(too_many_others(&index.definition));
        }
        let is_whole = pages.ends.is_empty();
        let length = |key: &[u8]| index.definition.layout.length_of(key, components);
        let entries = without_gaps(std::mem::take(&mut pages.entries), &pages.ends, length);
        pages.missing.extend(others.missing);
        Ok(Some(FirstEntries { entries, others: others.entries, missing: pages.missing, is_whole }))
    }

    /// A page of each slice that has documents of some buckets, of one moment of the cluster.
    ///
    /// # Errors
    /// No copy of a slice answers in time; the cluster has changed meanwhile.
    async fn scan_pages(
        self: &Arc<Self>,
        query: SliceQuery<'_>,
        scan: &SlicesScan<'_>,
        deadline: Instant,
    ) -> Result<SlicePages, Error> {
        let SliceQuery { index, within, fresh_timeout, .. } = query;
        loop {
            let mut requested = JoinSet::new();
            for slice in 0..index.slices {
                // At most 64 slices.
                let slice = slice as u8;
                let bucket = slice_bucket(slice, index.slices);
                if !within.iter().any(|one| one.covers(bucket) || bucket.covers(*one)) {
                    continue;
                }
                let question = CopyScan {
                    slice: SliceId { index: index.number, slice },
                    copy: millrace_index_placement::CopyId(0),
                    ranges: scan.ranges.iter().map(|range| (range.low.clone(), range.high.clone())).collect(),
                    from: None,
                    limit: scan.page as u64,
                    count: scan.count,
                    timeout_ms: fresh_timeout.map(|_| 0),
                };
                let service = Arc::clone(self);
                requested.spawn(async move { service.scan_slice(question, deadline).await });
            }
            let (mut pages, mut versions) = (SlicePages::default(), BTreeSet::new());
            while let Some(scanned) = requested.join_next().await {
                let scanned = scanned.map_err(|error| Error::Internal(error.to_string()))??;
                versions.insert(scanned.version);
                pages.missing.extend(scanned.missing);
                pages.count += usize::try_from(scanned.count).unwrap_or(usize::MAX);
                if scanned.continuation.is_some() {
                    pages.ends.extend(scanned.entries.last().map(|(key, ..)| key.clone()));
                }
                pages.entries.extend(scanned.entries);
                if pages.count > scan.count_max {
                    pages.is_over = true;
                    return Ok(pages);
                }
            }
            let is_fresh =
                fresh_timeout.is_none() || versions.iter().all(|version| self.cluster.confirms(*version));
            if is_fresh && versions.len() <= 1 {
                return Ok(pages);
            }
            if Instant::now() >= deadline {
                return Err(Error::Unsettled("the owners of documents change".to_owned()));
            }
        }
    }

    /// Entries of a slice, of a copy that has all that was acknowledged before the call. If one does not
    /// answer for half of the time, another is asked.
    ///
    /// # Errors
    /// No copy answers in time.
    async fn scan_slice(self: &Arc<Self>, scan: CopyScan, deadline: Instant) -> Result<CopyScanned, Error> {
        let table = self.table.borrow().clone().unwrap_or_default();
        let copies = self.preferred(&table, scan.slice);
        let mut failure = Error::Unsettled(format!("no copy of {} serves", scan.slice));
        for (number, copy) in copies.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_last = number + 1 == copies.len();
            let until = if is_last { left } else { left / 2 };
            // The answer takes its time, too.
            let timeout = until * 3 / 4;
            let scan = CopyScan {
                copy: copy.id,
                timeout_ms: scan.timeout_ms.map(|_| timeout.as_millis() as u64),
                ..scan.clone()
            };
            let requested = self.cluster.ask(copy.node, PlacedQuestion::Scan(scan));
            match tokio::time::timeout(until, requested).await {
                Ok(Ok(PlacedAnswer::Scanned(scanned))) => return Ok(scanned),
                Ok(Err(error)) => failure = error,
                _ => failure = Error::Unsettled(format!("node {} has not answered in time", copy.node)),
            }
        }
        Err(failure)
    }

    /// Copies of a slice that may be scanned, on nodes that serve: that of this node first, and the others in
    /// turns.
    fn preferred(&self, table: &PlacementTable, slice: SliceId) -> Vec<PlacedCopy> {
        let state = self.cluster.state();
        let serves =
            |copy: &&PlacedCopy| state.as_ref().is_some_and(|state| state.node_state(copy.node).serves());
        let mut copies: Vec<PlacedCopy> = table.serving(slice).filter(serves).cloned().collect();
        if copies.len() > 1 {
            let turn = self.turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let shift = turn % copies.len();
            copies.rotate_left(shift);
        }
        copies.sort_by_key(|copy| copy.node != self.cluster.own());
        copies
    }
}

/// Time for which a query waits for copies that are fresh; `None` if they need not be.
fn fresh_timeout(plan: &Plan) -> Option<Duration> {
    match plan.query.parameters.get("index.consistency").map(|value| value.trim()) {
        Some("eventual") => None,
        _ => Some(plan.timeout / 2),
    }
}

/// The documents with these keys, and all of the buckets of which entries may be missing.
fn candidates_scope(name: &str, keys: &[&[u8]], queried: QueriedBuckets) -> NarrowedScope {
    let documents: BTreeSet<DocumentId> = keys.iter().filter_map(|key| document_id(key)).collect();
    let group = |key: &&[u8]| DocumentGroup::from_key(std::str::from_utf8(group_key(key)?).ok()?);
    let groups: BTreeSet<DocumentGroup> = keys.iter().filter_map(group).collect();
    let index_use = IndexUse {
        name: name.to_owned(),
        candidates: keys.len() as u64,
        groups: groups.len(),
        reading: CandidateReading::ById,
        stale: queried.stale.len(),
    };
    let mut parts = vec![NarrowedPart::Documents(documents.into_iter().collect(), queried.fresh)];
    if !queried.stale.is_empty() {
        parts.push(NarrowedPart::Scope(ViewScope::Buckets(queried.stale)));
    }
    NarrowedScope { parts, index_use, ordered: None, entries: None }
}

/// The entries of the pages of several slices of which none is missing, in their order: those whose leading
/// values come before the end of each page that others follow. `length`: that of the part of a key with these
/// values.
fn without_gaps(
    mut entries: ScannedEntries,
    ends: &[Vec<u8>],
    length: impl Fn(&[u8]) -> Option<usize>,
) -> ScannedEntries {
    entries.sort_unstable();
    if let Some(end) = ends.iter().min() {
        let end = &end[..length(end).unwrap_or(end.len())];
        let whole = entries.partition_point(|(key, ..)| &key[..] < end);
        entries.truncate(whole);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_entries_end_before_the_shortest_page() {
        // The first byte is the value.
        let found = |keys: &[&str], ends: &[&str]| {
            let entries = keys.iter().map(|key| (key.as_bytes().to_vec(), Vec::new(), 1)).collect();
            let ends: Vec<Vec<u8>> = ends.iter().map(|end| end.as_bytes().to_vec()).collect();
            let found = without_gaps(entries, &ends, |_| Some(1));
            let keys = found.into_iter().map(|(key, ..)| String::from_utf8(key).expect("text"));
            keys.collect::<Vec<_>>().join(" ")
        };
        let keys = ["c1", "a1", "b2", "a2", "b1"];
        assert_eq!(found(&keys, &[]), "a1 a2 b1 b2 c1", "no entries follow");
        assert_eq!(found(&keys, &["c1"]), "a1 a2 b1 b2", "others with its value may follow");
        assert_eq!(found(&keys, &["c1", "b1"]), "a1 a2", "of another slice from there on");
        assert_eq!(found(&keys, &["a2", "b2"]), "");
    }
}
