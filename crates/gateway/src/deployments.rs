//! Which application is active: one pointer for requests, one file for restarts.
//!
//! The directory holds the packages as zip archives by generation, and a file `active` that names one of them. That file is
//! replaced by a rename once everything else is on disk, so that a crash leaves the old application or the new one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use millrace_env::{Disk as _, RealDisk, sync_name};
use millrace_schema::Draft;

use crate::deployment::{self, Deployment};
use crate::models::Models;
use crate::{Error, StartError};

/// The active deployment, in memory and on disk.
pub(crate) struct Deployments {
    directory: PathBuf,
    current: ArcSwapOption<Deployment>,
    /// The highest generation handed out.
    last: AtomicU64,
    /// Held while the active deployment changes.
    change: Mutex<()>,
}

impl Deployments {
    /// Reads what was active.
    pub(crate) fn open(directory: &Path, models: &Models) -> Result<Self, StartError> {
        RealDisk
            .create_directory(directory)
            .map_err(|source| StartError::Directory { path: directory.to_owned(), source })?;
        let deployments = Deployments {
            directory: directory.to_owned(),
            current: ArcSwapOption::empty(),
            last: AtomicU64::new(0),
            change: Mutex::new(()),
        };
        let active = deployments.directory.join("active");
        let text = match std::fs::read_to_string(&active) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(deployments),
            Err(source) => return Err(StartError::Directory { path: active, source }),
        };
        let fail = |path: &Path, reason: String| StartError::Application { path: path.to_owned(), reason };
        let generation: u64 = text
            .trim()
            .parse()
            .map_err(|_| fail(&active, format!("it should hold a generation, not '{}'", text.trim())))?;
        deployments.last.store(generation, Ordering::Relaxed);
        let package = deployments.package(generation);
        if text.trim() == "0" {
            return Ok(deployments);
        }
        let bytes = std::fs::read(&package)
            .map_err(|source| StartError::Directory { path: package.clone(), source })?;
        let deployment = Draft::from_zip(&bytes)
            .map_err(|error| Error::Package(error.into()))
            .and_then(|draft| Deployment::compile(draft, generation, None, models))
            .map_err(|error| fail(&package, error.to_string()))?;
        deployments.current.store(Some(Arc::new(deployment)));
        Ok(deployments)
    }

    /// The active deployment.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn current(&self) -> Result<Arc<Deployment>, Error> {
        self.current.load_full().ok_or(Error::NotDeployed)
    }

    /// The generation of the active deployment; 0 where there is none.
    pub(crate) fn generation(&self) -> u64 {
        self.current.load().as_ref().map_or(0, |deployment| deployment.generation)
    }

    /// A generation that no deployment has had.
    pub(crate) fn next_generation(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Somebody else has given this generation.
    pub(crate) fn gave(&self, generation: u64) {
        self.last.fetch_max(generation, Ordering::Relaxed);
    }

    /// Persists `deployment`, calls `in_effect`, and hands the deployment to every later request.
    ///
    /// # Errors
    /// Another deployment became active since generation `based_on`; or the disk refuses.
    pub(crate) fn activate(
        &self,
        deployment: Arc<Deployment>,
        based_on: u64,
        in_effect: impl FnOnce(),
    ) -> Result<(), Error> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let active = self.generation();
        if active != based_on {
            return Err(Error::Conflict(format!(
                "generation {active} was activated since this one was prepared; prepare it again"
            )));
        }
        let generation = deployment.generation;
        self.persist(generation, &deployment::pack(&deployment.application.files)?)
            .map_err(|error| self.disk_error(&error))?;
        in_effect();
        self.current.store(Some(deployment));
        if active != generation {
            // A package that stays behind costs its room only.
            let _ = std::fs::remove_file(self.package(active));
        }
        Ok(())
    }

    /// Takes the active deployment away.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let active = self.generation();
        self.point_to("0").map_err(|error| self.disk_error(&error))?;
        self.current.store(None);
        // A package that stays behind costs its room only.
        let _ = std::fs::remove_file(self.package(active));
        Ok(())
    }

    fn package(&self, generation: u64) -> PathBuf {
        self.directory.join(format!("{generation}.zip"))
    }

    fn persist(&self, generation: u64, package: &[u8]) -> io::Result<()> {
        let path = self.package(generation);
        write_synced(&path, package)?;
        // Before anything names it.
        sync_name(&RealDisk, &path)?;
        self.point_to(&generation.to_string())
    }

    fn point_to(&self, generation: &str) -> io::Result<()> {
        replace_file(&self.directory, "active", generation.as_bytes())
    }

    fn disk_error(&self, error: &io::Error) -> Error {
        Error::Internal(format!("the application could not be kept in {}: {error}", self.directory.display()))
    }
}

/// Puts a file in place of what has its name, so that a crash leaves the old one or the new one.
pub(crate) fn replace_file(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
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
