//! Garbage collection: removes documents that no longer match the selection of their content cluster, cluster
//! by cluster, once per interval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::Timestamp;
use millrace_store::{StoreModification, StoreVisit};

use super::sweep::sweep;
use super::{BackgroundJob, IDLE, pace};
use crate::deployment::now_s;
use crate::metrics::CountedMetric;
use crate::{CompiledApplication, Node};

/// Number of documents examined in one step.
const PAGE: usize = 256;

/// Approximate share of its interval that a pass takes, so that it is complete before the next begins.
const SHARE_OF_INTERVAL: f64 = 0.5;

/// Minimum number of documents that a pass examines per second.
const PER_SECOND_MIN: f64 = 2000.0;

/// Delay before a failed step is retried.
const RETRY: Duration = Duration::from_secs(10);

/// Passes of all clusters.
#[derive(Default)]
pub(super) struct GarbageCollection {
    passes: BTreeMap<Arc<str>, GarbagePass>,
}

/// A pass over the documents of a cluster.
struct GarbagePass {
    /// Generation of the application whose selections are tested.
    generation: u64,
    began: Instant,
    visit: StoreVisit,
    per_second: f64,
    done: bool,
}

impl BackgroundJob for GarbageCollection {
    fn step(&mut self, node: &Node) -> Duration {
        let Ok(deployment) = node.deployments().current() else { return IDLE };
        self.passes.retain(|id, _| deployment.application.content.iter().any(|cluster| cluster.id == *id));
        for cluster in deployment.application.content.iter().filter(|cluster| cluster.garbage_collection) {
            let interval = Duration::from_secs(cluster.garbage_interval_s.max(1));
            let due = self.passes.get(&cluster.id).is_none_or(|pass| {
                pass.generation != deployment.generation || (pass.done && pass.began.elapsed() >= interval)
            });
            if due {
                self.passes.insert(
                    Arc::clone(&cluster.id),
                    GarbagePass::new(node, &deployment, &cluster.id, interval),
                );
            }
            if let Some(pass) = self.passes.get_mut(&cluster.id).filter(|pass| !pass.done) {
                return pass.step(node, &deployment);
            }
        }
        IDLE
    }
}

impl GarbagePass {
    fn new(node: &Node, deployment: &CompiledApplication, cluster: &str, interval: Duration) -> Self {
        let (mut document_types, mut fields) = (Vec::new(), Vec::new());
        for kind in deployment.kinds().filter(|kind| kind.clusters.iter().any(|of| *of.id == *cluster)) {
            let selections = kind.clusters.iter().map(|cluster| cluster.belongs.as_deref());
            // Documents that one cluster accepts unconditionally are never removed.
            let Some(selections) = selections.collect::<Option<Vec<_>>>() else { continue };
            document_types.push(kind.schema.name.to_string());
            for belongs in selections {
                fields.extend(belongs.fields(&kind.schema.name).into_iter().map(str::to_owned));
            }
        }
        document_types.sort_unstable();
        let documents = node.store().status().documents as f64;
        GarbagePass {
            generation: deployment.generation,
            began: Instant::now(),
            done: document_types.is_empty(),
            visit: StoreVisit { document_types, wanted: PAGE, fields: Some(fields), ..StoreVisit::all(&[]) },
            per_second: (documents / (interval.as_secs_f64() * SHARE_OF_INTERVAL)).max(PER_SECOND_MIN),
        }
    }

    fn step(&mut self, node: &Node, deployment: &CompiledApplication) -> Duration {
        let began = Instant::now();
        let now = now_s();
        let swept = sweep(node, &self.visit, Timestamp(u64::MAX), &|document| {
            let kind = deployment.kind(document.id.document_type());
            Ok(match kind {
                Ok(kind) if kind.is_garbage(&document, now) => StoreModification::Remove,
                _ => StoreModification::Nothing,
            })
        });
        let swept = match swept {
            Ok(swept) => swept,
            Err(error) => {
                tracing::warn!(%error, "garbage collection stopped; it goes on from there shortly");
                node.metrics().count(CountedMetric::GarbagePassesFailed);
                return RETRY;
            }
        };
        node.metrics().add(CountedMetric::GarbageRemoved, swept.changed);
        if swept.continuation.is_none() {
            self.done = true;
            node.metrics().count(CountedMetric::GarbagePasses);
        }
        self.visit.continuation = swept.continuation;
        pace(node, began, swept.seen, self.per_second)
    }
}
