//! Which document types are to be reindexed, which are, and how far it has come.
//!
//! 1. A deployment that changes indexing statements makes its types *pending*: someone has to say that now is the time.
//! 2. Marking a type as *ready* says so; marking it again begins anew.
//! 3. The next deployment puts what was marked, and the speeds that were set, into effect.
//! 4. The background takes [`Reindexings::next`], one type at a time, and tells how it went with [`Reindexings::advance`].
//!
//! Everything is in one file, replaced as a whole, so that it goes on after a restart.

mod status;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use millrace_schema::change::Effect;
use serde_json::Value;

use crate::deployments::replace_file;
use crate::{Deployment, StartError};
use status::Status;

/// The name of the file.
const FILE: &str = "reindexing";

/// What failed is tried again so much later, in milliseconds.
const GRACE_MS: u64 = 180_000;

/// The reindexing of all document types.
pub(crate) struct Reindexings {
    directory: PathBuf,
    types: Mutex<Types>,
}

/// By content cluster, then by document type.
type Types = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Status>>;

/// Document types by content cluster.
pub(crate) type Chosen = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A document type whose reindexing goes on.
pub(crate) struct Task {
    pub(crate) cluster: Arc<str>,
    pub(crate) document_type: Arc<str>,
    /// Where to go on; `None`: at the beginning.
    pub(crate) position: Option<String>,
    pub(crate) speed: f64,
    /// When it was marked; tells one reindexing of the type from the next.
    ready_ms: u64,
}

/// What came of a step.
pub(crate) enum Step {
    /// There is more to do.
    GoesOn {
        /// Where.
        position: String,
        /// The share that is done.
        progress: f64,
    },
    /// All documents are done.
    Ends,
    /// It failed, for this reason, and will be tried again.
    Fails(String),
}

impl Reindexings {
    /// Reads what is kept in a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self, StartError> {
        let path = directory.join(FILE);
        let types = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| StartError::Directory {
                path: path.clone(),
                source: io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{error}; remove the file, and mark what was to be reindexed again"),
                ),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Types::new(),
            Err(source) => return Err(StartError::Directory { path, source }),
        };
        Ok(Reindexings { directory: directory.to_owned(), types: Mutex::new(types) })
    }

    fn lock(&self) -> MutexGuard<'_, Types> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A deployment is in effect: what was marked begins, and the types whose statements it changes are pending.
    pub(crate) fn deployed(&self, deployment: &Deployment) -> io::Result<()> {
        let mut types = self.lock();
        let application = &deployment.application;
        types.retain(|id, of| {
            let cluster = application.content.iter().find(|cluster| cluster.id == *id);
            of.retain(|name, _| cluster.is_some_and(|cluster| cluster.document(name).is_some()));
            !of.is_empty()
        });
        for status in types.values_mut().flat_map(BTreeMap::values_mut) {
            status.put_into_effect();
        }
        for action in deployment.changes.actions.iter().filter(|action| action.effect == Effect::Reindex) {
            if let Some(cluster) = application.cluster_of(&action.document_type) {
                let of = types.entry(Arc::clone(&cluster.id)).or_default();
                of.entry(Arc::clone(&action.document_type)).or_default().pending =
                    Some(deployment.generation);
            }
        }
        self.save(&types)
    }

    /// Marks types as ready: the next deployment begins to reindex them, from the beginning.
    pub(crate) fn mark(&self, chosen: &Chosen, speed: f64) -> io::Result<()> {
        let mut types = self.lock();
        let now = now_ms();
        for (cluster, document_type) in each(chosen) {
            let of = types.entry(Arc::clone(cluster)).or_default();
            of.entry(Arc::clone(document_type)).or_default().mark(now, speed);
        }
        self.save(&types)
    }

    /// Sets the speed, from the next deployment on, of those types that were marked before; answers which these are.
    pub(crate) fn set_speed(&self, chosen: &Chosen, speed: f64) -> io::Result<Chosen> {
        let mut types = self.lock();
        let mut changed = Chosen::new();
        for (cluster, document_type) in each(chosen) {
            let status = types.get_mut(cluster).and_then(|of| of.get_mut(document_type));
            if let Some(ready) = status.and_then(|status| status.ready.as_mut()) {
                ready.speed = speed;
                changed.entry(Arc::clone(cluster)).or_default().push(Arc::clone(document_type));
            }
        }
        self.save(&types)?;
        Ok(changed)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut types = self.lock();
        types.clear();
        self.save(&types)
    }

    /// What is to be reindexed now.
    pub(crate) fn next(&self) -> Option<Task> {
        let mut types = self.lock();
        let now = now_ms();
        for (cluster, of) in types.iter_mut() {
            for (document_type, status) in of.iter_mut() {
                if let Some(run) = status.running(now, GRACE_MS) {
                    return Some(Task {
                        cluster: Arc::clone(cluster),
                        document_type: Arc::clone(document_type),
                        position: run.position.clone(),
                        speed: run.speed,
                        ready_ms: run.ready_ms,
                    });
                }
            }
        }
        None
    }

    /// A step of a task is done. One of a reindexing that another has replaced meanwhile changes nothing.
    pub(crate) fn advance(&self, task: &Task, step: Step, save: bool) -> io::Result<()> {
        let mut types = self.lock();
        let status = types.get_mut(&task.cluster).and_then(|of| of.get_mut(&task.document_type));
        if let Some(run) = status.and_then(|status| status.run.as_mut())
            && run.ready_ms == task.ready_ms
        {
            run.advance(step, now_ms());
        }
        if save { self.save(&types) } else { Ok(()) }
    }

    /// How it stands, in the form of `GET …/reindexing`; `deployment` says which clusters there are.
    pub(crate) fn render(&self, deployment: &Deployment) -> Value {
        let types = self.lock();
        let none = BTreeMap::new();
        let cluster = |id: &Arc<str>| status::render(types.get(id).unwrap_or(&none));
        let content = deployment.application.content.iter();
        let clusters: serde_json::Map<String, Value> =
            content.map(|of| (of.id.to_string(), cluster(&of.id))).collect();
        serde_json::json!({ "clusters": clusters })
    }

    /// The share that is done of what goes on; of several, of the one that is least far; 1 where nothing goes on.
    pub(crate) fn progress(&self) -> f64 {
        let types = self.lock();
        let runs = types.values().flat_map(BTreeMap::values).filter_map(|status| status.run.as_ref());
        runs.filter(|run| run.ended_ms.is_none()).map(|run| run.progress).fold(1.0, f64::min)
    }

    fn save(&self, types: &Types) -> io::Result<()> {
        replace_file(&self.directory, FILE, &serde_json::to_vec_pretty(types)?)
    }
}

fn each(chosen: &Chosen) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    chosen.iter().flat_map(|(cluster, types)| types.iter().map(move |document_type| (cluster, document_type)))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
