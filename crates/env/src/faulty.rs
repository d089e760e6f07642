use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{AppendFile, Disk, ReadFile};

/// A fault of a [`FaultyDisk`], in force until [`FaultyDisk::heal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskFault {
    /// Syncs of files and directories fail with an I/O error.
    FailSync,
    /// The disk is full after this many more bytes, which are also its free space.
    Full {
        /// Remaining bytes.
        remaining: u64,
    },
    /// Every write stops after half of its bytes, with an error.
    ShortWrite,
    /// The next reads of files fail with an I/O error.
    FailReads {
        /// Number of them.
        count: u64,
    },
    /// Reads of files with this suffix find one bit flipped.
    FlipBit {
        /// Suffix of the file's name.
        name_ends: String,
        /// Offset of the byte in the file.
        offset: u64,
        /// Number of the bit, 0 to 7.
        bit: u8,
    },
}

/// A disk over another that fails on command. Clones share the faults.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    faults: Arc<PendingFaults>,
}

#[derive(Debug, Default)]
struct PendingFaults {
    fail_sync: AtomicBool,
    short_write: AtomicBool,
    /// Number of reads that fail.
    failing_reads: AtomicU64,
    /// `u64::MAX`: no limit.
    remaining: AtomicU64,
    flip: Mutex<Option<(String, u64, u8)>>,
}

impl FaultyDisk {
    /// Creates a disk without faults.
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        let faults =
            Arc::new(PendingFaults { remaining: AtomicU64::new(u64::MAX), ..PendingFaults::default() });
        FaultyDisk { inner, faults }
    }

    /// Adds a fault from now on.
    pub fn inject(&self, fault: DiskFault) {
        match fault {
            DiskFault::FailSync => self.faults.fail_sync.store(true, Ordering::SeqCst),
            DiskFault::Full { remaining } => self.faults.remaining.store(remaining, Ordering::SeqCst),
            DiskFault::ShortWrite => self.faults.short_write.store(true, Ordering::SeqCst),
            DiskFault::FailReads { count } => self.faults.failing_reads.store(count, Ordering::SeqCst),
            DiskFault::FlipBit { name_ends, offset, bit } => *self.flip() = Some((name_ends, offset, bit)),
        }
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.faults.fail_sync.store(false, Ordering::SeqCst);
        self.faults.short_write.store(false, Ordering::SeqCst);
        self.faults.failing_reads.store(0, Ordering::SeqCst);
        self.faults.remaining.store(u64::MAX, Ordering::SeqCst);
        *self.flip() = None;
    }

    fn flip(&self) -> parking_lot::MutexGuard<'_, Option<(String, u64, u8)>> {
        self.faults.flip.lock()
    }

    fn sync_fails(&self) -> io::Result<()> {
        if self.faults.fail_sync.load(Ordering::SeqCst) {
            return Err(io::Error::other("injected: the sync failed"));
        }
        Ok(())
    }

    fn read_fails(&self) -> io::Result<()> {
        let failing = &self.faults.failing_reads;
        match failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(io::Error::other("injected: the read failed")),
            Err(_) => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(FaultyAppendFile { inner: self.inner.create(path)?, disk: self.clone() }))
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(FaultyAppendFile { inner: self.inner.reopen(path, length)?, disk: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(FaultyReadFile { inner, path: path.to_owned(), disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.inner.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.sync_fails()?;
        self.inner.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        Ok(self.inner.free_space(path)?.min(self.faults.remaining.load(Ordering::SeqCst)))
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.total_space(path)
    }
}

struct FaultyAppendFile {
    inner: Box<dyn AppendFile>,
    disk: FaultyDisk,
}

impl AppendFile for FaultyAppendFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let faults = &self.disk.faults;
        if faults.short_write.load(Ordering::SeqCst) {
            self.inner.append(&bytes[..bytes.len() / 2])?;
            return Err(io::Error::new(io::ErrorKind::WriteZero, "injected: the write stopped halfway"));
        }
        let remaining = faults.remaining.load(Ordering::SeqCst);
        if remaining != u64::MAX {
            if (bytes.len() as u64) > remaining {
                self.inner.append(&bytes[..remaining as usize])?;
                faults.remaining.store(0, Ordering::SeqCst);
                return Err(io::Error::new(io::ErrorKind::StorageFull, "injected: the disk is full"));
            }
            faults.remaining.store(remaining - bytes.len() as u64, Ordering::SeqCst);
        }
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.sync_fails()?;
        self.inner.sync()
    }
}

#[derive(Debug)]
struct FaultyReadFile {
    inner: Arc<dyn ReadFile>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl ReadFile for FaultyReadFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()> {
        self.disk.read_fails()?;
        self.inner.read_at(offset, buffers)?;
        let flip = self.disk.flip();
        if let Some((name_ends, at, bit)) = &*flip
            && self.path.to_string_lossy().ends_with(name_ends.as_str())
        {
            let mut begin = offset;
            for buffer in buffers {
                let end = begin + buffer.len() as u64;
                if (begin..end).contains(at) {
                    buffer[(at - begin) as usize] ^= 1 << (bit % 8);
                }
                begin = end;
            }
        }
        Ok(())
    }
}
