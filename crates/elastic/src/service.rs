//! Elasticsearch's interfaces over a node: the node itself, the catalog, and the indexes that writes go to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millrace_document::DocumentGroup;
use millrace_node::Node;
use millrace_node::work::WorkKind;
use millrace_plan::QueryMemory;
use millrace_store::ViewScope;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::Error;
use crate::caller::ElasticCaller;
use crate::catalog::{CatalogEntries, IndexCatalog, OpenIndex};
use crate::cluster_admin::VERSION;
use crate::log_columns::LogColumnCache;
use crate::names::{NameDemand, NameOptions};
use crate::partitions::ArrivingIds;
use crate::request::{
    ElasticParameters, ElasticRequest, ElasticResponse, ReplyContent, check_values, segments_of, write_reply,
};
use crate::routes::RouteRight;
use crate::scan_limit::duration_of;
use crate::scrolls::OpenScrolls;
use crate::slot_picking::WriteLoads;
use crate::writing::WriteAction;
use crate::{
    auto_creation, index_admin, media_types, names, otlp, parameters, routes, storage, templates, typed,
};

/// Bytes of the cache of the store for each one of the columns of logs, which are kept beside it.
const LOG_COLUMNS_SHARE: u64 = 4;

/// Warnings of one answer, and letters of one, at most.
const WARNINGS_MAX: usize = 10;
const WARNING_LETTERS_MAX: usize = 300;

/// Elasticsearch's interfaces over a node.
#[derive(Clone)]
pub struct ElasticService {
    pub(crate) node: Arc<Node>,
    pub(crate) catalog: Arc<IndexCatalog>,
    pub(crate) scrolls: Arc<OpenScrolls>,
    pub(crate) loads: Arc<WriteLoads>,
    /// Columns of logs that searches have read.
    pub(crate) log_columns: Arc<LogColumnCache>,
    /// Ids of clients on their way to partitions. They outlast the catalog, which is read again.
    pub(crate) arriving: Arc<ArrivingIds>,
    /// Address of its own port, if it has one.
    pub(crate) port: Option<SocketAddr>,
    /// Sender of the request in flight: each is answered by a copy of the service.
    pub(crate) caller: ElasticCaller,
    /// True once the sender has left.
    pub(crate) gone: Arc<AtomicBool>,
    /// Memory of the answer in flight, beside that of its searches.
    pub(crate) answer_memory: Arc<QueryMemory>,
    /// Warnings of the answer in flight.
    warnings: Arc<Mutex<Vec<String>>>,
}

impl ElasticService {
    /// Creates the service of a node. Nothing is read before the first request.
    pub fn new(node: Arc<Node>) -> Self {
        let catalog = Arc::new(IndexCatalog::new(Arc::clone(&node)));
        let caller = ElasticCaller::default();
        let answer_memory = node.query_memory();
        let log_columns = LogColumnCache::new(node.settings().cache_bytes / LOG_COLUMNS_SHARE);
        ElasticService {
            node,
            catalog,
            scrolls: Arc::default(),
            loads: Arc::default(),
            log_columns: Arc::new(log_columns),
            arriving: Arc::default(),
            port: None,
            caller,
            gone: Arc::default(),
            answer_memory,
            warnings: Arc::default(),
        }
    }

    /// The service with the address of its own port, which it names to clients if its node is alone. In a
    /// cluster the registrations of the nodes have them.
    #[must_use]
    pub fn listening_at(self, port: Option<SocketAddr>) -> Self {
        ElasticService { port, ..self }
    }

    /// Checks that this node can answer a request: it owns the catalog, and has read it. Blocks.
    ///
    /// # Errors
    /// [`millrace_node::Error::Unsettled`]: another node answers, or none does now.
    pub fn check_ready(&self) -> Result<(), millrace_node::Error> {
        match self.catalog.read() {
            Err(Error::NotBegun(reason)) => {
                let reason = reason.trim_end_matches("; try again in a moment").to_owned();
                Err(millrace_node::Error::Unsettled(reason))
            }
            // The answer has other errors.
            _ => Ok(()),
        }
    }

    /// Answers a request. Blocks until writes are durable.
    pub fn answer(&self, request: &ElasticRequest) -> ElasticResponse {
        let (caller, gone) = (request.caller.clone(), Arc::clone(&request.gone));
        let (answer_memory, warnings) = (self.node.query_memory(), Arc::default());
        let service = ElasticService { caller, gone, answer_memory, warnings, ..self.clone() };
        if otlp::is_logs(&request.path) {
            return match service.caller.permit_all() {
                Ok(()) => otlp::answer(&service, request),
                Err(error) => otlp::refuse(request, error),
            };
        }
        let parameters = ElasticParameters::parse(&request.query);
        let reach = service.check_reach(request);
        let outcome = reach.and_then(|()| service.outcome(request, &parameters));
        let warnings = std::mem::take(&mut *service.warnings.lock());
        ElasticResponse { warnings, ..write_reply(outcome, request, &parameters) }
    }

    /// Adds warnings to the answer, each once, as values of the header `Warning`.
    pub(crate) fn warn(&self, warnings: Vec<String>) {
        let mut known = self.warnings.lock();
        for warning in warnings {
            let text: String = warning.escape_default().take(WARNING_LETTERS_MAX).collect();
            // Half of an escaped letter would escape the quote.
            let warning = format!("299 Elasticsearch-{VERSION} \"{}\"", text.trim_end_matches('\\'));
            if known.len() < WARNINGS_MAX && !known.contains(&warning) {
                known.push(warning);
            }
        }
    }

    /// Checks that the client is still there, before the next part of an answer with many.
    ///
    /// # Errors
    /// It has left.
    pub(crate) fn check_client(&self) -> Result<(), Error> {
        match self.gone.load(Ordering::Relaxed) {
            true => Err(Error::Timeout("the client left before the answer was whole".to_owned())),
            false => Ok(()),
        }
    }

    /// Checks that a caller of some groups asks for documents of types, or for what clients ask before they
    /// do: what the server is, and which types there are. All else needs all groups: an index has documents
    /// of any.
    ///
    /// # Errors
    /// The caller is restricted to groups, and the request is not about documents of types alone.
    fn check_reach(&self, request: &ElasticRequest) -> Result<(), Error> {
        const OPERATIONS: [&str; 9] =
            ["_async_search", "_bulk", "_count", "_create", "_doc", "_mget", "_search", "_source", "_update"];
        const METADATA: [&str; 5] = ["_field_caps", "_mapping", "_mappings", "_settings", "_refresh"];
        if self.caller.has_all_groups() {
            return Ok(());
        }
        let segments = segments_of(&request.path)?;
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_safe = ["GET", "HEAD"].contains(&request.method.as_str());
        let is_reached = match parts.as_slice() {
            [] | ["_license" | "_xpack"] => is_safe,
            // The index of each item is checked with it, and the scroll is that of a caller.
            ["_bulk" | "_mget" | "_msearch"] | ["_search", "scroll"] | ["_search", "scroll", _] => true,
            [_, "_msearch"] => true,
            [index, operation, ..] if OPERATIONS.contains(operation) => self.are_types(index)?,
            // Reads, although they may have a body.
            [index, "_field_caps" | "_refresh"] if request.method == "POST" => self.are_types(index)?,
            [index, operation] if METADATA.contains(operation) => is_safe && self.are_types(index)?,
            [index, "_mapping" | "_mappings", "field", _] => is_safe && self.are_types(index)?,
            [index] => is_safe && self.are_types(index)?,
            _ => false,
        };
        if is_reached { Ok(()) } else { self.caller.permit_all() }
    }

    /// True if an expression names document types, and nothing else.
    fn are_types(&self, expression: &str) -> Result<bool, Error> {
        // A parameter may have patterns find hidden and closed indexes.
        let all = NameOptions { closed: true, hidden: true, forbid_closed: false, ..NameOptions::LENIENT };
        let found = names::resolve(&*self.catalog.read()?, expression, all);
        Ok(found.is_ok_and(|found| !found.is_empty() && found.iter().all(|index| index.typed.is_some())))
    }

    /// Checks that the caller may use the documents of indexes.
    ///
    /// # Errors
    /// The caller is restricted to groups, and an index is not a document type.
    pub(crate) fn check_indexes(&self, indexes: &[OpenIndex]) -> Result<(), Error> {
        match indexes.iter().all(|index| index.typed.is_some()) {
            true => Ok(()),
            false => self.caller.permit_all(),
        }
    }

    fn outcome(
        &self,
        request: &ElasticRequest,
        parameters: &ElasticParameters,
    ) -> Result<ReplyContent, Error> {
        parameters::check(request, parameters)?;
        match parameters.get("source").filter(|_| request.body.is_empty()) {
            Some(source) => {
                let request = ElasticRequest { body: source.as_bytes().to_vec(), ..request.clone() };
                self.check_values(&request)?;
                routes::dispatch(self, &request, parameters)
            }
            None => {
                self.check_values(request)?;
                routes::dispatch(self, request, parameters)
            }
        }
    }

    /// Checks the number of the values of a body that is read as a whole, and is no document.
    ///
    /// # Errors
    /// There are more than a query may have.
    fn check_values(&self, request: &ElasticRequest) -> Result<(), Error> {
        match (routes::work_kind(request), self.caller.query_values_max()) {
            (WorkKind::JsonQuery, Some(values_max)) if routes::has_query_lines(request) => {
                request.body.split(|byte| *byte == b'\n').try_for_each(|line| check_values(line, values_max))
            }
            (WorkKind::JsonQuery, Some(values_max)) => check_values(&request.body, values_max),
            _ => Ok(()),
        }
    }

    /// True if this node has the documents of the service: it runs alone, or is their owner in its cluster.
    ///
    /// # Errors
    /// No node owns them now, or this one, and it is not sure of that.
    pub(crate) fn owns_home(&self) -> Result<bool, Error> {
        let Some(cluster) = self.node.cluster().view()? else { return Ok(true) };
        let owners = cluster.owners(Some(&[storage::home()]))?;
        let is_own = owners.nodes.iter().any(|(node, _)| *node == cluster.own().key);
        match is_own && !cluster.confirms(owners.version) {
            true => Err(Error::NotBegun("another node of the cluster may answer this request".to_owned())),
            false => Ok(is_own),
        }
    }

    /// Writes the answer for a request that failed before it reached the service.
    pub fn refuse(request: &ElasticRequest, error: millrace_node::Error) -> ElasticResponse {
        ElasticService::refuse_as(request, error.into())
    }

    /// Writes the answer for a request that has an error of the service.
    pub fn refuse_as(request: &ElasticRequest, error: Error) -> ElasticResponse {
        match otlp::is_logs(&request.path) {
            true => otlp::refuse(request, error),
            false => write_reply(Err(error), request, &ElasticParameters::default()),
        }
    }

    /// Checks the media types of a request, which has a body or has none. Those of log records of
    /// OpenTelemetry are checked with them.
    ///
    /// # Errors
    /// One is not taken here.
    pub fn check_media_types(request: &ElasticRequest, has_body: bool) -> Result<(), Error> {
        match otlp::is_logs(&request.path) {
            true => Ok(()),
            false => media_types::check(request, has_body),
        }
    }

    /// Right that a request needs. The service checks the groups of its documents.
    pub fn right_of(request: &ElasticRequest) -> RouteRight {
        routes::right_of(request)
    }

    /// True if a request can be sent again, also where a node may have answered it.
    pub fn repeats(request: &ElasticRequest) -> bool {
        routes::right_of(request) != RouteRight::Write && !routes::turns_page(request)
    }

    /// Kind of the work over the body of a request: what it takes in memory, and the bounds that it has.
    pub fn work_kind(request: &ElasticRequest) -> WorkKind {
        routes::work_kind(request)
    }

    /// True if this node answers a request without blocking, also where it is not the owner of the service's
    /// documents: the request is about the servers, or about their health while no node owns the documents.
    pub fn answers_at_once(&self, request: &ElasticRequest) -> bool {
        routes::is_about_server(request) || routes::is_about_health(request) && self.owns_home().is_err()
    }

    /// Documents that a request may have to read one by one, by which it gets its turn among other work of
    /// the node; `None` for requests that are no searches. Those of document types named as they are can read
    /// the groups alone that their routing values name.
    pub fn search_scope(&self, request: &ElasticRequest) -> Option<ViewScope> {
        let groups = match request.caller.only_group() {
            _ if !routes::is_search(request) => return None,
            Some(group) => vec![group.clone()],
            None => self.routed_groups(request).unwrap_or_default(),
        };
        Some(if groups.is_empty() { ViewScope::All } else { ViewScope::Groups(groups) })
    }

    fn routed_groups(&self, request: &ElasticRequest) -> Option<Vec<DocumentGroup>> {
        let deployment = self.node.deployments().active()?;
        let indexes = routes::routed_indexes(request)?;
        let are_types = indexes.split(',').all(|name| deployment.kind(name).is_ok());
        let routing = ElasticParameters::parse(&request.query).list("routing").filter(|_| are_types)?;
        Some(routing.iter().map(|routing| typed::group_of(routing)).collect())
    }

    /// Time limit that a write names for itself by the parameter `timeout`.
    pub fn time_limit(request: &ElasticRequest) -> Option<Duration> {
        let parameters = ElasticParameters::parse(&request.query);
        let named = parameters.get("timeout").and_then(|text| duration_of(text).ok().flatten());
        named.filter(|_| routes::right_of(request) == RouteRight::Write)
    }

    /// Group by which a cluster routes all requests of the service.
    pub fn home() -> DocumentGroup {
        storage::home()
    }

    /// Index that writes to `name` go to, made if it does not exist yet.
    ///
    /// # Errors
    /// The name is invalid, an alias has no write index, or `name` is not of the kind that is demanded.
    pub(crate) fn write_index(
        &self,
        name: &str,
        action: WriteAction,
        demand: NameDemand,
    ) -> Result<OpenIndex, Error> {
        let entries = self.catalog.read()?;
        if !self.caller.has_all_groups() && !entries.is_of_types(name) {
            self.caller.permit_all()?;
        }
        let is_alias = entries.with_alias(name).next().is_some();
        let lacks = |flag: &str, kind: &str| Error::NoIndex {
            name: name.to_owned(),
            detail: format!(" and [{flag}] request flag is [true] and [{name}] is not {kind}"),
        };
        if demand.alias && !is_alias {
            return Err(lacks("require_alias", "an alias"));
        }
        if demand.data_stream && !leads_to_stream(&entries, name) {
            return Err(lacks("require_data_stream", "a data stream"));
        }
        let found = existing(&entries, name, action)?;
        if found.is_none() {
            // A delete of a document makes no index, unless it brings a version of its own.
            names::check_index_name(name)?;
            if action == WriteAction::Delete {
                return Err(Error::no_index(name));
            }
            auto_creation::check(&entries, name)?;
        }
        drop(entries);
        // The templates of a new one may block its writes.
        let found = found.map_or_else(|| self.create_for_write(name, action), Ok)?;
        if found.entry.is_closed {
            return Err(Error::Closed(found.entry.name.clone()));
        }
        found.check_writable()?;
        Ok(found)
    }

    fn create_for_write(&self, name: &str, action: WriteAction) -> Result<OpenIndex, Error> {
        let mut change = self.catalog.change()?;
        // Another request may have made it meanwhile.
        if let Some(index) = existing(&change, name, action)? {
            return Ok(index);
        }
        if let Some(template) = templates::stream_template(&change, name) {
            if action != WriteAction::Create {
                return Err(only_creates());
            }
            let index = templates::create_stream(&mut change, name, &template)?;
            change.commit()?;
            return Ok(index);
        }
        let index = index_admin::create(&mut change, name, Map::new())?;
        change.commit()?;
        Ok(index)
    }

    /// Index that records of a data stream go to.
    pub(crate) fn record_index(&self, stream: &str) -> Result<OpenIndex, Error> {
        let is_new = existing(&*self.catalog.read()?, stream, WriteAction::Create)?.is_none();
        if is_new {
            names::check_index_name(stream)?;
            auto_creation::check(&*self.catalog.read()?, stream)?;
            let mut change = self.catalog.change()?;
            // Another request may have made it meanwhile.
            if existing(&change, stream, WriteAction::Create)?.is_none() {
                templates::create_record_stream(&mut change, stream)?;
                change.commit()?;
            }
        }
        self.write_index(stream, WriteAction::Create, NameDemand::default())
    }
}

/// Error of another write to a data stream than a `create`.
fn only_creates() -> Error {
    let reason = "only write ops with an op_type of create are allowed in data streams";
    Error::IllegalArgument(reason.to_owned())
}

/// True if writes to `name` go to a data stream, one that is there or one that they make.
fn leads_to_stream(entries: &CatalogEntries, name: &str) -> bool {
    let is_part = |index: &OpenIndex| entries.stream_of(&index.entry.name).is_some();
    if entries.streams.contains_key(name) {
        return true;
    }
    if let Some(index) = entries.index(name) {
        return is_part(index);
    }
    let mut with_alias = entries.with_alias(name).peekable();
    match with_alias.peek() {
        Some(_) => with_alias.all(is_part),
        None => templates::stream_template(entries, name).is_some(),
    }
}

/// Existing index that writes to `name` go to.
///
/// # Errors
/// It is an alias without such an index, or a data stream that does not take the action.
pub(crate) fn existing(
    entries: &CatalogEntries,
    name: &str,
    action: WriteAction,
) -> Result<Option<OpenIndex>, Error> {
    if let Some(index) = entries.index(name) {
        return Ok(Some(index.clone()));
    }
    if let Some(stream) = entries.streams.get(name) {
        if action != WriteAction::Create {
            return Err(only_creates());
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
        (Some(index), _) => Ok(Some(entries.newest_of(index))),
        (None, []) => Ok(None),
        (None, [only]) if !is_forbidden(only) => Ok(Some((*only).clone())),
        // The alias of a data stream.
        (None, [first, others @ ..])
            if !is_forbidden(first)
                && others
                    .iter()
                    .all(|index| entries.are_of_one_stream(&first.entry.name, &index.entry.name)) =>
        {
            Ok(Some(entries.newest_of(first)))
        }
        (None, _) => Err(Error::IllegalArgument(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly disabled using is_write_index=false or the \
             alias points to multiple indices without one being designated as a write index"
        ))),
    }
}
