//! Waits for copies that are being changed.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::super::message::CopyScan;
use super::{DOCUMENT_NODES, PlacedTestCluster, entries, run, written};

#[test]
fn scans_that_wait_for_a_change_of_copies_stop_no_other_task() {
    run(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let expected = written(&cluster);
        cluster.settle(3).await;
        let (slice, copy) = cluster.copies().swap_remove(0);
        let service = Arc::clone(&cluster.nodes.lock()[&copy.node]).service();
        // A change that works on the disk.
        let changing = Arc::clone(&service);
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let change = std::thread::spawn(move || {
            let copies = changing.copies.lock();
            begun.send(()).expect("the test waits");
            let ended = ends.recv_timeout(Duration::from_secs(60));
            drop(copies);
            ended
        });
        begins.recv().expect("it begins");
        let scan = |patience_ms| CopyScan {
            slice,
            copy: copy.id,
            ranges: vec![(Vec::new(), None)],
            from: None,
            limit: 10_000,
            count: false,
            patience_ms,
        };
        let scans: Vec<_> = (0..8)
            .map(|number| {
                let (service, scan) = (Arc::clone(&service), scan((number % 2 == 0).then_some(60_000)));
                tokio::spawn(async move { service.scan(scan).await })
            })
            .collect();
        let others: Vec<_> = (0..8).map(|_| tokio::spawn(tokio::task::yield_now())).collect();
        for other in others {
            other.await.expect("it ends");
        }
        // The change has ended by itself if they had to wait for it.
        let _ = end.send(());
        let ended = change.join().expect("it does not panic");
        ended.expect("other tasks do not wait for the change");
        for scan in scans {
            let scanned = scan.await.expect("it ends").expect("the copy is read");
            let found = entries(&scanned);
            assert!(!found.is_empty() && found.keys().all(|id| expected.contains_key(id)));
        }
    });
}
