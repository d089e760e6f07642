//! A change of the catalog by a request: made on a copy of the entries, written as a whole, and then seen by
//! other requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_node::Node;
use parking_lot::MutexGuard;
use serde_json::{Map, Value};

use super::pending::{EntryWrite, PendingChange};
use super::{
    CatalogEntries, ENTRIES_MAX, INDEX_PREFIX, INDEXES_MAX, IndexCatalog, IndexEntry, NamedKind, OpenIndex,
    SEQ_NO_STEP, STREAM_PREFIX, StreamEntry, deletion_mark, random,
};
use crate::storage::{self, StorageGroup};
use crate::{Error, mapping, partitions, typed};

/// The catalog while it is changed. What was not committed is forgotten.
pub(crate) struct CatalogChange<'c> {
    pub(crate) node: &'c Arc<Node>,
    catalog: &'c IndexCatalog,
    pending: MutexGuard<'c, PendingChange>,
    /// The entries with the changes.
    pub(super) entries: Arc<CatalogEntries>,
    /// Entries that differ from those of the store.
    changed: BTreeSet<ChangedEntry>,
    /// Indexes that are not among the entries any more.
    deleted: Vec<OpenIndex>,
}

/// Name of an entry that is to be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangedEntry {
    Index(String),
    Stream(String),
    Named(NamedKind, String),
    /// Mark of an index whose documents are to be dropped.
    Deletion(u32),
}

impl ChangedEntry {
    /// The entry as it is kept; without a text if it is removed.
    fn write(&self, entries: &CatalogEntries) -> EntryWrite {
        match self {
            ChangedEntry::Index(name) => {
                let text = |index: &OpenIndex| {
                    serde_json::to_string(&*index.entry).expect("an index has names for keys")
                };
                (format!("{INDEX_PREFIX}{name}"), entries.indexes.get(name).map(text))
            }
            ChangedEntry::Stream(name) => {
                let text = |stream: &StreamEntry| {
                    serde_json::to_string(stream).expect("a data stream has names for keys")
                };
                (format!("{STREAM_PREFIX}{name}"), entries.streams.get(name).map(text))
            }
            ChangedEntry::Named(kind, name) => {
                let text = entries.named(*kind, name).map(Value::to_string);
                (format!("{}{name}", kind.prefix()), text)
            }
            ChangedEntry::Deletion(number) => (deletion_mark(*number), Some("{}".to_owned())),
        }
    }
}

impl std::ops::Deref for CatalogChange<'_> {
    type Target = CatalogEntries;

    fn deref(&self) -> &CatalogEntries {
        &self.entries
    }
}

impl<'c> CatalogChange<'c> {
    pub(super) fn new(
        catalog: &'c IndexCatalog,
        pending: MutexGuard<'c, PendingChange>,
        entries: Arc<CatalogEntries>,
    ) -> Self {
        let (changed, deleted) = (BTreeSet::new(), Vec::new());
        CatalogChange { node: &catalog.node, catalog, pending, entries, changed, deleted }
    }

    /// The entries, of a change of nothing.
    pub(super) fn into_entries(self) -> Arc<CatalogEntries> {
        self.entries
    }
}

impl CatalogChange<'_> {
    /// Writes all changes, or none of them; then other requests see them. The documents of deleted indexes
    /// are dropped after that, while other requests change the catalog. A drop that is broken off is
    /// completed when the catalog is read again.
    ///
    /// # Errors
    /// The changes were not written, or this is not known; or documents cannot be dropped now.
    pub(crate) fn commit(mut self) -> Result<(), Error> {
        self.keep_type_aliases();
        let writes: Vec<EntryWrite> = self.changed.iter().map(|entry| entry.write(&self.entries)).collect();
        let made = self.pending.make(self.node, writes);
        {
            let mut uncertain = self.catalog.uncertain.lock();
            match &made {
                Ok(()) => uncertain.retain(|entry| !self.changed.contains(entry)),
                Err(_) => uncertain.extend(self.changed.iter().cloned()),
            }
        }
        made?;
        *self.catalog.entries.write() = Arc::clone(&self.entries);
        for index in &self.deleted {
            // Writes that are in flight are done before the drop, which then covers them.
            index.live.delete();
            partitions::begin_drops(&self.entries, index);
        }
        let CatalogChange { node, catalog, pending, deleted, .. } = self;
        // The next change, which a bulk may wait for, does not wait for the drops.
        drop(pending);
        if deleted.is_empty() { Ok(()) } else { drop_deleted(node, catalog, &deleted) }
    }

    /// True if an entry is kept as it is in memory, so that it need not be written again.
    fn is_kept(&self, entry: &ChangedEntry) -> bool {
        !self.catalog.uncertain.lock().contains(entry)
    }

    /// Takes the aliases of document types that were changed into their entries.
    fn keep_type_aliases(&mut self) {
        let mut kept = Vec::new();
        for entry in &self.changed {
            let ChangedEntry::Named(NamedKind::TypeAliases, name) = entry else { continue };
            if let Some(index) = self.entries.types.get(name) {
                let aliases = serde_json::to_value(&index.entry.aliases);
                let aliases = aliases.expect("aliases have names for keys");
                kept.push(((NamedKind::TypeAliases, name.clone()), Arc::new(aliases)));
            }
        }
        if !kept.is_empty() {
            self.entries_mut().named.extend(kept);
        }
    }

    /// The entries, to be changed.
    pub(super) fn entries_mut(&mut self) -> &mut CatalogEntries {
        Arc::make_mut(&mut self.entries)
    }

    /// Keeps an index, a new one or an existing one with changes.
    ///
    /// # Errors
    /// It is a document type, and more than its aliases changes; there are too many indexes.
    pub(crate) fn put_index(&mut self, mut entry: IndexEntry) -> Result<OpenIndex, Error> {
        if let Some(index) = self.types.get(&entry.name) {
            let changed = index.with_aliases_of(&entry)?;
            self.edit_aliases(&changed.entry.name, |aliases| aliases.clone_from(&entry.aliases))?;
            return Ok(changed);
        }
        // In `logs` mode no value is refused anyway.
        if entry.time_field.is_none() {
            mapping::apply_settings(&mut entry.mappings, &entry.settings);
        }
        let existing = self.indexes.get(&entry.name);
        if existing.is_none() && self.indexes.len() >= INDEXES_MAX {
            return Err(Error::IllegalArgument(format!(
                "there are {INDEXES_MAX} indexes already, which is the limit; delete some"
            )));
        }
        let live = match existing.filter(|index| index.entry.uuid == entry.uuid) {
            Some(index) => Arc::clone(&index.live),
            None => Arc::default(),
        };
        if live.seq_no() + SEQ_NO_STEP / 2 >= entry.seq_no_reserved {
            entry.seq_no_reserved = live.seq_no() + SEQ_NO_STEP;
        }
        let is_same = |index: &&OpenIndex| *index.entry == entry;
        if let Some(same) = existing.filter(is_same)
            && self.is_kept(&ChangedEntry::Index(entry.name.clone()))
        {
            return Ok(same.clone());
        }
        let index = OpenIndex::new(entry, live);
        let name = index.entry.name.clone();
        self.entries_mut().indexes.insert(name.clone(), index.clone());
        self.changed.insert(ChangedEntry::Index(name));
        Ok(index)
    }

    /// Changes the aliases of an index or a document type where they are.
    ///
    /// # Errors
    /// There is no such index, or there are too many entries.
    pub(crate) fn edit_aliases(
        &mut self,
        name: &str,
        edit: impl FnOnce(&mut BTreeMap<String, Map<String, Value>>),
    ) -> Result<(), Error> {
        if self.types.contains_key(name) {
            self.check_named(NamedKind::TypeAliases, name)?;
        }
        let entries = self.entries_mut();
        if let Some(index) = entries.types.get_mut(name) {
            edit(&mut Arc::make_mut(&mut index.entry).aliases);
            // Its value follows when all aliases are there.
            entries.named.entry((NamedKind::TypeAliases, name.to_owned())).or_default();
            self.changed.insert(ChangedEntry::Named(NamedKind::TypeAliases, name.to_owned()));
            return Ok(());
        }
        let index = entries.indexes.get_mut(name).ok_or_else(|| Error::no_index(name))?;
        edit(&mut Arc::make_mut(&mut index.entry).aliases);
        self.changed.insert(ChangedEntry::Index(name.to_owned()));
        Ok(())
    }

    /// True if an index has an alias with these options, in the store, too.
    pub(crate) fn keeps_alias(&self, name: &str, alias: &str, options: &Map<String, Value>) -> bool {
        self.index(name).is_some_and(|index| {
            let entry = match index.typed {
                Some(_) => ChangedEntry::Named(NamedKind::TypeAliases, name.to_owned()),
                None => ChangedEntry::Index(name.to_owned()),
            };
            index.entry.aliases.get(alias) == Some(options) && self.is_kept(&entry)
        })
    }

    /// Deletes an index and its documents.
    ///
    /// # Errors
    /// It is a document type, or does not exist.
    pub(crate) fn delete_index(&mut self, name: &str) -> Result<(), Error> {
        if self.types.contains_key(name) {
            return Err(typed::undeletable(name));
        }
        let index = self.entries_mut().indexes.remove(name).ok_or_else(|| Error::no_index(name))?;
        self.changed.insert(ChangedEntry::Index(name.to_owned()));
        self.changed.insert(ChangedEntry::Deletion(index.entry.number));
        self.deleted.push(index);
        Ok(())
    }

    /// Keeps a data stream.
    pub(crate) fn put_stream(&mut self, stream: StreamEntry) {
        self.changed.insert(ChangedEntry::Stream(stream.name.clone()));
        self.entries_mut().streams.insert(stream.name.clone(), stream);
    }

    /// Deletes a data stream with its backing indexes.
    ///
    /// # Errors
    /// It does not exist.
    pub(crate) fn delete_stream(&mut self, name: &str) -> Result<(), Error> {
        let stream = self.entries_mut().streams.remove(name).ok_or_else(|| Error::no_index(name))?;
        self.changed.insert(ChangedEntry::Stream(name.to_owned()));
        for index in &stream.indexes {
            if self.indexes.contains_key(index) {
                self.delete_index(index)?;
            }
        }
        Ok(())
    }

    /// Checks that there may be one more named object, if there is none of this name.
    fn check_named(&self, kind: NamedKind, name: &str) -> Result<(), Error> {
        match self.named(kind, name).is_some() || self.named.len() < ENTRIES_MAX {
            true => Ok(()),
            false => Err(Error::IllegalArgument(format!(
                "there are {ENTRIES_MAX} templates and pipelines already, which is the limit; delete some"
            ))),
        }
    }

    /// Keeps a named object.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn put_named(&mut self, kind: NamedKind, name: &str, value: Value) -> Result<(), Error> {
        self.check_named(kind, name)?;
        let entry = ChangedEntry::Named(kind, name.to_owned());
        if self.named(kind, name) == Some(&value) && self.is_kept(&entry) {
            return Ok(());
        }
        self.entries_mut().named.insert((kind, name.to_owned()), Arc::new(value));
        self.changed.insert(entry);
        Ok(())
    }

    /// Deletes a named object.
    pub(crate) fn delete_named(&mut self, kind: NamedKind, name: &str) {
        if self.entries_mut().named.remove(&(kind, name.to_owned())).is_some() {
            self.changed.insert(ChangedEntry::Named(kind, name.to_owned()));
        }
    }

    /// A number that no index has.
    pub(crate) fn unused_number(&self) -> u32 {
        loop {
            let number = random() as u32;
            let mut used = self.indexes.values().chain(&self.deleted);
            if number != 0 && used.all(|index| index.entry.number != number) {
                return number;
            }
        }
    }

    /// Reserves more sequence numbers for an index, if few are left.
    ///
    /// # Errors
    /// Those of [`CatalogChange::put_index`].
    pub(crate) fn reserve_seq_nos(&mut self, name: &str) -> Result<(), Error> {
        match self.indexes.get(name) {
            Some(index) => {
                let entry = (*index.entry).clone();
                self.put_index(entry).map(drop)
            }
            None => Ok(()),
        }
    }
}

/// Drops the documents of deleted indexes, whose partitions are listed as to be dropped.
fn drop_deleted(node: &Arc<Node>, catalog: &IndexCatalog, deleted: &[OpenIndex]) -> Result<(), Error> {
    let numbers: Vec<u32> = deleted.iter().map(|index| index.entry.number).collect();
    if let Err(error) = partitions::complete_drops(catalog, Some(&numbers)) {
        tracing::debug!(%error, "partitions of deleted indexes wait to be dropped");
    }
    let groups: Vec<StorageGroup> = deleted.iter().map(OpenIndex::group).collect();
    let outcomes = storage::drop_groups(node, &groups, storage::newest_version(node)?, None);
    // The partitions of the others are found by their marks, if they could not be dropped now.
    let waiting = catalog.read()?.dropping.lock().clone();
    let is_done = |(number, outcome): &(&u32, &Result<(), Error>)| {
        outcome.is_ok() && !partitions::are_of(&waiting, **number)
    };
    let done = numbers.iter().zip(&outcomes).filter(is_done);
    let marks: Vec<EntryWrite> = done.map(|(number, _)| (deletion_mark(*number), None)).collect();
    outcomes.into_iter().collect::<Result<(), Error>>().and(storage::put_all(
        node,
        StorageGroup::CATALOG,
        &marks,
    ))
}

#[cfg(test)]
mod tests {
    use millrace_node::Settings;
    use serde_json::json;

    use super::super::pending::PENDING;
    use super::*;
    use crate::index_admin;

    fn node(directory: &tempfile::TempDir) -> Arc<Node> {
        Node::open(Settings::new(directory.path().join("data"))).expect("the node opens")
    }

    #[test]
    fn other_requests_see_a_change_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = node(&directory);
        let catalog = IndexCatalog::new(Arc::clone(&node));
        let has = |catalog: &IndexCatalog, name: &str| {
            catalog.read().expect("the catalog is read").index(name).is_some()
        };
        let mut change = catalog.change().expect("the catalog is read");
        for name in ["a", "b"] {
            index_admin::create(&mut change, name, Map::new()).expect("the index is new");
        }
        // A request that reads meanwhile does not wait for this one.
        assert!(change.index("a").is_some() && !has(&catalog, "a"));
        change.commit().expect("the change is written");
        assert!(has(&catalog, "a") && has(&catalog, "b"));

        let mut change = catalog.change().expect("the catalog is read");
        change.delete_index("a").expect("the index exists");
        assert!(change.index("a").is_none());
        drop(change);
        assert!(has(&catalog, "a"), "a change that is given up is none");

        let mut change = catalog.change().expect("the catalog is read");
        let entry = (*change.indexes["a"].entry).clone();
        change.put_index(entry).expect("the index exists");
        change.put_named(NamedKind::Pipeline, "p", json!({})).expect("there is room");
        assert_eq!(change.changed.len(), 1, "an entry that stays as it is is not written");
        // Unless the store may have it otherwise.
        catalog.uncertain.lock().insert(ChangedEntry::Index("a".to_owned()));
        let entry = (*change.indexes["a"].entry).clone();
        change.put_index(entry).expect("the index exists");
        assert!(change.changed.contains(&ChangedEntry::Index("a".to_owned())));
        change.delete_index("b").expect("the index exists");
        change.commit().expect("the change is written");
        assert!(catalog.uncertain.lock().is_empty());
        let again = IndexCatalog::new(Arc::clone(&node));
        assert!(has(&again, "a") && !has(&again, "b"), "the store has what other requests see");
        assert!(again.read().expect("the catalog is read").named(NamedKind::Pipeline, "p").is_some());
        node.close();
    }

    #[test]
    fn a_change_that_was_broken_off_is_completed() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = node(&directory);
        let (given, removed) = ("index_template/given", "index_template/removed");
        storage::put(&node, StorageGroup::CATALOG, removed, Some("{}")).expect("it is written");
        // As a node leaves it that is killed after the first of its writes.
        let writes = json!([[given, "{\"priority\":1}"], [removed, null]]).to_string();
        storage::put(&node, StorageGroup::CATALOG, PENDING, Some(&writes)).expect("it is written");
        let catalog = IndexCatalog::new(Arc::clone(&node));
        let entries = catalog.read().expect("the catalog is read");
        assert_eq!(entries.named(NamedKind::IndexTemplate, "given"), Some(&json!({ "priority": 1 })));
        assert_eq!(entries.named(NamedKind::IndexTemplate, "removed"), None);
        for (name, is_there) in [(given, true), (removed, false), (PENDING, false)] {
            let stored = storage::get(&node, StorageGroup::CATALOG, name).expect("the store is read");
            assert_eq!(stored.is_some(), is_there, "{name}");
        }
        node.close();
    }

    #[test]
    fn a_change_of_an_earlier_owner_that_comes_late_is_none() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = node(&directory);
        let catalog = IndexCatalog::new(Arc::clone(&node));
        catalog.read().expect("the catalog is read");
        // As the copy of a node that was cut off brings it, which had it alone.
        let writes =
            json!([["index_template/a", "{\"priority\":1}"], ["index_template/b", "{}"]]).to_string();
        storage::put(&node, StorageGroup::CATALOG, PENDING, Some(&writes)).expect("it is written");
        let mut change = catalog.change().expect("the catalog is read");
        change.put_named(NamedKind::IndexTemplate, "a", json!({ "priority": 2 })).expect("there is room");
        change.commit().expect("the change is written");
        let again = IndexCatalog::new(Arc::clone(&node));
        let entries = again.read().expect("the catalog is read");
        assert_eq!(entries.named(NamedKind::IndexTemplate, "a"), Some(&json!({ "priority": 2 })));
        assert_eq!(entries.named(NamedKind::IndexTemplate, "b"), None);
        node.close();
    }
}
