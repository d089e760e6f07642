//! NodeRegistration of the node, and confirmation that the known state is the newest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::{ClusterState, NodeEntry};
use millrace_coordination::{KeyCondition, KeyEntry, KeyOperation, LeaseKeeper, Transaction};
use tokio::sync::watch;

use crate::absence;
use crate::membership::MembershipShared;
use crate::snapshot::{RegisteredNode, read_state};
use crate::{ConfirmedState, Error};

/// Pause after a failure of coordination.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Keeps the node registered until it leaves.
pub(crate) async fn stay_registered(shared: Arc<MembershipShared>, mut own: watch::Receiver<RegisteredNode>) {
    while !shared.has_left() {
        match register(&shared, &mut own).await {
            Ok(()) => continue,
            Err(error @ (Error::NameTaken { .. } | Error::AwayTooLong { .. })) => {
                tracing::warn!(%error, "the node is not part of the cluster")
            }
            Err(error) => tracing::debug!(%error, "registering"),
        }
        tokio::select! {
            () = shared.wait_until_left() => {}
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}

/// Registers once, and waits until the registration is gone.
async fn register(shared: &MembershipShared, own: &mut watch::Receiver<RegisteredNode>) -> Result<(), Error> {
    let lease = LeaseKeeper::grant(Arc::clone(&shared.coordination), shared.settings.lease).await;
    shared.outage.note(&lease);
    let lease = lease?;
    absence::check(shared).await?;
    let mut states = shared.states();
    let outcome = async {
        let mut registered = put(shared, own, &lease).await?;
        loop {
            tokio::select! {
                () = lease.lost() => return Ok(()),
                () = shared.wait_until_left() => return Ok(()),
                changed = own.changed() => match changed {
                    Ok(()) => registered = put(shared, own, &lease).await?,
                    Err(_) => return Ok(()),
                },
                () = unconfirmed(&mut states, shared.settings.confirm) => {
                    if !confirm(shared, &lease, &registered).await? {
                        return Ok(());
                    }
                }
            }
        }
    };
    let outcome = outcome.await;
    // If it were given back, it would end at once for others, and this node may own for a while by earlier
    // confirmations: only a node that leaves has stopped that. Otherwise it ends by itself.
    if shared.has_left() {
        // The announcement that it stops may not have been written yet. Without it, others would assume that
        // it may be cut off.
        if own.has_changed().unwrap_or(false) {
            let _ = put(shared, own, &lease).await;
        }
        let _ = lease.release().await;
    }
    outcome
}

/// Waits until the newest state is to be confirmed: at once if it is a different one, since the buckets that
/// the node owns wait for that.
async fn unconfirmed(states: &mut watch::Receiver<Option<Arc<ClusterState>>>, interval: Duration) {
    // The sender lives as long as the node.
    let _ = tokio::time::timeout(interval, states.changed()).await;
}

/// Writes the registration, unless the name belongs to another node. Returns the condition that holds as long
/// as it is this registration.
async fn put(
    shared: &MembershipShared,
    own: &mut watch::Receiver<RegisteredNode>,
    lease: &LeaseKeeper,
) -> Result<KeyCondition, Error> {
    let key = shared.keys.member(&shared.settings.name);
    let member = own.borrow_and_update().clone();
    let value = serde_json::to_vec(&member).expect("numbers and texts always have a JSON form");
    loop {
        let there = shared.coordination.get(&*key).await?;
        if let Some(other) = there.as_ref().and_then(other_holder_of_name(&member)) {
            let (name, address) = (shared.settings.name.clone(), other.registration.address);
            return Err(Error::NameTaken { name, address });
        }
        let unchanged = match &there {
            Some(entry) => KeyCondition::Changed(key.clone(), entry.changed),
            None => KeyCondition::Absent(key.clone()),
        };
        let put =
            Transaction::new().when(unchanged).then(KeyOperation::put_leased(&*key, &*value, lease.id()));
        let outcome = shared.coordination.transact(put).await?;
        if outcome.held {
            return Ok(KeyCondition::Changed(key, outcome.revision));
        }
    }
}

/// The node that is registered under the name from another directory.
pub(crate) fn other_holder_of_name(own: &RegisteredNode) -> impl Fn(&KeyEntry) -> Option<RegisteredNode> {
    let home = own.home;
    move |entry| {
        serde_json::from_slice::<RegisteredNode>(&entry.value).ok().filter(|member| member.home != home)
    }
}

/// Asks for the newest state. Returns true if the node is still registered.
async fn confirm(
    shared: &MembershipShared,
    lease: &LeaseKeeper,
    registered: &KeyCondition,
) -> Result<bool, Error> {
    let read = || KeyOperation::get(shared.keys.state());
    let ask = Transaction::new().when(registered.clone()).then(read()).otherwise(read());
    let asked = Instant::now();
    let outcome = shared.coordination.transact(ask).await;
    shared.outage.note(&outcome);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // The lease detects an outage that lasts too long.
        Err(error) if error.is_passing() => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let entry = outcome.entries(0).first();
    let state = entry.and_then(|entry| read_state(entry).ok());
    state.iter().for_each(|state| shared.store_if_newer(Arc::clone(state)));
    // An unreadable value was written by a newer program.
    if entry.is_some() && state.is_none() {
        return Ok(outcome.held);
    }
    let known = shared.known();
    if state != known {
        if let Some(known) = known.filter(|_| outcome.held) {
            bring_back(shared, entry, state.as_deref(), &known).await?;
        }
    } else if let (true, Some(state), Some(kept_alive)) = (outcome.held, state, lease.kept_alive()) {
        let own = |node: &&NodeEntry| node.name == shared.settings.name;
        if state.nodes().values().find(own).is_some_and(|node| node.state.serves()) {
            // The node may have been registered all the time, and out of service.
            absence::check(shared).await?;
            shared.last_participation.note();
        }
        // When others see the lease end, confirmations by it must not count any more.
        shared.confirmed(ConfirmedState { version: state.version(), at: asked.min(kept_alive) });
    }
    Ok(outcome.held)
}

/// Restores the state that this node knows if coordination holds another state, and none that is newer: it
/// was restored from a backup, or started from scratch. A leader may not know this node's state, and results
/// of an older state would not count for nodes that have a newer one. So the known state is written again. If
/// both have the same number, a leader has used it a second time: its decision gets the next number.
async fn bring_back(
    shared: &MembershipShared,
    entry: Option<&KeyEntry>,
    there: Option<&ClusterState>,
    known: &ClusterState,
) -> Result<(), Error> {
    // As for a leader, there is nothing to do before there is an application.
    if shared.snapshots().borrow().configuration.is_none() {
        return Ok(());
    }
    let key = shared.keys.state();
    let unchanged = match entry {
        Some(entry) => KeyCondition::Changed(key.clone(), entry.changed),
        None => KeyCondition::Absent(key.clone()),
    };
    let state = match there {
        Some(there) if there.version() == known.version() => {
            there.clone().with_version(there.version().next())
        }
        _ => known.clone(),
    };
    let put = Transaction::new().when(unchanged).then(KeyOperation::put(key, state.to_json()));
    if shared.coordination.transact(put).await?.held {
        tracing::warn!(
            version = state.version().number(),
            "coordination had forgotten the cluster state; it is there again"
        );
    }
    Ok(())
}
