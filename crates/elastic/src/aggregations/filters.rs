//! Buckets by queries: `filters` and `adjacency_matrix`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{BucketContent, OneAggregation, pipelines};
use crate::Error;
use crate::hit_scan::searched;
use crate::query::{self, SearchQuery};
use crate::query_scope::parse_together;
use crate::search::SearchHit;

/// Filters of an adjacency matrix.
const FILTERS_MAX: usize = 100;

impl<'a> OneAggregation<'a> {
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
            for place in filter_places(&queries, hit)? {
                parts[place].push(hit);
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
            match name {
                Some(name) => drop(keyed.insert((*name).clone(), Value::Object(bucket))),
                None => listed.push(bucket),
            }
        }
        if let Some(others) = parts.last().filter(|_| has_other) {
            let bucket = self.bucket(Map::new(), others)?;
            match is_named {
                true => drop(keyed.insert(other_key, Value::Object(bucket))),
                false => listed.push(bucket),
            }
        }
        if is_named {
            return Ok(json!({ "buckets": keyed }));
        }
        pipelines::of_buckets(&self.asked.inner, &mut listed, self.scope.names_types)?;
        Ok(json!({ "buckets": listed }))
    }

    pub(super) fn adjacency_matrix(&self) -> Result<Value, Error> {
        let Some(Value::Object(filters)) = self.option("filters") else {
            return Err(Error::Parsing("[adjacency_matrix] needs filters".to_owned()));
        };
        if filters.len() > FILTERS_MAX {
            return Err(Error::IllegalArgument(format!(
                "Number of filters is too large, must be less than or equal to: [{FILTERS_MAX}] but was [{}].",
                filters.len()
            )));
        }
        let separator = self.text_option("separator").unwrap_or_else(|| "&".to_owned());
        let mut sets = Vec::new();
        let mut named: Vec<(&String, &Value)> = filters.iter().collect();
        named.sort_by_key(|(name, _)| *name);
        for (name, filter) in named {
            sets.push((name, self.matching(&query::parse(filter)?)?));
        }
        // A bucket is finished before the documents of the next one are found: all have many together.
        let bucket = |key: &str, hits: &[&SearchHit]| {
            let head = [("key".to_owned(), Value::from(key))].into_iter().collect();
            self.bucket(head, hits)
        };
        let mut found: Vec<(String, Map<String, Value>)> = Vec::new();
        for (at, (name, hits)) in sets.iter().enumerate() {
            if hits.is_empty() {
                continue;
            }
            found.push(((*name).clone(), bucket(name, hits)?));
            let own: HashSet<_> = hits.iter().map(|hit| std::ptr::from_ref(*hit)).collect();
            for (other, hits) in &sets[at + 1..] {
                let mut both = Vec::new();
                self.scope.each(hits, |hit| {
                    if own.contains(&std::ptr::from_ref(hit)) {
                        both.push(hit);
                    }
                    Ok(())
                })?;
                if !both.is_empty() {
                    let key = format!("{name}{separator}{other}");
                    let bucket = bucket(&key, &both)?;
                    found.push((key, bucket));
                }
            }
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(json!({ "buckets": self.listed(found.into_iter().map(|(_, bucket)| bucket).collect())? }))
    }
}

/// Positions of the filters that match a document; the one after the last if none does.
pub(super) fn filter_places(queries: &[SearchQuery], hit: &SearchHit) -> Result<Vec<usize>, Error> {
    let mut places = Vec::new();
    for (place, query) in queries.iter().enumerate() {
        if searched(hit).score(query, &mut Vec::new())?.is_some() {
            places.push(place);
        }
    }
    if places.is_empty() {
        places.push(queries.len());
    }
    Ok(places)
}
