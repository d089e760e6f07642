//! Versions that a visit passes on where they lie, beside those that it returns.

use std::ops::ControlFlow;

use millrace_bucket::DocumentSortKey;
use millrace_document::{DocumentValue, Timestamp, ValueRef};
use millrace_store::{Error, Store, StoreVisit, VisitFilter, VisitedRow, VisitedValue, VisitedVersion};

use crate::common::{number, open, options, put, remove};

/// Documents in several segments and in the tail, with and without a group, replaced and removed ones.
fn fill(store: &Store) {
    for round in 0..3 {
        for name in 0..40 {
            let group = ["g=ann", "g=bob", "n=7", ""][name % 4];
            for document_type in ["mail", "unknown"] {
                if name % 3 != round {
                    put(store, &format!("id:n:{document_type}:{group}:{name}"), "some text", name as i64);
                }
            }
        }
        remove(store, &format!("id:n:mail:g=ann:{}", 4 * round));
        // The last changes stay in the tail.
        if round < 2 {
            store.seal().expect("the store seals");
        }
    }
}

/// Value of a field of a row as text.
fn text(row: &VisitedRow<'_>, field: &str) -> Option<String> {
    let value = row.value(field).expect("the store reads");
    value.map(|value| match &value {
        VisitedValue::Decoded(value) => plain(value),
        VisitedValue::InPlace(ValueRef::String(text)) => (*text).to_owned(),
        VisitedValue::InPlace(ValueRef::Long(number)) => number.to_string(),
        VisitedValue::InPlace(_) => panic!("fields are texts and numbers"),
    })
}

fn plain(value: &DocumentValue) -> String {
    match value {
        DocumentValue::String(text) => text.clone(),
        DocumentValue::Long(number) => number.to_string(),
        _ => panic!("the test writes texts and numbers"),
    }
}

#[test]
fn rows_are_the_versions_of_a_visit() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    fill(&store);
    for merged in [false, true] {
        if merged {
            store.seal().expect("the store seals");
            store.maintain().expect("the store merges");
        }
        for wanted in [1, 3, 1000] {
            for tombstones in [false, true] {
                for fields in [None, Some(vec!["number".to_owned()]), Some(Vec::new())] {
                    let all = StoreVisit::all(&["mail", "unknown"]);
                    let visit = StoreVisit { wanted, tombstones, fields, ..all };
                    check(&store, &visit, false);
                    check(&store, &visit, true);
                }
            }
        }
    }
}

/// A page that its reader ends goes on after the last version.
#[test]
fn a_reader_ends_its_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    fill(&store);
    let mut visit = StoreVisit::all(&["mail", "unknown"]);
    let expected = store.visit(&visit).expect("the visit reads").visited;
    let mut found = Vec::new();
    loop {
        let before = found.len();
        let each = &mut |row: &VisitedRow<'_>| -> Result<ControlFlow<()>, Error> {
            found.push(row.version()?);
            Ok(if found.len() == before + 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        visit.continuation = store.visit_rows(&visit, each).expect("the visit reads").continuation;
        if visit.continuation.is_none() {
            break;
        }
    }
    assert!(expected.len() > 70);
    assert_eq!(found, expected);
}

/// In the tail, as in files, a filter gets the fields that it reads, and a version has those that are wanted.
#[test]
fn filters_and_fields_are_those_of_the_visit() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    for name in 0..10 {
        put(&store, &format!("id:n:mail:g=ann:{name}"), "some text", name);
    }
    let filter = VisitFilter::new(vec!["number".to_owned()], |document| {
        document.fields.len() == 1 && number(document) % 2 == 0
    });
    for sealed in [false, true] {
        if sealed {
            store.seal().expect("the store seals");
        }
        for wanted in [&["text"][..], &["number"], &["text", "number"], &[]] {
            let fields = Some(wanted.iter().map(|field| (*field).to_owned()).collect());
            let visit = StoreVisit { fields, filter: Some(filter.clone()), ..StoreVisit::all(&["mail"]) };
            let found = store.visit(&visit).expect("the visit reads").visited;
            assert_eq!(found.len(), 5, "sealed: {sealed}");
            for version in found {
                let VisitedVersion::Document(document, _) = version else { panic!("none was removed") };
                let mut names: Vec<&str> = document.fields.iter().map(|(name, _)| &**name).collect();
                names.sort_unstable_by_key(|name| *name != "text");
                assert_eq!(names, wanted, "sealed: {sealed}");
            }
        }
    }
}

/// Both pass over the same pages, with columns of the cache or without.
fn check(store: &Store, visit: &StoreVisit, is_cached: bool) {
    let mut visit = visit.clone();
    let wants =
        |field: &str| visit.fields.as_ref().is_none_or(|fields| fields.iter().any(|one| one == field));
    let fields: Vec<&str> = ["number", "text"].into_iter().filter(|field| wants(field)).collect();
    let mut count = 0;
    loop {
        let page = store.visit(&visit).expect("the visit reads");
        let mut expected = page.visited.iter();
        let each = &mut |row: &VisitedRow<'_>| -> Result<ControlFlow<()>, Error> {
            let expected = expected.next().expect("there are as many");
            assert_eq!((row.id(), row.timestamp()), (expected.id().as_str(), time(expected)));
            assert_eq!(&row.document_id()?, expected.id());
            assert_eq!(row.is_removed(), matches!(expected, VisitedVersion::Removed(..)));
            assert_eq!(&row.version()?, expected);
            let mut sort_key = Vec::new();
            row.write_sort_key(&mut sort_key);
            assert_eq!(sort_key, DocumentSortKey::new(expected.id()).as_bytes());
            if let VisitedVersion::Document(document, _) = expected {
                for field in &fields {
                    let value = document.get(field).map(plain);
                    assert!(value.is_some(), "each document has both");
                    assert_eq!(text(row, field), value, "{field}");
                }
            }
            count += 1;
            Ok(ControlFlow::Continue(()))
        };
        let end = match is_cached {
            true => store.visit_cached_rows(&visit, each),
            false => store.visit_rows(&visit, each),
        };
        let end = end.expect("the visit reads");
        assert!(expected.next().is_none());
        assert_eq!((&end.continuation, end.progress), (&page.continuation, page.progress));
        match page.continuation {
            Some(_) => visit.continuation = page.continuation,
            None => break,
        }
    }
    assert!(count > 70, "{count} versions were compared");
}

fn time(version: &VisitedVersion) -> Timestamp {
    match version {
        VisitedVersion::Document(_, timestamp) | VisitedVersion::Removed(_, timestamp) => *timestamp,
    }
}
