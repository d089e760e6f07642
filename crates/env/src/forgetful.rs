use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::{AppendFile, Disk, ReadFile, RealDisk};

/// A real directory that can produce the state after a loss of power at this instant: names whose directory
/// was synced since they were created, and the synced bytes of a file. The rest is lost; names removed
/// without a sync are restored.
///
/// Files written in the directory without this disk count as synced, but their names do not.
#[derive(Debug, Clone)]
pub struct PowerLossDisk {
    durable: Arc<Mutex<DurableTree>>,
}

#[derive(Debug)]
struct DurableTree {
    root: PathBuf,
    /// Second names of all files that ever had a durable one, so that they do not go.
    kept: PathBuf,
    next: u64,
    /// By directory, the names in it that are durable.
    directories: BTreeMap<PathBuf, BTreeMap<PathBuf, DurableEntry>>,
    /// Bytes that were synced, by the number of the file; of files that this disk has written.
    synced: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone)]
enum DurableEntry {
    Directory,
    /// Its second name.
    File(PathBuf),
}

impl PowerLossDisk {
    /// Creates a disk over the real directory `root`. Second names of its files are in `kept`, on the same
    /// file system and outside of it.
    pub fn new(root: &Path, kept: &Path) -> Self {
        let tree = DurableTree {
            root: root.to_owned(),
            kept: kept.to_owned(),
            next: 0,
            directories: BTreeMap::new(),
            synced: BTreeMap::new(),
        };
        PowerLossDisk { durable: Arc::new(Mutex::new(tree)) }
    }

    /// Fills the directory `to` with the state of the root after a loss of power at this instant.
    ///
    /// # Errors
    /// Those of the system.
    pub fn lose_power(&self, to: &Path) -> io::Result<()> {
        let tree = self.lock();
        tree.restore(&tree.root, to)
    }

    fn lock(&self) -> MutexGuard<'_, DurableTree> {
        self.durable.lock()
    }
}

impl DurableTree {
    fn restore(&self, directory: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for (path, entry) in self.directories.get(directory).into_iter().flatten() {
            let Some(name) = path.file_name() else { continue };
            match entry {
                DurableEntry::Directory => self.restore(path, &to.join(name))?,
                DurableEntry::File(kept) => {
                    fs::copy(kept, to.join(name))?;
                    if let Some(synced) = self.synced.get(&fs::metadata(kept)?.ino()) {
                        File::options().write(true).open(to.join(name))?.set_len(*synced)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The names in a directory are durable as they are now.
    fn sync(&mut self, directory: &Path) -> io::Result<()> {
        if !directory.starts_with(&self.root) {
            return Ok(());
        }
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let entry = fs::metadata(&path).and_then(|metadata| match metadata.is_dir() {
                true => Ok(DurableEntry::Directory),
                false => self.keep(&path, metadata.ino()).map(DurableEntry::File),
            });
            match entry {
                Ok(entry) => drop(entries.insert(path, entry)),
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.directories.insert(directory.to_owned(), entries);
        Ok(())
    }

    /// A second name of a file: the one it has, or a new one.
    fn keep(&mut self, path: &Path, number: u64) -> io::Result<PathBuf> {
        let known = path.parent().and_then(|directory| self.directories.get(directory)?.get(path));
        if let Some(DurableEntry::File(kept)) = known
            && fs::metadata(kept)?.ino() == number
        {
            return Ok(kept.clone());
        }
        let kept = self.kept.join(self.next.to_string());
        self.next += 1;
        fs::hard_link(path, &kept)?;
        Ok(kept)
    }
}

impl Disk for PowerLossDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let inner = RealDisk.create(path)?;
        let number = fs::metadata(path)?.ino();
        self.lock().synced.insert(number, 0);
        Ok(Box::new(ForgetfulFile { inner, number, written: 0, disk: self.clone() }))
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        let inner = RealDisk.reopen(path, length)?;
        let number = fs::metadata(path)?.ino();
        let mut tree = self.lock();
        let synced = tree.synced.entry(number).or_insert(length);
        *synced = (*synced).min(length);
        drop(tree);
        Ok(Box::new(ForgetfulFile { inner, number, written: length, disk: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        RealDisk.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _tree = self.lock();
        RealDisk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let _tree = self.lock();
        RealDisk.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let mut tree = self.lock();
        let root = tree.root.clone();
        let above = directory.ancestors().skip(1).take_while(|above| above.starts_with(&root));
        above.into_iter().try_for_each(|above| tree.sync(above))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.lock().sync(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        RealDisk.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        RealDisk.total_space(path)
    }
}

struct ForgetfulFile {
    inner: Box<dyn AppendFile>,
    number: u64,
    written: u64,
    disk: PowerLossDisk,
}

impl AppendFile for ForgetfulFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.lock().synced.insert(self.number, self.written);
        Ok(())
    }
}
