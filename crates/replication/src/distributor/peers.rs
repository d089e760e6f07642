use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey, NodeRequest, ReplicatedRow, RequestFence};

use super::batches::PartId;
use super::requests::RequestId;
use super::{DistributorEffect, Settings};

/// Purpose of a request to a node.
#[derive(Debug, Clone)]
pub(super) enum RequestPurpose {
    /// Confirm that it has the same state.
    Ping,
    /// Get its replicas after a new state.
    HandOver,
    /// Make rows durable.
    Rows(Vec<OutgoingRow>),
    /// Read a document for a client.
    Read(RequestId),
    /// Run a step of an operation on a bucket.
    Operation { bucket: BucketId, operation: u64 },
}

/// A row for one node.
#[derive(Debug, Clone)]
pub(super) struct OutgoingRow {
    pub request: RequestId,
    pub row: ReplicatedRow,
    /// Part of a batch that it belongs to: all its rows are in one message.
    pub part: Option<PartId>,
    /// True if it was sent before without an answer: the node may have it, even if it refuses it now.
    pub may_be_there: bool,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct OutstandingRequest {
    pub sent: Duration,
    pub purpose: RequestPurpose,
    /// Request, kept to be sent again; rows are assembled again instead.
    resend: Option<NodeRequest>,
    timeout: Duration,
}

/// All nodes with requests: those waiting to be sent, and those waiting for an answer.
pub(super) struct PeerNodes {
    me: NodeKey,
    version: ClusterVersion,
    next_number: u64,
    peers: BTreeMap<NodeKey, PeerNode>,
    resends: BTreeMap<(Duration, u64), (NodeKey, NodeRequest, RequestPurpose)>,
    /// Nodes with rows to send at the end of the turn, so that one turn makes one message.
    touched: BTreeSet<NodeKey>,
    timeouts_checked: Duration,
}

/// Time and settings of one turn of the distributor.
pub(super) struct DistributorTurn<'a> {
    pub now: Duration,
    pub settings: &'a Settings,
}

#[derive(Default)]
struct PeerNode {
    rows: VecDeque<OutgoingRow>,
    batches: usize,
    outstanding: BTreeMap<u64, OutstandingRequest>,
    void_below: u64,
    not_before: Duration,
}

impl PeerNodes {
    pub fn new(me: NodeKey) -> Self {
        PeerNodes {
            me,
            version: ClusterVersion::NONE,
            next_number: 0,
            peers: BTreeMap::new(),
            resends: BTreeMap::new(),
            touched: BTreeSet::new(),
            timeouts_checked: Duration::ZERO,
        }
    }

    /// Begins a new state: rows for nodes that stayed are kept, all other requests belong to the old one and
    /// are dropped.
    pub fn begin(&mut self, version: ClusterVersion, stays: &dyn Fn(NodeKey) -> bool) {
        self.version = version;
        self.peers.retain(|node, _| stays(*node));
        self.resends.clear();
        for (node, peer) in &mut self.peers {
            peer.outstanding.retain(|_, outstanding| matches!(outstanding.purpose, RequestPurpose::Rows(_)));
            peer.not_before = Duration::ZERO;
            self.touched.insert(*node);
        }
    }

    pub fn send(
        &mut self,
        turn: &DistributorTurn<'_>,
        to: NodeKey,
        request: NodeRequest,
        purpose: RequestPurpose,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let DistributorTurn { now, settings } = *turn;
        self.next_number += 1;
        let number = self.next_number;
        let peer = self.peers.entry(to).or_default();
        let timeout =
            if request.is_long() { settings.long_request_timeout } else { settings.request_timeout };
        let resend = match purpose {
            RequestPurpose::Ping | RequestPurpose::Rows(_) => None,
            _ => Some(request.clone()),
        };
        peer.outstanding
            .insert(number, OutstandingRequest { sent: now, purpose, resend, timeout: now + timeout });
        let fence =
            RequestFence { from: self.me, version: self.version, number, void_below: peer.void_below };
        effects.push(DistributorEffect::Send { to, fence, request });
    }

    /// A node that gets its rows at the end of the turn.
    fn outgoing(&mut self, to: NodeKey) -> &mut PeerNode {
        self.touched.insert(to);
        self.peers.entry(to).or_default()
    }

    /// Sends a row to a node with the next message.
    pub fn push(&mut self, to: NodeKey, outgoing: OutgoingRow) {
        self.outgoing(to).rows.push_back(outgoing);
    }

    /// Sends a row to an overloaded node, after some time has passed.
    pub fn push_later(&mut self, to: NodeKey, outgoing: OutgoingRow, at: Duration) {
        let peer = self.outgoing(to);
        peer.rows.push_back(outgoing);
        peer.not_before = at;
    }

    /// Request that an answer belongs to. `None`: it was given up.
    pub fn answered(&mut self, from: NodeKey, number: u64) -> Option<OutstandingRequest> {
        let peer = self.peers.get_mut(&from)?;
        let outstanding = peer.outstanding.remove(&number)?;
        if let RequestPurpose::Rows(_) = outstanding.purpose {
            assert!(peer.batches > 0, "a batch that is answered was counted when it was sent");
            peer.batches -= 1;
            self.touched.insert(from);
        }
        Some(outstanding)
    }

    /// Removes a request that gets no answer, or none that counts.
    pub fn lost(&mut self, to: NodeKey, number: u64) -> Option<OutstandingRequest> {
        let outstanding = self.answered(to, number)?;
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.void_below = peer.void_below.max(number + 1);
        }
        Some(outstanding)
    }

    /// Schedules a lost or refused request to be sent again later.
    pub fn resend_at(&mut self, to: NodeKey, outstanding: OutstandingRequest, at: Duration) {
        let OutstandingRequest { purpose, resend, .. } = outstanding;
        match (purpose, resend) {
            (RequestPurpose::Rows(rows), _) => {
                let peer = self.outgoing(to);
                peer.not_before = at;
                for row in rows.into_iter().rev() {
                    peer.rows.push_front(OutgoingRow { may_be_there: true, ..row });
                }
            }
            (purpose, Some(request)) => {
                self.next_number += 1;
                self.resends.insert((at, self.next_number), (to, request, purpose));
            }
            (_, None) => {}
        }
    }

    /// Voids the rows of an operation that was given up: they may be on their way to this node, and none may
    /// arrive late.
    pub fn void_rows(&mut self, node: NodeKey) {
        // A new state forgets nodes that no longer serve, and their requests.
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let rows = |(_, outstanding): &(&u64, &OutstandingRequest)| {
            matches!(outstanding.purpose, RequestPurpose::Rows(_))
        };
        if let Some((last, _)) = peer.outstanding.iter().rfind(rows) {
            peer.void_below = peer.void_below.max(last + 1);
        }
    }

    /// Ends an operation on a bucket: its unanswered requests must not take effect any more.
    pub fn end_operation(&mut self, ended: u64) {
        let of_it = |purpose: &RequestPurpose| matches!(purpose, RequestPurpose::Operation { operation, .. } if *operation == ended);
        self.resends.retain(|_, (_, _, purpose)| !of_it(purpose));
        for peer in self.peers.values_mut() {
            let last = peer.outstanding.iter().rfind(|(_, outstanding)| of_it(&outstanding.purpose));
            if let Some((last, _)) = last {
                peer.void_below = peer.void_below.max(last + 1);
                peer.outstanding.retain(|_, outstanding| !of_it(&outstanding.purpose));
            }
        }
    }

    /// Requests that have waited too long for an answer.
    pub fn expired(&mut self, turn: &DistributorTurn<'_>) -> Vec<(NodeKey, u64)> {
        let DistributorTurn { now, settings } = *turn;
        if now < self.timeouts_checked + settings.request_timeout / 8 {
            return Vec::new();
        }
        self.timeouts_checked = now;
        let of = |(node, peer): (&NodeKey, &PeerNode)| -> Vec<(NodeKey, u64)> {
            let late = peer.outstanding.iter().filter(|(_, outstanding)| outstanding.timeout <= now);
            late.map(|(number, _)| (*node, *number)).collect()
        };
        self.peers.iter().flat_map(of).collect()
    }

    /// Requests due to be sent again.
    pub fn due(&mut self, now: Duration) -> Vec<(NodeKey, NodeRequest, RequestPurpose)> {
        let mut due = Vec::new();
        while let Some(first) = self.resends.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    /// Sends rows: to each node all that wait for it, in few messages. `wanted` returns the initial state of
    /// the replica if it does not exist, or nothing if no operation waits for the row any more.
    pub fn flush(
        &mut self,
        turn: &DistributorTurn<'_>,
        wanted: &dyn Fn(NodeKey, &OutgoingRow) -> Option<ReplicatedRow>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let mut later = BTreeSet::new();
        for node in std::mem::take(&mut self.touched) {
            while let Some(rows) = self.batch(node, turn, wanted) {
                let request = NodeRequest::Apply(rows.iter().map(|outgoing| outgoing.row.clone()).collect());
                self.send(turn, node, request, RequestPurpose::Rows(rows), effects);
            }
            if self.peers.get(&node).is_some_and(|peer| !peer.rows.is_empty()) {
                later.insert(node);
            }
        }
        self.touched = later;
    }

    fn batch(
        &mut self,
        node: NodeKey,
        turn: &DistributorTurn<'_>,
        wanted: &dyn Fn(NodeKey, &OutgoingRow) -> Option<ReplicatedRow>,
    ) -> Option<Vec<OutgoingRow>> {
        let DistributorTurn { now, settings } = *turn;
        let peer = self.peers.get_mut(&node)?;
        if now < peer.not_before || peer.batches >= settings.batches_in_flight {
            return None;
        }
        let (mut rows, mut bytes, mut part) = (Vec::new(), 0, None);
        let fits = |bytes: usize, part: Option<PartId>, next: &OutgoingRow| {
            bytes < settings.batch_bytes || (part.is_some() && next.part == part)
        };
        while peer.rows.front().is_some_and(|next| fits(bytes, part, next))
            && let Some(mut outgoing) = peer.rows.pop_front()
        {
            part = outgoing.part;
            let Some(row) = wanted(node, &outgoing) else { continue };
            bytes += row.content.bytes();
            outgoing.row = row;
            rows.push(outgoing);
        }
        if rows.is_empty() {
            return None;
        }
        peer.batches += 1;
        Some(rows)
    }

    /// Time of the next action.
    pub fn next_wake(&self, settings: &Settings) -> Option<Duration> {
        let resends = self.resends.first_key_value().map(|((at, _), _)| *at);
        let touched = self.touched.iter().filter_map(|node| self.peers.get(node));
        // If the maximum number of batches is in progress, the next answer wakes it.
        let free = touched.filter(|peer| peer.batches < settings.batches_in_flight);
        let rows = free.map(|peer| peer.not_before).min();
        let waits = self.peers.values().any(|peer| !peer.outstanding.is_empty());
        let timeouts = waits.then(|| self.timeouts_checked + settings.request_timeout / 8);
        [resends, rows, timeouts].into_iter().flatten().min()
    }
}
