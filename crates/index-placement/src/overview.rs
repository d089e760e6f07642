use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_bucket::NodeKey;

use crate::{
    IndexNode, NodeCopyReport, NodeCopyReports, PlacedCopy, PlacementSituation, PlacementTable, WantedIndex,
};

/// Placed indexes of a cluster, as a node knows them.
#[derive(Debug, Clone, Default)]
pub struct PlacementOverview {
    /// True if a table was published; otherwise it is empty.
    pub is_published: bool,
    /// The table.
    pub table: Arc<PlacementTable>,
    /// Nodes of the cluster.
    pub nodes: Vec<IndexNode>,
    /// Reports of the nodes about their copies.
    pub reports: BTreeMap<NodeKey, NodeCopyReports>,
    /// Indexes that the application of the node places.
    pub wanted: Vec<WantedIndex>,
    /// Reason for which the newest table cannot be read.
    pub unread: Option<Arc<str>>,
}

impl PlacementOverview {
    /// The situation, without commands.
    pub fn situation(&self) -> PlacementSituation<'_> {
        PlacementSituation { nodes: &self.nodes, wanted: &self.wanted, commands: &[] }
    }

    /// The last report about a copy of the table.
    pub fn report(&self, copy: &PlacedCopy) -> Option<&NodeCopyReport> {
        self.reports.get(&copy.node)?.copies.get(&copy.id)
    }

    /// A node by its key.
    pub fn node(&self, key: NodeKey) -> Option<&IndexNode> {
        self.nodes.iter().find(|node| node.key == key)
    }

    /// True if the cluster places indexes, or has placed some.
    pub fn is_used(&self) -> bool {
        !self.wanted.is_empty() || !self.table.indexes().is_empty()
    }
}
