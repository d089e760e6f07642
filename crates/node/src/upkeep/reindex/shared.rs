//! Reindexing in a cluster: each node does the buckets that it owns, as their owner.
//!
//! 1. The nodes agree by shared notes on the documents to reindex, and on those already done
//!    ([`SharedReindexing`]).
//! 2. A node processes the documents of a bucket page by page, while it owns the bucket and has all of it.
//!    Each document that the statements change is written like any other, if it still has the version that
//!    was read. A page counts only if the node owned and had the bucket all the while: otherwise it is done
//!    again, here or by the next owner.
//! 3. When the cluster state changes, the node determines again what it owns; work that others have done
//!    already is not repeated.
//! 4. Work done while nodes are absent is repeated when they are back, or removed: they may have had the only
//!    copy of some documents.
//! 5. When everything that it owns by a state is done, and no node is absent, it reports so. When all nodes
//!    report so for the current state, all is done: every bucket has an owner.
//!
//! Nothing is done while enough nodes are absent to have the only copies of some documents, nor by a node
//! that does not have the newest application.

use millrace_cluster::ClusterVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_store::ViewScope;

use super::{pace_of, page};
use crate::cluster::{ClusterView, DocumentAvailability, NodeAddress, check_held};
use crate::deployment::CompiledDocumentType;
use crate::error::ErrorKind;
use crate::reindexing::{self, NodeReindexMark, ReindexTask, ReindexedBuckets, SharedReindexing};
use crate::upkeep::IDLE;
use crate::{Error, Node};

/// Interval at which progress is stored. Repeating work after a crash is harmless.
const SAVE: Duration = Duration::from_secs(5);

/// Pause before buckets that move are checked again, and after an obstacle at another node.
const AGAIN: Duration = Duration::from_millis(100);

/// Passes of a node, by content cluster and document type.
#[derive(Default)]
pub(super) struct ReindexPasses(BTreeMap<(Arc<str>, Arc<str>), ReindexPass>);

/// A node's part in the reindexing of a document type.
struct ReindexPass {
    mark: NodeReindexMark,
    /// True if the current mark is not stored.
    unsaved: bool,
    saved: Instant,
    /// Cluster state on which the other fields are based, and the absence of nodes in it.
    survey: Option<(ClusterVersion, DocumentAvailability)>,
    /// Buckets that this node owns and that are not done, the next one last.
    left: Vec<BucketId>,
    /// Positions at which to continue in partly done buckets.
    positions: BTreeMap<BucketId, String>,
}

/// One turn of a task.
struct ReindexTurn<'a> {
    node: &'a Node,
    cluster: &'a dyn ClusterView,
    shared: &'a SharedReindexing,
    task: &'a ReindexTask,
    kind: &'a CompiledDocumentType,
}

impl ReindexPasses {
    /// Does a small step; returns the pause after it.
    pub(super) fn step(&mut self, node: &Node, cluster: &dyn ClusterView) -> Duration {
        match self.attempt(node, cluster) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::debug!(%error, "reindexing waits");
                IDLE
            }
        }
    }

    fn attempt(&mut self, node: &Node, cluster: &dyn ClusterView) -> Result<Duration, Error> {
        let Ok(deployment) = node.deployments().current() else { return Ok(IDLE) };
        // The node that received the deployment may have stopped before it did this.
        reindexing::deployed(node, &deployment)?;
        let shared = SharedReindexing::read(cluster)?;
        // Others have a newer application: its documents must not be processed by the statements of this one.
        if shared.generation() > deployment.generation {
            return Ok(IDLE);
        }
        let tasks = shared.tasks(deployment.generation);
        self.0.retain(|(id, document_type), pass| {
            let is_of = |task: &ReindexTask| (&task.cluster, &task.document_type) == (id, document_type);
            tasks.iter().any(|task| is_of(task) && pass.mark.is_of(task))
        });
        for task in &tasks {
            let Ok(kind) = deployment.kind(&task.document_type) else { continue };
            let turn = ReindexTurn { node, cluster, shared: &shared, task, kind };
            let key = (Arc::clone(&task.cluster), Arc::clone(&task.document_type));
            let pass = match self.0.remove(&key) {
                Some(pass) => pass,
                None => ReindexPass::resumed(&turn)?,
            };
            if let Some(pause) = self.0.entry(key).or_insert(pass).step(&turn)? {
                return Ok(pause);
            }
        }
        Ok(IDLE)
    }
}

impl ReindexPass {
    /// Continues from the mark that this node stored before its restart.
    fn resumed(turn: &ReindexTurn<'_>) -> Result<Self, Error> {
        let me = turn.cluster.me()?;
        let before = turn.shared.marks(turn.task).remove(&me);
        Ok(ReindexPass {
            mark: before.unwrap_or_else(|| NodeReindexMark::new(turn.task)),
            unsaved: true,
            saved: Instant::now(),
            survey: None,
            left: Vec::new(),
            positions: BTreeMap::new(),
        })
    }

    /// Processes the next page. Returns the pause after it; `None` if there is nothing to do here now, and
    /// another type can be tried.
    fn step(&mut self, turn: &ReindexTurn<'_>) -> Result<Option<Duration>, Error> {
        if self.mark.waits() {
            return Ok(None);
        }
        let pause = match self.advance(turn) {
            Ok(pause) => pause,
            Err(error) if passes(&error) => {
                tracing::debug!(%error, "reindexing is tried again");
                Some(AGAIN)
            }
            Err(error) => {
                tracing::warn!(%error, document_type = &*turn.task.document_type, "reindexing has failed; it goes on in some minutes");
                self.mark.fail(error.to_string());
                self.unsaved = true;
                self.save(turn)?;
                None
            }
        };
        if self.unsaved && self.saved.elapsed() >= SAVE {
            self.save(turn)?;
        }
        Ok(pause)
    }

    fn advance(&mut self, turn: &ReindexTurn<'_>) -> Result<Option<Duration>, Error> {
        let (version, reach) = self.survey(turn)?;
        let Some(bucket) = self.left.last().copied() else { return self.rest(turn, (version, reach)) };
        if reach == DocumentAvailability::Some {
            return Ok(Some(IDLE));
        }
        let began = Instant::now();
        let Some(content) = is_ready(turn.cluster, bucket, version)? else {
            // The bucket is on its way here: others may be ready.
            self.left.rotate_right(1);
            return Ok(Some(AGAIN));
        };
        if content == BucketContent::Nothing {
            self.done(bucket, reach);
            return Ok(Some(Duration::ZERO));
        }
        let from = self.positions.get(&bucket).cloned();
        let swept = page(turn.node, turn.kind, ViewScope::Buckets(vec![bucket]), from)?;
        check_held(turn.cluster, &[bucket])?;
        if !turn.cluster.vouches(version) {
            return Err(Error::Unsettled("the cluster state has changed".to_owned()));
        }
        match swept.continuation {
            Some(position) => {
                self.mark.set_at(Some((bucket, &position)), reach == DocumentAvailability::All);
                self.positions.insert(bucket, position);
                self.unsaved = true;
            }
            None => self.done(bucket, reach),
        }
        Ok(Some(pace_of(turn.node, began, swept.seen, turn.task)))
    }

    fn done(&mut self, bucket: BucketId, reach: DocumentAvailability) {
        self.left.retain(|left| *left != bucket);
        self.positions.remove(&bucket);
        match reach {
            DocumentAvailability::All => {
                self.mark.done.add(bucket);
                self.mark.without.remove(bucket);
            }
            DocumentAvailability::Most | DocumentAvailability::Some => self.mark.without.add(bucket),
        }
        self.mark.set_at(None, true);
        self.unsaved = true;
    }

    /// Determines what this node owns, if that may have changed. Returns the version and the reach of the
    /// cluster state.
    fn survey(&mut self, turn: &ReindexTurn<'_>) -> Result<(ClusterVersion, DocumentAvailability), Error> {
        let version = turn.cluster.owners(None)?.version;
        if let Some(survey) = self.survey.filter(|(of, _)| *of == version) {
            return Ok(survey);
        }
        let reach = turn.cluster.reach()?;
        let all = reach == DocumentAvailability::All;
        let (bits, divided) = turn.cluster.buckets()?;
        let whole = (0..1_u64 << bits).map(|number| BucketId::new(bits, number));
        let is_own = |bucket: &BucketId| matches!(turn.cluster.owner_of(*bucket), Ok(NodeAddress::Here));
        let own: Vec<BucketId> = whole.chain(divided).filter(is_own).collect();
        if turn.cluster.owners(None)?.version != version {
            return Err(Error::Unsettled("the cluster state has changed".to_owned()));
        }
        let mut done = ReindexedBuckets::default();
        let marks = turn.shared.marks(turn.task);
        // The position in a bucket while nodes were absent says nothing of their documents.
        if all && self.survey.is_none_or(|(_, before)| before != DocumentAvailability::All) {
            self.positions.clear();
        }
        for mark in marks.values().chain([&self.mark]) {
            done.extend(&mark.done);
            if !all {
                done.extend(&mark.without);
            }
            self.positions.extend(mark.at(all).map(|(bucket, position)| (bucket, position.to_owned())));
        }
        self.left = own.into_iter().filter(|bucket| !done.has(*bucket)).collect();
        self.left.sort_by_key(|bucket| std::cmp::Reverse(bucket.reversed_range()));
        // The previous owner may have followed a newer record: this one must be known to be the newest before
        // anything of that owner's is changed.
        self.save(turn)?;
        if self.unsaved {
            return Err(Error::Unsettled("what is to be reindexed has changed".to_owned()));
        }
        if !all {
            tracing::info!(
                document_type = &*turn.task.document_type,
                "nodes are away: reindexing ends when they are back, or removed"
            );
        }
        self.survey = Some((version, reach));
        Ok((version, reach))
    }

    /// Everything here is done: reports so, and checks if it is everywhere.
    fn rest(
        &mut self,
        turn: &ReindexTurn<'_>,
        (version, reach): (ClusterVersion, DocumentAvailability),
    ) -> Result<Option<Duration>, Error> {
        if reach == DocumentAvailability::All && self.mark.clean != Some(version) {
            self.mark.clean_by(version);
            self.unsaved = true;
        }
        if self.unsaved {
            self.save(turn)?;
            return Ok(Some(Duration::ZERO));
        }
        let owners = turn.cluster.owners(None)?;
        let marks = turn.shared.marks(turn.task);
        let is_done = |mark: &NodeReindexMark| mark.clean == Some(owners.version);
        if owners.nodes.iter().all(|(node, _)| marks.get(node).is_some_and(is_done)) {
            turn.shared.end(turn.cluster, turn.task)?;
        }
        Ok(None)
    }

    /// Stores the mark. If the record has changed, the new one is read first.
    fn save(&mut self, turn: &ReindexTurn<'_>) -> Result<(), Error> {
        let me = turn.cluster.me()?;
        self.unsaved = !turn.shared.save(turn.cluster, turn.task, me, &self.mark)?;
        self.saved = Instant::now();
        Ok(())
    }
}

/// Contents of a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BucketContent {
    /// No node has any documents.
    Nothing,
    /// This node has all of it.
    All,
}

/// Contents of a bucket that this node owns; `None`: it does not have all of it yet.
fn is_ready(
    cluster: &dyn ClusterView,
    bucket: BucketId,
    version: ClusterVersion,
) -> Result<Option<BucketContent>, Error> {
    let me = cluster.me()?;
    let (now, readers) = cluster.readers(Some(&[bucket]), me)?;
    if now != version {
        return Err(Error::Unsettled("the cluster state has changed".to_owned()));
    }
    Ok(match readers.iter().find(|readers| !readers.nodes.is_empty()) {
        None => Some(BucketContent::Nothing),
        Some(readers) if readers.full && readers.nodes.contains(&me) => Some(BucketContent::All),
        Some(_) => None,
    })
}

/// True if a retry may succeed in a moment.
fn passes(error: &Error) -> bool {
    matches!(error, Error::Unsettled(_) | Error::Unknown(_)) || error.kind() == ErrorKind::Overloaded
}
