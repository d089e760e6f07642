//! Writes: a lane per document, a timestamp, a row to every replica, an answer when all have it.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, DropHorizon, NodeFailure, NodeKey, NodeResponse, ReplicaOrigin, ReplicatedRow,
    ReportedReplica, RowContent, UnfinishedRow,
};
use millrace_document::{DocumentId, DocumentVersion, Timestamp, WriteRefusal};

use super::batches::PartId;
use super::buckets::TrackedReplica;
use super::event::{BoxedModify, DecisionId};
use super::machine::Distributor;
use super::peers::OutgoingRow;
use super::requests::{
    ClientRequest, ClientRequestKind, ClientRequests, InFlightRow, ModificationInput, PendingRewrite,
    RequestId, RequestStage, UnconditionalRow,
};
use super::{
    ClientWrite, DecidedModification, DistributorEffect, DocumentChange, DurableWrite, Modify, RequestError,
};
use crate::owners::BucketOwners;

impl ClientRequests {
    /// True if an operation waits for this node to make its row durable, as one of this bucket.
    pub(super) fn awaits(&self, id: RequestId, node: NodeKey, bucket: BucketId) -> bool {
        self.slots.get(&id).is_some_and(|request| {
            request.bucket == bucket
                && matches!(&request.stage, RequestStage::InFlight(flight) if flight.waiting_for.contains(&node))
        })
    }
}

/// A change as a request of its bucket, by a cluster state.
struct RequestedWrite {
    bucket: BucketId,
    /// The document; `None` for a drop.
    id: Option<DocumentId>,
    kind: ClientRequestKind,
    /// Row of an earlier owner, with its timestamp.
    row: Option<Arc<RowContent>>,
}

impl RequestedWrite {
    fn of(change: DocumentChange, state: &ClusterState) -> Self {
        let of_document = |id: DocumentId, kind| RequestedWrite {
            bucket: state.bucket(id.location()),
            id: Some(id),
            kind,
            row: None,
        };
        match change {
            DocumentChange::Put { id, body } => {
                of_document(id, ClientRequestKind::Unconditional(UnconditionalRow::Put(body)))
            }
            DocumentChange::Remove(id) => {
                of_document(id, ClientRequestKind::Unconditional(UnconditionalRow::Remove))
            }
            DocumentChange::Modify { id, modify } => {
                let kind = ClientRequestKind::Modify { modify: Some(modify), found: None, decided: None };
                of_document(id, kind)
            }
            DocumentChange::Rewrite { id, base, until, body } => {
                let rewrite = PendingRewrite { base, until, body, is_checked: false };
                of_document(id, ClientRequestKind::Rewrite(rewrite))
            }
            DocumentChange::Drop { bucket, scope, until } => {
                let kind = ClientRequestKind::Unconditional(UnconditionalRow::Drop { scope, until });
                RequestedWrite { bucket, id: None, kind, row: None }
            }
            DocumentChange::Finish(UnfinishedRow { bucket, content, base }) => {
                let id = match &*content {
                    RowContent::Version(version) => Some(version.id.clone()),
                    RowContent::Drop(_) => None,
                };
                // The bucket may have been divided since.
                let bucket = id.as_ref().map_or(bucket, |id| state.bucket(id.location()));
                let kind = match base {
                    None => ClientRequestKind::Unconditional(UnconditionalRow::Finish),
                    Some(timestamp) => {
                        let found = ModificationInput { exists: timestamp > Timestamp::default(), timestamp };
                        ClientRequestKind::Modify { modify: None, found: Some(found), decided: None }
                    }
                };
                RequestedWrite { bucket, id, kind, row: Some(content) }
            }
        }
    }
}

impl Distributor {
    /// Checks that an operation on a bucket can be accepted.
    pub(super) fn admit(&mut self, bucket: BucketId) -> Result<(), RequestError> {
        if self.owner(bucket) != Some(self.me) {
            return Err(self.moved(bucket));
        }
        if self.requests.is_full(self.settings.requests_max, self.settings.request_bytes_max) {
            return Err(RequestError::Overloaded);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, write: ClientWrite, effects: &mut Vec<DistributorEffect>) {
        self.accept(write, None, effects);
    }

    /// Accepts a write, or answers with the reason why not. Parts of batches were admitted before, as a
    /// whole.
    pub(super) fn accept(
        &mut self,
        write: ClientWrite,
        part: Option<PartId>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let ClientWrite { ticket, deadline, change } = write;
        let Some(state) = self.known_state() else {
            let unfinished = match change {
                DocumentChange::Finish(unfinished) => Some(unfinished),
                _ => None,
            };
            let error = RequestError::Moved { owner: None, version: self.version, unfinished };
            return effects.push(DistributorEffect::Written { ticket, outcome: Err(error) });
        };
        let RequestedWrite { bucket, id, kind, row } = RequestedWrite::of(change, state);
        let alone = !kind.is_unconditional();
        let row_bytes = row.as_ref().map_or(0, |row| row.bytes());
        let bytes = kind.bytes() + row_bytes + id.as_ref().map_or(0, |id| id.as_str().len());
        let lane = id.clone();
        let outdated = row.is_some();
        let stage = RequestStage::InLane;
        let dropped = false;
        let request =
            ClientRequest { ticket, deadline, bucket, id, kind, stage, part, row, outdated, dropped, bytes };
        let within = request.drops_within(state);
        if outdated {
            // It has a time of its own: a client that examines replicas may not have seen it.
            self.claims.end_in(bucket);
        }
        let admitted = match part {
            Some(_) => Ok(()),
            None if within => self.admit(bucket),
            None => Err(self.moved(bucket)),
        };
        if let Err(mut error) = admitted {
            if let Some(begun) = request.unfinished() {
                match &mut error {
                    // A drop of a bucket that is divided now can only be started again.
                    RequestError::Moved { unfinished, .. } if within => *unfinished = Some(begun),
                    other => *other = RequestError::Unknown,
                }
            }
            return effects.push(DistributorEffect::Written { ticket, outcome: Err(error) });
        }
        let request = self.requests.insert(request);
        if let Some(part) = part {
            self.requests.parts.add(part, request);
        }
        if lane.is_none_or(|lane| self.requests.lanes.enter(&lane, request, alone)) {
            self.advance(request, effects);
        }
    }

    /// Advances an operation as far as possible now.
    pub(super) fn advance(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        // Buckets keep the names of operations that waited and have ended since because their clients gave
        // up.
        let Some(request) = self.requests.slots.get_mut(&id) else { return };
        match &request.stage {
            RequestStage::Durable(_) | RequestStage::InFlight(_) => {
                return self.acknowledge_if_durable(id, effects);
            }
            RequestStage::Deciding => return,
            RequestStage::InLane | RequestStage::Waiting | RequestStage::Reading { .. } => {
                request.stage = RequestStage::Waiting
            }
        }
        if let Some(part) = request.part
            && self.requests.parts.is_waiting(part)
        {
            // The last one that is ready takes the others with it.
            let ready = self.requests.parts.ready(part, id);
            return ready.into_iter().flatten().for_each(|id| self.advance(id, effects));
        }
        let bucket = request.bucket;
        let must_read = request.must_read();
        let horizon = request.horizon();
        let is_outdated = |horizon: DropHorizon| !self.claims.holds(horizon.claim, self.now.monotonic);
        // Of a drop whose claim has ended, the client has to examine the replica again.
        if horizon.is_some_and(is_outdated) || self.yields_to_drop(id) {
            let moved = self.moved(bucket);
            return self.finish(id, Err(moved), effects);
        }
        if !self.confirmed() {
            return self.await_confirmation(id);
        }
        let entry = self.entry(bucket).expect("a state is confirmed only to a node that has a part in it");
        if !entry.open || (entry.held && !must_read) {
            entry.waiting.push_back(id);
        } else if must_read {
            self.begin_reading(id, effects);
        } else {
            self.launch(id);
        }
    }

    pub(super) fn await_confirmation(&mut self, id: RequestId) {
        self.requests.unconfirmed.insert(id);
    }

    pub(super) fn decide(
        &mut self,
        id: RequestId,
        modify: Modify,
        current: Option<DocumentVersion>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        if let Some(version) = &current {
            self.clock.observe(version.timestamp);
        }
        effects.push(DistributorEffect::Decide {
            decision: DecisionId(id.0),
            modify: BoxedModify(modify),
            current,
        });
    }

    pub(super) fn decided(
        &mut self,
        decision: DecisionId,
        outcome: Result<DecidedModification, WriteRefusal>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let id = RequestId(decision.0);
        // The client may have given up while its function ran.
        let Some(request) = self.requests.slots.get_mut(&id) else { return };
        assert!(matches!(request.stage, RequestStage::Deciding), "a decision comes while it is waited for");
        let ClientRequestKind::Modify { decided, found, .. } = &mut request.kind else {
            unreachable!("only a modification has something to decide");
        };
        match outcome {
            Err(refusal) => self.finish(id, Err(RequestError::Refused(refusal)), effects),
            Ok(DecidedModification::Nothing) => {
                let ModificationInput { exists, timestamp } = found.unwrap_or_default();
                let written = DurableWrite { timestamp, existed: Some(exists), changed: false, replicas: 0 };
                self.finish(id, Ok(written), effects);
            }
            Ok(modification) => {
                *decided = Some(modification);
                request.stage = RequestStage::Waiting;
                self.advance(id, effects);
            }
        }
    }

    /// Assigns the row its timestamp and sends it to all replicas.
    fn launch(&mut self, id: RequestId) {
        let request = self.requests.slots.get_mut(&id).expect("an operation that is launched is in flight");
        let bucket = request.bucket;
        let (may_be_there, part) = (request.sent().is_some(), request.part);
        let content = request.content(|| self.clock.next(self.now.wall_us));
        let content = content.expect("an operation that is launched is not a read, and is decided");
        self.clock.observe(content.timestamp());
        if let RowContent::Drop(dropped) = &*content {
            self.restart_conditional(bucket, dropped);
        }
        self.create_missing_replicas(bucket);
        let entry = self.buckets.get_mut(&bucket).expect("the bucket of a row is known");
        assert!(
            entry.open && !entry.held,
            "no row goes out while it is not known who has the bucket, or replicas are compared"
        );
        let waiting_for: Vec<NodeKey> = entry.replicas.iter().map(|replica| replica.node).collect();
        if waiting_for.is_empty() {
            // There is no replica to write to until more nodes have reported.
            entry.open = false;
            entry.waiting.push_back(id);
            return;
        }
        entry.in_flight += 1;
        for node in &waiting_for {
            let row = ReplicatedRow { bucket, content: Arc::clone(&content), origin: None };
            self.peers.push(*node, OutgoingRow { request: id, row, part, may_be_there: false });
        }
        let request = self.requests.slots.get_mut(&id).expect("an operation that is launched is in flight");
        request.stage =
            RequestStage::InFlight(InFlightRow { waiting_for, reached: 0, failure: None, may_be_there });
    }

    /// Adds the replicas that a bucket lacks: nodes create them with the next row that they get.
    fn create_missing_replicas(&mut self, bucket: BucketId) {
        let state = self.state().cloned().expect("rows go out only by a state that this node has a part in");
        let entry = self.buckets.get_mut(&bucket).expect("the bucket of a row is known");
        let lacking = entry.ideal.len().saturating_sub(entry.replicas.len());
        if lacking == 0 && !entry.replicas.is_empty() {
            return;
        }
        let away = state.away().count();
        // With this few absent nodes, at least one serving node would have a replica if there was one.
        let new = entry.replicas.is_empty() && away < usize::from(state.distribution().redundancy);
        let origin = if new { ReplicaOrigin::Complete } else { ReplicaOrigin::Incomplete };
        let known = |node: &&NodeKey| !self.unreported.contains(node) && entry.replica(**node).is_none();
        let mut nodes: Vec<NodeKey> = entry.ideal.iter().filter(known).copied().take(lacking).collect();
        if entry.ideal.is_empty() && !self.unreported.contains(&self.me) {
            nodes.push(self.me);
        }
        for node in nodes {
            let info = ReportedReplica { complete: new, ..ReportedReplica::default() };
            entry.replicas.push(TrackedReplica { node, info, origin: Some(origin) });
        }
        self.upkeep.schedule_check(bucket);
    }

    /// Processes a node's answer to a batch of rows.
    pub(super) fn applied(
        &mut self,
        from: NodeKey,
        rows: Vec<OutgoingRow>,
        response: NodeResponse,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let mut failed = match response {
            NodeResponse::Applied(failed) => failed,
            NodeResponse::Failed(failure) => (0..rows.len()).map(|index| (index, failure.clone())).collect(),
            _ => {
                let failure = NodeFailure::Storage {
                    reason: format!("node {from} gave an answer of another kind of request"),
                };
                (0..rows.len()).map(|index| (index, failure.clone())).collect()
            }
        };
        failed.sort_unstable_by_key(|(index, _)| *index);
        let mut failed = failed.into_iter().peekable();
        for (index, outgoing) in rows.into_iter().enumerate() {
            let failure = failed.next_if(|(at, _)| *at == index).map(|(_, failure)| failure);
            self.row_applied(from, outgoing, failure, effects);
        }
    }

    fn row_applied(
        &mut self,
        from: NodeKey,
        outgoing: OutgoingRow,
        failure: Option<NodeFailure>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let bucket = outgoing.row.bucket;
        if let Some(entry) = self.buckets.get_mut(&bucket) {
            let open = entry.open;
            match &failure {
                None => match (entry.replica_mut(from), open) {
                    (Some(replica), _) => replica.origin = None,
                    // The replica was considered gone, and exists.
                    (None, true) => {
                        let info = ReportedReplica::default();
                        entry.replicas.push(TrackedReplica { node: from, info, origin: None });
                        entry.settled = false;
                        self.upkeep.schedule_check(bucket);
                    }
                    (None, false) => {}
                },
                Some(NodeFailure::NoReplica) => {
                    // A row that was sent before the replica was to be created implies nothing about it.
                    let expected =
                        |replica: &TrackedReplica| replica.node == from && replica.origin.is_none();
                    if entry.replicas.iter().any(expected) {
                        entry.forget_replica(from);
                        self.upkeep.schedule_check(bucket);
                    }
                }
                Some(_) => {}
            }
        }
        if !self.requests.awaits(outgoing.request, from, bucket) {
            return;
        }
        let request = self.requests.slots.get_mut(&outgoing.request);
        let Some(ClientRequest { stage: RequestStage::InFlight(flight), .. }) = request else {
            unreachable!("an operation that awaits a row is in flight, and its row too");
        };
        match failure {
            Some(NodeFailure::Overloaded) => {
                self.peers.push_later(from, outgoing, self.now.monotonic + self.settings.retry);
                return;
            }
            None => flight.reached += 1,
            Some(NodeFailure::NoReplica) => {}
            Some(failure) => {
                let state = self.owners.as_ref().map(BucketOwners::state);
                let node = state.and_then(|state| state.nodes().get(&from));
                flight.may_be_there |= outgoing.may_be_there;
                flight.fail(match node {
                    Some(node) => failure.at_node(&node.name),
                    None => failure,
                });
            }
        }
        flight.waiting_for.retain(|node| *node != from);
        self.acknowledge_if_durable(outgoing.request, effects);
    }

    /// Answers the client of an operation once its row is durable on all replicas and the state is confirmed;
    /// until then, notes the step that it waits for.
    pub(super) fn acknowledge_if_durable(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        let confirmed = self.confirmed();
        let request =
            self.requests.slots.get_mut(&id).expect("an operation with a row in flight is in flight");
        let bucket = request.bucket;
        let existed = match &request.kind {
            ClientRequestKind::Modify { found, .. } => found.map(|found| found.exists),
            ClientRequestKind::Rewrite(_) => Some(true),
            ClientRequestKind::Unconditional(_) | ClientRequestKind::Read => None,
        };
        match &mut request.stage {
            RequestStage::InFlight(flight) if flight.waiting_for.is_empty() => {
                if let Some(error) = flight.error() {
                    self.row_ended(bucket, false, effects);
                    return self.finish(id, Err(error), effects);
                }
                if flight.reached == 0 {
                    self.row_ended(bucket, true, effects);
                    return self.relaunch(id, effects);
                }
                request.stage = RequestStage::Durable(flight.reached);
                self.row_ended(bucket, true, effects);
                self.acknowledge_if_durable(id, effects);
            }
            RequestStage::Durable(replicas) if confirmed => {
                assert!(*replicas > 0, "what is acknowledged is durable on a replica");
                let row = request.row.as_ref().expect("what is acknowledged was a row");
                let timestamp = row.timestamp();
                let written = DurableWrite { timestamp, existed, changed: true, replicas: *replicas };
                self.finish(id, Ok(written), effects);
            }
            RequestStage::Durable(_) => self.await_confirmation(id),
            _ => {}
        }
    }

    /// Sends the row again, under its timestamp, to the current replicas of the bucket.
    pub(super) fn relaunch(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        let request = self.requests.slots.get_mut(&id).expect("an operation that begins again is in flight");
        request.stage = RequestStage::Waiting;
        self.advance(id, effects);
    }

    /// Records that a row is no longer in progress; `everywhere` is true if all replicas have it or none has.
    fn row_ended(&mut self, bucket: BucketId, everywhere: bool, effects: &mut Vec<DistributorEffect>) {
        let entry =
            self.buckets.get_mut(&bucket).expect("a bucket is known while rows of it are on their way");
        assert!(entry.in_flight > 0, "a row that ends was counted when it was sent");
        entry.in_flight -= 1;
        let is_drained = entry.held && entry.in_flight == 0;
        if !everywhere {
            entry.settled = false;
            self.upkeep.schedule_check(bucket);
        }
        if is_drained {
            self.writes_drained(bucket, effects);
        }
    }

    /// Ends an operation whose deadline has passed.
    pub(super) fn expire(&mut self, id: RequestId, effects: &mut Vec<DistributorEffect>) {
        // The end of another expired operation may have ended it.
        let Some(request) = self.requests.slots.get_mut(&id) else { return };
        let bucket = request.bucket;
        let error = if request.sent().is_some() { RequestError::Unknown } else { RequestError::Late };
        if let RequestStage::InFlight(flight) = &mut request.stage {
            for node in std::mem::take(&mut flight.waiting_for) {
                self.peers.void_rows(node);
            }
            self.row_ended(bucket, false, effects);
        }
        self.finish(id, Err(error), effects);
    }

    /// Answers the client, and continues the operations that waited for this one.
    pub(super) fn finish(
        &mut self,
        id: RequestId,
        outcome: Result<DurableWrite, RequestError>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let request = self.requests.remove(id).expect("an operation is answered once");
        if let Some(claim) = request.kind.claim() {
            self.claims.end(claim);
        }
        let ClientRequest { ticket, kind, stage, id: document, part, .. } = request;
        let broken = part.and_then(|part| self.requests.parts.abort(part));
        let failure = outcome.as_ref().err().filter(|_| broken.is_some()).cloned();
        let kind_is_read = matches!(kind, ClientRequestKind::Read);
        match (kind, outcome) {
            (ClientRequestKind::Read, Err(error)) => {
                effects.push(DistributorEffect::Found { ticket, outcome: Err(error) })
            }
            (ClientRequestKind::Read, Ok(_)) => unreachable!("a read is answered with what it found"),
            (_, outcome) => effects.push(DistributorEffect::Written { ticket, outcome }),
        }
        if kind_is_read {
            return;
        }
        let mut next = Vec::new();
        match (document, stage) {
            (Some(document), RequestStage::InLane) => self.requests.lanes.forget(&document, id, &mut next),
            (Some(document), _) => self.requests.lanes.leave(&document, &mut next),
            (None, _) => {}
        }
        for id in next {
            let request = self.requests.slots.get_mut(&id);
            request.expect("an operation that waits in a lane is in flight").stage = RequestStage::Waiting;
            self.advance(id, effects);
        }
        let others = broken.into_iter().flatten().filter(|other| *other != id);
        for other in others {
            let error = failure.clone().expect("a part of a batch that was not sent fails as a whole");
            self.finish(other, Err(error), effects);
        }
    }
}
