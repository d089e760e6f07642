//! Models of a node: one scheduler, the files of the models, and threads that may wait for them.
//!
//! A model's file is part of a package or downloaded once, and is stored under its content's digest, so that
//! it can be read again after it was unloaded. An embedder that is also in the next deployment, with the same
//! files, stays as it is.

mod components;
mod embeddings;
mod fault;
mod gauges;
mod generator;
mod language;
mod ranking;
mod stateless;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use millrace_embedding::{EmbedderServices, Files, SecretRequest, TextEmbedder};
use millrace_env::{Disk as _, RealDisk, sync_name};
use millrace_model::{BusyCores, ModelEvaluator, ModelScheduler, SchedulerOptions, SequencePurpose};
use millrace_remote::{FileSource, OutboundHttp, OutboundPolicy, SecretBinding, Sha256Digest};
use millrace_schema::{
    self as schema, Application, ModelExecution, ModelFile, PackageFindings, PackageMistake,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_128;

use self::language::LanguageModels;
use crate::metrics::MetricGauge;
use crate::{Error, StartError};

pub use components::ApplicationComponents;
pub use embeddings::QueryEmbeddings;
pub use fault::ComponentFault;
pub use generator::DeployedGenerator;
pub use language::DeployedLanguageModel;
pub use ranking::RankModels;
pub use stateless::{ModelArgument, StatelessModel, StatelessModels};

/// Maximum number of requests that wait for a model at the same time: of queries, and documents being fed.
const QUERIES_MAX: usize = 256;
const FEEDS_MAX: usize = 256;

/// Maximum size of a downloaded file.
const FILE_BYTES_MAX: u64 = 32 << 30;

/// Models of a node, shared by all its deployments.
pub struct NodeModels {
    scheduler: ModelScheduler,
    directory: PathBuf,
    /// Embedders in use, and those that were dropped since the last check.
    embedders: Mutex<Vec<KnownModels>>,
    evaluators: Mutex<Vec<KnownEvaluator>>,
    languages: LanguageModels,
    http: OnceLock<Result<OutboundHttp, Arc<std::io::Error>>>,
    options: ModelOptions,
    /// Held while an existing file is being opened for a model, so that it is not removed meanwhile.
    taking: RwLock<()>,
    queries: Arc<Semaphore>,
    feeds: Arc<Semaphore>,
}

struct KnownModels {
    config: schema::EmbedderConfig,
    files: Files,
    embedder: Weak<TextEmbedder>,
}

/// An evaluator of a single model, shared by all that name the same file.
struct KnownEvaluator {
    path: PathBuf,
    execution: ModelExecution,
    evaluator: Weak<ModelEvaluator>,
}

/// Settings of a node for models.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// Directory of the files, which need not exist yet.
    pub directory: PathBuf,
    /// Number of threads that run models.
    pub slots: usize,
    /// Permitted destinations of connections.
    pub outbound: OutboundPolicy,
    /// Permitted hosts for secrets.
    pub secrets: Vec<SecretBinding>,
    /// Bytes of the disk that must stay free.
    pub disk_reserve: u64,
}

impl NodeModels {
    /// Opens the models with these options; no file is read yet.
    pub fn open(options: ModelOptions) -> Result<Self, StartError> {
        let scheduling = SchedulerOptions { slots: options.slots, ..SchedulerOptions::default() };
        Ok(NodeModels {
            scheduler: ModelScheduler::new(scheduling).map_err(StartError::Threads)?,
            directory: options.directory.clone(),
            options,
            taking: RwLock::default(),
            embedders: Mutex::default(),
            evaluators: Mutex::default(),
            languages: LanguageModels::default(),
            http: OnceLock::new(),
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
            feeds: Arc::new(Semaphore::new(FEEDS_MAX)),
        })
    }

    /// Loads and checks the embedders of an application. The error of a missing or invalid file has the
    /// position of the component.
    pub fn embedders(
        &self,
        application: &Application,
        findings: &mut PackageFindings,
    ) -> Vec<Arc<TextEmbedder>> {
        let loaded = application.container.embedders.iter().filter_map(|config| {
            let embedder = self.embedder(config, application).map_err(|reason| {
                let text = format!("{}: embedder '{}': {reason}", config.position, config.id);
                PackageMistake::new(Some(&config.position), text)
            });
            findings.ok_or_report(embedder)
        });
        loaded.collect()
    }

    fn embedder(
        &self,
        config: &schema::EmbedderConfig,
        application: &Application,
    ) -> Result<Arc<TextEmbedder>, ComponentFault> {
        let _taking = self.taking.read();
        let keep = |file: &ModelFile| Ok((file.clone(), self.keep(application, file)?));
        let files = config.files().into_iter().map(keep).collect::<Result<Files, ComponentFault>>()?;
        // The position of a component does not make it another one.
        let config = schema::EmbedderConfig { position: schema::SourcePosition::default(), ..config.clone() };
        let same = |known: &&KnownModels| known.config == config && known.files == files;
        if let Some(embedder) = self.lock().iter().find(same).and_then(|known| known.embedder.upgrade()) {
            return Ok(embedder);
        }
        let secret = |request: &SecretRequest<'_>| {
            self.secret(request.name, request.endpoint).map_err(millrace_embedding::Error::from)
        };
        let http = || self.http().map_err(|fault| millrace_embedding::Error::Setup(fault.to_string()));
        let services = EmbedderServices { scheduler: &self.scheduler, http: &http, secret: &secret };
        let embedder = Arc::new(TextEmbedder::load(&config, &files, &services)?);
        let mut known = self.lock();
        known.retain(|known| known.embedder.strong_count() > 0);
        known.push(KnownModels { config, files, embedder: Arc::downgrade(&embedder) });
        Ok(embedder)
    }

    /// Returns the evaluator of a single model of an application.
    ///
    /// # Errors
    /// The file is missing, or is not a model.
    pub fn evaluator(
        &self,
        name: &str,
        file: &ModelFile,
        execution: &ModelExecution,
        application: &Application,
    ) -> Result<Arc<ModelEvaluator>, ComponentFault> {
        let _taking = self.taking.read();
        let path = self.keep(application, file)?;
        let same = |known: &&KnownEvaluator| known.path == path && known.execution == *execution;
        if let Some(evaluator) =
            self.lock_evaluators().iter().find(same).and_then(|known| known.evaluator.upgrade())
        {
            return Ok(evaluator);
        }
        let threads = millrace_embedding::execution(execution);
        let evaluator = ModelEvaluator::load(name, path.clone(), threads, &self.scheduler)?;
        let evaluator = Arc::new(evaluator);
        let mut known = self.lock_evaluators();
        known.retain(|known| known.evaluator.strong_count() > 0);
        let execution = execution.clone();
        known.push(KnownEvaluator { path, execution, evaluator: Arc::downgrade(&evaluator) });
        Ok(evaluator)
    }

    /// Stores a file beside the others, unless it exists. Its name is the SHA-256 of its content.
    fn keep(&self, application: &Application, file: &ModelFile) -> Result<PathBuf, ComponentFault> {
        let path = match file {
            ModelFile::Path(path) => path,
            ModelFile::Url { url, sha256 } => return self.fetch(url, sha256.as_deref()),
        };
        let content = application.files.get(path).ok_or_else(|| ComponentFault::NoFile(path.clone()))?;
        let kept = self.directory.join(Sha256Digest::of(content).to_string());
        write_once(&self.directory, &kept, content, self.options.disk_reserve).map_err(|source| {
            let directory = self.directory.clone();
            ComponentFault::Unkept { path: path.clone(), directory, source }
        })?;
        Ok(kept)
    }

    /// Downloads a file, unless it was downloaded before. Its name is the given SHA-256 of its content, or
    /// else that of its URL.
    fn fetch(&self, url: &str, sha256: Option<&str>) -> Result<PathBuf, ComponentFault> {
        let sha256: Option<Sha256Digest> = sha256.map(str::parse).transpose()?;
        let kept = match sha256 {
            Some(sha256) => self.directory.join(sha256.to_string()),
            None => self.directory.join(format!("url-{}", Sha256Digest::of(url.as_bytes()))),
        };
        if kept.is_file() {
            return Ok(kept);
        }
        if sha256.is_none() {
            // Earlier versions named it by another digest. If it cannot be renamed, it is downloaded again.
            let former = self.directory.join(format!("url-{:032x}", xxh3_128(url.as_bytes())));
            if former.is_file() && fs::rename(&former, &kept).is_ok() {
                return Ok(kept);
            }
        }
        tracing::info!(url, "fetching a model's file");
        let source = FileSource {
            url: url.to_owned(),
            sha256,
            bytes_max: FILE_BYTES_MAX,
            disk_reserve: self.options.disk_reserve,
        };
        millrace_remote::download(&self.http()?, &source, &kept)?;
        Ok(kept)
    }

    /// Secret of the environment, if it may be sent to `endpoint`.
    fn secret(&self, name: &str, endpoint: &str) -> Result<String, millrace_remote::Error> {
        millrace_remote::secret(&self.options.secrets, name, endpoint)
    }

    /// HTTP client for other services, created on first use.
    fn http(&self) -> Result<OutboundHttp, ComponentFault> {
        let policy = || self.options.outbound.clone();
        let made = self.http.get_or_init(|| OutboundHttp::new(policy()).map_err(Arc::new));
        made.clone().map_err(ComponentFault::Services)
    }

    /// Removes the files that no model uses and that were not written recently. Nothing is removed while a
    /// file is being opened for a model.
    pub(crate) fn remove_unused(&self, written_before: Duration) {
        let Some(_taken) = self.taking.try_write() else { return };
        let used: Vec<PathBuf> = self
            .lock()
            .iter()
            .filter(|known| known.embedder.strong_count() > 0)
            .flat_map(|known| known.files.values().cloned().collect::<Vec<_>>())
            .chain(self.evaluators_in_use().iter().map(|(path, _)| path.clone()))
            .collect();
        let is_old = |path: &Path| {
            let written = fs::metadata(path).and_then(|file| file.modified()).ok();
            // An unknown time, or one in the future, counts as now.
            let age = written.and_then(|written| written.elapsed().ok()).unwrap_or_default();
            age >= written_before
        };
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let unused = entries.flatten().map(|entry| entry.path()).filter(|path| !used.contains(path));
        for path in unused.filter(|path| is_old(path)) {
            // A file that stays behind only costs its disk space.
            let _ = fs::remove_file(path);
        }
    }

    /// Unloads the models that were idle for this time.
    pub fn unload_idle(&self, idle: Duration) {
        for embedder in self.in_use() {
            if embedder.unload_idle(idle) {
                tracing::info!(embedder = embedder.id(), "the model was idle and left memory");
            }
        }
        for (_, evaluator) in self.evaluators_in_use() {
            if evaluator.unload_idle(idle) {
                tracing::info!(model = evaluator.name(), "the model was idle and left memory");
            }
        }
    }

    fn in_use(&self) -> Vec<Arc<TextEmbedder>> {
        self.lock().iter().filter_map(|known| known.embedder.upgrade()).collect()
    }

    fn evaluators_in_use(&self) -> Vec<(PathBuf, Arc<ModelEvaluator>)> {
        let known = self.lock_evaluators();
        known.iter().filter_map(|known| Some((known.path.clone(), known.evaluator.upgrade()?))).collect()
    }

    fn lock_evaluators(&self) -> MutexGuard<'_, Vec<KnownEvaluator>> {
        // Recovery from a panic as for the embedders.
        self.evaluators.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<KnownModels>> {
        // A panic leaves at most an entry too few, and then the model is loaded again.
        self.embedders.lock()
    }

    /// Runs work that waits for models on a thread that may block.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many wait already.
    pub async fn wait<T: Send + 'static>(
        &self,
        purpose: SequencePurpose,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let threads = match purpose {
            SequencePurpose::Query => &self.queries,
            SequencePurpose::Feed => &self.feeds,
        };
        let permit = Arc::clone(threads).try_acquire_owned().map_err(|_| Error::Overloaded)?;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| Error::Internal("the request's work ended in a panic; see the log".to_owned()))
    }

    /// Cores that models share with other work.
    pub fn cores(&self) -> BusyCores {
        self.scheduler.cores()
    }

    /// Gauges for metrics: some for all models together, the others for each model in use.
    pub fn gauges(&self) -> Vec<MetricGauge> {
        let (embedders, evaluators) = (self.in_use(), self.evaluators_in_use());
        let loaded = embedders.iter().filter(|embedder| embedder.is_loaded()).count()
            + evaluators.iter().filter(|(_, evaluator)| evaluator.is_loaded()).count();
        let (waiting_queries, waiting_feeds) = self.scheduler.waiting();
        let (running_queries, running_feeds) = self.scheduler.running();
        let mut gauges =
            gauges::of_scheduler(loaded, [waiting_queries, waiting_feeds], [running_queries, running_feeds]);
        for embedder in &embedders {
            gauges.extend(embedder.usage().iter().flat_map(|usage| gauges::of_model(embedder.id(), usage)));
            gauges.extend(
                embedder.service_usage().iter().flat_map(|usage| gauges::of_service(embedder.id(), usage)),
            );
        }
        for language in self.languages.in_use() {
            gauges.extend(gauges::of_service(&language.config().id, &language.model().usage()));
        }
        for (_, evaluator) in &evaluators {
            gauges.extend(gauges::of_model(evaluator.name(), &evaluator.usage()));
        }
        gauges
    }
}

/// Writes a file whose name is the digest of its content, so that an existing file of that name is correct;
/// `reserve` bytes of the disk stay free.
fn write_once(directory: &Path, path: &Path, content: &[u8], reserve: u64) -> io::Result<()> {
    let length = content.len() as u64;
    if fs::metadata(path).is_ok_and(|there| there.len() == length) {
        return Ok(());
    }
    RealDisk.create_directory(directory)?;
    let free = RealDisk.free_space(directory)?;
    if free < reserve.saturating_add(length) {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!("{free} bytes are free, and {reserve} must stay free; make room, or lower disk-reserve"),
        ));
    }
    // Another thread may be writing the same file.
    let mut partial = tempfile::Builder::new().prefix("partial-").tempfile_in(directory)?;
    partial.write_all(content)?;
    partial.as_file().sync_all()?;
    partial.persist(path)?;
    sync_name(&RealDisk, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(directory: &Path) -> NodeModels {
        NodeModels::open(ModelOptions {
            directory: directory.to_owned(),
            slots: 1,
            outbound: OutboundPolicy::parse(&["none"]).expect("a rule"),
            secrets: Vec::new(),
            disk_reserve: 0,
        })
        .expect("threads")
    }

    /// The policy permits no connections, so a file that is found existed before.
    #[test]
    fn files_of_earlier_versions_are_found() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let models = models(directory.path());
        let url = "https://models.example/m.onnx";
        let former = directory.path().join(format!("url-{:032x}", xxh3_128(url.as_bytes())));
        fs::write(&former, "a model").expect("a file");
        for _ in 0..2 {
            let kept = models.fetch(url, None).expect("it is there");
            assert_eq!(fs::read(kept).expect("a file"), b"a model");
        }
        let digest = Sha256Digest::of(b"a model").to_string();
        let error = models.fetch(url, Some(&digest)).expect_err("its digest was never checked");
        assert!(error.to_string().contains("--outbound-allow"), "{error}");
    }

    #[test]
    fn names_are_digests_and_the_reserve_stays_free() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("deep").join("m");
        let write = |reserve| write_once(&directory.path().join("deep"), &path, b"a model", reserve);
        let error = write(u64::MAX).expect_err("no room").to_string();
        assert!(error.contains("must stay free") && !path.exists(), "{error}");
        write(0).expect("there is room");
        write(u64::MAX).expect("it is there already");
    }
}
