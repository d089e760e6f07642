//! Waits for copies that are being changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::DocumentGroup;
use millrace_env::{Disk, DiskOperation, ObservedDisk, RealDisk};
use millrace_keys::KeyRange;
use millrace_model::BusyCores;
use millrace_store::ViewScope;

use super::super::narrowing::{ScannedSlices, SliceQuery, UsableIndex};
use super::super::service::PlacedService;
use super::{
    DOCUMENT_NODES, PlacedTestCluster, STEP_TIMEOUT, TestNode, a_copy, defined, entries, run, settled, state,
    up, wait, whole_scan, written,
};
use crate::pool::{WorkFlow, WorkPool};

/// Time after which a change of copies ends by itself, so that a test which waits for it fails.
const CHANGE: Duration = Duration::from_secs(60);

/// A change of copies that works on the disk until it is ended.
struct LongChange {
    end: Sender<()>,
    thread: JoinHandle<Result<(), RecvTimeoutError>>,
}

impl LongChange {
    /// Begins a change of the copies of a node.
    fn begin(service: &Arc<PlacedService>) -> Self {
        let service = Arc::clone(service);
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let copies = service.copies.lock();
            begun.send(()).expect("the test waits for it");
            let ended = ends.recv_timeout(CHANGE);
            drop(copies);
            ended
        });
        begins.recv().expect("it begins");
        LongChange { end, thread }
    }

    /// Ends it. Panics if it has ended by itself.
    fn end(self) {
        // The thread may have left.
        let _ = self.end.send(());
        self.thread.join().expect("it does not panic").expect("others do not wait for the change");
    }
}

/// A disk on which no run of a copy begins before it is opened.
#[derive(Default)]
struct RunGate {
    is_reached: AtomicBool,
    is_open: AtomicBool,
    /// True if it has opened by itself.
    was_late: AtomicBool,
}

impl RunGate {
    fn disk(self: &Arc<Self>) -> Arc<dyn Disk> {
        let gate = Arc::clone(self);
        let observer = move |operation: DiskOperation, path: &Path| -> std::io::Result<()> {
            let is_run = path.extension().is_some_and(|extension| extension == "run");
            if is_run && operation == DiskOperation::Create {
                gate.pass();
            }
            Ok(())
        };
        Arc::new(ObservedDisk::new(Arc::new(RealDisk), Arc::new(observer)))
    }

    fn pass(&self) {
        self.is_reached.store(true, Ordering::SeqCst);
        let began = Instant::now();
        while !self.is_open.load(Ordering::SeqCst) {
            if began.elapsed() > CHANGE {
                self.was_late.store(true, Ordering::SeqCst);
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn copies_are_looked_after_while_others_are_written() {
    run(async {
        let gate = Arc::<RunGate>::default();
        let cluster = PlacedTestCluster::with_disk(DOCUMENT_NODES, gate.disk());
        let expected = written(&cluster);
        wait("a copy that is written", async || {
            cluster.lead();
            gate.is_reached.load(Ordering::SeqCst)
        })
        .await;
        cluster.set_state(state(2, &up(DOCUMENT_NODES)));
        let acts = |node: &Arc<TestNode>| node.service().copies.lock().version() == 2;
        wait("nodes that act by the new state", async || cluster.all().iter().all(acts)).await;
        assert!(!gate.was_late.load(Ordering::SeqCst), "nodes act by the state while they write");
        gate.is_open.store(true, Ordering::SeqCst);
        cluster.settle(3).await;
        cluster.check(&expected, "after the writing").await;
    });
}

#[test]
fn scans_that_wait_for_a_change_of_copies_stop_no_other_task() {
    run(async {
        let (cluster, expected) = settled().await;
        let (slice, copy, service) = a_copy(&cluster);
        let change = LongChange::begin(&service);
        let scan = |timeout_ms| whole_scan(slice, &copy, timeout_ms);
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
        change.end();
        for scan in scans {
            let scanned = scan.await.expect("it ends").expect("the copy is read");
            let found = entries(&scanned);
            assert!(!found.is_empty() && found.keys().all(|id| expected.contains_key(id)));
        }
    });
}

#[test]
fn a_query_that_waits_for_copies_leaves_its_place_to_others() {
    run(async {
        let (cluster, expected) = settled().await;
        let (slice, _, service) = a_copy(&cluster);
        let pool = Arc::new(WorkPool::new(1, 16, &BusyCores::default()).expect("threads"));
        let change = LongChange::begin(&service);
        let index = UsableIndex {
            definition: defined().swap_remove(0),
            number: slice.index,
            slices: 4,
            ranges: vec![KeyRange { low: Vec::new(), high: None }],
            conditions: 1,
            ordered: None,
        };
        let (begun, begins) = mpsc::channel();
        let query = move || {
            begun.send(()).expect("the test waits for it");
            service.wait_for_slices(SliceQuery {
                index: &index,
                within: &[BucketId::ROOT],
                limit: 10_000,
                fresh_timeout: Some(STEP_TIMEOUT),
            })
        };
        let querying = Arc::clone(&pool);
        let query =
            tokio::spawn(async move { querying.run_in(WorkFlow::of_scope(&ViewScope::All), query).await });
        begins.recv().expect("it begins");
        let other = WorkFlow::of_group(&DocumentGroup::Number(1));
        pool.run_in(other, || ()).await.expect("it has the place");
        change.end();
        let scanned = query.await.expect("it ends").expect("it has its place again");
        let Ok(ScannedSlices::Entries(found, missing)) = scanned else { panic!("the copies are read") };
        assert_eq!((found.len(), missing), (expected.len(), Vec::new()));
    });
}

#[test]
fn changes_that_wait_for_another_leave_threads_to_other_work() {
    let (threads, changes) = (16, 64);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).max_blocking_threads(threads).enable_all();
    let runtime = runtime.build().expect("a runtime");
    runtime.block_on(async {
        let cluster = PlacedTestCluster::new(DOCUMENT_NODES);
        let service = cluster.all().swap_remove(0).service();
        let long = LongChange::begin(&service);
        let mut waiting: Vec<_> = (0..changes)
            .map(|_| {
                let service = Arc::clone(&service);
                Box::pin(async move { service.change(|_| Vec::new()).await })
            })
            .collect();
        for change in &mut waiting {
            let begun = tokio::time::timeout(Duration::ZERO, change).await;
            assert!(begun.is_err(), "it waits for the long one");
        }
        tokio::task::spawn_blocking(|| ()).await.expect("it has a thread");
        long.end();
        for change in waiting {
            change.await;
        }
    });
}
