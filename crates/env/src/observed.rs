use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{AppendFile, Disk, ReadFile};

/// An operation that changes the names of files, or makes something durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOperation {
    /// [`Disk::create`] and [`Disk::reopen`].
    Create,
    /// [`AppendFile::sync`].
    Sync,
    /// [`Disk::rename`], with the old name.
    Rename,
    /// [`Disk::hard_link`], with the new name.
    HardLink,
    /// [`Disk::unlink`].
    Unlink,
    /// [`Disk::create_directory`].
    CreateDirectory,
    /// [`Disk::sync_directory`].
    SyncDirectory,
}

/// Function that is called before each operation. If it returns an error, the operation fails with it, and
/// nothing is done.
pub type DiskObserver = dyn Fn(DiskOperation, &Path) -> io::Result<()> + Send + Sync;

/// A disk over another that shows a test each [`DiskOperation`] before it happens: to count it, to have it
/// fail, or to copy what a crash at this instant leaves.
#[derive(Clone)]
pub struct ObservedDisk {
    inner: Arc<dyn Disk>,
    observer: Arc<DiskObserver>,
}

impl ObservedDisk {
    /// Creates a disk over `inner`.
    pub fn new(inner: Arc<dyn Disk>, observer: Arc<DiskObserver>) -> Self {
        ObservedDisk { inner, observer }
    }

    /// Creates a disk over `inner` whose syncs take longer, for tests and benchmarks with a slow disk.
    pub fn with_slow_syncs(inner: Arc<dyn Disk>, delay: Duration) -> Self {
        let observer = move |operation: DiskOperation, _: &Path| -> io::Result<()> {
            if matches!(operation, DiskOperation::Sync | DiskOperation::SyncDirectory) {
                std::thread::sleep(delay);
            }
            Ok(())
        };
        ObservedDisk::new(inner, Arc::new(observer))
    }
}

impl fmt::Debug for ObservedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedDisk").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Disk for ObservedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        (self.observer)(DiskOperation::Create, path)?;
        let inner = self.inner.create(path)?;
        Ok(Box::new(ObservedFile { inner, path: path.to_owned(), observer: Arc::clone(&self.observer) }))
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        (self.observer)(DiskOperation::Create, path)?;
        let inner = self.inner.reopen(path, length)?;
        Ok(Box::new(ObservedFile { inner, path: path.to_owned(), observer: Arc::clone(&self.observer) }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.observer)(DiskOperation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.observer)(DiskOperation::HardLink, to)?;
        self.inner.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        (self.observer)(DiskOperation::Unlink, path)?;
        self.inner.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        (self.observer)(DiskOperation::CreateDirectory, directory)?;
        self.inner.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        (self.observer)(DiskOperation::SyncDirectory, directory)?;
        self.inner.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.total_space(path)
    }
}

struct ObservedFile {
    inner: Box<dyn AppendFile>,
    path: PathBuf,
    observer: Arc<DiskObserver>,
}

impl AppendFile for ObservedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.append(bytes)
    }

    fn set_alone(&mut self, alone: bool) {
        self.inner.set_alone(alone);
    }

    fn sync(&mut self) -> io::Result<()> {
        (self.observer)(DiskOperation::Sync, &self.path)?;
        self.inner.sync()
    }
}
