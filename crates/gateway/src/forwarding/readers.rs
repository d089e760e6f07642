//! Question of a node for the readers of the documents of a query, and its answer, over HTTP.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_cluster::{ClusterVersion, NodeKey};
use serde::{Deserialize, Serialize};

use super::{ForwardedRequest, NodeForwarder, is_unsettled};
use crate::http::BodyBounds;
use crate::status::HttpError;
use crate::{GatewayState, http};
use millrace_node::Error;
use millrace_node::cluster::{BucketReaders, ForwardKind, ReadersQuestion, bucket_of, own_readers, parts_of};

/// Path at which a node reports the readers of the buckets that it owns.
pub(crate) const READERS_PATH: &str = "/state/v1/cluster/readers";

/// Maximum bytes of a request and of an answer: there are at most about a million buckets.
const BYTES_MAX: usize = 32 << 20;

#[derive(Serialize, Deserialize)]
struct QuestionMessage {
    version: ClusterVersion,
    near: NodeKey,
    /// `None`: all.
    buckets: Option<Vec<(u8, u64)>>,
}

#[derive(Serialize, Deserialize)]
struct AnswerMessage {
    readers: Vec<ReplyMessage>,
}

#[derive(Serialize, Deserialize)]
struct ReplyMessage {
    bucket: (u8, u64),
    nodes: Vec<NodeKey>,
    full: bool,
    documents: u64,
}

impl QuestionMessage {
    fn of(ReadersQuestion { version, near, buckets }: ReadersQuestion) -> Self {
        let buckets = buckets.map(|buckets| buckets.into_iter().map(parts_of).collect());
        QuestionMessage { version, near, buckets }
    }
}

/// Asks the node at `address` for the readers of buckets that it owns.
///
/// # Errors
/// The node cannot be reached, or does not know them yet.
pub(super) async fn ask(
    forwarder: &NodeForwarder,
    address: &str,
    question: ReadersQuestion,
) -> Result<Vec<BucketReaders>, Error> {
    let mut body = Vec::new();
    ciborium::into_writer(&QuestionMessage::of(question), &mut body)
        .map_err(|error| Error::Internal(error.to_string()))?;
    let request = ForwardedRequest {
        method: Method::POST,
        target: READERS_PATH.to_owned(),
        headers: HeaderMap::new(),
        body: body.into(),
        room: None,
    };
    let answer = forwarder.send(address, request, &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) || answer.status() != StatusCode::OK {
        return Err(Error::Unsettled(format!("node {address} cannot say yet who has its documents")));
    }
    let body = to_bytes(answer.into_body(), BYTES_MAX)
        .await
        .map_err(|error| Error::Unsettled(format!("the answer of node {address} broke off: {error}")))?;
    let answer: AnswerMessage = ciborium::from_reader(&*body)
        .map_err(|error| Error::Unsettled(format!("the answer of node {address} cannot be read: {error}")))?;
    let told = |ReplyMessage { bucket, nodes, full, documents }| {
        Ok(BucketReaders { bucket: bucket_of(bucket)?, nodes, full, soon: false, documents })
    };
    answer.readers.into_iter().map(told).collect()
}

/// Reports to another node the readers of the buckets that this one owns.
pub(crate) async fn tell_readers(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    match answer(&node, request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = (error.status(), error.to_string()).into_response();
            if matches!(error, Error::Unsettled(_)) {
                super::unsettled(response.headers_mut());
            }
            response
        }
    }
}

async fn answer(node: &GatewayState, request: Request) -> Result<Response, Error> {
    let Some(cluster) = node.cluster() else {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    };
    let bounds = BodyBounds { bytes: BYTES_MAX, ..node.body_bounds() };
    let body = http::collect(node, request.into_body(), bounds).await?;
    let question: QuestionMessage = ciborium::from_reader(&*body)
        .map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))?;
    let buckets =
        question.buckets.map(|buckets| buckets.into_iter().map(bucket_of).collect::<Result<Vec<_>, _>>());
    let readers = own_readers(&**cluster, question.version, buckets.transpose()?.as_deref(), question.near)?;
    let told = |readers: BucketReaders| ReplyMessage {
        bucket: parts_of(readers.bucket),
        nodes: readers.nodes,
        full: readers.full,
        documents: readers.documents,
    };
    let answer = AnswerMessage { readers: readers.into_iter().map(told).collect() };
    let mut body = Vec::new();
    ciborium::into_writer(&answer, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(http::answer(StatusCode::OK, "application/cbor", body))
}

#[cfg(test)]
mod tests {
    use millrace_bucket::BucketId;
    use serde::de::DeserializeOwned;

    use super::*;

    /// Checks that a message is written as these bytes, and read from them.
    fn check<T: Serialize + DeserializeOwned>(message: &T, kept: &str) {
        let written = |message: &T| {
            let mut bytes = Vec::new();
            ciborium::into_writer(message, &mut bytes).unwrap();
            bytes
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let bytes = written(message);
        assert_eq!(hex(&bytes), kept);
        let read: T = ciborium::from_reader(&bytes[..]).unwrap();
        assert_eq!(hex(&written(&read)), kept);
    }

    /// The bytes are those of protocol 1: other versions read and write them.
    #[test]
    fn who_has_what_is_asked_and_told_as_ever() {
        let buckets = Some(vec![BucketId::new(10, 5)]);
        let question = |buckets| {
            QuestionMessage::of(ReadersQuestion {
                version: ClusterVersion::new(7),
                near: NodeKey(2),
                buckets,
            })
        };
        check(&question(buckets), "a36776657273696f6e07646e65617202676275636b65747381820a05");
        check(&question(None), "a36776657273696f6e07646e65617202676275636b657473f6");
        let told =
            ReplyMessage { bucket: (40, 5), nodes: vec![NodeKey(2), NodeKey(0)], full: true, documents: 300 };
        let kept = "a1677265616465727381a4666275636b657482182805656e6f6465738202006466756c6cf569646f63756d656e747319012c";
        check(&AnswerMessage { readers: vec![told] }, kept);
    }
}
