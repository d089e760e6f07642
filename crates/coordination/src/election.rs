use std::sync::Arc;

use crate::{Condition, Coordination, Error, Lease, Operation, Revision, Transaction, Watch};

/// Choosing one among those who want to lead: whoever puts the key first, bound to its lease.
pub struct Election {
    coordination: Arc<dyn Coordination>,
    key: String,
}

/// Having been chosen, for as long as the key is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    key: String,
    created: Revision,
}

impl Election {
    /// The election that `key` stands for.
    pub fn new(coordination: Arc<dyn Coordination>, key: impl Into<String>) -> Self {
        Election { coordination, key: key.into() }
    }

    /// Waits until this one leads, under its `name`. It leads for as long as the lease lasts, and nobody else does meanwhile.
    ///
    /// # Errors
    /// [`Error::LeaseLost`], [`Error::Refused`]. While coordination cannot be reached it waits.
    pub async fn campaign(&self, name: &str, lease: &Lease) -> Result<Leadership, Error> {
        let mut watch = Watch::new(Arc::clone(&self.coordination), &*self.key);
        let attempt = Transaction::new()
            .when(Condition::Absent(self.key.clone()))
            .then(Operation::put_leased(&*self.key, name, lease.id()))
            .otherwise(Operation::get(&*self.key));
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
                // What the watch says next tells whether it was won.
                Err(error) if error.is_passing() => {
                    watch = Watch::new(Arc::clone(&self.coordination), &*self.key);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Leadership {
    /// What makes a transaction fail once this leadership has ended, even if the same one leads again.
    pub fn guard(&self) -> Condition {
        Condition::Created(self.key.clone(), self.created)
    }
}
