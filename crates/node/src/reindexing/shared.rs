//! Requests for reindexing in a cluster, and its status: in notes that the nodes share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use millrace_cluster::reindexing::{ReindexNotes, ReindexRecord, ReindexedApplication, ReindexedTypes};
use millrace_document::Timestamp;

use crate::cluster::{ClusterMember, SharedNote};
use crate::{Error, Node};

/// Maximum number of attempts to change the record, which other nodes change as well.
const ATTEMPTS: usize = 20;

/// Time within which coordination reports a write to the node that made it.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between looks for it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Notes about reindexing, as received by this node.
///
/// # Errors
/// A newer version of the program has written the record.
fn received(cluster: &dyn ClusterMember) -> Result<ReindexNotes, Error> {
    read(&cluster.notes())
}

/// Reads shared notes.
///
/// # Errors
/// A newer version of the program has written the record.
pub(crate) fn read(notes: &BTreeMap<String, SharedNote>) -> Result<ReindexNotes, Error> {
    ReindexNotes::read(notes).map_err(|error| Error::Internal(error.to_string()))
}

/// Status of all types, with the progress of the nodes.
pub(super) fn status(node: &Node, cluster: &dyn ClusterMember) -> Result<ReindexedTypes, Error> {
    let view = node.cluster().view().ok().flatten();
    let state = view.and_then(|view| view.state().ok());
    Ok(received(cluster)?.status(state.as_deref()))
}

/// Handles a new deployment, see [`ReindexRecord::following`].
pub(super) fn deployed(cluster: &dyn ClusterMember, application: &ReindexedApplication) -> Result<(), Error> {
    change(cluster, |record| {
        if let Some(next) = record.following(application) {
            *record = next;
        }
    })
}

/// Changes the record, and waits until that is done.
///
/// # Errors
/// [`Error::Unsettled`]: coordination cannot be reached; the record may have been changed nevertheless.
pub(super) fn change<R>(
    cluster: &dyn ClusterMember,
    change: impl Fn(&mut ReindexRecord) -> R,
) -> Result<R, Error> {
    for _ in 0..ATTEMPTS {
        let notes = received(cluster)?;
        let mut record = notes.record.clone();
        let answer = change(&mut record);
        if record == notes.record || write(cluster, notes.changed, vec![record.note()])? {
            return Ok(answer);
        }
    }
    Err(contended())
}

/// Halts the reindexing of document types on all nodes. Returns the time that no document of these types was,
/// or will be, rewritten after: each node stores its time with the record that it acts by, and the record is
/// another one from then on.
///
/// # Errors
/// [`Error::Unsettled`]: coordination cannot be reached; reindexing may have been halted nevertheless.
pub(super) fn halt(
    cluster: &dyn ClusterMember,
    application: &ReindexedApplication,
    types: &BTreeSet<Arc<str>>,
) -> Result<Timestamp, Error> {
    for _ in 0..ATTEMPTS {
        let notes = received(cluster)?;
        let mut record = notes.record.following(application).unwrap_or_else(|| notes.record.clone());
        if record.generation < application.generation {
            // Another node still knows how the application differs, and begins reindexing then.
            let reason = "reindexing does not know the active application yet; deploy again in a minute";
            return Err(Error::Unsettled(reason.to_owned()));
        }
        record.types.halt(types);
        // Also if nothing differs: what this node has received may be old.
        if write(cluster, notes.changed, vec![record.note()])? {
            return Ok(received_after(cluster, notes.changed)?.rewritten_until(types));
        }
    }
    Err(contended())
}

/// The notes after a write of the record, whose last change was this one before.
fn received_after(cluster: &dyn ClusterMember, changed: Option<u64>) -> Result<ReindexNotes, Error> {
    let deadline = Instant::now() + REPORT_TIMEOUT;
    loop {
        let notes = received(cluster)?;
        if notes.changed != changed {
            return Ok(notes);
        }
        if Instant::now() >= deadline {
            let reason = "coordination has not reported what this node has written; deploy again";
            return Err(Error::Unsettled(reason.to_owned()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn contended() -> Error {
    Error::Unsettled("others change what is to be reindexed at the same time; ask again".to_owned())
}

/// Writes notes while the record is the one that was read.
pub(crate) fn write(
    cluster: &dyn ClusterMember,
    changed: Option<u64>,
    notes: Vec<(String, Option<Vec<u8>>)>,
) -> Result<bool, Error> {
    let (sender, answer) = mpsc::channel();
    // The receiver waits for the answer.
    let done = move |written| drop(sender.send(written));
    cluster.note(ReindexNotes::RECORD, changed, notes, Box::new(done));
    let left = |_| Error::Unsettled("this node is not part of the cluster any more".to_owned());
    Ok(answer.recv().map_err(left)??)
}
