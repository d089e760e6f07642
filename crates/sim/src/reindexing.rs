//! Reindexing: operators change how fields are indexed, mark types as ready and deploy, and the nodes write
//! the documents of these types again.
//!
//! Each node drives the real [`Reindexer`]. A document has the *rule* that it was indexed by: the generation
//! of the application that last changed the statements of its type, as far as the writing node knew. A page
//! of a walk is read from the node's storage, and each document with another rule than the node's is written
//! through the distributor, if it still has the version that was read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::reindexing::{
    BucketHolders, ChosenTypes, ReindexEffect, ReindexEvent, ReindexJobId, ReindexNotes, ReindexObstacle,
    ReindexRecord, ReindexWalk, ReindexedApplication, SharedNote, WalkedPage,
};
use millrace_cluster::{ClusterState, Incarnation, NodeFailure, NodeKey};
use millrace_document::{DocumentId, DocumentVersion, Timestamp};
use millrace_replication::distributor::{
    ClientWrite, DecidedModification, DistributorEvent, DocumentChange, DurableWrite, RequestError,
    RequestTicket,
};

use crate::clients::CLIENT_TIMEOUT;
use crate::deployments::SimPackage;
use crate::history::{ClientIntent, OperationId, RewrittenVersion};
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::node::RunningOperation;
use crate::world::{SimEvent, SimWorld};
use crate::{Sabotage, any_document};

/// Content cluster of all types.
const CLUSTER: &str = "sim";
/// Number of documents in a page.
const PAGE: usize = 2;
/// Time after which coordination is not expected to answer any more.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Notes in coordination: the real ones are keys with versions.
#[derive(Debug, Default)]
pub(crate) struct SimNotes {
    notes: BTreeMap<String, SharedNote>,
    revision: u64,
}

impl SimNotes {
    /// Writes notes if the last change of the record is the given one.
    fn write(&mut self, guard: Option<u64>, notes: Vec<(String, Option<Vec<u8>>)>) -> bool {
        if self.notes.get(ReindexNotes::RECORD).map(|note| note.changed) != guard {
            return false;
        }
        self.revision += 1;
        for (name, value) in notes {
            match value {
                Some(value) => {
                    let note = SharedNote { value: value.into(), changed: self.revision };
                    self.notes.insert(name, note);
                }
                None => drop(self.notes.remove(&name)),
            }
        }
        true
    }

    fn read(&self) -> ReindexNotes {
        ReindexNotes::read(&self.notes).expect("the nodes write what they can read")
    }
}

/// A page of a node that waits for its writes.
#[derive(Debug)]
pub(crate) struct SimWalk {
    job: ReindexJobId,
    walk: ReindexWalk,
    position: Option<String>,
    open: BTreeSet<RequestTicket>,
    obstacle: Option<ReindexObstacle>,
}

/// Reindexings as an observer of coordination knows them.
#[derive(Debug, Default)]
pub(crate) struct ReindexHistory {
    /// Rules of each generation of the application.
    rules: BTreeMap<u64, BTreeMap<&'static str, u64>>,
    /// Times at which reindexings took effect, by document type and the time of their mark.
    effective: BTreeMap<(String, u64), Duration>,
    ended: BTreeSet<(String, u64)>,
    /// Number of reindexings that have ended.
    pub ends: u64,
    /// Number of documents that were written again.
    pub rewritten: u64,
}

/// Content of a document: the operation that wrote it, its rule, and the client's operation that it is from.
pub(crate) fn body(operation: OperationId, rule: u64, origin: OperationId) -> Arc<[u8]> {
    [operation.0, rule, origin.0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(version: &DocumentVersion, at: usize) -> Option<u64> {
    let bytes = version.body.as_deref()?.get(8 * at..)?;
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Rule of a document; `None`: it is removed.
fn rule_of(version: &DocumentVersion) -> Option<u64> {
    word(version, 1)
}

/// The client's operation that a document is from.
pub(crate) fn origin_of(version: &DocumentVersion) -> Option<OperationId> {
    word(version, 2).map(OperationId)
}

/// The parts of a package that reindexing depends on, for a node that had another one active.
pub(crate) fn reindexed(before: Option<&SimPackage>, package: &SimPackage) -> ReindexedApplication {
    let types = package.types.iter().map(|name| Arc::from(*name)).collect();
    let changed: Vec<Arc<str>> = before.map_or_else(Vec::new, |before| {
        let differs = |name: &&&'static str| package.rule(name) != before.rule(name);
        package.types.iter().filter(differs).map(|name| Arc::from(*name)).collect()
    });
    ReindexedApplication {
        generation: package.generation,
        // A process that has started does not know how its application differs from the one before.
        based_on: before.map_or(0, |before| before.generation),
        types: BTreeMap::from([(Arc::from(CLUSTER), types)]),
        changed: ChosenTypes::from([(Arc::from(CLUSTER), changed)]),
    }
}

/// One action of an operator.
pub(crate) fn operate(world: &mut SimWorld) {
    let keys: Vec<NodeKey> = world.nodes.keys().copied().collect();
    let Some(key) = world.random.pick(&keys) else { return };
    match world.random.below(10) {
        0..3 => world.deploy_rule(key, true),
        3..8 => {
            world.mark(key);
            // The next deployment begins it; the nodes may not know the mark by then.
            let pause = world.random.micros(0, 1_000_000);
            world.pass(pause);
            world.deploy_rule(key, false);
            if world.random.permille(500) {
                drop_meanwhile(world, &keys);
            }
        }
        8 => world.deploy_rule(key, false),
        _ => world.set_speed(key),
    }
}

/// Drops groups, and removes a type or brings it back, while documents are being written again.
fn drop_meanwhile(world: &mut SimWorld, keys: &[NodeKey]) {
    for _ in 0..world.random.below(12) {
        let Some(key) = world.random.pick(keys) else { return };
        let id = any_document(world);
        match world.random.below(20) {
            0..3 => world.deploy(key),
            3..8 => world.ask(key, ClientIntent::DropGroup(id.group().clone(), id)),
            _ => world.ask(key, ClientIntent::DropExamined(id)),
        }
        // Others are put in their place.
        for _ in 0..world.random.below(4) {
            let id = any_document(world);
            world.ask(key, ClientIntent::Put(id));
        }
        let pause = world.random.micros(0, 600_000);
        world.pass(pause);
    }
}

/// Deploys a new rule, marks the type, and waits until the cluster without faults has reindexed it.
/// Violations are recorded.
pub(crate) fn reindex_all(world: &mut SimWorld) {
    let Some(key) = world.nodes.keys().next().copied() else { return };
    world.deploy_rule(key, true);
    world.pass(Duration::from_secs(30));
    world.mark(key);
    world.pass(Duration::from_secs(5));
    world.deploy_rule(key, false);
    world.come_to_rest(None);
    if world.wrong.is_none() {
        world.wrong = world.without_last_rule();
    }
}

impl SimWorld {
    /// Deploys, at a node, a package like the node's; with a new rule for the type if `changes` is set.
    fn deploy_rule(&mut self, key: NodeKey, changes: bool) {
        let Some(node) = self.nodes.get(&key).filter(|node| node.alive && !node.frozen) else { return };
        let based_on = node.package.generation;
        let next = Arc::new(node.package.with_changed_rules(changes));
        self.note(|| format!("n{key} deploys {next:?}"));
        let message = SimMessage::Publish { based_on, package: next };
        self.send(SimAddress::Node(key), SimAddress::Coordination, message);
    }

    /// Marks the type as ready, at a node.
    fn mark(&mut self, key: NodeKey) {
        let now = self.now;
        let Some(node) = self.nodes.get(&key) else { return };
        let now_ms = node.now(now).wall_us / 1_000;
        self.change_record(key, |record| record.types.mark(&chosen(), 1.0, now_ms));
    }

    /// Halts the reindexing of the type, or lets it continue.
    fn set_speed(&mut self, key: NodeKey) {
        let speed = if self.random.permille(300) { 0.0 } else { 1.0 };
        self.change_record(key, |record| drop(record.types.set_speed(&chosen(), speed)));
    }

    fn change_record(&mut self, key: NodeKey, change: impl FnOnce(&mut ReindexRecord)) {
        let Some(node) = self.nodes.get(&key).filter(|node| node.alive && !node.frozen) else { return };
        let Some(notes) = node.notes.as_ref() else { return };
        let (guard, mut record) = (notes.changed, notes.record.clone());
        change(&mut record);
        let incarnation = node.incarnation;
        self.note(|| format!("n{key} asks for the record {record:?}"));
        let notes = vec![record.note()];
        let message = SimMessage::WriteNotes { from: key, incarnation, job: None, guard, notes };
        self.send(SimAddress::Node(key), SimAddress::Coordination, message);
    }

    /// Lets every type continue whose reindexing is halted.
    pub fn unhalt(&mut self) {
        let guard = self.notes.notes.get(ReindexNotes::RECORD).map(|note| note.changed);
        let mut record = self.notes.read().record;
        record.types.set_speed(&chosen(), 1.0);
        record.types.runs_mut().for_each(|(_, _, run)| run.speed = 1.0);
        if guard.is_some() {
            self.write_notes(guard, vec![record.note()]);
        }
    }

    /// Writes notes in coordination.
    pub fn write_notes(&mut self, guard: Option<u64>, notes: Vec<(String, Option<Vec<u8>>)>) -> bool {
        if !self.notes.write(guard, notes) {
            return false;
        }
        let read = self.notes.read();
        for (_, document_type, run) in read.record.types.runs() {
            let id = (document_type.to_string(), run.ready_ms);
            let effective = *self.reindexings.effective.entry(id.clone()).or_insert(self.now);
            if run.ended_ms.is_some() && self.reindexings.ended.insert(id) {
                self.reindexings.ends += 1;
                let generation = run.generation;
                if let Some(outdated) = self.outdated(document_type, generation, effective) {
                    self.wrong.get_or_insert(format!("reindexing has ended too early: {outdated}"));
                }
            }
        }
        let revision = self.notes.revision;
        self.note(|| format!("notes {revision}: {read:?}"));
        let keys: Vec<NodeKey> = self.nodes.keys().copied().collect();
        keys.into_iter().for_each(|key| self.send_notes(key));
        true
    }

    /// Sends the notes to a node.
    pub fn send_notes(&mut self, key: NodeKey) {
        let (revision, notes) = (self.notes.revision, Arc::new(self.notes.read()));
        let message = SimMessage::Notes { revision, notes };
        self.send(SimAddress::Coordination, SimAddress::Node(key), message);
    }

    /// Receives notes at a node.
    pub fn notes_arrived(&mut self, key: NodeKey, revision: u64, notes: Arc<ReindexNotes>) {
        let unnoticed = self.options.sabotage == Some(Sabotage::SecondReindexingUnnoticed);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if revision < node.notes_revision || node.notes.as_ref() == Some(&notes) {
            return;
        }
        node.notes_revision = revision;
        node.notes = Some(Arc::clone(&notes));
        self.continue_removal(key, &notes);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let mut seen = ReindexNotes::clone(&notes);
        if unnoticed {
            // The generations are followed, and the node goes on with the reindexing that it knows.
            let first = node.first_run.get_or_insert_with(|| notes.record.clone());
            if first.types.runs().count() == 0 {
                *first = notes.record.clone();
            }
            let generation = seen.record.generation;
            seen.record = ReindexRecord { generation, ..first.clone() };
        }
        self.reindex(key, vec![ReindexEvent::Notes(Arc::new(seen))]);
    }

    /// Passes events to the reindexer of a node.
    pub fn reindex(&mut self, key: NodeKey, events: Vec<ReindexEvent>) {
        if !self.options.reindexing {
            return;
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if !node.alive || node.frozen {
            return;
        }
        let mut effects = Vec::new();
        let now = node.now(self.now);
        node.reindexer.handle(now, events, &mut effects);
        for effect in effects {
            self.reindex_effect(key, effect);
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if let Some(wake) = node.reindexer.next_wake() {
            let after = wake.saturating_sub(node.now(self.now).monotonic) * 1_000 / node.pace;
            let after = after.max(Duration::from_micros(500));
            let at = self.now + after;
            if node.reindexes_at.is_none_or(|known| known <= self.now || known > at) {
                node.reindexes_at = Some(at);
                let incarnation = node.incarnation;
                self.schedule(after, SimEvent::Reindex { node: key, incarnation, event: None });
            }
        }
    }

    fn reindex_effect(&mut self, key: NodeKey, effect: ReindexEffect) {
        let Some(incarnation) = self.nodes.get(&key).map(|node| node.incarnation) else { return };
        match effect {
            ReindexEffect::Write { job, guard, notes } => {
                let message = SimMessage::WriteNotes { from: key, incarnation, job: Some(job), guard, notes };
                self.send(SimAddress::Node(key), SimAddress::Coordination, message);
                let event = ReindexEvent::Written { job, outcome: Err(ReindexObstacle::Passing) };
                self.schedule(TIMEOUT, SimEvent::Reindex { node: key, incarnation, event: Some(event) });
            }
            ReindexEffect::Inspect { job, bucket } => {
                let outcome = self.inspect(key, bucket);
                let event = Some(ReindexEvent::Inspected { job, outcome });
                let takes = self.random.micros(10, 500);
                self.schedule(takes, SimEvent::Reindex { node: key, incarnation, event });
            }
            ReindexEffect::Walk { job, walk } => {
                if self.options.sabotage == Some(Sabotage::MarkedBeforeWalked) {
                    let page = WalkedPage { position: None, holds: true, confirmed: true };
                    let event = Some(ReindexEvent::Walked { job, outcome: Ok(page) });
                    self.schedule(Duration::ZERO, SimEvent::Reindex { node: key, incarnation, event });
                }
                let takes = self.random.micros(20, 20_000);
                self.schedule(takes, SimEvent::Walk { node: key, incarnation, job, walk });
            }
        }
    }

    fn inspect(
        &mut self,
        key: NodeKey,
        bucket: millrace_bucket::BucketId,
    ) -> Result<BucketHolders, ReindexObstacle> {
        let everything = self.options.sabotage == Some(Sabotage::PartialBucketsWalked);
        let node = self.nodes.get_mut(&key).ok_or(ReindexObstacle::Passing)?;
        let now = node.now(self.now);
        let unreported_counts = self.options.sabotage == Some(Sabotage::UnreportedNodesPassedOver);
        let holders = node.distributor.holders(bucket, now);
        match (holders, node.distributor.route(bucket, now)) {
            (Ok(holders), Ok(_)) if everything => {
                Ok(BucketHolders { nodes: vec![key], full: true, ..holders })
            }
            (Err(_), Ok(route)) if unreported_counts => {
                let nodes = node.distributor.readers(bucket, &route);
                let newest = node.distributor.newest();
                Ok(BucketHolders { version: route.version, nodes, full: route.full, newest })
            }
            (holders, _) => holders.map_err(|_| ReindexObstacle::Passing),
        }
    }

    /// Continues the reindexing of a node, unless its process has ended since.
    pub fn reindex_due(&mut self, (key, incarnation): (NodeKey, Incarnation), event: Option<ReindexEvent>) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.incarnation != incarnation || !node.alive {
            return;
        }
        if node.frozen {
            return self
                .schedule(Duration::from_millis(100), SimEvent::Reindex { node: key, incarnation, event });
        }
        match event {
            Some(event) => self.reindex(key, vec![event]),
            None => {
                node.reindexes_at = None;
                self.reindex(key, Vec::new());
            }
        }
    }

    /// Reads a page at a node, and begins to write its documents.
    pub fn walk(&mut self, (key, incarnation): (NodeKey, Incarnation), job: ReindexJobId, walk: ReindexWalk) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.incarnation != incarnation || !node.alive {
            return;
        }
        if node.frozen {
            let event = SimEvent::Walk { node: key, incarnation, job, walk };
            return self.schedule(Duration::from_millis(100), event);
        }
        let rule = node.package.rule(&walk.task.document_type);
        let after = walk.position.clone().unwrap_or_default();
        let mut page = node.storage.documents(walk.bucket);
        page.retain(|version| version.id.as_str() > &*after);
        page.retain(|version| version.id.document_type() == &*walk.task.document_type);
        let position = (page.len() > PAGE).then(|| page[PAGE - 1].id.as_str().to_owned());
        page.truncate(PAGE);
        let Some(state) = node.state.clone() else { return };
        page.retain(|version| {
            state.owner(state.bucket(version.id.location())) == Some(key) && rule_of(version) != Some(rule)
        });
        self.note(|| format!("n{key} walks {walk:?}: {} to write", page.len()));
        let mut events = Vec::new();
        let mut open = BTreeSet::new();
        for version in page {
            let (ticket, event) = self.rewrite(key, &state, version, (rule, walk.until));
            open.insert(ticket);
            events.push(event);
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.walk = Some(SimWalk { job, walk, position, open, obstacle: None });
        self.distribute(key, events);
        self.walk_ended(key);
    }

    /// The conditional write of a document by a rule.
    fn rewrite(
        &mut self,
        key: NodeKey,
        state: &ClusterState,
        read: DocumentVersion,
        (rule, until): (u64, Timestamp),
    ) -> (RequestTicket, DistributorEvent) {
        let id = read.id.clone();
        let origin = origin_of(&read).expect("every document is from an operation");
        let operation = self.history.begin(ClientIntent::Rewrite(id.clone()));
        let writer = OperationId(word(&read, 0).expect("every document is from an operation"));
        let base = RewrittenVersion { origin, writer, timestamp: read.timestamp };
        self.history.rewrites(operation, base);
        let floor = self.history.newest(&id);
        let bucket = state.bucket(id.location());
        let has = |at: Timestamp| at == floor;
        let holders = self
            .nodes
            .values()
            .filter(|node| node.storage.newest_of(bucket, &id).is_some_and(|version| has(version.timestamp)));
        let holders = holders.map(|node| node.key).collect();
        let now = self.now;
        let node = self.nodes.get_mut(&key).expect("the node walks");
        let deadline = node.now(now).monotonic + CLIENT_TIMEOUT;
        let ticket = RequestTicket(node.name());
        let type_removed = node.package.dropped.removed_at(id.document_type()).unwrap_or_default();
        let running = RunningOperation { operation, floor, type_removed, holders, hops: 0, part: None };
        node.in_flight.insert(ticket, running);
        let body = body(operation, rule, origin);
        let base = read.timestamp;
        let modify = move |found: Option<DocumentVersion>, body| {
            let is_same = found.is_some_and(|found| found.timestamp == base);
            Ok(if is_same { DecidedModification::Put(body) } else { DecidedModification::Nothing })
        };
        let change = match self.options.sabotage {
            Some(Sabotage::RewrittenLikeClients) => {
                DocumentChange::Modify { id, modify: Box::new(move |found| modify(found, body)) }
            }
            _ => DocumentChange::Rewrite { id, base, until, body },
        };
        (ticket, DistributorEvent::Write(ClientWrite { ticket, deadline, change }))
    }

    /// Records the outcome of a write of a node's page.
    pub fn rewritten(
        &mut self,
        key: NodeKey,
        ticket: RequestTicket,
        outcome: &Result<DurableWrite, RequestError>,
    ) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(walk) = node.walk.as_mut() else { return };
        if !walk.open.remove(&ticket) {
            return;
        }
        match outcome {
            Ok(written) => self.reindexings.rewritten += u64::from(written.changed),
            Err(RequestError::Failed(NodeFailure::DiskFull { reason })) => {
                walk.obstacle = Some(ReindexObstacle::Lasting(reason.clone()));
            }
            Err(_) => drop(walk.obstacle.get_or_insert(ReindexObstacle::Passing)),
        }
        self.walk_ended(key);
    }

    /// Answers a walk whose writes are answered.
    fn walk_ended(&mut self, key: NodeKey) {
        let always = self.options.sabotage == Some(Sabotage::EveryPageCounts);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(SimWalk { job, walk, position, obstacle, .. }) =
            node.walk.take_if(|walk| walk.open.is_empty())
        else {
            return;
        };
        let incarnation = node.incarnation;
        let holds = node.storage.has(walk.bucket);
        let confirmed = node.state.as_ref().is_some_and(|state| state.version() == walk.version)
            && node.distributor.confirms(walk.version, node.now(now));
        let page = WalkedPage { position, holds: holds || always, confirmed: confirmed || always };
        let outcome = obstacle.filter(|_| !always).map_or(Ok(page), Err);
        let event = Some(ReindexEvent::Walked { job, outcome });
        let takes = self.random.micros(10, 5_000);
        self.schedule(takes, SimEvent::Reindex { node: key, incarnation, event });
    }

    /// The cluster state as the reindexer of a node sees it.
    pub fn reindexing_state(&self, state: &Arc<ClusterState>) -> Arc<ClusterState> {
        if self.options.sabotage != Some(Sabotage::AbsenceIgnored) {
            return Arc::clone(state);
        }
        let mut nodes = state.nodes().clone();
        for node in nodes.values_mut().filter(|node| !node.state.serves()) {
            node.incarnation = Incarnation::NEVER;
        }
        let same = ClusterState::new(state.version(), nodes, state.distribution().clone());
        Arc::new(same.expect("its nodes were placed before").with_divided_groups(state.spread().clone()))
    }

    /// Records the rules of a package that was published.
    pub fn rules_published(&mut self, package: &SimPackage) {
        self.reindexings.rules.insert(package.generation, package.rules.clone());
    }

    /// Reason for which reindexing is not at rest; `None`: it is.
    pub fn reindexing_unrest(&self) -> Option<String> {
        if !self.options.reindexing {
            return None;
        }
        let read = self.notes.read();
        let newest = self.coordination.package().generation;
        // The first package was not deployed.
        if read.record.generation != newest && newest > 1 {
            return Some(format!("generation {newest} is not taken into account: {:?}", read.record));
        }
        if let Some((_, name, run)) = read.record.types.runs().find(|(_, _, run)| run.is_active()) {
            return Some(format!("{name} is being reindexed: {run:?}, {read:?}"));
        }
        let state = self.coordination.state().map(|state| &**state);
        let progress = read.status(state).progress();
        if progress < 1.0 {
            return Some(format!("reindexing has ended at {progress}"));
        }
        let mark = self.notes.notes.keys().find(|name| *name != ReindexNotes::RECORD)?;
        Some(format!("{mark} outlives its reindexing"))
    }

    /// A document that was acknowledged before this time, and that has an older rule than that of this
    /// generation: its newest version on all nodes, running or not.
    fn outdated(&self, document_type: &str, generation: u64, effective: Duration) -> Option<String> {
        let rule = self.rule_at(generation, document_type)?;
        let mut outdated = self.newest_documents(document_type).filter(|(_, newest)| {
            let origin = origin_of(newest).expect("every document is from an operation");
            let stored_before = self.history.acknowledged_at(origin).is_some_and(|at| at <= effective);
            stored_before && rule_of(newest).is_some_and(|found| found < rule)
        });
        outdated.next().map(|(id, newest)| format!("{id} has not rule {rule}: {newest:?}"))
    }

    /// A document that has not the newest rule.
    fn without_last_rule(&self) -> Option<String> {
        let package = self.coordination.package();
        let all = package.types.iter().flat_map(|name| {
            let rule = package.rule(name);
            self.newest_documents(name).map(move |(id, newest)| (id, rule, newest))
        });
        let (id, rule, newest) = all.into_iter().find(|(_, rule, newest)| rule_of(newest) != Some(*rule))?;
        Some(format!("{id} has rule {:?} at the end, not {rule}", rule_of(&newest)))
    }

    fn rule_at(&self, generation: u64, document_type: &str) -> Option<u64> {
        self.reindexings.rules.get(&generation)?.get(document_type).copied()
    }

    /// Documents of a type with their newest versions on any node.
    fn newest_documents(&self, document_type: &str) -> impl Iterator<Item = (DocumentId, DocumentVersion)> {
        let ids = self.history.documents().into_iter();
        let of_type = ids.filter(move |id| id.document_type() == document_type);
        of_type.filter_map(|id| {
            let versions = self.nodes.values().filter_map(|node| node.storage.newest_anywhere(&id));
            let newest = versions.max_by_key(|version| version.timestamp)?;
            newest.body.is_some().then_some((id, newest))
        })
    }
}

fn chosen() -> ChosenTypes {
    let types = SimPackage::default().types;
    ChosenTypes::from([(Arc::from(CLUSTER), types.into_iter().map(Arc::from).collect())])
}
