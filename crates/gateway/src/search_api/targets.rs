//! The sources that a query asks, and what each of them has of its own: parameters, a provider, how it is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use millrace_query::{Query, is_same_parameter};
use millrace_schema::{Federation, FederationOptions, Source, SourceChain};

use super::sources::{is_schema, unknown};
use crate::{Deployment, Error};

/// The sources of a query.
pub(super) struct Targets<'d> {
    pub(super) targets: Vec<Target<'d>>,
    /// The schemas that are looked for in them, by commas, where the query named schemas and the chain has other sources.
    pub(super) restrict: Option<String>,
    /// That some are not there.
    pub(super) unresolved: Option<Error>,
}

/// A source that a query asks.
pub(super) struct Target<'d> {
    pub(super) name: &'d str,
    /// What answers for it; none for a schema, which all its clusters show.
    chain: Option<&'d SourceChain>,
    /// Whether the query chose that.
    is_chosen: bool,
    pub(super) options: FederationOptions,
    /// The parameters that it alone has.
    pub(super) own: BTreeMap<String, String>,
}

impl<'d> Targets<'d> {
    /// Of a chain that asks all there is, or what the query names.
    pub(super) fn of_all(deployment: &'d Deployment, query: &'d Query) -> Result<Self, Error> {
        let known = &deployment.application.sources;
        let (mut targets, mut unresolved) = (Vec::new(), None);
        let wanted = wanted(query);
        if wanted.is_empty() {
            for (name, source) in known.iter().filter(|(_, source)| source.is_default) {
                targets.push(Target::of_source(name, source, FederationOptions::default(), query)?);
            }
        }
        for name in wanted {
            match known.get(name) {
                Some(source) => {
                    targets.push(Target::of_source(name, source, FederationOptions::default(), query)?);
                }
                None if is_schema(deployment, name) => targets.push(Target::of_schema(name, query)?),
                None => unresolved = unresolved.or_else(|| Some(unknown(deployment, name))),
            }
        }
        Ok(Targets { targets, restrict: None, unresolved })
    }

    /// Of a chain that names its sources. Schemas that the query names are looked for in all of these.
    pub(super) fn of_chain(
        deployment: &'d Deployment,
        federation: &'d Federation,
        query: &'d Query,
    ) -> Result<Self, Error> {
        let listed = || federation.sources.iter().map(|source| source.name.as_str());
        let wanted = wanted(query);
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
            // The application was checked: a chain names what there is.
            let Some(source) = deployment.application.sources.get(&listed.name).filter(|_| is_asked) else {
                continue;
            };
            let target = Target::of_source(&listed.name, source, listed.options, query)?;
            if schemas.is_empty() || target.cluster().is_some_and(shows) {
                targets.push(target);
            }
        }
        if targets.is_empty() {
            let reason = format!("no source of the chain has documents of {}", schemas.join(", "));
            return Err(Error::BadRequest(reason));
        }
        Ok(Targets { targets, restrict: restriction(&schemas, query)?, unresolved })
    }
}

/// The names of the sources that a query names, each once; none where it asks all.
fn wanted(query: &Query) -> Vec<&str> {
    let names: &[String] = match &query.sources {
        millrace_query::Sources::All => &[],
        millrace_query::Sources::Named(names) => names,
        millrace_query::Sources::Restricted { within, .. } => within,
    };
    let mut once = BTreeSet::new();
    names.iter().map(String::as_str).filter(|name| once.insert(*name)).collect()
}

/// The schemas that a query named as sources, of those that it is restricted to.
fn restriction(schemas: &[&str], query: &Query) -> Result<Option<String>, Error> {
    let mut schemas = schemas.to_vec();
    if schemas.is_empty() {
        return Ok(None);
    }
    if let millrace_query::Sources::Restricted { schemas: allowed, .. } = &query.sources {
        schemas.retain(|name| allowed.iter().any(|allowed| allowed == name));
    }
    match &schemas[..] {
        [] => Err(Error::parameter("restrict", "none of the schemas that are asked is among these")),
        schemas => Ok(Some(schemas.join(","))),
    }
}

impl<'d> Target<'d> {
    fn of_schema(name: &'d str, query: &Query) -> Result<Self, Error> {
        let own = own(&query.parameters, name, None)?;
        Ok(Target { name, chain: None, is_chosen: false, options: FederationOptions::default(), own })
    }

    /// A source, which its chain waits for by these options.
    fn of_source(
        name: &'d str,
        source: &'d Source,
        options: FederationOptions,
        query: &Query,
    ) -> Result<Self, Error> {
        let chosen = chosen(name, source, &query.parameters)?;
        let chain = chosen.unwrap_or(&source.leader);
        let own = own(&query.parameters, name, Some(&chain.provider))?;
        let options = options.over(chain.options);
        Ok(Target { name, chain: Some(chain), is_chosen: chosen.is_some(), options, own })
    }

    /// The content cluster that it leads to; none for a schema.
    pub(super) fn cluster(&self) -> Option<&'d str> {
        self.chain.map(|chain| &*chain.cluster)
    }

    /// The name by which it is found with the provider that was chosen.
    pub(super) fn full_name(&self) -> String {
        match self.chain.filter(|_| self.is_chosen) {
            Some(chain) => format!("{}@{}", self.name, chain.provider),
            None => self.name.to_owned(),
        }
    }

    /// Whether it is searched and waited for as any other.
    pub(super) fn is_plain(&self) -> bool {
        let FederationOptions { timeout, optional } = self.options;
        self.own.is_empty() && !self.is_chosen && timeout.is_none() && optional != Some(true)
    }
}

/// The chain that the request chooses for a source by `source.NAME.provider`.
fn chosen<'d>(
    name: &str,
    source: &'d Source,
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

/// What the names of the parameters of one source begin with, and those of all sources of one provider.
const SOURCE: &str = "source.";
const PROVIDERS: &str = "provider.";
/// The parameter of a source that chooses its provider.
const PROVIDER: &str = "provider";

/// What is the whole request's to say: the beginnings of names, or names.
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

/// The parameters that a request gives for one source alone, by the names that they have for all: `source.NAME.…`, and below them
/// `provider.NAME.…`.
fn own(
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

/// The parameters of one name in a family, as in `source.NAME.hits`: what follows in the parameter's name, that name, the value.
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
