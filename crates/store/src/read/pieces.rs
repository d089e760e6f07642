//! Division of a group's rows in the tail into chunks.

use millrace_column::CHUNK_DOCS;
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::read::found::TailKey;
use crate::tail::RowKey;

/// Logarithm to the base 4 of the approximate number of rows of the largest pieces by [`RowOrder::Age`].
const LEVELS: u32 = 4;

/// Property that the rows of a chunk share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// Adjacent keys: no chunk has a key below one of the previous chunk.
    Keys,
    /// Adjacent write times: a chunk stays as it is while new rows arrive.
    Age,
}

impl RowOrder {
    /// Divides the keys of a group's rows, given in order, into pieces: each becomes a chunk, and is in the
    /// order of keys.
    ///
    /// # Errors
    /// An invalid key.
    pub fn pieces(self, keys: &[TailKey]) -> Result<Vec<Vec<&TailKey>>, Error> {
        match self {
            RowOrder::Keys => Ok(keys.chunks(CHUNK_DOCS).map(|keys| keys.iter().collect()).collect()),
            RowOrder::Age => by_age(keys),
        }
    }
}

/// Divides keys by age. Some keys mark the end of a piece, each at a level by its hash: one key in 4 at the
/// first level or above, one in 16 at the second, and so on. An end holds until a later key has a higher
/// level. So the newest rows are in pieces of about 4, older ones in pieces of 16, 64 and at last 256: a
/// new row changes the last piece, and each row moves to a larger piece a few times in all. A replaced row
/// changes its own piece. A view finds all others ready.
fn by_age(keys: &[TailKey]) -> Result<Vec<Vec<&TailKey>>, Error> {
    let timed = keys.iter().map(|key| Ok((RowKey::parse(&key.key)?.timestamp, key)));
    let mut timed = timed.collect::<Result<Vec<_>, Error>>()?;
    timed.sort_unstable_by(|(a, one), (b, other)| (a, &one.key).cmp(&(b, &other.key)));
    let mut ends = vec![false; timed.len()];
    let mut highest = 1;
    for (end, (_, key)) in ends.iter_mut().zip(&timed).rev() {
        let level = level(&key.key);
        *end = level >= highest;
        highest = highest.max(level);
    }
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    for ((_, key), is_end) in timed.into_iter().zip(ends) {
        piece.push(key);
        if is_end || piece.len() == CHUNK_DOCS {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces.iter_mut().for_each(|piece| piece.sort_unstable_by_key(|key| slice_order(key)));
    Ok(pieces)
}

/// Position of a key among others of one slice. Where these are in order, it compares as the keys do, and
/// does not read the keys.
pub(super) fn slice_order(key: &TailKey) -> *const TailKey {
    std::ptr::from_ref(key)
}

/// Level up to which the row of this key marks the end of a piece; 0: it marks none.
pub(super) fn level(key: &[u8]) -> u32 {
    (xxh3_64(key).trailing_zeros() / 2).min(LEVELS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millrace_bucket::DocumentSortKey;
    use millrace_document::{DocumentId, Timestamp};

    use super::*;
    use crate::tail::row_key;

    fn key(number: u64, timestamp: u64) -> TailKey {
        let id = DocumentId::parse(&format!("id:n:mail:g=ann:{number}")).expect("the test's id is one");
        TailKey { key: row_key(&DocumentSortKey::new(&id), Timestamp(timestamp)), removed: false }
    }

    fn pieces_of(keys: &mut [TailKey]) -> Vec<Vec<Vec<u8>>> {
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        let pieces = by_age(keys).expect("they are keys");
        pieces.into_iter().map(|piece| piece.into_iter().map(|key| key.key.clone()).collect()).collect()
    }

    #[test]
    fn each_row_is_in_one_piece_and_most_are_in_large_ones() {
        for count in [0, 1, 100, 5000] {
            let mut keys: Vec<TailKey> = (0..count).map(|number| key(number, 1000 + number)).collect();
            let pieces = pieces_of(&mut keys);
            assert!(pieces.iter().all(|piece| piece.is_sorted() && piece.len() <= CHUNK_DOCS));
            assert!(pieces.len() <= count.min(80) as usize, "{count}: {}", pieces.len());
            let mut all: Vec<Vec<u8>> = pieces.into_iter().flatten().collect();
            all.sort();
            assert!(all.into_iter().eq(keys.into_iter().map(|key| key.key)), "{count}");
        }
    }

    #[test]
    fn a_new_row_changes_few_others() {
        const ROWS: u64 = 1500;
        let mut known: BTreeSet<Vec<Vec<u8>>> = BTreeSet::new();
        let mut remade = 0;
        for count in 1..=ROWS {
            let mut keys: Vec<TailKey> = (0..count).map(|number| key(number, 1000 + number)).collect();
            for piece in pieces_of(&mut keys) {
                let rows = piece.len() as u64;
                remade += if known.insert(piece) { rows } else { 0 };
            }
        }
        assert!(remade < 15 * ROWS, "{remade} rows were put into pieces");
    }

    #[test]
    fn what_is_written_leaves_most_pieces_as_they_were() {
        let mut keys: Vec<TailKey> = (0..5000).map(|number| key(number, 1000 + number)).collect();
        let before: BTreeSet<Vec<Vec<u8>>> = pieces_of(&mut keys).into_iter().collect();
        // One key is new, one is written again.
        keys.retain(|known| known.key != key(77, 1077).key);
        keys.extend([key(5000, 9000), key(77, 9001)]);
        let after: BTreeSet<Vec<Vec<u8>>> = pieces_of(&mut keys).into_iter().collect();
        let changed = after.difference(&before).count();
        assert!((1..=4).contains(&changed), "{changed} of {}", after.len());
    }
}
