use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_column::{CHUNK_DOCS, Column, ColumnKey, View};
use millrace_plan::{LeafId, Plan};

use crate::bits::DocumentBits;
use crate::leaf::LeafKind;
use crate::nearest::SmallestDistances;
use crate::tree::{ChunkPass, ReadyPlan, ResidualTree, live};
use crate::window::ColumnWindow;
use crate::words::DocumentRows;
use crate::{
    ChunkMatches, Error, FieldStatistics, LeafMatches, MatchedDocuments, RankingDemands, TermStatistics,
};

/// Matches a plan to the documents of a view.
///
/// - All live documents are examined; nothing is approximated. Documents as near as the last wanted one of
///   the nearest are kept, too.
/// - `stop` is called before each chunk, and for many conditions now and then within one. Once it returns
///   true, no more chunks are examined, that chunk does not count, and [`MatchedDocuments::timed_out`] is
///   set.
/// - Columns are read when the first document needs them, for many chunks at once.
///
/// # Errors
/// A column could not be read, the plan does not fit its schema, or the matches take too much memory.
pub fn match_plan(
    plan: &Plan,
    view: &dyn View,
    demands: RankingDemands,
    stop: &dyn Fn() -> bool,
) -> Result<MatchedDocuments, Error> {
    let ready = ReadyPlan::new(plan, view.paths(), demands)?;
    let mut gathering = MatchGathering::new(&ready, demands);
    let mut next = 0;
    'windows: while next < view.chunks().len() {
        let mut window = ColumnWindow::starting_at(view, next);
        for chunk in window.chunks() {
            if stop() {
                gathering.matches.timed_out = true;
                break 'windows;
            }
            let documents = view.chunks()[chunk].documents;
            if documents > CHUNK_DOCS {
                return Err(Error::Chunk { chunk, documents });
            }
            if !gathering.add(&mut window, chunk, live(view, chunk), stop)? {
                gathering.matches.timed_out = true;
                break 'windows;
            }
        }
        next = window.chunks().end;
    }
    Ok(gathering.finish())
}

/// Matches of the chunks so far.
struct MatchGathering<'a> {
    ready: &'a ReadyPlan<'a>,
    demands: RankingDemands,
    matches: MatchedDocuments,
    /// The smallest distances so far, for each nearest-neighbour leaf.
    best: Vec<Option<SmallestDistances>>,
    /// For each chunk of `matches`, the part to be decided when all distances are known.
    undecided: Vec<ResidualTree>,
    /// Leaves whose frequency is counted.
    counted: Vec<LeafId>,
    /// Fields whose lengths are counted.
    measured: BTreeSet<Arc<str>>,
}

impl<'a> MatchGathering<'a> {
    fn new(ready: &'a ReadyPlan<'a>, demands: RankingDemands) -> Self {
        let is_text =
            |leaf: &LeafId| matches!(ready.leaves[leaf.0].kind, LeafKind::Words(_) | LeafKind::WordIn(_));
        let is_counted = |leaf: &LeafId| is_text(leaf) || ready.leaves[leaf.0].is_value_word;
        let is_ranked = |leaf: &LeafId| {
            ready.plan.leaves[leaf.0].term.is_some_and(|term| ready.plan.terms[term.0].annotations.ranked)
        };
        let all = (0..ready.leaves.len()).map(LeafId);
        let counted: Vec<LeafId> =
            all.filter(|leaf| demands.statistics && is_counted(leaf) && is_ranked(leaf)).collect();
        let texts = counted.iter().filter(|leaf| is_text(leaf));
        let best = ready.leaves.iter().map(|leaf| match &leaf.kind {
            LeafKind::Nearest(_, wanted) => Some(SmallestDistances::new(*wanted)),
            _ => None,
        });
        MatchGathering {
            demands,
            matches: MatchedDocuments {
                statistics: TermStatistics {
                    document_frequency: vec![0; ready.leaves.len()],
                    ..TermStatistics::default()
                },
                ..MatchedDocuments::default()
            },
            best: best.collect(),
            undecided: Vec::new(),
            measured: texts.map(|leaf| Arc::clone(&ready.plan.leaves[leaf.0].field)).collect(),
            counted,
            ready,
        }
    }

    /// Adds the matches of a chunk. Returns false, without an effect but on statistics, if `stop` was true.
    fn add(
        &mut self,
        window: &mut ColumnWindow<'_>,
        chunk: usize,
        live: DocumentBits,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        if live.is_empty() {
            return Ok(true);
        }
        self.measure(window, chunk, &live)?;
        // Distances of a chunk that does not count exclude no document of another.
        let best = self.best.clone();
        let mut pass = ChunkPass::new(self.ready, window, chunk, live, stop);
        for leaf in &self.counted {
            pass.seek(*leaf, &live)?;
            self.matches.statistics.document_frequency[leaf.0] += pass.frequency(*leaf) as u64;
        }
        let residual = pass.evaluate(&mut self.best)?;
        // Documents that are too far now stay too far; a negated leaf is decided at the end.
        let matched = residual.resolve(&|leaf, negated| match (&self.best[leaf.0], negated) {
            (Some(best), false) => {
                let cutoff = if self.ready.paths.is_fast() { best.cutoff() } else { f64::INFINITY };
                pass.nearer(leaf, cutoff)
            }
            _ => DocumentBits::NONE,
        });
        let examined = live.count() as u64;
        if matched.is_empty() && !pass.stopped() {
            self.matches.documents += examined;
            return Ok(true);
        }
        let documents = matched.rows();
        let is_ranked = self.demands != RankingDemands::default();
        let has_nearest = self.best.iter().any(Option::is_some);
        let active = if is_ranked || has_nearest { pass.activity(&matched)? } else { None };
        if is_ranked {
            pass.narrow(&documents, &matched)?;
        }
        let rows = DocumentRows::new(&documents);
        let leaves: Vec<LeafMatches> = (0..self.ready.leaves.len())
            .map(|leaf| {
                if !is_ranked && self.best[leaf].is_none() {
                    return Ok(LeafMatches::None);
                }
                let active = active.as_ref().map(|active| &active[leaf]);
                let found = pass.extract(LeafId(leaf), &rows, &matched, active, self.demands.positions)?;
                self.ready.plan.memory.take(found.memory_bytes())?;
                Ok(found)
            })
            .collect::<Result<_, Error>>()?;
        if pass.stopped() {
            self.best = best;
            return Ok(false);
        }
        self.matches.documents += examined;
        self.matches.chunks.push(ChunkMatches { chunk, documents, leaves });
        self.undecided.push(residual);
        Ok(true)
    }

    fn measure(
        &mut self,
        window: &mut ColumnWindow<'_>,
        chunk: usize,
        live: &DocumentBits,
    ) -> Result<(), Error> {
        self.matches.statistics.documents += live.count() as u64;
        for field in &self.measured {
            let Some(Column::Tokens(tokens)) = window.column(&ColumnKey::tokens(field), chunk)? else {
                continue;
            };
            let statistics: &mut FieldStatistics =
                self.matches.statistics.fields.entry(Arc::clone(field)).or_default();
            let starts = tokens.starts();
            for document in live.iter() {
                let length = starts[document + 1] - starts[document];
                statistics.documents += u64::from(length > 0);
                statistics.tokens += u64::from(length);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> MatchedDocuments {
        if self.best.iter().any(Option::is_some) {
            let chunks = std::mem::take(&mut self.matches.chunks);
            let decided = chunks.into_iter().zip(&self.undecided).filter_map(|(chunk, residual)| {
                let matched = residual.resolve(&|leaf, _| {
                    let (Some(best), LeafMatches::Distances(distances), LeafKind::Nearest(measure, _)) =
                        (&self.best[leaf.0], chunk.leaf(leaf), &self.ready.leaves[leaf.0].kind)
                    else {
                        return DocumentBits::NONE;
                    };
                    let mut near = DocumentBits::NONE;
                    let distance_max = best.cutoff().min(measure.reach());
                    for (document, distance) in chunk.documents.iter().zip(distances) {
                        if *distance <= distance_max && *distance < f64::INFINITY {
                            near.set(usize::from(*document));
                        }
                    }
                    near
                });
                chunk.retain(|document| matched.get(usize::from(document)))
            });
            self.matches.chunks = decided.collect();
        }
        self.matches
    }
}
