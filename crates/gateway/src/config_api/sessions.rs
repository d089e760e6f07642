//! Uploaded packages that are not active yet.
//!
//! Their files are on disk, in a directory for each session, under one common limit. They do not survive the
//! process: data to keep is persisted on activation.

mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::files::{Files, SessionFiles};
use millrace_node::{CompiledApplication, Error};

/// Lifetime of a session.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Maximum number of sessions; the oldest one is closed.
const SESSIONS_MAX: usize = 16;

/// Maximum time that a deployment waits until the previous one has released its package from memory.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// The open sessions.
pub(crate) struct UploadSessions {
    directory: PathBuf,
    disk: Arc<SessionDisk>,
    open: Mutex<BTreeMap<u64, Arc<Mutex<UploadSession>>>>,
    /// Permits for packages in memory, in addition to the active one.
    turn: Semaphore,
}

/// The bytes on disk of all sessions and uploads.
#[derive(Default)]
pub(crate) struct SessionDisk {
    bytes_max: u64,
    used: AtomicU64,
}

/// Bytes of a [`SessionDisk`], free again when it is dropped.
pub(crate) struct SessionReservation {
    disk: Arc<SessionDisk>,
    bytes: u64,
}

/// An uploaded package.
pub(crate) struct UploadSession {
    pub(crate) files: SessionFiles,
    /// Result of preparing it, if it was prepared and not changed since.
    pub(crate) prepared: Option<PreparedSession>,
    /// Number of changes to the files.
    pub(crate) revision: u64,
    created: Instant,
}

/// A prepared package.
#[derive(Clone)]
pub(crate) struct PreparedSession {
    /// The generation that was active at the time.
    pub(crate) based_on: u64,
    /// The application, which only the session that was prepared last keeps in memory. For others it is
    /// compiled again.
    pub(crate) deployment: Option<Arc<CompiledApplication>>,
}

impl UploadSession {
    /// Changes the files: they have to be prepared again.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut SessionFiles) -> T) -> T {
        self.prepared = None;
        self.revision += 1;
        change(&mut self.files)
    }
}

impl UploadSessions {
    /// Opens an empty directory without sessions: the files of an earlier process's sessions are deleted.
    pub(crate) fn open(directory: PathBuf, bytes_max: u64) -> std::io::Result<Self> {
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&directory)?,
        }
        Ok(UploadSessions {
            directory,
            disk: Arc::new(SessionDisk { bytes_max, used: AtomicU64::new(0) }),
            open: Mutex::default(),
            turn: Semaphore::new(1),
        })
    }

    /// Directory for uploads until they are unpacked.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A share of the bytes on disk, initially empty.
    pub(crate) fn disk_share(&self) -> SessionReservation {
        SessionReservation { disk: Arc::clone(&self.disk), bytes: 0 }
    }

    /// Bytes on disk of all sessions and uploads.
    pub(crate) fn bytes(&self) -> u64 {
        self.disk.used.load(Ordering::Relaxed)
    }

    /// Waits for the turn of one package to be in memory; others wait until it is dropped.
    ///
    /// # Errors
    /// [`Error::NoRoom`] after a minute.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        match tokio::time::timeout(TURN_TIMEOUT, self.turn.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            // The semaphore is never closed.
            _ => Err(Error::NoRoom { setting: "the memory for packages, one at a time", retry_after_s: 10 }),
        }
    }

    /// The sessions. Nothing panics while they are locked.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Mutex<UploadSession>>>> {
        self.open.lock()
    }

    /// Opens a session with these files. Old sessions are closed if there are too many, or if there is no
    /// space.
    ///
    /// # Errors
    /// The files do not fit, or cannot be written.
    pub(crate) fn create(&self, id: u64, files: &Files) -> Result<(), Error> {
        {
            let mut open = self.lock();
            open.retain(|_, session| locked(session).created.elapsed() < LIFETIME);
            while open.len() >= SESSIONS_MAX {
                open.pop_first();
            }
        }
        let directory = self.directory.join(id.to_string());
        let files = loop {
            match SessionFiles::write_all(&directory, self.disk_share(), files) {
                Err(Error::SessionsFull { .. }) if self.lock().pop_first().is_some() => {}
                other => break other?,
            }
        };
        let session = UploadSession { files, prepared: None, revision: 0, created: Instant::now() };
        self.lock().insert(id, Arc::new(Mutex::new(session)));
        Ok(())
    }

    /// Reads or changes a session. Performs disk I/O for its files: not on a thread that others wait for.
    ///
    /// # Errors
    /// There is no session with this id.
    pub(crate) fn with<T>(&self, id: u64, work: impl FnOnce(&mut UploadSession) -> T) -> Result<T, Error> {
        let session = self.lock().get(&id).cloned();
        let session = session.ok_or_else(|| {
            Error::NotFound(format!(
                "session {id} does not exist; make one with POST /application/v2/tenant/default/session"
            ))
        })?;
        Ok(work(&mut locked(&session)))
    }

    /// Stores the result of preparing a session, unless its files have changed since. All other sessions
    /// release their applications from memory.
    ///
    /// # Errors
    /// The session no longer exists.
    pub(crate) fn prepared(&self, id: u64, revision: u64, prepared: PreparedSession) -> Result<bool, Error> {
        let others: Vec<_> = self
            .lock()
            .iter()
            .filter(|(other, _)| **other != id)
            .map(|(_, session)| Arc::clone(session))
            .collect();
        for other in others {
            if let Some(prepared) = &mut locked(&other).prepared {
                prepared.deployment = None;
            }
        }
        self.with(id, |session| {
            let is_same = session.revision == revision;
            if is_same {
                session.prepared = Some(prepared);
            }
            is_same
        })
    }

    /// Closes a session.
    pub(crate) fn close(&self, id: u64) {
        self.lock().remove(&id);
    }
}

/// Locks a session. A panic during an earlier lock left it with the files that it had.
fn locked(session: &Mutex<UploadSession>) -> MutexGuard<'_, UploadSession> {
    session.lock()
}

impl SessionReservation {
    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// [`Error::SessionsFull`].
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        let before = self.disk.used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.disk.bytes_max {
            self.disk.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::SessionsFull { max: self.disk.bytes_max });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Releases `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        assert!(bytes <= self.bytes, "a session gives back no more bytes than it has taken");
        self.bytes -= bytes;
        self.disk.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for SessionReservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(bytes: usize) -> Files {
        [("services.xml".to_owned(), vec![b'x'; bytes])].into()
    }

    #[test]
    fn all_sessions_have_one_bound_and_the_oldest_leaves() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("sessions");
        let sessions = UploadSessions::open(path.clone(), 100).expect("it can be made");
        sessions.create(1, &package(60)).expect("there is room");
        sessions.create(2, &package(40)).expect("there is room");
        assert_eq!(sessions.bytes(), 100);
        sessions.create(3, &package(50)).expect("the first leaves");
        assert!(sessions.with(1, |_| ()).is_err() && sessions.with(2, |_| ()).is_ok());
        assert_eq!(sessions.bytes(), 90);
        assert!(matches!(sessions.create(4, &package(101)), Err(Error::SessionsFull { max: 100 })));
        assert_eq!((sessions.bytes(), std::fs::read_dir(&path).expect("a directory").count()), (0, 0));
    }

    #[test]
    fn files_are_as_they_were_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let sessions = UploadSessions::open(directory.path().join("sessions"), 1000).expect("it can be made");
        sessions.create(1, &package(10)).expect("there is room");
        let work = |session: &mut UploadSession| -> Result<(), Error> {
            session.change(|files| files.write("schemas/a.sd", b"schema a"))?;
            session.change(|files| files.write("schemas/a.sd", b"schema b"))?;
            session.change(|files| files.remove(|name| name == "services.xml"));
            Ok(())
        };
        sessions.with(1, work).expect("it is open").expect("the disk is fine");
        let files = sessions.with(1, |session| session.files.read_all()).expect("it is open");
        assert_eq!(
            files.expect("the disk is fine"),
            [("schemas/a.sd".to_owned(), b"schema b".to_vec())].into()
        );
        assert_eq!(sessions.bytes(), 8);
        sessions.close(1);
        assert_eq!(sessions.bytes(), 0);
    }
}
