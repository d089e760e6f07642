//! `millrace bench`.

use std::process::ExitCode;
use std::time::Duration;

use millrace_bench::{BENCHES, Bench, Settings, find};

use crate::cli::BenchArguments;
use crate::error::Error;
use crate::output::{Output, print_all};

/// Runs benchmarks and prints their figures beside their limits. The exit status is 1 when a goal is missed.
pub fn run(arguments: &BenchArguments, output: &Output) -> Result<ExitCode, Error> {
    let mut settings =
        Settings { time_per_case: Duration::from_millis(arguments.milliseconds), ..Settings::default() };
    if let Some(directory) = &arguments.directory {
        settings.directory.clone_from(directory);
    }
    let benches: Vec<&Bench> = match arguments.name.as_str() {
        "all" => BENCHES.iter().collect(),
        "list" => {
            let lines: Vec<String> =
                BENCHES.iter().map(|bench| format!("{:<10} {}\n", bench.name, bench.about)).collect();
            print_all(lines.concat().as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
        name => vec![find(name)?],
    };
    let mut met = true;
    for bench in benches {
        let report = (bench.run)(&settings)?;
        met &= report.is_met();
        let text = if arguments.json || output.is_json() { report.json_lines() } else { report.table() };
        print_all(format!("{}\n", text.trim_end()).as_bytes());
        if let (Some(path), Some(svg)) = (&arguments.plot, report.svg()) {
            std::fs::write(path, svg).map_err(|source| Error::File { path: path.clone(), source })?;
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
