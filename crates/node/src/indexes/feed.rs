//! Changes of the store on their way to the indexes: a bounded queue, and a note of drops on the disk.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use millrace_document::Timestamp;
use millrace_env::{Disk as _, RealDisk, read_file, replace_file};
use millrace_store::{CommitFollower, CommittedRow, DroppingScope, Error as StoreError};
use parking_lot::{Condvar, Mutex, RwLock};
use serde::{Deserialize, Serialize};

/// Maximum number of bytes and rows that wait. Beyond it the queue is cut, and the indexes read what has
/// changed from the store.
const BYTES_MAX: usize = 64 << 20;
const ROWS_MAX: usize = 262_144;

/// Maximum number of drops that are noted; beyond it everything counts as dropped.
const DROPS_MAX: usize = 4096;

/// Change that waits.
pub(super) enum FedChange {
    Row(CommittedRow),
    /// A drop of all documents of a scope until a time.
    Drop(NotedDrop, Timestamp),
}

/// Drop that an index may not have taken in yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum NotedDrop {
    /// A group, by its key; of all types where that is `None`.
    Group { document_type: Option<String>, group: String },
    /// All documents of a type; of all types where that is `None`.
    Type(Option<String>),
}

impl NotedDrop {
    fn of(scope: &DroppingScope) -> Self {
        match scope {
            DroppingScope::Group { document_type, group, .. } => {
                NotedDrop::Group { document_type: document_type.clone(), group: group.clone() }
            }
            DroppingScope::Type(name) => NotedDrop::Type(Some(name.clone())),
            DroppingScope::Locations => NotedDrop::Type(None),
        }
    }

    /// True if it concerns documents of this type.
    pub fn concerns(&self, document_type: &str) -> bool {
        let (NotedDrop::Group { document_type: of, .. } | NotedDrop::Type(of)) = self;
        of.as_deref().is_none_or(|of| of == document_type)
    }
}

/// The queue of changes, and the noted drops.
pub(super) struct IndexFeed {
    path: PathBuf,
    types: RwLock<BTreeSet<String>>,
    queue: Mutex<FeedQueue>,
    arrived: Condvar,
    drops: Mutex<BTreeSet<NotedDrop>>,
}

#[derive(Default)]
struct FeedQueue {
    changes: VecDeque<FedChange>,
    bytes: usize,
    cut: bool,
    stopped: bool,
}

/// Changes that were taken from the queue.
pub(super) struct TakenChanges {
    pub changes: VecDeque<FedChange>,
    /// True if changes are missing before these.
    pub cut: bool,
}

impl IndexFeed {
    /// Creates the feed, with the drops that were noted in a file.
    pub fn open(path: PathBuf) -> Self {
        let bytes = read_file(&RealDisk, &path).ok().flatten();
        let noted = bytes.map(|bytes| {
            serde_json::from_slice(&bytes).unwrap_or_else(|_| BTreeSet::from([NotedDrop::Type(None)]))
        });
        IndexFeed {
            path,
            types: RwLock::default(),
            queue: Mutex::default(),
            arrived: Condvar::new(),
            drops: Mutex::new(noted.unwrap_or_default()),
        }
    }

    /// Sets the document types whose changes are needed.
    pub fn follow_types(&self, types: BTreeSet<String>) {
        *self.types.write() = types;
    }

    fn push(&self, change: FedChange, bytes: usize) {
        let mut queue = self.queue.lock();
        queue.bytes += bytes;
        queue.changes.push_back(change);
        if queue.bytes > BYTES_MAX || queue.changes.len() > ROWS_MAX {
            queue.changes.clear();
            queue.bytes = 0;
            queue.cut = true;
        }
        drop(queue);
        self.arrived.notify_all();
    }

    /// Takes all changes that wait.
    pub fn take(&self) -> TakenChanges {
        let mut queue = self.queue.lock();
        queue.bytes = 0;
        TakenChanges { changes: std::mem::take(&mut queue.changes), cut: std::mem::take(&mut queue.cut) }
    }

    /// Number of changes that wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().changes.len()
    }

    /// Waits until changes wait, or for a while; `false` after a stop.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut queue = self.queue.lock();
        let is_idle = |queue: &mut FeedQueue| queue.changes.is_empty() && !queue.cut && !queue.stopped;
        self.arrived.wait_while_for(&mut queue, is_idle, at_most);
        !queue.stopped
    }

    /// True after a stop.
    pub fn is_stopped(&self) -> bool {
        self.queue.lock().stopped
    }

    /// Ends all waiting.
    pub fn stop(&self) {
        self.queue.lock().stopped = true;
        self.arrived.notify_all();
    }

    /// Drops that may not be in all indexes yet.
    pub fn noted_drops(&self) -> BTreeSet<NotedDrop> {
        self.drops.lock().clone()
    }

    /// Forgets drops that all indexes have taken in durably.
    pub fn forget_drops(&self, done: &BTreeSet<NotedDrop>) {
        let mut drops = self.drops.lock();
        let left: BTreeSet<NotedDrop> = drops.difference(done).cloned().collect();
        if left.len() < drops.len() && self.write(&left).is_ok() {
            *drops = left;
        }
    }

    fn write(&self, drops: &BTreeSet<NotedDrop>) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(drops).expect("names always have a JSON form");
        if let Some(directory) = self.path.parent() {
            RealDisk.create_directory(directory)?;
        }
        replace_file(&RealDisk, &self.path, &bytes)
    }
}

impl CommitFollower for IndexFeed {
    fn follows(&self, document_type: &str) -> bool {
        self.types.read().contains(document_type)
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        for row in rows {
            let bytes = row.bytes();
            self.push(FedChange::Row(row), bytes);
        }
    }

    fn dropping(&self, scope: &DroppingScope) -> Result<(), StoreError> {
        let dropped = NotedDrop::of(scope);
        let types = self.types.read().clone();
        if !types.iter().any(|name| dropped.concerns(name)) {
            return Ok(());
        }
        let mut drops = self.drops.lock();
        let mut next = drops.clone();
        if next.len() >= DROPS_MAX {
            next = BTreeSet::from([NotedDrop::Type(None)]);
        }
        if !next.insert(dropped) {
            return Ok(());
        }
        self.write(&next).map_err(|error| StoreError::Io {
            action: format!("note a drop in {}", self.path.display()),
            reason: error.to_string(),
        })?;
        *drops = next;
        Ok(())
    }

    fn dropped(&self, scope: &DroppingScope, until: Timestamp) {
        let dropped = NotedDrop::of(scope);
        self.push(FedChange::Drop(dropped, until), 256);
    }
}
