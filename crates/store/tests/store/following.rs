//! A follower of the store: it has every commit before it is acknowledged, in the order of timestamps, and
//! every drop; what was written before it was set can be read in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{CommitFollower, CommittedRow, DroppingScope, Error, StoreVisit, VisitedVersion};
use parking_lot::Mutex;

use crate::common::{open, options, put, remove, visited};

#[derive(Default)]
struct SeenChanges {
    rows: Mutex<Vec<(String, Timestamp, bool)>>,
    drops: Mutex<Vec<(DroppingScope, Option<Timestamp>)>>,
    refuses: bool,
}

impl CommitFollower for SeenChanges {
    fn follows(&self, document_type: &str) -> bool {
        document_type == "a"
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        for row in rows {
            assert_eq!(row.document_type(), "a");
            let (id, timestamp, is_there) = match row.decode().expect("a row of the store") {
                VisitedVersion::Document(document, timestamp) => (document.id.to_string(), timestamp, true),
                VisitedVersion::Removed(id, timestamp) => (id.to_string(), timestamp, false),
            };
            assert_eq!(timestamp, row.timestamp());
            self.rows.lock().push((id, timestamp, is_there));
        }
    }

    fn dropping(&self, scope: &DroppingScope) -> Result<(), Error> {
        if self.refuses {
            return Err(Error::Io { action: "note a drop".to_owned(), reason: "no".to_owned() });
        }
        self.drops.lock().push((scope.clone(), None));
        Ok(())
    }

    fn dropped(&self, scope: &DroppingScope, until: Timestamp) {
        self.drops.lock().push((scope.clone(), Some(until)));
    }
}

fn ann() -> DocumentGroup {
    DocumentGroup::Name("ann".to_owned())
}

#[test]
fn a_follower_has_all_that_was_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, "id:n:a:g=ann:0", "before", 0);
    let follower = Arc::new(SeenChanges::default());
    let since = store.set_follower(Some(follower.clone()));
    let before = visited(&store, &StoreVisit { to: since, ..StoreVisit::all(&["a"]) });
    assert_eq!(before.len(), 1, "all of before is in the store");
    let mut expected = Vec::new();
    std::thread::scope(|threads| {
        let write = |thread: u64| {
            let store = &store;
            threads.spawn(move || {
                (0..50)
                    .map(move |number| {
                        let id = format!("id:n:a:g=ann:{thread}-{number}");
                        let written = put(store, &id, "text", 1);
                        (id, written.timestamp, true)
                    })
                    .collect::<Vec<_>>()
            })
        };
        let writers: Vec<_> = (1..4).map(write).collect();
        writers.into_iter().for_each(|writer| expected.extend(writer.join().expect("it writes")));
    });
    put(&store, "id:n:b:g=ann:1", "of another type", 1);
    let removed = remove(&store, "id:n:a:g=ann:0");
    expected.push(("id:n:a:g=ann:0".to_owned(), removed.timestamp, false));
    expected.sort_by_key(|(_, timestamp, _)| *timestamp);
    assert!(expected.iter().all(|(_, timestamp, _)| *timestamp > since));
    let rows = follower.rows.lock().clone();
    assert_eq!(rows, expected, "in the order of their timestamps");
    let unique: BTreeMap<_, _> = rows.iter().map(|(id, timestamp, _)| (timestamp, id)).collect();
    assert_eq!(unique.len(), rows.len());
    store.set_follower(None);
    put(&store, "id:n:a:g=ann:0", "after", 0);
    assert_eq!(follower.rows.lock().len(), rows.len());
}

#[test]
fn a_follower_learns_of_drops_and_can_refuse_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let written = put(&store, "id:n:a:g=ann:0", "text", 0).timestamp;
    let follower = Arc::new(SeenChanges::default());
    store.set_follower(Some(follower.clone()));
    store.drop_group(Some("a"), &ann()).expect("it is dropped");
    let scope = DroppingScope::Group { document_type: Some("a".to_owned()), group: ann().key(), part: None };
    let drops = follower.drops.lock().clone();
    assert_eq!(drops[0], (scope.clone(), None), "first it is announced");
    let Some((found, Some(until))) = drops.get(1) else { panic!("then it is passed on: {drops:?}") };
    assert_eq!((found, *until > written), (&scope, true));
    store.set_follower(Some(Arc::new(SeenChanges { refuses: true, ..SeenChanges::default() })));
    put(&store, "id:n:a:g=ann:1", "text", 1);
    store.drop_type("a").expect_err("the follower refuses");
    assert_eq!(crate::common::get(&store, "id:n:a:g=ann:1"), Some(1), "nothing was dropped");
}
