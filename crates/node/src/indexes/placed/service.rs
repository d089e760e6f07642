//! The running part of a node's placed indexes: it carries out what its copies need, and answers other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_cluster::NodeKey;
use millrace_document::Timestamp;
use millrace_env::{Disk, LatencyHistogram, unix_time};
use millrace_index::{BlockCache, Error as CopyError, HeldExports};
use millrace_index_feed::OwnerPosition;
use millrace_index_placement::{CopyId, PlacementSettings, PlacementTable};
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::super::IndexDefinition;
use super::super::opened::IndexDirectory;
use super::cluster::PlacedCluster;
use super::copies::{CopyAction, DueFlush, NodeCopies};
use super::erasing::PlacedErasure;
use super::message::{PlacedAnswer, PlacedQuestion};
use super::reports::PlacementReporter;
use super::source::PlacedSource;
use crate::Error;

/// Interval at which the service looks after its copies.
const TICK: Duration = Duration::from_secs(1);

/// Number of ticks between two closings of the feed.
const CLOSING_TICKS: u64 = 5;

/// Time for the answer of a node.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Bytes of blocks that all copies keep in memory.
const CACHE_BYTES: u64 = 32 << 20;

/// Time after which an offer that is not read is closed.
const EXPORT_IDLE: Duration = Duration::from_secs(60);

/// Parts of a service.
pub(super) struct PlacedServiceParts {
    pub cluster: Arc<dyn PlacedCluster>,
    pub source: Arc<PlacedSource>,
    pub reporter: Arc<PlacementReporter>,
    pub table: watch::Receiver<Option<Arc<PlacementTable>>>,
    pub definitions: Arc<KnownDefinitions>,
    pub erasure: Arc<PlacedErasure>,
    /// Directory of the copies.
    pub root: std::path::PathBuf,
    pub disk: Arc<dyn Disk>,
    pub runtime: Handle,
}

/// Placed definitions of the active application, by their hashes.
#[derive(Default)]
pub(super) struct KnownDefinitions {
    /// Those of the present application, in the order of their declaration. Indexes with the same keys have
    /// one hash, and are all here.
    present: RwLock<Vec<Arc<IndexDefinition>>>,
    by_hash: RwLock<BTreeMap<u64, Arc<IndexDefinition>>>,
    /// Earlier ones, which serve until those that replace them can.
    former: RwLock<BTreeMap<u64, Arc<IndexDefinition>>>,
    /// Wakes the service when they change.
    pub changed: Notify,
}

impl KnownDefinitions {
    pub fn set(&self, definitions: &[Arc<IndexDefinition>]) {
        *self.present.write() = definitions.to_vec();
        let by_hash = definitions.iter().map(|definition| (definition.hash, Arc::clone(definition)));
        let former = std::mem::replace(&mut *self.by_hash.write(), by_hash.collect());
        self.former.write().extend(former);
        self.changed.notify_one();
    }

    /// Forgets earlier definitions that a table does not have.
    fn forget_unused(&self, table: &PlacementTable) {
        let mut former = self.former.write();
        if !former.is_empty() {
            let used: BTreeSet<u64> = table.indexes().values().map(|index| index.definition.0).collect();
            former.retain(|hash, _| used.contains(hash));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_hash.read().is_empty()
    }

    /// A definition of this hash; of several any, since all have the same entries.
    pub fn get(&self, hash: u64) -> Option<Arc<IndexDefinition>> {
        let present = self.by_hash.read().get(&hash).cloned();
        present.or_else(|| self.former.read().get(&hash).cloned())
    }

    /// All of the present application, in the order of their declaration.
    pub fn all(&self) -> Vec<Arc<IndexDefinition>> {
        self.present.read().clone()
    }
}

/// The running part.
pub(super) struct PlacedService {
    pub cluster: Arc<dyn PlacedCluster>,
    pub source: Arc<PlacedSource>,
    reporter: Arc<PlacementReporter>,
    pub table: watch::Receiver<Option<Arc<PlacementTable>>>,
    pub definitions: Arc<KnownDefinitions>,
    pub erasure: Arc<PlacedErasure>,
    pub place: Arc<IndexDirectory>,
    pub copies: Mutex<NodeCopies>,
    /// Held while copies are written for which it is time.
    writing: Mutex<()>,
    /// Held by the task that waits for a look at the copies.
    looking: Arc<tokio::sync::Mutex<()>>,
    /// Held by the task that changes the copies, or waits for that.
    changing: Arc<tokio::sync::Mutex<()>>,
    pub runtime: Handle,
    pub exports: Mutex<HeldExports>,
    pub base: Instant,
    /// Number of imports that are in progress.
    pub importing: AtomicUsize,
    /// Wakes those that wait for changes.
    pub applied: watch::Sender<()>,
    /// Number of scans that were sent, so that copies take turns.
    pub turn: AtomicUsize,
    /// Held while a copy is verified.
    pub verifying: Arc<tokio::sync::Mutex<()>>,
    /// Number of documents that verifications have repaired.
    pub repaired: AtomicU64,
    /// Times of the scans of copies.
    pub scans: LatencyHistogram,
    /// Number of scans of copies that lacked something, or lagged.
    pub scans_behind: AtomicU64,
    is_stopped: AtomicBool,
}

impl PlacedService {
    /// Starts the service, which does nothing before the application declares placed indexes or the table
    /// gives the node copies.
    pub fn start(parts: PlacedServiceParts) -> Arc<Self> {
        let PlacedServiceParts {
            cluster,
            source,
            reporter,
            table,
            definitions,
            erasure,
            root,
            disk,
            runtime,
        } = parts;
        let place = Arc::new(IndexDirectory { root, disk, cache: Arc::new(BlockCache::new(CACHE_BYTES)) });
        let run = unix_time().as_micros() as u64;
        let service = Arc::new(PlacedService {
            copies: Mutex::new(NodeCopies::new(Arc::clone(&place), cluster.own(), run)),
            writing: Mutex::default(),
            looking: Arc::default(),
            changing: Arc::default(),
            place,
            cluster,
            source,
            reporter,
            table,
            definitions,
            erasure,
            exports: Mutex::new(HeldExports::new(EXPORT_IDLE, run)),
            base: Instant::now(),
            importing: AtomicUsize::new(0),
            applied: watch::Sender::new(()),
            turn: AtomicUsize::new(0),
            verifying: Arc::default(),
            repaired: AtomicU64::new(0),
            scans: LatencyHistogram::new(),
            scans_behind: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            runtime: runtime.clone(),
        });
        let work = Arc::downgrade(&service);
        runtime.spawn(async move {
            let Some(first) = work.upgrade() else { return };
            let (mut table, definitions) = (first.table.clone(), Arc::clone(&first.definitions));
            let mut declared = first.reporter.wanted();
            drop(first);
            let mut number = 0_u64;
            loop {
                let Some(service) = work.upgrade().filter(|service| !service.is_stopped()) else { return };
                let has_changed = table.has_changed().unwrap_or(false);
                let newest = table.borrow_and_update().clone();
                let has_copies = newest.as_ref().is_some_and(|table| table.all_copies().next().is_some());
                service.erasure.note_copies(has_copies || !service.definitions.is_empty());
                // Where they are declared, the state may say from now on that the cluster places them.
                let declares = !declared.borrow_and_update().indexes.is_empty();
                let is_idle = !declares && service.is_idle(newest.as_deref());
                if !is_idle {
                    service.step(number, has_changed || number == 0).await;
                    number += 1;
                }
                drop(service);
                let tick = async {
                    if is_idle { std::future::pending().await } else { tokio::time::sleep(TICK).await }
                };
                tokio::select! {
                    () = tick => {}
                    () = definitions.changed.notified() => {}
                    // The sender is in the service.
                    _ = declared.changed() => {}
                    changed = table.changed() => {
                        if changed.is_err() {
                            // The cluster's tasks have ended; copies stay as they are.
                            tokio::time::sleep(TICK).await;
                        }
                        table.mark_changed();
                    }
                }
            }
        });
        service
    }

    /// True if the node neither places indexes nor has copies.
    fn is_idle(&self, table: Option<&PlacementTable>) -> bool {
        let has_copies = table.is_some_and(|table| table.of_node(self.cluster.own()).next().is_some());
        self.definitions.is_empty() && !has_copies && !self.place.root.exists()
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Settings of the placement.
    pub fn settings(&self) -> PlacementSettings {
        self.table.borrow().as_ref().map(|table| table.settings().clone()).unwrap_or_default()
    }

    /// Looks after the copies once.
    async fn step(self: &Arc<Self>, number: u64, has_table: bool) {
        let service = Arc::clone(self);
        let looked = tokio::task::spawn_blocking(move || {
            let actions = service.look_after(has_table);
            service.carry_out(actions);
            service.source.tick(&service.cluster, &service.runtime, number.is_multiple_of(CLOSING_TICKS));
            service.exports.lock().expire(service.base.elapsed());
            service.write_due();
            service.verify_due();
            if number.is_multiple_of(CLOSING_TICKS) {
                service.ask_for_erasure();
            }
        });
        if let Err(error) = looked.await {
            tracing::error!(%error, "copies of indexes could not be brought up to date");
        }
    }

    /// Writes the copies for which it is time, beside the next looks after them: merges may take long.
    fn write_due(self: &Arc<Self>) {
        let service = Arc::clone(self);
        self.runtime.spawn_blocking(move || {
            // Copies that become due while others are written are written by a later call.
            let Some(_writing) = service.writing.try_lock() else { return };
            let due = service.copies.lock().due_flushes();
            service.flush(due);
            let due = service.copies.lock().due_erasures();
            for DueFlush { copy, kept, marks } in due {
                if let Err(error) = kept.erase(&marks) {
                    service.failed(copy, &error);
                }
            }
        });
    }

    /// Adopts the state and the table, and goes on with what waits.
    fn look_after(&self, has_table: bool) -> Vec<CopyAction> {
        self.cluster.reconsider();
        let (now, state, table) = (now(), self.cluster.state(), self.table.borrow().clone());
        let mut copies = self.copies.lock();
        let mut actions = Vec::new();
        if let Some(state) = state {
            actions.extend(copies.adopt_state(&state, now));
        }
        if let Some(table) = table.filter(|_| has_table || copies.waits()) {
            self.definitions.forget_unused(&table);
            let types = |hash| {
                let definition = self.definitions.get(hash)?;
                Some(definition.config.document_type.to_string())
            };
            actions.extend(copies.adopt_table(&table, &types, now));
        }
        actions.extend(copies.tick(now));
        actions.extend(copies.due_reads(now));
        let reports = copies.reports();
        if reports.copies.is_empty() && has_table {
            // The directory stays if it is not empty.
            let _ = std::fs::remove_dir(&self.place.root);
        }
        self.reporter.publish_reports(reports);
        actions
    }

    /// Sends requests of copies, and begins imports.
    pub fn carry_out(self: &Arc<Self>, actions: Vec<CopyAction>) {
        for action in actions {
            let service = Arc::clone(self);
            match action {
                CopyAction::Follow { owner, request, definitions } => {
                    let follower = self.cluster.own();
                    let question = PlacedQuestion::Follow { follower, request, definitions };
                    self.runtime.spawn(async move {
                        // A request that is lost is sent again.
                        if let Ok(PlacedAnswer::Cut(cut)) = service.ask(owner, question).await {
                            service.change(move |copies| copies.cut(owner, cut, now())).await;
                        }
                    });
                }
                CopyAction::Read { owner, reads } => {
                    let question = PlacedQuestion::Read { follower: self.cluster.own(), reads };
                    self.runtime.spawn(async move { drop(service.ask(owner, question).await) });
                }
                CopyAction::AskPositions { copy, owners } => {
                    self.runtime.spawn(async move {
                        let positions = service.positions(owners).await;
                        service.change(move |copies| copies.catch_up(copy, &positions, now())).await;
                        service.report().await;
                    });
                }
                CopyAction::Import(order) => {
                    self.runtime.spawn(async move {
                        let outcome = service.import(&order).await;
                        service.change(move |copies| copies.imported(&order, outcome, now())).await;
                        service.report().await;
                    });
                }
            }
        }
    }

    /// Publishes the reports.
    async fn report(self: &Arc<Self>) {
        if let Ok(reports) = self.look(|copies| copies.reports()).await {
            self.reporter.publish_reports(reports);
        }
    }

    /// Looks at the copies from a task. A change holds them while it works on the disk, so that a task which
    /// waited for them itself would stop all others of its thread.
    ///
    /// # Errors
    /// The look has panicked, or the runtime ends.
    pub async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&NodeCopies) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let look = match self.look_now(look) {
            Ok(looked) => return Ok(looked),
            Err(look) => look,
        };
        // One of them waits on a thread, the others here: many together would take all threads that may wait.
        let turn = Arc::clone(&self.looking).lock_owned().await;
        let service = Arc::clone(self);
        let work = move || {
            let looked = look(&service.copies.lock());
            drop(turn);
            looked
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal(error.to_string()))
    }

    /// Looks at the copies if nothing holds them; else returns `look`.
    fn look_now<T, L: FnOnce(&NodeCopies) -> T>(&self, look: L) -> Result<T, L> {
        match self.copies.try_lock() {
            Some(copies) => Ok(look(&copies)),
            None => Err(look),
        }
    }

    /// Changes copies, on a thread that may wait, and carries out what they need then.
    pub async fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut NodeCopies) -> Vec<CopyAction> + Send + 'static,
    ) {
        // As for a look. A caller that leaves while it waits here has changed nothing.
        let turn = Arc::clone(&self.changing).lock_owned().await;
        let service = Arc::clone(self);
        let changed = tokio::task::spawn_blocking(move || {
            let actions = {
                let mut copies = service.copies.lock();
                let mut actions = change(&mut copies);
                actions.extend(copies.due_reads(now()));
                actions
            };
            drop(turn);
            service.carry_out(actions);
            service.applied.send_replace(());
        });
        if let Err(error) = changed.await {
            tracing::error!(%error, "copies of indexes were not changed");
        }
    }

    /// Asks a node, for a bounded time.
    ///
    /// # Errors
    /// It cannot be reached, or refuses, or does not answer in time.
    pub async fn ask(&self, node: NodeKey, question: PlacedQuestion) -> Result<PlacedAnswer, Error> {
        let silent = |_| Error::Unsettled(format!("node {node} has not answered in time"));
        tokio::time::timeout(ANSWER, self.cluster.ask(node, question)).await.map_err(silent)?
    }

    /// Positions of those owners that answer.
    pub async fn positions(self: &Arc<Self>, owners: BTreeSet<NodeKey>) -> BTreeMap<NodeKey, OwnerPosition> {
        let mut requested = JoinSet::new();
        for owner in owners {
            let (service, follower) = (Arc::clone(self), self.cluster.own());
            requested.spawn(async move {
                let answer = service.ask(owner, PlacedQuestion::Position { follower }).await;
                (owner, answer)
            });
        }
        let mut positions = BTreeMap::new();
        while let Some(answer) = requested.join_next().await {
            if let Ok((owner, Ok(PlacedAnswer::Position(position)))) = answer {
                positions.insert(owner, position);
            }
        }
        positions
    }

    /// Writes copies. What cannot be written stays in memory, and is tried again.
    pub fn flush(self: &Arc<Self>, due: Vec<DueFlush>) {
        for DueFlush { copy, kept, marks } in due {
            if let Err(error) = kept.flush(&marks) {
                self.failed(copy, &error);
            }
        }
    }

    /// A file of a copy could not be used.
    pub fn failed(self: &Arc<Self>, copy: CopyId, error: &CopyError) {
        match error.is_damage() {
            true => {
                let actions = self.copies.lock().fail(copy, error, now());
                self.carry_out(actions);
            }
            false => tracing::error!(%error, copy = copy.0, "a copy of an index could not be written"),
        }
    }

    /// Answers a question of a node.
    ///
    /// # Errors
    /// The node cannot do now what it is asked for.
    pub async fn answer(self: &Arc<Self>, question: PlacedQuestion) -> Result<PlacedAnswer, Error> {
        match question {
            PlacedQuestion::Follow { follower, request, definitions } => {
                self.source.follow(&self.cluster, &self.runtime, follower, request, definitions)
            }
            PlacedQuestion::Read { follower, reads } => {
                self.source.read(&self.cluster, &self.runtime, follower, reads);
                Ok(PlacedAnswer::Taken)
            }
            PlacedQuestion::Position { follower } => {
                self.source.position(&*self.cluster, follower).map(PlacedAnswer::Position)
            }
            PlacedQuestion::Batch { owner, batch } => {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                self.change(move |copies| {
                    let (receipt, actions) = copies.batch(owner, batch, now());
                    // The owner may have stopped waiting.
                    let _ = sender.send(receipt);
                    actions
                })
                .await;
                Ok(PlacedAnswer::Receipt(receiver.await.unwrap_or_default()))
            }
            PlacedQuestion::Cut { owner, cut } => {
                self.change(move |copies| copies.cut(owner, cut, now())).await;
                Ok(PlacedAnswer::Taken)
            }
            PlacedQuestion::Export { slice } => self.export(slice).await,
            PlacedQuestion::Parcel { export, run, offset } => self.parcel(export, run, offset).await,
            PlacedQuestion::CloseExport { export } => {
                self.exports.lock().close(export);
                Ok(PlacedAnswer::Taken)
            }
            PlacedQuestion::Records(records) => self.recorded(records).await,
            PlacedQuestion::Documents(requested) => self.owned_documents(requested).await,
            PlacedQuestion::Erase { until } => self.erase(until).await,
            PlacedQuestion::Scan(scan) => self.scan(scan).await.map(PlacedAnswer::Scanned),
        }
    }

    /// Ends the work, and writes what is in memory.
    pub fn stop(self: &Arc<Self>) {
        if self.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        let due = self.copies.lock().all_flushes();
        // A flush waits for the merge that is under way.
        due.iter().for_each(|due| due.kept.end_merges());
        self.flush(due);
    }
}

/// The present time.
pub(super) fn now() -> Timestamp {
    Timestamp(unix_time().as_micros() as u64)
}
