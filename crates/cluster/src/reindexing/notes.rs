//! Notes about reindexing that the nodes of a cluster share. Other versions of the program read and write
//! them: their texts are part of the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use serde::{Deserialize, Serialize};

use super::buckets::ReindexedBuckets;
use super::status::{ReindexFailure, ReindexRun};
use super::types::ReindexedTypes;
use super::{GRACE_MS, ReindexTask, ReindexedApplication};
use crate::{ClusterState, ClusterVersion, Error, NodeKey};

/// Prefix of the names of marks; content cluster, document type and node follow.
const MARKS: &str = "reindexed/";

/// Maximum number of marks deleted at a time.
const DELETED_MAX: usize = 100;

/// Named data other than documents, shared by the nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedNote {
    /// Content.
    pub value: Arc<[u8]>,
    /// Number that differs between successive writes of the note.
    pub changed: u64,
}

/// Reindexing requests of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReindexRecord {
    /// The newest generation of the application that has been taken into account.
    pub generation: u64,
    /// Status of the document types.
    pub types: ReindexedTypes,
}

impl ReindexRecord {
    /// The record after an application, see [`ReindexedTypes::deployed`]; `None` if it stays. Each generation
    /// is taken into account once for all nodes. Nodes that upgrade from an older application than the last
    /// one taken into account do not know its changes; others do.
    pub fn following(&self, application: &ReindexedApplication) -> Option<ReindexRecord> {
        let knows = self.generation == 0 || self.generation <= application.based_on;
        if self.generation >= application.generation || !knows {
            return None;
        }
        let mut next = self.clone();
        next.types.deployed(application);
        next.generation = application.generation;
        Some(next)
    }

    /// The record after an application, if no node knows how it differs from the last one that was taken into
    /// account: all of its types may need reindexing.
    pub(super) fn following_unknown(&self, application: &ReindexedApplication) -> ReindexRecord {
        let types = application.types.iter();
        let all = types.map(|(cluster, types)| (Arc::clone(cluster), types.iter().cloned().collect()));
        let application = ReindexedApplication { changed: all.collect(), ..application.clone() };
        let mut next = self.clone();
        next.types.deployed(&application);
        next.generation = application.generation;
        next
    }

    /// The note with its content.
    pub fn note(&self) -> (String, Option<Vec<u8>>) {
        (ReindexNotes::RECORD.to_owned(), Some(json(self)))
    }
}

/// Progress of a node with a document type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReindexMark {
    /// Identifies the reindexing of the type.
    ready_ms: u64,
    started_ms: u64,
    /// Buckets that this node has done.
    pub(super) done: ReindexedBuckets,
    /// Buckets that a node of an earlier version has done while nodes were absent; they are done again.
    #[serde(default)]
    without: ReindexedBuckets,
    /// Current bucket, as its number of bits and its bits, and the position in it.
    at: Option<((u8, u64), String)>,
    /// True if nodes were absent when a node of an earlier version came there.
    #[serde(default)]
    at_without: bool,
    /// Version of the cluster state by which all that the node owns is done.
    pub(super) clean: Option<ClusterVersion>,
    failure: Option<ReindexFailure>,
    /// Time that the node rewrites no document after, in microseconds, unless it has stored a later one
    /// before. A node that removes the type reads it: a removal as of this time reaches all rewrites, also
    /// those of nodes that do not know of it yet.
    #[serde(default)]
    pub(super) until_us: u64,
}

impl NodeReindexMark {
    /// Mark of a node that begins with a task; `before` is the one that it replaces.
    pub(super) fn new(task: &ReindexTask, before: Option<&NodeReindexMark>, now_ms: u64) -> Self {
        let until_us = before.map_or(0, |before| before.until_us);
        NodeReindexMark {
            ready_ms: task.ready_ms,
            started_ms: now_ms,
            until_us,
            ..NodeReindexMark::default()
        }
    }

    /// True if it belongs to this task.
    pub(super) fn is_of(&self, task: &ReindexTask) -> bool {
        self.ready_ms == task.ready_ms
    }

    /// The current bucket and the position in it.
    pub(super) fn at(&self) -> Option<(BucketId, &str)> {
        let (bucket, position) = self.at.as_ref().filter(|_| !self.at_without)?;
        Some((BucketId::try_from(*bucket).ok()?, position))
    }

    /// Sets the current position; `None`: between buckets.
    pub(super) fn set_at(&mut self, at: Option<(BucketId, &str)>) {
        self.at = at.map(|(bucket, position)| (bucket.parts(), position.to_owned()));
        self.at_without = false;
        self.failure = None;
    }

    /// Records that all that the node owns by this cluster state is done.
    pub(super) fn clean_by(&mut self, version: ClusterVersion) {
        self.set_at(None);
        self.clean = Some(version);
    }

    /// Records that the node cannot continue for this reason, and retries later.
    pub(super) fn fail(&mut self, reason: String, now_ms: u64) {
        self.failure = Some(ReindexFailure { at_ms: now_ms, reason });
    }

    /// True if it is too early for a retry.
    pub(super) fn waits(&self, now_ms: u64) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.waits(now_ms, GRACE_MS))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        json(self)
    }
}

/// Notes about reindexing, as received by one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReindexNotes {
    /// Number of the record's last change; `None`: there is no record yet.
    pub changed: Option<u64>,
    /// The record.
    pub record: ReindexRecord,
    marks: BTreeMap<String, Arc<[u8]>>,
}

impl ReindexNotes {
    /// Name of the record.
    pub const RECORD: &str = "reindexing";

    /// Reads the notes of a cluster by their names; others are passed over.
    ///
    /// # Errors
    /// [`Error::ReindexRecord`]: a newer version of the program has written the record.
    pub fn read<'a>(notes: impl IntoIterator<Item = (&'a String, &'a SharedNote)>) -> Result<Self, Error> {
        let mut read = ReindexNotes::default();
        for (name, note) in notes {
            if name == Self::RECORD {
                read.changed = Some(note.changed);
                read.record = serde_json::from_slice(&note.value)
                    .map_err(|error| Error::ReindexRecord { reason: error.to_string() })?;
            } else if name.starts_with(MARKS) {
                read.marks.insert(name.clone(), Arc::clone(&note.value));
            }
        }
        Ok(read)
    }

    /// Running tasks in their order, for nodes that have at least this generation of the application.
    pub fn tasks(&self, generation: u64) -> Vec<ReindexTask> {
        let active = self.record.types.runs().filter(|(_, _, run)| run.is_active());
        let known = active.filter(|(_, _, run)| run.generation <= generation);
        known.map(|(cluster, document_type, run)| task(cluster, document_type, run)).collect()
    }

    /// Progress of the nodes with a task.
    pub(super) fn marks(&self, task: &ReindexTask) -> BTreeMap<NodeKey, NodeReindexMark> {
        let mut marks = self.marks_of_type(task);
        marks.retain(|_, mark| mark.is_of(task));
        marks
    }

    /// The marks of nodes with the document type of a task, also of earlier tasks.
    pub(super) fn marks_of_type(&self, task: &ReindexTask) -> BTreeMap<NodeKey, NodeReindexMark> {
        let prefix = prefix(task);
        let named = self.marks.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        let marks = named.filter_map(|(name, value)| {
            let node = NodeKey(name[prefix.len()..].parse().ok()?);
            Some((node, serde_json::from_slice(value).ok()?))
        });
        marks.collect()
    }

    /// Time that no document of these types is rewritten after, as long as their reindexing is halted.
    pub fn rewritten_until(&self, document_types: &BTreeSet<Arc<str>>) -> Timestamp {
        let runs = self.record.types.runs().filter(|(_, name, _)| document_types.contains(*name));
        let until = runs.map(|(cluster, name, run)| self.until_us(&task(cluster, name, run), run));
        Timestamp(until.max().unwrap_or(0))
    }

    fn until_us(&self, task: &ReindexTask, run: &ReindexRun) -> u64 {
        let marks = self.marks_of_type(task);
        marks.values().map(|mark| mark.until_us).fold(run.until_us, u64::max)
    }

    /// Content of a mark.
    pub(super) fn mark_bytes(&self, task: &ReindexTask, node: NodeKey) -> Option<&[u8]> {
        self.marks.get(&mark_name(task, node)).map(|value| &**value)
    }

    /// The record after the end of a task; `None` if another has replaced it.
    pub(super) fn ended(&self, task: &ReindexTask, now_ms: u64) -> Option<ReindexRecord> {
        let started_ms = self.marks(task).values().map(|mark| mark.started_ms).min();
        let mut record = self.record.clone();
        let run = record.types.run_of(task)?;
        run.until_us = self.until_us(task, run);
        run.end(started_ms.unwrap_or(now_ms), now_ms);
        Some(record)
    }

    /// Names of marks whose types are not being reindexed: some of them, if there are many.
    pub(super) fn old_marks(&self) -> Vec<String> {
        let runs = self.record.types.runs().filter(|(_, _, run)| run.ended_ms.is_none());
        let kept: Vec<String> =
            runs.map(|(id, document_type, run)| prefix(&task(id, document_type, run))).collect();
        let is_kept = |name: &&String| kept.iter().any(|prefix| name.starts_with(prefix));
        self.marks.keys().filter(|name| !is_kept(name)).take(DELETED_MAX).cloned().collect()
    }

    /// Status of all types, including the progress in the marks of the nodes of this state.
    pub fn status(&self, state: Option<&ClusterState>) -> ReindexedTypes {
        let mut types = self.record.types.clone();
        for (id, document_type, run) in types.runs_mut().filter(|(_, _, run)| run.ended_ms.is_none()) {
            let marks = self.marks(&task(id, document_type, run));
            let Some(started_ms) = marks.values().map(|mark| mark.started_ms).min() else { continue };
            let failed = marks.iter().find_map(|(node, mark)| Some((node, mark.failure.as_ref()?)));
            let failure = failed.map(|(node, failure)| ReindexFailure {
                reason: format!("node {node}: {}", failure.reason),
                ..failure.clone()
            });
            run.record_reports(started_ms, progress(state, marks.values()), failure);
        }
        types
    }
}

/// Share of all buckets that are done.
fn progress<'a>(state: Option<&ClusterState>, marks: impl Iterator<Item = &'a NodeReindexMark>) -> f64 {
    let Some(state) = state else { return 0.0 };
    let mut done = ReindexedBuckets::default();
    for mark in marks {
        done.extend(&mark.done);
    }
    let (mut all, mut behind) = (0_u64, 0_u64);
    for bucket in state.buckets() {
        all += 1;
        behind += u64::from(done.has(bucket));
    }
    behind as f64 / all as f64
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

/// Name of a node's mark.
pub(super) fn mark_name(task: &ReindexTask, node: NodeKey) -> String {
    format!("{}{node}", prefix(task))
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
        let run = r#"{"ready_ms":5,"speed":0.5,"generation":3,"started_ms":6,"ended_ms":null,"position":null,"progress":0.25,"failure":{"at_ms":9,"reason":"no"},"until_us":7}"#;
        let before = run.replace(r#","until_us":7"#, "");
        assert!(serde_json::from_str::<ReindexRun>(&before).is_ok_and(|run| run.until_us == 0));
        let status = format!(r#"{{"pending":2,"ready":{{"ready_ms":5,"speed":0.5}},"run":{run}}}"#);
        check::<ReindexRecord>(&format!(r#"{{"generation":4,"types":{{"notes":{{"note":{status}}}}}}}"#));
        check::<NodeReindexMark>(
            r#"{"ready_ms":5,"started_ms":6,"done":{"10":"1a","41-107":"0f"},"at":[[10,5],"place"],"clean":7,"failure":null}"#,
        );
        // Nodes of protocol 1 pass over the time.
        check::<NodeReindexMark>(r#"{"ready_ms":5,"started_ms":6,"done":{},"at":null,"until_us":9}"#);
        let task = ReindexTask {
            cluster: "notes".into(),
            document_type: "note".into(),
            position: None,
            speed: 1.0,
            ready_ms: 5,
        };
        assert_eq!((ReindexNotes::RECORD, &*prefix(&task)), ("reindexing", "reindexed/notes/note/"));
    }
}
