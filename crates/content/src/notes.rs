//! Notes that nodes share, as the gateway sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_membership::ClusterMembership;
use millrace_node::cluster::{ClusterError, Noted, SharedNote};
use tokio::runtime::Handle;

/// Notes that this node has received.
pub(crate) fn of(membership: &ClusterMembership) -> BTreeMap<String, SharedNote> {
    let pictures = membership.pictures();
    let picture = pictures.borrow();
    let note = |note: &millrace_membership::NodeNote| SharedNote {
        value: Arc::clone(&note.value),
        changed: note.changed,
    };
    picture.notes.iter().map(|(name, found)| (name.clone(), note(found))).collect()
}

/// Writes notes, as [`ClusterMembership::note`] does.
pub(crate) fn write(
    runtime: &Handle,
    membership: &ClusterMembership,
    (guard, changed): (&str, Option<u64>),
    notes: Vec<(String, Option<Vec<u8>>)>,
    done: Noted,
) {
    let (membership, guard) = (membership.clone(), guard.to_owned());
    runtime.spawn(async move {
        let written = membership.note((&guard, changed), &notes).await;
        done(written.map_err(|error| ClusterError::Unavailable(error.to_string())));
    });
}
