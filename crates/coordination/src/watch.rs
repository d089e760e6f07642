use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Change, Changes, Coordination, Entry, Error, Revision};

/// How long a stream of changes may say nothing before another one is asked for: a connection that broke without a word looks just
/// like keys that do not change.
const QUIET: Duration = Duration::from_secs(10);

/// The pause after a failure; it doubles up to the second number.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The keys that begin with a prefix, followed as they change.
///
/// It never fails and never ends: where coordination cannot be reached it goes on trying, and what it knew stays known. After a
/// broken connection it goes on with the first change that it has not seen. Where that is forgotten already, it reads what there is
/// and tells the difference; of a key that changed several times it then tells the last change.
pub struct Watch {
    coordination: Arc<dyn Coordination>,
    prefix: String,
    entries: BTreeMap<String, Entry>,
    /// The newest revision that `entries` has; none before it was read first.
    seen: Option<Revision>,
    changes: Option<Box<dyn Changes>>,
    pause: Duration,
}

impl Watch {
    /// Of the keys that begin with `prefix`. Nothing is asked yet.
    pub fn new(coordination: Arc<dyn Coordination>, prefix: impl Into<String>) -> Self {
        Watch {
            coordination,
            prefix: prefix.into(),
            entries: BTreeMap::new(),
            seen: None,
            changes: None,
            pause: PAUSE,
        }
    }

    /// What is known of the keys.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// The next changes, in their order; the first time, a put of every key there is, and none where there is none. Nothing is lost
    /// when it is dropped before it is done.
    pub async fn next(&mut self) -> Vec<Change> {
        loop {
            match self.attempt().await {
                Ok(Some(changes)) => {
                    self.pause = PAUSE;
                    return changes;
                }
                Ok(None) => {}
                Err(error) => {
                    self.changes = None;
                    if self.pause == PAUSE_MAX {
                        tracing::debug!(%error, prefix = self.prefix, "watching");
                    } else if self.pause * 2 > PAUSE_MAX {
                        tracing::warn!(%error, prefix = self.prefix, "watching; what was seen last stays in force");
                    }
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// One step: reading all, or asking for a stream, or waiting for it.
    async fn attempt(&mut self) -> Result<Option<Vec<Change>>, Error> {
        let Some(seen) = self.seen else {
            let (revision, entries) = self.coordination.list(&self.prefix).await?;
            return Ok(Some(self.replace(revision, entries)));
        };
        let stream = match &mut self.changes {
            Some(stream) => stream,
            none => match self.coordination.changes(&self.prefix, seen).await {
                Ok(stream) => none.insert(stream),
                Err(error) => return self.after(error).await,
            },
        };
        match tokio::time::timeout(QUIET, stream.next()).await {
            Ok(Ok(changes)) => Ok(Some(self.take(changes))),
            Ok(Err(error)) => self.after(error).await,
            Err(_) => {
                self.changes = None;
                Ok(None)
            }
        }
    }

    /// Reads everything where changes are forgotten.
    async fn after(&mut self, error: Error) -> Result<Option<Vec<Change>>, Error> {
        let Error::Compacted { .. } = error else { return Err(error) };
        self.changes = None;
        let (revision, entries) = self.coordination.list(&self.prefix).await?;
        let changes = self.replace(revision, entries);
        Ok(if changes.is_empty() { None } else { Some(changes) })
    }

    /// Notes changes that follow those seen; drops what was seen already.
    fn take(&mut self, mut changes: Vec<Change>) -> Vec<Change> {
        let seen = self.seen.unwrap_or_default();
        changes.retain(|change| change.at() > seen);
        for change in &changes {
            self.seen = self.seen.max(Some(change.at()));
            match change {
                Change::Put(entry) => self.entries.insert(entry.key.clone(), entry.clone()),
                Change::Deleted { key, .. } => self.entries.remove(key),
            };
        }
        changes
    }

    /// Puts what was read in place of what is known, and tells what differs.
    fn replace(&mut self, revision: Revision, entries: Vec<Entry>) -> Vec<Change> {
        let entries: BTreeMap<String, Entry> =
            entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        let gone = self.entries.keys().filter(|key| !entries.contains_key(*key));
        let mut changes: Vec<Change> =
            gone.map(|key| Change::Deleted { key: key.clone(), at: revision }).collect();
        let put = entries.values().filter(|entry| self.entries.get(&entry.key) != Some(entry));
        changes.extend(put.map(|entry| Change::Put(entry.clone())));
        self.entries = entries;
        self.seen = Some(revision);
        changes
    }
}
