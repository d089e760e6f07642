//! Placement of copies of indexes on nodes: the table of copies, and the planner that changes it.
//!
//! An *index* is divided into *slices*, the documents whose locations share their lowest bits. A *copy* is
//! one node's copy of one slice. The [`PlacementTable`] says which node has which copy, in which state; it is
//! a value of its own in coordination, written by the leader alone. [`plan`] makes the next table from it and
//! from a [`PlacementSituation`]: the nodes with their reports, the declared indexes, and the commands of
//! operators. [`planned_rebalance`] says what a rebalance would move.
//!
//! Copies are made for these reasons, the most urgent first ([`PlacementReason`]):
//!
//! 1. A slice has no ready copy.
//! 2. A slice has too few copies, because one is on a node that is down, or failed, or more are wanted.
//! 3. Copies of a slice are together in a group of nodes while another group has room.
//! 4. A node is retired or has lost its role: its copies move away.
//! 5. A node has no copies: copies move *onto it*, from nodes with more than ⌈mean⌉, and between no others.
//!    If such nodes replace others, they get all that these had. A node whose filling was stopped, or whose
//!    last copy an operator has moved away, stays empty until a rebalance is asked for.
//! 6. An operator asks for a rebalance. Only then do copies move between all nodes.
//!
//! A rebalance has the fewest moves after which no node has more than ⌈mean⌉ copies (`balance`). Of these the
//! planner chooses some that leave the sizes even. A node in maintenance keeps its copies, and gets no
//! others.
//!
//! A move makes a new copy, by files from a ready one or from the documents. When its node reports that it
//! has caught up, the table says *ready*, and the copy that it replaces is *leaving*: it answers scans that
//! are in flight, and is unlinked. Nothing is scanned before the table says *ready*
//! ([`PlacementTable::serving`]). A slice keeps a ready copy all the while.
//!
//! A node that acts by the table
//! - makes the copies that it should have, deletes all others that it has, and knows them by [`CopyId`];
//! - reports [`CopyProgress::CaughtUp`] of a copy that is made only when it has all that was acknowledged
//!   when it asked. It reports [`CopyProgress::Failed`] of one that cannot be made or is damaged, and
//!   [`CopyProgress::Gone`] of a leaving copy that it has unlinked and of a ready one that it has lost.
//!
//! Everything here is values and functions of them: no files, no network, no threads, no clock.

mod balance;
mod command;
mod copy;
mod deciding;
mod declaring;
mod draft;
mod error;
mod fuzz;
mod grid;
mod groups;
mod missing;
mod node;
mod overview;
mod plan;
mod preview;
mod progress;
mod remaining;
mod report;
mod request;
mod settings;
mod starting;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use command::{PlacementCommand, WantedIndex};
pub use copy::{CopyId, IndexNumber, PlacedCopy, PlacedCopyState, PlacementReason, SliceId};
pub use error::{Error, NoCopiesReason};
pub use fuzz::fuzz;
pub use missing::{MissingCopies, missing_copies};
pub use node::{CopyProgress, CopyReport, IndexNode};
pub use overview::PlacementOverview;
pub use plan::{PlacementPlan, PlacementSituation, plan};
pub use preview::{NodePairMoves, PlannedRebalance, planned_rebalance};
pub use progress::RebalanceProgress;
pub use remaining::{RemainingRebalance, rebalance_left};
pub use report::{NodeCopyReport, NodeCopyReports, VerifiedCopy};
pub use request::{NodeReference, PlacementAnswer, PlacementRequest, RefusalKind, RequestedCopyMove};
pub use settings::{ActivationUnit, CopyMethod, PlacementSettings, PlacementSettingsUpdate};
pub use step::{ForgetReason, IndexRemoval, LeaveReason, PlacementStep};
pub use table::{
    COPIES_MAX, DefinitionHash, PlacedIndex, PlacementTable, RebalanceCause, RebalanceExtent, RebalancePace,
    RebalanceRun,
};
