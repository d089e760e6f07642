//! A task of a member panics: the process ends with what happened. A member whose task ended silently would
//! keep its place in the cluster and do nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_coordination::{
    Answer, Coordination, EmbeddedCoordination, KeyChanges, LeaseId, StoreRevision, Transaction,
    TransactionOutcome,
};
use millrace_membership::ClusterMembership;

use crate::support::MemberCluster;

const DIRECTORY: &str = "MILLRACE_MEMBER_PANIC_CHILD";
const CALL: &str = "MILLRACE_MEMBER_PANIC_CALL";

/// Coordination that panics in one kind of call.
struct PanickingCoordination {
    of: EmbeddedCoordination,
    call: String,
    /// Transactions before it panics in one.
    left: AtomicUsize,
}

impl PanickingCoordination {
    fn call(&self, call: &str) {
        assert!(self.call != call, "injected: {call} panics");
    }
}

impl Coordination for PanickingCoordination {
    fn transact(&self, transaction: Transaction) -> Answer<'_, TransactionOutcome> {
        // The first ones are those of joining itself, which tells its caller.
        let is_over =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
        if is_over {
            self.call("transact");
        }
        self.of.transact(transaction)
    }

    fn grant(&self, ttl: Duration) -> Answer<'_, LeaseId> {
        self.call("grant");
        self.of.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.of.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.of.revoke(lease)
    }

    fn changes(&self, prefix: &str, after: StoreRevision) -> Answer<'_, Box<dyn KeyChanges>> {
        self.call("changes");
        self.of.changes(prefix, after)
    }
}

/// Not a test of its own: a process of a member whose task panics. It would go on for ever.
#[test]
fn child() {
    let (Ok(directory), Ok(call)) = (std::env::var(DIRECTORY), std::env::var(CALL)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let of = EmbeddedCoordination::open(&Path::new(&directory).join("embedded")).expect("it opens");
        let left = AtomicUsize::new(4);
        let coordination: Arc<dyn Coordination> = Arc::new(PanickingCoordination { of, call, left });
        let settings = MemberCluster::by(Arc::clone(&coordination)).settings("a");
        let _member = ClusterMembership::join(coordination, settings).await.expect("it joins");
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_panic_of_a_task_ends_the_process_with_what_happened() {
    // Which of the tasks that make a call is the first to do so is not certain.
    let cases: [(&str, &[&str]); 3] = [
        ("changes", &["follows the cluster"]),
        ("grant", &["keeps the node registered", "leads the cluster"]),
        ("transact", &["follows the cluster", "keeps the node registered", "leads the cluster"]),
    ];
    for (call, tasks) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(std::env::current_exe().expect("the test knows itself"))
            .args(["--exact", "panics::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .env(CALL, call)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let deadline = Instant::now() + Duration::from_secs(120);
        while child.try_wait().expect("asked").is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // A process that goes on is ended here, and recognised by its exit status.
        let _ = child.kill();
        let ended = child.wait_with_output().expect("it ended");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(70), "{call}: {said}");
        let is_named =
            tasks.iter().any(|task| said.contains(&format!("the task that {task} panicked: injected")));
        assert!(is_named, "{call}: {said}");
    }
}
