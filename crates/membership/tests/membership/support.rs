//! A cluster in one process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::{
    ClusterConfiguration, ClusterState, ConfiguredNode, NodeHierarchy, NodeKey, NodeState,
};
use millrace_coordination::{Coordination, EmbeddedCoordination};
use millrace_membership::{ClusterMembership, CoordinationSnapshot, Settings};
use tempfile::TempDir;
use tokio::time::timeout;

/// Time limit, longer than any step here takes.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(120);

pub struct MemberCluster {
    pub coordination: Arc<dyn Coordination>,
    directory: TempDir,
}

impl MemberCluster {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let coordination = EmbeddedCoordination::open(&directory.path().join("embedded")).expect("it opens");
        MemberCluster { coordination: Arc::new(coordination), directory }
    }

    pub fn by(coordination: Arc<dyn Coordination>) -> Self {
        MemberCluster { coordination, directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn settings(&self, name: &str) -> Settings {
        let mut settings = Settings::new(name, format!("{name}:19100"), self.directory(name));
        settings.url = format!("http://{name}:8080");
        // Longer than a machine under load stands still: nodes are missed only where a test has them end.
        settings.lease = Duration::from_secs(10);
        settings.confirm = Duration::from_millis(100);
        settings.controller.grace = Duration::from_millis(200);
        settings.controller.settling = Duration::from_millis(500);
        settings.controller.transition = Duration::from_millis(700);
        settings.controller.crashes_max = 100;
        settings
    }

    pub async fn join(&self, name: &str) -> ClusterMembership {
        let coordination = Arc::clone(&self.coordination);
        ClusterMembership::join(coordination, self.settings(name)).await.expect("it joins")
    }
}

/// Configuration of nodes with these names, with the keys 0, 1, …
pub fn configuration<const N: usize>(names: [&str; N]) -> ClusterConfiguration {
    let node = |(key, name): (usize, &str)| {
        let node = ConfiguredNode { name: name.to_owned(), capacity: 1.0, group: "rack".to_owned() };
        (NodeKey(key as u16), node)
    };
    let nodes: BTreeMap<NodeKey, ConfiguredNode> = names.into_iter().enumerate().map(node).collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    ClusterConfiguration { redundancy: 2, nodes, layout, ..ClusterConfiguration::default() }
}

/// A state as text: `name:state` for each node.
pub fn shown(state: &ClusterState) -> String {
    let state_of = |state| match state {
        NodeState::Up => "up",
        NodeState::Retired => "retired",
        NodeState::Maintenance => "maintenance",
        NodeState::Down => "down",
    };
    let nodes = state.nodes().values().map(|node| format!("{}:{}", node.name, state_of(node.state)));
    nodes.collect::<Vec<_>>().join(" ")
}

/// Waits until a node knows this state.
pub async fn reaches(node: &ClusterMembership, expected: &str) -> Arc<ClusterState> {
    let mut states = node.states();
    let wait = states.wait_for(|state| state.as_ref().is_some_and(|state| shown(state) == expected));
    let reached = match timeout(STEP_TIMEOUT, wait).await {
        Ok(state) => state.expect("the node is there").clone(),
        Err(_) => None,
    };
    let known = node.states().borrow().as_ref().map(|state| shown(state));
    reached.unwrap_or_else(|| panic!("{expected} is not reached, but {known:?}"))
}

/// Waits until a node's snapshot satisfies a condition.
pub async fn sees(
    node: &ClusterMembership,
    what: impl FnMut(&Arc<CoordinationSnapshot>) -> bool,
) -> Arc<CoordinationSnapshot> {
    let mut snapshots = node.snapshots();
    let snapshot = timeout(STEP_TIMEOUT, snapshots.wait_for(what)).await.expect("it is seen in time");
    Arc::clone(&snapshot.expect("the node is there"))
}
