//! Answers that exist, though there may be no room for them: others wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{AnswerShare, RequestBudget};

impl RequestBudget {
    /// Counts bytes of an answer that exist.
    pub(crate) fn count_answer(self: &Arc<Self>, bytes: usize) -> AnswerShare {
        self.answers.reserved.fetch_add(bytes, Ordering::SeqCst);
        AnswerShare { budget: Arc::clone(self), bytes }
    }

    /// True if answers wait for room, or have more than half of it.
    pub(crate) fn needs_answers(&self) -> bool {
        let answers = &self.answers;
        answers.waiting.load(Ordering::Relaxed) > 0
            || answers.reserved.load(Ordering::Relaxed) > answers.capacity / 2
    }
}

impl AnswerShare {
    /// Counts bytes that exist beside those of this share.
    pub(crate) fn count_more(&self, bytes: usize) -> AnswerShare {
        self.budget.count_answer(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::BudgetBounds;
    use super::*;

    #[test]
    fn what_exists_is_counted_beyond_the_room() {
        let wait_max = Duration::ZERO;
        let bounds = BudgetBounds { bodies: 0, work: 0, answers: 100, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let first = budget.count_answer(50);
        assert!(!budget.needs_answers());
        let second = first.count_more(70);
        assert_eq!((budget.of_answers().reserved, budget.needs_answers()), (120, true));
        drop((first, second));
        assert_eq!((budget.of_answers().reserved, budget.needs_answers()), (0, false));
    }
}
