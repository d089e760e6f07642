//! Fetching what another node's replica has: on a thread of its own, part by part, each laid aside until it may be taken in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use millrace_bucket::BucketId;
use millrace_cluster::{Failure, Pull};
use millrace_document::{DocumentId, Drop, Version};
use millrace_peer::Bulk;
use millrace_store::{Import, Share};

use crate::source::PAGE;
use crate::storage::{self, Replicas};

/// Bodies that are fetched at a time.
const BODIES: usize = 256;

/// A part that has come and is not taken in.
pub(crate) enum LaidAside {
    File(Import),
    Versions(Vec<Version>),
    Drops(Vec<Drop>),
}

impl LaidAside {
    /// Takes it into the replica, durably.
    pub(crate) fn install(self, replicas: &Replicas) -> Result<(), Failure> {
        match self {
            LaidAside::File(import) => import.finish().map_err(storage::failure),
            LaidAside::Versions(versions) => storage::apply(replicas.store(), versions),
            LaidAside::Drops(drops) => {
                drops.iter().try_for_each(|drop| replicas.store().apply_drop(drop).map_err(storage::failure))
            }
        }
    }
}

/// What is told of a fetch: the next part, or `None` at its end.
pub(crate) type Told = Box<dyn Fn(Result<Option<LaidAside>, Failure>) + Send>;

/// A fetch that goes on as it is told to. Dropped, it ends.
pub(crate) struct Fetch {
    go_on: mpsc::Sender<()>,
    bytes: Arc<AtomicU64>,
}

/// What is to be fetched.
pub(crate) struct Wanted {
    pub(crate) bucket: BucketId,
    /// The node that has it, as `host:port`.
    pub(crate) address: String,
    pub(crate) pull: Pull,
}

impl Fetch {
    /// Begins; tells when the first part is there.
    pub(crate) fn begin(wanted: Wanted, replicas: Arc<Replicas>, told: Told) -> Self {
        let (go_on, wait) = mpsc::channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let fetching = Fetching { wanted, replicas, told, wait, bytes: Arc::clone(&bytes) };
        let spawned = thread::Builder::new().name("fetch".to_owned()).spawn(move || fetching.run());
        if let Err(error) = spawned {
            // Nothing will be told: the owner asks again after a while.
            tracing::warn!(%error, "a thread for a transfer cannot be had");
        }
        Fetch { go_on, bytes }
    }

    /// The part has been taken in: fetches the next.
    pub(crate) fn go_on(&self) {
        // A fetch that has ended has told so.
        let _ = self.go_on.send(());
    }

    /// Counts the bytes that have come so far.
    pub(crate) fn bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes)
    }
}

struct Fetching {
    wanted: Wanted,
    replicas: Arc<Replicas>,
    told: Told,
    wait: mpsc::Receiver<()>,
    bytes: Arc<AtomicU64>,
}

/// Why a fetch ends before its end.
enum Ended {
    /// Nobody wants it any more.
    Cancelled,
    Failed(Failure),
}

impl From<millrace_peer::Error> for Ended {
    fn from(error: millrace_peer::Error) -> Self {
        Ended::Failed(Failure::Storage { reason: error.to_string() })
    }
}

impl From<millrace_store::Error> for Ended {
    fn from(error: millrace_store::Error) -> Self {
        Ended::Failed(storage::failure(error))
    }
}

impl Fetching {
    fn run(self) {
        let outcome = match self.wanted.pull {
            Pull::Whole => self.whole(),
            Pull::Missing => self.missing(),
        };
        match outcome {
            Ok(()) => (self.told)(Ok(None)),
            Err(Ended::Failed(failure)) => (self.told)(Err(failure)),
            Err(Ended::Cancelled) => {}
        }
    }

    /// Hands over a part, and waits until it is taken in.
    fn lay_aside(&self, part: LaidAside) -> Result<(), Ended> {
        (self.told)(Ok(Some(part)));
        self.wait.recv().map_err(|_| Ended::Cancelled)
    }

    /// What was dropped as a whole, first: rows from before it may still come.
    fn drops(&self, bulk: &mut Bulk) -> Result<(), Ended> {
        let known = self.replicas.store().drops(self.wanted.bucket)?;
        let mut drops = bulk.drops(self.wanted.bucket)?;
        drops.retain(|drop| !known.contains(drop));
        if drops.is_empty() { Ok(()) } else { self.lay_aside(LaidAside::Drops(drops)) }
    }

    /// All of the replica, as files.
    fn whole(&self) -> Result<(), Ended> {
        let mut bulk = Bulk::connect(&self.wanted.address)?;
        self.drops(&mut bulk)?;
        let store = self.replicas.store();
        for _ in 0..bulk.export(&[self.wanted.bucket])? {
            let begin = |shares: &[(BucketId, u64, u64)]| {
                let share = |(bucket, bytes, documents): &(BucketId, u64, u64)| Share {
                    bucket: *bucket,
                    bytes: *bytes,
                    documents: *documents,
                };
                // A file can hold more than was asked for; the rest of it is not this node's.
                let own: Vec<Share> =
                    shares.iter().map(share).filter(|share| share.bucket == self.wanted.bucket).collect();
                store.import(&own).map_err(|error| error.to_string())
            };
            let take = |import: &mut Import, bytes: &[u8]| {
                self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                import.append(bytes).map_err(|error| error.to_string())
            };
            let import = bulk.parcel(begin, take)?;
            self.lay_aside(LaidAside::File(import))?;
        }
        Ok(())
    }

    /// What is newer there, or missing here: both lists of versions are gone through side by side.
    fn missing(&self) -> Result<(), Ended> {
        let mut bulk = Bulk::connect(&self.wanted.address)?;
        self.drops(&mut bulk)?;
        let mut after = None;
        loop {
            let page = bulk.versions(self.wanted.bucket, after.as_deref())?;
            let mut lacking: Vec<DocumentId> = Vec::new();
            for version in page.versions {
                let own = self.replicas.store().version(&version.id)?;
                if own.is_none_or(|own| own.timestamp < version.timestamp) {
                    lacking.push(version.id);
                }
            }
            for ids in lacking.chunks(BODIES.min(PAGE)) {
                let versions = bulk.bodies(ids)?;
                let bytes = |version: &Version| version.body.as_ref().map_or(0, |body| body.len() as u64);
                self.bytes.fetch_add(versions.iter().map(bytes).sum(), Ordering::Relaxed);
                self.lay_aside(LaidAside::Versions(versions))?;
            }
            after = page.after;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
