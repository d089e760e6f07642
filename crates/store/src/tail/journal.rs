//! Tells a log that a crash cut short from one that is damaged.
//!
//! The embedded store takes whatever does not parse for the end of its log, and cuts it there: right after a crash, but wrong
//! after a bit has flipped, because acknowledged rows may follow. So the log is read before it is opened. Batches are made
//! durable one by one; hence at most the last can be incomplete. A log is damaged when after a batch that does not parse
//! comes one that does, or when the last batch was written to its end and still does not parse.
//!
//! A batch is `1, items u32, sequence u64`, then items `2, kind u8, compression u8, keyspace u64, key length u16, length u32,
//! stored length u32, key, value`, then `3, xxh3 of the items u64, "FJL\x03"`; numbers are little-endian. Zeros follow the last.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: &[u8; 4] = b"FJL\x03";
const ITEM_HEADER: usize = 21;
const PAGE: usize = 4096;
/// Zeros at the end of a log are looked through in pieces of so much.
const PIECE: usize = 256 << 10;

/// Checks the logs of a generation.
pub(crate) fn check_journals(directory: &Path) -> Result<(), Error> {
    let failed = |path: &Path, error: io::Error| Error::Io {
        action: format!("read {}", path.display()),
        reason: error.to_string(),
    };
    for entry in fs::read_dir(directory).map_err(|error| failed(directory, error))? {
        let path = entry.map_err(|error| failed(directory, error))?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let bytes = read_written(&path).map_err(|error| failed(&path, error))?;
            check(&bytes).map_err(|(offset, reason)| Error::Corrupt {
                path,
                offset: offset as u64,
                reason: reason.to_owned(),
            })?;
        }
    }
    Ok(())
}

/// The bytes of a file up to its last one that is not zero: logs are made long at once, as holes or as zeros, which need not be in memory.
fn read_written(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut length = 0;
    loop {
        match seek(&file, SeekFrom::Data(length)) {
            Ok(data) => length = seek(&file, SeekFrom::Hole(data))?,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that does not know holes.
            Err(_) => {
                length = file.metadata()?.len();
                break;
            }
        }
    }
    let mut piece = vec![0; PIECE];
    while length > 0 {
        let from = length.saturating_sub(PIECE as u64);
        let piece = &mut piece[..(length - from) as usize];
        file.read_exact_at(piece, from)?;
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            length = from + last as u64 + 1;
            break;
        }
        length = from;
    }
    file.rewind()?;
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where the damage is, and what it is.
fn check(bytes: &[u8]) -> Result<(), (usize, &'static str)> {
    let mut at = 0;
    let mut sequence = None;
    while let Some((next, number)) = batch(bytes, at) {
        if sequence.is_some_and(|before| number <= before) {
            return Err((at, "batches of the log are out of order"));
        }
        sequence = Some(number);
        at = next;
    }
    // Zeros follow the last batch.
    let Some(last) = bytes[at..].iter().rposition(|byte| *byte != 0) else { return Ok(()) };
    let end = at + last + 1;
    // What is left does not parse. Torn, or damaged?
    let left = &bytes[at..end];
    if (1..left.len()).any(|skip| left[skip] == START && batch(left, skip).is_some()) {
        return Err((at, "a batch of the log does not fit its checksum, and batches follow it"));
    }
    let page_is_missing = (at.next_multiple_of(PAGE)..end)
        .step_by(PAGE)
        .any(|page| bytes[page..end.min(page + PAGE)].iter().all(|byte| *byte == 0));
    if ends_like_a_batch(left) && !page_is_missing {
        return Err((at, "the last batch of the log was written to its end, but does not fit its checksum"));
    }
    Ok(())
}

/// Whether the bytes end as a batch does, but for one flipped bit.
fn ends_like_a_batch(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<4>() else { return false };
    (u32::from_le_bytes(*last) ^ u32::from_le_bytes(*MAGIC)).count_ones() <= 1
}

/// The whole batch at `at`: where it ends, and its sequence number.
fn batch(bytes: &[u8], at: usize) -> Option<(usize, u64)> {
    let header = bytes.get(at..at + 13)?;
    if header[0] != START {
        return None;
    }
    let items = u32::from_le_bytes(header[1..5].try_into().ok()?);
    let sequence = u64::from_le_bytes(header[5..].try_into().ok()?);
    let first = at + 13;
    let mut next = first;
    for _ in 0..items {
        let header = bytes.get(next..next + ITEM_HEADER)?;
        if header[0] != ITEM {
            return None;
        }
        let key = u16::from_le_bytes(header[11..13].try_into().ok()?) as usize;
        let value = u32::from_le_bytes(header[17..21].try_into().ok()?) as usize;
        next = next.checked_add(ITEM_HEADER + key + value)?;
    }
    let items = bytes.get(first..next)?;
    let end = bytes.get(next..next + 13)?;
    let checksum = u64::from_le_bytes(end[1..9].try_into().ok()?);
    (end[0] == END && &end[9..] == MAGIC && checksum == xxh3_64(items)).then_some((next + 13, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_batch(out: &mut Vec<u8>, sequence: u64, value: &[u8]) {
        out.push(START);
        out.extend(1u32.to_le_bytes());
        out.extend(sequence.to_le_bytes());
        let mut item = vec![ITEM, 0, 0];
        item.extend(1u64.to_le_bytes());
        item.extend(3u16.to_le_bytes());
        item.extend((value.len() as u32).to_le_bytes());
        item.extend((value.len() as u32).to_le_bytes());
        item.extend(b"key");
        item.extend(value);
        out.extend(&item);
        out.push(END);
        out.extend(xxh3_64(&item).to_le_bytes());
        out.extend(MAGIC);
    }

    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        (1..=3).for_each(|sequence| write_batch(&mut log, sequence, &[sequence as u8; 9000]));
        log
    }

    #[test]
    fn a_log_cut_anywhere_is_torn_and_not_damaged() {
        let whole = log();
        for cut in (1..9000).step_by(37).chain(1..60) {
            let mut torn = whole[..whole.len() - cut].to_vec();
            torn.extend([0; 5000]);
            assert_eq!(check(&torn), Ok(()), "cut by {cut}");
        }
    }

    #[test]
    fn a_page_that_never_came_to_the_disk_is_torn_and_not_damaged() {
        let mut torn = log();
        let page = (torn.len() / 3 * 2).next_multiple_of(PAGE);
        assert!(page + PAGE < torn.len(), "the page lies inside the last batch");
        torn[page..page + PAGE].fill(0);
        assert_eq!(check(&torn), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_damage() {
        let whole = log();
        for at in 0..whole.len() {
            // Of a batch's sequence number only the order is told.
            let in_batch = at % (whole.len() / 3);
            if (5..13).contains(&in_batch) || (300..8700).contains(&in_batch) && at % 97 != 0 {
                continue;
            }
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            damaged.extend([0; 100]);
            assert!(check(&damaged).is_err(), "byte {at}");
        }
    }
}
