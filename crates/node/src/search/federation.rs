//! Search of several sources: all in one search, or each by itself.
//!
//! One search is the common case: over several schemas and clusters, whose hits and groups are exactly those
//! of all. Sources are searched separately if they cannot be one search: if one has parameters of its own
//! (`source.NAME.hits`), if two lead to the same content cluster, if one has other waiting rules than the
//! others, or if the chain separates their results.
//!
//! A source's query is made of parameters alone: those of the request, overridden by the source's own. So
//! other nodes derive the same query from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_query::{FEDERATED, Query, QueryLimits, is_same_parameter, value_of};
use millrace_schema::FederationOptions;

use super::apart::SeparateSources;
use super::rewrite::{self, RewrittenQuery};
use super::sources::SOURCES;
use super::targets::{QueryTarget, QueryTargets};
use crate::error::ErrorKind;
use crate::{CompiledApplication, Error, Node};

/// Kind of search of a query.
pub enum FederationMode {
    /// All sources in one search, by the request as it came.
    Together,
    /// All in one search, by these parameters: the sources are those of the chain, or there is only one.
    TogetherAs(SourceQuery),
    /// Each source by itself.
    Apart(SeparateSources),
}

/// A query of one source, or of several that are searched together.
pub struct SourceQuery {
    /// Name in results.
    pub name: Arc<str>,
    /// True if it is not waited for longer than the others.
    pub is_optional: bool,
    parameters: BTreeMap<String, String>,
    /// Maximum duration.
    limit: Duration,
    limits: QueryLimits,
}

impl FederationMode {
    /// Chooses the kind of search of a query.
    ///
    /// # Errors
    /// None of the sources exists, or one has invalid parameters.
    pub fn of(deployment: &CompiledApplication, query: &Query, limits: &QueryLimits) -> Result<Self, Error> {
        if query.parameters.contains_key(FEDERATED) {
            // The query was derived from this already.
            return Ok(FederationMode::Together);
        }
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
        let page = HitPage { hits: query.hits, offset: query.offset };
        let all = targets.iter().map(QueryTarget::full_name).collect::<Vec<_>>().join(",");
        let whole = FederatedRequest { query, limits, restrict, all: &all };
        Ok(match &targets[..] {
            [only] if blends && unresolved.is_none() => FederationMode::TogetherAs(whole.part(only, page)),
            _ if blends && alike && unresolved.is_none() => FederationMode::TogetherAs(whole.together(page)),
            _ => {
                // All hits of the page may be one source's.
                let best = HitPage { hits: query.offset.saturating_add(query.hits), offset: 0 };
                let window = if blends && targets.len() > 1 { best } else { page };
                let parts = targets.iter().map(|target| whole.part(target, window)).collect();
                FederationMode::Apart(SeparateSources::new(parts, blends, unresolved))
            }
        })
    }
}

/// Chain of queries that do not name one.
const DEFAULT_CHAIN: &str = "default";

/// Range of the wanted hits.
#[derive(Clone, Copy)]
struct HitPage {
    hits: usize,
    offset: usize,
}

/// Common input of the queries of all sources.
struct FederatedRequest<'a> {
    query: &'a Query,
    limits: &'a QueryLimits,
    /// Schemas to search, if the query named them as sources of a chain that has others.
    restrict: Option<String>,
    /// Names of the sources, separated by commas.
    all: &'a str,
}

impl FederatedRequest<'_> {
    /// One query of all sources, none of which has parameters of its own.
    fn together(&self, page: HitPage) -> SourceQuery {
        let parameters = self.parameters(self.all, page);
        self.made(Arc::from(self.all), parameters, FederationOptions::default(), page)
    }

    /// The query of one source.
    fn part(&self, target: &QueryTarget<'_>, page: HitPage) -> SourceQuery {
        let mut parameters = self.parameters(&target.full_name(), page);
        if target.own.keys().any(|name| is_of_groups(name)) {
            parameters.retain(|name, _| !is_of_groups(name));
        }
        target.own.iter().for_each(|(name, value)| put(&mut parameters, name, value.clone()));
        self.made(Arc::from(target.name), parameters, target.options, page)
    }

    /// Parameters of the request, restricted to these sources.
    fn parameters(&self, sources: &str, page: HitPage) -> BTreeMap<String, String> {
        let mut parameters = self.query.parameters.clone();
        put(&mut parameters, SOURCES, sources.to_owned());
        put(&mut parameters, FEDERATED, self.all.to_owned());
        put(&mut parameters, "hits", page.hits.to_string());
        put(&mut parameters, "offset", page.offset.to_string());
        put(&mut parameters, "timeout", format!("{}us", self.query.timeout.as_micros()));
        if let Some(schemas) = &self.restrict {
            put(&mut parameters, "model.restrict", schemas.clone());
        }
        parameters
    }

    fn made(
        &self,
        name: Arc<str>,
        parameters: BTreeMap<String, String>,
        options: FederationOptions,
        page: HitPage,
    ) -> SourceQuery {
        let whole = self.query.timeout;
        SourceQuery {
            name,
            is_optional: options.optional.unwrap_or(false),
            parameters,
            limit: options.timeout.map_or(whole, |timeout| timeout.min(whole)),
            limits: QueryLimits { max_hits: self.limits.max_hits.max(page.hits), ..*self.limits },
        }
    }
}

impl SourceQuery {
    /// Builds its query.
    ///
    /// # Errors
    /// Its own parameters are invalid.
    pub async fn query(
        &self,
        node: &Node,
        deployment: &Arc<CompiledApplication>,
    ) -> Result<RewrittenQuery, Error> {
        let made = rewrite::query(node, deployment, self.parameters.clone(), self.limits).await;
        let mut made = made.map_err(|error| match error.kind() {
            ErrorKind::BadRequest => Error::BadRequest(format!("source '{}': {error}", self.name)),
            _ => error,
        })?;
        made.query.timeout = made.query.timeout.min(self.limit);
        Ok(made)
    }
}

/// Sets a parameter, in place of any of its names.
fn put(parameters: &mut BTreeMap<String, String>, name: &str, value: String) {
    parameters.retain(|given, _| !is_same_parameter(given, name));
    parameters.insert(name.to_owned(), value);
}

/// True if a parameter selects the groups that are searched: those of a source replace all of the request's.
fn is_of_groups(name: &str) -> bool {
    const NAMES: [&str; 4] =
        ["streaming.groupname", "streaming.groupnames", "streaming.userid", "streaming.selection"];
    NAMES.iter().any(|known| is_same_parameter(name, known))
}
