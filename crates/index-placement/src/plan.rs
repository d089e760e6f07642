use crate::draft::PlacementDraft;
use crate::{Error, IndexNode, PlacementCommand, PlacementStep, PlacementTable, WantedIndex};

/// The facts that a plan is made from, beside the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlacementSituation<'a> {
    /// All nodes of the cluster. Copies on nodes that are not among them are forgotten.
    pub nodes: &'a [IndexNode],
    /// All declared indexes. Indexes that are not among them are removed.
    pub wanted: &'a [WantedIndex],
    /// New commands of operators.
    pub commands: &'a [PlacementCommand],
}

/// The next table, and the steps that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementPlan {
    /// The next table; the leader writes it if it differs from the earlier one.
    pub table: PlacementTable,
    /// Changes of the table.
    pub steps: Vec<PlacementStep>,
    /// For each command the reason why it was refused, if it was.
    pub answers: Vec<Result<(), Error>>,
    /// Names of declared indexes, or of their new declarations, that the table has no room for.
    pub without_room: Vec<String>,
}

/// Largest number of rounds. Each round sees the changes of the one before. Two or three suffice, and one for
/// each node that is released.
const ROUNDS_MAX: usize = 64;

/// Plans the next table. The same arguments give the same plan, and a plan from its own table and the same
/// reports has no steps.
///
/// A cluster calls it whenever nodes, reports, declarations or commands have changed. Only the leader acts by
/// it: it writes the table, and nodes do what the table says about them.
pub fn plan(table: &PlacementTable, situation: &PlacementSituation<'_>) -> PlacementPlan {
    plan_with(PlacementDraft::new(table, situation), situation)
}

pub(crate) fn plan_with(mut draft: PlacementDraft<'_>, situation: &PlacementSituation<'_>) -> PlacementPlan {
    let without_room = draft.declare(situation.wanted);
    let answers = situation.commands.iter().map(|command| draft.accept(command)).collect();
    for _ in 0..ROUNDS_MAX {
        let steps = draft.steps.len();
        draft.round();
        if draft.steps.len() == steps {
            break;
        }
    }
    debug_assert_eq!(draft.table.check(), Ok(()), "a plan leaves a table that can be read");
    PlacementPlan { table: draft.table, steps: draft.steps, answers, without_room }
}

impl PlacementDraft<'_> {
    fn round(&mut self) {
        self.observe();
        self.drop_surplus();
        let intents = self.decide();
        self.activate(&intents);
        self.forget_down();
        self.remove_superseded();
        self.change_sources();
        let waiting = self.begin(intents);
        self.end_rebalance(&waiting);
    }
}
