use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::{AppendFile, Disk, ReadFile};

/// A disk over another that limits the number of files open for reading, independent of the number in use. A
/// file closed in the meantime is reopened when it is read; a file that loses its name stays open, since it
/// could not be reopened.
#[derive(Debug, Clone)]
pub struct BoundedDisk {
    inner: Arc<dyn Disk>,
    open: Arc<Mutex<OpenFiles>>,
}

/// Files in use, open or closed.
#[derive(Debug)]
struct OpenFiles {
    files_max: usize,
    /// Open files that may be closed, the one opened longest ago first.
    closable: VecDeque<Weak<CountedFile>>,
    /// All files that were opened; dropped ones are removed now and then.
    all: Vec<Weak<CountedFile>>,
}

/// A file, by name or open.
struct CountedFile {
    path: PathBuf,
    inner: Arc<dyn Disk>,
    state: Mutex<FileState>,
}

struct FileState {
    open: Option<Arc<dyn ReadFile>>,
    /// True if it has lost its name, and stays open.
    nameless: bool,
}

/// Handle for callers.
#[derive(Debug)]
struct BoundedFile {
    file: Arc<CountedFile>,
    open: Arc<Mutex<OpenFiles>>,
}

/// A list of files is valid even if a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl BoundedDisk {
    /// Creates a disk over `inner`, with at most `files_max` files open for reading, in addition to those
    /// that have lost their names.
    pub fn new(inner: Arc<dyn Disk>, files_max: usize) -> Self {
        let open = OpenFiles { files_max: files_max.max(1), closable: VecDeque::new(), all: Vec::new() };
        BoundedDisk { inner, open: Arc::new(Mutex::new(open)) }
    }

    /// Number of files open for reading.
    pub fn open_files(&self) -> usize {
        let open = lock(&self.open);
        let files = open.all.iter().filter_map(Weak::upgrade);
        files.filter(|file| lock(&file.state).open.is_some()).count()
    }
}

impl OpenFiles {
    /// Records that a file was opened, and closes others if there are too many.
    fn opened(&mut self, file: &Arc<CountedFile>) {
        self.closable.push_back(Arc::downgrade(file));
        while self.closable.len() > self.files_max {
            let Some(file) = self.closable.pop_front().and_then(|file| file.upgrade()) else { continue };
            let mut state = lock(&file.state);
            if !state.nameless {
                state.open = None;
            }
        }
    }

    fn add(&mut self, file: &Arc<CountedFile>) {
        if self.all.len() == self.all.capacity() {
            self.all.retain(|file| file.strong_count() > 0);
            self.closable.retain(|file| file.strong_count() > 0);
        }
        self.all.push(Arc::downgrade(file));
    }
}

impl BoundedFile {
    /// Returns the file, opened if necessary.
    fn opened(&self) -> io::Result<Arc<dyn ReadFile>> {
        let mut state = lock(&self.file.state);
        if let Some(open) = &state.open {
            return Ok(Arc::clone(open));
        }
        let open = self.file.inner.open(&self.file.path)?;
        state.open = Some(Arc::clone(&open));
        // The list is never locked while a file's state is.
        drop(state);
        lock(&self.open).opened(&self.file);
        Ok(open)
    }
}

impl fmt::Debug for CountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.path).finish()
    }
}

impl ReadFile for BoundedFile {
    fn len(&self) -> io::Result<u64> {
        self.opened()?.len()
    }

    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()> {
        self.opened()?.read_at(offset, buffers)
    }

    fn read_onto(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.opened()?.read_onto(offset, length, bytes)
    }

    fn will_need(&self, offset: u64, length: u64) {
        // It is a hint; a later read reports the error.
        if let Ok(file) = self.opened() {
            file.will_need(offset, length);
        }
    }
}

impl Disk for BoundedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.inner.create(path)
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        self.inner.reopen(path, length)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let state = Mutex::new(FileState { open: None, nameless: false });
        let file = Arc::new(CountedFile { path: path.to_owned(), inner: Arc::clone(&self.inner), state });
        lock(&self.open).add(&file);
        let bounded = BoundedFile { file, open: Arc::clone(&self.open) };
        bounded.opened()?;
        Ok(Arc::new(bounded))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let files: Vec<Arc<CountedFile>> = {
            let open = lock(&self.open);
            open.all.iter().filter_map(Weak::upgrade).filter(|file| file.path == path).collect()
        };
        for file in files {
            let mut state = lock(&file.state);
            if state.open.is_none() {
                state.open = Some(self.inner.open(path)?);
            }
            state.nameless = true;
        }
        self.inner.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.inner.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.inner.total_space(path)
    }
}
