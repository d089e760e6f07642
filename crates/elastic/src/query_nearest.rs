//! `knn` queries: the documents whose vectors are most similar to one.
//!
//! Which documents these are depends on all documents, so a search finds them before its own pass, by a pass
//! over the vectors. Its query then has their scores in the place of the vector.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::evaluation::{SearchedDocument, number_of};
use crate::fields::whole_at;
use crate::hit_scan::{HitScan, HitSink, VisitedDocument};
use crate::hybrid::HybridJoin;
use crate::kept_hits::take;
use crate::mapping::{field_at, type_of};
use crate::query::{BoolQuery, SearchQuery, parse_at, text_of};
use crate::query_scope::{ParseScope, parse_together};
use crate::rank_fusion::RankFusion;
use crate::read_fields::ReadFields;
use crate::request::ElasticParameters;
use crate::scan_limit::ScanProgress;
use crate::search::SearchHit;
use crate::search_request::HitSearch;
use crate::service::ElasticService;
use crate::vector_similarity::{VectorSimilarity, dimensions_of, is_vector, vector_of};

/// Documents that one such query may find.
const COUNT_MAX: usize = 10_000;

/// Such queries in one search: each reads all documents once.
const QUERIES_MAX: usize = 10;

/// A query for the documents whose vectors are most similar to one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NearestQuery {
    pub(crate) field: String,
    vector: Vec<f64>,
    /// Number of documents that it finds; `None`: as many as the page has.
    count: Option<usize>,
    pub(crate) filter: Option<SearchQuery>,
    limit: Option<SimilarityLimit>,
    boost: f64,
    pub(crate) stage: NearestStage,
}

/// Bound of the documents that a query finds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SimilarityLimit {
    Similarity(f64),
    Score(f64),
    Distance(f64),
}

/// Stage of the work on a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NearestStage {
    /// It is as it was asked.
    Asked,
    /// All documents that pass its filter are compared with it.
    Compared,
    /// Scores of the documents that it finds, by index and id.
    Chosen(BTreeMap<String, BTreeMap<String, f64>>),
}

/// Refuses other members than these.
fn check(members: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(Error::unknown(&format!("[knn] query does not support [{unknown}]"))),
        None => Ok(()),
    }
}

impl NearestQuery {
    /// Parses the body of a query, in the form of Elasticsearch, which has the name of its field as a member,
    /// or in that of OpenSearch, whose members are below that name.
    ///
    /// # Errors
    /// A member is missing, malformed or not supported.
    pub(crate) fn parse(body: &Value, scope: ParseScope<'_>) -> Result<Self, Error> {
        let Value::Object(members) = body else {
            return Err(Error::Parsing("[knn] query malformed, no start_object after query name".to_owned()));
        };
        if let Some(Value::String(field)) = members.get("field") {
            const KNOWN: [&str; 10] = [
                "field",
                "query_vector",
                "k",
                "num_candidates",
                "filter",
                "similarity",
                "boost",
                "_name",
                // Estimates of indexes, of which there are none.
                "rescore_vector",
                "visit_percentage",
            ];
            check(members, &KNOWN)?;
            let nearest = NearestQuery::of_members(field, members, "query_vector", scope)?;
            let candidates = count_in(members, "num_candidates")?;
            return match candidates.zip(nearest.count).filter(|(candidates, count)| candidates < count) {
                Some(_) => Err(Error::IllegalArgument("[num_candidates] cannot be less than [k]".to_owned())),
                None => Ok(nearest),
            };
        }
        let mut fields = members.iter().filter(|(name, _)| !["boost", "_name"].contains(&name.as_str()));
        let (Some((field, Value::Object(inner))), None) = (fields.next(), fields.next()) else {
            return Err(Error::Parsing(
                "[knn] query needs the [field] of the vectors and a [query_vector]".to_owned(),
            ));
        };
        check(
            inner,
            &["vector", "k", "filter", "min_score", "max_distance", "boost", "method_parameters", "rescore"],
        )?;
        let mut nearest = NearestQuery::of_members(field, inner, "vector", scope)?;
        nearest.boost = inner.get("boost").map_or(Some(1.0), number_of).ok_or_else(|| number("boost"))?;
        Ok(nearest)
    }

    fn of_members(
        field: &str,
        members: &Map<String, Value>,
        vector: &str,
        scope: ParseScope<'_>,
    ) -> Result<Self, Error> {
        let wanted = members.get(vector).and_then(vector_of).ok_or_else(|| {
            Error::Parsing(format!("[{vector}] of [knn] must be an array of numbers, one at least"))
        })?;
        let scope = scope.deeper()?;
        let filter = match members.get("filter") {
            None => None,
            Some(Value::Array(filters)) => {
                let filter =
                    filters.iter().map(|filter| parse_at(filter, scope)).collect::<Result<_, _>>()?;
                Some(SearchQuery::Bool(BoolQuery { filter, ..BoolQuery::default() }))
            }
            Some(filter) => Some(parse_at(filter, scope)?),
        };
        let bound = |name: &str, of: fn(f64) -> SimilarityLimit| match members.get(name) {
            None => Ok(None),
            Some(value) => number_of(value).map(|bound| Some(of(bound))).ok_or_else(|| number(name)),
        };
        let limits = [
            bound("similarity", SimilarityLimit::Similarity)?,
            bound("min_score", SimilarityLimit::Score)?,
            bound("max_distance", SimilarityLimit::Distance)?,
        ];
        let mut count = count_in(members, "k")?;
        let limit = limits.into_iter().flatten().next();
        if count.is_none() && matches!(limit, Some(SimilarityLimit::Score(_) | SimilarityLimit::Distance(_)))
        {
            // All documents within the bound are wanted.
            count = Some(COUNT_MAX);
        }
        let field = field.to_owned();
        Ok(NearestQuery {
            field,
            vector: wanted,
            count,
            filter,
            limit,
            boost: 1.0,
            stage: NearestStage::Asked,
        })
    }

    /// Checks that an index has vectors in the field, of the length of that of the query.
    ///
    /// # Errors
    /// It has other values, or vectors of another length.
    pub(crate) fn check(&self, index: &OpenIndex) -> Result<(), Error> {
        self.filter.as_ref().map_or(Ok(()), |filter| filter.check_fields(index))?;
        let Some((definition, _)) = field_at(&index.entry.mappings, &self.field) else { return Ok(()) };
        let kind = type_of(definition);
        if !is_vector(kind) {
            return Err(Error::IllegalArgument(format!(
                "[knn] queries are only supported on [dense_vector] and [knn_vector] fields, and [{}] is of type [{kind}]",
                self.field
            )));
        }
        match dimensions_of(definition).filter(|dimensions| *dimensions != self.vector.len()) {
            Some(dimensions) => Err(Error::IllegalArgument(format!(
                "the query vector has a different number of dimensions [{}] than the document vectors [{dimensions}] of [{}]",
                self.vector.len(),
                self.field
            ))),
            None => Ok(()),
        }
    }

    /// Finds the documents of some indexes. `base` is a search for all documents that it may find.
    fn choose(
        &mut self,
        service: &ElasticService,
        indexes: &[OpenIndex],
        base: HitSearch,
    ) -> Result<(), Error> {
        if !indexes.is_empty()
            && indexes.iter().all(|index| field_at(&index.entry.mappings, &self.field).is_none())
        {
            return Err(Error::IllegalArgument(format!(
                "failed to create query: field [{}] does not exist in the mapping",
                self.field
            )));
        }
        let compared = NearestQuery { stage: NearestStage::Compared, ..self.clone() };
        let compared = SearchQuery::Nearest(Box::new(compared));
        let count = self.count.unwrap_or(base.size);
        self.stage = NearestStage::Chosen(best_scores(service, indexes, base, compared, count, None)?);
        Ok(())
    }

    /// A query for some documents with their scores.
    fn of_scores(scores: BTreeMap<String, BTreeMap<String, f64>>) -> Self {
        let (field, vector, stage) = (String::new(), Vec::new(), NearestStage::Chosen(scores));
        NearestQuery { field, vector, count: None, filter: None, limit: None, boost: 1.0, stage }
    }

    /// Bytes of the documents that it found, about.
    fn bytes(&self) -> usize {
        match &self.stage {
            NearestStage::Chosen(scores) => {
                scores.values().flat_map(BTreeMap::keys).map(|id| id.len() + 64).sum::<usize>()
            }
            NearestStage::Asked | NearestStage::Compared => 0,
        }
    }
}

/// Scores of the documents that a query finds among those of a search, `count` at most: the highest ones, or
/// those of their ranks.
fn best_scores(
    service: &ElasticService,
    indexes: &[OpenIndex],
    mut base: HitSearch,
    query: SearchQuery,
    count: usize,
    fusion: Option<RankFusion>,
) -> Result<BTreeMap<String, BTreeMap<String, f64>>, Error> {
    let filter = vec![std::mem::replace(&mut base.query, SearchQuery::All)];
    base.query = SearchQuery::Bool(BoolQuery { must: vec![query], filter, ..BoolQuery::default() });
    let memory = service.node.query_memory();
    take(&memory, base.pattern_bytes())?;
    let mut sink = NearestSink { count, memory: &memory, seq_no_end: i64::MAX, documents: Vec::new() };
    let mut progress = ScanProgress::begin(&base.limit, &service.gone);
    let (query, request) = (&base.query, &base);
    let scan = HitScan {
        service,
        query,
        minimum_score: None,
        request,
        after: None,
        sees_hidden: false,
        is_backwards: false,
    };
    for (ordinal, index) in indexes.iter().enumerate() {
        sink.seq_no_end = base.seq_nos_end.as_ref().map_or(i64::MAX, |ends| ends[ordinal]);
        scan.visit(ordinal, index, &mut progress, &mut sink)?;
    }
    if progress.is_timed_out {
        return Err(Error::Timeout(
            "the documents were not compared within the time of a search; narrow the [filter] of [knn]"
                .to_owned(),
        ));
    }
    sink.prune();
    let mut documents = sink.documents;
    if let Some(fusion) = fusion {
        documents.sort_by(NearDocument::order);
        for (rank, document) in documents.iter_mut().enumerate() {
            document.score = fusion.score(rank);
        }
    }
    let mut scores: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for NearDocument { ordinal, id, score, .. } in documents {
        scores.entry(indexes[ordinal].entry.name.clone()).or_default().insert(id, score);
    }
    Ok(scores)
}

/// A document with its score.
struct NearDocument {
    score: f64,
    /// Position of the index among those that are visited.
    ordinal: usize,
    seq_no: i64,
    id: String,
}

impl NearDocument {
    /// Order of two: the more similar one comes first, and of equal ones that which was written first.
    fn order(&self, other: &NearDocument) -> Ordering {
        let place = |of: &NearDocument| (of.ordinal, of.seq_no);
        other.score.total_cmp(&self.score).then_with(|| place(self).cmp(&place(other)))
    }

    /// Bytes that it takes, about.
    fn bytes(&self) -> usize {
        size_of::<NearDocument>() + self.id.len()
    }
}

/// Collects the documents with the highest scores: of each its id alone, however long its vector is.
struct NearestSink<'s> {
    count: usize,
    memory: &'s QueryMemory,
    /// Sequence number of the first write that does not count in the index that is visited.
    seq_no_end: i64,
    documents: Vec<NearDocument>,
}

impl NearestSink<'_> {
    /// Drops the documents behind the first `count`.
    fn prune(&mut self) {
        if self.documents.len() > self.count {
            self.documents.select_nth_unstable_by(self.count, NearDocument::order);
            let dropped = self.documents.drain(self.count..).map(|document| document.bytes()).sum();
            self.memory.give_back(dropped);
        }
    }
}

impl HitSink for NearestSink<'_> {
    fn add(&mut self, hit: SearchHit, _: VisitedDocument<'_>) -> Result<ControlFlow<()>, Error> {
        let SearchHit { stored, ordinal, score, .. } = hit;
        if stored.seq_no < self.seq_no_end {
            let document = NearDocument { score, ordinal, seq_no: stored.seq_no, id: stored.id };
            take(self.memory, document.bytes())?;
            self.documents.push(document);
        }
        // Dropping the others takes as long as a visit of all, so it is done seldom.
        if self.documents.len() >= self.count.saturating_add(COUNT_MAX) {
            self.prune();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fields(&self, _: &OpenIndex) -> ReadFields {
        ReadFields::NONE
    }
}

fn number(name: &str) -> Error {
    Error::Parsing(format!("[{name}] of [knn] must be a number"))
}

/// A number of documents among the members of a query.
fn count_in(members: &Map<String, Value>, name: &str) -> Result<Option<usize>, Error> {
    let Some(value) = members.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    match text_of(value).parse() {
        Ok(count @ 1..=COUNT_MAX) => Ok(Some(count)),
        _ => Err(Error::IllegalArgument(format!(
            "[{name}] of [knn] must be from 1 to {COUNT_MAX}, and is [{}]",
            text_of(value)
        ))),
    }
}

fn too_many() -> Error {
    Error::IllegalArgument(format!("a search may have {QUERIES_MAX} queries of the kind [knn]"))
}

/// Query of a search whose body has `knn` beside its query: what one of them finds.
///
/// # Errors
/// A `knn` is malformed, or there are too many.
pub(crate) fn beside(query: Option<SearchQuery>, nearest: &Value) -> Result<SearchQuery, Error> {
    let nearest = match nearest {
        Value::Array(several) => several.as_slice(),
        single => std::slice::from_ref(single),
    };
    if nearest.len() > QUERIES_MAX {
        return Err(too_many());
    }
    let nearest: Vec<Value> = nearest.iter().map(|one| json!({ "knn": one })).collect();
    let mut should: Vec<SearchQuery> = query.into_iter().chain(parse_together(&nearest)?).collect();
    if should.len() == 1 {
        return Ok(should.remove(0));
    }
    Ok(SearchQuery::Bool(BoolQuery { should, ..BoolQuery::default() }))
}

/// Finds the documents of each `knn` of a search. `restrict` restricts a search to what the request may find.
///
/// # Errors
/// A query does not fit the indexes, or there are too many.
pub(crate) fn choose_all(
    service: &ElasticService,
    indexes: &[OpenIndex],
    request: &mut HitSearch,
    restrict: &dyn Fn(&mut HitSearch) -> Result<(), Error>,
) -> Result<(), Error> {
    let (size, routing, seq_nos_end) =
        (request.size.max(1), request.routing.clone(), request.seq_nos_end.clone());
    let base_of = || -> Result<HitSearch, Error> {
        let mut base = HitSearch::parse(&Map::new(), &ElasticParameters::default(), false)?;
        (base.size, base.routing, base.seq_nos_end) = (size, routing.clone(), seq_nos_end.clone());
        restrict(&mut base)?;
        Ok(base)
    };
    let (mut left, mut bytes) = (QUERIES_MAX, 0);
    let mut choose = |nearest: &mut NearestQuery| -> Result<(), Error> {
        left = left.checked_sub(1).ok_or_else(too_many)?;
        nearest.choose(service, indexes, base_of()?)?;
        bytes += nearest.bytes();
        Ok(())
    };
    each_nearest(&mut request.query, &mut choose)?;
    for query in request.post_filter.iter_mut().chain(request.rescoring.iter_mut().map(|one| &mut one.query))
    {
        each_nearest(query, &mut choose)?;
    }
    if let (Some(fusion), SearchQuery::Bool(joined)) = (request.fusion, &mut request.query) {
        let window = fusion.window(request.size)?;
        for query in std::mem::take(&mut joined.should) {
            let scores = best_scores(service, indexes, base_of()?, query.clone(), window, Some(fusion))?;
            let ranked = NearestQuery::of_scores(scores);
            bytes += ranked.bytes();
            joined.should.push(SearchQuery::Nearest(Box::new(ranked)));
            // Documents behind the first ones are found as well, without a part of the score.
            joined.should.push(SearchQuery::Named { query: Box::new(query), boost: 0.0, name: None });
        }
    }
    if let (Some(hybrid), SearchQuery::Bool(joined)) = (&request.hybrid, &mut request.query) {
        let depth = hybrid.depth(request.from.saturating_add(request.size));
        let queries = std::mem::take(&mut joined.should);
        let fusion = match hybrid.join() {
            HybridJoin::Ranks(fusion) => Some(*fusion),
            HybridJoin::Scores(_) => None,
        };
        let found = queries
            .iter()
            .map(|query| best_scores(service, indexes, base_of()?, query.clone(), depth, fusion));
        let found = found.collect::<Result<Vec<_>, Error>>()?;
        let ranked = match hybrid.join() {
            HybridJoin::Ranks(_) => found,
            HybridJoin::Scores(join) => vec![join.of(found)],
        };
        for scores in ranked {
            let ranked = NearestQuery::of_scores(scores);
            bytes += ranked.bytes();
            joined.should.push(SearchQuery::Nearest(Box::new(ranked)));
        }
        // Documents behind the first ones are found as well, without a part of the score.
        let others = queries.into_iter();
        let others =
            others.map(|query| SearchQuery::Named { query: Box::new(query), boost: 0.0, name: None });
        joined.should.extend(others);
    }
    request.bytes += bytes;
    Ok(())
}

/// Visits the `knn` queries in another one.
fn each_nearest(
    query: &mut SearchQuery,
    visit: &mut dyn FnMut(&mut NearestQuery) -> Result<(), Error>,
) -> Result<(), Error> {
    match query {
        SearchQuery::Nearest(nearest) => visit(nearest),
        SearchQuery::Bool(BoolQuery { must, filter, should, must_not, .. }) => {
            for clauses in [must, filter, should, must_not] {
                clauses.iter_mut().try_for_each(|query| each_nearest(query, visit))?;
            }
            Ok(())
        }
        SearchQuery::Best { queries, .. } => {
            queries.iter_mut().try_for_each(|query| each_nearest(query, visit))
        }
        SearchQuery::Constant(query, _) | SearchQuery::Named { query, .. } => each_nearest(query, visit),
        SearchQuery::Functions(functions) => each_nearest(&mut functions.query, visit),
        _ => Ok(()),
    }
}

impl SearchedDocument<'_> {
    /// Score of the document by its vector; `None` if it has none, or others are more similar.
    ///
    /// # Errors
    /// The query stands where its documents are not found before.
    pub(crate) fn score_nearest(&self, query: &NearestQuery) -> Result<Option<f64>, Error> {
        match &query.stage {
            NearestStage::Asked => Err(Error::unsupported(
                "[knn] in an aggregation, in [nested] with others or [inner_hits], or in a request other than a search",
            )),
            NearestStage::Chosen(scores) => {
                Ok(scores.get(self.index).and_then(|of_index| of_index.get(self.id)).copied())
            }
            NearestStage::Compared => self.compared(query),
        }
    }

    fn compared(&self, query: &NearestQuery) -> Result<Option<f64>, Error> {
        if let Some(filter) = &query.filter
            && self.score(filter, &mut Vec::new())?.is_none()
        {
            return Ok(None);
        }
        let Some((definition, source_path)) = self.field(&query.field) else { return Ok(None) };
        let similarity = VectorSimilarity::of_field(&definition);
        let mut best: Option<f64> = None;
        whole_at(self.source, &source_path, &mut |value| {
            let vector = vector_of(value).filter(|vector| vector.len() == query.vector.len());
            let score = vector.map(|vector| similarity.score(&query.vector, &vector));
            best = best.into_iter().chain(score.filter(|score| score.is_finite())).reduce(f64::max);
        });
        let least = match query.limit {
            None => f64::NEG_INFINITY,
            Some(SimilarityLimit::Score(score)) => score,
            Some(SimilarityLimit::Similarity(bound)) => {
                similarity.score_at_similarity(bound, query.vector.len())
            }
            Some(SimilarityLimit::Distance(bound)) => similarity.score_at_distance(bound),
        };
        Ok(best.filter(|score| *score >= least).map(|score| score * query.boost))
    }
}
