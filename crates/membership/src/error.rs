use std::path::PathBuf;

/// What can go wrong in a cluster's common affairs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Coordination does not do it.
    #[error(transparent)]
    Coordination(#[from] millrace_coordination::Error),
    /// The name is another node's.
    #[error(
        "the name '{name}' belongs to the node at {address}, which runs now: give this one another with --name; if that one \
         has just ended, wait a few seconds"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Where the other node is.
        address: String,
    },
    /// The directory is another node's.
    #[error(
        "{} belongs to the node '{owner}', with all that it has; start it as --name {owner}, or give '{name}' a data directory of its own",
        directory.display()
    )]
    Resident {
        /// The directory.
        directory: PathBuf,
        /// Whose it is.
        owner: String,
        /// The node that was to be started.
        name: String,
    },
    /// The name cannot be one.
    #[error("'{0}' is no name of a node: use 1 to 100 letters, digits, points, dashes and underscores")]
    Name(String),
    /// The text is no role.
    #[error("'{0}' is no role: expected gateway, content or controller, several of them with commas between")]
    Role(String),
    /// Nobody has this name.
    #[error("there is no node '{name}'; the cluster has {known}")]
    UnknownNode {
        /// The name.
        name: String,
        /// The names of all nodes.
        known: String,
    },
    /// There is no cluster.
    #[error("the node is in no cluster, so that its state cannot be set: start it with --cluster, or end it")]
    Alone,
    /// What the directory of this node holds cannot be used.
    #[error("{0}")]
    Disk(String),
    /// The node has documents from before the time from which the others remember removals.
    #[error(
        "this node last took part in the cluster {away_hours} hours ago, and the others, which went on, remember removals for {kept_hours} hours: \
         what they have removed since would come back. Start it with an empty data directory, and it is filled by the others. Only to take \
         it in as it is, with all that it has, delete {}", file.display()
    )]
    AwayTooLong {
        /// Since when, in hours.
        away_hours: u64,
        /// How long removals are remembered, in hours.
        kept_hours: u64,
        /// The file that says when the node took part last.
        file: PathBuf,
    },
    /// Another package was published first.
    #[error("generation {0} was activated since this one was prepared; prepare it again")]
    Conflict(u64),
    /// The package is too large to be shared so.
    #[error(
        "the package has {bytes} bytes, and {max} can be shared between nodes: keep large models outside of it"
    )]
    PackageSize {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// The package is not what was published, or not there any more.
    #[error(
        "generation {generation} of the application cannot be read: {reason}; deploy it again if no newer one comes"
    )]
    Package {
        /// Which one.
        generation: u64,
        /// What does not fit.
        reason: String,
    },
}
