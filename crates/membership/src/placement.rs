//! Placed indexes: every node follows the table of copies, and the leader writes it.
//!
//! - `reports`: each node publishes its reports as notes, and reads those of the others.
//! - `requests`: any node passes requests of operators to the leader, through coordination.
//! - `situation`: the nodes as the planner takes them, from what coordination holds.
//! - `leading`: the leader plans and writes.
//!
//! The table has a version that only grows. A node takes a table only if its version is higher than that of
//! the one it knows, so it never goes back. Where coordination was restored from a backup, the leader learns
//! the versions of others from their reports, and publishes above them.

mod leading;
mod reports;
mod requests;
mod situation;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::{KeyEntry, StoreRevision};
use millrace_env::{RealDisk, replace_file};
use millrace_index_placement::{IndexNode, PlacementOverview, PlacementTable, WantedIndex};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ClusterMembership;
use crate::kept::PLACEMENT;
use crate::membership::MembershipShared;

pub(crate) use leading::lead;
pub(crate) use requests::PlacementRequestEntry;

/// Shortest and longest time between two plans, or two publications of reports.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Time from the beginning of some work on coordination to that of the next: a copy that is ready makes room
/// for another one soon, and large tables take a tenth of the time.
fn interval_after(took: Duration) -> Duration {
    let (shortest, longest) = INTERVALS;
    took.saturating_mul(10).clamp(shortest, longest)
}

/// Indexes that the active application of this node places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredIndexes {
    /// Generation of the application; 0 before any is active.
    pub generation: u64,
    /// The indexes.
    pub indexes: Vec<WantedIndex>,
}

/// Knowledge of a node about placed indexes.
pub(crate) struct PlacementKnowledge {
    /// The newest known table; its version never decreases.
    table: watch::Sender<Option<Arc<PlacementTable>>>,
    declared: watch::Sender<Arc<DeclaredIndexes>>,
    reports: Mutex<reports::ReadReports>,
}

/// The table of copies, as coordination holds it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlacementEntry {
    /// The last readable value; `None` if the key does not exist.
    table: Option<Arc<PlacementTable>>,
    /// Revision of the key; `None` if it does not exist.
    pub(crate) changed: Option<StoreRevision>,
    /// Reason for which the newest value cannot be read.
    pub(crate) unread: Option<Arc<str>>,
}

impl PlacementEntry {
    /// Takes in a change of the key. A value that cannot be read leaves the known one unchanged.
    pub(crate) fn follow(&mut self, entry: Option<&KeyEntry>) {
        self.changed = entry.map(|entry| entry.changed);
        self.unread = None;
        match entry.map(|entry| PlacementTable::from_json(&entry.value)) {
            None => self.table = None,
            Some(Ok(table)) => self.table = Some(Arc::new(table)),
            Some(Err(error)) => {
                tracing::error!(%error, "copies of indexes stay as they are");
                self.unread = Some(error.to_string().into());
            }
        }
    }

    /// The last readable value.
    pub(crate) fn table(&self) -> Option<&Arc<PlacementTable>> {
        self.table.as_ref()
    }
}

impl PlacementKnowledge {
    pub(crate) fn new(kept: Option<Arc<PlacementTable>>) -> Self {
        PlacementKnowledge {
            table: watch::Sender::new(kept),
            declared: watch::Sender::new(Arc::default()),
            reports: Mutex::default(),
        }
    }

    /// Stores a table, if it is newer than the known one.
    pub(crate) fn store_if_newer(&self, table: &Arc<PlacementTable>) {
        self.table.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| known.version() < table.version());
            if newer {
                *known = Some(Arc::clone(table));
            }
            newer
        });
    }

    /// The newest known table.
    fn known(&self) -> Option<Arc<PlacementTable>> {
        self.table.borrow().clone()
    }
}

impl ClusterMembership {
    /// The newest known table of copies of indexes, as it changes; `None` before the first. It stays known
    /// while coordination is unreachable, and over restarts.
    pub fn placement(&self) -> watch::Receiver<Option<Arc<PlacementTable>>> {
        self.shared().placement.table.subscribe()
    }

    /// Declares the indexes that the active application of this node places. While this node leads, it plans
    /// by them if the generation is that of the published package.
    pub fn declare_indexes(&self, declared: DeclaredIndexes) {
        self.shared().placement.declared.send_if_modified(|known| {
            let differs = **known != declared;
            if differs {
                *known = Arc::new(declared);
            }
            differs
        });
    }

    /// Placed indexes as this node knows them: the table, and the nodes with their reports.
    pub fn placement_overview(&self) -> PlacementOverview {
        let shared = self.shared();
        let snapshot = Arc::clone(&shared.snapshots().borrow());
        let reports = shared.placement.reports.lock().reports_by_node(&snapshot);
        let table = shared.placement.known();
        let nodes = situation::nodes(&snapshot, &reports, table.as_deref());
        let of_node = |node: &IndexNode| Some((node.key, reports.get(&*node.name)?.copies.clone()));
        PlacementOverview {
            is_published: table.is_some(),
            table: table.unwrap_or_default(),
            reports: nodes.iter().filter_map(of_node).collect(),
            nodes,
            wanted: shared.placement.declared.borrow().indexes.clone(),
            unread: snapshot.placement.unread.clone(),
        }
    }
}

/// Stores every table that becomes known, until the node leaves.
pub(crate) async fn keep(directory: PathBuf, shared: Arc<MembershipShared>) {
    let mut tables = shared.placement.table.subscribe();
    loop {
        tokio::select! {
            changed = tables.changed() => if changed.is_err() { return },
            () = shared.wait_until_left() => return,
        }
        let Some(table) = tables.borrow_and_update().clone() else { continue };
        let path = directory.join(PLACEMENT);
        let write = move || replace_file(&RealDisk, &path, &table.to_json());
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the table of copies of indexes could not be kept on disk")
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The process ends.
            Err(_) => return,
        }
    }
}
