//! Output of commands: for people, or for programs.
//!
//! Texts of documents, and of servers, may have control characters, which can make a terminal do
//! other things than to show them. All that a command prints goes through here, and arrives without them.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use millrace_env::write_standard_error;
use serde_json::{Value, json};

use crate::cli::OutputFormat;

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
        print_line(line.trim_end());
    }

    /// Prints a line that only people need, such as the head of a table.
    pub fn say(&self, line: &str) {
        if !self.is_json() {
            print_line(line);
        }
    }

    /// Prints the error of a failed command.
    pub fn error(&self, error: &impl Display) {
        match self.format {
            OutputFormat::Json => note(json!({ "error": error.to_string() })),
            OutputFormat::Text => note(format_args!("error: {error}")),
        }
    }
}

fn print_line(line: &str) {
    print_all(format!("{}\n", visible(line)).as_bytes());
}

/// Prints a line beside the result, to standard error.
pub fn note(line: impl Display) {
    write_standard_error(visible(&line.to_string()));
}

/// Standard output for results that are passed on as they are, such as JSON lines. A terminal gets them
/// without control characters, a file or another program gets each byte.
pub struct OutputStream {
    is_terminal: bool,
    filter: TerminalFilter,
}

impl OutputStream {
    /// Opens standard output.
    pub fn open() -> Self {
        OutputStream { is_terminal: io::stdout().is_terminal(), filter: TerminalFilter::default() }
    }

    /// Writes bytes. They may end within a character.
    pub fn write(&mut self, bytes: &[u8]) {
        match self.is_terminal {
            true => print_all(&self.filter.visible(bytes)),
            false => print_all(bytes),
        }
    }
}

/// Writes to standard output. A reader that has closed the pipe has what it wanted: the program ends.
/// Another error, such as that of a full disk, ends it as a failure, since the result is incomplete.
fn print_all(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            note(format_args!(
                "error: standard output: {error}; what was written is incomplete: make room, or write it to another place"
            ));
            std::process::exit(1);
        }
    }
}

/// A text with its control characters written as in JSON (`\u001b`), all but the ends of lines and
/// tabulators. JSON stays the same value.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            _ if character.is_control() => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => shown.push(character),
        }
    }
    shown
}

/// [`visible`] for bytes that come in pieces, and that need not be UTF-8.
#[derive(Default)]
struct TerminalFilter {
    /// True if the last piece ended with the first byte of a character that may be a control character.
    is_held: bool,
}

impl TerminalFilter {
    /// First byte of the control characters from U+0080 to U+009F, and of those up to U+00BF.
    const HELD: u8 = 0xc2;

    fn visible(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            let is_second = std::mem::take(&mut self.is_held);
            let is_control = match byte {
                b'\n' | b'\t' => false,
                0x80..=0x9f => is_second,
                _ => byte.is_ascii_control(),
            };
            if is_second && !(0x80..=0x9f).contains(&byte) {
                shown.push(Self::HELD);
            }
            match byte {
                Self::HELD => self.is_held = true,
                _ if is_control => shown.extend(format!("\\u{byte:04x}").bytes()),
                _ => shown.push(byte),
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of documents, and what a terminal gets.
    const CASES: [(&str, &str); 7] = [
        ("esc \u{1b}[31mred\u{1b}]0;title\u{7}", "esc \\u001b[31mred\\u001b]0;title\\u0007"),
        ("c1 \u{9b}31m\u{9d}0;title\u{9c}", "c1 \\u009b31m\\u009d0;title\\u009c"),
        ("back\u{8}\r\u{7f}\0", "back\\u0008\\u000d\\u007f\\u0000"),
        ("lines\n\tand tabulators", "lines\n\tand tabulators"),
        ("Â£ é \u{a0}ß 語 \u{1f600} \u{db}\u{5b}", "Â£ é \u{a0}ß 語 \u{1f600} \u{db}\u{5b}"),
        ("\u{c2}\u{9b}\u{9b}", "\u{c2}\\u009b\\u009b"),
        ("", ""),
    ];

    #[test]
    fn control_characters_are_shown() {
        for (text, expected) in CASES {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        for (text, _) in CASES {
            let value = json!({ text: [text] });
            let shown = visible(&value.to_string());
            assert_eq!(serde_json::from_str::<Value>(&shown).expect("it is JSON"), value);
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
        }
    }

    #[test]
    fn pieces_are_shown_as_the_whole() {
        for (text, expected) in CASES {
            for at in 0..=text.len() {
                let mut filter = TerminalFilter::default();
                let (first, second) = text.as_bytes().split_at(at);
                let shown = [filter.visible(first), filter.visible(second)].concat();
                assert_eq!(String::from_utf8_lossy(&shown), expected, "cut at {at}");
            }
        }
        // Bytes that are no text, such as CBOR.
        let mut filter = TerminalFilter::default();
        assert_eq!(filter.visible(&[0x9b, 0xc2, 0xc2, 0x9b, 0xff, 0x1b]), b"\x9b\xc2\\u009b\xff\\u001b");
    }
}
