//! Self-supervision of a cluster's node: reports on standard error the reason for which it does not serve,
//! and gives its buckets up when it cannot take documents any more, or cannot read those that it has.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use millrace_membership::ClusterMembership;
use millrace_node::{Node, UnhealthyReason};

use crate::cluster::JoinedPart;

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for giving up, after which the process ends regardless.
const GIVING_UP_MAX: Duration = Duration::from_secs(10);

/// Exit status of a node that gives up, from sysexits.h: "an internal software error has been detected".
/// Supervisors restart it.
const EXIT_STATUS: i32 = 70;

/// Watches the node until the task is aborted.
pub async fn watch(node: Arc<Node>, membership: ClusterMembership, part: Arc<JoinedPart>) {
    let (mut logged, mut last) = (None, None);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let standing = membership.serves().err().map(|reason| reason.to_string());
        // A state that lasts for one check only is ordinary during a start.
        if standing == last && standing != logged {
            log(&membership.settings().name, standing.as_deref());
            logged.clone_from(&standing);
        }
        last = standing;
        let looking = Arc::clone(&node);
        // A panic has been logged.
        let Ok(unfit) = tokio::task::spawn_blocking(move || looking.unfit()).await else { continue };
        match unfit {
            None => {}
            Some(UnhealthyReason::OutOfSpace { .. }) => membership.out_of_space(),
            Some(reason @ UnhealthyReason::CannotSync(_)) => give_up(&reason, &membership, &part).await,
        }
    }
}

fn log(name: &str, standing: Option<&str>) {
    match standing {
        Some(reason) => tracing::warn!(node = name, "does not serve: {reason}"),
        None => tracing::info!(node = name, "serves"),
    }
}

/// Ends the process, so that other nodes take over its buckets: at once, because it revokes its registration.
/// It does not announce the stop, so that a node that gives up repeatedly is kept out for longer each time.
pub async fn give_up(reason: &(impl Display + Sync), membership: &ClusterMembership, part: &JoinedPart) {
    tracing::error!(%reason, "this node gives its buckets up and ends");
    let part = part.get().cloned();
    let end = async {
        if let Some(part) = part {
            // The promises of this node must end before its registration does.
            let _ = tokio::task::spawn_blocking(move || part.stop()).await;
        }
        membership.abandon().await;
    };
    let _ = tokio::time::timeout(GIVING_UP_MAX, end).await;
    std::process::exit(EXIT_STATUS);
}
