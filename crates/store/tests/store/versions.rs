//! Documents with many versions in the tail, and groups with many sealed documents of which few change.

use std::collections::BTreeMap;

use millrace_store::{Store, StoreVisit, ViewScope};

use crate::common::{get, open, options, put, remove, shown, visited};
use crate::late::{apply, version};
use crate::model::group;

fn view(store: &Store) -> BTreeMap<String, i64> {
    shown(&*store.view("mail", &ViewScope::Groups(vec![group("g=ann")])).expect("a view"))
}

#[test]
fn the_newest_of_many_versions_in_the_tail_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let all = ["id:n:mail:g=ann:a", "id:n:mail:g=ann:b", "id:n:note:g=ann:b", "id:n:mail:g=ann:c"];
    let mut expected = BTreeMap::new();
    for number in 0..40 {
        for id in all {
            put(&store, id, "a text", number);
        }
        // Of other documents there is one version, or a few.
        let other = format!("id:n:mail:g=ann:other{}", number / 3);
        put(&store, &other, "a text", number);
        expected.insert(other, number);
    }
    remove(&store, "id:n:mail:g=ann:b");
    expected.insert(all[0].to_owned(), 39);
    expected.insert(all[3].to_owned(), 39);
    assert_eq!(view(&store), expected);
    store.seal().expect("sealed");
    assert_eq!(view(&store), expected);
    put(&store, "id:n:mail:g=ann:b", "a text", 40);
    expected.insert(all[1].to_owned(), 40);
    assert_eq!(view(&store), expected);
}

#[test]
fn few_changes_of_many_sealed_documents() {
    const DOCUMENTS: u64 = 4000;
    let id = |number: u64| format!("id:n:mail:g=ann:{number}");
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    // Two segments with documents of the same locations.
    for half in 0..2 {
        let of_half = (0..DOCUMENTS).filter(|number| number % 2 == half);
        apply(&store, of_half.map(|number| version(&id(number), 1000 + number, true).0).collect());
        store.seal().expect("sealed");
    }
    put(&store, &id(500), "a text", 1);
    remove(&store, &id(601));
    put(&store, &id(DOCUMENTS), "a text", 2);
    // Late versions: one is older than the sealed one, one is not.
    apply(&store, vec![version(&id(700), 1699, false).0, version(&id(801), 1802, true).0]);
    let mut expected: BTreeMap<String, i64> =
        (0..DOCUMENTS).map(|number| (id(number), 1000 + number as i64)).collect();
    expected.insert(id(500), 1);
    expected.remove(&id(601));
    expected.insert(id(DOCUMENTS), 2);
    expected.insert(id(801), 1802);
    assert_eq!(view(&store), expected);
    assert_eq!((get(&store, &id(700)), get(&store, &id(601))), (Some(1700), None));
    for wanted in [7, 400, 5000] {
        let visit = StoreVisit { wanted, ..StoreVisit::all(&["mail"]) };
        let found: Vec<(String, i64)> = visited(&store, &visit)
            .into_iter()
            .map(|(id, number, _)| (id, number.expect("no removals were asked for")))
            .collect();
        assert_eq!(found.len(), expected.len(), "each once, by {wanted}");
        assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected, "by {wanted}");
    }
    store.seal().expect("sealed");
    assert_eq!(view(&store), expected);
}

#[test]
fn sealed_documents_are_found_by_their_ids() {
    const DOCUMENTS: u64 = 3000;
    let schemes = ["id:n:mail:g=ann:", "id:n:mail:n=7:", "id:n:mail::"];
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let put_all = |first: u64, step: usize, base: u64| {
        for scheme in schemes {
            let numbers = (first..DOCUMENTS).step_by(step);
            let versions = numbers.map(|number| version(&format!("{scheme}{number}"), base + number, true).0);
            apply(&store, versions.collect());
        }
        store.seal().expect("sealed");
    };
    // Of every fourth document there is a later version in a segment of its own, and of every twelfth an
    // earlier one.
    put_all(0, 1, 100_000);
    put_all(0, 4, 200_000);
    put_all(0, 12, 1_000);
    for scheme in schemes {
        for number in 0..DOCUMENTS {
            let base = if number % 4 == 0 { 200_000 } else { 100_000 };
            assert_eq!(
                get(&store, &format!("{scheme}{number}")),
                Some((base + number) as i64),
                "{scheme}{number}"
            );
            assert_eq!(get(&store, &format!("{scheme}{number}x")), None, "{scheme}{number}x");
        }
    }
}
