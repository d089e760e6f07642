//! The node: what all endpoints share.

use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::HeaderMap;
use millrace_env::{BoundedDisk, RealDisk};
use millrace_indexing::Columns;
use millrace_schema::{Application, Draft};
use millrace_store::{Options, Store, Tuning};

use crate::access_log::AccessLog;
use crate::cluster::{Cluster, Forwarder, HOP};
use crate::config_api::Sessions;
use crate::deployment::Deployment;
use crate::deployments::Deployments;
use crate::limits::{store_tuning, store_tuning_in_a_cluster};
use crate::metrics::{Gauge, Metrics};
use crate::models::Models;
use crate::pool::Pool;
use crate::quota::Quotas;
use crate::reindexing::{self, Reindexings};
use crate::upkeep::Upkeep;
use crate::{Error, Settings, StartError};

/// A node: the store, the active application, and the threads for work.
pub struct Node {
    settings: Settings,
    store: Store,
    deployments: Deployments,
    sessions: Sessions,
    reindexings: Reindexings,
    metrics: Metrics,
    quotas: Quotas,
    models: Models,
    pool: Pool,
    upkeep: Upkeep,
    access_log: Option<Arc<AccessLog>>,
    /// The cluster that it is one of, where it is.
    cluster: OnceLock<Arc<dyn Cluster>>,
    forwarder: Forwarder,
    /// The data port, once it is bound.
    port: AtomicU16,
}

impl Node {
    /// Opens the data directory, with the application that was active in it.
    ///
    /// # Errors
    /// The directory cannot be used, has files of something else, or holds an application that this build cannot run.
    pub fn open(settings: Settings) -> Result<Arc<Node>, StartError> {
        claim(&settings.data_dir)?;
        let mut options = Options::new(&settings.data_dir);
        options.cache_bytes = settings.cache_bytes;
        options.disk_reserve = settings.disk_reserve;
        options.disk = Arc::new(BoundedDisk::new(Arc::new(RealDisk), settings.open_files_max));
        let models = Models::open(settings.data_dir.join("models"), settings.threads)?;
        let deployments = Deployments::open(&settings.data_dir.join("application"), &models)?;
        models.remove_unused();
        let reindexings = Reindexings::open(&settings.data_dir.join("application"))?;
        let layout = match deployments.current() {
            Ok(deployment) => {
                options.tuning = store_tuning(&deployment.application);
                deployment.layout()
            }
            Err(_) => Arc::new(Columns::default()),
        };
        let store = Store::open(options, layout)?;
        let pool =
            Pool::new(settings.threads, settings.queue_max, &models.cores()).map_err(StartError::Threads)?;
        let access_log = settings.access_log.as_deref().map(|path| {
            AccessLog::open(path).map_err(|source| StartError::AccessLog { path: path.to_owned(), source })
        });
        let quotas = Quotas::new(&settings);
        let node = Arc::new(Node {
            access_log: access_log.transpose()?,
            cluster: OnceLock::new(),
            forwarder: Forwarder::new(settings.trust.clone()),
            port: AtomicU16::new(settings.port),
            settings,
            store,
            deployments,
            sessions: Sessions::default(),
            reindexings,
            metrics: Metrics::new(),
            quotas,
            models,
            pool,
            upkeep: Upkeep::default(),
        });
        node.upkeep.start(&node).map_err(StartError::Threads)?;
        Ok(node)
    }

    /// What the node was started with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The names of the content clusters of the active application; none where none is active.
    pub fn content_clusters(&self) -> Vec<String> {
        let Ok(deployment) = self.deployments.current() else { return Vec::new() };
        deployment.application.content.iter().map(|cluster| cluster.id.to_string()).collect()
    }

    /// Makes the node one of a cluster, from the next request on. A node is of one cluster all its life: a second call is passed over.
    pub fn join(&self, cluster: Arc<dyn Cluster>) {
        if self.cluster.set(cluster).is_err() {
            tracing::warn!("the node is one of a cluster already");
        }
        if let Ok(deployment) = self.deployments.current() {
            self.store.set_tuning(self.tuning(&deployment.application));
        }
    }

    /// The cluster that it is one of.
    pub(crate) fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.cluster.get()
    }

    /// True if a request comes from a client, and not from another node of the cluster. A node that is alone
    /// knows no other.
    pub(crate) fn is_from_client(&self, headers: &HeaderMap) -> bool {
        self.cluster().is_none() || !headers.contains_key(HOP)
    }

    /// The way to other nodes.
    pub(crate) fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Where requests are logged.
    pub(crate) fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.access_log.as_ref()
    }

    /// The threads for work.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Makes an application the active one, as a deployment over HTTP does, unless it is that already. Answers its generation.
    ///
    /// # Errors
    /// The application is refused; the active one stays as it was.
    pub fn deploy(&self, draft: impl Into<Draft>) -> Result<u64, Error> {
        let draft = draft.into();
        if let Ok(current) = self.deployments.current()
            && current.application.files == draft.application.files
        {
            return Ok(current.generation);
        }
        let generation = self.deployments.next_generation();
        self.deploy_as(draft, generation)?;
        Ok(generation)
    }

    /// Makes an application the active one as the generation that a cluster gave it.
    ///
    /// # Errors
    /// The application is refused; the active one stays as it was.
    pub fn deploy_as(&self, draft: impl Into<Draft>, generation: u64) -> Result<(), Error> {
        let based_on = self.deployments.generation();
        self.deployments.gave(generation);
        let current = self.deployments.current().ok();
        let deployment = Deployment::compile(draft, generation, current.as_deref(), &self.models)?;
        self.activate(Arc::new(deployment), based_on)
    }

    /// Compiles an application as for a deployment, and lets it go: whatever is wrong with it is said, and nothing changes.
    ///
    /// # Errors
    /// The application is refused.
    pub fn check(&self, draft: impl Into<Draft>) -> Result<(), Error> {
        let current = self.deployments.current().ok();
        let generation = self.deployments.generation() + 1;
        Deployment::compile(draft, generation, current.as_deref(), &self.models).map(drop)
    }

    /// The generation of the active application; 0 where there is none.
    pub fn generation(&self) -> u64 {
        self.deployments.generation()
    }

    /// Waits for writes under way and closes the store. Requests after that fail.
    pub fn close(&self) {
        self.upkeep.stop();
        self.store.clone().close();
        if let Some(log) = &self.access_log {
            log.close();
        }
    }

    pub(crate) fn deployments(&self) -> &Deployments {
        &self.deployments
    }

    pub(crate) fn models(&self) -> &Models {
        &self.models
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn reindexings(&self) -> &Reindexings {
        &self.reindexings
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What clients have left of what they may ask.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The port that serves documents and queries.
    pub(crate) fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    pub(crate) fn bound(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Puts `deployment` into effect: it is on disk before the first request sees it. Document types that it no longer has are
    /// dropped.
    pub(crate) fn activate(&self, deployment: Arc<Deployment>, based_on: u64) -> Result<(), Error> {
        let before = self.deployments.current().ok();
        let layout = deployment.layout();
        self.deployments.activate(Arc::clone(&deployment), based_on, || self.store.set_layout(layout))?;
        self.store.set_tuning(self.tuning(&deployment.application));
        if self.cluster().is_none() {
            reindexing::deployed(self, &deployment)?;
        }
        self.upkeep.wake();
        for document_type in before.iter().flat_map(|before| before.application.schemas.keys()) {
            if !deployment.application.schemas.contains_key(document_type) {
                self.store.drop_type(document_type)?;
            }
        }
        Ok(())
    }

    /// How the store keeps an application's documents.
    fn tuning(&self, application: &Application) -> Tuning {
        match self.cluster() {
            Some(_) => store_tuning_in_a_cluster(application),
            None => store_tuning(application),
        }
    }

    /// Takes the application away, and its documents.
    pub(crate) fn delete_application(&self) -> Result<(), Error> {
        let current = self.deployments.current().map_err(|_| {
            Error::NotFound("No application is active; there is nothing to delete".to_owned())
        })?;
        self.deployments.delete()?;
        for document_type in current.application.schemas.keys() {
            self.store.drop_type(document_type)?;
        }
        self.store.set_layout(Arc::new(Columns::default()));
        self.store.set_tuning(Tuning::default());
        self.reindexings.clear().map_err(|error| reindexing::kept(&error))
    }

    /// What is read when metrics are asked for.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let status = self.store.status();
        let gauge = Gauge::new;
        let mut gauges = vec![
            gauge(
                "content.proton.documentdb.documents.total",
                "Documents stored, about: versions that others have replaced count until they are merged away",
                status.documents as f64,
            ),
            gauge(
                "content.proton.documentdb.disk_usage",
                "Bytes of segment files",
                status.segment_bytes as f64,
            ),
            gauge("vds.datastored.alldisks.buckets", "Buckets", status.buckets as f64),
            gauge("millrace.store.segments", "Segment files", status.segments as f64),
            gauge(
                "millrace.store.tail_bytes",
                "Bytes of rows that are not sealed yet",
                status.tail_bytes as f64,
            ),
            gauge("millrace.store.cache_bytes", "Bytes of columns in memory", status.cache_bytes as f64),
            Gauge::counted("millrace.store.cache_hits", "Reads that the cache answered", status.cache_hits),
            Gauge::counted("millrace.store.cache_misses", "Reads that went to the disk", status.cache_misses),
            gauge("httpapi_queued_operations", "Writes that wait or run", status.writes_in_flight as f64),
            gauge("millrace.disk_free", "Bytes free on the disk", status.disk_free as f64),
            gauge(
                "jdisc.thread_pool.work_queue.size",
                "Requests that wait for a thread",
                self.pool.waiting() as f64,
            ),
            gauge(
                "reindexing.progress",
                "Share that is done of the reindexing that is least far; 1 where none goes on",
                reindexing::progress(self),
            ),
            gauge(
                "millrace.access_log.left_out",
                "Requests that are not in the access log, since the disk was too slow",
                self.access_log.as_ref().map_or(0, |log| log.left_out()) as f64,
            ),
            gauge(
                "application_generation",
                "Generation of the active application",
                self.deployments.generation() as f64,
            ),
        ];
        gauges.extend(self.models.gauges());
        gauges.extend(self.cluster().map(|cluster| cluster.gauges()).unwrap_or_default());
        gauges
    }

    /// How long the slowest hundredth of the queries took since this was asked last, and of the document operations; `None` where there were too
    /// few to tell. For whoever must not be in their way.
    pub fn take_slowest(&self) -> [Option<Duration>; 2] {
        self.metrics.take_slowest()
    }
}

/// Some of what every data directory has, from its first start on.
const OWN: [&str; 4] = ["lock", "manifest", "application", "models"];

/// Makes a data directory where there is none; refuses one that has files, and none of a server.
fn claim(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Directory { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(failed)?;
    let names = std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if names.iter().any(|name| OWN.iter().any(|own| name == own)) {
        return Ok(());
    }
    // A file system of its own has this from the beginning.
    names.retain(|name| name != "lost+found");
    match names.into_iter().min() {
        Some(name) => Err(StartError::Foreign { path: path.to_owned(), example: name.into() }),
        None => Ok(()),
    }
}
