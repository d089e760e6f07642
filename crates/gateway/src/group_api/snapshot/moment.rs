//! A group at a time: the choice of a snapshot before it, and of the nodes that are read.
//!
//! A document can move from one node to another between two snapshots, as a file. So all nodes are read from
//! snapshots of one name. A node without it has joined since, or was away: its logs have to go back to the
//! time of the snapshot.

use std::collections::BTreeMap;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_node::Error;
use millrace_node::cluster::{
    GroupMoment, ListedSnapshot, NodeAddress, SnapshotAnswer, SnapshotQuestion, own_snapshots, snapshots_at,
    snapshots_of_all,
};
use millrace_store::{DropOfGroup, SnapshotName};

use super::{FeedSources, FeedSubject, GroupCall, NeededNodes, missing};
use crate::GatewayState;
use crate::http::RequestParameters;

/// Parameter with the time.
pub(super) const PARAMETER: &str = "at";

/// The time of a request, in microseconds since 1970.
///
/// # Errors
/// It is not a time.
pub(super) fn requested_time(parameters: &RequestParameters) -> Result<Option<Timestamp>, Error> {
    let Some(text) = parameters.get(PARAMETER) else { return Ok(None) };
    let parsed: Option<jiff::Timestamp> = text.parse().ok();
    let microseconds = parsed.and_then(|instant| u64::try_from(instant.as_microsecond()).ok());
    let refused =
        || Error::parameter(PARAMETER, format!("'{text}' is not a time such as 2026-01-31T12:00:00Z"));
    microseconds.map(|microseconds| Some(Timestamp(microseconds))).ok_or_else(refused)
}

/// Snapshots and logs of a node, as far as they are of use for a time.
struct NodeRecoveryPoints {
    address: NodeAddress,
    /// Its name; none on a server that runs alone.
    name: Option<String>,
    /// Its snapshots; those that are of no use for the time have a fault.
    snapshots: Vec<ListedSnapshot>,
    logs_since: Option<Timestamp>,
}

impl NodeRecoveryPoints {
    fn from_answer(
        address: NodeAddress,
        name: Option<String>,
        answer: SnapshotAnswer,
    ) -> Result<Self, Error> {
        match answer {
            SnapshotAnswer::Reaching(snapshots, logs_since) => {
                Ok(NodeRecoveryPoints { address, name, snapshots, logs_since })
            }
            _ => Err(Error::Internal("a list of snapshots for a time has another form".to_owned())),
        }
    }

    fn has(&self, name: &SnapshotName) -> bool {
        self.snapshots.iter().any(|snapshot| snapshot.name == *name)
    }

    /// Reason why the time cannot be restored from the node's part of a snapshot.
    fn fault(&self, name: &SnapshotName, time: u64) -> Option<String> {
        let reason = match self.snapshots.iter().find(|snapshot| snapshot.name == *name) {
            Some(snapshot) => snapshot.fault.clone()?,
            None if self.logs_since.is_some_and(|since| since.0 <= time) => return None,
            None => format!(
                "it lacks the snapshot '{name}', and its logs do not go back to that; make snapshots after nodes have \
                 joined, and keep logs (keep-logs-s) on all nodes"
            ),
        };
        Some(self.name.as_ref().map_or(reason.clone(), |node| format!("node {node}: {reason}")))
    }
}

/// The snapshot of this name, or else the latest one, from which a time can be restored, and the nodes that
/// are read. Nodes that are needed must have all of their part.
///
/// # Errors
/// The time cannot be restored; a node does not answer.
pub(super) async fn sources(
    call: &GroupCall,
    group: &DocumentGroup,
    name: Option<&SnapshotName>,
    until: Timestamp,
    needed: NeededNodes,
) -> Result<FeedSources, Error> {
    if until >= call.node.node().store().next_timestamp() {
        let reason = "the time to restore has not passed yet; name an earlier one".to_owned();
        return Err(Error::parameter(PARAMETER, reason));
    }
    let nodes = reached(call, until, needed).await?;
    // Faulty ones have no time.
    let mut times: BTreeMap<&SnapshotName, u64> = BTreeMap::new();
    for snapshot in nodes.iter().flat_map(|node| &node.snapshots) {
        let time = times.entry(&snapshot.name).or_default();
        *time = snapshot.stats.time.max(*time);
    }
    if let Some(name) = name.filter(|name| !times.contains_key(name)) {
        return Err(missing(name));
    }
    let mut candidates: Vec<(u64, &SnapshotName)> = times
        .into_iter()
        .filter(|(of, _)| name.is_none_or(|name| name == *of))
        .map(|(of, time)| (time, of))
        .collect();
    candidates.retain(|(time, _)| *time <= until.0);
    candidates.sort();
    let mut first_fault = None;
    for (time, name) in candidates.into_iter().rev() {
        let (mut useful, mut faults) = (Vec::new(), Vec::new());
        for node in &nodes {
            match node.fault(name, time) {
                None => useful.push(node),
                Some(reason) => faults.push(reason),
            }
        }
        let is_enough = match needed {
            NeededNodes::Any => useful.iter().any(|node| node.has(name)),
            NeededNodes::Every { .. } => faults.is_empty(),
        };
        if is_enough {
            let moment =
                GroupMoment { snapshot: name.clone(), time: Timestamp(time), group: group.clone(), until };
            let nodes = useful.into_iter().map(|node| node.address.clone()).collect();
            return Ok(FeedSources { subject: FeedSubject::Moment(moment), nodes });
        }
        first_fault = first_fault.or_else(|| faults.into_iter().next());
    }
    let none = "no snapshot is of a time before, whose last writes are some seconds later; \
                millrace snapshot list shows the times"
        .to_owned();
    Err(Error::parameter(PARAMETER, format!("the time cannot be restored: {}", first_fault.unwrap_or(none))))
}

async fn reached(
    call: &GroupCall,
    until: Timestamp,
    needed: NeededNodes,
) -> Result<Vec<NodeRecoveryPoints>, Error> {
    let (node, question) = (call.node.node(), SnapshotQuestion::Reaching(until));
    let Some(cluster) = call.node.cluster().view()? else {
        let answer = own_snapshots(node, question).await?;
        return Ok(vec![NodeRecoveryPoints::from_answer(NodeAddress::Local, None, answer)?]);
    };
    let mut nodes = Vec::new();
    for (listed, answer) in snapshots_of_all(node, cluster, &question, call.deadline).await? {
        match answer {
            Ok(answer) => {
                nodes.push(NodeRecoveryPoints::from_answer(
                    cluster.address(listed.key)?,
                    Some(listed.name),
                    answer,
                )?);
            }
            Err(error) => needed.without(&listed.name, &error)?,
        }
    }
    Ok(nodes)
}

/// Drops of documents of the group that a node knows.
///
/// # Errors
/// The node does not answer, or cannot read them.
pub(super) async fn drops_at(
    node: &GatewayState,
    source: &NodeAddress,
    moment: &GroupMoment,
) -> Result<Vec<DropOfGroup>, Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let question = SnapshotQuestion::Drops(moment.clone(), after);
        let SnapshotAnswer::Drops(drops, next) = snapshots_at(node.node(), source.clone(), question).await?
        else {
            return Err(Error::Internal("a page of drops has another form".to_owned()));
        };
        all.extend(drops);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}
