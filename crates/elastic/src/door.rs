//! The door: the node behind it, the catalog, and the way of a write to its index.

use std::sync::Arc;

use millrace_node::Node;
use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::{CatalogEntries, DoorCatalog, OpenIndex};
use crate::request::{DoorAnswer, DoorParameters, DoorReply, DoorRequest, write_reply};
use crate::scrolls::OpenScrolls;
use crate::writing::{PendingSingle, SingleWrite, WriteAction};
use crate::{index_admin, mapping, names, otlp, parameters, routes, shelf, templates, writing};

/// Elasticsearch's interfaces over a node.
pub struct ElasticDoor {
    pub(crate) node: Arc<Node>,
    pub(crate) catalog: DoorCatalog,
    pub(crate) scrolls: OpenScrolls,
}

/// A write with the place where it goes.
#[derive(Clone)]
pub(crate) struct PlacedWrite {
    pub(crate) index: OpenIndex,
    pub(crate) write: SingleWrite,
}

impl ElasticDoor {
    /// Creates the door of a node. Nothing is read before the first request.
    pub fn new(node: Arc<Node>) -> Self {
        let catalog = DoorCatalog::new(Arc::clone(&node));
        ElasticDoor { node, catalog, scrolls: OpenScrolls::default() }
    }

    /// Answers a request. Blocks until writes are durable.
    pub fn answer(&self, request: &DoorRequest) -> DoorAnswer {
        if otlp::is_logs(&request.path) {
            return otlp::answer(self, request);
        }
        let parameters = DoorParameters::parse(&request.query);
        let outcome = self.outcome(request, &parameters);
        write_reply(outcome, request, &parameters)
    }

    fn outcome(&self, request: &DoorRequest, parameters: &DoorParameters) -> Result<DoorReply, Error> {
        parameters::check(request, parameters)?;
        match parameters.get("source").filter(|_| request.body.is_empty()) {
            Some(source) => {
                let request = DoorRequest { body: source.as_bytes().to_vec(), ..request.clone() };
                routes::dispatch(self, &request, parameters)
            }
            None => routes::dispatch(self, request, parameters),
        }
    }

    /// Writes the answer for a request that failed before it reached the door.
    pub fn refuse(request: &DoorRequest, error: millrace_node::Error) -> DoorAnswer {
        match otlp::is_logs(&request.path) {
            true => otlp::refuse(request, error.into()),
            false => write_reply(Err(error.into()), request, &DoorParameters::default()),
        }
    }

    /// True if a path is that of log records of OpenTelemetry, which has media types and answers of its own.
    pub fn is_otlp(path: &str) -> bool {
        otlp::is_logs(path)
    }

    /// Group by which a cluster routes all requests of the door.
    pub fn home() -> millrace_document::DocumentGroup {
        shelf::home()
    }

    /// Index that writes to `name` go to, made if it does not exist yet.
    ///
    /// # Errors
    /// The name is invalid, an alias has no write index, or an alias is required and `name` is none.
    pub(crate) fn write_index(
        &self,
        name: &str,
        action: WriteAction,
        require_alias: bool,
    ) -> Result<OpenIndex, Error> {
        let entries = self.catalog.read()?;
        let is_alias = entries.with_alias(name).next().is_some();
        if require_alias && !is_alias {
            return Err(Error::NoIndex {
                name: name.to_owned(),
                detail: format!(" and [require_alias] request flag is [true] and [{name}] is not an alias"),
            });
        }
        let found = match existing(&entries, name, action)? {
            Some(index) => index,
            None => {
                drop(entries);
                // A delete of a document makes no index, unless it brings a version of its own.
                names::check_index_name(name)?;
                let is_allowed = self.auto_create()?;
                if action == WriteAction::Delete || !is_allowed {
                    return Err(Error::no_index(name));
                }
                return self.create_for_write(name, action);
            }
        };
        drop(entries);
        if found.entry.is_closed {
            return Err(Error::Closed(found.entry.name.clone()));
        }
        if found.needs_seq_nos() {
            self.catalog.change()?.reserve_seq_nos(&found.entry.name)?;
        }
        Ok(found)
    }

    fn auto_create(&self) -> Result<bool, Error> {
        let entries = self.catalog.read()?;
        let settings = entries.named(crate::catalog::NamedKind::ClusterSettings, "persistent");
        let allowed = settings.and_then(|settings| settings.get("action.auto_create_index"));
        Ok(allowed.is_none_or(|allowed| *allowed != Value::Bool(false) && *allowed != "false"))
    }

    fn create_for_write(&self, name: &str, action: WriteAction) -> Result<OpenIndex, Error> {
        let mut change = self.catalog.change()?;
        // Another request may have made it meanwhile.
        if let Some(index) = existing(&change, name, action)? {
            return Ok(index);
        }
        if let Some(template) = templates::stream_template(&change, name) {
            if action != WriteAction::Create {
                return Err(Error::IllegalArgument(
                    "only write ops with an op_type of create are allowed in data streams".to_owned(),
                ));
            }
            return templates::create_stream(&mut change, name, &template);
        }
        index_admin::create(&mut change, name, Map::new())
    }

    /// Checks a write, fits its document to the mapping of its index, and adds new fields to it.
    pub(crate) fn place(
        &self,
        name: &str,
        write: SingleWrite,
        require_alias: bool,
    ) -> Result<PlacedWrite, Error> {
        writing::check(&write)?;
        let index = self.write_index(name, write.action, require_alias)?;
        let mut write = write;
        if write.routing.is_none() {
            write.routing = alias_routing(&index, name);
        }
        let needs_routing = index.entry.mappings.get("_routing").and_then(|routing| routing.get("required"));
        if write.routing.is_none() && needs_routing == Some(&Value::Bool(true)) {
            let id = write.id.as_deref().unwrap_or("null");
            return Err(Error::IllegalArgument(format!(
                "routing is required for [{}]/[{id}]",
                index.entry.name
            )));
        }
        let index = match &write.update {
            Some(update) => {
                let index = self.fit(index, update.doc.as_ref())?;
                self.fit(index, update.upsert.as_ref())?
            }
            None if write.action == WriteAction::Delete => index,
            None => {
                let document: Value =
                    serde_json::from_str(&write.source).map_err(|error| Error::Mapping {
                        reason: "failed to parse".to_owned(),
                        cause: Some(("json_parse_exception", error.to_string())),
                    })?;
                let Value::Object(document) = document else {
                    return Err(Error::Mapping {
                        reason: "failed to parse".to_owned(),
                        cause: Some(("not_x_content_exception", "a document is a JSON object".to_owned())),
                    });
                };
                self.fit(index, Some(&document))?
            }
        };
        Ok(PlacedWrite { index, write })
    }

    /// Fits a document to the mapping of an index; returns the index with the new fields.
    fn fit(&self, index: OpenIndex, document: Option<&Map<String, Value>>) -> Result<OpenIndex, Error> {
        let Some(document) = document else { return Ok(index) };
        if !mapping::fit(&mut index.entry.mappings.clone(), document)? {
            return Ok(index);
        }
        let mut change = self.catalog.change()?;
        // Another request may have added fields, or deleted the index, meanwhile.
        let Some(newest) = change.indexes.get(&index.entry.name) else {
            return Err(Error::no_index(&index.entry.name));
        };
        let mut entry = (*newest.entry).clone();
        match mapping::fit(&mut entry.mappings, document)? {
            true => change.put_index(entry),
            false => Ok(newest.clone()),
        }
    }

    /// Places a log record in its data stream, which is made if it does not exist. A value that does not fit
    /// the mapping refuses no record: it is kept, and described in the result.
    ///
    /// # Errors
    /// The stream cannot be made or written to, or its mapping is strict and lacks a field.
    pub(crate) fn place_record(
        &self,
        stream: &str,
        fields: &Map<String, Value>,
        write: SingleWrite,
    ) -> Result<(PlacedWrite, Option<Error>), Error> {
        let index = self.record_index(stream)?;
        match self.fit(index.clone(), Some(fields)) {
            Ok(index) => Ok((PlacedWrite { index, write }, None)),
            Err(misfit @ (Error::Mapping { .. } | Error::IllegalArgument(_))) => {
                Ok((PlacedWrite { index, write }, Some(misfit)))
            }
            Err(error) => Err(error),
        }
    }

    /// Index that records of a data stream go to.
    fn record_index(&self, stream: &str) -> Result<OpenIndex, Error> {
        let is_new = existing(&*self.catalog.read()?, stream, WriteAction::Create)?.is_none();
        if is_new && self.auto_create()? {
            names::check_index_name(stream)?;
            let mut change = self.catalog.change()?;
            // Another request may have made it meanwhile.
            if existing(&change, stream, WriteAction::Create)?.is_none() {
                return templates::create_record_stream(&mut change, stream);
            }
        }
        self.write_index(stream, WriteAction::Create, false)
    }

    /// Begins a write that has its place.
    pub(crate) fn begin(&self, placed: PlacedWrite) -> Result<PendingSingle, Error> {
        writing::begin(&self.node, &placed.index, placed.write)
    }
}

/// Routing value that an alias gives to writes.
fn alias_routing(index: &OpenIndex, name: &str) -> Option<String> {
    let alias = index.entry.aliases.get(name)?;
    alias.get("index_routing")?.as_str().map(str::to_owned)
}

/// Existing index that writes to `name` go to.
fn existing(entries: &CatalogEntries, name: &str, action: WriteAction) -> Result<Option<OpenIndex>, Error> {
    if let Some(index) = entries.indexes.get(name) {
        return Ok(Some(index.clone()));
    }
    if let Some(stream) = entries.streams.get(name) {
        if action != WriteAction::Create {
            return Err(Error::IllegalArgument(
                "only write ops with an op_type of create are allowed in data streams".to_owned(),
            ));
        }
        let newest = stream.indexes.last().and_then(|index| entries.indexes.get(index));
        return Ok(newest.cloned());
    }
    let with_alias: Vec<&OpenIndex> = entries.with_alias(name).collect();
    let is_write = |index: &&&OpenIndex| {
        index.entry.aliases[name].get("is_write_index").and_then(Value::as_bool) == Some(true)
    };
    let is_forbidden = |index: &OpenIndex| {
        index.entry.aliases[name].get("is_write_index").and_then(Value::as_bool) == Some(false)
    };
    match (with_alias.iter().find(is_write), with_alias.as_slice()) {
        (Some(index), _) => Ok(Some((*index).clone())),
        (None, []) => Ok(None),
        (None, [only]) if !is_forbidden(only) => Ok(Some((*only).clone())),
        (None, _) => Err(Error::IllegalArgument(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly disabled using is_write_index=false or the \
             alias points to multiple indices without one being designated as a write index"
        ))),
    }
}
