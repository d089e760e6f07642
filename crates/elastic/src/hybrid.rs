//! `hybrid` queries of OpenSearch, and the pipelines of searches whose processors join their scores.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::NamedKind;
use crate::query::text_of;
use crate::rank_fusion::RankFusion;
use crate::request::ElasticParameters;
use crate::service::ElasticService;

/// Queries of a `hybrid`.
const QUERIES_MAX: usize = 5;

/// Documents of each query whose scores are joined, at most.
const DEPTH_MAX: usize = 10_000;

/// Least score of a document that a query finds.
const LEAST: f64 = 0.001;

/// Scores of documents, by index and id.
pub(crate) type DocumentScores = BTreeMap<String, BTreeMap<String, f64>>;

/// Way in which the results of the queries of a `hybrid` are joined.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HybridFusion {
    /// Documents of each query that count; `None`: as many as the page reaches.
    depth: Option<usize>,
    join: HybridJoin,
}

/// Processor that joins the results.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HybridJoin {
    Ranks(RankFusion),
    Scores(ScoreJoin),
}

/// Scores that are normalized by query, and then combined by document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScoreJoin {
    normalization: ScoreNormalization,
    combination: HybridCombination,
    /// Weights of the queries, whose sum is 1; none if they weigh the same.
    weights: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreNormalization {
    MinMax,
    L2,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum HybridCombination {
    Arithmetic,
    Geometric,
    Harmonic,
}

/// Takes the pipeline of a search and its `hybrid` query from its parts. The query is replaced by the clauses
/// of a `bool`, whose results are to be joined.
///
/// # Errors
/// The query or the pipeline is malformed, or the pipeline does not exist.
pub(crate) fn resolve(
    service: &ElasticService,
    body: &mut Map<String, Value>,
    parameters: &ElasticParameters,
) -> Result<Option<HybridFusion>, Error> {
    let named = parameters.get("search_pipeline").map(|name| Value::String(name.to_owned()));
    let join = match named.or_else(|| body.remove("search_pipeline")) {
        None => None,
        Some(Value::String(name)) if name == "_none" => None,
        Some(Value::String(name)) => {
            let entries = service.catalog.read()?;
            let missing = || Error::IllegalArgument(format!("Pipeline {name} is not defined"));
            join_of(entries.named(NamedKind::SearchPipeline, &name).ok_or_else(missing)?)?
        }
        Some(pipeline) => join_of(&pipeline)?,
    };
    body.remove("search_pipeline");
    let single = body.get("query").and_then(Value::as_object).filter(|kinds| kinds.len() == 1);
    let Some(hybrid) = single.and_then(|kinds| kinds.get("hybrid")) else { return Ok(None) };
    let (queries, depth) = parts_of(hybrid)?;
    let join = join.unwrap_or(HybridJoin::Scores(ScoreJoin::DEFAULT));
    if let HybridJoin::Scores(join) = &join {
        join.check(queries.len())?;
    }
    body.insert("query".to_owned(), json!({ "bool": { "should": queries, "minimum_should_match": 1 } }));
    Ok(Some(HybridFusion { depth, join }))
}

/// Queries of a `hybrid`, and the number of documents of each that count.
fn parts_of(hybrid: &Value) -> Result<(Vec<Value>, Option<usize>), Error> {
    let malformed = |reason: &str| Error::Parsing(format!("[hybrid] {reason}"));
    let Value::Object(members) = hybrid else { return Err(malformed("query malformed, no start_object")) };
    let (mut queries, mut filter, mut depth) = (Vec::new(), None, None);
    for (name, value) in members {
        match (name.as_str(), value) {
            ("queries", Value::Array(given)) => queries = given.clone(),
            ("filter", filters) => filter = Some(filters.clone()),
            ("pagination_depth", number) => match number.as_u64() {
                Some(number) if (1..=DEPTH_MAX as u64).contains(&number) => depth = Some(number as usize),
                _ => return Err(malformed(&format!("[pagination_depth] must be from 1 to {DEPTH_MAX}"))),
            },
            (other, _) => return Err(malformed(&format!("query does not support [{other}]"))),
        }
    }
    if queries.is_empty() || queries.len() > QUERIES_MAX {
        return Err(malformed(&format!("needs [queries]: an array of 1 to {QUERIES_MAX} queries")));
    }
    if let Some(filter) = filter {
        let filtered = |query: Value| json!({ "bool": { "must": [query], "filter": filter } });
        queries = queries.into_iter().map(filtered).collect();
    }
    Ok((queries, depth))
}

/// Checks a pipeline of searches.
///
/// # Errors
/// It is malformed, or has a processor that is not supported.
pub(crate) fn check_pipeline(pipeline: &Map<String, Value>) -> Result<(), Error> {
    join_of(&Value::Object(pipeline.clone())).map(|_| ())
}

/// Processor of a pipeline that joins results, if it has one.
fn join_of(pipeline: &Value) -> Result<Option<HybridJoin>, Error> {
    let Value::Object(members) = pipeline else {
        return Err(Error::Parsing("a pipeline of searches is an object".to_owned()));
    };
    let mut join = None;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("description" | "version", _) => {}
            ("request_processors" | "response_processors", Value::Array(all)) if all.is_empty() => {}
            ("phase_results_processors", Value::Array(all)) => {
                for processor in all {
                    if join.is_some() {
                        return Err(Error::unsupported("a second processor of results in a pipeline"));
                    }
                    join = Some(HybridJoin::parse(processor)?);
                }
            }
            (other, _) => return Err(Error::unsupported(&format!("[{other}] of a pipeline of searches"))),
        }
    }
    Ok(join)
}

/// The one kind in an object, with its members.
fn kind_of(value: &Value) -> Result<(&str, &Map<String, Value>), Error> {
    let single = value.as_object().filter(|kinds| kinds.len() == 1);
    match single.and_then(|kinds| kinds.iter().next()) {
        Some((kind, Value::Object(members))) => Ok((kind.as_str(), members)),
        _ => Err(Error::Parsing("a processor is an object of one kind, with its members".to_owned())),
    }
}

/// Name and parameters of a technique.
fn technique_of<'m>(
    members: &'m Map<String, Value>,
    step: &str,
) -> Result<(Option<&'m str>, Map<String, Value>), Error> {
    let none = || Error::Parsing(format!("[{step}] of a processor is an object with a [technique]"));
    let Some(value) = members.get(step) else { return Ok((None, Map::new())) };
    let given = value.as_object().ok_or_else(none)?;
    let known = ["technique", "parameters", "rank_constant"];
    if let Some(unknown) = given.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::unsupported(&format!("[{unknown}] in [{step}] of a processor")));
    }
    let mut parameters = match given.get("parameters") {
        None => Map::new(),
        Some(Value::Object(parameters)) => parameters.clone(),
        Some(_) => return Err(Error::Parsing(format!("[parameters] of [{step}] is an object"))),
    };
    let constant = given.get("rank_constant").map(|constant| ("rank_constant".to_owned(), constant.clone()));
    parameters.extend(constant);
    let technique =
        given.get("technique").map(|technique| technique.as_str().ok_or_else(none)).transpose()?;
    Ok((technique, parameters))
}

impl HybridJoin {
    fn parse(processor: &Value) -> Result<Self, Error> {
        let (kind, members) = kind_of(processor)?;
        let known: &[&str] = match kind {
            "normalization-processor" => {
                &["normalization", "combination", "tag", "description", "ignore_failure"]
            }
            "score-ranker-processor" => &["combination", "tag", "description", "ignore_failure"],
            other => return Err(Error::unsupported(&format!("the processor [{other}] of searches"))),
        };
        if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::unsupported(&format!("[{unknown}] of the processor [{kind}]")));
        }
        let unsupported =
            |technique: &str| Error::unsupported(&format!("[{technique}] of the processor [{kind}]"));
        let (combination, parameters) = technique_of(members, "combination")?;
        if kind == "score-ranker-processor" {
            return match combination {
                Some("rrf") => Ok(HybridJoin::Ranks(RankFusion::parse(&json!({ "rrf": parameters }))?)),
                other => Err(unsupported(other.unwrap_or("combination"))),
            };
        }
        let (normalization, of_normalization) = technique_of(members, "normalization")?;
        // Weights are those of the combination alone.
        let of_combination = parameters.keys().filter(|name| *name != "weights");
        if let Some(unknown) = of_normalization.keys().chain(of_combination).next() {
            return Err(unsupported(unknown));
        }
        Ok(HybridJoin::Scores(ScoreJoin {
            normalization: match normalization {
                None | Some("min_max") => ScoreNormalization::MinMax,
                Some("l2") => ScoreNormalization::L2,
                Some(other) => return Err(unsupported(other)),
            },
            combination: match combination {
                None | Some("arithmetic_mean") => HybridCombination::Arithmetic,
                Some("geometric_mean") => HybridCombination::Geometric,
                Some("harmonic_mean") => HybridCombination::Harmonic,
                Some(other) => return Err(unsupported(other)),
            },
            weights: weights_of(parameters.get("weights"))?,
        }))
    }
}

/// Weights of queries; none without any.
///
/// # Errors
/// One is not from 0 to 1, or their sum is not 1.
fn weights_of(weights: Option<&Value>) -> Result<Vec<f64>, Error> {
    let Some(weights) = weights else { return Ok(Vec::new()) };
    let numbers: Option<Vec<f64>> =
        weights.as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
    let is_part = |weight: &f64| (0.0..=1.0).contains(weight);
    match numbers {
        Some(numbers) if numbers.iter().all(is_part) && (numbers.iter().sum::<f64>() - 1.0).abs() < 0.01 => {
            Ok(numbers)
        }
        _ => Err(Error::IllegalArgument(format!(
            "[weights] are numbers from 0.0 to 1.0 whose sum is 1.0, and not [{}]",
            text_of(weights)
        ))),
    }
}

impl HybridFusion {
    /// Number of the documents of each query that count, for a page that ends after so many.
    pub(crate) fn depth(&self, reach: usize) -> usize {
        self.depth.unwrap_or(reach).clamp(1, DEPTH_MAX)
    }

    /// The processor.
    pub(crate) fn join(&self) -> &HybridJoin {
        &self.join
    }
}

impl ScoreNormalization {
    /// Normalizes the scores of a query. The least one is not 0, which is that of other documents.
    fn apply(self, scores: &mut DocumentScores) {
        let all = || scores.values().flat_map(BTreeMap::values).copied();
        let least = all().fold(f64::INFINITY, f64::min);
        let most = all().fold(f64::NEG_INFINITY, f64::max);
        let length = all().map(|score| score * score).sum::<f64>().sqrt();
        for score in scores.values_mut().flat_map(BTreeMap::values_mut) {
            let normal = match self {
                ScoreNormalization::MinMax if most == least => 1.0,
                ScoreNormalization::MinMax => (*score - least) / (most - least),
                ScoreNormalization::L2 => *score / length,
            };
            *score = if normal > 0.0 { normal } else { LEAST };
        }
    }
}

impl HybridCombination {
    /// Score of a document by those of the queries, each with its weight; 0 where it is not found.
    fn of(self, scores: &[(f64, f64)]) -> f64 {
        let found = || scores.iter().filter(|(score, weight)| *score > 0.0 && *weight > 0.0);
        let weight_of_found = || found().map(|(_, weight)| weight).sum::<f64>();
        let score = match self {
            HybridCombination::Arithmetic => {
                let sum: f64 = scores.iter().map(|(score, weight)| score * weight).sum();
                sum / scores.iter().map(|(_, weight)| weight).sum::<f64>()
            }
            HybridCombination::Geometric => {
                (found().map(|(score, weight)| weight * score.ln()).sum::<f64>() / weight_of_found()).exp()
            }
            HybridCombination::Harmonic => {
                weight_of_found() / found().map(|(score, weight)| weight / score).sum::<f64>()
            }
        };
        if score.is_finite() { score } else { 0.0 }
    }
}

impl ScoreJoin {
    /// The processor of a search that names no other.
    const DEFAULT: ScoreJoin = ScoreJoin {
        normalization: ScoreNormalization::MinMax,
        combination: HybridCombination::Arithmetic,
        weights: Vec::new(),
    };

    /// Checks that each query has a weight, if any has one.
    fn check(&self, queries: usize) -> Result<(), Error> {
        match self.weights.len() {
            0 => Ok(()),
            weights if weights == queries => Ok(()),
            weights => Err(Error::IllegalArgument(format!(
                "number of weights [{weights}] must match number of sub-queries [{queries}] in hybrid query"
            ))),
        }
    }

    /// Joins the scores of the queries.
    pub(crate) fn of(&self, found: Vec<DocumentScores>) -> DocumentScores {
        let count = found.len();
        let mut of_documents: BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>> = BTreeMap::new();
        let empty: Vec<(f64, f64)> =
            (0..count).map(|at| (0.0, self.weights.get(at).copied().unwrap_or(1.0))).collect();
        for (at, mut scores) in found.into_iter().enumerate() {
            self.normalization.apply(&mut scores);
            for (index, documents) in scores {
                let of_index = of_documents.entry(index).or_default();
                for (id, score) in documents {
                    of_index.entry(id).or_insert_with(|| empty.clone())[at].0 = score;
                }
            }
        }
        let joined = of_documents.into_iter().map(|(index, documents)| {
            let documents = documents.into_iter().map(|(id, scores)| (id, self.combination.of(&scores)));
            (index, documents.collect())
        });
        joined.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_normalized_and_combined() {
        let scores = |pairs: &[(&str, f64)]| {
            let documents = pairs.iter().map(|(id, score)| ((*id).to_owned(), *score)).collect();
            DocumentScores::from([("a".to_owned(), documents)])
        };
        let found = || vec![scores(&[("1", 4.0), ("2", 2.0), ("3", 0.0)]), scores(&[("2", 3.0)])];
        for (normalization, combination, weights, expected) in [
            ("min_max", "arithmetic_mean", json!([0.5, 0.5]), [0.5, 0.75, 0.000_5]),
            ("min_max", "arithmetic_mean", json!([0.8, 0.2]), [0.8, 0.6, 0.000_8]),
            ("min_max", "geometric_mean", json!([0.5, 0.5]), [1.0, 0.5_f64.sqrt(), 0.001]),
            ("min_max", "harmonic_mean", json!([0.5, 0.5]), [1.0, 2.0 / 3.0, 0.001]),
            (
                "l2",
                "arithmetic_mean",
                json!([0.5, 0.5]),
                [2.0 / 20_f64.sqrt(), 1.0 / 20_f64.sqrt() + 0.5, 0.000_5],
            ),
        ] {
            let processor = json!({ "normalization-processor": {
                "normalization": { "technique": normalization },
                "combination": { "technique": combination, "parameters": { "weights": weights } },
            } });
            let join = HybridJoin::parse(&processor).expect("the processor is valid");
            let HybridJoin::Scores(join) = join else { panic!("{processor} joins scores") };
            let joined = join.of(found());
            for (id, expected) in ["1", "2", "3"].iter().zip(expected) {
                let score = joined["a"][*id];
                assert!((score - expected).abs() < 1e-9, "{processor} {id}: {score}");
            }
        }
    }
}
