//! Administration of a cluster from the command line, through the endpoints that every node of a cluster has.

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use millrace_cluster::{ClusterConfiguration, ClusterVersion, ConfiguredNode, NodeHierarchy, NodeKey};
use millrace_coordination::{Coordination, EmbeddedCoordination};
use millrace_membership::rest::{ShownMembership, router};
use millrace_membership::{
    BucketStats, ClusterMembership, IdealStateStats, NodeStats, OperationStats, PackagePublication, Settings,
    TransferRateStats, TransferStats,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Two nodes in this process, with figures set by the test.
struct TwoNodes {
    /// Address of the first node.
    address: String,
    figures: Arc<Mutex<NodeStats>>,
    members: Vec<ClusterMembership>,
    runtime: Runtime,
    _directory: TempDir,
}

impl TwoNodes {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let runtime = Runtime::new().expect("threads can be started");
        let figures = Arc::new(Mutex::new(NodeStats::default()));
        let (address, members) = runtime.block_on(async {
            let coordination: Arc<dyn Coordination> =
                Arc::new(EmbeddedCoordination::open(directory.path()).expect("it opens"));
            let (mut members, mut listeners) = (Vec::new(), Vec::new());
            for name in ["n0", "n1"] {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
                let mut settings = Settings::new(name, format!("{name}:1"), directory.path().join(name));
                // A machine that stands still for some seconds takes no node away.
                settings.lease = Duration::from_secs(600);
                settings.controller.transition = Duration::from_secs(600);
                settings.url = format!("http://{}", listener.local_addr().expect("it is bound"));
                let member =
                    ClusterMembership::join(Arc::clone(&coordination), settings).await.expect("it joins");
                members.push(member);
                listeners.push(listener);
            }
            members[0]
                .publish(PackagePublication::unconditional(b"", &configuration()))
                .await
                .expect("it is published");
            let mut states = members[0].states();
            let both = states.wait_for(|state| state.as_ref().is_some_and(|state| all_serve(state)));
            drop(tokio::time::timeout(Duration::from_secs(60), both).await.expect("both are up"));
            for (member, listener) in members.iter().zip(listeners) {
                let shown = ShownMembership {
                    membership: members[0].clone(),
                    clusters: || vec!["mail".to_owned()],
                    stats: |_: NodeKey| None,
                };
                let name = member.settings().name.clone();
                tokio::spawn(serve(listener, router(Arc::new(shown)), name, Arc::clone(&figures)));
            }
            (members[0].settings().url.clone(), members)
        });
        let cluster = TwoNodes { address, figures, members, runtime, _directory: directory };
        cluster.tell(|_| {});
        cluster
    }

    /// Changes the figures that both nodes report.
    fn tell(&self, change: impl FnOnce(&mut NodeStats)) {
        let mut figures = self.figures.lock();
        figures.confirmed = true;
        figures.version =
            self.members[0].states().borrow().as_ref().map_or(ClusterVersion::NONE, |state| state.version());
        change(&mut figures);
    }

    fn millrace(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["--config-url", &self.address, "--url", &self.address])
            .args(arguments)
            .output()
            .expect("the binary runs")
    }

    /// Returns the exit status, and the output on both streams.
    fn printed(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.millrace(arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    fn wait_for(&self, state: &str) {
        // The first node reports the cluster state.
        let mut states = self.members[0].states();
        let shown = |known: &millrace_cluster::ClusterState| {
            known.nodes().values().map(|node| format!("{:?} ", node.state)).collect::<String>()
        };
        let reached = states.wait_for(|known| known.as_ref().is_some_and(|known| shown(known) == state));
        let reached =
            self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), reached).await });
        drop(reached.unwrap_or_else(|_| panic!("{state} is not reached")));
    }
}

fn all_serve(state: &millrace_cluster::ClusterState) -> bool {
    state.nodes().len() == 2 && state.nodes().values().all(|node| node.state.serves())
}

fn configuration() -> ClusterConfiguration {
    let node = |key: u16| {
        let name = format!("n{key}");
        (NodeKey(key), ConfiguredNode { name, capacity: 1.0, group: String::new() })
    };
    let nodes = [0, 1].map(node).into_iter().collect();
    ClusterConfiguration {
        nodes,
        layout: NodeHierarchy::Nodes(vec![NodeKey(0), NodeKey(1)]),
        ..ClusterConfiguration::default()
    }
}

async fn serve(listener: TcpListener, endpoints: Router, name: String, figures: Arc<Mutex<NodeStats>>) {
    let tell = move || async move {
        let mut figures = figures.lock().clone();
        // Unless the test sets another name, it is the node's own.
        if figures.name.is_empty() {
            figures.name = name;
        }
        serde_json::to_string(&figures).expect("it has a JSON form")
    };
    let endpoints = endpoints.route("/state/v1/cluster", get(tell));
    let (_running, stop) = watch::channel(false);
    millrace_gateway::serve(
        listener,
        None,
        millrace_gateway::PortLimits::new(&millrace_gateway::RequestLimits::default()),
        millrace_gateway::routed(endpoints),
        stop,
        Duration::from_secs(1),
    )
    .await;
}

#[test]
fn nodes_are_retired_emptied_and_removed() {
    let cluster = TwoNodes::start();
    let (code, printed) = cluster.printed(&["node", "retire", "n1", "--reason", "its disk is old"]);
    assert!(code == 0 && printed.contains("n1: retired; when it is empty"), "{printed}");
    assert!(printed.contains("stop it, and when it is down"), "{printed}");
    cluster.wait_for("Up Retired ");
    assert!(cluster.printed(&["node", "retire", "n1"]).1.contains("n1 was retired already"));
    // The node has some data first, and then none.
    cluster.tell(|figures| figures.buckets = BucketStats { replicas: 3, ..BucketStats::default() });
    let (code, printed) = cluster.printed(&["node", "remove", "n1"]);
    assert!(code == 1 && printed.contains("n1 stays as it is"), "{printed}");
    cluster.tell(|figures| figures.buckets = BucketStats::default());
    let (code, printed) = cluster.printed(&["node", "remove", "n1"]);
    assert!(code == 0 && printed.contains("n1: removed"), "{printed}");
    cluster.wait_for("Up ");
    // The node runs, and can be set to up again.
    assert_eq!(cluster.printed(&["node", "up", "n1"]).0, 0);
    cluster.wait_for("Up Up ");
    assert_eq!(cluster.printed(&["node", "maintenance", "n1"]).0, 0);
    cluster.wait_for("Up Maintenance ");
    let (code, printed) = cluster.printed(&["node", "down", "n0"]);
    assert!(code == 1 && printed.contains("not safe: n1 does not serve either"), "{printed}");
    let (code, printed) = cluster.printed(&["node", "up", "n7"]);
    assert!(code == 1 && printed.contains("no node 'n7'; the cluster has n0, n1"), "{printed}");
}

#[test]
fn a_wait_ends_when_nothing_is_left_to_do() {
    let cluster = TwoNodes::start();
    assert_eq!(cluster.printed(&["cluster", "wait", "--ideal", "--timeout", "60"]).0, 0);
    cluster.tell(|figures| figures.ideal = IdealStateStats { distance: 7, ..IdealStateStats::default() });
    assert_eq!(cluster.printed(&["cluster", "wait", "--timeout", "60"]).0, 0);
    let (code, printed) = cluster.printed(&["cluster", "wait", "--ideal", "--timeout", "0"]);
    assert!(code == 1 && printed.contains("n0 has 7 replicas to make, fill or delete"), "{printed}");
    cluster.tell(|figures| figures.version = ClusterVersion::NONE);
    let (code, printed) = cluster.printed(&["cluster", "wait", "--timeout", "0"]);
    assert!(code == 1 && printed.contains("n0 does not go by state"), "{printed}");
}

#[test]
fn a_wait_is_not_over_while_a_node_is_expected_back() {
    let cluster = TwoNodes::start();
    // Maintenance by an operator does not affect the other nodes, but nothing is in its ideal place
    // meanwhile.
    assert_eq!(cluster.printed(&["node", "maintenance", "n1"]).0, 0);
    cluster.wait_for("Up Maintenance ");
    cluster.tell(|_| {});
    let (code, printed) = cluster.printed(&["cluster", "wait", "--timeout", "60"]);
    assert!(code == 0 && printed.contains("n1 is not there (maintenance)"), "{printed}");
    let (code, printed) = cluster.printed(&["cluster", "wait", "--ideal", "--timeout", "0"]);
    assert!(code == 1 && printed.contains("n1 is under maintenance"), "{printed}");
    assert_eq!(cluster.printed(&["node", "up", "n1"]).0, 0);
    cluster.wait_for("Up Up ");
    // A node that leaves by itself is waited for.
    cluster.runtime.block_on(cluster.members[1].stopping());
    cluster.wait_for("Up Maintenance ");
    cluster.tell(|_| {});
    let (code, printed) = cluster.printed(&["cluster", "wait", "--timeout", "0"]);
    assert!(code == 1 && printed.contains("n1 is away, and expected back"), "{printed}");
}

#[test]
fn warnings_about_the_start_of_a_node_are_shown() {
    let cluster = TwoNodes::start();
    cluster.tell(|figures| figures.warnings = vec!["it listens everywhere".to_owned()]);
    assert!(cluster.printed(&["cluster", "show"]).1.contains("n1: warning: it listens everywhere"));
    cluster.tell(|figures| figures.name = "n0".to_owned());
    let (_, printed) = cluster.printed(&["cluster", "show"]);
    assert!(
        printed.contains("where it says that it is, there is 'n0'; start it with --advertise"),
        "{printed}"
    );
}

#[test]
fn transfers_are_shown_with_their_rates() {
    let cluster = TwoNodes::start();
    cluster.tell(|figures| {
        figures.transfers = vec![TransferStats {
            from: "n0".to_owned(),
            to: "n1".to_owned(),
            buckets: 12,
            reason: "whole replicas".to_owned(),
            bytes_done: 1 << 20,
            bytes_total: 5 << 20,
            bytes_per_second: 2_097_152.0,
            eta_s: Some(2.0),
        }];
        figures.pace = TransferRateStats { bytes_per_second: 1 << 20, limit: Some(4 << 20), bytes: 9 };
        figures.operations_count = 5;
        figures.operations = vec![OperationStats {
            bucket: "BucketId(0x2800000000000007)".to_owned(),
            reason: "1 of 2 replicas; new on 1".to_owned(),
            progress: "delayed".to_owned(),
            failure_cause: Some("node 1: the disk is full".to_owned()),
        }];
    });
    // This one stands in for a whole node.
    let (_, printed) = cluster.printed(&["cluster", "show"]);
    for line in [
        "n0 → n1: whole replicas of 12 buckets, 1.00 MiB of 5.00 MiB at 2.00 MiB/s, 2 s left",
        "n1 moves 1.00 MiB/s, 25 % of the 4.00 MiB/s that it may now",
        "n1: BucketId(0x2800000000000007): 1 of 2 replicas; new on 1 (delayed; node 1: the disk is full)",
        "n1: and 4 more operations",
        "nodes by number: 0 n0, 1 n1",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert!(printed.contains("cluster      up; state ") && printed.contains("leads"), "{printed}");
    // A node without transfers is not listed with a rate.
    cluster.tell(|figures| figures.pace.bytes_per_second = 0);
    let (_, printed) = cluster.printed(&["cluster", "show"]);
    assert!(!printed.contains("that it may now"), "{printed}");
}
