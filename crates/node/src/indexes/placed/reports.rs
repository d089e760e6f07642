//! Seam between the placed indexes of a node and the leader of its cluster.
//!
//! The leader decides which node has which copy, and writes the table of copies in coordination. The process
//! that runs the node follows this table for it ([`PlacementLinks`]), and publishes what the node reports
//! ([`PlacementReporter`]) as a note. The leader plans by the notes of all nodes, and by the declared indexes
//! of its own node, which has the active application.

use std::sync::Arc;

use millrace_cluster::NodeKey;
use millrace_index_placement::{DefinitionHash, NodeCopyReports, PlacementTable, WantedIndex};
use tokio::sync::watch;

use super::super::IndexDefinition;

/// Means by which a node knows its copies, given to
/// [`Node::follow_placement`](crate::Node::follow_placement).
pub struct PlacementLinks {
    /// Key of the node, by which the table names it.
    pub own: NodeKey,
    /// The table as the node has received it last; `None` before it has received any, also if there is none.
    /// A node that has received none leaves its copies as they are.
    pub table: watch::Receiver<Option<Arc<PlacementTable>>>,
}

/// Indexes that the active application of a node places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedIndexes {
    /// Generation of the application; 0 before any is active. The leader plans by it only if it is that of
    /// the package that the cluster has published last.
    pub generation: u64,
    /// The indexes, of all content clusters.
    pub indexes: Vec<WantedIndex>,
}

/// Publisher of what a node reports to the leader. Receivers see the newest value, and are woken at most some
/// times a second.
pub struct PlacementReporter {
    reports: watch::Sender<Arc<NodeCopyReports>>,
    wanted: watch::Sender<Arc<WantedIndexes>>,
}

impl Default for PlacementReporter {
    fn default() -> Self {
        PlacementReporter {
            reports: watch::Sender::new(Arc::default()),
            wanted: watch::Sender::new(Arc::default()),
        }
    }
}

impl PlacementReporter {
    /// Reports about the copies that the table gives the node, and about those that it has removed while the
    /// table names them. Copies that are missing are not known yet.
    pub fn reports(&self) -> watch::Receiver<Arc<NodeCopyReports>> {
        self.reports.subscribe()
    }

    /// Indexes that the application of the node places.
    pub fn wanted(&self) -> watch::Receiver<Arc<WantedIndexes>> {
        self.wanted.subscribe()
    }

    /// Publishes reports, if they differ from the last ones.
    pub(super) fn publish_reports(&self, reports: NodeCopyReports) {
        self.reports.send_if_modified(|known| {
            let differs = **known != reports;
            if differs {
                *known = Arc::new(reports);
            }
            differs
        });
    }

    /// Publishes the placed indexes of an application.
    pub(super) fn publish_wanted(&self, generation: u64, definitions: &[Arc<IndexDefinition>]) {
        let indexes = definitions.iter().filter(|definition| definition.config.placed).filter_map(wanted);
        let wanted = WantedIndexes { generation, indexes: indexes.collect() };
        self.wanted.send_if_modified(|known| {
            let differs = **known != wanted;
            if differs {
                *known = Arc::new(wanted);
            }
            differs
        });
    }
}

/// An index as the planner takes it. The reader of the declaration has refused all numbers that it would.
fn wanted(definition: &Arc<IndexDefinition>) -> Option<WantedIndex> {
    let (config, hash) = (&definition.config, DefinitionHash(definition.hash));
    let index = WantedIndex::new((&definition.content, &config.name), hash, config.copies, config.slices);
    let index = index.inspect_err(|error| tracing::error!(%error, "an index is not placed")).ok()?;
    Some(if config.deferred { index.deferred() } else { index })
}
