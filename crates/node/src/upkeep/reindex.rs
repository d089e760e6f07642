//! Reindexing: stored documents run through the indexing statements of the active application, one document
//! type at a time.

mod shared;

use std::time::{Duration, Instant};

use millrace_cluster::reindexing::{ReindexStep, ReindexTask};
use millrace_document::{Document, Timestamp};
use millrace_indexing::{ComponentFailure, IndexingCaller};
use millrace_store::{StoreModification, StoreVisit, SweptPage, ViewScope, WriteRefusal, WriteRefusalKind};

use self::shared::ClusterReindexing;
use super::sweep::sweep;
use super::{BackgroundJob, IDLE, pace};
use crate::cluster::NodeCluster;
use crate::deployment::CompiledDocumentType;
use crate::metrics::CountedMetric;
use crate::{Error, Node};

/// Number of documents read in one step.
const PAGE: usize = 128;

/// Documents read in a second, at speed 1; in a cluster by each node.
const PER_SECOND: f64 = 2000.0;

/// Runs the reindexing tasks that are ready.
#[derive(Default)]
pub(super) struct ReindexJob {
    /// Time since which changes of the last steps are not on disk; `None` if all are.
    unsaved: Option<Instant>,
    /// Part of a node in its cluster.
    shared: ClusterReindexing,
}

/// Interval at which the progress of a type is written to disk. Repeating work after a crash is harmless.
const SAVE: Duration = Duration::from_secs(2);

impl BackgroundJob for ReindexJob {
    fn step(&mut self, node: &Node) -> Duration {
        match node.cluster() {
            NodeCluster::Alone => self.run_standalone(node),
            NodeCluster::Joining(_) => IDLE,
            NodeCluster::Joined(member, view) => self.shared.step(node, (&**member, &**view)),
        }
    }
}

impl ReindexJob {
    /// Processes the next page on a node without a cluster.
    fn run_standalone(&mut self, node: &Node) -> Duration {
        let reindexings = node.reindexings();
        // In this order: the deployment became current before its task took effect.
        let Some(task) = reindexings.next() else { return IDLE };
        let Ok(deployment) = node.deployments().current() else { return IDLE };
        let Ok(kind) = deployment.kind(&task.document_type) else { return IDLE };
        let began = Instant::now();
        let (step, seen) = match page(node, kind, ViewScope::All, Timestamp(u64::MAX), task.position.clone())
        {
            Ok(SweptPage { seen, continuation: Some(position), progress, .. }) => {
                (ReindexStep::Continued { position, progress }, seen)
            }
            Ok(SweptPage { seen, continuation: None, .. }) => (ReindexStep::Completed, seen),
            Err(error) => (ReindexStep::Failed(error.to_string()), 0),
        };
        let ends = !matches!(step, ReindexStep::Continued { .. });
        let save = ends || self.unsaved.is_none_or(|since| since.elapsed() >= SAVE);
        if save {
            self.unsaved = Some(Instant::now());
        }
        if let Err(error) = reindexings.advance(&task, step, save) {
            tracing::warn!(%error, "the progress of reindexing could not be written to disk");
        }
        pace_of(node, began, seen, &task)
    }
}

/// Pause after a step of a task.
fn pace_of(node: &Node, began: Instant, seen: u64, task: &ReindexTask) -> Duration {
    pace(node, began, seen, PER_SECOND * task.speed)
}

/// Next page of the documents of a type. None is rewritten under a later time than `until`.
fn page(
    node: &Node,
    kind: &CompiledDocumentType,
    scope: ViewScope,
    until: Timestamp,
    continuation: Option<String>,
) -> Result<SweptPage, Error> {
    let visit = StoreVisit { scope, wanted: PAGE, continuation, ..StoreVisit::all(&[&*kind.schema.name]) };
    let swept = sweep(node, &visit, until, &|document| reindexed(kind, document))?;
    node.metrics().add(CountedMetric::Reindexed, swept.seen);
    Ok(swept)
}

/// New version of a document; it stays as it is if the statements change nothing.
fn reindexed(kind: &CompiledDocumentType, document: Document) -> Result<StoreModification, WriteRefusal> {
    let id = document.id.clone();
    let refuse = |error: millrace_indexing::Error| {
        use ComponentFailure::{Fault, Overloaded, Timeout};
        match &error {
            // Nothing is wrong with the document: the next attempt finds the component again.
            millrace_indexing::Error::Component {
                failure: Overloaded(_) | Timeout(_) | Fault(_), ..
            } => WriteRefusal::fault(format!("{id}: {error}")),
            _ => WriteRefusal::new(
                WriteRefusalKind::Misfit,
                format!("{id}: {error}; correct the document, or the indexing statements"),
            ),
        }
    };
    let run = |shown| kind.scripts.run(shown, &IndexingCaller::default());
    let indexed = kind.change_shown(document.clone(), run).map_err(refuse)?;
    let same = indexed.fields.len() == document.fields.len()
        && indexed.fields.iter().all(|(field, value)| document.get(field) == Some(value));
    Ok(if same { StoreModification::Nothing } else { StoreModification::Put(indexed) })
}
