//! The machine's disk, with a record of every read.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_env::{AppendFile, Disk, ReadFile, RealDisk};
use parking_lot::Mutex;

/// A disk that records the ranges of files that are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadRecorder {
    reads: Arc<Mutex<Vec<Read>>>,
}

/// Range of a file that was read.
type Read = (PathBuf, Range<u64>);

impl ReadRecorder {
    /// Reads since the last call: file by file, in order, adjacent ones joined.
    pub fn take(&self) -> Vec<(PathBuf, Vec<Range<u64>>)> {
        let mut reads = std::mem::take(&mut *self.reads.lock());
        reads.sort_unstable_by(|(a, one), (b, other)| (a, one.start).cmp(&(b, other.start)));
        let mut files: Vec<(PathBuf, Vec<Range<u64>>)> = Vec::new();
        for (path, range) in reads {
            match files.last_mut() {
                Some((of, ranges)) if *of == path => match ranges.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => ranges.push(range),
                },
                _ => files.push((path, vec![range])),
            }
        }
        files
    }
}

impl Disk for ReadRecorder {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        RealDisk.create(path)
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        RealDisk.reopen(path, length)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let (file, path) = (RealDisk.open(path)?, path.to_owned());
        Ok(Arc::new(RecordedFile { file, path, recorder: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealDisk.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        RealDisk.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        RealDisk.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        RealDisk.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        RealDisk.total_space(path)
    }
}

#[derive(Debug)]
struct RecordedFile {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    recorder: ReadRecorder,
}

impl ReadFile for RecordedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn will_need(&self, offset: u64, length: u64) {
        self.file.will_need(offset, length);
    }

    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()> {
        self.note(offset, buffers.iter().map(|buffer| buffer.len() as u64).sum());
        self.file.read_at(offset, buffers)
    }

    fn read_onto(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.note(offset, length as u64);
        self.file.read_onto(offset, length, bytes)
    }
}

impl RecordedFile {
    fn note(&self, offset: u64, bytes: u64) {
        let mut reads = self.recorder.reads.lock();
        reads.push((self.path.clone(), offset..offset + bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_read() {
        let recorder = ReadRecorder::default();
        let note = |path: &str, range: Range<u64>| {
            recorder.reads.lock().push((path.into(), range));
        };
        note("b", 10..20);
        note("b", 30..31);
        note("a", 5..10);
        note("a", 0..5);
        note("a", 11..12);
        let taken = recorder.take();
        let taken: Vec<(&str, &[Range<u64>])> =
            taken.iter().map(|(path, ranges)| (path.to_str().unwrap_or_default(), &ranges[..])).collect();
        assert_eq!(taken, [("a", &[0..10, 11..12][..]), ("b", &[10..20, 30..31])]);
        assert!(recorder.take().is_empty());
    }
}
