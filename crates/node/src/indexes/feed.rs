//! Changes of the store on their way to the indexes: a bounded queue, and notes on the disk of those that an
//! index would miss after a crash.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_store::{CommitFollower, CommittedRow, DroppingScope, Error as StoreError};
use parking_lot::{Condvar, Mutex, RwLock};

use super::notes::{ChangeNotes, NotedChange};
use super::stale::StaleBuckets;

/// Maximum number of bytes and rows that wait. Beyond it the queue is cut, and the indexes read what has
/// changed from the store.
const BYTES_MAX: usize = 64 << 20;
const ROWS_MAX: usize = 262_144;

/// Time for which the thread waits for more changes once there are some, and the number of changes at which
/// it does not.
const GATHERING: Duration = Duration::from_millis(10);
const GATHERED: usize = 4096;

/// Bytes that a drop counts as: about those of its scope.
const DROP_BYTES: usize = 256;

/// Change that waits.
pub(super) enum WaitingChange {
    Row(CommittedRow),
    /// A drop of all documents of a scope until a time.
    Drop(DroppingScope, Timestamp),
}

/// The queue of changes, the notes, and the stale buckets.
pub(super) struct IndexFeed {
    /// Types whose changes are needed; all until the indexes are open.
    types: RwLock<Option<BTreeSet<String>>>,
    queue: Mutex<FeedQueue>,
    arrived: Condvar,
    pub notes: ChangeNotes,
    pub stale: StaleBuckets,
}

#[derive(Default)]
struct FeedQueue {
    changes: VecDeque<WaitingChange>,
    bytes: usize,
    cut: bool,
    stopped: bool,
    /// True if a bucket became stale.
    woken: bool,
    /// False before the indexes are open, and after they were closed: changes are noted, and do not wait.
    is_open: bool,
}

/// Changes that were taken from the queue.
pub(super) struct TakenChanges {
    pub changes: VecDeque<WaitingChange>,
    /// True if changes are missing before these.
    pub cut: bool,
}

impl IndexFeed {
    /// Creates the feed, with the changes that were noted in a file.
    pub fn new(path: PathBuf) -> Self {
        let feed = IndexFeed {
            types: RwLock::default(),
            queue: Mutex::default(),
            arrived: Condvar::new(),
            notes: ChangeNotes::open(path),
            stale: StaleBuckets::default(),
        };
        feed.reread_noted();
        feed
    }

    /// Has the buckets read that are noted: an index may lack their changes.
    pub fn reread_noted(&self) {
        let noted: Vec<BucketId> = self.notes.all().iter().filter_map(NotedChange::bucket).collect();
        self.stale.read_again(&noted);
    }

    /// Sets the document types whose changes are needed. They wait from now on.
    pub fn follow_types(&self, types: BTreeSet<String>) {
        *self.types.write() = Some(types);
        self.queue.lock().is_open = true;
    }

    /// From now on changes are noted, and do not wait.
    pub fn close(&self) {
        self.queue.lock().is_open = false;
    }

    /// Adds changes of these numbers of bytes. Wakes the thread for the first that wait, and for many.
    fn push(&self, changes: impl Iterator<Item = (WaitingChange, usize)>) {
        let mut queue = self.queue.lock();
        if !queue.is_open {
            return;
        }
        let is_first = queue.changes.is_empty();
        for (change, bytes) in changes {
            queue.bytes += bytes;
            queue.changes.push_back(change);
            if queue.bytes > BYTES_MAX || queue.changes.len() > ROWS_MAX {
                queue.changes.clear();
                queue.bytes = 0;
                queue.cut = true;
            }
        }
        let wakes = is_first || queue.cut || queue.changes.len() >= GATHERED;
        drop(queue);
        if wakes {
            self.arrived.notify_all();
        }
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

    /// Ends a wait early.
    pub fn wake(&self) {
        self.queue.lock().woken = true;
        self.arrived.notify_all();
    }

    /// Waits until changes wait, or for a while; `false` after a stop. Changes that come close to each other
    /// are waited for, unless `at_most` is zero: writers and this thread meet less often, and queries take
    /// what waits in themselves.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut queue = self.queue.lock();
        let is_pressed = |queue: &FeedQueue| queue.cut || queue.stopped || queue.woken;
        let is_idle = |queue: &mut FeedQueue| queue.changes.is_empty() && !is_pressed(queue);
        self.arrived.wait_while_for(&mut queue, is_idle, at_most);
        if !at_most.is_zero() {
            let gathers = |queue: &mut FeedQueue| queue.changes.len() < GATHERED && !is_pressed(queue);
            self.arrived.wait_while_for(&mut queue, gathers, GATHERING.min(at_most));
        }
        queue.woken = false;
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
}

impl CommitFollower for IndexFeed {
    fn follows(&self, document_type: &str) -> bool {
        self.types.read().as_ref().is_none_or(|types| types.contains(document_type))
    }

    fn appending(&self, oldest: Timestamp) -> Result<(), StoreError> {
        self.notes.note_rows(oldest).map_err(|error| unnoted("late rows", &error))
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        self.push(rows.into_iter().map(|row| {
            let bytes = row.bytes();
            (WaitingChange::Row(row), bytes)
        }));
    }

    fn dropping(&self, scope: &DroppingScope) -> Result<(), StoreError> {
        let dropped = NotedChange::of_drop(scope);
        let is_needed = self
            .types
            .read()
            .as_ref()
            .is_none_or(|types| types.iter().any(|document_type| dropped.drops(document_type)));
        match is_needed {
            true => self.notes.note([dropped]).map_err(|error| unnoted("a drop", &error)),
            false => Ok(()),
        }
    }

    fn dropped(&self, scope: &DroppingScope, until: Timestamp) {
        self.push(std::iter::once((WaitingChange::Drop(scope.clone(), until), DROP_BYTES)));
    }

    fn changing(&self, buckets: &[BucketId]) -> Result<(), StoreError> {
        // Stale first: a note of a bucket that is not counts as one of a change that was read.
        self.stale.begin(buckets);
        let noted = buckets.iter().map(|bucket| NotedChange::of_bucket(*bucket));
        self.notes.note(noted).map_err(|error| {
            self.stale.end(buckets);
            unnoted("a change of replicas", &error)
        })
    }

    fn changed(&self, buckets: &[BucketId]) {
        self.stale.end(buckets);
        self.wake();
    }
}

/// Error of a change that the indexes cannot note, so that it is not made.
fn unnoted(change: &str, error: &std::io::Error) -> StoreError {
    let (action, reason) = (format!("note {change} for the indexes"), error.to_string());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::NoSpace { action, reason },
        _ => StoreError::Io { action, reason },
    }
}
