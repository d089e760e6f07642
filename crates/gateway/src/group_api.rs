//! `/group/v1/`: groups, their sizes, their export, restoration and deletion.
//!
//! Exports and restorations are requests to `/document/v1/` and `/feed/v1`, whose caller is restricted to the
//! group: the same code checks and limits them.

mod export;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::{Method, StatusCode, Uri};
use millrace_access::{AccessRight, CallerGroups, RequestCaller, WantedGroups};
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_store::{StoredGroup, StoredGroupPage};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::GatewayState;
use crate::document_api::feed;
use crate::edge::caller_of;
use crate::http::{self, RequestParameters, percent_decode};
use crate::status::HttpError;

/// Number of groups in a page, unless the request says otherwise; and the maximum.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1000;

/// Place of the one erasure that can run at a time: it seals and merges the whole store.
static ERASURE: Semaphore = Semaphore::const_new(1);

/// Object that a path addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupTarget<'p> {
    /// The list of groups.
    All,
    /// One group, by the name in the path.
    One(&'p str),
    /// The documents of one group, as a file.
    Export(&'p str),
    /// The same, to be written.
    Restore(&'p str),
}

impl<'p> GroupTarget<'p> {
    /// Parses a percent-encoded path.
    fn parse(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix("/group/v1")?;
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        match rest.split_once('/') {
            None if rest.is_empty() => Some(GroupTarget::All),
            None => Some(GroupTarget::One(rest)),
            Some(("", _)) => None,
            Some((name, "")) => Some(GroupTarget::One(name)),
            Some((name, "export")) => Some(GroupTarget::Export(name)),
            Some((name, "restore")) => Some(GroupTarget::Restore(name)),
            Some(_) => None,
        }
    }

    const fn methods(self) -> &'static str {
        match self {
            GroupTarget::All => "GET",
            GroupTarget::One(_) => "GET, DELETE",
            GroupTarget::Export(_) | GroupTarget::Restore(_) => "POST",
        }
    }
}

/// Answers any request below `/group/v1/`.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    match answer(node, request).await {
        Ok(answer) => answer,
        Err(error) => {
            let mut answer = http::json(error.status(), &json!({ "message": error.message() }));
            answer.headers_mut().extend(error.retry_after().map(|after| (hyper::header::RETRY_AFTER, after)));
            answer
        }
    }
}

async fn answer(node: Arc<GatewayState>, request: Request) -> Result<Response, Error> {
    let caller = caller_of(&request)?;
    let most = node.settings().limits.parameters_max;
    let parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), most)?;
    let path = request.uri().path().to_owned();
    let target = GroupTarget::parse(&path).ok_or_else(|| {
        Error::NotFound(format!(
            "nothing is at {path}; groups are at /group/v1/ and /group/v1/NAME, their documents at \
             /group/v1/NAME/export and /group/v1/NAME/restore"
        ))
    })?;
    let method = request.method().clone();
    match (target, method.as_str()) {
        (GroupTarget::All, "GET") => list(&node, &caller, &parameters).await,
        (GroupTarget::One(name), "GET") => {
            let group = group_of(name, &parameters)?;
            let found = MeasuredGroup { store: measured(&node, &caller, &group).await? };
            match found.store.0.documents + found.store.0.bytes + found.store.1 {
                0 => Err(Error::NotFound(format!("there is nothing of the group '{}'", shown(&group)))),
                _ => Ok(http::json(StatusCode::OK, &found.value())),
            }
        }
        (GroupTarget::One(name), "DELETE") => {
            delete(&node, &caller, group_of(name, &parameters)?, &parameters).await
        }
        (GroupTarget::Export(name), "POST") => {
            export::answer(node, Arc::new(caller.within(group_of(name, &parameters)?)?)).await
        }
        (GroupTarget::Restore(name), "POST") => {
            let own = Arc::new(caller.within(group_of(name, &parameters)?)?);
            restore(node, own, request).await
        }
        (target, _) => Err(Error::MethodNotAllowed { method: method.to_string(), allowed: target.methods() }),
    }
}

/// Group of a path: its name, or its number with `kind=number`.
fn group_of(name: &str, parameters: &RequestParameters) -> Result<DocumentGroup, Error> {
    let name = percent_decode(name);
    // Invalid UTF-8 would become another name.
    if name.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
        return Err(Error::BadRequest(
            "the name of the group has a control character, or is not UTF-8".to_owned(),
        ));
    }
    match parameters.get("kind") {
        None | Some("name") => Ok(DocumentGroup::Name(name.into_owned())),
        Some("number") => name.parse().map(DocumentGroup::Number).map_err(|_| {
            Error::BadRequest(format!("'{name}' is not a number of up to 64 bits, as kind=number says"))
        }),
        Some(other) => Err(Error::parameter("kind", format!("expected name or number, got '{other}'"))),
    }
}

/// Name or number of a group, as its path has it.
fn shown(group: &DocumentGroup) -> String {
    group.key().chars().skip(1).collect()
}

/// Size of a group, and the number of files that still have anything of it.
struct MeasuredGroup {
    store: (StoredGroup, u64),
}

impl MeasuredGroup {
    fn value(&self) -> Value {
        let (stored, files) = &self.store;
        let mut value = value_of(stored);
        value.insert("files".to_owned(), json!(files));
        Value::Object(value)
    }
}

fn value_of(stored: &StoredGroup) -> Map<String, Value> {
    let mut value = Map::new();
    match &stored.group {
        DocumentGroup::Number(number) => value.insert("number".to_owned(), json!(number)),
        group => value.insert("name".to_owned(), json!(shown(group))),
    };
    value.insert("documents".to_owned(), json!(stored.documents));
    value.insert("bytes".to_owned(), json!(stored.bytes));
    let newest = (stored.documents > 0).then_some(stored.last_write.0);
    value.insert("lastWrite".to_owned(), json!(newest));
    value
}

/// Refuses a request that one node of a cluster cannot answer.
fn check_alone(node: &GatewayState, cure: &str) -> Result<(), Error> {
    match node.cluster() {
        None => Ok(()),
        Some(_) => Err(Error::BadRequest(format!("a node of a cluster does not have all groups: {cure}"))),
    }
}

fn document_types(node: &GatewayState) -> Result<Vec<Arc<str>>, Error> {
    let deployment = node.deployments().current()?;
    Ok(deployment.kinds().map(|kind| Arc::clone(kind.schema.document_type.name())).collect())
}

/// `GET` of the groups: of all, page by page, or those of the caller.
async fn list(
    node: &GatewayState,
    caller: &RequestCaller,
    parameters: &RequestParameters,
) -> Result<Response, Error> {
    check_alone(node, "count the documents of one with a query and limit 0")?;
    let wanted = parameters.number("count", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
    let after = parameters.get("continuation").map(|text| {
        let group = DocumentGroup::from_key(text).filter(|group| *group != DocumentGroup::None);
        group.ok_or_else(|| Error::parameter("continuation", "is not one of this list".to_owned()))
    });
    let (after, types) = (after.transpose()?, document_types(node)?);
    let of_caller = match &caller.groups {
        CallerGroups::All => None,
        CallerGroups::Only(groups) => Some(Arc::clone(groups)),
    };
    let page = match of_caller {
        None => {
            let permit = caller.permit(WantedGroups::All)?;
            let store = node.store(&permit, WantedGroups::All).clone();
            let page = move || store.groups(&names(&types), after.as_ref(), wanted);
            node.pool().run(page).await??
        }
        Some(groups) => {
            let permit = caller.permit(WantedGroups::These(&groups))?;
            let store = node.store(&permit, WantedGroups::These(&groups)).clone();
            let sizes = move || {
                let size = |group| store.group(&names(&types), group);
                groups.iter().map(size).collect::<Result<Vec<_>, _>>()
            };
            StoredGroupPage { groups: node.pool().run(sizes).await??, continuation: None }
        }
    };
    let mut answer = Map::new();
    let groups: Vec<Value> = page.groups.iter().map(|group| Value::Object(value_of(group))).collect();
    answer.insert("groups".to_owned(), Value::Array(groups));
    if let Some(group) = page.continuation {
        answer.insert("continuation".to_owned(), Value::String(group.key()));
    }
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}

fn names(document_types: &[Arc<str>]) -> Vec<&str> {
    document_types.iter().map(|name| &**name).collect()
}

/// Returns the size of a group, and the number of files that have anything of it.
async fn measured(
    node: &GatewayState,
    caller: &RequestCaller,
    group: &DocumentGroup,
) -> Result<(StoredGroup, u64), Error> {
    check_alone(node, "count its documents with a query and limit 0")?;
    let own = WantedGroups::These(std::slice::from_ref(group));
    let (store, types) = (node.store(&caller.permit(own)?, own).clone(), document_types(node)?);
    let group = group.clone();
    let measure = move || {
        let size = store.group(&names(&types), &group)?;
        Ok::<_, millrace_store::Error>((size, store.files_with_group(&group)?))
    };
    Ok(node.pool().run(measure).await??)
}

/// `DELETE` of a group: all of its documents of all types and namespaces. With `erase=true`, the answer comes
/// after a merge that leaves them out.
async fn delete(
    node: &GatewayState,
    caller: &RequestCaller,
    group: DocumentGroup,
    parameters: &RequestParameters,
) -> Result<Response, Error> {
    check_alone(
        node,
        "remove the documents of each type, with DELETE of /document/v1/NAMESPACE/TYPE/group/NAME/ and selection=true",
    )?;
    let erases = parameters.flag("erase")?.unwrap_or(false);
    let place = match erases {
        true => {
            caller.check_right(&[AccessRight::Admin])?;
            Some(ERASURE.try_acquire().map_err(|_| Error::Overloaded)?)
        }
        false => None,
    };
    let (before, _) = measured(node, caller, &group).await?;
    let own = WantedGroups::These(std::slice::from_ref(&group));
    let store = node.store(&caller.permit(own)?, own).clone();
    let (dropping, dropped) = (store.clone(), group.clone());
    node.pool().run(move || dropping.drop_group(None, &dropped)).await??;
    if erases {
        // It can take long, and others need the threads of the pool.
        let erased = tokio::task::spawn_blocking(move || store.seal().and_then(|()| store.maintain()));
        erased.await.map_err(|error| Error::Internal(error.to_string()))??;
    }
    drop(place);
    let (after, files) = measured(node, caller, &group).await?;
    let mut answer = value_of(&StoredGroup { bytes: after.bytes, ..before });
    answer.remove("lastWrite");
    answer.insert("files".to_owned(), json!(files));
    answer.insert("erased".to_owned(), json!(after.bytes == 0 && files == 0));
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}

/// `POST` of documents into a group, as a feed. An operation on another group fails.
async fn restore(
    node: Arc<GatewayState>,
    caller: Arc<RequestCaller>,
    mut request: Request,
) -> Result<Response, Error> {
    *request.uri_mut() = Uri::from_static("/feed/v1");
    *request.method_mut() = Method::POST;
    request.extensions_mut().insert(caller);
    Ok(feed::handle(State(node), request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_groups() {
        for (path, expected) in [
            ("/group/v1", Some(GroupTarget::All)),
            ("/group/v1/", Some(GroupTarget::All)),
            ("/group/v1/ann", Some(GroupTarget::One("ann"))),
            ("/group/v1/ann/", Some(GroupTarget::One("ann"))),
            ("/group/v1/export", Some(GroupTarget::One("export"))),
            ("/group/v1/a%2Fexport", Some(GroupTarget::One("a%2Fexport"))),
            ("/group/v1/ann/export", Some(GroupTarget::Export("ann"))),
            ("/group/v1/ann/restore", Some(GroupTarget::Restore("ann"))),
            ("/group/v1/ann/export/", None),
            ("/group/v1/ann/dance", None),
            ("/group/v1//export", None),
        ] {
            assert_eq!(GroupTarget::parse(path), expected, "{path}");
        }
    }
}
