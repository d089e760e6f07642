//! The first hits of a search in its order: as many as its page reaches, and no more.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use millrace_plan::QueryMemory;

use crate::Error;
use crate::collapse::HitCollapse;
use crate::search::SearchHit;
use crate::sort_keys::HitSortKey;
use crate::sorting::HitOrder;

/// Hits beyond twice those that are shown, after which collapsed ones are dropped.
const COLLAPSED_STEP: usize = 100;

/// Takes memory for the results of a search.
///
/// # Errors
/// The search takes more than one may, which is permanent; or all together take what there is now.
pub(crate) fn take(memory: &QueryMemory, bytes: usize) -> Result<(), Error> {
    memory.take(bytes).map_err(|refused| millrace_node::Error::from(refused).into())
}

/// Bytes that a hit with its document takes, about.
pub(crate) fn bytes_of(hit: &SearchHit) -> usize {
    hit.stored.source.len() * 3 + 400
}

/// Rank of a hit: the values by which hits are ordered, and what decides between equal ones.
#[derive(Debug, Clone)]
pub(crate) struct HitRank {
    sort: Vec<HitSortKey>,
    score: f64,
    ordinal: usize,
    seq_no: i64,
    id: String,
}

impl HitRank {
    /// Rank of a hit whose keys are known.
    pub(crate) fn of(hit: &SearchHit) -> Self {
        HitRank {
            sort: hit.sort.clone(),
            score: hit.score,
            ordinal: hit.ordinal,
            seq_no: hit.stored.seq_no,
            id: hit.stored.id.clone(),
        }
    }
}

/// Last hit before those that are wanted.
#[derive(Debug, Clone)]
pub(crate) enum HitStart {
    /// Keys of the order: hits that are equal to it are not wanted.
    Keys(Vec<HitSortKey>),
    /// The hit itself.
    Rank(HitRank),
}

/// Part of the hits that a search keeps.
#[derive(Debug, Clone)]
pub(crate) struct KeptSpan {
    /// Hit after which they begin.
    pub(crate) after: Option<HitStart>,
    /// Hits at most.
    pub(crate) most: usize,
    /// Hits that are kept in any case, as far as there is memory.
    pub(crate) least: usize,
    /// Bytes of those beyond `least`, about.
    pub(crate) bytes_max: usize,
}

impl KeptSpan {
    /// No hits.
    pub(crate) const NOTHING: KeptSpan = KeptSpan { after: None, most: 0, least: 0, bytes_max: 0 };
}

/// A hit among others.
struct OrderedHit<'o> {
    order: Option<&'o HitOrder>,
    hit: SearchHit,
}

impl OrderedHit<'_> {
    /// Order of this hit and another one by the values that are asked for, and otherwise by their scores.
    fn compare(&self, sort: &[HitSortKey], score: f64) -> Ordering {
        match self.order {
            Some(order) => order.compare(&self.hit.sort, sort),
            None => score.total_cmp(&self.hit.score),
        }
    }

    /// Order of equal hits: by their indexes, and in each in the order in which they were written.
    fn tie(&self) -> (usize, i64, &str) {
        (self.hit.ordinal, self.hit.stored.seq_no, self.hit.stored.id.as_str())
    }

    fn is_after(&self, start: &HitStart) -> bool {
        let order = match start {
            HitStart::Keys(sort) => self.compare(sort, self.hit.score),
            HitStart::Rank(rank) => self
                .compare(&rank.sort, rank.score)
                .then_with(|| self.tie().cmp(&(rank.ordinal, rank.seq_no, rank.id.as_str()))),
        };
        order == Ordering::Greater
    }
}

impl Ord for OrderedHit<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(&other.hit.sort, other.hit.score).then_with(|| self.tie().cmp(&other.tie()))
    }
}

impl PartialOrd for OrderedHit<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedHit<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedHit<'_> {}

/// Collects the first hits.
pub(crate) struct KeptHits<'s> {
    order: Option<&'s HitOrder>,
    span: KeptSpan,
    collapse: Option<&'s HitCollapse>,
    memory: &'s QueryMemory,
    /// The last one is on top.
    hits: BinaryHeap<OrderedHit<'s>>,
    bytes: usize,
    is_cut: bool,
}

impl<'s> KeptHits<'s> {
    /// Prepares to keep hits. Of collapsed ones, `most` are the values that are shown: all hits are kept if
    /// those behind the first of a value are shown, too.
    pub(crate) fn new(
        order: Option<&'s HitOrder>,
        span: KeptSpan,
        collapse: Option<&'s HitCollapse>,
        memory: &'s QueryMemory,
    ) -> Self {
        KeptHits { order, span, collapse, memory, hits: BinaryHeap::new(), bytes: 0, is_cut: false }
    }

    /// False if no hit is ever kept.
    pub(crate) fn keeps_any(&self) -> bool {
        self.span.most > 0
    }

    /// The last hit that is kept, if one that comes after it is not kept any more.
    pub(crate) fn last(&self) -> Option<&SearchHit> {
        let is_full = self.hits.len() >= self.span.most && self.collapse.is_none();
        self.hits.peek().filter(|_| is_full).map(|last| &last.hit)
    }

    /// Adds a hit whose keys are known.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn add(&mut self, hit: SearchHit) -> Result<(), Error> {
        let hit = OrderedHit { order: self.order, hit };
        if self.span.after.as_ref().is_some_and(|after| !hit.is_after(after)) {
            return Ok(());
        }
        if self.collapse.is_none()
            && self.hits.len() >= self.span.most
            && self.hits.peek().is_none_or(|last| hit >= *last)
        {
            self.is_cut = true;
            return Ok(());
        }
        let bytes = bytes_of(&hit.hit);
        take(self.memory, bytes)?;
        self.bytes += bytes;
        self.hits.push(hit);
        match self.collapse {
            None => self.drop_last(),
            // Dropping the others takes as long as sorting, so it is done seldom.
            Some(collapse)
                if !collapse.shows_inner() && self.hits.len() >= 2 * self.span.most + COLLAPSED_STEP =>
            {
                return self.keep_firsts(collapse);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Keeps the first hits of the first values. A value that is dropped can come again with a better hit.
    fn keep_firsts(&mut self, collapse: &HitCollapse) -> Result<(), Error> {
        self.memory.give_back(std::mem::take(&mut self.bytes));
        let firsts = collapse.firsts(in_order(std::mem::take(&mut self.hits)), self.span.most)?;
        let bytes = firsts.iter().map(bytes_of).sum();
        take(self.memory, bytes)?;
        self.bytes = bytes;
        let order = self.order;
        self.hits = firsts.into_iter().map(|hit| OrderedHit { order, hit }).collect();
        Ok(())
    }

    /// Drops the last hits beyond those that are kept.
    fn drop_last(&mut self) {
        while self.hits.len() > self.span.most
            || self.bytes > self.span.bytes_max && self.hits.len() > self.span.least
        {
            let Some(last) = self.hits.pop() else { return };
            let bytes = bytes_of(&last.hit);
            self.bytes -= bytes;
            self.memory.give_back(bytes);
            self.is_cut = true;
            // A hit after one that was dropped must not take its place.
            self.span.most = self.span.most.min(self.hits.len());
        }
    }

    /// The hits in their order, and true if there are more after them.
    pub(crate) fn finish(self) -> (Vec<SearchHit>, bool) {
        (in_order(self.hits), self.is_cut)
    }
}

fn in_order(hits: BinaryHeap<OrderedHit<'_>>) -> Vec<SearchHit> {
    hits.into_sorted_vec().into_iter().map(|ordered| ordered.hit).collect()
}
