//! `/group/v1/`: groups, their sizes, their export, restoration and deletion.
//!
//! Exports and restorations are requests to `/document/v1/` and `/feed/v1`, whose caller is restricted to the
//! group: the same code checks and limits them.

mod erasure;
mod export;
mod removal;
mod snapshot;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use millrace_access::{CallerGroups, RequestCaller, WantedGroups};
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_node::cluster::{self, WantedSizes};
use millrace_store::{StoredGroup, StoredGroupPage};
use serde_json::{Map, Value, json};

use crate::GatewayState;
use crate::document_api::feed;
use crate::edge::{StreamCredential, caller_of};
use crate::http::{self, RequestParameters, decode_path, form_encode};
use crate::status::HttpError;

/// Number of groups in a page, unless the request says otherwise; and the maximum.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1000;

/// Type of operations in lines.
const LINES: &str = "application/jsonl";

/// Default time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

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

/// A request for groups.
struct GroupCall {
    node: Arc<GatewayState>,
    caller: Arc<RequestCaller>,
    parameters: RequestParameters,
    /// Headers by which other nodes know the caller.
    headers: HeaderMap,
    /// All headers of the request.
    request_headers: HeaderMap,
    /// Credential of the request, for the requests that are made for it.
    credential: Option<StreamCredential>,
    deadline: Instant,
}

/// Sizes of groups.
struct MeasuredGroups {
    page: StoredGroupPage,
    /// False if some documents may be only on nodes that do not serve.
    is_complete: bool,
}

/// Size of one group.
struct MeasuredGroup {
    size: StoredGroup,
    is_complete: bool,
    /// Number of files that still have anything of it; not known in a cluster.
    files: Option<u64>,
}

impl MeasuredGroup {
    fn files(&self) -> u64 {
        self.files.unwrap_or(0)
    }
}

impl GroupCall {
    /// Returns the sizes of groups on this node, or in its cluster.
    async fn measured(&self, wanted: WantedSizes) -> Result<MeasuredGroups, Error> {
        // The counted documents are those that the caller may see.
        match &wanted {
            WantedSizes::Page { .. } => self.caller.permit(WantedGroups::All)?,
            WantedSizes::These(groups) => self.caller.permit(WantedGroups::These(groups))?,
        };
        let node = self.node.node();
        let Some(cluster) = self.node.cluster().view()? else {
            let page = cluster::group_sizes_alone(node, wanted).await?;
            return Ok(MeasuredGroups { page, is_complete: true });
        };
        let sizes = cluster::group_sizes(node, cluster, wanted, self.deadline).await?;
        Ok(MeasuredGroups { page: sizes.page, is_complete: sizes.is_complete })
    }

    /// Returns the size of a group, and on a single node the number of files that have anything of it.
    async fn one(&self, group: &DocumentGroup) -> Result<MeasuredGroup, Error> {
        let MeasuredGroups { page, is_complete } =
            self.measured(WantedSizes::These(vec![group.clone()])).await?;
        let nothing = || Error::Internal("the size of a group is missing".to_owned());
        let size = page.groups.into_iter().next().ok_or_else(nothing)?;
        let files = match self.node.cluster().is_alone() {
            false => None,
            true => {
                let own = WantedGroups::These(std::slice::from_ref(group));
                let store = self.node.store(&self.caller.permit(own)?, own).clone();
                let group = group.clone();
                Some(self.node.pool().run(move || store.files_with_group(&group)).await??)
            }
        };
        Ok(MeasuredGroup { size, is_complete, files })
    }

    /// Answer with sizes, which says if documents are missing.
    fn sized(&self, mut value: Map<String, Value>, is_complete: bool) -> Response {
        if !is_complete {
            value.insert("complete".to_owned(), Value::Bool(false));
        }
        http::json(StatusCode::OK, &Value::Object(value))
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

async fn answer(node: Arc<GatewayState>, mut request: Request) -> Result<Response, Error> {
    let caller = caller_of(&request)?;
    let parameters_max = node.settings().limits.parameters_max;
    let parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), parameters_max)?;
    let path = request.uri().path().to_owned();
    let target = GroupTarget::parse(&path).ok_or_else(|| {
        Error::NotFound(format!(
            "nothing is at {path}; groups are at /group/v1/ and /group/v1/NAME, their documents at \
             /group/v1/NAME/export and /group/v1/NAME/restore"
        ))
    })?;
    let timeout = parameters.duration("timeout")?.unwrap_or(TIMEOUT);
    let deadline = Instant::now() + timeout.min(node.settings().limits.document_timeout_max);
    let mut headers = HeaderMap::new();
    headers.extend(request.headers().get(AUTHORIZATION).map(|value| (AUTHORIZATION, value.clone())));
    let method = request.method().clone();
    let request_headers = request.headers().clone();
    let credential = StreamCredential::from_request(&node, &request);
    let call = GroupCall { node, caller, parameters, headers, request_headers, credential, deadline };
    match (target, method.as_str()) {
        (GroupTarget::All, "GET") => list(&call).await,
        (GroupTarget::One(name), "GET") => show(&call, &group_of(name, &call.parameters)?).await,
        (GroupTarget::One(name), "DELETE") => delete(&call, group_of(name, &call.parameters)?).await,
        (GroupTarget::Export(name), "POST") => {
            let group = group_of(name, &call.parameters)?;
            match snapshot::is_requested(&call) {
                true => snapshot::export(&call, group).await,
                false => export::answer(call, &group).await,
            }
        }
        (GroupTarget::Restore(name), "POST") => {
            let group = group_of(name, &call.parameters)?;
            let own = Arc::new(call.caller.within(group.clone())?);
            if snapshot::is_requested(&call) {
                *request.body_mut() = snapshot::operations(&call, group).await?;
                let headers = request.headers_mut();
                headers.remove(CONTENT_ENCODING);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
            }
            restore(call.node, own, request).await
        }
        (target, _) => Err(Error::MethodNotAllowed { method: method.to_string(), allowed: target.methods() }),
    }
}

/// Group of a path: its name, or its number with `kind=number`.
fn group_of(name: &str, parameters: &RequestParameters) -> Result<DocumentGroup, Error> {
    let name = decode_path(name)?;
    if name.chars().any(char::is_control) {
        return Err(Error::BadRequest("the name of the group has a control character".to_owned()));
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
fn group_name(group: &DocumentGroup) -> String {
    group.key().chars().skip(1).collect()
}

fn value_of(stored: &StoredGroup) -> Map<String, Value> {
    let mut value = Map::new();
    match &stored.group {
        DocumentGroup::Number(number) => value.insert("number".to_owned(), json!(number)),
        group => value.insert("name".to_owned(), json!(group_name(group))),
    };
    value.insert("documents".to_owned(), json!(stored.documents));
    value.insert("bytes".to_owned(), json!(stored.bytes));
    let newest = (stored.documents > 0).then_some(stored.last_write.0);
    value.insert("lastWrite".to_owned(), json!(newest));
    value
}

/// `GET` of the groups: of all, page by page, or those of the caller.
async fn list(call: &GroupCall) -> Result<Response, Error> {
    if call.parameters.flag("erasures")?.unwrap_or(false) {
        return erasure::list(call).await;
    }
    let count = call.parameters.number("count", 1, PAGE_MAX)?.unwrap_or(PAGE) as usize;
    let after = call.parameters.get("continuation").map(|text| {
        let group = DocumentGroup::from_key(text).filter(|group| *group != DocumentGroup::None);
        group.ok_or_else(|| Error::parameter("continuation", "is not one of this list".to_owned()))
    });
    let after = after.transpose()?;
    let wanted = match &call.caller.groups {
        CallerGroups::All => WantedSizes::Page { after, count },
        CallerGroups::Only(groups) => WantedSizes::These(groups.to_vec()),
    };
    let MeasuredGroups { page, is_complete } = call.measured(wanted).await?;
    let mut answer = Map::new();
    let groups: Vec<Value> = page.groups.iter().map(|group| Value::Object(value_of(group))).collect();
    answer.insert("groups".to_owned(), Value::Array(groups));
    if let Some(group) = page.continuation {
        answer.insert("continuation".to_owned(), Value::String(group.key()));
    }
    Ok(call.sized(answer, is_complete))
}

/// `GET` of one group.
async fn show(call: &GroupCall, group: &DocumentGroup) -> Result<Response, Error> {
    let measured = call.one(group).await?;
    let erasure = erasure::of_group(call, group).await?.map(|erasure| ("erasure".to_owned(), erasure));
    if measured.is_complete && measured.size.documents + measured.size.bytes + measured.files() == 0 {
        let missing = Error::NotFound(format!(
            "there is nothing of the group '{}' ({group}); GET /group/v1/ (millrace groups) lists the groups",
            group_name(group)
        ));
        let Some(erasure) = erasure else { return Err(missing) };
        let answer = Map::from_iter([("message".to_owned(), json!(missing.message())), erasure]);
        return Ok(http::json(missing.status(), &Value::Object(answer)));
    }
    let mut value = value_of(&measured.size);
    value.extend(measured.files.map(|files| ("files".to_owned(), json!(files))));
    value.extend(erasure);
    Ok(call.sized(value, measured.is_complete))
}

/// `DELETE` of a group: all of its documents of all types and namespaces. Their bytes leave the disk within a
/// bound; if that is zero, the answer waits for it.
async fn delete(call: &GroupCall, group: DocumentGroup) -> Result<Response, Error> {
    let within = erasure::requested(call)?;
    if !call.node.cluster().is_alone() {
        return removal::answer(call, group, within).await;
    }
    let before = call.one(&group).await?.size;
    let own = WantedGroups::These(std::slice::from_ref(&group));
    let store = call.node.store(&call.caller.permit(own)?, own).clone();
    let dropped = group.clone();
    call.node.pool().run(move || store.drop_group(None, &dropped)).await??;
    if let Some(within) = within {
        erasure::lower_erasure_bound(call, &group, within).await?;
    }
    let erasure = erasure::of_group(call, &group).await?;
    let after = call.one(&group).await?;
    let mut answer = value_of(&StoredGroup { bytes: after.size.bytes, ..before });
    answer.remove("lastWrite");
    answer.insert("files".to_owned(), json!(after.files()));
    answer.insert("erased".to_owned(), json!(erasure.as_ref().is_some_and(erasure::is_finished)));
    answer.extend(erasure.map(|erasure| ("erasure".to_owned(), erasure)));
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}

/// `POST` of documents into a group, as a feed. An operation on another group fails.
async fn restore(
    node: Arc<GatewayState>,
    caller: Arc<RequestCaller>,
    mut request: Request,
) -> Result<Response, Error> {
    // Only what says what the rows of a table are: a feed has parameters that a restoration has not.
    let parameters_max = node.settings().limits.parameters_max;
    let parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), parameters_max)?;
    let table = feed::TABLE_PARAMETERS.into_iter().filter_map(|name| Some((name, parameters.get(name)?)));
    let uri: Result<Uri, _> = format!("/feed/v1?{}", form_encode(table)).parse();
    *request.uri_mut() = uri.map_err(|error| Error::Internal(error.to_string()))?;
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
