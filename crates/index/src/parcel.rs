//! Parcels, in which a copy moves, and the header that describes them.

use std::fmt;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::record::{read_number, write_number};
use crate::{Error, SliceRange};

/// Usual length of a parcel in bytes. Runs know the checksums of parcels of this length from when they were
/// written; for others, the files are read first.
pub const PARCEL_BYTES: u64 = 1 << 20;

/// Maximum length of a parcel in bytes.
const PARCEL_BYTES_MAX: u64 = 16 << 20;

/// Maximum length of a header in bytes: of 8 TB in parcels of the usual length.
const HEADER_BYTES_MAX: usize = 64 << 20;

/// First bytes of a header.
const MAGIC: &[u8; 8] = b"MRINDEXH";

/// Content of a copy that is offered to others, as of one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyHeader {
    /// Hash of the definition of the index.
    pub definition: u64,
    /// Time up to which the runs have every change, in microseconds since 1970; 0 if that is not known.
    pub complete_until: u64,
    /// True if all documents were taken in.
    pub built: bool,
    /// Documents that it may have.
    pub slice: SliceRange,
    /// Length in bytes of all parcels but the last one of each run.
    pub parcel_bytes: u64,
    /// Runs from the oldest to the newest.
    pub runs: Vec<ExportedRun>,
}

/// A run of a copy that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedRun {
    /// Length in bytes, at least 1.
    pub length: u64,
    /// The xxh3 of each of its parcels.
    pub checksums: Vec<u64>,
}

/// Position at which a parcel begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ParcelPosition {
    /// Number of the run in the header.
    pub run: u32,
    /// Offset in the run, in bytes.
    pub offset: u64,
}

impl fmt::Display for ParcelPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of run {}", self.offset, self.run)
    }
}

/// Some bytes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyParcel {
    /// Place of the first byte.
    pub position: ParcelPosition,
    /// Bytes from there on.
    pub bytes: Vec<u8>,
}

impl CopyHeader {
    /// Bytes of all parcels together.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }

    /// Place of the first parcel; `None` if there are no runs.
    pub fn first_position(&self) -> Option<ParcelPosition> {
        (!self.runs.is_empty()).then(ParcelPosition::default)
    }

    /// Place of the parcel after one; `None` at the end.
    pub fn position_after(&self, position: ParcelPosition) -> Option<ParcelPosition> {
        let run = self.runs.get(position.run as usize)?;
        let offset = position.offset.saturating_add(self.parcel_bytes);
        if offset < run.length {
            return Some(ParcelPosition { offset, ..position });
        }
        let next = position.run + 1;
        ((next as usize) < self.runs.len()).then_some(ParcelPosition { run: next, offset: 0 })
    }

    /// Length and checksum of the parcel at a position; `None` if none begins there.
    pub(crate) fn parcel_at(&self, position: ParcelPosition) -> Option<(u64, u64)> {
        let run = self.runs.get(position.run as usize)?;
        if !position.offset.is_multiple_of(self.parcel_bytes) {
            return None;
        }
        let number = usize::try_from(position.offset / self.parcel_bytes).ok()?;
        let checksum = *run.checksums.get(number)?;
        Some((self.parcel_bytes.min(run.length - position.offset), checksum))
    }

    /// The header as bytes, under a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.definition.to_le_bytes());
        let numbers = [self.complete_until, u64::from(self.built), self.parcel_bytes, self.runs.len() as u64];
        numbers.iter().for_each(|number| write_number(*number, &mut bytes));
        self.slice.write(&mut bytes);
        for run in &self.runs {
            write_number(run.length, &mut bytes);
            run.checksums.iter().for_each(|checksum| bytes.extend_from_slice(&checksum.to_le_bytes()));
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The bytes are damaged, or of something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        CopyHeader::read(bytes).ok_or(Error::DamagedTransfer { part: "header" })
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > HEADER_BYTES_MAX {
            return None;
        }
        let (definition, rest) = checked(bytes)?.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let rest = &mut &rest[..];
        let complete_until = read_number(rest)?;
        let built = match read_number(rest)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (parcel_bytes, count) = (read_number(rest)?, read_number(rest)?);
        if !(1..=PARCEL_BYTES_MAX).contains(&parcel_bytes) {
            return None;
        }
        let slice = SliceRange::read(rest)?;
        let mut runs = Vec::new();
        let mut sum = 0_u64;
        for _ in 0..u32::try_from(count).ok()? {
            let length = read_number(rest)?;
            sum = sum.checked_add(length)?;
            let parcels = usize::try_from(length.div_ceil(parcel_bytes)).ok()?;
            let (checksums, after) = rest.split_at_checked(parcels.checked_mul(8)?)?;
            *rest = after;
            let (checksums, _) = checksums.as_chunks::<8>();
            let checksums = checksums.iter().map(|checksum| u64::from_le_bytes(*checksum)).collect();
            if length == 0 {
                return None;
            }
            runs.push(ExportedRun { length, checksums });
        }
        let definition = u64::from_le_bytes(*definition);
        let header = CopyHeader { definition, complete_until, built, slice, parcel_bytes, runs };
        rest.is_empty().then_some(header)
    }
}

/// The bytes before a checksum that they have.
pub(crate) fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_last_chunk::<8>()?;
    (*checksum == xxh3_64(content).to_le_bytes()).then_some(content)
}

/// Checksums of the parcels of a file, made while its bytes go by.
pub(crate) struct ParcelSums {
    parcel_bytes: u64,
    hash: Xxh3,
    /// Bytes of the parcel that is not whole.
    filled: u64,
    sums: Vec<u64>,
}

impl ParcelSums {
    pub fn new(parcel_bytes: u64) -> Self {
        ParcelSums { parcel_bytes, hash: Xxh3::new(), filled: 0, sums: Vec::new() }
    }

    /// Takes the next bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let missing = (self.parcel_bytes - self.filled).min(bytes.len() as u64);
            // At most the length of the bytes.
            let (now, rest) = bytes.split_at(missing as usize);
            self.hash.update(now);
            self.filled += missing;
            if self.filled == self.parcel_bytes {
                self.end_parcel();
            }
            bytes = rest;
        }
    }

    fn end_parcel(&mut self) {
        self.sums.push(self.hash.digest());
        self.hash.reset();
        self.filled = 0;
    }

    /// Checksums of all parcels.
    pub fn finish(mut self) -> Vec<u64> {
        if self.filled > 0 {
            self.end_parcel();
        }
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_the_pieces() {
        let bytes: Vec<u8> = (0..2_000_u32).map(|at| ((at * at) >> 3) as u8).collect();
        for parcel_bytes in [1, 7, 500, 1999, 2000, 2001] {
            let expected: Vec<u64> = bytes.chunks(parcel_bytes).map(xxh3_64).collect();
            for piece in [1, 3, 500, 2000] {
                let mut sums = ParcelSums::new(parcel_bytes as u64);
                bytes.chunks(piece).for_each(|piece| sums.add(piece));
                assert_eq!(sums.finish(), expected, "parcels of {parcel_bytes} by {piece}");
            }
        }
    }

    fn header() -> CopyHeader {
        let run = |length: u64| ExportedRun { length, checksums: (0..length.div_ceil(10)).collect() };
        CopyHeader {
            definition: 9,
            complete_until: 1 << 50,
            built: true,
            slice: SliceRange { low: b"a".to_vec(), high: Some(b"b".to_vec()) },
            parcel_bytes: 10,
            runs: [25, 1, 10].map(run).to_vec(),
        }
    }

    #[test]
    fn positions_follow_each_other() {
        let header = header();
        let mut positions = Vec::new();
        let mut next = header.first_position();
        while let Some(position) = next {
            let (length, _) = header.parcel_at(position).expect("a parcel begins there");
            positions.push((position.run, position.offset, length));
            next = header.position_after(position);
        }
        assert_eq!(positions, [(0, 0, 10), (0, 10, 10), (0, 20, 5), (1, 0, 1), (2, 0, 10)]);
        for (run, offset) in [(0, 1), (0, 30), (1, 10), (3, 0)] {
            assert_eq!(header.parcel_at(ParcelPosition { run, offset }), None, "{run} {offset}");
        }
    }

    #[test]
    fn every_damage_of_a_header_is_found() {
        let header = header().encode();
        assert_eq!(CopyHeader::decode(&header).expect("a header").encode(), header);
        for at in 0..header.len() {
            assert!(CopyHeader::decode(&header[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = header.clone();
                flipped[at] ^= 1 << bit;
                assert!(CopyHeader::decode(&flipped).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
