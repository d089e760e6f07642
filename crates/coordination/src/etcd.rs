//! Coordination by etcd, through the JSON form of its interface, which each of its members serves at the
//! client port.
//!
//! JSON over HTTP needs no code generation while building, and the volume is small: a node sends about one
//! request per second.
//!
//! A call goes to one of the members. If that member cannot be reached, or has no leader, the next is asked:
//! at once if the request has certainly not been executed, otherwise by the next call.

mod changes;
mod members;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::{
    Answer, Coordination, Error, KeyChanges, LeaseId, StoreRevision, Transaction, TransactionOutcome,
};
use changes::EtcdChanges;
use members::{EtcdMembers, RepeatPolicy};

/// [`Coordination`] by etcd.
pub struct EtcdCoordination {
    members: Arc<EtcdMembers>,
}

impl EtcdCoordination {
    /// Creates a client of the members at an address such as `etcd://10.0.0.1:2379,10.0.0.2:2379`; with
    /// `etcds://`, over TLS. No request is sent yet. Over TLS, `tls` says which certificates are trusted;
    /// without it, those of the system's authorities are.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(address: &str, tls: Option<ClientConfig>) -> Result<Self, Error> {
        Ok(EtcdCoordination { members: Arc::new(EtcdMembers::parse(address, tls)?) })
    }
}

impl Coordination for EtcdCoordination {
    fn transact(&self, transaction: Transaction) -> Answer<'_, TransactionOutcome> {
        Box::pin(async move {
            transaction.check()?;
            let request = wire::transaction(&transaction);
            let repeat = if transaction.writes() { RepeatPolicy::Unsafe } else { RepeatPolicy::Idempotent };
            let answer = self.members.call("/v3/kv/txn", &request, repeat).await?;
            wire::outcome(&answer, &transaction).map_err(|fault| self.members.malformed(fault.to_string()))
        })
    }

    fn grant(&self, ttl: Duration) -> Answer<'_, LeaseId> {
        Box::pin(async move {
            let request = json!({ "TTL": ttl.as_secs().max(1).to_string() });
            let answer = self.members.call("/v3/lease/grant", &request, RepeatPolicy::Unsafe).await?;
            match wire::integer(&answer["ID"]) {
                Some(id) if id != 0 => Ok(LeaseId(id)),
                _ => Err(self.members.malformed(format!("a lease without a name: {answer}"))),
            }
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        Box::pin(async move {
            let request = json!({ "ID": lease.0.to_string() });
            let answer = self.members.call("/v3/lease/keepalive", &request, RepeatPolicy::Idempotent).await?;
            match wire::integer(&answer["result"]["TTL"]) {
                Some(left) if left > 0 => Ok(()),
                _ => Err(Error::LeaseLost),
            }
        })
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        Box::pin(async move {
            let request = json!({ "ID": lease.0.to_string() });
            match self.members.call("/v3/lease/revoke", &request, RepeatPolicy::Idempotent).await {
                // The lease has ended already.
                Ok(Value::Object(_)) | Err(Error::LeaseLost) => Ok(()),
                Ok(other) => Err(self.members.malformed(format!("{other} to the end of a lease"))),
                Err(error) => Err(error),
            }
        })
    }

    fn changes(&self, prefix: &str, after: StoreRevision) -> Answer<'_, Box<dyn KeyChanges>> {
        let request = wire::watch(prefix, after);
        Box::pin(async move {
            let changes = EtcdChanges::open(Arc::clone(&self.members), &request).await?;
            Ok(Box::new(changes) as Box<dyn KeyChanges>)
        })
    }
}
