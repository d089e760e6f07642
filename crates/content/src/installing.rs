//! Files that have come are taken in together: what has come while some were taken in needs one manifest for all.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::Failure;
use millrace_cluster::replica::Job;
use millrace_store::Arrived;

use crate::storage;

/// What waits to be taken in.
#[derive(Default)]
pub(crate) struct Installing {
    waiting: Vec<(Job, BucketId, Vec<Arc<Arrived>>)>,
    under_way: bool,
}

impl Installing {
    /// All that a bucket has.
    pub(crate) fn add(&mut self, job: Job, bucket: BucketId, files: Vec<Arc<Arrived>>) {
        self.waiting.push((job, bucket, files));
    }

    /// What to take in now; none while something is.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        if self.under_way || self.waiting.is_empty() {
            return None;
        }
        self.under_way = true;
        Some(Batch(std::mem::take(&mut self.waiting)))
    }

    /// What was to be taken in is, or cannot be.
    pub(crate) fn done(&mut self) {
        self.under_way = false;
    }
}

/// Files that are taken in together.
pub(crate) struct Batch(Vec<(Job, BucketId, Vec<Arc<Arrived>>)>);

impl Batch {
    /// Takes them in, durably.
    pub(crate) fn install(&self) -> Result<(), Failure> {
        let mut files: Vec<(&Arc<Arrived>, Vec<BucketId>)> = Vec::new();
        for (_, bucket, of_bucket) in &self.0 {
            for file in of_bucket {
                match files.iter_mut().find(|(other, _)| Arc::ptr_eq(other, file)) {
                    Some((_, buckets)) => buckets.push(*bucket),
                    None => files.push((file, vec![*bucket])),
                }
            }
        }
        let files: Vec<(&Arrived, &[BucketId])> =
            files.iter().map(|(file, buckets)| (&***file, &buckets[..])).collect();
        Arrived::install_all(&files).map_err(storage::failure)
    }

    /// Whose they are.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.0.iter().map(|(job, ..)| *job).collect()
    }
}
