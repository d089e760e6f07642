//! Entry point of the fuzz target.

use std::collections::BTreeMap;

use millrace_bucket::NodeKey;
use millrace_cluster::NodeState;

use crate::{
    IndexNode, NodeCopyReports, PlacedIndex, PlacementRequest, PlacementSettingsUpdate, PlacementSituation,
    PlacementTable, RequestedCopyMove, WantedIndex, plan, planned_rebalance, rebalance_left,
};

/// Nodes of the cluster of the target.
const NODES: u16 = 4;

/// Largest table that is planned with: each plan takes time.
const PLANNED_BYTES: usize = 4_096;

/// Reads bytes as each value of coordination and each body of a request, and plans with a table.
///
/// # Panics
/// A value that can be read is another after it is written and read, or a plan leaves a table that cannot be
/// read.
pub fn fuzz(bytes: &[u8]) {
    let nodes: Vec<IndexNode> = (0..NODES).map(node).collect();
    if let Ok(reports) = NodeCopyReports::from_json(bytes) {
        assert!(NodeCopyReports::from_json(&reports.to_json()).is_ok(), "reports can be read again");
    }
    if let Ok(request) = serde_json::from_slice::<PlacementRequest>(bytes) {
        let written = serde_json::to_vec(&request).expect("numbers and texts always have a JSON form");
        assert_eq!(serde_json::from_slice(&written).ok(), Some(request.clone()), "a request is what it was");
        let _ = request.command(&nodes);
    }
    let _ = PlacementSettingsUpdate::from_json(bytes);
    let _ = RequestedCopyMove::from_json(bytes);
    let Ok(table) = PlacementTable::from_json(bytes) else { return };
    assert_eq!(PlacementTable::from_json(&table.to_json()).as_ref(), Ok(&table), "a table is what it was");
    if bytes.len() > PLANNED_BYTES {
        return;
    }
    let wanted: Vec<WantedIndex> = table.indexes().values().filter_map(wanted).collect();
    let situation = PlacementSituation { nodes: &nodes, wanted: &wanted, commands: &[] };
    let _ = planned_rebalance(&table, &situation);
    let _ = rebalance_left(&table, &situation);
    let next = plan(&table, &situation).table;
    assert_eq!(next.check(), Ok(()), "a plan leaves a table that can be read");
}

/// The declaration of an index of the table.
fn wanted(index: &PlacedIndex) -> Option<WantedIndex> {
    let slices = u8::try_from(index.slices.len()).ok()?;
    let wanted = WantedIndex::new((&index.content, &index.name), index.definition, index.copies, slices);
    wanted.ok().filter(|_| !index.superseded)
}

fn node(key: u16) -> IndexNode {
    let states = [NodeState::Up, NodeState::Up, NodeState::Retired, NodeState::Maintenance];
    IndexNode {
        key: NodeKey(key),
        name: format!("n{key}").into(),
        state: states[usize::from(key) % states.len()],
        has_role: true,
        group: Vec::new(),
        reports: BTreeMap::new(),
    }
}
