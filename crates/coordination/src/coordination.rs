use std::pin::Pin;
use std::time::Duration;

use crate::{
    Error, KeyChange, KeyEntry, KeyOperation, LeaseId, StoreRevision, Transaction, TransactionOutcome,
};

/// Future of an answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Keys with versions, leases, and notifications of changed keys.
///
/// All clients see the transactions in one order, and a value that has been read is never rolled back. Each
/// call ends within a few seconds, if necessary with [`Error::Unavailable`]. A transaction that is dropped
/// before its answer may have been executed.
pub trait Coordination: Send + Sync + 'static {
    /// Executes a transaction.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nothing was done. [`Error::Unknown`]: it may have been executed.
    /// [`Error::LeaseLost`]: it puts with a lease that has ended. [`Error::Refused`]: it can never be
    /// executed.
    fn transact(&self, transaction: Transaction) -> Answer<'_, TransactionOutcome>;

    /// Begins a lease that ends after `ttl` unless it is kept alive; whole seconds, at least 2. See
    /// [`crate::LeaseKeeper`].
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn grant(&self, ttl: Duration) -> Answer<'_, LeaseId>;

    /// Renews a lease for its full duration from now on.
    ///
    /// # Errors
    /// [`Error::LeaseLost`], [`Error::Unavailable`].
    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()>;

    /// Ends a lease and deletes the keys that are bound to it.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; the lease then expires by itself.
    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()>;

    /// Changes of keys that begin with `prefix`, from the first one after a revision on. See
    /// [`crate::PrefixWatch`].
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Unavailable`].
    fn changes(&self, prefix: &str, after: StoreRevision) -> Answer<'_, Box<dyn KeyChanges>>;
}

/// Stream of changes.
pub trait KeyChanges: Send {
    /// Returns the next changes, in order; those of one transaction stay together. Waits until there are any.
    /// Cancel-safe: nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::Unavailable`]; the stream then has no further changes.
    fn next(&mut self) -> Answer<'_, Vec<KeyChange>>;
}

impl dyn Coordination {
    /// Returns the entry of a key.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn get(&self, key: impl Into<String>) -> Result<Option<KeyEntry>, Error> {
        let mut outcome = self.transact(Transaction::new().then(KeyOperation::get(key))).await?;
        Ok(outcome.found.pop().and_then(|mut entries| entries.pop()))
    }

    /// Returns all keys that begin with `prefix`, in order, and the revision at which they were read.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn list(&self, prefix: impl Into<String>) -> Result<(StoreRevision, Vec<KeyEntry>), Error> {
        let list = Transaction::new().then(KeyOperation::List(prefix.into()));
        let mut outcome = self.transact(list).await?;
        Ok((outcome.revision, outcome.found.pop().unwrap_or_default()))
    }

    /// Executes one operation unconditionally.
    ///
    /// # Errors
    /// Those of [`Coordination::transact`].
    pub async fn apply(&self, operation: KeyOperation) -> Result<TransactionOutcome, Error> {
        self.transact(Transaction::new().then(operation)).await
    }
}
