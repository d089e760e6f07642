use std::fmt::Display;
use std::io::{self, Write as _};

/// Writes a line to standard error. The line is lost where that fails, as on a full disk or a closed pipe:
/// `eprintln!` would panic, and end the thread or the process for a message.
pub fn write_standard_error(line: impl Display) {
    // In one piece, so that the lines of several threads do not mix.
    let line = format!("{line}\n");
    let _ = io::stderr().write_all(line.as_bytes());
}
