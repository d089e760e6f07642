//! Files that have come are taken in together: what has come while some were taken in needs one manifest for
//! all.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::NodeFailure;
use millrace_cluster::replica::KeeperJob;
use millrace_store::{ArrivedSegment, Store};

use crate::pull::WholeReplica;
use crate::storage;

/// What waits to be taken in.
#[derive(Default)]
pub(crate) struct InstallQueue {
    waiting: Vec<(KeeperJob, WholeReplica)>,
    under_way: bool,
}

impl InstallQueue {
    /// All that a bucket has.
    pub(crate) fn add(&mut self, job: KeeperJob, whole: WholeReplica) {
        self.waiting.push((job, whole));
    }

    /// What to take in now; none while something is.
    pub(crate) fn next(&mut self) -> Option<InstallBatch> {
        if self.under_way || self.waiting.is_empty() {
            return None;
        }
        self.under_way = true;
        Some(InstallBatch(std::mem::take(&mut self.waiting)))
    }

    /// What was to be taken in is, or cannot be.
    pub(crate) fn done(&mut self) {
        assert!(self.under_way, "what was taken in was under way");
        self.under_way = false;
    }
}

/// Files that are taken in together.
pub(crate) struct InstallBatch(Vec<(KeeperJob, WholeReplica)>);

impl InstallBatch {
    /// Takes them in, durably.
    pub(crate) fn install(&self, store: &Store) -> Result<(), NodeFailure> {
        let all: Vec<&WholeReplica> = self.0.iter().map(|(_, whole)| whole).collect();
        install(store, &all)
    }

    /// Whose they are.
    pub(crate) fn jobs(&self) -> Vec<KeeperJob> {
        self.0.iter().map(|(job, _)| *job).collect()
    }
}

/// Takes in all that there is of buckets, with one manifest.
pub(crate) fn install(store: &Store, all: &[&WholeReplica]) -> Result<(), NodeFailure> {
    let mut drops = all.iter().flat_map(|whole| whole.drops.iter().map(|drop| (whole.bucket, drop)));
    drops.try_for_each(|(bucket, drop)| store.apply_drop(bucket, drop).map_err(storage::failure))?;
    let mut files: Vec<(&Arc<ArrivedSegment>, Vec<BucketId>)> = Vec::new();
    for whole in all {
        for file in &whole.files {
            match files.iter_mut().find(|(other, _)| Arc::ptr_eq(other, file)) {
                Some((_, buckets)) => buckets.push(whole.bucket),
                None => files.push((file, vec![whole.bucket])),
            }
        }
    }
    let files: Vec<(&ArrivedSegment, &[BucketId])> =
        files.iter().map(|(file, buckets)| (&***file, &buckets[..])).collect();
    ArrivedSegment::install_all(&files).map_err(storage::failure)
}
