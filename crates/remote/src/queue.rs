//! Queue of texts, and the callers that wait for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_env::{ModelCaller, SequencePurpose};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Error, VectorCells};

/// Interval at which waiting callers are checked.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A waiting text.
pub(crate) struct TextEntry {
    pub text: String,
    call: Arc<TextCall>,
    at: usize,
}

impl TextEntry {
    pub fn finish(self, result: Result<Vec<f32>, Error>) {
        let mut state = self.call.lock();
        if state.results[self.at].replace(result).is_none() {
            state.missing -= 1;
        }
        if state.missing == 0 {
            self.call.changed.notify_one();
        }
    }

    /// True if its caller has left.
    pub fn abandoned(&self) -> bool {
        self.call.left.load(Ordering::Relaxed)
            || self.call.caller.gone.load(Ordering::Relaxed)
            || self.is_late()
    }

    fn is_late(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.call.caller.deadline
    }

    /// Purpose of its embedding.
    pub fn purpose(&self) -> SequencePurpose {
        self.call.caller.purpose
    }

    /// Cell type of its vector.
    pub fn cells(&self) -> VectorCells {
        self.call.cells
    }

    /// True if the same caller waits for `other`.
    pub fn is_of_call(&self, other: &TextEntry) -> bool {
        Arc::ptr_eq(&self.call, &other.call)
    }
}

/// Texts that one caller waits for.
pub(crate) struct TextCall {
    caller: ModelCaller,
    cells: VectorCells,
    left: AtomicBool,
    state: Mutex<TextQueueState>,
    changed: Condvar,
}

struct TextQueueState {
    results: Vec<Option<Result<Vec<f32>, Error>>>,
    missing: usize,
}

impl TextCall {
    /// Creates a call, with its entries.
    pub fn new(
        texts: Vec<String>,
        cells: VectorCells,
        caller: &ModelCaller,
    ) -> (Arc<TextCall>, Vec<TextEntry>) {
        let state = TextQueueState { results: texts.iter().map(|_| None).collect(), missing: texts.len() };
        let call = Arc::new(TextCall {
            caller: caller.clone(),
            cells,
            left: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let entry = |(at, text)| TextEntry { text, call: Arc::clone(&call), at };
        let entries = texts.into_iter().enumerate().map(entry).collect();
        (call, entries)
    }

    fn lock(&self) -> MutexGuard<'_, TextQueueState> {
        // Code that can panic never runs while it is held.
        self.state.lock()
    }

    /// Waits for all results.
    pub fn wait(&self, service: &str) -> Result<Vec<Vec<f32>>, Error> {
        let mut state = self.lock();
        while state.missing > 0 {
            let late = self.caller.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || self.caller.gone.load(Ordering::Relaxed) {
                self.left.store(true, Ordering::Relaxed);
                return Err(Error::Deadline { service: service.to_owned() });
            }
            self.changed.wait_for(&mut state, LOOK_EVERY);
        }
        std::mem::take(&mut state.results).into_iter().flatten().collect()
    }
}

/// Waiting texts: queries first, then feeding.
#[derive(Default)]
pub(crate) struct TextQueue {
    queries: VecDeque<TextEntry>,
    feeds: VecDeque<TextEntry>,
}

impl TextQueue {
    pub fn len(&self) -> usize {
        self.queries.len() + self.feeds.len()
    }

    pub fn push(&mut self, purpose: SequencePurpose, entries: Vec<TextEntry>) {
        match purpose {
            SequencePurpose::Query => self.queries.extend(entries),
            SequencePurpose::Feed => self.feeds.extend(entries),
        }
    }

    /// Removes the next texts to request together, for the same cells; if calls are `whole`, more than
    /// `texts_max` if one call has them. Texts whose callers have left are dropped.
    pub fn take(&mut self, texts_max: usize, whole: bool) -> Vec<TextEntry> {
        self.queries.retain(|entry| !entry.abandoned());
        self.feeds.retain(|entry| !entry.abandoned());
        // A query does not wait for the texts of documents: they are requested separately.
        let queue = if self.queries.is_empty() { &mut self.feeds } else { &mut self.queries };
        let mut taken: Vec<TextEntry> = Vec::new();
        let mut left = VecDeque::new();
        for entry in queue.drain(..) {
            let goes_on = whole && taken.last().is_some_and(|last| last.is_of_call(&entry));
            let same = taken.last().is_none_or(|last| last.cells() == entry.cells());
            if same && (taken.len() < texts_max || goes_on) {
                taken.push(entry);
            } else {
                left.push_back(entry);
            }
        }
        *queue = left;
        taken
    }

    pub fn drain(&mut self) -> Vec<TextEntry> {
        self.queries.drain(..).chain(self.feeds.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Successive results of taking from calls with these texts and cells.
    fn taken(calls: &[(&[&str], VectorCells)], texts_max: usize, whole: bool) -> Vec<String> {
        let caller = ModelCaller::without_deadline(SequencePurpose::Feed);
        let mut queue = TextQueue::default();
        for (texts, cells) in calls {
            let texts = texts.iter().map(|text| (*text).to_owned()).collect();
            queue.push(SequencePurpose::Feed, TextCall::new(texts, *cells, &caller).1);
        }
        let next = || {
            let entries = queue.take(texts_max, whole);
            (!entries.is_empty()).then(|| entries.iter().map(|entry| entry.text.as_str()).collect())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn texts_for_the_same_cells_go_together_and_whole_calls_where_they_are_to() {
        let calls: &[(&[&str], VectorCells)] = &[
            (&["a", "b"], VectorCells::Float),
            (&["c"], VectorCells::Binary),
            (&["d", "e"], VectorCells::Float),
        ];
        assert_eq!(taken(calls, 3, false), ["abd", "c", "e"]);
        assert_eq!(taken(calls, 3, true), ["abde", "c"]);
        assert_eq!(taken(calls, 1, true), ["ab", "c", "de"]);
    }
}
