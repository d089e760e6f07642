//! Room for the questions of other nodes, beyond that of clients.
//!
//! A request of a client has room at its node while that asks others. Where all room of two nodes is taken by
//! such requests, each would wait for the other. So a question gets room where clients get none, and is
//! answered.

use std::sync::Arc;

use super::{BudgetReservation, RequestBudget};

/// Room for questions, as a divisor of that for bodies, beside which it is.
const QUESTIONS_PART: usize = 16;

impl RequestBudget {
    /// Creates the share of a question of another node, without any bytes yet.
    pub(crate) fn question(self: &Arc<Self>) -> BudgetReservation {
        let mut share = self.share();
        share.beyond = self.bodies.capacity / QUESTIONS_PART;
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
        let patience = Duration::from_millis(1);
        let bounds = BudgetBounds { bodies: 1600, work: 0, answers: 0, patience, return_memory: || {} };
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
}
