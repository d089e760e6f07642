//! Links lead somewhere, files stay short, messages are plain, lists in documents are complete, and manifests
//! have what every crate has.

use std::collections::BTreeMap;

use millrace_tidy::{Workspace, is_product, product_lines};

/// Longest file of logic, in lines. Tables of data and generated lists are exempt by name.
const FILE_LINES_MAX: usize = 620;

/// Files that are one long table.
const TABLES: [&str; 4] = [
    "crates/schema/tests/schema/services.rs",
    "crates/expression/tests/expression/slow.rs",
    "crates/server/src/settings.rs",
    "crates/server/tests/admission.rs",
];

#[test]
fn files_stay_short() {
    let workspace = Workspace::open();
    let lines = |file: &&str| workspace.text(file).lines().count();
    let sources = workspace.files(".rs").filter(|file| file.starts_with("crates/") && !TABLES.contains(file));
    let long: Vec<String> = sources
        .filter(|file| lines(file) > FILE_LINES_MAX)
        .map(|file| format!("{file}: {} lines", lines(&file)))
        .collect();
    assert!(long.is_empty(), "split these at a seam:\n{}", long.join("\n"));
}

#[test]
fn links_of_documents_lead_somewhere() {
    let workspace = Workspace::open();
    let mut dead = Vec::new();
    for file in workspace.files(".md") {
        let text = workspace.text(file);
        for target in link_targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) =
                target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let resolved = if path.is_empty() { file.to_owned() } else { relative(file, path) };
            if !workspace.exists(&resolved) {
                dead.push(format!("{file}: {target}"));
            } else if let Some(anchor) = anchor.filter(|_| resolved.ends_with(".md")) {
                let headings = headings(&workspace.text(&resolved));
                if !headings.iter().any(|heading| heading == anchor) {
                    dead.push(format!("{file}: {target} (no such heading)"));
                }
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

/// Words that messages do without, beside "is no X" for "is not an X".
const DIALECT: [&str; 7] = ["told", "nobody", "whoever", "anew", "somebody", "thereby", "whatever"];

/// Text for people that is not a message: the sentences of generated mails.
const SENTENCES: &str = "crates/mail/src/corpus/";

#[test]
fn messages_are_plain() {
    let workspace = Workspace::open();
    let sources = workspace.files(".rs").filter(|file| is_product(file) && !file.starts_with(SENTENCES));
    let mut odd = Vec::new();
    for file in sources.filter(|file| !file.starts_with("crates/tidy/")) {
        let text = workspace.text(file);
        for (number, line) in product_lines(&text) {
            // Only texts and comments have spaces between words like these.
            let code = line.split(" // ").next().unwrap_or(line);
            let denies = [" is no ", " are no "].iter().any(|verb| {
                let rest = code.split_once(verb).map(|(_, rest)| rest);
                rest.is_some_and(|rest| {
                    rest.starts_with(|next: char| next.is_ascii_lowercase() || next == '{')
                        && !rest.starts_with("longer")
                })
            });
            let texts = code.split('"').skip(1).step_by(2).filter(|text| text.contains(' '));
            let mut words = texts.flat_map(|text| text.split(|letter: char| !letter.is_alphabetic()));
            let is_cut = code.split('"').skip(1).step_by(2).any(has_lost_line_end);
            if denies || is_cut || words.any(|word| DIALECT.contains(&word)) {
                odd.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(odd.is_empty(), "say it in the words of a manual, in one line or with \\:\n{}", odd.join("\n"));
}

/// True if a text has a run of spaces inside a sentence: its line was broken there once, and the backslash
/// is lost. Rows of a table have such runs after a word or two.
fn has_lost_line_end(text: &str) -> bool {
    text.split_once("        ").is_some_and(|(before, after)| {
        let goes_on = after.trim_start().starts_with(|next: char| next.is_lowercase());
        goes_on && before.split_whitespace().count() > 2
    })
}

#[test]
fn a_lost_line_end_is_recognized() {
    for (text, expected) in [
        ("divide it into several              documents, or raise", true),
        ("divide it into several documents", false),
        ("files        {} buckets, {} segments", false),
        ("millrace index wait                      # until all are ready", false),
    ] {
        assert_eq!(has_lost_line_end(text), expected, "{text}");
    }
}

#[test]
fn every_crate_is_linted() {
    let workspace = Workspace::open();
    let lints = |name: &String| {
        workspace.text(&format!("crates/{name}/Cargo.toml")).contains("[lints]\nworkspace = true")
    };
    let crates = workspace.crates();
    let without: Vec<&String> = crates.iter().filter(|name| !lints(name)).collect();
    assert!(without.is_empty(), "add [lints] workspace = true: {without:?}");
    let root = workspace.text("Cargo.toml");
    assert!(root.contains("missing_docs = \"warn\""), "public items have documentation");
}

/// Executables of tests beside the one of their crate, each with the reason for a process of its own.
const SEPARATE_TESTS: [(&str, &str); 7] = [
    ("crates/gateway/tests/cluster.rs", "its many nodes run until the process ends"),
    ("crates/gateway/tests/feed.rs", "slots of streams are counted for the process"),
    ("crates/gateway/tests/feed_panics.rs", "slots of streams are counted for the process"),
    ("crates/server/tests/access/main.rs", "it runs long, beside the others"),
    ("crates/server/tests/admission.rs", "it loads the machine, and has a limit of the server's memory"),
    ("crates/server/tests/cluster/main.rs", "it runs long, beside the others"),
    ("crates/server/tests/overload.rs", "it loads the machine until requests are refused"),
];

#[test]
fn tests_of_a_crate_are_one_executable() {
    let workspace = Workspace::open();
    let mut executables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in workspace.files(".rs") {
        let folders = file.strip_prefix("crates/").and_then(|below| below.split_once("/tests/"));
        let Some((name, below)) = folders.filter(|(name, _)| !name.contains('/')) else { continue };
        let is_root = match below.split_once('/') {
            Some((_, inside)) => inside == "main.rs",
            None => true,
        };
        let is_separate = SEPARATE_TESTS.iter().any(|(separate, _)| *separate == file);
        // Those of this crate use one small library: linking them takes no time.
        if is_root && !is_separate && name != "tidy" {
            executables.entry(name).or_default().push(file);
        }
    }
    executables.retain(|_, files| files.len() > 1);
    assert!(executables.is_empty(), "make these modules of `tests/NAME/main.rs`: {executables:#?}");
    let gone: Vec<&str> =
        SEPARATE_TESTS.iter().map(|(file, _)| *file).filter(|file| !workspace.exists(file)).collect();
    assert!(gone.is_empty(), "take these out of the list: {gone:?}");
}

/// A library is compiled for its tests only if its sources have some, and started for its examples only if
/// its documentation has some.
#[test]
fn libraries_without_tests_are_not_compiled_for_tests() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for name in workspace.crates() {
        let folder = format!("crates/{name}/src/");
        if !workspace.exists(&format!("{folder}lib.rs")) {
            continue;
        }
        let file = format!("crates/{name}/Cargo.toml");
        let manifest: toml::Table = workspace.text(&file).parse().expect("the manifest is TOML");
        let is_on = |key: &str| {
            let value = manifest.get("lib").and_then(|library| library.get(key));
            value.and_then(toml::Value::as_bool).unwrap_or(true)
        };
        let sources: Vec<String> = workspace
            .files(".rs")
            .filter(|file| file.starts_with(&folder))
            .map(|file| workspace.text(file))
            .collect();
        let (has_tests, has_examples) =
            (sources.iter().any(|text| has_test(text)), sources.iter().any(|text| has_example(text)));
        for (key, is_needed) in [("test", has_tests), ("doctest", has_examples)] {
            if is_on(key) != is_needed {
                wrong.push(format!("{file}: [lib] {key} = {is_needed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "set these (true is the default):\n{}", wrong.join("\n"));
}

/// True if a source has a test.
fn has_test(source: &str) -> bool {
    source
        .lines()
        .map(str::trim_start)
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

/// True if a comment of documentation has an example, which runs as a test.
fn has_example(source: &str) -> bool {
    let comment = |line: &str| -> Option<String> {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.trim().to_owned())
    };
    let mut is_code = false;
    source.lines().filter_map(comment).any(|text| {
        let Some(kind) = text.strip_prefix("```") else { return false };
        is_code = !is_code;
        is_code && kind != "text"
    })
}

#[test]
fn tests_and_examples_are_recognized() {
    for (source, expected) in [
        ("    #[test]\n    fn a() {}", (true, false)),
        ("#[tokio::test(start_paused = true)]\nasync fn a() {}", (true, false)),
        ("// as after #[test]\nfn a() {}", (false, false)),
        ("/// Adds.\n///\n/// ```\n/// add(1)\n/// ```", (false, true)),
        ("//! ```no_run\n//! start()\n//! ```", (false, true)),
        ("//! ```text\n//! a -> b\n//! ```", (false, false)),
    ] {
        assert_eq!((has_test(source), has_example(source)), expected, "{source}");
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let workspace = Workspace::open();
    let root: toml::Table = workspace.text("Cargo.toml").parse().expect("the root manifest is TOML");
    let declared =
        root["workspace"]["dependencies"].as_table().expect("the workspace names its dependencies");
    let declared: Vec<&str> =
        declared.keys().map(String::as_str).filter(|name| !name.starts_with("millrace-")).collect();
    let page = workspace.text("docs/dependencies.md");
    let table = page.split("## Considered and not taken").next().unwrap_or(&page);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<(&str, &str)> = rows.collect();
    let is_there = |name: &&&str| rows.iter().any(|(library, task)| library == *name && task.len() > 10);
    let missing: Vec<&&str> = declared.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "docs/dependencies.md lacks these: {missing:?}");
    let gone: Vec<&str> = rows.iter().map(|row| row.0).filter(|name| !declared.contains(name)).collect();
    assert!(gone.is_empty(), "docs/dependencies.md has these, which Cargo.toml does not: {gone:?}");
}

#[test]
fn each_page_of_the_glossary_has_the_word() {
    const GLOSSARY: &str = "docs/glossary.md";
    let workspace = Workspace::open();
    let text = workspace.text(GLOSSARY);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows: Vec<(&str, &str)> = rows.filter(|(word, _)| *word != "word").collect();
    assert!(rows.len() > 40, "the table of words has {} rows", rows.len());
    let words: Vec<String> = rows.iter().map(|(word, _)| word.to_lowercase()).collect();
    assert!(words.is_sorted(), "the words are in the order of the alphabet: {words:?}");
    let treats = |target: &str, word: &str| {
        let page = target.split('#').next().unwrap_or(target);
        let lines = workspace.text(&relative(GLOSSARY, page)).to_lowercase();
        // A word may stand on two lines.
        lines.split_whitespace().collect::<Vec<_>>().join(" ").contains(word)
    };
    let is_orphan = |(row, word): &(&(&str, &str), &String)| {
        let targets = link_targets(row.1);
        targets.is_empty() || !targets.iter().any(|target| treats(target, word))
    };
    let orphans: Vec<&String> = rows.iter().zip(&words).filter(is_orphan).map(|(_, word)| word).collect();
    assert!(orphans.is_empty(), "link these to a page that has the word: {orphans:?}");
}

/// The targets of `[text](target)`, outside of code.
fn link_targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let prose = line.split('`').step_by(2);
        for part in prose.flat_map(|part| part.split("](").skip(1)) {
            targets.extend(part.split_once(')').map(|(target, _)| target));
        }
        // A link whose text is code: the backtick closes before the target.
        for part in line.split("`](").skip(1) {
            targets.extend(part.split_once(')').map(|(target, _)| target));
        }
    }
    targets
}

/// The anchors of a document's headings, as Git hosts make them: lower case, spaces as hyphens, punctuation
/// left out.
fn headings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title
            .chars()
            .filter_map(|letter| match letter {
                ' ' => Some('-'),
                letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
                _ => None,
            })
            .collect()
    };
    lines.map(anchor).collect()
}

/// `path` as seen from the folder of `file`, without `.` and `..`.
fn relative(file: &str, path: &str) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
