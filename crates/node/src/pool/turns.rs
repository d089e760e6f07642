//! The order in which waiting work runs: values and functions of them; no threads, no clock.
//!
//! Each [`WorkFlow`] has a queue, first in, first out. Queues are members of rings, one for each
//! [`TurnLevel`], and a ring is served by deficit round robin: the queue in front runs while it has credit,
//! then it gets a [`QUANTUM`] and goes to the back. Credit is charged with the time that work held its
//! thread, once that is known, so it can fall below zero; a queue in debt is skipped until its turns have
//! paid for it.
//!
//! A queue of [`WorkClass::Grouped`] begins on the level [`TurnLevel::Fresh`] and falls to
//! [`TurnLevel::Long`] when its first quantum is used up: groups with little work go before groups with much.
//! Queues of sets of groups have a level of their own, [`TurnLevel::Sets`]: one client can query any number
//! of sets, and each would otherwise have as many turns as a group. So all of them together take turns with
//! the groups, and each of them with the other sets. Levels go in order, but none starves: while a level
//! waits, it is owed a share of all time used above it ([`TurnLevel::share`]), and is served first whenever a
//! quantum is owed.
//!
//! Work that yielded returns to the front of its queue. So work of a flow is started only while all its
//! earlier work is running, and at most as much of one flow is started as there are threads that run it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::flow::{WorkClass, WorkFlow};

/// Length of a turn: the time after which long work yields to waiting work.
pub const WORK_SLICE: Duration = Duration::from_millis(4);

/// Credit of one turn.
pub(super) const QUANTUM: Duration = WORK_SLICE;

/// Maximum debt of a queue, and with it the maximum number of skipped turns.
const DEBT_MAX: Duration = Duration::from_secs(1);

/// Number of [`TurnLevel`]s.
const LEVELS: usize = 5;

/// A ring of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnLevel {
    /// [`WorkClass::Short`].
    Short,
    /// Groups that have not used a quantum since they were last idle.
    Fresh,
    /// Groups that have used one.
    Long,
    /// Sets of several groups.
    Sets,
    /// [`WorkClass::AllGroups`].
    AllGroups,
}

impl TurnLevel {
    const ALL: [TurnLevel; LEVELS] =
        [TurnLevel::Short, TurnLevel::Fresh, TurnLevel::Long, TurnLevel::Sets, TurnLevel::AllGroups];

    fn first_of(flow: &WorkFlow) -> Self {
        match flow.class() {
            WorkClass::Short => TurnLevel::Short,
            WorkClass::Grouped if flow.is_of_several() => TurnLevel::Sets,
            WorkClass::Grouped => TurnLevel::Fresh,
            WorkClass::AllGroups => TurnLevel::AllGroups,
        }
    }

    /// Level of a queue whose credit is used up.
    fn below(self) -> Self {
        match self {
            TurnLevel::Fresh => TurnLevel::Long,
            other => other,
        }
    }

    /// Divisor of the time used on the levels above: this share of it is owed to the level while it waits.
    fn share(self) -> u32 {
        match self {
            TurnLevel::Short | TurnLevel::Fresh => 1,
            TurnLevel::Long | TurnLevel::Sets => 2,
            TurnLevel::AllGroups => 16,
        }
    }
}

/// Index of a flow in the scheduler, valid while some of its work waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowIndex(usize);

/// Work whose turn has come. It counts as running until [`TurnScheduler::end`] or
/// [`TurnScheduler::yield_turn`].
#[derive(Debug)]
pub(super) struct FlowTurn<W> {
    pub flow: FlowIndex,
    pub work: W,
}

/// Admission of new work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TurnAdmission<W> {
    /// The work waits.
    Queued,
    /// The work waits, in place of this: the newest of the longest queue.
    QueuedInsteadOf(W),
    /// The work is refused: its own queue is full, or all together are and no other is longer.
    Refused(W),
}

/// Bounds on the number of waiting pieces of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueBounds {
    /// Maximum in one queue.
    pub flow: usize,
    /// Maximum in all queues together.
    pub all: usize,
}

/// Waiting work, and the order in which it runs.
pub(super) struct TurnScheduler<W> {
    bounds: QueueBounds,
    indexes: HashMap<WorkFlow, usize>,
    flows: Vec<Option<FlowQueue<W>>>,
    free: Vec<usize>,
    rings: [VecDeque<usize>; LEVELS],
    /// Number of waiting pieces of work on each level.
    waiting: [usize; LEVELS],
    /// Nanoseconds owed to each level for work on the levels above.
    owed: [i64; LEVELS],
}

struct FlowQueue<W> {
    name: WorkFlow,
    level: TurnLevel,
    /// Nanoseconds left of its turn; negative in debt.
    credit: i64,
    /// Work that yielded; it goes first.
    begun: VecDeque<W>,
    queued: VecDeque<W>,
    /// Number of its running pieces of work.
    running: usize,
    /// Levels on which its work was served because they were owed a quantum, which was deducted then; one
    /// entry for each time.
    prepaid: Vec<TurnLevel>,
    /// True while it is in the ring of its level: some of its work waits, or it is idle and in debt.
    ringed: bool,
}

impl<W> FlowQueue<W> {
    fn waiting(&self) -> usize {
        self.begun.len() + self.queued.len()
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl<W> TurnScheduler<W> {
    pub fn new(bounds: QueueBounds) -> Self {
        TurnScheduler {
            bounds,
            indexes: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            rings: Default::default(),
            waiting: [0; LEVELS],
            owed: [0; LEVELS],
        }
    }

    /// Number of waiting pieces of work.
    pub fn waiting(&self) -> usize {
        self.waiting.iter().sum()
    }

    /// Number of waiting pieces of work that is not over all groups.
    pub fn waiting_of_groups(&self) -> usize {
        self.waiting() - self.waiting[TurnLevel::AllGroups as usize]
    }

    /// Returns true if the work of a flow is over all groups.
    pub fn is_of_all_groups(&self, FlowIndex(at): FlowIndex) -> bool {
        self.flow(at).level == TurnLevel::AllGroups
    }

    /// Adds work to its queue, where as much as `beyond` may wait beyond the bounds. If that is full, or all
    /// queues together are, work that `is_abandoned` is dropped first: of its own queue, or of the longest.
    ///
    /// Cost: constant, unless all are full: then all queues are examined.
    pub fn push(
        &mut self,
        flow: &WorkFlow,
        beyond: usize,
        work: W,
        is_abandoned: &dyn Fn(&W) -> bool,
    ) -> TurnAdmission<W> {
        let QueueBounds { flow: flow_max, all: all_max } = self.bounds;
        let (flow_max, all_max) = (flow_max + beyond, all_max + beyond);
        let own = self.indexes.get(flow).copied();
        let length = own.map_or(0, |at| self.flow(at).queued.len());
        if length >= flow_max
            && let Some(own) = own
        {
            self.drop_abandoned(own, is_abandoned);
            if self.flow(own).queued.len() >= flow_max {
                return TurnAdmission::Refused(work);
            }
        }
        let mut instead = None;
        if self.waiting() >= all_max {
            let Some(longest) = self.longest() else { return TurnAdmission::Refused(work) };
            self.drop_abandoned(longest, is_abandoned);
            if self.waiting() >= all_max {
                if self.flow(longest).queued.len() <= length + 1 {
                    return TurnAdmission::Refused(work);
                }
                instead = self.drop_newest(longest);
            }
        }
        let at = self.index_of(flow);
        self.flow_mut(at).queued.push_back(work);
        self.added(at);
        instead.map_or(TurnAdmission::Queued, TurnAdmission::QueuedInsteadOf)
    }

    /// Ends a turn, and returns its work to the front of its queue.
    pub fn yield_turn(&mut self, FlowIndex(at): FlowIndex, work: W) {
        let flow = self.flow_mut(at);
        assert!(flow.running > 0, "only work that was given a turn gives way");
        flow.running -= 1;
        flow.begun.push_back(work);
        self.added(at);
    }

    /// Takes the work whose turn it is; with `short_only`, only if it is of [`WorkClass::Short`]. Returns
    /// `None` if nothing waits.
    ///
    /// Cost: constant, except for skipped queues in debt: at most one step for each quantum of time charged
    /// before.
    pub fn next(&mut self, short_only: bool) -> Option<FlowTurn<W>> {
        loop {
            let (level, is_owed) = self.level_to_serve(short_only)?;
            if let Some(turn) = self.serve(level) {
                if is_owed {
                    self.owed[level as usize] -= nanos(QUANTUM);
                    self.flow_mut(turn.flow.0).prepaid.push(level);
                }
                return Some(turn);
            }
        }
    }

    /// Charges a flow for the time that its work has held its slot.
    pub fn charge(&mut self, FlowIndex(at): FlowIndex, cost: Duration) {
        let flow = self.flow_mut(at);
        flow.credit = flow.credit.saturating_sub(nanos(cost)).max(-nanos(DEBT_MAX));
        let used_on = flow.level as usize;
        if let Some(level) = flow.prepaid.pop() {
            self.owed[level as usize] += nanos(QUANTUM) - nanos(cost).min(nanos(DEBT_MAX));
        }
        for below in &TurnLevel::ALL[used_on + 1..] {
            let level = *below as usize;
            if self.waiting[level] > 0 {
                let owed = self.owed[level].saturating_add(nanos(cost / below.share()));
                self.owed[level] = owed.min(2 * nanos(QUANTUM));
            }
        }
    }

    /// Ends a turn whose work is done.
    pub fn end(&mut self, FlowIndex(at): FlowIndex) {
        let flow = self.flow_mut(at);
        assert!(flow.running > 0, "a turn is ended once, after it was given");
        flow.running -= 1;
        self.forget_if_idle(at);
        if self.waiting() == 0 {
            self.forget_debts();
        }
    }

    /// Forgets all idle queues in debt: if nothing waits, their debt harms no other work.
    fn forget_debts(&mut self) {
        for level in 0..LEVELS {
            while let Some(at) = self.rings[level].pop_front() {
                self.flow_mut(at).ringed = false;
                self.forget_if_idle(at);
            }
        }
    }

    /// Level whose turn it is: the lowest that is owed a quantum (then the flag is true); else the highest
    /// with waiting work.
    fn level_to_serve(&mut self, short_only: bool) -> Option<(TurnLevel, bool)> {
        if short_only {
            return (self.waiting[TurnLevel::Short as usize] > 0).then_some((TurnLevel::Short, false));
        }
        for level in 0..LEVELS {
            if self.waiting[level] == 0 {
                self.owed[level] = 0;
            }
        }
        let is_owed = |level: &TurnLevel| self.owed[*level as usize] >= nanos(QUANTUM);
        if let Some(level) = TurnLevel::ALL.into_iter().rev().find(is_owed) {
            return Some((level, true));
        }
        let first = TurnLevel::ALL.into_iter().find(|level| self.waiting[*level as usize] > 0);
        first.map(|level| (level, false))
    }

    /// Serves the ring of a level with waiting work. Returns `None` if none is left there, because all of it
    /// fell to another level.
    fn serve(&mut self, level: TurnLevel) -> Option<FlowTurn<W>> {
        while self.waiting[level as usize] > 0 {
            let at =
                *self.rings[level as usize].front().expect("a queue where something waits is in its ring");
            let flow = self.flows[at].as_mut().expect("a queue in a ring is kept");
            if flow.credit <= 0 {
                self.rings[level as usize].pop_front();
                flow.credit += nanos(QUANTUM);
                flow.level = level.below();
                let (waiting, level_now) = (flow.waiting(), flow.level);
                self.waiting[level as usize] -= waiting;
                self.waiting[level_now as usize] += waiting;
                self.rings[level_now as usize].push_back(at);
                continue;
            }
            let work = flow.begun.pop_front().or_else(|| flow.queued.pop_front());
            if flow.waiting() == 0 {
                self.rings[level as usize].pop_front();
                flow.ringed = false;
            }
            let Some(work) = work else {
                self.forget_if_idle(at);
                continue;
            };
            flow.running += 1;
            self.waiting[level as usize] -= 1;
            return Some(FlowTurn { flow: FlowIndex(at), work });
        }
        None
    }

    /// Counts a piece of work that was added to a queue, and puts the queue in its ring.
    fn added(&mut self, at: usize) {
        let flow = self.flows[at].as_mut().expect("work was added to this queue");
        self.waiting[flow.level as usize] += 1;
        if !flow.ringed {
            flow.ringed = true;
            self.rings[flow.level as usize].push_back(at);
        }
    }

    fn index_of(&mut self, flow: &WorkFlow) -> usize {
        if let Some(at) = self.indexes.get(flow) {
            return *at;
        }
        let queue = FlowQueue {
            name: flow.clone(),
            level: TurnLevel::first_of(flow),
            credit: nanos(QUANTUM),
            begun: VecDeque::new(),
            queued: VecDeque::new(),
            running: 0,
            prepaid: Vec::new(),
            ringed: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at] = Some(queue);
                at
            }
            None => {
                self.flows.push(Some(queue));
                self.flows.len() - 1
            }
        };
        self.indexes.insert(flow.clone(), at);
        at
    }

    /// Forgets an idle queue. One in debt stays in its ring until its turns have paid, unless nothing waits:
    /// then the debt harms no other work.
    fn forget_if_idle(&mut self, at: usize) {
        let nothing_waits = self.waiting() == 0;
        let flow = self.flow_mut(at);
        if flow.running > 0 || flow.ringed {
            return;
        }
        if flow.credit <= 0 && !nothing_waits {
            flow.ringed = true;
            let level = flow.level as usize;
            self.rings[level].push_back(at);
            return;
        }
        if let Some(flow) = self.flows[at].take() {
            self.indexes.remove(&flow.name);
            self.free.push(at);
        }
    }

    /// Queue with the most unstarted work.
    fn longest(&self) -> Option<usize> {
        let queues = self.flows.iter().enumerate();
        let lengths = queues.filter_map(|(at, flow)| Some((flow.as_ref()?.queued.len(), at)));
        lengths.max().filter(|(length, _)| *length > 0).map(|(_, at)| at)
    }

    fn drop_abandoned(&mut self, at: usize, is_abandoned: &dyn Fn(&W) -> bool) {
        let flow = self.flow_mut(at);
        let before = flow.queued.len();
        flow.queued.retain(|work| !is_abandoned(work));
        let (dropped, level) = (before - flow.queued.len(), flow.level as usize);
        self.waiting[level] -= dropped;
    }

    fn drop_newest(&mut self, at: usize) -> Option<W> {
        let flow = self.flow_mut(at);
        let (work, level) = (flow.queued.pop_back(), flow.level as usize);
        self.waiting[level] -= usize::from(work.is_some());
        work
    }

    fn flow(&self, at: usize) -> &FlowQueue<W> {
        self.flows[at].as_ref().expect("a queue is kept while its index is in use")
    }

    fn flow_mut(&mut self, at: usize) -> &mut FlowQueue<W> {
        self.flows[at].as_mut().expect("a queue is kept while its index is in use")
    }
}

#[cfg(test)]
mod tests;
