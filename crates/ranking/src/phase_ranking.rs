//! Hits on their way through the phases after the first: of one set of documents, or merged from several
//! nodes. The caller scores the hits that a phase asks for; this keeps their order.

use std::collections::HashMap;
use std::hash::Hash;

use crate::profile::defined;

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

/// A phase after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaterPhase {
    /// The second phase.
    Second,
    /// The global phase.
    Global,
}

/// The best hits of one schema while later phases rank them again: first [`LaterPhase::Second`], then
/// [`LaterPhase::Global`]. `P` identifies a hit; of equal scores the lower `P` comes first.
#[derive(Debug, Clone)]
pub struct PhaseRanking<P> {
    reranking: PhaseReranking,
    list: RankedList<P>,
    /// Number of hits to return.
    wanted: usize,
    /// Hits that score limits have dropped.
    dropped: u64,
    /// Ranks in the first phase, from 1.
    ranks: HashMap<P, u32>,
    /// True if there was no time for a phase: the hits keep the scores that they have.
    is_stopped: bool,
}

impl<P: Copy + Ord + Hash> PhaseRanking<P> {
    /// Begins with hits and their scores of the first phase: as many of the best as are needed to return
    /// `wanted` of them.
    pub fn new(reranking: PhaseReranking, hits: Vec<(P, f64)>, wanted: usize) -> Self {
        let mut list = RankedList::new(hits);
        list.0.truncate(reranking.depth(wanted));
        let ranks = list.0.iter().map(|(hit, _)| *hit).zip(1..).collect();
        PhaseRanking { reranking, list, wanted, dropped: 0, ranks, is_stopped: false }
    }

    /// Begins with all hits, best first, of which the second phase ranks those that are chosen. The others
    /// follow them.
    pub(crate) fn of_chosen(
        mut reranking: PhaseReranking,
        hits: Vec<(P, f64)>,
        chosen: &[bool],
        wanted: usize,
    ) -> Self {
        let depth = reranking.depth(wanted);
        let mut list = RankedList::new(hits);
        let numbered = list.0.iter().zip(1..).zip(chosen).enumerate();
        let kept = numbered.filter(|(at, (_, chosen))| *at < depth || **chosen);
        let ranks = kept.map(|(_, (((hit, _), rank), _))| (*hit, rank)).collect();
        let number = list.choose(chosen, depth);
        if let Some(second) = &mut reranking.second {
            second.count = number;
        }
        PhaseRanking { reranking, list, wanted, dropped: 0, ranks, is_stopped: false }
    }

    /// Returns the hits that a phase ranks, best first; `None` if the phase does not take place.
    pub fn hits_of(&self, phase: LaterPhase) -> Option<&[(P, f64)]> {
        let phase = self.phase(phase)?;
        (phase.count > 0 && !self.is_stopped).then(|| self.list.best(phase.count))
    }

    /// Returns the rank of a hit in the first phase, from 1; 0 for a hit that is not among those that the
    /// ranking began with.
    pub fn first_rank(&self, hit: &P) -> u32 {
        self.ranks.get(hit).copied().unwrap_or(0)
    }

    /// Gives the hits of a phase their scores, in the order of [`PhaseRanking::hits_of`]; `None` if there was
    /// no time for it. Then the hits keep their scores, and no later phase takes place.
    pub fn rescore(&mut self, phase: LaterPhase, scores: Option<&[f64]>) {
        match (scores, self.phase(phase)) {
            (Some(scores), of_phase) => {
                self.dropped += self.list.rescore(scores, of_phase.and_then(|phase| phase.drop_limit));
                if let (LaterPhase::Second, Some(global)) = (phase, self.reranking.global) {
                    // The global phase is for the hits that are returned.
                    self.list.0.truncate(self.wanted.max(global.count));
                }
            }
            (None, _) => {
                self.is_stopped = true;
                if phase == LaterPhase::Second {
                    // The hits may be in the order in which they were chosen.
                    self.list = RankedList::new(std::mem::take(&mut self.list.0));
                }
            }
        }
    }

    /// Returns the number of hits that score limits have dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if there was no time for a phase.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns the best `count` hits.
    pub fn best(&self, count: usize) -> &[(P, f64)] {
        self.list.best(count)
    }

    fn phase(&self, phase: LaterPhase) -> Option<PhaseRerank> {
        match phase {
            LaterPhase::Second => self.reranking.second,
            LaterPhase::Global => self.reranking.global,
        }
    }
}

/// Hits in score order, while phases rank the best of them again one after another. `P` identifies a hit; of
/// equal scores the lower `P` comes first.
#[derive(Debug, Clone, Default, PartialEq)]
struct RankedList<P>(Vec<(P, f64)>);

impl<P: Copy + Ord> RankedList<P> {
    /// Creates the order from hits and their first-phase scores.
    fn new(mut hits: Vec<(P, f64)>) -> Self {
        hits.sort_by(order);
        RankedList(hits)
    }

    /// The best `count` hits.
    fn best(&self, count: usize) -> &[(P, f64)] {
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
    fn rescore(&mut self, scores: &[f64], drop_limit: Option<f64>) -> u64 {
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
}

fn order<P: Ord>(one: &(P, f64), other: &(P, f64)) -> std::cmp::Ordering {
    other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0))
}

/// The lowest and the highest score.
fn range<P>(hits: &[(P, f64)]) -> Option<(f64, f64)> {
    let finite = || hits.iter().map(|(_, score)| *score).filter(|score| score.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}
