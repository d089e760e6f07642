//! Tells a log that a crash cut short from one that is damaged.
//!
//! Batches are made durable one by one, and the next is not written before, unless its writers want to be
//! acknowledged earlier. Hence at most those after the last sync can be incomplete: the first that is, and
//! what follows it, is **torn**. All before were synced: one that does not parse is **damaged**.
//!
//! A batch is `1, items u32, sequence u64`, then items `2, kind u8, compression u8, keyspace u64, key length
//! u16, length u32, stored length u32, key, value`, then `3, xxh3 of the items u64, "FJL\x03"`; numbers are
//! little-endian. Zeros follow the last.
//!
//! The first item of a batch is its **link**: the log's salt, the byte at which the batch begins, the
//! checksum of the previous batch, and, if that was not yet synced, the byte before which all was. The salt
//! is random, and not visible to clients. So bytes within a document are never mistaken for a batch, nor are
//! bytes of a batch at another offset. Batches of earlier versions have no link; a log can have both kinds.
//!
//! The rest of a log after its last whole batch is classified by these rules:
//! 1. A batch that belongs to the log stands in it, and all before that was synced when it was written: it is
//!    damaged.
//! 2. It ends as a batch does and none of its sectors is blank: it was written to its end, and is damaged. A
//!    write that did not come to its end leaves sectors of zeros, as the log is zeros before, or is cut
//!    short.
//! 3. Otherwise it is torn.

use std::collections::{BTreeMap, HashSet};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: &[u8; 4] = b"FJL\x03";
const BATCH_HEADER: usize = 13;
const BATCH_END: usize = 13;
const ITEM_HEADER: usize = 21;
/// The smallest unit in which a disk writes.
const SECTOR: usize = 512;
/// Maximum number of bytes hashed for all candidate batches without a link, so that a maliciously built log
/// cannot hold up a start.
const HASHED_MAX: u64 = 4 << 30;

/// The key of a link. No row and no mark has a key of this length.
pub(crate) const LINK_KEY: &[u8; 4] = b"link";
/// Version of a link whose batch was written when all before it was synced, and of one that says how much
/// was.
const LINK_VERSIONS: [u8; 2] = [1, 2];
const LINK_BYTES: [usize; 2] = [1 + 16 + 8 + 8, 1 + 16 + 8 + 8 + 8];

/// Random bytes that all links of a log have in common.
pub(crate) type LogSalt = [u8; 16];

/// Link of a batch to its log and to the previous batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchLink {
    pub salt: LogSalt,
    /// The byte of the log at which the batch begins.
    pub begin: u64,
    /// The checksum of the batch before; 0 for the first.
    pub before: u64,
    /// The byte of the log before which all was synced when the batch was written; at most `begin`.
    pub synced: u64,
}

impl BatchLink {
    pub fn encode(&self) -> Vec<u8> {
        let is_short = self.synced == self.begin;
        let mut value = Vec::with_capacity(LINK_BYTES[1]);
        value.push(LINK_VERSIONS[usize::from(!is_short)]);
        value.extend(self.salt);
        value.extend(self.begin.to_le_bytes());
        value.extend(self.before.to_le_bytes());
        if !is_short {
            value.extend(self.synced.to_le_bytes());
        }
        value
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first()?;
        let form = LINK_VERSIONS.iter().position(|known| known == version)?;
        if value.len() != LINK_BYTES[form] {
            return None;
        }
        let (salt, rest) = rest.split_first_chunk::<16>()?;
        let (begin, rest) = rest.split_first_chunk::<8>()?;
        let (before, rest) = rest.split_first_chunk::<8>()?;
        let (begin, before) = (u64::from_le_bytes(*begin), u64::from_le_bytes(*before));
        let synced = match rest.split_first_chunk::<8>() {
            None => begin,
            Some((synced, _)) => Some(u64::from_le_bytes(*synced)).filter(|synced| *synced < begin)?,
        };
        Some(BatchLink { salt: *salt, begin, before, synced })
    }
}

/// The end of a log, where appending continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// Bytes of the whole batches.
    pub bytes: u64,
    /// The checksum of the last batch.
    pub checksum: u64,
    /// The salt of the last link.
    pub salt: Option<LogSalt>,
    /// The last batch has a link.
    pub is_linked: bool,
    /// The last batch has more than a link.
    pub has_rows: bool,
    /// The sequence number of the last batch.
    pub sequence: Option<u64>,
}

impl LogEnd {
    /// The link of the next batch of a log that is synced up to a byte.
    ///
    /// # Panics
    /// The log has no salt yet.
    pub fn link(&self, synced: u64) -> BatchLink {
        let salt = self.salt.expect("a log gets its salt before the first link is made");
        assert!(synced <= self.bytes, "no more of a log is synced than there is");
        BatchLink { salt, begin: self.bytes, before: self.checksum, synced }
    }
}

/// The size and the checksum of a batch that is about to be written.
#[derive(Default)]
pub(crate) struct BatchMeasure {
    items: Xxh3,
    bytes: u64,
    is_linked: bool,
}

impl BatchMeasure {
    /// The link, which comes first.
    pub fn add_link(&mut self, keyspace: u64, link: &[u8]) {
        self.is_linked = true;
        self.add(keyspace, LINK_KEY, link);
    }

    /// One more item.
    pub fn add(&mut self, keyspace: u64, key: &[u8], value: &[u8]) {
        let mut header = [0; ITEM_HEADER];
        header[0] = ITEM;
        header[3..11].copy_from_slice(&keyspace.to_le_bytes());
        header[11..13].copy_from_slice(&(key.len() as u16).to_le_bytes());
        header[13..17].copy_from_slice(&(value.len() as u32).to_le_bytes());
        header[17..21].copy_from_slice(&(value.len() as u32).to_le_bytes());
        [&header[..], key, value].iter().for_each(|part| self.items.update(part));
        self.bytes += (ITEM_HEADER + key.len() + value.len()) as u64;
    }

    /// The end of the log once the batch is in it.
    pub fn after(&self, end: &LogEnd, has_rows: bool) -> LogEnd {
        let bytes = end.bytes + self.bytes + (BATCH_HEADER + BATCH_END) as u64;
        LogEnd { bytes, checksum: self.items.digest(), is_linked: self.is_linked, has_rows, ..*end }
    }
}

/// The rest of a log after its last whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogTailState {
    /// Zeros, or nothing.
    Blank,
    /// Number of bytes after the last whole batch, which were not synced.
    Torn(u64),
    /// A batch that was acknowledged.
    Damaged(&'static str),
}

/// A log, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogVerdict {
    pub end: LogEnd,
    /// The byte before which all was synced when the last whole batch was written, as far as batches say so.
    pub synced: u64,
    pub rest: LogTailState,
    pub keys: LogKeys,
}

/// The keys in the whole batches of a log, by the number of their keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogKeys(BTreeMap<u64, HashSet<u64>>);

impl LogKeys {
    /// Different keys in a keyspace, about: as many as have different hashes.
    pub fn count(&self, keyspace: u64) -> usize {
        self.0.get(&keyspace).map_or(0, HashSet::len)
    }

    /// Returns true if all keys are in one of these keyspaces.
    pub fn are_within(&self, keyspaces: &[u64]) -> bool {
        self.0.keys().all(|keyspace| keyspaces.contains(keyspace))
    }

    /// The keys of a whole batch.
    fn add(&mut self, bytes: &[u8], items: std::ops::Range<usize>) {
        for item in (BatchItems { rest: &bytes[items] }) {
            self.0.entry(item.keyspace).or_default().insert(xxh3_64(item.key));
        }
    }
}

/// An item of a batch.
struct BatchItem<'a> {
    keyspace: u64,
    /// The value is the item's, as it is.
    is_plain: bool,
    key: &'a [u8],
    value: &'a [u8],
}

/// The items of a whole batch.
struct BatchItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = BatchItem<'a>;

    fn next(&mut self) -> Option<BatchItem<'a>> {
        let (bytes, rest) = self.rest.split_at_checked(ITEM_HEADER)?;
        let header = ItemHeader::read(bytes).expect("the items of a whole batch have headers");
        let (key, rest) = rest.split_at(header.key);
        let (value, rest) = rest.split_at(header.value);
        self.rest = rest;
        Some(BatchItem { keyspace: header.keyspace, is_plain: bytes[1..3] == [0, 0], key, value })
    }
}

/// Entry of a log that is not a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogEntry<'a> {
    /// A row of the tail.
    Row { key: &'a [u8], value: &'a [u8] },
    /// A mark of a drop.
    Mark(&'a [u8]),
}

/// Bytes of a mark's key, its time. The key of a row is longer, and that of a link shorter.
const MARK_KEY_BYTES: usize = 8;

/// The rows and marks of whole batches, in the order in which they were written. `None` stands for an item
/// that the store does not write.
pub(crate) fn entries(batches: &[u8]) -> impl Iterator<Item = Option<LogEntry<'_>>> {
    let mut at = 0;
    let items = std::iter::from_fn(move || {
        let frame = BatchFrame::at(batches, at)?;
        at = frame.items.end + BATCH_END;
        Some(BatchItems { rest: &batches[frame.items] })
    });
    items.flatten().filter(|item| item.key != LINK_KEY).map(
        |BatchItem { is_plain, key, value, .. }| match key.len() {
            _ if !is_plain => None,
            MARK_KEY_BYTES => Some(LogEntry::Mark(value)),
            _ => Some(LogEntry::Row { key, value }),
        },
    )
}

/// Header before the key and the value of an item.
struct ItemHeader {
    keyspace: u64,
    /// Bytes of the key.
    key: usize,
    /// Bytes of the value, as they are stored.
    value: usize,
}

impl ItemHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<ITEM_HEADER>().filter(|header| header[0] == ITEM)?;
        Some(ItemHeader {
            keyspace: u64::from_le_bytes(header[3..11].try_into().ok()?),
            key: usize::from(u16::from_le_bytes(header[11..13].try_into().ok()?)),
            value: u32::from_le_bytes(header[17..21].try_into().ok()?) as usize,
        })
    }
}

/// Judges a log; `bytes` may leave out zeros at its end.
pub(crate) fn judge(bytes: &[u8]) -> LogVerdict {
    let mut end = LogEnd::default();
    let mut synced = 0;
    let mut keys = LogKeys::default();
    let mut at = 0;
    while let Some(batch) = JournalBatch::at(bytes, at) {
        let out_of_order = end.sequence.is_some_and(|before| batch.sequence <= before);
        let misplaced = batch.link.is_some_and(|link| !end.precedes(&link));
        if out_of_order || misplaced {
            let reason = "a batch of the log is not the one that was written after the one before it";
            return LogVerdict { end, synced, rest: LogTailState::Damaged(reason), keys };
        }
        synced = batch.link.map_or(synced, |link| link.synced);
        keys.add(bytes, batch.items.clone());
        at = batch.next;
        end = LogEnd {
            bytes: at as u64,
            checksum: batch.checksum,
            salt: batch.link.map(|link| link.salt).or(end.salt),
            is_linked: batch.link.is_some(),
            has_rows: batch.count > u32::from(batch.link.is_some()),
            sequence: Some(batch.sequence),
        };
    }
    let rest = match bytes[at..].iter().rposition(|byte| *byte != 0) {
        None => LogTailState::Blank,
        Some(last) => judge_rest(bytes, at + last + 1, &end),
    };
    LogVerdict { end, synced, rest, keys }
}

/// Classifies the bytes between the last whole batch and the last nonzero byte.
fn judge_rest(bytes: &[u8], to: usize, end: &LogEnd) -> LogTailState {
    let at = end.bytes as usize;
    if has_successor(&bytes[..to], at, end) {
        return LogTailState::Damaged("a batch of the log does not fit its checksum, and batches follow it");
    }
    if ends_like_a_batch(&bytes[at..to]) && !has_blank_sector(bytes, at, to) {
        return LogTailState::Damaged(
            "the last batch of the log was written to its end, but does not fit its checksum",
        );
    }
    LogTailState::Torn((to - at) as u64)
}

/// Returns true if a batch that belongs to the log begins somewhere after the byte at which the log would
/// continue, and was written when more than that was synced.
fn has_successor(bytes: &[u8], at: usize, end: &LogEnd) -> bool {
    let mut hashed = 0;
    let starts = (at + 1..bytes.len()).filter(|start| bytes[*start] == START);
    match end.salt.filter(|_| end.is_linked) {
        Some(salt) => starts.into_iter().any(|start| is_linked_batch(bytes, start, &salt, end.bytes)),
        None => starts.into_iter().any(|start| is_plain_batch(bytes, start, end, &mut hashed)),
    }
}

fn is_linked_batch(bytes: &[u8], start: usize, salt: &LogSalt, at: u64) -> bool {
    let belongs = |link: BatchLink| link.salt == *salt && link.begin == start as u64 && link.synced > at;
    link_at(bytes, start).is_some_and(belongs) && JournalBatch::at(bytes, start).is_some()
}

/// Returns true if a batch of a version that wrote no links begins here. A client can make such bytes; so its
/// sequence number must fit.
fn is_plain_batch(bytes: &[u8], start: usize, end: &LogEnd, hashed: &mut u64) -> bool {
    let at = end.bytes as usize;
    let skipped = ((start - at) / (BATCH_HEADER + BATCH_END)) as u64 + 2;
    let fits = |sequence: u64| match end.sequence {
        Some(before) => sequence > before && sequence <= before.saturating_add(skipped),
        None => sequence <= skipped + 1024,
    };
    let Some(frame) = BatchFrame::at(bytes, start).filter(|frame| frame.count > 0 && fits(frame.sequence))
    else {
        return false;
    };
    *hashed += (frame.items.end - frame.items.start) as u64;
    *hashed <= HASHED_MAX && frame.is_whole(bytes)
}

/// Returns true if one of the sectors between two offsets of the log has only zeros there.
fn has_blank_sector(bytes: &[u8], from: usize, to: usize) -> bool {
    let first = from - from % SECTOR;
    let mut sectors = (first..to).step_by(SECTOR).map(|sector| sector.max(from)..to.min(sector + SECTOR));
    sectors.any(|sector| bytes[sector].iter().all(|byte| *byte == 0))
}

/// Returns true if the bytes end like a batch, except for one flipped bit.
fn ends_like_a_batch(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<4>() else { return false };
    (u32::from_le_bytes(*last) ^ u32::from_le_bytes(*MAGIC)).count_ones() <= 1
}

impl LogEnd {
    /// Returns true if a link belongs to a batch that begins at this end.
    fn precedes(&self, link: &BatchLink) -> bool {
        let of_log = self.salt.is_none_or(|salt| salt == link.salt);
        of_log && link.begin == self.bytes && link.before == self.checksum
    }
}

/// The parts of a batch, before its checksum was compared.
struct BatchFrame {
    count: u32,
    sequence: u64,
    items: std::ops::Range<usize>,
    checksum: u64,
}

impl BatchFrame {
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let header = bytes.get(at..at + BATCH_HEADER)?;
        if header[0] != START {
            return None;
        }
        let count = u32::from_le_bytes(header[1..5].try_into().ok()?);
        let sequence = u64::from_le_bytes(header[5..].try_into().ok()?);
        let first = at + BATCH_HEADER;
        let mut next = first;
        for _ in 0..count {
            let header = ItemHeader::read(bytes.get(next..)?)?;
            next = next.checked_add(ITEM_HEADER + header.key + header.value)?;
        }
        let end = bytes.get(next..next + BATCH_END)?;
        let checksum = u64::from_le_bytes(end[1..9].try_into().ok()?);
        let ends = end[0] == END && &end[9..] == MAGIC;
        ends.then_some(BatchFrame { count, sequence, items: first..next, checksum })
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        self.checksum == xxh3_64(&bytes[self.items.clone()])
    }
}

/// Judges bytes as a log, as they are and with the checksums that fit, and reads them as a link; for fuzzing.
///
/// # Panics
/// The end of a log is outside of it, its whole batches are judged differently without the rest, or a link is
/// another after it is written and read.
pub fn fuzz(bytes: &[u8]) {
    fuzz_judge(bytes);
    let mut sealed = bytes.to_vec();
    let mut at = 0;
    while let Some(frame) = BatchFrame::at(&sealed, at) {
        at = frame.items.end + BATCH_END;
        let checksum = xxh3_64(&sealed[frame.items.clone()]).to_le_bytes();
        sealed[frame.items.end + 1..][..checksum.len()].copy_from_slice(&checksum);
    }
    fuzz_judge(&sealed);
    fuzz_link(bytes);
}

fn fuzz_judge(bytes: &[u8]) {
    let verdict = judge(bytes);
    let whole =
        usize::try_from(verdict.end.bytes).expect("a log in memory is shorter than the address space");
    assert!(whole <= bytes.len(), "the end of a log is in it");
    let again = judge(&bytes[..whole]);
    assert_eq!(
        again,
        LogVerdict { rest: LogTailState::Blank, ..verdict },
        "whole batches are judged by themselves"
    );
}

fn fuzz_link(bytes: &[u8]) {
    if let Some(link) = BatchLink::decode(bytes) {
        assert_eq!(link.encode(), bytes, "a link is what it was");
    }
    let Some((salt, rest)) = bytes.split_first_chunk::<16>() else { return };
    let number =
        |at: usize| rest.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes);
    let begin = number(0);
    let link = BatchLink { salt: *salt, begin, before: number(8), synced: number(16).min(begin) };
    assert_eq!(BatchLink::decode(&link.encode()), Some(link), "a link can be read again");
}

/// A whole batch.
struct JournalBatch {
    count: u32,
    sequence: u64,
    checksum: u64,
    link: Option<BatchLink>,
    items: std::ops::Range<usize>,
    /// The byte after it.
    next: usize,
}

impl JournalBatch {
    /// The whole batch that begins at a byte.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let frame = BatchFrame::at(bytes, at).filter(|frame| frame.is_whole(bytes))?;
        let BatchFrame { count, sequence, items, checksum } = frame;
        let next = items.end + BATCH_END;
        Some(JournalBatch { count, sequence, checksum, link: link_at(bytes, at), items, next })
    }
}

/// The link of the batch that begins at a byte, where its first item is one.
fn link_at(bytes: &[u8], at: usize) -> Option<BatchLink> {
    let item = bytes.get(at + BATCH_HEADER..)?;
    let header = ItemHeader::read(item)?;
    if header.key != LINK_KEY.len() || !LINK_BYTES.contains(&header.value) {
        return None;
    }
    let (key, value) = item.get(ITEM_HEADER..ITEM_HEADER + header.key + header.value)?.split_at(header.key);
    if key == LINK_KEY { BatchLink::decode(value) } else { None }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
