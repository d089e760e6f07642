//! The documents of a group in a snapshot, or at a time after it: exported, or made operations that restore
//! the group.
//!
//! In a cluster each node has a snapshot of its own replicas. All are read, one after another, and of each
//! document the newest version counts. For a time the nodes have logs, too: a write that was acknowledged is
//! in the log of each node that took it, wherever its bucket is by now. Drops are collected first, since the
//! node that has a document in its snapshot need not be one that took the drop.

mod moment;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use millrace_access::{AccessRight, WantedGroups};
use millrace_document::{DocumentGroup, DocumentId, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{
    GroupMoment, NodeAddress, SnapshotAnswer, SnapshotQuestion, SnapshotVersion, SnapshotVersionPage,
    snapshots_at, snapshots_of_all,
};
use millrace_store::{DropOfGroup, SnapshotName};
use serde_json::Value;
use tokio::time::Instant;

use super::{GroupCall, LINES, export};
use crate::GatewayState;
use crate::http::{AnswerShare, OutgoingBodyError, counted_page};

/// Memory of a page in bytes that is reserved before it is read, if there is so much.
const PAGE_BYTES: usize = 4 << 20;

/// Time for which a page waits for room. Answers that are not read give theirs back before, with the default
/// of `connection-idle-s`.
const PAGE_ROOM_TIMEOUT: Duration = Duration::from_secs(600);

/// Existing documents of the group.
#[derive(Default)]
enum LiveDocuments {
    /// Existing documents are ignored: those of the snapshot are exported.
    #[default]
    Ignored,
    /// Existing documents that the snapshot lacks are removed at the end.
    Replaced(HashSet<String>),
    /// Existing documents stay as they are.
    Kept(HashSet<String>),
}

/// A group of a snapshot on the way to a client, or to the store.
struct SnapshotFeed {
    node: Arc<GatewayState>,
    subject: FeedSubject,
    group: DocumentGroup,
    /// Nodes that have something of it.
    sources: Vec<NodeAddress>,
    merge: VersionMerge,
}

/// The newest version of each document, of those read so far.
#[derive(Default)]
struct VersionMerge {
    live: LiveDocuments,
    /// Drops until the time.
    drops: Vec<DropOfGroup>,
    /// Time of the newest version of each document, and if that is not a removal.
    newest: HashMap<String, (Timestamp, bool)>,
    /// Group that ids leave out.
    implied_group: Option<DocumentGroup>,
}

/// Source of the documents of the group.
#[derive(Clone)]
enum FeedSubject {
    Snapshot(SnapshotName),
    Moment(GroupMoment),
}

/// Documents to be read, and the nodes that have something of them.
struct FeedSources {
    subject: FeedSubject,
    nodes: Vec<NodeAddress>,
}

/// Nodes that have to answer.
#[derive(Clone, Copy)]
enum NeededNodes {
    /// Those that have the documents.
    Any,
    /// Every node of the cluster.
    Every {
        /// Consequence of reading without one.
        otherwise: &'static str,
    },
}

/// Reason why the documents end before their end.
enum FeedEnd {
    /// The reader has left.
    Left,
    /// The documents cannot be read.
    Failed(String),
}

/// Returns true if a request is about a snapshot, or a time after one.
pub(super) fn is_requested(call: &GroupCall) -> bool {
    ["snapshot", moment::PARAMETER].iter().any(|name| call.parameters.get(name).is_some())
}

/// Answers with the documents of a group in a snapshot, or at a time after it, as JSON lines.
///
/// # Errors
/// The caller may not administer; there is no such snapshot.
pub(super) async fn export(call: &GroupCall, group: DocumentGroup) -> Result<Response, Error> {
    if call.parameters.get("type").is_some()
        || crate::document_api::feed::accepts_table(&call.request_headers)
    {
        let reason = "goes without type and without a table: all documents of the group come as lines";
        return Err(Error::parameter("snapshot", reason.to_owned()));
    }
    let needed = match call.parameters.get(moment::PARAMETER) {
        None => NeededNodes::Any,
        Some(_) => {
            NeededNodes::Every { otherwise: "documents that only it has would be missing; bring it back" }
        }
    };
    let sources = sources(call, &group, needed).await?;
    let mut response = Response::new(begin(call, group, sources, LiveDocuments::Ignored));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(response)
}

/// Operations that make a group what it was in a snapshot; with the parameter `missing`, those that write its
/// documents which do not exist.
///
/// # Errors
/// Those of [`export`]; a node of the cluster does not answer, and documents would be removed because of it.
pub(super) async fn operations(call: &GroupCall, group: DocumentGroup) -> Result<Body, Error> {
    let is_missing = call.parameters.flag("missing")?.unwrap_or(false);
    let otherwise = "documents that only it has would be removed; bring it back, or restore with missing=true, which \
                     removes nothing";
    let needed = if is_missing { NeededNodes::Any } else { NeededNodes::Every { otherwise } };
    let sources = sources(call, &group, needed).await?;
    // Ids of a snapshot are complete.
    let caller = Arc::new(call.caller.within(group.clone())?.implying(None));
    let live =
        export::ids(Arc::clone(&call.node), caller, call.headers.clone(), call.credential.clone()).await?;
    let live = if is_missing { LiveDocuments::Kept(live) } else { LiveDocuments::Replaced(live) };
    Ok(begin(call, group, sources, live))
}

fn missing(name: &SnapshotName) -> Error {
    Error::NotFound(format!("the snapshot '{name}' does not exist; millrace snapshot list shows all"))
}

impl NeededNodes {
    /// Returns an error if the answer of a node is needed that has not answered.
    fn without(self, name: &str, error: &Error) -> Result<(), Error> {
        match self {
            NeededNodes::Any => Ok(()),
            NeededNodes::Every { otherwise } => {
                let reason = error.message();
                Err(Error::Unsettled(format!("node {name} does not answer ({reason}), and {otherwise}")))
            }
        }
    }
}

/// Documents that a request reads, and the nodes that have some of them.
async fn sources(call: &GroupCall, group: &DocumentGroup, needed: NeededNodes) -> Result<FeedSources, Error> {
    // A snapshot has documents that were removed since.
    call.caller.check_right(&[AccessRight::Admin])?;
    call.caller.permit(WantedGroups::These(std::slice::from_ref(group)))?;
    let name = call.parameters.get("snapshot").map(SnapshotName::parse).transpose()?;
    match (moment::requested_time(&call.parameters)?, name) {
        (Some(until), name) => moment::sources(call, group, name.as_ref(), until, needed).await,
        (None, Some(name)) => {
            let nodes = nodes_with(call, &name, needed).await?;
            Ok(FeedSources { subject: FeedSubject::Snapshot(name), nodes })
        }
        (None, None) => Err(Error::parameter("snapshot", "is missing".to_owned())),
    }
}

/// Nodes that have a snapshot.
async fn nodes_with(
    call: &GroupCall,
    name: &SnapshotName,
    needed: NeededNodes,
) -> Result<Vec<NodeAddress>, Error> {
    let node = call.node.node();
    let Some(cluster) = call.node.cluster().view()? else {
        let there = node.store().snapshot(name)?;
        return there.map(|_| vec![NodeAddress::Local]).ok_or_else(|| missing(name));
    };
    let mut sources = Vec::new();
    for (listed, answer) in snapshots_of_all(node, cluster, &SnapshotQuestion::List, call.deadline).await? {
        match answer {
            Ok(SnapshotAnswer::Listed(snapshots, _)) => {
                if snapshots.iter().any(|snapshot| snapshot.name == *name) {
                    sources.push(cluster.address(listed.key)?);
                }
            }
            Ok(_) => return Err(Error::Internal("a list of snapshots has another form".to_owned())),
            Err(error) => needed.without(&listed.name, &error)?,
        }
    }
    if sources.is_empty() { Err(missing(name)) } else { Ok(sources) }
}

/// Begins to read the documents, as a body of operations.
fn begin(call: &GroupCall, group: DocumentGroup, sources: FeedSources, live: LiveDocuments) -> Body {
    let node = Arc::clone(&call.node);
    let FeedSources { subject, nodes: sources } = sources;
    // Operations of a restoration are for this server, and not for the client.
    let implied_group = call.caller.implied_group.clone().filter(|_| matches!(live, LiveDocuments::Ignored));
    let merge = VersionMerge { live, implied_group, ..VersionMerge::default() };
    let mut feed = SnapshotFeed { node, subject, group, sources, merge };
    let (mut sender, body) = Channel::<Bytes, OutgoingBodyError>::new(1);
    tokio::spawn(async move {
        if let Err(FeedEnd::Failed(reason)) = feed.run(&mut sender).await {
            tracing::warn!(reason, "reading a group of a snapshot ends early; its reader sees a broken body");
            sender.abort(OutgoingBodyError(reason));
        }
    });
    Body::new(body)
}

impl SnapshotFeed {
    async fn run(&mut self, sender: &mut Sender<Bytes, OutgoingBodyError>) -> Result<(), FeedEnd> {
        if let FeedSubject::Moment(moment) = &self.subject {
            let failed = |error: Error| FeedEnd::Failed(error.message());
            for source in &self.sources {
                let drops = moment::drops_at(&self.node, source, moment).await.map_err(failed)?;
                self.merge.drops.extend(drops);
            }
        }
        for source in std::mem::take(&mut self.sources) {
            let mut after = None;
            loop {
                let question = match self.subject.clone() {
                    FeedSubject::Snapshot(name) => {
                        SnapshotQuestion::Versions { name, group: self.group.clone(), after }
                    }
                    FeedSubject::Moment(moment) => SnapshotQuestion::Moment(moment, after),
                };
                // Before the page is in memory.
                let room = self.node.budget().page(PAGE_BYTES, Instant::now() + PAGE_ROOM_TIMEOUT).await;
                let Some(room) = room else {
                    return Err(FeedEnd::Failed("no room for a page; raise --answers-bytes-max".to_owned()));
                };
                let answer = snapshots_at(self.node.node(), source.clone(), question).await;
                let page = match answer {
                    Ok(SnapshotAnswer::Versions(page)) => page,
                    Ok(_) => return Err(FeedEnd::Failed("a page of versions has another form".to_owned())),
                    Err(error) => return Err(FeedEnd::Failed(error.message())),
                };
                let SnapshotVersionPage { versions, next } = page;
                let lines = self.lines(versions).await?;
                send(sender, lines, room).await?;
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        let LiveDocuments::Replaced(live) = &self.merge.live else { return Ok(()) };
        let mut lines = Vec::new();
        for id in live {
            if !self.merge.newest.get(id).is_some_and(|(_, is_there)| *is_there) {
                remove(&mut lines, id);
            }
        }
        let room = self.node.budget().count_answer(lines.len());
        send(sender, lines, room).await
    }

    /// Operations for versions, made by a thread of the pool.
    async fn lines(&mut self, versions: Vec<SnapshotVersion>) -> Result<Vec<u8>, FeedEnd> {
        let mut merge = std::mem::take(&mut self.merge);
        let merged = self.node.pool().run(move || {
            let lines = merge.lines(versions);
            (merge, lines)
        });
        let (merge, lines) = merged.await.map_err(|error| FeedEnd::Failed(error.message()))?;
        self.merge = merge;
        Ok(lines)
    }
}

impl VersionMerge {
    /// Operations for versions that are newer than those before.
    fn lines(&mut self, versions: Vec<SnapshotVersion>) -> Vec<u8> {
        let mut lines = Vec::new();
        for SnapshotVersion { id, mut timestamp, mut fields } in versions {
            let dropped = self.dropped(&id);
            if timestamp <= dropped {
                (timestamp, fields) = (dropped, None);
            }
            let before = self.newest.get(&id).copied();
            if before.is_some_and(|(known, _)| known >= timestamp) {
                continue;
            }
            let is_kept = matches!(&self.live, LiveDocuments::Kept(live) if live.contains(&id));
            match &fields {
                _ if is_kept => {}
                Some(fields) => {
                    let text =
                        format!("{{\"put\":{},\"fields\":{fields}}}\n", Value::from(self.shown_id(&id)));
                    lines.extend_from_slice(text.as_bytes());
                }
                // Another node had an older version.
                None if before.is_some_and(|(_, is_there)| is_there) => {
                    remove(&mut lines, &self.shown_id(&id));
                }
                None => {}
            }
            self.newest.insert(id, (timestamp, fields.is_some()));
        }
        lines
    }

    /// Text of an id in an operation.
    fn shown_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        match (&self.implied_group, DocumentId::parse(id)) {
            (Some(group), Ok(parsed)) => Cow::Owned(parsed.shown_within(Some(group)).into_owned()),
            _ => Cow::Borrowed(id),
        }
    }

    /// The time until which versions of a document were dropped; 0: none were.
    fn dropped(&self, id: &str) -> Timestamp {
        let parsed = || DocumentId::parse(id).ok();
        // Most groups were never dropped.
        let Some(id) = (!self.drops.is_empty()).then(parsed).flatten() else { return Timestamp(0) };
        let of_id = self.drops.iter().filter(|drop| drop.reaches(id.document_type(), id.location()));
        of_id.map(|drop| drop.timestamp).max().unwrap_or(Timestamp(0))
    }
}

fn remove(lines: &mut Vec<u8>, id: &str) {
    lines.extend_from_slice(format!("{{\"remove\":{}}}\n", Value::from(id)).as_bytes());
}

/// Sends lines, with their share of the memory of answers.
async fn send(
    sender: &mut Sender<Bytes, OutgoingBodyError>,
    lines: Vec<u8>,
    mut room: AnswerShare,
) -> Result<(), FeedEnd> {
    if lines.is_empty() {
        return Ok(());
    }
    room.settle(lines.len());
    sender.send_data(counted_page(lines, room)).await.map_err(|_| FeedEnd::Left)
}
