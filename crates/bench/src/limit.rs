//! Limits of the machine, with which figures are compared.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem::Finder;
use millrace_env::ThreadClass;
use rustix::fs::{Advice, fadvise};

use crate::Error;
use crate::measure::TimeSamples;

/// Reads memory once, as fast as one thread can; returns a sum, so that no read is optimized away.
pub fn read_memory(bytes: &[u8]) -> u64 {
    // Eight parallel sums: the loads, not the additions, determine the time.
    let mut sums = [0u64; 8];
    let (chunks, rest) = bytes.as_chunks::<64>();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    let rest = rest.iter().fold(0u64, |sum, byte| sum.wrapping_add(u64::from(*byte)));
    sums.into_iter().fold(rest, u64::wrapping_add)
}

/// Finds every occurrence of each word in a text; returns their number.
pub fn scan_words(text: &[u8], words: &[&str]) -> usize {
    words.iter().map(|word| Finder::new(word).find_iter(text).count()).sum()
}

/// Writes a file's dirty pages to the disk and drops it from the page cache. Pages that a process has mapped
/// stay.
///
/// # Errors
/// The file cannot be opened, or the system refuses.
pub fn drop_page_cache(path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::file(path))?;
    file.sync_all().map_err(Error::file(path))?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| Error::file(path)(error.into()))
}

/// Time of plain reads of these ranges of a file, whose pages are dropped from the cache before.
///
/// # Errors
/// The file cannot be read, or a range is past its end.
pub fn read_cold(path: &Path, ranges: &[Range<u64>]) -> Result<Duration, Error> {
    drop_page_cache(path)?;
    let file = File::open(path).map_err(Error::file(path))?;
    let largest = ranges.iter().map(|range| range.end.saturating_sub(range.start)).max().unwrap_or(0);
    let mut buffer = vec![0; usize::try_from(largest).map_err(Error::failed)?];
    let start = Instant::now();
    for range in ranges {
        // No larger than `largest`, which is in memory.
        let wanted = &mut buffer[..(range.end.saturating_sub(range.start)) as usize];
        file.read_exact_at(wanted, range.start).map_err(Error::file(path))?;
        black_box(wanted.first());
    }
    Ok(start.elapsed())
}

/// Appends `sizes` one after another to a new file in a directory, each followed by an fsync, on a thread of
/// the same class as that of the store; the file is removed afterwards.
///
/// # Errors
/// The file cannot be written.
pub fn append_durably(
    directory: &Path,
    sizes: impl Iterator<Item = usize> + Send,
) -> Result<TimeSamples, Error> {
    let appending = || {
        ThreadClass::Prompt.enter();
        append_all(directory, sizes)
    };
    std::thread::scope(|scope| {
        let failed = |_| Err(Error::failed("the thread that appends ended before its time"));
        scope.spawn(appending).join().unwrap_or_else(failed)
    })
}

/// Like [`append_durably`], but with `per_second` appends per second until it is over; an append's time
/// counts from when it was due.
///
/// # Errors
/// The file cannot be written.
pub fn append_when_due(
    directory: &Path,
    size: usize,
    per_second: f64,
    over: &AtomicBool,
) -> Result<TimeSamples, Error> {
    ThreadClass::Prompt.enter();
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(Error::file(directory))?;
    let mut samples = TimeSamples::new();
    let data = vec![0xa5; size];
    let began = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let due = began + Duration::from_secs_f64(samples.len() as f64 / per_second);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        file.write_all(&data).map_err(Error::file(directory))?;
        file.as_file().sync_data().map_err(Error::file(directory))?;
        samples.add(due.elapsed());
    }
    Ok(samples)
}

fn append_all(directory: &Path, sizes: impl Iterator<Item = usize>) -> Result<TimeSamples, Error> {
    // With a name: file systems skip the sync of a file without one.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(Error::file(directory))?;
    let mut samples = TimeSamples::new();
    let mut data = Vec::new();
    for size in sizes {
        data.resize(size, 0xa5);
        let start = Instant::now();
        file.write_all(&data).map_err(Error::file(directory))?;
        file.as_file().sync_data().map_err(Error::file(directory))?;
        samples.add(start.elapsed());
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read() {
        let mut bytes = vec![0u8; 1000];
        let empty = read_memory(&bytes);
        for at in [0, 63, 64, 512, 960, 999] {
            bytes[at] = 1;
            assert_ne!(read_memory(&bytes), empty, "byte {at}");
            bytes[at] = 0;
        }
    }

    #[test]
    fn words_are_counted() {
        assert_eq!(scan_words(b"a cat and a catalogue", &["cat", "and", "dog"]), 3);
    }

    #[test]
    fn files_are_read_and_written() {
        let directory = tempfile::tempdir().expect("there is a place for temporary files");
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 10_000]).expect("the file can be written");
        assert!(read_cold(&path, &[0..10, 5000..10_000]).is_ok());
        let error = read_cold(&path, &[0..10, 9000..20_000]).expect_err("the range is past the end");
        assert!(error.to_string().contains("file"), "{error}");
        let samples =
            append_durably(directory.path(), [10, 1000].into_iter()).expect("it can be appended to");
        assert_eq!(samples.len(), 2);
    }
}
