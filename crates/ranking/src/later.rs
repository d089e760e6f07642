//! The phases after the first. Each ranks the best hits again and merges them with all others. If the hits
//! are on several nodes, each node rescores its own hits, and [`RankedList`] orders them.

use millrace_column::View;
use millrace_matching::MatchedDocuments;
use millrace_plan::Plan;

use crate::features::{HitsTogether, PerHit};
use crate::profile::{CompiledPhase, defined};
use crate::stage::{BoundPrograms, StageInput};
use crate::{CompiledProfile, Error, FirstPhase, RankOutcome, RankedDocuments, RankedHit};

/// The hits that later phases of a profile rank again, for one request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PhaseReranking {
    /// The second phase, if any.
    pub second: Option<PhaseRerank>,
    /// The global phase, if any.
    pub global: Option<PhaseRerank>,
}

/// Number of hits that a score limit of the second phase is applied to.
const DROPPED_DEPTH: usize = 10_000;

/// Parameters of a later phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseRerank {
    /// Number of best hits to rank again.
    pub count: usize,
    /// Hits whose score after the phase does not exceed this limit are dropped, including hits that the phase
    /// did not rank again.
    pub drop_limit: Option<f64>,
}

impl PhaseReranking {
    /// Number of first-phase hits needed to return `wanted` hits.
    ///
    /// Where the second phase drops hits, others take their places, and all that are dropped are missing from
    /// the number of hits: more are looked at.
    pub fn depth(&self, wanted: usize) -> usize {
        let count = |phase: Option<PhaseRerank>| phase.map_or(0, |phase| phase.count);
        let drops = self.second.is_some_and(|second| second.count > 0 && second.drop_limit.is_some());
        wanted.max(count(self.second)).max(count(self.global)).max(if drops { DROPPED_DEPTH } else { 0 })
    }
}

/// Hits in score order, while phases rank the best of them again one after another. `P` identifies a hit; of
/// equal scores the lower `P` comes first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankedList<P>(Vec<(P, f64)>);

impl<P: Copy + Ord> RankedList<P> {
    /// Creates the order from hits and their first-phase scores.
    pub fn new(mut hits: Vec<(P, f64)>) -> Self {
        hits.sort_by(order);
        RankedList(hits)
    }

    /// The best `count` hits.
    pub fn best(&self, count: usize) -> &[(P, f64)] {
        &self.0[..count.min(self.0.len())]
    }

    /// Moves the hits selected by `chosen`, in score order, before the others, and keeps `count` in total.
    /// Until they get new scores, they are the best hits. Returns the number of selected hits.
    fn choose(&mut self, chosen: &[bool], count: usize) -> usize {
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (hit, chosen) in std::mem::take(&mut self.0).into_iter().zip(chosen) {
            if *chosen { first.push(hit) } else { others.push(hit) }
        }
        let number = first.len();
        first.append(&mut others);
        first.truncate(count);
        self.0 = first;
        number
    }

    /// Gives the best hits new scores; `scores` may cover only a prefix. If new scores are lower than scores
    /// of hits that were not rescored, the latter are scaled down, so that a hit cannot gain by being left
    /// out. Then drops hits whose score does not exceed the limit, and returns their number.
    pub fn rescore(&mut self, scores: &[f64], drop_limit: Option<f64>) -> u64 {
        let count = scores.len().min(self.0.len());
        let (again, others) = self.0.split_at_mut(count);
        let before = range(again);
        // Hits left out for diversity may have higher scores.
        let highest = range(others).map_or(f64::NEG_INFINITY, |(_, high)| high);
        again.iter_mut().zip(scores).for_each(|(hit, score)| hit.1 = defined(*score));
        let after = range(again);
        if let (Some((before_low, before_high)), Some((after_low, after_high))) = (before, after)
            && let before_low = before_low.max(highest)
            && before_low > after_low
        {
            let scale = (after_high - after_low) / (before_high - before_low).max(1.0);
            let shift = before_low * scale - after_low;
            others.iter_mut().for_each(|hit| hit.1 = defined(hit.1 * scale - shift));
        }
        again.sort_by(order);
        let mut all = std::mem::take(&mut self.0);
        let before = all.len();
        all.retain(|hit| drop_limit.is_none_or(|limit| hit.1 > limit));
        // Of equal scores, rescored hits stay before the others, which keep their order.
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let dropped = before - all.len();
        self.0 = all;
        dropped as u64
    }

    /// Keeps the best `count` hits.
    pub fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    /// Returns the hits, best first.
    pub fn into_hits(self) -> Vec<(P, f64)> {
        self.0
    }
}

fn order<P: Ord>(one: &(P, f64), other: &(P, f64)) -> std::cmp::Ordering {
    other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0))
}

/// The lowest and the highest score.
fn range<P>(hits: &[(P, f64)]) -> Option<(f64, f64)> {
    let finite = || hits.iter().map(|(_, score)| *score).filter(|score| score.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// Data over all hits, including those on other nodes, and model outputs for the local hits.
#[derive(Debug, Default)]
pub struct GlobalHitValues(pub(crate) HitsTogether);

impl GlobalHitValues {
    /// Creates it from the hits that later phases may rank again, each with its first-phase rank from 1, and
    /// the highest score of that phase.
    pub fn new(hits: impl Iterator<Item = (RankedHit, u32)>, max: Option<f64>) -> Self {
        let ranks = hits.map(|(hit, rank)| ((hit.chunk, hit.document), f64::from(rank))).collect();
        GlobalHitValues(HitsTogether { ranks, max, ..HitsTogether::default() })
    }
}

impl CompiledProfile {
    /// The hits that are ranked again.
    pub fn reranking(&self, plan: &Plan) -> PhaseReranking {
        let asked = &plan.query.ranking;
        let rerank = |phase: &Option<CompiledPhase>, count: Option<usize>, limit: Option<f64>| {
            phase.as_ref().map(|phase| PhaseRerank {
                count: count.unwrap_or(phase.rerank_count),
                drop_limit: limit.or(phase.drop_limit),
            })
        };
        PhaseReranking {
            second: rerank(&self.second, asked.rerank_count, asked.second_phase_drop_limit),
            global: rerank(&self.global, asked.global_rerank_count, asked.global_phase_drop_limit),
        }
    }

    /// Ranks the matches and returns the best `wanted` hits (hits and offset). `stop` is called before each
    /// chunk; once it returns true, ranking ends. `first` is the result of the first phase, if the caller has
    /// already run it because it needs all scores.
    ///
    /// The second phase ranks the best hits of the first again; with `diversity`, those selected by it. The
    /// global phase ranks the best hits of both. Hits that were not selected follow those that were.
    ///
    /// # Errors
    /// A column could not be read, or a model cannot run.
    pub fn rank(
        &self,
        plan: &Plan,
        view: &dyn View,
        matches: &MatchedDocuments,
        first: Option<&FirstPhase>,
        wanted: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<RankOutcome, Error> {
        let over = &RankedDocuments { plan, view, matches };
        let mut reranking = self.reranking(plan);
        let depth = reranking.depth(wanted);
        // Diversity is decided over all hits.
        let diversity = self.diversity.as_ref().zip(reranking.second.as_mut());
        let looked_at = if diversity.is_some() { usize::MAX } else { depth };
        let best = self.best(over, first, looked_at, stop)?;
        let mut timed_out = best.timed_out;
        let place = |hit: &RankedHit| ((hit.chunk, hit.document), hit.score);
        let mut standing = RankedList::new(best.hits.iter().map(place).collect());
        let mut chosen = Vec::new();
        if let Some((diversity, second)) = diversity {
            chosen = diversity.choose(view, &best.hits, second.count)?;
            second.count = standing.choose(&chosen, depth);
        }
        let ranks = best.hits.iter().copied().zip(1..).enumerate();
        let kept = ranks.filter(|(at, _)| *at < depth || chosen.get(*at).is_some_and(|chosen| *chosen));
        let mut known = GlobalHitValues::new(kept.map(|(_, hit)| hit), best.max);
        let seen = |standing: &RankedList<(usize, u16)>, phase: PhaseRerank| -> Vec<RankedHit> {
            standing.best(phase.count).iter().map(ranked).collect()
        };
        // If a model was not waited for, the hits keep their scores.
        let (mut stopped, mut dropped) = (false, 0);
        if let Some(second) = reranking.second.filter(|phase| phase.count > 0) {
            match self.second_phase(over, &seen(&standing, second), &mut known, stop)? {
                Some(scores) => dropped += standing.rescore(&scores, second.drop_limit),
                None => {
                    stopped = true;
                    // The hits may be in selection order.
                    standing = RankedList::new(standing.into_hits());
                }
            }
        }
        if let Some(global) = reranking.global.filter(|phase| phase.count > 0 && !stopped) {
            standing.truncate(wanted.max(global.count));
            let hits = seen(&standing, global);
            match self.to_normalize(over, &hits, &mut known, stop)? {
                Some(numbers) => {
                    let normalized = self.normalized(&numbers);
                    let scores = self.global_phase(over, &hits, &normalized, &mut known)?;
                    dropped += standing.rescore(&scores, global.drop_limit);
                }
                None => stopped = true,
            }
        }
        timed_out |= stopped;
        let mut hits = standing.into_hits();
        hits.truncate(wanted);
        let total = best.total - dropped;
        Ok(RankOutcome { hits: hits.iter().map(ranked).collect(), total, timed_out, known })
    }

    /// First-phase scores of hits, in their order. Once `stop` returns true, models are not waited for; the
    /// scores that need them are then the lowest.
    ///
    /// # Errors
    /// A column could not be read, or a model cannot run.
    pub fn first_phase_of(
        &self,
        over: &RankedDocuments<'_>,
        hits: &[RankedHit],
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<f64>, Error> {
        let over = self.over(over);
        let mut known = HitsTogether::default();
        self.run_models(&over, hits, std::iter::once(&self.first.score), stop, &mut known)?;
        let earlier = self.models_every_match().then_some(&known);
        self.scores(&self.first, &StageInput { earlier, ..over }, hits)
    }

    /// Second-phase scores of hits, in their order; `None` if `stop` returned true before models were done.
    ///
    /// # Errors
    /// A column could not be read, or a model cannot run.
    pub fn second_phase(
        &self,
        over: &RankedDocuments<'_>,
        hits: &[RankedHit],
        known: &mut GlobalHitValues,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<f64>>, Error> {
        let Some(second) = &self.second else { return Ok(None) };
        let over = self.over(over);
        if !self.run_models(&over, hits, std::iter::once(&second.score), stop, &mut known.0)? {
            return Ok(None);
        }
        self.scores(second, &StageInput { earlier: Some(&known.0), ..over }, hits).map(Some)
    }

    /// Numbers that the global phase normalizes: one list per normalizer, in the order of the hits. `None` if
    /// `stop` returned true before the models of the phase were done.
    ///
    /// # Errors
    /// A column could not be read, or a model cannot run.
    pub fn to_normalize(
        &self,
        over: &RankedDocuments<'_>,
        hits: &[RankedHit],
        known: &mut GlobalHitValues,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let Some(global) = &self.global else { return Ok(None) };
        let over = self.over(over);
        let inputs = self.normalizers.iter().map(|normalizer| &normalizer.input);
        if !self.run_models(&over, hits, inputs.chain([&global.score]), stop, &mut known.0)? {
            return Ok(None);
        }
        let mut numbers = vec![vec![0.0; hits.len()]; self.normalizers.len()];
        if self.normalizers.is_empty() {
            return Ok(Some(numbers));
        }
        let programs = self.normalizers.iter().map(|normalizer| &normalizer.input).collect();
        let over = StageInput { earlier: Some(&known.0), ..over };
        let mut stage = BoundPrograms::new(&over, &self.features, programs);
        crate::profile::each_hit(over.matches, hits, |places, chunk| {
            stage.run(chunk, |at, output| {
                places.iter().enumerate().for_each(|(row, place)| numbers[at][*place] = output.number(row));
            })
        })?;
        Ok(Some(numbers))
    }

    /// Normalizes the numbers of all hits that the global phase ranks, best hit first. They have a meaning
    /// only relative to each other.
    pub fn normalized(&self, numbers: &[Vec<f64>]) -> Vec<Vec<f64>> {
        self.normalizers
            .iter()
            .zip(numbers)
            .map(|(normalizer, numbers)| normalizer.kind.of(numbers))
            .collect()
    }

    /// Global-phase scores of hits, in their order, from their normalized numbers. Call it after
    /// [`CompiledProfile::to_normalize`], with the same hits.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn global_phase(
        &self,
        over: &RankedDocuments<'_>,
        hits: &[RankedHit],
        normalized: &[Vec<f64>],
        known: &mut GlobalHitValues,
    ) -> Result<Vec<f64>, Error> {
        let Some(global) = &self.global else { return Ok(hits.iter().map(|hit| hit.score).collect()) };
        let per_hit = |numbers: &Vec<f64>| -> PerHit {
            hits.iter().zip(numbers).map(|(hit, number)| ((hit.chunk, hit.document), *number)).collect()
        };
        known.0.normalized = normalized.iter().map(per_hit).collect();
        self.scores(global, &StageInput { earlier: Some(&known.0), ..self.over(over) }, hits)
    }

    fn over<'q>(&self, over: &RankedDocuments<'q>) -> StageInput<'q> {
        StageInput { plan: over.plan, view: over.view, matches: over.matches, earlier: None }
    }

    fn scores(
        &self,
        phase: &CompiledPhase,
        over: &StageInput<'_>,
        hits: &[RankedHit],
    ) -> Result<Vec<f64>, Error> {
        let mut stage = BoundPrograms::new(over, &self.features, vec![&phase.score]);
        let mut scores = vec![f64::NEG_INFINITY; hits.len()];
        crate::profile::each_hit(over.matches, hits, |places, chunk| {
            stage.run(chunk, |_, output| {
                places.iter().enumerate().for_each(|(at, place)| scores[*place] = defined(output.number(at)));
            })
        })?;
        Ok(scores)
    }
}

fn ranked(((chunk, document), score): &((usize, u16), f64)) -> RankedHit {
    RankedHit { chunk: *chunk, document: *document, score: *score }
}
