//! The leader of a cluster of tests, as far as placed indexes go.

use std::sync::Arc;

use millrace_index_placement::{
    PlacementAnswer, PlacementOverview, PlacementRequest, PlacementSituation, plan,
};

/// Decides on a request as a leader does.
pub fn decide(overview: &mut PlacementOverview, request: &PlacementRequest) -> PlacementAnswer {
    let commands = match request.command(&overview.nodes) {
        Ok(command) => [command],
        Err(error) => return PlacementAnswer::from(&error),
    };
    let (nodes, wanted) = (&overview.nodes, &overview.wanted);
    let plan = plan(&overview.table, &PlacementSituation { nodes, wanted, commands: &commands });
    overview.table = Arc::new(plan.table);
    match &plan.answers[0] {
        Ok(()) => PlacementAnswer::Done,
        Err(error) => PlacementAnswer::from(error),
    }
}
