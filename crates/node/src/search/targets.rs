//! Sources of a query with their own settings: parameters, a provider, waiting rules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use millrace_query::{Query, is_same_parameter};
use millrace_schema::{FederationConfig, FederationOptions, SourceChain, SourceTarget};

use super::sources::{is_schema, known_sources, unknown};
use crate::{CompiledApplication, Error};

/// Sources of a query.
pub struct QueryTargets<'d> {
    pub targets: Vec<QueryTarget<'d>>,
    /// Schemas to search in them, if the query named schemas and the chain has other sources.
    pub restrict: Option<Vec<String>>,
    /// Error for those that do not exist.
    pub unresolved: Option<Error>,
}

/// A source of a query.
pub struct QueryTarget<'d> {
    pub name: &'d str,
    /// Chain that answers for it; `None` for a schema, which all its clusters serve.
    chain: Option<&'d SourceChain>,
    /// True if the query chose the chain.
    is_chosen: bool,
    pub options: FederationOptions,
    /// Parameters of this source alone.
    pub own: BTreeMap<String, String>,
}

impl<'d> QueryTargets<'d> {
    /// Sources of a chain that searches everything, or those that the query names.
    pub fn of_all(deployment: &'d CompiledApplication, query: &'d Query) -> Result<Self, Error> {
        let known = &deployment.application.sources;
        let (mut targets, mut unresolved) = (Vec::new(), None);
        let wanted = source_names(query);
        if wanted.is_empty() {
            for (name, source) in known.iter().filter(|(_, source)| source.is_default) {
                targets.push(QueryTarget::of_source(name, source, FederationOptions::default(), query)?);
            }
        }
        for name in wanted {
            match known.get(name) {
                Some(source) => {
                    targets.push(QueryTarget::of_source(name, source, FederationOptions::default(), query)?);
                }
                None if is_schema(deployment, name) => targets.push(QueryTarget::of_schema(name, query)?),
                None => unresolved = unresolved.or_else(|| Some(unknown(deployment, name))),
            }
        }
        Ok(QueryTargets { targets, restrict: None, unresolved })
    }

    /// Sources of a chain that lists them. Schemas that the query names are searched in all of these.
    pub fn of_chain(
        deployment: &'d CompiledApplication,
        federation: &'d FederationConfig,
        query: &'d Query,
    ) -> Result<Self, Error> {
        let listed = || federation.sources.iter().map(|source| source.name.as_str());
        let wanted = source_names(query);
        let (sources, others): (BTreeSet<&str>, BTreeSet<&str>) =
            wanted.into_iter().partition(|name| listed().any(|listed| listed == *name));
        let (schemas, missing): (Vec<&str>, Vec<&str>) =
            others.into_iter().partition(|name| sources.is_empty() && is_schema(deployment, name));
        let mut unresolved = missing.first().map(|name| Error::UnknownSource {
            name: (*name).to_owned(),
            known: listed().collect::<Vec<_>>().join(", "),
        });
        if sources.is_empty()
            && schemas.is_empty()
            && let Some(error) = unresolved.take()
        {
            return Err(error);
        }
        let shows = |cluster: &str| {
            let named = deployment.kinds().filter(|kind| schemas.contains(&&*kind.schema.name));
            named.flat_map(|kind| &kind.clusters).any(|shown| *shown.id == *cluster)
        };
        let mut targets = Vec::new();
        for listed in &federation.sources {
            let is_asked = sources.is_empty() || sources.contains(listed.name.as_str());
            // The application was checked: a chain lists existing sources only.
            let Some(source) = deployment.application.sources.get(&listed.name).filter(|_| is_asked) else {
                continue;
            };
            let target = QueryTarget::of_source(&listed.name, source, listed.options, query)?;
            if schemas.is_empty() || target.cluster().is_some_and(shows) {
                targets.push(target);
            }
        }
        if targets.is_empty() {
            let reason = format!("no source of the chain has documents of {}", schemas.join(", "));
            return Err(Error::BadRequest(reason));
        }
        Ok(QueryTargets { targets, restrict: restriction(&schemas, query)?, unresolved })
    }
}

/// Names of the sources in a query, each once; empty if it searches all.
fn source_names(query: &Query) -> Vec<&str> {
    let names: &[String] = match &query.sources {
        millrace_query::QuerySources::All => &[],
        millrace_query::QuerySources::Named(names) => names,
        millrace_query::QuerySources::Restricted { within, .. } => within,
    };
    let mut once = BTreeSet::new();
    names.iter().map(String::as_str).filter(|name| once.insert(*name)).collect()
}

/// Schemas that a query named as sources, within those that it is restricted to.
fn restriction(schemas: &[&str], query: &Query) -> Result<Option<Vec<String>>, Error> {
    let mut schemas = schemas.to_vec();
    if schemas.is_empty() {
        return Ok(None);
    }
    if let millrace_query::QuerySources::Restricted { schemas: allowed, .. } = &query.sources {
        schemas.retain(|name| allowed.iter().any(|allowed| allowed == name));
    }
    match &schemas[..] {
        [] => Err(Error::parameter("restrict", "none of the schemas that are asked is among these")),
        schemas => Ok(Some(schemas.iter().map(|name| (*name).to_owned()).collect())),
    }
}

impl<'d> QueryTarget<'d> {
    fn of_schema(name: &'d str, query: &Query) -> Result<Self, Error> {
        let own = own_parameters(&query.parameters, name, None)?;
        Ok(QueryTarget { name, chain: None, is_chosen: false, options: FederationOptions::default(), own })
    }

    /// Creates a source with the waiting options of its chain.
    fn of_source(
        name: &'d str,
        source: &'d SourceTarget,
        options: FederationOptions,
        query: &Query,
    ) -> Result<Self, Error> {
        let chosen = chosen(name, source, &query.parameters)?;
        let chain = chosen.unwrap_or(&source.leader);
        let own = own_parameters(&query.parameters, name, Some(&chain.provider))?;
        let options = options.with_defaults(chain.options);
        Ok(QueryTarget { name, chain: Some(chain), is_chosen: chosen.is_some(), options, own })
    }

    /// The content cluster that it leads to; `None` for a schema.
    pub fn cluster(&self) -> Option<&'d str> {
        self.chain.map(|chain| &*chain.cluster)
    }

    /// Name including the provider that was chosen.
    pub fn full_name(&self) -> String {
        match self.chain.filter(|_| self.is_chosen) {
            Some(chain) => format!("{}@{}", self.name, chain.provider),
            None => self.name.to_owned(),
        }
    }

    /// True if it has no special search parameters or waiting rules.
    pub fn is_plain(&self) -> bool {
        let FederationOptions { timeout, optional } = self.options;
        self.own.is_empty() && !self.is_chosen && timeout.is_none() && optional != Some(true)
    }
}

/// The chain that the request chooses for a source by `source.NAME.provider`.
fn chosen<'d>(
    name: &str,
    source: &'d SourceTarget,
    parameters: &BTreeMap<String, String>,
) -> Result<Option<&'d SourceChain>, Error> {
    let mut own = below(parameters, SOURCE, name);
    let Some((_, given, provider)) = own.find(|(parameter, ..)| *parameter == PROVIDER) else {
        return Ok(None);
    };
    let chains = || std::iter::once(&source.leader).chain(&source.participants);
    match chains().find(|chain| *chain.provider == *provider.trim()) {
        Some(chain) if *chain == source.leader => Ok(None),
        Some(chain) => Ok(Some(chain)),
        None => {
            let known = chains().map(|chain| &*chain.provider).collect::<Vec<_>>().join(", ");
            let reason =
                format!("parameter '{given}': no provider '{provider}' has the source, only {known}");
            Err(Error::BadRequest(reason))
        }
    }
}

/// Prefixes of the parameters: for one source, and for all sources of one provider.
const SOURCE: &str = "source.";
const PROVIDERS: &str = "provider.";
/// Parameter of a source that chooses its provider.
const PROVIDER: &str = "provider";

/// Parameters that apply to the whole request only: prefixes of names, or names.
const OF_ALL: [&str; 10] = [
    "format.tensors",
    "queryProfile",
    "searchChain",
    "model.sources",
    "presentation.format",
    "presentation.timing",
    "rate.",
    "renderer.",
    "trace.",
    "tracelevel",
];

/// Parameters that a request gives for one source alone, by their general names: `source.NAME.…`, with
/// `provider.NAME.…` as defaults.
fn own_parameters(
    parameters: &BTreeMap<String, String>,
    source: &str,
    provider: Option<&str>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let of_provider = provider.map(|name| below(parameters, PROVIDERS, name)).into_iter().flatten();
    let of_source = below(parameters, SOURCE, source).filter(|(name, ..)| *name != PROVIDER);
    for (name, given, value) in of_provider.chain(of_source) {
        if OF_ALL.iter().any(|all| name.starts_with(all) || is_same_parameter(name, all)) {
            let reason = format!("parameter '{given}': the request has one for all sources: give '{name}'");
            return Err(Error::BadRequest(reason));
        }
        own.retain(|known, _| !is_same_parameter(known, name));
        own.insert(name.to_owned(), value.to_owned());
    }
    Ok(own)
}

/// Refuses parameters of sources and of providers that the application does not have.
pub fn check_owners(deployment: &CompiledApplication, query: &Query) -> Result<(), Error> {
    let known = &deployment.application.sources;
    let is_source = |name: &str| known.contains_key(name) || is_schema(deployment, name);
    if let Some((given, name)) = unowned(&query.parameters, SOURCE, is_source) {
        let reason = format!("parameter '{given}': no source '{name}', only {}", known_sources(deployment));
        return Err(Error::BadRequest(reason));
    }
    let chains =
        || known.values().flat_map(|source| std::iter::once(&source.leader).chain(&source.participants));
    let is_provider = |name: &str| chains().any(|chain| *chain.provider == *name);
    match unowned(&query.parameters, PROVIDERS, is_provider) {
        None => Ok(()),
        Some((given, name)) => {
            let names: BTreeSet<&str> = chains().map(|chain| &*chain.provider).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            Err(Error::BadRequest(format!("parameter '{given}': no provider '{name}', only {names}")))
        }
    }
}

/// The first parameter of a family whose owner is unknown, and the name of the owner. Names may have dots.
fn unowned<'p>(
    parameters: &'p BTreeMap<String, String>,
    family: &'static str,
    is_known: impl Fn(&str) -> bool,
) -> Option<(&'p str, &'p str)> {
    let of_family = parameters
        .range::<str, _>((Bound::Included(family), Bound::Unbounded))
        .map_while(|(given, _)| Some((given.as_str(), given.strip_prefix(family)?)));
    of_family.filter(|(_, rest)| !rest.match_indices('.').any(|(end, _)| is_known(&rest[..end]))).find_map(
        |(given, rest)| {
            let (name, _) = rest.split_once('.')?;
            Some((given, name))
        },
    )
}

/// Parameters of one name in a family, as in `source.NAME.hits`: the rest of the parameter's name, its full
/// name, the value.
fn below<'p>(
    parameters: &'p BTreeMap<String, String>,
    family: &'static str,
    name: &str,
) -> impl Iterator<Item = (&'p str, &'p str, &'p str)> {
    let of_family = parameters
        .range::<str, _>((Bound::Included(family), Bound::Unbounded))
        .take_while(move |(given, _)| given.starts_with(family));
    of_family.filter_map(move |(given, value)| {
        let rest = given.strip_prefix(family)?.strip_prefix(name)?.strip_prefix('.')?;
        Some((rest, given.as_str(), value.as_str()))
    })
}
