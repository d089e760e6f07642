//! Command line of the `millrace-bench` binary.
//!
//! The names and variants come from the table of benchmarks: `nn --cold` there makes the name `nn` and the
//! option `--cold`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches as _, value_parser};
use millrace_bench::{BENCHES, Benchmark};

const EXAMPLES: &str = "\
Examples:
  millrace-bench list                        # which benchmarks there are
  millrace-bench nn                          # one of them
  millrace-bench nn --http                   # a variant of it
  millrace-bench feed --milliseconds 3000    # longer, for steadier results
  millrace-bench memory --size 0.1           # a tenth of the data
  millrace-bench nn --json --plot nn.svg     # JSON lines, and the curves
  millrace-bench model --case 'minilm 32' --clients 1,32
                                             # some of its cases
  millrace-bench index-scale-out --documents 100000
                                             # so many documents in each index
  millrace-bench all --json > results.jsonl  # everything, some minutes

Each result has a limit or a peer, measured in the same run: memory read, a plain read of the same bytes, bare \
appends with fsync, the same server where it only parses. The ratio of the two is what to compare between machines.

Some benchmarks start servers: with the `millrace` next to this program, or the one that MILLRACE_BIN names.

The exit status is 1 when a result misses its goal. docs/benchmarks.md explains each.";

/// A run of this program.
pub struct BenchCommand {
    /// Full name of the benchmark, with its variant as in [`BENCHES`]; `all` or `list`.
    pub bench: String,
    /// Options of the run.
    pub options: BenchOptions,
}

/// Options common to all benchmarks.
#[derive(Args)]
pub struct BenchOptions {
    /// Of model: only cases with this in their name, such as 'minilm 32 tokens'.
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// Of model: only these numbers of clients, such as 1,8,64.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    pub clients: Vec<usize>,
    /// Of index-scale-out: number of indexes; 100 by default.
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(4..=1024))]
    pub indexes: Option<u64>,
    /// Of index-scale-out and index-move: number of documents; 10,000 and 500,000 by default.
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1000..=100_000_000))]
    pub documents: Option<u64>,
    /// Print one JSON object for each result.
    #[arg(long)]
    pub json: bool,
    /// Draw the curves into this file, as SVG.
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// Minimum time of each case in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pub milliseconds: u64,
    /// Amount of data, as a fraction of the benchmark's full size.
    #[arg(long, default_value_t = 1.0)]
    pub size: f64,
    /// Directory for data; a temporary directory by default. Its file system is part of the measurement.
    #[arg(long)]
    pub directory: Option<PathBuf>,
}

impl BenchCommand {
    /// Parses the arguments of the process. Ends the process if they are invalid, or ask for help.
    pub fn of_arguments() -> Self {
        BenchCommand::of_matches(&command().get_matches())
    }

    fn of_matches(matches: &ArgMatches) -> Self {
        let options = BenchOptions::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
        let name = matches.get_one::<String>("name").expect("the name is required");
        let variant = variants().into_iter().find_map(|(flag, benches)| {
            if has_value(&benches) {
                let value = matches.get_one::<String>(flag)?;
                Some(format!(" --{flag} {value}"))
            } else {
                matches.get_flag(flag).then(|| format!(" --{flag}"))
            }
        });
        BenchCommand { bench: format!("{name}{}", variant.unwrap_or_default()), options }
    }
}

/// The name of a benchmark, and its flag and value if it is a variant.
fn parts(bench: &'static Benchmark) -> (&'static str, Option<(&'static str, Option<&'static str>)>) {
    match bench.name.split_once(" --") {
        None => (bench.name, None),
        Some((name, variant)) => {
            let (flag, value) =
                variant.split_once(' ').map_or((variant, None), |(flag, value)| (flag, Some(value)));
            (name, Some((flag, value)))
        }
    }
}

/// The benchmarks that have each flag.
fn variants() -> BTreeMap<&'static str, Vec<&'static Benchmark>> {
    let mut variants: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for bench in BENCHES {
        if let (_, Some((flag, _))) = parts(bench) {
            variants.entry(flag).or_default().push(bench);
        }
    }
    variants
}

fn command() -> Command {
    let command = Command::new("millrace-bench")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(EXAMPLES)
        .max_term_width(110)
        .arg(
            Arg::new("name")
                .required(true)
                .value_parser(names())
                .hide_possible_values(true)
                .help("The benchmark; 'all' for all of them, 'list' to list them"),
        );
    BenchOptions::augment_args(command.args(variants().into_iter().map(option)))
        .about("Runs benchmarks, and prints each result with its limit")
}

fn names() -> PossibleValuesParser {
    let mut names: Vec<&str> = BENCHES.iter().map(|bench| parts(bench).0).collect();
    names.sort_unstable();
    names.dedup();
    PossibleValuesParser::new(["all", "list"].into_iter().chain(names).map(PossibleValue::new))
}

/// Returns true if the flag of these benchmarks takes a value.
fn has_value(benches: &[&'static Benchmark]) -> bool {
    benches.iter().any(|bench| matches!(parts(bench), (_, Some((_, Some(_))))))
}

/// The option of a flag.
fn option((flag, benches): (&'static str, Vec<&'static Benchmark>)) -> Arg {
    let about: Vec<String> =
        benches.iter().map(|bench| format!("Of {}: {}", parts(bench).0, bench.about)).collect();
    let option = Arg::new(flag)
        .long(flag)
        .help(about.join(". "))
        .conflicts_with_all(variants().into_keys().filter(|other| *other != flag));
    if has_value(&benches) {
        option.action(ArgAction::Set).value_name("COUNT")
    } else {
        option.action(ArgAction::SetTrue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_reached_by_its_name_alone() {
        command().debug_assert();
        for bench in BENCHES {
            let words = ["millrace-bench"].into_iter().chain(bench.name.split(' '));
            let matches = command().try_get_matches_from(words).expect(bench.name);
            assert_eq!(BenchCommand::of_matches(&matches).bench, bench.name);
        }
    }

    #[test]
    fn two_variants_at_once_are_refused() {
        for line in ["nn --http --cold", "nonsense", "nn --http=yes", "write --replicas"] {
            let words = ["millrace-bench"].into_iter().chain(line.split(' '));
            assert!(command().try_get_matches_from(words).is_err(), "{line}");
        }
    }
}
