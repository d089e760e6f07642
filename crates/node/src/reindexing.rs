//! Reindexing of document types: requests, the running ones, and their progress.
//!
//! 1. A deployment that changes indexing statements makes its types *pending*: an operator has to choose the
//!    time.
//! 2. Marking a type as *ready* does that; marking it again starts over.
//! 3. The next deployment puts the marks and the new speeds into effect.
//! 4. The background executes them (`upkeep::reindex`), one type at a time, and reports the outcome.
//!
//! A single node stores all of it in a file (`LocalReindexings`), the nodes of a cluster in notes that they
//! share ([`millrace_cluster::reindexing`]): so it continues after a restart, or on another node.

mod alone;
mod render;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::DroppedTypes;
use millrace_cluster::reindexing::ReindexedApplication;
use millrace_document::Timestamp;
use millrace_schema::change::ChangeEffect;
use millrace_schema::{Application, ClusterDocument};
use serde_json::Value;

pub use millrace_cluster::reindexing::ChosenTypes;

pub(crate) use self::alone::LocalReindexings;
pub(crate) use self::shared::{read, write};
use crate::{CompiledApplication, Error, Node};

/// Maximum distance of a removal of a type from the present. Documents that were rewritten under a later time
/// are of a node whose clock is wrong.
const AHEAD_MAX: Duration = Duration::from_secs(1800);

/// Handles a new deployment: marked types begin, and the types whose statements it changes are pending. May
/// wait for coordination.
///
/// # Errors
/// The change could not be stored.
pub fn deployed(node: &Node, deployment: &CompiledApplication) -> Result<(), Error> {
    match node.cluster().member() {
        None => node.reindexings().deployed(&reindexed(deployment)).map_err(|error| write_error(&error)),
        Some(member) => shared::deployed(&**member, &reindexed(deployment)),
    }
}

/// Every removal of a document type known to this node, and those by an application that is about to be
/// published, see [`Node::removed_by`]. The removals are as of a time that no document is rewritten after: a
/// node that reindexes a type may learn of its removal later. May wait for coordination.
///
/// # Errors
/// Coordination cannot be reached; the reindexing of removed types may be halted, see [`not_removed`].
pub fn removed_by(node: &Node, next: &Application) -> Result<DroppedTypes, Error> {
    let types = node.types_removed_by(next);
    let until = match (node.cluster().member(), node.deployments().current()) {
        (Some(cluster), Ok(deployment)) if !types.is_empty() => {
            shared::halt(&**cluster, &reindexed(&deployment), &types)?
        }
        _ => Timestamp::default(),
    };
    let mut dropped = node.removed_by(next);
    // No store takes a time that is far in the future.
    let latest = Timestamp((millrace_env::unix_time() + AHEAD_MAX).as_micros() as u64);
    types.iter().for_each(|name| dropped.add(name, until.min(latest)));
    Ok(dropped)
}

/// Lets the reindexing of types continue whose removal was not published after all. May wait for
/// coordination.
///
/// # Errors
/// Coordination cannot be reached: it continues after the next deployment.
pub fn not_removed(node: &Node, next: &Application) -> Result<(), Error> {
    let types = node.types_removed_by(next);
    match node.cluster().member() {
        Some(cluster) if !types.is_empty() => {
            shared::change(&**cluster, |record| record.types.resume(&types))
        }
        _ => Ok(()),
    }
}

/// Marks types as ready: the next deployment begins to reindex them, from the beginning. May wait for
/// coordination.
///
/// # Errors
/// The marks could not be stored.
pub fn mark(node: &Node, chosen: &ChosenTypes, speed: f64) -> Result<(), Error> {
    match node.cluster().member() {
        None => node.reindexings().mark(chosen, speed).map_err(|error| write_error(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.mark(chosen, speed, now_ms())),
    }
}

/// Sets the speed, from the next deployment on, of the types that were marked before; returns these types.
/// May wait for coordination.
///
/// # Errors
/// The speed could not be stored.
pub fn set_speed(node: &Node, chosen: &ChosenTypes, speed: f64) -> Result<ChosenTypes, Error> {
    match node.cluster().member() {
        None => node.reindexings().set_speed(chosen, speed).map_err(|error| write_error(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.set_speed(chosen, speed)),
    }
}

/// Status in the format of `GET …/reindexing`.
///
/// # Errors
/// Another version of the program has written the state.
pub fn render(node: &Node, deployment: &CompiledApplication) -> Result<Value, Error> {
    match node.cluster().member() {
        None => Ok(render::types(&node.reindexings().types(), deployment)),
        Some(cluster) => Ok(render::types(&shared::status(node, &**cluster)?, deployment)),
    }
}

/// Progress of the running reindexing, 0 to 1; the least advanced one if several run; 1 if none.
pub fn progress(node: &Node) -> f64 {
    match node.cluster().member() {
        None => node.reindexings().progress(),
        Some(cluster) => shared::status(node, &**cluster).map_or(1.0, |types| types.progress()),
    }
}

/// Error for a failed write of a single node's file.
pub fn write_error(error: &io::Error) -> Error {
    Error::Internal(format!("how reindexing stands could not be kept on disk: {error}"))
}

/// The parts of an application that reindexing depends on.
pub(crate) fn reindexed(deployment: &CompiledApplication) -> ReindexedApplication {
    let application = &deployment.application;
    let types_of = |documents: &[ClusterDocument]| -> BTreeSet<Arc<str>> {
        documents.iter().map(|of| Arc::clone(&of.document_type)).collect()
    };
    let types: BTreeMap<_, _> = application
        .content
        .iter()
        .map(|cluster| (Arc::clone(&cluster.id), types_of(&cluster.documents)))
        .collect();
    let mut changed = ChosenTypes::new();
    for action in deployment.changes.actions.iter().filter(|action| action.effect == ChangeEffect::Reindex) {
        if let Some(cluster) = application.cluster_of(&action.document_type) {
            let document_type = Arc::clone(&action.document_type);
            changed.entry(Arc::clone(&cluster.id)).or_default().push(document_type);
        }
    }
    ReindexedApplication { generation: deployment.generation, based_on: deployment.based_on, types, changed }
}

fn now_ms() -> u64 {
    millrace_env::unix_time().as_millis() as u64
}
