//! Reindexing of document types: requests, the running ones, and their progress.
//!
//! 1. A deployment that changes indexing statements makes its types *pending*: an operator has to choose the
//!    time.
//! 2. Marking a type as *ready* does that; marking it again starts over.
//! 3. The next deployment puts the marks and the new speeds into effect.
//! 4. The background executes them (`upkeep::reindex`), one type at a time, and reports the outcome.
//!
//! A single node stores all of it in a file (`LocalReindexings`), the nodes of a cluster in shared notes
//! (`SharedReindexing`): so it continues after a restart, or on another node.

mod alone;
mod done;
mod shared;
mod status;
mod types;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::alone::LocalReindexings;
pub(crate) use self::done::ReindexedBuckets;
pub(crate) use self::shared::{NodeReindexMark, SharedReindexing};
use crate::{CompiledApplication, Error, Node};

/// Delay before a failed step is retried, in milliseconds.
const GRACE_MS: u64 = 180_000;

/// Document types by content cluster.
pub type Chosen = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A document type that is being reindexed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReindexTask {
    /// Content cluster.
    pub cluster: Arc<str>,
    /// Document type.
    pub document_type: Arc<str>,
    /// Position at which a single node continues; `None`: at the beginning.
    pub position: Option<String>,
    /// Speed, relative to the default.
    pub speed: f64,
    /// Time of the mark, in milliseconds; distinguishes successive reindexings of a type.
    pub ready_ms: u64,
}

/// Outcome of a step.
pub enum ReindexStep {
    /// There is more to do.
    GoesOn {
        /// Position of the next step.
        position: String,
        /// Share that is done, 0 to 1.
        progress: f64,
    },
    /// All documents are done.
    Ends,
    /// It failed, for this reason, and will be retried.
    Fails(String),
}

/// Handles a new deployment: marked types begin, and the types whose statements it changes are pending. May
/// wait for coordination.
///
/// # Errors
/// The change could not be stored.
pub fn deployed(node: &Node, deployment: &CompiledApplication) -> Result<(), Error> {
    match node.cluster() {
        None => node.reindexings().deployed(deployment).map_err(|error| kept(&error)),
        Some(cluster) => shared::deployed(&**cluster, deployment),
    }
}

/// Marks types as ready: the next deployment begins to reindex them, from the beginning. May wait for
/// coordination.
///
/// # Errors
/// The marks could not be stored.
pub fn mark(node: &Node, chosen: &Chosen, speed: f64) -> Result<(), Error> {
    match node.cluster() {
        None => node.reindexings().mark(chosen, speed).map_err(|error| kept(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.mark(chosen, speed, now_ms())),
    }
}

/// Sets the speed, from the next deployment on, of the types that were marked before; returns these types.
/// May wait for coordination.
///
/// # Errors
/// The speed could not be stored.
pub fn set_speed(node: &Node, chosen: &Chosen, speed: f64) -> Result<Chosen, Error> {
    match node.cluster() {
        None => node.reindexings().set_speed(chosen, speed).map_err(|error| kept(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.set_speed(chosen, speed)),
    }
}

/// Status in the format of `GET …/reindexing`.
///
/// # Errors
/// Another version of the program has written the state.
pub fn render(node: &Node, deployment: &CompiledApplication) -> Result<Value, Error> {
    match node.cluster() {
        None => Ok(node.reindexings().render(deployment)),
        Some(cluster) => Ok(SharedReindexing::read(&**cluster)?.told(&**cluster).render(deployment)),
    }
}

/// Progress of the running reindexing, 0 to 1; the least advanced one if several run; 1 if none.
pub fn progress(node: &Node) -> f64 {
    match node.cluster() {
        None => node.reindexings().progress(),
        Some(cluster) => {
            SharedReindexing::read(&**cluster).map_or(1.0, |shared| shared.told(&**cluster).progress())
        }
    }
}

/// Error for a failed write of a single node's file.
pub fn kept(error: &io::Error) -> Error {
    Error::Internal(format!("how reindexing stands could not be kept on disk: {error}"))
}

fn now_ms() -> u64 {
    millrace_env::unix_time().as_millis() as u64
}
