//! Documents on other nodes, for a request that this node answers with documents of groups of several owners:
//! writes and drops go to the owner of a group, reads to a node that has all of it. Reads of all groups are
//! in `pages`.
//!
//! A write that is answered here is durable on all replicas, as if it had come to the owner.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::Permit;
use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_document::{Document, DocumentGroup, DocumentId, Timestamp, wire};
use millrace_store::{DocumentWrite, StoreChange, StoreModification, ViewScope};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::readers::full_readers;
use super::{
    BatchedWrite, ChangeLimits, ClusterView, ConditionalChange, FailedChange, GroupDropRequest, NodeAddress,
    RouteBackoff, SettledChange, changes, check_held, pages,
};
use crate::{Error, ErrorKind, Node};

/// Time beyond the limit of a write after which no outcome will come.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Question of a node for documents of others. Its serialized form is part of the protocol between nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DocumentsQuestion {
    /// Writes documents, whose buckets the node owns.
    Write {
        /// Version of the cluster state that both nodes must act by.
        version: ClusterVersion,
        /// The documents.
        documents: Vec<SentDocument>,
        /// Time limit.
        timeout: Duration,
    },
    /// Drops the documents of a type in a group, whose bucket the node owns.
    Drop {
        /// Version of the cluster state that both nodes must act by.
        version: ClusterVersion,
        /// The type.
        document_type: String,
        /// The group.
        group: DocumentGroup,
        /// Time limit.
        timeout: Duration,
    },
    /// Reads a document in a bucket that the node has.
    Get {
        /// Bucket, by a version of the cluster state.
        held: HeldBucket,
        /// Id of the document.
        id: DocumentId,
    },
    /// Asks which documents exist, in a bucket that the node has.
    Exist {
        /// Bucket, by a version of the cluster state.
        held: HeldBucket,
        /// Ids of the documents.
        ids: Vec<DocumentId>,
    },
    /// Reads some documents of a type in a group, whose bucket the node has.
    Page {
        /// Bucket, by a version of the cluster state.
        held: HeldBucket,
        /// The type.
        document_type: String,
        /// The group.
        group: DocumentGroup,
        /// End of the page before; `None` for the first.
        after: Option<String>,
    },
    /// Changes documents on condition of what is stored. The node owns their buckets.
    Change {
        /// The changes.
        changes: Vec<ConditionalChange>,
        /// Limits of the client, which the server of the node's ports admits by.
        limits: ChangeLimits,
        /// Time limit.
        timeout: Duration,
    },
    /// Reads some documents of a type in buckets that the node has, of all groups. It is asked from
    /// [`BUCKET_PAGES`](millrace_cluster::BUCKET_PAGES) on.
    BucketPage {
        /// Version of the cluster state that both nodes must act by.
        version: ClusterVersion,
        /// The buckets.
        buckets: Vec<BucketId>,
        /// The type.
        document_type: String,
        /// Place after which the page begins; `None`: at the first document.
        after: Option<String>,
        /// Bytes of documents after which the page ends.
        bytes: u32,
    },
}

/// A bucket by a version of the cluster state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBucket {
    /// The bucket.
    pub bucket: BucketId,
    /// The version.
    pub version: ClusterVersion,
}

/// Answer to a [`DocumentsQuestion`]. Its serialized form is part of the protocol between nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DocumentsAnswer {
    /// Outcomes of the writes, in their order.
    Written(Vec<SentOutcome>),
    /// The group is dropped.
    Dropped,
    /// The document; `None`: there is none.
    Document(Option<SentVersion>),
    /// For each id, true if there is a document.
    Exist(Vec<bool>),
    /// Documents, and the end of the page; `None`: there are no more.
    Page(Vec<SentVersion>, Option<String>),
    /// Outcomes of the changes, in their order.
    Changed(Vec<Result<SettledChange, FailedChange>>),
}

/// A document on its way to the node that writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentDocument {
    id: DocumentId,
    fields: Vec<u8>,
    /// True if it is written only where no document of this id exists.
    is_only_new: bool,
}

/// A document on its way from the node that has read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentVersion {
    id: DocumentId,
    fields: Vec<u8>,
    timestamp: Timestamp,
}

/// Outcome of the write of a document on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SentOutcome {
    /// Durable.
    Written,
    /// Refused: it was to be a new document, and there is one.
    Exists,
    /// Failed.
    Failed(SentFailure, String),
}

/// Kind of a failed write on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SentFailure {
    /// Nothing was written: the node has too much to do.
    Overloaded,
    /// Nothing was written: the node does not own the documents, or its cluster cannot take a write.
    Unsettled,
    /// Nothing was written: a disk is full.
    DiskFull,
    /// Unknown outcome: it may have been written.
    Unknown,
    /// A replica failed.
    Internal,
    /// Nothing was written: the write is not valid.
    Invalid,
    /// Unknown outcome: the disk of a replica is full, and others may have the write.
    PartlyFull,
}

impl SentDocument {
    /// Prepares a document for its way. If `is_only_new`, it is written only where there is none of its id.
    pub fn new(document: &Document, is_only_new: bool) -> Self {
        SentDocument { id: document.id.clone(), fields: wire::encode_fields(document), is_only_new }
    }

    fn write(self) -> Result<DocumentWrite, Error> {
        let SentDocument { id, fields, is_only_new } = self;
        let document = wire::decode_fields(id.clone(), &fields)?;
        let change = match is_only_new {
            false => StoreChange::Put(document),
            true => StoreChange::Modify(Box::new(move |stored| {
                Ok(stored.map_or(StoreModification::Put(document), |_| StoreModification::Nothing))
            })),
        };
        Ok(DocumentWrite { id, change })
    }
}

impl SentVersion {
    /// Prepares a document for its way.
    pub fn new(document: &Document, timestamp: Timestamp) -> Self {
        SentVersion { id: document.id.clone(), fields: wire::encode_fields(document), timestamp }
    }

    /// Id of the document.
    pub(super) fn id(&self) -> &DocumentId {
        &self.id
    }

    /// Bytes of the fields.
    pub(super) fn bytes(&self) -> usize {
        self.fields.len()
    }

    /// Bytes in memory, about.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<SentVersion>() + self.id.as_str().len() + self.fields.len()
    }

    /// The document, and the time of its write.
    ///
    /// # Errors
    /// Its bytes are not fields.
    pub fn document(self) -> Result<(Document, Timestamp), Error> {
        Ok((wire::decode_fields(self.id, &self.fields)?, self.timestamp))
    }
}

impl SentFailure {
    /// Kind of an error, and its reason for [`SentFailure::error`].
    pub(super) fn from_error(error: Error) -> (Self, String) {
        let failure = match (&error, error.kind()) {
            (Error::Unsettled(reason), _) => return (SentFailure::Unsettled, reason.clone()),
            (Error::Unknown(reason), _) => return (SentFailure::Unknown, reason.clone()),
            (Error::PartlyFull(reason), _) => return (SentFailure::PartlyFull, reason.clone()),
            (error, _) if error.changed_nothing() => SentFailure::Unsettled,
            (_, ErrorKind::Overloaded) => SentFailure::Overloaded,
            (_, ErrorKind::Storage) => SentFailure::DiskFull,
            (_, ErrorKind::BadRequest | ErrorKind::TooLarge) => SentFailure::Invalid,
            // A node that stops, or answers too late, may have written.
            (_, ErrorKind::Timeout | ErrorKind::Unavailable) => SentFailure::Unknown,
            _ => SentFailure::Internal,
        };
        (failure, error.to_string())
    }

    /// The error of a node that has not sent the write itself.
    pub(super) fn error(self, reason: String) -> Error {
        match self {
            SentFailure::Overloaded => Error::Remote { kind: ErrorKind::Overloaded, message: reason },
            SentFailure::Unsettled => Error::Unsettled(reason),
            SentFailure::DiskFull => Error::DiskFull(reason),
            SentFailure::Unknown => Error::Unknown(reason),
            SentFailure::Internal => Error::Internal(reason),
            SentFailure::Invalid => Error::BadRequest(reason),
            SentFailure::PartlyFull => Error::PartlyFull(reason),
        }
    }
}

impl SentOutcome {
    fn of_error(error: Error) -> Self {
        let (failure, reason) = SentFailure::from_error(error);
        SentOutcome::Failed(failure, reason)
    }

    /// True if the document was written; false if there is one.
    ///
    /// # Errors
    /// The write failed.
    pub fn is_written(self) -> Result<bool, Error> {
        match self {
            SentOutcome::Written => Ok(true),
            SentOutcome::Exists => Ok(false),
            SentOutcome::Failed(failure, reason) => Err(failure.error(reason)),
        }
    }
}

/// Answers a question about documents of this node.
///
/// # Errors
/// This node does not own the documents, or does not have them; the question is malformed; the store cannot
/// be read.
pub async fn own_documents(node: &Arc<Node>, question: DocumentsQuestion) -> Result<DocumentsAnswer, Error> {
    let Some(cluster) = node.cluster().view()? else {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    };
    match question {
        DocumentsQuestion::Write { version, documents, timeout } => {
            check_version(cluster, version)?;
            Ok(DocumentsAnswer::Written(write_here(cluster, documents, Instant::now() + timeout).await?))
        }
        DocumentsQuestion::Drop { version, document_type, group, timeout } => {
            check_version(cluster, version)?;
            drop_here(cluster, document_type, group, Instant::now() + timeout).await?;
            Ok(DocumentsAnswer::Dropped)
        }
        DocumentsQuestion::Get { held, id } => {
            let read = move |node: &Node| {
                let found = node.store().get(&id)?;
                Ok(DocumentsAnswer::Document(
                    found.map(|(document, timestamp)| SentVersion::new(&document, timestamp)),
                ))
            };
            read_here(node, held.version, from_ref(&held.bucket), read).await
        }
        DocumentsQuestion::Exist { held, ids } => {
            let read = move |node: &Node| {
                let exists = |id| Ok(node.store().get(id)?.is_some());
                Ok(DocumentsAnswer::Exist(ids.iter().map(exists).collect::<Result<_, Error>>()?))
            };
            read_here(node, held.version, from_ref(&held.bucket), read).await
        }
        DocumentsQuestion::Page { held, document_type, group, after } => {
            let scope = ViewScope::GroupsIn(vec![group], vec![held.bucket]);
            let read = move |node: &Node| pages::page(node, &document_type, scope, after, pages::PAGE_BYTES);
            read_here(node, held.version, from_ref(&held.bucket), read).await
        }
        DocumentsQuestion::BucketPage { version, buckets, document_type, after, bytes } => {
            let scope = ViewScope::Buckets(buckets.clone());
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(pages::PAGE_BYTES);
            let read = move |node: &Node| pages::page(node, &document_type, scope, after, bytes);
            read_here(node, version, buckets.as_slice(), read).await
        }
        // The server of the node's ports has admitted the changes.
        DocumentsQuestion::Change { changes, limits: _, timeout } => {
            let outcomes = changes::change_here(cluster, changes, Instant::now() + timeout).await?;
            Ok(DocumentsAnswer::Changed(outcomes))
        }
    }
}

async fn write_here(
    cluster: &dyn ClusterView,
    documents: Vec<SentDocument>,
    deadline: Instant,
) -> Result<Vec<SentOutcome>, Error> {
    let only_new: Vec<bool> = documents.iter().map(|document| document.is_only_new).collect();
    let writes = documents.into_iter().map(SentDocument::write).collect::<Result<Vec<_>, _>>()?;
    // The other node has checked the request.
    let permit = Permit::of_server();
    let (batch, receivers): (_, Vec<_>) =
        writes.into_iter().map(|write| BatchedWrite::awaited(&permit, write)).unzip();
    cluster.write(batch, deadline);
    let mut outcomes = Vec::with_capacity(receivers.len());
    for (receiver, is_only_new) in receivers.into_iter().zip(only_new) {
        let outcome = tokio::time::timeout_at((deadline + GRACE).into(), receiver).await;
        outcomes.push(match outcome {
            Ok(Ok(Ok(committed))) if is_only_new && !committed.changed => SentOutcome::Exists,
            Ok(Ok(Ok(_))) => SentOutcome::Written,
            Ok(Ok(Err(error))) => SentOutcome::of_error(error.into()),
            _ => SentOutcome::Failed(SentFailure::Unknown, "the write was not confirmed in time".to_owned()),
        });
    }
    Ok(outcomes)
}

async fn drop_here(
    cluster: &dyn ClusterView,
    document_type: String,
    group: DocumentGroup,
    deadline: Instant,
) -> Result<(), Error> {
    let part = None;
    let horizon = Some(cluster.drop_horizon(&group, part)?);
    let (sender, receiver) = oneshot::channel();
    let done = Box::new(move |outcome| {
        // As above.
        let _ = sender.send(outcome);
    });
    let document_type = Some(document_type);
    cluster.drop_group(GroupDropRequest { document_type, group, part, horizon }, deadline, done);
    match tokio::time::timeout_at((deadline + GRACE).into(), receiver).await {
        Ok(Ok(outcome)) => Ok(outcome.map(drop)?),
        _ => Err(Error::Unknown("the drop of a group was not confirmed in time".to_owned())),
    }
}

/// Runs a read, which counts if this node has the buckets before and after it by the same cluster state.
async fn read_here(
    node: &Arc<Node>,
    version: ClusterVersion,
    buckets: &[BucketId],
    read: impl FnOnce(&Node) -> Result<DocumentsAnswer, Error> + Send + 'static,
) -> Result<DocumentsAnswer, Error> {
    let check = |node: &Node| -> Result<(), Error> {
        let Some(cluster) = node.cluster().view()? else { return Ok(()) };
        check_version(cluster, version)?;
        check_held(cluster, buckets)
    };
    check(node)?;
    let reader = Arc::clone(node);
    // It waits for the disk.
    let done = tokio::task::spawn_blocking(move || read(&reader)).await;
    let answer = done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))?;
    check(node)?;
    Ok(answer)
}

/// Asks the owners of groups to write or drop documents of them, all at the same time, if the cluster state
/// has this version; the answers have the order of the questions. The guard of a question is dropped when its
/// answer is there.
///
/// [`Error::Unsettled`] and [`Error::Unreachable`] mean that nothing was begun. After other errors the
/// outcome may not be known.
pub async fn ask_owners<G: Send + 'static>(
    node: &Arc<Node>,
    version: ClusterVersion,
    questions: Vec<(DocumentGroup, DocumentsQuestion, G)>,
    deadline: Instant,
) -> Vec<Result<DocumentsAnswer, Error>> {
    let mut requested = Vec::with_capacity(questions.len());
    for (group, question, guard) in questions {
        let node = Arc::clone(node);
        requested.push(tokio::spawn(async move {
            let _guard = guard;
            ask_owner(&node, version, &group, question, deadline).await
        }));
    }
    let mut answers = Vec::with_capacity(requested.len());
    for answer in requested {
        let answer = answer.await;
        answers.push(answer.unwrap_or_else(|error| Err(Error::Internal(error.to_string()))));
    }
    answers
}

async fn ask_owner(
    node: &Arc<Node>,
    version: ClusterVersion,
    group: &DocumentGroup,
    question: DocumentsQuestion,
    deadline: Instant,
) -> Result<DocumentsAnswer, Error> {
    let Some(cluster) = node.cluster().view()? else { return own_documents(node, question).await };
    let owners = cluster.owners(Some(from_ref(group)))?;
    if owners.version != version {
        return Err(Error::Unsettled(
            "the cluster state has changed before documents were written".to_owned(),
        ));
    }
    let [(owner, Some(buckets))] = owners.nodes.as_slice() else {
        return Err(Error::Unsettled(format!("group {group} has no single owner")));
    };
    if buckets.len() != 1 {
        return Err(Error::Unsettled(format!("group {group} is divided")));
    }
    match cluster.address(*owner)? {
        NodeAddress::Local => own_documents(node, question).await,
        NodeAddress::Remote(remote) => {
            let requested = node.transport()?.documents(remote.clone(), question);
            match tokio::time::timeout_at((deadline + GRACE).into(), requested).await {
                Ok(answer) => answer.map_err(Error::of_change),
                Err(_) => Err(Error::Unknown(format!("node {remote} has not answered in time"))),
            }
        }
    }
}

/// Reads documents of a group in one of its buckets, at a node that has all of that: this one if it does.
/// `question` makes the question for the bucket. `None`: the cluster has nothing there.
///
/// # Errors
/// No node has all of the bucket, or answers, until the deadline.
pub async fn read_bucket(
    node: &Arc<Node>,
    group: &DocumentGroup,
    bucket: BucketId,
    question: impl Fn(HeldBucket) -> DocumentsQuestion,
    deadline: Instant,
) -> Result<Option<DocumentsAnswer>, Error> {
    let mut backoff = RouteBackoff::until(deadline);
    loop {
        let error = match read_once(node, group, bucket, &question, deadline).await {
            Err(error @ (Error::Unsettled(_) | Error::Unreachable { .. })) => error,
            outcome => return outcome,
        };
        if !backoff.pause().await {
            return Err(error);
        }
    }
}

async fn read_once(
    node: &Arc<Node>,
    group: &DocumentGroup,
    bucket: BucketId,
    question: &impl Fn(HeldBucket) -> DocumentsQuestion,
    deadline: Instant,
) -> Result<Option<DocumentsAnswer>, Error> {
    let cluster = node.cluster().view()?;
    let cluster = cluster.ok_or_else(|| Error::NotFound("this node is not one of a cluster".to_owned()))?;
    let found = full_readers(node, cluster, group, bucket, deadline).await?;
    let Some((held, mut nodes)) = found else { return Ok(None) };
    let me = cluster.own().key;
    let mut failed = None;
    // This node first: it needs no transmission.
    nodes.sort_by_key(|reader| *reader != me);
    for reader in nodes {
        match ask_reader(node, cluster.address(reader)?, question(held), deadline).await {
            Ok(answer) => {
                check_read(cluster, held.version)?;
                return Ok(Some(answer));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| Error::Unsettled("no node has all of the documents now".to_owned())))
}

/// Asks a node that has documents for them.
pub(super) async fn ask_reader(
    node: &Arc<Node>,
    reader: NodeAddress,
    question: DocumentsQuestion,
    deadline: Instant,
) -> Result<DocumentsAnswer, Error> {
    match reader {
        NodeAddress::Local => own_documents(node, question).await,
        NodeAddress::Remote(remote) => {
            let requested = node.transport()?.documents(remote.clone(), question);
            tokio::time::timeout_at(deadline.into(), requested).await.unwrap_or_else(|_| {
                let reason = "it has not answered in time".to_owned();
                Err(Error::Unreachable { address: remote.address, reason, sent: true })
            })
        }
    }
}

/// Checks after a read that no other owner has come between.
pub(super) fn check_read(cluster: &dyn ClusterView, version: ClusterVersion) -> Result<(), Error> {
    match cluster.confirms(version) {
        true => Ok(()),
        false => {
            Err(Error::Unsettled("the cluster state has changed while the documents were read".to_owned()))
        }
    }
}

/// Checks that this node acts by a cluster state: the node that asks may have been superseded.
fn check_version(cluster: &dyn ClusterView, version: ClusterVersion) -> Result<(), Error> {
    match cluster.state()?.version() == version {
        true => Ok(()),
        false => Err(Error::Unsettled("the nodes have different cluster states".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent again elsewhere, a write that was begun would be there twice; one that was not is lost if no one
    /// sends it again.
    #[test]
    fn failures_that_are_sent_say_whether_a_write_was_begun() {
        let unreachable =
            |sent| Error::Unreachable { address: "b:1".to_owned(), reason: "reset".to_owned(), sent };
        let remote = |kind| Error::Remote { kind, message: "refused".to_owned() };
        let text = || "reason".to_owned();
        for (error, is_unknown, changed_nothing) in [
            (Error::Unsettled(text()), false, true),
            (unreachable(false), false, true),
            (unreachable(true), true, false),
            (Error::Unknown(text()), true, false),
            (remote(ErrorKind::Timeout), true, false),
            (remote(ErrorKind::Unavailable), true, false),
            // Refused as a whole, and not to be tried elsewhere at once.
            (remote(ErrorKind::Overloaded), false, false),
            (Error::DiskFull(text()), false, false),
            (Error::BadRequest(text()), false, false),
        ] {
            let shown = error.to_string();
            let (failure, reason) = SentFailure::from_error(error);
            let received = failure.error(reason);
            assert_eq!(matches!(received, Error::Unknown(_)), is_unknown, "{shown}: {received}");
            assert_eq!(received.changed_nothing(), changed_nothing, "{shown}: {received}");
        }
        let (failure, reason) = SentFailure::from_error(Error::PartlyFull(text()));
        let partly = failure.error(reason);
        assert!(matches!(partly, Error::PartlyFull(_)) && !partly.changed_nothing(), "{partly}");
    }
}
