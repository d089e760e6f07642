//! The models of a node: one scheduler, the files of the models, and threads that may wait for them.
//!
//! A model's file comes in a package, and is kept under its content's digest, so that it can be read again after it was let go. An embedder
//! that the next deployment has too, with the same files, stays as it is.

mod components;
mod embeddings;
mod ranking;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use millrace_embedding::{Embedder, Files};
use millrace_model::{Evaluator, Purpose, Scheduler, SchedulerOptions, Usage};
use millrace_schema::{self as schema, Application, Execution, ModelFile};
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_128;

use crate::metrics::Gauge;
use crate::{Error, StartError};

pub(crate) use components::ApplicationComponents;
pub(crate) use embeddings::Embeddings;
pub(crate) use ranking::RankModels;

/// Requests that may wait for a model at the same time: of queries, and documents being fed.
const QUERIES_MAX: usize = 256;
const FEEDS_MAX: usize = 256;

/// What all deployments of a node share of models.
pub(crate) struct Models {
    scheduler: Scheduler,
    directory: PathBuf,
    /// Those in use, and those that went since they were last looked at.
    embedders: Mutex<Vec<Known>>,
    evaluators: Mutex<Vec<KnownEvaluator>>,
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
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
            feeds: Arc::new(Semaphore::new(FEEDS_MAX)),
        })
    }

    /// The embedders of an application, loaded and checked.
    ///
    /// # Errors
    /// A file is missing, or cannot be used; with the place of the component.
    pub(crate) fn embedders(&self, application: &Application) -> Result<Vec<Arc<Embedder>>, Error> {
        let configs = application.container.embedders.iter();
        configs
            .map(|config| {
                self.embedder(config, application).map_err(|reason| {
                    Error::Compile(format!("{}: embedder '{}': {reason}", config.place, config.id))
                })
            })
            .collect()
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
        let embedder =
            Arc::new(Embedder::load(&config, &files, &self.scheduler).map_err(|error| error.to_string())?);
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
            ModelFile::Url(url) => return Err(format!("{url} cannot be fetched")),
        };
        let content =
            application.files.get(path).ok_or_else(|| format!("the package has no file '{path}'"))?;
        let kept = self.directory.join(format!("{:032x}", xxh3_128(content)));
        write_once(&self.directory, &kept, content)
            .map_err(|error| format!("{path} cannot be kept in {}: {error}", self.directory.display()))?;
        Ok(kept)
    }

    /// Removes the files that no embedder uses.
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

    /// What is read when metrics are asked for: totals over all models in use.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let embedders = self.in_use();
        let evaluators = self.evaluators_in_use();
        let usages: Vec<Usage> = embedders
            .iter()
            .filter_map(|embedder| embedder.usage())
            .chain(evaluators.iter().map(|(_, evaluator)| evaluator.usage()))
            .collect();
        let total = |of: fn(&Usage) -> u64| usages.iter().map(of).sum::<u64>() as f64;
        let (queries, feeds) = self.scheduler.waiting();
        let gauge = |name, description, value: f64| Gauge { name, description, value };
        let loaded = embedders.iter().filter(|embedder| embedder.is_loaded()).count()
            + evaluators.iter().filter(|(_, evaluator)| evaluator.is_loaded()).count();
        vec![
            gauge("millrace.model.loaded", "Models in memory", loaded as f64),
            gauge("millrace.model.waiting_queries", "Texts of queries that wait for a model", queries as f64),
            gauge("millrace.model.waiting_feeds", "Texts of documents that wait for a model", feeds as f64),
            gauge("millrace.model.runs", "Runs of models", total(|usage| usage.runs)),
            gauge("millrace.model.sequences", "Texts that models ran on", total(|usage| usage.sequences)),
            gauge("millrace.model.tokens", "Tokens of those texts", total(|usage| usage.tokens)),
            gauge("millrace.model.padding", "Tokens of padding", total(|usage| usage.padding)),
            gauge(
                "millrace.model.queue_ms",
                "Milliseconds that texts waited for a model",
                total(|usage| usage.queue_us) / 1e3,
            ),
            gauge(
                "millrace.model.run_ms",
                "Milliseconds of runs of models",
                total(|usage| usage.run_us) / 1e3,
            ),
            gauge("millrace.model.failed", "Texts that a model failed on", total(|usage| usage.failed)),
            gauge(
                "millrace.model.refused",
                "Texts refused because too many waited",
                total(|usage| usage.refused),
            ),
            gauge(
                "millrace.model.dropped",
                "Texts that nobody waited for any more when their turn came",
                total(|usage| usage.dropped),
            ),
        ]
    }
}

/// Writes a file whose name says what is in it: one that is there is right.
fn write_once(directory: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| there.len() == content.len() as u64) {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let partial = path.with_extension("partial");
    fs::write(&partial, content)?;
    fs::rename(&partial, path)
}
