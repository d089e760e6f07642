use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millrace_column::View;
use millrace_expression::{Expression, FeatureName};
use millrace_matching::{ChunkMatches, Demands, Matches};
use millrace_plan::Plan;
use millrace_result::Feature as FeatureValue;
use millrace_schema::{Place, RankProfile, Schema, Sourced};

use crate::Error;
use crate::best::Best;
use crate::compile::{Compiled, ProfileCompiler};
use crate::features::Feature;
use crate::stage::Stage;

/// How many hits the second phase ranks where nothing is said.
const RERANK_COUNT: usize = 100;

/// A compiled rank profile.
pub struct Profile {
    name: String,
    /// The features that its programs use, each once.
    features: Vec<Box<dyn Feature>>,
    first: Phase,
    second: Option<Phase>,
    rerank_count: usize,
    match_features: Vec<Named>,
    summary_features: Vec<Named>,
    rank_features: Vec<Named>,
}

struct Phase {
    score: Compiled,
    /// Hits whose score is not above this are dropped.
    drop_limit: Option<f64>,
}

/// A feature that hits are returned with.
struct Named {
    name: Arc<str>,
    value: Compiled,
}

/// The best of what matched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranked {
    /// Best first; of equal scores the earlier document in the view first.
    pub hits: Vec<RankedHit>,
    /// How many documents matched and were not dropped by the first phase's score limit.
    pub total: u64,
    /// Ranking was stopped before all of them had a score.
    pub timed_out: bool,
}

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedHit {
    /// The chunk's number in the view.
    pub chunk: usize,
    /// The document's place in the chunk.
    pub document: u16,
    /// Never NaN.
    pub score: f64,
}

/// The features of one hit, in order.
pub type Features = Vec<(Arc<str>, FeatureValue)>;

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Profile({}, {} features)", self.name, self.features.len())
    }
}

impl Profile {
    /// Compiles the profile `name` of a schema.
    ///
    /// # Errors
    /// Whatever is wrong with its expressions, with the place in the application package.
    pub fn compile(schema: &Schema, name: &str) -> Result<Self, Error> {
        let Some(profile) = schema.rank_profiles.get(name) else {
            return Err(Error::UnknownProfile {
                schema: schema.name.to_string(),
                profile: name.to_owned(),
                known: schema.rank_profiles.keys().cloned().collect::<Vec<_>>().join(", "),
            });
        };
        let compiler = ProfileCompiler::new(schema, profile)?;
        let first = profile.first_phase.expression.clone().unwrap_or_else(|| default_score(profile));
        let first = Phase {
            score: compiler.compile_score(&first)?,
            drop_limit: profile.first_phase.score_drop_limit,
        };
        let second = match &profile.second_phase.expression {
            None => None,
            Some(text) => Some(Phase {
                score: compiler.compile_score(text)?,
                drop_limit: profile.second_phase.score_drop_limit,
            }),
        };
        let named = |texts: &[Sourced<String>]| -> Result<Vec<Named>, Error> {
            texts.iter().map(|text| named(&compiler, text)).collect()
        };
        let match_features = named(&profile.match_features)?;
        let summary_features = named(&profile.summary_features)?;
        let mut listed: BTreeMap<String, Sourced<String>> = BTreeMap::new();
        for text in
            profile.rank_features.iter().chain(&profile.match_features).chain(&profile.summary_features)
        {
            listed.insert(text.value.clone(), text.clone());
        }
        if !profile.ignore_default_rank_features {
            let usual = usual_features(schema).into_iter();
            listed.extend(
                usual.map(|text| (text.clone(), Sourced { value: text, place: profile.place.clone() })),
            );
        }
        let rank_features = named(&listed.into_values().collect::<Vec<_>>())?;
        Ok(Profile {
            name: profile.name.clone(),
            first,
            second,
            rerank_count: profile.second_phase.rerank_count.unwrap_or(RERANK_COUNT),
            match_features,
            summary_features,
            rank_features,
            features: compiler.into_features(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What matching has to find for this profile.
    pub fn demands(&self, plan: &Plan) -> Demands {
        let features = self.match_features.iter().chain(&self.summary_features).map(|named| &named.value);
        let listed = self.rank_features.iter().filter(|_| plan.query.ranking.list_features);
        let phases =
            [Some(&self.first), self.second.as_ref()].into_iter().flatten().map(|phase| &phase.score);
        let mut all = Demands::default();
        for compiled in phases.chain(features).chain(listed.map(|named| &named.value)) {
            for feature in &compiled.features {
                let demands = self.features[*feature].demands();
                all.counts |= demands.counts;
                all.positions |= demands.positions;
                all.statistics |= demands.statistics;
            }
        }
        all
    }

    /// The best `wanted` (hits and offset) of what matched. `stop` is asked before each chunk; once it says yes, no more are
    /// ranked.
    ///
    /// The second phase ranks the best of the first again. Where its scores are lower than those of hits that it did not see,
    /// the latter are scaled down, so that no hit overtakes by being left out.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn rank(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        wanted: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Ranked, Error> {
        let rerank_count = match &self.second {
            Some(_) => plan.query.ranking.rerank_count.unwrap_or(self.rerank_count),
            None => 0,
        };
        let mut best = Best::new(wanted.max(rerank_count));
        let mut ranked = Ranked::default();
        let mut kept = Kept::default();
        self.each_chunk(plan, view, matches, stop, &mut ranked.timed_out, |chunk, scores| {
            match self.first.drop_limit {
                None => {
                    ranked.total += scores.len() as u64;
                    best.offer(chunk.chunk, &chunk.documents, scores);
                }
                Some(limit) => {
                    kept.fill(&chunk.documents, scores, limit);
                    ranked.total += kept.scores.len() as u64;
                    best.offer(chunk.chunk, &kept.documents, &kept.scores);
                }
            }
        })?;
        ranked.hits = best.into_sorted();
        if let Some(second) = &self.second
            && rerank_count > 0
        {
            self.rerank(second, plan, view, matches, rerank_count, &mut ranked.hits)?;
        }
        ranked.hits.truncate(wanted);
        Ok(ranked)
    }

    /// The first-phase score of every matched document, chunk by chunk as in `matches.chunks`, for grouping. Where `stop` says
    /// yes, the rest is left out.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn scores(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let mut all = Vec::with_capacity(matches.chunks.len());
        self.each_chunk(plan, view, matches, stop, &mut false, |_, scores| all.push(scores.to_vec()))?;
        Ok(all)
    }

    /// Runs the first phase.
    fn each_chunk(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        stop: &dyn Fn() -> bool,
        stopped: &mut bool,
        mut take: impl FnMut(&ChunkMatches, &[f64]),
    ) -> Result<(), Error> {
        let mut stage = Stage::new(&self.features, vec![&self.first.score], plan, view, matches);
        let mut scores = Vec::new();
        for chunk in &matches.chunks {
            if stop() {
                *stopped = true;
                break;
            }
            scores.resize(chunk.documents.len(), 0.0);
            stage.run(chunk, |_, output| output.write(&mut scores))?;
            scores.iter_mut().for_each(|score| *score = defined(*score));
            take(chunk, &scores);
        }
        Ok(())
    }

    fn rerank(
        &self,
        second: &Phase,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        count: usize,
        hits: &mut Vec<RankedHit>,
    ) -> Result<(), Error> {
        let count = count.min(hits.len());
        let (again, others) = hits.split_at_mut(count);
        let before = range(again);
        let mut stage = Stage::new(&self.features, vec![&second.score], plan, view, matches);
        let mut scores = vec![f64::NEG_INFINITY; count];
        each_hit(matches, again, |places, chunk| {
            stage.run(chunk, |_, output| {
                places.iter().enumerate().for_each(|(at, place)| scores[*place] = defined(output.number(at)));
            })
        })?;
        again.iter_mut().zip(scores).for_each(|(hit, score)| hit.score = score);
        let after = range(again);
        if let (Some((before_low, before_high)), Some((after_low, after_high))) = (before, after)
            && before_low > after_low
        {
            let scale = (after_high - after_low) / (before_high - before_low).max(1.0);
            let shift = before_low * scale - after_low;
            others.iter_mut().for_each(|hit| hit.score = defined(hit.score * scale - shift));
        }
        if let Some(limit) = second.drop_limit {
            let dropped: Vec<RankedHit> = again.iter().copied().filter(|hit| hit.score <= limit).collect();
            hits.retain(|hit| !dropped.contains(hit));
        }
        hits.sort_by(RankedHit::order);
        Ok(())
    }

    /// `match-features` of these hits, in the profile's order; one list a hit, empty lists where the profile has none.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn match_features(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Features>, Error> {
        self.features_of(&self.match_features, plan, view, matches, hits)
    }

    /// `summary-features` of these hits, as [`Profile::match_features`].
    ///
    /// # Errors
    /// A column could not be read.
    pub fn summary_features(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Features>, Error> {
        self.features_of(&self.summary_features, plan, view, matches, hits)
    }

    /// `rankfeatures` of these hits (`ranking.listFeatures`): those that the profile names, and the usual ones of every field.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn rank_features(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Features>, Error> {
        self.features_of(&self.rank_features, plan, view, matches, hits)
    }

    fn features_of(
        &self,
        named: &[Named],
        plan: &Plan,
        view: &dyn View,
        matches: &Matches,
        hits: &[RankedHit],
    ) -> Result<Vec<Features>, Error> {
        let mut features = vec![Vec::with_capacity(named.len()); hits.len()];
        if named.is_empty() {
            return Ok(features);
        }
        let programs = named.iter().map(|named| &named.value).collect();
        let mut stage = Stage::new(&self.features, programs, plan, view, matches);
        each_hit(matches, hits, |places, chunk| {
            stage.run(chunk, |program, output| {
                let Named { name, value } = &named[program];
                for (at, place) in places.iter().enumerate() {
                    let value = match value.program.tensor_type().is_scalar() {
                        true => FeatureValue::Number(output.number(at)),
                        false => FeatureValue::Tensor(output.tensor(at)),
                    };
                    features[*place].push((Arc::clone(name), value));
                }
            })
        })?;
        Ok(features)
    }
}

/// The documents of a chunk that a score limit leaves.
#[derive(Default)]
struct Kept {
    documents: Vec<u16>,
    scores: Vec<f64>,
}

impl Kept {
    fn fill(&mut self, documents: &[u16], scores: &[f64], limit: f64) {
        self.documents.clear();
        self.scores.clear();
        for (document, score) in documents.iter().zip(scores).filter(|(_, score)| **score > limit) {
            self.documents.push(*document);
            self.scores.push(*score);
        }
    }
}

/// A score as it counts: what is not a number is worse than all others.
fn defined(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score }
}

/// The lowest and the highest score.
fn range(hits: &[RankedHit]) -> Option<(f64, f64)> {
    let finite = || hits.iter().map(|hit| hit.score).filter(|score| score.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// Calls `visit` for each chunk that has some of the hits: with their places among the hits, and the chunk's matches of just
/// these documents.
fn each_hit<E>(
    matches: &Matches,
    hits: &[RankedHit],
    mut visit: impl FnMut(&[usize], &ChunkMatches) -> Result<(), E>,
) -> Result<(), E> {
    let mut order: Vec<usize> = (0..hits.len()).collect();
    order.sort_by_key(|place| (hits[*place].chunk, hits[*place].document));
    for places in order.chunk_by(|a, b| hits[*a].chunk == hits[*b].chunk) {
        let number = hits[places[0]].chunk;
        let Ok(at) = matches.chunks.binary_search_by_key(&number, |chunk| chunk.chunk) else { continue };
        let is_hit =
            |document: u16| places.binary_search_by_key(&document, |place| hits[*place].document).is_ok();
        if let Some(chunk) = matches.chunks[at].clone().retain(is_hit)
            && chunk.documents.len() == places.len()
        {
            visit(places, &chunk)?;
        }
    }
    Ok(())
}

/// What ranks where a profile has no first phase.
fn default_score(profile: &RankProfile) -> Sourced<String> {
    let value = if profile.name == "unranked" { "0" } else { "nativeRank" };
    Sourced { value: value.to_owned(), place: Place { line: 1, column: 1, ..profile.place.clone() } }
}

/// Compiles a feature that hits are returned with. `rankingExpression(x)` is another way to write function `x`.
fn named(compiler: &ProfileCompiler<'_>, text: &Sourced<String>) -> Result<Named, Error> {
    let name = FeatureName::parse(&text.value).ok();
    let inner = name
        .as_ref()
        .filter(|name| name.name == "rankingExpression" && name.output.is_none())
        .and_then(|name| name.parameters.first())
        .filter(|inner| Expression::parse(inner).is_ok());
    let value = match inner {
        Some(inner) => compiler.compile(&Sourced { value: inner.clone(), place: text.place.clone() })?,
        None => compiler.compile(text)?,
    };
    let name = name.map_or_else(|| text.value.trim().to_owned(), |name| name.to_string());
    Ok(Named { name: name.into(), value })
}

/// The features that are listed for every field.
fn usual_features(schema: &Schema) -> Vec<String> {
    let mut features = vec!["nativeRank".to_owned(), "queryTermCount".to_owned(), "now".to_owned()];
    for field in schema.fields.values() {
        let name = &field.name;
        if field.is_text() {
            features.extend([
                format!("bm25({name})"),
                format!("nativeFieldMatch({name})"),
                format!("nativeProximity({name})"),
                format!("fieldLength({name})"),
                format!("matchCount({name})"),
            ]);
        } else if field.attribute.is_some() {
            features.push(format!("matches({name})"));
        }
    }
    features
}
