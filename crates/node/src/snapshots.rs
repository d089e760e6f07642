//! Snapshots of a node: the documents of its store, with the application and what the node knows of its
//! cluster.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_document::json::fields;
use millrace_document::{DocumentGroup, FieldSet, Timestamp};
use millrace_store::{
    DropPage, PointBase, PointReader, SnapshotAttachment, SnapshotDescription, SnapshotName, SnapshotReader,
    StoreVisit, VisitedVersion,
};
use millrace_tensor::json::{CellNumbers, TensorFormat};
use parking_lot::Mutex;

use crate::cluster::{GroupMoment, SnapshotVersion, SnapshotVersionPage};
use crate::{CompiledApplication, Error, Node};

/// Directories below the data directory whose files are copied into a snapshot.
const ATTACHED: [&str; 2] = ["application", "cluster"];

/// Suffixes of files that are not finished.
const UNFINISHED: [&str; 2] = [".next", ".writing"];

/// Size in bytes at which a page of versions ends.
const PAGE_BYTES: usize = 4 << 20;
/// Number of documents that are read at a time.
const STEP: usize = 64;

/// The group of a snapshot, and that of a point in time, that were read last, open for the next page.
#[derive(Default)]
pub(crate) struct SnapshotReading {
    snapshot: OpenReader<(SnapshotName, DocumentGroup), SnapshotReader>,
    moment: OpenReader<GroupMoment, PointReader>,
}

/// The reader that was used last.
struct OpenReader<K, R>(Mutex<Option<OpenedReader<K, R>>>);

struct OpenedReader<K, R> {
    subject: K,
    /// Generation of the application by whose types it reads.
    generation: u64,
    reader: Arc<R>,
}

impl<K, R> Default for OpenReader<K, R> {
    fn default() -> Self {
        OpenReader(Mutex::default())
    }
}

impl<K: Clone + PartialEq, R> OpenReader<K, R> {
    /// Returns the reader of a subject: the one that is open, or a new one.
    fn get(
        &self,
        subject: &K,
        generation: u64,
        open: impl FnOnce() -> Result<R, Error>,
    ) -> Result<Arc<R>, Error> {
        let mut known = self.0.lock();
        let is_it = |open: &&OpenedReader<K, R>| open.subject == *subject && open.generation == generation;
        if let Some(known) = known.as_ref().filter(is_it) {
            return Ok(Arc::clone(&known.reader));
        }
        let reader = Arc::new(open()?);
        *known = Some(OpenedReader { subject: subject.clone(), generation, reader: Arc::clone(&reader) });
        Ok(reader)
    }

    /// Closes the reader of such a subject.
    fn close(&self, is_it: impl FnOnce(&K) -> bool) {
        self.0.lock().take_if(|open| is_it(&open.subject));
    }
}

/// Versions, and the continuation of those that follow.
type VersionStep = (Vec<VisitedVersion>, Option<String>);

impl Node {
    /// Makes a snapshot of this node, which has every write that was acknowledged before `time`, or before
    /// the call.
    ///
    /// # Errors
    /// Those of [`millrace_store::Store::create_snapshot`].
    pub fn create_snapshot(
        &self,
        name: &SnapshotName,
        time: Timestamp,
    ) -> Result<SnapshotDescription, Error> {
        let attach = || {
            // Files of one generation.
            self.deployments().unchanged(|| {
                let mut files = Vec::new();
                for directory in ATTACHED {
                    let path = self.settings().data_dir.join(directory);
                    let failed = |error: io::Error| millrace_store::Error::Io {
                        action: format!("read {}", path.display()),
                        reason: error.to_string(),
                    };
                    files.extend(attachments(directory, &path).map_err(failed)?);
                }
                Ok((self.generation(), files))
            })
        };
        Ok(self.store().create_snapshot(name, time, attach)?)
    }

    /// Deletes a snapshot of this node. Returns false if there is none of this name.
    ///
    /// # Errors
    /// A file cannot be deleted.
    pub fn delete_snapshot(&self, name: &SnapshotName) -> Result<bool, Error> {
        self.snapshot_reading().snapshot.close(|(of, _)| of == name);
        self.snapshot_reading().moment.close(|moment| moment.snapshot == *name);
        Ok(self.store().delete_snapshot(name)?)
    }

    /// Reads versions of the documents of a group in a snapshot, removals included, by the types of the
    /// active application.
    ///
    /// # Errors
    /// There is no such snapshot; no application is active; a file is damaged or cannot be read.
    pub(crate) fn snapshot_versions(
        &self,
        name: &SnapshotName,
        group: &DocumentGroup,
        after: Option<String>,
    ) -> Result<SnapshotVersionPage, Error> {
        let deployment = self.deployments().current()?;
        let subject = (name.clone(), group.clone());
        let readers = &self.snapshot_reading().snapshot;
        let reader = readers.get(&subject, deployment.generation, || {
            let missing = || Error::NotFound(format!("the snapshot '{name}' does not exist on this node"));
            let snapshot = self.store().snapshot(name)?.ok_or_else(missing)?;
            Ok(SnapshotReader::open(&snapshot.path, group, deployment.layout())?)
        })?;
        let page = page_of(&deployment, after, |types, after| {
            let found = reader.visit(&StoreVisit {
                document_types: types.to_vec(),
                wanted: STEP,
                tombstones: true,
                continuation: after,
                ..reader.visit_of_group()
            })?;
            Ok((found.visited, found.continuation))
        })?;
        if page.next.is_none() {
            readers.close(|open| *open == subject);
        }
        Ok(page)
    }

    /// Reads versions of the documents of a group until a time, in the same way. The newest come first, and
    /// drops are not applied to all.
    ///
    /// # Errors
    /// The same; the time cannot be restored from the snapshot and the kept logs.
    pub(crate) fn versions_until(
        &self,
        moment: &GroupMoment,
        after: Option<String>,
    ) -> Result<SnapshotVersionPage, Error> {
        let deployment = self.deployments().current()?;
        let reader = self.open_moment(&deployment, moment)?;
        let page = page_of(&deployment, after, |types, after| {
            let found = reader.versions(types, after.as_deref(), STEP)?;
            Ok((found.versions, found.continuation))
        })?;
        if page.next.is_none() {
            self.snapshot_reading().moment.close(|open| open == moment);
        }
        Ok(page)
    }

    /// Lists drops of documents of a group until a time.
    ///
    /// # Errors
    /// Those of [`Node::versions_until`].
    pub(crate) fn drops_until(&self, moment: &GroupMoment, after: Option<&str>) -> Result<DropPage, Error> {
        let deployment = self.deployments().current()?;
        Ok(self.open_moment(&deployment, moment)?.drops(after)?)
    }

    fn open_moment(
        &self,
        deployment: &CompiledApplication,
        moment: &GroupMoment,
    ) -> Result<Arc<PointReader>, Error> {
        self.snapshot_reading().moment.get(moment, deployment.generation, || {
            let snapshot = self.store().snapshot(&moment.snapshot)?;
            let base = snapshot.as_ref().map_or(PointBase::LogsSince(moment.time), PointBase::Snapshot);
            let layout = deployment.layout();
            Ok(PointReader::open(self.store(), base, &moment.group, moment.until, layout)?)
        })
    }
}

/// Makes a page of the steps of a reader, from a continuation on.
fn page_of(
    deployment: &CompiledApplication,
    after: Option<String>,
    step: impl Fn(&[String], Option<String>) -> Result<VersionStep, Error>,
) -> Result<SnapshotVersionPage, Error> {
    let types: Vec<String> =
        deployment.kinds().map(|kind| kind.schema.document_type.name().to_string()).collect();
    let tensors = TensorFormat::default().with_numbers(CellNumbers::Exact);
    let mut page = SnapshotVersionPage { versions: Vec::new(), next: after };
    let mut bytes = 0;
    loop {
        let (found, next) = step(&types, page.next.take())?;
        for visited in found {
            let version = match visited {
                VisitedVersion::Removed(id, timestamp) => {
                    SnapshotVersion { id: id.as_str().to_owned(), timestamp, fields: None }
                }
                VisitedVersion::Document(document, timestamp) => {
                    let schema = deployment.application.schemas.get(document.id.document_type());
                    let document_type = schema.map(|schema| &*schema.document_type);
                    let shown = fields(&document, document_type, &FieldSet::Document, tensors);
                    let text = serde_json::to_string(&shown);
                    let text = text.map_err(|error| Error::Internal(error.to_string()))?;
                    SnapshotVersion { id: document.id.as_str().to_owned(), timestamp, fields: Some(text) }
                }
            };
            bytes += version.id.len() + version.fields.as_ref().map_or(0, String::len);
            page.versions.push(version);
        }
        page.next = next;
        if page.next.is_none() || bytes >= PAGE_BYTES {
            return Ok(page);
        }
    }
}

/// The finished files of a directory; none if it does not exist.
fn attachments(directory: &'static str, path: &Path) -> io::Result<Vec<SnapshotAttachment>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_file() || UNFINISHED.iter().any(|suffix| name.ends_with(suffix)) {
            continue;
        }
        match fs::read(entry.path()) {
            Ok(bytes) => files.push(SnapshotAttachment { directory, name, bytes }),
            // A file that was replaced by another has gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}
