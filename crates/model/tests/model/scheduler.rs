//! The scheduler with a model that records its batches and blocks until it is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_model::{
    Error, ModelCaller, ModelLane, ModelScheduler, RunGrant, SchedulerOptions, SequenceModel,
    SequencePurpose, SequenceStates, TokenizedText,
};
use parking_lot::{Condvar, Mutex};

/// Token ids that fail: unknown to any model, causing a panic, and running until interrupted or released.
const POISON: i64 = -1;
const PANIC: i64 = -2;
const HANG: i64 = -3;

/// Model that returns the sum of a sequence's ids. Runs start when the gate is open.
#[derive(Default)]
struct RecordingModel {
    batches: Mutex<Vec<Vec<usize>>>,
    /// For each batch, true if it could spread.
    spread: Mutex<Vec<bool>>,
    closed: Mutex<bool>,
    opened: Condvar,
    begun: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
    interrupted: AtomicBool,
    freed: AtomicBool,
}

impl RecordingModel {
    fn closed() -> Arc<Self> {
        Arc::new(RecordingModel { closed: Mutex::new(true), ..RecordingModel::default() })
    }

    fn open(&self) {
        *self.closed.lock() = false;
        self.opened.notify_all();
    }

    /// Guard that opens the gate when it is dropped, so that a failing test ends.
    fn open_at_the_end(&self) -> impl Drop + '_ {
        struct GateOpener<'a>(&'a RecordingModel);
        impl Drop for GateOpener<'_> {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        GateOpener(self)
    }

    fn batches(&self) -> Vec<Vec<usize>> {
        self.batches.lock().clone()
    }
}

impl SequenceModel for RecordingModel {
    fn run(&self, sequences: &[&TokenizedText], grant: &RunGrant) -> Result<Vec<SequenceStates>, Error> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        self.spread.lock().push(grant.spreads());
        self.batches.lock().push(sequences.iter().map(|sequence| sequence.len()).collect());
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut closed = self.closed.lock();
        while *closed {
            self.opened.wait(&mut closed);
        }
        drop(closed);
        self.running.fetch_sub(1, Ordering::SeqCst);
        let has = |token| sequences.iter().any(|sequence| sequence.ids.contains(&token));
        assert!(!has(PANIC), "on purpose");
        while has(HANG) && !grant.interrupt().raised() && !self.freed.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if has(HANG) && grant.interrupt().raised() {
            self.interrupted.store(true, Ordering::SeqCst);
        }
        if has(POISON) || has(HANG) {
            return Err(Error::Run { model: "recorder".to_owned(), reason: "poison".to_owned() });
        }
        Ok(sequences.iter().map(|sequence| sum(sequence)).collect())
    }
}

fn sum(sequence: &TokenizedText) -> SequenceStates {
    SequenceStates { width: 1, values: vec![sequence.ids.iter().sum::<i64>() as f32] }
}

fn sequence(length: usize) -> TokenizedText {
    TokenizedText { ids: vec![1; length], ..TokenizedText::default() }
}

fn of(id: i64) -> TokenizedText {
    TokenizedText { ids: vec![id], ..TokenizedText::default() }
}

fn until(what: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !what() {
        assert!(Instant::now() < limit, "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn one_slot(model: &Arc<RecordingModel>) -> (ModelScheduler, Arc<ModelLane>) {
    let options = SchedulerOptions { slots: 1, batch_tokens: 100, waiting_max: 8 };
    let scheduler = ModelScheduler::new(options).expect("threads");
    let lane = scheduler.lane("recorder", Arc::clone(model) as Arc<dyn SequenceModel>);
    (scheduler, Arc::new(lane))
}

/// Runs each sequence for a separate caller, in this order, after a first one occupies the only slot.
fn behind_a_held_slot(model: &Arc<RecordingModel>, waiting: &[(SequencePurpose, usize)]) -> Vec<Vec<usize>> {
    let (scheduler, lane) = one_slot(model);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        let call = |purpose, length| {
            let lane = Arc::clone(&lane);
            scope.spawn(move || {
                let states = lane
                    .run(vec![sequence(length)], &ModelCaller::without_deadline(purpose))
                    .expect("it runs");
                assert_eq!(states, [sum(&sequence(length))]);
            });
        };
        call(SequencePurpose::Query, 1);
        until(|| model.begun.load(Ordering::SeqCst) == 1);
        for (at, &(purpose, length)) in waiting.iter().enumerate() {
            call(purpose, length);
            until(|| {
                let (queries, feeds) = scheduler.waiting();
                // One feeding run starts independent of queries.
                queries + feeds + model.begun.load(Ordering::SeqCst) == at + 2
            });
        }
        model.open();
    });
    model.batches()
}

#[test]
fn a_sequence_starts_at_once_and_those_that_wait_go_together_by_length() {
    use SequencePurpose::Query;
    let model = RecordingModel::closed();
    let waiting = [(Query, 20), (Query, 40), (Query, 21), (Query, 20), (Query, 41)];
    assert_eq!(behind_a_held_slot(&model, &waiting), [vec![1], vec![20, 21, 20], vec![40, 41]]);
}

#[test]
fn feeding_goes_on_beside_queries_one_run_at_a_time() {
    use SequencePurpose::{Feed, Query};
    let model = RecordingModel::closed();
    let waiting = [(Feed, 5), (Feed, 30), (Query, 10), (Query, 10)];
    let mut batches = behind_a_held_slot(&model, &waiting);
    batches.sort();
    assert_eq!(batches, [vec![1], vec![5], vec![10, 10], vec![30]]);
    assert!(model.most_running.load(Ordering::SeqCst) <= 2, "one of queries, one of feeding");
}

#[test]
fn the_sequences_of_one_call_come_back_in_their_order() {
    let model = Arc::new(RecordingModel::default());
    let (_scheduler, lane) = one_slot(&model);
    let ids = [7_i64, 3, 9, 1, 5];
    let states = lane
        .run(ids.map(of).to_vec(), &ModelCaller::without_deadline(SequencePurpose::Feed))
        .expect("it runs");
    assert_eq!(states, ids.map(|id| sum(&of(id))));
    assert_eq!(
        lane.run(Vec::new(), &ModelCaller::without_deadline(SequencePurpose::Feed)).expect("nothing to do"),
        []
    );
    assert_eq!(lane.usage().tokens, 5);
}

#[test]
fn a_poison_fails_alone() {
    for poison in [POISON, PANIC] {
        let model = RecordingModel::closed();
        let (scheduler, lane) = one_slot(&model);
        let results = std::thread::scope(|scope| {
            let _open = model.open_at_the_end();
            let call = |id| {
                scope.spawn({
                    let lane = Arc::clone(&lane);
                    move || lane.run(vec![of(id)], &ModelCaller::without_deadline(SequencePurpose::Query))
                })
            };
            let first = call(1);
            until(|| model.begun.load(Ordering::SeqCst) == 1);
            let others = [2, poison, 3].map(call);
            until(|| scheduler.waiting().0 == 3);
            model.open();
            assert!(first.join().expect("no panic").is_ok());
            others.map(|call| call.join().expect("no panic"))
        });
        assert_eq!(results[0].as_ref().expect("it runs"), &[sum(&of(2))]);
        assert!(matches!(results[1], Err(Error::Run { .. })), "{:?}", results[1]);
        assert_eq!(results[2].as_ref().expect("it runs"), &[sum(&of(3))]);
        assert_eq!(lane.usage().failed, 1);
    }
}

#[test]
fn too_many_are_refused_and_the_others_still_run() {
    let model = RecordingModel::closed();
    let (scheduler, lane) = one_slot(&model);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        for waiting in 0..9 {
            scope.spawn(|| {
                lane.run(vec![sequence(4)], &ModelCaller::without_deadline(SequencePurpose::Query))
                    .expect("it runs")
            });
            // The first must have the slot before the others arrive.
            until(|| {
                let begun = model.begun.load(Ordering::SeqCst);
                begun == 1 && scheduler.waiting().0 == waiting
            });
        }
        let refused = lane.run(vec![sequence(4)], &ModelCaller::without_deadline(SequencePurpose::Query));
        assert!(matches!(refused, Err(Error::Overloaded { waiting: 8, .. })), "{refused:?}");
        model.open();
    });
    assert_eq!((lane.usage().sequences, lane.usage().refused), (9, 1));
}

#[test]
fn abandoned_calls_are_never_begun() {
    let model = RecordingModel::closed();
    let (scheduler, lane) = one_slot(&model);
    let gone = ModelCaller::without_deadline(SequencePurpose::Query);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        scope.spawn(|| {
            lane.run(vec![sequence(1)], &ModelCaller::without_deadline(SequencePurpose::Query))
                .expect("it runs")
        });
        until(|| model.begun.load(Ordering::SeqCst) == 1);
        let left = scope.spawn(|| lane.run(vec![sequence(2)], &gone));
        let soon = Instant::now() + Duration::from_millis(20);
        let late =
            ModelCaller { deadline: Some(soon), ..ModelCaller::without_deadline(SequencePurpose::Query) };
        let late = lane.run(vec![sequence(3)], &late);
        assert!(matches!(late, Err(Error::Deadline { .. })), "{late:?}");
        until(|| scheduler.waiting().0 == 2);
        gone.gone.store(true, Ordering::Relaxed);
        model.open();
        let left = left.join().expect("no panic");
        assert!(matches!(left, Err(Error::Abandoned { .. })), "{left:?}");
    });
    until(|| lane.usage().dropped == 2);
    assert_eq!(model.batches(), [vec![1]]);
}

#[test]
fn a_run_that_hangs_is_interrupted_at_the_deadline_of_its_last_caller() {
    let model = Arc::new(RecordingModel::default());
    let (_scheduler, lane) = one_slot(&model);
    // On a busy machine the deadline can pass before the run starts; the attempt is then repeated.
    until(|| {
        let soon = Instant::now() + Duration::from_millis(20);
        let caller =
            ModelCaller { deadline: Some(soon), ..ModelCaller::without_deadline(SequencePurpose::Query) };
        let hung = lane.run(vec![of(HANG)], &caller);
        assert!(matches!(hung, Err(Error::Deadline { .. })), "{hung:?}");
        model.interrupted.load(Ordering::SeqCst)
    });
    lane.run(vec![of(4)], &ModelCaller::without_deadline(SequencePurpose::Query))
        .expect("the slot is free again");
}

#[test]
fn several_free_slots_share_what_waits() {
    let model = RecordingModel::closed();
    let options = SchedulerOptions { slots: 4, batch_tokens: 1000, waiting_max: 100 };
    let scheduler = ModelScheduler::new(options).expect("threads");
    let lane = scheduler.lane("recorder", Arc::clone(&model) as Arc<dyn SequenceModel>);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        scope.spawn(|| {
            let sequences = (0..40).map(|_| sequence(10)).collect();
            lane.run(sequences, &ModelCaller::without_deadline(SequencePurpose::Query)).expect("they run");
        });
        until(|| model.begun.load(Ordering::SeqCst) == 4);
        model.open();
    });
    let sizes: Vec<usize> = model.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 10, 10]);
}

#[test]
fn a_run_takes_no_more_than_its_slots_part_of_what_waits_and_runs() {
    let model = RecordingModel::closed();
    let options = SchedulerOptions { slots: 2, batch_tokens: 1000, waiting_max: 100 };
    let scheduler = ModelScheduler::new(options).expect("threads");
    let lane = scheduler.lane("recorder", Arc::clone(&model) as Arc<dyn SequenceModel>);
    let patient = ModelCaller::without_deadline(SequencePurpose::Query);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        let hung = scope.spawn(|| lane.run(vec![of(HANG)], &patient));
        until(|| model.begun.load(Ordering::SeqCst) == 1);
        scope.spawn(|| lane.run(vec![of(1)], &patient).expect("it runs"));
        until(|| model.begun.load(Ordering::SeqCst) == 2);
        let rest = scope.spawn(|| lane.run((0..6).map(of).collect(), &patient).expect("they run"));
        until(|| scheduler.waiting().0 == 6);
        model.open();
        let rest = rest.join();
        model.freed.store(true, Ordering::SeqCst);
        assert!(hung.join().expect("no panic").is_err());
        rest.expect("no panic");
    });
    let sizes: Vec<usize> = model.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 1, 4, 2]);
}

#[test]
fn under_stress_every_caller_gets_its_own_answer_and_no_more_runs_than_slots_go_on() {
    let model = Arc::new(RecordingModel::default());
    let options = SchedulerOptions { slots: 3, batch_tokens: 64, waiting_max: 1000 };
    let scheduler = ModelScheduler::new(options).expect("threads");
    let lanes: Vec<ModelLane> = (0..3)
        .map(|number| scheduler.lane(format!("m{number}"), Arc::clone(&model) as Arc<dyn SequenceModel>))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..12_usize {
            let lanes = &lanes;
            scope.spawn(move || {
                let purpose = if thread % 3 == 0 { SequencePurpose::Feed } else { SequencePurpose::Query };
                for round in 0..200_usize {
                    let lane = &lanes[(thread + round) % lanes.len()];
                    let length = 1 + (thread * 31 + round * 7) % 40;
                    let id = (thread * 1000 + round) as i64;
                    let deadline = (round % 10 == 3).then(Instant::now);
                    let caller = ModelCaller { deadline, ..ModelCaller::without_deadline(purpose) };
                    let given = TokenizedText { ids: vec![id; length], ..TokenizedText::default() };
                    match lane.run(vec![given.clone()], &caller) {
                        Ok(states) => assert_eq!(states, [sum(&given)]),
                        Err(error) => {
                            assert!(matches!(error, Error::Deadline { .. }), "{error}");
                            assert!(deadline.is_some());
                        }
                    }
                }
            });
        }
    });
    // Queries do not wait for runs of feeding that began while slots were free.
    assert!(model.most_running.load(Ordering::SeqCst) <= 2 * 3, "three of queries, and three of feeding");
}

#[test]
fn a_scheduler_that_goes_refuses_what_waits() {
    let model = RecordingModel::closed();
    let (scheduler, lane) = one_slot(&model);
    std::thread::scope(|scope| {
        let _open = model.open_at_the_end();
        scope.spawn(|| lane.run(vec![sequence(1)], &ModelCaller::without_deadline(SequencePurpose::Query)));
        until(|| model.begun.load(Ordering::SeqCst) == 1);
        let waiting = scope
            .spawn(|| lane.run(vec![sequence(2)], &ModelCaller::without_deadline(SequencePurpose::Query)));
        until(|| scheduler.waiting().0 == 1);
        drop(scheduler);
        assert!(matches!(waiting.join().expect("no panic"), Err(Error::Closed)));
        model.open();
    });
    assert!(matches!(
        lane.run(vec![sequence(1)], &ModelCaller::without_deadline(SequencePurpose::Query)),
        Err(Error::Closed)
    ));
}

#[test]
fn only_a_query_that_is_alone_spreads_over_idle_cores() {
    use SequencePurpose::{Feed, Query};
    for (slots, calls, expected) in [
        (2, &[Query, Query, Feed][..], &[true, false, false][..]),
        (2, &[Feed, Query, Query], &[false, true, false]),
        (8, &[Query, Query, Query, Query, Query], &[true, true, true, true, false]),
    ] {
        let model = RecordingModel::closed();
        let options = SchedulerOptions { slots, ..SchedulerOptions::default() };
        let scheduler = ModelScheduler::new(options).expect("threads");
        let lane = scheduler.lane("recorder", Arc::clone(&model) as Arc<dyn SequenceModel>);
        std::thread::scope(|scope| {
            let _open = model.open_at_the_end();
            for (number, &purpose) in calls.iter().enumerate() {
                let lane = &lane;
                scope.spawn(move || {
                    lane.run(vec![sequence(3)], &ModelCaller::without_deadline(purpose)).expect("it runs")
                });
                until(|| model.begun.load(Ordering::SeqCst) == number + 1);
            }
            model.open();
        });
        assert_eq!(*model.spread.lock(), expected, "{slots} {calls:?}");
    }
}
