//! Reads: the choice of a replica to ask, and reading documents for clients and for modifications.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::reindexing::BucketHolders;
use millrace_cluster::{
    ClusterVersion, MachineTime, NodeFailure, NodeKey, NodeRequest, NodeResponse, RowContent,
};
use millrace_document::{DocumentVersion, Timestamp};

use super::buckets::OwnedBucket;
use super::machine::Distributor;
use super::peers::RequestPurpose;
use super::requests::{ClientRequest, ClientRequestKind, ModificationInput, RequestId, RequestStage};
use super::{ClientRead, DistributorEffect, DurableWrite, RequestError};

/// Destination of a query about a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRoute {
    /// The node to ask.
    pub node: NodeKey,
    /// True if its replica has every acknowledged write that any serving node has; otherwise coverage is
    /// degraded.
    pub full: bool,
    /// True if `full` may soon become true: a node has come back, and its replicas are being compared with
    /// the others.
    pub soon: bool,
    /// Version of the state of this route; see [`Distributor::confirms`].
    pub version: ClusterVersion,
}

/// Reason for which there is no [`ReadRoute`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    /// Another node owns the bucket: ask that one.
    Elsewhere(NodeKey),
    /// No node has any data of the bucket: it has no documents, or the nodes with them do not serve.
    Nothing,
    /// The node does not know yet what others have, or if its state is still valid; try again shortly.
    NotYet,
}

impl Distributor {
    /// Returns the replica of a bucket to search: the local one, if it is as good as any. If replicas differ,
    /// they are made equal before replicas that are not queried.
    ///
    /// # Errors
    /// The bucket has another owner, or no answer is possible now.
    pub fn route(&mut self, bucket: BucketId, now: MachineTime) -> Result<ReadRoute, NoRoute> {
        match self.owner(bucket) {
            None => return Err(NoRoute::NotYet),
            Some(owner) if owner != self.me => return Err(NoRoute::Elsewhere(owner)),
            Some(_) => {}
        }
        if !self.is_confirmed(now.monotonic) {
            return Err(NoRoute::NotYet);
        }
        let all_reported = self.unreported.is_empty();
        let Some(found) = self.buckets.get(&bucket) else {
            return Err(if all_reported { NoRoute::Nothing } else { NoRoute::NotYet });
        };
        if !found.open {
            return Err(NoRoute::NotYet);
        }
        let node = found.best(self.me, now.wall_us).ok_or(NoRoute::Nothing)?;
        let complete = found.replica(node).is_some_and(|replica| replica.info.complete);
        let full = found.settled && complete;
        let soon = !found.settled && now.monotonic < self.since + self.settings.compare;
        if !found.settled {
            self.upkeep.scheduler.prioritize(bucket);
        }
        Ok(ReadRoute { node, full, soon, version: self.version })
    }

    /// All nodes that a query about a bucket can be sent to, including that of its [`Distributor::route`]: if
    /// some have all of its data, only those.
    pub fn readers(&self, bucket: BucketId, route: &ReadRoute) -> Vec<NodeKey> {
        let complete = self.buckets.get(&bucket).map(OwnedBucket::complete).unwrap_or_default();
        if complete.contains(&route.node) { complete } else { vec![route.node] }
    }

    /// Nodes that have a bucket of this distributor, once every serving node has reported its replicas. An
    /// owner goes on with a bucket before a node that has come back has reported; that node may have
    /// documents that the others do not have.
    ///
    /// # Errors
    /// This is not known now.
    pub fn holders(&mut self, bucket: BucketId, now: MachineTime) -> Result<BucketHolders, NoRoute> {
        let version = self.version().ok_or(NoRoute::NotYet)?;
        if !self.unreported.is_empty() {
            return Err(NoRoute::NotYet);
        }
        let newest = self.newest();
        match self.route(bucket, now) {
            Ok(route) => {
                let nodes = self.readers(bucket, &route);
                Ok(BucketHolders { version, nodes, full: route.full, newest })
            }
            Err(NoRoute::Nothing) => Ok(BucketHolders { version, nodes: Vec::new(), full: true, newest }),
            Err(other) => Err(other),
        }
    }

    /// Approximate number of documents in a bucket: the number in its fullest replica at the last report.
    pub fn documents(&self, bucket: BucketId) -> u64 {
        let replicas = self.buckets.get(&bucket).into_iter().flat_map(|found| &found.replicas);
        replicas.map(|replica| replica.info.content.documents).max().unwrap_or(0)
    }

    /// Times of the oldest writes that a replica may lack, by bucket: of those in flight; 0 for a drop, which
    /// concerns versions of any time, and for a bucket whose replicas may differ. Such a bucket can have a
    /// [`Distributor::route`] to everything acknowledged, while a node that has come back has not reported:
    /// see [`Distributor::holders`]. It can have none, if its first write was given up before any replica was
    /// heard of.
    pub fn oldest_writes(&self) -> BTreeMap<BucketId, Timestamp> {
        let all_reported = self.unreported.is_empty();
        let may_differ =
            |found: &OwnedBucket| !all_reported || (!found.settled && !found.replicas.is_empty());
        let differing = self.buckets.iter().filter(|(_, found)| may_differ(found));
        let mut oldest: BTreeMap<BucketId, Timestamp> =
            differing.map(|(bucket, _)| (*bucket, Timestamp(0))).collect();
        for request in self.requests.slots.values() {
            let Some(row) = request.sent() else { continue };
            let time = match **row {
                RowContent::Drop(_) => Timestamp(0),
                RowContent::Version(_) => row.timestamp(),
            };
            let known = oldest.entry(request.bucket).or_insert(time);
            *known = time.min(*known);
        }
        oldest
    }

    /// True if an answer received by a route of this version counts: the state is the same, and confirmed
    /// now, so that no other owner has come in between.
    pub fn confirms(&self, version: ClusterVersion, now: MachineTime) -> bool {
        version == self.version && self.is_confirmed(now.monotonic)
    }

    pub(super) fn read(&mut self, read: ClientRead, effects: &mut Vec<DistributorEffect>) {
        let Some(bucket) = self.known_state().map(|state| state.bucket(read.id.location())) else {
            let error = RequestError::Moved { owner: None, version: self.version, unfinished: None };
            return effects.push(DistributorEffect::Found { ticket: read.ticket, outcome: Err(error) });
        };
        if let Err(error) = self.admit(bucket) {
            return effects.push(DistributorEffect::Found { ticket: read.ticket, outcome: Err(error) });
        }
        let bytes = read.id.as_str().len();
        let id = self.requests.insert(ClientRequest {
            ticket: read.ticket,
            deadline: read.deadline,
            bucket,
            id: Some(read.id),
            kind: ClientRequestKind::Read,
            stage: RequestStage::Waiting,
            part: None,
            row: None,
            outdated: false,
            dropped: false,
            bytes,
        });
        self.advance(id, effects);
    }

    /// Sends read requests for a document to the required replicas.
    pub(super) fn begin_reading(&mut self, request: RequestId, effects: &mut Vec<DistributorEffect>) {
        let slot = self.requests.slots.get_mut(&request).expect("an operation that reads is in flight");
        let (id, bucket) = (slot.id.clone().expect("a drop reads no document"), slot.bucket);
        let nodes =
            self.buckets.get(&bucket).map(|found| found.readable(self.me, request.0)).unwrap_or_default();
        slot.stage = RequestStage::Reading { waiting_for: nodes.clone(), newest: None, failure: None };
        if nodes.is_empty() {
            return self.finish_reading(request, effects);
        }
        for node in nodes {
            let read = NodeRequest::Read { bucket, id: id.clone() };
            self.send(node, read, RequestPurpose::Read(request), effects);
        }
    }

    pub(super) fn read_replied(
        &mut self,
        request: RequestId,
        from: NodeKey,
        response: NodeResponse,
        effects: &mut Vec<DistributorEffect>,
    ) {
        // An answer can arrive after the client gave up, or after enough others have answered.
        let Some(slot) = self.requests.slots.get_mut(&request) else { return };
        let bucket = slot.bucket;
        let RequestStage::Reading { waiting_for, newest, failure } = &mut slot.stage else { return };
        if !waiting_for.contains(&from) {
            return;
        }
        waiting_for.retain(|node| *node != from);
        match response {
            NodeResponse::Document(Some(version)) => {
                if newest.as_ref().is_none_or(|newest| newest.timestamp < version.timestamp) {
                    *newest = Some(version);
                }
            }
            NodeResponse::Document(None) => {}
            NodeResponse::Failed(NodeFailure::NoReplica) => {
                if let Some(found) = self.buckets.get_mut(&bucket)
                    && found.replica(from).is_some_and(|replica| replica.origin.is_none())
                {
                    found.forget_replica(from);
                    self.upkeep.schedule_check(bucket);
                }
                // The others may have to be asked as well now.
                return self.begin_reading(request, effects);
            }
            NodeResponse::Failed(other) => *failure = Some(other),
            _ => {
                *failure = Some(NodeFailure::Storage {
                    reason: format!("node {from} gave an answer of another kind of request"),
                });
            }
        }
        if waiting_for.is_empty() {
            self.finish_reading(request, effects);
        }
    }

    fn finish_reading(&mut self, request: RequestId, effects: &mut Vec<DistributorEffect>) {
        if !self.confirmed() {
            self.await_confirmation(request);
            return;
        }
        let slot = self.requests.slots.get_mut(&request).expect("an operation that has read is in flight");
        let RequestStage::Reading { newest, failure, waiting_for } = &mut slot.stage else {
            unreachable!("an operation has read only after it began to");
        };
        assert!(waiting_for.is_empty(), "a document is read when all who were asked have answered");
        if let Some(failure) = failure.take() {
            let error = match slot.sent() {
                None => RequestError::Failed(failure),
                Some(_) => RequestError::Partial(failure),
            };
            return self.finish(request, Err(error), effects);
        }
        let newest: Option<DocumentVersion> = newest.take();
        if slot.outdated {
            let newest = newest.map(|version| version.timestamp).unwrap_or_default();
            return self.recheck(request, newest, effects);
        }
        match &mut slot.kind {
            ClientRequestKind::Modify { modify, found, .. } => {
                *found = Some(newest.as_ref().map_or(ModificationInput::default(), |version| {
                    ModificationInput { exists: version.body.is_some(), timestamp: version.timestamp }
                }));
                let modify = modify.take().expect("a modification is decided once");
                slot.stage = RequestStage::Deciding;
                self.decide(request, modify, newest, effects);
            }
            ClientRequestKind::Rewrite(_) => self.checked(request, newest, effects),
            ClientRequestKind::Read | ClientRequestKind::Unconditional(_) => {
                self.found(request, newest, effects)
            }
        }
    }

    /// Processes the newest version of a document that another owner may have written in between.
    fn recheck(&mut self, request: RequestId, newest: Timestamp, effects: &mut Vec<DistributorEffect>) {
        self.clock.observe(newest);
        let slot = self.requests.slots.get_mut(&request).expect("an operation that has read is in flight");
        if slot.still_holds(newest) {
            slot.outdated = false;
            return self.relaunch(request, effects);
        }
        let (bucket, is_sent) = (slot.bucket, slot.sent().is_some());
        let error = match is_sent {
            // Nothing was written: the operation can start again.
            false => self.moved(bucket),
            true => RequestError::Overtaken,
        };
        self.finish(request, Err(error), effects);
    }

    /// Processes the newest version of a document that is to be rewritten.
    fn checked(
        &mut self,
        request: RequestId,
        newest: Option<DocumentVersion>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let newest = newest.map_or(ModificationInput::default(), |version| ModificationInput {
            exists: version.body.is_some(),
            timestamp: version.timestamp,
        });
        self.clock.observe(newest.timestamp);
        let slot = self.requests.slots.get_mut(&request).expect("an operation that has read is in flight");
        let ClientRequestKind::Rewrite(rewrite) = &mut slot.kind else {
            unreachable!("only a rewrite is checked");
        };
        if newest.exists && newest.timestamp == rewrite.base {
            rewrite.is_checked = true;
            return self.relaunch(request, effects);
        }
        let ModificationInput { exists, timestamp } = newest;
        let written = DurableWrite { timestamp, existed: Some(exists), changed: false, replicas: 0 };
        self.finish(request, Ok(written), effects);
    }

    fn found(
        &mut self,
        request: RequestId,
        newest: Option<DocumentVersion>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        if let Some(slot) = self.requests.remove(request) {
            effects.push(DistributorEffect::Found { ticket: slot.ticket, outcome: Ok(newest) });
        }
    }
}
