//! The documents of a group in a snapshot: exported, or made operations that restore the group.
//!
//! In a cluster each node has a snapshot of its own replicas. All are read, one after another, and of each
//! document the newest version counts.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use millrace_access::{AccessRight, WantedGroups};
use millrace_document::{DocumentGroup, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{
    NodeAddress, SnapshotAnswer, SnapshotQuestion, SnapshotVersion, SnapshotVersionPage, snapshots_at,
    snapshots_of_all,
};
use millrace_store::SnapshotName;
use serde_json::Value;

use super::{GroupCall, LINES, export};
use crate::GatewayState;

/// Existing documents of the group.
enum LiveDocuments {
    /// They are not looked at: the documents are exported.
    Ignored,
    /// Those that the snapshot lacks are removed at the end.
    Replaced(HashSet<String>),
    /// They stay as they are.
    Kept(HashSet<String>),
}

/// A group of a snapshot on the way to a client, or to the store.
struct SnapshotFeed {
    node: Arc<GatewayState>,
    name: SnapshotName,
    group: DocumentGroup,
    /// Nodes that have the snapshot.
    sources: Vec<NodeAddress>,
    live: LiveDocuments,
    /// Time of the newest version of each document, and if that is not a removal.
    newest: HashMap<String, (Timestamp, bool)>,
}

/// Reason why the documents end before their end.
enum FeedEnd {
    /// The reader has left.
    Left,
    /// The documents cannot be read.
    Failed(String),
}

/// Answers with the documents of a group in a snapshot, as JSON lines.
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
    let sources = sources(call, &group, false).await?;
    let mut response = Response::new(begin(call, group, sources, LiveDocuments::Ignored)?);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(response)
}

/// Operations that make a group what it was in a snapshot; with the parameter `missing`, those that write its
/// documents which do not exist.
///
/// # Errors
/// As [`export`]; a node of the cluster does not answer, and documents would be removed because of it.
pub(super) async fn operations(call: &GroupCall, group: DocumentGroup) -> Result<Body, Error> {
    let is_missing = call.parameters.flag("missing")?.unwrap_or(false);
    let sources = sources(call, &group, !is_missing).await?;
    let caller = Arc::new(call.caller.within(group.clone())?);
    let live = export::ids(Arc::clone(&call.node), caller, call.headers.clone()).await?;
    let live = if is_missing { LiveDocuments::Kept(live) } else { LiveDocuments::Replaced(live) };
    begin(call, group, sources, live)
}

fn wanted(call: &GroupCall) -> Result<SnapshotName, Error> {
    Ok(SnapshotName::parse(call.parameters.get("snapshot").unwrap_or_default())?)
}

/// Nodes that have the snapshot of a request. With `all`, every node has to answer.
async fn sources(call: &GroupCall, group: &DocumentGroup, all: bool) -> Result<Vec<NodeAddress>, Error> {
    // A snapshot has documents that were removed since.
    call.caller.check_right(&[AccessRight::Admin])?;
    call.caller.permit(WantedGroups::These(std::slice::from_ref(group)))?;
    let name = wanted(call)?;
    let missing =
        || Error::NotFound(format!("the snapshot '{name}' does not exist; millrace snapshot list shows all"));
    let node = call.node.node();
    let Some(cluster) = call.node.cluster().view()? else {
        let there = node.store().snapshot(&name)?;
        return there.map(|_| vec![NodeAddress::Here]).ok_or_else(missing);
    };
    let mut sources = Vec::new();
    for (listed, answer) in snapshots_of_all(node, cluster, &SnapshotQuestion::List, call.deadline).await? {
        match answer {
            Ok(SnapshotAnswer::Listed(snapshots, _)) => {
                if snapshots.iter().any(|snapshot| snapshot.name == name) {
                    sources.push(cluster.place(listed.key)?);
                }
            }
            Ok(_) => return Err(Error::Internal("a list of snapshots has another form".to_owned())),
            Err(error) if all => {
                let reason = error.message();
                return Err(Error::Unsettled(format!(
                    "node {} does not answer ({reason}), and documents that only its snapshot has would be removed; bring it \
                     back, or restore with missing=true, which removes nothing",
                    listed.name
                )));
            }
            Err(_) => {}
        }
    }
    if sources.is_empty() { Err(missing()) } else { Ok(sources) }
}

/// Begins to read the documents, as a body of operations.
fn begin(
    call: &GroupCall,
    group: DocumentGroup,
    sources: Vec<NodeAddress>,
    live: LiveDocuments,
) -> Result<Body, Error> {
    let (node, name) = (Arc::clone(&call.node), wanted(call)?);
    let mut feed = SnapshotFeed { node, name, group, sources, live, newest: HashMap::new() };
    let (mut sender, body) = Channel::<Bytes, io::Error>::new(2);
    tokio::spawn(async move {
        if let Err(FeedEnd::Failed(reason)) = feed.run(&mut sender).await {
            tracing::warn!(reason, "reading a group of a snapshot ends early; its reader sees a broken body");
            sender.abort(io::Error::other(reason));
        }
    });
    Ok(Body::new(body))
}

impl SnapshotFeed {
    async fn run(&mut self, sender: &mut Sender<Bytes, io::Error>) -> Result<(), FeedEnd> {
        for source in std::mem::take(&mut self.sources) {
            let mut after = None;
            loop {
                let (name, group) = (self.name.clone(), self.group.clone());
                let question = SnapshotQuestion::Versions { name, group, after };
                let answer = snapshots_at(self.node.node(), source.clone(), question).await;
                let page = match answer {
                    Ok(SnapshotAnswer::Versions(page)) => page,
                    Ok(_) => return Err(FeedEnd::Failed("a page of versions has another form".to_owned())),
                    Err(error) => return Err(FeedEnd::Failed(error.message())),
                };
                let SnapshotVersionPage { versions, next } = page;
                let lines = self.lines(versions);
                send(sender, lines).await?;
                match next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        let LiveDocuments::Replaced(live) = &self.live else { return Ok(()) };
        let mut lines = Vec::new();
        for id in live {
            if !self.newest.get(id).is_some_and(|(_, is_there)| *is_there) {
                remove(&mut lines, id);
            }
        }
        send(sender, lines).await
    }

    /// Operations for versions that are newer than those before.
    fn lines(&mut self, versions: Vec<SnapshotVersion>) -> Vec<u8> {
        let mut lines = Vec::new();
        for SnapshotVersion { id, timestamp, fields } in versions {
            let before = self.newest.get(&id).copied();
            if before.is_some_and(|(known, _)| known >= timestamp) {
                continue;
            }
            let is_kept = matches!(&self.live, LiveDocuments::Kept(live) if live.contains(&id));
            match &fields {
                _ if is_kept => {}
                Some(fields) => {
                    let text = format!("{{\"put\":{},\"fields\":{fields}}}\n", Value::from(id.as_str()));
                    lines.extend_from_slice(text.as_bytes());
                }
                // Another node had an older version.
                None if before.is_some_and(|(_, is_there)| is_there) => remove(&mut lines, &id),
                None => {}
            }
            self.newest.insert(id, (timestamp, fields.is_some()));
        }
        lines
    }
}

fn remove(lines: &mut Vec<u8>, id: &str) {
    lines.extend_from_slice(format!("{{\"remove\":{}}}\n", Value::from(id)).as_bytes());
}

async fn send(sender: &mut Sender<Bytes, io::Error>, lines: Vec<u8>) -> Result<(), FeedEnd> {
    if lines.is_empty() {
        return Ok(());
    }
    sender.send_data(Bytes::from(lines)).await.map_err(|_| FeedEnd::Left)
}
