//! Constructs of Rust that this house has replaced by another one.

use std::collections::BTreeMap;

use millrace_tidy::{Workspace, is_product, product_lines};

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

/// A crate that has results whose error is a text.
struct TextErrors {
    name: &'static str,
    /// Number of them; it may only decrease.
    count: usize,
    /// Reason for which these are texts.
    reason: &'static str,
}

/// All results of the product whose error is a text. Errors are the variants of an enum, with place, cause
/// and cure.
const TEXT_ERRORS: [TextErrors; 3] = [
    TextErrors {
        name: "schema",
        count: 8,
        reason: "causes of mistakes in a package, which their callers complete with file and line",
    },
    TextErrors { name: "commands", count: 1, reason: "an answer that another node has sent as text" },
    TextErrors { name: "sim", count: 5, reason: "findings of checkers, which are printed with their seed" },
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
fn a_module_is_a_file_beside_its_folder() {
    let workspace = Workspace::open();
    // Tests share modules as `support/mod.rs`: a file beside the folder would be a test of its own.
    let of_folder = |file: &&str| file.contains("/src/") && file.ends_with("/mod.rs");
    let wrong: Vec<&str> = workspace.files(".rs").filter(of_folder).collect();
    assert!(wrong.is_empty(), "move each to a file beside its folder: {}", wrong.join(", "));
}

#[test]
fn errors_of_libraries_are_not_texts() {
    let workspace = Workspace::open();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in workspace.files(".rs").filter(|file| is_product(file)) {
        let Some(name) = crate_of(file) else { continue };
        let text = workspace.text(file);
        let lines = product_lines(&text).filter(|(_, line)| has_text_error(line));
        let lines = lines.map(|(number, line)| format!("{file}:{number}: {}", line.trim()));
        found.entry(name.to_owned()).or_default().extend(lines);
    }
    for TextErrors { name, count, reason } in TEXT_ERRORS {
        assert!(reason.split(' ').count() > 3, "the list says why {name} has errors that are texts");
        let lines = found.remove(name).unwrap_or_default();
        assert_eq!(lines.len(), count, "{name}: give new errors a variant, or lower the number: {lines:#?}");
    }
    let others: Vec<String> = found.into_values().flatten().collect();
    assert!(others.is_empty(), "give these errors a variant: {others:#?}");
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
