//! Which document types are to be reindexed, which are, and how far it has come.
//!
//! 1. A deployment that changes indexing statements makes its types *pending*: someone has to say that now is the time.
//! 2. Marking a type as *ready* says so; marking it again begins anew.
//! 3. The next deployment puts what was marked, and the speeds that were set, into effect.
//! 4. The background does what is in effect (`upkeep::reindex`), one type at a time, and tells how it went.
//!
//! A node that is alone keeps all of it in a file ([`Reindexings`]), the nodes of a cluster in notes that they share ([`Shared`]): so it goes
//! on after a restart, or where another node has to.

mod alone;
mod done;
mod shared;
mod status;
mod types;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

pub(crate) use self::alone::Reindexings;
pub(crate) use self::done::Done;
pub(crate) use self::shared::{Mark, Shared};
use crate::{Deployment, Error, Node};

/// What failed is tried again so much later, in milliseconds.
const GRACE_MS: u64 = 180_000;

/// Document types by content cluster.
pub(crate) type Chosen = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A document type whose reindexing goes on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub(crate) cluster: Arc<str>,
    pub(crate) document_type: Arc<str>,
    /// Where a node that is alone is to go on; `None`: at the beginning.
    pub(crate) position: Option<String>,
    pub(crate) speed: f64,
    /// When it was marked; tells one reindexing of the type from the next.
    pub(crate) ready_ms: u64,
}

/// What came of a step.
pub(crate) enum Step {
    /// There is more to do.
    GoesOn {
        /// Where.
        position: String,
        /// The share that is done.
        progress: f64,
    },
    /// All documents are done.
    Ends,
    /// It failed, for this reason, and will be tried again.
    Fails(String),
}

/// A deployment is in effect: what was marked begins, and the types whose statements it changes are pending. May wait for coordination.
///
/// # Errors
/// It could not be kept.
pub(crate) fn deployed(node: &Node, deployment: &Deployment) -> Result<(), Error> {
    match node.cluster() {
        None => node.reindexings().deployed(deployment).map_err(|error| kept(&error)),
        Some(cluster) => shared::deployed(&**cluster, deployment),
    }
}

/// Marks types as ready: the next deployment begins to reindex them, from the beginning. May wait for coordination.
///
/// # Errors
/// It could not be kept.
pub(crate) fn mark(node: &Node, chosen: &Chosen, speed: f64) -> Result<(), Error> {
    match node.cluster() {
        None => node.reindexings().mark(chosen, speed).map_err(|error| kept(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.mark(chosen, speed, now_ms())),
    }
}

/// Sets the speed, from the next deployment on, of those types that were marked before; answers which these are. May wait for coordination.
///
/// # Errors
/// It could not be kept.
pub(crate) fn set_speed(node: &Node, chosen: &Chosen, speed: f64) -> Result<Chosen, Error> {
    match node.cluster() {
        None => node.reindexings().set_speed(chosen, speed).map_err(|error| kept(&error)),
        Some(cluster) => shared::change(&**cluster, |record| record.types.set_speed(chosen, speed)),
    }
}

/// How it stands, in the form of `GET …/reindexing`.
///
/// # Errors
/// Another version of the program has written it down.
pub(crate) fn render(node: &Node, deployment: &Deployment) -> Result<Value, Error> {
    match node.cluster() {
        None => Ok(node.reindexings().render(deployment)),
        Some(cluster) => Ok(Shared::read(&**cluster)?.told(&**cluster).render(deployment)),
    }
}

/// The share that is done of what goes on; of several, of the one that is least far; 1 where nothing goes on.
pub(crate) fn progress(node: &Node) -> f64 {
    match node.cluster() {
        None => node.reindexings().progress(),
        Some(cluster) => Shared::read(&**cluster).map_or(1.0, |shared| shared.told(&**cluster).progress()),
    }
}

/// That the file of a node that is alone could not be written.
pub(crate) fn kept(error: &io::Error) -> Error {
    Error::Internal(format!("how reindexing stands could not be kept on disk: {error}"))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
