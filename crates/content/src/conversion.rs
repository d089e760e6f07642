//! Changes and outcomes as the distributor has them, from those of the store and for the gateway.

use millrace_cluster::NodeFailure;
use millrace_document::{Document, DocumentVersion, Timestamp, WriteRefusal, wire};
use millrace_node::cluster::{ClusterError, WriteCallback};
use millrace_replication::distributor::{self, DecidedModification, DocumentChange, RequestError};
use millrace_store::{CommittedWrite, DocumentWrite};

use crate::machine::OwnerWriteCallback;

/// Change of a document for the distributor.
pub(crate) fn change_of(write: DocumentWrite) -> DocumentChange {
    let DocumentWrite { id, change } = write;
    match change {
        millrace_store::StoreChange::Put(document) => {
            DocumentChange::Put { id, body: wire::encode_fields(&document).into() }
        }
        millrace_store::StoreChange::Encoded(put) => DocumentChange::Put { id, body: put.fields().into() },
        millrace_store::StoreChange::Remove => DocumentChange::Remove(id),
        millrace_store::StoreChange::Rewrite { base, until, document } => {
            DocumentChange::Rewrite { id, base, until, body: wire::encode_fields(&document).into() }
        }
        millrace_store::StoreChange::Modify(modify) => {
            DocumentChange::Modify { id, modify: Box::new(|current| decide(modify, current)) }
        }
        millrace_store::StoreChange::ModifyContent(modify) => {
            let modify: millrace_store::Modify =
                Box::new(move |found| modify(found.map(|(document, _)| document)));
            DocumentChange::Modify { id, modify: Box::new(|current| decide(modify, current)) }
        }
    }
}

/// Callback for the machine, from one of the gateway.
pub(crate) fn outcome_callback(done: WriteCallback) -> OwnerWriteCallback {
    Box::new(move |outcome| done(outcome.map(written).map_err(refused)))
}

/// Applies a modification of a document to its newest version.
fn decide(
    modify: millrace_store::Modify,
    current: Option<DocumentVersion>,
) -> Result<DecidedModification, WriteRefusal> {
    let damaged = |error: millrace_document::Error| WriteRefusal::fault(error.to_string());
    let found: Option<(Document, Timestamp)> = match current {
        None => None,
        Some(version) => {
            let timestamp = version.timestamp;
            version.document().map_err(damaged)?.map(|document| (document, timestamp))
        }
    };
    Ok(match modify(found)? {
        millrace_store::StoreModification::Put(document) => {
            DecidedModification::Put(wire::encode_fields(&document).into())
        }
        millrace_store::StoreModification::Remove => DecidedModification::Remove,
        millrace_store::StoreModification::Nothing => DecidedModification::Nothing,
    })
}

fn written(written: distributor::DurableWrite) -> CommittedWrite {
    CommittedWrite { timestamp: written.timestamp, existed: written.existed, changed: written.changed }
}

pub(crate) fn refused(error: RequestError) -> ClusterError {
    match error {
        RequestError::Refused(refusal) => ClusterError::Store(millrace_store::Error::Refused(refusal)),
        RequestError::Overloaded | RequestError::Failed(NodeFailure::Overloaded) => {
            ClusterError::Store(millrace_store::Error::Overloaded)
        }
        RequestError::Moved { unfinished: None, .. } => {
            ClusterError::Unavailable("the documents have got another owner".to_owned())
        }
        RequestError::Late => ClusterError::Unavailable(error.to_string()),
        RequestError::Moved { unfinished: Some(_), .. } | RequestError::Unknown => {
            ClusterError::Unknown("not all replicas answered in time".to_owned())
        }
        RequestError::Partial(NodeFailure::DiskFull { .. }) => ClusterError::PartlyFull(error.to_string()),
        RequestError::Overtaken | RequestError::Partial(_) => ClusterError::Unknown(error.to_string()),
        RequestError::Failed(NodeFailure::DiskFull { reason }) => ClusterError::DiskFull(reason),
        RequestError::Failed(failure) => ClusterError::Failed(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_whether_others_have_the_write_or_not() {
        let full = || NodeFailure::DiskFull { reason: "node c: full".to_owned() };
        let failed = NodeFailure::Storage { reason: "node c: broken".to_owned() };
        for (error, is_nowhere) in
            [(RequestError::Failed(full()), true), (RequestError::Partial(full()), false)]
        {
            match refused(error) {
                ClusterError::DiskFull(reason) => assert!(is_nowhere && reason == "node c: full", "{reason}"),
                ClusterError::PartlyFull(reason) => {
                    assert!(!is_nowhere && reason.starts_with("node c: full; "), "{reason}");
                }
                other => panic!("{other}"),
            }
        }
        let other = refused(RequestError::Partial(failed));
        assert!(matches!(other, ClusterError::Unknown(_)), "{other}");
    }
}
