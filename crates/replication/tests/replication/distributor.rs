//! Tests of an owner and its writes while its buckets change owner: its inputs are scripted, and its outputs
//! are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, ClusterVersion, DropHorizon, Incarnation, MachineTime, NodeFailure, NodeKey, NodeReply,
    NodeRequest, NodeResponse, ReplicaContent, ReportedReplica, RequestFence, RowContent, UnfinishedRow,
};
use millrace_document::{DocumentId, DocumentVersion, DropScope, Timestamp};
use millrace_replication::distributor::{
    ClientWrite, DecidedModification, Distributor, DistributorEffect, DistributorEvent, DocumentChange,
    DurableWrite, NoRoute, RequestError, RequestTicket, Settings,
};

use crate::states;

const ME: NodeKey = NodeKey(0);

/// State of nodes with two replicas of each bucket, by their letters.
fn state(version: u64, letters: &str) -> Arc<ClusterState> {
    states::state(version, letters, 2)
}

/// A document that node 0 owns while all serve.
fn id() -> DocumentId {
    let all = state(1, "uuu");
    let ids = (0..).map(|number| DocumentId::parse(&format!("id:n:note:n={number}:x")).expect("an id"));
    ids.into_iter().find(|id| all.owner(all.bucket(id.location())) == Some(ME)).expect("it owns some")
}

/// Another document of its group.
fn other() -> DocumentId {
    DocumentId::new("n", "note", id().group(), "y").expect("all its parts are there")
}

fn bucket() -> BucketId {
    state(1, "uuu").bucket(id().location())
}

fn version(timestamp: u64) -> DocumentVersion {
    DocumentVersion { id: id(), timestamp: Timestamp(timestamp), body: Some(Arc::from(&b"body"[..])) }
}

/// Node 0's distributor, with its unanswered requests to nodes.
struct OwnerHarness {
    distributor: Distributor,
    now: Duration,
    asked: Vec<(NodeKey, RequestFence, NodeRequest)>,
    decisions: Vec<DistributorEffect>,
    written: Vec<Result<DurableWrite, RequestError>>,
    version: u64,
    tickets: u64,
}

impl OwnerHarness {
    /// Starts with a state in which all serve, and each node has reported its replicas of the bucket: nodes 0
    /// and 1 have one with this timestamp.
    fn new(newest: u64) -> Self {
        let mut owner = OwnerHarness::unreported();
        owner.answer_reports(newest);
        owner
    }

    fn unreported() -> Self {
        OwnerHarness::unreported_with(Settings::default())
    }

    fn unreported_with(settings: Settings) -> Self {
        let mut owner = OwnerHarness {
            distributor: Distributor::new(ME, Incarnation::new(1), settings),
            now: Duration::from_secs(100),
            asked: Vec::new(),
            decisions: Vec::new(),
            written: Vec::new(),
            version: 0,
            tickets: 0,
        };
        owner.adopt(1, "uuu");
        owner
    }

    fn horizon(&mut self) -> Result<DropHorizon, RequestError> {
        let now = self.now();
        self.distributor.drop_horizon(bucket(), id().group(), now)
    }

    fn now(&self) -> MachineTime {
        MachineTime { monotonic: self.now, wall_us: 1_000_000 + self.now.as_micros() as u64 }
    }

    fn handle(&mut self, events: impl IntoIterator<Item = DistributorEvent>) {
        self.now += Duration::from_millis(1);
        let now = self.now();
        let mut effects = Vec::new();
        self.distributor.handle(now, events, &mut effects);
        for effect in effects {
            match effect {
                DistributorEffect::Send { to, fence, request } => self.asked.push((to, fence, request)),
                DistributorEffect::Written { outcome, .. } => self.written.push(outcome),
                DistributorEffect::Decide { .. } => self.decisions.push(effect),
                DistributorEffect::Found { .. } | DistributorEffect::FetchState { .. } => {}
            }
        }
    }

    fn adopt(&mut self, version: u64, letters: &str) {
        self.version = version;
        self.asked.clear();
        let asked = self.now;
        self.handle([
            DistributorEvent::State(state(version, letters)),
            DistributorEvent::Confirmed { version: ClusterVersion::new(version), asked },
        ]);
    }

    /// Confirms the state once more.
    fn confirm(&mut self) {
        let (version, asked) = (ClusterVersion::new(self.version), self.now);
        self.handle([DistributorEvent::Confirmed { version, asked }]);
    }

    /// Answers all requests of this kind.
    fn answer(&mut self, with: impl Fn(NodeKey, &NodeRequest) -> Option<NodeResponse>) {
        let version = ClusterVersion::new(self.version);
        let mut replies = Vec::new();
        self.asked.retain(|(from, fence, request)| {
            let response = with(*from, request);
            let number = fence.number;
            replies.extend(response.clone().map(|response| DistributorEvent::Reply {
                from: *from,
                number,
                reply: NodeReply { version, response },
            }));
            response.is_none()
        });
        self.handle(replies);
    }

    /// Reports of all nodes: 0 and 1 have a replica with a row of this time, unless it is 0.
    fn answer_reports(&mut self, newest: u64) {
        self.answer(|from, request| {
            let info =
                ReportedReplica { complete: true, newest: Timestamp(newest), ..ReportedReplica::default() };
            let has = from.0 < 2 && newest > 0;
            let replicas = if has { vec![(bucket(), info)] } else { Vec::new() };
            matches!(request, NodeRequest::Owned { .. })
                .then_some(NodeResponse::Replicas { replicas, newest: Timestamp(newest) })
        });
    }

    /// Answers every read of the document with this version, or with none if the time is 0.
    fn read(&mut self, newest: u64) {
        self.answer(|_, request| {
            matches!(request, NodeRequest::Read { .. })
                .then(|| NodeResponse::Document((newest > 0).then(|| version(newest))))
        });
    }

    fn write(&mut self, change: DocumentChange) {
        self.tickets += 1;
        let deadline = self.now + Duration::from_secs(100);
        self.handle([DistributorEvent::Write(ClientWrite {
            ticket: RequestTicket(self.tickets),
            deadline,
            change,
        })]);
    }

    fn modify(&mut self) {
        let modify = Box::new(|_| Ok(DecidedModification::Put(Arc::from(&b"changed"[..]))));
        self.write(DocumentChange::Modify { id: id(), modify });
    }

    /// Rewrites the version of this time, not later than `until`.
    fn rewrite(&mut self, base: u64, until: Timestamp) {
        let body = Arc::from(&b"again"[..]);
        self.write(DocumentChange::Rewrite { id: id(), base: Timestamp(base), until, body });
    }

    /// Drops the group of the document: all of it, or up to a horizon.
    fn drop_group(&mut self, until: Option<DropHorizon>) {
        let scope = DropScope::Group { document_type: None, group: id().group().clone() };
        self.write(DocumentChange::Drop { bucket: bucket(), scope, until });
    }

    /// All nodes make their rows durable.
    fn apply(&mut self) {
        self.answer(|_, request| {
            matches!(request, NodeRequest::Apply(_)).then_some(NodeResponse::Applied(Vec::new()))
        });
    }

    /// Outcomes since the last call.
    fn outcomes(&mut self) -> Vec<String> {
        let shown = |outcome: &Result<DurableWrite, RequestError>| match outcome {
            Ok(DurableWrite { changed: false, .. }) => "unchanged".to_owned(),
            outcome => described(outcome),
        };
        std::mem::take(&mut self.written).iter().map(shown).collect()
    }

    /// Runs the pending decisions.
    fn decide(&mut self) {
        for effect in std::mem::take(&mut self.decisions) {
            let DistributorEffect::Decide { decision, modify, current } = effect else { continue };
            self.handle([DistributorEvent::Decided { decision, outcome: (modify.0)(current) }]);
        }
    }

    /// Times of the unanswered rows, for each node.
    fn rows(&self) -> Vec<(u16, u64)> {
        let rows = |(to, _, request): &(NodeKey, RequestFence, NodeRequest)| match request {
            NodeRequest::Apply(rows) => rows.iter().map(|row| (to.0, row.content.timestamp().0)).collect(),
            _ => Vec::new(),
        };
        let mut rows: Vec<(u16, u64)> = self.asked.iter().flat_map(rows).collect();
        rows.sort_unstable();
        rows
    }
}

/// Outcome as one word; for a write to be finished elsewhere, with the version that it was decided from.
fn described(outcome: &Result<DurableWrite, RequestError>) -> String {
    match outcome {
        Ok(_) => "written".to_owned(),
        Err(RequestError::Moved { unfinished: None, .. }) => "moved".to_owned(),
        Err(RequestError::Moved { owner, unfinished: Some(UnfinishedRow { base, .. }), .. }) => {
            let (owner, base) = (owner.map(|owner| owner.0), base.map(|base| base.0));
            format!("to be ended by {owner:?} after {base:?}")
        }
        Err(RequestError::Overtaken) => "overtaken".to_owned(),
        Err(other) => other.to_string(),
    }
}

#[test]
fn what_waits_for_a_bucket_waits_on_when_another_state_comes() {
    let mut owner = OwnerHarness::unreported();
    owner.write(DocumentChange::Put { id: id(), body: Arc::from(&b"body"[..]) });
    assert_eq!(owner.rows(), [], "not all nodes have said what they have");
    owner.adopt(2, "uum");
    owner.answer_reports(5);
    assert_eq!(owner.rows().iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_decided_modification_is_written_only_if_nothing_was_written_since() {
    /// Checks a row decided from the version of time 5, and sent before the change of state or not; then the
    /// newest version has this time.
    #[track_caller]
    fn check(is_sent: bool, newest_later: u64, expected: &str) {
        let mut owner = OwnerHarness::new(5);
        owner.modify();
        owner.read(5);
        if is_sent {
            owner.decide();
        }
        let sent = owner.rows().first().map(|(_, timestamp)| *timestamp);
        assert_eq!(sent.is_some(), is_sent);
        // A state in between was missed: another node may have owned by it.
        owner.adopt(3, "uuu");
        let newest = if newest_later == u64::MAX { sent.expect("it was sent") } else { newest_later };
        owner.answer_reports(newest);
        owner.decide();
        owner.read(newest);
        let rows = owner.rows();
        match owner.written.first() {
            Some(outcome) => assert_eq!(described(outcome), expected),
            None => {
                assert_eq!(expected, "sent");
                assert_eq!(rows.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1]);
                assert!(sent.is_none_or(|sent| rows[0].1 == sent), "under its timestamp");
            }
        }
    }
    check(false, 5, "sent");
    check(false, 6, "moved");
    check(true, 5, "sent");
    // Some replica has it already.
    check(true, u64::MAX, "sent");
    check(true, 6, "overtaken");
}

#[test]
fn a_new_owner_ends_what_still_holds() {
    /// Checks a row of time 20, decided from the version `base`; the newest version has this time.
    #[track_caller]
    fn check(base: Option<u64>, newest: u64, expected: &str) {
        let mut owner = OwnerHarness::new(newest);
        let content = Arc::new(RowContent::Version(version(20)));
        let base = base.map(Timestamp);
        owner.write(DocumentChange::Finish(UnfinishedRow { bucket: bucket(), content, base }));
        owner.read(newest);
        match owner.written.first() {
            Some(outcome) => assert_eq!(described(outcome), expected),
            None => assert_eq!((expected, owner.rows()), ("sent", vec![(0, 20), (1, 20)])),
        }
    }
    check(None, 5, "sent");
    check(None, 20, "sent");
    check(None, 21, "overtaken");
    check(Some(5), 5, "sent");
    check(Some(5), 20, "sent");
    check(Some(5), 6, "overtaken");
    check(Some(5), 21, "overtaken");
    check(Some(0), 5, "overtaken");
}

#[test]
fn who_stops_says_who_can_end_what_it_has_begun() {
    let body = || Arc::from(&b"body"[..]);
    let heir = state(2, "muu").owner(bucket()).expect("two serve").0;
    let mut owner = OwnerHarness::new(5);
    owner.write(DocumentChange::Put { id: id(), body: body() });
    owner.adopt(2, "muu");
    assert_eq!(described(&owner.written[0]), format!("to be ended by Some({heir}) after None"));

    let mut owner = OwnerHarness::new(5);
    owner.modify();
    owner.read(5);
    owner.decide();
    owner.adopt(2, "muu");
    assert_eq!(described(&owner.written[0]), format!("to be ended by Some({heir}) after Some(5)"));

    // Later operations, and operations that are being handed to another owner themselves, go to the new
    // owner.
    owner.write(DocumentChange::Remove(id()));
    let content = Arc::new(RowContent::Version(version(20)));
    owner.write(DocumentChange::Finish(UnfinishedRow {
        bucket: bucket(),
        content,
        base: Some(Timestamp(9)),
    }));
    assert_eq!(described(&owner.written[1]), "moved");
    assert_eq!(described(&owner.written[2]), format!("to be ended by Some({heir}) after Some(9)"));
}

#[test]
fn a_write_is_said_to_have_failed_only_if_no_replica_can_have_it() {
    let full = || NodeFailure::DiskFull { reason: "full".to_owned() };
    let broken = || NodeFailure::Storage { reason: "broken".to_owned() };
    let cases: [(Option<NodeFailure>, Option<NodeFailure>, &str); 7] = [
        (None, None, "written"),
        (Some(full()), Some(full()), "failed"),
        (Some(full()), None, "partial"),
        (None, Some(full()), "partial"),
        // What a sync failed for can be there after a restart.
        (Some(broken()), Some(full()), "partial"),
        (Some(broken()), None, "partial"),
        (Some(broken()), Some(broken()), "partial"),
    ];
    for (first, second, expected) in &cases {
        let mut owner = OwnerHarness::new(5);
        owner.write(DocumentChange::Put { id: id(), body: Arc::from(&b"body"[..]) });
        for (node, failure) in [first, second].into_iter().enumerate() {
            owner.answer(|from, request| {
                let failed = failure.iter().map(|failure| (0, failure.clone())).collect();
                let is_for = from == NodeKey(node as u16) && matches!(request, NodeRequest::Apply(_));
                is_for.then_some(NodeResponse::Applied(failed))
            });
        }
        let found = match owner.written.first() {
            Some(Ok(_)) => "written",
            Some(Err(RequestError::Failed(_))) => "failed",
            Some(Err(RequestError::Partial(_))) => "partial",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, *expected, "{first:?}, {second:?}");
    }
}

#[test]
fn a_drop_reaches_no_row_that_was_in_flight_when_its_horizon_was_taken() {
    let put = || DocumentChange::Put { id: id(), body: Arc::from(&b"body"[..]) };
    let horizon = |owner: &mut OwnerHarness| owner.horizon().expect("it owns the bucket");
    let mut owner = OwnerHarness::new(5);
    assert!(horizon(&mut owner).until >= Timestamp(5));
    owner.write(put());
    let sent = owner.rows()[0].1;
    assert!(horizon(&mut owner).until < Timestamp(sent), "replicas may not have it yet");
    owner.apply();
    let until = horizon(&mut owner);
    assert!(until.until >= Timestamp(sent), "all replicas have it");
    owner.write(put());
    assert!(owner.rows()[0].1 > until.until.0, "what is written since is later");
    owner.apply();
    owner.drop_group(Some(until));
    assert_eq!(owner.rows(), [(0, until.until.0), (1, until.until.0)]);
    owner.apply();
    assert_eq!(owner.written.iter().map(described).collect::<Vec<_>>(), ["written", "written", "written"]);

    // A previous owner may have handed over a row of any time to be finished.
    let content = Arc::new(RowContent::Version(version(20)));
    owner.write(DocumentChange::Finish(UnfinishedRow { bucket: bucket(), content, base: None }));
    owner.drop_group(Some(until));
    assert_eq!(owner.written.last().map(described).as_deref(), Some("moved"));

    // Another node may have owned the bucket in between.
    let mut owner = OwnerHarness::new(5);
    let until = horizon(&mut owner);
    owner.adopt(3, "uuu");
    owner.answer_reports(9);
    owner.drop_group(Some(until));
    assert_eq!(owner.written.last().map(described).as_deref(), Some("moved"));
    assert_eq!(owner.rows(), []);
}

#[test]
fn a_replica_with_too_much_to_do_is_left_alone_for_a_while() {
    let mut owner = OwnerHarness::new(5);
    owner.write(DocumentChange::Remove(id()));
    let sent = owner.rows();
    assert_eq!(sent.len(), 2);
    owner.answer(|from, request| {
        let failed = if from.0 == 1 { vec![(0, NodeFailure::Overloaded)] } else { Vec::new() };
        matches!(request, NodeRequest::Apply(_)).then_some(NodeResponse::Applied(failed))
    });
    assert_eq!(owner.rows(), []);
    owner.now += Settings::default().retry;
    owner.handle([]);
    assert_eq!(owner.rows(), [sent[1]]);
    owner.answer(|_, request| {
        matches!(request, NodeRequest::Apply(_)).then_some(NodeResponse::Applied(Vec::new()))
    });
    assert_eq!(owner.written.iter().map(described).collect::<Vec<_>>(), ["written"]);
}

#[test]
fn awaited_replicas_are_made_equal_first() {
    let mut owner = OwnerHarness::unreported_with(Settings { operations_max: 1, ..Settings::default() });
    let all = state(1, "uuu");
    let own: Vec<BucketId> = all.buckets().filter(|bucket| all.owner(*bucket) == Some(ME)).collect();
    // Each node has different rows.
    owner.answer(|from, request| {
        let content = ReplicaContent { documents: 1, checksum: from.0.into(), removals_since: Timestamp(0) };
        let info = ReportedReplica { content, complete: true, newest: Timestamp(5) };
        let has = own.iter().filter(|bucket| all.ideal(**bucket).contains(&from));
        let replicas = has.map(|bucket| (*bucket, info)).collect();
        matches!(request, NodeRequest::Owned { .. })
            .then_some(NodeResponse::Replicas { replicas, newest: Timestamp(5) })
    });
    let merged = |owner: &OwnerHarness| -> BTreeSet<BucketId> {
        let merged = owner.asked.iter().filter_map(|(_, _, request)| match request {
            NodeRequest::Info { bucket, .. } | NodeRequest::Pull { bucket, .. } => Some(*bucket),
            _ => None,
        });
        merged.collect()
    };
    let (first, last) = (own[0], own[own.len() - 1]);
    assert_eq!(merged(&owner), [first].into());
    let route = owner.distributor.route(last, owner.now()).expect("it has something of it");
    assert!(!route.full);
    let broken = NodeFailure::Storage { reason: "broken".to_owned() };
    owner.answer(|_, request| {
        let is_of = matches!(request, NodeRequest::Info { .. } | NodeRequest::Pull { .. });
        is_of.then(|| NodeResponse::Failed(broken.clone()))
    });
    assert_eq!(merged(&owner), [last].into());
}

#[test]
fn a_first_write_that_was_given_up_is_one_that_replicas_may_lack() {
    let mut owner = OwnerHarness::unreported();
    owner.answer_reports(0);
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::new());
    owner.write(DocumentChange::Put { id: id(), body: Arc::from(&b"body"[..]) });
    let sent = Timestamp(owner.rows()[0].1);
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::from([(bucket(), sent)]));
    // A replica may have it; no answer arrives.
    owner.now += Duration::from_secs(101);
    owner.confirm();
    assert_eq!(owner.written.len(), 1, "it was given up");
    let route = owner.distributor.route(bucket(), owner.now());
    assert_eq!(route, Err(NoRoute::Nothing), "nothing that was acknowledged can be missing");
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::from([(bucket(), Timestamp(0))]));
    // The replicas say that they have the same.
    for _ in 0..10 {
        owner.now += Duration::from_secs(1);
        owner.confirm();
        owner.answer(|_, request| {
            let info = ReportedReplica { complete: true, newest: sent, ..ReportedReplica::default() };
            matches!(request, NodeRequest::Info { .. })
                .then(|| NodeResponse::Replicas { replicas: vec![(bucket(), info)], newest: sent })
        });
    }
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::new());
}

#[test]
fn replicas_may_lack_what_a_node_has_that_has_come_back_and_not_reported() {
    let mut owner = OwnerHarness::new(5);
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::new());
    // The owner goes on with its buckets.
    owner.adopt(2, "uur");
    assert!(owner.distributor.route(bucket(), owner.now()).is_ok_and(|route| route.full));
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::from([(bucket(), Timestamp(0))]));
    owner.answer_reports(5);
    assert_eq!(owner.distributor.oldest_writes(), BTreeMap::new());
}

const ALWAYS: Timestamp = Timestamp(u64::MAX);

#[test]
fn a_rewrite_takes_the_place_of_its_version_only() {
    let mut owner = OwnerHarness::new(5);
    owner.rewrite(5, ALWAYS);
    owner.read(6);
    assert_eq!(owner.outcomes(), ["unchanged"]);
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    owner.apply();
    assert_eq!(owner.outcomes(), ["written"]);
    // Another node that learns of a removal of the type later counts on that time.
    owner.rewrite(5, Timestamp(7));
    owner.read(5);
    assert_eq!((owner.outcomes(), owner.rows()), (vec!["moved".to_owned()], Vec::new()));
}

#[test]
fn a_group_that_is_being_examined_is_not_rewritten() {
    let mut owner = OwnerHarness::new(5);
    let until = owner.horizon().expect("it owns the bucket");
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    assert_eq!((owner.outcomes(), owner.rows()), (vec!["moved".to_owned()], Vec::new()));
    owner.drop_group(Some(until));
    owner.rewrite(5, ALWAYS);
    assert_eq!(owner.outcomes(), ["moved"], "a replica may not have the drop yet");
    owner.apply();
    assert_eq!(owner.outcomes(), ["written"]);
    owner.rewrite(5, ALWAYS);
    owner.read(until.until.0);
    assert_eq!(owner.outcomes(), ["unchanged"]);

    // The rewrite came first: its row is not later than the horizon, which reaches it too.
    let mut owner = OwnerHarness::new(5);
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    let sent = owner.rows()[0].1;
    assert!(owner.horizon().expect("it owns the bucket").until >= Timestamp(sent));
    // A row of a client that is earlier must not be reached, so that there is no such horizon.
    let mut owner = OwnerHarness::new(5);
    owner.write(DocumentChange::Put { id: other(), body: Arc::from(&b"body"[..]) });
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    assert_eq!(owner.horizon().err().map(|error| described(&Err(error))).as_deref(), Some("moved"));

    // A client that does not come back holds up nothing for long.
    let mut owner = OwnerHarness::new(5);
    let until = owner.horizon().expect("it owns the bucket");
    owner.now += Duration::from_secs(11);
    owner.confirm();
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    assert_eq!(owner.rows().len(), 2);
    owner.drop_group(Some(until));
    assert_eq!(owner.outcomes(), ["moved"]);
}

#[test]
fn what_was_read_before_a_drop_is_not_written_after_it() {
    for name in ["rewrite", "modification"] {
        let begin = |owner: &mut OwnerHarness| match name {
            "rewrite" => owner.rewrite(5, ALWAYS),
            _ => owner.modify(),
        };
        // The drop is sent, and ends, while the document is being read.
        let mut owner = OwnerHarness::new(5);
        begin(&mut owner);
        owner.drop_group(None);
        owner.apply();
        owner.read(5);
        owner.decide();
        assert_eq!(
            (owner.outcomes(), owner.rows()),
            (vec!["written".to_owned(), "moved".to_owned()], vec![]),
            "{name}"
        );
        // The document is read while the drop is on its way.
        owner.drop_group(None);
        begin(&mut owner);
        assert_eq!(owner.outcomes(), ["moved"], "{name}");
    }
    // A rewrite is made anew by the next owner, or by this one if another may have owned the bucket.
    let mut owner = OwnerHarness::new(5);
    owner.rewrite(5, ALWAYS);
    owner.adopt(3, "uuu");
    assert_eq!(owner.outcomes(), ["moved"]);
    owner.answer_reports(5);
    owner.rewrite(5, ALWAYS);
    owner.read(5);
    owner.adopt(4, "muu");
    assert!(matches!(owner.written[..], [Err(RequestError::Unknown)]), "{:?}", owner.written);
}
