use std::collections::BTreeMap;

use millrace_document::DocumentGroup;
use millrace_store::ViewScope;
use proptest::prelude::*;

use super::*;

const MICROSECOND: Duration = Duration::from_micros(1);

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn nobody<W>(_: &W) -> bool {
    false
}

/// `get:a`, `a`, `a+b` for a set of groups, or `*` for all groups.
fn flow(text: &str) -> WorkFlow {
    let group = |name: &str| DocumentGroup::Name(name.to_owned());
    match text.split_once(':') {
        Some((_, name)) => WorkFlow::short_of(&group(name)),
        None if text == "*" => WorkFlow::of_scope(&ViewScope::All),
        None => WorkFlow::of_scope(&ViewScope::Groups(text.split('+').map(group).collect())),
    }
}

fn scheduler<W>(flow: usize, all: usize) -> TurnScheduler<W> {
    TurnScheduler::new(QueueBounds { flow, all })
}

/// A piece of work: its name, and its remaining time.
#[derive(Debug, Clone, PartialEq)]
struct SimulatedTask {
    name: String,
    left: Duration,
    begun: bool,
}

/// Threads under a virtual clock.
struct TurnSimulation {
    turns: TurnScheduler<SimulatedTask>,
    slots: usize,
    now: Duration,
    /// End of its quantum or its work; its flow and name; the time since which it has run.
    running: Vec<(Duration, FlowIndex, SimulatedTask, Duration)>,
    used: BTreeMap<String, Duration>,
    /// Names in the order of their starts; `ended` has them in the order of their ends, with the times.
    begun: Vec<String>,
    ended: Vec<(String, Duration)>,
}

impl TurnSimulation {
    fn new(slots: usize) -> Self {
        TurnSimulation {
            turns: scheduler(10_000, 100_000),
            slots,
            now: Duration::ZERO,
            running: Vec::new(),
            used: BTreeMap::new(),
            begun: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn push(&mut self, name: &str, left: Duration) {
        let task = SimulatedTask { name: name.to_owned(), left, begun: false };
        assert_eq!(self.turns.push(&flow(name), 0, task, &nobody), TurnAdmission::Queued);
    }

    fn grant(&mut self) {
        while self.running.len() < self.slots
            && let Some(FlowTurn { flow, mut work }) = self.turns.next(false)
        {
            if !work.begun {
                work.begun = true;
                self.begun.push(work.name.clone());
            }
            self.running.push((self.now + work.left.min(QUANTUM), flow, work, self.now));
        }
    }

    /// Runs until the end of the next quantum or piece of work; false if nothing runs.
    fn step(&mut self) -> bool {
        self.grant();
        let Some(first) = (0..self.running.len()).min_by_key(|at| self.running[*at].0) else { return false };
        let (until, flow, mut task, since) = self.running.swap_remove(first);
        self.now = until;
        let cost = until - since;
        task.left -= cost;
        *self.used.entry(task.name.clone()).or_default() += cost;
        self.turns.charge(flow, cost);
        if task.left.is_zero() {
            self.turns.end(flow);
            self.ended.push((task.name, self.now));
        } else {
            self.turns.yield_turn(flow, task);
        }
        true
    }

    fn used(&self, name: &str) -> Duration {
        self.used.get(name).copied().unwrap_or_default()
    }
}

/// The order in which one thread ends work: `name=milliseconds`, or `name=milliseconds@arrival`.
#[track_caller]
fn check(work: &str, order: &str) {
    let mut arriving: Vec<(Duration, &str, Duration)> = work
        .split_whitespace()
        .map(|text| {
            let (name, times) = text.split_once('=').expect("a name and times");
            let (cost, at) = times.split_once('@').unwrap_or((times, "0"));
            let parse = |text: &str| millis(text.parse().expect("milliseconds"));
            (parse(at), name, parse(cost))
        })
        .collect();
    arriving.sort_by_key(|(at, ..)| *at);
    let mut simulation = TurnSimulation::new(1);
    loop {
        while let Some((at, name, cost)) = arriving.first().copied()
            && (at <= simulation.now || simulation.running.is_empty() && simulation.turns.waiting() == 0)
        {
            simulation.push(name, cost);
            arriving.remove(0);
        }
        if !simulation.step() && arriving.is_empty() {
            break;
        }
    }
    let ended: Vec<String> =
        simulation.ended.iter().map(|(name, at)| format!("{name}@{}", at.as_millis())).collect();
    assert_eq!(ended.join(" "), order, "{work}");
    assert!(simulation.turns.indexes.is_empty(), "queues without work are forgotten");
}

#[test]
fn turns_are_taken_as_the_table_says() {
    // One flow: first in, first out, though its work is long.
    check("a=20 a=1", "a@20 a@21");
    // A cheap query does not wait for the end of an expensive one.
    check("a=20 b=1", "b@5 a@21");
    check("a=20 a=20 a=20 b=1 b=1", "b@5 b@6 a@22 a@42 a@62");
    // Two that are long share the time.
    check("a=20 b=20", "a@36 b@40");
    // A newcomer goes before those that have had their quantum.
    check("a=20 b=20 c=1@10", "c@13 a@37 b@41");
    // Single documents go first, in turns of their groups.
    check("a=8 get:x=1 get:x=1 get:y=1", "get:x@1 get:x@2 get:y@3 a@11");
    // But queries are owed as much time as they use.
    check("a=8 get:x=4 get:x=4 get:y=1", "get:x@4 get:y@9 get:x@13 a@17");
    // Sets of groups do not go before groups, neither with little work nor with much, except for the time
    // that they are owed: all of them together, half of what the groups use.
    check("a+b=4 a+c=4 b+c=4 d=1", "d@1 a+b@5 a+c@9 b+c@13");
    check("a+b=8 a+c=8 d=1@1", "d@5 a+b@13 a+c@17");
    check("a=20 a+b=1 d=1", "d@5 a+b@10 a@22");
    // Scans of all groups go last.
    check("*=8 a=8 b=2", "b@6 a@10 *@18");
}

#[test]
fn no_level_starves_another() {
    // Gets and new groups without end, a group with long queries, and a scan of all groups.
    let mut simulation = TurnSimulation::new(2);
    let mut fresh = 0;
    while simulation.now < millis(4_000) {
        while simulation.turns.waiting[TurnLevel::Short as usize] < 8 {
            simulation.push("get:x", 50 * MICROSECOND);
        }
        while simulation.turns.waiting[TurnLevel::Fresh as usize] < 8 {
            fresh += 1;
            simulation.push(&format!("new{fresh}"), 300 * MICROSECOND);
        }
        for (name, level) in [("long", TurnLevel::Long), ("*", TurnLevel::AllGroups)] {
            if simulation.turns.waiting[level as usize] < 4 {
                simulation.push(name, millis(70));
            }
        }
        assert!(simulation.step());
    }
    let all: Duration = simulation.used.values().sum();
    let share = |used: Duration| used.as_secs_f64() / all.as_secs_f64();
    let new: Duration =
        simulation.used.iter().filter(|(name, _)| name.starts_with("new")).map(|(_, used)| *used).sum();
    let shares = ["get:x", "long", "*"].map(|name| share(simulation.used(name)));
    assert!(shares[0] > 0.2, "gets have {}", shares[0]);
    assert!(share(new) > 0.2, "new groups have {}", share(new));
    assert!(shares[1] > 0.2, "the group with long queries has {}", shares[1]);
    assert!(shares[2] > 0.04, "scans of all groups have {}", shares[2]);
}

/// A group whose quantum is used up, for example because the system had taken its thread off its core, waits
/// as long beside many sets as beside one.
#[test]
fn the_number_of_sets_does_not_delay_groups() {
    let delay = |sets: usize| {
        let mut simulation = TurnSimulation::new(1);
        for number in 0..sets {
            simulation.push(&format!("a+b{number}"), millis(4_000));
        }
        // The sets have had turns, and one of them has the thread.
        for _ in 0..100 {
            assert!(simulation.step());
        }
        simulation.grant();
        let begun = simulation.now;
        simulation.push("c", millis(6));
        while simulation.ended.iter().all(|(name, _)| name != "c") {
            assert!(simulation.step());
        }
        simulation.now - begun
    };
    assert_eq!([1, 2, 32, 300].map(|sets| delay(sets).as_millis()), [10; 4]);
}

#[test]
fn debts_are_paid_by_turns() {
    // A thread that was held for 40 ms without a break is paid back before the flow has its next turn.
    let mut turns = scheduler(10, 10);
    for name in ["a", "a", "b", "b"] {
        assert_eq!(turns.push(&flow(name), 0, name, &nobody), TurnAdmission::Queued);
    }
    let first = turns.next(false).expect("work waits");
    turns.charge(first.flow, millis(40));
    turns.end(first.flow);
    let mut order = Vec::new();
    while let Some(turn) = turns.next(false) {
        turns.charge(turn.flow, millis(5));
        turns.end(turn.flow);
        order.push(turn.work);
    }
    assert_eq!((first.work, order), ("a", vec!["b", "b", "a"]));
}

#[test]
fn full_queues_drop_what_was_abandoned_then_the_newest_of_the_longest() {
    let is_abandoned = |name: &&str| *name == "gone";
    let mut turns = scheduler(4, 6);
    for (name, work) in [("a", "a1"), ("a", "gone"), ("a", "a2"), ("a", "gone"), ("b", "b1"), ("c", "c1")] {
        assert_eq!(turns.push(&flow(name), 0, work, &is_abandoned), TurnAdmission::Queued);
    }
    assert_eq!(turns.push(&flow("a"), 0, "a3", &is_abandoned), TurnAdmission::Queued, "two had left");
    assert_eq!(turns.push(&flow("a"), 0, "a4", &is_abandoned), TurnAdmission::Queued);
    assert_eq!(
        turns.push(&flow("a"), 0, "a5", &is_abandoned),
        TurnAdmission::Refused("a5"),
        "the flow's own bound"
    );
    assert_eq!(turns.push(&flow("d"), 0, "d1", &is_abandoned), TurnAdmission::QueuedInsteadOf("a4"));
    assert_eq!(turns.push(&flow("d"), 0, "d2", &is_abandoned), TurnAdmission::QueuedInsteadOf("a3"));
    assert_eq!(
        turns.push(&flow("d"), 0, "d3", &is_abandoned),
        TurnAdmission::Refused("d3"),
        "no other is longer"
    );
    let order: Vec<&str> = std::iter::from_fn(|| turns.next(false)).map(|turn| turn.work).collect();
    assert_eq!(order, ["a1", "a2", "b1", "c1", "d1", "d2"]);
}

#[test]
fn questions_wait_where_others_are_refused() {
    let mut turns = scheduler(1, 2);
    for name in ["a", "b"] {
        assert_eq!(turns.push(&flow(name), 0, name, &nobody), TurnAdmission::Queued);
    }
    for name in ["a", "c"] {
        assert_eq!(turns.push(&flow(name), 0, "client", &nobody), TurnAdmission::Refused("client"), "{name}");
    }
    assert_eq!(turns.push(&flow("a"), 1, "question", &nobody), TurnAdmission::Queued);
    assert_eq!(turns.push(&flow("c"), 1, "another", &nobody), TurnAdmission::QueuedInsteadOf("question"));
    let order: Vec<&str> = std::iter::from_fn(|| turns.next(false)).map(|turn| turn.work).collect();
    assert_eq!(order, ["a", "b", "another"]);
}

/// A call of the scheduler.
#[derive(Debug, Clone)]
enum SimulatedEvent {
    Push(usize),
    Next,
    End(usize, u64),
    GiveWay(usize, u64),
}

fn events() -> impl Strategy<Value = Vec<SimulatedEvent>> {
    let event = prop_oneof![
        4 => (0usize..8).prop_map(SimulatedEvent::Push),
        3 => Just(SimulatedEvent::Next),
        2 => (0usize..4, 0u64..100_000).prop_map(|(at, cost)| SimulatedEvent::End(at, cost)),
        2 => (0usize..4, 0u64..9_000).prop_map(|(at, cost)| SimulatedEvent::GiveWay(at, cost)),
    ];
    proptest::collection::vec(event, 0..400)
}

const NAMES: [&str; 8] = ["get:x", "get:y", "*", "a", "b", "c", "d", "e"];

proptest! {
    /// Flows that always have work get the same time, regardless of the cost of their work.
    #[test]
    fn busy_flows_get_equal_shares(
        costs in proptest::collection::vec(proptest::collection::vec(100u64..70_000, 1..5), 2..6),
        slots in 1usize..4,
    ) {
        let mut simulation = TurnSimulation::new(slots);
        let names: Vec<String> = (0..costs.len()).map(|number| format!("flow{number}")).collect();
        let mut pushed = vec![0usize; costs.len()];
        while simulation.now < millis(600) {
            for (at, name) in names.iter().enumerate() {
                let waits = simulation.turns.indexes.get(&flow(name)).map_or(0, |at| simulation.turns.flow(*at).waiting());
                for _ in waits..slots + 1 {
                    let cost = costs[at][pushed[at] % costs[at].len()];
                    simulation.push(name, MICROSECOND * cost as u32);
                    pushed[at] += 1;
                }
            }
            prop_assert!(simulation.step());
        }
        let used: Vec<Duration> = names.iter().map(|name| simulation.used(name)).collect();
        let (min, max) = (used.iter().min().expect("two"), used.iter().max().expect("two"));
        let slack = QUANTUM * (2 * slots as u32 + 2);
        prop_assert!(*max - *min <= slack, "{used:?} with {slots} slots");
    }

    /// Nothing is lost or doubled, order within a flow is kept, bounds hold, and nothing stays behind.
    #[test]
    fn all_work_is_run_once_in_order_or_refused(events in events()) {
        let mut turns = scheduler(5, 12);
        let (mut number, mut refused) = (0u32, Vec::new());
        let mut running: Vec<FlowTurn<(usize, u32, bool)>> = Vec::new();
        let mut begun: Vec<(usize, u32)> = Vec::new();
        let mut begins = |work: &mut (usize, u32, bool)| {
            if !work.2 {
                work.2 = true;
                begun.push((work.0, work.1));
            }
        };
        for event in events {
            match event {
                SimulatedEvent::Push(name) => {
                    number += 1;
                    match turns.push(&flow(NAMES[name]), 0, (name, number, false), &nobody) {
                        TurnAdmission::Queued => {}
                        TurnAdmission::QueuedInsteadOf(work) | TurnAdmission::Refused(work) => {
                            prop_assert!(!work.2, "work that was begun is never refused");
                            refused.push(work.1);
                        }
                    }
                }
                SimulatedEvent::Next => {
                    let waits = turns.waiting() > 0;
                    let turn = turns.next(false);
                    prop_assert_eq!(turn.is_some(), waits);
                    if let Some(mut turn) = turn {
                        begins(&mut turn.work);
                        running.push(turn);
                    }
                }
                SimulatedEvent::End(at, cost) if at < running.len() => {
                    let turn = running.swap_remove(at);
                    turns.charge(turn.flow, MICROSECOND * cost as u32);
                    turns.end(turn.flow);
                }
                SimulatedEvent::GiveWay(at, cost) if at < running.len() => {
                    let turn = running.swap_remove(at);
                    turns.charge(turn.flow, MICROSECOND * cost as u32);
                    turns.yield_turn(turn.flow, turn.work);
                }
                SimulatedEvent::End(..) | SimulatedEvent::GiveWay(..) => {}
            }
            let lengths = turns.flows.iter().flatten().map(|flow| flow.queued.len());
            prop_assert!(lengths.clone().max().unwrap_or(0) <= 5);
            prop_assert!(turns.waiting() <= 12 + running.len() + 400);
            let waiting: usize = turns.flows.iter().flatten().map(FlowQueue::waiting).sum();
            prop_assert_eq!(waiting, turns.waiting());
        }
        loop {
            while let Some(turn) = running.pop() {
                turns.charge(turn.flow, MICROSECOND);
                turns.end(turn.flow);
            }
            let Some(mut turn) = turns.next(false) else { break };
            begins(&mut turn.work);
            running.push(turn);
        }
        for name in 0..NAMES.len() {
            let of_one: Vec<u32> = begun.iter().filter(|(of, _)| *of == name).map(|(_, number)| *number).collect();
            prop_assert!(of_one.is_sorted(), "{of_one:?}");
        }
        let mut all: Vec<u32> = begun.iter().map(|(_, number)| *number).chain(refused).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (1..=number).collect::<Vec<_>>());
        prop_assert!(turns.indexes.is_empty(), "queues without work are forgotten");
    }
}
