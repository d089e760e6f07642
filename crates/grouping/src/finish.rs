//! Conversion of collected data to the groups of the result: order, pages, hits.

use std::cmp::Ordering;
use std::sync::Arc;

use millrace_result::{GroupId, GroupList, GroupValue, GroupingResult, ResultGroup, ResultHit};

use crate::continuation::{self, ListKey};
use crate::datum::ExpressionDatum;
use crate::execution::{GroupingExecution, HitRef, LevelState, ListState};
use crate::level::{CheckedGrouping, GroupNode, GroupingLevel, GroupsList};

/// Callback that converts references to hits of the named document summary: one hit per reference, in order.
pub type HitFiller<'f, E> = dyn FnMut(Option<&str>, &[HitRef]) -> Result<Vec<ResultHit>, E> + 'f;

/// Callback that takes memory for so many bytes of a part of the result.
pub type TakeGroupMemory<'t, E> = dyn FnMut(usize) -> Result<(), E> + 't;

/// Groups of a request, ordered and cut to their pages. Their hits are still references.
#[derive(Debug)]
pub struct PagedGroups {
    root: ResultGroup,
    chosen: Vec<ChosenHits>,
    continuation: String,
}

/// Hits selected for a list, not yet filled.
#[derive(Debug)]
struct ChosenHits {
    summary: Option<String>,
    hits: Vec<HitRef>,
}

impl GroupingExecution {
    /// Orders the groups and cuts them to their pages. `number` is the index of the request among those of
    /// its query. `take` takes memory for each part of them: labels and constants of the request are in each
    /// group.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn paged<E>(mut self, number: u32, take: &mut TakeGroupMemory<'_, E>) -> Result<PagedGroups, E> {
        let grouping = Arc::clone(self.grouping());
        self.root.index();
        let mut builder =
            GroupBuilder { grouping: &grouping, chosen: Vec::new(), path: vec![number, 0], take };
        let (outputs, lists) = builder.group_content(&grouping.root, &self.root, 0)?;
        let root = ResultGroup { id: GroupId::Root, relevance: 1.0, outputs, lists };
        Ok(PagedGroups {
            root,
            chosen: builder.chosen,
            continuation: continuation::to_current_page(&grouping.offsets),
        })
    }
}

impl PagedGroups {
    /// Returns true if the groups have hits to fill.
    pub fn has_hits(&self) -> bool {
        self.chosen.iter().any(|list| !list.hits.is_empty())
    }

    /// Hits of each document summary in the request, in the order in which [`PagedGroups::fill`] asks for
    /// them. `None` is the summary of the query.
    pub fn references(&self) -> Vec<(Option<String>, Vec<HitRef>)> {
        let of = |summary: Option<&str>| (summary.map(str::to_owned), self.of_summary(summary));
        self.summaries().into_iter().map(of).collect()
    }

    /// Returns the groups with their hits. `fill` creates the hits. It is called once per document summary in
    /// the request (`None`: the query's own), and returns one hit per reference, in order.
    ///
    /// # Errors
    /// Errors of `fill`.
    pub fn fill<E>(mut self, fill: &mut HitFiller<'_, E>) -> Result<GroupingResult, E> {
        let mut filled: Vec<Vec<ResultHit>> = self.chosen.iter().map(|_| Vec::new()).collect();
        for summary in self.summaries() {
            let mut hits = fill(summary, &self.of_summary(summary))?.into_iter();
            for (at, list) in self.chosen.iter().enumerate().filter(|(_, list)| list.is_of(summary)) {
                filled[at] = hits.by_ref().take(list.hits.len()).collect();
            }
        }
        insert_hits(&mut self.root, &mut filled.into_iter());
        Ok(GroupingResult { root: self.root, continuation: self.continuation })
    }

    fn summaries(&self) -> Vec<Option<&str>> {
        let mut summaries: Vec<Option<&str>> =
            self.chosen.iter().map(|list| list.summary.as_deref()).collect();
        summaries.sort_unstable();
        summaries.dedup();
        summaries
    }

    fn of_summary(&self, summary: Option<&str>) -> Vec<HitRef> {
        let lists = self.chosen.iter().filter(|list| list.is_of(summary));
        lists.flat_map(|list| list.hits.iter().copied()).collect()
    }
}

impl ChosenHits {
    fn is_of(&self, summary: Option<&str>) -> bool {
        self.summary.as_deref() == summary
    }
}

/// Inserts filled hits into the lists, which must come in selection order.
fn insert_hits(group: &mut ResultGroup, filled: &mut impl Iterator<Item = Vec<ResultHit>>) {
    for list in &mut group.lists {
        match list {
            GroupList::Hits { hits, .. } => *hits = filled.next().unwrap_or_default(),
            GroupList::Groups { groups, .. } => {
                groups.iter_mut().for_each(|group| insert_hits(group, filled))
            }
        }
    }
}

struct GroupBuilder<'g, 't, E> {
    grouping: &'g CheckedGrouping,
    chosen: Vec<ChosenHits>,
    /// Position in the result, see [`ListKey`].
    path: Vec<u32>,
    take: &'g mut TakeGroupMemory<'t, E>,
}

type GroupContent = (Vec<(String, GroupValue)>, Vec<GroupList>);

impl<E> GroupBuilder<'_, '_, E> {
    /// Outputs and lists of a group.
    fn group_content(
        &mut self,
        level: &GroupingLevel,
        state: &LevelState,
        group: usize,
    ) -> Result<GroupContent, E> {
        let mut outputs = Vec::new();
        for (name, node) in &level.outputs {
            let quantiles = match node {
                GroupNode::Aggregate(index) => {
                    let wanted = &level.aggregates[*index].quantiles;
                    state.aggregates[*index].quantiles(group, wanted).map(GroupValue::Quantiles)
                }
                _ => None,
            };
            let value = quantiles.or_else(|| group_value(self.eval(node, state, group)));
            if let Some(value) = value {
                (self.take)(size_of::<(String, GroupValue)>() + name.len() + content_bytes(&value))?;
                outputs.push((name.clone(), value));
            }
        }
        let mut lists = Vec::new();
        for (spec, hits) in level.hit_lists.iter().zip(&state.hits) {
            let mut hits = hits[group].clone();
            hits.sort_unstable_by(HitRef::order);
            self.path.push(lists.len() as u32);
            let (offset, end, continuation) = self.page(hits.len(), spec.max, spec.tag);
            self.path.pop();
            (self.take)(size_of::<GroupList>() + spec.label.len())?;
            self.chosen.push(ChosenHits { summary: spec.summary.clone(), hits: hits[offset..end].to_vec() });
            lists.push(GroupList::Hits { label: spec.label.clone(), hits: Vec::new(), continuation });
        }
        for (spec, list) in level.lists.iter().zip(&state.lists).filter(|(spec, _)| spec.shown) {
            self.path.push(lists.len() as u32);
            lists.push(self.groups(spec, list, group)?);
            self.path.pop();
        }
        Ok((outputs, lists))
    }

    fn groups(&mut self, spec: &GroupsList, list: &ListState, parent: usize) -> Result<GroupList, E> {
        (self.take)(size_of::<GroupList>() + spec.label.len())?;
        let members = list.members.of(parent);
        let (offset, end, continuation) = self.page(members.len(), spec.max, spec.tag);
        let ordered = self.ordered(spec, list, members, end)?;
        let shown = &ordered[offset..];
        let mut groups = Vec::new();
        for (index, group) in shown.iter().enumerate() {
            let group = *group as usize;
            let key = &list.table.keys[group];
            (self.take)(size_of::<ResultGroup>() + key.content_bytes())?;
            self.path.push((offset + index) as u32);
            let (outputs, lists) = self.group_content(&spec.level, &list.level, group)?;
            self.path.pop();
            // If the request specifies the order, relevance encodes the rank: from 1 in equal steps towards
            // 0.
            let relevance = if spec.order.is_empty() {
                list.level.ranks[group]
            } else {
                (shown.len() - index) as f64 / shown.len() as f64
            };
            groups.push(ResultGroup { id: group_id(key), relevance, outputs, lists });
        }
        Ok(GroupList::Groups { label: spec.label.clone(), groups, continuation })
    }

    /// The first `count` groups of a list, in its order.
    fn ordered(
        &mut self,
        spec: &GroupsList,
        list: &ListState,
        members: &[u32],
        count: usize,
    ) -> Result<Vec<u32>, E> {
        let width = spec.order.len();
        let count_of_keys = members.len() * width;
        (self.take)(count_of_keys * size_of::<ExpressionDatum<'static>>())?;
        let mut keys: Vec<ExpressionDatum<'static>> = Vec::with_capacity(count_of_keys);
        for group in members {
            for (_, node) in &spec.order {
                let key = self.eval(node, &list.level, *group as usize);
                (self.take)(key.content_bytes())?;
                keys.push(key);
            }
        }
        // Compares by index among the members, because the keys are stored by that index.
        let order = |a: &u32, b: &u32| {
            let (index_a, index_b) = (*a as usize, *b as usize);
            let keys = |index: usize| &keys[index * width..(index + 1) * width];
            for ((descending, _), (a, b)) in spec.order.iter().zip(keys(index_a).iter().zip(keys(index_b))) {
                match a.order(b) {
                    Ordering::Equal => {}
                    order => return if *descending { order.reverse() } else { order },
                }
            }
            let (a, b) = (members[index_a] as usize, members[index_b] as usize);
            let by_rank = list.level.ranks[b].total_cmp(&list.level.ranks[a]);
            by_rank.then_with(|| list.table.keys[a].order(&list.table.keys[b])).then(a.cmp(&b))
        };
        let mut indices: Vec<u32> = (0..members.len() as u32).collect();
        if count < indices.len() {
            indices.select_nth_unstable_by(count, order);
            indices.truncate(count);
        }
        indices.sort_unstable_by(order);
        Ok(indices.into_iter().map(|index| members[index as usize]).collect())
    }

    /// Range of entries on the page, and the continuations of the adjacent pages.
    fn page(
        &self,
        len: usize,
        max: Option<usize>,
        tag: u32,
    ) -> (usize, usize, (Option<String>, Option<String>)) {
        let list = ListKey { path: self.path.clone(), tag };
        let offset = self.grouping.offsets.get(&list).copied().unwrap_or(0).min(len);
        let Some(max) = max else { return (offset, len, (None, None)) };
        let end = offset.saturating_add(max).min(len);
        let next = (end < len).then(|| continuation::to_page(&list, end));
        let previous = (offset > 0).then(|| continuation::to_page(&list, offset.saturating_sub(max)));
        (offset, end, (next, previous))
    }

    fn eval(&self, node: &GroupNode, state: &LevelState, group: usize) -> ExpressionDatum<'static> {
        match node {
            GroupNode::Constant(value) => value.clone(),
            GroupNode::Aggregate(index) => state.aggregates[*index].value(group),
            GroupNode::GroupCount(list) => {
                ExpressionDatum::Long(state.lists[*list].members.of(group).len() as i64)
            }
            GroupNode::Call { function, arguments } => {
                let arguments = arguments.iter().map(|argument| self.eval(argument, state, group));
                function.apply(arguments, &self.grouping.zone)
            }
        }
    }
}

/// Memory of the text, the bytes or the numbers of a value, beside the value itself.
fn content_bytes(value: &GroupValue) -> usize {
    match value {
        GroupValue::String(text) => text.len(),
        GroupValue::Raw(bytes) => bytes.len(),
        GroupValue::Quantiles(quantiles) => size_of_val(&**quantiles),
        GroupValue::Long(_) | GroupValue::Double(_) | GroupValue::Bool(_) => 0,
    }
}

fn group_value(value: ExpressionDatum<'_>) -> Option<GroupValue> {
    Some(match value {
        ExpressionDatum::Long(value) => GroupValue::Long(value),
        ExpressionDatum::Double(value) => GroupValue::Double(value),
        ExpressionDatum::Bool(value) => GroupValue::Bool(value),
        ExpressionDatum::Text(text) => GroupValue::String(text.into_owned()),
        ExpressionDatum::Raw(bytes) => GroupValue::Raw(bytes.into_owned()),
        _ => return None,
    })
}

fn group_id(key: &ExpressionDatum<'_>) -> GroupId {
    match key {
        ExpressionDatum::Null | ExpressionDatum::List(_) => GroupId::Null,
        ExpressionDatum::Bool(value) => GroupId::Bool(*value),
        ExpressionDatum::Long(value) => GroupId::Long(*value),
        ExpressionDatum::Double(value) => GroupId::Double(*value),
        ExpressionDatum::Text(text) => GroupId::String(text.to_string()),
        ExpressionDatum::Raw(bytes) => GroupId::Raw(bytes.to_vec()),
        ExpressionDatum::LongBucket(from, to) => GroupId::LongBucket(*from, *to),
        ExpressionDatum::DoubleBucket(from, to) => GroupId::DoubleBucket(*from, *to),
        ExpressionDatum::TextBucket(from, to) => GroupId::StringBucket(from.to_string(), to.to_string()),
        ExpressionDatum::RawBucket(from, to) => GroupId::RawBucket(from.to_vec(), to.to_vec()),
    }
}
