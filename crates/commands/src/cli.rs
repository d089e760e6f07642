//! Command line of the commands.

mod cluster;
mod group;
mod index;
mod snapshot;
mod table;
mod token;
mod topics;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

pub use self::cluster::{ClusterCommand, NodeChange, NodeCommand, WaitArguments};
pub use self::group::{GroupArguments, GroupCommand, GroupDeletion, GroupExportArguments, NamedGroup};
pub use self::index::{ChangedSettings, IndexCommand, MovedCopy, NamedIndex, WaitIndexes};
pub use self::snapshot::{SnapshotCommand, SnapshotCreation, SnapshotRestoration};
pub use self::table::{TableArguments, TableKind};
pub use self::token::{TokenCommand, TokenCreation, TokenDirectory, TokenRevocation};
use crate::output::CommandOutput;

/// Options of the program, whatever the command.
#[derive(Args)]
pub struct CommonOptions {
    #[command(flatten)]
    pub(crate) node: NodeArguments,
    /// Format of results.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_enum, default_value_t = OutputFormat::Text, env = "MILLRACE_FORMAT")]
    pub(crate) format: OutputFormat,
}

impl CommonOptions {
    /// Exit status for the outcome of a command; an error is printed in the format of results.
    pub fn exit_code(&self, outcome: Result<ExitCode, impl Display>) -> ExitCode {
        outcome.unwrap_or_else(|error| {
            CommandOutput::new(self.format).error(&error);
            ExitCode::FAILURE
        })
    }
}

/// Parses the arguments of the process by the program's parser. Ends the process if they are invalid, or ask
/// for help, as none does.
pub fn parse<P: Parser>() -> P {
    // Otherwise an option in the environment would count as an argument without its command.
    if std::env::args_os().len() <= 1 {
        // The reader may have left.
        let _ = whole(P::command()).print_help();
        std::process::exit(0);
    }
    let parsed = whole(P::command()).try_get_matches().and_then(|matches| P::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| with_plain_usage(error, whole(P::command())).exit())
}

/// All commands of the program, by topic, each with the options that its help shows.
pub fn whole(mut program: clap::Command) -> clap::Command {
    // From here on every command has the options common to all.
    program.build();
    ALONE.into_iter().fold(topics::listed(program), |program, name| {
        program.mut_subcommand(name, |command| {
            command.mut_args(|option| match option.get_help_heading() {
                Some(EVERY_COMMAND) => option.hide(true),
                _ => option,
            })
        })
    })
}

/// Commands that do not talk to a node: they do not have the options of its address.
const ALONE: [&str; 5] = ["serve", "doctor", "corpus", "demo", "completions"];

/// The error with the command's usage as shown by its help. By default the usage lists every flag with an
/// environment variable, as if it were required.
fn with_plain_usage(mut error: clap::Error, mut program: clap::Command) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let usage = usage_of(&mut program, &mut std::env::args().skip(1));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
}

/// Usage of the command that these words name.
fn usage_of(command: &mut clap::Command, words: &mut impl Iterator<Item = String>) -> StyledStr {
    let named = words.find(|word| command.find_subcommand(word).is_some());
    if let Some(found) = named.and_then(|word| command.find_subcommand_mut(word)) {
        return usage_of(found, words);
    }
    command.render_usage()
}

/// Heading of the options of every command, so that a command's own options come first.
const EVERY_COMMAND: &str = "Options of every command that talks to a node";

/// Address of the node.
#[derive(Args)]
pub struct NodeArguments {
    /// URL of the port for documents and queries. With https:// the system's certificates are trusted, or
    /// the ones in the file that SSL_CERT_FILE names; the files that MILLRACE_CLIENT_CERTIFICATE and
    /// MILLRACE_CLIENT_KEY name are those of the client.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, default_value = "http://127.0.0.1:8080", env = "MILLRACE_URL")]
    pub url: String,
    /// URL of the port for deploying applications.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, default_value = "http://127.0.0.1:19071", env = "MILLRACE_CONFIG_URL")]
    pub config_url: String,
}

/// Time limit of a node.
#[derive(Args)]
pub struct NodeTimeout {
    /// Seconds to wait for the node's answer.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
}

/// Fault of an argument that is a time.
#[derive(Debug, thiserror::Error)]
enum DurationFault {
    #[error("'{0}' is not a number of seconds above 0, such as 10 or 0.5")]
    Seconds(String),
    #[error("'{0}' is not a time such as 12h or 90d")]
    Lifetime(String),
}

/// Longest time that a command waits: a year, which can be added to any instant.
pub const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A time in seconds, possibly fractional; a longer one than [`WAIT_MAX`] is reduced to it.
fn seconds(text: &str) -> Result<Duration, DurationFault> {
    let wrong = || DurationFault::Seconds(text.to_owned());
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)?;
    Ok(time.min(WAIT_MAX))
}

/// Format of results.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// Command, except `serve`.
#[derive(Subcommand)]
pub enum MillraceCommand {
    /// Deploy an application package.
    #[command(after_help = "\
Examples:
  millrace deploy examples/mail
  millrace --config-url http://search.example.com:19071 deploy my-app")]
    Deploy(DeployArguments),
    /// Feed documents: JSON lines, or a JSON list of operations.
    #[command(after_help = "\
Examples:
  millrace feed mails.jsonl
  millrace feed mails.jsonl.gz archive.jsonl.zst
  millrace corpus | millrace feed -
  millrace feed --resume mails.resume mails.jsonl    # go on where it stopped

An operation is one of
  {\"put\": \"id:mail:mail:g=me:1\", \"fields\": {\"subject\": \"Hello\"}}
  {\"update\": \"id:mail:mail:g=me:1\", \"fields\": {\"folder\": {\"assign\": \"archive\"}}}
  {\"remove\": \"id:mail:mail:g=me:1\"}
and may have \"condition\" and \"create\". A line that is not an operation fails by itself; a JSON list is not read on from there. \
Documents that the selections of services.xml do not take are counted as ignored. The exit status is 1 when any operation failed.")]
    Feed(FeedArguments),
    /// Search.
    #[command(after_help = "\
Examples:
  millrace query 'select * from mail where default contains \"budget\"' \\
      streaming.groupname=me
  millrace query 'select * from mail where userQuery()' \\
      'query=quarterly budget' streaming.groupname=me hits=3
  millrace query 'select * from mail where true limit 0 |
      all(group(from_address) max(5) each(output(count())))' \\
      streaming.groupname=me
  millrace query searchChain=rag format=sse streaming.groupname=me \\
      'yql=select subject, body from mail where userQuery()' \\
      'query=when does the ferry leave'      # ask a model (docs/rag.md)

The exit status is 1 when the answer has errors. With format=sse, xml or cbor the answer is written as it comes, \
and errors inside of cbor are not noticed.")]
    Query(QueryArguments),
    /// Compare the answers of two servers, such as a Vespa application and its copy here
    #[command(after_help = "\
Examples:
  millrace compare queries.jsonl --with http://vespa:8080
  millrace compare queries.txt --with http://vespa:8080 streaming.groupname=me

Each line of the file is one query: a JSON object of parameters, NAME=VALUE, or YQL. It is sent to both servers; where the \
number of matching documents or the order of the hits differs, that is shown. The exit status is 1 when anything differs.")]
    Compare(CompareArguments),
    /// Show a document.
    #[command(after_help = "\
Examples:
  millrace get id:mail:mail:g=me:1
  millrace get id:mail:mail:g=me:1 --fields mail:subject,date

The exit status is 1 when the document does not exist.")]
    Get(GetArguments),
    /// Write a document.
    #[command(
        override_usage = "millrace put [OPTIONS] <ID> <JSON|--file <FILE>>",
        after_help = "\
Examples:
  millrace put id:mail:mail:g=me:1 '{\"fields\": {\"subject\": \"Hello\"}}'
  millrace put id:mail:mail:g=me:1 --file document.json"
    )]
    Put(WriteArguments),
    /// Change fields of a document.
    #[command(
        override_usage = "millrace update [OPTIONS] <ID> <JSON|--file <FILE>>",
        after_help = "\
Examples:
  millrace update id:mail:mail:g=me:1 \\
      '{\"fields\": {\"folder\": {\"assign\": \"archive\"}}}'
  millrace update id:mail:mail:g=me:1 --condition 'mail.size < 10' \\
      '{\"fields\": {\"size\": {\"increment\": 1}}}'

An update of a document that does not exist has no effect, unless --create is given."
    )]
    Update(WriteArguments),
    /// Remove a document.
    #[command(after_help = "\
Examples:
  millrace remove id:mail:mail:g=me:1
  millrace remove id:mail:mail:g=me:1 --condition 'mail.folder == \"spam\"'

Removing a document that does not exist has no effect.")]
    Remove(RemoveArguments),
    /// Write documents as JSON lines, in the format that feed reads.
    #[command(after_help = "\
Examples:
  millrace visit > all.jsonl
  millrace visit --selection 'mail.date > 1700000000' --fields mail:subject,date
  millrace visit --group me")]
    Visit(VisitArguments),
    /// List the groups of documents: number of documents, bytes, last write.
    #[command(after_help = "Example:\n  millrace groups")]
    Groups(NodeTimeout),
    /// Show, export or delete a group of documents.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace group show me
  millrace group export me --to me.jsonl
  millrace group delete me
  millrace feed me.jsonl --group me        # restore it"
    )]
    Group(GroupCommand),
    /// Show the state of a node and of its cluster.
    #[command(after_help = "\
Examples:
  millrace status
  millrace --format json status     # all metrics, for programs

The exit status is 1 when no application is deployed, and when the node does not serve.")]
    Status(NodeTimeout),
    /// Show the bytes on a node's disk by document type, field and form, and which fields queries use.
    #[command(after_help = "\
Example:
  millrace fields

A field has its values, and words if text is searched in it. They are counted as they are stored,
most of them compressed, with versions that were replaced and are not merged away yet. Sealing is
counted since the node's start.

The queries of 30 days that used a field are counted by the node that answered them: to match, rank,
group or sort documents, or to show hits. Of a field without any the last lines say what leaving it out
would save. Visits, conditions of writes and Elasticsearch's interfaces are not counted, nor indexing
statements that make another field from it.")]
    Fields(NodeTimeout),
    /// Set the wanted state of a node of the cluster.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace node retire n3 --reason 'its disk is old'    # empty it; then:
  millrace cluster wait --ideal && millrace node remove n3
  millrace node maintenance n1                          # before work on it
  millrace node up n1"
    )]
    Node(NodeCommand),
    /// Show the cluster, or wait for it.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace cluster show           # its nodes, and what moves between them
  millrace cluster wait           # until it is up, and all nodes know its state
  millrace cluster wait --ideal   # until every replica is in its place as well"
    )]
    Cluster(ClusterCommand),
    /// Show the indexes, build, verify and move them.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace index list
  millrace index show by-message-id
  millrace index build due                 # one with build='deferred'
  millrace index wait                      # until all are ready
  millrace index verify by-message-id      # compare it with the documents
  millrace index plan                      # what a rebalance would move
  millrace index rebalance                 # over all nodes of a cluster
  millrace index wait --balanced"
    )]
    Index(IndexCommand),
    /// Make, list, show, restore and delete snapshots.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace snapshot create before-upgrade
  millrace snapshot list
  millrace snapshot restore before-upgrade --group me    # on the running server
  millrace snapshot restore before-upgrade \\
      --from /var/lib/millrace --data-dir /var/lib/restored
  millrace snapshot delete before-upgrade"
    )]
    Snapshot(SnapshotCommand),
    /// Create, list and revoke API keys in a data directory. A running server uses the change within seconds.
    #[command(
        subcommand,
        after_help = "\
Examples:
  millrace token create operator --deploy --admin --read --write
  millrace token create ann-laptop --group ann --read --write --expires 90d
  millrace token create ann-phone --group ann --read --cluster   # cluster-wide
  millrace token list
  millrace token revoke hx3k5mzq2w4r

As soon as a data directory has a key, its server refuses requests without a \
credential. The commands send the token in the variable MILLRACE_TOKEN."
    )]
    Token(TokenCommand),
    /// Check the files of a data directory that is not open in a server, or upgrade them.
    #[command(after_help = "\
Examples:
  millrace doctor /var/lib/millrace
  millrace doctor --upgrade /var/lib/millrace   # after the program was upgraded

Every file is read and its checksums are compared; nothing is changed, unless \
--repair-tail or --upgrade is given. The exit status is 1 when something is wrong.")]
    Doctor(DoctorArguments),
    /// Import mail: an mbox file or a maildir, for the application in examples/mail.
    #[command(after_help = "\
Examples:
  millrace import mbox ~/archive.mbox --group me
  zcat archive.mbox.gz | millrace import mbox - --group me
  millrace import maildir ~/Maildir --group me")]
    Import(ImportMail),
    /// Write a synthetic mail corpus to standard output, as JSON lines for feed.
    #[command(after_help = "Example:\n  millrace corpus --mails 100000 | millrace feed -")]
    Corpus(CorpusArguments),
    /// Start a node, feed it a mail corpus, and run seven queries.
    #[command(after_help = "Example:\n  millrace demo --mails 2000 --mailboxes 30")]
    Demo(DemoArguments),
    /// Print a completion script for a shell.
    #[command(
        after_help = "Examples:\n  millrace completions zsh > ~/.zfunc/_millrace\n  source <(millrace completions bash)"
    )]
    Completions(CompletionsArguments),
}

#[derive(Args)]
pub struct DeployArguments {
    /// A directory with services.xml and schemas.
    pub application: PathBuf,
    /// Seconds to wait for the node's answer: it may fetch and load models first.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct FeedArguments {
    /// Files of JSON lines, or - for standard input; they may be packed by gzip or zstd. Or tables: files of
    /// Arrow (Feather) or Parquet, which their first bytes show.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Connections to the node, if each operation is a request; at most 1024.
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
    /// Maximum number of concurrent requests, if each operation is one; the actual number depends on the
    /// node's responses.
    #[arg(long, default_value_t = 1024)]
    pub in_flight: usize,
    /// Record the progress of the feed in this file, and resume from there.
    #[arg(long)]
    pub resume: Option<PathBuf>,
    /// Seconds to wait for an unavailable node at the start, and to retry an operation while the node is
    /// overloaded or unavailable.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u64,
    /// Seconds to wait for the node's answer to one attempt at an operation.
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = seconds)]
    pub timeout: Duration,
    /// Stop at the first operation that fails.
    #[arg(long)]
    pub stop_at_failure: bool,
    /// Send each operation in a request of its own, also to a node that takes streams. A server without
    /// streams, such as Vespa, gets single requests in any case.
    #[arg(long)]
    pub single_requests: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub within: GroupArguments,
    #[command(flatten)]
    pub table: TableArguments,
}

#[derive(Args)]
pub struct QueryArguments {
    /// Words to search for (the parameter query), or YQL that begins with 'select'; parameters as NAME=VALUE.
    #[arg(required = true)]
    pub parameters: Vec<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
    #[command(flatten)]
    pub within: GroupArguments,
}

#[derive(Args)]
pub struct CompareArguments {
    /// File with a query on each line, or standard input (-); it may be packed by gzip or zstd.
    pub queries: PathBuf,
    /// URL of the other server.
    #[arg(long)]
    pub with: String,
    /// Parameters of all queries as NAME=VALUE.
    pub parameters: Vec<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
}

#[derive(Args)]
pub struct GetArguments {
    /// The document's id.
    pub id: String,
    /// Fields to return: `[all]`, `[document]`, or `TYPE:FIELD,FIELD`.
    #[arg(long)]
    pub fields: Option<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
    #[command(flatten)]
    pub within: GroupArguments,
}

#[derive(Args)]
#[command(group(ArgGroup::new("content").required(true)))]
pub struct WriteArguments {
    /// The document's id.
    pub id: String,
    /// The JSON: {"fields": {…}}.
    #[arg(group = "content")]
    pub json: Option<String>,
    /// Read the JSON from a file instead, or from standard input (-).
    #[arg(long, group = "content")]
    pub file: Option<PathBuf>,
    /// Only if the stored document matches this selection.
    #[arg(long)]
    pub condition: Option<String>,
    /// Create the document if it does not exist.
    #[arg(long)]
    pub create: bool,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
    #[command(flatten)]
    pub within: GroupArguments,
}

#[derive(Args)]
pub struct RemoveArguments {
    /// The document's id.
    pub id: String,
    /// Only if the stored document matches this selection.
    #[arg(long)]
    pub condition: Option<String>,
    #[command(flatten)]
    pub node_timeout: NodeTimeout,
    #[command(flatten)]
    pub within: GroupArguments,
}

#[derive(Args)]
pub struct VisitArguments {
    /// Only documents that match, such as 'mail.folder == "inbox"'.
    #[arg(long)]
    pub selection: Option<String>,
    /// Fields to return: `[all]`, `[document]`, `[id]`, or `TYPE:FIELD,FIELD`.
    #[arg(long)]
    pub fields: Option<String>,
    /// The content cluster; all clusters by default.
    #[arg(long)]
    pub cluster: Option<String>,
    /// Only documents of this namespace.
    #[arg(long)]
    pub namespace: Option<String>,
    /// Only documents of this type.
    #[arg(long = "type")]
    pub document_type: Option<String>,
    /// Only documents of this group: those with g=GROUP in their ids.
    #[arg(long)]
    pub group: Option<String>,
    /// Also list recently removed documents.
    #[arg(long, conflicts_with = "table")]
    pub removes: bool,
    /// Write a table of the documents of one type instead of JSON lines.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "document_type")]
    pub table: Option<TableKind>,
    /// Seconds that the node may stay silent.
    #[arg(long, value_name = "SECONDS", default_value = "200", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct DoctorArguments {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Truncate damaged logs of the tail where the damage begins, so that the node starts again. Loses the
    /// acknowledged writes from there on; a copy of the removed part is kept in DATA_DIR/torn.
    #[arg(long)]
    pub repair_tail: bool,
    /// Write all segments of earlier formats again in the newest one, at once, instead of checking the files.
    /// A server does it by itself in the background. Can be interrupted, and begun again.
    #[arg(long, conflicts_with = "repair_tail")]
    pub upgrade: bool,
    /// Upgrade a node of a cluster, although its last cluster state does not say that all nodes know the
    /// newest format. Nodes of earlier versions cannot read such segments.
    #[arg(long, requires = "upgrade")]
    pub force_protocol: bool,
}

/// Format of a mail archive.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArchiveKind {
    /// One file of many messages.
    Mbox,
    /// A directory with a file for each message.
    Maildir,
}

#[derive(Args)]
pub struct ImportMail {
    /// Format of the archive.
    #[arg(value_enum)]
    pub archive: ArchiveKind,
    /// Path of the archive; - reads an mbox file from standard input.
    pub path: PathBuf,
    /// Owner of the mail: the group that is searched.
    #[arg(long)]
    pub group: String,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct CorpusArguments {
    /// Number of mails.
    #[arg(long, default_value_t = 20_000)]
    pub mails: usize,
    /// Number of mailboxes.
    #[arg(long, default_value_t = 300)]
    pub mailboxes: usize,
    /// Random seed: another seed generates other mails.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args)]
pub struct DemoArguments {
    /// Number of mails.
    #[arg(long, default_value_t = 20_000)]
    pub mails: usize,
    /// Number of mailboxes.
    #[arg(long, default_value_t = 300)]
    pub mailboxes: usize,
}

#[derive(Args)]
pub struct CompletionsArguments {
    /// The shell.
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_above_zero_and_can_be_added_to_an_instant() {
        for (text, expected) in [
            ("0.5", Some(Duration::from_millis(500))),
            ("3600", Some(Duration::from_secs(3600))),
            ("10000000000000000000", Some(WAIT_MAX)),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("1e400", None),
            ("soon", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
        assert!(std::time::Instant::now().checked_add(WAIT_MAX).is_some());
    }
}
