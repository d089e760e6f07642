//! Division of a group's rows in the tail into chunks.

use millrace_column::CHUNK_DOCS;
use millrace_document::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use crate::tail::TailVersion;

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
    /// Divides a group's rows, given in order, into pieces: each becomes a chunk, and is in the order of
    /// keys.
    pub fn pieces(self, rows: &[TailVersion]) -> Vec<Vec<&TailVersion>> {
        match self {
            RowOrder::Keys => rows.chunks(CHUNK_DOCS).map(|rows| rows.iter().collect()).collect(),
            RowOrder::Age => by_age(rows),
        }
    }
}

/// Divides rows by age. Some keys mark the end of a piece, each at a level by its hash: one key in 4 at the
/// first level or above, one in 16 at the second, and so on. An end holds until a later key has a higher
/// level. So the newest rows are in pieces of about 4, older ones in pieces of 16, 64 and finally 256. A new
/// row changes the last piece, and each row moves to a larger piece a few times in all. A replaced row
/// changes its own piece. A view finds all others ready.
fn by_age(rows: &[TailVersion]) -> Vec<Vec<&TailVersion>> {
    let mut by_time: Vec<(Timestamp, &TailVersion)> = rows.iter().map(|row| (row.timestamp, row)).collect();
    by_time.sort_unstable_by_key(|(timestamp, row)| (*timestamp, slice_order(row)));
    let mut ends = vec![false; by_time.len()];
    let mut highest = 1;
    for (end, (_, row)) in ends.iter_mut().zip(&by_time).rev() {
        let level = level(row.key());
        *end = level >= highest;
        highest = highest.max(level);
    }
    let (mut pieces, mut piece) = (Vec::new(), Vec::new());
    for ((_, row), is_end) in by_time.into_iter().zip(ends) {
        piece.push(row);
        if is_end || piece.len() == CHUNK_DOCS {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces.iter_mut().for_each(|piece| piece.sort_unstable_by_key(|row| slice_order(row)));
    pieces
}

/// Position of a row among others of one slice. Where these are in order, it compares as the keys do, and
/// does not read the keys.
fn slice_order(row: &TailVersion) -> *const TailVersion {
    std::ptr::from_ref(row)
}

/// Level up to which the row of this key marks the end of a piece; 0: it marks none.
pub(super) fn level(key: &[u8]) -> u32 {
    (xxh3_64(key).trailing_zeros() / 2).min(LEVELS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use millrace_bucket::DocumentSortKey;
    use millrace_document::DocumentId;

    use super::*;
    use crate::tail::{SharedRow, encode_removed, row_key};

    fn row(number: u64, timestamp: u64) -> TailVersion {
        let id = DocumentId::parse(&format!("id:n:mail:g=ann:{number}")).expect("the test's id is one");
        let timestamp = Timestamp(timestamp);
        let key = row_key(&DocumentSortKey::new(&id), timestamp);
        TailVersion::new(SharedRow::new(key, encode_removed()), timestamp)
    }

    fn pieces_of(rows: &mut [TailVersion]) -> Vec<Vec<Vec<u8>>> {
        rows.sort_by(|a, b| a.key().cmp(b.key()));
        let pieces = by_age(rows);
        pieces.into_iter().map(|piece| piece.into_iter().map(|row| row.key().to_vec()).collect()).collect()
    }

    #[test]
    fn each_row_is_in_one_piece_and_most_are_in_large_ones() {
        for count in [0, 1, 100, 5000] {
            let mut rows: Vec<TailVersion> = (0..count).map(|number| row(number, 1000 + number)).collect();
            let pieces = pieces_of(&mut rows);
            assert!(pieces.iter().all(|piece| piece.is_sorted() && piece.len() <= CHUNK_DOCS));
            assert!(pieces.len() <= count.min(80) as usize, "{count}: {}", pieces.len());
            let mut all: Vec<Vec<u8>> = pieces.into_iter().flatten().collect();
            all.sort();
            assert!(all.into_iter().eq(rows.iter().map(|row| row.key().to_vec())), "{count}");
        }
    }

    #[test]
    fn a_new_row_changes_few_others() {
        const ROWS: u64 = 1500;
        let mut known: BTreeSet<Vec<Vec<u8>>> = BTreeSet::new();
        let mut remade = 0;
        for count in 1..=ROWS {
            let mut rows: Vec<TailVersion> = (0..count).map(|number| row(number, 1000 + number)).collect();
            for piece in pieces_of(&mut rows) {
                let rows = piece.len() as u64;
                remade += if known.insert(piece) { rows } else { 0 };
            }
        }
        assert!(remade < 15 * ROWS, "{remade} rows were put into pieces");
    }

    #[test]
    fn what_is_written_leaves_most_pieces_as_they_were() {
        let mut rows: Vec<TailVersion> = (0..5000).map(|number| row(number, 1000 + number)).collect();
        let before: BTreeSet<Vec<Vec<u8>>> = pieces_of(&mut rows).into_iter().collect();
        // One row is new, one is written again.
        rows.retain(|known| *known != row(77, 1077));
        rows.extend([row(5000, 9000), row(77, 9001)]);
        let after: BTreeSet<Vec<Vec<u8>>> = pieces_of(&mut rows).into_iter().collect();
        let changed = after.difference(&before).count();
        assert!((1..=4).contains(&changed), "{changed} of {}", after.len());
    }
}
