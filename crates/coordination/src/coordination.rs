use std::pin::Pin;
use std::time::Duration;

use crate::{Change, Entry, Error, LeaseId, Operation, Outcome, Revision, Transaction};

/// An answer to come.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keys with versions, leases, and the changes of keys as they happen.
///
/// Everyone sees the transactions in one order, and what has been read is never taken back. Each call ends within a few seconds,
/// with [`Error::Unavailable`] if need be. A transaction that is dropped before its answer may have been done.
pub trait Coordination: Send + Sync + 'static {
    /// Does a transaction.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nothing was done. [`Error::Unknown`]: it may have been. [`Error::LeaseLost`]: it puts with a lease that
    /// has ended. [`Error::Refused`]: it can never be done.
    fn transact(&self, transaction: Transaction) -> Answer<'_, Outcome>;

    /// Begins a lease that ends after `ttl` unless it is kept alive; whole seconds, at least 2. See [`crate::Lease`].
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn grant(&self, ttl: Duration) -> Answer<'_, LeaseId>;

    /// Lets a lease last for its whole time from now on.
    ///
    /// # Errors
    /// [`Error::LeaseLost`], [`Error::Unavailable`].
    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()>;

    /// Ends a lease and deletes the keys that are bound to it.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; the lease will end by itself then.
    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()>;

    /// The changes of keys that begin with `prefix`, from the first one after a revision on. See [`crate::Watch`].
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Unavailable`].
    fn changes(&self, prefix: &str, after: Revision) -> Answer<'_, Box<dyn Changes>>;
}

/// Changes as they happen.
pub trait Changes: Send {
    /// The next changes, in their order; those of one transaction are never torn apart. Waits until there are any. Nothing is lost
    /// when it is dropped before it is done.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Unavailable`]; there is nothing more to be had from these changes then.
    fn next(&mut self) -> Answer<'_, Vec<Change>>;
}

impl dyn Coordination {
    /// What is under a key.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn get(&self, key: impl Into<String>) -> Result<Option<Entry>, Error> {
        let mut outcome = self.transact(Transaction::new().then(Operation::get(key))).await?;
        Ok(outcome.found.pop().and_then(|mut entries| entries.pop()))
    }

    /// All keys that begin with `prefix`, in their order, and the moment they were read at.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn list(&self, prefix: impl Into<String>) -> Result<(Revision, Vec<Entry>), Error> {
        let list = Transaction::new().then(Operation::List(prefix.into()));
        let mut outcome = self.transact(list).await?;
        Ok((outcome.revision, outcome.found.pop().unwrap_or_default()))
    }

    /// Does one operation, whatever there is.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn apply(&self, operation: Operation) -> Result<Outcome, Error> {
        self.transact(Transaction::new().then(operation)).await
    }
}
