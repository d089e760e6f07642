//! The binary `millrace`: one server, and everything to be done with it from a command line.

mod answer;
mod cli;
mod cluster;
mod cluster_figures;
mod commands;
mod document_counts;
mod error;
mod file_limit;
mod free_memory;
mod input;
mod lines;
mod output;
mod overview;
mod parameter_names;
mod settings;
mod standing;
mod table_file;

use std::process::ExitCode;

use cli::{CommandLine, MillraceCommand};
use error::Error;
use output::CommandOutput;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = CommandLine::of_arguments();
    let output = CommandOutput::new(cli.format);
    match run(cli, &output) {
        Ok(code) => code,
        Err(error) => {
            output.error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: CommandLine, output: &CommandOutput) -> Result<ExitCode, Error> {
    let node = cli.node;
    match cli.command {
        MillraceCommand::Serve(arguments) => commands::serve::run(&arguments),
        MillraceCommand::Doctor(arguments) => commands::doctor::run(&arguments, output),
        MillraceCommand::Token(command) => wait(commands::token::run(&node, &command, output)),
        MillraceCommand::Completions(arguments) => Ok(commands::completions::run(&arguments)),
        MillraceCommand::Corpus(arguments) => Ok(commands::corpus::run(&arguments)),
        MillraceCommand::Demo(arguments) => wait(commands::demo::run(&arguments, output)),
        MillraceCommand::Import(arguments) => wait(commands::import::run(&node, &arguments, output)),
        MillraceCommand::Deploy(arguments) => wait(commands::deploy::run(&node, &arguments, output)),
        MillraceCommand::Status(patience) => wait(commands::status::run(&node, &patience, output)),
        MillraceCommand::Fields(patience) => wait(commands::fields::run(&node, &patience, output)),
        MillraceCommand::Node(command) => wait(commands::cluster::node(&node, &command, output)),
        MillraceCommand::Index(command) => wait(commands::index::run(&node, &command, output)),
        MillraceCommand::Snapshot(command) => wait(commands::snapshot::run(&node, &command, output)),
        MillraceCommand::Groups(patience) => wait(commands::group::list(&node, &patience, output)),
        MillraceCommand::Group(command) => wait(commands::group::run(&node, &command, output)),
        MillraceCommand::Cluster(command) => wait(commands::cluster::cluster(&node, &command, output)),
        MillraceCommand::Feed(arguments) => wait(commands::feed::run(&node, &arguments, output)),
        MillraceCommand::Query(arguments) => wait(commands::query::run(&node, &arguments, output)),
        MillraceCommand::Compare(arguments) => wait(commands::compare::run(&node, &arguments, output)),
        MillraceCommand::Get(arguments) => wait(commands::document::get(&node, &arguments, output)),
        MillraceCommand::Put(arguments) => wait(commands::document::put(&node, &arguments, output)),
        MillraceCommand::Update(arguments) => wait(commands::document::update(&node, &arguments, output)),
        MillraceCommand::Remove(arguments) => wait(commands::document::remove(&node, &arguments, output)),
        MillraceCommand::Visit(arguments) => wait(commands::visit::run(&node, &arguments)),
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
