//! Question of a node about placed indexes, and its answer, over HTTP.

use std::sync::Arc;

use millrace_access::Permit;
use millrace_node::Error;
use millrace_node::indexes::{PlacedAnswer, PlacedQuestion};

use super::question::NodeQuestion;
use crate::GatewayState;

impl NodeQuestion for PlacedQuestion {
    const PATH: &'static str = "/state/v1/cluster/placed-indexes";

    type Answer = PlacedAnswer;

    async fn answer(self, node: &Arc<GatewayState>, _: Permit) -> Result<PlacedAnswer, Error> {
        node.node().placed_indexes().answer(self).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Debug;

    use millrace_bucket::BucketId;
    use millrace_cluster::NodeKey;
    use millrace_document::{DocumentGroup, DropScope, Timestamp};
    use millrace_index_feed::{
        BatchReceipt, CopyMarks, FeedBatch, FeedChange, FeedCut, FeedPage, FeedRead, FeedReadScope, FeedRow,
        FollowRequest, FollowSession, OwnerPosition, PageContent, ReplicaMark, SourceRun,
    };
    use millrace_index_placement::{CopyId, IndexNumber, SliceId};
    use millrace_node::indexes::{
        CopyRecords, CopyScan, CopyScanned, KeyedRead, MessageBytes, OwnedDocuments, VersionKeys,
    };
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::forwarding::message::MessageProtocol;

    #[track_caller]
    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) {
        let bytes = MessageProtocol::Second.append(Vec::new(), message).expect("it is written");
        let read: T = MessageProtocol::Second.decode(&bytes).expect("what was written is read");
        assert_eq!(read, *message);
        for end in 0..bytes.len() {
            assert!(MessageProtocol::Second.decode::<T>(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn messages_about_placed_indexes_are_read_as_they_were_written() {
        let (session, run) = (FollowSession { run: 300, number: 2 }, SourceRun(5));
        let (bucket, node) = (BucketId::new(10, 5), NodeKey(3));
        let slice = SliceId { index: IndexNumber(4), slice: 1 };
        let request = FollowRequest {
            session,
            run: Some(run),
            sequence: 7,
            version: 9,
            types: BTreeSet::from(["mail".to_owned()]),
            buckets: BTreeMap::from([(bucket, 1)]),
        };
        let read = |scope| KeyedRead {
            read: FeedRead { session, number: 3, bucket, document_type: "mail".to_owned(), scope },
            definitions: BTreeSet::from([1, u64::MAX]),
        };
        let row = FeedRow {
            bucket,
            document_type: "mail".to_owned(),
            document: b"document".to_vec(),
            timestamp: Timestamp(1 << 50),
            body: VersionKeys(vec![(u64::MAX, vec![b"key".to_vec()])]),
            bytes: 20,
        };
        let content = PageContent { rows: vec![row.clone()], until: Some(b"until".to_vec()) };
        let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(7) };
        let changes = vec![
            FeedChange::Followed { bucket, sequence: 1, disorder: Timestamp(2), disturbance: 3 },
            FeedChange::Row(row),
            FeedChange::Doubtful {
                bucket,
                document_type: "mail".to_owned(),
                document: b"other".to_vec(),
                timestamp: Timestamp(4),
            },
            FeedChange::Dropped { scope, part: Some(bucket), until: Timestamp(5) },
            FeedChange::Stale(bucket),
            FeedChange::Closed {
                version: 9,
                until: Timestamp(6),
                held: BTreeSet::from([bucket]),
                disturbances: 1 << 40,
            },
            FeedChange::Page(FeedPage { read: 3, bucket, content: Some(content) }),
            FeedChange::Page(FeedPage { read: 4, bucket, content: None }),
            FeedChange::Ended(bucket),
        ];
        let since = FeedReadScope::Since { from: Timestamp(8), after: Some(b"after".to_vec()) };
        let documents = FeedReadScope::Documents(BTreeSet::from([b"one".to_vec()]));
        let scan = CopyScan {
            slice,
            copy: CopyId(17),
            ranges: vec![(b"a".to_vec(), Some(b"b".to_vec())), (b"c".to_vec(), None)],
            from: Some(b"from".to_vec()),
            limit: 100,
            count: false,
            timeout_ms: Some(250),
        };
        let records = CopyRecords {
            slice,
            copy: CopyId(17),
            bucket,
            excluded: vec![BucketId::new(40, 5)],
            after: Some(b"after".to_vec()),
            until: None,
            timeout_ms: 9,
        };
        let owned = OwnedDocuments { bucket, definition: u64::MAX, scope: documents.clone() };
        for question in [
            PlacedQuestion::Follow { follower: node, request, definitions: BTreeSet::from([1, u64::MAX]) },
            PlacedQuestion::Read { follower: node, reads: vec![read(since), read(documents)] },
            PlacedQuestion::Read { follower: node, reads: Vec::new() },
            PlacedQuestion::Batch { owner: node, batch: FeedBatch { run, session, first: 40, changes } },
            PlacedQuestion::Cut { owner: node, cut: FeedCut { session } },
            PlacedQuestion::Position { follower: node },
            PlacedQuestion::Export { slice },
            PlacedQuestion::Parcel { export: 1, run: 2, offset: 1 << 40 },
            PlacedQuestion::CloseExport { export: 1 },
            PlacedQuestion::Scan(scan),
            PlacedQuestion::Records(records),
            PlacedQuestion::Documents(owned),
            PlacedQuestion::Erase { until: Timestamp(1 << 50) },
        ] {
            check(&question);
        }
        let position = OwnerPosition {
            run,
            version: 9,
            session: Some((session, 44)),
            incomplete: BTreeSet::from([bucket]),
        };
        let scanned = CopyScanned {
            version: 9,
            entries: vec![(b"key".to_vec(), b"document".to_vec(), 5)],
            count: 1,
            continuation: Some(b"next".to_vec()),
            missing: vec![bucket],
        };
        let mark = ReplicaMark { owner: node, run, disturbances: 300, until: Timestamp(4) };
        for answer in [
            PlacedAnswer::Taken,
            PlacedAnswer::Cut(FeedCut { session }),
            PlacedAnswer::Receipt(Some(BatchReceipt { run, session, position: 50 })),
            PlacedAnswer::Receipt(None),
            PlacedAnswer::Position(position),
            PlacedAnswer::Exported {
                export: 1,
                header: MessageBytes(b"header".to_vec()),
                marks: CopyMarks {
                    until: BTreeMap::from([(bucket, Timestamp(3))]),
                    replicas: BTreeMap::from([(bucket, mark)]),
                },
            },
            PlacedAnswer::Parcel(MessageBytes(vec![0, 1, 255])),
            PlacedAnswer::Scanned(scanned),
            PlacedAnswer::Recorded(Some(vec![(b"document".to_vec(), vec![b"key".to_vec()])])),
            PlacedAnswer::Recorded(None),
            PlacedAnswer::Documents {
                documents: vec![(b"document".to_vec(), vec![b"key".to_vec()])],
                until: Some(b"until".to_vec()),
            },
            PlacedAnswer::Erased(Timestamp(1 << 50)),
        ] {
            check(&answer);
        }
    }
}
