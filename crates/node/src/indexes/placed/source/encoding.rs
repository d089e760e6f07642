//! Changes as they are sent: with the keys by the definitions of copies.

use std::sync::Arc;

use millrace_index_feed::{FeedChange, FeedPage, FeedRow, PageContent};
use millrace_keys::KeyWriter;

use super::super::super::IndexDefinition;
use super::super::message::VersionKeys;
use super::super::pages::keys_in_place;
use super::QueuedContent;

/// A change with the keys that a follower wants, by the definitions of a type.
pub(super) fn encoded_change(
    change: FeedChange<QueuedContent>,
    wanted: &mut impl FnMut(&str) -> Vec<Arc<IndexDefinition>>,
) -> FeedChange<VersionKeys> {
    match change {
        FeedChange::Followed { bucket, sequence, disorder, disturbance } => {
            FeedChange::Followed { bucket, sequence, disorder, disturbance }
        }
        FeedChange::Ended(bucket) => FeedChange::Ended(bucket),
        FeedChange::Row(row) => FeedChange::Row(encoded_row(row, wanted)),
        FeedChange::Doubtful { bucket, document_type, document, timestamp } => {
            FeedChange::Doubtful { bucket, document_type, document, timestamp }
        }
        FeedChange::Dropped { scope, part, until } => FeedChange::Dropped { scope, part, until },
        FeedChange::Stale(bucket) => FeedChange::Stale(bucket),
        FeedChange::Closed { version, until, held, disturbances } => {
            FeedChange::Closed { version, until, held, disturbances }
        }
        FeedChange::Page(FeedPage { read, bucket, content }) => {
            let content = content.map(|PageContent { rows, until }| {
                let rows = rows.into_iter().map(|row| encoded_row(row, wanted));
                PageContent { rows: rows.collect(), until }
            });
            FeedChange::Page(FeedPage { read, bucket, content })
        }
    }
}

fn encoded_row(
    row: FeedRow<QueuedContent>,
    wanted: &mut impl FnMut(&str) -> Vec<Arc<IndexDefinition>>,
) -> FeedRow<VersionKeys> {
    let FeedRow { bucket, document_type, document, timestamp, body, bytes } = row;
    let body = match body {
        QueuedContent::Keys(keys) => VersionKeys::clone(&keys),
        QueuedContent::Committed(row) => match row
            .read(|version| keys_in_place(version, &wanted(&document_type), &mut KeyWriter::default()))
        {
            Ok(keys) => keys,
            Err(error) => {
                // Without keys the copies read the document again.
                tracing::error!(%error, "a row of the store has no keys for indexes");
                VersionKeys::default()
            }
        },
    };
    FeedRow { bucket, document_type, document, timestamp, body, bytes }
}
