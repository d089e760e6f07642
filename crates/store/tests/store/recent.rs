//! Views after each of many random operations: with rows of the tail kept between views, on the plain paths
//! without them, and beside a map.

use std::collections::BTreeMap;

use millrace_column::ExecutionPaths;
use millrace_store::{StoreOptions, ViewScope};
use proptest::prelude::*;

use crate::common::{open, options, put, remove, shown};
use crate::model::{GROUPS, any_id, group, group_of, type_of};

#[derive(Debug, Clone)]
enum RecentStep {
    Put(String, i64),
    Remove(String),
    DropGroup(usize),
    Seal,
    Maintain,
    /// Nothing is written between two views.
    View(String),
}

fn step() -> impl Strategy<Value = RecentStep> {
    prop_oneof![
        20 => (any_id(), 0..100i64).prop_map(|(id, number)| RecentStep::Put(id, number)),
        6 => any_id().prop_map(RecentStep::Remove),
        1 => (0..GROUPS.len()).prop_map(RecentStep::DropGroup),
        2 => Just(RecentStep::Seal),
        1 => Just(RecentStep::Maintain),
        10 => any_id().prop_map(RecentStep::View),
    ]
}

fn run(steps: Vec<RecentStep>) {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [fast, plain] = &directories;
    let plain = StoreOptions { paths: ExecutionPaths::Plain, ..options(plain.path()) };
    let stores = [open(options(fast.path())), open(plain)];
    let mut model: BTreeMap<String, i64> = BTreeMap::new();
    for step in steps {
        let mut viewed = "id:n:mail:g=ann:0".to_owned();
        match step {
            RecentStep::Put(id, number) => {
                for store in &stores {
                    put(store, &id, "a text", number);
                }
                model.insert(id.clone(), number);
                viewed = id;
            }
            RecentStep::Remove(id) => {
                for store in &stores {
                    remove(store, &id);
                }
                model.remove(&id);
                viewed = id;
            }
            RecentStep::DropGroup(name) => {
                let dropped = group(GROUPS[name]);
                stores.iter().for_each(|store| store.drop_group(None, &dropped).expect("dropped"));
                model.retain(|id, _| group_of(id) != GROUPS[name]);
            }
            RecentStep::Seal => stores.iter().for_each(|store| store.seal().expect("sealed")),
            RecentStep::Maintain => stores.iter().for_each(|store| store.maintain().expect("maintained")),
            RecentStep::View(id) => viewed = id,
        }
        let (of, name) = (type_of(&viewed), group_of(&viewed));
        let known = model.iter().filter(|(id, _)| type_of(id) == of && group_of(id) == name);
        let expected: BTreeMap<String, i64> = known.map(|(id, number)| (id.clone(), *number)).collect();
        for store in &stores {
            let view = store.view(of, &ViewScope::Groups(vec![group(name)])).expect("a view");
            assert_eq!(shown(&*view), expected, "{viewed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn kept_rows_of_the_tail_change_no_view(steps in proptest::collection::vec(step(), 1..120)) {
        run(steps);
    }
}
