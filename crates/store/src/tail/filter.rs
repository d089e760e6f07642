//! Filters of ids: each generation has one, so that a lookup searches only generations that can have a row of
//! its document.
//!
//! A filter is a few Bloom filters. The first is for [`FIRST_IDS`] ids, and each further one, which is made
//! when the one before is full, for [`GROWTH`] times as many as that. So beside the first 20 KB a filter
//! takes at most 5 bytes for each id, fewer than the row's key has. An id that a filter seems to have is not
//! added again: versions of one document need no room.
//!
//! # No document is hidden
//!
//! - An id is in the filter before a snapshot can have a row of it. Rows come into a generation in two ways.
//!   [`TailRows::append`](super::TailRows::append) adds the ids of the rows before it writes any of them. A
//!   generation that is opened adds the ids of all of its rows before it is shared. Removals are rows. Seals,
//!   merges, moved and imported buckets, splits and erasures change segments, and drops are marks: none of
//!   them changes the rows of a generation.
//! - No bit is ever cleared, no part is ever taken away, and a generation has its filter until it is deleted
//!   with its rows. An id that was not added because a part seemed to have it has all of its bits there.
//! - Readers ask before they take the snapshot. If the filter does not have an id, a snapshot of that moment
//!   would not have had a row of it either: the lookup gives what it would have given then. A row that is
//!   committed later was not acknowledged when the lookup began. A reader whose snapshot is older than its
//!   question misses nothing, since the filter only has more by then.
//! - Rows that were not written leave their ids behind, which only costs a search.

use millrace_env::filter::{self, KeyHash};
use parking_lot::RwLock;

use super::RowKey;

/// Ids of the first part.
const FIRST_IDS: usize = filter::PAGE_KEYS;
/// Ids of a part, for each of the part before.
const GROWTH: usize = 4;

/// Filter of the ids of a generation.
#[derive(Default)]
pub(crate) struct TailFilter {
    parts: RwLock<Vec<FilterPart>>,
}

/// A Bloom filter of some of the ids.
struct FilterPart {
    bits: Vec<u8>,
    /// Ids for which it is made.
    ids: usize,
    /// Number of ids that it still takes.
    room: usize,
}

impl FilterPart {
    fn new(ids: usize) -> Self {
        FilterPart { bits: vec![0; filter::bytes_of(ids)], ids, room: ids }
    }

    fn add(&mut self, id: KeyHash) {
        filter::add(&mut self.bits, id);
        self.room -= 1;
    }
}

impl TailFilter {
    /// Adds the ids in keys of rows.
    pub fn add<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let hashes: Vec<KeyHash> = keys.filter_map(RowKey::id_in).map(KeyHash::of).collect();
        let mut parts = self.parts.write();
        for id in hashes {
            if may_have(&parts, id) {
                continue;
            }
            let next = parts.last().map_or(FIRST_IDS, |last| last.ids * GROWTH);
            match parts.last_mut() {
                Some(last) if last.room > 0 => last.add(id),
                _ => {
                    let mut part = FilterPart::new(next);
                    part.add(id);
                    parts.push(part);
                }
            }
        }
    }

    /// False only if the generation has no row of the document with this id.
    pub fn may_have(&self, id: KeyHash) -> bool {
        may_have(&self.parts.read(), id)
    }

    /// Keeps those whose documents the generation can have.
    pub fn retain<T>(&self, candidates: &mut Vec<T>, id: impl Fn(&T) -> KeyHash) {
        let parts = self.parts.read();
        candidates.retain(|candidate| may_have(&parts, id(candidate)));
    }
}

fn may_have(parts: &[FilterPart], id: KeyHash) -> bool {
    parts.iter().any(|part| filter::may_contain(&part.bits, id))
}

#[cfg(test)]
mod tests {
    use millrace_bucket::DocumentSortKey;
    use millrace_document::{DocumentId, Timestamp};

    use super::*;
    use crate::tail::row_key;

    fn id(number: u32) -> DocumentId {
        let group = ["g=ann", "n=1", ""][number as usize % 3];
        DocumentId::parse(&format!("id:n:mail:{group}:{number}")).expect("the test's id is one")
    }

    fn key(number: u32) -> Vec<u8> {
        row_key(&DocumentSortKey::new(&id(number)), Timestamp(u64::from(number) + 7)).to_vec()
    }

    fn hash(number: u32) -> KeyHash {
        KeyHash::of(id(number).as_str().as_bytes())
    }

    fn add(filter: &TailFilter, numbers: impl Iterator<Item = u32>) {
        let keys: Vec<Vec<u8>> = numbers.map(key).collect();
        filter.add(keys.iter().map(Vec::as_slice));
    }

    fn bytes(filter: &TailFilter) -> usize {
        filter.parts.read().iter().map(|part| part.bits.len()).sum()
    }

    #[test]
    fn a_filter_that_grows_has_all_of_its_ids_and_few_others() {
        const IDS: u32 = 100_000;
        let filter = TailFilter::default();
        assert!(!filter.may_have(hash(0)) && bytes(&filter) == 0);
        for first in (0..IDS).step_by(5_000) {
            let end = first + 5_000;
            add(&filter, first..end);
            let mut added: Vec<u32> =
                (0..end).filter(|number| number.is_multiple_of(11) || *number >= first).collect();
            let count = added.len();
            filter.retain(&mut added, |number| hash(*number));
            assert_eq!(added.len(), count, "none of the first {end} is missing");
            let mut others: Vec<u32> = (IDS..IDS + 5_000).collect();
            filter.retain(&mut others, |number| hash(*number));
            assert!(others.len() < 250, "{} of 5,000 others are in a filter of {end} ids", others.len());
            let bytes_max = filter::bytes_of(FIRST_IDS) + 5 * end as usize;
            assert!(bytes(&filter) <= bytes_max, "{} bytes for {end} ids", bytes(&filter));
        }
        assert!(filter.parts.read().len() > 2, "it has grown more than once");
    }

    #[test]
    fn versions_of_one_document_need_no_room() {
        let filter = TailFilter::default();
        add(&filter, (0..1_000).map(|number| number % 10));
        let room = filter.parts.read().iter().map(|part| part.room).collect::<Vec<_>>();
        assert_eq!(room, [FIRST_IDS - 10]);
    }
}
