//! A part of a segment as a segment of its own, which is written while it is read: columns are copied as they are, with the checksums that
//! they have, and only what says where they are is made anew. No document is parsed, and the same bytes come each time, from any offset on.

use std::ops::Range;
use std::sync::Arc;

use millrace_env::AppendFile;

use crate::chunk::{Place, RowLayout};
use crate::directory::{Directory, write_end};
use crate::format::{BLOCK, header};
use crate::ranges::span;
use crate::{ChunkInfo, Error, GroupEntry, Segment};

/// A segment, or what it has of some locations.
pub struct Cut {
    segment: Arc<Segment>,
    pieces: Vec<Piece>,
    bytes: u64,
    shares: Vec<(u64, u64)>,
}

/// What follows in the file that is written.
enum Piece {
    /// Bytes of the segment's file.
    Copied { from: u64, length: u32 },
    /// Others.
    Made(Vec<u8>),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Copied { length, .. } => u64::from(*length),
            Piece::Made(bytes) => bytes.len() as u64,
        }
    }

    /// What there is from one of its bytes on.
    fn rest(&self, skipped: u64) -> Rest<'_> {
        match self {
            Piece::Copied { from, length } => Rest::Copied(from + skipped..from + u64::from(*length)),
            Piece::Made(bytes) => Rest::Made(&bytes[skipped as usize..]),
        }
    }
}

/// What is still to be written of a piece.
#[derive(Debug, PartialEq, Eq)]
enum Rest<'p> {
    /// Bytes of the segment's file.
    Copied(Range<u64>),
    Made(&'p [u8]),
}

impl Rest<'_> {
    fn length(&self) -> usize {
        match self {
            // As long as one piece at most, or as what is gathered.
            Rest::Copied(range) => (range.end - range.start) as usize,
            Rest::Made(bytes) => bytes.len(),
        }
    }
}

/// So many bytes are gathered before they are written, and are read at a time where they lie together.
const GATHERED_BYTES: usize = 1 << 20;
/// So many are announced before they are read: a disk is fastest with several reads at once.
const AHEAD_BYTES: usize = 4 << 20;

impl Cut {
    /// The whole file. `locations`, in order, are those that [`Cut::shares`] counts for.
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn whole(segment: &Arc<Segment>, locations: &[(u64, u64)]) -> Result<Self, Error> {
        let mut shares = Shares::new(locations);
        let mut places = Vec::new();
        for (number, section) in segment.sections().iter().enumerate() {
            visit_chunks(segment, number, (0, u64::MAX), |chunk, row| {
                let before = places.len();
                places.extend(places_of(row, section.columns.len()).filter(|place| place.length > 0));
                shares.add(&chunk, &places[before..]);
            })?;
        }
        places.sort_unstable_by_key(|place| place.offset);
        let mut pieces = Vec::with_capacity(places.len() + 8);
        let mut at = 0;
        for place in &places {
            let length = length_of(segment, place)?;
            if place.offset < at {
                return Err(segment.corrupt(place.offset, "columns do not lie one after another in the file"));
            }
            between(at..place.offset, &mut pieces);
            pieces.push(Piece::Copied { from: place.offset, length });
            at = place.offset + u64::from(length);
        }
        between(at..segment.bytes(), &mut pieces);
        Ok(Cut { segment: Arc::clone(segment), pieces, bytes: segment.bytes(), shares: shares.counted })
    }

    /// What there is of locations ([reversed](millrace_document::Location::reversed)) in these ranges, both ends included, which are in order and
    /// do not reach into each other. Documents that share a chunk with such are in it as well: those without a group, and those of a group of
    /// which a range has only a part. `None`: there is nothing.
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn of(segment: &Arc<Segment>, locations: &[(u64, u64)]) -> Result<Option<Self>, Error> {
        let mut shares = Shares::new(locations);
        let mut pieces = vec![Piece::Made(header().to_vec())];
        let mut offset = BLOCK as u64;
        let mut sections = Vec::new();
        for number in 0..segment.sections().len() {
            let mut directory = select(segment, number, &mut shares)?;
            if directory.section.chunks == 0 {
                continue;
            }
            move_together(segment, &mut directory.places, &mut offset, &mut pieces)?;
            let mut made = Made::default();
            sections.push(directory.write(&mut made, &mut offset)?);
            pieces.push(Piece::Made(made.0));
        }
        if sections.is_empty() {
            return Ok(None);
        }
        let mut made = Made::default();
        write_end(&sections, &mut made, &mut offset)?;
        pieces.push(Piece::Made(made.0));
        Ok(Some(Cut { segment: Arc::clone(segment), pieces, bytes: offset, shares: shares.counted }))
    }

    /// Bytes of the file that is written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes and versions of documents of each of the ranges of locations, in their order. A chunk counts for the one of its first document.
    pub fn shares(&self) -> &[(u64, u64)] {
        &self.shares
    }

    /// How long the parts of the file are, one after another: for [`Checksums`](crate::Checksums).
    pub fn outline(&self) -> Vec<u32> {
        self.pieces.iter().map(|piece| u32::try_from(piece.length()).unwrap_or(u32::MAX)).collect()
    }

    /// Writes the file from an offset on.
    ///
    /// # Errors
    /// The segment cannot be read; `out` cannot be written.
    pub fn write_to(&self, from: u64, out: &mut dyn AppendFile) -> Result<(), Error> {
        let spans = together(self.rest(from));
        let mut gathered = Vec::with_capacity(GATHERED_BYTES);
        let (mut announced, mut ahead) = (0, 0);
        for span in &spans {
            while ahead < AHEAD_BYTES
                && let Some(next) = spans.get(announced)
            {
                if let Rest::Copied(range) = next {
                    self.segment.will_need(range.start, range.end - range.start);
                }
                ahead += next.length();
                announced += 1;
            }
            ahead -= span.length();
            if gathered.len() + span.length() > GATHERED_BYTES {
                out.append(&gathered)?;
                gathered.clear();
            }
            match span {
                Rest::Copied(range) => {
                    self.segment.read_onto(range.start, span.length(), &mut gathered)?;
                }
                Rest::Made(bytes) => gathered.extend_from_slice(bytes),
            }
        }
        Ok(out.append(&gathered)?)
    }

    /// What is written from an offset on.
    fn rest(&self, from: u64) -> impl Iterator<Item = Rest<'_>> {
        let mut begin = 0;
        self.pieces.iter().filter_map(move |piece| {
            let skipped = from.saturating_sub(begin).min(piece.length());
            begin += piece.length();
            (skipped < piece.length()).then(|| piece.rest(skipped))
        })
    }
}

/// The same with what lies together in the segment's file joined, but not longer than what is gathered.
fn together<'p>(all: impl Iterator<Item = Rest<'p>>) -> Vec<Rest<'p>> {
    const MAX: u64 = GATHERED_BYTES as u64;
    let mut joined: Vec<Rest<'p>> = Vec::new();
    for rest in all {
        let Rest::Copied(mut range) = rest else {
            joined.push(rest);
            continue;
        };
        if let Some(Rest::Copied(last)) = joined.last_mut()
            && last.end == range.start
        {
            last.end = range.end.min(last.start + MAX);
            range.start = last.end;
        }
        while !range.is_empty() {
            let end = range.end.min(range.start + MAX);
            joined.push(Rest::Copied(range.start..end));
            range.start = end;
        }
    }
    joined
}

/// Whether a segment can have documents between two reversed locations, both included: where this is `false`, it has none.
///
/// # Errors
/// The directory cannot be read or is damaged.
pub fn reaches(segment: &Segment, locations: (u64, u64)) -> Result<bool, Error> {
    let (first, last) = locations;
    let mut found = false;
    for number in 0..segment.sections().len() {
        visit_chunks(segment, number, locations, |chunk, _| {
            found |= chunk.locations.0 <= last && first <= chunk.locations.1;
        })?;
    }
    Ok(found)
}

/// A chunk, and where its documents can be.
pub(crate) struct Chunk<'a> {
    entry: &'a GroupEntry,
    /// Which of its section's.
    pub(crate) number: u32,
    pub(crate) info: ChunkInfo,
    pub(crate) locations: (u64, u64),
}

/// Calls `visit` with the chunks of a type that can have documents between two locations, and their rows in the directory.
pub(crate) fn visit_chunks(
    segment: &Segment,
    number: usize,
    (first, last): (u64, u64),
    mut visit: impl FnMut(Chunk<'_>, &[u8]),
) -> Result<(), Error> {
    let mut entries = Vec::new();
    let begins_inside = |entry: &GroupEntry| span(entry.location).0 <= last;
    segment.groups(number, (first >> 32) as u32, |entry| {
        let inside = begins_inside(&entry);
        entries.push(entry);
        inside
    })?;
    for (place, entry) in entries.iter().enumerate().filter(|(_, entry)| begins_inside(entry)) {
        // Documents without a group go on until a group begins.
        let end = match entries.get(place + 1) {
            _ if !entry.group.is_empty() => span(entry.location).1,
            Some(next) => span(next.location).1,
            None => u64::MAX,
        };
        let chunks = entry.first_chunk..entry.first_chunk.saturating_add(entry.chunks);
        let infos = segment.chunks(number, chunks.clone())?;
        let mut at = 0;
        segment.rows(number, chunks, |row| {
            let (number, info) = (entry.first_chunk + at as u32, infos[at]);
            at += 1;
            let locations = (info.first_location, infos.get(at).map_or(end, |next| next.first_location));
            visit(Chunk { entry, number, info, locations }, row);
        })?;
    }
    Ok(())
}

/// The chunks of a type with documents in the ranges that are counted for. Their places are still those that they have in the segment.
fn select(segment: &Segment, number: usize, shares: &mut Shares<'_>) -> Result<Directory, Error> {
    let section = &segment.sections()[number];
    let mut directory = Directory::new(&section.document_type, section.columns.clone());
    let (Some((first, _)), Some((_, last))) = (shares.locations.first(), shares.locations.last()) else {
        return Ok(directory);
    };
    visit_chunks(segment, number, (*first, *last), |chunk, row| {
        let before = directory.places.len();
        directory.places.extend(places_of(row, section.columns.len()));
        if shares.add(&chunk, &directory.places[before..]) {
            let location = (chunk.info.first_location >> 32) as u32;
            let location = if chunk.entry.group.is_empty() { location } else { chunk.entry.location };
            directory.add(location, &chunk.entry.group, chunk.info);
        } else {
            directory.places.truncate(before);
        }
    })?;
    Ok(directory)
}

/// The places that columns get when they follow each other, in the order in which they lie now, from an offset on.
fn move_together(
    segment: &Segment,
    places: &mut [Place],
    offset: &mut u64,
    pieces: &mut Vec<Piece>,
) -> Result<(), Error> {
    let mut in_order: Vec<&mut Place> = places.iter_mut().filter(|place| place.length > 0).collect();
    in_order.sort_unstable_by_key(|place| place.offset);
    pieces.reserve(in_order.len() + 1);
    for place in in_order {
        let length = length_of(segment, place)?;
        pieces.push(Piece::Copied { from: place.offset, length });
        place.offset = *offset;
        *offset += u64::from(length);
    }
    Ok(())
}

pub(crate) fn places_of(row: &[u8], columns: usize) -> impl Iterator<Item = Place> {
    (0..columns).map(|column| RowLayout::place(row, column))
}

/// Bytes of a column in the file, which has so many.
fn length_of(segment: &Segment, place: &Place) -> Result<u32, Error> {
    let inside = place.offset.checked_add(place.padded()).is_some_and(|end| end <= segment.bytes());
    match u32::try_from(place.padded()) {
        Ok(length) if inside => Ok(length),
        _ => Err(segment.corrupt(place.offset, "a column lies past the end of the file")),
    }
}

/// Pieces for what is no column.
fn between(range: Range<u64>, pieces: &mut Vec<Piece>) {
    let mut from = range.start;
    while from < range.end {
        let length = (range.end - from).min(GATHERED_BYTES as u64) as u32;
        pieces.push(Piece::Copied { from, length });
        from += u64::from(length);
    }
}

/// Counts what ranges of locations have.
struct Shares<'a> {
    locations: &'a [(u64, u64)],
    counted: Vec<(u64, u64)>,
}

impl<'a> Shares<'a> {
    fn new(locations: &'a [(u64, u64)]) -> Self {
        Shares { locations, counted: vec![(0, 0); locations.len()] }
    }

    /// Counts a chunk for the first range that it can have documents in, and notes with the others that they have something. Returns whether
    /// there is such a range.
    fn add(&mut self, chunk: &Chunk<'_>, places: &[Place]) -> bool {
        let (first, last) = chunk.locations;
        let begin = self.locations.partition_point(|(_, end)| *end < first);
        let reached = self.locations[begin..].iter().take_while(|(begin, _)| *begin <= last).count();
        for (bytes, _) in &mut self.counted[begin..begin + reached] {
            *bytes += 1;
        }
        if reached > 0 {
            let (bytes, documents) = &mut self.counted[begin];
            *bytes += places.iter().map(Place::padded).sum::<u64>();
            *documents += u64::from(chunk.info.documents);
        }
        reached > 0
    }
}

/// Bytes that are written into memory.
#[derive(Default)]
struct Made(Vec<u8>);

impl AppendFile for Made {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Rest::{Copied, Made};
    use super::{GATHERED_BYTES, together};

    #[test]
    fn what_lies_together_is_read_together_but_not_too_much() {
        const M: u64 = GATHERED_BYTES as u64;
        for (pieces, expected) in [
            (vec![], vec![]),
            (vec![Copied(10..20), Copied(20..30), Copied(31..40)], vec![Copied(10..30), Copied(31..40)]),
            // What comes later in the file that is written can lie before.
            (vec![Copied(20..30), Copied(10..20)], vec![Copied(20..30), Copied(10..20)]),
            (vec![Copied(0..9), Made(b"a"), Copied(9..10)], vec![Copied(0..9), Made(b"a"), Copied(9..10)]),
            (vec![Copied(5..M + 8)], vec![Copied(5..M + 5), Copied(M + 5..M + 8)]),
            (vec![Copied(0..M), Copied(M..M + 9)], vec![Copied(0..M), Copied(M..M + 9)]),
            (vec![Copied(0..M - 9), Copied(M - 9..M + 9)], vec![Copied(0..M), Copied(M..M + 9)]),
        ] {
            let joined = together(pieces.into_iter());
            assert_eq!(joined, expected);
        }
    }
}
