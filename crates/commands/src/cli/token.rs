//! Arguments of `millrace token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::DurationFault;

/// Action on API keys.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Create a key, and print it. It cannot be shown again. A key without rights has those that the
    /// application gives to it: `<token id="NAME"/>` in a `<client>` of services.xml.
    Create(TokenCreation),
    /// List the keys, without their secrets.
    List(TokenDirectory),
    /// Remove a key.
    Revoke(TokenRevocation),
}

#[derive(Args)]
pub struct TokenDirectory {
    /// Data directory of the server.
    #[arg(long, env = "MILLRACE_DATA_DIR", default_value = "data")]
    pub data_dir: PathBuf,
    /// The file of keys, if it is not access.toml in the data directory.
    #[arg(long, value_name = "FILE", env = "MILLRACE_ACCESS_FILE")]
    pub access_file: Option<PathBuf>,
    /// Use the keys that all nodes of a cluster share, by a node that runs (--config-url), instead of a file.
    #[arg(long, conflicts_with = "access_file")]
    pub cluster: bool,
}

#[derive(Args)]
pub struct TokenCreation {
    /// Name of the caller, for logs and limits. A second key of the same name replaces the first one without
    /// a gap: revoke the first when no client uses it any more.
    pub name: String,
    /// Permit to read documents.
    #[arg(long)]
    pub read: bool,
    /// Permit to write and remove documents.
    #[arg(long)]
    pub write: bool,
    /// Permit to deploy applications.
    #[arg(long)]
    pub deploy: bool,
    /// Permit to administer the server and its cluster.
    #[arg(long)]
    pub admin: bool,
    /// Permit only documents of this group (g=GROUP in their ids); may be given several times. All documents
    /// by default.
    #[arg(long)]
    pub group: Vec<String>,
    /// Permit only documents of this number (n=NUMBER in their ids); may be given several times.
    #[arg(long, value_name = "NUMBER")]
    pub user: Vec<u64>,
    /// Time after which the key expires, such as 12h or 90d; never by default.
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub expires: Option<Duration>,
    /// Maximum number of requests a second; no limit by default.
    #[arg(long, value_name = "REQUESTS")]
    pub rate_max: Option<f64>,
    /// Maximum number of requests in flight; no limit by default.
    #[arg(long, value_name = "REQUESTS")]
    pub concurrent_max: Option<u32>,
    /// Maximum number of bytes a second of the documents that it writes; no limit by default.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub fed_bytes_max: Option<u64>,
    /// Number of stored documents of a group from which on it may write no more to the group; no limit by
    /// default.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub group_documents_max: Option<u64>,
    /// Number of stored bytes of a group from which on it may write no more to the group; no limit by
    /// default.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub group_bytes_max: Option<u64>,
    #[command(flatten)]
    pub directory: TokenDirectory,
}

#[derive(Args)]
pub struct TokenRevocation {
    /// Id of the key, or the key itself.
    pub id: String,
    #[command(flatten)]
    pub directory: TokenDirectory,
}

/// A number of hours or days.
fn lifetime(text: &str) -> Result<Duration, DurationFault> {
    let wrong = || DurationFault::Lifetime(text.to_owned());
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let count: u64 = number.parse().map_err(|_| wrong())?;
    count.checked_mul(seconds).filter(|time| *time > 0).map(Duration::from_secs).ok_or_else(wrong)
}
