//! Resolution of a query's sources: to schemas and content clusters, the latter also by the names that
//! providers give them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_query::{Query, value_of};
use millrace_schema::{DocumentMode, Schema};
use millrace_selection::DocumentSelection;

use crate::deployment::{CompiledDocumentType, TypeInCluster};
use crate::{CompiledApplication, Error};

/// A schema that the query searches.
pub struct SearchedSchema<'d> {
    pub kind: &'d Arc<CompiledDocumentType>,
    /// Clusters to search, by their index among those of the type.
    clusters: BTreeSet<usize>,
}

impl SearchedSchema<'_> {
    pub fn cluster(&self) -> Option<&TypeInCluster> {
        self.kind.clusters.get(*self.clusters.first()?)
    }

    /// Maximum time of a query in them, if a cluster limits it.
    pub(crate) fn query_time_max(&self) -> Option<Duration> {
        self.clusters.iter().filter_map(|at| self.kind.clusters[*at].limits.query_time_max).min()
    }

    /// Selections of which a document must match one to be in one of the clusters; empty if all documents of
    /// the type are.
    pub fn within(&self) -> Vec<Arc<DocumentSelection>> {
        let requested = || self.clusters.iter().map(|at| &self.kind.clusters[*at]);
        // A stored document is in some cluster, so all of them together contain everything.
        if self.clusters.len() == self.kind.clusters.len()
            || requested().any(|cluster| cluster.belongs.is_none())
        {
            return Vec::new();
        }
        requested().filter_map(|cluster| cluster.belongs.clone()).collect()
    }
}

/// A schema that is left out of a query, because it lacks what the query names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LackingSchema {
    /// Name of the schema.
    pub schema: Arc<str>,
    /// Part that it lacks.
    pub lacks: SchemaPart,
}

/// A part of a schema that a query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaPart {
    /// A rank profile.
    RankProfile,
    /// A document summary.
    DocumentSummary,
}

impl SchemaPart {
    /// True if a schema has the one that the query names, or the query names none.
    fn is_in(self, schema: &Schema, query: &Query) -> bool {
        match self {
            SchemaPart::RankProfile => {
                query.ranking.profile.as_ref().is_none_or(|name| schema.rank_profiles.contains_key(name))
            }
            SchemaPart::DocumentSummary => {
                query.presentation.summary.as_ref().is_none_or(|name| schema.summaries.contains_key(name))
            }
        }
    }
}

/// Selects the schemas that have what the query names, with the others. If all lack it, all are searched: the
/// plan reports the error.
pub(super) fn having<'d>(
    mut kinds: Vec<SearchedSchema<'d>>,
    query: &Query,
) -> (Vec<SearchedSchema<'d>>, Vec<LackingSchema>) {
    let mut left_out = Vec::new();
    for lacks in [SchemaPart::RankProfile, SchemaPart::DocumentSummary] {
        let has = |requested: &SearchedSchema<'_>| lacks.is_in(&requested.kind.schema, query);
        if !kinds.iter().any(has) {
            continue;
        }
        let (having, lacking): (Vec<_>, Vec<_>) = kinds.into_iter().partition(has);
        kinds = having;
        left_out.extend(
            lacking
                .into_iter()
                .map(|requested| LackingSchema { schema: Arc::clone(&requested.kind.schema.name), lacks }),
        );
    }
    (kinds, left_out)
}

/// Targets of a query's sources.
pub struct ResolvedSources<'d> {
    /// Schemas, in the order of their names.
    pub kinds: Vec<SearchedSchema<'d>>,
    /// Error for sources that do not exist. The others are searched nevertheless.
    pub unresolved: Option<Error>,
}

impl ResolvedSources<'_> {
    /// True if a query that names no group searches all documents of these sources.
    pub(crate) fn are_indexed(&self) -> bool {
        let clusters = self
            .kinds
            .iter()
            .flat_map(|requested| requested.clusters.iter().map(|at| &requested.kind.clusters[*at]));
        clusters.map(|cluster| cluster.mode).all(|mode| mode == DocumentMode::Index)
    }
}

impl<'d> ResolvedSources<'d> {
    /// Resolves these sources.
    ///
    /// # Errors
    /// None of them can be searched.
    pub fn by(
        sources: &millrace_query::QuerySources,
        deployment: &'d CompiledApplication,
    ) -> Result<Self, Error> {
        let mut kinds: Vec<&Arc<CompiledDocumentType>> = deployment.kinds().collect();
        kinds.sort_by(|one, other| one.schema.name.cmp(&other.schema.name));
        let sources = NamedSources::resolve(deployment, sources)?;
        let requested = kinds.into_iter().map(|kind| {
            let is_asked = |(at, cluster): (usize, &TypeInCluster)| {
                (cluster.mode.is_searched() && sources.include(&kind.schema.name, &cluster.id)).then_some(at)
            };
            SearchedSchema { kind, clusters: kind.clusters.iter().enumerate().filter_map(is_asked).collect() }
        });
        let requested: Vec<SearchedSchema<'d>> =
            requested.filter(|requested| !requested.clusters.is_empty()).collect();
        if requested.is_empty() {
            return Err(Error::BadRequest(match &*known_sources(deployment) {
                "" => "there is nothing to search: the application has no schemas".to_owned(),
                known => format!("none of the sources can be searched; there are {known}"),
            }));
        }
        Ok(ResolvedSources { kinds: requested, unresolved: sources.unresolved })
    }
}

/// Schemas and clusters that the query names; empty if it names none.
struct NamedSources {
    names: Vec<NamedSource>,
    /// Restriction to these, if not empty.
    within: Vec<NamedSource>,
    /// Error for other names that do not exist.
    unresolved: Option<Error>,
}

enum NamedSource {
    Schema(String),
    Cluster(Arc<str>),
}

impl NamedSources {
    fn resolve(
        deployment: &CompiledApplication,
        sources: &millrace_query::QuerySources,
    ) -> Result<Self, Error> {
        let mut unresolved = None;
        let mut known = |names| NamedSource::known(deployment, names, &mut unresolved);
        let (names, within) = match sources {
            millrace_query::QuerySources::All => (Vec::new(), Vec::new()),
            millrace_query::QuerySources::Named(names) => (known(names)?, Vec::new()),
            millrace_query::QuerySources::Restricted { schemas, within } => (known(schemas)?, known(within)?),
        };
        Ok(NamedSources { names, within, unresolved })
    }

    fn include(&self, schema: &str, cluster: &str) -> bool {
        let any = |sources: &[NamedSource]| {
            sources.is_empty() || sources.iter().any(|source| source.is(schema, cluster))
        };
        any(&self.names) && any(&self.within)
    }
}

impl NamedSource {
    /// Existing sources of these names, with the error of the first that does not exist; only the error if
    /// none does.
    fn known(
        deployment: &CompiledApplication,
        names: &[String],
        unresolved: &mut Option<Error>,
    ) -> Result<Vec<Self>, Error> {
        let (mut sources, mut first) = (Vec::with_capacity(names.len()), None);
        for name in names {
            match NamedSource::resolve(deployment, name) {
                Ok(source) => sources.push(source),
                Err(error) => first = first.or(Some(error)),
            }
        }
        match first {
            Some(error) if sources.is_empty() => return Err(error),
            Some(error) => *unresolved = Some(error),
            None => {}
        }
        Ok(sources)
    }

    fn resolve(deployment: &CompiledApplication, name: &str) -> Result<Self, Error> {
        match deployment.application.sources.get(name) {
            Some(source) => Ok(NamedSource::Cluster(Arc::clone(&source.leader.cluster))),
            None if is_schema(deployment, name) => Ok(NamedSource::Schema(name.to_owned())),
            None => Err(unknown(deployment, name)),
        }
    }

    fn is(&self, schema: &str, cluster: &str) -> bool {
        match self {
            NamedSource::Schema(name) => name == schema,
            NamedSource::Cluster(id) => **id == *cluster,
        }
    }
}

/// Schemas of all sources that are searched together with those of this query, including itself; empty if it
/// is the whole request.
pub fn companion_types<'d>(
    query: &Query,
    deployment: &'d CompiledApplication,
) -> Vec<&'d Arc<CompiledDocumentType>> {
    let Some(names) = &query.federated else { return Vec::new() };
    let names = millrace_query::QuerySources::Named(names.clone());
    let reached = ResolvedSources::by(&names, deployment);
    reached.map(|reached| reached.kinds.iter().map(|requested| requested.kind).collect()).unwrap_or_default()
}

pub fn is_schema(deployment: &CompiledApplication, name: &str) -> bool {
    deployment.kinds().any(|kind| *kind.schema.name == *name)
}

/// True if a name is that of a search chain which leads to one content cluster: the cluster's own, a
/// provider's, or that of a source.
pub fn is_chain(deployment: &CompiledApplication, name: &str) -> bool {
    deployment.application.sources.contains_key(name)
}

/// Makes the cluster of a query's search chain its source, if it names no other.
pub fn by_chain(deployment: &CompiledApplication, parameters: &mut BTreeMap<String, String>) {
    let chain = value_of(parameters, "searchChain").map(str::trim);
    let Some(name) = chain.filter(|name| is_chain(deployment, name)).map(str::to_owned) else { return };
    if value_of(parameters, SOURCES).is_none() {
        parameters.insert(SOURCES.to_owned(), name);
    }
}

/// Parameter that names sources.
pub const SOURCES: &str = "model.sources";

pub fn unknown(deployment: &CompiledApplication, name: &str) -> Error {
    Error::UnknownSource { name: name.to_owned(), known: known_sources(deployment) }
}

/// Names of all sources, except those that also choose a provider.
pub fn known_sources(deployment: &CompiledApplication) -> String {
    let schemas = deployment.kinds().map(|kind| &*kind.schema.name);
    let sources = deployment.application.sources.keys().map(String::as_str);
    let names: BTreeSet<&str> = schemas.chain(sources.filter(|name| !name.contains('@'))).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
