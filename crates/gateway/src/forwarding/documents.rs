//! Question of a node for documents of others, and its answer, over HTTP.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millrace_node::cluster::{DocumentsAnswer, DocumentsQuestion, RemoteNode, own_documents};
use millrace_node::{Error, ErrorKind};

use super::message::MessageProtocol;
use super::{NodeForwarder, question};
use crate::GatewayState;

/// Path at which a node writes, drops and reads documents for others.
pub(crate) const DOCUMENTS_PATH: &str = "/state/v1/cluster/documents";

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
    // Documents that are written elsewhere after an answer was lost would be there twice.
    let unread = match &question {
        DocumentsQuestion::Write { .. } | DocumentsQuestion::Drop { .. } => Error::Unknown,
        DocumentsQuestion::Get { .. } | DocumentsQuestion::Exist { .. } | DocumentsQuestion::Page { .. } => {
            Error::Unsettled
        }
    };
    let answer = question::ask_or(forwarder, remote, DOCUMENTS_PATH, &question, unread).await;
    answer.map_err(|error| match error {
        // An older version without the path: another node is looked for.
        Error::Remote { kind: ErrorKind::NotFound, message } => Error::Unsettled(message),
        error => error,
    })
}

/// Answers another node about documents of this one.
pub(crate) async fn tell_documents(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    let protocol = MessageProtocol::of_request(request.headers());
    question::respond(protocol, answer(&node, request).await)
}

async fn answer(node: &GatewayState, request: Request) -> Result<DocumentsAnswer, Error> {
    let question: DocumentsQuestion = question::read(node, request).await?;
    own_documents(node.node(), question).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_bucket::BucketId;
    use millrace_cluster::ClusterVersion;
    use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Timestamp};
    use millrace_node::cluster::{HeldBucket, SentDocument, SentFailure, SentOutcome, SentVersion};

    use super::*;

    /// Other versions read and write these bytes, from protocol 3 on.
    #[test]
    fn documents_are_asked_for_and_told_as_ever() {
        let id = DocumentId::parse("id:a:b:n=7:c").expect("an id");
        let document = Document { id: id.clone(), fields: vec![("x".into(), DocumentValue::Bool(true))] };
        let (group, patience) = (DocumentGroup::Number(7), Duration::from_secs(2));
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
                    documents: vec![SentDocument::of(&document, true)],
                    patience,
                },
                "0007010c69643a613a623a6e3d373a63050101780101010200",
            ),
            (
                DocumentsQuestion::Drop {
                    version,
                    document_type: document_type.clone(),
                    group: group.clone(),
                    patience,
                },
                "01070162026e370200",
            ),
            (DocumentsQuestion::Get { held, id: id.clone() }, "020a05070c69643a613a623a6e3d373a63"),
            (DocumentsQuestion::Exist { held, ids: vec![id] }, "030a0507010c69643a613a623a6e3d373a63"),
            (
                DocumentsQuestion::Page { held, document_type, group, after: Some("z".to_owned()) },
                "040a05070162026e3701017a",
            ),
        ] {
            assert_eq!(written(&question), kept, "{question:?}");
        }
        let hex_of = |answer: &DocumentsAnswer| {
            hex(MessageProtocol::Second.append(Vec::new(), answer).expect("it is written"))
        };
        let failed = SentOutcome::Failed(SentFailure::DiskFull, "no".to_owned());
        for (answer, kept) in [
            (
                DocumentsAnswer::Written(vec![SentOutcome::Written, SentOutcome::Exists, failed]),
                "000300010202026e6f",
            ),
            (DocumentsAnswer::Dropped, "01"),
            (DocumentsAnswer::Document(None), "0200"),
            (DocumentsAnswer::Exist(vec![true, false]), "03020100"),
            (
                DocumentsAnswer::Page(vec![SentVersion::of(&document, Timestamp(9))], None),
                "04010c69643a613a623a6e3d373a630501017801010900",
            ),
        ] {
            assert_eq!(hex_of(&answer), kept, "{answer:?}");
        }
    }
}
