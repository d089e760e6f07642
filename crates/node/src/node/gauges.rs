//! Gauges and histograms of a node that are read when metrics are requested.

use millrace_store::StoreStatus;

use crate::metrics::{DescribedHistogram, MetricGauge, share_of_memory};
use crate::node::Node;
use crate::reindexing;

impl Node {
    /// True if an application is active, documents can be written, and the cluster, if any, counts on the
    /// node.
    fn is_ready(&self) -> bool {
        self.deployments.current().is_ok() && self.unfit().is_none() && self.cluster().serves().is_ok()
    }

    /// Histograms of the store, and of the node's part in a cluster.
    pub fn histograms(&self) -> Vec<DescribedHistogram<'_>> {
        let synced = DescribedHistogram {
            name: "millrace_store_sync_duration_seconds",
            description: "Time to append a batch of writes to the log and to sync it",
            histogram: self.store.sync_times(),
        };
        let view = self.cluster().view().ok().flatten();
        let replicated = view.map(|view| DescribedHistogram {
            name: "millrace_replication_duration_seconds",
            description: "Time from handing a write to its replicas until all that must have it have synced it",
            histogram: view.replication_times(),
        });
        let scanned = self.placed_indexes.scan_times().map(|times| DescribedHistogram {
            name: "millrace_index_scan_duration_seconds",
            description: "Time to read entries of a copy of a placed index, with the wait until it has everything",
            histogram: times,
        });
        std::iter::once(synced).chain(replicated).chain(scanned).collect()
    }

    /// Gauges of the store and its files.
    fn store_gauges(&self, status: &StoreStatus) -> Vec<MetricGauge> {
        let snapshots = self.store.snapshot_space();
        let erasures = self.store.pending_erasures();
        let gauge = MetricGauge::new;
        vec![
            gauge(
                "content.proton.documentdb.documents.total",
                "Documents stored, about: versions that others have replaced count until they are merged away",
                status.documents as f64,
            ),
            gauge(
                "content.proton.documentdb.disk_usage",
                "Bytes of segment files",
                status.segment_bytes as f64,
            ),
            gauge("vds.datastored.alldisks.buckets", "Buckets", status.buckets as f64),
            gauge("millrace.store.segments", "Segment files", status.segments as f64),
            gauge(
                "millrace.store.tail_bytes",
                "Bytes of rows that are not sealed yet",
                status.tail_bytes as f64,
            ),
            gauge("millrace.store.cache_bytes", "Bytes of columns in memory", status.cache_bytes as f64),
            MetricGauge::counted(
                "millrace.store.cache_hits",
                "Reads that the cache answered",
                status.cache_hits,
            ),
            MetricGauge::counted(
                "millrace.store.cache_misses",
                "Reads that went to the disk",
                status.cache_misses,
            ),
            MetricGauge::counted(
                "millrace.store.seals",
                "Times that recent rows were sealed into segment files",
                status.seals,
            ),
            MetricGauge::counted("millrace.store.merges", "Merges of segment files", status.merges),
            MetricGauge::counted("millrace.store.splits", "Splits of buckets", status.splits),
            MetricGauge::counted(
                "millrace.store.deferred_writes",
                "Writes that were acknowledged before their sync",
                status.deferred_rows,
            ),
            gauge(
                "millrace.store.deferred_ms_max",
                "Longest time from the acknowledgement of such a write to its sync, in milliseconds",
                status.deferred_us_max as f64 / 1e3,
            ),
            gauge(
                "millrace.erasures.pending",
                "Groups that were deleted and whose bytes may still be on the disk",
                erasures.0 as f64,
            ),
            gauge(
                "millrace.erasures.overdue",
                "Those of them that should have been erased by now",
                erasures.1 as f64,
            ),
            gauge("millrace.snapshots", "Snapshots of the data directory", snapshots.snapshots as f64),
            gauge(
                "millrace.snapshots.held_bytes",
                "Bytes of files that only snapshots have",
                snapshots.held_bytes as f64,
            ),
            gauge("millrace.snapshots.log_bytes", "Bytes of kept logs", snapshots.log_bytes as f64),
        ]
    }

    /// Gauges that are read when metrics are requested.
    pub fn gauges(&self) -> Vec<MetricGauge> {
        let status = self.store.status();
        let gauge = MetricGauge::new;
        let mut gauges = self.store_gauges(&status);
        gauges.extend([
            gauge("httpapi_queued_operations", "Writes that wait or run", status.writes_in_flight as f64),
            gauge("millrace.disk_free", "Bytes free on the disk", status.disk_free as f64),
            gauge(
                "jdisc.thread_pool.work_queue.size",
                "Requests that wait for a thread",
                self.pool.waiting() as f64,
            ),
            gauge(
                "millrace.requests.in_flight",
                "Requests of the data port whose answer has not begun",
                self.metrics.requests_in_flight() as f64,
            ),
            gauge(
                "millrace.ready",
                "1 if documents can be written and, in a cluster, the node serves; else 0",
                f64::from(u8::from(self.is_ready())),
            ),
            gauge(
                "reindexing.progress",
                "Progress of the running reindexing, from 0 to 1; the least advanced one if several run; 1 if none does",
                reindexing::progress(self),
            ),
            gauge(
                "application_generation",
                "Generation of the active application",
                self.deployments.generation() as f64,
            ),
            gauge(
                "millrace.queries.bytes",
                "Bytes that the results of queries take",
                self.query_memory.taken() as f64,
            ),
        ]);
        gauges.extend((status.disk_total > 0).then(|| {
            let used = 1.0 - status.disk_free as f64 / status.disk_total as f64;
            gauge(
                "content.proton.resource_usage.disk",
                "Share of the disk that is used, by all that is on it",
                used,
            )
        }));
        gauges.extend(share_of_memory().map(|share| {
            let description = "Share of the memory of the machine, or of its limit, that the process uses";
            gauge("content.proton.resource_usage.memory", description, share)
        }));
        gauges.extend(self.index_gauges());
        gauges.extend(self.models.gauges());
        gauges.extend(self.cluster().member().map(|member| member.gauges()).unwrap_or_default());
        gauges.extend(self.cluster_view.get().map(|view| view.gauges()).unwrap_or_default());
        gauges
    }
}
