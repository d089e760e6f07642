use std::sync::Arc;

use crate::{
    Coordination, Error, KeyCondition, KeyOperation, LeaseKeeper, PrefixWatch, StoreRevision, Transaction,
};

/// Election of one leader among several candidates: the first one to put the key, bound to its lease.
pub struct Election {
    coordination: Arc<dyn Coordination>,
    key: String,
}

/// Won election, valid as long as the key exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    key: String,
    created: StoreRevision,
}

impl Election {
    /// Creates the election of `key`.
    pub fn new(coordination: Arc<dyn Coordination>, key: impl Into<String>) -> Self {
        Election { coordination, key: key.into() }
    }

    /// Waits until this candidate leads, under its `name`. It leads for as long as the lease lasts, and no
    /// other candidate leads meanwhile. While coordination cannot be reached it waits.
    ///
    /// # Errors
    /// [`Error::LeaseLost`], [`Error::Refused`].
    pub async fn campaign(&self, name: &str, lease: &LeaseKeeper) -> Result<Leadership, Error> {
        let mut watch = PrefixWatch::new(Arc::clone(&self.coordination), &*self.key);
        let attempt = Transaction::new()
            .when(KeyCondition::Absent(self.key.clone()))
            .then(KeyOperation::put_leased(&*self.key, name, lease.id()))
            .otherwise(KeyOperation::get(&*self.key));
        loop {
            watch.next().await;
            if watch.entries().get(&self.key).is_some_and(|leader| leader.lease != Some(lease.id())) {
                continue;
            }
            match self.coordination.transact(attempt.clone()).await {
                Ok(outcome) if outcome.held => {
                    return Ok(Leadership { key: self.key.clone(), created: outcome.revision });
                }
                // An earlier attempt whose answer was lost had won.
                Ok(outcome) => {
                    let own = outcome.entries(0).iter().find(|leader| leader.lease == Some(lease.id()));
                    if let Some(own) = own {
                        return Ok(Leadership { key: self.key.clone(), created: own.created });
                    }
                }
                // The next event of the watch shows if it was won.
                Err(error) if error.is_passing() => {
                    watch = PrefixWatch::new(Arc::clone(&self.coordination), &*self.key);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Leadership {
    /// Condition that makes a transaction fail once this leadership has ended, even if the same candidate
    /// leads again.
    pub fn guard(&self) -> KeyCondition {
        KeyCondition::Created(self.key.clone(), self.created)
    }
}
