//! Creation of a snapshot.
//!
//! 1. The tail is sealed: what was acknowledged before is in segments.
//! 2. The ledger of erasures is copied, before the segments: an erasure that ends in between counts as not
//!    ended, and is looked after again.
//! 3. The segments of one state get second names. A merge can delete a file meanwhile: then the rest of a
//!    newer state is linked, the last time while no state can take its place.
//! 4. The manifest of that state is written, without generations of the tail: a start makes one.
//! 5. Files of the caller, such as the application, are copied.
//! 6. The description is written.
//!
//! Each step is synced before the next. Writes and queries go on meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_document::Timestamp;
use millrace_env::Disk;

use super::{DESCRIPTION, FORMAT, SnapshotDescription, SnapshotName, checksum, path_of};
use crate::context::StoreContext;
use crate::state::StoreState;
use crate::state::erasures;
use crate::state::manifest::Manifest;
use crate::{Error, Store};

/// Number of states that are tried while others can take their place.
const FREE_TRIES: usize = 3;

/// A file of the caller in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotAttachment {
    /// Directory below the snapshot.
    pub directory: &'static str,
    /// Name in it.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Store {
    /// Makes a snapshot of a time, which has passed. It has every write that was acknowledged before the
    /// call, and of later ones those up to some instant during it. `attach` returns the generation of the
    /// application, and files that are copied beside the documents, as they are after that instant.
    ///
    /// # Errors
    /// There is a snapshot of this name; a segment is damaged; the tail cannot be sealed; the file system has
    /// no hard links; there is no space; `attach` fails. Nothing of the snapshot is left.
    pub fn create_snapshot(
        &self,
        name: &SnapshotName,
        time: Timestamp,
        attach: impl FnOnce() -> Result<(u64, Vec<SnapshotAttachment>), Error>,
    ) -> Result<SnapshotDescription, Error> {
        let shared = self.shared();
        shared.check_open()?;
        // One that this store has given is not of another clock, though its own was set back since.
        if time > shared.timestamps.last() {
            shared.timestamps.see(time)?;
        }
        let _changing = shared.snapshots.change();
        let path = path_of(&shared.options, name);
        if path.join(DESCRIPTION).exists() {
            return Err(Error::SnapshotExists { name: name.to_string() });
        }
        check_room(shared)?;
        // What is left of a failure that could not be cleaned up.
        remove(&path)?;
        let made = self.make(name, &path, time, attach);
        if made.is_err() {
            // The reason of the failure says more than that of this one; the next start tries again.
            let _ = remove(&path);
        }
        made
    }

    fn make(
        &self,
        name: &SnapshotName,
        path: &Path,
        time: Timestamp,
        attach: impl FnOnce() -> Result<(u64, Vec<SnapshotAttachment>), Error>,
    ) -> Result<SnapshotDescription, Error> {
        let shared = self.shared();
        self.seal()?;
        let disk = &*shared.options.disk;
        let mut new = NewSnapshot { disk, path, bytes: 0, checksums: BTreeMap::new() };
        new.directory(&path.join("segments"))?;
        let now = shared.timestamps.now().0;
        shared.erasures.save(disk, &shared.options.data_dir, now)?;
        if let Some(ledger) = erasures::file(disk, &shared.options.data_dir)? {
            new.copy(erasures::NAME, &ledger)?;
        }
        let (state, clock) = new.link(shared)?;
        let mut manifest = state.manifest(shared.next_number(), clock);
        manifest.generations.clear();
        manifest.write(disk, path)?;
        new.note(Manifest::NAME, &manifest.encode());
        let (application, attachments) = attach()?;
        for SnapshotAttachment { directory, name, bytes } in &attachments {
            new.directory(&path.join(directory))?;
            new.copy(&format!("{directory}/{name}"), bytes)?;
        }
        let directories: BTreeSet<&str> = attachments.iter().map(|attachment| attachment.directory).collect();
        for directory in
            directories.into_iter().map(|directory| path.join(directory)).chain([path.to_owned()])
        {
            disk.sync_directory(&directory).map_err(|error| new.failed(&error))?;
        }
        let description = SnapshotDescription {
            format: FORMAT,
            name: name.to_string(),
            time: time.0,
            documents: state.buckets.iter().map(|bucket| shared.counts.documents(bucket)).sum(),
            bytes: new.bytes + state.segment_bytes(),
            files: state.segment_numbers().len() as u64,
            application,
            until: clock,
            first_log: state.generations.last().map_or(0, |oldest| oldest.number),
            checksums: new.checksums.clone(),
        };
        new.describe(&description)?;
        Ok(description)
    }
}

/// Checks that the disk is not full: files that a snapshot holds give no space back.
fn check_room(shared: &StoreContext) -> Result<(), Error> {
    let data_dir = &shared.options.data_dir;
    let free = shared.options.disk.free_space(data_dir);
    let free = free.map_err(|error| Error::io("look for free space", &error))?;
    let reserve = shared.disk_reserve();
    match free < reserve {
        true => Err(Error::DiskFull { path: data_dir.clone(), free, reserve }),
        false => Ok(()),
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(&format!("delete {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// A snapshot that is being made.
struct NewSnapshot<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    /// Bytes of the copies.
    bytes: u64,
    /// Their checksums, by path.
    checksums: BTreeMap<String, String>,
}

impl NewSnapshot<'_> {
    fn failed(&self, error: &io::Error) -> Error {
        Error::io(&format!("make the snapshot {}", self.path.display()), error)
    }

    fn directory(&self, path: &Path) -> Result<(), Error> {
        self.disk.create_directory(path).map_err(|error| self.failed(&error))
    }

    fn note(&mut self, path: &str, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.checksums.insert(path.to_owned(), checksum(bytes));
    }

    /// Writes a file, and makes its bytes durable.
    fn copy(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.write(&self.path.join(path), bytes)?;
        self.note(path, bytes);
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let write = || {
            let mut file = self.disk.create(path)?;
            file.append(bytes)?;
            file.sync()
        };
        write().map_err(|error| self.failed(&error))
    }

    /// Links the segments of one state, and returns it with its time.
    fn link(&self, shared: &StoreContext) -> Result<(Arc<StoreState>, u64), Error> {
        let mut linked = BTreeSet::new();
        for _ in 0..FREE_TRIES {
            let (state, time) = shared.settled_state();
            if self.link_state(shared, &state, &mut linked)? {
                return Ok((state, time));
            }
        }
        shared.while_settled(|state, time| match self.link_state(shared, &state, &mut linked)? {
            true => Ok((state, time)),
            false => {
                let reason = "a file of the store is not there; run `millrace doctor` on the data directory";
                Err(self.failed(&io::Error::new(io::ErrorKind::NotFound, reason)))
            }
        })
    }

    /// Gives the segments of a state second names, and takes away those of other states. Returns false if a
    /// file of it is gone.
    fn link_state(
        &self,
        shared: &StoreContext,
        state: &StoreState,
        linked: &mut BTreeSet<u64>,
    ) -> Result<bool, Error> {
        let damaged = state.buckets.iter().flat_map(|bucket| &bucket.segments);
        if let Some(error) = damaged.filter_map(|segment| segment.opened.as_ref().err()).next() {
            // A snapshot that cannot be restored is none.
            return Err(error.clone());
        }
        let wanted = state.segment_numbers();
        let directory = self.path.join("segments");
        let named = |number: u64| -> (PathBuf, PathBuf) {
            let path = shared.segment_path(number);
            let target = directory.join(path.file_name().unwrap_or_default());
            (path, target)
        };
        for number in &wanted {
            if linked.contains(number) {
                continue;
            }
            let (path, target) = named(*number);
            match self.disk.hard_link(&path, &target) {
                Ok(()) => linked.insert(*number),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) if is_unsupported(&error) => {
                    let (path, reason) = (directory.clone(), error.to_string());
                    return Err(Error::NoHardLinks { path, reason });
                }
                Err(error) => return Err(self.failed(&error)),
            };
        }
        let surplus: Vec<u64> =
            linked.iter().copied().filter(|number| wanted.binary_search(number).is_err()).collect();
        for number in surplus {
            self.disk.unlink(&named(number).1).map_err(|error| self.failed(&error))?;
            linked.remove(&number);
        }
        self.disk.sync_directory(&directory).map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    /// Writes the description, durably: from then on the snapshot is whole.
    fn describe(&self, description: &SnapshotDescription) -> Result<(), Error> {
        let temporary = self.path.join(format!("{DESCRIPTION}.writing"));
        self.write(&temporary, &description.encode())?;
        let place = || {
            self.disk.rename(&temporary, &self.path.join(DESCRIPTION))?;
            self.disk.sync_directory(self.path)
        };
        place().map_err(|error| self.failed(&error))
    }
}

/// Returns true if a file system cannot give a file a second name at all.
fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}
