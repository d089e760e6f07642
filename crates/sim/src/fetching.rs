//! Fetches of the rows of a replica from another node, part by part.

use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeFailure, NodeKey, PullMode, RowContent};
use millrace_replication::replica::{FetchOutcome, KeeperEvent, KeeperJob};

use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::node::SimNode;
use crate::world::{SimEvent, SimWorld};

/// Number of rows in one part of a fetch.
const PART: usize = 3;

/// Time after which a missing part of a fetch never arrives.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

impl SimNode {
    /// The next rows of a replica after a number of them, and true if they are the last ones. `None` if the
    /// node acts by another state, or has no such replica.
    pub fn part(
        &self,
        version: ClusterVersion,
        bucket: BucketId,
        known: Option<&[RowContent]>,
        after: usize,
    ) -> Option<(Vec<RowContent>, bool)> {
        if self.state.as_ref()?.version() != version {
            return None;
        }
        let rows = self.storage.listing(bucket, known)?;
        let part = rows.iter().skip(after).take(PART).cloned().collect();
        Some((part, rows.len() <= after + PART))
    }
}

impl SimWorld {
    /// Requests the next part of a fetch from the node with the replica.
    pub fn request_part(
        &mut self,
        key: NodeKey,
        job: KeeperJob,
        bucket: BucketId,
        from: NodeKey,
        pull: PullMode,
    ) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let incarnation = node.incarnation;
        let Some(version) = node.state.as_ref().map(|state| state.version()) else { return };
        if node.fetches.get(&job).is_some_and(|fetch| fetch.last) {
            return self.fetch_ended(key, job, Ok(FetchOutcome::End));
        }
        let fetch = node.fetch(job, bucket, pull);
        let (turn, known, after) = (fetch.turn, fetch.known.clone(), fetch.after);
        let message = SimMessage::Fetch { from: key, incarnation, job, turn, version, bucket, known, after };
        self.send(SimAddress::Node(key), SimAddress::Node(from), message);
        self.schedule(FETCH_TIMEOUT, SimEvent::FetchTimeout { node: key, incarnation, job, turn });
    }

    /// Lays a part aside that has arrived, for its installation; `None` if the source has no replica.
    pub fn part_arrived(
        &mut self,
        key: NodeKey,
        job: KeeperJob,
        turn: u64,
        part: Option<(Vec<RowContent>, bool)>,
    ) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(fetch) = node.fetches.get_mut(&job).filter(|fetch| fetch.turn == turn) else { return };
        fetch.turn = 0;
        let Some((rows, last)) = part else {
            let gone = NodeFailure::Storage { reason: "the source has no replica any more".to_owned() };
            return self.fetch_ended(key, job, Err(gone));
        };
        fetch.after += rows.len();
        fetch.last = last;
        if rows.is_empty() {
            return self.fetch_ended(key, job, Ok(FetchOutcome::End));
        }
        fetch.laid_aside = rows;
        self.keep(key, vec![KeeperEvent::Fetched { job, outcome: Ok(FetchOutcome::Part) }]);
    }

    /// Ends a fetch, and reports its outcome to the keeper.
    pub fn fetch_ended(&mut self, key: NodeKey, job: KeeperJob, outcome: Result<FetchOutcome, NodeFailure>) {
        if let Some(node) = self.nodes.get_mut(&key) {
            node.fetches.remove(&job);
        }
        self.keep(key, vec![KeeperEvent::Fetched { job, outcome }]);
    }
}
