//! Search over the documents of a node or of a cluster: from the parameters of a query to its outcome.
//!
//! `rewrite` makes the query, `federation` decides whether its sources are searched in one pass or `apart`,
//! `run` plans and runs it over the documents of this node, and `spread` over those of several nodes, each of
//! which gives its `share`.

mod apart;
mod federation;
mod rewrite;
mod run;
mod share;
mod sources;
mod spread;
mod targets;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use millrace_model::SequencePurpose;
use millrace_query::Query;

pub use self::apart::{SourceFound, SourceQueries};
pub use self::federation::FederationMode;
pub use self::rewrite::{RewrittenQuery, query as rewritten_query};
pub use self::run::{
    PlanTrace, QueryRequest, SearchNotices, SearchOutcome, fill_in_group, flow, permit, run, scope,
    wanted_groups,
};
pub use self::share::{StartedShare, start as start_share};
pub use self::sources::{by_chain, is_chain};
pub use self::spread::{run as run_spread, with_timeout};
use crate::models::QueryEmbeddings;
use crate::{CompiledApplication, Error, Node};

/// Time after its timeout until a query is abandoned: its partial result needs time to be written.
pub const GRACE: Duration = Duration::from_millis(500);

/// Embeds the texts of the query that become tensors, on a thread that may block.
pub async fn embed(
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
