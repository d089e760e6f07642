//! Indexes whose copies a cluster places on nodes, each of a slice of the documents of all nodes.

mod reports;

use std::sync::OnceLock;

use super::IndexDefinition;
use std::sync::Arc;

pub use reports::{PlacementLinks, PlacementNews, WantedIndexes};

/// The placed indexes of a node: changes of its documents for copies on other nodes, and its own copies.
#[derive(Default)]
pub struct PlacedIndexes {
    news: PlacementNews,
    links: OnceLock<PlacementLinks>,
}

impl PlacedIndexes {
    /// Reports of the node to the leader of its cluster.
    pub fn news(&self) -> &PlacementNews {
        &self.news
    }

    /// Keeps the copies that the table gives the node from now on. Called in a tokio runtime, once, after the
    /// node has got its part in the cluster. A second call is ignored.
    pub fn follow_table(&self, links: PlacementLinks) {
        if self.links.set(links).is_err() {
            tracing::warn!("the node follows a table of copies of indexes already");
        }
    }

    /// Adopts the indexes of an application.
    pub(crate) fn adopt(&self, generation: u64, definitions: &[Arc<IndexDefinition>]) {
        self.news.want(generation, definitions);
    }
}
