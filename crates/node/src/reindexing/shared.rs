//! Reindexing of a cluster, in notes that its nodes share.
//!
//! One note, the *record*, lists what is to be reindexed; the node that receives a request changes it, if it
//! is still as read. Each node that reindexes writes a *mark* of its progress for each type. It writes it
//! only while the record is the one that it acts by, so that no mark outlives its reindexing. When every
//! serving node has done all that it owns by the current state of the cluster, everything is done.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};
use serde::{Deserialize, Serialize};

use super::done::ReindexedBuckets;
use super::status::{ReindexFailure, ReindexRun};
use super::types::ReindexedTypes;
use super::{GRACE_MS, ReindexTask, now_ms};
use crate::cluster::{ClusterView, SharedNote};
use crate::{CompiledApplication, Error};

/// Name of the record.
const RECORD: &str = "reindexing";

/// Prefix of the names of marks; content cluster, document type and node follow.
const MARKS: &str = "reindexed/";

/// Maximum number of attempts to change the record, which other nodes change as well.
const ATTEMPTS: usize = 20;

/// Number of marks deleted at a time.
const TOGETHER: usize = 100;

/// Reindexing requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ReindexRecord {
    /// The newest generation of the application that has been taken into account.
    generation: u64,
    pub(super) types: ReindexedTypes,
}

/// Progress of a node with a document type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReindexMark {
    /// Identifies the reindexing of the type.
    ready_ms: u64,
    started_ms: u64,
    /// Buckets that this node has done.
    pub done: ReindexedBuckets,
    /// Buckets that it has done while nodes were absent. Documents that only these have were missing: once
    /// they are back, the buckets are done again.
    #[serde(default)]
    pub without: ReindexedBuckets,
    /// Current bucket, by its parts as notes have them, and the position in it.
    at: Option<((u8, u64), String)>,
    /// True if nodes were absent when it came there.
    #[serde(default)]
    at_without: bool,
    /// Version of the cluster state by which all that the node owns is done.
    pub clean: Option<ClusterVersion>,
    failure: Option<ReindexFailure>,
}

impl NodeReindexMark {
    /// Mark of a node that begins with a task.
    pub fn new(task: &ReindexTask) -> Self {
        NodeReindexMark { ready_ms: task.ready_ms, started_ms: now_ms(), ..NodeReindexMark::default() }
    }

    /// True if it belongs to this task.
    pub fn is_of(&self, task: &ReindexTask) -> bool {
        self.ready_ms == task.ready_ms
    }

    /// The current bucket and the position in it; with `all` (no node is absent), only if no node was absent
    /// when it came there.
    pub fn at(&self, all: bool) -> Option<(BucketId, &str)> {
        let (bucket, position) = self.at.as_ref().filter(|_| !(all && self.at_without))?;
        Some((BucketId::try_from(*bucket).ok()?, position))
    }

    /// Sets the current position; `None`: between buckets. With `all`, no node is absent.
    pub fn set_at(&mut self, at: Option<(BucketId, &str)>, all: bool) {
        self.at = at.map(|(bucket, position)| (bucket.parts(), position.to_owned()));
        self.at_without = !all;
        self.failure = None;
    }

    /// Records that all that the node owns by this cluster state is done.
    pub fn clean_by(&mut self, version: ClusterVersion) {
        self.set_at(None, true);
        self.clean = Some(version);
    }

    /// Records that the node cannot continue for this reason, and retries later.
    pub fn fail(&mut self, reason: String) {
        self.failure = Some(ReindexFailure { at_ms: now_ms(), reason });
    }

    /// True if it is too early for a retry.
    pub fn waits(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.waits(now_ms(), GRACE_MS))
    }
}

/// Notes about reindexing, as received by one node.
pub struct SharedReindexing {
    /// Time of the record's last write; `None`: never.
    changed: Option<u64>,
    record: ReindexRecord,
    notes: BTreeMap<String, SharedNote>,
}

impl SharedReindexing {
    /// Reads the notes.
    ///
    /// # Errors
    /// The record cannot be read: a newer version of the program has written it.
    pub fn read(cluster: &dyn ClusterView) -> Result<Self, Error> {
        let notes = cluster.notes();
        let record = match notes.get(RECORD) {
            Some(note) => serde_json::from_slice(&note.value).map_err(|error| {
                Error::Internal(format!(
                    "what is to be reindexed cannot be read ({error}): let all nodes run one version, and mark it again"
                ))
            })?,
            None => ReindexRecord::default(),
        };
        Ok(SharedReindexing { changed: notes.get(RECORD).map(|note| note.changed), record, notes })
    }

    /// The newest generation of the application that has been taken into account.
    pub fn generation(&self) -> u64 {
        self.record.generation
    }

    /// Running tasks in their order, for nodes that have at least this generation of the application.
    pub fn tasks(&self, generation: u64) -> Vec<ReindexTask> {
        let runs = self.record.types.runs();
        let active = runs.filter(|(_, _, run)| run.is_active() && run.generation <= generation);
        active.map(|(cluster, document_type, run)| task(cluster, document_type, run)).collect()
    }

    /// Progress of the nodes with a task.
    pub fn marks(&self, task: &ReindexTask) -> BTreeMap<NodeKey, NodeReindexMark> {
        let prefix = prefix(task);
        let named = self.notes.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        let marks = named.filter_map(|(name, note)| {
            let node = NodeKey(name[prefix.len()..].parse().ok()?);
            let mark: NodeReindexMark = serde_json::from_slice(&note.value).ok()?;
            mark.is_of(task).then_some((node, mark))
        });
        marks.collect()
    }

    /// Stores the progress of a node. Returns false if the record has changed, and then stores nothing.
    ///
    /// # Errors
    /// Coordination does not answer.
    pub fn save(
        &self,
        cluster: &dyn ClusterView,
        task: &ReindexTask,
        node: NodeKey,
        mark: &NodeReindexMark,
    ) -> Result<bool, Error> {
        let name = format!("{}{node}", prefix(task));
        write(cluster, self.changed, vec![(name, Some(json(mark)))])
    }

    /// Records the end of a task, and deletes its marks.
    ///
    /// # Errors
    /// Coordination does not answer.
    pub fn end(&self, cluster: &dyn ClusterView, task: &ReindexTask) -> Result<(), Error> {
        let marks = self.marks(task);
        let started_ms = marks.values().map(|mark| mark.started_ms).min();
        let mut record = self.record.clone();
        let Some(run) = record.types.run_of(task) else { return Ok(()) };
        run.end(started_ms.unwrap_or_else(now_ms), now_ms());
        if !write(cluster, self.changed, vec![(RECORD.to_owned(), Some(json(&record)))])? {
            return Ok(());
        }
        SharedReindexing::read(cluster)?.forget_old(cluster)
    }

    /// Deletes the marks of tasks that do not run.
    fn forget_old(&self, cluster: &dyn ClusterView) -> Result<(), Error> {
        let runs = self.record.types.runs().filter(|(_, _, run)| run.ended_ms.is_none());
        let kept: Vec<String> =
            runs.map(|(id, document_type, run)| prefix(&task(id, document_type, run))).collect();
        let names = self.notes.keys().filter(|name| name.starts_with(MARKS));
        let old: Vec<&String> =
            names.filter(|name| !kept.iter().any(|prefix| name.starts_with(prefix))).collect();
        for names in old.chunks(TOGETHER) {
            write(cluster, self.changed, names.iter().map(|name| ((*name).clone(), None)).collect())?;
        }
        Ok(())
    }

    /// The status, including the nodes' marks.
    pub(super) fn told(&self, cluster: &dyn ClusterView) -> ReindexedTypes {
        let mut types = self.record.types.clone();
        for (id, document_type, run) in types.runs_mut().filter(|(_, _, run)| run.ended_ms.is_none()) {
            let marks = self.marks(&task(id, document_type, run));
            let Some(started_ms) = marks.values().map(|mark| mark.started_ms).min() else { continue };
            let failed = marks.iter().find_map(|(node, mark)| Some((node, mark.failure.as_ref()?)));
            let failure = failed.map(|(node, failure)| ReindexFailure {
                reason: format!("node {node}: {}", failure.reason),
                ..failure.clone()
            });
            run.tell(started_ms, progress(cluster, marks.values()), failure);
        }
        types
    }
}

/// Share of all buckets that are done.
fn progress<'a>(cluster: &dyn ClusterView, marks: impl Iterator<Item = &'a NodeReindexMark>) -> f64 {
    let Ok((bits, divided)) = cluster.buckets() else { return 0.0 };
    let mut done = ReindexedBuckets::default();
    for mark in marks {
        done.extend(&mark.done);
        done.extend(&mark.without);
    }
    let whole = (0..1_u64 << bits).map(|number| BucketId::new(bits, number));
    let (mut all, mut behind) = (0_u64, 0_u64);
    for bucket in whole.chain(divided) {
        all += 1;
        behind += u64::from(done.has(bucket));
    }
    behind as f64 / all as f64
}

/// Handles a new deployment, see [`ReindexedTypes::deployed`]: once for all nodes. Nodes that upgrade from an
/// older application than the last one taken into account do not know its changes; others do.
pub(super) fn deployed(cluster: &dyn ClusterView, deployment: &CompiledApplication) -> Result<(), Error> {
    let knows = |known: &ReindexRecord| known.generation == 0 || known.generation <= deployment.based_on;
    let is_news = |known: &ReindexRecord| known.generation < deployment.generation && knows(known);
    if !is_news(&SharedReindexing::read(cluster)?.record) {
        return Ok(());
    }
    change(cluster, |record| {
        if is_news(record) {
            record.types.deployed(deployment);
            record.generation = deployment.generation;
        }
    })
}

/// Changes the record, and waits until that is done.
///
/// # Errors
/// [`Error::Unsettled`]: coordination cannot be reached; the record may have been changed nevertheless.
pub(super) fn change<R>(
    cluster: &dyn ClusterView,
    change: impl Fn(&mut ReindexRecord) -> R,
) -> Result<R, Error> {
    for _ in 0..ATTEMPTS {
        let shared = SharedReindexing::read(cluster)?;
        let mut record = shared.record.clone();
        let answer = change(&mut record);
        if record == shared.record
            || write(cluster, shared.changed, vec![(RECORD.to_owned(), Some(json(&record)))])?
        {
            return Ok(answer);
        }
    }
    Err(Error::Unsettled("others change what is to be reindexed at the same time; ask again".to_owned()))
}

/// Writes notes while the record is the one that was read.
fn write(
    cluster: &dyn ClusterView,
    changed: Option<u64>,
    notes: Vec<(String, Option<Vec<u8>>)>,
) -> Result<bool, Error> {
    let (sender, answer) = mpsc::channel();
    // The receiver waits for the answer.
    let done = move |written| drop(sender.send(written));
    cluster.note((RECORD, changed), notes, Box::new(done));
    let left = |_| Error::Unsettled("this node is not part of the cluster any more".to_owned());
    Ok(answer.recv().map_err(left)??)
}

fn task(cluster: &Arc<str>, document_type: &Arc<str>, run: &ReindexRun) -> ReindexTask {
    ReindexTask {
        cluster: Arc::clone(cluster),
        document_type: Arc::clone(document_type),
        position: None,
        speed: run.speed,
        ready_ms: run.ready_ms,
    }
}

/// Prefix of the names of a task's marks.
fn prefix(task: &ReindexTask) -> String {
    format!("{MARKS}{}/{}/", task.cluster, task.document_type)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers, texts and lists of them always have a JSON form")
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// Checks that stored text is parsed, and written again equally; unknown additions are skipped.
    fn check<T: Serialize + DeserializeOwned>(kept: &str) {
        let read: T = serde_json::from_str(kept).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        let kept: BTreeMap<String, serde_json::Value> = serde_json::from_str(kept).unwrap();
        kept.into_iter().for_each(|(name, value)| assert_eq!(written[&name], value, "{name}"));
    }

    /// The texts are those of protocol 1: other versions read and write them.
    #[test]
    fn notes_are_written_as_ever() {
        let run = r#"{"ready_ms":5,"speed":0.5,"generation":3,"started_ms":6,"ended_ms":null,"position":null,"progress":0.25,"failure":{"at_ms":9,"reason":"no"}}"#;
        let status = format!(r#"{{"pending":2,"ready":{{"ready_ms":5,"speed":0.5}},"run":{run}}}"#);
        check::<ReindexRecord>(&format!(r#"{{"generation":4,"types":{{"notes":{{"note":{status}}}}}}}"#));
        check::<NodeReindexMark>(
            r#"{"ready_ms":5,"started_ms":6,"done":{"10":"1a","41-107":"0f"},"at":[[10,5],"place"],"clean":7,"failure":null}"#,
        );
        let task = ReindexTask {
            cluster: "notes".into(),
            document_type: "note".into(),
            position: None,
            speed: 1.0,
            ready_ms: 5,
        };
        assert_eq!((RECORD, &*prefix(&task)), ("reindexing", "reindexed/notes/note/"));
    }
}
