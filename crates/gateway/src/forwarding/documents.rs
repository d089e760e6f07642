//! Question of a node for documents of others, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::{CallerLimits, Permit};
use millrace_node::cluster::{
    ChangeLimits, ConditionalChange, DocumentsAnswer, DocumentsQuestion, FailedChange, RemoteNode,
    own_documents,
};
use millrace_node::{Error, ErrorKind};

use super::question::NodeQuestion;
use super::{NodeForwarder, question};
use crate::GatewayState;
use crate::quota::UncommittedSize;

/// Asks a node for documents.
///
/// # Errors
/// The node cannot be reached, does not own or have the documents, or is of an older version without the
/// question. [`Error::Unknown`]: its answer to a write or a drop is lost.
pub(super) async fn ask(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    question: DocumentsQuestion,
) -> Result<DocumentsAnswer, Error> {
    let is_drop = matches!(question, DocumentsQuestion::Drop { .. });
    let answer = question::ask(forwarder, remote, &question).await;
    answer.map_err(|error| refused(error, is_drop))
}

/// Error of a question that a node has refused as a whole: it has begun none of it, but for a drop, which is
/// one and may fail after its begin.
fn refused(error: Error, is_drop: bool) -> Error {
    match error {
        // An older version without the path: another node is looked for.
        Error::Remote { kind: ErrorKind::NotFound, message } => Error::Unsettled(message),
        Error::Remote { kind: ErrorKind::Unavailable, message } if !is_drop => Error::Unsettled(message),
        error => error,
    }
}

impl NodeQuestion for DocumentsQuestion {
    const PATH: &'static str = "/state/v1/cluster/documents";

    type Answer = DocumentsAnswer;

    async fn answer(self, node: &Arc<GatewayState>, permit: Permit) -> Result<DocumentsAnswer, Error> {
        match self {
            DocumentsQuestion::Change { changes, limits, timeout } => {
                let AdmittedChanges { admitted, refused, sizes } =
                    AdmittedChanges::admit(node, permit, changes, limits).await?;
                let question = DocumentsQuestion::Change { changes: admitted, limits, timeout };
                let answer = own_documents(node.node(), question).await?;
                drop(sizes);
                let DocumentsAnswer::Changed(outcomes) = answer else { return Ok(answer) };
                let mut outcomes = outcomes.into_iter();
                let of_change = |refused: Option<FailedChange>| match refused {
                    Some(refused) => Some(Err(refused)),
                    None => outcomes.next(),
                };
                Ok(DocumentsAnswer::Changed(refused.into_iter().filter_map(of_change).collect()))
            }
            question => own_documents(node.node(), question).await,
        }
    }

    /// A document that is written elsewhere after an answer was lost would be there twice.
    fn unread(&self) -> fn(String) -> Error {
        match self {
            DocumentsQuestion::Write { .. }
            | DocumentsQuestion::Drop { .. }
            | DocumentsQuestion::Change { .. } => Error::Unknown,
            DocumentsQuestion::Get { .. }
            | DocumentsQuestion::Exist { .. }
            | DocumentsQuestion::Page { .. }
            | DocumentsQuestion::BucketPage { .. } => Error::Unsettled,
        }
    }
}

/// Changes for another node after a look at the sizes of their groups, which the owner counts.
struct AdmittedChanges {
    admitted: Vec<ConditionalChange>,
    /// For each of all changes, the reason for which it is refused, if it is.
    refused: Vec<Option<FailedChange>>,
    /// Kept until the changes are committed.
    sizes: Vec<UncommittedSize>,
}

impl AdmittedChanges {
    /// Admits changes one by one.
    ///
    /// # Errors
    /// The thread for the files of the groups panics.
    async fn admit(
        node: &Arc<GatewayState>,
        permit: Permit,
        changes: Vec<ConditionalChange>,
        limits: ChangeLimits,
    ) -> Result<Self, Error> {
        let ChangeLimits { documents, bytes } = limits;
        let own = CallerLimits { documents, bytes, ..CallerLimits::default() };
        let node = Arc::clone(node);
        let admit = move || {
            let mut all = AdmittedChanges { admitted: Vec::new(), refused: Vec::new(), sizes: Vec::new() };
            for change in changes {
                let bytes = usize::try_from(change.sent_bytes).unwrap_or(usize::MAX);
                let size = match bytes {
                    0 => Ok(None),
                    bytes => node.admit_size(&own, &permit, &change.id, bytes),
                };
                match size {
                    Ok(size) => {
                        all.sizes.extend(size);
                        all.refused.push(None);
                        all.admitted.push(change);
                    }
                    Err(error) => all.refused.push(Some(error.into())),
                }
            }
            all
        };
        // It may read directories of files.
        let admitted = tokio::task::spawn_blocking(admit).await;
        admitted.map_err(|error| Error::Internal(format!("changes for another node: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_bucket::BucketId;
    use millrace_cluster::ClusterVersion;
    use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Timestamp};
    use millrace_node::cluster::{
        ConditionalEffect, ConflictingState, HeldBucket, SentDocument, SentFailure, SentOutcome, SentVersion,
        SettledChange, StoredCondition,
    };

    use super::*;
    use crate::forwarding::message::MessageProtocol;

    #[test]
    fn a_question_that_is_refused_as_a_whole_has_changed_nothing() {
        for (kind, of_write, of_drop) in [
            (ErrorKind::NotFound, true, true),
            (ErrorKind::Unavailable, true, false),
            (ErrorKind::Timeout, false, false),
            (ErrorKind::Internal, false, false),
        ] {
            let error = || Error::Remote { kind, message: "node b:1: no".to_owned() };
            assert_eq!(refused(error(), false).changed_nothing(), of_write, "{kind:?}");
            assert_eq!(refused(error(), true).changed_nothing(), of_drop, "{kind:?}");
        }
    }

    /// Other versions read and write these bytes, from protocol 3 on.
    #[test]
    fn questions_and_answers_about_documents_keep_their_bytes() {
        let id = DocumentId::parse("id:a:b:n=7:c").expect("an id");
        let document = Document { id: id.clone(), fields: vec![("x".into(), DocumentValue::Bool(true))] };
        let (group, timeout) = (DocumentGroup::Number(7), Duration::from_secs(2));
        let version = ClusterVersion::new(7);
        let held = HeldBucket { bucket: BucketId::new(10, 5), version };
        let document_type = "b".to_owned();
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let written = |question: &DocumentsQuestion| {
            hex(MessageProtocol::Second.append(Vec::new(), question).expect("it is written"))
        };
        for (question, kept) in [
            (
                DocumentsQuestion::Write {
                    version,
                    documents: vec![SentDocument::new(&document, true)],
                    timeout,
                },
                "0007010c69643a613a623a6e3d373a63050101780101010200",
            ),
            (
                DocumentsQuestion::Drop {
                    version,
                    document_type: document_type.clone(),
                    group: group.clone(),
                    timeout,
                },
                "01070162026e370200",
            ),
            (DocumentsQuestion::Get { held, id: id.clone() }, "020a05070c69643a613a623a6e3d373a63"),
            (DocumentsQuestion::Exist { held, ids: vec![id] }, "030a0507010c69643a613a623a6e3d373a63"),
            (
                DocumentsQuestion::Page {
                    held,
                    document_type: document_type.clone(),
                    group,
                    after: Some("z".to_owned()),
                },
                "040a05070162026e3701017a",
            ),
            (
                DocumentsQuestion::BucketPage {
                    version,
                    buckets: vec![held.bucket],
                    document_type,
                    after: Some("z".to_owned()),
                    bytes: 9,
                },
                "0607010a05016201017a09",
            ),
            (
                DocumentsQuestion::Change {
                    changes: vec![
                        ConditionalChange {
                            id: document.id.clone(),
                            condition: StoredCondition::Any,
                            effect: ConditionalEffect::put(&document),
                            shows_stored: false,
                            sent_bytes: 5,
                            // It is no part of the message.
                            is_admitted: false,
                        },
                        ConditionalChange {
                            condition: StoredCondition::WrittenAt(Timestamp(9)),
                            effect: ConditionalEffect::Remove,
                            ..ConditionalChange::look(document.id.clone())
                        },
                        ConditionalChange::look(document.id.clone()),
                    ],
                    limits: ChangeLimits { documents: None, bytes: Some(7) },
                    timeout,
                },
                "0503\
                 0c69643a613a623a6e3d373a6300010501017801010005\
                 0c69643a613a623a6e3d373a630209020100\
                 0c69643a613a623a6e3d373a6301000100\
                 0001070200",
            ),
        ] {
            assert_eq!(written(&question), kept, "{question:?}");
        }
        let hex_of = |answer: &DocumentsAnswer| {
            hex(MessageProtocol::Second.append(Vec::new(), answer).expect("it is written"))
        };
        let failed = |failure| SentOutcome::Failed(failure, "no".to_owned());
        let written = vec![
            SentOutcome::Written,
            SentOutcome::Exists,
            failed(SentFailure::DiskFull),
            failed(SentFailure::PartlyFull),
        ];
        for (answer, kept) in [
            (DocumentsAnswer::Written(written), "000400010202026e6f0206026e6f"),
            (DocumentsAnswer::Dropped, "01"),
            (DocumentsAnswer::Document(None), "0200"),
            (DocumentsAnswer::Exist(vec![true, false]), "03020100"),
            (
                DocumentsAnswer::Page(vec![SentVersion::new(&document, Timestamp(9))], None),
                "04010c69643a613a623a6e3d373a630501017801010900",
            ),
            (
                DocumentsAnswer::Changed(vec![
                    Ok(SettledChange::Done { timestamp: Timestamp(9), existed: true }),
                    Ok(SettledChange::Conflict(ConflictingState::Absent)),
                    Ok(SettledChange::Conflict(ConflictingState::Version(Timestamp(9)))),
                    Ok(SettledChange::Conflict(ConflictingState::Document(SentVersion::new(
                        &document,
                        Timestamp(9),
                    )))),
                    Err(Error::DiskFull("no".to_owned()).into()),
                ]),
                "0505\
                 00000901\
                 000100\
                 00010109\
                 0001020c69643a613a623a6e3d373a6305010178010109\
                 0102026e6f",
            ),
        ] {
            assert_eq!(hex_of(&answer), kept, "{answer:?}");
        }
    }
}
