//! Output of commands: for people, or for programs.

use std::io::{self, Write as _};

use serde_json::{Value, json};

use crate::cli::OutputFormat;
use crate::error::Error;

/// Destination and format of results.
pub struct CommandOutput {
    format: OutputFormat,
}

impl CommandOutput {
    /// Creates an output of this format.
    pub fn new(format: OutputFormat) -> Self {
        CommandOutput { format }
    }

    /// True if the output is for programs.
    pub fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// Prints a result: `text` for people, `value` for programs.
    pub fn print(&self, text: impl FnOnce() -> String, value: &Value) {
        let line = if self.is_json() { value.to_string() } else { text() };
        print_all(format!("{}\n", line.trim_end()).as_bytes());
    }

    /// Prints the error of a failed command.
    pub fn error(&self, error: &Error) {
        match self.format {
            OutputFormat::Json => eprintln!("{}", json!({ "error": error.to_string() })),
            OutputFormat::Text => eprintln!("error: {error}"),
        }
    }
}

/// Writes to standard output. A reader that has closed the pipe is not an error.
pub fn print_all(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
