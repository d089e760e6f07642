use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, ClusterVersion, FenceRefusal, Incarnation, MachineTime, NodeKey, NodeReply, NodeRequest,
    NodeResponse,
};
use millrace_document::Timestamp;

use super::buckets::Buckets;
use super::claims::DropClaims;
use super::event::{DistributorEffect, DistributorEvent};
use super::peers::{DistributorTurn, PeerNodes, RequestPurpose};
use super::requests::ClientRequests;
use super::upkeep::BucketUpkeep;
use super::{RequestError, Settings};
use crate::clock::HybridClock;
use crate::confirmation::StateConfirmation;
use crate::owners::BucketOwners;

/// The owner's side of the buckets that a node owns. See the module for how it is driven.
pub struct Distributor {
    pub(super) me: NodeKey,
    pub(super) incarnation: Incarnation,
    pub(super) settings: Settings,
    pub(super) now: MachineTime,
    pub(super) clock: HybridClock,
    pub(super) confirmation: StateConfirmation,
    /// Owners by the newest state.
    pub(super) owners: Option<BucketOwners>,
    /// True if this run of the node serves in the newest state.
    pub(super) takes_part: bool,
    /// Serving nodes that have not reported their replicas yet, and nodes that were taken out of service and
    /// may not know.
    pub(super) unreported: BTreeSet<NodeKey>,
    /// Time by which nodes that do not serve know that, or have no valid confirmation left.
    pub(super) unreported_until: Option<Duration>,
    pub(super) buckets: Buckets,
    pub(super) requests: ClientRequests,
    pub(super) peers: PeerNodes,
    pub(super) upkeep: BucketUpkeep,
    pub(super) pinged: Duration,
    /// Arrival time of the newest state.
    pub(super) since: Duration,
    /// Version of the newest state, in which this run of the node may have no part.
    pub(super) version: ClusterVersion,
    pub(super) claims: DropClaims,
}

impl Distributor {
    /// Creates the distributor of a node for one run of its process. It owns nothing until it has received a
    /// state that includes this run.
    pub fn new(me: NodeKey, incarnation: Incarnation, settings: Settings) -> Self {
        Distributor {
            me,
            incarnation,
            now: MachineTime { monotonic: Duration::ZERO, wall_us: 0 },
            clock: HybridClock::default(),
            confirmation: StateConfirmation::new(settings.confirm),
            owners: None,
            takes_part: false,
            unreported: BTreeSet::new(),
            unreported_until: None,
            buckets: Buckets::new(),
            requests: ClientRequests::default(),
            peers: PeerNodes::new(me),
            upkeep: BucketUpkeep::new(&settings),
            pinged: Duration::ZERO,
            since: Duration::ZERO,
            version: ClusterVersion::NONE,
            claims: DropClaims::default(),
            settings,
        }
    }

    /// Processes events, and appends their effects. Also to be called without events, at the time of
    /// [`Distributor::next_wake`].
    ///
    /// The effects of one call are sent to other nodes in as few messages as possible.
    pub fn handle(
        &mut self,
        now: MachineTime,
        events: impl IntoIterator<Item = DistributorEvent>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        self.now = now;
        for event in events {
            match event {
                DistributorEvent::State(state) => self.adopt(state, effects),
                DistributorEvent::Confirmed { version, asked } if version == self.version => {
                    self.confirmation.coordination(asked);
                }
                DistributorEvent::Confirmed { .. } => {}
                DistributorEvent::Write(write) => self.write(write, effects),
                DistributorEvent::WriteBatch(writes) => self.write_batch(writes, effects),
                DistributorEvent::Read(read) => self.read(read, effects),
                DistributorEvent::Decided { decision, outcome } => self.decided(decision, outcome, effects),
                DistributorEvent::Reply { from, number, reply } => self.reply(from, number, reply, effects),
                DistributorEvent::Lost { to, number } => self.lost(to, number),
            }
        }
        self.tick(effects);
    }

    /// Time of the next call of [`Distributor::handle`] if there is no event before, on the monotonic clock.
    pub fn next_wake(&self) -> Option<Duration> {
        self.state()?;
        let ping = self.pinged + self.settings.ping;
        let others =
            [self.requests.next_deadline(), self.peers.next_wake(&self.settings), self.upkeep.next_wake()];
        others.into_iter().flatten().min().map(|other| other.min(ping)).or(Some(ping))
    }

    /// Assigns only timestamps above this one from now on. For timestamps that do not arrive with replicas: a
    /// document type that was removed at that time may be back, and writes to it from now on must not count
    /// as older.
    pub fn observe(&mut self, seen: Timestamp) {
        self.clock.observe(seen);
    }

    /// The newest timestamp that was assigned or seen.
    pub fn newest(&self) -> Timestamp {
        self.clock.last()
    }

    /// Version of the state that this distributor acts by; `None` while it has no part in any.
    pub fn version(&self) -> Option<ClusterVersion> {
        self.takes_part.then_some(self.version)
    }

    /// Nodes whose report of their replicas for the newest state is awaited. Until all have reported, buckets
    /// that came with the state wait.
    pub fn unreported(&self) -> &BTreeSet<NodeKey> {
        &self.unreported
    }

    /// True if the state is confirmed, so that the node may own buckets.
    pub fn is_confirmed(&self, now: Duration) -> bool {
        self.takes_part && self.confirmation.holds(now)
    }

    pub(super) fn confirmed(&self) -> bool {
        self.is_confirmed(self.now.monotonic)
    }

    /// Owner of a bucket by the newest state. Another node than this one if this run has no part in that
    /// state.
    pub(super) fn owner(&mut self, bucket: BucketId) -> Option<NodeKey> {
        let owner = self.owners.as_mut()?.owner(bucket);
        // An earlier run of this node may still have a part in it.
        owner.filter(|owner| self.takes_part || *owner != self.me)
    }

    /// The newest state, if this run of the node has a part in it.
    pub(super) fn state(&self) -> Option<&Arc<ClusterState>> {
        self.known_state().filter(|_| self.takes_part)
    }

    /// The newest state, even if this run of the node has no part in it.
    pub(super) fn known_state(&self) -> Option<&Arc<ClusterState>> {
        self.owners.as_ref().map(BucketOwners::state)
    }

    pub(super) fn serves(&self, node: NodeKey) -> bool {
        self.state().is_some_and(|state| state.node_state(node).serves())
    }

    /// Time from which removals count in comparisons of replicas. It advances in steps, so that earlier
    /// comparisons remain usable for long.
    pub(super) fn removals_since(&self) -> Timestamp {
        let step = (self.settings.removals.as_micros() as u64).max(1);
        let now = self.now.wall_us.max(self.clock.last().0);
        Timestamp((now / step).saturating_sub(1) * step)
    }

    pub(super) fn moved(&mut self, bucket: BucketId) -> RequestError {
        RequestError::Moved { owner: self.owner(bucket), version: self.version, unfinished: None }
    }

    pub(super) fn send(
        &mut self,
        to: NodeKey,
        request: NodeRequest,
        purpose: RequestPurpose,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let turn = DistributorTurn { now: self.now.monotonic, settings: &self.settings };
        self.peers.send(&turn, to, request, purpose, effects);
    }

    fn tick(&mut self, effects: &mut Vec<DistributorEffect>) {
        for request in self.requests.expired(self.now.monotonic) {
            self.expire(request, effects);
        }
        let turn = DistributorTurn { now: self.now.monotonic, settings: &self.settings };
        for (node, number) in self.peers.expired(&turn) {
            self.lost(node, number);
        }
        for (to, request, purpose) in self.peers.due(self.now.monotonic) {
            let wanted = match &purpose {
                RequestPurpose::Read(request) => self.requests.slots.contains_key(request),
                RequestPurpose::HandOver => self.unreported.contains(&to),
                RequestPurpose::Ping | RequestPurpose::Rows(_) | RequestPurpose::Operation { .. } => true,
            };
            if wanted {
                self.send(to, request, purpose, effects);
            }
        }
        if self.unreported_until.is_some_and(|until| until <= self.now.monotonic) {
            self.stop_awaiting_reports(effects);
        }
        if self.now.monotonic >= self.pinged + self.settings.ping {
            self.ping(effects);
        }
        if self.confirmed() {
            for request in std::mem::take(&mut self.requests.unconfirmed) {
                self.advance(request, effects);
            }
        }
        self.run_upkeep(effects);
        let (requests, buckets) = (&self.requests, &self.buckets);
        let wanted = |node: NodeKey, outgoing: &super::peers::OutgoingRow| {
            requests.awaits(outgoing.request, node, outgoing.row.bucket).then(|| {
                let mut row = outgoing.row.clone();
                let replica = buckets.get(&row.bucket).and_then(|bucket| bucket.replica(node));
                row.origin = replica.and_then(|replica| replica.origin);
                row
            })
        };
        let turn = DistributorTurn { now: self.now.monotonic, settings: &self.settings };
        self.peers.flush(&turn, &wanted, effects);
    }

    pub(super) fn ping(&mut self, effects: &mut Vec<DistributorEffect>) {
        self.pinged = self.now.monotonic;
        let Some(state) = self.state().cloned() else { return };
        if state.nodes().len() == 1 {
            // A single node agrees with itself.
            self.confirmation.peer(self.me, self.now.monotonic);
        }
        let others: Vec<NodeKey> = state
            .nodes()
            .keys()
            .copied()
            .filter(|node| *node != self.me && state.node_state(*node).serves())
            .collect();
        for node in others {
            self.send(node, NodeRequest::Ping, RequestPurpose::Ping, effects);
        }
    }

    fn reply(&mut self, from: NodeKey, number: u64, reply: NodeReply, effects: &mut Vec<DistributorEffect>) {
        let Some(outstanding) = self.peers.answered(from, number) else { return };
        if reply.version > self.version {
            effects.push(DistributorEffect::FetchState { newer_than: self.version });
        }
        match reply.response {
            NodeResponse::Refused(FenceRefusal::Absent)
                if reply.version == self.version
                    && matches!(outstanding.purpose, RequestPurpose::HandOver) =>
            {
                // If the state says that it does not serve, it is enough that it has the state.
                match self.serves(from) {
                    true => self.peers.resend_at(from, outstanding, self.now.monotonic + self.settings.retry),
                    false => self.take_report(from, Vec::new(), Timestamp::default(), effects),
                }
            }
            NodeResponse::Refused(refused) => {
                let wait = match refused {
                    // The request itself is valid: it was only sent beside one that was given up.
                    FenceRefusal::Void => Duration::ZERO,
                    FenceRefusal::Stale
                    | FenceRefusal::NotOwner
                    | FenceRefusal::Absent
                    | FenceRefusal::Busy
                    | FenceRefusal::Unknown => self.settings.retry,
                };
                self.peers.resend_at(from, outstanding, self.now.monotonic + wait);
            }
            response => match outstanding.purpose {
                RequestPurpose::Ping => {
                    if reply.version == self.version && response == (NodeResponse::Pong { votes: true }) {
                        self.confirmation.peer(from, outstanding.sent);
                    }
                }
                RequestPurpose::HandOver if reply.version != self.version => {
                    self.peers.resend_at(from, outstanding, self.now.monotonic + self.settings.retry);
                }
                RequestPurpose::HandOver => match response {
                    NodeResponse::Replicas { replicas, newest } => {
                        self.take_report(from, replicas, newest, effects)
                    }
                    _ => self.peers.resend_at(from, outstanding, self.now.monotonic + self.settings.retry),
                },
                RequestPurpose::Rows(rows) => self.applied(from, rows, response, effects),
                RequestPurpose::Read(request) => self.read_replied(request, from, response, effects),
                RequestPurpose::Operation { bucket, operation } => {
                    self.operation_replied(bucket, operation, from, response, effects);
                }
            },
        }
    }

    fn lost(&mut self, to: NodeKey, number: u64) {
        let Some(outstanding) = self.peers.lost(to, number) else { return };
        self.peers.resend_at(to, outstanding, self.now.monotonic + self.settings.retry);
    }
}
