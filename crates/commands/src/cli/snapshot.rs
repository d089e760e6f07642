//! Arguments of `millrace snapshot`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use millrace_document::Timestamp;

use super::{NodeTimeout, seconds};

/// Fault of an argument that is an instant.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a time such as 2026-01-31T12:00:00Z")]
struct InstantFault(String);

/// Parses an instant, in microseconds since 1970.
fn instant(text: &str) -> Result<Timestamp, InstantFault> {
    let parsed: Option<jiff::Timestamp> = text.parse().ok();
    let microseconds = parsed.and_then(|instant| u64::try_from(instant.as_microsecond()).ok());
    microseconds.map(Timestamp).ok_or_else(|| InstantFault(text.to_owned()))
}

/// Action on snapshots.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Make a snapshot of the documents and the application while the server serves; in a cluster, on all
    /// nodes.
    Create(SnapshotCreation),
    /// List the snapshots: name, time, documents, bytes.
    List(NodeTimeout),
    /// Show a snapshot: its time, documents, bytes and directory, in a cluster those of each node.
    Show(NamedSnapshot),
    /// Delete a snapshot; in a cluster, on all nodes.
    Delete(NamedSnapshot),
    /// Restore a snapshot: all of it into an empty data directory, or one group into a running server.
    Restore(SnapshotRestoration),
}

#[derive(Args)]
pub struct SnapshotCreation {
    /// Name of the snapshot: letters, digits, '-' and '_'. By default, the date and time in UTC.
    pub name: Option<String>,
    /// Seconds to wait for the node's answer: recent writes are sealed first.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct NamedSnapshot {
    /// Name of the snapshot.
    pub name: String,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
#[command(group(ArgGroup::new("part").required(true)))]
pub struct SnapshotRestoration {
    /// Name of the snapshot; with --at, by default the latest one before that time.
    #[arg(required_unless_present = "at")]
    pub name: Option<String>,
    /// Restore this group (g=GROUP in the ids) on the running server. Its documents become what they were:
    /// those written since are replaced, or removed if the snapshot lacks them.
    #[arg(long, group = "part")]
    pub group: Option<String>,
    /// The group is a number: n=GROUP in the ids.
    #[arg(long, requires = "group")]
    pub number: bool,
    /// Write only documents of the group that do not exist, and change no other.
    #[arg(long, requires = "group")]
    pub missing: bool,
    /// Restore all of it from this directory: a data directory, or a directory of copies of snapshots.
    #[arg(long, group = "part", requires = "data_dir", value_name = "DIRECTORY")]
    pub from: Option<PathBuf>,
    /// The new data directory, which does not exist or is empty.
    #[arg(long, requires = "from", value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// Restore the documents as of this time: from the snapshot and the logs that were kept after it
    /// (--keep-logs-s). UTC, as 2026-01-31T12:00:00Z, or with another offset.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub at: Option<Timestamp>,
    /// Seconds that the node may stay silent.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub timeout: Duration,
}
