//! Commands of the program `millrace`, except `serve`.
//!
//! [`parse`] reads the command line, [`run`] runs a command. Most commands are requests to a node by
//! `millrace_client`, and show its answers; `doctor`, `token` and `snapshot` also work on a data directory.
//!
//! This crate does not know how to serve: the program around it ([`HostProgram`]) starts the node of `demo`,
//! and checks the application of a data directory.

mod answer;
mod cli;
mod commands;
mod document_counts;
mod error;
mod input;
mod lines;
mod output;
mod overview;
mod parameter_names;
mod table_file;

use std::path::Path;
use std::process::ExitCode;

pub use cli::{CommonOptions, MillraceCommand, parse, whole};
pub use commands::demo::{DemoNode, DemoStart, DemoStarting};
pub use error::Error;
use millrace_store::CheckFinding;
use output::CommandOutput;

/// The program that runs the commands.
pub struct HostProgram {
    /// Makes its whole command line, for completion scripts.
    pub whole: fn() -> clap::Command,
    /// Starts the node of `demo`.
    pub start_demo: DemoStart,
    /// Checks the files of the application in a data directory, for `doctor`.
    pub check_application: fn(&Path) -> Vec<CheckFinding>,
}

/// Runs a command, and prints its result.
///
/// # Errors
/// The command failed.
pub fn run(
    command: MillraceCommand,
    options: &CommonOptions,
    program: &HostProgram,
) -> Result<ExitCode, Error> {
    let (node, output) = (&options.node, &CommandOutput::new(options.format));
    match command {
        MillraceCommand::Doctor(arguments) => {
            commands::doctor::run(&arguments, program.check_application, output)
        }
        MillraceCommand::Token(command) => wait(commands::token::run(node, &command, output)),
        MillraceCommand::Completions(arguments) => {
            Ok(commands::completions::run(&arguments, (program.whole)()))
        }
        MillraceCommand::Corpus(arguments) => Ok(commands::corpus::run(&arguments)),
        MillraceCommand::Demo(arguments) => wait(commands::demo::run(&arguments, program.start_demo, output)),
        MillraceCommand::Import(arguments) => wait(commands::import::run(node, &arguments, output)),
        MillraceCommand::Deploy(arguments) => wait(commands::deploy::run(node, &arguments, output)),
        MillraceCommand::Status(node_timeout) => wait(commands::status::run(node, &node_timeout, output)),
        MillraceCommand::Fields(node_timeout) => wait(commands::fields::run(node, &node_timeout, output)),
        MillraceCommand::Node(command) => wait(commands::cluster::node(node, &command, output)),
        MillraceCommand::Index(command) => wait(commands::index::run(node, &command, output)),
        MillraceCommand::Snapshot(command) => wait(commands::snapshot::run(node, &command, output)),
        MillraceCommand::Groups(node_timeout) => wait(commands::group::list(node, &node_timeout, output)),
        MillraceCommand::Group(command) => wait(commands::group::run(node, &command, output)),
        MillraceCommand::Cluster(command) => wait(commands::cluster::cluster(node, &command, output)),
        MillraceCommand::Feed(arguments) => wait(commands::feed::run(node, &arguments, output)),
        MillraceCommand::Query(arguments) => wait(commands::query::run(node, &arguments, output)),
        MillraceCommand::Compare(arguments) => wait(commands::compare::run(node, &arguments, output)),
        MillraceCommand::Get(arguments) => wait(commands::document::get(node, &arguments, output)),
        MillraceCommand::Put(arguments) => wait(commands::document::put(node, &arguments, output)),
        MillraceCommand::Update(arguments) => wait(commands::document::update(node, &arguments, output)),
        MillraceCommand::Remove(arguments) => wait(commands::document::remove(node, &arguments, output)),
        MillraceCommand::Visit(arguments) => wait(commands::visit::run(node, &arguments)),
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
