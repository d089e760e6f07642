//! Disks that are full, or make nothing durable any more.

use std::time::Duration;

use millrace_cluster::{NodeFailure, NodeResponse, ReplicatedRow, RowContent};
use millrace_fixtures::SeededRandom;
use millrace_replication::replica::StorageWork;

use crate::storage::ModelStorage;

/// Time after which a node reports that it is out of space.
const LONG: Duration = Duration::from_secs(5);

/// The state of a node's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SimDisk {
    #[default]
    Works,
    /// Full since this time: removals and drops are taken, documents are not.
    Full { since: Duration },
    /// Writes fail; some of them are present after a restart.
    Broken,
}

impl SimDisk {
    pub fn is_full_for_long(self, now: Duration) -> bool {
        matches!(self, SimDisk::Full { since } if now.saturating_sub(since) >= LONG)
    }

    pub fn takes_more(self) -> bool {
        self == SimDisk::Works
    }

    /// Executes work of a keeper as far as this disk can.
    pub fn run(self, work: StorageWork, storage: &ModelStorage, random: &mut SeededRandom) -> NodeResponse {
        match (self, work) {
            (SimDisk::Works, work) => work.run(storage),
            (SimDisk::Full { .. }, StorageWork::Apply(rows)) => apply_what_fits(rows, storage),
            (SimDisk::Broken, StorageWork::Apply(rows)) => {
                let kept = rows.into_iter().filter(|_| random.permille(400)).collect();
                StorageWork::Apply(kept).run(storage);
                NodeResponse::Failed(NodeFailure::Storage { reason: "a sync failed".to_owned() })
            }
            (_, work @ (StorageWork::Owned { .. } | StorageWork::Info { .. } | StorageWork::Read { .. })) => {
                work.run(storage)
            }
            (SimDisk::Full { .. }, work) => work.run(storage),
            (SimDisk::Broken, _) => {
                NodeResponse::Failed(NodeFailure::Storage { reason: "a sync failed before".to_owned() })
            }
        }
    }
}

/// Applies the rows that need no space.
fn apply_what_fits(rows: Vec<ReplicatedRow>, storage: &ModelStorage) -> NodeResponse {
    let needs_room =
        |row: &ReplicatedRow| matches!(&*row.content, RowContent::Version(version) if version.body.is_some());
    let mut failed: Vec<(usize, NodeFailure)> = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        if needs_room(&row) {
            failed.push((place, NodeFailure::DiskFull { reason: "the disk is full".to_owned() }));
        } else if let NodeResponse::Applied(refused) = StorageWork::Apply(vec![row]).run(storage) {
            failed.extend(refused.into_iter().map(|(_, failure)| (place, failure)));
        }
    }
    NodeResponse::Applied(failed)
}
