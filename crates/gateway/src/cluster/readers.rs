//! Readers of the documents of a query, as their owners report them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_document::DocumentGroup;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{BucketReaders, ClusterView, ForwardKind, ForwardedRequest, NodeAddress, is_unsettled};
use crate::http::BodyBounds;
use crate::{Error, Node, http};

/// Path at which a node reports the readers of the buckets that it owns.
pub(crate) const READERS_PATH: &str = "/state/v1/cluster/readers";

/// Maximum bytes of a request and of an answer: there are at most about a million buckets.
const BYTES_MAX: usize = 32 << 20;

#[derive(Serialize, Deserialize)]
struct ReadersQuestion {
    version: u64,
    near: NodeKey,
    /// `None`: all.
    buckets: Option<Vec<(u8, u64)>>,
}

#[derive(Serialize, Deserialize)]
struct ReadersAnswer {
    readers: Vec<ReadersReply>,
}

#[derive(Serialize, Deserialize)]
struct ReadersReply {
    bucket: (u8, u64),
    nodes: Vec<NodeKey>,
    full: bool,
    documents: u64,
}

/// Readers of the documents of a query.
pub(crate) struct ReadersFound {
    /// Version of the cluster state for which this holds: a read counts if the cluster vouches for it
    /// afterwards.
    pub(crate) version: u64,
    /// Readers of each bucket that has documents.
    pub(crate) readers: Vec<BucketReaders>,
    /// Owners that did not answer: the contents of their buckets are not known.
    pub(crate) silent: Vec<NodeKey>,
}

/// Asks the owners for the readers of these groups, or of all. If `partial` is set, an owner that cannot be
/// reached, or does not answer until `until`, is skipped.
///
/// # Errors
/// Some owner cannot be reached, or the nodes do not agree yet.
pub(crate) async fn readers_of_all(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    groups: Option<&[DocumentGroup]>,
    until: Instant,
    partial: bool,
) -> Result<ReadersFound, Error> {
    let owners = cluster.owners(groups).map_err(Error::Unsettled)?;
    let near = cluster.me().map_err(Error::Unsettled)?;
    let mut found = ReadersFound { version: owners.version, readers: Vec::new(), silent: Vec::new() };
    let mut asked = JoinSet::new();
    for (owner, buckets) in owners.nodes {
        match cluster.place(owner).map_err(Error::Unsettled)? {
            NodeAddress::Here => {
                found.readers.extend(own(cluster, owners.version, buckets.as_deref(), near)?)
            }
            NodeAddress::At(address) => {
                let (node, version) = (Arc::clone(node), owners.version);
                asked.spawn(async move {
                    let answer = ask(&node, &address, ReadersQuestion::new(version, near, buckets));
                    let answer = tokio::time::timeout_at(until.into(), answer).await.unwrap_or_else(|_| {
                        let reason = "it does not say in time who has its documents".to_owned();
                        Err(Error::Unreachable { address, reason, sent: true })
                    });
                    (owner, answer)
                });
            }
        }
    }
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|error| Error::Internal(error.to_string()))? {
            (_, Ok(readers)) => found.readers.extend(readers),
            (owner, Err(Error::Unreachable { .. })) if partial => found.silent.push(owner),
            (_, Err(error)) => return Err(error),
        }
    }
    found.readers.retain(|readers| !readers.nodes.is_empty());
    Ok(found)
}

impl ReadersFound {
    /// Assigns the buckets to nodes, so that every bucket is read once: at its best node that is not among
    /// the nodes to avoid. Also returns the approximate number of documents in buckets that have no other
    /// node, if there are such buckets.
    pub(crate) fn assigned(
        &self,
        avoid: &dyn Fn(NodeKey) -> bool,
    ) -> (BTreeMap<NodeKey, Vec<BucketId>>, Option<u64>) {
        let (mut nodes, mut unread) = (BTreeMap::<NodeKey, Vec<BucketId>>::new(), None);
        for readers in &self.readers {
            match readers.nodes.iter().find(|node| !avoid(**node)) {
                Some(node) => nodes.entry(*node).or_default().push(readers.bucket),
                None => *unread.get_or_insert(0) += readers.documents,
            }
        }
        (nodes, unread)
    }

    /// True if everything that is on nodes that serve can be read.
    pub(crate) fn is_full(&self) -> bool {
        self.silent.is_empty() && self.readers.iter().all(|readers| readers.full)
    }
}

impl ReadersQuestion {
    fn new(version: u64, near: NodeKey, buckets: Option<Vec<BucketId>>) -> Self {
        let buckets = buckets.map(|buckets| buckets.into_iter().map(parts_of).collect());
        ReadersQuestion { version, near, buckets }
    }
}

pub(crate) fn parts_of(bucket: BucketId) -> (u8, u64) {
    (bucket.used_bits(), bucket.bits())
}

pub(crate) fn bucket_of((used_bits, bits): (u8, u64)) -> Result<BucketId, Error> {
    match used_bits <= 58 {
        true => Ok(BucketId::new(used_bits, bits)),
        false => Err(Error::BadRequest(format!("a bucket uses at most 58 bits, not {used_bits}"))),
    }
}

/// Returns the readers of buckets that this node owns.
fn own(
    cluster: &dyn ClusterView,
    version: u64,
    buckets: Option<&[BucketId]>,
    near: NodeKey,
) -> Result<Vec<BucketReaders>, Error> {
    let (own, readers) = cluster.readers(buckets, near).map_err(Error::Unsettled)?;
    match own == version {
        true => Ok(readers),
        false => Err(Error::Unsettled("the nodes have different cluster states".to_owned())),
    }
}

async fn ask(node: &Node, address: &str, question: ReadersQuestion) -> Result<Vec<BucketReaders>, Error> {
    let mut body = Vec::new();
    ciborium::into_writer(&question, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    let request = ForwardedRequest {
        method: Method::POST,
        target: READERS_PATH.to_owned(),
        headers: HeaderMap::new(),
        body: body.into(),
        room: None,
    };
    let answer = node.forwarder().send(address, request, &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) || answer.status() != StatusCode::OK {
        return Err(Error::Unsettled(format!("node {address} cannot say yet who has its documents")));
    }
    let body = to_bytes(answer.into_body(), BYTES_MAX)
        .await
        .map_err(|error| Error::Unsettled(format!("the answer of node {address} broke off: {error}")))?;
    let answer: ReadersAnswer = ciborium::from_reader(&*body)
        .map_err(|error| Error::Unsettled(format!("the answer of node {address} cannot be read: {error}")))?;
    let told = |ReadersReply { bucket, nodes, full, documents }| {
        Ok(BucketReaders { bucket: bucket_of(bucket)?, nodes, full, soon: false, documents })
    };
    answer.readers.into_iter().map(told).collect()
}

/// Reports to another node the readers of the buckets that this one owns.
pub(crate) async fn tell_readers(State(node): State<Arc<Node>>, request: Request) -> Response {
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

async fn answer(node: &Node, request: Request) -> Result<Response, Error> {
    let Some(cluster) = node.cluster() else {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    };
    let bounds = BodyBounds { bytes: BYTES_MAX, ..node.body_bounds() };
    let body = http::collect(node, request.into_body(), bounds).await?;
    let question: ReadersQuestion = ciborium::from_reader(&*body)
        .map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))?;
    let buckets =
        question.buckets.map(|buckets| buckets.into_iter().map(bucket_of).collect::<Result<Vec<_>, _>>());
    let readers = own(&**cluster, question.version, buckets.transpose()?.as_deref(), question.near)?;
    let told = |readers: BucketReaders| ReadersReply {
        bucket: parts_of(readers.bucket),
        nodes: readers.nodes,
        full: readers.full,
        documents: readers.documents,
    };
    let answer = ReadersAnswer { readers: readers.into_iter().map(told).collect() };
    let mut body = Vec::new();
    ciborium::into_writer(&answer, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(http::answer(StatusCode::OK, "application/cbor", body))
}

#[cfg(test)]
mod tests {
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
        check(
            &ReadersQuestion::new(7, NodeKey(2), buckets),
            "a36776657273696f6e07646e65617202676275636b65747381820a05",
        );
        check(
            &ReadersQuestion::new(7, NodeKey(2), None),
            "a36776657273696f6e07646e65617202676275636b657473f6",
        );
        let told =
            ReadersReply { bucket: (40, 5), nodes: vec![NodeKey(2), NodeKey(0)], full: true, documents: 300 };
        let kept = "a1677265616465727381a4666275636b657482182805656e6f6465738202006466756c6cf569646f63756d656e747319012c";
        check(&ReadersAnswer { readers: vec![told] }, kept);
    }
}
