//! The first hits of a search in its order: as many as its page reaches, and no more.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value};

use crate::Error;
use crate::collapse::{CollapsedValues, HitCollapse};
use crate::search::SearchHit;
use crate::sort_keys::HitSortKey;
use crate::sorting::HitOrder;

/// Hits beyond twice those that were kept, after which collapsed ones are dropped.
const COLLAPSED_STEP: usize = 100;

/// Takes memory for the results of a search.
///
/// # Errors
/// The search takes more than one may, which is permanent; or all together take what there is now.
pub(crate) fn take(memory: &QueryMemory, bytes: usize) -> Result<(), Error> {
    memory.take(bytes).map_err(|refused| millrace_node::Error::from(refused).into())
}

/// Takes memory for a part of an answer: for the value, and for its text.
///
/// # Errors
/// Those of [`take`].
pub(crate) fn take_answer(memory: &QueryMemory, part: &Value) -> Result<(), Error> {
    take(memory, size_of::<Value>() + bytes_inside(part) + text_bytes(part))
}

/// Bytes of the text of a value, about.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => 2 + elements.iter().map(|element| text_bytes(element) + 1).sum::<usize>(),
        Value::Object(members) => {
            let inside = members.iter().map(|(name, value)| name.len() + text_bytes(value) + 4);
            2 + inside.sum::<usize>()
        }
    }
}

/// Bytes that a hit with its document takes, about: the same for a copy of it.
///
/// Cost: a visit of each value of the document.
pub(crate) fn bytes_of(hit: &SearchHit) -> usize {
    // The text of the document, and as much again for keys and texts that are copied from it.
    let formed = hit.formed.as_ref().map_or(0, members_bytes);
    // The request has these texts, and each hit a copy.
    let sort: usize = hit.sort.iter().map(|key| size_of::<HitSortKey>() + key.text_bytes()).sum();
    let matched: usize = hit.matched.iter().map(|name| size_of::<String>() + name.len()).sum();
    hit.stored.source.len() * 2 + 400 + members_bytes(&hit.document) + formed + sort + matched
}

/// Bytes of an allocation beside what is asked for, about.
const ALLOCATION_BYTES: usize = 16;

/// Bytes of a member of an object beside its value and the letters of its name, about.
const MEMBER_BYTES: usize = size_of::<String>() + 2 * size_of::<usize>() + ALLOCATION_BYTES;

/// Bytes that the members of an object take, about. They are far more than those of a text with short values.
pub(crate) fn members_bytes(members: &Map<String, Value>) -> usize {
    let inside = members.iter().map(|(name, value)| name.len() + bytes_inside(value));
    places_of(members.len()) * (MEMBER_BYTES + size_of::<Value>()) + inside.sum::<usize>()
}

/// Bytes that a value takes beside its own place.
pub(crate) fn bytes_inside(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => ALLOCATION_BYTES + text.len(),
        Value::Array(elements) => {
            let places = ALLOCATION_BYTES + places_of(elements.len()) * size_of::<Value>();
            places + elements.iter().map(bytes_inside).sum::<usize>()
        }
        Value::Object(members) => members_bytes(members),
    }
}

/// Places of a list that has grown to a length one by one.
fn places_of(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_power_of_two().max(4) }
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

/// Rank of a hit as far as it is known without the document.
#[derive(Debug, Clone)]
pub(crate) struct KnownRank {
    /// The first keys.
    pub(crate) sort: Vec<HitSortKey>,
    /// True if there are no others.
    pub(crate) is_whole: bool,
    /// Score by which hits are compared where there is no other order. All hits of the index have it; `None`
    /// if it is not known.
    pub(crate) score: Option<f64>,
    pub(crate) ordinal: usize,
    pub(crate) seq_no: i64,
}

impl KnownRank {
    /// Order of the hit and another one. Equal are those that are, and those of which it is not known.
    fn compare(
        &self,
        order: Option<&HitOrder>,
        other: (&[HitSortKey], f64),
        (ordinal, seq_no): (usize, i64),
    ) -> Ordering {
        let by_value = match (order, self.score) {
            (Some(order), _) => order.compare(&self.sort, other.0),
            (None, Some(score)) => other.1.total_cmp(&score),
            (None, None) if ordinal == self.ordinal => Ordering::Equal,
            (None, None) => return Ordering::Equal,
        };
        let by_place = if self.is_whole { self.place().cmp(&(ordinal, seq_no)) } else { Ordering::Equal };
        by_value.then(by_place)
    }

    /// Order of the hit and another one of its index.
    pub(crate) fn compare_in_index(&self, other: &KnownRank, order: Option<&HitOrder>) -> Ordering {
        let by_value = order.map_or(Ordering::Equal, |order| order.compare(&self.sort, &other.sort));
        by_value.then(self.seq_no.cmp(&other.seq_no))
    }

    fn place(&self) -> (usize, i64) {
        (self.ordinal, self.seq_no)
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
pub(crate) struct HitSpan {
    /// Hit after which they begin.
    pub(crate) after: Option<HitStart>,
    /// Maximum number of hits.
    pub(crate) hits_max: usize,
    /// Hits that are kept in any case, as far as there is memory.
    pub(crate) hits_min: usize,
    /// Bytes of those beyond `hits_min`, about.
    pub(crate) bytes_max: usize,
}

impl HitSpan {
    /// No hits.
    pub(crate) const NOTHING: HitSpan = HitSpan { after: None, hits_max: 0, hits_min: 0, bytes_max: 0 };
}

/// A hit among others.
struct OrderedHit<'o> {
    order: Option<&'o HitOrder>,
    hit: SearchHit,
    /// Memory that it has; 0 until it is kept.
    bytes: usize,
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
pub(crate) struct HitCollector<'s> {
    order: Option<&'s HitOrder>,
    span: HitSpan,
    collapse: Option<&'s HitCollapse>,
    memory: &'s QueryMemory,
    /// The last one is on top.
    hits: BinaryHeap<OrderedHit<'s>>,
    bytes: usize,
    is_cut: bool,
    /// Values of collapsed hits, if hits behind the first of a value are shown.
    values: CollapsedValues,
    /// Number of collapsed hits at which some are dropped.
    drop_at: usize,
}

impl<'s> HitCollector<'s> {
    /// Prepares to keep hits. Of collapsed ones, `hits_max` are the values that are shown. If hits behind the
    /// first of a value are shown, too, those of each value are kept, as many as the pages reach.
    pub(crate) fn new(
        order: Option<&'s HitOrder>,
        span: HitSpan,
        collapse: Option<&'s HitCollapse>,
        memory: &'s QueryMemory,
    ) -> Self {
        let drop_at = span.hits_max.saturating_mul(2).saturating_add(COLLAPSED_STEP);
        let (hits, values) = (BinaryHeap::new(), CollapsedValues::default());
        HitCollector { order, span, collapse, memory, hits, bytes: 0, is_cut: false, values, drop_at }
    }

    /// False if no hit is ever kept.
    pub(crate) fn keeps_any(&self) -> bool {
        self.span.hits_max > 0
    }

    /// The last hit that is kept, if one that comes after it is not kept any more.
    pub(crate) fn last(&self) -> Option<&SearchHit> {
        let is_full = self.hits.len() >= self.span.hits_max && self.collapse.is_none();
        self.hits.peek().filter(|_| is_full).map(|last| &last.hit)
    }

    /// Keys of the last hit before those that are wanted.
    pub(crate) fn start(&self) -> Option<&[HitSortKey]> {
        self.span.after.as_ref().map(|after| match after {
            HitStart::Keys(sort) => sort.as_slice(),
            HitStart::Rank(rank) => rank.sort.as_slice(),
        })
    }

    /// Notes that there is a hit after those that are kept.
    pub(crate) fn pass_over(&mut self) {
        self.is_cut = true;
    }

    /// True if a hit of this rank is not kept, whatever its document is. If that is because it comes after
    /// those that are, this is noted.
    pub(crate) fn passes_over(&mut self, rank: &KnownRank) -> bool {
        let from_start = match (&self.span.after, self.order) {
            // Those that are equal to it are not wanted.
            (Some(HitStart::Keys(sort)), Some(order)) => match order.compare(&rank.sort, sort) {
                Ordering::Equal if rank.is_whole => Ordering::Less,
                by_keys => by_keys,
            },
            (Some(HitStart::Rank(start)), order) => {
                rank.compare(order, (&start.sort, start.score), (start.ordinal, start.seq_no))
            }
            (Some(HitStart::Keys(_)), None) | (None, _) => Ordering::Greater,
        };
        if from_start == Ordering::Less {
            return true;
        }
        let is_after = self.last().is_some_and(|last| {
            let place = (last.ordinal, last.stored.seq_no);
            rank.compare(self.order, (&last.sort, last.score), place) == Ordering::Greater
        });
        self.is_cut |= is_after;
        is_after
    }

    /// Adds a hit whose keys are known.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn add(&mut self, hit: SearchHit) -> Result<(), Error> {
        let mut hit = OrderedHit { order: self.order, hit, bytes: 0 };
        if self.span.after.as_ref().is_some_and(|after| !hit.is_after(after)) {
            return Ok(());
        }
        if self.collapse.is_none()
            && self.hits.len() >= self.span.hits_max
            && self.hits.peek().is_none_or(|last| hit >= *last)
        {
            self.is_cut = true;
            return Ok(());
        }
        if let Some(collapse) = self.collapse.filter(|collapse| collapse.shows_inner()) {
            take(self.memory, collapse.count(&mut self.values, &hit.hit)?)?;
        }
        hit.bytes = bytes_of(&hit.hit);
        take(self.memory, hit.bytes)?;
        self.bytes += hit.bytes;
        self.hits.push(hit);
        match self.collapse {
            None => self.drop_last(),
            // Dropping the others takes as long as sorting, so it is done seldom.
            Some(collapse) if self.hits.len() >= self.drop_at => return self.drop_collapsed(collapse),
            Some(_) => {}
        }
        Ok(())
    }

    /// Drops hits that are behind the first of their value, and that no page reaches. Without pages, the
    /// first hits of the first values are kept: a value that is dropped can come again with a better hit.
    fn drop_collapsed(&mut self, collapse: &HitCollapse) -> Result<(), Error> {
        let hits_max = self.span.hits_max;
        if collapse.shows_inner() && !collapse.drops_inner() {
            self.drop_at = usize::MAX;
            return Ok(());
        }
        self.memory.give_back(std::mem::take(&mut self.bytes));
        let hits = in_order(std::mem::take(&mut self.hits));
        let kept = match collapse.shows_inner() {
            true => collapse.reached(hits)?,
            false => collapse.firsts(hits, hits_max)?,
        };
        self.drop_at = kept.len().max(hits_max).saturating_mul(2).saturating_add(COLLAPSED_STEP);
        let order = self.order;
        let kept = kept.into_iter().map(|hit| OrderedHit { order, bytes: bytes_of(&hit), hit });
        self.hits = kept.collect();
        let bytes = self.hits.iter().map(|hit| hit.bytes).sum();
        take(self.memory, bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Drops the last hits beyond those that are kept.
    fn drop_last(&mut self) {
        while self.hits.len() > self.span.hits_max
            || self.bytes > self.span.bytes_max && self.hits.len() > self.span.hits_min
        {
            let Some(last) = self.hits.pop() else { return };
            self.bytes -= last.bytes;
            self.memory.give_back(last.bytes);
            self.is_cut = true;
            // A hit after one that was dropped must not take its place.
            self.span.hits_max = self.span.hits_max.min(self.hits.len());
        }
    }

    /// The hits in their order, with the values of collapsed ones, and true if there are more after them.
    pub(crate) fn finish(self) -> (Vec<SearchHit>, CollapsedValues, bool) {
        (in_order(self.hits), self.values, self.is_cut)
    }
}

fn in_order(hits: BinaryHeap<OrderedHit<'_>>) -> Vec<SearchHit> {
    hits.into_sorted_vec().into_iter().map(|ordered| ordered.hit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_take_their_places() {
        let value = size_of::<Value>();
        let inside = |value: Value| bytes_inside(&value);
        for flat in [json!(null), json!(true), json!(1.5)] {
            assert_eq!(inside(flat), 0);
        }
        assert!(inside(json!("x".repeat(1_000))) >= 1_000);
        assert!(inside(json!(vec![1; 1_000])) >= 1_000 * value);
        assert!(
            inside(json!(vec![json!([1]); 1_000])) >= 1_000 * 5 * value,
            "each list has places of its own"
        );
        let members: Map<String, Value> = (0..1_000).map(|n| (format!("{n:0100}"), json!(n))).collect();
        assert!(members_bytes(&members) >= 1_000 * (value + size_of::<String>() + 100));
        assert_eq!(members_bytes(&members.clone()), members_bytes(&members));
        assert_eq!((inside(json!([])), members_bytes(&Map::new())), (ALLOCATION_BYTES, 0));
    }
}
