//! Status of all document types: pending, marked, running.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::status::{ReindexRun, ReindexStatus};
use super::{ChosenTypes, ReindexTask, ReindexedApplication};

/// Reindexing status, by content cluster and document type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReindexedTypes(BTreeMap<Arc<str>, BTreeMap<Arc<str>, ReindexStatus>>);

impl ReindexedTypes {
    /// Handles a new deployment: marked types begin, and the types whose statements it changes are pending.
    pub fn deployed(&mut self, application: &ReindexedApplication) {
        self.0.retain(|cluster, of| {
            of.retain(|document_type, _| application.has(cluster, document_type));
            !of.is_empty()
        });
        for status in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            status.put_into_effect(application.generation);
        }
        for (cluster, document_type) in each(&application.changed) {
            self.status(cluster, document_type).pending = Some(application.generation);
        }
    }

    /// Marks types as ready: the next deployment begins to reindex them, from the beginning.
    pub fn mark(&mut self, chosen: &ChosenTypes, speed: f64, now_ms: u64) {
        for (cluster, document_type) in each(chosen) {
            self.status(cluster, document_type).mark(now_ms, speed);
        }
    }

    /// Sets the speed, from the next deployment on, of the types that were marked before; returns these
    /// types.
    pub fn set_speed(&mut self, chosen: &ChosenTypes, speed: f64) -> ChosenTypes {
        let mut changed = ChosenTypes::new();
        for (cluster, document_type) in each(chosen) {
            let status = self.0.get_mut(cluster).and_then(|of| of.get_mut(document_type));
            if let Some(ready) = status.and_then(|status| status.ready.as_mut()) {
                ready.speed = speed;
                changed.entry(Arc::clone(cluster)).or_default().push(Arc::clone(document_type));
            }
        }
        changed
    }

    /// Halts the running reindexings of these types, until the next deployment.
    pub fn halt(&mut self, document_types: &BTreeSet<Arc<str>>) {
        let runs = self.runs_mut().filter(|(_, name, _)| document_types.contains(*name));
        runs.for_each(|(_, _, run)| run.speed = 0.0);
    }

    /// Lets reindexings continue that [`ReindexedTypes::halt`] has halted.
    pub fn resume(&mut self, document_types: &BTreeSet<Arc<str>>) {
        let all = self.0.values_mut().flatten().filter(|(name, _)| document_types.contains(*name));
        for (_, ReindexStatus { ready, run, .. }) in all {
            if let (Some(ready), Some(run)) = (ready, run.as_mut())
                && ready.ready_ms == run.ready_ms
            {
                run.speed = ready.speed;
            }
        }
    }

    /// Running and finished reindexings, with the content cluster and the document type.
    pub fn runs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &ReindexRun)> {
        let statuses = self.0.iter().flat_map(|(cluster, of)| of.iter().map(move |of| (cluster, of)));
        statuses.filter_map(|(cluster, (name, status))| Some((cluster, name, status.run.as_ref()?)))
    }

    /// Mutable version of [`ReindexedTypes::runs`].
    pub fn runs_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &mut ReindexRun)> {
        let statuses = self.0.iter_mut().flat_map(|(cluster, of)| of.iter_mut().map(move |of| (cluster, of)));
        statuses.filter_map(|(cluster, (name, status))| Some((cluster, name, status.run.as_mut()?)))
    }

    /// The reindexing of a task, unless another has replaced it.
    pub fn run_of(&mut self, task: &ReindexTask) -> Option<&mut ReindexRun> {
        let status = self.0.get_mut(&task.cluster).and_then(|of| of.get_mut(&task.document_type));
        status.and_then(|status| status.run.as_mut()).filter(|run| run.ready_ms == task.ready_ms)
    }

    /// Types of a content cluster, with their status.
    pub fn in_cluster(&self, cluster: &str) -> impl Iterator<Item = (&Arc<str>, &ReindexStatus)> {
        self.0.get(cluster).into_iter().flatten()
    }

    /// Progress of the running reindexing, 0 to 1; the least advanced one if several run; 1 if none.
    pub fn progress(&self) -> f64 {
        let runs = self.runs().map(|(_, _, run)| run);
        runs.filter(|run| run.ended_ms.is_none()).map(|run| run.progress).fold(1.0, f64::min)
    }

    fn status(&mut self, cluster: &Arc<str>, document_type: &Arc<str>) -> &mut ReindexStatus {
        self.0.entry(Arc::clone(cluster)).or_default().entry(Arc::clone(document_type)).or_default()
    }
}

fn each(chosen: &ChosenTypes) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    chosen.iter().flat_map(|(cluster, types)| types.iter().map(move |document_type| (cluster, document_type)))
}
