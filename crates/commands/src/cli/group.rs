//! Arguments of `millrace groups` and `millrace group`, and the option `--group` of other commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{NodeArguments, NodeTimeout};

/// Restriction of a command to one group.
#[derive(Args)]
pub struct GroupArguments {
    /// Only for documents of this group (g=GROUP in their ids). Ids without a group are those of this group.
    #[arg(long)]
    pub group: Option<String>,
}

impl GroupArguments {
    /// URL of the node, for the documents of the group.
    pub fn url(&self, node: &NodeArguments) -> String {
        let url = node.url.trim_end_matches('/');
        match &self.group {
            Some(group) => format!("{url}/person/{}", millrace_client::encoded(group)),
            None => url.to_owned(),
        }
    }
}

/// Action on a group.
#[derive(Subcommand)]
pub enum GroupCommand {
    /// Show its number of documents, bytes, and last write.
    Show(NamedGroup),
    /// Write its documents as JSON lines, in the format that feed reads.
    Export(GroupExportArguments),
    /// Delete all of its documents.
    Delete(GroupDeletion),
    /// List the deleted groups of the node: when, and by when their bytes leave the disk or when they did.
    Erasures(NodeTimeout),
}

#[derive(Args)]
pub struct NamedGroup {
    /// Name of the group: NAME of g=NAME in the ids.
    pub name: String,
    /// The name is a number: that of n=NUMBER in the ids.
    #[arg(long)]
    pub number: bool,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
pub struct GroupExportArguments {
    #[command(flatten)]
    pub named: NamedGroup,
    /// Write to a new file instead of standard output. It is complete if the command succeeds.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

#[derive(Args)]
pub struct GroupDeletion {
    #[command(flatten)]
    pub named: NamedGroup,
    /// Time within which its bytes leave the disk, such as 7d or 12h; at most that of the node (30 days), and
    /// less requires the right to administer.
    #[arg(long, value_name = "DURATION")]
    pub within: Option<String>,
    /// The same as --within 0: rewrite the files that have its documents, and wait for it for a while.
    #[arg(long, conflicts_with = "within")]
    pub erase: bool,
}
