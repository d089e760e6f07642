//! The phases after the first. Each ranks the best hits again and merges them with all others. If the hits
//! are on several nodes, each node rescores its own hits, and one [`PhaseRanking`] orders them.

use millrace_plan::Plan;

use crate::features::{AllHitsValues, PerHit};
use crate::profile::{CompiledPhase, defined};
use crate::stage::{BoundPrograms, StageInput};
use crate::{
    CompiledProfile, Error, FirstPhase, LaterPhase, PhaseRanking, PhaseRerank, PhaseReranking, RankOutcome,
    RankedDocuments, RankedHit,
};

/// Data over all hits, including those on other nodes, and model outputs for the local hits.
#[derive(Debug, Default)]
pub struct GlobalHitValues(pub(crate) AllHitsValues);

impl GlobalHitValues {
    /// Creates it from the hits that later phases may rank again, each with its first-phase rank from 1, and
    /// the highest score of that phase.
    pub fn new(hits: impl Iterator<Item = (RankedHit, u32)>, max: Option<f64>) -> Self {
        let ranks = hits.map(|(hit, rank)| ((hit.chunk, hit.document), f64::from(rank))).collect();
        GlobalHitValues(AllHitsValues { ranks, max, ..AllHitsValues::default() })
    }
}

impl CompiledProfile {
    /// The hits that are ranked again.
    pub fn reranking(&self, plan: &Plan) -> PhaseReranking {
        let options = &plan.query.ranking;
        let rerank = |phase: &Option<CompiledPhase>, count: Option<usize>, limit: Option<f64>| {
            phase.as_ref().map(|phase| PhaseRerank {
                count: count.unwrap_or(phase.rerank_count),
                drop_limit: limit.or(phase.drop_limit),
            })
        };
        PhaseReranking {
            second: rerank(&self.second, options.rerank_count, options.second_phase_drop_limit),
            global: rerank(&self.global, options.global_rerank_count, options.global_phase_drop_limit),
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
        over: &RankedDocuments<'_>,
        first: Option<&FirstPhase>,
        wanted: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<RankOutcome, Error> {
        let reranking = self.reranking(over.plan);
        // Diversity is decided over all hits.
        let diversity = self.diversity.as_ref().zip(reranking.second);
        let looked_at = if diversity.is_some() { usize::MAX } else { reranking.depth(wanted) };
        let best = self.best(over, first, looked_at, stop)?;
        let hits: Vec<HitScore> =
            best.hits.iter().map(|hit| ((hit.chunk, hit.document), hit.score)).collect();
        let mut phases = match diversity {
            None => PhaseRanking::new(reranking, hits, wanted),
            Some((diversity, second)) => {
                let chosen = diversity.choose(over.view, &best.hits, second.count)?;
                PhaseRanking::of_chosen(reranking, hits, &chosen, wanted)
            }
        };
        let numbered = best.hits.iter().filter_map(|hit| {
            let rank = phases.first_rank(&(hit.chunk, hit.document));
            (rank > 0).then_some((*hit, rank))
        });
        let mut known = GlobalHitValues::new(numbered, best.max);
        if let Some(hits) = phases.hits_of(LaterPhase::Second) {
            let scores = self.second_phase(over, &all_ranked(hits), &mut known, stop)?;
            phases.rescore(LaterPhase::Second, scores.as_deref());
        }
        if let Some(hits) = phases.hits_of(LaterPhase::Global) {
            let hits = all_ranked(hits);
            let scores = match self.to_normalize(over, &hits, &mut known, stop)? {
                Some(numbers) => {
                    Some(self.global_phase(over, &hits, &self.normalized(&numbers), &mut known)?)
                }
                None => None,
            };
            phases.rescore(LaterPhase::Global, scores.as_deref());
        }
        let timed_out = best.timed_out || phases.is_stopped();
        let total = best.total - phases.dropped();
        Ok(RankOutcome { hits: all_ranked(phases.best(wanted)), total, timed_out, known })
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
        let mut known = AllHitsValues::default();
        self.run_models(&over, hits, std::iter::once(&self.first.score), stop, &mut known)?;
        let earlier = self.first_phase_uses_models().then_some(&known);
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
        let mut stage = BoundPrograms::new(&over, &self.features, &self.filters, programs);
        crate::profile::each_hit(over.matches, hits, |indices, chunk| {
            stage.run(chunk, |at, output| {
                indices.iter().enumerate().for_each(|(row, index)| numbers[at][*index] = output.number(row));
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
            .map(|(normalizer, numbers)| normalizer.kind.normalize(numbers))
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
        let mut stage = BoundPrograms::new(over, &self.features, &self.filters, vec![&phase.score]);
        let mut scores = vec![f64::NEG_INFINITY; hits.len()];
        crate::profile::each_hit(over.matches, hits, |indices, chunk| {
            stage.run(chunk, |_, output| {
                indices
                    .iter()
                    .enumerate()
                    .for_each(|(row, index)| scores[*index] = defined(output.number(row)));
            })
        })?;
        Ok(scores)
    }
}

/// Chunk and document of a hit, and its score.
type HitScore = ((usize, u16), f64);

fn all_ranked(hits: &[HitScore]) -> Vec<RankedHit> {
    let ranked = |((chunk, document), score): &HitScore| RankedHit {
        chunk: *chunk,
        document: *document,
        score: *score,
    };
    hits.iter().map(ranked).collect()
}
