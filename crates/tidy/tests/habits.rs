//! Constructs of Rust that this house has replaced by another one.

use std::collections::BTreeMap;

use millrace_tidy::Workspace;

/// A construct, as it begins in the source, its replacement, and the crates that still have it.
struct BannedConstruct {
    text: &'static str,
    replacement: &'static str,
    crates: &'static [&'static str],
}

const BANNED: [BannedConstruct; 4] = [
    BannedConstruct {
        text: "#[non_exhaustive]",
        replacement: "match all variants: the crates are not published",
        crates: &[],
    },
    BannedConstruct {
        text: "PoisonError",
        replacement: "use the locks of parking_lot, which are not poisoned",
        crates: &[],
    },
    BannedConstruct { text: "std::sync::Mutex", replacement: "use parking_lot::Mutex", crates: &[] },
    BannedConstruct { text: "std::sync::RwLock", replacement: "use parking_lot::RwLock", crates: &[] },
];

/// Numbers of results whose error is a text, by crate. A number may only decrease: errors are the variants of
/// the crate's `Error`.
const TEXT_ERRORS: [(&str, usize); 18] = [
    ("content", 4),
    ("coordination", 8),
    ("embedding", 10),
    ("gateway", 10),
    ("indexing", 2),
    ("linguistics", 1),
    ("membership", 1),
    ("model", 3),
    ("node", 16),
    ("peer", 4),
    ("remote", 22),
    ("rules", 1),
    ("schema", 8),
    ("selection", 1),
    ("server", 8),
    ("sim", 4),
    ("tensor", 3),
    ("trust", 3),
];

/// The crate that a source file belongs to; `None` for this crate, which names the constructs.
fn crate_of(file: &str) -> Option<&str> {
    file.strip_prefix("crates/")?.split('/').next().filter(|name| *name != "tidy")
}

#[test]
fn replaced_constructs_stay_away() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for file in workspace.files(".rs") {
        let Some(name) = crate_of(file) else { continue };
        let text = workspace.text(file);
        let is_banned = |banned: &&BannedConstruct| {
            !banned.crates.contains(&name) && (text.contains(banned.text) || imports(&text, banned.text))
        };
        let found = BANNED.iter().filter(is_banned);
        wrong.extend(found.map(|banned| format!("{file}: {}: {}", banned.text, banned.replacement)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// True if a source imports a type of a module in a list: `use std::sync::{Arc, Mutex};`.
fn imports(source: &str, path: &str) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else { return false };
    let begin = format!("use {module}::{{");
    let mut lists = source.split(&begin).skip(1).filter_map(|rest| rest.split_once("};"));
    lists.any(|(list, _)| list.split(',').any(|item| item.trim() == name))
}

#[test]
fn errors_of_libraries_are_not_texts() {
    let workspace = Workspace::open();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in workspace.files(".rs").filter(|file| file.contains("/src/")) {
        let Some(name) = crate_of(file) else { continue };
        let found = workspace.text(file).lines().filter(|line| has_text_error(line)).count();
        *counts.entry(name.to_owned()).or_default() += found;
    }
    counts.retain(|_, count| *count > 0);
    let known: BTreeMap<String, usize> =
        TEXT_ERRORS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(counts, known, "give new errors a variant, and lower the number of a crate that lost some");
}

/// True if a line has a `Result<_, String>`.
fn has_text_error(line: &str) -> bool {
    line.split("Result<").skip(1).any(|rest| {
        let mut depth = 1;
        let mut last = 0;
        let mut before = ' ';
        for (at, letter) in rest.char_indices() {
            match letter {
                '<' | '(' | '[' => depth += 1,
                '>' if before == '-' => {}
                '>' | ')' | ']' => depth -= 1,
                ',' if depth == 1 => last = at + 1,
                _ => {}
            }
            if depth == 0 {
                return last > 0 && rest[last..at].trim() == "String";
            }
            before = letter;
        }
        false
    })
}

#[test]
fn a_text_error_is_recognized() {
    for (line, expected) in [
        ("fn a() -> Result<(), String> {", true),
        ("fn a() -> Result<Vec<(u8, String)>, String> {", true),
        ("fn a() -> Option<Result<Self, String>> {", true),
        ("fn a(of: fn(u8) -> Result<u8, String>)", true),
        ("fn a() -> Result<BTreeMap<String, String>, Error> {", false),
        ("fn a() -> Result<String> {", false),
    ] {
        assert_eq!(has_text_error(line), expected, "{line}");
    }
}
