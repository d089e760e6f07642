//! Packages that were uploaded and are not active yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Deployment, Error};

/// How long a session is kept.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Sessions kept at one time; the oldest leaves.
const SESSIONS_MAX: usize = 16;

/// The files of a package by path.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The sessions that are open. They live in memory: what counts is persisted when it is activated.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Session>>,
}

/// An uploaded package.
pub(crate) struct Session {
    pub(crate) files: Files,
    /// The package made ready, once it was prepared and not changed since.
    pub(crate) prepared: Option<Arc<Deployment>>,
    /// The generation that was active when it was prepared.
    pub(crate) based_on: u64,
    /// How often the files have changed.
    pub(crate) revision: u64,
    created: Instant,
}

impl Session {
    /// Changes the files: they are to be prepared anew.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut Files) -> T) -> T {
        self.prepared = None;
        self.revision += 1;
        change(&mut self.files)
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with these files.
    pub(crate) fn create(&self, id: u64, files: Files) {
        let mut open = self.lock();
        open.retain(|_, session| session.created.elapsed() < LIFETIME);
        while open.len() >= SESSIONS_MAX {
            open.pop_first();
        }
        let created = Instant::now();
        open.insert(id, Session { files, prepared: None, based_on: 0, revision: 0, created });
    }

    /// Reads or changes a session.
    ///
    /// # Errors
    /// There is none of this id.
    pub(crate) fn with<T>(&self, id: u64, work: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
        match self.lock().get_mut(&id) {
            Some(session) => Ok(work(session)),
            None => Err(Error::NotFound(format!(
                "session {id} does not exist; make one with POST /application/v2/tenant/default/session"
            ))),
        }
    }

    /// Forgets a session.
    pub(crate) fn close(&self, id: u64) {
        self.lock().remove(&id);
    }
}
