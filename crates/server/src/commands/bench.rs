//! `millrace bench`.

use std::process::ExitCode;
use std::time::Duration;

use millrace_bench::{BENCHES, Settings, find};

use crate::cli::Bench;
use crate::error::Error;
use crate::output::{Output, print_all};

/// Runs benchmarks. The exit status is 1 when one does not reach its goal.
pub fn run(arguments: &Bench, output: &Output) -> Result<ExitCode, Error> {
    if arguments.names.is_empty() {
        let lines: Vec<String> =
            BENCHES.iter().map(|bench| format!("{:<10} {}", bench.name, bench.about)).collect();
        print_all(format!("{}\n", lines.join("\n")).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let all = arguments.names.iter().any(|name| name == "all");
    let benches = match all {
        true => BENCHES.iter().collect(),
        false => arguments.names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?,
    };
    let defaults = Settings::default();
    let settings = Settings {
        time_per_case: Duration::from_secs_f64(arguments.seconds.clamp(0.001, 3600.0)),
        directory: arguments.directory.clone().unwrap_or(defaults.directory),
    };
    let mut met = true;
    for bench in benches {
        let report = (bench.run)(&settings)?;
        met &= report.is_met();
        let shown = if arguments.json || output.is_json() { report.json_lines() } else { report.table() };
        print_all(format!("{}\n", shown.trim_end()).as_bytes());
        if let (Some(path), Some(plot)) = (&arguments.plot, report.svg()) {
            std::fs::write(path, plot).map_err(|source| Error::File { path: path.clone(), source })?;
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
