//! Indexes whose copies a cluster places on its nodes. Any node answers for all: it follows the table of
//! copies and the reports of the nodes, and passes requests to the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_cluster::{NodeKey, NodeState, PLACED_INDEXES};
use millrace_env::{SystemClock, WallClock};
use millrace_index_placement::{
    CopyMethod, CopyProgress, Error as PlacementError, IndexNumber, MissingCopies, NodeCopyReport,
    PlacedCopy, PlacedCopyState, PlacedIndex, PlacementAnswer, PlacementOverview, PlacementRequest,
    RebalanceCause, RebalanceProgress, RefusalKind, RequestedCopyMove, missing_copies, planned_rebalance,
};
use millrace_node::Error;
use millrace_node::cluster::ClusterMember;
use millrace_node::indexes::IndexDefinition;
use serde_json::{Value, json};

use super::declaration;
use crate::config_api::query_parameters;
use crate::{GatewayState, http};

/// Time for the answer of the leader: one that is lost is replaced within it.
const LEADER_TIMEOUT: Duration = Duration::from_secs(20);

/// Declared indexes whose copies are placed; none for a server that runs alone, and for a cluster in which
/// they still lie with the documents.
pub(super) fn definitions(node: &GatewayState) -> Vec<Arc<IndexDefinition>> {
    if node.cluster().is_alone() || !node.speaks(PLACED_INDEXES) {
        return Vec::new();
    }
    let Ok(deployment) = node.deployments().current() else { return Vec::new() };
    deployment.indexes().iter().filter(|definition| definition.config.placed).cloned().collect()
}

fn definition(node: &GatewayState, content: &str, name: &str) -> Option<Arc<IndexDefinition>> {
    let is_it =
        |definition: &Arc<IndexDefinition>| definition.name() == name && *definition.content == *content;
    definitions(node).into_iter().find(is_it)
}

/// True if an index of this name is declared, and placed.
pub(super) fn is_placed(node: &GatewayState, content: &str, name: &str) -> bool {
    definition(node, content, name).is_some()
}

/// The placed indexes, in short.
pub(super) fn all(node: &GatewayState) -> Vec<Value> {
    let definitions = definitions(node);
    let Some(member) = node.cluster().member().filter(|_| !definitions.is_empty()) else { return Vec::new() };
    let overview = member.placement();
    let missing = missing_copies(&overview.table, &overview.situation());
    definitions.iter().map(|definition| IndexView::new(definition, &overview, &missing).value()).collect()
}

/// A placed index with its copies; `None` if none has the name.
pub(super) fn one(node: &GatewayState, content: &str, name: &str) -> Option<Value> {
    let definition = definition(node, content, name)?;
    let overview = node.cluster().member()?.placement();
    let missing = missing_copies(&overview.table, &overview.situation());
    Some(IndexView::new(&definition, &overview, &missing).detailed())
}

/// The membership of a node whose cluster can place indexes.
fn member_of(node: &GatewayState) -> Result<&Arc<dyn ClusterMember>, Error> {
    node.cluster().member().ok_or_else(|| {
        Error::Conflict(
            "this server runs alone: all that its indexes have is here; copies are placed in a cluster only"
                .to_owned(),
        )
    })
}

/// The membership and its placed indexes, if there are any.
fn placement_of(node: &GatewayState) -> Result<PlacementOverview, Error> {
    let overview = member_of(node)?.placement();
    match overview.is_used() {
        true => Ok(overview),
        false => Err(Error::Conflict(
            "no index is placed: declare some in <index-service placed=\"true\">, and deploy the application"
                .to_owned(),
        )),
    }
}

/// The moves of a rebalance, if it began now.
pub(super) fn plan(node: &GatewayState, request: &Request) -> Result<Response, Error> {
    let parameters = query_parameters(node, request)?;
    let overview = placement_of(node)?;
    let method = match parameters.get("method") {
        None => overview.table.settings().method,
        Some("auto") => CopyMethod::Auto,
        Some("file") => CopyMethod::File,
        Some("rebuild") => CopyMethod::Rebuild,
        Some(other) => {
            let reason = format!("'{other}': expected auto, file or rebuild");
            return Err(Error::Parameter { name: "method", reason });
        }
    };
    let planned = planned_rebalance(&overview.table, &overview.situation());
    let pairs = planned.pairs.iter().map(|pair| {
        json!({
            "from": name_of(&overview, pair.from), "to": name_of(&overview, pair.to),
            "moves": pair.moves, "bytes": pair.bytes,
        })
    });
    let pace = overview.table.pace().filter(|pace| pace.method == method && pace.bytes_per_second > 0);
    let seconds = pace.map(|pace| planned.moved_bytes as f64 / pace.bytes_per_second as f64);
    let (missing, failed) = lacking(&overview);
    let value = json!({
        "method": method,
        "copies": planned.copies,
        "bytes": planned.bytes,
        "under-way": planned.under_way,
        "moves": planned.moves,
        "least-moves": planned.least_moves,
        "moved-bytes": planned.moved_bytes,
        "least-bytes": planned.least_bytes,
        "seconds": seconds,
        "pairs": pairs.collect::<Value>(),
        "missing": missing,
        "failed": failed,
        "nodes": overview.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(),
    });
    Ok(http::json(StatusCode::OK, &value))
}

/// The rebalance in progress, and all copies that are being made.
pub(super) fn rebalance(node: &GatewayState) -> Result<Response, Error> {
    let overview = placement_of(node)?;
    Ok(http::json(StatusCode::OK, &rebalance_value(&overview, SystemClock.now_us() / 1_000)))
}

fn rebalance_value(overview: &PlacementOverview, now_ms: u64) -> Value {
    let mut made = Vec::new();
    for (slice, copy) in overview.table.all_copies() {
        let index = overview.table.indexes().get(&slice.index);
        let (Some(index), true) = (index, copy.is_made()) else { continue };
        let mut value = copy_value(overview, index, usize::from(slice.slice), copy);
        value["content"] = json!(index.content);
        value["index"] = json!(index.name);
        value["slice"] = json!(slice.slice);
        made.push(value);
    }
    let (missing, failed) = lacking(overview);
    let unknown = overview.wanted.iter().filter(|wanted| {
        let (content, name) = wanted.name();
        overview.table.declared(content, name).is_none()
    });
    let count =
        missing.iter().filter_map(|index| index["copies"].as_u64()).sum::<u64>() + unknown.count() as u64;
    let mut value = json!({
        "running": false,
        "balanced": overview.table.rebalance().is_none() && made.is_empty() && count == 0,
        "missing-copies": count,
        "missing": missing,
        "failed": failed,
        "copies": made,
    });
    let progress = RebalanceProgress::of(overview, now_ms);
    if let Some((run, progress)) = overview.table.rebalance().zip(progress) {
        let (cause, by) = match &run.cause {
            RebalanceCause::EmptyNode => ("empty-node", None),
            RebalanceCause::Requested(by) => ("requested", Some(by)),
        };
        let held = run.held.iter().map(|node| name_of(overview, *node));
        value["running"] = json!(true);
        value["id"] = json!(run.id);
        value["cause"] = json!(cause);
        value["by"] = json!(by);
        value["stopping"] = json!(run.stopping);
        value["moves"] = json!(progress.moves);
        value["moves-left"] = json!(progress.left.moves);
        value["bytes-left"] = json!(progress.left.bytes);
        value["progress"] = json!(progress.done);
        value["seconds"] = json!(progress.seconds);
        value["seconds-left"] = json!(progress.seconds_left);
        value["waiting-nodes"] = held.collect();
    }
    value
}

/// Copies that indexes lack, by index with the reason of the first one, and each copy that has failed.
fn lacking(overview: &PlacementOverview) -> (Vec<Value>, Vec<Value>) {
    let mut by_index: BTreeMap<IndexNumber, (u64, String)> = BTreeMap::new();
    for missing in missing_copies(&overview.table, &overview.situation()) {
        let (count, _) = by_index.entry(missing.slice.index).or_insert_with(|| (0, of_slice(&missing)));
        *count += missing.count;
    }
    let missing = by_index.iter().filter_map(|(number, (count, reason))| {
        let index = overview.table.indexes().get(number)?;
        Some(json!({ "content": index.content, "index": index.name, "copies": count, "reason": reason }))
    });
    let failed = overview.table.all_copies().filter_map(|(slice, copy)| {
        let index = overview.table.indexes().get(&slice.index)?;
        let reason = failure(overview, copy)?;
        Some(json!({
            "content": index.content, "index": index.name, "slice": slice.slice,
            "name": name_of(overview, copy.node), "reason": reason,
        }))
    });
    (missing.collect(), failed.collect())
}

/// Reason of missing copies, with their slice.
fn of_slice(missing: &MissingCopies) -> String {
    format!("slice {}: {}", missing.slice.slice, missing.reason)
}

/// Reason for which a copy has failed.
fn failure<'a>(overview: &'a PlacementOverview, copy: &PlacedCopy) -> Option<&'a str> {
    match overview.report(copy).map(|report| &report.progress) {
        Some(CopyProgress::Failed(reason)) => Some(&**reason),
        _ => None,
    }
}

pub(super) async fn begin_rebalance(node: &GatewayState) -> Result<Response, Error> {
    let by = node.cluster().view()?.map_or_else(String::new, |view| {
        let overview = member_of(node).map(|member| member.placement()).unwrap_or_default();
        name_of(&overview, view.own().key)
    });
    placement_of(node)?;
    ask(node, PlacementRequest::Rebalance { by }).await?;
    let status = "/index/v1/rebalance";
    Ok(http::json(StatusCode::ACCEPTED, &json!({ "message": "The rebalance has begun", "status": status })))
}

pub(super) async fn stop_rebalance(node: &GatewayState) -> Result<Response, Error> {
    placement_of(node)?;
    ask(node, PlacementRequest::Stop).await?;
    let message = "No further moves begin; those in progress end, and what has moved stays";
    let status = "/index/v1/rebalance";
    Ok(http::json(StatusCode::ACCEPTED, &json!({ "message": message, "status": status })))
}

pub(super) fn settings(node: &GatewayState) -> Result<Response, Error> {
    let overview = member_of(node)?.placement();
    Ok(http::json(StatusCode::OK, &json!(overview.table.settings())))
}

pub(super) async fn change_settings(node: &GatewayState, request: Request) -> Result<Response, Error> {
    member_of(node)?;
    let (parts, body) = request.into_parts();
    let body = http::read_body(node, &parts.headers, body, node.query_bounds()).await?;
    let request = PlacementRequest::settings(&body).map_err(|error| refused(&error))?;
    ask(node, request).await?;
    settings(node)
}

/// Executes an action on a placed index.
pub(super) async fn execute(
    node: &GatewayState,
    content: &str,
    name: &str,
    action: &str,
    request: Request,
) -> Result<Response, Error> {
    let (content, name) = (content.to_owned(), name.to_owned());
    let status = format!("/index/v1/{content}/{name}");
    let (request, message) = match action {
        "build" => (PlacementRequest::Build { content, name }, "The index is to be built"),
        "rebuild" => (
            PlacementRequest::Rebuild { content, name },
            "The index is to be built again, beside the copies that serve until then",
        ),
        "move" => {
            let (parts, body) = request.into_parts();
            let body = http::read_body(node, &parts.headers, body, node.query_bounds()).await?;
            let copy = RequestedCopyMove::from_json(&body).map_err(|error| refused(&error))?;
            (PlacementRequest::Move { content, name, copy }, "The move is to begin")
        }
        other => {
            let reason =
                format!("no action '{other}' on a placed index: POST to build, rebuild, verify or move");
            return Err(Error::NotFound(reason));
        }
    };
    ask(node, request).await?;
    Ok(http::json(StatusCode::ACCEPTED, &json!({ "message": message, "status": status })))
}

/// Passes a request to the leader.
async fn ask(node: &GatewayState, request: PlacementRequest) -> Result<(), Error> {
    match member_of(node)?.ask_leader(request, LEADER_TIMEOUT).await? {
        PlacementAnswer::Done => Ok(()),
        PlacementAnswer::Refused { kind, reason } => Err(of_kind(kind, reason)),
    }
}

fn refused(error: &PlacementError) -> Error {
    of_kind(error.kind(), error.to_string())
}

fn of_kind(kind: RefusalKind, reason: String) -> Error {
    match kind {
        RefusalKind::Invalid => Error::BadRequest(reason),
        RefusalKind::Unknown => Error::NotFound(reason),
        RefusalKind::Conflict => Error::Conflict(reason),
        RefusalKind::Unavailable => Error::Unsettled(reason),
    }
}

/// Name of a node; its key if it is not a node of the cluster any more.
fn name_of(overview: &PlacementOverview, key: NodeKey) -> String {
    overview.node(key).map_or_else(|| key.to_string(), |node| node.name.to_string())
}

/// A copy, with its node's report.
fn copy_value(overview: &PlacementOverview, index: &PlacedIndex, slice: usize, copy: &PlacedCopy) -> Value {
    let report = overview.report(copy);
    let failed = failure(overview, copy);
    let verified = report.and_then(|report| report.verified);
    let copies = index.slices.get(slice).map_or(&[][..], Vec::as_slice);
    let (mut from, mut replaces, mut reason) = (None, None, None);
    let state = match copy.state {
        _ if failed.is_some() => "failed",
        PlacedCopyState::Ready => "ready",
        PlacedCopyState::Leaving => "leaving",
        PlacedCopyState::Made { from: source, replacing, reason: cause } => {
            from = source.map(|key| name_of(overview, key));
            let replaced = copies.iter().find(|other| Some(other.id) == replacing);
            replaces = replaced.map(|other| name_of(overview, other.node));
            reason = Some(cause.sentence());
            if source.is_some() { "copying" } else { "building" }
        }
    };
    json!({
        "node": copy.node.0,
        "name": name_of(overview, copy.node),
        "state": state,
        "from": from,
        "replaces": replaces,
        "reason": failed.or(reason),
        "progress": if copy.is_ready() { 1.0 } else { report.map_or(0.0, |report| report.done) },
        "entries": report.map_or(0, |report| report.entries),
        "bytes": report.map_or(0, |report| report.bytes),
        "seconds-left": report.filter(|_| copy.is_made()).and_then(|report| report.seconds_left),
        "lag": report.and_then(|report| report.lag),
        "verified-ms": verified.map(|verified| verified.ended_ms),
        "repaired": verified.map(|verified| verified.repaired),
    })
}

/// A declared index and its part of the table.
struct IndexView<'a> {
    definition: &'a IndexDefinition,
    overview: &'a PlacementOverview,
    /// Its number and copies; `None` before the leader has taken it into the table.
    placed: Option<(IndexNumber, &'a PlacedIndex)>,
    /// Copies that all indexes lack.
    missing: &'a [MissingCopies],
}

impl<'a> IndexView<'a> {
    fn new(
        definition: &'a IndexDefinition,
        overview: &'a PlacementOverview,
        missing: &'a [MissingCopies],
    ) -> Self {
        let number = overview.table.declared(&definition.content, definition.name());
        let placed = number.and_then(|number| Some((number, overview.table.indexes().get(&number)?)));
        IndexView { definition, overview, placed, missing }
    }

    fn value(&self) -> Value {
        let mut value = declaration(self.definition);
        let figures = match self.placed {
            Some((number, index)) => self.figures(number, index),
            None => json!({
                "state": "waiting", "progress": 0.0, "seconds-left": null, "entries": 0, "bytes": 0, "copies-ready": 0,
                "copies-wanted": 0, "replaces": false, "lag": null, "reason": self.waiting_reason(),
            }),
        };
        value["placed"] = json!(true);
        if let (Value::Object(value), Value::Object(figures)) = (&mut value, figures) {
            value.extend(figures);
        }
        value
    }

    /// The same with the copies of each slice.
    fn detailed(&self) -> Value {
        let mut value = self.value();
        let slices = self.placed.into_iter().flat_map(|(number, index)| {
            index.slices.iter().enumerate().map(move |(slice, copies)| {
                let copies = copies.iter().map(|copy| copy_value(self.overview, index, slice, copy));
                let missing = self.lacks(number).find(|missing| usize::from(missing.slice.slice) == slice);
                json!({
                    "slice": slice,
                    "copies": copies.collect::<Value>(),
                    "missing": missing.map_or(0, |missing| missing.count),
                    "reason": missing.map(|missing| &missing.reason),
                })
            })
        });
        value["placement"] = slices.collect();
        value
    }

    /// Copies that an index lacks.
    fn lacks(&self, number: IndexNumber) -> impl Iterator<Item = &'a MissingCopies> {
        self.missing.iter().filter(move |missing| missing.slice.index == number)
    }

    fn waiting_reason(&self) -> String {
        match &self.overview.unread {
            Some(reason) => reason.to_string(),
            None => "the leader of the cluster has not placed it yet: it waits until it has the newest application, and all nodes know \
                     placed indexes"
                .to_owned(),
        }
    }

    fn figures(&self, number: IndexNumber, index: &PlacedIndex) -> Value {
        let usable = self.overview.table.usable(&index.content, &index.name);
        let (mut done, mut ready, mut entries, mut bytes) = (0.0, 0_u64, 0_u64, 0_u64);
        let (mut seconds_left, mut lag): (Option<u64>, Option<u64>) = (None, None);
        let mut failed = None;
        for copies in &index.slices {
            let wanted = usize::from(index.copies);
            let mut shares: Vec<f64> = Vec::new();
            let mut of_slice: u64 = 0;
            for copy in copies {
                let report: Option<&NodeCopyReport> = self.overview.report(copy);
                bytes += report.map_or(0, |report| report.bytes);
                of_slice = of_slice.max(report.map_or(0, |report| report.entries));
                if let Some(reason) = failure(self.overview, copy) {
                    failed.get_or_insert_with(|| {
                        format!("the copy on {} has failed: {reason}", name_of(self.overview, copy.node))
                    });
                    continue;
                }
                let node = self.overview.node(copy.node);
                match copy.state {
                    // It is made elsewhere.
                    PlacedCopyState::Ready if node.is_none_or(|node| node.state == NodeState::Down) => {}
                    PlacedCopyState::Ready => {
                        ready += 1;
                        lag = lag.max(report.and_then(|report| report.lag));
                        shares.push(1.0);
                    }
                    PlacedCopyState::Made { replacing, .. } => {
                        let left = report.and_then(|report| report.seconds_left);
                        seconds_left = seconds_left.max(left);
                        if replacing.is_none() {
                            shares.push(report.map_or(0.0, |report| report.done));
                        }
                    }
                    PlacedCopyState::Leaving => {}
                }
            }
            entries += of_slice;
            shares.sort_by(|one, other| other.total_cmp(one));
            done += shares.iter().take(wanted).sum::<f64>();
        }
        let wanted = index.slices.len() * usize::from(index.copies);
        let state = match () {
            () if index.deferred => "deferred",
            () if index.is_usable() => "ready",
            () => "building",
        };
        json!({
            "state": state,
            "progress": done / wanted.max(1) as f64,
            "seconds-left": seconds_left,
            "entries": entries,
            "bytes": bytes,
            "copies-ready": ready,
            "copies-wanted": wanted,
            "replaces": usable.is_some_and(|usable| usable != number),
            "lag": lag,
            "reason": failed.or_else(|| self.lacks(number).next().map(of_slice)),
        })
    }
}
