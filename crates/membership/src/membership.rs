use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::controller::{NodeRegistration, RequestedNodeState};
use millrace_cluster::{ClusterState, ClusterVersion, DividedGroup, Incarnation, NodeKey, PROTOCOL};
use millrace_coordination::{Coordination, KeyOperation, PrefixWatch};
use millrace_env::{SystemClock, WallClock, await_or_exit};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::absence::{self, LastParticipation};
use crate::kept::MemberLocalState;
use crate::keys::ClusterKeys;
use crate::placement::{self, PlacementKnowledge};
use crate::snapshot::read_state;
use crate::status::{CoordinationOutage, rejoin_after_removal};
use crate::{
    CoordinationSnapshot, Error, NodeRole, PublishedPackage, RegisteredNode, RequestedStateRecord, Settings,
    leader, member,
};

/// Maximum time that a stopping node waits until the others know.
const STOPPING_MAX: Duration = Duration::from_secs(3);

/// A node's part in a cluster. Clones share it; when the last is dropped, the node loses contact.
#[derive(Clone)]
pub struct ClusterMembership {
    shared: Arc<MembershipShared>,
    tasks: Arc<MemberTasks>,
}

/// State shared by the tasks.
pub(crate) struct MembershipShared {
    pub(crate) settings: Settings,
    pub(crate) coordination: Arc<dyn Coordination>,
    pub(crate) keys: ClusterKeys,
    /// The newest known state; its version never decreases.
    states: watch::Sender<Option<Arc<ClusterState>>>,
    snapshots: watch::Sender<Arc<CoordinationSnapshot>>,
    confirmations: watch::Sender<Option<ConfirmedState>>,
    pub(crate) placement: PlacementKnowledge,
    stopped: watch::Sender<bool>,
    pub(crate) outage: CoordinationOutage,
    pub(crate) last_participation: LastParticipation,
}

/// The state that coordination confirmed as the newest while the node was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmedState {
    /// Version of the cluster state.
    pub version: ClusterVersion,
    /// Time before the question was sent, and before the lease was last kept alive: at that time it was the
    /// newest, and perhaps later.
    pub at: Instant,
}

/// Tasks of a member, which end with it.
struct MemberTasks {
    own: watch::Sender<RegisteredNode>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl MemberTasks {
    fn take(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.running.lock())
    }
}

impl Drop for MemberTasks {
    fn drop(&mut self) {
        self.take().iter().for_each(JoinHandle::abort);
    }
}

impl ClusterMembership {
    /// Joins the cluster. Data on disk is known at once, and the rest as soon as coordination answers, which
    /// it need not do yet.
    ///
    /// # Errors
    /// The name is invalid or belongs to another node; the directory cannot be used.
    pub async fn join(coordination: Arc<dyn Coordination>, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let kept = MemberLocalState::open(&settings.directory, &settings.name)?;
        let own = RegisteredNode {
            registration: NodeRegistration {
                address: settings.address.clone(),
                incarnation: Incarnation::new(SystemClock.now_us().max(1)),
                adopted: ClusterVersion::NONE,
                stopping: false,
                capacity: settings.capacity,
                group: settings.group.clone(),
                too_large: BTreeSet::new(),
                out_of_space: false,
                protocol: PROTOCOL,
            },
            roles: settings.roles.iter().copied().filter(|role| *role != NodeRole::Index).collect(),
            indexes: settings.roles.contains(&NodeRole::Index),
            url: settings.url.clone(),
            elastic: settings.elastic.clone(),
            home: kept.home,
            generation: 0,
        };
        let keys = ClusterKeys::new(&settings.prefix);
        let registered = coordination.get(keys.member(&settings.name)).await;
        if let Some(other) = registered.ok().flatten().as_ref().and_then(member::other_holder_of_name(&own)) {
            return Err(Error::NameTaken { name: settings.name, address: other.registration.address });
        }
        kept.take(&settings.name)?;
        let last_participation = LastParticipation::read(&settings.directory, settings.is_empty)?;
        let shared = Arc::new(MembershipShared {
            keys,
            states: watch::Sender::new(kept.state.clone()),
            snapshots: watch::Sender::new(Arc::default()),
            confirmations: watch::Sender::new(None),
            placement: PlacementKnowledge::new(kept.placement.clone()),
            stopped: watch::Sender::new(false),
            outage: CoordinationOutage::default(),
            last_participation,
            settings,
            coordination,
        });
        // If coordination is unreachable, this is checked again before the node registers.
        if let Err(error @ Error::AwayTooLong { .. }) = absence::check(&shared).await {
            return Err(error);
        }
        let (own, member) = watch::channel(own);
        // Read before coordination has answered.
        let first = shared.snapshots();
        let kept_placement = placement::keep(kept.directory().to_owned(), Arc::clone(&shared));
        let kept = MemberLocalState::follow(kept.directory().to_owned(), Arc::clone(&shared));
        let mut running = vec![
            essential("the task that keeps the cluster state on disk", kept),
            essential("the task that keeps the table of copies on disk", kept_placement),
            essential("the task that notes when the node took part", absence::follow(Arc::clone(&shared))),
            essential("the task that follows the cluster", follow(Arc::clone(&shared))),
            essential(
                "the task that brings a removed node back",
                rejoin_after_removal(Arc::clone(&shared), first),
            ),
            essential(
                "the task that keeps the node registered",
                member::stay_registered(Arc::clone(&shared), member),
            ),
        ];
        if shared.settings.roles.contains(&NodeRole::Controller) {
            running.push(essential("the task that leads the cluster", leader::run(Arc::clone(&shared))));
        }
        let tasks = Arc::new(MemberTasks { own, running: Mutex::new(running) });
        Ok(ClusterMembership { shared, tasks })
    }

    /// The settings of the node.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The newest known cluster state, as it changes; `None` before the first. Versions only grow. The state
    /// stays known while coordination is unreachable: see [`ClusterMembership::confirmation`].
    pub fn states(&self) -> watch::Receiver<Option<Arc<ClusterState>>> {
        self.shared.states.subscribe()
    }

    /// Last confirmation by coordination; `None` before the first.
    pub fn confirmation(&self) -> Option<ConfirmedState> {
        *self.shared.confirmations.borrow()
    }

    /// The same, as it changes. A confirmation of a state comes after that state.
    pub fn confirmations(&self) -> watch::Receiver<Option<ConfirmedState>> {
        self.shared.confirmations.subscribe()
    }

    /// Asks coordination for the newest state, instead of waiting for a notification.
    ///
    /// # Errors
    /// Coordination is unreachable.
    pub async fn refresh(&self) -> Result<Option<Arc<ClusterState>>, Error> {
        let entry = self.shared.coordination.get(self.shared.keys.state()).await?;
        // An unreadable value is reported by the task that follows it.
        if let Some(state) = entry.as_ref().and_then(|entry| read_state(entry).ok()) {
            self.shared.store_if_newer(state);
        }
        Ok(self.shared.known())
    }

    /// Identifies this run of the process: the cluster state includes it once it has this incarnation under
    /// the node's name.
    pub fn incarnation(&self) -> Incarnation {
        self.tasks.own.borrow().registration.incarnation
    }

    /// This node's key, once the cluster state includes it.
    pub fn key(&self) -> Option<NodeKey> {
        let state = self.shared.states.borrow();
        let mut nodes = state.as_ref()?.nodes().iter();
        nodes.find(|(_, node)| node.name == self.shared.settings.name).map(|(key, _)| *key)
    }

    /// All knowledge about the cluster, as it changes.
    pub fn snapshots(&self) -> watch::Receiver<Arc<CoordinationSnapshot>> {
        self.shared.snapshots.subscribe()
    }

    /// Records the state that an operator requests for a node. Returns true if it differs from the previous
    /// one.
    ///
    /// # Errors
    /// No node has the name; coordination is unreachable.
    pub async fn request_state(
        &self,
        name: &str,
        state: RequestedNodeState,
        reason: &str,
    ) -> Result<bool, Error> {
        let snapshot = Arc::clone(&self.shared.snapshots.borrow());
        let known = snapshot.names();
        // A removed node is known by its requested state only.
        if !known.contains(name) && !snapshot.requested_states.contains_key(name) {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownNode { name: name.to_owned(), known });
        }
        let key = self.shared.keys.requested_state(name);
        let record = RequestedStateRecord { state, reason: reason.to_owned() };
        let operation = match state {
            RequestedNodeState::Up => KeyOperation::Delete(key.clone()),
            _ => {
                let value = serde_json::to_vec(&record).expect("texts always have a JSON form");
                KeyOperation::put(key.clone(), value)
            }
        };
        let before = self.shared.coordination.get(key).await?;
        let before =
            before.and_then(|entry| serde_json::from_slice::<RequestedStateRecord>(&entry.value).ok());
        self.shared.coordination.apply(operation).await?;
        Ok(before.map_or(RequestedNodeState::Up, |record| record.state) != state)
    }

    /// Reports that this node has had no space for a while, see [`NodeRegistration::out_of_space`].
    pub fn out_of_space(&self) {
        let own = &self.tasks.own;
        own.send_if_modified(|own| !std::mem::replace(&mut own.registration.out_of_space, true));
    }

    /// Reports the generation of the application that this node has activated.
    pub fn activated(&self, generation: u64) {
        self.tasks
            .own
            .send_if_modified(|own| std::mem::replace(&mut own.generation, generation) != generation);
    }

    /// Reports the groups that this node has found too large, see [`NodeRegistration::too_large`].
    pub fn too_large(&self, groups: BTreeSet<DividedGroup>) {
        let own = &self.tasks.own;
        own.send_if_modified(|own| {
            std::mem::replace(&mut own.registration.too_large, groups.clone()) != groups
        });
    }

    /// Reports the cluster state that this node acts by, see [`NodeRegistration::adopted`].
    pub fn adopted(&self, version: ClusterVersion) {
        self.tasks
            .own
            .send_if_modified(|own| std::mem::replace(&mut own.registration.adopted, version) != version);
    }

    /// The application that should be active, as far as known.
    pub fn package(&self) -> Option<PublishedPackage> {
        self.shared.snapshots.borrow().package.clone()
    }

    /// Announces that this node is about to stop, and waits, for a few seconds at most, until the cluster
    /// state says that it does not serve. It continues to serve requests meanwhile.
    pub async fn stopping(&self) {
        self.announce_stop();
        let mut states = self.states();
        let name = &self.shared.settings.name;
        let serves = |state: &Option<Arc<ClusterState>>| {
            let mut nodes = state.iter().flat_map(|state| state.nodes().values());
            nodes.any(|node| node.name == *name && node.state.serves())
        };
        // The node stops even if the wait times out.
        let _ = tokio::time::timeout(STOPPING_MAX, states.wait_for(|state| !serves(state))).await;
    }

    /// Announces that this node stops, and gives back the registration, and the leadership if it has it. If
    /// coordination is unreachable, others notice after a while.
    pub async fn leave(&self) {
        self.announce_stop();
        self.end_tasks().await;
    }

    async fn end_tasks(&self) {
        self.shared.stopped.send_replace(true);
        let running = self.tasks.take();
        let ends: Vec<_> = running.iter().map(JoinHandle::abort_handle).collect();
        let end = async {
            for task in running {
                // A task ends by itself, or is aborted; a panic ends the process.
                let _ = task.await;
            }
        };
        if tokio::time::timeout(STOPPING_MAX, end).await.is_err() {
            ends.iter().for_each(AbortHandle::abort);
        }
    }

    /// Gives back the registration as [`ClusterMembership::leave`] does, without an announcement: for the
    /// others the node has crashed.
    pub async fn abandon(&self) {
        self.end_tasks().await;
    }

    fn announce_stop(&self) {
        let stopping = |own: &mut RegisteredNode| !std::mem::replace(&mut own.registration.stopping, true);
        self.tasks.own.send_if_modified(stopping);
    }

    pub(crate) fn shared(&self) -> &MembershipShared {
        &self.shared
    }
}

impl MembershipShared {
    pub(crate) fn states(&self) -> watch::Receiver<Option<Arc<ClusterState>>> {
        self.states.subscribe()
    }

    /// The newest known state.
    pub(crate) fn known(&self) -> Option<Arc<ClusterState>> {
        self.states.borrow().clone()
    }

    /// Stores a state, if it is newer than the known one.
    pub(crate) fn store_if_newer(&self, state: Arc<ClusterState>) {
        self.states.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| known.version() < state.version());
            if newer {
                *known = Some(state);
            }
            newer
        });
    }

    pub(crate) fn confirmed(&self, confirmation: ConfirmedState) {
        self.confirmations.send_replace(Some(confirmation));
    }

    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<CoordinationSnapshot>> {
        self.snapshots.subscribe()
    }

    /// Waits until the node leaves.
    pub(crate) async fn wait_until_left(&self) {
        // The sender is in `self`.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    pub(crate) fn has_left(&self) -> bool {
        *self.stopped.borrow()
    }
}

/// Starts a task without which the node would be a member that does nothing, or knows nothing: a panic ends
/// the process.
fn essential(work: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(await_or_exit(work, task))
}

/// Follows all contents of coordination about the cluster.
async fn follow(shared: Arc<MembershipShared>) {
    let mut watch = PrefixWatch::new(Arc::clone(&shared.coordination), shared.keys.followed());
    let mut snapshot = CoordinationSnapshot::default();
    loop {
        let changes = tokio::select! {
            changes = watch.next() => changes,
            () = shared.wait_until_left() => return,
        };
        for change in changes {
            snapshot.apply(&shared.keys, &change);
        }
        snapshot.revision = watch.revision().unwrap_or_default();
        snapshot.history = watch.histories();
        if let Some(state) = &snapshot.state {
            shared.store_if_newer(Arc::clone(state));
        }
        if let Some(table) = snapshot.placement.table() {
            shared.placement.store_if_newer(table);
        }
        shared.snapshots.send_replace(Arc::new(snapshot.clone()));
    }
}
