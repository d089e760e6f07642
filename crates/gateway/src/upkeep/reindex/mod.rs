//! Stored documents run through the indexing statements of the active application, one document type at a time.

use std::time::{Duration, Instant};

use millrace_document::Document;
use millrace_indexing::Caller;
use millrace_store::{Modification, Refusal, Visit};

use super::{IDLE, Job, pace};
use crate::Node;
use crate::deployment::DocumentKind;
use crate::document_api::MISFIT;
use crate::metrics::Metric;
use crate::reindexing::{Step, Task};

/// Documents looked at in one step.
const PAGE: usize = 128;

/// Documents looked at a second, at speed 1.
const PER_SECOND: f64 = 2000.0;

/// Reindexes what is ready for it.
#[derive(Default)]
pub(super) struct Reindex {
    /// Whether what the last step did is not on disk yet, and since when.
    unsaved: Option<Instant>,
}

/// Where a type stands is written to disk so often. What is done twice after a crash does no harm.
const SAVE: Duration = Duration::from_secs(2);

impl Job for Reindex {
    fn step(&mut self, node: &Node) -> Duration {
        let reindexings = node.reindexings();
        // In this order: whoever put the task into effect had made the deployment current before.
        let Some(task) = reindexings.next() else { return IDLE };
        let Ok(deployment) = node.deployments().current() else { return IDLE };
        let Ok(kind) = deployment.kind(&task.document_type) else { return IDLE };
        let began = Instant::now();
        let (step, seen) = sweep(node, kind, &task);
        let ends = !matches!(step, Step::GoesOn { .. });
        let save = ends || self.unsaved.is_none_or(|since| since.elapsed() >= SAVE);
        if save {
            self.unsaved = Some(Instant::now());
        }
        if let Err(error) = reindexings.advance(&task, step, save) {
            tracing::warn!(%error, "where reindexing stands is not on disk");
        }
        pace(node, began, seen, PER_SECOND * task.speed)
    }

    fn works_in_a_cluster(&self) -> bool {
        false
    }
}

/// The next page; what came of it, and how many documents it had.
fn sweep(node: &Node, kind: &DocumentKind, task: &Task) -> (Step, u64) {
    let visit =
        Visit { wanted: PAGE, continuation: task.position.clone(), ..Visit::all(&[&*task.document_type]) };
    match node.store().sweep(&visit, &|document| reindexed(kind, document)) {
        Ok(swept) => {
            node.metrics().add(Metric::Reindexed, swept.seen);
            let step = match swept.continuation {
                Some(position) => Step::GoesOn { position, progress: swept.progress },
                None => Step::Ends,
            };
            (step, swept.seen)
        }
        Err(error) => (Step::Fails(error.to_string()), 0),
    }
}

/// What becomes of a document: where the statements change nothing, it stays.
fn reindexed(kind: &DocumentKind, document: Document) -> Result<Modification, Refusal> {
    let id = document.id.clone();
    let refuse = |error: millrace_indexing::Error| Refusal {
        code: MISFIT,
        reason: format!("{id}: {error}; correct the document, or the indexing statements"),
    };
    let indexed = kind.scripts.run(document.clone(), &Caller::default()).map_err(refuse)?;
    let same = indexed.fields.len() == document.fields.len()
        && indexed.fields.iter().all(|(field, value)| document.get(field) == Some(value));
    Ok(if same { Modification::Nothing } else { Modification::Put(indexed) })
}
