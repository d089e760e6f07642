mod assign;

use std::cmp::Ordering;
use std::sync::Arc;

use millrace_column::{ExecutionPaths, View};
use serde::{Deserialize, Serialize};

use crate::GroupingFailure;
use crate::aggregate::AggregateValues;
use crate::batch::{GroupingBatch, GroupingColumns};
use crate::datum::ExpressionDatum;
use crate::level::{CheckedGrouping, GroupingLevel, GroupsList};
use crate::nesting;
use crate::node::{FilterNode, GroupingNode, RowContext};
use crate::source::SourceGroups;
use crate::table::{EnclosedGroups, GroupTable};
use crate::values::RowValues;

/// Maximum number of groups that one request keeps in memory, independent of its output: some hundred bytes
/// each.
const GROUPS_MAX: usize = 1_000_000;

/// Maximum number of positions in groups that the documents of one chunk may have: lists inside lists
/// multiply them.
const ROWS_MAX: usize = 4_000_000;

const TOO_MANY_GROUPS: GroupingFailure = GroupingFailure::TooManyGroups { limit: GROUPS_MAX };

/// A hit inside a group, filled with a document summary at the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HitRef {
    /// Number of the merged execution it comes from, as passed to [`GroupingExecution::new`].
    pub part: u32,
    /// Index of the chunk in that execution's view.
    pub chunk: usize,
    /// Index in the chunk.
    pub document: u16,
    /// Relevance score.
    pub score: f64,
}

impl HitRef {
    /// Deterministic order, best hit first.
    pub(crate) fn order(&self, other: &HitRef) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| {
            (self.part, self.chunk, self.document).cmp(&(other.part, other.chunk, other.document))
        })
    }
}

/// A running grouping. Memory grows with the number of groups, not of documents, except for quantiles and
/// `max(inf)` hits.
#[derive(Debug)]
pub struct GroupingExecution {
    grouping: Arc<CheckedGrouping>,
    part: u32,
    pub(crate) root: LevelState,
    /// Best documents so far if their number is limited; they are grouped at the end.
    best: Vec<HitRef>,
}

/// Groups of one [`GroupingLevel`], by group number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LevelState {
    /// Best score among each group's documents.
    pub(crate) ranks: Vec<f64>,
    pub(crate) aggregates: Vec<AggregateValues>,
    /// Hits by list of hits, then by group.
    pub(crate) hits: Vec<Vec<Vec<HitRef>>>,
    /// State of each list of groups.
    #[serde(deserialize_with = "nesting::deserialize")]
    pub(crate) lists: Vec<ListState>,
    /// Memory of entries that grow with documents, in bytes: those of hits and quantiles.
    #[serde(skip)]
    entries: usize,
}

/// All groups of one [`GroupsList`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ListState {
    pub(crate) table: GroupTable,
    pub(crate) level: LevelState,
    /// Groups of the values that keys were computed from.
    #[serde(skip)]
    pub(crate) sources: SourceGroups,
    /// Groups by enclosing group; available once everything is collected.
    #[serde(skip)]
    pub(crate) members: EnclosedGroups,
}

/// Rows of a batch on their way into groups. A row may occur several times, once per group.
#[derive(Default)]
struct GroupedRows {
    rows: Vec<u32>,
    /// Group of each row.
    groups: Vec<u32>,
    /// Elements bound to the rows: `width` per row.
    elements: Vec<u32>,
    width: usize,
}

impl GroupedRows {
    fn elements(&self, index: usize) -> &[u32] {
        &self.elements[index * self.width..(index + 1) * self.width]
    }

    fn push(&mut self, row: u32, group: u32) {
        self.rows.push(row);
        self.groups.push(group);
    }

    /// Checks that no more rows are in groups, and groups in their table, than a request may have.
    fn check_size(&self, table: &GroupTable) -> Result<(), GroupingFailure> {
        let is_within = table.len() <= GROUPS_MAX && self.rows.len() <= ROWS_MAX;
        if is_within { Ok(()) } else { Err(TOO_MANY_GROUPS) }
    }
}

impl GroupingExecution {
    /// Creates an empty execution. `part` is stored in the [`HitRef`]s, to distinguish executions after
    /// merging.
    pub fn new(grouping: Arc<CheckedGrouping>, part: u32) -> Self {
        let mut root = LevelState::new(&grouping.root);
        root.grow(&grouping.root, 1);
        GroupingExecution { grouping, part, root, best: Vec::new() }
    }

    /// Creates an execution with this state.
    pub(crate) fn with(grouping: Arc<CheckedGrouping>, root: LevelState) -> Self {
        GroupingExecution { grouping, part: 0, root, best: Vec::new() }
    }

    /// The request.
    pub fn grouping(&self) -> &Arc<CheckedGrouping> {
        &self.grouping
    }

    /// Collects documents of a chunk: their indices, ascending, and their scores (empty if nothing was
    /// ranked; all scores are then 0).
    ///
    /// # Errors
    /// A column could not be read, or there are too many groups.
    pub fn collect(
        &mut self,
        view: &dyn View,
        chunk: usize,
        documents: &[u16],
        scores: &[f64],
    ) -> Result<(), GroupingFailure> {
        let Some(top) = self.grouping.top else { return self.group(view, chunk, documents, scores) };
        let part = self.part;
        self.best.extend(documents.iter().enumerate().map(|(row, document)| HitRef {
            part,
            chunk,
            document: *document,
            score: scores.get(row).copied().unwrap_or(0.0),
        }));
        if view.paths().is_fast() {
            keep_best(&mut self.best, top, top.saturating_mul(2).max(4096));
        }
        Ok(())
    }

    /// Groups the documents that were held back because the request is limited to the best ones. Call it once
    /// after the last chunk, with the same view.
    ///
    /// # Errors
    /// A column could not be read, or there are too many groups.
    pub fn complete(&mut self, view: &dyn View) -> Result<(), GroupingFailure> {
        let mut best = std::mem::take(&mut self.best);
        keep_best(&mut best, self.grouping.top.unwrap_or(usize::MAX), 0);
        best.sort_unstable_by_key(|hit| (hit.chunk, hit.document));
        for hits in best.chunk_by(|a, b| a.chunk == b.chunk) {
            let documents: Vec<u16> = hits.iter().map(|hit| hit.document).collect();
            let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
            self.group(view, hits[0].chunk, &documents, &scores)?;
        }
        Ok(())
    }

    /// Memory that its groups take, in bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.best) + self.root.memory_bytes()
    }

    /// Merges another execution of the same request; both must be completed. The result is the same as if
    /// this execution had collected everything.
    pub fn merge(&mut self, other: GroupingExecution) {
        let grouping = Arc::clone(&self.grouping);
        self.root.merge(&grouping.root, other.root, &[0], grouping.hit_slack());
    }

    fn group(
        &mut self,
        view: &dyn View,
        chunk: usize,
        documents: &[u16],
        scores: &[f64],
    ) -> Result<(), GroupingFailure> {
        if documents.is_empty() {
            return Ok(());
        }
        let grouping = Arc::clone(&self.grouping);
        let columns = GroupingColumns::read(&grouping, view, chunk)?;
        let batch = GroupingBatch::new(&grouping.reads, &columns, documents, scores);
        let rows = GroupedRows {
            rows: (0..documents.len() as u32).collect(),
            groups: vec![0; documents.len()],
            elements: Vec::new(),
            width: 0,
        };
        let collector = BatchCollector {
            batch: &batch,
            grouping: &grouping,
            part: self.part,
            chunk,
            slack: grouping.hit_slack(),
            paths: view.paths(),
        };
        collector.level(&grouping.root, &mut self.root, &rows)?;
        if self.root.groups() > GROUPS_MAX { Err(TOO_MANY_GROUPS) } else { Ok(()) }
    }
}

impl CheckedGrouping {
    /// Number of hits a list keeps beyond `max`, so that every requested page can be returned and the
    /// existence of a next page is known.
    fn hit_slack(&self) -> usize {
        self.offsets.values().copied().max().unwrap_or(0).saturating_add(1)
    }
}

impl LevelState {
    fn new(level: &GroupingLevel) -> Self {
        LevelState {
            ranks: Vec::new(),
            aggregates: level.aggregates.iter().map(AggregateValues::new).collect(),
            entries: 0,
            hits: level.hit_lists.iter().map(|_| Vec::new()).collect(),
            lists: level
                .lists
                .iter()
                .map(|list| ListState {
                    table: GroupTable::default(),
                    level: LevelState::new(&list.level),
                    sources: SourceGroups::default(),
                    members: EnclosedGroups::default(),
                })
                .collect(),
        }
    }

    /// Memory that it takes, in bytes, approximately.
    fn memory_bytes(&self) -> usize {
        let aggregates: usize = self.aggregates.iter().map(AggregateValues::memory_bytes).sum();
        let hits: usize = self.hits.iter().map(|hits| size_of_val(&**hits)).sum();
        let list = |list: &ListState| {
            list.table.memory_bytes() + list.sources.memory_bytes() + list.level.memory_bytes()
        };
        let lists: usize = self.lists.iter().map(list).sum();
        size_of_val(&*self.ranks) + aggregates + hits + lists + self.entries
    }

    /// Groups at all places inside.
    fn groups(&self) -> usize {
        self.lists.iter().map(|list| list.table.len() + list.level.groups()).sum()
    }

    fn grow(&mut self, level: &GroupingLevel, groups: usize) {
        self.ranks.resize(groups, f64::NEG_INFINITY);
        self.aggregates.iter_mut().for_each(|aggregate| aggregate.grow(groups));
        self.hits.iter_mut().for_each(|hits| hits.resize(groups, Vec::new()));
        debug_assert_eq!(level.lists.len(), self.lists.len(), "state is made of its level");
    }

    /// Fills [`ListState::members`] of all nested lists.
    pub(crate) fn index(&mut self) {
        let groups = self.ranks.len();
        for list in &mut self.lists {
            list.members = EnclosedGroups::new(&list.table.parents, groups);
            list.level.index();
        }
    }

    /// Merges another level's state. Its group `n` is group `numbers[n]` here.
    fn merge(&mut self, level: &GroupingLevel, other: LevelState, numbers: &[u32], slack: usize) {
        for (rank, number) in other.ranks.into_iter().zip(numbers) {
            let kept = &mut self.ranks[*number as usize];
            *kept = kept.max(rank);
        }
        for (aggregate, theirs) in self.aggregates.iter_mut().zip(other.aggregates) {
            aggregate.merge(theirs, numbers);
        }
        for ((spec, mine), theirs) in level.hit_lists.iter().zip(&mut self.hits).zip(other.hits) {
            for (mut hits, number) in theirs.into_iter().zip(numbers) {
                let kept = &mut mine[*number as usize];
                kept.append(&mut hits);
                keep_best(kept, spec.max.unwrap_or(usize::MAX).saturating_add(slack), 0);
            }
        }
        for ((spec, mine), theirs) in level.lists.iter().zip(&mut self.lists).zip(other.lists) {
            let inner: Vec<u32> = theirs
                .table
                .parents
                .iter()
                .zip(&theirs.table.keys)
                .map(|(parent, key)| mine.table.number(numbers[*parent as usize], key))
                .collect();
            mine.level.grow(&spec.level, mine.table.len());
            mine.level.merge(&spec.level, theirs.level, &inner, slack);
        }
    }
}

/// Truncates a list to its best hits when it is longer than `when`.
fn keep_best(hits: &mut Vec<HitRef>, count: usize, when: usize) {
    if hits.len() > count && hits.len() > when {
        hits.select_nth_unstable_by(count, HitRef::order);
        hits.truncate(count);
    }
}

/// The keys of a list's groups.
struct GroupKeys<'b> {
    by: &'b GroupingNode,
    /// True if rows inside keep the index of the list element they come from.
    binds: bool,
    /// The filter that the rows have not passed yet.
    filter: Option<&'b FilterNode>,
}

impl GroupKeys<'_> {
    /// True if each row is in a group for each of its keys, and nothing else is kept of it.
    fn takes_all(&self, rows: &GroupedRows) -> bool {
        self.filter.is_none() && !self.binds && rows.width == 0
    }
}

/// Assignment of one batch's rows to groups.
struct BatchCollector<'b, 'd> {
    batch: &'b GroupingBatch<'d>,
    grouping: &'b CheckedGrouping,
    part: u32,
    chunk: usize,
    slack: usize,
    paths: ExecutionPaths,
}

impl<'b, 'd> BatchCollector<'b, 'd> {
    fn level(
        &self,
        level: &'b GroupingLevel,
        state: &mut LevelState,
        rows: &GroupedRows,
    ) -> Result<(), GroupingFailure> {
        for (row, group) in rows.rows.iter().zip(&rows.groups) {
            let (rank, score) = (&mut state.ranks[*group as usize], self.batch.score(*row as usize));
            if score > *rank {
                *rank = score;
            }
        }
        for (aggregate, accumulator) in level.aggregates.iter().zip(&mut state.aggregates) {
            if matches!(accumulator, AggregateValues::Values(_)) {
                state.entries += rows.rows.len() * size_of::<f64>();
            }
            match &aggregate.input {
                None => accumulator.count(&rows.groups),
                Some(input) => match self.values(input, rows) {
                    Some(RowValues::Numbers(numbers)) => accumulator.add_numbers(&rows.groups, numbers),
                    Some(values) => {
                        for (index, group) in rows.groups.iter().enumerate() {
                            accumulator.add_value(*group, values.datum(index));
                        }
                    }
                    None => {
                        for (index, group) in rows.groups.iter().enumerate() {
                            let context = self.context(rows.rows[index], rows.elements(index));
                            accumulator.add_value(*group, input.eval(context));
                        }
                    }
                },
            }
        }
        for (spec, hits) in level.hit_lists.iter().zip(&mut state.hits) {
            let keep = spec.max.unwrap_or(usize::MAX).saturating_add(self.slack);
            for (row, group) in rows.rows.iter().zip(&rows.groups) {
                let list = &mut hits[*group as usize];
                let (row, before) = (*row as usize, list.len());
                list.push(HitRef {
                    part: self.part,
                    chunk: self.chunk,
                    document: self.batch.documents[row],
                    score: self.batch.score(row),
                });
                keep_best(list, keep, keep.saturating_mul(2).max(64));
                let (more, fewer) = (list.len() * size_of::<HitRef>(), before * size_of::<HitRef>());
                state.entries = (state.entries + more).saturating_sub(fewer);
            }
        }
        for (spec, list) in level.lists.iter().zip(&mut state.lists) {
            let inner = self.assign(spec, list, rows)?;
            list.level.grow(&spec.level, list.table.len());
            self.level(&spec.level, &mut list.level, &inner)?;
        }
        Ok(())
    }

    fn context<'e>(&'e self, row: u32, elements: &'e [u32]) -> RowContext<'e, 'd> {
        RowContext { batch: self.batch, zone: &self.grouping.zone, row: row as usize, elements }
    }

    /// Fast path for expressions without lists: their values in all rows.
    fn values(&self, node: &'b GroupingNode, rows: &GroupedRows) -> Option<RowValues<'b>> {
        if !self.paths.is_fast() {
            return None;
        }
        node.values(self.batch, &self.grouping.zone, &rows.rows)
    }

    /// Fast path for a filter that reads no bound element: the rows that pass it.
    fn passing(&self, filter: &FilterNode, rows: &GroupedRows) -> GroupedRows {
        let passing = filter.passing(self.batch, &self.grouping.zone, &rows.rows);
        let mut kept = GroupedRows::default();
        for (index, _) in passing.iter().enumerate().filter(|(_, passes)| **passes) {
            kept.push(rows.rows[index], rows.groups[index]);
        }
        kept
    }

    /// Assigns each row to its groups in a list.
    ///
    /// # Errors
    /// There are too many groups, or places in them.
    fn assign(
        &self,
        list: &'b GroupsList,
        state: &mut ListState,
        rows: &GroupedRows,
    ) -> Result<GroupedRows, GroupingFailure> {
        let width = rows.width + usize::from(list.binds);
        let mut inner = GroupedRows { width, ..GroupedRows::default() };
        let mut keys = GroupKeys { by: &list.by, binds: list.binds, filter: list.filter.as_ref() };
        let kept = match keys.filter {
            Some(filter) if self.paths.is_fast() && width == 0 => Some(self.passing(filter, rows)),
            _ => None,
        };
        if kept.is_some() {
            keys.filter = None;
        }
        let rows = kept.as_ref().unwrap_or(rows);
        if self.paths.is_fast() && self.assign_fast(&keys, state, rows, &mut inner)? {
            return Ok(inner);
        }
        let table = &mut state.table;
        for (index, (&row, &group)) in rows.rows.iter().zip(&rows.groups).enumerate() {
            let outer = rows.elements(index);
            let key = list.by.eval(self.context(row, outer));
            let (values, one) = match key {
                ExpressionDatum::List(values) => (values, None),
                value => (Vec::new(), Some(value)),
            };
            for (element, value) in values.iter().chain(&one).enumerate() {
                if self.bind_element(&keys, row, outer, element, &mut inner) {
                    inner.push(row, table.number(group, value));
                }
            }
            inner.check_size(table)?;
        }
        Ok(inner)
    }
}
