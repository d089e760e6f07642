use millrace_bucket::DocumentSortKey;
use millrace_document::{Document, DocumentId, DocumentVersion, Timestamp};

use crate::Error;
use crate::context::StoreContext;
use crate::read::columns::{self, ValueColumn};
use crate::read::lookup::{NewestVersion, SegmentVersion, newest_versions};

/// Returns the newest version of a document, unless it is a removal or was dropped. Fields other than these
/// can be missing; `None`: none is.
pub(crate) fn get(
    shared: &StoreContext,
    id: &DocumentId,
    fields: Option<&[String]>,
) -> Result<Option<(Document, Timestamp)>, Error> {
    let found = newest(shared, id, &DocumentSortKey::new(id))?;
    found.map_or(Ok(None), |found| content(shared, id, found, fields))
}

/// Returns the newest version of a document as [`newest_versions`] has found it, unless it is a removal or
/// was dropped since then. One that is to be looked up alone is looked up.
pub(crate) fn found(
    shared: &StoreContext,
    id: &DocumentId,
    key: &DocumentSortKey,
    found: Option<NewestVersion>,
) -> Result<Option<(Document, Timestamp)>, Error> {
    let found = match found {
        Some(NewestVersion::Unread(_)) => newest(shared, id, key)?,
        found => found.filter(|found| found.timestamp() > dropped_until(shared, id, key)),
    };
    found.map_or(Ok(None), |found| content(shared, id, found, None))
}

/// Returns the newest version of a document, which may be a removal; a dropped document is a removal at the
/// time of the drop.
pub(crate) fn version(shared: &StoreContext, id: &DocumentId) -> Result<Option<DocumentVersion>, Error> {
    let key = DocumentSortKey::new(id);
    let Some(found) = newest(shared, id, &key)? else {
        let dropped = dropped_until(shared, id, &key);
        return Ok((dropped > 0).then(|| DocumentVersion::removal(id.clone(), Timestamp(dropped))));
    };
    let timestamp = Timestamp(found.timestamp());
    Ok(Some(match content(shared, id, found, None)? {
        Some((document, timestamp)) => DocumentVersion::put(&document, timestamp),
        None => DocumentVersion::removal(id.clone(), timestamp),
    }))
}

fn newest(
    shared: &StoreContext,
    id: &DocumentId,
    key: &DocumentSortKey,
) -> Result<Option<NewestVersion>, Error> {
    Ok(newest_versions(&shared.state(), &[(id, key)], usize::MAX)?.pop().flatten())
}

/// The time up to which versions of a document are dropped; 0: none are.
fn dropped_until(shared: &StoreContext, id: &DocumentId, key: &DocumentSortKey) -> u64 {
    shared.state().marks.dropped_until(id.document_type(), key.reversed_location(), key.group_key())
}

/// The document of a version, unless that is a removal; with these fields at least.
fn content(
    shared: &StoreContext,
    id: &DocumentId,
    found: NewestVersion,
    fields: Option<&[String]>,
) -> Result<Option<(Document, Timestamp)>, Error> {
    Ok(match found {
        NewestVersion::InTail(row) => (!row.removed).then_some((row.document, row.timestamp)),
        NewestVersion::InSegment(found) if found.removed => None,
        NewestVersion::InSegment(found) => {
            Some((read(shared, id, &found, fields)?, Timestamp(found.timestamp)))
        }
        NewestVersion::Unread(_) => unreachable!("all bytes of a document that is looked up alone are kept"),
    })
}

fn read(
    shared: &StoreContext,
    id: &DocumentId,
    found: &SegmentVersion,
    fields: Option<&[String]>,
) -> Result<Document, Error> {
    let source = &found.source;
    let section = &source.segment.sections()[source.section];
    let corrupt = |error: millrace_column::Error| Error::Corrupt {
        path: source.segment.path().to_owned(),
        offset: 0,
        reason: error.to_string(),
    };
    let (layout, _) = shared.layout();
    let mut values = Vec::new();
    for (index, key) in section.columns.iter().enumerate() {
        if !columns::can_hold(key, fields) {
            continue;
        }
        let column = source.segment.column_at(source.section, index, found.chunk)?;
        values.extend(ValueColumn::new(&*layout, id.document_type(), key, column).map_err(corrupt)?);
    }
    columns::document(id.clone(), found.row, &values).map_err(corrupt)
}
