//! Snapshots of a node: the documents of its store, with the application and what the node knows of its
//! cluster.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use millrace_document::json::fields;
use millrace_document::{DocumentGroup, FieldSet, Timestamp};
use millrace_store::{
    SnapshotAttachment, SnapshotDescription, SnapshotName, SnapshotReader, StoreVisit, VisitedVersion,
};
use millrace_tensor::json::{CellNumbers, TensorFormat};
use parking_lot::Mutex;

use crate::cluster::{SnapshotVersion, SnapshotVersionPage};
use crate::{Error, Node};

/// Directories below the data directory whose files are copied into a snapshot.
const ATTACHED: [&str; 2] = ["application", "cluster"];

/// Suffixes of files that are not finished.
const UNFINISHED: [&str; 2] = [".next", ".writing"];

/// Size in bytes at which a page of versions ends.
const PAGE_BYTES: usize = 4 << 20;
/// Number of documents that are read at a time.
const STEP: usize = 64;

/// The group of a snapshot that was read last, open for the next page.
#[derive(Default)]
pub(crate) struct SnapshotReading(Mutex<Option<OpenGroup>>);

struct OpenGroup {
    name: SnapshotName,
    group: DocumentGroup,
    /// Generation of the application by whose types it is read.
    generation: u64,
    reader: Arc<SnapshotReader>,
}

impl Node {
    /// Makes a snapshot of this node, which has every write that was acknowledged before `time`, or before
    /// the call.
    ///
    /// # Errors
    /// As [`millrace_store::Store::create_snapshot`].
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
        self.snapshot_reading().0.lock().take_if(|open| open.name == *name);
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
        let reader = self.open_group(name, group)?;
        let types: Vec<String> =
            deployment.kinds().map(|kind| kind.schema.document_type.name().to_string()).collect();
        let mut visit = StoreVisit {
            document_types: types,
            wanted: STEP,
            tombstones: true,
            continuation: after,
            ..reader.visit_of_group()
        };
        let tensors = TensorFormat::default().with_numbers(CellNumbers::Exact);
        let mut page = SnapshotVersionPage::default();
        let mut bytes = 0;
        loop {
            let found = reader.visit(&visit)?;
            for visited in found.visited {
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
            visit.continuation = found.continuation;
            if visit.continuation.is_none() || bytes >= PAGE_BYTES {
                break;
            }
        }
        page.next = visit.continuation;
        if page.next.is_none() {
            self.snapshot_reading().0.lock().take_if(|open| open.name == *name && open.group == *group);
        }
        Ok(page)
    }

    fn open_group(&self, name: &SnapshotName, group: &DocumentGroup) -> Result<Arc<SnapshotReader>, Error> {
        let missing = || Error::NotFound(format!("the snapshot '{name}' does not exist on this node"));
        let snapshot = self.store().snapshot(name)?.ok_or_else(missing)?;
        let deployment = self.deployments().current()?;
        let generation = deployment.generation;
        let mut open = self.snapshot_reading().0.lock();
        let is_it =
            |open: &&OpenGroup| (&open.name, &open.group, open.generation) == (name, group, generation);
        if let Some(known) = open.as_ref().filter(is_it) {
            return Ok(Arc::clone(&known.reader));
        }
        let reader = Arc::new(SnapshotReader::open(&snapshot.path, group, deployment.layout())?);
        let (name, group) = (name.clone(), group.clone());
        *open = Some(OpenGroup { name, group, generation, reader: Arc::clone(&reader) });
        Ok(reader)
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
