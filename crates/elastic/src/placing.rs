//! Places of writes: their indexes, with mappings that have all fields of their documents.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use millrace_node::metrics::CountedMetric;
use serde_json::{Map, Value};

use crate::catalog::{IndexEntry, OpenIndex};
use crate::dated_names::with_dates;
use crate::fields::all_at;
use crate::log_writes::LogTarget;
use crate::mapping::{FieldRoom, LenientFit};
use crate::names::NameDemand;
use crate::request::check_tree;
use crate::service::ElasticService;
use crate::writing::{self, SingleWrite, WriteAction};
use crate::{Error, mapping, time_bounds, typed, unread};

/// A write with the place where it goes.
#[derive(Clone)]
pub(crate) struct PlacedWrite {
    pub(crate) index: OpenIndex,
    pub(crate) write: SingleWrite,
    /// Place of a document in `logs` mode.
    pub(crate) log: Option<LogTarget>,
}

/// Finder of the places of the writes of one request. It remembers the indexes that it found, and copies of
/// their mappings, in which documents are fitted.
pub(crate) struct WritePlacer<'d> {
    service: &'d ElasticService,
    found: HashMap<WrittenName, OpenIndex>,
    /// Copies by the numbers of the indexes.
    fitted: HashMap<u32, FittedMapping>,
    /// Fields with the times of documents by the numbers of the indexes, of those of data streams.
    time_fields: HashMap<u32, Option<String>>,
}

/// Name in a write, with what decides which index it means.
#[derive(PartialEq, Eq, Hash)]
enum WrittenName {
    Index { name: String, action: WriteAction, demand: NameDemand },
    RecordStream(String),
}

/// Copy of the mapping of an index.
#[derive(Default)]
struct FittedMapping {
    /// The index as it was copied; `None` if the copy is to be made before it is used.
    entry: Option<Arc<IndexEntry>>,
    mappings: Map<String, Value>,
    /// Room for fields in `logs` mode, once it is known.
    room: Option<FieldRoom>,
}

impl<'d> WritePlacer<'d> {
    /// Creates a placer that has found nothing yet.
    pub(crate) fn new(service: &'d ElasticService) -> Self {
        WritePlacer { service, found: HashMap::new(), fitted: HashMap::new(), time_fields: HashMap::new() }
    }

    /// Checks a write, fits its document to the mapping of its index, and adds new fields to it.
    pub(crate) fn place(
        &mut self,
        name: &str,
        mut write: SingleWrite,
        demand: NameDemand,
    ) -> Result<PlacedWrite, Error> {
        writing::check(&write)?;
        let name = &*with_dates(name)?;
        let action = write.action;
        let is_shown = write.shown.as_ref().is_some_and(|shown| !shown.is_off);
        let is_scripted = write.update.as_ref().is_some_and(|update| update.script.is_some());
        if action == WriteAction::Update && (is_shown || is_scripted) {
            // The answer has the document, or what a script tells about it: by its errors, and what it does.
            self.service.caller.check_read()?;
        }
        if action == WriteAction::Update && is_shown {
            write.answer = Some(Arc::clone(&self.service.answer_memory));
        }
        let written = WrittenName::Index { name: name.to_owned(), action, demand };
        let index = self.index(&written)?;
        if write.routing.is_none() {
            write.routing = alias_routing(&index, name);
        }
        if let Some(binding) = &index.typed {
            write = typed::place(self.service, binding, write)?;
            self.remember(written, &index);
            return Ok(PlacedWrite { index, write, log: None });
        }
        if index.is_log() && action != WriteAction::Create {
            return Err(Error::IllegalArgument(format!(
                "the documents of [{}] are never changed: only write ops with an op_type of create are allowed in data streams",
                index.entry.name
            )));
        }
        let needs_routing = index.entry.mappings.get("_routing").and_then(|routing| routing.get("required"));
        if write.routing.is_none() && needs_routing == Some(&Value::Bool(true)) {
            let id = write.id.as_deref().unwrap_or("null");
            return Err(Error::Routing {
                reason: format!("routing is required for [{}]/[{id}]", index.entry.name),
                index: index.entry.name.clone(),
            });
        }
        let index = match &write.update {
            Some(update) => {
                let index = self.fit(index, update.doc.as_ref())?;
                self.fit(index, update.upsert.as_ref())?
            }
            None if action == WriteAction::Delete => index,
            None => {
                check_tree(write.source.as_bytes(), self.service.caller.tree_bytes_max())?;
                if index.is_log() {
                    let document = unread::read_document(&write.source).map_err(malformed)?;
                    let (log, _) = self.place_log(&index, &document);
                    self.remember(written, &index);
                    return Ok(PlacedWrite { index, write, log: Some(log) });
                }
                let document = serde_json::from_str(&write.source).map_err(malformed)?;
                if let Some(field) = self.time_field(&index)? {
                    check_time(&document, field)?;
                }
                self.fit(index, Some(&document))?
            }
        };
        self.remember(written, &index);
        Ok(PlacedWrite { index, write, log: None })
    }

    /// Place of a document in `logs` mode, and the reason for which a field is ignored, if one is. Such
    /// documents are counted, and none is refused.
    fn place_log(&mut self, index: &OpenIndex, document: &Map<String, Value>) -> (LogTarget, Option<String>) {
        let fitted = self.copy_of(index, || index.live.observed.entry(&index.entry).mappings.clone());
        let FittedMapping { mappings, room, .. } = fitted;
        let room = room.get_or_insert_with(|| FieldRoom::of(mappings, &index.entry.settings));
        let LenientFit { is_changed, ignored } = mapping::observe(mappings, room, document);
        if is_changed {
            index.live.observed.note(&index.entry, document);
        }
        if !ignored.is_empty() {
            self.service.node.metrics().count(CountedMetric::LogDocumentsIgnored);
        }
        let reason = ignored.into_iter().map(|(_, reason)| reason).next();
        (LogTarget { times: time_bounds::of_document(index, document) }, reason)
    }

    /// Copy of the mapping of an index, the one that is there or a new one.
    fn copy_of(
        &mut self,
        index: &OpenIndex,
        mappings: impl FnOnce() -> Map<String, Value>,
    ) -> &mut FittedMapping {
        let entry = &index.entry;
        let fitted = self.fitted.entry(entry.number).or_default();
        if fitted.entry.as_ref().is_none_or(|copied| !Arc::ptr_eq(copied, entry)) {
            *fitted = FittedMapping { entry: Some(Arc::clone(entry)), mappings: mappings(), room: None };
        }
        fitted
    }

    /// The place of a log record. Values that do not fit the mapping are no reason to refuse it: the second
    /// part of the result names them.
    ///
    /// # Errors
    /// The stream cannot be made or written to, or its mapping is strict and lacks a field.
    pub(crate) fn place_record(
        &mut self,
        stream: &str,
        fields: &Map<String, Value>,
        write: SingleWrite,
    ) -> Result<(PlacedWrite, Option<Error>), Error> {
        let written = WrittenName::RecordStream(stream.to_owned());
        let index = self.index(&written)?;
        if index.is_log() {
            let (log, ignored) = self.place_log(&index, fields);
            self.remember(written, &index);
            return Ok((PlacedWrite { index, write, log: Some(log) }, ignored.map(Error::document)));
        }
        let (index, misfit) = match self.fit(index.clone(), Some(fields)) {
            Ok(index) => (index, None),
            Err(misfit @ (Error::Document { .. } | Error::IllegalArgument(_))) => (index, Some(misfit)),
            Err(error) => return Err(error),
        };
        self.remember(written, &index);
        Ok((PlacedWrite { index, write, log: None }, misfit))
    }

    /// Field with the time of the documents of an index, if it is one of a data stream.
    fn time_field(&mut self, index: &OpenIndex) -> Result<Option<&str>, Error> {
        if !index.has_stream_name() {
            return Ok(None);
        }
        let field = match self.time_fields.entry(index.entry.number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let entries = self.service.catalog.read()?;
                unknown.insert(entries.time_field_of(&index.entry.name).map(str::to_owned))
            }
        };
        Ok(field.as_deref())
    }

    /// Index of a name, as it was found before if it was.
    fn index(&self, written: &WrittenName) -> Result<OpenIndex, Error> {
        match (self.found.get(written), written) {
            (Some(index), _) => Ok(index.clone()),
            (None, WrittenName::Index { name, action, demand }) => {
                self.service.write_index(name, *action, *demand)
            }
            (None, WrittenName::RecordStream(stream)) => self.service.record_index(stream),
        }
    }

    fn remember(&mut self, written: WrittenName, index: &OpenIndex) {
        self.found.insert(written, index.clone());
    }

    /// Fits a document to the mapping of an index; returns the index with the new fields.
    ///
    /// # Errors
    /// The document does not fit, or the mapping cannot have its fields.
    pub(crate) fn fit(
        &mut self,
        index: OpenIndex,
        document: Option<&Map<String, Value>>,
    ) -> Result<OpenIndex, Error> {
        let Some(document) = document else { return Ok(index) };
        let name = &index.entry.name;
        let fitted = self.copy_of(&index, || index.entry.mappings.clone());
        let is_changed = mapping::fit_in_place(&mut fitted.mappings, document);
        if matches!(is_changed, Ok(false)) {
            return Ok(index);
        }
        // After an error, and with new fields, the copy is not that of the index any more.
        fitted.entry = None;
        is_changed?;
        let mut change = self.service.catalog.change()?;
        // Another request may have added fields, or deleted the index, meanwhile.
        let Some(newest) = change.indexes.get(name) else {
            return Err(Error::no_index(name));
        };
        let mut entry = (*newest.entry).clone();
        match mapping::fit_in_place(&mut entry.mappings, document)? {
            true => {
                if let Err(error) = mapping::check_limit(&entry.mappings, &entry.settings) {
                    let is_taken = mapping::ignores_beyond_limit(&entry.settings);
                    return if is_taken { Ok(newest.clone()) } else { Err(error) };
                }
                let index = change.put_index(entry)?;
                change.commit()?;
                Ok(index)
            }
            false => Ok(newest.clone()),
        }
    }
}

/// Checks that a document of a data stream has one time.
///
/// # Errors
/// It has none, or several.
fn check_time(document: &Map<String, Value>, field: &str) -> Result<(), Error> {
    let reason = match all_at(document, field).len() {
        1 => return Ok(()),
        0 => format!("data stream timestamp field [{field}] is missing"),
        _ => format!("data stream timestamp field [{field}] encountered multiple values"),
    };
    Err(Error::Document {
        reason: format!("failed to parse: {reason}"),
        cause: Some(("illegal_argument_exception", reason)),
    })
}

/// Error of a text that is not the JSON of an object.
fn malformed(error: serde_json::Error) -> Error {
    if !error.is_data() {
        return Error::not_json(error);
    }
    let cause = ("not_x_content_exception", "a document is a JSON object".to_owned());
    Error::Document { reason: "failed to parse".to_owned(), cause: Some(cause) }
}

/// Routing value that an alias gives to writes.
fn alias_routing(index: &OpenIndex, name: &str) -> Option<String> {
    let alias = index.entry.aliases.get(name)?;
    alias.get("index_routing")?.as_str().map(str::to_owned)
}
