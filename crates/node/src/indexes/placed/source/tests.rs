//! Questions for documents, as a source answers them.

use std::sync::mpsc;

use millrace_document::{Document, DocumentId, DocumentValue, DocumentVersion};
use millrace_index_feed::{
    BatchReceipt, FeedChange, FeedRead, FeedReadScope, FollowSession, OwnerReport, PageContent,
};
use millrace_indexing::DocumentColumns;
use millrace_schema::PackageFindings;
use millrace_store::StoreOptions;
use tempfile::TempDir;

use super::super::tests::{SERVICES, application, application_of, state, up};
use super::*;
use crate::indexes::definitions;

const FOLLOWER: NodeKey = NodeKey(9);
const SESSION: FollowSession = FollowSession { run: 1, number: 1 };

/// Length of the keys of documents; so many that a page has fewer documents than there are.
const KEY: usize = 1_000;

/// A source that a node follows, of one bucket with documents.
struct FollowedSource {
    source: PlacedSource,
    definitions: Vec<Arc<IndexDefinition>>,
    bucket: BucketId,
    _directory: TempDir,
}

impl FollowedSource {
    fn new(services: &str, documents: i32) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = StoreOptions::new(directory.path());
        options.disk_reserve = 0;
        let store = Store::open(options, Arc::new(DocumentColumns::new(&application()))).expect("a store");
        let newest = store.next_timestamp().0;
        let version = |number: i32| {
            let id = DocumentId::parse(&format!("id:x:note:n=1:{number}")).expect("an id");
            let owner = DocumentValue::String(format!("{number:0KEY$}"));
            let fields = vec![("owner".into(), owner), ("due".into(), DocumentValue::Int(number))];
            DocumentVersion::put(&Document { id, fields }, Timestamp(newest + number as u64))
        };
        let versions: Vec<DocumentVersion> = (1..=documents).map(version).collect();
        let state = state(1, &up(3));
        let bucket = state.bucket(versions[0].id.location());
        let (sender, answer) = mpsc::channel();
        store.apply(versions, move |outcome| drop(sender.send(outcome)));
        answer.recv().expect("it is answered").expect("it is acknowledged");
        let source = PlacedSource::new(&store);
        let definitions = definitions(&application_of(services), &mut PackageFindings::default());
        let passed = source.pass(&definitions);
        source.adopt(&definitions, passed);
        let mut inner = source.inner.lock();
        let start = inner.feed.begin_report(Timestamp(newest));
        let report = OwnerReport::new(start, &BTreeMap::new(), [(bucket, Some(true))]).expect("it is known");
        inner.feed.adopt(AdoptedState { version: 1, serves: true }, &report, Timestamp(newest));
        inner.state = Some(state);
        let request = FollowRequest {
            session: SESSION,
            run: None,
            sequence: 1,
            version: 1,
            types: BTreeSet::from(["note".to_owned()]),
            buckets: BTreeMap::from([(bucket, 1)]),
        };
        assert_eq!(inner.feed.follow(FOLLOWER, request), None);
        drop(inner);
        FollowedSource { source, definitions, bucket, _directory: directory }
    }

    /// Reads of the whole bucket.
    fn reads(&self, numbers: impl Iterator<Item = u64>) -> Vec<KeyedRead> {
        let read = |number| KeyedRead {
            read: FeedRead {
                session: SESSION,
                number,
                bucket: self.bucket,
                document_type: "note".to_owned(),
                scope: FeedReadScope::Since { from: Timestamp(0), after: None },
            },
            definitions: self.definitions.iter().map(|definition| definition.hash).collect(),
        };
        numbers.map(read).collect()
    }

    /// Pages that were queued since, by the numbers of their reads.
    fn pages(&self) -> Vec<(u64, Option<PageContent<QueuedContent>>)> {
        let mut inner = self.source.inner.lock();
        let mut pages = Vec::new();
        while let Some(FeedBatch { run, session, first, changes }) = inner.feed.next_batch(FOLLOWER) {
            let position = first + changes.len() as u64;
            inner.feed.confirm(FOLLOWER, BatchReceipt { run, session, position });
            pages.extend(changes.into_iter().filter_map(|change| match change {
                FeedChange::Page(page) => Some((page.read, page.content)),
                _ => None,
            }));
        }
        pages
    }
}

#[test]
fn a_question_has_pages_up_to_a_size_and_the_rest_is_put_off() {
    let followed = FollowedSource::new(SERVICES, 400);
    let bytes = followed.source.read_some(FOLLOWER, &followed.reads(1..=10), Duration::ZERO);
    assert!((1..2 * READ_BYTES).contains(&bytes), "{bytes} bytes are paced");
    let pages = followed.pages();
    let numbers: Vec<u64> = pages.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<u64>>(), "each read is answered");
    let read = pages.iter().take_while(|(_, content)| content.is_some()).count();
    assert!((1..10).contains(&read), "{read} pages");
    assert!(pages[read..].iter().all(|(_, content)| content.is_none()), "the others are put off");
}

#[test]
fn a_question_that_has_waited_for_long_is_put_off() {
    let followed = FollowedSource::new(SERVICES, 3);
    assert_eq!(followed.source.read_some(FOLLOWER, &followed.reads(1..=2), TURN_TIMEOUT), 0);
    let pages = followed.pages();
    let has_content = pages.iter().map(|(number, content)| (*number, content.is_some()));
    assert_eq!(has_content.collect::<Vec<_>>(), [(1, false), (2, false)], "each is answered");
}

#[test]
fn a_page_has_the_keys_of_all_definitions() {
    let due = "<index name='due' document='note'><key field='due'/></index>";
    let services = SERVICES.replace("</index-service>", &format!("{due}</index-service>"));
    let followed = FollowedSource::new(&services, 3);
    let mut reads = followed.reads(1..=2);
    // One that the node does not know leaves the others as they are.
    reads[1].definitions.insert(0);
    followed.source.read_some(FOLLOWER, &reads, Duration::ZERO);
    let pages = followed.pages();
    assert_eq!(pages.len(), 2);
    for (number, content) in pages {
        let rows = content.expect("the documents are read").rows;
        assert_eq!(rows.len(), 3, "read {number}");
        for row in rows {
            let QueuedContent::Keys(keys) = row.body else { panic!("pages have keys") };
            assert_eq!(keys.0.len(), 2);
            for definition in &followed.definitions {
                let keys = keys.by_definition(definition.hash).expect("it has keys by each definition");
                assert_eq!(keys.len(), 1, "index {}", definition.name());
            }
        }
    }
}
