use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Change, Changes, Coordination, Entry, Error, Operation, Revision};

/// How long a stream of changes may say nothing before another one is asked for: a connection that broke without a word looks just
/// like keys that do not change.
const QUIET: Duration = Duration::from_secs(10);

/// How long changes may take to come that are known to have been made.
const SOON: Duration = Duration::from_secs(1);

/// The pause after a failure; it doubles up to the second number.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The keys that begin with a prefix, followed as they change.
///
/// It never fails and never ends: where coordination cannot be reached it goes on trying, and what it knew stays known. After a
/// broken connection it goes on with the first change that it has not seen. Where that is forgotten already, it reads what there is
/// and tells the difference; of a key that changed several times it then tells the last change. The same where what was seen never
/// happened there: coordination was restored from a backup, or begun anew. Revisions may then be lower than before.
pub struct Watch {
    coordination: Arc<dyn Coordination>,
    prefix: String,
    entries: BTreeMap<String, Entry>,
    /// The newest revision that `entries` has; none before it was read first.
    seen: Option<Revision>,
    histories: u64,
    changes: Option<Box<dyn Changes>>,
    /// The last stream broke: whatever answers now may be another than it was.
    broken: bool,
    /// Keys that are known and were not there when the stream began: that they are deleted has to come.
    missing: BTreeSet<String>,
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
            histories: 1,
            changes: None,
            broken: false,
            missing: BTreeSet::new(),
            pause: PAUSE,
        }
    }

    /// What is known of the keys.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// The moment that what is known is as of; `None` before anything was read.
    pub fn revision(&self) -> Option<Revision> {
        self.seen
    }

    /// How many histories have been followed: one, and one more each time that coordination was found to have gone back. Revisions of
    /// different histories say nothing of each other.
    pub fn histories(&self) -> u64 {
        self.histories
    }

    /// The next changes, in their order; the first time, a put of every key there is, and none where there is none; none as well where
    /// another history differs in nothing. Nothing is lost
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
                    self.broken = true;
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
        let patience = if self.missing.is_empty() { QUIET } else { SOON };
        match tokio::time::timeout(patience, stream.next()).await {
            Ok(Ok(changes)) => Ok(Some(self.take(changes))),
            Ok(Err(error)) => self.after(error).await,
            Err(_) if !self.missing.is_empty() => self.read_another_history().await,
            Err(_) => {
                self.changes = None;
                Ok(None)
            }
        }
    }

    /// Which of the known keys are not there any more; `None` where what coordination has now cannot have come of what was seen of it: it is as
    /// of an earlier moment, or something was there before that moment that has not been seen.
    async fn missing_since(&mut self, seen: Revision) -> Result<Option<BTreeSet<String>>, Error> {
        let (revision, now) = match self.broken {
            true => self.coordination.list(&self.prefix).await?,
            // Whoever answered until now does so still, most likely: it need not send everything.
            false => {
                let now = self.coordination.apply(Operation::Keys(self.prefix.clone())).await?;
                (now.revision, now.entries(0).to_vec())
            }
        };
        let is_known = |entry: &Entry| match self.entries.get(&entry.key) {
            Some(known) if self.broken => known == entry,
            known => known.is_some_and(|known| known.changed == entry.changed),
        };
        if revision < seen || !now.iter().all(|entry| entry.changed > seen || is_known(entry)) {
            return Ok(None);
        }
        let there: BTreeSet<&str> = now.iter().map(|entry| &*entry.key).collect();
        Ok(Some(self.entries.keys().filter(|key| !there.contains(&***key)).cloned().collect()))
    }

    /// Reads everything of a history that is not the one which was followed.
    async fn read_another_history(&mut self) -> Result<Option<Vec<Change>>, Error> {
        tracing::warn!(
            prefix = self.prefix,
            "coordination has gone back to an earlier moment, as by a restored backup: all of it is read again"
        );
        self.changes = None;
        self.read_again(true).await
    }

    /// Reads everything where changes are forgotten.
    async fn after(&mut self, error: Error) -> Result<Option<Vec<Change>>, Error> {
        let Error::Compacted { .. } = error else { return Err(error) };
        self.changes = None;
        self.read_again(false).await
    }

    /// Reads everything, of another history where that is known already or revisions say so.
    async fn read_again(&mut self, gone_back: bool) -> Result<Option<Vec<Change>>, Error> {
        let (revision, entries) = self.coordination.list(&self.prefix).await?;
        let gone_back = gone_back || Some(revision) < self.seen;
        self.histories += u64::from(gone_back);
        let changes = self.replace(revision, entries);
        Ok(if changes.is_empty() && !gone_back { None } else { Some(changes) })
    }

    /// Notes changes that follow those seen; drops what was seen already.
    fn take(&mut self, mut changes: Vec<Change>) -> Vec<Change> {
        let seen = self.seen.unwrap_or_default();
        changes.retain(|change| change.at() > seen);
        for change in &changes {
            self.seen = self.seen.max(Some(change.at()));
            self.missing.remove(change.key());
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
        self.missing.clear();
        self.broken = false;
        changes
    }
}
