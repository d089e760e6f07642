//! Visits of partitions chunk by chunk: the query is evaluated on columns of the fields that it reads, and of
//! the documents that match only those are read that the search can show: the fields of its order, and the
//! sequence numbers that decide between equal hits, are columns as well.
//!
//! A condition on one field depends on the members of a document that have the field, and on nothing else: it
//! is evaluated once for members that repeat. Where it is not known for the rows of a chunk, since a column
//! does not fit or a condition fails, the documents of the chunk are visited one by one.

mod condition;

use std::cmp::{Ordering, Reverse};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_env::pace;
use millrace_node::metrics::CountedMetric;
use serde_json::{Map, Value};

use self::condition::ColumnPlan;
use super::{HitScan, HitSink, VisitedDocument, VisitedIndex};
use crate::Error;
use crate::catalog::OpenIndex;
use crate::kept_hits::KnownRank;
use crate::log_columns::{
    ColumnBuilder, LogColumn, LogColumnName, RowDimension, RowSet, RowTally, add_members,
};
use crate::read_fields::ReadFields;
use crate::scan_limit::{ScanProgress, pause};
use crate::search::SearchHit;
use crate::service::ElasticService;
use crate::storage::{GroupChunks, StoredSource};

/// Rows that are read between two looks at the turns of other work.
const ROWS_PER_TURN: usize = 64;

/// A field that a sink reads of rows.
pub(crate) struct RowField {
    pub(crate) name: String,
    /// Length in milliseconds of stretches of time, from multiples of it on, whose times are alike to the
    /// sink.
    pub(crate) interval_ms: Option<i64>,
    /// True if a query of the sink reads it.
    pub(crate) is_searched: bool,
}

/// Rank of a row among the hits, as far as it is known without the document.
#[derive(Debug, Clone)]
pub(crate) enum RowRank {
    Unknown,
    /// Time of the document, which is the first key of the order.
    Time(i64),
    Known(KnownRank),
}

/// Receiver of the rows of chunks that match.
pub(crate) trait RowSink {
    /// Fields that it reads of each row, some several times; `None` if it needs documents.
    fn row_fields(&self) -> Option<Vec<RowField>>;

    /// Sequence number from which on documents do not count.
    fn seq_no_end(&self) -> i64 {
        i64::MAX
    }

    /// Counts rows that match.
    fn count_rows(&mut self, count: usize);

    /// True if it takes rows for aggregations, which may read no field.
    fn aggregates_rows(&self) -> bool;

    /// True if these are not taken together where they are alike: their documents may be shown.
    fn takes_each_row(&self) -> bool;

    /// Takes the fields that it reads of some rows, which have the same values in them.
    ///
    /// # Errors
    /// There is no memory for what it makes of them.
    fn add_alike(&mut self, hit: &SearchHit, count: usize) -> Result<(), Error>;

    /// The part of it that chooses hits; `None` if it shows none.
    fn chooser(&mut self) -> Option<&mut dyn RowChooser>;
}

/// Chooser of the hits that are shown, which knows rows before their documents are read.
pub(crate) trait RowChooser {
    /// True if the times of documents can decide that it does not show them.
    fn is_by_time(&self) -> bool;

    /// Fields that can decide that it does not show a document, together with the sequence number; `None` if
    /// it needs the document.
    fn order_fields(&self) -> Option<Vec<String>>;

    /// Rank of a row with these fields.
    fn rank(&self, row: &mut SearchHit) -> KnownRank;

    /// Order of two rows of one index, the one that it shows first before the other.
    fn compare(&self, left: &KnownRank, right: &KnownRank) -> Ordering;

    /// True if it does not show a document of this rank.
    fn passes_over(&mut self, rank: &RowRank) -> bool;

    /// Takes a document that it may show. It has been counted before.
    ///
    /// # Errors
    /// There is no memory for it.
    fn keep(&mut self, hit: SearchHit) -> Result<(), Error>;
}

/// Chunks of a partition that is visited.
pub(super) struct VisitedChunks<'v> {
    pub(super) visited: VisitedIndex<'v>,
    pub(super) plan: &'v ColumnPlan<'v>,
    pub(super) chunks: &'v GroupChunks,
    /// Number of the partition.
    pub(super) partition: u32,
}

/// Columns of one chunk, made when they are read first.
struct LazyColumns<'c> {
    service: &'c ElasticService,
    of: &'c VisitedChunks<'c>,
    chunk: usize,
    /// By their positions in the plan.
    found: Vec<Option<Arc<LogColumn>>>,
    /// Number of the evaluations of conditions on their values.
    evaluations: usize,
}

impl LazyColumns<'_> {
    /// A column by its position in the plan. Those that most searches with the plan read are made together.
    fn get(&mut self, position: usize) -> Result<Arc<LogColumn>, Error> {
        if let Some(column) = self.known(position) {
            return Ok(column);
        }
        let plan = self.of.plan;
        let others = (0..plan.names.len()).filter(|other| *other != position && plan.is_usual[*other]);
        let others: Vec<usize> = others.filter(|other| self.known(*other).is_none()).collect();
        let positions: Vec<usize> = std::iter::once(position).chain(others).collect();
        let names: Vec<Arc<LogColumnName>> =
            positions.iter().map(|at| Arc::clone(&plan.names[*at])).collect();
        let made = make_columns(self.service, self.of.chunks, self.chunk, &names)?;
        for (at, column) in positions.iter().zip(made) {
            self.found[*at] = Some(column);
        }
        Ok(self.found[position].clone().unwrap_or_else(|| Arc::new(LogColumn::Unfit)))
    }

    fn known(&mut self, position: usize) -> Option<Arc<LogColumn>> {
        if self.found[position].is_none() {
            let identity = self.of.chunks.identity(self.chunk)?;
            self.found[position] = self.service.log_columns.get(identity, &self.of.plan.names[position]);
        }
        self.found[position].clone()
    }
}

/// Makes columns of a chunk, and keeps them.
///
/// # Errors
/// The store cannot be read, or a document is damaged.
pub(crate) fn make_columns(
    service: &ElasticService,
    chunks: &GroupChunks,
    chunk: usize,
    names: &[Arc<LogColumnName>],
) -> Result<Vec<Arc<LogColumn>>, Error> {
    let fields = names.iter().map(|name| name.fields()).fold(ReadFields::NONE, ReadFields::with);
    let mut builders: Vec<ColumnBuilder> = names.iter().map(|name| ColumnBuilder::new(name)).collect();
    let documents = chunks.documents(chunk)?;
    for row in 0..documents.len() {
        if row.is_multiple_of(ROWS_PER_TURN) {
            pause();
            pace::step();
        }
        let (source, seq_no) = documents.source(row)?;
        let members = if fields.is_empty() { Map::new() } else { source.members(&fields)? };
        builders.iter_mut().for_each(|builder| builder.push(&members, seq_no));
    }
    service.node.metrics().add(CountedMetric::LogColumnsMade, names.len() as u64);
    let columns: Vec<Arc<LogColumn>> = builders.into_iter().map(|one| Arc::new(one.finish())).collect();
    if let Some(identity) = chunks.identity(chunk) {
        for (name, column) in names.iter().zip(&columns) {
            service.log_columns.insert(identity, name, Arc::clone(column));
        }
    }
    Ok(columns)
}

impl HitScan<'_> {
    /// Plan of a visit by columns; `None` if documents have to be read one by one.
    pub(super) fn column_plan<'q>(
        &'q self,
        visited: VisitedIndex<'q>,
        progress: &ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Option<ColumnPlan<'q>> {
        let is_restricted = self.request.slice.is_some()
            || self.request.routing_of(&visited.index.entry.name).is_some()
            || self.minimum_score.is_some()
            || self.after.is_some()
            || progress.may_terminate();
        if is_restricted {
            return None;
        }
        let plan = ColumnPlan::of(self.query, visited, sink.rows()?)?;
        let usual = plan.names.iter().zip(&plan.is_usual).filter(|(_, is_usual)| **is_usual);
        self.service.log_columns.note_read(&visited.index.entry.uuid, usual.map(|(name, _)| name));
        Some(plan)
    }

    /// Visits the documents of a partition. Breaks off at a limit of the search.
    ///
    /// # Errors
    /// Documents cannot be read, the search reaches a limit, or the sink refuses one.
    pub(super) fn visit_chunks(
        &self,
        of: &VisitedChunks<'_>,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<ControlFlow<()>, Error> {
        let mut tally = RowTally::default();
        let flow = self.tally_chunks(of, &mut tally, progress, sink)?;
        if let Some(sink) = sink.rows() {
            let mut hit = alike(of.visited.index, of.visited.ordinal);
            tally.hand_on(&mut |members, count| {
                // After the end of the time, too, what was found is aggregated.
                let _ = progress.next()?;
                hit.formed = of.visited.form.apply(&members);
                hit.document = members;
                sink.add_alike(&hit, count)
            })?;
        }
        Ok(flow)
    }

    /// Visits the chunks. Rows that are alike are counted.
    fn tally_chunks(
        &self,
        of: &VisitedChunks<'_>,
        tally: &mut RowTally,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<ControlFlow<()>, Error> {
        let service = self.service;
        for (chunk, content) in of.chunks.all().iter().enumerate() {
            if progress.is_over() || progress.look()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            progress.is_brief = sink.only_counts();
            let mut live = RowSet::live(content);
            service.node.metrics().add(CountedMetric::LogDocumentsRead, live.count() as u64);
            let found = vec![None; of.plan.names.len()];
            let mut columns = LazyColumns { service, of, chunk, found, evaluations: 0 };
            if let Some((at, end)) = of.plan.seq_nos_before
                && let LogColumn::SeqNos(seq_nos) = &*columns.get(at)?
            {
                live = live.keep_each(|row| seq_nos[row] < end);
            }
            let rows = of.plan.rows(&live, &mut columns, progress.pace())?;
            let flow = match rows {
                None => self.each_row(of, chunk, &live, progress, sink)?,
                Some(rows) if rows.is_empty() => continue,
                Some(rows) => self.take_rows(&rows, &mut columns, tally, progress, sink)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Visits documents of a chunk one by one.
    fn each_row(
        &self,
        of: &VisitedChunks<'_>,
        chunk: usize,
        rows: &RowSet,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<ControlFlow<()>, Error> {
        let documents = of.chunks.documents(chunk)?;
        for row in rows.iter() {
            let document = documents.document(row)?;
            let (ordinal, partition) = (of.visited.ordinal, of.partition);
            let at = VisitedDocument { ordinal, partition, id: Some(&document.id) };
            if self.each(of.visited, StoredSource::of(&document), at, progress, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Hands the rows of a chunk that match to the sink.
    fn take_rows(
        &self,
        rows: &RowSet,
        columns: &mut LazyColumns<'_>,
        tally: &mut RowTally,
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn HitSink,
    ) -> Result<ControlFlow<()>, Error> {
        let (of, chunk) = (columns.of, columns.chunk);
        let VisitedIndex { index, ordinal, fields, form, .. } = of.visited;
        let read = of.plan.read.iter().map(|field| columns.get(field.members));
        let read: Vec<Arc<LogColumn>> = read.collect::<Result<_, _>>()?;
        let intervals = of.plan.read.iter().map(|field| match field.intervals {
            Some((at, length)) => Ok(Some((columns.get(at)?, length))),
            None => Ok(None),
        });
        let intervals: Vec<Option<(Arc<LogColumn>, i64)>> = intervals.collect::<Result<_, Error>>()?;
        let dimensions =
            read.iter().zip(&intervals).map(|(column, intervals)| match (&**column, intervals) {
                (LogColumn::Members(column), None) => Some(RowDimension::Members(column)),
                (LogColumn::Members(column), Some((times, length))) => Some(match &**times {
                    LogColumn::Times(times) => RowDimension::Intervals(times, *length),
                    _ => RowDimension::Members(column),
                }),
                _ => None,
            });
        let Some(dimensions) = dimensions.collect::<Option<Vec<RowDimension<'_>>>>() else {
            return self.each_row(of, chunk, rows, progress, sink);
        };
        let Some(sink) = sink.rows() else {
            return self.each_row(of, chunk, rows, progress, sink);
        };
        sink.count_rows(rows.count());
        if sink.takes_each_row() {
            self.add_each_row(rows, columns, &read, progress, sink)?;
        } else if sink.aggregates_rows() {
            let mut hit = alike(index, ordinal);
            tally.add(rows, &dimensions, &|row| members_of(&read, row), &mut |members, count| {
                // As above.
                let _ = progress.next()?;
                hit.formed = form.apply(&members);
                hit.document = members;
                sink.add_alike(&hit, count)
            })?;
        }
        let Some(chooser) = sink.chooser() else { return Ok(ControlFlow::Continue(())) };
        let mut ranked = self.ranked(rows, columns, chooser)?;
        ranked.retain(|(rank, _)| !chooser.passes_over(rank));
        if ranked.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let documents = of.chunks.documents(chunk)?;
        for (rank, row) in ranked {
            // Once the first ones are kept, the others are passed over.
            if chooser.passes_over(&rank) {
                continue;
            }
            if progress.next()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let stored = StoredSource::of(&documents.document(row)?);
            if let Some(hit) = self.hit(of.visited, stored, fields)? {
                chooser.keep(hit)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Hands rows to the aggregations of a sink one by one, each with its place in the chunk.
    fn add_each_row(
        &self,
        rows: &RowSet,
        columns: &mut LazyColumns<'_>,
        read: &[Arc<LogColumn>],
        progress: &mut ScanProgress<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<(), Error> {
        let of = columns.of;
        let VisitedIndex { index, ordinal, form, .. } = of.visited;
        let seq_nos = of.plan.seq_nos.map(|at| columns.get(at)).transpose()?;
        let mut hit = alike(index, ordinal);
        for row in rows.iter() {
            // As above.
            let _ = progress.next()?;
            if let Some(LogColumn::SeqNos(seq_nos)) = seq_nos.as_deref() {
                hit.stored.seq_no = seq_nos[row];
            }
            hit.row = Some(of.chunks.row(columns.chunk, row));
            hit.document = members_of(read, row);
            hit.formed = form.apply(&hit.document);
            sink.add_alike(&hit, 1)?;
        }
        Ok(())
    }

    /// Rows with their ranks among the hits, those that are shown first at the beginning.
    fn ranked(
        &self,
        rows: &RowSet,
        columns: &mut LazyColumns<'_>,
        chooser: &dyn RowChooser,
    ) -> Result<Vec<(RowRank, usize)>, Error> {
        let of = columns.of;
        if let Some(at) = of.plan.times
            && let LogColumn::Times(times) = &*columns.get(at)?
        {
            let mut timed: Vec<(i64, usize)> = rows.iter().map(|row| (times.millis[row], row)).collect();
            if self.is_backwards {
                timed.sort_by_key(|(time, _)| Reverse(*time));
            }
            return Ok(timed.into_iter().map(|(time, row)| (RowRank::Time(time), row)).collect());
        }
        let unknown = || Ok(rows.iter().map(|row| (RowRank::Unknown, row)).collect());
        let Some((fields, seq_nos)) = &of.plan.order else { return unknown() };
        let fields = fields.iter().map(|at| columns.get(*at)).collect::<Result<Vec<_>, Error>>()?;
        let seq_nos = columns.get(*seq_nos)?;
        let LogColumn::SeqNos(seq_nos) = &*seq_nos else { return unknown() };
        if !fields.iter().all(|column| matches!(**column, LogColumn::Members(_))) {
            return unknown();
        }
        let VisitedIndex { index, ordinal, form, .. } = of.visited;
        let mut hit = alike(index, ordinal);
        let rank = |row: usize| {
            hit.document = members_of(&fields, row);
            hit.formed = form.apply(&hit.document);
            hit.stored.seq_no = seq_nos[row];
            (chooser.rank(&mut hit), row)
        };
        let mut ranked: Vec<(KnownRank, usize)> = rows.iter().map(rank).collect();
        ranked.sort_by(|(left, _), (right, _)| chooser.compare(left, right));
        Ok(ranked.into_iter().map(|(rank, row)| (RowRank::Known(rank), row)).collect())
    }
}

/// A hit for rows of which some fields alone are known.
fn alike(index: &OpenIndex, ordinal: usize) -> SearchHit {
    SearchHit {
        index: index.clone(),
        ordinal,
        stored: nothing(),
        document: Map::new(),
        formed: None,
        score: 1.0,
        matched: Vec::new(),
        sort: Vec::new(),
        place: None,
        collapsed: None,
        inner: Map::new(),
        row: None,
    }
}

/// A stored document of which nothing is known.
fn nothing() -> StoredSource {
    StoredSource { id: String::new(), source: "{}".into(), version: 1, seq_no: 0, routing: None }
}

/// Members of a row that columns have.
fn members_of(columns: &[Arc<LogColumn>], row: usize) -> Map<String, Value> {
    let mut members: Option<Map<String, Value>> = None;
    for column in columns {
        let LogColumn::Members(column) = &**column else { continue };
        let own = column.document(row);
        match &mut members {
            None => members = Some(own.into_owned()),
            Some(members) => add_members(members, &own),
        }
    }
    members.unwrap_or_default()
}
