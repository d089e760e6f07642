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

use millrace_query::{FEDERATED, Limits, Query, is_same_parameter, value_of};
use millrace_schema::FederationOptions;

use super::apart::Apart;
use super::rewrite::{self, Rewritten};
use super::sources::SOURCES;
use super::targets::{Target, Targets};
use crate::error::Kind;
use crate::{Deployment, Error, Node};

/// Kind of search of a query.
pub(super) enum Way {
    /// All sources in one search, by the request as it came.
    Together,
    /// All in one search, by these parameters: the sources are those of the chain, or there is only one.
    TogetherAs(Part),
    /// Each source by itself.
    Apart(Apart),
}

/// A query of one source, or of several that are searched together.
pub(super) struct Part {
    /// Name in results.
    pub(super) name: Arc<str>,
    /// True if it is not waited for longer than the others.
    pub(super) is_optional: bool,
    parameters: BTreeMap<String, String>,
    /// Maximum duration.
    limit: Duration,
    limits: Limits,
}

impl Way {
    /// Chooses the kind of search of a query.
    ///
    /// # Errors
    /// None of the sources exists, or one has invalid parameters.
    pub(super) fn of(deployment: &Deployment, query: &Query, limits: &Limits) -> Result<Self, Error> {
        if query.parameters.contains_key(FEDERATED) {
            // The query was derived from this already.
            return Ok(Way::Together);
        }
        let chain = value_of(&query.parameters, "searchChain").map(str::trim).filter(|name| !name.is_empty());
        let federation = deployment.application.federations.get(chain.unwrap_or(DEFAULT_CHAIN));
        let Targets { targets, restrict, unresolved } = match federation {
            None => Targets::of_all(deployment, query)?,
            Some(federation) => Targets::of_chain(deployment, federation, query)?,
        };
        let blends = federation.is_none_or(|federation| federation.blends);
        let mut clusters = BTreeSet::new();
        let distinct = targets.iter().filter_map(Target::cluster).all(|id| clusters.insert(id));
        let alike = distinct && targets.iter().all(Target::is_plain);
        if federation.is_none() && alike {
            return Ok(Way::Together);
        }
        let page = Page { hits: query.hits, offset: query.offset };
        let all = targets.iter().map(Target::full_name).collect::<Vec<_>>().join(",");
        let whole = Whole { query, limits, restrict, all: &all };
        Ok(match &targets[..] {
            [only] if blends && unresolved.is_none() => Way::TogetherAs(whole.part(only, page)),
            _ if blends && alike && unresolved.is_none() => Way::TogetherAs(whole.together(page)),
            _ => {
                // All hits of the page may be one source's.
                let best = Page { hits: query.offset.saturating_add(query.hits), offset: 0 };
                let window = if blends && targets.len() > 1 { best } else { page };
                let parts = targets.iter().map(|target| whole.part(target, window)).collect();
                Way::Apart(Apart::new(parts, blends, unresolved))
            }
        })
    }
}

/// Chain of queries that do not name one.
const DEFAULT_CHAIN: &str = "default";

/// Range of the wanted hits.
#[derive(Clone, Copy)]
struct Page {
    hits: usize,
    offset: usize,
}

/// Common input of the queries of all sources.
struct Whole<'a> {
    query: &'a Query,
    limits: &'a Limits,
    /// Schemas to search, if the query named them as sources of a chain that has others.
    restrict: Option<String>,
    /// Names of the sources, separated by commas.
    all: &'a str,
}

impl Whole<'_> {
    /// One query of all sources, none of which has parameters of its own.
    fn together(&self, page: Page) -> Part {
        let parameters = self.parameters(self.all, page);
        self.made(Arc::from(self.all), parameters, FederationOptions::default(), page)
    }

    /// The query of one source.
    fn part(&self, target: &Target<'_>, page: Page) -> Part {
        let mut parameters = self.parameters(&target.full_name(), page);
        if target.own.keys().any(|name| is_of_groups(name)) {
            parameters.retain(|name, _| !is_of_groups(name));
        }
        target.own.iter().for_each(|(name, value)| put(&mut parameters, name, value.clone()));
        self.made(Arc::from(target.name), parameters, target.options, page)
    }

    /// Parameters of the request, restricted to these sources.
    fn parameters(&self, sources: &str, page: Page) -> BTreeMap<String, String> {
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
        page: Page,
    ) -> Part {
        let whole = self.query.timeout;
        Part {
            name,
            is_optional: options.optional.unwrap_or(false),
            parameters,
            limit: options.timeout.map_or(whole, |timeout| timeout.min(whole)),
            limits: Limits { max_hits: self.limits.max_hits.max(page.hits), ..*self.limits },
        }
    }
}

impl Part {
    /// Builds its query.
    ///
    /// # Errors
    /// Its own parameters are invalid.
    pub(super) async fn query(&self, node: &Node, deployment: &Arc<Deployment>) -> Result<Rewritten, Error> {
        let made = rewrite::query(node, deployment, self.parameters.clone(), self.limits).await;
        let mut made = made.map_err(|error| match error.kind() {
            Kind::BadRequest => Error::BadRequest(format!("source '{}': {error}", self.name)),
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
