use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use millrace_column::View;
use millrace_expression::FeatureName;
use millrace_matching::{ChunkMatches, MatchedDocuments, RankingDemands};
use millrace_plan::Plan;
use millrace_schema::{Schema, SourcedText};

use crate::Error;
use crate::best::TopHits;
use crate::compile::{CompiledExpression, ProfileCompiler, first_phase_expression};
use crate::diversity::HitDiversity;
use crate::features::{AllHitsValues, RankFeature};
use crate::global::HitNormalizer;
use crate::later::GlobalHitValues;
use crate::onnx::{ModelOutputs, ModelSource, ModelStep, NoModels};
use crate::returned_features::{ReturnedFeature, compile_returned};
use crate::stage::{BoundPrograms, StageInput};

/// Default number of hits that the second phase, and the global phase, rank again.
const RERANK_COUNT: usize = 100;

/// Number of chunks per model run in the first phase.
const CHUNKS_PER_MODEL_RUN: usize = 16;

/// A rank profile of a schema as programs over features. A deployment compiles it, and all requests share it:
/// what can fail, has failed then.
pub struct CompiledProfile {
    name: String,
    /// Features used by the programs, each once.
    pub(crate) features: Vec<(FeatureName, Box<dyn RankFeature>)>,
    /// Names of the fields that are filters.
    pub(crate) filters: BTreeSet<String>,
    /// Models behind some of the features.
    pub(crate) models: Vec<ModelStep>,
    pub(crate) first: CompiledPhase,
    pub(crate) second: Option<CompiledPhase>,
    /// Selection of second-phase hits beside their scores.
    pub(crate) diversity: Option<HitDiversity>,
    pub(crate) global: Option<CompiledPhase>,
    /// Numbers that the global phase normalizes.
    pub(crate) normalizers: Vec<HitNormalizer>,
    pub(crate) match_features: Vec<ReturnedFeature>,
    pub(crate) summary_features: Vec<ReturnedFeature>,
    pub(crate) rank_features: Vec<ReturnedFeature>,
}

pub(crate) struct CompiledPhase {
    pub score: CompiledExpression,
    /// Hits whose score does not exceed this limit are dropped.
    pub drop_limit: Option<f64>,
    /// Number of hits that a later phase ranks again.
    pub rerank_count: usize,
}

/// Features that read no fields but those of conditions, and those that their parameters name.
const NAMING_FEATURES: [&str; 8] = [
    "attribute",
    "firstPhase",
    "nativeAttributeMatch",
    "nativeFieldMatch",
    "nativeProximity",
    "nativeRank",
    "now",
    "query",
];

/// The best matches after the first phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BestHits {
    /// Hits in descending score order; of equal scores, in view order.
    pub hits: Vec<RankedHit>,
    /// Number of matched documents that the first phase's score limit did not drop.
    pub total: u64,
    /// Highest score, if a later phase may use it.
    pub max: Option<f64>,
    /// True if ranking was stopped before all matches had a score.
    pub timed_out: bool,
}

/// The query and the documents that a profile ranks.
#[derive(Clone, Copy)]
pub struct RankedDocuments<'q> {
    /// The query.
    pub plan: &'q Plan,
    /// The documents in scope.
    pub view: &'q dyn View,
    /// The matched documents.
    pub matches: &'q MatchedDocuments,
}

/// The best matches after all phases.
#[derive(Debug, Default)]
pub struct RankOutcome {
    /// Hits in descending score order; of equal scores, in view order.
    pub hits: Vec<RankedHit>,
    /// Number of matched documents that the score limits of the phases did not drop.
    pub total: u64,
    /// True if ranking was stopped before all matches had a score.
    pub timed_out: bool,
    /// First-phase ranks and the highest score of the first phase, for the features shown with hits.
    pub known: GlobalHitValues,
}

/// First-phase scores of all matched documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FirstPhase {
    /// Scores of the matched documents of each chunk, in the order of [`MatchedDocuments::chunks`].
    pub scores: Vec<Vec<f64>>,
    /// True if the phase was stopped; the last chunks then have no scores.
    pub timed_out: bool,
}

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedHit {
    /// Index of the chunk in the view.
    pub chunk: usize,
    /// Index of the document in the chunk.
    pub document: u16,
    /// Relevance score; never NaN.
    pub score: f64,
}

impl fmt::Debug for CompiledProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile({}, {} features)", self.name, self.features.len())
    }
}

impl CompiledProfile {
    /// Compiles the profile `name` of a schema without ONNX models.
    ///
    /// # Errors
    /// The first error of [`CompiledProfile::with_models`].
    pub fn compile(schema: &Schema, name: &str) -> Result<Self, Error> {
        // A failure has at least one error.
        Self::with_models(schema, name, &NoModels).map_err(|mut errors| errors.swap_remove(0))
    }

    /// Compiles the profile `name` of a schema.
    ///
    /// # Errors
    /// All errors in its functions, phases and features, each with its location in the application package;
    /// at least one.
    pub fn with_models(schema: &Schema, name: &str, models: &dyn ModelSource) -> Result<Self, Vec<Error>> {
        let Some(profile) = schema.rank_profiles.get(name) else {
            return Err(vec![Error::UnknownProfile {
                schema: schema.name.to_string(),
                profile: name.to_owned(),
                known: schema.rank_profiles.keys().cloned().collect::<Vec<_>>().join(", "),
            }]);
        };
        let mut errors = Vec::new();
        let compiler = ProfileCompiler::new(schema, profile, models, &mut errors);
        let phase = |declared: &millrace_schema::RankPhase, score| CompiledPhase {
            score,
            drop_limit: declared.score_drop_limit,
            rerank_count: declared.rerank_count.unwrap_or(RERANK_COUNT),
        };
        let first = first_phase_expression(profile);
        let first = compiler.attempt(&first, &mut errors, ProfileCompiler::compile_score);
        let second = profile.second_phase.expression.as_ref();
        let second =
            second.and_then(|text| compiler.attempt(text, &mut errors, ProfileCompiler::compile_score));
        let global = profile.global_phase.expression.as_ref();
        let global =
            global.and_then(|text| compiler.attempt(text, &mut errors, ProfileCompiler::compile_global));
        let (global, normalizers) = global.unzip();
        let all_named = |texts: &[SourcedText<String>], errors: &mut Vec<Error>| -> Vec<ReturnedFeature> {
            texts.iter().filter_map(|text| compiler.attempt(text, errors, compile_returned)).collect()
        };
        let match_features = all_named(&profile.match_features, &mut errors);
        let summary_features = all_named(&profile.summary_features, &mut errors);
        let mut listed: BTreeMap<String, SourcedText<String>> = BTreeMap::new();
        for text in &profile.rank_features {
            listed.insert(text.value.clone(), text.clone());
        }
        // The user did not write these expressions: if they fail, another error is the cause.
        if !profile.ignore_default_rank_features && errors.is_empty() {
            match compiler.default_features() {
                Ok(texts) => listed.extend(texts.into_iter().map(|text| {
                    (text.clone(), SourcedText { value: text, position: profile.position.clone() })
                })),
                Err(error) => errors.push(error),
            }
        }
        let rank_features = all_named(&listed.into_values().collect::<Vec<_>>(), &mut errors);
        // Texts are skipped only because of other errors.
        let (Some(first), true) = (first, errors.is_empty()) else { return Err(errors) };
        let second = second.map(|score| phase(&profile.second_phase, score));
        let filters = compiler.filters();
        let (features, models) = compiler.into_features();
        Ok(CompiledProfile {
            name: profile.name.clone(),
            features,
            filters,
            models,
            first: phase(&profile.first_phase, first),
            diversity: HitDiversity::of(schema, profile).filter(|_| second.is_some()),
            second,
            global: global.map(|score| phase(&profile.global_phase, score)),
            normalizers: normalizers.unwrap_or_default(),
            match_features,
            summary_features,
            rank_features,
        })
    }

    /// Name of the profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if second-phase hits are selected for diversity. Each node selects among its own hits.
    pub fn is_diverse(&self) -> bool {
        self.diversity.is_some()
    }

    /// True if the first phase runs a model. This is slow, as it runs over every matched document.
    pub fn first_phase_uses_models(&self) -> bool {
        self.uses_models(std::iter::once(&self.first.score))
    }

    /// Features that the profile computes for a plan, by index; one may come several times.
    fn used_features(&self, plan: &Plan) -> impl Iterator<Item = usize> {
        let lists = plan.query.ranking.list_features;
        let features = self.match_features.iter().chain(&self.summary_features).map(|named| &named.value);
        let listed = self.rank_features.iter().filter(move |_| lists);
        let phases = [Some(&self.first), self.second.as_ref(), self.global.as_ref()];
        let phases = phases.into_iter().flatten().map(|phase| &phase.score);
        let phases = phases.chain(self.normalizers.iter().map(|normalizer| &normalizer.input));
        let phases = phases.chain(self.models.iter().flat_map(|model| &model.inputs));
        let compiled = phases.chain(features).chain(listed.map(|named| &named.value));
        compiled.flat_map(|compiled| compiled.features.iter().copied())
    }

    /// Match data that this profile needs.
    pub fn demands(&self, plan: &Plan) -> RankingDemands {
        let mut all = RankingDemands::default();
        for feature in self.used_features(plan) {
            let demands = self.features[feature].1.demands();
            all.leaves |= demands.leaves;
            all.counts |= demands.counts;
            all.positions |= demands.positions;
            all.statistics |= demands.statistics;
        }
        all
    }

    /// Parameters of the features that the profile computes for a plan, as they are written: names of
    /// fields, and others.
    pub fn feature_parameters(&self, plan: &Plan) -> impl Iterator<Item = &str> {
        let features = self.used_features(plan).map(move |feature| &self.features[feature].0);
        features.flat_map(|name| name.parameters.iter().map(String::as_str))
    }

    /// True if the profile, for a plan, certainly reads no fields but those of conditions, and those that
    /// [`CompiledProfile::feature_parameters`] name.
    pub fn reads_named_fields(&self, plan: &Plan) -> bool {
        let mut features = self.used_features(plan).map(|feature| &self.features[feature].0);
        self.diversity.is_none() && features.all(|name| NAMING_FEATURES.contains(&name.name.as_str()))
    }

    /// Score that a document must exceed in the first phase to be a hit: that of the request, else that
    /// of the profile.
    pub fn first_drop_limit(&self, plan: &Plan) -> Option<f64> {
        plan.query.ranking.score_drop_limit.or(self.first.drop_limit)
    }

    /// True if a feature returned with hits is about the first phase over all hits.
    fn returns_first_phase(&self) -> bool {
        let shown = self.match_features.iter().chain(&self.summary_features).chain(&self.rank_features);
        let mut features = shown.flat_map(|named| &named.value.features);
        features.any(|feature| self.features[*feature].0.name == "firstPhaseMax")
    }

    /// The best `count` matches by the first phase. `stop` is called before each chunk; once it returns true,
    /// ranking ends. `first` is the result of the first phase, if the caller has already run it because it
    /// needs all scores.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn best(
        &self,
        over: &RankedDocuments<'_>,
        first: Option<&FirstPhase>,
        count: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<BestHits, Error> {
        let RankedDocuments { plan, view, matches } = *over;
        let mut best = TopHits::new(count, view.paths());
        let mut found = BestHits::default();
        let mut kept = PassingDocuments::default();
        let drop_limit = self.first_drop_limit(plan);
        let needs_max = self.reranking(plan).depth(0) > 0 || self.returns_first_phase();
        let mut take = |chunk: &ChunkMatches, scores: &[f64]| {
            if needs_max {
                found.max = scores.iter().copied().chain(found.max).reduce(f64::max);
            }
            match drop_limit {
                None => {
                    found.total += scores.len() as u64;
                    best.offer(chunk.chunk, &chunk.documents, scores);
                }
                Some(limit) => {
                    kept.fill(&chunk.documents, scores, limit);
                    found.total += kept.scores.len() as u64;
                    best.offer(chunk.chunk, &kept.documents, &kept.scores);
                }
            }
        };
        let mut timed_out = false;
        match first {
            None => self.each_chunk(
                &StageInput { plan, view, matches, earlier: None },
                stop,
                &mut timed_out,
                take,
            )?,
            Some(first) => {
                matches.chunks.iter().zip(&first.scores).for_each(|(chunk, scores)| take(chunk, scores));
                timed_out = first.timed_out;
            }
        }
        found.timed_out = timed_out;
        found.hits = best.into_sorted();
        Ok(found)
    }

    /// First-phase scores of all matched documents, for grouping, sorting by relevance and collapsing. Once
    /// `stop` returns true, the rest is omitted.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn first_phase(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &MatchedDocuments,
        stop: &dyn Fn() -> bool,
    ) -> Result<FirstPhase, Error> {
        let mut first = FirstPhase::default();
        first.scores.reserve(matches.chunks.len());
        let over = StageInput { plan, view, matches, earlier: None };
        let FirstPhase { scores: all, timed_out } = &mut first;
        self.each_chunk(&over, stop, timed_out, |_, scores| all.push(scores.to_vec()))?;
        Ok(first)
    }

    /// Runs the first phase, chunk by chunk.
    fn each_chunk(
        &self,
        over: &StageInput<'_>,
        stop: &dyn Fn() -> bool,
        stopped: &mut bool,
        mut take: impl FnMut(&ChunkMatches, &[f64]),
    ) -> Result<(), Error> {
        // A model runs over many documents at once; its output is bound again for each run.
        let uses_models = self.first_phase_uses_models();
        let plan = over.plan;
        let at_once = if uses_models { CHUNKS_PER_MODEL_RUN } else { over.matches.chunks.len().max(1) };
        let mut scores = Vec::new();
        for chunks in over.matches.chunks.chunks(at_once) {
            let mut earlier = AllHitsValues::default();
            if uses_models
                && !self.run_models(
                    over,
                    &all_hits(chunks),
                    [&self.first.score].into_iter(),
                    stop,
                    &mut earlier,
                )?
            {
                *stopped = true;
                return Ok(());
            }
            let over = StageInput { earlier: uses_models.then_some(&earlier), ..*over };
            let mut stage = BoundPrograms::new(&over, &self.features, &self.filters, vec![&self.first.score]);
            for chunk in chunks {
                if stop() {
                    *stopped = true;
                    return Ok(());
                }
                scores.resize(chunk.documents.len(), 0.0);
                stage.run(chunk, |_, output| output.write(&mut scores))?;
                scores.iter_mut().for_each(|score| *score = defined(*score));
                take(chunk, &scores);
            }
            let output_bytes = earlier.model_outputs.iter().map(ModelOutputs::memory_bytes).sum();
            plan.memory.give_back(output_bytes);
        }
        Ok(())
    }
}

/// Documents of a chunk that pass the score limit.
#[derive(Default)]
struct PassingDocuments {
    documents: Vec<u16>,
    scores: Vec<f64>,
}

impl PassingDocuments {
    fn fill(&mut self, documents: &[u16], scores: &[f64], limit: f64) {
        self.documents.clear();
        self.scores.clear();
        for (document, score) in documents.iter().zip(scores).filter(|(_, score)| **score > limit) {
            self.documents.push(*document);
            self.scores.push(*score);
        }
    }
}

/// A score with NaN replaced by the lowest value.
pub(crate) fn defined(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score }
}

/// Calls `visit` for each chunk with some of the hits: with their indices among the hits, and the chunk's
/// matches reduced to these documents, one per index. A document that is several hits (it can be in several
/// groups) is passed in one call for each. Documents that did not match are left out.
pub(crate) fn each_hit<E>(
    matches: &MatchedDocuments,
    hits: &[RankedHit],
    mut visit: impl FnMut(&[usize], &ChunkMatches) -> Result<(), E>,
) -> Result<(), E> {
    let mut order: Vec<usize> = (0..hits.len()).collect();
    order.sort_by_key(|place| (hits[*place].chunk, hits[*place].document));
    for places in order.chunk_by(|a, b| hits[*a].chunk == hits[*b].chunk) {
        let number = hits[places[0]].chunk;
        let Ok(at) = matches.chunks.binary_search_by_key(&number, |chunk| chunk.chunk) else { continue };
        let chunk = &matches.chunks[at];
        // Hits and documents ascend, so that one pass over both finds those that are there.
        let mut rest = &chunk.documents[..];
        let has_matched = |place: &usize| {
            let document = hits[*place].document;
            rest = &rest[rest.iter().take_while(|other| **other < document).count()..];
            rest.first() == Some(&document)
        };
        let mut left: Vec<usize> = places.iter().copied().filter(has_matched).collect();
        while !left.is_empty() {
            let mut later = Vec::new();
            let mut last = None;
            left.retain(|place| {
                let is_first = last.replace(hits[*place].document) != Some(hits[*place].document);
                later.extend((!is_first).then_some(*place));
                is_first
            });
            if left.len() == chunk.documents.len() {
                visit(&left, chunk)?;
            } else {
                let mut next = left.iter().map(|place| hits[*place].document).peekable();
                if let Some(chunk) = chunk.clone().retain(|document| next.next_if_eq(&document).is_some()) {
                    assert!(
                        chunk.documents.len() == left.len(),
                        "a chunk's matches are not those of its hits"
                    );
                    visit(&left, &chunk)?;
                }
            }
            left = later;
        }
    }
    Ok(())
}

/// All matched documents of some chunks, as hits.
fn all_hits(chunks: &[ChunkMatches]) -> Vec<RankedHit> {
    let of_chunk = |chunk: &ChunkMatches| {
        let number = chunk.chunk;
        let hit = move |document: u16| RankedHit { chunk: number, document, score: 0.0 };
        chunk.documents.clone().into_iter().map(hit)
    };
    chunks.iter().flat_map(of_chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_are_several_times_there_are_visited_each_time() {
        let chunk = |chunk, documents: &[u16]| ChunkMatches {
            chunk,
            documents: documents.to_vec(),
            leaves: Vec::new(),
        };
        let matches = MatchedDocuments {
            chunks: vec![chunk(0, &[1, 4, 7]), chunk(3, &[0])],
            ..MatchedDocuments::default()
        };
        let check = |hits: &[(usize, u16)], expected: &[(&[usize], &[u16])]| {
            let hit = |&(chunk, document)| RankedHit { chunk, document, score: 0.0 };
            let hits: Vec<RankedHit> = hits.iter().map(hit).collect();
            let mut visited = Vec::new();
            each_hit(&matches, &hits, |places, chunk| {
                visited.push((places.to_vec(), chunk.documents.clone()));
                Ok::<_, Error>(())
            })
            .expect("nothing fails");
            let expected: Vec<_> = expected.iter().map(|(at, of)| (at.to_vec(), of.to_vec())).collect();
            assert_eq!(visited, expected);
        };
        check(&[(0, 7), (0, 1)], &[(&[1, 0], &[1, 7])]);
        check(&[(0, 7), (0, 1), (0, 4)], &[(&[1, 2, 0], &[1, 4, 7])]);
        check(&[(0, 9), (0, 0), (0, 4), (0, 5)], &[(&[2], &[4])]);
        check(&[(0, 7), (3, 0), (0, 1), (0, 7)], &[(&[2, 0], &[1, 7]), (&[3], &[7]), (&[1], &[0])]);
        // A request can group documents that have not matched.
        check(&[(0, 4), (0, 2), (1, 0)], &[(&[0], &[4])]);
    }
}
