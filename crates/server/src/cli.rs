//! What the command line understands.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::settings::ServeArguments;

/// Personal search at massive scale: one person's documents per query, all of them, exactly.
#[derive(Parser)]
#[command(name = "millrace", version, max_term_width = 110, after_help = EXAMPLES)]
pub struct CommandLine {
    #[command(flatten)]
    pub node: NodeArguments,
    /// How results are written.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_enum, default_value_t = OutputFormat::Text, env = "MILLRACE_FORMAT")]
    pub format: OutputFormat,
    #[command(subcommand)]
    pub command: MillraceCommand,
}

impl CommandLine {
    /// What the process was started with. Ends it where that makes no sense, or asks for help.
    pub fn of_arguments() -> Self {
        let parsed = CommandLine::whole()
            .try_get_matches()
            .and_then(|matches| CommandLine::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| with_plain_usage(error).exit())
    }

    /// All commands, each with the options that its help shows.
    pub fn whole() -> clap::Command {
        let mut whole = CommandLine::command();
        // From here on every command has the options that all have.
        whole.build();
        ALONE.into_iter().fold(whole, |whole, name| {
            whole.mut_subcommand(name, |command| {
                command.mut_args(|option| match option.get_help_heading() {
                    Some(EVERY_COMMAND) => option.hide(true),
                    _ => option,
                })
            })
        })
    }
}

/// The commands that talk to no node: where one is says nothing to them.
const ALONE: [&str; 6] = ["serve", "doctor", "corpus", "demo", "bench", "completions"];

/// The error with the usage of the command as its help has it. By itself it has every flag that a variable of
/// the environment stands for, as if that had to be typed.
fn with_plain_usage(mut error: clap::Error) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let usage = usage_of(&mut CommandLine::whole(), &mut std::env::args().skip(1));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
}

/// The usage of the command that these words name.
fn usage_of(command: &mut clap::Command, words: &mut impl Iterator<Item = String>) -> StyledStr {
    let named = words.find(|word| command.find_subcommand(word).is_some());
    if let Some(found) = named.and_then(|word| command.find_subcommand_mut(word)) {
        return usage_of(found, words);
    }
    command.render_usage()
}

/// The heading of options that stand with every command, so that those of its own come first.
const EVERY_COMMAND: &str = "Options of every command that talks to a node";

const EXAMPLES: &str = "\
Examples:
  millrace serve --app examples/mail         # start a server, data in ./data
  millrace deploy examples/mail              # deploy to a server that runs
  millrace feed mails.jsonl                  # feed documents
  millrace query 'select * from mail where default contains \"budget\"' \\
      streaming.groupname=me                 # search
  millrace get id:mail:mail:g=me:1           # show one document
  millrace visit --selection 'mail.folder == \"inbox\"' > inbox.jsonl

'millrace COMMAND --help' tells more of each, with examples.";

/// Where the node is.
#[derive(Args)]
pub struct NodeArguments {
    /// Where documents and queries are served. With https:// the system's certificates are trusted, or those
    /// in the file that SSL_CERT_FILE names.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, default_value = "http://127.0.0.1:8080", env = "MILLRACE_URL")]
    pub url: String,
    /// Where applications are deployed.
    #[arg(long, global = true, help_heading = EVERY_COMMAND, default_value = "http://127.0.0.1:19071", env = "MILLRACE_CONFIG_URL")]
    pub config_url: String,
}

/// How long a node may take.
#[derive(Args)]
pub struct PatienceArguments {
    /// Seconds that the node has for its answer.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
}

/// A time in seconds, or parts of them.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no number of seconds above 0, such as 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What to do.
#[derive(Subcommand)]
pub enum MillraceCommand {
    /// Start a server.
    #[command(after_help = "\
Examples:
  millrace serve
  millrace serve --data-dir /var/lib/millrace --app examples/mail
  millrace serve --config millrace.toml --listen 0.0.0.0 --insecure

Every option can stand in the TOML file, under its own name (data-dir = \"/var/lib/millrace\"), or in \
an environment variable (MILLRACE_DATA_DIR). A flag counts more than a variable, and that more than the file.")]
    Serve(Box<ServeArguments>),
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
  millrace feed mails.jsonl.gz
  millrace corpus | millrace feed -
  millrace feed --resume mails.resume mails.jsonl    # go on where it stopped

An operation is one of
  {\"put\": \"id:mail:mail:g=me:1\", \"fields\": {\"subject\": \"Hello\"}}
  {\"update\": \"id:mail:mail:g=me:1\", \"fields\": {\"folder\": {\"assign\": \"archive\"}}}
  {\"remove\": \"id:mail:mail:g=me:1\"}
and may have \"condition\" and \"create\". A line that is no operation fails by itself; a JSON list is not read on from there. \
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

The exit status is 1 when the answer has errors. With format=sse, xml or cbor the answer is written as it comes.")]
    Query(QueryArguments),
    /// Show a document.
    #[command(after_help = "\
Examples:
  millrace get id:mail:mail:g=me:1
  millrace get id:mail:mail:g=me:1 --fields mail:subject,date

The exit status is 1 when there is no such document.")]
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

An update of a document that is not there is done without effect, unless --create makes it."
    )]
    Update(WriteArguments),
    /// Remove a document.
    #[command(after_help = "\
Examples:
  millrace remove id:mail:mail:g=me:1
  millrace remove id:mail:mail:g=me:1 --condition 'mail.folder == \"spam\"'

To remove what is not there is done without effect.")]
    Remove(RemoveArguments),
    /// Write documents as JSON lines, in the form that feed reads.
    #[command(after_help = "\
Examples:
  millrace visit > all.jsonl
  millrace visit --selection 'mail.date > 1700000000' --fields mail:subject,date
  millrace visit --group me")]
    Visit(VisitArguments),
    /// Tell how a node is, and the cluster that it is in.
    #[command(after_help = "\
Examples:
  millrace status
  millrace --format json status     # all metrics, for programs

The exit status is 1 when no application is deployed.")]
    Status(PatienceArguments),
    /// Say what a node of the cluster should be.
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
    /// Check the files of a data directory that no server has open.
    #[command(after_help = "\
Example:
  millrace doctor /var/lib/millrace

Every file is read and its checksums are compared; nothing is changed, unless --repair-tail is given. The exit status is 1 when something is
wrong.")]
    Doctor(DoctorArguments),
    /// Import mail: an mbox file or a maildir, for the application in examples/mail.
    #[command(after_help = "\
Examples:
  millrace import mbox ~/archive.mbox --group me
  zcat archive.mbox.gz | millrace import mbox - --group me
  millrace import maildir ~/Maildir --group me")]
    Import(ImportMail),
    /// Write a made-up mail corpus to standard output, as JSON lines for feed.
    #[command(after_help = "Example:\n  millrace corpus --mails 100000 | millrace feed -")]
    Corpus(CorpusArguments),
    /// Start a node, feed it a mail corpus, and run seven queries.
    #[command(after_help = "Example:\n  millrace demo --mails 2000 --mailboxes 30")]
    Demo(DemoArguments),
    /// Measure, each figure beside its limit.
    #[command(after_help = "\
Examples:
  millrace bench list                        # which benchmarks there are
  millrace bench nn                          # one of them
  millrace bench nn --http                   # a variant of it
  millrace bench feed --milliseconds 3000    # longer, for steadier figures
  millrace bench memory --size 0.1           # a tenth of the data
  millrace bench nn --json --plot nn.svg     # JSON lines, and the curves
  millrace bench model --case 'minilm 32' --clients 1,32
                                             # some of its cases
  millrace bench all --json > figures.jsonl  # everything, some minutes

A figure stands beside its limit or peer, measured in the same run: memory read, a plain read of the same bytes, bare \
appends with fsync, the same server where it only parses. The ratio of the two is what to compare between machines.

The exit status is 1 when a figure misses its goal. docs/benchmarks.md tells more.")]
    Bench(BenchArguments),
    /// Print a script that completes commands in a shell.
    #[command(
        after_help = "Examples:\n  millrace completions zsh > ~/.zfunc/_millrace\n  source <(millrace completions bash)"
    )]
    Completions(CompletionsArguments),
}

/// What to do to a node.
#[derive(Subcommand)]
pub enum NodeCommand {
    /// Move everything that it has to other nodes; it goes on serving. To take it out: wait until it is empty
    /// (millrace cluster wait --ideal), stop it, wait until `millrace cluster show` says that it is down,
    /// then remove it.
    Retire(NodeChange),
    /// It is away for a while: its replicas are not made anew elsewhere.
    Maintenance(NodeChange),
    /// It does not serve: its replicas are made anew elsewhere. For one that has ended for good, while most
    /// others are away too.
    Down(NodeChange),
    /// It does what it can, as before.
    Up(NodeChange),
    /// It does not belong to the cluster any more: for one that was retired and stopped, and is down. Refused
    /// while it has anything, unless forced. Started again with nothing on it, it is taken in anew; with
    /// documents, only after `millrace node up`.
    Remove(NodeChange),
}

#[derive(Args)]
pub struct NodeChange {
    /// The node's name.
    pub name: String,
    /// Why, for those who look at it later.
    #[arg(long)]
    pub reason: Option<String>,
    /// Do it though another node is away, or though the node has what nobody else has.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub patience: PatienceArguments,
}

/// What to do with the whole cluster.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes, their states, and what moves between them.
    Show(PatienceArguments),
    /// Wait until it is up and every node that is expected back is there. The exit status is 1 when the time
    /// is over before that.
    Wait(WaitArguments),
}

#[derive(Args)]
pub struct WaitArguments {
    /// Wait until every replica is where it should be, and no node is under maintenance.
    #[arg(long)]
    pub ideal: bool,
    /// Seconds to wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub timeout: u64,
}

#[derive(Args)]
pub struct DeployArguments {
    /// A directory with services.xml and schemas.
    pub application: PathBuf,
    /// Seconds that the node has for its answer: it may fetch and load models first.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct FeedArguments {
    /// Files, or - for standard input; either may be compressed by gzip.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Connections to the node.
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
    /// The most operations under way at one time; how many really are depends on how the node answers.
    #[arg(long, default_value_t = 1024)]
    pub in_flight: usize,
    /// Keep in this file how far the feed is, and go on from there.
    #[arg(long)]
    pub resume: Option<PathBuf>,
    /// Seconds to wait for a node that is away at the start, and to try an operation again while it is
    /// overloaded or away.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u64,
    /// Seconds that the node has for one attempt at an operation.
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = seconds)]
    pub timeout: Duration,
    /// Stop at the first operation that fails.
    #[arg(long)]
    pub stop_at_failure: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct QueryArguments {
    /// Parameters as NAME=VALUE; text that begins with 'select' is the parameter yql.
    #[arg(required = true)]
    pub parameters: Vec<String>,
    #[command(flatten)]
    pub patience: PatienceArguments,
}

#[derive(Args)]
pub struct GetArguments {
    /// The document's id.
    pub id: String,
    /// Which fields: `[all]`, `[document]`, or `TYPE:FIELD,FIELD`.
    #[arg(long)]
    pub fields: Option<String>,
    #[command(flatten)]
    pub patience: PatienceArguments,
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
    /// Make the document if it is not there.
    #[arg(long)]
    pub create: bool,
    #[command(flatten)]
    pub patience: PatienceArguments,
}

#[derive(Args)]
pub struct RemoveArguments {
    /// The document's id.
    pub id: String,
    /// Only if the stored document matches this selection.
    #[arg(long)]
    pub condition: Option<String>,
    #[command(flatten)]
    pub patience: PatienceArguments,
}

#[derive(Args)]
pub struct VisitArguments {
    /// Only documents that match, such as 'mail.folder == "inbox"'.
    #[arg(long)]
    pub selection: Option<String>,
    /// Which fields: `[all]`, `[document]`, `[id]`, or `TYPE:FIELD,FIELD`.
    #[arg(long)]
    pub fields: Option<String>,
    /// The content cluster; all of them where none is named.
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
    /// Also say which documents were removed lately.
    #[arg(long)]
    pub removes: bool,
    /// Seconds that the node may say nothing.
    #[arg(long, value_name = "SECONDS", default_value = "200", value_parser = seconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct DoctorArguments {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Cut damaged logs of the tail off where the damage begins, so that the node starts again. Loses the
    /// acknowledged writes from there on; a copy of what is cut is kept in DATA_DIR/torn.
    #[arg(long)]
    pub repair_tail: bool,
}

/// The form of a mail archive.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArchiveKind {
    /// One file of many messages.
    Mbox,
    /// A directory with a file for each message.
    Maildir,
}

#[derive(Args)]
pub struct ImportMail {
    /// What the archive is.
    #[arg(value_enum)]
    pub archive: ArchiveKind,
    /// Where it is; - reads an mbox file from standard input.
    pub path: PathBuf,
    /// Whose mail it is: the group that is searched.
    #[arg(long)]
    pub group: String,
    /// Show no progress.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct CorpusArguments {
    /// How many mails.
    #[arg(long, default_value_t = 20_000)]
    pub mails: usize,
    /// Of how many people.
    #[arg(long, default_value_t = 300)]
    pub mailboxes: usize,
    /// Another seed makes other mails.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args)]
pub struct DemoArguments {
    /// How many mails.
    #[arg(long, default_value_t = 20_000)]
    pub mails: usize,
    /// Of how many people.
    #[arg(long, default_value_t = 300)]
    pub mailboxes: usize,
}

#[derive(Args)]
pub struct BenchArguments {
    /// The benchmark; 'all' for all of them, 'list' to see which there are.
    pub name: String,
    /// Of nn: through /search/.
    #[arg(long, group = "variant")]
    pub http: bool,
    /// Of nn: with the page cache dropped.
    #[arg(long, group = "variant")]
    pub cold: bool,
    /// Of feed: documents of 300 bytes.
    #[arg(long, group = "variant")]
    pub small: bool,
    /// Of model: models that rank.
    #[arg(long, group = "variant")]
    pub rank: bool,
    /// Of model: feeding with an embedder, and queries meanwhile.
    #[arg(long, group = "variant")]
    pub feed: bool,
    /// Of model: what a text costs beside the model itself.
    #[arg(long, group = "variant")]
    pub overhead: bool,
    /// Of feed: latency at half load.
    #[arg(long, group = "variant")]
    pub tail: bool,
    /// Of text: with stems beside without.
    #[arg(long, group = "variant")]
    pub stemmed: bool,
    /// Of move: with queries and writes at half of what the machine can.
    #[arg(long, group = "variant")]
    pub load: bool,
    /// Of drop: superfluous replicas, as nodes of a cluster delete them.
    #[arg(long, group = "variant")]
    pub cluster: bool,
    /// Of write: on so many replicas (2), beside one.
    #[arg(long, group = "variant", value_name = "COUNT")]
    pub replicas: Option<u8>,
    /// Of model: only cases with this in their name, such as 'minilm 32 tokens'.
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// Of model: only these numbers of clients, such as 1,8,64.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    pub clients: Vec<usize>,
    /// One JSON object a figure.
    #[arg(long)]
    pub json: bool,
    /// Draw the curves into this file, as SVG.
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// How long each case is measured, at least.
    #[arg(long, default_value_t = 1000)]
    pub milliseconds: u64,
    /// How much data, as a share of what the benchmark is about.
    #[arg(long, default_value_t = 1.0)]
    pub size: f64,
    /// Where data is written; a temporary directory where none is named. Its file system is part of what is
    /// measured.
    #[arg(long)]
    pub directory: Option<PathBuf>,
}

impl BenchArguments {
    /// The benchmark's whole name: that of a variant has its flag in it.
    pub fn full_name(&self) -> String {
        let variants = [
            (self.http, "http"),
            (self.cold, "cold"),
            (self.small, "small"),
            (self.tail, "tail"),
            (self.stemmed, "stemmed"),
            (self.rank, "rank"),
            (self.load, "load"),
            (self.cluster, "cluster"),
            (self.feed, "feed"),
            (self.overhead, "overhead"),
        ];
        if let Some(replicas) = self.replicas {
            return format!("{} --replicas {replicas}", self.name);
        }
        match variants.into_iter().find(|(given, _)| *given) {
            Some((_, variant)) => format!("{} --{variant}", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Args)]
pub struct CompletionsArguments {
    /// The shell.
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal of 80 columns shows them as they are, and they can be copied.
    #[test]
    fn examples_are_not_wide() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(example.chars().count() <= 80, "{}: {example}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&CommandLine::whole());
    }
}
