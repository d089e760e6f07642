//! The binary `millrace`: one server, and everything to be done with it from a command line, by
//! `millrace_commands`.

mod cluster;
mod cluster_stats;
mod command_line;
mod demo;
mod error;
mod file_limit;
mod free_memory;
mod serve;
mod settings;
mod supervision;

use std::process::ExitCode;

use millrace_commands::HostProgram;

use self::command_line::{CommandLine, ProgramCommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let CommandLine { options, command } = millrace_commands::parse();
    match command {
        ProgramCommand::Serve(arguments) => options.exit_code(serve::run(&arguments)),
        ProgramCommand::Other(command) => {
            let program = HostProgram {
                whole: CommandLine::whole,
                start_demo: demo::start,
                check_application: millrace_node::check_application,
            };
            options.exit_code(millrace_commands::run(command, &options, &program))
        }
    }
}
