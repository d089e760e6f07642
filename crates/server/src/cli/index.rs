//! Arguments of `millrace index`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{PatienceArguments, seconds};

/// Action on indexes.
#[derive(Subcommand)]
pub enum IndexCommand {
    /// List the indexes: state, progress, entries, bytes.
    List(PatienceArguments),
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
    /// Seconds to wait.
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
    pub timeout: Duration,
}
