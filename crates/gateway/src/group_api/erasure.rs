//! Erasures of deleted groups: the bound that a request asks for, and receipts.

use std::time::{Duration, Instant};

use axum::response::Response;
use hyper::StatusCode;
use millrace_access::{AccessRight, CallerGroups, WantedGroups};
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_node::cluster::{self, ErasureQuestion, SnapshotAnswer, SnapshotQuestion};
use millrace_store::{GroupErasure, SnapshotName};
use serde_json::{Map, Value, json};

use super::{GroupCall, group_name};
use crate::http;

/// Interval at which an erasure is looked at that a request waits for.
const INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time that a request waits for an erasure, unless it has a `timeout`.
const WAIT: Duration = Duration::from_secs(10);

/// Returns the bound of a deletion, if the request has one. One that is lower than that of the node requires
/// the right to administer: files of other groups are rewritten for it.
pub(super) fn requested(call: &GroupCall) -> Result<Option<Duration>, Error> {
    let within_max = call.node.node().settings().erase_within;
    let within = match (call.parameters.flag("erase")?, call.parameters.get("within")) {
        (Some(true), None) => Duration::ZERO,
        (_, None) => return Ok(None),
        (Some(true), Some(_)) => {
            return Err(Error::parameter("within", "erase=true is within=0; send one of them".to_owned()));
        }
        (_, Some(text)) => duration(text).ok_or_else(|| {
            let expected = "expected a number with one of the units d, h, m, s";
            Error::parameter("within", format!("{expected}; got '{text}'"))
        })?,
    };
    if within > within_max {
        let seconds = within_max.as_secs();
        let reason = format!("a longer time than the node's own; send at most {seconds}s (--erase-within-s)");
        return Err(Error::parameter("within", reason));
    }
    if within < within_max {
        call.caller.check_right(&[AccessRight::Admin])?;
    }
    Ok(Some(within))
}

/// Parses a number of days, hours, minutes or seconds; 0 needs no unit.
fn duration(text: &str) -> Option<Duration> {
    let (number, seconds) = match text.char_indices().last()? {
        (_, '0'..='9') => (text, 1),
        (at, 's') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 3600),
        (at, 'd') => (&text[..at], 24 * 3600),
        _ => return None,
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(seconds).map(Duration::from_secs)
}

/// Lowers the bound of the erasure of a group on all nodes. If it is zero, waits until the erasure ends, for
/// a while.
pub(super) async fn lower_erasure_bound(
    call: &GroupCall,
    group: &DocumentGroup,
    within: Duration,
) -> Result<(), Error> {
    let deadline = match call.parameters.get("timeout") {
        Some(_) => call.deadline,
        None => call.deadline.min(Instant::now() + WAIT),
    };
    let mut question = ErasureQuestion { group: Some(group.clone()), within: Some(within) };
    loop {
        let found = ask(call, &question).await?;
        let is_over = |erasures: &Vec<GroupErasure>| erasures.iter().all(|of| of.erased.is_some());
        let is_finished = found.iter().all(|of| of.erasures.as_ref().is_ok_and(is_over));
        if !within.is_zero() || is_finished || Instant::now() + INTERVAL >= deadline {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
        // A node that did not answer is given the bound with the next question.
        question.within = found.iter().any(|of| of.erasures.is_err()).then_some(within);
    }
}

/// Erasures of one node.
struct NodeErasures {
    /// Name of the node; `None`: it is alone.
    node: Option<String>,
    erasures: Result<Vec<GroupErasure>, Error>,
}

/// Asks all nodes for erasures of groups of the caller.
async fn ask(call: &GroupCall, question: &ErasureQuestion) -> Result<Vec<NodeErasures>, Error> {
    match (&question.group, &call.caller.groups) {
        (Some(group), _) => call.caller.permit(WantedGroups::These(std::slice::from_ref(group)))?,
        (None, CallerGroups::Only(groups)) => call.caller.permit(WantedGroups::These(groups))?,
        (None, CallerGroups::All) => call.caller.permit(WantedGroups::All)?,
    };
    let node = call.node.node();
    let Some(cluster) = call.node.cluster().view()? else {
        let erasures = cluster::own_erasures(node, question.clone()).await?;
        return Ok(vec![NodeErasures { node: None, erasures: Ok(erasures) }]);
    };
    let answers = cluster::erasures_of_all(node, cluster, question, call.deadline).await?;
    let of_node =
        |(listed, erasures): (cluster::ListedNode, _)| NodeErasures { node: Some(listed.name), erasures };
    Ok(answers.into_iter().map(of_node).collect())
}

/// Names of the snapshots that have something of a group, by the names of nodes (`None`: the node is alone).
async fn snapshots(call: &GroupCall, group: &DocumentGroup) -> Result<Vec<(Option<String>, Value)>, Error> {
    let question = SnapshotQuestion::Holding(group.clone());
    let names = |answer: Result<SnapshotAnswer, Error>| match answer {
        Ok(SnapshotAnswer::Holding(names)) => Some(names.iter().map(SnapshotName::as_str).collect()),
        // A node of an earlier version has none.
        _ => None,
    };
    let node = call.node.node();
    let Some(cluster) = call.node.cluster().view()? else {
        let answer = cluster::own_snapshots(node, question).await?;
        return Ok(names(Ok(answer)).map(|names| (None, names)).into_iter().collect());
    };
    let answers = cluster::snapshots_of_all(node, cluster, &question, call.deadline).await?;
    Ok(answers.into_iter().filter_map(|(listed, answer)| Some((Some(listed.name), names(answer)?))).collect())
}

/// Receipt of the erasure of a group, `None` if it was not deleted: of a cluster, a list of those of its
/// nodes. It names the snapshots that have something of the group.
pub(super) async fn of_group(call: &GroupCall, group: &DocumentGroup) -> Result<Option<Value>, Error> {
    let question = ErasureQuestion { group: Some(group.clone()), within: None };
    let found = ask(call, &question).await?;
    let has_some = |of: &NodeErasures| of.erasures.as_ref().is_ok_and(|erasures| !erasures.is_empty());
    if !found.iter().any(has_some) {
        // A server that is alone cannot tell; nodes that do not answer say nothing of a group that was not
        // deleted on any other.
        return found
            .into_iter()
            .find(|of| of.node.is_none())
            .map_or(Ok(None), |of| of.erasures.map(|_| None));
    }
    let mut holding = snapshots(call, group).await?;
    let mut holding_of = |node: Option<&str>| {
        let at = holding.iter().position(|(known, _)| known.as_deref() == node)?;
        Some(("snapshots".to_owned(), holding.swap_remove(at).1))
    };
    let mut nodes = Vec::new();
    for NodeErasures { node, erasures } in found {
        let Some(node) = node else {
            let mut value = erasures?.first().map(receipt_with_holders).unwrap_or_default();
            value.extend(holding_of(None));
            return Ok(Some(Value::Object(value)));
        };
        let mut value = Map::from_iter([("node".to_owned(), json!(node))]);
        match erasures {
            Ok(erasures) => match erasures.first() {
                Some(erasure) => value.extend(receipt_with_holders(erasure)),
                None => continue,
            },
            Err(error) => drop(value.insert("error".to_owned(), json!(error.message()))),
        }
        value.extend(holding_of(value["node"].as_str()));
        nodes.push(Value::Object(value));
    }
    Ok(Some(json!({ "nodes": nodes })))
}

/// Returns true for the receipt of an erasure that has ended on all nodes.
pub(super) fn is_finished(receipt: &Value) -> bool {
    match receipt["nodes"].as_array() {
        Some(nodes) => nodes.iter().all(|node| node["error"].is_null() && !node["erased"].is_null()),
        None => !receipt["erased"].is_null(),
    }
}

/// `GET` of the receipts of all erasures, or of those of the caller's groups.
pub(super) async fn list(call: &GroupCall) -> Result<Response, Error> {
    let is_own = |erasure: &GroupErasure| match &call.caller.groups {
        CallerGroups::All => true,
        CallerGroups::Only(groups) => groups.contains(&erasure.group),
    };
    let mut all = Vec::new();
    let question = ErasureQuestion { group: None, within: None };
    for NodeErasures { node, erasures } in ask(call, &question).await? {
        let node = || node.iter().map(|node| ("node".to_owned(), json!(node)));
        let erasures = match erasures {
            Ok(erasures) => erasures,
            Err(error) => {
                let reason = ("error".to_owned(), json!(error.message()));
                all.push(Value::Object(node().chain([reason]).collect()));
                continue;
            }
        };
        for erasure in erasures.iter().filter(|erasure| is_own(erasure)) {
            let name = match &erasure.group {
                DocumentGroup::Number(number) => ("number".to_owned(), json!(number)),
                group => ("name".to_owned(), json!(group_name(group))),
            };
            let mut value: Map<String, Value> = [name].into_iter().chain(node()).collect();
            value.extend(receipt(erasure));
            all.push(Value::Object(value));
        }
    }
    Ok(http::json(StatusCode::OK, &json!({ "erasures": all })))
}

/// Times of an erasure in microseconds since 1970, and what still has bytes of it.
fn receipt_with_holders(erasure: &GroupErasure) -> Map<String, Value> {
    let mut value = receipt(erasure);
    if erasure.erased.is_none() {
        let holders = &erasure.holders;
        value.insert("files".to_owned(), json!(holders.files));
        value.insert("logs".to_owned(), json!(holders.logs));
        value.insert("indexes".to_owned(), json!(holders.elsewhere));
    }
    value
}

/// Times of an erasure in microseconds since 1970.
fn receipt(erasure: &GroupErasure) -> Map<String, Value> {
    let GroupErasure { dropped, due, erased, .. } = erasure;
    let mut value = Map::new();
    value.insert("dropped".to_owned(), json!(dropped.0));
    value.insert("eraseBy".to_owned(), json!(due.0));
    value.insert("erased".to_owned(), json!(erased.map(|erased| erased.0)));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("90", Some(90)),
            ("5s", Some(5)),
            ("2m", Some(120)),
            ("3h", Some(10_800)),
            ("30d", Some(2_592_000)),
            ("", None),
            ("d", None),
            ("-1d", None),
            ("1.5d", None),
            ("1w", None),
            ("1µ", None),
            ("99999999999999999d", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
