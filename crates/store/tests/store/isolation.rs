//! No view or visit of one group reads or returns another's documents, however their hashes and names
//! collide.

use std::collections::BTreeMap;

use millrace_document::DocumentGroup;
use millrace_store::{StoreOptions, StoreTuning, StoreVisit, ViewScope};
use proptest::prelude::*;

use crate::common::{get, open, options, put, remove, shown, visited};

/// Groups whose low 32 location bits are equal (a number and that number plus multiples of 2^32; a number and
/// the name whose digest begins with it), and names that are prefixes of each other or look like other
/// groups' keys.
fn groups() -> Vec<DocumentGroup> {
    let mut groups = vec![DocumentGroup::None];
    let names = ["a", "aa", "a:a", "n1", "ga", "g=a", "1", "a b", "é", "A"];
    for name in names {
        let group = DocumentGroup::Name(name.to_owned());
        let bits = group.location_bits().expect("a named group has a location");
        groups.push(DocumentGroup::Number(bits.into()));
        groups.push(DocumentGroup::Number(u64::from(bits) | 1 << 32));
        groups.push(DocumentGroup::Number(u64::from(bits) | 7 << 40));
        groups.push(group);
    }
    groups.retain(|group| !group.key().contains(':'));
    groups
}

fn check(writes: &[(usize, u8, bool)], seals: &[usize]) {
    let groups = groups();
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions {
        tuning: StoreTuning { split_documents: 30, ..StoreTuning::default() },
        ..options(directory.path())
    });
    let mut model: BTreeMap<usize, BTreeMap<String, i64>> = BTreeMap::new();
    for (step, (group, name, removes)) in writes.iter().enumerate() {
        let number = step as i64;
        let id = format!("id:n:mail:{}:{name}", groups[*group % groups.len()]);
        let of_group = model.entry(*group % groups.len()).or_default();
        if *removes {
            remove(&store, &id);
            of_group.remove(&id);
        } else {
            put(&store, &id, "text", number);
            of_group.insert(id, number);
        }
        if seals.contains(&step) {
            store.seal().expect("sealed");
            store.maintain().expect("maintained");
        }
    }
    for (index, group) in groups.iter().enumerate() {
        let expected = model.get(&index).cloned().unwrap_or_default();
        let scope = ViewScope::Groups(vec![group.clone()]);
        let view = store.view("mail", &scope).expect("a view");
        assert_eq!(shown(&*view), expected, "{group:?}");
        if *group != DocumentGroup::None {
            // Not even chunks with others' documents are part of the view.
            for column in
                view.columns(&millrace_column::ColumnKey::id(), 0..view.chunks().len()).expect("read")
            {
                let Some(millrace_column::Column::Bytes(ids)) = column else { panic!("chunks have ids") };
                for row in 0..ids.len() {
                    let id = std::str::from_utf8(ids.get(row).expect("an id")).expect("text");
                    assert_eq!(millrace_document::DocumentId::parse(id).expect("an id").group(), group);
                }
            }
        }
        let visit = StoreVisit { scope, wanted: 3, ..StoreVisit::all(&["mail"]) };
        let found: BTreeMap<String, i64> =
            visited(&store, &visit).into_iter().filter_map(|(id, number, _)| Some((id, number?))).collect();
        assert_eq!(found, expected, "visit of {group:?}");
    }
    // Dropping one group leaves the others.
    let dropped = writes.first().map_or(0, |(group, ..)| *group % groups.len());
    store.drop_group(None, &groups[dropped]).expect("dropped");
    for (index, documents) in &model {
        for (id, number) in documents {
            assert_eq!(get(&store, id), (*index != dropped).then_some(*number), "{id}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_apart(
        writes in proptest::collection::vec((0..64usize, 0..6u8, proptest::bool::weighted(0.15)), 1..120),
        seals in proptest::collection::vec(0..120usize, 0..4),
    ) {
        check(&writes, &seals);
    }
}
