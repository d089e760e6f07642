//! Election, and publication of cluster states while leading.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::controller::{
    Controller, ControllerInputs, ControllerStep, NodeRegistration, RequestedNodeState,
};
use millrace_cluster::{ClusterState, NodeEntry, PLACED_INDEXES, PROTOCOL};
use millrace_coordination::{
    Election, KeyCondition, KeyOperation, Leadership, LeaseKeeper, StoreRevision, Transaction,
};

use crate::absence;
use crate::membership::MembershipShared;
use crate::{CoordinationSnapshot, Error, NodeRole, RegisteredNode, placement};

/// Pause after a failure of coordination.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Runs for election and leads when elected, until the node leaves.
pub(crate) async fn run(shared: Arc<MembershipShared>) {
    let election = Election::new(Arc::clone(&shared.coordination), shared.keys.leader());
    let mut snapshots = shared.snapshots();
    while !shared.has_left() {
        // A decision without all values would undo decisions of newer programs.
        tokio::select! {
            () = shared.wait_until_left() => return,
            // The sender lives as long as the node.
            _ = snapshots.wait_for(|snapshot| snapshot.unread.is_empty()) => {}
        }
        if let Err(error) = term(&shared, &election).await {
            tracing::debug!(%error, "the election");
            tokio::select! {
                () = shared.wait_until_left() => {}
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
    }
}

/// Runs one candidacy, and the leadership that follows.
async fn term(shared: &MembershipShared, election: &Election) -> Result<(), Error> {
    let lease = LeaseKeeper::grant(Arc::clone(&shared.coordination), shared.settings.lease).await?;
    let leading = async {
        let leadership = election.campaign(&shared.settings.name, &lease).await?;
        tracing::info!(node = shared.settings.name, "leads the cluster");
        tokio::select! {
            () = lead(shared, &leadership) => {}
            () = placement::lead(shared, &leadership) => {}
            () = absence::record(shared, &leadership) => {}
        }
        Ok(())
    };
    let ended = tokio::select! {
        () = lease.lost() => Ok(()),
        () = shared.wait_until_left() => Ok(()),
        ended = leading => ended,
    };
    // The lease expires by itself if it cannot be given back now.
    let _ = lease.release().await;
    ended
}

/// Publishes the decisions of the controller, until another node leads, or a value cannot be read.
async fn lead(shared: &MembershipShared, leadership: &Leadership) {
    let began = Instant::now();
    let mut controller = Controller::new(shared.settings.controller.clone());
    let mut snapshots = shared.snapshots();
    // A decision must not be older than the last publication, in the same history.
    let mut published = (0, StoreRevision::default());
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        if let Some(key) = snapshot.unread.first() {
            tracing::warn!(key, "this node does not lead any more: newer programs do");
            return;
        }
        let known = shared.known();
        let mut pause = None;
        if (snapshot.history, snapshot.revision) >= published
            && let Some(step) = decide(&mut controller, began.elapsed(), &snapshot, known.as_deref())
        {
            pause = step.wake.map(|wake| wake.saturating_sub(began.elapsed()));
            match publish(shared, leadership, &snapshot, &step).await {
                Ok(PublishOutcome::Nothing) => {}
                Ok(PublishOutcome::At(revision)) => published = (snapshot.history, revision),
                Ok(PublishOutcome::Deposed) => return,
                Err(error) => {
                    tracing::debug!(%error, "publishing");
                    pause = Some(pause.unwrap_or(RETRY_PAUSE).min(RETRY_PAUSE));
                }
            }
        }
        let woken = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = woken => {}
            changed = snapshots.changed() => if changed.is_err() { return },
        }
    }
}

/// Computes a step from a snapshot and the newest known state; `None` before there is an application.
fn decide(
    controller: &mut Controller,
    now: Duration,
    snapshot: &CoordinationSnapshot,
    known: Option<&ClusterState>,
) -> Option<ControllerStep> {
    // Programs of earlier protocols would let a node without a place own buckets.
    let places_indexes = known.is_some_and(|state| state.protocol() >= PLACED_INDEXES);
    let has_documents = |member: &RegisteredNode| member.roles.contains(&NodeRole::Content);
    let takes_part = |member: &RegisteredNode| has_documents(member) || (places_indexes && member.indexes);
    let nodes = snapshot.members.iter().filter(|(_, member)| takes_part(member));
    let others = snapshot.members.values().filter(|member| !takes_part(member));
    let without = snapshot.members.iter().filter(|(_, member)| !has_documents(member));
    let without_documents: BTreeSet<String> = without.map(|(name, _)| name.clone()).collect();
    let registrations: BTreeMap<String, NodeRegistration> =
        nodes.map(|(name, member)| (name.clone(), member.registration.clone())).collect();
    let requested_states: BTreeMap<String, RequestedNodeState> =
        snapshot.requested_states.iter().map(|(name, record)| (name.clone(), record.state)).collect();
    let inputs = ControllerInputs {
        configuration: snapshot.configuration.as_deref()?,
        registrations: &registrations,
        without_documents: &without_documents,
        departed: &snapshot.departed,
        requested_states: &requested_states,
        assignments: &snapshot.assignments,
        protocol: others.map(|member| member.registration.protocol).fold(PROTOCOL, u16::min),
    };
    match controller.step(now, &inputs, known) {
        Ok(step) => Some(step),
        Err(error) => {
            tracing::error!(%error, "the cluster state stays as it is");
            None
        }
    }
}

/// Outcome of a publication.
enum PublishOutcome {
    /// Nothing to publish.
    Nothing,
    /// Published at this revision.
    At(StoreRevision),
    /// Another node leads.
    Deposed,
}

/// Publishes the changes of a step, if this node still leads and no other has written.
async fn publish(
    shared: &MembershipShared,
    leadership: &Leadership,
    snapshot: &CoordinationSnapshot,
    step: &ControllerStep,
) -> Result<PublishOutcome, Error> {
    let keys = &shared.keys;
    let unchanged = |key: String, at: Option<StoreRevision>| match at {
        Some(at) => KeyCondition::Changed(key, at),
        None => KeyCondition::Absent(key),
    };
    let mut write = Transaction::new()
        .when(leadership.guard())
        .when(unchanged(keys.state(), snapshot.state_changed))
        .when(unchanged(keys.assignments(), snapshot.assignments_changed));
    if let Some(next) = &step.next {
        write = write.then(KeyOperation::put(keys.state(), next.to_json()));
        for name in newly_ended(next, shared.known().as_deref()) {
            if !snapshot.members.contains_key(name) {
                write = write.when(KeyCondition::Absent(keys.member(name)));
            }
        }
    }
    if step.assignments != snapshot.assignments {
        write = write.then(KeyOperation::put(keys.assignments(), json(&step.assignments)));
    }
    if step.reasons != snapshot.reasons {
        write = write.then(KeyOperation::put(keys.reasons(), json(&step.reasons)));
    }
    if write.then.is_empty() {
        return Ok(PublishOutcome::Nothing);
    }
    let outcome = shared.coordination.transact(write.otherwise(KeyOperation::get(keys.leader()))).await?;
    if outcome.held {
        if let Some(next) = &step.next {
            tracing::info!(version = next.version().number(), "published a cluster state");
        }
        return Ok(PublishOutcome::At(outcome.revision));
    }
    // If this node still leads, its decision was not based on the newest values, which are about to arrive.
    let guarded = |key: &str, created| leadership.guard() == KeyCondition::Created(key.to_owned(), created);
    match outcome.entries(0).first() {
        Some(leader) if guarded(&leader.key, leader.created) => Ok(PublishOutcome::Nothing),
        _ => Ok(PublishOutcome::Deposed),
    }
}

/// Names of the nodes whose lease has ended by a state, but not by the previous one. Only if they have not
/// registered again by the moment of publication, it is certain that nothing is confirmed to them any more.
fn newly_ended<'a>(
    next: &'a ClusterState,
    before: Option<&'a ClusterState>,
) -> impl Iterator<Item = &'a str> {
    let known = move |key, node: &NodeEntry| {
        let before = before.and_then(|before| before.nodes().get(key));
        before.is_some_and(|before| before.lease_ended && before.incarnation == node.incarnation)
    };
    let ended = next.nodes().iter().filter(|(_, node)| node.lease_ended && node.incarnation.has_run());
    ended.filter(move |(key, node)| !known(key, node)).map(|(_, node)| &*node.name)
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers, texts and lists of them always have a JSON form")
}
