//! The table of routes: paths, their methods, the right that each needs, and its operation.
//!
//! The service answers by this table, and the server of HTTP asks it for the right: what a request may do
//! cannot differ from what it does.

#[cfg(test)]
mod tests;

use millrace_node::work::WorkKind;
use serde_json::json;

use crate::Error;
use crate::catalog::NamedKind;
use crate::dated_names::with_dates;
use crate::points_in_time::PointForm;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, segments_of};
use crate::service::ElasticService;
use crate::writing::WriteAction;
use crate::{
    aliases, analysis, bulk, by_query, cat_tables, cluster_admin, cluster_health, cluster_state,
    deprecations, explanation, index_admin, index_figures, index_settings, lifecycle, otlp, points_in_time,
    rollover, scrolls, search, simulation, single, templates, terms_enum, validation,
};

/// Right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteRight {
    /// To read or to write: what clients ask before they do either.
    Any,
    /// To read documents.
    Read,
    /// To write documents, or to change indexes. An update that shows its document or has a script
    /// needs the right to read, too, which is checked with its item.
    Write,
}

/// Operation of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteOperation {
    Info,
    License,
    Features,
    Health,
    ClusterFigures,
    ClusterState,
    IndexFigures,
    Nodes,
    Tables,
    GetClusterSettings,
    PutClusterSettings,
    Bulk,
    BulkStream,
    MultiGet,
    NextPage,
    ClearScrolls,
    OpenPoint(PointForm),
    ClosePoints(PointForm),
    ListPoints,
    Search,
    AsyncSearch,
    Count,
    MultiSearch,
    FieldCaps,
    ValidateQuery,
    ExplainHit,
    EnumerateTerms,
    ResolveIndex,
    Analyze,
    Deprecations,
    DeleteByQuery,
    UpdateByQuery,
    Reindex,
    Refresh,
    GetMapping,
    GetFieldMapping,
    PutMapping,
    GetSettings,
    PutSettings,
    ChangeAliases,
    GetAliases,
    PutAlias,
    DeleteAlias,
    GetNamed(NamedKind),
    PutNamed(NamedKind),
    DeleteNamed(NamedKind),
    GetStreams,
    PutStream,
    DeleteStream,
    GetLifecycle,
    PutLifecycle,
    DeleteLifecycle,
    ExplainLifecycle,
    Rollover,
    SimulateIndex,
    SimulateTemplate,
    GetIndex,
    IndexExists,
    PutIndex,
    DeleteIndex,
    CloseIndex,
    OpenIndex,
    AddBlock,
    AddDocument,
    WriteDocument(WriteAction),
    GetDocument,
    GetSource,
}

/// A path with some of its methods.
struct ElasticRoute {
    /// Segments: `INDEX` stands for any that begins with no underscore, and for `_all`; `NAME` for any; `...`
    /// for any number of others.
    path: &'static str,
    /// Methods with spaces between.
    methods: &'static str,
    right: RouteRight,
    operation: RouteOperation,
}

const fn route(
    methods: &'static str,
    path: &'static str,
    right: RouteRight,
    operation: RouteOperation,
) -> ElasticRoute {
    ElasticRoute { path, methods, right, operation }
}

use RouteOperation as Do;
use RouteRight::{Any, Read, Write};

/// All routes. A path with several methods may have several rows.
#[rustfmt::skip]
const ROUTES: &[ElasticRoute] = &[
    route("GET HEAD", "", Any, Do::Info),
    route("GET HEAD", "_license", Any, Do::License),
    route("GET HEAD", "_xpack", Any, Do::Features),
    route("GET HEAD", "_cluster/health", Any, Do::Health),
    route("GET HEAD", "_cluster/health/NAME", Any, Do::Health),
    route("GET HEAD", "_cluster/stats", Read, Do::ClusterFigures),
    route("GET HEAD", "_cluster/state/...", Read, Do::ClusterState),
    route("GET HEAD", "_stats", Read, Do::IndexFigures),
    route("GET HEAD", "_stats/NAME", Read, Do::IndexFigures),
    route("GET HEAD", "INDEX/_stats", Read, Do::IndexFigures),
    route("GET HEAD", "INDEX/_stats/NAME", Read, Do::IndexFigures),
    route("GET HEAD", "_nodes/...", Any, Do::Nodes),
    route("GET HEAD", "_cat/...", Read, Do::Tables),
    route("GET HEAD", "_cluster/settings", Read, Do::GetClusterSettings),
    route("PUT", "_cluster/settings", Write, Do::PutClusterSettings),
    // Documents.
    route("POST PUT", "_bulk", Write, Do::Bulk),
    route("POST PUT", "INDEX/_bulk", Write, Do::Bulk),
    route("POST PUT", "_bulk/stream", Write, Do::BulkStream),
    route("POST PUT", "INDEX/_bulk/stream", Write, Do::BulkStream),
    route("POST", "INDEX/_doc", Write, Do::AddDocument),
    route("POST PUT", "INDEX/_doc/NAME", Write, Do::WriteDocument(WriteAction::Index)),
    route("DELETE", "INDEX/_doc/NAME", Write, Do::WriteDocument(WriteAction::Delete)),
    route("GET HEAD", "INDEX/_doc/NAME", Read, Do::GetDocument),
    route("POST PUT", "INDEX/_create/NAME", Write, Do::WriteDocument(WriteAction::Create)),
    route("POST PUT", "INDEX/_update/NAME", Write, Do::WriteDocument(WriteAction::Update)),
    route("GET HEAD", "INDEX/_source/NAME", Read, Do::GetSource),
    route("GET POST", "_mget", Read, Do::MultiGet),
    route("GET POST", "INDEX/_mget", Read, Do::MultiGet),
    // Searches.
    route("GET POST", "_search", Read, Do::Search),
    route("POST", "_async_search", Read, Do::AsyncSearch),
    route("POST", "INDEX/_async_search", Read, Do::AsyncSearch),
    route("GET POST", "INDEX/_search", Read, Do::Search),
    route("GET POST", "_search/scroll", Read, Do::NextPage),
    route("GET POST", "_search/scroll/NAME", Read, Do::NextPage),
    route("DELETE", "_search/scroll", Read, Do::ClearScrolls),
    route("DELETE", "_search/scroll/NAME", Read, Do::ClearScrolls),
    route("POST", "INDEX/_pit", Read, Do::OpenPoint(PointForm::Elasticsearch)),
    route("DELETE", "_pit", Read, Do::ClosePoints(PointForm::Elasticsearch)),
    route("POST", "INDEX/_search/point_in_time", Read, Do::OpenPoint(PointForm::OpenSearch)),
    route("DELETE", "_search/point_in_time", Read, Do::ClosePoints(PointForm::OpenSearch)),
    route("GET DELETE", "_search/point_in_time/_all", Read, Do::ListPoints),
    route("GET POST", "_count", Read, Do::Count),
    route("GET POST", "INDEX/_count", Read, Do::Count),
    route("GET POST", "_msearch", Read, Do::MultiSearch),
    route("GET POST", "INDEX/_msearch", Read, Do::MultiSearch),
    route("GET POST", "_field_caps", Read, Do::FieldCaps),
    route("GET POST", "INDEX/_field_caps", Read, Do::FieldCaps),
    route("GET POST", "_validate/query", Read, Do::ValidateQuery),
    route("GET POST", "INDEX/_validate/query", Read, Do::ValidateQuery),
    route("GET POST", "INDEX/_explain/NAME", Read, Do::ExplainHit),
    route("GET POST", "INDEX/_terms_enum", Read, Do::EnumerateTerms),
    route("GET HEAD", "_resolve/index/NAME", Read, Do::ResolveIndex),
    route("GET POST", "_analyze", Read, Do::Analyze),
    route("GET POST", "INDEX/_analyze", Read, Do::Analyze),
    route("GET HEAD", "_migration/deprecations", Read, Do::Deprecations),
    route("GET HEAD", "INDEX/_migration/deprecations", Read, Do::Deprecations),
    // They need the right to read, too, which is checked with their query.
    route("POST", "INDEX/_delete_by_query", Write, Do::DeleteByQuery),
    route("POST", "INDEX/_update_by_query", Write, Do::UpdateByQuery),
    route("POST", "_reindex", Write, Do::Reindex),
    // They change no document. Readers and writers wait for each other with them.
    route("GET POST", "_refresh", Any, Do::Refresh),
    route("GET POST", "INDEX/_refresh", Any, Do::Refresh),
    route("GET POST", "_flush", Any, Do::Refresh),
    route("GET POST", "INDEX/_flush", Any, Do::Refresh),
    route("POST", "_forcemerge", Any, Do::Refresh),
    route("POST", "INDEX/_forcemerge", Any, Do::Refresh),
    // Indexes.
    route("HEAD", "INDEX", Any, Do::IndexExists),
    route("GET", "INDEX", Read, Do::GetIndex),
    route("PUT", "INDEX", Write, Do::PutIndex),
    route("DELETE", "INDEX", Write, Do::DeleteIndex),
    route("POST", "INDEX/_close", Write, Do::CloseIndex),
    route("POST", "INDEX/_open", Write, Do::OpenIndex),
    route("PUT", "INDEX/_block/NAME", Write, Do::AddBlock),
    route("GET HEAD", "_mapping", Read, Do::GetMapping),
    route("GET HEAD", "_mappings", Read, Do::GetMapping),
    route("GET HEAD", "INDEX/_mapping", Read, Do::GetMapping),
    route("GET HEAD", "INDEX/_mappings", Read, Do::GetMapping),
    route("GET HEAD", "_mapping/field/NAME", Read, Do::GetFieldMapping),
    route("GET HEAD", "INDEX/_mapping/field/NAME", Read, Do::GetFieldMapping),
    route("PUT POST", "_mapping", Write, Do::PutMapping),
    route("PUT POST", "_mappings", Write, Do::PutMapping),
    route("PUT POST", "INDEX/_mapping", Write, Do::PutMapping),
    route("PUT POST", "INDEX/_mappings", Write, Do::PutMapping),
    route("GET HEAD", "_settings", Read, Do::GetSettings),
    route("GET HEAD", "_settings/NAME", Read, Do::GetSettings),
    route("GET HEAD", "INDEX/_settings", Read, Do::GetSettings),
    route("GET HEAD", "INDEX/_settings/NAME", Read, Do::GetSettings),
    route("PUT", "_settings", Write, Do::PutSettings),
    route("PUT", "INDEX/_settings", Write, Do::PutSettings),
    // Aliases.
    route("POST", "_alias", Write, Do::ChangeAliases),
    route("POST", "_aliases", Write, Do::ChangeAliases),
    route("GET HEAD", "_alias", Read, Do::GetAliases),
    route("GET HEAD", "_aliases", Read, Do::GetAliases),
    route("GET HEAD", "_alias/NAME", Read, Do::GetAliases),
    route("GET HEAD", "_aliases/NAME", Read, Do::GetAliases),
    route("GET HEAD", "INDEX/_alias", Read, Do::GetAliases),
    route("GET HEAD", "INDEX/_aliases", Read, Do::GetAliases),
    route("GET HEAD", "INDEX/_alias/NAME", Read, Do::GetAliases),
    route("GET HEAD", "INDEX/_aliases/NAME", Read, Do::GetAliases),
    route("PUT", "_alias", Write, Do::PutAlias),
    route("PUT POST", "_alias/NAME", Write, Do::PutAlias),
    route("PUT POST", "_aliases/NAME", Write, Do::PutAlias),
    route("PUT", "INDEX/_alias", Write, Do::PutAlias),
    route("PUT", "INDEX/_aliases", Write, Do::PutAlias),
    route("PUT POST", "INDEX/_alias/NAME", Write, Do::PutAlias),
    route("PUT POST", "INDEX/_aliases/NAME", Write, Do::PutAlias),
    route("DELETE", "INDEX/_alias/NAME", Write, Do::DeleteAlias),
    route("DELETE", "INDEX/_aliases/NAME", Write, Do::DeleteAlias),
    // Templates and pipelines. Shippers look whether theirs are there.
    route("GET HEAD", "_index_template", Any, Do::GetNamed(NamedKind::IndexTemplate)),
    route("POST", "_index_template/_simulate", Read, Do::SimulateTemplate),
    route("POST", "_index_template/_simulate/NAME", Read, Do::SimulateTemplate),
    route("POST", "_index_template/_simulate_index/NAME", Read, Do::SimulateIndex),
    route("GET HEAD", "_index_template/NAME", Any, Do::GetNamed(NamedKind::IndexTemplate)),
    route("PUT POST", "_index_template/NAME", Write, Do::PutNamed(NamedKind::IndexTemplate)),
    route("DELETE", "_index_template/NAME", Write, Do::DeleteNamed(NamedKind::IndexTemplate)),
    route("GET HEAD", "_component_template", Any, Do::GetNamed(NamedKind::ComponentTemplate)),
    route("GET HEAD", "_component_template/NAME", Any, Do::GetNamed(NamedKind::ComponentTemplate)),
    route("PUT POST", "_component_template/NAME", Write, Do::PutNamed(NamedKind::ComponentTemplate)),
    route("DELETE", "_component_template/NAME", Write, Do::DeleteNamed(NamedKind::ComponentTemplate)),
    route("GET HEAD", "_template", Any, Do::GetNamed(NamedKind::LegacyTemplate)),
    route("GET HEAD", "_template/NAME", Any, Do::GetNamed(NamedKind::LegacyTemplate)),
    route("PUT POST", "_template/NAME", Write, Do::PutNamed(NamedKind::LegacyTemplate)),
    route("DELETE", "_template/NAME", Write, Do::DeleteNamed(NamedKind::LegacyTemplate)),
    route("GET HEAD", "_ingest/pipeline", Any, Do::GetNamed(NamedKind::Pipeline)),
    route("GET HEAD", "_ingest/pipeline/NAME", Any, Do::GetNamed(NamedKind::Pipeline)),
    route("PUT POST", "_ingest/pipeline/NAME", Write, Do::PutNamed(NamedKind::Pipeline)),
    route("DELETE", "_ingest/pipeline/NAME", Write, Do::DeleteNamed(NamedKind::Pipeline)),
    route("GET HEAD", "_search/pipeline", Any, Do::GetNamed(NamedKind::SearchPipeline)),
    route("GET HEAD", "_search/pipeline/NAME", Any, Do::GetNamed(NamedKind::SearchPipeline)),
    route("PUT", "_search/pipeline/NAME", Write, Do::PutNamed(NamedKind::SearchPipeline)),
    route("DELETE", "_search/pipeline/NAME", Write, Do::DeleteNamed(NamedKind::SearchPipeline)),
    route("GET HEAD", "_ilm/policy", Any, Do::GetNamed(NamedKind::LifecyclePolicy)),
    route("GET HEAD", "_ilm/policy/NAME", Any, Do::GetNamed(NamedKind::LifecyclePolicy)),
    route("PUT", "_ilm/policy/NAME", Write, Do::PutNamed(NamedKind::LifecyclePolicy)),
    route("DELETE", "_ilm/policy/NAME", Write, Do::DeleteNamed(NamedKind::LifecyclePolicy)),
    // Data streams.
    route("GET HEAD", "_data_stream", Any, Do::GetStreams),
    route("GET HEAD", "_data_stream/NAME", Any, Do::GetStreams),
    route("PUT", "_data_stream/NAME", Write, Do::PutStream),
    route("DELETE", "_data_stream/NAME", Write, Do::DeleteStream),
    route("GET HEAD", "_data_stream/NAME/_lifecycle", Any, Do::GetLifecycle),
    route("PUT", "_data_stream/NAME/_lifecycle", Write, Do::PutLifecycle),
    route("DELETE", "_data_stream/NAME/_lifecycle", Write, Do::DeleteLifecycle),
    route("GET HEAD", "INDEX/_lifecycle/explain", Read, Do::ExplainLifecycle),
    route("POST", "INDEX/_rollover", Write, Do::Rollover),
    route("POST", "INDEX/_rollover/NAME", Write, Do::Rollover),
];

/// A route with the variable segments of a path.
struct FoundRoute {
    route: &'static ElasticRoute,
    /// The index; empty for all.
    index: String,
    name: Option<String>,
    rest: Vec<String>,
}

impl ElasticRoute {
    fn takes(&self, method: &str) -> bool {
        self.methods.split(' ').any(|one| one == method)
    }

    /// The route with the variable segments of a path, if the path is this one.
    fn matched(&'static self, segments: &[String]) -> Option<FoundRoute> {
        let mut found = FoundRoute { route: self, index: String::new(), name: None, rest: Vec::new() };
        let mut given = segments.iter();
        for wanted in self.path.split('/').filter(|part| !part.is_empty()) {
            match wanted {
                "..." => found.rest = given.by_ref().cloned().collect(),
                "INDEX" => {
                    let index = given.next().filter(|index| !index.starts_with('_') || *index == "_all")?;
                    found.index = index.clone();
                }
                "NAME" => found.name = Some(given.next()?.clone()),
                literal => {
                    given.next().filter(|segment| *segment == literal)?;
                }
            }
        }
        given.next().is_none().then_some(found)
    }
}

/// Finds the route of a request.
///
/// # Errors
/// The path is not known, or does not take the method.
fn find(request: &ElasticRequest) -> Result<FoundRoute, Error> {
    let segments = segments_of(&request.path)?;
    let mut methods = Vec::new();
    for route in ROUTES {
        if let Some(found) = route.matched(&segments) {
            if route.takes(&request.method) {
                return Ok(found);
            }
            methods.extend(route.methods.split(' '));
        }
    }
    match methods.as_slice() {
        [] => Err(unknown(request)),
        allowed => Err(Error::Method {
            uri: request.path.clone(),
            method: request.method.clone(),
            allowed: allowed.join(", "),
        }),
    }
}

/// Right that a request needs. One that is not understood needs the right to write, and does nothing.
pub(crate) fn right_of(request: &ElasticRequest) -> RouteRight {
    if otlp::is_logs(&request.path) {
        return Write;
    }
    match find(request) {
        Ok(found) => found.route.right,
        // The answer has the methods alone.
        Err(Error::Method { .. }) => Any,
        Err(_) => Write,
    }
}

/// Kind of the work over the body of a request. Those of all but writes of documents are read as a whole,
/// like a query.
pub(crate) fn work_kind(request: &ElasticRequest) -> WorkKind {
    if otlp::is_logs(&request.path) {
        return WorkKind::LogRecords;
    }
    match find(request).map(|found| found.route.operation) {
        Ok(Do::Bulk | Do::BulkStream) => WorkKind::OperationLines,
        Ok(Do::AddDocument | Do::WriteDocument(_)) => WorkKind::JsonDocument,
        _ => WorkKind::JsonQuery,
    }
}

/// True if the lines of a body are read one by one, and none of them is a write.
pub(crate) fn has_query_lines(request: &ElasticRequest) -> bool {
    find(request).is_ok_and(|found| found.route.operation == Do::MultiSearch)
}

/// True if a request is about the server, and not about what it has: any node can answer it.
pub(crate) fn is_about_server(request: &ElasticRequest) -> bool {
    let operation = find(request).map(|found| found.route.operation);
    matches!(operation, Ok(Do::Info | Do::License | Do::Features | Do::Nodes))
}

/// True if a request is about the health of the cluster: it has an answer also while none of the others has.
pub(crate) fn is_about_health(request: &ElasticRequest) -> bool {
    let Ok(found) = find(request) else { return false };
    let (operation, table) = (found.route.operation, found.rest.first().map(String::as_str));
    operation == Do::Health
        || operation == Do::Tables && matches!(table, Some("health" | "nodes" | "master" | "cluster_manager"))
}

/// True if a request reads the next page of a scroll, which is read once.
pub(crate) fn turns_page(request: &ElasticRequest) -> bool {
    find(request).is_ok_and(|found| found.route.operation == Do::NextPage)
}

/// True if a request reads the documents of whole indexes.
pub(crate) fn is_search(request: &ElasticRequest) -> bool {
    let operation = find(request).map(|found| found.route.operation);
    let is_read = matches!(
        operation,
        Ok(Do::Search
            | Do::AsyncSearch
            | Do::Count
            | Do::MultiSearch
            | Do::NextPage
            | Do::FieldCaps
            | Do::EnumerateTerms
            | Do::IndexFigures
            | Do::Tables)
    );
    // A condition of a rollover may be the number of documents.
    let counts = matches!(operation, Ok(Do::Rollover));
    is_read || counts || matches!(operation, Ok(Do::DeleteByQuery | Do::UpdateByQuery | Do::Reindex))
}

/// Names of the indexes of a search, separated by commas, if its routing values are among its parameters.
pub(crate) fn routed_indexes(request: &ElasticRequest) -> Option<String> {
    let found = find(request).ok()?;
    let is_routed = matches!(
        found.route.operation,
        Do::Search | Do::AsyncSearch | Do::Count | Do::DeleteByQuery | Do::UpdateByQuery
    );
    is_routed.then_some(found.index)
}

/// Error of a path that does not exist.
fn unknown(request: &ElasticRequest) -> Error {
    Error::IllegalArgument(format!(
        "no handler found for uri [{}] and method [{}]; docs/elastic.md lists what there is",
        request.path, request.method
    ))
}

/// Answers a request by its method and path.
pub(crate) fn dispatch(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
) -> Result<ReplyContent, Error> {
    let found = find(request)?;
    let index = &*with_dates(&found.index)?;
    let one_index = Some(index).filter(|index| !index.is_empty());
    let id = found.name.as_deref();
    let name = id.unwrap_or_default();
    match found.route.operation {
        Do::Info => cluster_admin::info(),
        Do::License => ReplyContent::ok(json!({
            "license": { "status": "active", "type": "basic", "uid": "-", "mode": "basic" },
        })),
        Do::Features => ReplyContent::ok(json!({ "features": {} })),
        Do::Health => cluster_health::health(service, parameters, name),
        Do::ClusterFigures => cluster_health::figures(service),
        Do::ClusterState => cluster_state::get(service, request, parameters, &found.rest),
        Do::IndexFigures => index_figures::stats(service, parameters, index, name),
        Do::Nodes => cluster_health::nodes(service, request, &found.rest),
        Do::Tables => {
            let path: Vec<&str> = found.rest.iter().map(String::as_str).collect();
            cat_tables::cat(service, request, parameters, &path)
        }
        Do::GetClusterSettings => cluster_admin::get_settings(service, parameters),
        Do::PutClusterSettings => cluster_admin::put_settings(service, request, parameters),
        Do::Bulk => bulk::bulk(service, request, parameters, one_index),
        // The server of HTTP cuts streams into bulks.
        Do::BulkStream => Err(unknown(request)),
        Do::MultiGet => single::multi_get(service, request, parameters, one_index),
        Do::NextPage => scrolls::next(service, request, parameters, id),
        Do::OpenPoint(form) => points_in_time::open(service, request, parameters, index, form),
        Do::ClosePoints(form) => points_in_time::close(request, form),
        Do::ListPoints => points_in_time::list(),
        Do::ClearScrolls => scrolls::clear(service, request, parameters, id),
        Do::Search => search::search(service, request, parameters, index),
        Do::AsyncSearch => search::async_search(service, request, parameters, index),
        Do::Count => search::count(service, request, parameters, index),
        Do::MultiSearch => search::multi_search(service, request, parameters, one_index),
        Do::FieldCaps => cluster_admin::field_caps(service, request, parameters, index),
        Do::ValidateQuery => validation::validate(service, request, parameters, index),
        Do::ExplainHit => explanation::explain(service, request, parameters, index, name),
        Do::EnumerateTerms => terms_enum::terms_enum(service, request, parameters, index),
        Do::ResolveIndex => validation::resolve_index(service, parameters, name),
        Do::Analyze => analysis::analyze(service, request, parameters, index),
        Do::Deprecations => deprecations::get(service, parameters, index),
        Do::DeleteByQuery => by_query::delete(service, request, parameters, index),
        Do::UpdateByQuery => by_query::update(service, request, parameters, index),
        Do::Reindex => by_query::reindex(service, request, parameters),
        Do::Refresh => index_admin::refresh(service, parameters, index),
        Do::GetMapping => index_admin::get_mapping(service, parameters, index),
        Do::GetFieldMapping => index_admin::get_field_mapping(service, parameters, index, name),
        Do::PutMapping => index_admin::put_mapping(service, request, parameters, index),
        Do::GetSettings => index_settings::get_settings(service, parameters, index, id),
        Do::PutSettings => index_settings::put_settings(service, request, parameters, index),
        Do::ChangeAliases => aliases::actions(service, request),
        Do::GetAliases => aliases::get(service, parameters, index, id),
        Do::PutAlias => aliases::put(service, request, index, name),
        Do::DeleteAlias => aliases::delete(service, index, name),
        Do::GetNamed(kind) => templates::get_named(service, parameters, kind, name),
        Do::PutNamed(kind) => templates::put_named(service, request, parameters, kind, name),
        Do::DeleteNamed(kind) => templates::delete_named(service, kind, name),
        Do::GetStreams => templates::get_streams(service, name),
        Do::PutStream => templates::put_stream(service, name),
        Do::DeleteStream => templates::delete_stream(service, name),
        Do::GetLifecycle => lifecycle::get(service, name),
        Do::PutLifecycle => lifecycle::put(service, request, name),
        Do::DeleteLifecycle => lifecycle::change(service, name, None),
        Do::ExplainLifecycle => lifecycle::explain(service, parameters, index),
        Do::Rollover => rollover::rollover(service, request, parameters, index, id),
        Do::SimulateIndex => simulation::for_index(service, request, name),
        Do::SimulateTemplate => simulation::by_template(service, request, id),
        Do::GetIndex => index_admin::get(service, parameters, index),
        Do::IndexExists => index_admin::exists(service, parameters, index),
        Do::PutIndex => index_admin::put(service, request, index),
        Do::DeleteIndex => index_admin::delete(service, parameters, index),
        Do::CloseIndex => index_admin::set_closed(service, parameters, index, true),
        Do::OpenIndex => index_admin::set_closed(service, parameters, index, false),
        Do::AddBlock => index_settings::add_block(service, parameters, index, name),
        Do::AddDocument => {
            // A new id is of no document, and data streams take nothing else.
            let action = if parameters.has("op_type") { WriteAction::Index } else { WriteAction::Create };
            single::write(service, request, parameters, action, index, None)
        }
        Do::WriteDocument(action) => single::write(service, request, parameters, action, index, id),
        Do::GetDocument => single::get(service, parameters, index, name),
        Do::GetSource => single::get_source(service, parameters, index, name),
    }
}
