//! API keys of a cluster, at `/access/v1/key`: they are kept in coordination, and all nodes accept them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use hyper::StatusCode;
use millrace_access::{AccessFile, KeyRecord, RequestCaller, WantedGroups};
use millrace_cluster::STORED_LIMITS;
use millrace_node::Error;
use millrace_node::cluster::ClusterMember;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::render;
use crate::edge::{SHARED_KEYS, caller_of};
use crate::http::{RequestParameters, decode_path};
use crate::{GatewayState, http};

/// First part of the paths.
const PATH: &str = "/access/v1/key";

/// Time limit of a change, while others change the keys, unless the request has one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time limit of a change.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Pause until this node is asked again for a newer change: at least this, and at most twice as long.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn handle(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    route(&node, request).await.unwrap_or_else(|error| render(&error))
}

async fn route(node: &Arc<GatewayState>, request: Request) -> Result<Response, Error> {
    let caller = caller_of(&request)?;
    caller.permit(WantedGroups::All)?;
    let path = request.uri().path().to_owned();
    let id = decode_path(path.strip_prefix(PATH).unwrap_or_default().trim_matches('/'))?;
    let id = id.as_ref();
    let method = request.method().as_str().to_owned();
    let parameters_max = node.settings().limits.parameters_max;
    let parameters = RequestParameters::parse(request.uri().query().unwrap_or(""), parameters_max)?;
    let timeout = parameters.duration("timeout")?.unwrap_or(TIMEOUT).min(TIMEOUT_MAX);
    let deadline = Instant::now() + timeout;
    let member = member_of(node)?;
    match (id, method.as_str()) {
        ("", "GET") => {
            let keys: Vec<Value> = shared_file(&*member)?.0.keys.iter().map(key_json).collect();
            Ok(http::json(StatusCode::OK, &json!({ "keys": keys })))
        }
        ("", "POST") => {
            let (parts, body) = request.into_parts();
            let body = http::read_body(node, &parts.headers, body, node.query_bounds()).await?;
            let record: KeyRecord = serde_json::from_slice(&body).map_err(|error| {
                Error::BadRequest(format!("the body is not the record of a key: {error}"))
            })?;
            check_rights(&caller, &record)?;
            check_known(node, &record)?;
            let answer = json!({ "id": record.id, "name": record.name });
            change(&*member, deadline, |file| {
                file.add(record.clone()).map_err(|error| Error::BadRequest(error.to_string()))
            })
            .await?;
            Ok(http::json(StatusCode::OK, &answer))
        }
        ("", _) => Err(Error::MethodNotAllowed { method, allowed: "GET, POST" }),
        (id, "DELETE") => {
            let is_known = node.credentials().has_key(id);
            change(&*member, deadline, |file| match file.revoke(id) || is_known {
                true => Ok(()),
                false => Err(Error::NotFound(format!("the cluster has no key '{id}'; list its keys"))),
            })
            .await?;
            Ok(http::json(StatusCode::OK, &json!({ "revoked": id })))
        }
        (_, _) => Err(Error::MethodNotAllowed { method, allowed: "DELETE" }),
    }
}

/// Membership of a node whose cluster can share keys.
fn member_of(node: &GatewayState) -> Result<Arc<dyn ClusterMember>, Error> {
    let Some(member) = node.cluster().member() else {
        return Err(Error::BadRequest(
            "this node runs alone: its keys are in access.toml; use millrace token without --cluster"
                .to_owned(),
        ));
    };
    match node.settings().trust {
        Some(_) => Ok(Arc::clone(member)),
        None => Err(Error::BadRequest(
            "the nodes of this cluster have no certificates for each other, so that they would refuse each other once there are \
             keys; start them with --peer-tls-authority, --peer-tls-certificate and --peer-tls-key"
                .to_owned(),
        )),
    }
}

/// Checks that the caller has each right that a key gets: otherwise it could give itself more.
fn check_rights(caller: &RequestCaller, record: &KeyRecord) -> Result<(), Error> {
    for right in &record.rights {
        caller.check_right(&[*right])?;
    }
    Ok(())
}

/// Checks that all nodes can read a key. One that cannot would take up no later change of the keys either,
/// and so accept keys that are revoked.
fn check_known(node: &GatewayState, record: &KeyRecord) -> Result<(), Error> {
    let has_stored_limit = record.limits.documents.is_some() || record.limits.bytes.is_some();
    match has_stored_limit && !node.speaks(STORED_LIMITS) {
        true => Err(Error::BadRequest(
            "the key has a limit of documents or bytes of a group, which nodes of earlier versions do not know: upgrade \
             all nodes and deploy an application, or create the key without --group-documents-max and \
             --group-bytes-max"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Keys of the cluster, as far as this node has received them, with the number of their last change.
fn shared_file(member: &dyn ClusterMember) -> Result<(AccessFile, Option<u64>), Error> {
    let Some(note) = member.notes().remove(SHARED_KEYS) else { return Ok((AccessFile::default(), None)) };
    let text = String::from_utf8_lossy(&note.value);
    Ok((AccessFile::parse(&text).map_err(unreadable)?, Some(note.changed)))
}

fn unreadable(error: millrace_access::Error) -> Error {
    Error::Internal(format!("the keys of the cluster: {error}"))
}

/// Changes the keys of the cluster. If another node has changed them first, the change is made to theirs,
/// as soon as this node has received them.
///
/// # Errors
/// [`Error::Unsettled`]: coordination cannot be reached, and the keys may have been changed nevertheless; or
/// others change them until the deadline.
async fn change(
    member: &dyn ClusterMember,
    deadline: Instant,
    change: impl Fn(&mut AccessFile) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let (mut file, changed) = shared_file(member)?;
        change(&mut file)?;
        let notes = vec![(SHARED_KEYS.to_owned(), Some(file.text().map_err(unreadable)?.into_bytes()))];
        let (sender, answer) = oneshot::channel();
        // The receiver waits for the answer.
        member.note(SHARED_KEYS, changed, notes, Box::new(move |written| drop(sender.send(written))));
        let left = |_| Error::Unsettled("this node is not part of the cluster any more".to_owned());
        if answer.await.map_err(left)?? {
            return Ok(());
        }
        while shared_file(member)?.1 == changed {
            if Instant::now() >= deadline {
                return Err(Error::Unsettled(
                    "others change the keys at the same time; try again".to_owned(),
                ));
            }
            tokio::time::sleep(pause()).await;
        }
        // Others that have lost to the same change do not try at the same time again.
        tokio::time::sleep(pause()).await;
    }
}

/// A pause of random length.
fn pause() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    PAUSE + PAUSE.mul_f64(random as f64 / u64::MAX as f64)
}

/// A key without its hash.
fn key_json(key: &KeyRecord) -> Value {
    json!({
        "id": key.id, "name": key.name, "rights": key.rights, "groups": key.groups, "users": key.users,
        "expires": key.expires, "limits": key.limits,
    })
}
