use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use millrace_document::DocumentGroup;
use tokio::task::JoinSet;

use super::*;

/// Time limit, longer than any step here takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime of one thread")
}

fn pool(slots: usize, capacity: usize) -> Arc<WorkPool> {
    Arc::new(WorkPool::new(slots, capacity, &BusyCores::default()).expect("threads"))
}

fn group(name: &str) -> WorkFlow {
    WorkFlow::of_group(&DocumentGroup::Name(name.to_owned()))
}

/// Pauses again and again until the flag is set; false if that takes longer than [`STEP_TIMEOUT`].
fn pausing_until(flag: &AtomicBool) -> bool {
    let began = Instant::now();
    while !flag.load(Ordering::SeqCst) {
        pause(Instant::now());
        if began.elapsed() > STEP_TIMEOUT {
            return false;
        }
    }
    true
}

#[test]
fn work_whose_caller_left_is_never_begun() {
    let pool = pool(1, 8);
    let (release, blocked) = mpsc::channel::<()>();
    let begun = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let first = pool.run_in(group("a"), move || blocked.recv().is_ok());
        let counter = Arc::clone(&begun);
        let second = pool.run_in(group("a"), move || counter.fetch_add(1, Ordering::SeqCst));
        let mut first = Box::pin(first);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut first).await.is_err());
        assert!(tokio::time::timeout(Duration::from_millis(20), second).await.is_err(), "it must queue");
        release.send(()).expect("the first job waits for this");
        assert!(first.await.expect("the first job ends"));
        pool.run_in(group("a"), || ()).await.expect("a third job runs");
    });
    assert_eq!(begun.load(Ordering::SeqCst), 0);
}

#[test]
fn a_full_queue_refuses_and_the_longest_makes_room_for_others() {
    let pool = pool(1, 8);
    let (release, blocked) = mpsc::channel::<()>();
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    runtime().block_on(async {
        let mut running = Box::pin(pool.run_in(group("a"), move || {
            begins.store(true, Ordering::SeqCst);
            blocked.recv().is_ok()
        }));
        // It has left the queue.
        while !begun.load(Ordering::SeqCst) {
            assert!(tokio::time::timeout(Duration::from_millis(1), &mut running).await.is_err());
        }
        let mut queued = JoinSet::new();
        for name in ["a", "b", "c", "d"] {
            for _ in 0..2 {
                let pool = Arc::clone(&pool);
                queued.spawn(async move { (name, pool.run_in(group(name), || ()).await.is_ok()) });
            }
        }
        while pool.waiting() < 8 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(
            matches!(pool.run_in(group("a"), || ()).await, Err(Error::Overloaded)),
            "a quarter is for one flow"
        );
        let other = Arc::clone(&pool);
        queued.spawn(async move { ("e", other.run_in(group("e"), || ()).await.is_ok()) });
        let (name, is_done) = queued.join_next().await.expect("nine wait").expect("it does not panic");
        assert!(!is_done && name != "e", "{name}: the newest of a longer queue is refused instead");
        release.send(()).expect("the first job waits for this");
        assert!(running.await.expect("it ends"));
        while let Some(done) = queued.join_next().await {
            assert!(done.expect("it does not panic").1, "what waits runs");
        }
    });
}

#[test]
fn callers_that_left_do_not_fill_a_queue() {
    let pool = pool(1, 8);
    let (release, blocked) = mpsc::channel::<()>();
    runtime().block_on(async {
        let mut running = Box::pin(pool.run_in(group("a"), move || blocked.recv().is_ok()));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut running).await.is_err());
        for _ in 0..20 {
            let left = pool.run_in(group("a"), || ());
            assert!(
                tokio::time::timeout(Duration::from_millis(1), left).await.is_err(),
                "it queues and leaves"
            );
        }
        let last = pool.run_in(group("a"), || 7);
        release.send(()).expect("the first job waits for this");
        assert_eq!(last.await.expect("there is room"), 7);
        assert!(running.await.expect("it ends"));
    });
}

#[test]
fn work_that_waits_for_another_node_lends_its_slot() {
    let pool = pool(1, 8);
    let (release, blocked) = mpsc::channel::<()>();
    runtime().block_on(async {
        let mut first = Box::pin(pool.run_in(group("a"), move || {
            let waited = wait_without_slot(|| blocked.recv().is_ok());
            pause(Instant::now());
            waited
        }));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut first).await.is_err());
        for number in 0..3 {
            let other = pool.run_in(group("b"), move || number);
            let other = tokio::time::timeout(STEP_TIMEOUT, other).await;
            assert_eq!(other.expect("the slot is lent").expect("there is room"), number);
        }
        release.send(()).expect("the first job waits for this");
        assert!(first.await.expect("it ends"));
        let panics = || wait_without_slot(|| -> () { panic!("on purpose") });
        assert!(matches!(pool.run_in(group("a"), panics).await, Err(Error::Internal(_))));
        assert_eq!(pool.run_in(group("a"), || 7).await.expect("the slot was taken back"), 7);
    });
}

#[test]
fn a_panic_is_an_error_and_the_thread_lives() {
    let pool = pool(1, 8);
    runtime().block_on(async {
        assert!(matches!(pool.run(|| -> () { panic!("on purpose") }).await, Err(Error::Internal(_))));
        assert_eq!(pool.run(|| 7).await.expect("the thread goes on"), 7);
    });
}

#[test]
fn long_work_gives_way_to_another_flow_and_goes_on() {
    let pool = pool(1, 64);
    runtime().block_on(async {
        for class in [group("cheap"), WorkFlow::of_scope(&millrace_store::ViewScope::All), WorkFlow::short()]
        {
            let flag = Arc::new(AtomicBool::new(false));
            let (seen, begun) = (Arc::clone(&flag), Arc::new(AtomicBool::new(false)));
            let begins = Arc::clone(&begun);
            let long = {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move {
                    pool.run_in(group("long"), move || {
                        begins.store(true, Ordering::SeqCst);
                        pausing_until(&seen)
                    })
                    .await
                })
            };
            while !begun.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let sets = Arc::clone(&flag);
            pool.run_in(class.clone(), move || sets.store(true, Ordering::SeqCst)).await.expect("it runs");
            assert!(long.await.expect("no panic").expect("it goes on"), "{class:?}: it held its slot");
        }
    });
}

#[test]
fn work_over_all_groups_gives_way_to_that_of_groups_before_its_quantum_is_over() {
    let pool = pool(1, 64);
    let names = ["a", "b"].map(|name| DocumentGroup::Name(name.to_owned()));
    let set = WorkFlow::of_scope(&millrace_store::ViewScope::Groups(names.to_vec()));
    runtime().block_on(async {
        for other in [group("a"), set] {
            let (release, blocked) = mpsc::channel::<()>();
            let [has_begun, has_run] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (begins, seen) = (Arc::clone(&has_begun), Arc::clone(&has_run));
            let all = WorkFlow::of_scope(&millrace_store::ViewScope::All);
            let mut scan = Box::pin(pool.run_in(all, move || {
                let began = Instant::now();
                begins.store(true, Ordering::SeqCst);
                let is_released = blocked.recv().is_ok();
                pause(began + EARLY_SLICE);
                is_released && seen.load(Ordering::SeqCst)
            }));
            while !has_begun.load(Ordering::SeqCst) {
                assert!(tokio::time::timeout(Duration::from_millis(1), &mut scan).await.is_err());
            }
            let class = format!("{other:?}");
            let mut other = Box::pin(pool.run_in(other, move || has_run.store(true, Ordering::SeqCst)));
            assert!(tokio::time::timeout(Duration::ZERO, &mut other).await.is_err(), "{class}: no slot");
            release.send(()).expect("the scan waits for this");
            assert!(scan.await.expect("it goes on"), "{class}: the scan held its slot");
            other.await.expect("it has run");
        }
    });
}

#[test]
fn work_of_one_flow_is_begun_in_order_and_one_after_another() {
    let pool = pool(1, 64);
    let (others, others_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let mut work = Vec::new();
        for number in 0..6 {
            let (others, others_max, order) =
                (Arc::clone(&others), Arc::clone(&others_max), Arc::clone(&order));
            let mut job = Box::pin(pool.run_in(group("long"), move || {
                order.lock().push(number);
                others_max.fetch_max(others.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let began = Instant::now();
                while began.elapsed() < 3 * QUANTUM {
                    pause(Instant::now());
                }
                others.fetch_sub(1, Ordering::SeqCst);
            }));
            // Polled once, it is in the queue.
            assert!(tokio::time::timeout(Duration::ZERO, &mut job).await.is_err());
            work.push(job);
        }
        let other = pool.run_in(group("other"), || ());
        other.await.expect("it runs between");
        for job in work {
            job.await.expect("it runs");
        }
    });
    assert_eq!(others_max.load(Ordering::SeqCst), 1, "work was begun while other work of its flow slept");
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn single_documents_have_a_slot_beside_work_that_never_gives_way() {
    let pool = pool(2, 64);
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    runtime().block_on(async {
        let mut stuck = Vec::new();
        for _ in 0..2 {
            let blocked = Arc::clone(&blocked);
            let work = move || blocked.lock().recv().is_ok();
            let mut job = Box::pin(pool.run_in(group("a"), work));
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut job).await.is_err());
            stuck.push(job);
        }
        let get = WorkFlow::short_of(&DocumentGroup::Name("b".to_owned()));
        let answered = tokio::time::timeout(STEP_TIMEOUT, pool.run_in(get, || 7)).await;
        assert_eq!(answered.expect("it does not wait for queries").expect("it runs"), 7);
        for _ in 0..2 {
            release.send(()).expect("the jobs wait for this");
        }
        for job in stuck {
            assert!(job.await.expect("it ends"));
        }
    });
}

#[test]
fn work_that_sleeps_is_bounded_and_all_of_it_ends() {
    const FLOWS: usize = ASLEEP_MAX + 20;
    let pool = pool(1, 4 * FLOWS);
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    runtime().block_on(async {
        let mut all = JoinSet::new();
        for number in 0..FLOWS {
            let (pool, stop, begun) = (Arc::clone(&pool), Arc::clone(&stop), Arc::clone(&begun));
            all.spawn(async move {
                let work = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    pausing_until(&stop)
                };
                pool.run_in(group(&number.to_string()), work).await
            });
        }
        let began = Instant::now();
        while begun.load(Ordering::SeqCst) < ASLEEP_MAX + 1 {
            assert!(began.elapsed() < STEP_TIMEOUT, "work does not give way");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(4 * QUANTUM).await;
        assert_eq!(begun.load(Ordering::SeqCst), ASLEEP_MAX + 1, "no more is begun than may sleep");
        stop.store(true, Ordering::SeqCst);
        while let Some(done) = all.join_next().await {
            assert!(done.expect("no panic").expect("it runs"));
        }
    });
    let state = pool.shared.lock();
    assert_eq!((state.asleep, state.turns.waiting()), (0, 0));
}
