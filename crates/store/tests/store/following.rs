//! A follower of the store: it has every commit before it is acknowledged, in the order of timestamps, and
//! every drop and change of replicas; what was written before it was set can be read in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{CommitFollower, CommittedRow, DroppingScope, Error, StoreVisit, VisitedVersion};
use parking_lot::Mutex;

use crate::common::{open, options, put, remove, visited};
use crate::late::{NOW, apply, infos, small, version};
use crate::transfer::{bytes, import};

#[derive(Default)]
struct SeenChanges {
    rows: Mutex<Vec<(String, Timestamp, bool)>>,
    announced: Mutex<Vec<Timestamp>>,
    drops: Mutex<Vec<(DroppingScope, Option<Timestamp>)>>,
    changes: Mutex<Vec<(&'static str, Vec<BucketId>)>>,
    refuses: bool,
}

impl CommitFollower for SeenChanges {
    fn follows(&self, document_type: &str) -> bool {
        document_type == "a"
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        for row in rows {
            assert_eq!(row.document_type(), "a");
            let (id, timestamp, is_there) = match row.read(|row| row.version()).expect("a row of the store") {
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

    fn appending(&self, oldest: Timestamp) -> Result<(), Error> {
        match self.refuses {
            true => Err(Error::Io { action: "note rows".to_owned(), reason: "no".to_owned() }),
            false => {
                self.announced.lock().push(oldest);
                Ok(())
            }
        }
    }

    fn changing(&self, buckets: &[BucketId]) -> Result<(), Error> {
        if self.refuses {
            return Err(Error::Io { action: "note a change".to_owned(), reason: "no".to_owned() });
        }
        self.changes.lock().push(("begins", buckets.to_vec()));
        Ok(())
    }

    fn changed(&self, buckets: &[BucketId]) {
        self.changes.lock().push(("ended", buckets.to_vec()));
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
    assert_eq!(before.len(), 1, "all earlier ones are in the store");
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
    put(&store, "id:n:a:g=ann:1", "text", 1);
    store.set_follower(Some(Arc::new(SeenChanges { refuses: true, ..SeenChanges::default() })));
    store.drop_type("a").expect_err("the follower refuses");
    assert_eq!(crate::common::get(&store, "id:n:a:g=ann:1"), Some(1), "nothing was dropped");
}

#[test]
fn a_follower_learns_of_replicas_that_arrive_and_leave_and_can_refuse_them() {
    let [from, to] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let source = open(small(from.path()));
    let id = "id:n:a:g=ann:0";
    apply(&source, vec![version(id, NOW - 5, true).0]);
    source.seal().expect("sealed");
    let bucket = BucketId::new(1, ann().location_bits().expect("a group") as u64);
    let parcels = source.export(&[bucket]).expect("exported");
    let sent = bytes(&parcels[0]);

    let store = open(small(to.path()));
    let refusing = Arc::new(SeenChanges { refuses: true, ..SeenChanges::default() });
    store.set_follower(Some(refusing));
    import(&store, &parcels[0], &sent).expect_err("the follower refuses");
    assert_eq!(crate::common::get(&store, id), None, "nothing has arrived");

    let follower = Arc::new(SeenChanges::default());
    store.set_follower(Some(follower.clone()));
    import(&store, &parcels[0], &sent).expect("imported");
    assert!(crate::common::get(&store, id).is_some());
    let of_bucket = || vec![("begins", vec![bucket]), ("ended", vec![bucket])];
    assert_eq!(std::mem::take(&mut *follower.changes.lock()), of_bucket());

    let checksum = infos(&store, &[bucket])[0].expect("a replica").checksum;
    store.delete_replicas(&[(bucket, checksum ^ 1)], Timestamp(0)).expect("looked at");
    assert_eq!(follower.changes.lock().len(), 0, "a replica that stays is not announced");
    let refusing = Arc::new(SeenChanges { refuses: true, ..SeenChanges::default() });
    store.set_follower(Some(refusing));
    store.delete_replicas(&[(bucket, checksum)], Timestamp(0)).expect_err("the follower refuses");
    assert!(crate::common::get(&store, id).is_some(), "nothing has left");
    store.set_follower(Some(follower.clone()));
    assert_eq!(store.delete_replicas(&[(bucket, checksum)], Timestamp(0)).expect("deleted"), [true]);
    assert_eq!(*follower.changes.lock(), of_bucket());
}

#[test]
fn a_follower_learns_of_the_times_of_rows_before_they_are_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    let follower = Arc::new(SeenChanges::default());
    store.set_follower(Some(follower.clone()));
    let rows = [7, 3, 9].map(|before| version(&format!("id:n:a:g=ann:{before}"), NOW - before, true).0);
    apply(&store, rows.to_vec());
    assert_eq!(*follower.announced.lock(), [Timestamp(NOW - 9)]);
    store.set_follower(Some(Arc::new(SeenChanges { refuses: true, ..SeenChanges::default() })));
    let refused = crate::common::write(
        &store,
        &crate::common::id("id:n:a:g=ann:1"),
        millrace_store::StoreChange::Put(crate::common::document("id:n:a:g=ann:1", "text", 1)),
    );
    refused.expect_err("the follower refuses");
    assert_eq!(crate::common::get(&store, "id:n:a:g=ann:1"), None);
}
