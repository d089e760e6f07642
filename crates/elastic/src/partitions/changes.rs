//! Changes of partitions: they are made, closed and dropped with their entries in the catalog.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use millrace_cluster::ClusterVersion;
use millrace_node::Node;
use parking_lot::Mutex;

use super::{
    LogPartition, PARTITIONS_MAX, PartitionEntry, PartitionHold, PartitionLoad, PartitionWrite, raised,
};
use crate::Error;
use crate::catalog::{
    CatalogChange, CatalogEntries, EntryWrite, IndexCatalog, IndexEntry, OpenIndex, now_ms,
};
use crate::log_settings::{PartitionLimits, RoutingSlots};
use crate::service::ElasticService;
use crate::slot_picking::ReplicaNodes;
use crate::storage::{self, PartitionAddress, StorageGroup};

/// Partitions whose entries are written together, and whose documents are dropped together.
const DROPS_AT_ONCE: usize = 128;

/// Begins a write to the partition that takes those of its shard.
///
/// # Errors
/// The index is gone or was read again, or a partition cannot be made.
pub(crate) fn begin_write(
    service: &ElasticService,
    index: &OpenIndex,
    write: &PartitionWrite<'_>,
) -> Result<PartitionHold, Error> {
    let (table, limits) = (&index.live.partitions, PartitionLimits::of(index));
    if !write.given.is_empty() {
        service.catalog.claim_ids(&service.arriving)?;
    }
    loop {
        if let Some(hold) = table.begin(write, &service.arriving, &limits, now_ms()) {
            return Ok(hold);
        }
        let mut change = service.catalog.change()?;
        let newest = change.written(index)?.clone();
        make_ready(&mut change, &newest, write.shard, write.load, &limits)?;
        change.commit()?;
    }
}

/// Closes what is full, makes partitions, and raises their bounds, so that a load can be written.
fn make_ready(
    change: &mut CatalogChange<'_>,
    index: &OpenIndex,
    shard: u32,
    load: PartitionLoad,
    limits: &PartitionLimits,
) -> Result<(), Error> {
    let count: usize = change.indexes.values().map(|index| index.live.partitions.len()).sum();
    let is_last = count >= PARTITIONS_MAX;
    let mut open = index.live.partitions.open(shard);
    while let Some(first) = open.first() {
        if is_last && open.len() == 1 {
            first.state.lock().grows_on = true;
        }
        if !first.state.lock().is_full(load, limits, now_ms()) {
            break;
        }
        close(change.node, first)?;
        open.remove(0);
    }
    let Some(first) = open.first() else {
        return create(change, index, shard, load, limits);
    };
    let (is_covered, needs_successor, with) = {
        let state = first.state.lock();
        (state.is_covered(load), state.is_half_full(load, limits), state.held.with(load))
    };
    if !is_covered {
        let entry = raised(&first.state.lock().entry, with, limits);
        entry.keep(change.node)?;
        first.state.lock().entry = entry;
    }
    match needs_successor && open.len() == 1 {
        true => create(change, index, shard, PartitionLoad { times: with.times, ..load }, limits),
        false => Ok(()),
    }
}

/// Closes a partition: what it has is final.
fn close(node: &Arc<Node>, partition: &LogPartition) -> Result<(), Error> {
    let before = partition.state.lock().entry.clone();
    let entry = {
        let mut state = partition.state.lock();
        partition.is_closed.store(true, Ordering::Release);
        let PartitionLoad { documents, bytes, times } = state.held;
        state.entry = PartitionEntry { closed_ms: Some(now_ms()), documents, bytes, times, ..before.clone() };
        state.entry.clone()
    };
    entry.keep(node).inspect_err(|_| {
        // The catalog may have it closed all the same: the next write writes the entry before, whose bounds
        // cover none.
        let mut state = partition.state.lock();
        state.entry = PartitionEntry { documents: 0, ..before };
        partition.is_closed.store(false, Ordering::Release);
        partition.is_idle.notify_all();
    })
}

/// Number of owners whose numbers of partitions differ in any case.
const NUMBER_TURNS: u32 = 16;

/// Number of the next partition: after the newest one that its owner knows, and none that another owner
/// gives. That one may have made partitions which this one does not see: the only node that has them can be
/// away.
fn next_number(newest: u32, owner: u16) -> u32 {
    let next = newest.wrapping_add(1);
    let turn = u32::from(owner) % NUMBER_TURNS;
    next.wrapping_add((turn + NUMBER_TURNS - next % NUMBER_TURNS) % NUMBER_TURNS)
}

/// Makes a partition that can take a load.
fn create(
    change: &mut CatalogChange<'_>,
    index: &OpenIndex,
    shard: u32,
    load: PartitionLoad,
    limits: &PartitionLimits,
) -> Result<(), Error> {
    let area = area_of(change.node, index, shard)?;
    let (mut number, mut is_used) = (0, vec![false; usize::from(storage::PLACES)]);
    let mut note = |entry: &PartitionEntry| {
        number = number.max(entry.number);
        is_used[usize::from(entry.place.place)] |= entry.place.area == area;
    };
    for partition in change.indexes.values().flat_map(|index| index.live.partitions.all()) {
        note(&partition.state.lock().entry);
    }
    change.dropping.lock().iter().for_each(note);
    let owner = change.node.cluster().view()?.map_or(0, |cluster| cluster.own().key.0);
    number = next_number(number, owner);
    let is_free = |place: &u16| storage::is_free_place(*place) && !is_used[usize::from(*place)];
    let otherwise = (0..storage::PLACES).cycle().skip(number as usize % usize::from(storage::PLACES));
    let place = (0..storage::PLACES)
        .find(is_free)
        .or_else(|| otherwise.take(2).find(|place| storage::is_free_place(*place)))
        .unwrap_or_default();
    let entry = PartitionEntry {
        number,
        place: PartitionAddress { place, area },
        index: index.entry.number,
        shard,
        opened_ms: now_ms(),
        closed_ms: None,
        documents: 0,
        bytes: 0,
        times: None,
        is_dropped: false,
    };
    let entry = raised(&entry, load, limits);
    entry.keep(change.node)?;
    storage::keep_partitions_apart(change.node);
    index.live.partitions.add(entry, PartitionLoad::default());
    let observed = index.live.observed.fields();
    if observed != index.entry.observed {
        change.put_index(IndexEntry { observed, ..(*index.entry).clone() })?;
    }
    Ok(())
}

/// Area of the next partition of a shard: the shards of a slot are together, and slots that follow each other
/// on different nodes.
fn area_of(node: &Node, index: &OpenIndex, shard: u32) -> Result<u8, Error> {
    let areas = storage::spread_areas(node)?;
    let slot = RoutingSlots::of_index(index).slot_of(shard);
    Ok(areas[slot as usize % areas.len()])
}

/// Nodes of the documents that go to an index now.
pub(crate) struct SlotNodes<'i> {
    node: &'i Node,
    index: &'i OpenIndex,
    /// Partitions that take documents, by their shards.
    open: HashMap<u32, StorageGroup>,
}

impl<'i> SlotNodes<'i> {
    /// Finds the partitions of an index that take documents.
    pub(crate) fn of(node: &'i Node, index: &'i OpenIndex) -> Self {
        let mut open = HashMap::new();
        for partition in index.live.partitions.all().iter().filter(|partition| !partition.is_closed()) {
            open.entry(partition.shard).or_insert(partition.group);
        }
        SlotNodes { node, index, open }
    }

    /// Sets of nodes that the documents of a slot go to; none without a cluster state, where a write fails in
    /// any slot.
    pub(crate) fn of_slot(&self, slot: u32) -> Vec<ReplicaNodes> {
        let mut sets = Vec::new();
        for shard in RoutingSlots::of_index(self.index).shards_of(slot) {
            let nodes = match self.open.get(&shard) {
                Some(group) => storage::nodes_of(self.node, *group),
                None => area_of(self.node, self.index, shard)
                    .and_then(|area| storage::nodes_of_area(self.node, area)),
            };
            sets.extend(nodes.ok().filter(|nodes| !sets.contains(nodes)));
        }
        sets
    }
}

/// Takes partitions of the catalog in. Those whose drop was in progress, or whose index was deleted, are to
/// be dropped; `deleted` are the numbers of deleted indexes. What has no index for another reason stays in
/// the store: an owner that did not see the index may have made another one of its name.
///
/// The bounds of a partition count as what it has. So the first write to it writes its entry again, and that
/// of an earlier owner that comes late does not count.
pub(crate) fn load(
    node: &Node,
    entries: &mut CatalogEntries,
    partitions: Vec<PartitionEntry>,
    deleted: &[u32],
) {
    if !partitions.is_empty() {
        storage::keep_partitions_apart(node);
    }
    let indexes: HashMap<u32, &OpenIndex> =
        entries.indexes.values().map(|index| (index.entry.number, index)).collect();
    let mut dropping = Vec::new();
    for entry in partitions {
        match indexes.get(&entry.index).filter(|_| !entry.is_dropped) {
            Some(index) => {
                let PartitionEntry { documents, bytes, times, .. } = entry;
                index.live.partitions.add(entry, PartitionLoad { documents, bytes, times });
            }
            None if entry.is_dropped || deleted.contains(&entry.index) => dropping.push(entry),
            None => tracing::warn!(
                partition = entry.number,
                index = entry.index,
                "the index of a partition of logs is not in the catalog; its documents stay, and no search finds them"
            ),
        }
    }
    entries.dropping = Arc::new(Mutex::new(dropping));
}

/// True if any of these partitions is one of an index of this number.
pub(crate) fn are_of(partitions: &[PartitionEntry], index: u32) -> bool {
    partitions.iter().any(|entry| entry.index == index)
}

/// Begins the drops of all partitions of an index that takes no writes any more, while the catalog is
/// changed: no other partition gets their numbers.
pub(crate) fn begin_drops(catalog: &CatalogEntries, index: &OpenIndex) {
    let all = std::mem::take(&mut *index.live.partitions.partitions.lock());
    let entries = all.iter().map(|partition| partition.state.lock().entry.clone());
    catalog.dropping.lock().extend(entries);
}

/// Completes the drops that are in progress: of partitions of all indexes, or of those with these numbers,
/// for as long as a request waits. No change of the catalog waits for the drops.
///
/// # Errors
/// The first drop that cannot be completed now. The others are, if there is time.
pub(crate) fn complete_drops(catalog: &IndexCatalog, indexes: Option<&[u32]>) -> Result<(), Error> {
    complete_until(catalog, indexes, indexes.map(|_| storage::deadline()))
}

fn complete_until(
    catalog: &IndexCatalog,
    indexes: Option<&[u32]>,
    until: Option<Instant>,
) -> Result<(), Error> {
    // After another call has completed a drop, its number can be that of a partition which takes writes. One
    // of all indexes takes long where an owner does not answer.
    let one_at_a_time = match until {
        Some(until) => catalog.completing_drops.try_lock_until(until),
        None => Some(catalog.completing_drops.lock()),
    };
    let Some(_one_at_a_time) = one_at_a_time else { return Err(storage::drop_waits()) };
    let (mut entries, version) = {
        let entries = catalog.read()?;
        (entries.dropping.lock().clone(), entries.version())
    };
    entries.retain(|entry| indexes.is_none_or(|indexes| indexes.contains(&entry.index)));
    let some = entries.chunks(DROPS_AT_ONCE);
    let outcomes: Vec<_> = some.map(|entries| complete_some(catalog, entries, version, until)).collect();
    outcomes.into_iter().collect()
}

/// Drops the documents of partitions and then their entries, if the cluster state is the one that the catalog
/// was read under: by a later one, another partition may have the number already. The list of drops has them
/// until then, so that no other partition gets their numbers meanwhile, which would be dropped with them.
fn complete_some(
    catalog: &IndexCatalog,
    entries: &[PartitionEntry],
    version: ClusterVersion,
    until: Option<Instant>,
) -> Result<(), Error> {
    let groups: Vec<StorageGroup> = entries.iter().map(PartitionEntry::group).collect();
    let outcomes = storage::drop_groups(&catalog.node, &groups, version, until);
    // No partition gets a number meanwhile.
    let change = catalog.change()?;
    if change.version() != version {
        return Err(Error::NotBegun(
            "the nodes of the cluster changed while partitions were dropped".to_owned(),
        ));
    }
    let dropped = entries.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
    let dropped: BTreeMap<u32, EntryWrite> =
        dropped.map(|(entry, _)| (entry.number, (entry.key(), None))).collect();
    let removed: Vec<EntryWrite> = dropped.values().cloned().collect();
    storage::put_all(change.node, StorageGroup::CATALOG, &removed)?;
    change.dropping.lock().retain(|entry| !dropped.contains_key(&entry.number));
    outcomes.into_iter().collect()
}

/// Waits for the writes to a closed partition that are in flight. To one that is open again, others begin
/// without an end.
fn wait_for_writes(partition: &LogPartition) {
    let mut state = partition.state.lock();
    while state.writers > 0 && state.entry.closed_ms.is_some() {
        partition.is_idle.wait(&mut state);
    }
}

/// The entry of a partition whose drop is begun while the catalog is changed, if its time is over since it
/// was closed, and no write to it is in flight. The drop would take what is written to one that is open.
fn begun_drop(partition: &LogPartition, is_over: impl Fn(u64) -> bool) -> Option<PartitionEntry> {
    let state = partition.state.lock();
    let may_go = state.writers == 0 && state.entry.closed_ms.is_some_and(is_over);
    may_go.then(|| PartitionEntry { is_dropped: true, ..state.entry.clone() })
}

/// Drops the partitions of an index that were closed `retention_ms` ago or before, and closes those that take
/// writes for as long. Returns the number of dropped ones: none of an index that was deleted or read again.
pub(crate) fn expire(service: &ElasticService, index: &OpenIndex, retention_ms: u64) -> Result<u64, Error> {
    let is_over = |since: u64| now_ms().saturating_sub(since) >= retention_ms;
    let mut dropped = Vec::new();
    for partition in index.live.partitions.all() {
        let (closed_ms, is_due) = {
            let state = partition.state.lock();
            (state.entry.closed_ms, state.held.documents > 0 && is_over(state.entry.opened_ms))
        };
        match closed_ms {
            None if is_due => {
                let change = service.catalog.change()?;
                if change.written(index).is_err() {
                    // Other partitions of this number count now, and are looked at the next time.
                    return Ok(0);
                }
                if !partition.is_closed() {
                    close(change.node, &partition)?;
                }
            }
            Some(closed_ms) if is_over(closed_ms) => dropped.push(partition),
            _ => {}
        }
    }
    let mut count = 0;
    for over in dropped.chunks(DROPS_AT_ONCE) {
        // Writes that began before it was closed.
        over.iter().for_each(|partition| wait_for_writes(partition));
        let change = service.catalog.change()?;
        if change.written(index).is_err() {
            break;
        }
        // A close that failed meanwhile has opened its partition again.
        let entries: Vec<PartitionEntry> =
            over.iter().filter_map(|partition| begun_drop(partition, is_over)).collect();
        if entries.is_empty() {
            continue;
        }
        let writes: Vec<EntryWrite> = entries.iter().map(|entry| (entry.key(), Some(entry.text()))).collect();
        storage::put_all(change.node, StorageGroup::CATALOG, &writes)?;
        let is_begun = |other: &Arc<LogPartition>| entries.iter().any(|entry| entry.number == other.number);
        index.live.partitions.partitions.lock().retain(|other| !is_begun(other));
        count += entries.len() as u64;
        change.dropping.lock().extend(entries);
    }
    if count > 0
        && let Err(error) = complete_drops(&service.catalog, Some(&[index.entry.number]))
    {
        tracing::debug!(%error, "drops of partitions wait");
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use millrace_node::Settings;
    use serde_json::json;

    use super::*;

    fn opened(directory: &tempfile::TempDir) -> Arc<Node> {
        Node::open(Settings::new(directory.path().join("data"))).expect("the node opens")
    }

    /// An open partition of an index, with bounds of 100 documents.
    fn entry(index: u32, is_dropped: bool) -> PartitionEntry {
        let entry = json!({
            "number": 1, "place": 1, "area": 0, "index": index, "shard": 0, "opened_ms": 0, "closed_ms": null,
            "documents": 100, "bytes": 100, "times": [1, 9], "is_dropped": is_dropped,
        });
        serde_json::from_value(entry).expect("the entry is whole")
    }

    const LOAD: PartitionLoad = PartitionLoad { documents: 1, bytes: 1, times: Some((8, 8)) };

    #[test]
    fn a_partition_that_may_be_closed_in_the_catalog_is_written_there_before_it_takes_more() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = opened(&directory);
        let held = PartitionLoad { documents: 9, bytes: 9, times: Some((2, 3)) };
        let partition = LogPartition::new(entry(1, false), held);
        assert!(partition.state.lock().is_covered(LOAD));
        node.close();
        close(&node, &partition).expect_err("nothing is written any more");
        assert!(!partition.is_closed(), "it has no successor");
        assert!(!partition.state.lock().is_covered(LOAD));
    }

    #[test]
    fn a_partition_that_was_opened_again_is_not_dropped() {
        for (closed_ms, writers, expected) in [
            (Some(5), 0, true),
            (Some(5), 1, false),
            (Some(6), 0, false),
            // It was closed, but the catalog does not have that.
            (None, 0, false),
            (None, 1, false),
        ] {
            let entry = PartitionEntry { closed_ms, ..entry(1, false) };
            let partition = LogPartition::new(entry, PartitionLoad::default());
            partition.state.lock().writers = writers;
            if closed_ms.is_none() {
                wait_for_writes(&partition);
            }
            let begun = begun_drop(&partition, |since| since <= 5);
            assert_eq!(
                begun.map(|entry| entry.is_dropped),
                expected.then_some(true),
                "{closed_ms:?}, {writers}"
            );
        }
    }

    /// The drops of all indexes can take long; a request does not wait for their end.
    #[test]
    fn a_request_leaves_drops_to_the_next_pass_when_its_time_is_over() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = opened(&directory);
        let catalog = IndexCatalog::new(Arc::clone(&node));
        let waiting = || catalog.read().expect("the catalog is read").dropping.lock().len();
        catalog.change().expect("the catalog is read").dropping.lock().push(entry(1, true));
        let over = Some(Instant::now());
        let pass = catalog.completing_drops.lock();
        complete_until(&catalog, Some(&[1]), over).expect_err("another pass is in progress");
        drop(pass);
        assert_eq!(waiting(), 1);
        complete_drops(&catalog, Some(&[2])).expect("this index has none");
        assert_eq!(waiting(), 1);
        complete_drops(&catalog, None).expect("a node that runs alone drops them");
        assert_eq!(waiting(), 0);
        node.close();
    }

    #[test]
    fn owners_give_different_numbers_whatever_they_know() {
        for (newest, owner, expected) in [
            (0, 0, 16),
            (0, 1, 1),
            (1, 1, 17),
            (1, 2, 2),
            (20, 3, 35),
            (20, 19, 35),
            (34, 3, 35),
            (35, 3, 51),
        ] {
            assert_eq!(next_number(newest, owner), expected, "after {newest} by {owner}");
        }
    }

    #[test]
    fn partitions_without_an_index_are_dropped_if_it_was_deleted() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = opened(&directory);
        let index = json!({
            "name": "a", "uuid": "u", "number": 1, "created_ms": 0, "settings": {}, "mappings": {},
            "aliases": {}, "is_closed": false, "seq_no_reserved": 0, "time_field": "@timestamp",
        });
        for (of, is_dropped, deleted, expected) in [
            (1, false, vec![], (1, 0)),
            (1, true, vec![], (0, 1)),
            (2, false, vec![1, 2], (0, 1)),
            (2, true, vec![], (0, 1)),
            // An owner that did not see the index has made another one of its name.
            (2, false, vec![1], (0, 0)),
        ] {
            let index = serde_json::from_value(index.clone()).expect("the entry is whole");
            let index = OpenIndex::new(index, Arc::default());
            let mut entries = CatalogEntries::default();
            entries.indexes.insert("a".to_owned(), index);
            load(&node, &mut entries, vec![entry(of, is_dropped)], &deleted);
            let there = entries.indexes["a"].live.partitions.all();
            let counts = (there.len(), entries.dropping.lock().len());
            assert_eq!(counts, expected, "of index {of}, {is_dropped}, {deleted:?}");
            let is_covered = there.iter().any(|partition| partition.state.lock().is_covered(LOAD));
            assert!(!is_covered, "an entry of an earlier owner that comes late would count");
        }
        node.close();
    }
}
