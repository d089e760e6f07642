//! Search over the documents of a node or of a cluster: from the parameters of a query to its outcome.
//!
//! `rewrite` makes the query, `federation` decides whether its sources are searched in one pass or separately
//! (`separate`).
//! `routed` lets the node answer that has the documents, and repeats a query whose reads do not count. `run`
//! plans and runs it over the documents of this node, and `spread` over those of several nodes, each of which
//! gives its `share`.

mod federation;
mod observer;
mod rewrite;
mod routed;
mod run;
mod separate;
mod share;
mod sources;
mod spread;
mod targets;
mod unscoped;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use millrace_document::{DocumentGroup, Location};
use millrace_model::SequencePurpose;
use millrace_query::Query;
use millrace_store::ViewScope;

pub use self::federation::{FederatedQuery, federated_query};
pub use self::observer::QueryObserver;
pub use self::rewrite::{RewrittenQuery, query as rewritten_query};
pub use self::routed::{QueryAnswer, RoutedQuery};
use self::run::QueryRequest;
pub use self::run::{
    PlanTrace, SearchNotices, SearchOutcome, fill_in_group, flow, imply_group, permit, scope, wanted_groups,
};
pub use self::separate::{SourceQueries, SourceSearchOutcome};
pub use self::share::{StartedShare, start as start_share};
pub use self::sources::{LackingSchema, SchemaPart, by_chain, is_chain};
pub use self::spread::with_timeout;
pub use self::unscoped::naming_index;
use crate::models::QueryEmbeddings;
use crate::{CompiledApplication, Error, Node};

/// Time after its timeout until a query is abandoned: its partial result needs time to be written.
const GRACE: Duration = Duration::from_millis(500);

/// Documents that a query covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchExtent {
    /// Those of this node.
    Node,
    /// Those of all nodes of its cluster, whose results this node gathers.
    Cluster,
}

/// Runs a query over documents of this extent, and passes its outcome to `finish`, on the pool.
///
/// # Errors
/// The query is not valid for the application, or it cannot be answered now.
async fn answer<T: Send + 'static>(
    request: &QueryRequest,
    extent: SearchExtent,
    finish: impl FnOnce(SearchOutcome) -> T + Send + 'static,
) -> Result<T, Error> {
    if extent == SearchExtent::Cluster
        && let Some(cluster) = request.node.cluster().view()?
    {
        return spread::run(request, cluster, finish).await;
    }
    let working = request.clone();
    let work = move || run::run(working).map(finish);
    request.node.pool().run_in(request.flow()?, work).await?
}

/// Location in the bucket that has all documents of a query, and the group, if the query reads one group of
/// the cluster, and the group lies in one bucket.
///
/// # Errors
/// Those of [`scope`].
fn one_location(node: &Node, query: &Query) -> Result<Option<(Location, DocumentGroup)>, Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(None) };
    let ViewScope::Groups(groups) = scope(query)? else { return Ok(None) };
    let [group] = &groups[..] else { return Ok(None) };
    let buckets = match cluster.owners(Some(&groups)) {
        Ok(owners) => owners.nodes.iter().filter_map(|(_, buckets)| buckets.as_ref()).map(Vec::len).sum(),
        // Not known now; it is looked up again when it is known.
        Err(_) => 1,
    };
    let location = group.location_bits().filter(|_| buckets == 1);
    Ok(location.map(|bits| (Location::new(u64::from(bits)), group.clone())))
}

/// Embeds the texts of the query that become tensors, on a thread that may block.
async fn embed(
    node: &Arc<Node>,
    deployment: &Arc<CompiledApplication>,
    query: &Query,
    deadline: Instant,
    gone: &Arc<AtomicBool>,
) -> Result<QueryEmbeddings, Error> {
    let wanted = run::embeddings(deployment, query)?;
    if wanted.is_empty() {
        return Ok(QueryEmbeddings::default());
    }
    let (deployment, gone) = (Arc::clone(deployment), Arc::clone(gone));
    let make = move || QueryEmbeddings::make(&wanted, deployment.components(), deadline, gone);
    node.models().wait(SequencePurpose::Query, make).await?
}
