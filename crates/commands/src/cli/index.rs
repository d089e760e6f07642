//! Arguments of `millrace index`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{NodeTimeout, seconds};

/// Action on indexes.
#[derive(Subcommand)]
pub enum IndexCommand {
    /// List the indexes: state, progress, entries, bytes.
    List(NodeTimeout),
    /// Show an index: its definition and its state.
    Show(NamedIndex),
    /// Build an index that was declared with build='deferred'.
    Build(NamedIndex),
    /// Discard an index and build it again.
    Rebuild(NamedIndex),
    /// Compare an index with the documents. The exit status is 1 when they differ.
    Verify(NamedIndex),
    /// Wait until all indexes are ready. The exit status is 1 if the timeout ends before that.
    Wait(WaitIndexes),
    /// Show what a rebalance of placed copies would move, and the least that any could. Nothing is changed.
    Plan(PlanIndexes),
    /// Even the placed copies out over the nodes: with the fewest moves, while all of them serve.
    #[command(after_help = "\
Examples:
  millrace index plan                             # what it would move
  millrace index rebalance
  millrace index wait --balanced                  # until it has ended

A new node gets its copies without this command, and no copies move between the other nodes then.")]
    Rebalance(NodeTimeout),
    /// Stop a rebalance: no further moves begin, those in progress end, and what has moved stays.
    Stop(NodeTimeout),
    /// Move one copy of a slice of a placed index to another node.
    #[command(after_help = "Example:\n  millrace index move by-message-id --slice 3 --from n0 --to n4")]
    Move(MovedCopy),
    /// Show the settings of placement, or change some of them.
    #[command(after_help = "\
Examples:
  millrace index settings
  millrace index settings transfers-per-node=4 activation=slice
  millrace index settings lag-max=none")]
    Settings(ChangedSettings),
}

#[derive(Args)]
pub struct PlanIndexes {
    /// Origin of the copies, for the estimate of the time: auto, file or rebuild [default: the setting].
    #[arg(long)]
    pub method: Option<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
pub struct MovedCopy {
    /// Name of the index.
    pub name: String,
    /// Number of the slice, from 0.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub slice: u8,
    /// Name of the node that gives its copy up.
    #[arg(long, value_name = "NODE")]
    pub from: String,
    /// Name of the node that gets it.
    #[arg(long, value_name = "NODE")]
    pub to: String,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
pub struct ChangedSettings {
    /// Changes, as NAME=VALUE; none: the settings are shown.
    pub changes: Vec<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
pub struct NamedIndex {
    /// Name of the index.
    pub name: String,
    /// Seconds to wait for the node's answer.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct WaitIndexes {
    /// Wait until no copy of a placed index is missing, being made or moving, too.
    #[arg(long)]
    pub balanced: bool,
    /// Seconds to wait.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub timeout: Duration,
}
