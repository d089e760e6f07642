//! Transition from one cluster state to the next: determines the buckets that stay, go to another owner, or
//! arrive, and the replicas that nodes have of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, NodeKey, NodeRequest, ReportedReplica};
use millrace_document::Timestamp;

use super::buckets::{OwnedBucket, TrackedReplica};
use super::machine::Distributor;
use super::peers::RequestPurpose;
use super::requests::{ClientRequestKind, RequestId, RequestStage};
use super::{DistributorEffect, RequestError};
use crate::confirmation::lapse;
use crate::owners::BucketOwners;

/// Minimum distance in microseconds from the newest known timestamp to the first one of a new owner; the
/// maximum is twice as large. The previous owner can have assigned timestamps that no serving node has seen;
/// if clocks are behind the known timestamps, both count up from there, and no two versions of a document may
/// have the same timestamp. So each begins at a different point.
const GAP: u64 = 1 << 20;

impl Distributor {
    pub(super) fn adopt(&mut self, state: Arc<ClusterState>, effects: &mut Vec<DistributorEffect>) {
        if state.version() <= self.version {
            return;
        }
        let stays = self.nodes_that_stay(&state);
        let takes_part = state
            .nodes()
            .get(&self.me)
            .is_some_and(|entry| entry.incarnation == self.incarnation && entry.state.serves());
        self.version = state.version();
        self.since = self.now.monotonic;
        self.confirmation.begin(&state);
        self.upkeep.forget_all();
        self.claims.end_all();
        self.peers.begin(self.version, &|node| stays.contains(&node));
        let asked = self.nodes_to_ask(&state);
        let divided = self.divided_buckets(&state);
        self.owners = Some(BucketOwners::new(state));
        self.takes_part = takes_part;
        self.unreported = if takes_part { asked } else { BTreeSet::new() };
        self.unreported_until = Some(self.now.monotonic + lapse(self.settings.confirm));
        self.keep_buckets(&stays, &divided);
        self.sort_requests(effects);
        let removals_since = self.removals_since();
        for node in self.unreported.clone() {
            self.send(node, NodeRequest::Owned { removals_since }, RequestPurpose::HandOver, effects);
        }
        self.ping(effects);
    }

    /// Nodes that served in the previous state and still do, in the same run, and have reported their
    /// replicas. Empty if a state in between was missed, by which another node may have been the owner.
    fn nodes_that_stay(&self, new: &ClusterState) -> BTreeSet<NodeKey> {
        let Some(old) = self.state() else { return BTreeSet::new() };
        if old.version().next() != new.version() {
            return BTreeSet::new();
        }
        let same = |node: &NodeKey| {
            let (Some(before), Some(after)) = (old.nodes().get(node), new.nodes().get(node)) else {
                return false;
            };
            before.state.serves() && after.state.serves() && before.incarnation == after.incarnation
        };
        old.nodes().keys().copied().filter(|node| same(node) && !self.unreported.contains(node)).collect()
    }

    /// All serving nodes, and those that served until now: a node that was taken out of service while it
    /// lives may not know, and coordination may have confirmed an older state to it until a moment ago. Votes
    /// need no such precaution: some serving node takes part in every majority, and does not answer before
    /// its vote has lapsed.
    fn nodes_to_ask(&self, new: &ClusterState) -> BTreeSet<NodeKey> {
        let old = self.state();
        let before = old.filter(|old| old.version().next() == new.version());
        let asked = |node: &NodeKey| match (new.nodes().get(node), before) {
            (Some(entry), _) if entry.state.serves() => true,
            (Some(entry), _) if entry.lease_ended => false,
            (_, Some(before)) => before.node_state(*node).serves() || self.unreported.contains(node),
            (_, None) => true,
        };
        // A removed node is in the old state only.
        let known = old.into_iter().flat_map(|old| old.nodes().keys());
        known.chain(new.nodes().keys()).copied().filter(asked).collect()
    }

    /// Stops waiting for nodes that do not serve and have not answered: they cannot act by an older state any
    /// more.
    pub(super) fn stop_awaiting_reports(&mut self, effects: &mut Vec<DistributorEffect>) {
        self.unreported_until = None;
        let silent: Vec<NodeKey> =
            self.unreported.iter().copied().filter(|node| !self.serves(*node)).collect();
        for node in silent {
            self.take_report(node, Vec::new(), Timestamp::default(), effects);
        }
    }

    /// Buckets from which groups are divided off, and buckets that are divided further.
    fn divided_buckets(&self, new: &ClusterState) -> BTreeSet<BucketId> {
        let Some(old) = self.state() else { return BTreeSet::new() };
        new.spread().changed(old.spread(), new.distribution().bits).into_iter().collect()
    }

    /// Keeps owned buckets with the replicas that stay, and forgets the others. Divided buckets are forgotten
    /// too: nodes report their replicas of these and of the parts again, which also confirms that they have
    /// divided them.
    fn keep_buckets(&mut self, stays: &BTreeSet<NodeKey>, divided: &BTreeSet<BucketId>) {
        let Some(owners) = self.owners.as_mut().filter(|_| self.takes_part) else {
            return self.buckets.clear();
        };
        let me = self.me;
        self.buckets.retain(|id, bucket| {
            bucket.replicas.retain(|replica| stays.contains(&replica.node));
            // If no replica is left, all nodes have to report again.
            if !bucket.open
                || bucket.replicas.is_empty()
                || !stays.contains(&me)
                || divided.contains(id)
                || owners.owner(*id) != Some(me)
            {
                return false;
            }
            let state = owners.state();
            bucket.held = false;
            bucket.ideal = serving_ideal(state, *id);
            true
        });
    }

    /// Continues or restarts every operation of a client, or hands it to another owner.
    fn sort_requests(&mut self, effects: &mut Vec<DistributorEffect>) {
        let all: Vec<RequestId> = self.requests.slots.keys().copied().collect();
        for id in all {
            let Some(bucket) = self.settle_bucket(id, effects) else { continue };
            let continues = self.buckets.get(&bucket).is_some_and(|bucket| bucket.open);
            if !continues && self.owner(bucket) != Some(self.me) {
                self.redirect(id, effects);
                continue;
            }
            let request = self.requests.slots.get_mut(&id).expect("an operation with a bucket is in flight");
            if !continues {
                request.outdate();
            }
            if !continues && matches!(request.kind, ClientRequestKind::Rewrite(_)) {
                self.abandon_rewrite(id, effects);
                continue;
            }
            match &mut request.stage {
                // It starts to wait again, regardless of the previous reason.
                RequestStage::Waiting if !continues => self.advance(id, effects),
                RequestStage::InLane | RequestStage::Waiting | RequestStage::Deciding => {}
                RequestStage::Reading { .. } => self.advance(id, effects),
                // All nodes report their replicas again; sending the same row to all of them ends the
                // operation.
                RequestStage::InFlight(_) | RequestStage::Durable(_) if !continues => {
                    self.relaunch(id, effects)
                }
                RequestStage::InFlight(flight) => {
                    let here = &self.buckets[&bucket];
                    let before = flight.waiting_for.len();
                    flight.waiting_for.retain(|node| here.replica(*node).is_some());
                    // A node that has left may have it.
                    flight.may_be_there |= flight.waiting_for.len() < before;
                    self.acknowledge_if_durable(id, effects);
                }
                RequestStage::Durable(_) => self.acknowledge_if_durable(id, effects),
            }
        }
        // Operations that had waited while a bucket was held.
        let freed: Vec<RequestId> =
            self.buckets.values_mut().flat_map(|bucket| std::mem::take(&mut bucket.waiting)).collect();
        for id in freed {
            self.advance(id, effects);
        }
    }

    /// The bucket of an operation by this state. A drop of a bucket that has been divided is ended: its
    /// client has to drop the parts.
    fn settle_bucket(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) -> Option<BucketId> {
        let state = self.state().cloned();
        let request = self.requests.slots.get_mut(&id)?;
        let Some(state) = state else { return Some(request.bucket) };
        match &request.id {
            Some(document) => request.bucket = state.bucket(document.location()),
            None if !request.drops_within(&state) => {
                let (bucket, sent) = (request.bucket, request.sent().is_some());
                let error = if sent { RequestError::Unknown } else { self.moved(bucket) };
                self.finish(id, Err(error), effects);
                return None;
            }
            None => {}
        }
        Some(request.bucket)
    }

    /// Ends a rewrite whose bucket another node may have owned in between.
    fn abandon_rewrite(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        let request = self.requests.slots.get(&id).expect("an operation that is given up is in flight");
        let (bucket, is_sent) = (request.bucket, request.sent().is_some());
        let error = if is_sent { RequestError::Unknown } else { self.moved(bucket) };
        self.finish(id, Err(error), effects);
    }

    /// Redirects an operation whose bucket has another owner now.
    fn redirect(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        let request = self.requests.slots.get(&id).expect("an operation that is redirected is in flight");
        if matches!(request.kind, ClientRequestKind::Rewrite(_)) {
            return self.abandon_rewrite(id, effects);
        }
        let (bucket, unfinished) = (request.bucket, request.unfinished());
        let error = RequestError::Moved { owner: self.owner(bucket), version: self.version, unfinished };
        self.finish(id, Err(error), effects);
    }

    /// Processes a node's report of its replicas of the buckets that this node owns.
    pub(super) fn take_report(
        &mut self,
        from: NodeKey,
        replicas: Vec<(BucketId, ReportedReplica)>,
        newest: Timestamp,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let offset =
            (self.version.number() << 16 | u64::from(self.me.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        self.clock.observe(Timestamp(newest.0.saturating_add(GAP + offset)));
        if !self.unreported.remove(&from) {
            return;
        }
        let mut there = BTreeSet::new();
        let mut grown = BTreeSet::new();
        for (id, info) in replicas {
            if self.owner(id) != Some(self.me) {
                continue;
            }
            there.insert(id);
            let bucket = self.buckets.entry(id).or_default();
            if bucket.replica(from).is_none() {
                bucket.replicas.push(TrackedReplica { node: from, info, origin: None });
                if bucket.open {
                    // It was absent, and may lack rows, or have rows that no other node has.
                    bucket.settled = false;
                    self.upkeep.schedule_check(id);
                    grown.insert(id);
                }
            }
        }
        self.read_again(&grown, effects);
        for (id, bucket) in &mut self.buckets {
            let gone = |replica: &TrackedReplica| {
                replica.node == from && replica.origin.is_none() && !there.contains(id)
            };
            if bucket.open && bucket.replicas.iter().any(gone) {
                bucket.forget_replica(from);
                self.upkeep.schedule_check(*id);
            }
        }
        if self.unreported.is_empty() {
            self.open(effects);
        }
    }

    /// Restarts reads of buckets with replicas that were unknown when the reads began.
    fn read_again(&mut self, grown: &BTreeSet<BucketId>, effects: &mut Vec<DistributorEffect>) {
        if grown.is_empty() {
            return;
        }
        let reads = self.requests.slots.iter().filter(|(_, request)| {
            matches!(request.stage, RequestStage::Reading { .. }) && grown.contains(&request.bucket)
        });
        let reads: Vec<RequestId> = reads.map(|(id, _)| *id).collect();
        for id in reads {
            self.advance(id, effects);
        }
    }

    /// Opens the buckets once all nodes have reported: writes may begin.
    fn open(&mut self, effects: &mut Vec<DistributorEffect>) {
        let state = self.state().cloned().expect("nodes report for a state that this node has a part in");
        let mut freed = Vec::new();
        for (id, bucket) in &mut self.buckets {
            if !bucket.open {
                bucket.open = true;
                bucket.ideal = serving_ideal(&state, *id);
                bucket.settle();
            }
            freed.append(&mut bucket.waiting.drain(..).collect());
            self.upkeep.schedule_check(*id);
        }
        for id in freed {
            self.advance(id, effects);
        }
    }

    /// Entry of the bucket, opened if all nodes have reported.
    pub(super) fn entry(&mut self, id: BucketId) -> Option<&mut OwnedBucket> {
        let state = self.owners.as_ref().filter(|_| self.takes_part)?.state();
        let all_reported = self.unreported.is_empty();
        Some(self.buckets.entry(id).or_insert_with(|| {
            let ideal = serving_ideal(state, id);
            OwnedBucket { ideal, open: all_reported, settled: true, ..OwnedBucket::default() }
        }))
    }
}

fn serving_ideal(state: &ClusterState, bucket: BucketId) -> Vec<NodeKey> {
    let mut ideal = state.ideal(bucket);
    ideal.retain(|node| state.node_state(*node).serves());
    ideal
}
