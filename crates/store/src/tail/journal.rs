//! Tells a log that a crash cut short from one that is damaged.
//!
//! The embedded store takes whatever does not parse for the end of its log, and cuts it there: right after a crash, but wrong
//! after a bit has flipped, because acknowledged rows may follow. So the log is read before it is opened. Batches are made
//! durable one by one; hence at most the last can be incomplete. A log is damaged when after a batch that does not parse
//! comes one that does, or when the last batch was written to its end and still does not parse.
//!
//! A batch is `1, items u32, sequence u64`, then items `2, kind u8, compression u8, keyspace u64, key length u16, length u32,
//! stored length u32, key, value`, then `3, xxh3 of the items u64, "FJL\x03"`; numbers are little-endian. Zeros follow the last.

use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: &[u8; 4] = b"FJL\x03";
const ITEM_HEADER: usize = 21;
const PAGE: usize = 4096;

/// Checks the logs of a generation.
pub(crate) fn check_journals(directory: &Path) -> Result<(), Error> {
    let io = |path: &Path, error: std::io::Error| Error::Io {
        action: format!("read {}", path.display()),
        reason: error.to_string(),
    };
    for entry in fs::read_dir(directory).map_err(|error| io(directory, error))? {
        let path = entry.map_err(|error| io(directory, error))?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let bytes = fs::read(&path).map_err(|error| io(&path, error))?;
            check(&bytes).map_err(|(offset, reason)| Error::Corrupt {
                path,
                offset: offset as u64,
                reason: reason.to_owned(),
            })?;
        }
    }
    Ok(())
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
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if end <= at {
        return Ok(());
    }
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
