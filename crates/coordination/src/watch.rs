use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Coordination, Error, KeyChange, KeyChanges, KeyEntry, KeyOperation, StoreRevision};

/// Time without events after which a stream of changes is replaced by a new one: a connection that broke
/// silently looks just like keys that do not change.
const QUIET: Duration = Duration::from_secs(10);

/// Maximum delay of changes that are known to have been made.
const CATCH_UP_DELAY_MAX: Duration = Duration::from_secs(1);

/// Pause after a failure; it doubles up to the second number.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Keys that begin with a prefix, followed as they change.
///
/// It never fails and never ends: while coordination cannot be reached it retries, and keeps the known
/// entries. After a broken connection it continues with the first change that it has not seen. If that change
/// is forgotten already, it reads all keys and reports the difference; of several changes of a key it then
/// reports the last. It does the same if the changes it has seen never happened in the current store:
/// coordination was restored from a backup, or started empty. Revisions may then be lower than before.
pub struct PrefixWatch {
    coordination: Arc<dyn Coordination>,
    prefix: String,
    entries: BTreeMap<String, KeyEntry>,
    /// Newest revision that `entries` includes; `None` before the first read.
    seen: Option<StoreRevision>,
    histories: u64,
    changes: Option<Box<dyn KeyChanges>>,
    /// True if the last stream broke: the next answer may come from another store.
    broken: bool,
    /// Known keys that did not exist when the stream began: their deletions must still arrive.
    missing: BTreeSet<String>,
    pause: Duration,
}

impl PrefixWatch {
    /// Creates a watch of the keys that begin with `prefix`. No request is sent yet.
    pub fn new(coordination: Arc<dyn Coordination>, prefix: impl Into<String>) -> Self {
        PrefixWatch {
            coordination,
            prefix: prefix.into(),
            entries: BTreeMap::new(),
            seen: None,
            histories: 1,
            changes: None,
            broken: false,
            missing: BTreeSet::new(),
            pause: PAUSE,
        }
    }

    /// Known entries of the keys.
    pub fn entries(&self) -> &BTreeMap<String, KeyEntry> {
        &self.entries
    }

    /// Revision of the known entries; `None` before the first read.
    pub fn revision(&self) -> Option<StoreRevision> {
        self.seen
    }

    /// Number of histories that have been followed: one, and one more each time that coordination was found
    /// to have gone back. Revisions of different histories cannot be compared.
    pub fn histories(&self) -> u64 {
        self.histories
    }

    /// Returns the next changes, in order. The first call returns a put of every key, or nothing if there is
    /// none; a switch to another history without differences returns nothing as well. Cancel-safe: nothing is
    /// lost if the future is dropped.
    pub async fn next(&mut self) -> Vec<KeyChange> {
        loop {
            match self.attempt().await {
                Ok(Some(changes)) => {
                    self.pause = PAUSE;
                    return changes;
                }
                Ok(None) => {}
                Err(error) => {
                    self.changes = None;
                    self.broken = true;
                    if self.pause == PAUSE_MAX {
                        tracing::debug!(%error, prefix = self.prefix, "watching");
                    } else if self.pause * 2 > PAUSE_MAX {
                        tracing::warn!(%error, prefix = self.prefix, "watching failed; the last known state stays in force");
                    }
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// One step: reads all keys, opens a stream, or waits for it.
    async fn attempt(&mut self) -> Result<Option<Vec<KeyChange>>, Error> {
        let Some(seen) = self.seen else {
            let (revision, entries) = self.coordination.list(&self.prefix).await?;
            return Ok(Some(self.replace(revision, entries)));
        };
        if self.changes.is_none() {
            let stream = match self.coordination.changes(&self.prefix, seen).await {
                Ok(stream) => stream,
                Err(error) => return self.after(error).await,
            };
            let Some(missing) = self.missing_since(seen).await? else {
                return self.read_another_history().await;
            };
            (self.missing, self.broken, self.changes) = (missing, false, Some(stream));
        }
        let Some(stream) = &mut self.changes else { return Ok(None) };
        let limit = if self.missing.is_empty() { QUIET } else { CATCH_UP_DELAY_MAX };
        match tokio::time::timeout(limit, stream.next()).await {
            Ok(Ok(changes)) => Ok(Some(self.take(changes))),
            Ok(Err(error)) => self.after(error).await,
            Err(_) if !self.missing.is_empty() => self.read_another_history().await,
            Err(_) => {
                self.changes = None;
                Ok(None)
            }
        }
    }

    /// Returns the known keys that no longer exist. `None` if the current store cannot have followed from the
    /// changes seen: it is at an earlier revision, or has an earlier change that has not been seen.
    async fn missing_since(&mut self, seen: StoreRevision) -> Result<Option<BTreeSet<String>>, Error> {
        let (revision, now) = match self.broken {
            true => self.coordination.list(&self.prefix).await?,
            // Most likely the same store still answers: it need not send everything.
            false => {
                let now = self.coordination.apply(KeyOperation::Keys(self.prefix.clone())).await?;
                (now.revision, now.entries(0).to_vec())
            }
        };
        let is_known = |entry: &KeyEntry| match self.entries.get(&entry.key) {
            Some(known) if self.broken => known == entry,
            known => known.is_some_and(|known| known.changed == entry.changed),
        };
        if revision < seen || !now.iter().all(|entry| entry.changed > seen || is_known(entry)) {
            return Ok(None);
        }
        let there: BTreeSet<&str> = now.iter().map(|entry| &*entry.key).collect();
        Ok(Some(self.entries.keys().filter(|key| !there.contains(&***key)).cloned().collect()))
    }

    /// Reads all keys of a history other than the one that was followed.
    async fn read_another_history(&mut self) -> Result<Option<Vec<KeyChange>>, Error> {
        tracing::warn!(
            prefix = self.prefix,
            "coordination has gone back to an earlier moment, as by a restored backup: all of it is read again"
        );
        self.changes = None;
        self.read_again(true).await
    }

    /// Reads all keys if changes are forgotten.
    async fn after(&mut self, error: Error) -> Result<Option<Vec<KeyChange>>, Error> {
        let Error::Compacted { .. } = error else { return Err(error) };
        self.changes = None;
        self.read_again(false).await
    }

    /// Reads all keys, as another history if that is known already or the revisions show it.
    async fn read_again(&mut self, gone_back: bool) -> Result<Option<Vec<KeyChange>>, Error> {
        let (revision, entries) = self.coordination.list(&self.prefix).await?;
        let gone_back = gone_back || Some(revision) < self.seen;
        self.histories += u64::from(gone_back);
        let changes = self.replace(revision, entries);
        Ok(if changes.is_empty() && !gone_back { None } else { Some(changes) })
    }

    /// Records changes that follow those seen; drops changes seen already.
    fn take(&mut self, mut changes: Vec<KeyChange>) -> Vec<KeyChange> {
        let seen = self.seen.unwrap_or_default();
        changes.retain(|change| change.at() > seen);
        for change in &changes {
            self.seen = self.seen.max(Some(change.at()));
            self.missing.remove(change.key());
            match change {
                KeyChange::Put(entry) => self.entries.insert(entry.key.clone(), entry.clone()),
                KeyChange::Deleted { key, .. } => self.entries.remove(key),
            };
        }
        changes
    }

    /// Replaces the known entries by those read, and returns the differences.
    fn replace(&mut self, revision: StoreRevision, entries: Vec<KeyEntry>) -> Vec<KeyChange> {
        let entries: BTreeMap<String, KeyEntry> =
            entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        let gone = self.entries.keys().filter(|key| !entries.contains_key(*key));
        let mut changes: Vec<KeyChange> =
            gone.map(|key| KeyChange::Deleted { key: key.clone(), at: revision }).collect();
        let put = entries.values().filter(|entry| self.entries.get(&entry.key) != Some(entry));
        changes.extend(put.map(|entry| KeyChange::Put(entry.clone())));
        self.entries = entries;
        self.seen = Some(revision);
        self.missing.clear();
        self.broken = false;
        changes
    }
}
