//! The node: shared state of all endpoints.

mod gauges;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millrace_access::{Permit, WantedGroups};
use millrace_bucket::BucketId;
use millrace_cluster::DroppedTypes;
use millrace_column::ExecutionPaths;
use millrace_document::{DropScope, DroppedScope, Timestamp};
use millrace_env::{BoundedDisk, Disk as _, RealDisk};
use millrace_indexing::DocumentColumns;
use millrace_plan::{QueryMemory, QueryMemoryLedger};
use millrace_schema::{Application, ApplicationDraft};
use millrace_store::{Store, StoreOptions, StoreTuning};
use parking_lot::Mutex;

use crate::cluster::{BlockingWaits, ClusterMember, ClusterView, NodeCluster, NodeTransport};
use crate::deployment::CompiledApplication;
use crate::deployments::ActiveDeployment;
use crate::field_uses::FieldUseLog;
use crate::fitness::DiskSpaceMonitor;
use crate::indexes::{FollowerSwitch, IndexDefinition, IndexPlacing, NodeIndexes, PlacedIndexes};
use crate::limits::{store_tuning, store_tuning_in_a_cluster};
use crate::metrics::NodeMetrics;
use crate::models::{ModelOptions, NodeModels};
use crate::pool::WorkPool;
use crate::reindexing::{self, LocalReindexings};
use crate::snapshots::SnapshotReading;
use crate::upkeep::BackgroundThreads;
use crate::{Error, Settings, StartError};

/// A node: the store, the active application, and the worker threads.
pub struct Node {
    settings: Settings,
    store: Store,
    deployments: ActiveDeployment,
    reindexings: LocalReindexings,
    field_uses: FieldUseLog,
    metrics: NodeMetrics,
    models: NodeModels,
    pool: WorkPool,
    upkeep: BackgroundThreads,
    indexes: NodeIndexes,
    placed_indexes: PlacedIndexes,
    /// Held while the indexes of an application are adopted, so that the newest application comes last.
    adopting: Mutex<()>,
    snapshot_reading: SnapshotReading,
    /// Relation of the node to a cluster.
    member: OnceLock<Arc<dyn ClusterMember>>,
    cluster_view: OnceLock<Arc<dyn ClusterView>>,
    /// Means to ask other nodes, once the node serves requests.
    transport: OnceLock<Arc<dyn NodeTransport>>,
    waits: BlockingWaits,
    space_watch: DiskSpaceMonitor,
    /// Memory that the results of its queries take.
    query_memory: Arc<QueryMemoryLedger>,
}

/// An application as published by a cluster.
#[derive(Debug)]
pub struct PublishedApplication {
    /// Package, parsed.
    pub draft: ApplicationDraft,
    /// Generation assigned by the cluster.
    pub generation: u64,
    /// Document types removed by this generation and all before it; `None` if the publisher's version does
    /// not report them.
    pub dropped: Option<DroppedTypes>,
}

impl Node {
    /// Opens the data directory, with the application that was active in it.
    ///
    /// # Errors
    /// The directory cannot be used, has files of another program, or holds an application that this build
    /// cannot run.
    pub fn open(settings: Settings) -> Result<Arc<Node>, StartError> {
        claim(&settings.data_dir)?;
        close_to_others(&settings.data_dir);
        let mut options = StoreOptions::new(&settings.data_dir);
        options.cache_bytes = settings.cache_bytes;
        options.paths = settings.paths();
        options.disk_reserve = settings.disk_reserve;
        options.deferred_sync = settings.deferred_sync;
        options.erase_within = settings.erase_within;
        (options.keep_logs, options.keep_logs_bytes) = (settings.keep_logs, settings.keep_logs_bytes_max);
        options.segment_format = settings.segment_format;
        options.disk = Arc::new(BoundedDisk::new(settings.disk_of_store(), settings.open_files_max));
        let models = NodeModels::open(ModelOptions {
            directory: settings.data_dir.join("models"),
            slots: settings.threads,
            outbound: settings.outbound.clone(),
            secrets: settings.secrets.clone(),
            disk_reserve: settings.disk_reserve,
        })?;
        let deployments = ActiveDeployment::open(&settings.data_dir.join("application"), &models)?;
        models.remove_unused(Duration::ZERO);
        let reindexings = LocalReindexings::open(&settings.data_dir.join("application"))?;
        let field_uses = FieldUseLog::open(&settings.data_dir.join("application"));
        let layout = match deployments.current() {
            Ok(deployment) => {
                options.tuning = store_tuning(&deployment.application);
                deployment.layout()
            }
            Err(_) => Arc::new(DocumentColumns::default()),
        };
        let store = Store::open(options, layout)?;
        let pool = WorkPool::new(settings.threads, settings.queue_max, &models.cores())
            .map_err(StartError::Threads)?;
        let follower = Arc::new(FollowerSwitch::new(store.clone()));
        let indexes = NodeIndexes::new(&settings.data_dir, &follower, Arc::clone(&settings.disk));
        let placed_indexes = PlacedIndexes::new(&settings.data_dir, &follower);
        let node = Arc::new(Node {
            indexes,
            placed_indexes,
            adopting: Mutex::default(),
            snapshot_reading: SnapshotReading::default(),
            member: OnceLock::new(),
            cluster_view: OnceLock::new(),
            transport: OnceLock::new(),
            waits: BlockingWaits::default(),
            space_watch: DiskSpaceMonitor::default(),
            query_memory: QueryMemoryLedger::new(settings.queries_memory_max),
            settings,
            store,
            deployments,
            reindexings,
            field_uses,
            metrics: NodeMetrics::new(),
            models,
            pool,
            upkeep: BackgroundThreads::default(),
        });
        node.complete_deployment().map_err(StartError::Deployment)?;
        node.upkeep.start(&node).map_err(StartError::Threads)?;
        node.keep_indexes().map_err(StartError::Deployment)?;
        Ok(node)
    }

    /// Completes the remaining steps of a deployment, or of the deletion of the application, if a process
    /// ended after it became effective on disk.
    fn complete_deployment(&self) -> Result<(), Error> {
        match self.drop_types(&self.deployments.dropped()) {
            // A node without space starts, so that documents can be removed. Every later deployment tries it
            // again.
            Err(Error::DiskFull(reason)) => {
                tracing::error!(reason, "documents of removed types are still there");
            }
            outcome => outcome?,
        }
        if self.deployments.had_application() && self.deployments.current().is_err() {
            self.reindexings.clear().map_err(|error| reindexing::write_error(&error))?;
        }
        Ok(())
    }

    /// Settings that the node was started with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Memory for the results of a query that begins.
    pub fn query_memory(&self) -> Arc<QueryMemory> {
        QueryMemory::new(self.settings.query_memory_max, Arc::clone(&self.query_memory))
    }

    /// Store of the node, for work that no request has caused. Requests take [`Node::permitted_store`].
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Store of the node, for a request about these documents.
    ///
    /// # Panics
    /// The permit does not cover them: a request was not checked when it was parsed.
    pub fn permitted_store(&self, permit: &Permit, wanted: WantedGroups<'_>) -> &Store {
        assert!(permit.covers(wanted), "a request uses documents that its permit does not cover");
        &self.store
    }

    /// Names of the content clusters of the active application; none if none is active.
    pub fn content_clusters(&self) -> Vec<String> {
        let Ok(deployment) = self.deployments.current() else { return Vec::new() };
        deployment.application.content.iter().map(|cluster| cluster.id.to_string()).collect()
    }

    /// Makes the node a member of a cluster, from the next request on. A node belongs to one cluster all its
    /// life: a second call is ignored.
    pub fn set_cluster_member(&self, member: Arc<dyn ClusterMember>) {
        if self.member.set(member).is_err() {
            tracing::warn!("the node is one of a cluster already");
        }
        if let Ok(deployment) = self.deployments.current() {
            self.store.set_tuning(self.tuning(&deployment.application));
        }
        if let Err(error) = self.keep_indexes() {
            tracing::warn!(%error, "indexes of the node are not kept");
        }
    }

    /// Gives the member of a cluster its part there. A second call is ignored.
    pub fn set_cluster_view(&self, view: Arc<dyn ClusterView>) {
        if self.cluster_view.set(view).is_err() {
            tracing::warn!("the node takes part in the cluster already");
        }
        self.reconsider_indexes();
    }

    /// Indexes of the node.
    pub fn indexes(&self) -> &NodeIndexes {
        &self.indexes
    }

    /// Placed indexes of the node, in a cluster.
    pub fn placed_indexes(&self) -> &PlacedIndexes {
        &self.placed_indexes
    }

    /// Keeps the indexes of the active application, each for the documents that the node has. Called once the
    /// node is complete, and after each deployment. What the disk refuses is tried again.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn keep_indexes(&self) -> Result<(), Error> {
        let _one_at_a_time = self.adopting.lock();
        let current = self.deployments.current().ok();
        let declared = current.as_ref().map(|deployment| deployment.indexes()).unwrap_or_default();
        let placing = self.index_placing();
        let is_beside = |definition: &&Arc<IndexDefinition>| match placing {
            IndexPlacing::Beside => true,
            IndexPlacing::Placed => !definition.config.placed,
            IndexPlacing::Unknown => !definition.config.placed || self.indexes.has_files(definition),
        };
        let wanted: Vec<Arc<IndexDefinition>> = declared.iter().filter(is_beside).cloned().collect();
        let tuning = current.as_ref().map(|deployment| self.tuning(&deployment.application));
        let kept = tuning.unwrap_or_default().tombstone_retention;
        let remembered = self.store.next_timestamp().0.saturating_sub(kept.as_micros() as u64);
        // That of the declarations, which another deployment may have replaced meanwhile.
        let generation =
            current.as_ref().map_or_else(|| self.deployments.generation(), |current| current.generation);
        self.placed_indexes.adopt(generation, declared, placing);
        self.indexes.adopt(&wanted, Timestamp(remembered))
    }

    /// Cluster of the node, if any.
    pub fn cluster(&self) -> NodeCluster<'_> {
        match (self.member.get(), self.cluster_view.get()) {
            (None, _) => NodeCluster::Alone,
            (Some(member), None) => NodeCluster::Joining(member),
            (Some(member), Some(view)) => NodeCluster::Joined(member, view),
        }
    }

    /// Gives the node the means to ask other nodes. A second call is ignored: they serve as well.
    pub fn connect(&self, transport: Arc<dyn NodeTransport>) {
        self.transport.get_or_init(|| transport);
    }

    /// Means to ask other nodes.
    ///
    /// # Errors
    /// The node does not serve requests yet.
    pub fn transport(&self) -> Result<&dyn NodeTransport, Error> {
        let starts = || Error::Unsettled("this node is still starting".to_owned());
        self.transport.get().map(|transport| &**transport).ok_or_else(starts)
    }

    /// Code paths that requests take.
    pub fn paths(&self) -> ExecutionPaths {
        self.settings.paths()
    }

    pub(crate) fn waits(&self) -> &BlockingWaits {
        &self.waits
    }

    pub(crate) fn snapshot_reading(&self) -> &SnapshotReading {
        &self.snapshot_reading
    }

    pub(crate) fn space_watch(&self) -> &DiskSpaceMonitor {
        &self.space_watch
    }

    /// Retention of removals of documents on a node of a cluster.
    pub fn removals_kept(&self) -> Duration {
        let current = self.deployments.current();
        let application = current.as_ref().map(|deployment| &deployment.application);
        let tuning = application.map_or_else(|_| StoreTuning::default(), store_tuning_in_a_cluster);
        tuning.tombstone_retention
    }

    /// Worker threads.
    pub fn pool(&self) -> &WorkPool {
        &self.pool
    }

    /// Activates an application, as a deployment over HTTP does, unless it is active already. Returns its
    /// generation.
    ///
    /// # Errors
    /// The application is refused; the active one stays unchanged.
    pub fn deploy(&self, draft: impl Into<ApplicationDraft>) -> Result<u64, Error> {
        let draft = draft.into();
        if let Ok(current) = self.deployments.current()
            && current.application.files == draft.application.files
        {
            return Ok(current.generation);
        }
        let generation = self.deployments.next_generation();
        let based_on = self.deployments.generation();
        let current = self.deployments.current().ok();
        let deployment = CompiledApplication::compile(draft, generation, current.as_deref(), &self.models)?;
        self.activate_alone(Arc::new(deployment), based_on)?;
        Ok(generation)
    }

    /// Activates an application as the generation assigned by a cluster. The removed document types are
    /// dropped first.
    ///
    /// # Errors
    /// The application is refused; the active one stays unchanged.
    pub fn deploy_as(&self, published: PublishedApplication) -> Result<(), Error> {
        let PublishedApplication { draft, generation, dropped } = published;
        dropped.iter().try_for_each(|dropped| self.drop_types(dropped))?;
        let based_on = self.deployments.generation();
        self.deployments.note_generation(generation);
        let current = self.deployments.current().ok();
        let deployment =
            CompiledApplication::compile_active(draft, generation, current.as_deref(), &self.models)?;
        let dropped = match dropped {
            Some(dropped) => dropped,
            // Same as nodes of its publisher's version: each at its own time.
            None => self.removed_by(&deployment.application),
        };
        self.activate(Arc::new(deployment), based_on, &dropped)
    }

    /// Drops the documents of removed types, as of the time of each removal. A removal that was applied
    /// before costs a comparison in memory, any other a sync.
    ///
    /// # Errors
    /// The drops cannot be made durable.
    pub fn drop_types(&self, dropped: &DroppedTypes) -> Result<(), Error> {
        self.deployments.apply_drops(dropped, |document_type, timestamp| {
            let scope = DropScope::Type(document_type.to_owned());
            Ok(self.store.apply_drop(BucketId::ROOT, &DroppedScope { scope, timestamp })?)
        })
    }

    /// Returns every removal of a document type known to this node, and those by `next`, as of now.
    pub fn removed_by(&self, next: &Application) -> DroppedTypes {
        let mut dropped = self.deployments.dropped();
        let removed = self.types_removed_by(next);
        if !removed.is_empty() {
            let now = self.store.next_timestamp();
            removed.iter().for_each(|name| dropped.add(name, now));
        }
        dropped
    }

    /// Document types of the active application that `next` does not have.
    pub(crate) fn types_removed_by(&self, next: &Application) -> BTreeSet<Arc<str>> {
        let Ok(current) = self.deployments.current() else { return BTreeSet::new() };
        let next = stored_types(next);
        let removed = stored_types(&current.application).into_iter().filter(|name| !next.contains(name));
        removed.map(Arc::from).collect()
    }

    /// Like [`Node::removed_by`], for a node outside of a cluster. A new or returning type has no documents:
    /// any in the store were written by requests in flight during its removal, or left by an earlier version
    /// that ended before it dropped them.
    fn removed_alone(&self, next: &Application) -> DroppedTypes {
        let mut dropped = self.removed_by(next);
        if self.deployments.had_application() && self.store.newest() != Timestamp::default() {
            let (current, now) = (self.deployments.current().ok(), self.store.next_timestamp());
            let had = current.as_ref().map(|current| stored_types(&current.application)).unwrap_or_default();
            stored_types(next).difference(&had).for_each(|name| dropped.add(name, now));
        }
        dropped
    }

    /// Compiles an application as for a deployment, and discards it: all mistakes are reported, and nothing
    /// changes.
    ///
    /// # Errors
    /// The application is refused.
    pub fn check(&self, draft: impl Into<ApplicationDraft>) -> Result<(), Error> {
        let current = self.deployments.current().ok();
        let generation = self.deployments.generation() + 1;
        CompiledApplication::compile(draft, generation, current.as_deref(), &self.models).map(drop)
    }

    /// Generation of the active application; 0 if there is none.
    pub fn generation(&self) -> u64 {
        self.deployments.generation()
    }

    /// Waits for writes in flight and closes the store. Later requests fail.
    pub fn close(&self) {
        self.upkeep.stop();
        self.field_uses.keep();
        self.indexes.stop();
        self.placed_indexes.stop();
        self.store.clone().close();
    }

    /// The active application, and its deployments.
    pub fn deployments(&self) -> &ActiveDeployment {
        &self.deployments
    }

    /// Models of the node.
    pub fn models(&self) -> &NodeModels {
        &self.models
    }

    pub(crate) fn reindexings(&self) -> &LocalReindexings {
        &self.reindexings
    }

    /// Uses of fields by the queries of this node.
    pub fn field_uses(&self) -> &FieldUseLog {
        &self.field_uses
    }

    /// Counters of the node.
    pub fn metrics(&self) -> &NodeMetrics {
        &self.metrics
    }

    /// Activates `deployment` on a node outside of a cluster, and drops the document types that it no longer
    /// has.
    pub fn activate_alone(&self, deployment: Arc<CompiledApplication>, based_on: u64) -> Result<(), Error> {
        let dropped = self.removed_alone(&deployment.application);
        self.activate(deployment, based_on, &dropped)
    }

    /// Activates `deployment`: it is on disk, with all removals of document types, before the first request
    /// sees it.
    fn activate(
        &self,
        deployment: Arc<CompiledApplication>,
        based_on: u64,
        dropped: &DroppedTypes,
    ) -> Result<(), Error> {
        let layout = deployment.layout();
        let in_effect = || self.store.set_layout(layout);
        self.deployments.activate(Arc::clone(&deployment), based_on, dropped, in_effect)?;
        self.store.set_tuning(self.tuning(&deployment.application));
        if self.cluster().is_alone() {
            reindexing::deployed(self, &deployment)?;
        }
        self.upkeep.wake();
        self.drop_types(dropped)?;
        self.keep_indexes()
    }

    /// Store settings for an application's documents.
    fn tuning(&self, application: &Application) -> StoreTuning {
        match self.cluster().is_alone() {
            true => store_tuning(application),
            false => store_tuning_in_a_cluster(application),
        }
    }

    /// Deletes the application and its documents.
    pub fn delete_application(&self) -> Result<(), Error> {
        let current = self.deployments.current().map_err(|_| {
            Error::NotFound("No application is active; there is nothing to delete".to_owned())
        })?;
        let (mut dropped, now) = (self.deployments.dropped(), self.store.next_timestamp());
        stored_types(&current.application).into_iter().for_each(|name| dropped.add(name, now));
        self.deployments.delete(&dropped)?;
        self.drop_types(&dropped)?;
        self.store.set_layout(Arc::new(DocumentColumns::default()));
        self.store.set_tuning(StoreTuning::default());
        self.keep_indexes()?;
        self.reindexings.clear().map_err(|error| reindexing::write_error(&error))
    }

    /// Returns the 99th percentile of the latency of queries, and of document operations, since the last
    /// call; `None` if there were too few. For background work that must not slow them down.
    pub fn take_slowest(&self) -> [Option<Duration>; 2] {
        self.metrics.take_slowest()
    }
}

/// Some names that every data directory has, from its first start on.
const OWN: [&str; 4] = ["lock", "manifest", "application", "models"];

/// Document types whose documents an application stores: those of its content clusters.
fn stored_types(application: &Application) -> BTreeSet<&str> {
    let documents = application.content.iter().flat_map(|cluster| &cluster.documents);
    documents.map(|document| &*document.document_type).collect()
}

/// Creates the data directory if it does not exist; refuses a directory with files of another program.
fn claim(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Directory { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    RealDisk.create_directory(path).map_err(failed)?;
    let names = std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if names.iter().any(|name| OWN.iter().any(|own| name == own)) {
        return Ok(());
    }
    // A file system of its own has the first from the beginning; the second is made before the first start.
    names.retain(|name| name != "lost+found" && !name.to_string_lossy().starts_with("access.toml"));
    match names.into_iter().min() {
        Some(name) => Err(StartError::Foreign { path: path.to_owned(), example: name.into() }),
        None => Ok(()),
    }
}

/// Removes the permissions of users other than the owner and group from a directory of an earlier version.
fn close_to_others(path: &Path) {
    const OTHERS: u32 = 0o007;
    let Ok(mode) = std::fs::metadata(path).map(|directory| directory.permissions().mode()) else { return };
    if mode & OTHERS == 0 {
        return;
    }
    // A volume that belongs to another user, as on Kubernetes, stays unchanged.
    if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS)) {
        tracing::warn!(%error, path = %path.display(), "every user of the machine can look into the data directory");
    }
}
