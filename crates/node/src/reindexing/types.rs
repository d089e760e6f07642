//! Status of all document types: pending, marked, running.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_schema::change::ChangeEffect;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::status::{self, ReindexRun, ReindexStatus};
use super::{Chosen, ReindexTask};
use crate::CompiledApplication;

/// Reindexing status, by content cluster and document type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ReindexedTypes(BTreeMap<Arc<str>, BTreeMap<Arc<str>, ReindexStatus>>);

impl ReindexedTypes {
    /// Handles a new deployment: marked types begin, and the types whose statements it changes are pending.
    pub(super) fn deployed(&mut self, deployment: &CompiledApplication) {
        let application = &deployment.application;
        self.0.retain(|id, of| {
            let cluster = application.content.iter().find(|cluster| cluster.id == *id);
            of.retain(|name, _| cluster.is_some_and(|cluster| cluster.document(name).is_some()));
            !of.is_empty()
        });
        for status in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            status.put_into_effect(deployment.generation);
        }
        for action in
            deployment.changes.actions.iter().filter(|action| action.effect == ChangeEffect::Reindex)
        {
            if let Some(cluster) = application.cluster_of(&action.document_type) {
                let status = self.status(&cluster.id, &action.document_type);
                status.pending = Some(deployment.generation);
            }
        }
    }

    /// Marks types as ready: the next deployment begins to reindex them, from the beginning.
    pub(super) fn mark(&mut self, chosen: &Chosen, speed: f64, now_ms: u64) {
        for (cluster, document_type) in each(chosen) {
            self.status(cluster, document_type).mark(now_ms, speed);
        }
    }

    /// Sets the speed, from the next deployment on, of the types that were marked before; returns these
    /// types.
    pub(super) fn set_speed(&mut self, chosen: &Chosen, speed: f64) -> Chosen {
        let mut changed = Chosen::new();
        for (cluster, document_type) in each(chosen) {
            let status = self.0.get_mut(cluster).and_then(|of| of.get_mut(document_type));
            if let Some(ready) = status.and_then(|status| status.ready.as_mut()) {
                ready.speed = speed;
                changed.entry(Arc::clone(cluster)).or_default().push(Arc::clone(document_type));
            }
        }
        changed
    }

    /// Running and finished reindexings, with the content cluster and the document type.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &ReindexRun)> {
        let statuses = self.0.iter().flat_map(|(cluster, of)| of.iter().map(move |of| (cluster, of)));
        statuses.filter_map(|(cluster, (name, status))| Some((cluster, name, status.run.as_ref()?)))
    }

    /// Mutable version of [`ReindexedTypes::runs`].
    pub(super) fn runs_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &mut ReindexRun)> {
        let statuses = self.0.iter_mut().flat_map(|(cluster, of)| of.iter_mut().map(move |of| (cluster, of)));
        statuses.filter_map(|(cluster, (name, status))| Some((cluster, name, status.run.as_mut()?)))
    }

    /// The reindexing of a task, unless another has replaced it.
    pub(super) fn run_of(&mut self, task: &ReindexTask) -> Option<&mut ReindexRun> {
        let status = self.0.get_mut(&task.cluster).and_then(|of| of.get_mut(&task.document_type));
        status.and_then(|status| status.run.as_mut()).filter(|run| run.ready_ms == task.ready_ms)
    }

    /// Status in the format of `GET …/reindexing`; `deployment` gives the clusters.
    pub(super) fn render(&self, deployment: &CompiledApplication) -> Value {
        let none = BTreeMap::new();
        let cluster = |id: &Arc<str>| status::render(self.0.get(id).unwrap_or(&none));
        let content = deployment.application.content.iter();
        let clusters: serde_json::Map<String, Value> =
            content.map(|of| (of.id.to_string(), cluster(&of.id))).collect();
        json!({ "clusters": clusters })
    }

    /// Progress of the running reindexing, 0 to 1; the least advanced one if several run; 1 if none.
    pub(super) fn progress(&self) -> f64 {
        let runs = self.runs().map(|(_, _, run)| run);
        runs.filter(|run| run.ended_ms.is_none()).map(|run| run.progress).fold(1.0, f64::min)
    }

    fn status(&mut self, cluster: &Arc<str>, document_type: &Arc<str>) -> &mut ReindexStatus {
        self.0.entry(Arc::clone(cluster)).or_default().entry(Arc::clone(document_type)).or_default()
    }
}

fn each(chosen: &Chosen) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    chosen.iter().flat_map(|(cluster, types)| types.iter().map(move |document_type| (cluster, document_type)))
}
