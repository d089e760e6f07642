//! Queries for some of a request's sources, derived from the query of the request.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{FEDERATED, is_same_parameter};
use crate::{Error, Query, QueryLimits, QuerySources};

/// Part of a request that one query answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederatedPart {
    /// Sources to search.
    pub sources: Vec<String>,
    /// Schemas to search in them, in place of those that the request is restricted to.
    pub restrict: Option<Vec<String>>,
    /// All sources of the request.
    pub all: Vec<String>,
    /// Number of hits to return.
    pub hits: usize,
    /// Number of hits to skip.
    pub offset: usize,
    /// Time limit.
    pub timeout: Duration,
}

impl Query {
    /// Replaces the selection of the documents that are searched, also among the parameters, from which other
    /// nodes derive the same query.
    pub fn replace_selection(&mut self, selection: String) {
        put(&mut self.parameters, "streaming.selection", selection.clone());
        self.streaming.selection = Some(selection);
    }

    /// Derives the query of a part of the request. Its parameters are those from which another node derives
    /// the same query.
    #[must_use]
    pub fn part(&self, part: &FederatedPart) -> Query {
        let sources = match (&part.restrict, &self.sources) {
            (Some(schemas), _) | (None, QuerySources::Restricted { schemas, .. }) => {
                QuerySources::Restricted { schemas: schemas.clone(), within: part.sources.clone() }
            }
            (None, QuerySources::All | QuerySources::Named(_)) => QuerySources::Named(part.sources.clone()),
        };
        let mut query = Query {
            sources,
            hits: part.hits,
            offset: part.offset,
            timeout: part.timeout,
            federated: Some(part.all.clone()),
            ..self.clone()
        };
        part.write(&mut query.parameters);
        query
    }

    /// Derives the query of a part of the request, with parameters of its own, which replace those of the
    /// request and of the part.
    ///
    /// # Errors
    /// Those of [`Query::from_parameters`].
    pub fn part_with(
        &self,
        part: &FederatedPart,
        own: &BTreeMap<String, String>,
        limits: &QueryLimits,
    ) -> Result<Query, Error> {
        if own.is_empty() {
            return Ok(self.part(part));
        }
        let mut parameters = self.parameters.clone();
        part.write(&mut parameters);
        if own.keys().any(|name| is_of_groups(name)) {
            parameters.retain(|name, _| !is_of_groups(name));
        }
        own.iter().for_each(|(name, value)| put(&mut parameters, name, value.clone()));
        Query::from_parameters(parameters, limits)
    }
}

impl FederatedPart {
    /// Writes the part as parameters.
    fn write(&self, parameters: &mut BTreeMap<String, String>) {
        put(parameters, "model.sources", self.sources.join(","));
        put(parameters, FEDERATED, self.all.join(","));
        put(parameters, "hits", self.hits.to_string());
        put(parameters, "offset", self.offset.to_string());
        put(parameters, "timeout", format!("{}us", self.timeout.as_micros()));
        if let Some(schemas) = &self.restrict {
            put(parameters, "model.restrict", schemas.join(","));
        }
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
