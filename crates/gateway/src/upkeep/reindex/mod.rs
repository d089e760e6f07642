//! Stored documents run through the indexing statements of the active application, one document type at a time.

mod shared;

use std::time::{Duration, Instant};

use millrace_document::Document;
use millrace_indexing::Caller;
use millrace_store::{Modification, Refusal, Swept, ViewScope, Visit};

use self::shared::Passes;
use super::sweep::sweep;
use super::{IDLE, Job, pace};
use crate::deployment::DocumentKind;
use crate::document_api::MISFIT;
use crate::metrics::Metric;
use crate::reindexing::{Step, Task};
use crate::{Error, Node};

/// Documents looked at in one step.
const PAGE: usize = 128;

/// Documents looked at a second, at speed 1; in a cluster by each node.
const PER_SECOND: f64 = 2000.0;

/// Reindexes what is ready for it.
#[derive(Default)]
pub(super) struct Reindex {
    /// Whether what the last step did is not on disk yet, and since when.
    unsaved: Option<Instant>,
    /// What it does as one of a cluster.
    passes: Passes,
}

/// Where a type stands is written to disk so often. What is done twice after a crash does no harm.
const SAVE: Duration = Duration::from_secs(2);

impl Job for Reindex {
    fn step(&mut self, node: &Node) -> Duration {
        match node.cluster() {
            None => self.alone(node),
            Some(cluster) => self.passes.step(node, &**cluster),
        }
    }
}

impl Reindex {
    /// The next page of a node that is alone.
    fn alone(&mut self, node: &Node) -> Duration {
        let reindexings = node.reindexings();
        // In this order: whoever put the task into effect had made the deployment current before.
        let Some(task) = reindexings.next() else { return IDLE };
        let Ok(deployment) = node.deployments().current() else { return IDLE };
        let Ok(kind) = deployment.kind(&task.document_type) else { return IDLE };
        let began = Instant::now();
        let (step, seen) = match page(node, kind, ViewScope::All, task.position.clone()) {
            Ok(Swept { seen, continuation: Some(position), progress, .. }) => {
                (Step::GoesOn { position, progress }, seen)
            }
            Ok(Swept { seen, continuation: None, .. }) => (Step::Ends, seen),
            Err(error) => (Step::Fails(error.to_string()), 0),
        };
        let ends = !matches!(step, Step::GoesOn { .. });
        let save = ends || self.unsaved.is_none_or(|since| since.elapsed() >= SAVE);
        if save {
            self.unsaved = Some(Instant::now());
        }
        if let Err(error) = reindexings.advance(&task, step, save) {
            tracing::warn!(%error, "where reindexing stands is not on disk");
        }
        pace_of(node, began, seen, &task)
    }
}

/// How long to pause after a step of a task.
fn pace_of(node: &Node, began: Instant, seen: u64, task: &Task) -> Duration {
    pace(node, began, seen, PER_SECOND * task.speed)
}

/// The next page of the documents of a type.
fn page(
    node: &Node,
    kind: &DocumentKind,
    scope: ViewScope,
    continuation: Option<String>,
) -> Result<Swept, Error> {
    let visit = Visit { scope, wanted: PAGE, continuation, ..Visit::all(&[&*kind.schema.name]) };
    let swept = sweep(node, &visit, &|document| reindexed(kind, document))?;
    node.metrics().add(Metric::Reindexed, swept.seen);
    Ok(swept)
}

/// What becomes of a document: where the statements change nothing, it stays.
fn reindexed(kind: &DocumentKind, document: Document) -> Result<Modification, Refusal> {
    let id = document.id.clone();
    let refuse = |error: millrace_indexing::Error| Refusal {
        code: MISFIT,
        reason: format!("{id}: {error}; correct the document, or the indexing statements"),
    };
    let run = |shown| kind.scripts.run(shown, &Caller::default());
    let indexed = kind.change_shown(document.clone(), run).map_err(refuse)?;
    let same = indexed.fields.len() == document.fields.len()
        && indexed.fields.iter().all(|(field, value)| document.get(field) == Some(value));
    Ok(if same { Modification::Nothing } else { Modification::Put(indexed) })
}
