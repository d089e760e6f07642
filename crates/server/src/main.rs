//! The binary `millrace`: one server, and everything to be done with it from a command line.

mod answer;
mod cli;
mod cluster;
mod cluster_figures;
mod commands;
mod error;
mod file_limit;
mod input;
mod lines;
mod output;
mod overview;
mod settings;
mod standing;

use std::process::ExitCode;

use cli::{Cli, Command};
use error::Error;
use output::Output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::of_arguments();
    let output = Output::new(cli.format);
    match run(cli, &output) {
        Ok(code) => code,
        Err(error) => {
            output.error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<ExitCode, Error> {
    let node = cli.node;
    match cli.command {
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments, output),
        Command::Completions(arguments) => Ok(commands::completions::run(&arguments)),
        Command::Corpus(arguments) => Ok(commands::corpus::run(&arguments)),
        Command::Bench(arguments) => commands::bench::run(&arguments, output),
        Command::Demo(arguments) => wait(commands::demo::run(&arguments, output)),
        Command::Import(arguments) => wait(commands::import::run(&node, &arguments, output)),
        Command::Deploy(arguments) => wait(commands::deploy::run(&node, &arguments, output)),
        Command::Status(patience) => wait(commands::status::run(&node, &patience, output)),
        Command::Node(command) => wait(commands::cluster::node(&node, &command, output)),
        Command::Cluster(command) => wait(commands::cluster::cluster(&node, &command, output)),
        Command::Feed(arguments) => wait(commands::feed::run(&node, &arguments, output)),
        Command::Query(arguments) => wait(commands::query::run(&node, &arguments, output)),
        Command::Get(arguments) => wait(commands::document::get(&node, &arguments, output)),
        Command::Put(arguments) => wait(commands::document::put(&node, &arguments, output)),
        Command::Update(arguments) => wait(commands::document::update(&node, &arguments, output)),
        Command::Remove(arguments) => wait(commands::document::remove(&node, &arguments, output)),
        Command::Visit(arguments) => wait(commands::visit::run(&node, &arguments)),
    }
}

/// Runs a command that speaks to a node.
fn wait(command: impl Future<Output = Result<ExitCode, Error>>) -> Result<ExitCode, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(command)
}
