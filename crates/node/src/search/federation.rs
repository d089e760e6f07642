//! Search of several sources: all in one search, or each by itself.
//!
//! One search is the common case: over several schemas and clusters, whose hits and groups are exactly those
//! of all. Sources are searched separately if they cannot be one search. That is so if one has parameters of
//! its own (`source.NAME.hits`), if two lead to the same content cluster, if one has other waiting rules than
//! the others, or if the chain separates their results.
//!
//! A source's query is derived from the query of the request: with sources, a page and a time limit of its
//! own, and parsed again only if the request has parameters for this source alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_query::{FederatedPart, Query, QueryLimits, value_of};
use millrace_schema::FederationOptions;

use super::rewrite::{self, RewrittenQuery};
use super::separate::{SeparateSources, SourceQueries};
use super::targets::{self, QueryTarget, QueryTargets};
use crate::error::ErrorKind;
use crate::pool::BodySizeClass;
use crate::{CompiledApplication, Error, Node};

/// A query whose search is decided.
pub struct FederatedQuery {
    /// The query, over all sources.
    pub query: Query,
    /// Trace of the rules that have rewritten it.
    pub rule_trace: Arc<[String]>,
    /// Sources with their queries, if they are searched separately.
    pub separate: Option<SourceQueries>,
}

/// Decides whether the sources of a query are searched together, and makes their queries otherwise.
///
/// # Errors
/// None of the sources exists, or one has invalid parameters.
pub async fn federated_query(
    node: &Node,
    deployment: &Arc<CompiledApplication>,
    rewritten: RewrittenQuery,
    limits: &QueryLimits,
) -> Result<FederatedQuery, Error> {
    let mode = FederationMode::choose(deployment, &rewritten.query)?;
    let (RewrittenQuery { query, rule_trace, .. }, separate) = match mode {
        FederationMode::Together => (rewritten, None),
        FederationMode::TogetherAs(part) => {
            (part.query(node, deployment, rewritten.parsed(), limits).await?, None)
        }
        FederationMode::Separate(sources) => {
            let queries = sources.into_queries(node, deployment, &rewritten, limits).await?;
            (rewritten, Some(queries))
        }
    };
    Ok(FederatedQuery { query, rule_trace, separate })
}

/// Kind of search of a query.
enum FederationMode {
    /// All sources in one search, by the request as it came.
    Together,
    /// All in one search, by this query: the sources are those of the chain, or there is only one.
    TogetherAs(SourceQuery),
    /// Each source by itself.
    Separate(SeparateSources),
}

/// A query of one source, or of several that are searched together.
pub struct SourceQuery {
    /// Name in results.
    pub name: Arc<str>,
    /// True if it is not waited for longer than the others.
    pub is_optional: bool,
    part: FederatedPart,
    /// Parameters of this source alone.
    own: BTreeMap<String, String>,
    /// Maximum duration.
    limit: Duration,
}

impl FederationMode {
    /// Chooses the kind of search of a query.
    ///
    /// # Errors
    /// None of the sources exists, or one has invalid parameters.
    fn choose(deployment: &CompiledApplication, query: &Query) -> Result<Self, Error> {
        if query.federated.is_some() {
            // The query was derived from that of a request already.
            return Ok(FederationMode::Together);
        }
        targets::check_owners(deployment, query)?;
        let chain = value_of(&query.parameters, "searchChain").map(str::trim).filter(|name| !name.is_empty());
        let federation = deployment.application.federations.get(chain.unwrap_or(DEFAULT_CHAIN));
        let QueryTargets { targets, restrict, unresolved } = match federation {
            None => QueryTargets::of_all(deployment, query)?,
            Some(federation) => QueryTargets::of_chain(deployment, federation, query)?,
        };
        let blends = federation.is_none_or(|federation| federation.blends);
        let mut clusters = BTreeSet::new();
        let distinct = targets.iter().filter_map(QueryTarget::cluster).all(|id| clusters.insert(id));
        let alike = distinct && targets.iter().all(QueryTarget::is_plain);
        if federation.is_none() && alike {
            return Ok(FederationMode::Together);
        }
        let whole = FederatedPart {
            sources: targets.iter().map(QueryTarget::full_name).collect(),
            all: targets.iter().map(QueryTarget::full_name).collect(),
            restrict,
            hits: query.hits,
            offset: query.offset,
            timeout: query.timeout,
        };
        Ok(match &targets[..] {
            [only] if blends && unresolved.is_none() => {
                FederationMode::TogetherAs(SourceQuery::for_source(only, &whole))
            }
            _ if blends && alike && unresolved.is_none() => {
                FederationMode::TogetherAs(SourceQuery::of_all(whole))
            }
            _ => {
                let mut window = whole;
                if blends && targets.len() > 1 {
                    // All hits of the page may be one source's.
                    window.hits = query.offset.saturating_add(query.hits);
                    window.offset = 0;
                }
                let parts = targets.iter().map(|target| SourceQuery::for_source(target, &window)).collect();
                FederationMode::Separate(SeparateSources::new(parts, blends, unresolved))
            }
        })
    }
}

/// Chain of queries that do not name one.
const DEFAULT_CHAIN: &str = "default";

impl SourceQuery {
    /// One query of all sources, none of which has parameters of its own.
    fn of_all(whole: FederatedPart) -> Self {
        let (name, limit) = (Arc::from(whole.sources.join(",")), whole.timeout);
        SourceQuery { name, is_optional: false, part: whole, own: BTreeMap::new(), limit }
    }

    /// The query of one source.
    fn for_source(target: &QueryTarget<'_>, whole: &FederatedPart) -> Self {
        let FederationOptions { timeout, optional } = target.options;
        SourceQuery {
            name: Arc::from(target.name),
            is_optional: optional.unwrap_or(false),
            part: FederatedPart { sources: vec![target.full_name()], ..whole.clone() },
            own: target.own.clone(),
            limit: timeout.map_or(whole.timeout, |timeout| timeout.min(whole.timeout)),
        }
    }

    /// Builds its query from that of the request before its rules, and applies the rules.
    ///
    /// # Errors
    /// Its own parameters are invalid.
    pub async fn query(
        &self,
        node: &Node,
        deployment: &Arc<CompiledApplication>,
        request: &Query,
        limits: &QueryLimits,
    ) -> Result<RewrittenQuery, Error> {
        let limits = QueryLimits { max_hits: limits.max_hits.max(self.part.hits), ..*limits };
        let made = match self.parsed(node, request, limits).await {
            Ok(query) => rewrite::by_rules(node, deployment, query, limits).await,
            Err(error) => Err(error),
        };
        let mut made = made.map_err(|error| match error.kind() {
            ErrorKind::BadRequest => Error::BadRequest(format!("source '{}': {error}", self.name)),
            _ => error,
        })?;
        made.query.timeout = made.query.timeout.min(self.limit);
        Ok(made)
    }

    async fn parsed(&self, node: &Node, request: &Query, limits: QueryLimits) -> Result<Query, Error> {
        if self.own.is_empty() {
            return Ok(request.part(&self.part));
        }
        let (request, part, own) = (request.clone(), self.part.clone(), self.own.clone());
        let size = request.parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
        let parse = move || request.part_with(&part, &own, &limits);
        Ok(node.pool().run_sized(BodySizeClass::of_query(size), parse).await??)
    }
}
