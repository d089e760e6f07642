//! Reindexing of a single node: its state is in one file, replaced as a whole, so that it continues after a
//! restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_cluster::reindexing::{
    GRACE_MS, ReindexStep, ReindexTask, ReindexedApplication, ReindexedTypes,
};
use parking_lot::{Mutex, MutexGuard};

use super::{ChosenTypes, now_ms};
use crate::StartError;
use crate::deployments::replace_file;

/// Name of the file.
const FILE: &str = "reindexing";

/// Reindexing of all document types.
pub struct LocalReindexings {
    directory: PathBuf,
    types: Mutex<ReindexedTypes>,
}

impl LocalReindexings {
    /// Reads the state in a directory.
    pub fn open(directory: &Path) -> Result<Self, StartError> {
        let path = directory.join(FILE);
        let types = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| StartError::Reindexing {
                path: path.clone(),
                reason: error.to_string(),
                cure: "remove the file, and mark what was to be reindexed again",
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ReindexedTypes::default(),
            Err(source) => return Err(StartError::Directory { path, source }),
        };
        Ok(LocalReindexings { directory: directory.to_owned(), types: Mutex::new(types) })
    }

    fn lock(&self) -> MutexGuard<'_, ReindexedTypes> {
        self.types.lock()
    }

    /// Handles a new deployment, see [`ReindexedTypes::deployed`].
    pub fn deployed(&self, application: &ReindexedApplication) -> io::Result<()> {
        let mut types = self.lock();
        types.deployed(application);
        self.save(&types)
    }

    /// Marks types as ready.
    pub(super) fn mark(&self, chosen: &ChosenTypes, speed: f64) -> io::Result<()> {
        let mut types = self.lock();
        types.mark(chosen, speed, now_ms());
        self.save(&types)
    }

    /// Sets the speed of types, see [`ReindexedTypes::set_speed`].
    pub(super) fn set_speed(&self, chosen: &ChosenTypes, speed: f64) -> io::Result<ChosenTypes> {
        let mut types = self.lock();
        let changed = types.set_speed(chosen, speed);
        self.save(&types)?;
        Ok(changed)
    }

    /// Deletes the state.
    pub fn clear(&self) -> io::Result<()> {
        let mut types = self.lock();
        *types = ReindexedTypes::default();
        self.save(&types)
    }

    /// The next task to reindex now.
    pub fn next(&self) -> Option<ReindexTask> {
        let (mut types, now) = (self.lock(), now_ms());
        types.runs_mut().find_map(|(cluster, document_type, run)| {
            let run = run.running(now, GRACE_MS)?;
            Some(ReindexTask {
                cluster: Arc::clone(cluster),
                document_type: Arc::clone(document_type),
                position: run.position.clone(),
                speed: run.speed,
                ready_ms: run.ready_ms,
            })
        })
    }

    /// Records a step of a task. A step of a reindexing that another has replaced meanwhile changes nothing.
    pub fn advance(&self, task: &ReindexTask, step: ReindexStep, save: bool) -> io::Result<()> {
        let mut types = self.lock();
        if let Some(run) = types.run_of(task) {
            run.advance(step, now_ms());
        }
        if save { self.save(&types) } else { Ok(()) }
    }

    /// Status of all types.
    pub(super) fn types(&self) -> ReindexedTypes {
        self.lock().clone()
    }

    /// Its progress, see [`ReindexedTypes::progress`].
    pub(super) fn progress(&self) -> f64 {
        self.lock().progress()
    }

    fn save(&self, types: &ReindexedTypes) -> io::Result<()> {
        replace_file(&self.directory, FILE, &serde_json::to_vec_pretty(types)?)
    }
}
