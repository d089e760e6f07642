//! Drops of whole groups of the service, at a cost that does not depend on the number of their documents.

use std::sync::Arc;
use std::time::Instant;

use millrace_access::{Permit, WantedGroups};
use millrace_cluster::ClusterVersion;
use millrace_document::DocumentGroup;
use millrace_node::Node;
use millrace_node::cluster::{DocumentsAnswer, DocumentsQuestion, ask_owners};

use super::{ELASTIC_TYPE, StorageGroup, WRITE_TIMEOUT, deadline, is_over, misunderstood, wait_for_changes};
use crate::Error;

/// Drops that owners in a cluster are asked for at once. Each is a sync of theirs, which writes wait for.
const ASKED_AT_ONCE: usize = 8;

/// Drops all documents of a group.
///
/// # Errors
/// The owner cannot be reached, or the drop fails.
pub(crate) fn drop_group(node: &Arc<Node>, group: StorageGroup) -> Result<(), Error> {
    drop_groups(node, &[group], newest_version(node)?, None).into_iter().collect()
}

/// Version of the cluster state that this node knows; that of none on a node that runs alone.
///
/// # Errors
/// The node knows none now.
pub(crate) fn newest_version(node: &Node) -> Result<ClusterVersion, Error> {
    match node.cluster().view()? {
        None => Ok(ClusterVersion::NONE),
        Some(cluster) => Ok(cluster.state()?.version()),
    }
}

/// Drops groups; an outcome for each, which is an error if the cluster state does not have this version. A
/// node that runs alone drops all of them or none, with one sync. Others ask no owner after `until`.
pub(crate) fn drop_groups(
    node: &Arc<Node>,
    groups: &[StorageGroup],
    version: ClusterVersion,
    until: Option<Instant>,
) -> Vec<Result<(), Error>> {
    let groups: Vec<DocumentGroup> = groups.iter().map(|group| group.group()).collect();
    if node.cluster().is_alone() {
        let store = node.permitted_store(&Permit::of_server(), WantedGroups::All);
        let outcome = store.drop_groups(Some(ELASTIC_TYPE), &groups).map_err(Error::from);
        return vec![outcome; groups.len()];
    }
    let drop_some = |some: &[DocumentGroup]| match is_over(until) {
        true => vec![Err(drop_waits()); some.len()],
        false => drop_at_owners(node, some, version),
    };
    groups.chunks(ASKED_AT_ONCE).flat_map(drop_some).collect()
}

/// Error of a drop that is left to a later pass.
pub(crate) fn drop_waits() -> Error {
    Error::NotBegun("other drops take long, and this one follows them".to_owned())
}

fn drop_at_owners(
    node: &Arc<Node>,
    groups: &[DocumentGroup],
    version: ClusterVersion,
) -> Vec<Result<(), Error>> {
    let question = |group: &DocumentGroup| {
        let question = DocumentsQuestion::Drop {
            version,
            document_type: ELASTIC_TYPE.to_owned(),
            group: group.clone(),
            timeout: WRITE_TIMEOUT,
        };
        (group.clone(), question, ())
    };
    let requested = groups.iter().map(question).collect();
    let answers = match wait_for_changes(node, ask_owners(node, version, requested, deadline())) {
        Ok(answers) => answers,
        Err(error) => return vec![Err(error); groups.len()],
    };
    let outcomes = answers.into_iter().map(|answer| match answer {
        Ok(DocumentsAnswer::Dropped) => Ok(()),
        Ok(other) => Err(misunderstood(&other)),
        Err(error) => Err(error.into()),
    });
    outcomes.collect()
}
