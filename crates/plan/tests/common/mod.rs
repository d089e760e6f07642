//! Tables of cases: a text file of inputs, each with what is expected under it.
//!
//! A case begins with an unindented line, its input. Indented lines follow: `& name=value` gives a parameter, the rest is the
//! expected text. `#` begins a comment. With `BLESS=1` in the environment the file is rewritten with what came out; read the
//! difference before you keep it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Runs all cases of a file through `run`, and fails with those that differ.
pub fn check(file: &str, run: impl Fn(&str, BTreeMap<String, String>) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let table = std::fs::read_to_string(&path).expect("the table is beside the test");
    let (mut actual, mut failures, mut cases) = (String::new(), String::new(), 0);
    let mut lines = table.lines().peekable();
    while let Some(input) = lines.next() {
        let _ = writeln!(actual, "{input}");
        if input.is_empty() || input.starts_with('#') {
            continue;
        }
        cases += 1;
        let (mut parameters, mut expected) = (BTreeMap::new(), Vec::new());
        while let Some(line) = lines.next_if(|line| line.starts_with("    ")) {
            match line.trim_start().strip_prefix("& ") {
                Some(parameter) => {
                    let _ = writeln!(actual, "{line}");
                    let (name, value) = parameter.split_once('=').expect("a parameter is name=value");
                    parameters.insert(name.to_owned(), value.to_owned());
                }
                None => expected.push(line.trim_start()),
            }
        }
        let result = run(input, parameters);
        if expected.join("\n") != result {
            let _ = writeln!(
                failures,
                "{input}\n  expected: {}\n  came out: {result}",
                expected.join("\n            ")
            );
        }
        for line in result.lines() {
            let _ = writeln!(actual, "    {line}");
        }
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, actual).expect("the table can be written");
        return;
    }
    assert!(cases > 0, "{file} has no cases");
    assert!(failures.is_empty(), "{file}:\n{failures}");
}
