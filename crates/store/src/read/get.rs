use std::cmp::Reverse;
use std::ops::ControlFlow;

use millrace_bucket::DocumentSortKey;
use millrace_column::{BytesColumn, ColumnForm};
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentVersion, ReversedLocation, Timestamp};

use crate::Error;
use crate::read::columns::{self, ValueColumn};
use crate::read::masks::{SegmentChunks, ids, removed_rows, timestamps};
use crate::shared::StoreContext;
use crate::state::StoreState;
use crate::tail::{RowKey, TailRow};

/// Returns the newest version of a document, unless it is a removal or was dropped.
pub(crate) fn get(shared: &StoreContext, id: &DocumentId) -> Result<Option<(Document, Timestamp)>, Error> {
    Ok(match newest(shared, id)? {
        Some(NewestVersion::InTail(row)) => (!row.removed).then_some((row.document, row.timestamp)),
        Some(NewestVersion::InSegment(found)) if !found.removed => {
            Some((read(shared, id, &found)?, Timestamp(found.timestamp)))
        }
        _ => None,
    })
}

/// Returns the newest version of a document, which may be a removal; a dropped document is a removal at the
/// time of the drop.
pub(crate) fn version(shared: &StoreContext, id: &DocumentId) -> Result<Option<DocumentVersion>, Error> {
    let Some(newest) = newest(shared, id)? else {
        let place = id.location().reversed();
        let dropped = shared.state().marks.dropped(id.document_type(), place, &id.group().key());
        return Ok((dropped > 0).then(|| DocumentVersion::removal(id.clone(), Timestamp(dropped))));
    };
    Ok(Some(match newest {
        NewestVersion::InTail(row) if row.removed => DocumentVersion::removal(id.clone(), row.timestamp),
        NewestVersion::InTail(row) => DocumentVersion::put(&row.document, row.timestamp),
        NewestVersion::InSegment(found) if found.removed => {
            DocumentVersion::removal(id.clone(), Timestamp(found.timestamp))
        }
        NewestVersion::InSegment(found) => {
            DocumentVersion::put(&read(shared, id, &found)?, Timestamp(found.timestamp))
        }
    }))
}

/// Location of the newest version of a document.
enum NewestVersion {
    InTail(TailRow),
    InSegment(SegmentVersion),
}

fn newest(shared: &StoreContext, id: &DocumentId) -> Result<Option<NewestVersion>, Error> {
    let state = shared.state();
    let location = id.location().reversed();
    let group = id.group().key();
    let dropped = state.marks.dropped(id.document_type(), location, &group);
    let in_tail = find_in_tail(&state, &DocumentSortKey::new(id))?;
    let sealed = state.bucket(location).newest();
    let in_segments = match &in_tail {
        // Most rows are newer than all rows sealed before them.
        Some(row) if sealed.is_some_and(|sealed| row.timestamp.0 > sealed) => None,
        _ => find_in_segments(&state, id, location, &group)?,
    };
    let newest = match (in_tail, in_segments) {
        (Some(row), Some(found)) if row.timestamp.0 < found.timestamp => NewestVersion::InSegment(found),
        (Some(row), _) => NewestVersion::InTail(row),
        (None, Some(found)) => NewestVersion::InSegment(found),
        (None, None) => return Ok(None),
    };
    let timestamp = match &newest {
        NewestVersion::InTail(row) => row.timestamp.0,
        NewestVersion::InSegment(found) => found.timestamp,
    };
    Ok((timestamp > dropped).then_some(newest))
}

/// The newest row of a document in the tail.
fn find_in_tail(state: &StoreState, key: &DocumentSortKey) -> Result<Option<TailRow>, Error> {
    let mut from = key.as_bytes().to_vec();
    from.push(0);
    let mut to = key.as_bytes().to_vec();
    to.push(1);
    let mut newest: Option<TailRow> = None;
    for generation in &state.generations {
        // Most rows of a generation are newer than all of the previous one.
        if newest.as_ref().is_some_and(|newest| newest.timestamp.0 >= generation.newest()) {
            continue;
        }
        let mut found = None;
        generation.tail.snapshot().range(&from, Some(&to), &mut |key, value| {
            found = Some(TailRow::decode(&RowKey::parse(key)?, value)?);
            Ok(ControlFlow::Break(()))
        })?;
        newest = newest.into_iter().chain(found).max_by_key(|row: &TailRow| row.timestamp);
    }
    Ok(newest)
}

/// A version in a segment.
struct SegmentVersion {
    source: SegmentChunks,
    chunk: u32,
    row: usize,
    timestamp: u64,
    removed: bool,
}

fn find_in_segments(
    state: &StoreState,
    id: &DocumentId,
    location: ReversedLocation,
    group: &str,
) -> Result<Option<SegmentVersion>, Error> {
    let short = location.high();
    let mut best: Option<SegmentVersion> = None;
    let mut segments = state.bucket(location).open_segments()?;
    segments.sort_unstable_by_key(|segment| Reverse(segment.newest()));
    for segment in segments {
        if best.as_ref().is_some_and(|best| best.timestamp >= segment.newest()) {
            break;
        }
        let Some(section) = segment.section(id.document_type()) else { continue };
        let mut entries = Vec::new();
        segment.groups(section, short, |entry| {
            let beyond = entry.location > short;
            if !beyond && entry.group == group && (entry.location == short || group.is_empty()) {
                entries.push(entry);
            }
            !beyond
        })?;
        for entry in entries {
            let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
            let infos = segment.chunks(section, chunks.clone())?;
            let after = infos.partition_point(|info| info.first_location <= location);
            let before = infos.partition_point(|info| info.first_location < location);
            let source = SegmentChunks { segment: segment.clone(), section, chunks: Vec::new() };
            for (chunk, info) in infos.iter().enumerate().take(after).skip(before.saturating_sub(1)) {
                let number = entry.first_chunk + chunk as u32;
                let column = &ids(&source, number..number + 1)?[0];
                let next = infos.get(chunk + 1).map(|next| next.first_location);
                let Some(row) = row_of(column, id, location, info.first_location, next) else { continue };
                let timestamp = timestamps(&source, number..number + 1)?[0].cells::<u64>()[row];
                if best.as_ref().is_none_or(|best| timestamp > best.timestamp) {
                    let removed = info.removed > 0 && removed_rows(&source, number)?.contains(&row);
                    best = Some(SegmentVersion {
                        source: source.clone(),
                        chunk: number,
                        row,
                        timestamp,
                        removed,
                    });
                }
            }
        }
    }
    Ok(best)
}

/// Steps of a search that guess a row from the locations around it, before it halves the rows. Locations are
/// spread evenly, so that few steps are more than these.
const GUESSES: usize = 6;

/// Returns the row of a document in the ids of a chunk, which has documents from `first` to `next`, if there is
/// a chunk after it, in the order of their locations.
fn row_of(
    ids: &BytesColumn,
    id: &DocumentId,
    location: ReversedLocation,
    first: ReversedLocation,
    next: Option<ReversedLocation>,
) -> Option<usize> {
    let wanted = location.bits();
    let place =
        |text: Option<&[u8]>| DocumentId::location_of(text.unwrap_or_default(), id.group()).reversed().bits();
    let (mut row, mut end) = (0, ids.len());
    let last = match id.group() {
        DocumentGroup::None => u64::MAX,
        // All documents of a group have these high bits.
        _ => wanted | u64::from(u32::MAX),
    };
    let (mut low, mut high) = (first.bits(), next.map_or(last, ReversedLocation::bits));
    for step in 0.. {
        if row == end {
            break;
        }
        let share = u128::from(wanted.saturating_sub(low)) * (end - row) as u128;
        let guess = (share / (u128::from(high.saturating_sub(low)) + 1)) as usize;
        let middle = if step < GUESSES { row + guess.min(end - row - 1) } else { row.midpoint(end) };
        match place(ids.get(middle)) {
            found if found < wanted => (row, low) = (middle + 1, found),
            found => (end, high) = (middle, found),
        }
    }
    // Different documents can have one location.
    (row..ids.len())
        .take_while(|row| place(ids.get(*row)) == wanted)
        .find(|row| ids.get(*row) == Some(id.as_str().as_bytes()))
}

fn read(shared: &StoreContext, id: &DocumentId, found: &SegmentVersion) -> Result<Document, Error> {
    let source = &found.source;
    let section = &source.segment.sections()[source.section];
    let corrupt = |error: millrace_column::Error| Error::Corrupt {
        path: source.segment.path().to_owned(),
        offset: 0,
        reason: error.to_string(),
    };
    let (layout, _) = shared.layout();
    let mut values = Vec::new();
    for key in section.columns.iter().filter(|key| matches!(key.form, ColumnForm::Value | ColumnForm::Rest)) {
        let column =
            source.segment.columns(source.section, key, found.chunk..found.chunk + 1)?.pop().flatten();
        values.extend(ValueColumn::new(&*layout, id.document_type(), key, column).map_err(corrupt)?);
    }
    columns::document(id.clone(), found.row, &values).map_err(corrupt)
}
