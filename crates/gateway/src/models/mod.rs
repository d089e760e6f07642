//! The models of a node: one scheduler, the files of the models, and threads that may wait for them.
//!
//! A model's file comes in a package or is fetched once, and is kept under its content's digest, so that it can be read again after it was let go. An embedder
//! that the next deployment has too, with the same files, stays as it is.

mod components;
mod embeddings;
mod gauges;
mod generator;
mod language;
mod ranking;
mod stateless;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use millrace_embedding::{Embedder, Files, Services};
use millrace_env::{Disk as _, RealDisk, sync_name};
use millrace_model::{Cores, Evaluator, Purpose, Scheduler, SchedulerOptions};
use millrace_remote::Http;
use millrace_schema::{self as schema, Application, Execution, Findings, Mistake, ModelFile};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_128;

use self::language::KnownLanguages;
use crate::metrics::Gauge;
use crate::{Error, StartError};

pub(crate) use components::ApplicationComponents;
pub(crate) use embeddings::Embeddings;
pub(crate) use generator::Generator;
pub(crate) use language::Language;
pub(crate) use ranking::RankModels;
pub(crate) use stateless::{Argument, StatelessModel, StatelessModels};

/// Requests that may wait for a model at the same time: of queries, and documents being fed.
const QUERIES_MAX: usize = 256;
const FEEDS_MAX: usize = 256;

/// The largest file that is fetched.
const FILE_BYTES_MAX: u64 = 32 << 30;
/// Environment variables with secrets begin so.
const SECRET_PREFIX: &str = "MILLRACE_SECRET_";
/// Or so, with names in upper snake case, as for Vespa.
const VESPA_SECRET_PREFIX: &str = "VESPA_SECRET_";

/// What all deployments of a node share of models.
pub(crate) struct Models {
    scheduler: Scheduler,
    directory: PathBuf,
    /// Those in use, and those that went since they were last looked at.
    embedders: Mutex<Vec<Known>>,
    evaluators: Mutex<Vec<KnownEvaluator>>,
    languages: KnownLanguages,
    http: OnceLock<Result<Http, String>>,
    queries: Arc<Semaphore>,
    feeds: Arc<Semaphore>,
}

struct Known {
    config: schema::Embedder,
    files: Files,
    embedder: Weak<Embedder>,
}

/// A model that is evaluated by itself, shared by all that name the same file.
struct KnownEvaluator {
    path: PathBuf,
    execution: Execution,
    evaluator: Weak<Evaluator>,
}

impl Models {
    /// Keeps files in `directory`, which need not exist yet.
    pub(crate) fn open(directory: PathBuf, slots: usize) -> Result<Self, StartError> {
        let options = SchedulerOptions { slots, ..SchedulerOptions::default() };
        Ok(Models {
            scheduler: Scheduler::new(options).map_err(StartError::Threads)?,
            directory,
            embedders: Mutex::default(),
            evaluators: Mutex::default(),
            languages: KnownLanguages::default(),
            http: OnceLock::new(),
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
            feeds: Arc::new(Semaphore::new(FEEDS_MAX)),
        })
    }

    /// The embedders of an application, loaded and checked. Where a file is missing, or cannot be used, that is told with the place of the
    /// component.
    pub(crate) fn embedders(&self, application: &Application, findings: &mut Findings) -> Vec<Arc<Embedder>> {
        let loaded = application.container.embedders.iter().filter_map(|config| {
            let embedder = self.embedder(config, application).map_err(|reason| {
                let text = format!("{}: embedder '{}': {reason}", config.place, config.id);
                Mistake::new(Some(&config.place), text)
            });
            findings.keep(embedder)
        });
        loaded.collect()
    }

    fn embedder(
        &self,
        config: &schema::Embedder,
        application: &Application,
    ) -> Result<Arc<Embedder>, String> {
        let keep = |file: &ModelFile| Ok((file.clone(), self.keep(application, file)?));
        let files = config.files().into_iter().map(keep).collect::<Result<Files, String>>()?;
        // Where a component stands does not make it another.
        let config = schema::Embedder { place: schema::Place::default(), ..config.clone() };
        let same = |known: &&Known| known.config == config && known.files == files;
        if let Some(embedder) = self.lock().iter().find(same).and_then(|known| known.embedder.upgrade()) {
            return Ok(embedder);
        }
        let services = Services { scheduler: &self.scheduler, http: &|| self.http(), secret: &secret };
        let embedder =
            Arc::new(Embedder::load(&config, &files, &services).map_err(|error| error.to_string())?);
        let mut known = self.lock();
        known.retain(|known| known.embedder.strong_count() > 0);
        known.push(Known { config, files, embedder: Arc::downgrade(&embedder) });
        Ok(embedder)
    }

    /// A model of an application that is evaluated by itself.
    ///
    /// # Errors
    /// The file is missing, or no model.
    pub(crate) fn evaluator(
        &self,
        name: &str,
        file: &ModelFile,
        execution: &Execution,
        application: &Application,
    ) -> Result<Arc<Evaluator>, String> {
        let path = self.keep(application, file)?;
        let same = |known: &&KnownEvaluator| known.path == path && known.execution == *execution;
        if let Some(evaluator) =
            self.lock_evaluators().iter().find(same).and_then(|known| known.evaluator.upgrade())
        {
            return Ok(evaluator);
        }
        let threads = millrace_embedding::execution(execution);
        let evaluator = Evaluator::load(name, path.clone(), threads, &self.scheduler)
            .map_err(|error| error.to_string())?;
        let evaluator = Arc::new(evaluator);
        let mut known = self.lock_evaluators();
        known.retain(|known| known.evaluator.strong_count() > 0);
        let execution = execution.clone();
        known.push(KnownEvaluator { path, execution, evaluator: Arc::downgrade(&evaluator) });
        Ok(evaluator)
    }

    /// Puts a file beside the others, unless it is there.
    fn keep(&self, application: &Application, file: &ModelFile) -> Result<PathBuf, String> {
        let path = match file {
            ModelFile::Path(path) => path,
            ModelFile::Url(url) => return self.fetch(url),
        };
        let content =
            application.files.get(path).ok_or_else(|| format!("the package has no file '{path}'"))?;
        let kept = self.directory.join(format!("{:032x}", xxh3_128(content)));
        write_once(&self.directory, &kept, content)
            .map_err(|error| format!("{path} cannot be kept in {}: {error}", self.directory.display()))?;
        Ok(kept)
    }

    /// Fetches a file, unless it was fetched before.
    fn fetch(&self, url: &str) -> Result<PathBuf, String> {
        let kept = self.directory.join(format!("url-{:032x}", xxh3_128(url.as_bytes())));
        if !kept.is_file() {
            tracing::info!(url, "fetching a model's file");
        }
        millrace_remote::download(&self.http()?, url, &kept, FILE_BYTES_MAX)
            .map_err(|error| error.to_string())?;
        Ok(kept)
    }

    /// Who asks other services; made when the first is asked.
    fn http(&self) -> Result<Http, String> {
        let made = self.http.get_or_init(|| Http::new().map_err(|error| error.to_string()));
        made.clone().map_err(|error| format!("other services cannot be asked: {error}"))
    }

    /// Removes the files that no model uses.
    pub(crate) fn remove_unused(&self) {
        let used: Vec<PathBuf> = self
            .lock()
            .iter()
            .filter(|known| known.embedder.strong_count() > 0)
            .flat_map(|known| known.files.values().cloned().collect::<Vec<_>>())
            .chain(self.evaluators_in_use().iter().map(|(path, _)| path.clone()))
            .collect();
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !used.contains(path)) {
            // A file that stays behind costs its room only.
            let _ = fs::remove_file(path);
        }
    }

    /// Lets the models go that were idle for so long.
    pub(crate) fn unload_idle(&self, idle: Duration) {
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

    fn in_use(&self) -> Vec<Arc<Embedder>> {
        self.lock().iter().filter_map(|known| known.embedder.upgrade()).collect()
    }

    fn evaluators_in_use(&self) -> Vec<(PathBuf, Arc<Evaluator>)> {
        let known = self.lock_evaluators();
        known.iter().filter_map(|known| Some((known.path.clone(), known.evaluator.upgrade()?))).collect()
    }

    fn lock_evaluators(&self) -> MutexGuard<'_, Vec<KnownEvaluator>> {
        // As with the embedders.
        self.evaluators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        // A panic leaves at most an entry too few, and then the model is loaded again.
        self.embedders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work that waits for models on a thread that may wait.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when too much waits already.
    pub(crate) async fn wait<T: Send + 'static>(
        &self,
        purpose: Purpose,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let threads = match purpose {
            Purpose::Query => &self.queries,
            Purpose::Feed => &self.feeds,
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

    /// The cores that models share with other work.
    pub(crate) fn cores(&self) -> Cores {
        self.scheduler.cores()
    }

    /// What is read when metrics are asked for: some for all models together, the others for each in use.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let (embedders, evaluators) = (self.in_use(), self.evaluators_in_use());
        let loaded = embedders.iter().filter(|embedder| embedder.is_loaded()).count()
            + evaluators.iter().filter(|(_, evaluator)| evaluator.is_loaded()).count();
        let (waiting_queries, waiting_feeds) = self.scheduler.waiting();
        let (running_queries, running_feeds) = self.scheduler.running();
        let mut gauges =
            gauges::of_scheduler(loaded, (waiting_queries, waiting_feeds), (running_queries, running_feeds));
        for embedder in &embedders {
            gauges.extend(embedder.usage().iter().flat_map(|usage| gauges::of_model(embedder.id(), usage)));
            gauges.extend(embedder.asked().iter().flat_map(|usage| gauges::of_service(embedder.id(), usage)));
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

/// A secret of services.xml: what the environment has under its name in capitals, or where Vespa looks for it.
fn secret(name: &str) -> Result<String, String> {
    let capital = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let ours = format!("{SECRET_PREFIX}{}", name.chars().map(capital).collect::<String>());
    let theirs = format!("{VESPA_SECRET_PREFIX}{}", upper_snake(name));
    [&ours, &theirs]
        .into_iter()
        .find_map(|variable| std::env::var(variable).ok())
        .ok_or_else(|| format!("there is no secret '{name}': set the environment variable {ours}"))
}

/// `myApiKey` as `MY_API_KEY`.
fn upper_snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            text.push('_');
        }
        text.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        before = c;
    }
    text
}

/// Writes a file whose name says what is in it: one that is there is right.
fn write_once(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| there.len() == content.len() as u64) {
        return Ok(());
    }
    RealDisk.create_directory(directory)?;
    // Others may be writing the same.
    let mut partial = tempfile::NamedTempFile::new_in(directory)?;
    partial.write_all(content)?;
    partial.as_file().sync_all()?;
    partial.persist(path)?;
    sync_name(&RealDisk, path)
}

#[cfg(test)]
mod tests {
    use super::upper_snake;

    #[test]
    fn names_of_secrets_become_those_of_variables() {
        for (name, expected) in
            [("myApiKey", "MY_API_KEY"), ("openai-key", "OPENAI_KEY"), ("key2B", "KEY2_B"), ("OPEN", "OPEN")]
        {
            assert_eq!(upper_snake(name), expected);
        }
    }
}
