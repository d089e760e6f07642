//! A node's share of a query over several nodes: a conversation with the gathering node, on one request and
//! its answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use millrace_bucket::BucketId;
use millrace_query::QueryLimits;
use millrace_search::{SearchDeadline, ShareReply, ShareRequest, ShareSession};
use serde::{Deserialize, Serialize};

use super::GRACE;
use super::rewrite::{self, RewrittenQuery};
use super::run::{self, QueryRequest};
use crate::caller::CallerGuard;
use crate::cluster::{ReadFence, bucket_of, check_held};
use crate::http::{FrameReader, frame};
use crate::{CompiledApplication, Error, Node};

/// Maximum bytes of one message, request or answer.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// First message to a node.
#[derive(Serialize, Deserialize)]
pub(super) struct ShareBegin {
    /// Current parameters of the query, with the rest of its time.
    pub(super) parameters: BTreeMap<String, String>,
    /// Buckets of the share.
    pub(super) buckets: Vec<(u8, u64)>,
    /// Version of the cluster state: in another one, they may be divided differently.
    pub(super) version: u64,
    /// The first request.
    pub(super) ask: ShareRequest,
}

/// A query over documents of this node, during the conversation.
pub(super) struct LocalShare {
    request: QueryRequest,
    /// `None` while it works on an answer, and after a failed one.
    session: Option<(ShareSession, SearchDeadline)>,
}

impl LocalShare {
    /// Starts a search of the documents of these buckets.
    pub(super) async fn begin(request: QueryRequest, buckets: Vec<BucketId>) -> Result<Self, Error> {
        let (looking, wanted) = (request.clone(), buckets.clone());
        let session =
            request.node.pool().run_in(request.flow()?, move || run::session(&looking, &wanted)).await??;
        if let Some(cluster) = request.node.cluster() {
            check_held(&**cluster, &buckets)?;
        }
        Ok(LocalShare { request, session: Some(session) })
    }

    pub(super) async fn ask(&mut self, ask: ShareRequest) -> Result<ShareReply, Error> {
        let lost = || Error::Internal("a share of a query was given up; ask again".to_owned());
        let (mut session, deadline) = self.session.take().ok_or_else(lost)?;
        let answer = move || {
            let reply = session.answer(ask, &deadline);
            (reply, (session, deadline))
        };
        let (reply, session) = self.request.node.pool().run_in(self.request.flow()?, answer).await?;
        self.session = Some(session);
        Ok(reply?)
    }
}

/// Answers the gathering node.
pub(super) async fn answer(
    node: &Arc<Node>,
    deployment: Arc<CompiledApplication>,
    request: extract::Request,
    started: Instant,
) -> Result<Response, Error> {
    if node.cluster().is_none() {
        return Err(Error::BadRequest("this node is not one of a cluster".to_owned()));
    }
    // The gathering node looks for another node, or waits: this one may run an older version.
    let unreadable = |reason: String| Error::Unsettled(format!("the question cannot be read: {reason}"));
    let mut asks = FrameReader::new(request.into_body(), MESSAGE_BYTES_MAX, Some(node.budget().share()));
    let begin: Option<ShareBegin> = asks.next().await.map_err(unreadable)?;
    let begin = begin.ok_or_else(|| unreadable("there is none".to_owned()))?;
    let buckets = begin.buckets.into_iter().map(bucket_of).collect::<Result<Vec<_>, _>>()?;
    let caller = CallerGuard::default();
    let gone = Arc::clone(&caller.gone);
    // The gathering node has checked the limits.
    let limits = QueryLimits {
        max_hits: usize::MAX,
        max_offset: usize::MAX,
        max_timeout: Duration::MAX,
        text_bytes_max: usize::MAX,
        tokens_max: usize::MAX,
        values_max: usize::MAX,
        ..QueryLimits::default()
    };
    let RewrittenQuery { query, told } = rewrite::query(node, &deployment, begin.parameters, limits).await?;
    let query = Arc::new(query);
    let until = started + query.timeout;
    let embeddings = Arc::new(super::embed(node, &deployment, &query, until, &gone).await?);
    // The gathering node has reserved the memory for it, and must not wait for that of others meanwhile.
    let asked = Arc::clone(node);
    let request =
        QueryRequest { node: asked, deployment, query, told, embeddings, started, gone, _room: None };
    let vouch = ReadFence::of_version(begin.version);
    let mut local = LocalShare::begin(request, buckets).await?;
    vouch.check(node)?;
    let first = local.ask(begin.ask).await?;
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let talk = async move {
        // The gathering node waits as long as this runs.
        let _caller = caller;
        if send(&mut sender, &first).await.is_err() {
            return;
        }
        while let Ok(Some(ask)) = asks.next().await {
            match local.ask(ask).await {
                Ok(reply) if send(&mut sender, &reply).await.is_ok() => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "a share of a query cannot be given");
                    return;
                }
            }
        }
    };
    tokio::spawn(tokio::time::timeout_at((until + GRACE).into(), talk));
    Ok(Response::new(Body::new(body)))
}

async fn send(sender: &mut Sender<Bytes, Infallible>, reply: &ShareReply) -> Result<(), ()> {
    let bytes = frame(reply).map_err(|reason| tracing::warn!(reason, "a share of a query cannot be sent"))?;
    sender.send_data(bytes).await.map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of protocol 1: other versions read and write them. The bytes that follow them are
    /// kept in `millrace_search`.
    #[test]
    fn a_share_is_asked_for_as_ever() {
        let begin = ShareBegin {
            parameters: BTreeMap::from([("yql".to_owned(), "select".to_owned())]),
            buckets: vec![(40, 5)],
            version: 7,
            ask: ShareRequest::Share(None),
        };
        let bytes = frame(&begin).unwrap();
        let kept = "3a000000a46a706172616d6574657273a16379716c6673656c656374676275636b65747381821828056776657273696f6e076361736ba1655368617265f6";
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), kept);
        let read: ShareBegin = ciborium::from_reader(&bytes[4..]).unwrap();
        assert_eq!(frame(&read).unwrap(), bytes);
    }
}
