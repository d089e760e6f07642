//! Aggregations of the matching documents: buckets, figures of them, and figures of buckets.
//!
//! A request is read as a whole before any document is: [`RequestedAggregation`]. Each kind of bucket then
//! divides its documents and runs what is asked inside on each part. Pipelines run last, on finished buckets.

mod automatic;
mod bucket_formulas;
mod bucket_hits;
mod composite;
mod filters;
mod histograms;
mod metrics;
mod options;
mod pipelines;
mod ranges;
mod reading;
mod samples;
mod significant;
mod streamed;
mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::cell::Cell;
use std::collections::HashSet;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use self::pipelines::PipelineKind;
use self::reading::queried_fields;
pub(crate) use self::streamed::StreamedAggregations;
use self::values::{AggregatedValue, FieldSource};
use crate::Error;
use crate::catalog::OpenIndex;
use crate::hit_form::InnerHits;
use crate::hit_scan::searched;
use crate::kept_hits::{bytes_inside, members_bytes, take};
use crate::nested;
use crate::query::{self, SearchQuery};
use crate::read_fields::ReadFields;
use crate::scan_limit::SearchPace;
use crate::search::SearchHit;

/// Buckets that the aggregations of one search may have, without a setting.
pub(crate) const BUCKETS_MAX: usize = 65_535;

/// Depth of aggregations in aggregations.
const DEPTH_MAX: usize = 20;

/// Hits in one bucket.
const TOP_HITS_MAX: usize = 100;

/// Bytes of a figure or of the key of a bucket that the memory for what was collected covers.
const COLLECTED_BYTES: usize = 400;

/// An aggregation as it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct RequestedAggregation {
    name: String,
    kind: String,
    options: Map<String, Value>,
    /// Fields that its queries read, by their names.
    queried: ReadFields,
    inner: Vec<RequestedAggregation>,
    meta: Option<Value>,
}

/// Parses the aggregations of a search.
///
/// # Errors
/// One is malformed, or of a kind that there is not.
pub(crate) fn parse(value: &Value) -> Result<Vec<RequestedAggregation>, Error> {
    parse_inside(value, &[])
}

fn parse_inside(value: &Value, around: &[&str]) -> Result<Vec<RequestedAggregation>, Error> {
    let Value::Object(members) = value else {
        return Err(Error::Parsing("[aggregations] must be an object".to_owned()));
    };
    if around.len() > DEPTH_MAX {
        return Err(Error::IllegalArgument(format!("aggregations may be nested {DEPTH_MAX} deep at most")));
    }
    let requested = members.iter().map(|(name, body)| RequestedAggregation::parse(name, body, around));
    let requested: Vec<RequestedAggregation> = requested.collect::<Result<_, _>>()?;
    for one in &requested {
        pipelines::check(one, &requested, around)?;
    }
    Ok(requested)
}

impl RequestedAggregation {
    fn parse(name: &str, body: &Value, around: &[&str]) -> Result<Self, Error> {
        let Value::Object(body) = body else {
            return Err(Error::Parsing(format!("[{name}] an aggregation is an object")));
        };
        if name.is_empty() || name.contains(['[', ']', '>']) {
            return Err(Error::Parsing(format!(
                "Invalid aggregation name [{name}]. Aggregation names can contain any character except '[', ']', and '>'"
            )));
        }
        let is_other = |kind: &str| ["aggs", "aggregations", "meta"].contains(&kind);
        let mut kinds = body.iter().filter(|(kind, _)| !is_other(kind));
        let (Some((kind, options)), None) = (kinds.next(), kinds.next()) else {
            return Err(Error::Parsing(format!(
                "Expected [START_OBJECT] under [{name}] with one type of aggregation"
            )));
        };
        let Value::Object(options) = options else {
            return Err(Error::Parsing(format!("[{kind}] of [{name}] must be an object")));
        };
        if kind != "filter" {
            options::check(kind, options)?;
        }
        let queried = queried_fields(kind, options)?;
        // Those around it may choose documents, but not divide them.
        let divides = |around: &&&str| !["nested", "reverse_nested", "filter"].contains(*around);
        if let Some(parent) = around.iter().rev().find(divides).filter(|_| kind == "composite") {
            return Err(Error::IllegalArgument(format!(
                "[composite] aggregation cannot be used with a parent aggregation of type: [{parent}]"
            )));
        }
        if kind == "reverse_nested" && !around.contains(&"nested") {
            return Err(Error::IllegalArgument(format!(
                "Reverse nested aggregation [{name}] can only be used inside a [nested] aggregation"
            )));
        }
        if kind == "global" && !around.is_empty() {
            return Err(Error::IllegalArgument(format!(
                "Aggregator [{name}] of type [global] cannot be used as sub-aggregation"
            )));
        }
        metrics::check(name, kind, options)?;
        let inner = match body.get("aggs").or_else(|| body.get("aggregations")) {
            Some(inner) => parse_inside(inner, &[around, &[kind.as_str()]].concat())?,
            None => Vec::new(),
        };
        if !inner.is_empty() && (metrics::is_metric(kind) || PipelineKind::of(kind).is_some()) {
            return Err(Error::IllegalArgument(format!(
                "Aggregator [{name}] of type [{kind}] cannot accept sub-aggregations"
            )));
        }
        let meta = body.get("meta").cloned();
        Ok(RequestedAggregation {
            name: name.to_owned(),
            kind: kind.clone(),
            options: options.clone(),
            queried,
            inner,
            meta,
        })
    }

    /// Bytes of its name and its metadata.
    fn text_bytes(&self) -> usize {
        self.name.len() + self.meta.as_ref().map_or(0, bytes_inside)
    }

    /// True if the aggregation reads documents that the query does not match.
    pub(crate) fn reads_everything(&self) -> bool {
        let has_empty = self.options.get("min_doc_count").is_some_and(|least| query::text_of(least) == "0");
        self.kind == "global"
            || self.kind.starts_with("significant_")
            || self.kind == "terms" && has_empty
            || self.inner.iter().any(RequestedAggregation::reads_everything)
    }

    /// True if the aggregation, or one inside, chooses or divides nested objects once all are known, and
    /// then asks for their documents.
    fn divides_roots_late(&self) -> bool {
        match self.kind.as_str() {
            "sampler" | "auto_date_histogram" => self.asks_for_roots(),
            // Those inside have whole documents again.
            "reverse_nested" => false,
            _ => self.inner.iter().any(RequestedAggregation::divides_roots_late),
        }
    }

    /// True if an aggregation inside asks for the documents of nested objects.
    fn asks_for_roots(&self) -> bool {
        let asks = |one: &RequestedAggregation| one.kind == "reverse_nested" || one.asks_for_roots();
        self.inner.iter().any(asks)
    }
}

/// The documents of a search, and the buckets that are made of them.
#[derive(Clone)]
pub(crate) struct AggregationScope<'s> {
    pub(crate) indexes: &'s [OpenIndex],
    /// Query of the search, whose words are shown in hits.
    pub(crate) query: &'s SearchQuery,
    pub(crate) matching: &'s [&'s SearchHit],
    /// All documents of the indexes, if an aggregation reads them.
    pub(crate) everything: &'s [&'s SearchHit],
    pub(crate) names_types: bool,
    pub(crate) total_as_number: bool,
    pub(crate) buckets: Cell<usize>,
    pub(crate) buckets_max: usize,
    /// Time that the work on the documents has.
    pub(crate) pace: &'s SearchPace<'s>,
    /// Memory of the search, of which the answer takes some while it is made.
    pub(crate) memory: &'s QueryMemory,
}

impl AggregationScope<'_> {
    /// Runs aggregations over documents.
    ///
    /// # Errors
    /// An option has a value that is not possible, or there are too many buckets.
    pub(crate) fn run(
        &self,
        requested: &[RequestedAggregation],
        hits: &[&SearchHit],
    ) -> Result<Map<String, Value>, Error> {
        let mut answer = Map::new();
        for one in requested.iter().filter(|one| PipelineKind::of(&one.kind).is_none()) {
            let (kind, value) = BucketAggregation { requested: one, scope: self, hits }.run()?;
            self.add(&mut answer, one, kind, value)?;
        }
        self.add_siblings(&mut answer, requested)?;
        Ok(answer)
    }

    /// Adds the pipelines that stand beside finished aggregations.
    fn add_siblings(
        &self,
        answer: &mut Map<String, Value>,
        requested: &[RequestedAggregation],
    ) -> Result<(), Error> {
        for one in requested {
            if let Some(PipelineKind::OfSiblings) = PipelineKind::of(&one.kind) {
                let (kind, value) = pipelines::of_siblings(one, requested, answer)?;
                self.add(answer, one, kind, value)?;
            }
        }
        Ok(())
    }

    /// Adds a finished aggregation to an answer. Memory is taken for its name and its metadata, which every
    /// bucket around it has, and for figures.
    fn add(
        &self,
        answer: &mut Map<String, Value>,
        requested: &RequestedAggregation,
        kind: &str,
        mut value: Value,
    ) -> Result<(), Error> {
        // Buckets, and what is inside of one, have taken theirs.
        let is_figure = requested.inner.is_empty() && value.get("buckets").is_none();
        let own = if is_figure { bytes_inside(&value).saturating_sub(COLLECTED_BYTES) } else { 0 };
        take(self.memory, requested.text_bytes() + own)?;
        if let Some(meta) = &requested.meta {
            value["meta"] = meta.clone();
        }
        let name =
            if self.names_types { format!("{kind}#{}", requested.name) } else { requested.name.clone() };
        answer.insert(name, value);
        Ok(())
    }

    /// Hands documents over one by one, until the time of the search is over: the others do not count then.
    fn each<'h>(
        &self,
        hits: &[&'h SearchHit],
        mut take: impl FnMut(&'h SearchHit) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for hit in hits {
            if self.pace.next()?.is_break() {
                break;
            }
            take(hit)?;
        }
        Ok(())
    }

    /// Counts buckets that are about to be made.
    fn count(&self, buckets: usize) -> Result<(), Error> {
        // After the end of the time, too, there is an answer with the buckets that were found.
        let _ = self.pace.next()?;
        let buckets_max = self.buckets_max;
        let count = self.buckets.get().saturating_add(buckets);
        self.buckets.set(count);
        match count > buckets_max {
            true => Err(Error::IllegalArgument(format!(
                "Trying to create too many buckets. Must be less than or equal to: [{buckets_max}] but was [{count}]. This limit can \
                 be set by changing the [search.max_buckets] cluster level setting."
            ))),
            false => Ok(()),
        }
    }
}

/// Documents of a bucket: those themselves, or what was collected of them.
trait BucketContent {
    /// Number of the documents.
    fn documents(&self) -> usize;

    /// Answer of what is asked inside of the bucket.
    fn inside(
        &self,
        requested: &[RequestedAggregation],
        scope: &AggregationScope<'_>,
    ) -> Result<Map<String, Value>, Error>;
}

impl BucketContent for [&SearchHit] {
    fn documents(&self) -> usize {
        self.len()
    }

    fn inside(
        &self,
        requested: &[RequestedAggregation],
        scope: &AggregationScope<'_>,
    ) -> Result<Map<String, Value>, Error> {
        scope.run(requested, self)
    }
}

impl BucketContent for Vec<&SearchHit> {
    fn documents(&self) -> usize {
        self.len()
    }

    fn inside(
        &self,
        requested: &[RequestedAggregation],
        scope: &AggregationScope<'_>,
    ) -> Result<Map<String, Value>, Error> {
        scope.run(requested, self)
    }
}

/// An aggregation over the documents of one bucket.
struct BucketAggregation<'a> {
    requested: &'a RequestedAggregation,
    scope: &'a AggregationScope<'a>,
    hits: &'a [&'a SearchHit],
}

impl<'a> BucketAggregation<'a> {
    fn run(&self) -> Result<(&'static str, Value), Error> {
        match self.requested.kind.as_str() {
            "terms" => self.terms(),
            "rare_terms" => self.rare_terms(),
            "multi_terms" => self.multi_terms(),
            "significant_terms" | "significant_text" => self.significant(),
            "date_histogram" => Ok(("date_histogram", self.date_histogram()?)),
            "histogram" => Ok(("histogram", self.histogram()?)),
            "auto_date_histogram" => Ok(("auto_date_histogram", self.auto_date_histogram()?)),
            "composite" => Ok(("composite", self.composite()?)),
            "range" => Ok(("range", self.ranges()?)),
            "date_range" => Ok(("date_range", self.ranges()?)),
            "ip_range" => Ok(("ip_range", self.ranges()?)),
            "filter" => {
                let filter = query::parse(&Value::Object(self.requested.options.clone()))?;
                self.single("filter", &self.matching(&filter)?)
            }
            "filters" => Ok(("filters", self.filters()?)),
            "adjacency_matrix" => Ok(("adjacency_matrix", self.adjacency_matrix()?)),
            "missing" => {
                let source = self.source()?;
                self.single("missing", &self.chosen(|hit| Ok(source.all(hit).is_empty()))?)
            }
            "nested" => {
                let path = self.nested_path()?;
                let mut parts: Vec<SearchHit> = Vec::new();
                self.each(|hit| {
                    parts.extend(nested::part_hits(hit, &path));
                    Ok(())
                })?;
                self.single("nested", &parts.iter().collect::<Vec<_>>())
            }
            "reverse_nested" => {
                let key = |hit: &SearchHit| (hit.index.entry.name.clone(), hit.stored.id.clone());
                let mut wanted = HashSet::new();
                self.each(|hit| {
                    wanted.insert(key(hit));
                    Ok(())
                })?;
                let mut roots = Vec::new();
                // Inside of `global`, the query does not match all of them.
                for hits in [self.scope.matching, self.scope.everything] {
                    self.scope.each(hits, |hit| {
                        if wanted.remove(&key(hit)) {
                            roots.push(hit);
                        }
                        Ok(())
                    })?;
                }
                self.single("reverse_nested", &roots)
            }
            "global" => self.single("global", self.scope.everything),
            "sampler" => {
                let mut best = self.chosen(|_| Ok(true))?;
                best.sort_by(|left, right| samples::best_first(left, right));
                best.truncate(self.count_of("shard_size", 100)?);
                self.single("sampler", &best)
            }
            "top_hits" | "top_metrics" => {
                let hits = self.chosen(|_| Ok(true))?;
                let page = self.top_hits()?.of(&hits, self.scope.total_as_number, self.scope.query)?;
                Ok(self.top_answer(page))
            }
            _ => self.metric(),
        }
    }

    /// Page of the first hits of a bucket.
    fn top_hits(&self) -> Result<InnerHits, Error> {
        let inner = match self.requested.kind.as_str() {
            "top_metrics" => InnerHits::parse(&bucket_hits::page_of_metrics(&self.requested.options))?,
            _ => InnerHits::parse(&self.requested.options)?,
        };
        match inner.reach() > TOP_HITS_MAX {
            true => Err(Error::IllegalArgument(format!(
                "Top hits result window is too large, the top hits aggregator [{}]'s from + size must be less than or equal to: \
                 [{TOP_HITS_MAX}] but was [{}].",
                self.requested.name,
                inner.reach()
            ))),
            false => Ok(inner),
        }
    }

    /// Answer with the first hits of a bucket, or with some values of them.
    fn top_answer(&self, page: Value) -> (&'static str, Value) {
        match self.requested.kind.as_str() {
            "top_metrics" => ("top_metrics", bucket_hits::metrics_of(&self.requested.options, &page)),
            _ => ("top_hits", json!({ "hits": page })),
        }
    }

    /// Path of nested objects.
    fn nested_path(&self) -> Result<String, Error> {
        self.text_option("path").ok_or_else(|| {
            Error::IllegalArgument(format!("[nested] of [{}] needs a [path]", self.requested.name))
        })
    }

    /// An option; none if it is null.
    fn option(&self, name: &str) -> Option<&'a Value> {
        self.requested.options.get(name).filter(|value| !value.is_null())
    }

    /// An option that is a text, or has one.
    fn text_option(&self, name: &str) -> Option<String> {
        self.option(name).map(query::text_of)
    }

    /// An option that is true or false.
    fn flag(&self, name: &str) -> bool {
        matches!(self.text_option(name).as_deref(), Some("true"))
    }

    /// An option that is a count.
    fn count_of(&self, name: &str, otherwise: usize) -> Result<usize, Error> {
        match self.option(name) {
            None => Ok(otherwise),
            Some(value) => query::text_of(value).parse::<usize>().map_err(|_| {
                Error::IllegalArgument(format!(
                    "[{name}] must be a whole number that is not negative. Found [{}] in [{}]",
                    query::text_of(value),
                    self.requested.name
                ))
            }),
        }
    }

    /// An option that is a number.
    fn number_of(&self, name: &str, otherwise: f64) -> Result<f64, Error> {
        match self.option(name) {
            None => Ok(otherwise),
            Some(value) => crate::evaluation::number_of(value).ok_or_else(|| {
                Error::IllegalArgument(format!("[{name}] of [{}] must be a number", self.requested.name))
            }),
        }
    }

    fn source(&self) -> Result<FieldSource, Error> {
        FieldSource::new(&self.requested.kind, &self.requested.options, self.scope.indexes)
    }

    fn matching(&self, filter: &SearchQuery) -> Result<Vec<&'a SearchHit>, Error> {
        self.chosen(|hit| Ok(searched(hit).score(filter, &mut Vec::new())?.is_some()))
    }

    /// Hands the documents over one by one, as long as there is time.
    fn each(&self, take: impl FnMut(&'a SearchHit) -> Result<(), Error>) -> Result<(), Error> {
        self.scope.each(self.hits, take)
    }

    /// Documents that are wanted, as long as there is time.
    fn chosen(
        &self,
        mut is_wanted: impl FnMut(&SearchHit) -> Result<bool, Error>,
    ) -> Result<Vec<&'a SearchHit>, Error> {
        let mut chosen = Vec::new();
        self.each(|hit| {
            if is_wanted(hit)? {
                chosen.push(hit);
            }
            Ok(())
        })?;
        Ok(chosen)
    }

    /// A bucket with what is asked inside.
    fn bucket(
        &self,
        head: Map<String, Value>,
        content: &(impl BucketContent + ?Sized),
    ) -> Result<Map<String, Value>, Error> {
        self.scope.count(1)?;
        take(self.scope.memory, members_bytes(&head).saturating_sub(COLLECTED_BYTES))?;
        let mut bucket = head;
        bucket.insert("doc_count".to_owned(), content.documents().into());
        bucket.extend(content.inside(&self.requested.inner, self.scope)?);
        Ok(bucket)
    }

    /// Answer of an aggregation with one bucket.
    fn single(
        &self,
        kind: &'static str,
        content: &(impl BucketContent + ?Sized),
    ) -> Result<(&'static str, Value), Error> {
        let mut bucket = Map::new();
        bucket.insert("doc_count".to_owned(), content.documents().into());
        bucket.extend(content.inside(&self.requested.inner, self.scope)?);
        Ok((kind, Value::Object(bucket)))
    }

    /// Key of a bucket, and its text where it has one.
    fn head(source: &FieldSource, key: &AggregatedValue) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("key".to_owned(), key.json());
        head.extend(source.text(key).map(|text| ("key_as_string".to_owned(), text.into())));
        head
    }

    /// Buckets as a list, after the pipelines inside; by their keys if the request says `keyed`.
    fn listed(&self, mut buckets: Vec<Map<String, Value>>) -> Result<Value, Error> {
        pipelines::of_buckets(&self.requested.inner, &mut buckets, self.scope)?;
        if !self.flag("keyed") {
            return Ok(buckets.into_iter().map(Value::Object).collect());
        }
        let named = buckets.into_iter().map(|mut bucket| {
            let is_named = ["histogram", "date_histogram"].contains(&self.requested.kind.as_str());
            let key = match is_named {
                true => bucket.get("key_as_string").or(bucket.get("key")).map(query::text_of),
                false => bucket.remove("key").as_ref().map(query::text_of),
            };
            (key.unwrap_or_default(), Value::Object(bucket))
        });
        Ok(Value::Object(named.collect()))
    }
}
