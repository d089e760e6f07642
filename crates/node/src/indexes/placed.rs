//! Indexes whose copies a cluster places on nodes, each of a slice of the documents of all nodes.
//!
//! Each node has two sides. As one with documents it feeds the changes of its store to the nodes that have
//! copies ([`source`]). As one with copies it makes, keeps and removes those that the table gives it
//! ([`copies`]). A copy follows the owners of the buckets of its slice and reads what it lacks, or it is
//! taken over as files from another node ([`moves`]). What both sides tell each other are values
//! ([`message`]), and the way to the cluster is a trait ([`cluster`]), so that tests run without a network.
//!
//! [`millrace_index_feed`] says why a copy has what it should, [`millrace_index_placement`] which node has
//! which copy, and `reports` is the seam to the leader, which decides that.

mod cluster;
mod copies;
mod erasing;
mod kept;
mod message;
mod moves;
mod narrowing;
mod pacing;
mod pages;
mod reports;
mod scans;
mod service;
mod source;
#[cfg(test)]
mod tests;
mod verify;
mod verifying;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use millrace_env::{LatencyHistogram, RealDisk};
use millrace_index_placement::{CopyProgress, NodeCopyReport};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::following::FollowerSwitch;
use super::{IndexDefinition, IndexPlacing};
use crate::metrics::MetricGauge;
use crate::{Error, Node};
use cluster::NodePlacedCluster;
use erasing::PlacedErasure;
use service::{KnownDefinitions, PlacedService, PlacedServiceParts};
use source::PlacedSource;

pub use message::{
    CopyRecords, CopyScan, CopyScanned, KeyedRead, MessageBytes, OwnedDocuments, PlacedAnswer,
    PlacedQuestion, VersionKeys,
};
pub use reports::{PlacementLinks, PlacementReporter, WantedIndexes};

/// Name of the directory of the copies.
const DIRECTORY: &str = "placed-indexes";

/// The placed indexes of a node: changes of its documents for copies on other nodes, and its own copies.
pub struct PlacedIndexes {
    root: PathBuf,
    follower: Arc<FollowerSwitch>,
    reporter: Arc<PlacementReporter>,
    source: Arc<PlacedSource>,
    definitions: Arc<KnownDefinitions>,
    erasure: Arc<PlacedErasure>,
    /// Places of the indexes, as they were kept last.
    placing: Mutex<IndexPlacing>,
    /// True while the store passes its changes on.
    is_fed: Mutex<bool>,
    service: OnceLock<Arc<PlacedService>>,
}

impl PlacedIndexes {
    /// The placed indexes of a data directory. Nothing runs before the node is one of a cluster.
    pub fn new(data_dir: &Path, follower: &Arc<FollowerSwitch>) -> Self {
        let erasure = Arc::<PlacedErasure>::default();
        follower.add_erasure_partner(Arc::clone(&erasure) as Arc<_>);
        PlacedIndexes {
            erasure,
            root: data_dir.join(DIRECTORY),
            follower: Arc::clone(follower),
            reporter: Arc::default(),
            source: Arc::new(PlacedSource::new(follower.store())),
            definitions: Arc::default(),
            placing: Mutex::default(),
            is_fed: Mutex::new(false),
            service: OnceLock::new(),
        }
    }

    /// Publisher of what the leader of the cluster needs to know of this node.
    pub fn reporter(&self) -> &PlacementReporter {
        &self.reporter
    }

    /// Places of the indexes, as they were kept last.
    pub(crate) fn placing(&self) -> IndexPlacing {
        *self.placing.lock()
    }

    /// Adopts the indexes of an application. The store passes its changes on where the cluster places them.
    pub(crate) fn adopt(&self, generation: u64, definitions: &[Arc<IndexDefinition>], placing: IndexPlacing) {
        *self.placing.lock() = placing;
        let is_placing = placing == IndexPlacing::Placed;
        self.reporter.publish_wanted(generation, definitions);
        let placed = definitions.iter().filter(|definition| definition.config.placed && is_placing);
        let placed: Vec<Arc<IndexDefinition>> = placed.cloned().collect();
        let mut is_fed = self.is_fed.lock();
        if placed.is_empty() && !*is_fed {
            return;
        }
        let passed = self.source.pass(&placed);
        if passed.is_any != *is_fed || passed.is_more {
            *is_fed = passed.is_any;
            // No commit is in flight when it returns: all later ones are passed on.
            self.follower.set_placed(passed.is_any.then(|| Arc::clone(&self.source) as Arc<_>));
        }
        self.source.adopt(&placed, passed);
        self.definitions.set(&placed);
        if !placed.is_empty() {
            self.erasure.note_copies(true);
        }
    }

    /// Keeps the copies that the table gives the node from now on. Called in a tokio runtime, after the node
    /// has got its part in the cluster.
    pub(crate) fn follow_table(&self, node: &Arc<Node>, links: PlacementLinks) {
        let cluster = NodePlacedCluster { own: links.own, node: Arc::downgrade(node) };
        let service = PlacedService::start(PlacedServiceParts {
            cluster: Arc::new(cluster),
            source: Arc::clone(&self.source),
            reporter: Arc::clone(&self.reporter),
            table: links.table,
            definitions: Arc::clone(&self.definitions),
            erasure: Arc::clone(&self.erasure),
            root: self.root.clone(),
            disk: Arc::new(RealDisk),
            runtime: Handle::current(),
        });
        if let Err(second) = self.service.set(service) {
            second.stop();
            tracing::warn!("the node follows a table of copies of indexes already");
        }
    }

    /// Answers a question of another node.
    ///
    /// # Errors
    /// The node has no part in a cluster yet; it cannot do now what it is asked for.
    pub async fn answer(&self, question: PlacedQuestion) -> Result<PlacedAnswer, Error> {
        let starts = || Error::Unsettled("this node does not keep placed indexes yet".to_owned());
        self.service.get().ok_or_else(starts)?.answer(question).await
    }

    /// Gauges of the node's copies, and of its feed; none where it places no indexes and has no copies.
    pub(crate) fn gauges(&self) -> Vec<MetricGauge> {
        let Some(service) = self.service.get() else { return Vec::new() };
        // The reports that were published last: changes hold the copies while they work on the disk.
        let reports = Arc::clone(&self.reporter.reports().borrow());
        if reports.copies.is_empty() && !self.places_any() {
            return Vec::new();
        }
        let count = |is_counted: fn(&CopyProgress) -> bool| {
            reports.copies.values().filter(|report| is_counted(&report.progress)).count() as f64
        };
        let sum = |of: fn(&NodeCopyReport) -> u64| reports.copies.values().map(of).sum::<u64>() as f64;
        let gauge = MetricGauge::new;
        vec![
            gauge(
                "millrace.index.copies",
                "Copies of slices of placed indexes that the node has or makes",
                count(|progress| *progress != CopyProgress::Gone),
            ),
            gauge(
                "millrace.index.ready",
                "Those of them that have everything",
                count(|progress| *progress == CopyProgress::CaughtUp),
            ),
            gauge(
                "millrace.index.failed",
                "Those of them that cannot be made or are damaged",
                count(|progress| matches!(progress, CopyProgress::Failed(_))),
            ),
            gauge("millrace.index.entries", "Entries of them, about", sum(|report| report.entries)),
            gauge("millrace.index.bytes", "Bytes of their files", sum(|report| report.bytes)),
            MetricGauge::counted(
                "millrace.index.repaired",
                "Documents in which verifications have found copies to differ, and which were read again",
                service.repaired.load(Ordering::Relaxed),
            ),
            gauge(
                "millrace.index.feed.queue_bytes",
                "Bytes of changes that wait for nodes with copies, or are on their way",
                self.source.queued_bytes() as f64,
            ),
            MetricGauge::counted(
                "millrace.index.feed.cut",
                "Queues of such changes that ran over: the copies have read again what changed",
                self.source.cuts.load(Ordering::Relaxed),
            ),
            gauge(
                "millrace.index.lag_seconds",
                "Lag of the copy that lags most, from 30 seconds or lag-max on; 0 below",
                reports.copies.values().filter_map(|report| report.lag).max().unwrap_or(0) as f64,
            ),
            MetricGauge::counted(
                "millrace.index.scans_behind",
                "Scans of copies that had not taken everything in in time",
                service.scans_behind.load(Ordering::Relaxed),
            ),
        ]
    }

    /// Times of the scans of copies, if there were any.
    pub(crate) fn scan_times(&self) -> Option<&LatencyHistogram> {
        self.service.get().map(|service| &service.scans).filter(|times| times.count() > 0)
    }

    /// Ends the work, and writes what is in memory.
    pub fn stop(&self) {
        if let Some(service) = self.service.get() {
            service.stop();
        }
    }
}
