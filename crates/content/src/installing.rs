//! Installation of received files: files that arrive during an installation are installed together in the
//! next one, with one manifest.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeFailure, NodeResponse};
use millrace_replication::replica::KeeperJob;
use millrace_store::{ArrivedSegment, Store};

use crate::pull::FetchedReplica;
use crate::storage;

/// Files that wait to be installed.
#[derive(Default)]
pub(crate) struct InstallQueue {
    waiting: Vec<(KeeperJob, FetchedReplica)>,
    in_flight: bool,
}

impl InstallQueue {
    /// Adds the complete content of a bucket.
    pub(crate) fn add(&mut self, job: KeeperJob, whole: FetchedReplica) {
        self.waiting.push((job, whole));
    }

    /// The next files to install; `None` while an installation is running.
    pub(crate) fn next(&mut self) -> Option<InstallBatch> {
        if self.in_flight || self.waiting.is_empty() {
            return None;
        }
        self.in_flight = true;
        Some(InstallBatch(std::mem::take(&mut self.waiting)))
    }

    /// Records that an installation has ended, successfully or not.
    pub(crate) fn done(&mut self) {
        assert!(self.in_flight, "what was taken in was in flight");
        self.in_flight = false;
    }
}

/// Files that are installed together.
pub(crate) struct InstallBatch(Vec<(KeeperJob, FetchedReplica)>);

impl InstallBatch {
    /// Calls `install` for all of them, and where that fails for each, so that one that cannot be installed
    /// holds up no other. Returns the responses to the jobs.
    pub(crate) fn run(
        &self,
        install: impl Fn(&[&FetchedReplica]) -> NodeResponse,
    ) -> Vec<(KeeperJob, NodeResponse)> {
        let all: Vec<&FetchedReplica> = self.0.iter().map(|(_, whole)| whole).collect();
        let together = install(&all);
        let counts = all.len() == 1 || !matches!(together, NodeResponse::Failed(_));
        let respond = |(job, whole): &(KeeperJob, FetchedReplica)| {
            (*job, if counts { together.clone() } else { install(&[whole]) })
        };
        self.0.iter().map(respond).collect()
    }
}

/// Installs the complete content of buckets, with one manifest. Damaged files of replicas that cannot be read
/// go first.
pub(crate) fn install(store: &Store, all: &[&FetchedReplica]) -> Result<(), NodeFailure> {
    let buckets: Vec<BucketId> = all.iter().map(|whole| whole.bucket).collect();
    store.give_up_damaged(&buckets).map_err(storage::failure)?;
    let mut drops = all.iter().flat_map(|whole| whole.drops.iter().map(|drop| (whole.bucket, drop)));
    drops.try_for_each(|(bucket, drop)| store.apply_drop(bucket, drop).map_err(storage::failure))?;
    let mut files: Vec<(&Arc<ArrivedSegment>, Vec<BucketId>)> = Vec::new();
    for whole in all {
        for file in &whole.files {
            assert!(
                file.shares().iter().any(|share| share.bucket == whole.bucket),
                "a replica is put together of files with a share of its bucket"
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a batch with replicas of these buckets, of which bucket 1 cannot be installed.
    fn run(buckets: &[u64]) -> Vec<bool> {
        let mut queue = InstallQueue::default();
        for (job, bits) in (0..).zip(buckets) {
            let bucket = BucketId::new(8, *bits);
            queue.add(KeeperJob(job), FetchedReplica { bucket, drops: Vec::new(), files: Vec::new() });
        }
        let batch = queue.next().expect("some wait");
        let responses = batch.run(|all| match all.iter().any(|whole| whole.bucket == BucketId::new(8, 1)) {
            true => NodeResponse::Failed(NodeFailure::Differs),
            false => NodeResponse::Done,
        });
        let jobs: Vec<u64> = responses.iter().map(|(job, _)| job.0).collect();
        assert_eq!(jobs, (0..buckets.len() as u64).collect::<Vec<_>>());
        responses.iter().map(|(_, response)| matches!(response, NodeResponse::Done)).collect()
    }

    #[test]
    fn a_replica_that_cannot_be_installed_holds_up_no_other() {
        assert_eq!(run(&[0, 1, 2]), [true, false, true]);
        assert_eq!(run(&[0, 2]), [true, true]);
        assert_eq!(run(&[1]), [false]);
    }
}
