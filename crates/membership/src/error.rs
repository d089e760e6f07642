use std::path::PathBuf;

/// Error of the membership in a cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Coordination failed.
    #[error(transparent)]
    Coordination(#[from] millrace_coordination::Error),
    /// The name belongs to another node.
    #[error(
        "the name '{name}' belongs to the node at {address}, which runs now: give this one another with --name; if that one \
         has just ended, wait a few seconds"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Address of the other node.
        address: String,
    },
    /// The directory belongs to another node.
    #[error(
        "{} belongs to the node '{owner}', with all that it has; start it as --name {owner}, or give '{name}' a data directory of its own",
        directory.display()
    )]
    Resident {
        /// The directory.
        directory: PathBuf,
        /// Name of its owner.
        owner: String,
        /// Name of the node that was to be started.
        name: String,
    },
    /// The name is invalid.
    #[error(
        "'{0}' is not a valid name of a node: use 1 to 100 letters, digits, points, dashes and underscores"
    )]
    Name(String),
    /// The text is not a role.
    #[error(
        "'{0}' is not a role: expected gateway, content, controller or index, several of them with commas between"
    )]
    Role(String),
    /// No node has this name.
    #[error("no node '{name}'; the cluster has {known}")]
    UnknownNode {
        /// The unknown name.
        name: String,
        /// Names of all nodes.
        known: String,
    },
    /// No cluster.
    #[error("the node is in no cluster, so that its state cannot be set: start it with --cluster, or end it")]
    Alone,
    /// The contents of this node's directory cannot be used.
    #[error("{0}")]
    Disk(String),
    /// The node has documents from before the time from which the others remember removals.
    #[error(
        "this node last took part in the cluster {away_hours} hours ago, and the others, which went on, remember removals for {kept_hours} hours: \
         what they have removed since would come back. Start it with an empty data directory, and it is filled by the others. Only to take \
         it in as it is, with all that it has, delete {}", file.display()
    )]
    AwayTooLong {
        /// Length of its absence, in hours.
        away_hours: u64,
        /// Time for which removals are remembered, in hours.
        kept_hours: u64,
        /// File with the time at which the node took part last.
        file: PathBuf,
    },
    /// The leader has not answered a request about copies of indexes, which was withdrawn.
    #[error(
        "{leader}, and the request was withdrawn; look at the nodes with 'millrace cluster show', and try again"
    )]
    Unanswered {
        /// The leader, and the time that was waited, in a sentence.
        leader: String,
    },
    /// The leader may or may not have taken a request about copies of indexes.
    #[error(
        "the answer of the leader to the request is not known: {reason}; see 'millrace index list' and GET /index/v1/rebalance before trying again"
    )]
    AnswerUnknown {
        /// Reason.
        reason: String,
    },
    /// Too many requests about copies of indexes wait for the leader.
    #[error(
        "{0} requests about copies of indexes wait for the leader already; try again when they are answered"
    )]
    RequestsFull(usize),
    /// Another package was published first.
    #[error("generation {0} was activated since this one was prepared; prepare it again")]
    Conflict(u64),
    /// The package is too large to be shared in this way.
    #[error(
        "the package has {bytes} bytes, and {max} can be shared between nodes: keep large models outside of it"
    )]
    PackageSize {
        /// Its size.
        bytes: usize,
        /// Maximum size.
        max: usize,
    },
    /// The package differs from the published one, or no longer exists.
    #[error(
        "generation {generation} of the application cannot be read: {reason}; deploy it again if no newer one comes"
    )]
    Package {
        /// Generation of the package.
        generation: u64,
        /// Reason for which it cannot be read.
        reason: String,
    },
}
