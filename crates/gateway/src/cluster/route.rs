//! Which node answers a request for one location.

use std::time::{Duration, Instant};

use axum::response::Response;
use millrace_document::Location;

use super::{Cluster, Forwarded, Hop, Place, is_unsettled};
use crate::{Error, Node};

/// What a request does to what is at its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// To change documents that have to be found first.
    Sweep,
}

/// Where a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    /// At this node.
    Here,
    /// At the first of these nodes that can be reached, which are told this.
    There(Vec<String>, Hop),
}

/// How long a request waits for the cluster to agree on who answers it, between two looks.
const PATIENCE: Duration = Duration::from_millis(20);

/// Finds the node for a request that has come so far.
fn route(cluster: &dyn Cluster, location: Location, access: Access, hop: &Hop) -> Result<Route, Error> {
    let owner = match hop {
        // Whoever handed it on has decided.
        Hop::Reader | Hop::Owned(_) | Hop::Buckets(_) => return Ok(Route::Here),
        Hop::Client | Hop::Owner => cluster.owner(location).map_err(Error::Unsettled)?,
    };
    match (owner, hop) {
        (Place::At(address), Hop::Client) => Ok(Route::There(vec![address], Hop::Owner)),
        (Place::At(_), _) => {
            Err(Error::Unsettled("the nodes do not agree yet who owns the documents".to_owned()))
        }
        (Place::Here, _) if access == Access::Write => Ok(Route::Here),
        (Place::Here, _) => {
            let readers = cluster.readers(location).map_err(Error::Unsettled)?;
            if readers.contains(&Place::Here) {
                return Ok(Route::Here);
            }
            if access == Access::Sweep {
                let reason = "the documents are on their way to the node that orders their changes";
                return Err(Error::Unsettled(reason.to_owned()));
            }
            let addresses = readers.into_iter().filter_map(|place| match place {
                Place::At(address) => Some(address),
                Place::Here => None,
            });
            Ok(Route::There(addresses.collect(), Hop::Reader))
        }
    }
}

/// Hands a request on until a node answers it, at most until `deadline`; `None` where this node is the one that answers it.
///
/// Where the nodes do not agree, or one cannot be reached, the way is looked for again: the cluster is about to agree on another. A
/// write that may have arrived is not sent again.
///
/// # Errors
/// No node could answer in time.
pub(crate) async fn hand_on(
    node: &Node,
    location: Location,
    access: Access,
    hop: &Hop,
    request: &Forwarded,
    deadline: Instant,
) -> Result<Option<Response>, Error> {
    let Some(cluster) = node.cluster() else { return Ok(None) };
    loop {
        let error = match route(&**cluster, location, access, hop) {
            Ok(Route::Here) => return Ok(None),
            Ok(Route::There(addresses, next)) => {
                match to_first(node, &addresses, &next, request).await {
                    // Only who was asked by the client looks again: the others' answers come back to it.
                    Ok(response) if *hop == Hop::Client && is_unsettled(response.headers()) => {
                        Error::Unsettled("the node that owns the documents is not ready yet".to_owned())
                    }
                    Ok(response) => return Ok(Some(response)),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let may_have_arrived = matches!(error, Error::Unreachable { sent: true, .. });
        let again = *hop == Hop::Client
            && !(may_have_arrived && access != Access::Read)
            && Instant::now() + PATIENCE < deadline;
        if !again {
            return Err(error);
        }
        tokio::time::sleep(PATIENCE).await;
    }
}

async fn to_first(
    node: &Node,
    addresses: &[String],
    hop: &Hop,
    request: &Forwarded,
) -> Result<Response, Error> {
    let mut last = Error::Unsettled("no node has all of the documents now".to_owned());
    for address in addresses {
        match node.forwarder().send(address, request.clone(), hop).await {
            Ok(response) => return Ok(response),
            Err(error) => last = error,
        }
    }
    Err(last)
}
