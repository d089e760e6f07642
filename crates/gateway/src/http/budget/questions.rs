//! Room for the questions of other nodes, and for the writes that they send on, beyond that of clients.
//!
//! A request of a client has room at its node while that asks others, and a stream has some for the
//! operations that come next. Where all room of two nodes is taken by such requests, each would wait for the
//! other. So a question gets room where clients get none, and is answered: it waits for no other node.

use std::sync::Arc;

use super::{BudgetReservation, RequestBudget};

/// Room for questions, as a divisor of that for bodies, beside which it is.
const BODIES_PART: usize = 16;

/// The same for work: enough for most pieces of a stream.
const WORK_PART: usize = 8;

/// Maximum bytes of bodies with those of questions, by those of clients.
pub(super) const fn bodies_max(capacity: usize) -> usize {
    capacity + capacity / BODIES_PART
}

/// Maximum bytes of work with that of questions, by that of clients.
pub(super) const fn work_max(capacity: usize) -> usize {
    capacity + capacity / WORK_PART
}

impl RequestBudget {
    /// Creates the share of a question of another node, without any bytes yet.
    pub(crate) fn question(self: &Arc<Self>) -> BudgetReservation {
        let mut share = self.share();
        share.is_question = true;
        share
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_node::Error;

    use super::super::BudgetBounds;
    use super::*;

    #[tokio::test]
    async fn a_question_has_room_where_clients_have_none() {
        let wait_max = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 1600, work: 0, answers: 0, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let (mut first, mut second) = (budget.share(), budget.share());
        first.grow(1600).await.expect("all is free");
        second.grow(1).await.expect_err("nothing is free");
        let (mut question, mut another) = (budget.question(), budget.question());
        question.grow(100).await.expect("this room is for questions");
        let refused = another.grow(1).await.expect_err("all of it is taken");
        assert!(matches!(refused, Error::NoRoom { setting: "bodies-bytes-max", .. }), "{refused}");
        drop(question);
        second.grow(1).await.expect_err("what a question gives back is for questions");
        another.grow(100).await.expect("it was given back");
        drop((first, another));
        assert_eq!(budget.of_bodies().reserved, 0);
        second.grow(1600).await.expect("all is free");
    }

    #[tokio::test]
    async fn a_question_is_worked_on_where_clients_wait() {
        let wait_max = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 0, work: 1600, answers: 0, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let (mut first, mut second, mut third) = (budget.share(), budget.share(), budget.share());
        first.work_of(1200).await.expect("all is free");
        second.work_of(400).await.expect("the rest is free");
        let refused = third.work_of(1).await.expect_err("nothing is free");
        assert!(matches!(refused, Error::NoRoom { setting: "work-bytes-max", .. }), "{refused}");
        let (mut question, mut another) = (budget.question(), budget.question());
        question.work_of(200).await.expect("this room is for questions");
        another.work_of(1).await.expect_err("all of it is taken");
        drop(question);
        third.work_of(1).await.expect_err("what a question gives back is for questions");
        another.work_of(200).await.expect("it was given back");
        drop((first, second, third, another));
        assert_eq!(budget.of_work().reserved, 0);
    }
}
