//! `millrace bench`.

use std::process::ExitCode;
use std::time::Duration;

use millrace_bench::{BENCHES, BenchProgress, BenchReport, Benchmark, CaseFilter, Settings, find};

use crate::cli::BenchArguments;
use crate::error::Error;
use crate::output::{CommandOutput, print_all};

/// Runs benchmarks and prints their figures with their limits, each as soon as it is measured. The exit
/// status is 1 if a goal is missed, or if one of several cannot run.
pub fn run(arguments: &BenchArguments, output: &CommandOutput) -> Result<ExitCode, Error> {
    let name = arguments.full_name();
    let benches: Vec<&Benchmark> = match name.as_str() {
        "all" => BENCHES.iter().collect(),
        "list" => {
            let width = BENCHES.iter().map(|bench| bench.name.len()).max().unwrap_or_default();
            let line = |bench: &Benchmark| format!("{:<width$}  {}\n", bench.name, bench.about);
            print_all(BENCHES.iter().map(line).collect::<String>().as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
        name => vec![find(name)?],
    };
    let is_json = arguments.json || output.is_json();
    let settings = settings(arguments, is_json)?;
    let mut met = true;
    let mut plots = Vec::new();
    for bench in &benches {
        let mut report = match (bench.run)(&settings) {
            Ok(report) => report,
            Err(error) if benches.len() > 1 => {
                eprintln!("millrace: bench {}: {error}", bench.name);
                met = false;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        met &= report.is_met();
        if is_json {
            report.tell(settings.progress);
        } else {
            print_all(format!("{}\n", report.table().trim_end()).as_bytes());
        }
        plots.extend(report.plots);
    }
    if let Some(path) = &arguments.plot {
        match BenchReport::draw(&plots) {
            Some(svg) => {
                std::fs::write(path, svg).map_err(|source| Error::File { path: path.clone(), source })?
            }
            None => eprintln!("millrace: nothing is drawn: '{}' has no curves", arguments.full_name()),
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn settings(arguments: &BenchArguments, is_json: bool) -> Result<Settings, Error> {
    let only = CaseFilter { case: arguments.case.clone(), clients: arguments.clients.clone() };
    if only != CaseFilter::default() && arguments.full_name() != "model" {
        return Err(Error::Argument(
            "--case and --clients choose among the cases of 'bench model'".to_owned(),
        ));
    }
    let figure: fn(&str) = if is_json { |line| print_all(format!("{line}\n").as_bytes()) } else { |_| () };
    if !(arguments.size > 0.0 && arguments.size <= 100.0) {
        return Err(Error::Argument(format!(
            "size {}: it is a share of the data, such as 0.1",
            arguments.size
        )));
    }
    let defaults = Settings::default();
    Ok(Settings {
        time_per_case: Duration::from_millis(arguments.milliseconds),
        directory: arguments.directory.clone().unwrap_or(defaults.directory),
        size: arguments.size,
        program: std::env::current_exe().ok(),
        only,
        progress: BenchProgress { figure, step: |step| eprintln!("{step}") },
    })
}
