//! The active application: one pointer for requests, one file for restarts.
//!
//! The directory holds the packages as zip archives by generation, beside each the document types that were
//! removed up to it (`GENERATION.drops`), and a file `active` that names one of them, or 0 after the
//! application was deleted. That file is replaced by a rename once everything else is on disk, so that a
//! crash leaves the old application or the new one, each with its removals. The file `dropped` has the
//! removals that were applied to the store; a start applies the others.

mod kept;

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use millrace_cluster::DroppedTypes;
use millrace_document::Timestamp;
use millrace_env::{Disk as _, RealDisk};
use parking_lot::{Mutex, MutexGuard};

use crate::deployment::{self, CompiledApplication};
use crate::models::NodeModels;
use crate::{Error, StartError};

use self::kept::StoredApplication;
pub use self::kept::check_application;

/// The active deployment, in memory and on disk.
pub struct ActiveDeployment {
    directory: PathBuf,
    current: ArcSwapOption<CompiledApplication>,
    /// Highest generation assigned so far.
    last: AtomicU64,
    /// Held while the active deployment changes.
    change: Mutex<()>,
    removals: Mutex<TypeRemovals>,
}

/// A deployment that was active when it was looked at.
struct ActiveGuard(Guard<Option<Arc<CompiledApplication>>>);

impl Deref for ActiveGuard {
    type Target = Arc<CompiledApplication>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("a guard is made of a deployment that is there")
    }
}

/// Removals of document types.
#[derive(Debug, Clone, Default)]
struct TypeRemovals {
    /// All removals up to the active deployment.
    known: DroppedTypes,
    /// Removals that the store has applied durably.
    applied: DroppedTypes,
    /// True if this directory ever had an application, so that a type that it lacks was removed.
    had_application: bool,
}

/// File of the removals that the store has applied.
const APPLIED: &str = "dropped";
/// File of the active generation.
const ACTIVE: &str = "active";

impl ActiveDeployment {
    /// Reads the active deployment.
    pub fn open(directory: &Path, models: &NodeModels) -> Result<Self, StartError> {
        RealDisk
            .create_directory(directory)
            .map_err(|source| StartError::Directory { path: directory.to_owned(), source })?;
        let deployments = ActiveDeployment {
            directory: directory.to_owned(),
            current: ArcSwapOption::empty(),
            last: AtomicU64::new(0),
            change: Mutex::new(()),
            removals: Mutex::default(),
        };
        let Some(kept) = StoredApplication::read(directory)? else { return Ok(deployments) };
        let StoredApplication { generation, removals, draft } = kept;
        deployments.last.store(generation, Ordering::Relaxed);
        *deployments.removals() = removals;
        if let Some(draft) = draft {
            let compiled = CompiledApplication::compile_active(draft, generation, None, models);
            let compiled = compiled.map_err(|error| StartError::Application {
                path: package_of(directory, generation),
                reason: error.to_string(),
                cure: "start the version that deployed it, or move the directory of the file away and deploy again",
            })?;
            deployments.current.store(Some(Arc::new(compiled)));
        }
        Ok(deployments)
    }

    /// Active deployment.
    ///
    /// # Errors
    /// There is none.
    pub fn current(&self) -> Result<Arc<CompiledApplication>, Error> {
        self.current.load_full().ok_or(Error::NotDeployed)
    }

    /// Active deployment, if there is one, for a short time: unlike [`ActiveDeployment::current`], this
    /// changes no counter that all threads share.
    pub fn active(&self) -> Option<impl Deref<Target = Arc<CompiledApplication>>> {
        let current = self.current.load();
        current.is_some().then(|| ActiveGuard(current))
    }

    /// Generation of the active deployment; 0 if there is none.
    pub fn generation(&self) -> u64 {
        self.current.load().as_ref().map_or(0, |deployment| deployment.generation)
    }

    /// Assigns a generation that no deployment has had.
    pub fn next_generation(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records a generation that was assigned elsewhere.
    pub fn note_generation(&self, generation: u64) {
        self.last.fetch_max(generation, Ordering::Relaxed);
    }

    /// Every removal of a document type known to this node.
    pub fn dropped(&self) -> DroppedTypes {
        let removals = self.removals();
        let mut all = removals.known.clone();
        all.merge(&removals.applied);
        all
    }

    /// True if this directory has, or had, an application.
    pub(crate) fn had_application(&self) -> bool {
        self.removals().had_application
    }

    /// Runs something while the active deployment does not change, in memory and on disk.
    pub fn unchanged<T>(&self, run: impl FnOnce() -> T) -> T {
        let _change = self.change.lock();
        run()
    }

    /// Applies `drop` to every removal of `dropped` that the store has not applied, and records that durably.
    ///
    /// # Errors
    /// Errors of `drop` and of the disk. Removals applied until then may be applied again.
    pub(crate) fn apply_drops(
        &self,
        dropped: &DroppedTypes,
        drop: impl Fn(&str, Timestamp) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Held throughout, so that a caller returns only after all work that another one has begun.
        let mut removals = self.removals();
        let due = dropped.beyond(&removals.applied);
        if due.is_empty() {
            return Ok(());
        }
        due.iter().try_for_each(|(document_type, removed_at)| drop(document_type, removed_at))?;
        let mut applied = removals.applied.clone();
        applied.merge(&due);
        replace_file(&self.directory, APPLIED, &drops_json(&applied))
            .map_err(|error| self.disk_error(&error))?;
        removals.applied = applied;
        Ok(())
    }

    fn removals(&self) -> MutexGuard<'_, TypeRemovals> {
        self.removals.lock()
    }

    /// Persists `deployment` and all removals of document types up to it, calls `in_effect`, and makes the
    /// deployment visible to every later request.
    ///
    /// # Errors
    /// Another deployment became active since generation `based_on`; or the disk refuses.
    pub fn activate(
        &self,
        deployment: Arc<CompiledApplication>,
        based_on: u64,
        dropped: &DroppedTypes,
        in_effect: impl FnOnce(),
    ) -> Result<(), Error> {
        let _change = self.change.lock();
        let active = self.generation();
        if active != based_on {
            return Err(Error::Conflict(format!(
                "generation {active} was activated since this one was prepared; prepare it again"
            )));
        }
        let generation = deployment.generation;
        let package = deployment::pack(&deployment.application.files)?;
        let persisted = write_synced(&self.package(generation), &package)
            .and_then(|()| self.point_to(generation, dropped));
        persisted.map_err(|error| self.disk_error(&error))?;
        in_effect();
        self.current.store(Some(deployment));
        if active != generation {
            self.delete_files(active);
        }
        Ok(())
    }

    /// Deactivates the active deployment; `dropped` has all its document types.
    pub fn delete(&self, dropped: &DroppedTypes) -> Result<(), Error> {
        let _change = self.change.lock();
        let active = self.generation();
        self.point_to(0, dropped).map_err(|error| self.disk_error(&error))?;
        self.current.store(None);
        self.delete_files(active);
        Ok(())
    }

    /// Deletes the files of a generation. Remaining files cost only their space.
    fn delete_files(&self, generation: u64) {
        let _ = std::fs::remove_file(self.package(generation));
        let _ = std::fs::remove_file(self.drops(generation));
    }

    fn package(&self, generation: u64) -> PathBuf {
        package_of(&self.directory, generation)
    }

    fn drops(&self, generation: u64) -> PathBuf {
        drops_of(&self.directory, generation)
    }

    /// Makes a generation, whose package is on disk, the active one of the next start, with these removals.
    fn point_to(&self, generation: u64, dropped: &DroppedTypes) -> io::Result<()> {
        write_synced(&self.drops(generation), &drops_json(dropped))?;
        // The files must exist whenever `active` names them.
        File::open(&self.directory)?.sync_all()?;
        replace_file(&self.directory, ACTIVE, generation.to_string().as_bytes())?;
        let mut removals = self.removals();
        removals.known = dropped.clone();
        removals.had_application = true;
        Ok(())
    }

    fn disk_error(&self, error: &io::Error) -> Error {
        Error::Internal(format!(
            "the application could not be kept in {}: {error}; make room, or let the user of the server write there",
            self.directory.display()
        ))
    }
}

fn drops_json(dropped: &DroppedTypes) -> Vec<u8> {
    serde_json::to_vec(dropped).expect("names and numbers always have a JSON form")
}

/// Package of a generation.
fn package_of(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation}.zip"))
}

/// Removals of document types up to a generation.
fn drops_of(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation}.drops"))
}

/// Replaces a file, so that a crash leaves the old one or the new one.
pub fn replace_file(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let next = directory.join(format!("{name}.next"));
    write_synced(&next, bytes)?;
    std::fs::rename(&next, directory.join(name))?;
    File::open(directory)?.sync_all()
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
