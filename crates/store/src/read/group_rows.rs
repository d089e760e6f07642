//! Rows of a group as they were found before, brought up to date with those that were written since.
//!
//! The result is that of finding all rows again, and its documents that count are in the same order: so hits
//! of equal relevance do not depend on what was viewed before. A row that was replaced stays in its chunk,
//! masked; new rows make new pieces. Pieces are made again only where their ends change ([`RowOrder::Age`]):
//! at the end of the tail, as new rows join the small pieces there, and where the row at an end was replaced.
//!
//! [`RowOrder::Age`]: crate::read::pieces::RowOrder::Age

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_column::CHUNK_DOCS;
use millrace_env::filter::KeyHash;
use millrace_segment::ChunkInfo;

use crate::Error;
use crate::read::group_sources::GroupSources;
use crate::read::masks::{GroupOfBucket, Mask, SegmentChunks, clear, is_set};
use crate::read::pieces::level;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot};
use crate::read::tail_rows::is_same_document;
use crate::tail::chunk::TailChunk;
use crate::tail::{RowKey, TailVersion};

/// Number of rows that are found again in the time in which a new one is brought in: it is looked up in the
/// generations whose filters have its id.
const SCANNED_PER_RENEWAL: usize = 4;
/// Number of new rows that are looked up even where the tail has few.
const FEW_ROWS: usize = 8;

/// Place of a row: the number of its chunk of the tail, and that of the row in it.
pub(crate) type TailRowIndex = (usize, usize);

/// Chunks of a group, as seen from one bucket.
pub(crate) struct GroupRows {
    /// Locations of the chunks in segments.
    pub segments: Vec<SegmentChunks>,
    /// The same chunks with their masks.
    pub in_segments: Vec<ChunkPart>,
    /// The oldest rows are in the first.
    pub tail: Vec<TailPart>,
}

/// A chunk of the tail, with the masks of the versions that count.
pub(crate) struct TailPart {
    pub chunk: Arc<TailChunk>,
    pub info: ChunkInfo,
    pub newest: Mask,
    pub live: Mask,
    /// Versions that no newer one replaces; they may be dropped or removals.
    pub current: Mask,
}

impl GroupRows {
    /// Rows that were all just found.
    pub fn new(parts: Vec<ChunkPart>) -> Self {
        let (mut in_segments, mut tail) = (Vec::new(), Vec::new());
        for part in parts {
            match part.source {
                ChunkSource::Segment { .. } => in_segments.push(part),
                ChunkSource::Tail(chunk) => {
                    let ChunkPart { info, newest, live, .. } = part;
                    tail.push(TailPart { chunk, info, newest, live, current: None });
                }
            }
        }
        GroupRows { segments: Vec::new(), in_segments, tail }
    }

    /// All chunks.
    pub fn into_parts(self) -> Vec<ChunkPart> {
        let mut parts = self.in_segments;
        parts.extend(self.tail.into_iter().map(|TailPart { chunk, info, newest, live, .. }| ChunkPart {
            source: ChunkSource::Tail(chunk),
            info,
            newest,
            live,
        }));
        parts
    }

    /// The chunk of the tail, and the row there, of a version that is the newest of its document in the tail.
    fn find(&self, key: &[u8]) -> Result<Option<TailRowIndex>, Error> {
        let timestamp = RowKey::parse(key)?.timestamp;
        let of_part = |(piece, part): (usize, &TailPart)| {
            if !(part.info.oldest..=part.info.newest).contains(&timestamp.0) {
                return None;
            }
            let mut rows = part.chunk.rows.iter();
            let row = rows.position(|row| row.timestamp == timestamp && row.key() == key)?;
            is_set(&part.current, row).then_some((piece, row))
        };
        Ok(self.tail.iter().enumerate().rev().find_map(of_part))
    }

    /// Masks a row of the tail. Returns true if it was the end of its piece.
    fn mask(&mut self, piece: usize, row: usize) -> bool {
        let part = &mut self.tail[piece];
        for mask in [&mut part.newest, &mut part.live, &mut part.current] {
            clear(mask, row, part.info.documents);
        }
        row == part.end()
    }

    /// Masks rows of the tail that were replaced. Returns a flag for each piece: it is to be made again.
    pub fn replace(&mut self, replaced: &[TailRowIndex]) -> Vec<bool> {
        let mut remade = vec![false; self.tail.len()];
        for (piece, row) in replaced.iter().copied() {
            let is_end = self.mask(piece, row);
            let mut first = piece;
            // Without an end, rows before it can be ends: in its piece, and in full ones that lie before it.
            while is_end && first > 0 && self.is_full(first - 1) {
                first -= 1;
            }
            // The rows of the piece join the next, or those of the next move up into a full one.
            let mut is_changed = is_end || self.is_full(piece);
            for (next, is_remade) in remade.iter_mut().enumerate().skip(first) {
                *is_remade |= is_changed;
                is_changed &= next == piece && is_end || self.is_full(next);
            }
        }
        remade
    }

    /// Makes those pieces again for which there is a flag, without the rows that are masked, and with new
    /// rows at the end.
    pub fn make_again(
        &mut self,
        snapshot: &StoreSnapshot<'_>,
        group: &GroupOfBucket<'_>,
        remade: &[bool],
        new: Vec<TailVersion>,
    ) {
        let (mut tail, mut run) = (Vec::with_capacity(self.tail.len() + 1), Vec::new());
        for (part, is_remade) in std::mem::take(&mut self.tail).into_iter().zip(remade) {
            if *is_remade {
                run.extend(part.current_rows().map(|row| part.chunk.rows[row].clone()));
            } else {
                tail.extend(snapshot.made(group, &mut run));
                tail.push(part);
            }
        }
        run.extend(new);
        tail.extend(snapshot.made(group, &mut run));
        self.tail = tail;
    }

    /// Returns true for a piece that may end only because no more rows fit.
    fn is_full(&self, piece: usize) -> bool {
        self.tail[piece].chunk.rows.len() >= CHUNK_DOCS
    }
}

impl TailPart {
    /// The row at the end of the piece: the last one by age.
    fn end(&self) -> usize {
        // Of rows of one time, the one with the highest key is the last.
        let rows = self.chunk.rows.iter().enumerate();
        rows.max_by_key(|(_, row)| row.timestamp).map_or(0, |(row, _)| row)
    }

    /// Rows that no newer version replaces.
    pub fn current_rows(&self) -> impl Iterator<Item = usize> {
        (0..self.chunk.rows.len()).filter(move |row| is_set(&self.current, *row))
    }

    /// Number of these rows.
    fn current_count(&self) -> usize {
        match &self.current {
            None => self.chunk.rows.len(),
            Some(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }
}

impl StoreSnapshot<'_> {
    /// Brings rows up to date with those of these keys that are in the snapshot. Rows with `hidden` keys are
    /// not looked at. Returns false if all rows are to be found again: because of many new ones, of one that
    /// comes late, or of many that were replaced.
    ///
    /// # Errors
    /// The tail or a segment cannot be read.
    pub(super) fn renew(
        &self,
        group: &GroupOfBucket<'_>,
        rows: &mut GroupRows,
        keys: &[&[u8]],
        hidden: &[&[u8]],
    ) -> Result<bool, Error> {
        if keys.is_empty() {
            return Ok(true);
        }
        let all: usize = rows.tail.iter().map(|part| part.chunk.rows.len()).sum();
        if keys.len() > FEW_ROWS + all / SCANNED_PER_RENEWAL {
            return Ok(false);
        }
        let (mut new, replaced) = self.new_rows(rows, keys, hidden)?;
        new.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        let mut found = GroupSources { segments: std::mem::take(&mut rows.segments), tail: new };
        found.replace(&mut rows.in_segments)?;
        rows.segments = found.segments;
        let new = found.tail;
        let newest = rows.tail.iter().map(|part| part.info.newest).max().unwrap_or(0);
        let mut highest = 1;
        for row in &new {
            if row.timestamp.0 <= newest {
                // It comes late, and belongs between others.
                return Ok(false);
            }
            highest = highest.max(level(row.key()));
        }
        let mut remade = rows.replace(&replaced);
        let current: usize = rows.tail.iter().map(TailPart::current_count).sum();
        if current * 2 < all {
            return Ok(false);
        }
        if !new.is_empty() {
            // An end holds until a later row has a higher level.
            let last = rows.tail.iter().zip(&mut remade).rev();
            last.take_while(|(part, _)| level(part.chunk.rows[part.end()].key()) < highest)
                .for_each(|(_, remade)| *remade = true);
        }
        rows.make_again(self, group, &remade, new);
        Ok(true)
    }

    /// Finds those of these keys that are the newest of their documents in the tail and not among the rows,
    /// and the places of the rows that they replace.
    fn new_rows(
        &self,
        rows: &GroupRows,
        keys: &[&[u8]],
        hidden: &[&[u8]],
    ) -> Result<(Vec<TailVersion>, Vec<TailRowIndex>), Error> {
        let written: HashSet<&[u8]> = keys.iter().copied().collect();
        let mut unseen: HashSet<&[u8]> = HashSet::new();
        for key in hidden.iter().copied() {
            // A version can come again.
            if rows.find(key)?.is_none() {
                unseen.insert(key);
            }
        }
        let mut documents: BTreeSet<&[u8]> = BTreeSet::new();
        for key in keys.iter().copied() {
            documents.insert(RowKey::parse(key)?.sort_key);
        }
        let (mut new, mut replaced) = (Vec::new(), Vec::new());
        for document in documents {
            let mut versions = self.last_versions(document, &written, &unseen)?.into_iter();
            // Without one, the row could not be appended, or its write ended after the snapshot.
            let Some(newest) = versions.next() else { continue };
            if !written.contains(newest.key()) || rows.find(newest.key())?.is_some() {
                continue;
            }
            for version in versions {
                replaced.extend(rows.find(version.key())?);
            }
            new.push(newest);
        }
        Ok((new, replaced))
    }

    /// The versions of a document in the tail, the newest first, down to the first that was not written just
    /// now. `document`: its sort key.
    fn last_versions(
        &self,
        document: &[u8],
        written: &HashSet<&[u8]>,
        unseen: &HashSet<&[u8]>,
    ) -> Result<Vec<TailVersion>, Error> {
        let (from, to) = ([document, &[0]].concat(), [document, &[1]].concat());
        let mut versions: Vec<TailVersion> = Vec::new();
        let hash = RowKey::id_in_sort_key(document).map(KeyHash::of);
        for (generation, snapshot) in self.state.generations.iter().zip(&self.snapshots) {
            // The filter has more ids than the snapshot, if any.
            if hash.is_some_and(|hash| !generation.tail.ids().may_have(hash)) {
                continue;
            }
            snapshot.shared_range(&from, Some(&to), &mut |row| {
                if !is_same_document(row.key(), document) || unseen.contains(row.key()) {
                    return Ok(ControlFlow::Continue(()));
                }
                let (timestamp, is_written) =
                    (RowKey::parse(row.key())?.timestamp, written.contains(row.key()));
                versions.push(TailVersion::new(row, timestamp));
                Ok(if is_written { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
        self.count_tail_reads(versions.len());
        versions.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        versions.dedup_by(|later, first| later.key() == first.key());
        Ok(versions)
    }

    /// The chunks of rows that follow each other by age, taken out of `run`.
    fn made(&self, group: &GroupOfBucket<'_>, run: &mut Vec<TailVersion>) -> Vec<TailPart> {
        run.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        let parts = self.tail_pieces(group, run);
        run.clear();
        GroupRows::new(parts).tail
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use millrace_bucket::DocumentSortKey;
    use millrace_document::{Document, DocumentGroup, DocumentId, DocumentVersion, Timestamp};
    use millrace_env::ManualClock;

    use super::*;
    use crate::read::columns::EmptyLayout;
    use crate::read::pieces::RowOrder;
    use crate::tail::row_key;
    use crate::{Store, StoreOptions};

    fn open(directory: &Path) -> Store {
        let clock = Arc::new(ManualClock::new(1_000_000_000));
        let options =
            StoreOptions { clock, disk_reserve: 0, maintenance: false, ..StoreOptions::new(directory) };
        Store::open(options, Arc::new(EmptyLayout)).expect("the store opens")
    }

    fn id(name: &str) -> DocumentId {
        DocumentId::parse(&format!("id:n:mail:g=ann:{name}")).expect("the test's id is one")
    }

    fn put(id: DocumentId, timestamp: u64) -> DocumentVersion {
        DocumentVersion::put(&Document { id, fields: Vec::new() }, Timestamp(timestamp))
    }

    fn apply(store: &Store, versions: Vec<DocumentVersion>) {
        let (sender, answer) = mpsc::channel();
        store.apply(versions, move |outcome| drop(sender.send(outcome)));
        answer.recv().expect("every write is answered").expect("the versions are acknowledged");
    }

    fn snapshot(store: &Store) -> StoreSnapshot<'_> {
        StoreSnapshot::new(store.shared(), RowOrder::Age)
    }

    /// Ids of the group's documents, in order.
    fn shown(snapshot: &StoreSnapshot<'_>) -> Vec<String> {
        let group = DocumentGroup::Name("ann".to_owned());
        let parts = snapshot.group("mail", &group, None).expect("the store reads");
        let mut shown = Vec::new();
        for part in &parts {
            let (ids, _) = part.keys().expect("a chunk has keys");
            let live = (0..ids.len()).filter(|row| is_set(&part.live, *row));
            shown.extend(live.filter_map(|row| String::from_utf8(ids.get(row)?.to_vec()).ok()));
        }
        shown
    }

    /// The same, where no rows are kept.
    fn found_anew(store: &Store) -> Vec<String> {
        store.set_layout(Arc::new(EmptyLayout));
        shown(&snapshot(store))
    }

    fn level_of(id: &DocumentId, timestamp: u64) -> u32 {
        level(&row_key(&DocumentSortKey::new(id), Timestamp(timestamp)))
    }

    #[test]
    fn without_an_end_rows_of_the_full_piece_before_it_are_ends() {
        const END: u64 = CHUNK_DOCS as u64 + 4;
        const LAST: u64 = END + 3;
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let row = |number: u64| {
            let wanted = match number {
                5 => 2,
                END => 3,
                LAST => 1,
                _ => 0,
            };
            let timestamp = 1_000_000 + number;
            let mut ids = (0..).map(|salt: u32| id(&format!("{salt}.{number}")));
            let id = ids.find(|id| level_of(id, timestamp) == wanted).expect("some keys have this level");
            put(id, timestamp)
        };
        let rows: Vec<DocumentVersion> = (0..=LAST).map(row).collect();
        let end = rows[END as usize].id.clone();
        apply(&store, rows);
        assert_eq!(shown(&snapshot(&store)).len() as u64, LAST + 1);
        let mut later = 2_000_000..;
        let timestamp = later.find(|time| level_of(&end, *time) == 0).expect("some keys have this level");
        apply(&store, vec![put(end, timestamp)]);
        let renewed = shown(&snapshot(&store));
        assert!(renewed == found_anew(&store), "{renewed:?}");
    }

    /// The rows of writes can be in a snapshot that was taken before they had ended.
    #[test]
    fn rows_of_unfinished_writes_are_shown_as_the_snapshot_has_them() {
        let put = |number: u32, timestamp| put(id(&number.to_string()), timestamp);
        let removal =
            |number: u32, timestamp| DocumentVersion::removal(id(&number.to_string()), Timestamp(timestamp));
        let writes = [
            vec![put(3, 2000), put(70, 2001)],
            vec![removal(5, 2002), put(3, 2003)],
            // Versions that come again: the newest ones, and an older one.
            vec![put(3, 2003), put(8, 1008), put(3, 2000)],
            vec![put(70, 2001), put(71, 2004), removal(70, 2005)],
            vec![put(5, 2006), put(70, 2001)],
        ];
        let steps = 2 * writes.len() as u64;
        for first in 0..=steps {
            let directory = tempfile::tempdir().expect("a directory");
            let store = open(directory.path());
            apply(&store, (0..60).map(|number| put(number, 1000 + u64::from(number))).collect());
            let before = snapshot(&store);
            let at_first = shown(&before);
            for write in &writes {
                apply(&store, write.clone());
            }
            assert_eq!(shown(&before), at_first, "it has none of the writes");
            let renewed = (first..=steps).map(|ended| {
                let mut snapshot = snapshot(&store);
                snapshot.written = before.written + ended;
                (ended, shown(&snapshot))
            });
            let renewed: Vec<_> = renewed.collect();
            let anew = found_anew(&store);
            let expected: BTreeSet<String> =
                (0..60).chain([71]).map(|number: u32| id(&number.to_string()).to_string()).collect();
            assert_eq!(anew.iter().cloned().collect::<BTreeSet<String>>(), expected);
            for (ended, renewed) in renewed {
                assert_eq!(renewed, anew, "from {first} on, {ended} of {steps} steps have ended");
            }
        }
    }
}
