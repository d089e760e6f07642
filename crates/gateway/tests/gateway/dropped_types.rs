//! A deployment that removes a document type deletes its documents, once, regardless of events in between;
//! documents written after the type has come back stay.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use millrace_cluster::DroppedTypes;
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, Timestamp};
use millrace_node::{Node, PublishedApplication, Settings as NodeSettings};
use millrace_schema::{Application, ApplicationDraft};
use millrace_store::{DocumentWrite, StoreChange};

const OVERRIDES: &str =
    "<validation-overrides><allow until=\"UNTIL\">schema-removal</allow></validation-overrides>";

/// An application with these document types, which permits the removal of others.
fn application(types: &[&str]) -> ApplicationDraft {
    Application::from_files(package(types)).expect("an application").into()
}

/// Files of the application.
fn package(types: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let documents: String =
        types.iter().map(|name| format!("<document type='{name}' mode='streaming'/>")).collect();
    let services = format!(
        "<services version='1.0'><container id='default' version='1.0'><search/><document-api/></container>
        <content id='notes' version='1.0'><min-redundancy>1</min-redundancy><documents>{documents}</documents></content></services>"
    );
    let overrides = OVERRIDES.replace("UNTIL", &tomorrow());
    let mut files = vec![
        ("services.xml".to_owned(), services.into_bytes()),
        ("validation-overrides.xml".to_owned(), overrides.into_bytes()),
    ];
    files.extend(types.iter().map(|name| {
        let schema = format!(
            "schema {name} {{ document {name} {{ field title type string {{ indexing: summary }} }} }}"
        );
        (format!("schemas/{name}.sd"), schema.into_bytes())
    }));
    files.into_iter().collect()
}

/// A date for which an override is permitted.
fn tomorrow() -> String {
    let now = millrace_env::unix_time().as_secs();
    // Howard Hinnant's civil_from_days, for dates since 1970.
    let days = now / 86_400 + 1 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{}-{month:02}-{day:02}", year + era * 400 + u64::from(month <= 2))
}

fn open(directory: &Path) -> Arc<Node> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let mut settings = NodeSettings::new(directory.to_owned());
        (settings.threads, settings.disk_reserve) = (1, 0);
        match Node::open(settings) {
            Ok(node) => return node,
            // Threads of the previous node may hold it for another moment.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a node, so that its directory can be opened again.
fn close(node: Arc<Node>) {
    node.close();
}

fn id(document_type: &str, number: usize) -> DocumentId {
    DocumentId::new("n", document_type, &DocumentGroup::Name("ann".to_owned()), &number.to_string())
        .expect("all its parts are there")
}

fn document(id: DocumentId) -> Document {
    Document { id, fields: vec![("title".into(), DocumentValue::String("a title".into()))] }
}

fn put(node: &Node, document_type: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let (sender, written) = mpsc::channel();
        let id = id(document_type, number);
        let change = StoreChange::Put(document(id.clone()));
        node.store().write(DocumentWrite { id, change }, move |outcome| drop(sender.send(outcome)));
        written.recv().expect("it is answered").expect("it is written");
    }
}

/// Existing documents among the first hundred of a type.
fn there(node: &Node, document_type: &str) -> Vec<usize> {
    let is_there =
        |number: &usize| node.store().get(&id(document_type, *number)).expect("it can be read").is_some();
    (0..100).filter(is_there).collect()
}

/// Documents on a single node after its types were removed and have come back, with a crash in between.
fn after_a_crash(crash: impl Fn(&Path, &Path)) -> Vec<usize> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (own, other) = (directory.path().join("own"), directory.path().join("other"));
    for place in [&own, &other] {
        let node = open(place);
        node.deploy(application(&["note", "memo"])).expect("it is deployed");
        put(&node, "memo", 0..10);
        put(&node, "note", 0..10);
        close(node);
    }
    crash(&own, &other);
    let node = open(&own);
    node.deploy(application(&["note", "memo"])).expect("it is deployed");
    put(&node, "memo", 20..23);
    let found = there(&node, "memo");
    assert_eq!(there(&node, "note").len(), 10, "another type");
    close(node);
    let node = open(&own);
    assert_eq!(there(&node, "memo"), found, "after a restart");
    close(node);
    found
}

/// Replaces the application files of a directory by those of another: as after a deployment there that became
/// effective on disk, and nothing more.
fn take_over(own: &Path, other: &Path) {
    let (own, other) = (own.join("application"), other.join("application"));
    for entry in std::fs::read_dir(&other).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_name() != "dropped" {
            std::fs::copy(entry.path(), own.join(entry.file_name())).expect("it is copied");
        }
    }
}

#[test]
fn documents_of_a_removed_type_are_gone_when_it_comes_back() {
    let found = after_a_crash(|own, _| {
        let node = open(own);
        node.deploy(application(&["note"])).expect("it is deployed");
        assert!(there(&node, "memo").is_empty());
        close(node);
    });
    assert_eq!(found, [20, 21, 22]);
}

#[test]
fn a_crash_before_the_store_has_the_removal_changes_nothing() {
    let found = after_a_crash(|own, other| {
        let node = open(other);
        node.deploy(application(&["note"])).expect("it is deployed");
        close(node);
        take_over(own, other);
        let node = open(own);
        assert!(there(&node, "memo").is_empty(), "the start did not drop what the deployment removed");
        close(node);
    });
    assert_eq!(found, [20, 21, 22]);
}

#[test]
fn a_crash_of_a_version_that_kept_no_list_of_removals_changes_nothing() {
    let found = after_a_crash(|own, other| {
        let node = open(other);
        node.deploy(application(&["note"])).expect("it is deployed");
        close(node);
        take_over(own, other);
        std::fs::remove_file(own.join("application/2.drops")).expect("it was there");
    });
    assert_eq!(found, [20, 21, 22]);
}

#[test]
fn a_type_that_leaves_its_content_cluster_goes_though_its_schema_stays() {
    let found = after_a_crash(|own, _| {
        let node = open(own);
        let mut files = package(&["note", "memo"]);
        let services = package(&["note"]).remove("services.xml").expect("it is there");
        files.insert("services.xml".to_owned(), services);
        let without = Application::from_files(files).expect("an application");
        node.deploy(without).expect("it is deployed");
        close(node);
    });
    assert_eq!(found, [20, 21, 22]);
}

#[test]
fn a_directory_that_lost_its_application_keeps_its_documents() {
    let found = after_a_crash(|own, _| std::fs::remove_dir_all(own.join("application")).expect("it goes"));
    assert_eq!(found.len(), 13, "nothing was removed by anyone");
}

/// A node of a cluster, with an application that has both types.
fn node_of_a_cluster(directory: &Path) -> Arc<Node> {
    let node = open(directory);
    generation(&node, 6, &["note", "memo"], &[]);
    node
}

/// Delivers a generation of the application to a node, with these removals up to it.
fn generation(node: &Node, generation: u64, types: &[&str], dropped: &[(&str, u64)]) {
    let mut all = DroppedTypes::default();
    dropped.iter().for_each(|(name, at)| all.add(name, Timestamp(*at)));
    let published = PublishedApplication { draft: application(types), generation, dropped: Some(all) };
    node.deploy_as(published).expect("it is deployed");
}

/// Delivers a write of a document to a replica, with the timestamp from its owner.
fn replicate(node: &Node, number: usize, at: u64) {
    let (sender, written) = mpsc::channel();
    let version = DocumentVersion::put(&document(id("memo", number)), Timestamp(at));
    node.store().apply(vec![version], move |outcome| drop(sender.send(outcome)));
    written.recv().expect("it is answered").expect("it is written");
}

#[test]
fn all_nodes_of_a_cluster_end_with_the_same_documents_whenever_they_hear_of_a_removal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let nodes: Vec<Arc<Node>> = ["prompt", "late", "skipping"]
        .iter()
        .map(|name| node_of_a_cluster(&directory.path().join(name)))
        .collect();
    // A little ahead of the clock, so that no node's own times come between.
    let removed = nodes[0].store().next_timestamp().0 + 60_000_000;
    let removed_again = removed + 500_000;
    for node in &nodes {
        (0..5).for_each(|number| replicate(node, number, removed - 100 + number as u64));
    }
    // Memos are removed by generation 7, and come back with 8.
    let first = [("memo", removed)];
    generation(&nodes[0], 7, &["note"], &first);
    generation(&nodes[0], 8, &["note", "memo"], &first);
    for node in &nodes {
        (10..15).for_each(|number| replicate(node, number, removed + number as u64));
    }
    generation(&nodes[1], 7, &["note"], &first);
    for node in [1, 2] {
        generation(&nodes[node], 8, &["note", "memo"], &first);
    }
    for node in &nodes {
        assert_eq!(there(node, "memo"), [10, 11, 12, 13, 14]);
    }
    // Twice with the same deliveries, and one node receives nothing until the type has come back a second
    // time.
    for node in &nodes {
        (20..25).for_each(|number| replicate(node, number, removed_again + number as u64));
    }
    let second = [("memo", removed_again)];
    for node in &nodes[..2] {
        generation(node, 9, &["note"], &second);
    }
    for node in &nodes {
        generation(node, 10, &["note", "memo"], &second);
        assert_eq!(there(node, "memo"), [20, 21, 22, 23, 24]);
        // Earlier writes that arrive late are removed as well.
        replicate(node, 30, removed_again - 1);
        assert_eq!(there(node, "memo"), [20, 21, 22, 23, 24]);
    }
}

#[test]
fn a_generation_whose_publisher_does_not_tell_of_removals_removes_as_it_did() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let node = node_of_a_cluster(directory.path());
    put(&node, "memo", 0..5);
    let published = |types: &[&str], generation| PublishedApplication {
        draft: application(types),
        generation,
        dropped: None,
    };
    node.deploy_as(published(&["note"], 7)).expect("it is deployed");
    node.deploy_as(published(&["note", "memo"], 8)).expect("it is deployed");
    assert!(there(&node, "memo").is_empty());
}

#[test]
fn a_crash_after_the_application_was_deleted_changes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let node = open(directory.path());
    node.deploy(application(&["note", "memo"])).expect("it is deployed");
    put(&node, "memo", 0..10);
    let now = node.store().next_timestamp().0;
    close(node);
    // Durable state of the deletion before the store learns of it.
    let application_files = directory.path().join("application");
    std::fs::write(application_files.join("0.drops"), format!(r#"{{"memo":{now},"note":{now}}}"#))
        .expect("written");
    std::fs::write(application_files.join("active"), "0").expect("written");
    let node = open(directory.path());
    assert!(there(&node, "memo").is_empty(), "the start did not complete the deletion");
    node.deploy(application(&["note", "memo"])).expect("it is deployed");
    assert!(there(&node, "memo").is_empty());
}
