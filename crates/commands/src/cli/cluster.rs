//! Arguments of `millrace node` and `millrace cluster`.

use clap::{Args, Subcommand};

use super::NodeTimeout;

/// Action on a node.
#[derive(Subcommand)]
pub enum NodeCommand {
    /// Move all its replicas to other nodes; it goes on serving. To take it out: wait until it is empty
    /// (millrace cluster wait --ideal), stop it, wait until `millrace cluster show` shows it as down, then
    /// remove it.
    Retire(NodeChange),
    /// Keep its replicas in place while it is away: they are not replicated elsewhere.
    Maintenance(NodeChange),
    /// Stop it from serving, and replicate its data elsewhere. For a node that has failed permanently, while
    /// most others are away too.
    Down(NodeChange),
    /// Return it to normal operation.
    Up(NodeChange),
    /// Remove it from the cluster: for a node that was retired and stopped, and is down. Refused while it has
    /// any data, unless forced. If it is started again without data, it joins as a new node; with documents,
    /// only after `millrace node up`.
    Remove(NodeChange),
}

#[derive(Args)]
pub struct NodeChange {
    /// Name of the node.
    pub name: String,
    /// Reason, recorded for later.
    #[arg(long)]
    pub reason: Option<String>,
    /// Proceed even if another node is down or this node holds the only copy.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

/// Action on the whole cluster.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes, their states, and the transfers between them.
    Show(NodeTimeout),
    /// Wait until the cluster is up and every expected node is there. The exit status is 1 if the timeout
    /// ends before that.
    Wait(WaitArguments),
}

#[derive(Args)]
pub struct WaitArguments {
    /// Wait until every replica is in its ideal place, and no node is under maintenance.
    #[arg(long)]
    pub ideal: bool,
    /// Seconds to wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub timeout: u64,
}
