//! The catalog: indexes with their settings, mappings and aliases; templates; data streams.
//!
//! Each entry is a document of the group [`StorageGroup::CATALOG`]: it is written as all documents are,
//! before the request that changed it is answered. A copy of all entries is kept in memory. Requests read it
//! as it was when they asked for it, and wait for no change: a change makes a copy of its own, and puts it in
//! the place of the other when it is durable.

mod change;
mod id_writer;
mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use millrace_cluster::ClusterVersion;
use millrace_node::cluster::{RouteBackoff, wait_for};
use millrace_node::{CompiledApplication, Node};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use self::change::CatalogChange;
use self::change::ChangedEntry;
use self::id_writer::{ID_WRITER, IdWriterEntry};
pub(crate) use self::pending::EntryWrite;
use self::pending::{PENDING, PendingChange};
use crate::Error;
use crate::analyzers::IndexAnalyzers;
use crate::lifecycle::StreamLifecycle;
use crate::partitions::{self, PartitionEntry};
use crate::storage::{self, StorageGroup, StoredSource};
use crate::typed::{self, TypeBinding};
use crate::unflushed::UnflushedState;

/// Sequence numbers that are reserved with one write of the catalog.
const SEQ_NO_STEP: i64 = 1 << 20;

/// Indexes that there may be.
const INDEXES_MAX: usize = 10_000;

/// Entries of other kinds that there may be.
const ENTRIES_MAX: usize = 10_000;

/// Beginnings of the names of entries: of indexes, of data streams, and of partitions.
const INDEX_PREFIX: &str = "index/";
const STREAM_PREFIX: &str = "stream/";
pub(crate) const PARTITION_PREFIX: &str = "partition/";

/// Beginning of the names of the indexes of data streams.
const STREAM_INDEX_PREFIX: &str = ".ds-";

/// Beginning of the names of marks, each of an index whose documents are to be dropped.
const DELETION_PREFIX: &str = "deleted/";

/// An index as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    pub(crate) name: String,
    pub(crate) uuid: String,
    /// Number of its group.
    pub(crate) number: u32,
    pub(crate) created_ms: u64,
    /// Settings by their full names, such as `index.number_of_shards`, with texts as values.
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) mappings: Map<String, Value>,
    pub(crate) aliases: BTreeMap<String, Map<String, Value>>,
    pub(crate) is_closed: bool,
    /// Sequence numbers below this one may have been given.
    pub(crate) seq_no_reserved: i64,
    /// Field with the time of a document, of an index in `logs` mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_field: Option<String>,
    /// Mapping of the fields that documents in `logs` mode had when the last partition was made.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) observed: Map<String, Value>,
}

/// A data stream as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StreamEntry {
    pub(crate) name: String,
    /// Backing indexes, the oldest first.
    pub(crate) indexes: Vec<String>,
    pub(crate) generation: u64,
    pub(crate) template: String,
    pub(crate) timestamp_field: String,
    /// True if log records of OpenTelemetry made it: its indexes have the mapping of such records.
    #[serde(default)]
    pub(crate) has_records: bool,
    /// Time for which its documents are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lifecycle: Option<StreamLifecycle>,
}

impl StreamEntry {
    /// Name of the next backing index.
    pub(crate) fn next_name(&self) -> String {
        format!("{STREAM_INDEX_PREFIX}{}-{:06}", self.name, self.generation + 1)
    }
}

/// An index with its state in memory.
#[derive(Debug, Clone)]
pub(crate) struct OpenIndex {
    pub(crate) entry: Arc<IndexEntry>,
    pub(crate) live: Arc<UnflushedState>,
    /// Document type that the index stands for.
    pub(crate) typed: Option<Arc<TypeBinding>>,
    pub(crate) analyzers: Arc<IndexAnalyzers>,
    /// True if its mapping has objects that pass their fields through, once that was asked.
    pub(crate) passes_fields: Arc<OnceLock<bool>>,
}

impl OpenIndex {
    /// Index of the service with its state in memory.
    pub(crate) fn new(entry: IndexEntry, live: Arc<UnflushedState>) -> Self {
        let analyzers = Arc::new(IndexAnalyzers::of(&entry.settings));
        let entry = Arc::new(entry);
        OpenIndex { entry, live, typed: None, analyzers, passes_fields: Arc::default() }
    }

    /// True if it is in `logs` mode: its documents are in partitions, and none is changed.
    pub(crate) fn is_log(&self) -> bool {
        self.entry.time_field.is_some()
    }

    /// True if its writes are hidden from searches until it is refreshed.
    pub(crate) fn hides_writes(&self) -> bool {
        if self.is_log() {
            return false;
        }
        let interval = self.entry.settings.get("index.refresh_interval");
        interval.is_some_and(|interval| interval == "-1" || interval.as_i64() == Some(-1))
    }

    /// Shows a write that asked for it, with all others of its shard. Several shards show the document alone.
    pub(crate) fn refresh_for(&self, id: &str) {
        match self.has_one_shard() {
            true => self.live.refresh(),
            false => self.live.show(id),
        }
    }

    /// True if a request with this routing value finds a document. With one shard all of them do.
    pub(crate) fn finds(&self, stored: &StoredSource, routing: Option<&str>) -> bool {
        self.is_log()
            || self.has_one_shard()
            || stored.routing.is_none() && routing.is_none()
            || stored.routing.as_deref().unwrap_or(&stored.id) == routing.unwrap_or(&stored.id)
    }

    fn has_one_shard(&self) -> bool {
        self.setting("index.number_of_shards").unwrap_or("1") == "1"
    }

    /// True if more sequence numbers should be reserved before the next write.
    pub(crate) fn needs_seq_nos(&self) -> bool {
        self.live.seq_no() + SEQ_NO_STEP / 2 >= self.entry.seq_no_reserved
    }

    /// Group of its documents.
    pub(crate) fn group(&self) -> StorageGroup {
        StorageGroup::of_index(self.entry.number)
    }

    /// A setting as text.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.entry.settings.get(name)?.as_str()
    }

    /// True if its name is one of the indexes of data streams.
    pub(crate) fn has_stream_name(&self) -> bool {
        self.entry.name.starts_with(STREAM_INDEX_PREFIX)
    }

    /// True if patterns pass it over, unless they ask for hidden ones.
    pub(crate) fn is_hidden(&self) -> bool {
        self.setting("index.hidden") == Some("true")
    }
}

/// Kind of a template or another named object that is kept as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamedKind {
    /// Composable template of indexes.
    IndexTemplate,
    /// Part of composable templates.
    ComponentTemplate,
    /// Template of the older kind.
    LegacyTemplate,
    /// Pipeline without processors.
    Pipeline,
    /// Setting of the cluster.
    ClusterSettings,
    /// Aliases of a document type.
    TypeAliases,
    /// Lifecycle policy, of which the time of deletion counts.
    LifecyclePolicy,
    /// Pipeline of searches, which joins the scores of `hybrid` queries.
    SearchPipeline,
}

impl NamedKind {
    const ALL: [NamedKind; 8] = [
        NamedKind::IndexTemplate,
        NamedKind::ComponentTemplate,
        NamedKind::LegacyTemplate,
        NamedKind::Pipeline,
        NamedKind::ClusterSettings,
        NamedKind::TypeAliases,
        NamedKind::LifecyclePolicy,
        NamedKind::SearchPipeline,
    ];

    /// Beginning of the names of its documents.
    fn prefix(self) -> &'static str {
        match self {
            NamedKind::IndexTemplate => "index_template/",
            NamedKind::ComponentTemplate => "component_template/",
            NamedKind::LegacyTemplate => "template/",
            NamedKind::Pipeline => "pipeline/",
            NamedKind::ClusterSettings => "cluster_settings/",
            NamedKind::TypeAliases => "type_aliases/",
            NamedKind::LifecyclePolicy => "lifecycle_policy/",
            NamedKind::SearchPipeline => "search_pipeline/",
        }
    }
}

/// All entries, in memory.
#[derive(Clone, Default)]
pub(crate) struct CatalogEntries {
    pub(crate) indexes: BTreeMap<String, OpenIndex>,
    pub(crate) streams: BTreeMap<String, StreamEntry>,
    named: BTreeMap<(NamedKind, String), Arc<Value>>,
    /// Indexes that are document types of the application.
    types: BTreeMap<String, OpenIndex>,
    /// Application that has the types.
    application: Option<Arc<CompiledApplication>>,
    /// Partitions whose drop is in progress: one list of all copies.
    pub(crate) dropping: Arc<Mutex<Vec<PartitionEntry>>>,
    id_writer: IdWriterEntry,
    /// Cluster state that they were read under; `None` if they were not read yet.
    read_under: Option<ClusterVersion>,
}

impl CatalogEntries {
    /// Version of the cluster state that they were read under.
    pub(crate) fn version(&self) -> ClusterVersion {
        self.read_under.unwrap_or(ClusterVersion::NONE)
    }

    /// Object of a kind by name.
    pub(crate) fn named(&self, kind: NamedKind, name: &str) -> Option<&Value> {
        self.named.get(&(kind, name.to_owned())).map(|value| &**value)
    }

    /// Objects of a kind.
    pub(crate) fn all_named(&self, kind: NamedKind) -> impl Iterator<Item = (&str, &Value)> {
        let of_kind = self.named.iter().filter(move |((other, _), _)| *other == kind);
        of_kind.map(|((_, name), value)| (name.as_str(), &**value))
    }

    /// Indexes with an alias.
    pub(crate) fn with_alias<'e>(&'e self, alias: &'e str) -> impl Iterator<Item = &'e OpenIndex> {
        let all = self.types.values().chain(self.indexes.values());
        all.filter(move |index| index.entry.aliases.contains_key(alias))
    }

    /// Data stream that an index is part of.
    pub(crate) fn stream_of(&self, index: &str) -> Option<&StreamEntry> {
        self.streams.values().find(|stream| stream.indexes.iter().any(|name| name == index))
    }

    /// Field with the time of the documents of an index of a data stream.
    pub(crate) fn time_field_of(&self, index: &str) -> Option<&str> {
        let (stream, _) = index.strip_prefix(STREAM_INDEX_PREFIX)?.rsplit_once('-')?;
        let stream = self.streams.get(stream)?;
        let is_of = stream.indexes.iter().any(|name| name == index);
        is_of.then_some(stream.timestamp_field.as_str())
    }

    /// Index that writes go to in place of one of a data stream: the newest of the stream.
    pub(crate) fn newest_of(&self, index: &OpenIndex) -> OpenIndex {
        let newest = self.stream_of(&index.entry.name).and_then(|stream| stream.indexes.last());
        newest.and_then(|name| self.indexes.get(name)).unwrap_or(index).clone()
    }

    /// The index that a write was placed in, as it is now.
    ///
    /// # Errors
    /// It was deleted. In `logs` mode also if the catalog was read again since, after a change of the
    /// cluster: what the write holds up in the earlier partitions holds up nothing any more, and the write is
    /// placed again.
    pub(crate) fn written(&self, index: &OpenIndex) -> Result<&OpenIndex, Error> {
        let name = &index.entry.name;
        // An index that was deleted since its place was found may have a successor of its name.
        let newest = self.indexes.get(name).filter(|newest| newest.entry.number == index.entry.number);
        let newest = newest.ok_or_else(|| Error::no_index(name))?;
        if index.is_log() && !Arc::ptr_eq(&newest.live, &index.live) {
            return Err(Error::NotBegun(format!(
                "the nodes of the cluster changed while documents of [{name}] were on their way; repeat the request"
            )));
        }
        Ok(newest)
    }

    /// True if two indexes are of one data stream.
    pub(crate) fn are_of_one_stream(&self, one: &str, other: &str) -> bool {
        self.stream_of(one).is_some_and(|stream| stream.indexes.iter().any(|name| name == other))
    }

    /// Index of a name. A document type comes before an index that was made before its deployment.
    pub(crate) fn index(&self, name: &str) -> Option<&OpenIndex> {
        self.types.get(name).or_else(|| self.indexes.get(name))
    }

    /// Names of the document types of the application.
    pub(crate) fn type_names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// True if a name is that of a document type, or an alias of types alone.
    pub(crate) fn is_of_types(&self, name: &str) -> bool {
        let mut with_alias = self.with_alias(name).peekable();
        self.types.contains_key(name)
            || with_alias.peek().is_some() && with_alias.all(|index| index.typed.is_some())
    }

    /// Makes the indexes that are document types of an application, with their aliases.
    fn take_types(&mut self, application: Option<Arc<CompiledApplication>>) {
        let mut types = BTreeMap::new();
        if let Some(application) = &application {
            let ignores = application.application.container.ignore_undefined_fields;
            for kind in application.kinds() {
                let name = &*kind.schema.name;
                let aliases = self.named(NamedKind::TypeAliases, name).cloned();
                let aliases = aliases.and_then(|aliases| serde_json::from_value(aliases).ok());
                types.insert(name.to_owned(), typed::index(kind, ignores, aliases.unwrap_or_default()));
            }
        }
        self.types = types;
        self.application = application;
    }

    /// True if the types are those of this application.
    fn has_types_of(&self, application: Option<&Arc<CompiledApplication>>) -> bool {
        match (&self.application, application) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

/// The catalog of a node.
pub(crate) struct IndexCatalog {
    pub(crate) node: Arc<Node>,
    /// The entries; held for no longer than it takes to exchange them.
    entries: RwLock<Arc<CatalogEntries>>,
    /// Held by the request that changes the catalog, also while it waits for the disk.
    changing: Mutex<PendingChange>,
    /// Entries that the store may have otherwise: it is not known whether a change of them was written.
    uncertain: Mutex<BTreeSet<ChangedEntry>>,
    /// Held while drops of partitions are completed; taken before `changing`.
    pub(crate) completing_drops: Mutex<()>,
}

impl IndexCatalog {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        IndexCatalog {
            node,
            entries: RwLock::default(),
            changing: Mutex::default(),
            uncertain: Mutex::default(),
            completing_drops: Mutex::default(),
        }
    }

    /// Version of the cluster state, by which this node owns the catalog; that of none on a node that is
    /// alone. `None` while the node is not sure of it: another one may own the catalog by now, and have
    /// changed it.
    ///
    /// # Errors
    /// Another node owns it, or none does now.
    fn state_version(&self) -> Result<Option<ClusterVersion>, Error> {
        let Some(cluster) = self.node.cluster().view()? else { return Ok(Some(ClusterVersion::NONE)) };
        let owners = cluster.owners(Some(&[storage::home()]))?;
        match owners.nodes.as_slice() {
            [(owner, _)] if *owner == cluster.own().key => {
                Ok(Some(owners.version).filter(|version| cluster.confirms(*version)))
            }
            _ => Err(owned_elsewhere()),
        }
    }

    /// Looks until the node is sure that it owns the catalog.
    ///
    /// # Errors
    /// It is not for the time of a read; those of `look`.
    fn once_owner<T>(&self, look: impl Fn() -> Result<Option<T>, Error>) -> Result<T, Error> {
        let mut backoff = RouteBackoff::until(storage::read_deadline());
        loop {
            if let Some(seen) = look()? {
                return Ok(seen);
            }
            if !wait_for(&self.node, backoff.pause())? {
                return Err(owned_elsewhere());
            }
        }
    }

    /// The active application.
    fn application(&self) -> Option<Arc<CompiledApplication>> {
        self.node.deployments().current().ok().map(|current| Arc::clone(&current))
    }

    /// The entries as they are now. Waits for no change of them, unless they are to be read from the store.
    ///
    /// # Errors
    /// Another node owns them, or none does now; they cannot be read from the store.
    pub(crate) fn read(&self) -> Result<Arc<CatalogEntries>, Error> {
        let version = self.once_owner(|| self.state_version())?;
        let application = self.application();
        let entries = Arc::clone(&self.entries.read());
        if entries.read_under != Some(version) {
            return Ok(self.change()?.into_entries());
        }
        if entries.has_types_of(application.as_ref()) {
            return Ok(entries);
        }
        drop(entries);
        let mut entries = self.entries.write();
        if !entries.has_types_of(application.as_ref()) {
            Arc::make_mut(&mut *entries).take_types(application);
        }
        Ok(Arc::clone(&entries))
    }

    /// The entries, to be changed by this request alone. Other requests read them as they are before, until
    /// [`CatalogChange::commit`].
    ///
    /// # Errors
    /// Another node owns them, or none does now; they cannot be read from the store, or an earlier change
    /// cannot be completed.
    pub(crate) fn change(&self) -> Result<CatalogChange<'_>, Error> {
        // No request waits with the lock: the next one would wait for as long again after it.
        let (mut pending, version) = self.once_owner(|| {
            let pending = self.changing.lock();
            Ok(self.state_version()?.map(|version| (pending, version)))
        })?;
        let mut entries = Arc::clone(&self.entries.read());
        if entries.read_under == Some(version) {
            pending.complete(&self.node)?;
        } else {
            // The store has a change that was not completed; another node may have done so, and changed more.
            // Its entry is removed before the next change also where there is none: that of a node which was
            // cut off before it was confirmed can come later, and would undo what was changed since.
            *pending = PendingChange::Obsolete;
            entries = Arc::new(CatalogEntries { read_under: Some(version), ..load(&self.node)? });
            self.uncertain.lock().clear();
        }
        let application = self.application();
        if !entries.has_types_of(application.as_ref()) {
            Arc::make_mut(&mut entries).take_types(application);
        }
        *self.entries.write() = Arc::clone(&entries);
        Ok(CatalogChange::new(self, pending, entries))
    }
}

fn owned_elsewhere() -> Error {
    Error::NotBegun("another node of the cluster answers this request now".to_owned())
}

/// Reads all entries, and completes the change and the deletions that were in flight.
fn load(node: &Arc<Node>) -> Result<CatalogEntries, Error> {
    let mut entries = CatalogEntries::default();
    let (mut deleted, mut partitions): (Vec<u32>, Vec<PartitionEntry>) = (Vec::new(), Vec::new());
    let mut count = 0_u64;
    let mut pending = PendingChange::Nothing;
    storage::scan(node, StorageGroup::CATALOG, |stored| {
        let text = stored.source.text()?;
        let damaged = |error: serde_json::Error| {
            Error::Internal(format!("the entry {} of the catalog is damaged: {error}", stored.id))
        };
        if stored.id.starts_with(INDEX_PREFIX) {
            let entry: IndexEntry = serde_json::from_str(&text).map_err(damaged)?;
            let live = UnflushedState::after(entry.seq_no_reserved);
            let index = OpenIndex::new(entry, Arc::new(live));
            entries.indexes.insert(index.entry.name.clone(), index);
        } else if stored.id.starts_with(STREAM_PREFIX) {
            let stream: StreamEntry = serde_json::from_str(&text).map_err(damaged)?;
            entries.streams.insert(stream.name.clone(), stream);
        } else if stored.id.starts_with(PARTITION_PREFIX) {
            partitions.push(serde_json::from_str(&text).map_err(damaged)?);
        } else if let Some(number) = stored.id.strip_prefix(DELETION_PREFIX) {
            deleted.extend(number.parse::<u32>().ok());
        } else if stored.id == ID_WRITER {
            entries.id_writer = IdWriterEntry::of(&text);
        } else if stored.id == PENDING {
            pending = PendingChange::of(&text).map_err(damaged)?;
        } else {
            for kind in NamedKind::ALL {
                if let Some(name) = stored.id.strip_prefix(kind.prefix()) {
                    let value = serde_json::from_str(&text).map_err(damaged)?;
                    entries.named.insert((kind, name.to_owned()), Arc::new(value));
                }
            }
        }
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    if count == 0 {
        // An empty catalog would be filled again, and hide the one that is there.
        storage::check_all_there(node)?;
    }
    if !pending.is_nothing() {
        pending.complete(node)?;
        return load(node);
    }
    for number in &deleted {
        let is_gone = entries.indexes.values().all(|index| index.entry.number != *number);
        if is_gone {
            storage::drop_group(node, StorageGroup::of_index(*number))?;
        }
        // The mark stays until its partitions are dropped, too.
        if !is_gone || !partitions::are_of(&partitions, *number) {
            storage::put(node, StorageGroup::CATALOG, &deletion_mark(*number), None)?;
        }
    }
    partitions::load(node, &mut entries, partitions, &deleted);
    Ok(entries)
}

/// Name of the mark of an index whose documents are to be dropped.
fn deletion_mark(number: u32) -> String {
    format!("{DELETION_PREFIX}{number}")
}

/// A number that cannot be guessed.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Random letters for ids, from 64 characters that need no encoding.
pub(crate) fn random_text(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bits = random();
        for _ in 0..10.min(length - text.len()) {
            text.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    text
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    millrace_env::unix_time().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_goes_to_the_index_that_it_was_placed_in() {
        let index = |number: u32, time_field: Option<&str>| {
            let entry = json!({
                "name": "a", "uuid": "u", "number": number, "created_ms": 0, "settings": {}, "mappings": {},
                "aliases": {}, "is_closed": false, "seq_no_reserved": 0, "time_field": time_field,
            });
            let entry = serde_json::from_value(entry).expect("the entry is whole");
            OpenIndex::new(entry, Arc::default())
        };
        let (documents, logs) = (index(1, None), index(1, Some("@timestamp")));
        let times = Some("@timestamp");
        for (name, placed, now, expected) in [
            ("the same", &logs, Some(logs.clone()), 0),
            ("deleted", &logs, None, 404),
            ("a successor", &logs, Some(index(2, times)), 404),
            // After a change of the cluster the catalog is read again: that is no reason to give a write up.
            ("read again", &logs, Some(index(1, times)), 503),
            ("read again, in documents mode", &documents, Some(index(1, None)), 0),
        ] {
            let indexes = now.into_iter().map(|now| ("a".to_owned(), now)).collect();
            let entries = CatalogEntries { indexes, ..CatalogEntries::default() };
            let status = entries.written(placed).map_or_else(|error| error.status(), |_| 0);
            assert_eq!(status, expected, "{name}");
        }
    }

    #[test]
    fn entries_are_written_as_ever() {
        let index = json!({
            "name": "a", "uuid": "u", "number": 3, "created_ms": 4, "settings": {"index.number_of_shards": "1"},
            "mappings": {"properties": {}}, "aliases": {"b": {"is_write_index": true}}, "is_closed": true,
            "seq_no_reserved": 5, "time_field": "@timestamp", "observed": {"properties": {}},
        });
        let stream = json!({
            "name": "logs-a", "indexes": [".ds-logs-a-000001"], "generation": 1, "template": "logs",
            "timestamp_field": "@timestamp", "has_records": true,
            "lifecycle": {"enabled": true, "data_retention": "7d"},
        });
        let again: IndexEntry = serde_json::from_value(index.clone()).expect("an index");
        assert_eq!(serde_json::to_value(&again).expect("JSON"), index);
        let again: StreamEntry = serde_json::from_value(stream.clone()).expect("a stream");
        assert_eq!(serde_json::to_value(&again).expect("JSON"), stream);
    }
}
