//! Partitions of an index in `logs` mode: each has the documents of one shard and of a time of writing.
//!
//! A partition takes documents until it has as many as it may have, or its time is over; its successor is
//! made while it is half full. It is a group of the store with files of its own, so that dropping it costs a
//! mark. The catalog has an entry for each, with bounds for what it may have: they are raised before a write
//! would go beyond them, in steps, so that few writes wait for the catalog.

mod arriving;
mod changes;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millrace_node::Node;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use self::arriving::OTHERS_FOR;
pub(crate) use self::arriving::{ArrivingHold, ArrivingIds, ExplicitIds};
pub(crate) use self::changes::{SlotNodes, are_of, begin_drops, begin_write, complete_drops, expire, load};
use crate::Error;
use crate::catalog::{OpenIndex, PARTITION_PREFIX, random_text};
use crate::log_settings::{PartitionLimits, RoutingSlots, ShardSet};
use crate::service::ElasticService;
use crate::small_sort::sort_few;
use crate::storage::{self, PartitionAddress, StorageGroup, StoredSource};

/// Partitions that there may be, of all indexes. From then on those that take writes grow on.
const PARTITIONS_MAX: usize = 20_000;

/// Steps in which the bounds of a partition are raised.
const STEPS: u64 = 8;

/// Time in milliseconds by which the bounds of a partition are beyond the times of its documents.
const TIME_STEP_MS: i64 = 600_000;

/// Earlier partitions of a shard in which ids of clients are looked for, and the time in milliseconds since
/// the end of a partition after which they are not. The one before is always looked at.
const EARLIER_MAX: usize = 8;
const EARLIER_MS: u64 = 600_000;

/// First and last time of documents, in milliseconds since 1970.
pub(crate) type TimeSpan = (i64, i64);

/// The span of both.
pub(crate) fn joined(one: Option<TimeSpan>, other: Option<TimeSpan>) -> Option<TimeSpan> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

fn covers(outer: Option<TimeSpan>, inner: Option<TimeSpan>) -> bool {
    inner.is_none_or(|inner| outer.is_some_and(|outer| outer.0 <= inner.0 && inner.1 <= outer.1))
}

/// Documents for a shard that are written to a partition together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionWrite<'a> {
    pub(crate) shard: u32,
    pub(crate) load: PartitionLoad,
    /// Ids of clients among those of the documents.
    pub(crate) given: &'a ExplicitIds,
}

/// Size of documents that are written to a partition together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartitionLoad {
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) times: Option<TimeSpan>,
}

impl PartitionLoad {
    /// Both together.
    pub(crate) fn with(self, other: PartitionLoad) -> Self {
        PartitionLoad {
            documents: self.documents + other.documents,
            bytes: self.bytes + other.bytes,
            times: joined(self.times, other.times),
        }
    }
}

/// A partition as it is kept. What it has are bounds, until it is closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartitionEntry {
    /// Number, unique among all partitions.
    number: u32,
    #[serde(flatten)]
    place: PartitionAddress,
    /// Number of its index.
    index: u32,
    shard: u32,
    opened_ms: u64,
    closed_ms: Option<u64>,
    documents: u64,
    bytes: u64,
    times: Option<TimeSpan>,
    /// True from the beginning of its drop.
    is_dropped: bool,
}

impl PartitionEntry {
    fn key(&self) -> String {
        format!("{PARTITION_PREFIX}{}", self.number)
    }

    fn group(&self) -> StorageGroup {
        StorageGroup::of_partition(self.number, self.place)
    }

    fn text(&self) -> String {
        serde_json::to_string(self).expect("an entry has names for keys")
    }

    fn keep(&self, node: &Arc<Node>) -> Result<(), Error> {
        storage::put(node, StorageGroup::CATALOG, &self.key(), Some(&self.text()))
    }
}

/// A partition.
#[derive(Debug)]
pub(crate) struct LogPartition {
    number: u32,
    shard: u32,
    group: StorageGroup,
    /// True if it took documents in an earlier run, and was not closed then.
    was_loaded: bool,
    /// True if it takes no more documents; changed with the state.
    is_closed: AtomicBool,
    state: Mutex<PartitionState>,
    /// Signalled when the last write in flight has ended, or the partition was opened again.
    is_idle: Condvar,
}

#[derive(Debug)]
struct PartitionState {
    entry: PartitionEntry,
    /// Documents that it has, or that are on their way.
    held: PartitionLoad,
    /// Writes in flight.
    writers: usize,
    /// True if there may be no more partitions, so that it is not closed.
    grows_on: bool,
}

/// Write in flight, for which the drop of its partition waits.
#[derive(Debug)]
pub(crate) struct PartitionHold {
    partition: Arc<LogPartition>,
    /// Ids of clients that its documents have, if any has one.
    arriving: Option<ArrivingHold>,
}

impl PartitionHold {
    /// Group of the partition.
    pub(crate) fn group(&self) -> StorageGroup {
        self.partition.group
    }

    /// Notes that the outcome of the write is not known.
    pub(crate) fn note_unknown(&mut self) {
        if let Some(arriving) = &mut self.arriving {
            arriving.note_unknown();
        }
    }

    /// Takes documents that were refused out of what the partition has. Its times stay as they are.
    pub(crate) fn give_back(&self, load: PartitionLoad) {
        let held = &mut self.partition.state.lock().held;
        held.documents = held.documents.saturating_sub(load.documents);
        held.bytes = held.bytes.saturating_sub(load.bytes);
    }

    /// New id of a document, which names the partition.
    pub(crate) fn new_id(&self) -> String {
        id_in(self.partition.number)
    }
}

impl Drop for PartitionHold {
    fn drop(&mut self) {
        let mut state = self.partition.state.lock();
        state.writers -= 1;
        if state.writers == 0 {
            self.partition.is_idle.notify_all();
        }
    }
}

/// Letters of ids; each stands for six bits.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Letters of an id, and those of them that have the number of the partition.
const ID_LETTERS: usize = 20;
const NUMBER_LETTERS: u32 = 6;

/// New id of a document in a partition: its number, and random letters.
fn id_in(number: u32) -> String {
    let letter = |at: u32| char::from(LETTERS[(u64::from(number) >> (6 * at) & 63) as usize]);
    let mut id: String = (0..NUMBER_LETTERS).map(letter).collect();
    id.push_str(&random_text(ID_LETTERS - id.len()));
    id
}

/// Number of the partition that an id names, if it has the form of those that are made here.
fn number_in(id: &str) -> Option<u32> {
    if id.len() != ID_LETTERS {
        return None;
    }
    let digit = |byte| LETTERS.iter().position(|letter| *letter == byte);
    let digits = id.bytes().take(NUMBER_LETTERS as usize).enumerate();
    let number = digits.map(|(at, byte)| Some((digit(byte)? as u64) << (6 * at))).sum::<Option<u64>>()?;
    u32::try_from(number).ok()
}

impl LogPartition {
    fn new(entry: PartitionEntry, held: PartitionLoad) -> Self {
        LogPartition {
            number: entry.number,
            shard: entry.shard,
            group: entry.group(),
            was_loaded: held.documents > 0 && entry.closed_ms.is_none(),
            is_closed: AtomicBool::new(entry.closed_ms.is_some()),
            state: Mutex::new(PartitionState { entry, held, writers: 0, grows_on: false }),
            is_idle: Condvar::new(),
        }
    }

    /// Group of its documents.
    pub(crate) fn group(&self) -> StorageGroup {
        self.group
    }

    /// Number, unique among all partitions; later ones have greater numbers.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// First and last time of its documents; `None` if none has a time.
    pub(crate) fn times(&self) -> Option<TimeSpan> {
        self.state.lock().held.times
    }

    /// True if a document with a time in a span may be in it.
    pub(crate) fn meets(&self, span: TimeSpan) -> bool {
        let held = self.state.lock().held.times;
        held.is_some_and(|held| held.0 <= span.1 && span.0 <= held.1)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// True if writes of another node, which had the catalog before, may still be on their way to it.
    pub(crate) fn may_have_others(&self, arriving: &ArrivingIds, now_ms: u64) -> bool {
        arriving.may_have_others(self.number) && self.was_open_in(now_ms, OTHERS_FOR.as_millis() as u64)
    }

    /// True if it took documents in the last `within_ms`.
    pub(crate) fn was_open_in(&self, now_ms: u64, within_ms: u64) -> bool {
        let closed_ms = self.state.lock().entry.closed_ms;
        closed_ms.is_none_or(|closed_ms| now_ms.saturating_sub(closed_ms) < within_ms)
    }
}

impl PartitionState {
    /// True if its time is over, or it has no room for more.
    fn is_full(&self, load: PartitionLoad, limits: &PartitionLimits, now_ms: u64) -> bool {
        let with = self.held.with(load);
        self.held.documents > 0
            && !self.grows_on
            && (with.documents > limits.documents_max
                || with.bytes > limits.bytes_max
                || now_ms.saturating_sub(self.entry.opened_ms) >= limits.window_ms(self.held.bytes))
    }

    /// True if its successor should be there.
    fn is_half_full(&self, load: PartitionLoad, limits: &PartitionLimits) -> bool {
        let with = self.held.with(load);
        !self.grows_on && (with.documents > limits.documents_max / 2 || with.bytes > limits.bytes_max / 2)
    }

    /// True if the entry in the catalog covers what it will have.
    fn is_covered(&self, load: PartitionLoad) -> bool {
        let with = self.held.with(load);
        with.documents <= self.entry.documents
            && with.bytes <= self.entry.bytes
            && covers(self.entry.times, with.times)
    }
}

/// Bounds that cover a load and some more.
fn raised(entry: &PartitionEntry, with: PartitionLoad, limits: &PartitionLimits) -> PartitionEntry {
    let widened =
        |(first, last): TimeSpan| (first.saturating_sub(TIME_STEP_MS), last.saturating_add(TIME_STEP_MS));
    PartitionEntry {
        documents: with.documents.saturating_add(limits.documents_max / STEPS),
        bytes: with.bytes.saturating_add(limits.bytes_max / STEPS),
        times: match covers(entry.times, with.times) {
            true => entry.times,
            false => joined(entry.times, with.times.map(widened)),
        },
        ..entry.clone()
    }
}

/// Partitions of an index, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct PartitionTable {
    partitions: Mutex<Vec<Arc<LogPartition>>>,
    /// Number of requests that have drawn a slot.
    drawn: AtomicU64,
}

impl PartitionTable {
    /// A number that is one more with each request, for the slots of its documents.
    pub(crate) fn draw(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed)
    }

    /// All partitions, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<LogPartition>> {
        self.partitions.lock().clone()
    }

    /// Number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.partitions.lock().len()
    }

    /// Partitions of some shards, the oldest first.
    pub(crate) fn of_shards(&self, shards: &ShardSet) -> Vec<Arc<LogPartition>> {
        let all = self.partitions.lock();
        all.iter().filter(|partition| shards.has(partition.shard)).cloned().collect()
    }

    /// Partition that an id names.
    fn named_by(&self, id: &str) -> Option<Arc<LogPartition>> {
        let number = number_in(id)?;
        self.partitions.lock().iter().find(|partition| partition.number == number).cloned()
    }

    /// The partitions of a shard that take writes, now or later.
    fn open(&self, shard: u32) -> Vec<Arc<LogPartition>> {
        let all = self.partitions.lock();
        let open = all.iter().filter(|partition| partition.shard == shard && !partition.is_closed());
        open.cloned().collect()
    }

    /// Partitions of the shard before the one that takes a write, in which ids of clients are looked for, the
    /// latest first.
    pub(crate) fn earlier(&self, hold: &PartitionHold, now_ms: u64) -> Vec<Arc<LogPartition>> {
        let LogPartition { number, shard, .. } = *hold.partition;
        let all = self.partitions.lock();
        let older = all.iter().rev().skip_while(|partition| partition.number != number).skip(1);
        let of_shard = older.filter(|partition| partition.shard == shard).take(EARLIER_MAX).enumerate();
        let late =
            of_shard.take_while(|(at, partition)| *at == 0 || partition.was_open_in(now_ms, EARLIER_MS));
        late.map(|(_, partition)| Arc::clone(partition)).collect()
    }

    /// Begins a write, if the catalog need not be changed for that.
    fn begin(
        &self,
        write: &PartitionWrite<'_>,
        arriving: &Arc<ArrivingIds>,
        limits: &PartitionLimits,
        now_ms: u64,
    ) -> Option<PartitionHold> {
        let PartitionWrite { shard, load, given } = *write;
        let open = self.open(shard);
        for (at, partition) in open.iter().enumerate() {
            let mut state = partition.state.lock();
            if partition.is_closed() {
                continue;
            }
            let has_successor = at + 1 < open.len();
            if state.is_full(load, limits, now_ms)
                || !state.is_covered(load)
                || !has_successor && state.is_half_full(load, limits)
            {
                return None;
            }
            if state.held.documents == 0 {
                state.entry.opened_ms = now_ms;
            }
            state.held = state.held.with(load);
            state.writers += 1;
            // A write to the next partition begins after this one is closed, and so after its ids are noted.
            let arriving = (!given.is_empty()).then(|| arriving.begin(partition.number, given));
            return Some(PartitionHold { partition: Arc::clone(partition), arriving });
        }
        None
    }

    fn add(&self, entry: PartitionEntry, held: PartitionLoad) {
        let mut all = self.partitions.lock();
        all.push(Arc::new(LogPartition::new(entry, held)));
        sort_few(&mut all, |left, right| left.number.cmp(&right.number));
    }
}

/// Finds a document. An id that was made here names its partition; others are looked for in the partitions of
/// their shard, the newest first.
pub(crate) fn find(
    service: &ElasticService,
    index: &OpenIndex,
    id: &str,
    routing: Option<&str>,
) -> Result<Option<StoredSource>, Error> {
    let table = &index.live.partitions;
    if let Some(named) = table.named_by(id)
        && let Some(found) = storage::get(&service.node, named.group, id)?
    {
        return Ok(Some(found));
    }
    let shards = RoutingSlots::of_index(index).of_document(id, routing);
    for partition in table.of_shards(&shards).iter().rev() {
        if let Some(found) = storage::get(&service.node, partition.group, id)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Calls `visit` with each document of the partitions that took writes at the end of an earlier run.
pub(crate) fn scan_last(
    node: &Arc<Node>,
    index: &OpenIndex,
    mut visit: impl FnMut(StoredSource) -> Result<(), Error>,
) -> Result<(), Error> {
    for partition in index.live.partitions.all().iter().filter(|partition| partition.was_loaded) {
        storage::scan(node, partition.group, |stored| visit(stored).map(|()| ControlFlow::Continue(())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_their_partition() {
        for number in [1, 63, 64, 4_095, 1 << 24, u32::MAX] {
            let id = id_in(number);
            assert_eq!((id.len(), number_in(&id)), (20, Some(number)), "{id}");
        }
        for id in ["", "1", "AAAAAAAAAAAAAAAAAAA", "AAAAA.AAAAAAAAAAAAAA", "______AAAAAAAAAAAAAA"] {
            assert_eq!(number_in(id), None, "{id}");
        }
    }

    #[test]
    fn ids_are_looked_for_in_the_partitions_that_were_closed_lately() {
        let now_ms = 10 * EARLIER_MS;
        let table = PartitionTable::default();
        let add = |number: u32, shard: u32, closed_s_ago: Option<u64>| {
            let closed_ms = closed_s_ago.map(|seconds| now_ms - 1_000 * seconds);
            let entry = serde_json::json!({
                "number": number, "place": 1, "area": 0, "index": 1, "shard": shard, "opened_ms": 0,
                "closed_ms": closed_ms, "documents": 1, "bytes": 1, "times": null, "is_dropped": false,
            });
            let entry = serde_json::from_value(entry).expect("the entry is whole");
            table.add(entry, PartitionLoad::default());
        };
        let earlier = |number: u32| -> Vec<u32> {
            let all = table.all();
            let partition = all.iter().find(|partition| partition.number == number).expect("it was added");
            partition.state.lock().writers += 1;
            let hold = PartitionHold { partition: Arc::clone(partition), arriving: None };
            table.earlier(&hold, now_ms).iter().map(|partition| partition.number).collect()
        };
        for (number, shard, closed_s_ago) in [
            (1, 0, Some(900)),
            (2, 0, Some(700)),
            (3, 0, Some(599)),
            (4, 1, Some(500)),
            (5, 0, Some(400)),
            (6, 0, None),
            (7, 1, None),
        ] {
            add(number, shard, closed_s_ago);
        }
        for (number, expected) in [
            (6, vec![5, 3]),
            // The one before is looked at in any case.
            (3, vec![2]),
            (2, vec![1]),
            (1, vec![]),
            (7, vec![4]),
            (4, vec![]),
        ] {
            assert_eq!(earlier(number), expected, "before partition {number}");
        }
        for number in 10..30 {
            add(number, 0, Some(1));
        }
        let arriving = ArrivingIds::default();
        let with_others = || -> Vec<u32> {
            let all = table.all();
            let with_others = all.iter().filter(|partition| partition.may_have_others(&arriving, now_ms));
            with_others.map(|partition| partition.number).collect()
        };
        assert!(with_others().is_empty(), "no other node had the catalog");
        arriving.note_others(10);
        assert_eq!(with_others(), [6, 7, 10], "the others are closed for long, or made since");
        let latest: Vec<u32> = (29 - EARLIER_MAX as u32..29).rev().collect();
        assert_eq!(earlier(29), latest, "at most so many are looked at");
    }

    #[test]
    fn bounds_cover_what_is_written_next() {
        let spans = [(Some((1, 9)), Some((1, 9)), true), (Some((1, 9)), Some((0, 9)), false)];
        for (outer, inner, expected) in
            spans.into_iter().chain([(None, None, true), (None, Some((1, 1)), false)])
        {
            assert_eq!(covers(outer, inner), expected, "{outer:?} {inner:?}");
        }
        assert_eq!(joined(Some((1, 5)), Some((3, 9))), Some((1, 9)));
        assert_eq!(joined(None, Some((3, 9))), Some((3, 9)));
    }
}
