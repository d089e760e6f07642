//! The binary `millrace-bench`: benchmarks, each figure beside its limit.

mod cli;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use millrace_bench::{
    BENCHES, BenchProgress, BenchReport, Benchmark, CaseFilter, CurvePlot, DataCounts, Error, Settings, find,
};

use self::cli::{BenchCommand, BenchOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = BenchCommand::of_arguments();
    match run(&command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("millrace-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs benchmarks and prints their figures with their limits, each as soon as it is measured. The exit
/// status is 1 if a goal is missed, or if one of several cannot run.
fn run(command: &BenchCommand) -> Result<ExitCode, Error> {
    let benches: Vec<&Benchmark> = match command.bench.as_str() {
        "all" => BENCHES.iter().collect(),
        "list" => {
            print_all(&list());
            return Ok(ExitCode::SUCCESS);
        }
        name => vec![find(name)?],
    };
    let options = &command.options;
    let settings = settings(&command.bench, options)?;
    let mut met = true;
    let mut plots = Vec::new();
    for bench in &benches {
        let mut report = match (bench.run)(&settings) {
            Ok(report) => report,
            Err(error) if benches.len() > 1 => {
                eprintln!("millrace-bench: {}: {error}", bench.name);
                met = false;
                continue;
            }
            Err(error) => return Err(error),
        };
        met &= report.is_met();
        if options.json {
            report.publish(settings.progress);
        } else {
            print_all(&format!("{}\n", report.table().trim_end()));
        }
        plots.extend(report.plots);
    }
    if let Some(path) = &options.plot {
        draw(&plots, path, &command.bench)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names of the benchmarks and their descriptions, one a line.
fn list() -> String {
    let width = BENCHES.iter().map(|bench| bench.name.len()).max().unwrap_or_default();
    BENCHES.iter().map(|bench| format!("{:<width$}  {}\n", bench.name, bench.about)).collect()
}

fn draw(plots: &[CurvePlot], path: &PathBuf, name: &str) -> Result<(), Error> {
    match BenchReport::draw(plots) {
        Some(svg) => std::fs::write(path, svg).map_err(Error::file(path))?,
        None => eprintln!("millrace-bench: nothing is drawn: '{name}' has no curves"),
    }
    Ok(())
}

fn settings(name: &str, options: &BenchOptions) -> Result<Settings, Error> {
    let only = CaseFilter { case: options.case.clone(), clients: options.clients.clone() };
    if only != CaseFilter::default() && name != "model" {
        return Err(Error::failed("--case and --clients choose among the cases of 'model'"));
    }
    let counts = DataCounts { indexes: options.indexes, documents: options.documents };
    let has_place = match name {
        "index-scale-out" => true,
        "index-move" => counts.indexes.is_none(),
        _ => counts == DataCounts::default(),
    };
    if !has_place {
        let reason = "--documents is for 'index-scale-out' and 'index-move', and --indexes for the first; others take --size";
        return Err(Error::failed(reason));
    }
    if !(options.size > 0.0 && options.size <= 100.0) {
        return Err(Error::failed(format!("size {}: it is a share of the data, such as 0.1", options.size)));
    }
    let figure: fn(&str) = if options.json { |line| print_all(&format!("{line}\n")) } else { |_| () };
    let defaults = Settings::default();
    Ok(Settings {
        time_per_case: Duration::from_millis(options.milliseconds),
        directory: options.directory.clone().unwrap_or(defaults.directory),
        size: options.size,
        program: program(),
        only,
        counts,
        progress: BenchProgress { figure, step: |step| eprintln!("{step}") },
    })
}

/// The program `millrace` that benchmarks start: the one that `MILLRACE_BIN` names, or the one beside this
/// program.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("MILLRACE_BIN").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("millrace"));
    named.or_else(beside).filter(|program| program.is_file())
}

/// Prints to standard output. Ends the process when the reader is gone, as `millrace-bench list | head` does.
fn print_all(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
