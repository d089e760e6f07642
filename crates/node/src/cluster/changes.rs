//! Changes of documents on condition of what is stored, for a request that another node answers than the
//! owners of the documents. Each is decided by the owner of its document's bucket, in its turn among the
//! writes of the document.
//!
//! A change that depends on the stored document takes two: one that is refused, and shows the document, and
//! one on the condition that this version is still stored. If another version has come between, the second is
//! refused, and shows that one.

mod own;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use millrace_access::{Permit, WantedGroups};
use millrace_cluster::CONDITIONAL_CHANGES;
use millrace_document::{Document, DocumentId, Timestamp, wire};
use millrace_store::{DocumentWrite, StoreChange, StoreModification};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::own::OwnChanges;
use super::documents::{GRACE, SentFailure, SentVersion, own_documents};
use super::{
    BatchedWrite, ClusterView, DocumentsAnswer, DocumentsQuestion, NodeAddress, RemoteNode, RouteBackoff,
};
use crate::{Error, Node};

/// Bytes of changes after which a question ends.
const QUESTION_BYTES: usize = 4 << 20;

/// Bytes of stored documents after which an answer shows no more of them.
const SHOWN_BYTES: usize = 4 << 20;

/// Bytes of the largest document that is sent and shown: a message between nodes has no room for one of more
/// than 32 MB.
const DOCUMENT_BYTES_MAX: usize = 24 << 20;

/// A change of a document on its way to the owner. Its serialized form is part of the protocol between nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionalChange {
    /// Id of the document.
    pub id: DocumentId,
    /// Condition of the change.
    pub condition: StoredCondition,
    /// Effect if the condition holds.
    pub effect: ConditionalEffect,
    /// True if the stored document is wanted where the condition does not hold.
    pub shows_stored: bool,
    /// Bytes that the client has sent for the document, or those of the document if an update has more: the
    /// owner admits them by the size of the group. 0 for a change that adds nothing.
    pub sent_bytes: u64,
    /// True if this node has admitted them. Another node that owns the document admits them itself.
    #[serde(skip)]
    pub is_admitted: bool,
}

/// Condition on the stored version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredCondition {
    /// No condition.
    Any,
    /// No document is stored.
    Absent,
    /// The document was written at this time.
    WrittenAt(Timestamp),
}

/// Effect of a change whose condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ConditionalEffect {
    /// The document stays as it is.
    Nothing,
    /// The document has these fields, encoded.
    Put(Vec<u8>),
    /// The document is removed, if it is stored.
    Remove,
}

/// Limits of the client on the size of each group that it writes to, beside those of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeLimits {
    /// Number of stored documents from which on nothing more is written.
    pub documents: Option<u64>,
    /// Number of stored bytes from which on nothing more is written.
    pub bytes: Option<u64>,
}

/// Outcome of a change that the owner has decided on. Its serialized form is part of the protocol between
/// nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SettledChange {
    /// The condition holds, and the effect is durable.
    Done {
        /// Time of the version that is stored now; of an absent document, that of its removal or 0.
        timestamp: Timestamp,
        /// True if the document was stored before.
        existed: bool,
    },
    /// The condition does not hold: this is stored.
    Conflict(ConflictingState),
}

/// Stored state of a document whose change was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ConflictingState {
    /// No document is stored.
    Absent,
    /// A version of this time. The document was not wanted, or the answer has no room for it.
    Version(Timestamp),
    /// The document.
    Document(SentVersion),
}

/// A change that failed at its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedChange {
    failure: SentFailure,
    reason: String,
}

impl From<Error> for FailedChange {
    fn from(error: Error) -> Self {
        let (failure, reason) = SentFailure::from_error(error);
        FailedChange { failure, reason }
    }
}

impl From<FailedChange> for Error {
    fn from(failed: FailedChange) -> Self {
        failed.failure.error(failed.reason)
    }
}

impl ConditionalEffect {
    /// The effect that a document is stored.
    pub fn put(document: &Document) -> Self {
        ConditionalEffect::Put(wire::encode_fields(document))
    }

    fn bytes(&self) -> usize {
        match self {
            ConditionalEffect::Put(fields) => fields.len(),
            ConditionalEffect::Nothing | ConditionalEffect::Remove => 0,
        }
    }
}

impl StoredCondition {
    /// True if the condition holds where a version of this time is stored, or none.
    fn holds(self, stored: Option<Timestamp>) -> bool {
        match self {
            StoredCondition::Any => true,
            StoredCondition::Absent => stored.is_none(),
            StoredCondition::WrittenAt(timestamp) => stored == Some(timestamp),
        }
    }
}

impl ConflictingState {
    /// State of a document. Without room, which the documents of one answer share, it is not shown. The
    /// last one that is shown may take more than there is: so the answer has one at least.
    ///
    /// # Errors
    /// It is wanted, and too large.
    fn from_stored(
        stored: Option<(Document, Timestamp)>,
        is_shown: bool,
        room: &AtomicUsize,
    ) -> Result<Self, FailedChange> {
        let Some((document, timestamp)) = stored else { return Ok(ConflictingState::Absent) };
        if !is_shown || room.load(Ordering::Relaxed) == 0 {
            return Ok(ConflictingState::Version(timestamp));
        }
        let sent = SentVersion::new(&document, timestamp);
        check_size(&document.id, sent.bytes())?;
        let take = |room: usize| (room > 0).then(|| room.saturating_sub(sent.bytes()));
        Ok(match room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => ConflictingState::Document(sent),
            Err(_) => ConflictingState::Version(timestamp),
        })
    }
}

/// Checks that a message between nodes has room for a document.
///
/// # Errors
/// It is too large.
fn check_size(id: &DocumentId, bytes: usize) -> Result<(), Error> {
    match bytes <= DOCUMENT_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::BadRequest(format!(
            "document {id} has {bytes} bytes, and nodes send each other {DOCUMENT_BYTES_MAX} at most: write it at \
             /document/v1/, or in parts"
        ))),
    }
}

/// Decision on a change.
enum ChangeDecision {
    Made {
        existed: bool,
    },
    /// State that is shown, or the reason for which none is.
    Refused(Result<ConflictingState, FailedChange>),
}

/// Cell for a decision, which is made on a thread of the store.
type DecisionCell = Arc<Mutex<Option<ChangeDecision>>>;

impl ConditionalChange {
    /// A change that shows the stored document, and changes nothing.
    pub fn look(id: DocumentId) -> Self {
        ConditionalChange {
            id,
            condition: StoredCondition::Absent,
            effect: ConditionalEffect::Nothing,
            shows_stored: true,
            sent_bytes: 0,
            is_admitted: false,
        }
    }

    /// Bytes of the change on its way, about.
    fn bytes(&self) -> usize {
        self.id.as_str().len() + self.effect.bytes()
    }

    /// The change as a write of the owner.
    fn write(self, room: &Arc<AtomicUsize>) -> Result<(DocumentWrite, DecisionCell), Error> {
        let ConditionalChange { id, condition, effect, shows_stored, sent_bytes: _, is_admitted: _ } = self;
        let effect = match effect {
            ConditionalEffect::Nothing => StoreModification::Nothing,
            ConditionalEffect::Put(fields) => {
                StoreModification::Put(wire::decode_fields(id.clone(), &fields)?)
            }
            ConditionalEffect::Remove => StoreModification::Remove,
        };
        let (place, room) = (DecisionCell::default(), Arc::clone(room));
        let decided = Arc::clone(&place);
        let change = StoreChange::Modify(Box::new(move |stored| {
            let timestamp = stored.as_ref().map(|(_, timestamp)| *timestamp);
            if !condition.holds(timestamp) {
                let state = ConflictingState::from_stored(stored, shows_stored, &room);
                *decided.lock() = Some(ChangeDecision::Refused(state));
                return Ok(StoreModification::Nothing);
            }
            let existed = timestamp.is_some();
            *decided.lock() = Some(ChangeDecision::Made { existed });
            Ok(match effect {
                StoreModification::Remove if !existed => StoreModification::Nothing,
                effect => effect,
            })
        }));
        Ok((DocumentWrite { id, change }, place))
    }
}

/// Changes documents whose buckets this node owns; the outcomes have the order of the changes.
///
/// # Errors
/// The fields of a document are not encoded as such.
pub(super) async fn change_here(
    cluster: &dyn ClusterView,
    changes: Vec<ConditionalChange>,
    deadline: Instant,
) -> Result<Vec<Result<SettledChange, FailedChange>>, Error> {
    let room = Arc::new(AtomicUsize::new(SHOWN_BYTES));
    let writes = changes.into_iter().map(|change| change.write(&room)).collect::<Result<Vec<_>, _>>()?;
    // The node that asks has checked the request.
    let permit = Permit::of_server();
    let (mut batch, mut begun) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
    for (write, place) in writes {
        let (write, receiver) = BatchedWrite::awaited(&permit, write);
        batch.push(write);
        begun.push((receiver, place));
    }
    cluster.write(batch, deadline);
    let mut outcomes = Vec::with_capacity(begun.len());
    for (receiver, place) in begun {
        let outcome = tokio::time::timeout_at((deadline + GRACE).into(), receiver).await;
        outcomes.push(match outcome {
            Ok(Ok(Ok(committed))) => match place.lock().take() {
                Some(ChangeDecision::Made { existed }) => {
                    Ok(SettledChange::Done { timestamp: committed.timestamp, existed })
                }
                Some(ChangeDecision::Refused(state)) => state.map(SettledChange::Conflict),
                None => {
                    let reason = "a change was confirmed, but not decided".to_owned();
                    Err(FailedChange::from(Error::Internal(reason)))
                }
            },
            Ok(Ok(Err(error))) => Err(FailedChange::from(Error::from(error))),
            _ => Err(FailedChange::from(Error::Unknown("the write was not confirmed in time".to_owned()))),
        });
    }
    Ok(outcomes)
}

/// Changes that are sent together, by their positions among all.
#[derive(Default)]
struct ChangeShare {
    positions: Vec<usize>,
    changes: Vec<ConditionalChange>,
    bytes: usize,
}

/// Has the owners of documents change them, all at the same time; the outcomes have the order of the changes,
/// which are of different documents.
///
/// [`Error::Unsettled`] means that nothing was begun: the change can be sent again. After [`Error::Unknown`]
/// and [`Error::PartlyFull`] it may have been made.
///
/// # Panics
/// The permit does not cover a document: a request was not checked when it was parsed.
pub async fn change_documents(
    node: &Arc<Node>,
    permit: &Permit,
    changes: Vec<ConditionalChange>,
    limits: ChangeLimits,
    deadline: Instant,
) -> Vec<Result<SettledChange, Error>> {
    let is_covered = |change: &ConditionalChange| {
        permit.covers(WantedGroups::These(std::slice::from_ref(change.id.group())))
    };
    assert!(changes.iter().all(is_covered), "a request changes a document that its permit does not cover");
    // A change without effect can be sent again, also if the owner has made it.
    let is_look: Vec<bool> =
        changes.iter().map(|change| change.effect == ConditionalEffect::Nothing).collect();
    let outcomes = change_all(node, changes, limits, deadline).await;
    let outcomes = outcomes.into_iter().zip(is_look).map(|(outcome, is_look)| match outcome {
        Err(Error::Unknown(reason) | Error::PartlyFull(reason)) if is_look => Err(Error::Unsettled(reason)),
        outcome => outcome,
    });
    outcomes.collect()
}

async fn change_all(
    node: &Arc<Node>,
    changes: Vec<ConditionalChange>,
    limits: ChangeLimits,
    deadline: Instant,
) -> Vec<Result<SettledChange, Error>> {
    let count = changes.len();
    let cluster = match node.cluster().view() {
        Ok(Some(cluster)) => cluster,
        Ok(None) => return failures(Error::NotFound("this node is not one of a cluster".to_owned()), count),
        Err(error) => return failures(error.into(), count),
    };
    let mut outcomes: Vec<Option<Result<SettledChange, Error>>> = (0..count).map(|_| None).collect();
    let mut shares: BTreeMap<NodeAddress, Vec<ChangeShare>> = BTreeMap::new();
    for (position, change) in changes.into_iter().enumerate() {
        let is_sent = check_size(&change.id, change.effect.bytes());
        let owner = is_sent.and_then(|()| cluster.owner(change.id.location()).map_err(Error::from));
        let owner = match owner {
            Ok(owner) => owner,
            Err(error) => {
                outcomes[position] = Some(Err(error));
                continue;
            }
        };
        let of_owner = shares.entry(owner).or_default();
        if of_owner.last().is_none_or(|share| share.bytes >= QUESTION_BYTES) {
            of_owner.push(ChangeShare::default());
        }
        let share = of_owner.last_mut().expect("a share with room is the last one");
        share.bytes += change.bytes();
        share.positions.push(position);
        share.changes.push(change);
    }
    let mut requested = Vec::new();
    for (owner, of_owner) in shares {
        for ChangeShare { positions, changes, bytes: _ } in of_owner {
            let (node, owner) = (Arc::clone(node), owner.clone());
            let question = async move { ask_owner(&node, owner, changes, limits, deadline).await };
            requested.push((positions, tokio::spawn(question)));
        }
    }
    for (positions, answer) in requested {
        // After a panic, which has been logged, the owner may have got the changes.
        let answer = answer.await.unwrap_or_else(|error| Err(Error::Unknown(error.to_string())));
        let of_share: Vec<Result<SettledChange, Error>> = match answer {
            Ok(answered) if answered.len() == positions.len() => {
                answered.into_iter().map(|outcome| outcome.map_err(Error::from)).collect()
            }
            Ok(answered) => {
                let reason = format!("{} changes have {} outcomes", positions.len(), answered.len());
                failures(Error::Internal(reason), positions.len())
            }
            Err(error) => failures(error, positions.len()),
        };
        for (position, outcome) in positions.into_iter().zip(of_share) {
            outcomes[position] = Some(outcome);
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// The same error for several changes.
fn failures(error: Error, count: usize) -> Vec<Result<SettledChange, Error>> {
    let failed = FailedChange::from(error);
    (0..count).map(|_| Err(failed.clone().into())).collect()
}

async fn ask_owner(
    node: &Arc<Node>,
    owner: NodeAddress,
    changes: Vec<ConditionalChange>,
    limits: ChangeLimits,
    deadline: Instant,
) -> Result<Vec<Result<SettledChange, FailedChange>>, Error> {
    let timeout = deadline.saturating_duration_since(Instant::now());
    let question = |changes| DocumentsQuestion::Change { changes, limits, timeout };
    let changed = |answer| match answer {
        DocumentsAnswer::Changed(outcomes) => Ok(outcomes),
        _ => Err(Error::Internal("another node answers changes of documents with something else".to_owned())),
    };
    match owner {
        NodeAddress::Local => {
            let OwnChanges { admitted, is_admitted } = OwnChanges::new(changes);
            let outcomes = match admitted.is_empty() {
                true => Vec::new(),
                false => changed(own_documents(node, question(admitted)).await?)?,
            };
            Ok(OwnChanges::outcomes(is_admitted, outcomes))
        }
        NodeAddress::Remote(remote) => changed(ask_remote(node, remote, question(changes), deadline).await?),
    }
}

async fn ask_remote(
    node: &Arc<Node>,
    remote: RemoteNode,
    question: DocumentsQuestion,
    deadline: Instant,
) -> Result<DocumentsAnswer, Error> {
    if remote.protocol < CONDITIONAL_CHANGES {
        return Err(Error::Unsettled(format!(
            "node {remote} takes no changes of documents from others until all nodes speak protocol \
             {CONDITIONAL_CHANGES}: upgrade those of earlier versions"
        )));
    }
    let requested = node.transport()?.documents(remote.clone(), question);
    let silent = |_| Error::Unknown(format!("node {remote} has not answered in time"));
    let answer = tokio::time::timeout_at((deadline + GRACE).into(), requested).await.map_err(silent)?;
    answer.map_err(|error| match error {
        Error::Unreachable { address, reason, sent: false } => {
            Error::Unsettled(format!("node {address} cannot be reached: {reason}"))
        }
        error => error.of_change(),
    })
}

/// Reads the newest version of a document at the owner of its bucket. The document may have no group, which
/// the reads of groups need.
///
/// # Errors
/// The owner cannot be reached, or cannot read the document, until the deadline.
///
/// # Panics
/// As [`change_documents`].
pub async fn stored_version(
    node: &Arc<Node>,
    permit: &Permit,
    id: &DocumentId,
    deadline: Instant,
) -> Result<Option<(Document, Timestamp)>, Error> {
    let mut backoff = RouteBackoff::until(deadline);
    loop {
        let look = vec![ConditionalChange::look(id.clone())];
        let outcome = change_documents(node, permit, look, ChangeLimits::default(), deadline).await.pop();
        let error = match outcome {
            Some(Ok(SettledChange::Done { .. })) => return Ok(None),
            Some(Ok(SettledChange::Conflict(ConflictingState::Document(sent)))) => {
                return Ok(Some(sent.document()?));
            }
            Some(Err(error @ Error::Unsettled(_))) => error,
            Some(Err(error)) => return Err(error),
            Some(Ok(SettledChange::Conflict(_))) | None => {
                return Err(Error::Internal("the owner of a document does not show it".to_owned()));
            }
        };
        if !backoff.pause().await {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::DocumentValue;

    use super::*;

    #[test]
    fn conditions_hold_for_stored_versions() {
        let (one, two) = (Timestamp(1), Timestamp(2));
        for (condition, stored, expected) in [
            (StoredCondition::Any, None, true),
            (StoredCondition::Any, Some(one), true),
            (StoredCondition::Absent, None, true),
            (StoredCondition::Absent, Some(one), false),
            (StoredCondition::WrittenAt(one), None, false),
            (StoredCondition::WrittenAt(one), Some(one), true),
            (StoredCondition::WrittenAt(one), Some(two), false),
        ] {
            assert_eq!(condition.holds(stored), expected, "{condition:?} {stored:?}");
        }
    }

    #[test]
    fn an_answer_shows_one_document_and_as_many_more_as_it_has_room_for() {
        let document = |bytes: usize| {
            let id = DocumentId::parse("id:a:b:n=7:c").expect("an id");
            let value = DocumentValue::String("x".repeat(bytes));
            Some((Document { id, fields: vec![("x".into(), value)] }, Timestamp(9)))
        };
        let room = AtomicUsize::new(1000);
        let is_shown = |bytes: usize| {
            matches!(
                ConflictingState::from_stored(document(bytes), true, &room),
                Ok(ConflictingState::Document(_))
            )
        };
        assert_eq!([400, 400, 4000, 1, 1].map(is_shown), [true, true, true, false, false]);
        let state = ConflictingState::from_stored(document(1), false, &AtomicUsize::new(1000));
        assert_eq!(state, Ok(ConflictingState::Version(Timestamp(9))), "it is not wanted");
        assert_eq!(ConflictingState::from_stored(None, true, &room), Ok(ConflictingState::Absent));
        let too_large =
            ConflictingState::from_stored(document(DOCUMENT_BYTES_MAX), true, &AtomicUsize::new(1));
        let failed = too_large.expect_err("an answer has no room for it");
        assert_eq!(failed.failure, SentFailure::Invalid, "{}", failed.reason);
    }
}
