//! Buckets by queries: `filters` and `adjacency_matrix`.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::{BucketAggregation, BucketContent, pipelines};
use crate::Error;
use crate::hit_scan::searched;
use crate::kept_hits::take;
use crate::query::SearchQuery;
use crate::query_scope::parse_together;
use crate::search::SearchHit;
use crate::small_sort::sort_few;

/// Filters of an adjacency matrix.
const FILTERS_MAX: usize = 100;

impl<'a> BucketAggregation<'a> {
    /// Filters with their names, if they have any.
    fn named_filters(&self) -> Result<Vec<(Option<&'a String>, &'a Value)>, Error> {
        match self.option("filters") {
            Some(Value::Object(named)) => {
                Ok(named.iter().map(|(name, filter)| (Some(name), filter)).collect())
            }
            Some(Value::Array(filters)) => Ok(filters.iter().map(|filter| (None, filter)).collect()),
            _ => Err(Error::Parsing("[filters] needs filters".to_owned())),
        }
    }

    pub(super) fn filter_queries(&self) -> Result<Vec<SearchQuery>, Error> {
        parse_together(self.named_filters()?.into_iter().map(|(_, filter)| filter))
    }

    pub(super) fn filters(&self) -> Result<Value, Error> {
        let queries = self.filter_queries()?;
        let mut parts: Vec<Vec<&SearchHit>> = vec![Vec::new(); queries.len() + 1];
        self.each(|hit| {
            for index in filter_indices(&queries, hit)? {
                parts[index].push(hit);
            }
            Ok(())
        })?;
        self.finish_filters(&parts)
    }

    /// Buckets of filters; the last part has what no filter matches.
    pub(super) fn finish_filters(&self, parts: &[impl BucketContent]) -> Result<Value, Error> {
        let other_key = self.text_option("other_bucket_key");
        let has_other = self.flag("other_bucket") || other_key.is_some();
        let other_key = other_key.unwrap_or_else(|| "_other_".to_owned());
        let named = self.named_filters()?;
        let is_named = matches!(self.option("filters"), Some(Value::Object(_)));
        let (mut keyed, mut listed) = (Map::new(), Vec::new());
        for ((name, _), part) in named.iter().zip(parts) {
            let bucket = self.bucket(Map::new(), part)?;
            take(self.scope.memory, name.map_or(0, String::len))?;
            match name {
                Some(name) => drop(keyed.insert((*name).clone(), Value::Object(bucket))),
                None => listed.push(bucket),
            }
        }
        if let Some(others) = parts.last().filter(|_| has_other) {
            take(self.scope.memory, other_key.len())?;
            let bucket = self.bucket(Map::new(), others)?;
            match is_named {
                true => drop(keyed.insert(other_key, Value::Object(bucket))),
                false => listed.push(bucket),
            }
        }
        if is_named {
            return Ok(json!({ "buckets": keyed }));
        }
        pipelines::of_buckets(&self.requested.inner, &mut listed, self.scope)?;
        Ok(json!({ "buckets": listed }))
    }

    /// Filters of `adjacency_matrix`.
    pub(super) fn adjacency_division(&self) -> Result<AdjacencyDivision, Error> {
        let Some(Value::Object(filters)) = self.option("filters") else {
            return Err(Error::Parsing("[adjacency_matrix] needs filters".to_owned()));
        };
        if filters.len() > FILTERS_MAX {
            return Err(Error::IllegalArgument(format!(
                "Number of filters is too large, must be less than or equal to: [{FILTERS_MAX}] but was [{}].",
                filters.len()
            )));
        }
        let mut named: Vec<(&String, &Value)> = filters.iter().collect();
        sort_few(&mut named, |left, right| left.0.cmp(right.0));
        Ok(AdjacencyDivision {
            queries: parse_together(named.iter().map(|(_, filter)| *filter))?,
            names: named.into_iter().map(|(name, _)| name.clone()).collect(),
            separator: self.text_option("separator").unwrap_or_else(|| "&".to_owned()),
        })
    }

    pub(super) fn adjacency_matrix(&self) -> Result<Value, Error> {
        let division = self.adjacency_division()?;
        let sets = division.queries.iter().map(|query| self.matching(query));
        let sets = sets.collect::<Result<Vec<Vec<&SearchHit>>, _>>()?;
        // A bucket is finished before the documents of the next one are found: all have many together.
        let mut found: Vec<(String, Map<String, Value>)> = Vec::new();
        for (first, hits) in sets.iter().enumerate() {
            if hits.is_empty() {
                continue;
            }
            found.push(self.adjacency_bucket(&division, (first, first), hits)?);
            let own: HashSet<_> = hits.iter().map(|hit| std::ptr::from_ref(*hit)).collect();
            for (second, hits) in sets.iter().enumerate().skip(first + 1) {
                let mut both = Vec::new();
                self.scope.each(hits, |hit| {
                    if own.contains(&std::ptr::from_ref(hit)) {
                        both.push(hit);
                    }
                    Ok(())
                })?;
                if !both.is_empty() {
                    found.push(self.adjacency_bucket(&division, (first, second), &both)?);
                }
            }
        }
        self.by_key(found)
    }

    /// Buckets of filters and of pairs of them.
    pub(super) fn finish_adjacency(
        &self,
        division: &AdjacencyDivision,
        parts: BTreeMap<FilterPair, impl BucketContent>,
    ) -> Result<Value, Error> {
        let found = parts.iter().map(|(pair, part)| self.adjacency_bucket(division, *pair, part));
        self.by_key(found.collect::<Result<_, _>>()?)
    }

    /// A bucket of an adjacency matrix, with its key.
    fn adjacency_bucket(
        &self,
        division: &AdjacencyDivision,
        pair: FilterPair,
        content: &impl BucketContent,
    ) -> Result<(String, Map<String, Value>), Error> {
        let key = division.key(pair);
        let head = [("key".to_owned(), Value::from(key.as_str()))].into_iter().collect();
        Ok((key, self.bucket(head, content)?))
    }

    fn by_key(&self, mut found: Vec<(String, Map<String, Value>)>) -> Result<Value, Error> {
        sort_few(&mut found, |left, right| left.0.cmp(&right.0));
        Ok(json!({ "buckets": self.listed(found.into_iter().map(|(_, bucket)| bucket).collect())? }))
    }
}

/// Positions of two filters, the lower one first; the same one twice for a filter by itself.
pub(super) type FilterPair = (usize, usize);

/// Filters of an adjacency matrix, in the order of their names.
pub(super) struct AdjacencyDivision {
    names: Vec<String>,
    queries: Vec<SearchQuery>,
    separator: String,
}

impl AdjacencyDivision {
    /// Filters, and pairs of them, that match a document.
    pub(super) fn pairs(&self, hit: &SearchHit) -> Result<Vec<FilterPair>, Error> {
        let mut matched = filter_indices(&self.queries, hit)?;
        // The last one stands for none.
        matched.retain(|index| *index < self.queries.len());
        let from = |at: usize| matched[at..].iter().map(move |second| (at, *second));
        let pairs = (0..matched.len()).flat_map(from);
        Ok(pairs.map(|(at, second)| (matched[at], second)).collect())
    }

    /// Adds the fields that the filters read; `None` if one depends on more.
    pub(super) fn add_fields<'d>(&'d self, fields: &mut Vec<&'d str>) -> Option<()> {
        self.queries.iter().try_for_each(|query| query.add_fields(fields))
    }

    /// Bytes that the regular expressions of the filters take, about.
    pub(super) fn pattern_bytes(&self) -> usize {
        self.queries.iter().map(SearchQuery::pattern_bytes).sum()
    }

    fn key(&self, (first, second): FilterPair) -> String {
        match first == second {
            true => self.names[first].clone(),
            false => format!("{}{}{}", self.names[first], self.separator, self.names[second]),
        }
    }
}

/// Positions of the filters that match a document; the one after the last if none does.
pub(super) fn filter_indices(queries: &[SearchQuery], hit: &SearchHit) -> Result<Vec<usize>, Error> {
    let mut indices = Vec::new();
    for (index, query) in queries.iter().enumerate() {
        if searched(hit).score(query, &mut Vec::new())?.is_some() {
            indices.push(index);
        }
    }
    if indices.is_empty() {
        indices.push(queries.len());
    }
    Ok(indices)
}
