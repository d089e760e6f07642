//! Coordination of one node with itself, in a file of its data directory.
//!
//! All state is in memory. A transaction that changes something is complete when the file with all keys has
//! been replaced. Keys that are bound to a lease are left out of the file, since the holder of the lease has
//! ended with the process.

mod file;
mod state;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millrace_env::{Disk, RealDisk};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{
    Answer, Coordination, Error, KeyChange, KeyChanges, LeaseId, StoreRevision, Transaction,
    TransactionOutcome,
};
use state::EmbeddedState;

/// [`Coordination`] of one process with itself.
pub struct EmbeddedCoordination {
    shared: Arc<EmbeddedShared>,
}

struct EmbeddedShared {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Held while the next state is made and written; `state` is not.
    writing: Mutex<()>,
    state: Mutex<EmbeddedState>,
    newest: watch::Sender<StoreRevision>,
}

/// Pause after a failure of the disk.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A thread that panicked while it held the lock left a consistent state: it is replaced in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl EmbeddedCoordination {
    /// Opens the state in `directory`, which is created if necessary.
    ///
    /// # Errors
    /// [`Error::Disk`], [`Error::Damaged`].
    pub fn open(directory: &Path) -> Result<Self, Error> {
        Self::open_on(Arc::new(RealDisk), directory)
    }

    /// [`EmbeddedCoordination::open`] on a given disk.
    ///
    /// # Errors
    /// Those of [`EmbeddedCoordination::open`].
    pub fn open_on(disk: Arc<dyn Disk>, directory: &Path) -> Result<Self, Error> {
        disk.create_directory(directory).map_err(|error| Error::Disk(error.to_string()))?;
        let path = directory.join("coordination");
        let state = file::read(&*disk, &path)?;
        let (newest, _) = watch::channel(state.revision());
        let shared = EmbeddedShared { disk, path, writing: Mutex::new(()), state: Mutex::new(state), newest };
        Ok(EmbeddedCoordination { shared: Arc::new(shared) })
    }
}

impl EmbeddedShared {
    fn transact(&self, transaction: &Transaction) -> Result<TransactionOutcome, Error> {
        transaction.check()?;
        if !transaction.writes() {
            return lock(&self.state).evaluate(transaction).map(|(outcome, _)| outcome);
        }
        let _writing = lock(&self.writing);
        let evaluated = lock(&self.state).evaluate(transaction)?;
        self.commit(evaluated.1)?;
        Ok(evaluated.0)
    }

    /// Applies changes, once they are on disk. Called while `writing` is held.
    fn commit(&self, changes: Vec<KeyChange>) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let next = lock(&self.state).with(&changes);
        file::write(&*self.disk, &self.path, &next)?;
        let revision = next.revision();
        lock(&self.state).replace(next, changes);
        self.newest.send_replace(revision);
        Ok(())
    }

    /// Ends a lease, if `due` returns true for its end time.
    fn end_lease(&self, lease: LeaseId, due: impl FnOnce(Instant) -> bool) -> Result<(), Error> {
        let _writing = lock(&self.writing);
        let deleted = lock(&self.state).end_lease(lease, due);
        self.commit(deleted)?;
        lock(&self.state).forget(lease);
        Ok(())
    }
}

/// Waits until a lease expires, again each time that it is kept alive.
async fn expire(shared: Weak<EmbeddedShared>, lease: LeaseId) {
    loop {
        let until = match shared.upgrade() {
            Some(shared) => lock(&shared.state).lease_until(lease),
            None => return,
        };
        let Some(until) = until else { return };
        tokio::time::sleep_until(until.into()).await;
        let Some(shared) = shared.upgrade() else { return };
        let expire = move || shared.end_lease(lease, |until| until <= Instant::now());
        match tokio::task::spawn_blocking(expire).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "the end of a lease could not be kept on disk");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(_) => return,
        }
    }
}

/// Runs work that may wait for the disk. It runs to its end even if the caller is dropped.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let stopped = |_| Error::Disk("coordination is stopping with its process".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}

impl Coordination for EmbeddedCoordination {
    fn transact(&self, transaction: Transaction) -> Answer<'_, TransactionOutcome> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match transaction.writes() {
                true => blocking(move || shared.transact(&transaction)).await,
                false => shared.transact(&transaction),
            }
        })
    }

    fn grant(&self, ttl: Duration) -> Answer<'_, LeaseId> {
        Box::pin(async move {
            let lease = lock(&self.shared.state).grant(ttl);
            tokio::spawn(expire(Arc::downgrade(&self.shared), lease));
            Ok(lease)
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        Box::pin(async move { lock(&self.shared.state).keep_alive(lease) })
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.end_lease(lease, |_| true)))
    }

    fn changes(&self, prefix: &str, after: StoreRevision) -> Answer<'_, Box<dyn KeyChanges>> {
        let newest = self.shared.newest.subscribe();
        let changes =
            EmbeddedChanges { shared: Arc::clone(&self.shared), prefix: prefix.to_owned(), after, newest };
        Box::pin(async move {
            lock(&changes.shared.state).changes("", after)?;
            Ok(Box::new(changes) as Box<dyn KeyChanges>)
        })
    }
}

struct EmbeddedChanges {
    shared: Arc<EmbeddedShared>,
    prefix: String,
    after: StoreRevision,
    newest: watch::Receiver<StoreRevision>,
}

impl KeyChanges for EmbeddedChanges {
    fn next(&mut self) -> Answer<'_, Vec<KeyChange>> {
        Box::pin(async move {
            loop {
                self.newest.mark_unchanged();
                let (revision, changes) = lock(&self.shared.state).changes(&self.prefix, self.after)?;
                self.after = revision;
                if !changes.is_empty() {
                    return Ok(changes);
                }
                // The sender is owned by `self`.
                let _ = self.newest.changed().await;
            }
        })
    }
}
