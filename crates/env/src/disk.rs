use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in directories. Every error carries the path that it happened at.
pub trait Disk: Send + Sync + Debug {
    /// A new file, to be written from its beginning; one that is there is emptied.
    ///
    /// # Errors
    /// Those of the system.
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// An existing file, cut to a length that it has at least, to be written on from there.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::UnexpectedEof`] if the file is shorter.
    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>>;

    /// An existing file, for reading at any place from any thread.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// Renames a file, replacing any file of the new name. Durable after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// Those of the system.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes away a name; a file without names is gone once no one reads it.
    ///
    /// # Errors
    /// Those of the system.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Paths of what is in a directory, which begin with the path of the directory, sorted.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Makes a directory and those above it, durably: their names, too, survive a loss of power.
    ///
    /// # Errors
    /// Those of the system.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Makes names in the directory durable: those created, renamed and taken away.
    ///
    /// # Errors
    /// Those of the system. After one, the names may or may not survive a loss of power.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Bytes that can still be written to the file system of `path`.
    ///
    /// # Errors
    /// Those of the system.
    fn free_space(&self, path: &Path) -> io::Result<u64>;

    /// Bytes that the file system of `path` holds in all.
    ///
    /// # Errors
    /// Those of the system.
    fn total_space(&self, path: &Path) -> io::Result<u64>;
}

/// A file that is written from its beginning to its end.
pub trait AppendFile: Send {
    /// Appends all of `bytes`. Some appended bytes may be made durable from time to time, so that
    /// [`AppendFile::sync`] has less to do.
    ///
    /// # Errors
    /// Those of the system; some of the bytes may have been written. After an error the file cannot be
    /// trusted.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sets if the disk is used only by background work, with no request waiting for it. Then more appended
    /// bytes may be in flight at a time, which is faster, but holds up syncs of other files for longer. A
    /// hint; initially false.
    fn set_alone(&mut self, _alone: bool) {}

    /// Makes the written bytes durable.
    ///
    /// # Errors
    /// Those of the system. After an error the file cannot be trusted, and syncing again proves nothing.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is read, at any place, by any number of threads.
pub trait ReadFile: Send + Sync + Debug {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the file is empty.
    ///
    /// # Errors
    /// Those of the system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buffers`, one after another, with the bytes at `offset`: one read of the disk for many places
    /// in memory.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::UnexpectedEof`] if the file ends before the buffers are full.
    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()>;

    /// Appends the `length` bytes at `offset` to a vector. If that has enough capacity, its memory is not
    /// initialised first.
    ///
    /// # Errors
    /// Those of [`ReadFile::read_at`].
    fn read_onto(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let before = bytes.len();
        bytes.resize(before + length, 0);
        self.read_at(offset, &mut [&mut bytes[before..]])
    }

    /// Says that these bytes will be read soon, so that the system can fetch them while others are worked on.
    fn will_need(&self, _offset: u64, _length: u64) {}
}
