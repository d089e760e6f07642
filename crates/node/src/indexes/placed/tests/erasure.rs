//! A dropped group leaves no byte in the copies of an index.

use std::path::Path;
use std::sync::{Arc, mpsc};

use millrace_bucket::BucketId;
use millrace_document::{
    Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, DropScope, DroppedScope, Timestamp,
};
use millrace_store::ErasurePartner;

use super::super::service::now;
use super::{DOCUMENT_NODES, PlacedTestCluster, run, wait, written};

/// A value that is in no other document.
const MARKER: &str = "zyxwvutsrqponm";

/// True if a file below a directory has the value.
fn has_marker(directory: &Path) -> bool {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| match entry.path() {
        path if path.is_dir() => has_marker(&path),
        // It may be removed meanwhile.
        path => std::fs::read(path)
            .is_ok_and(|bytes| bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())),
    })
}

/// Number of nodes with copies that have the value in their files.
fn holders(cluster: &PlacedTestCluster) -> usize {
    cluster.all().iter().filter(|node| has_marker(&node.directory.path().join("placed"))).count()
}

#[test]
fn copies_erase_a_dropped_group_before_the_receipt() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let expected = written(&cluster);
        // Longer ago than copies remember removals.
        let minutes = |ago: u64| Timestamp(now().0 - ago * 60_000_000);
        let id = DocumentId::parse("id:x:note:n=3:erased").expect("an id");
        let fields = vec![("owner".into(), DocumentValue::String(MARKER.to_owned()))];
        let version = DocumentVersion::put(&Document { id, fields }, minutes(20));
        for node in cluster.all() {
            let (sender, answer) = mpsc::channel();
            node.store.apply(vec![version.clone()], move |outcome| drop(sender.send(outcome)));
            answer.recv().expect("it is answered").expect("it is acknowledged");
        }
        cluster.settle(3).await;
        wait("copies in files", async || holders(&cluster) >= 2).await;
        let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(3) };
        let dropped = DroppedScope { scope, timestamp: minutes(10) };
        for node in cluster.all() {
            node.store.apply_drop(BucketId::ROOT, &dropped).expect("dropped");
        }
        let erasure = Arc::clone(&cluster.all()[0].service().erasure);
        wait("copies are known", async || !erasure.has_erased(dropped.timestamp)).await;
        erasure.erase(dropped.timestamp);
        wait("the erasure", async || erasure.has_erased(dropped.timestamp)).await;
        assert_eq!(holders(&cluster), 0, "no file has it when the receipt can be written");
        cluster.check(&expected, "erased").await;
    });
}
