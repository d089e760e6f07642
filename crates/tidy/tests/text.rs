//! Links lead somewhere, files stay short, messages are plain, and lists in documents are complete.

use millrace_tidy::{Workspace, is_product, product_lines};

/// Longest file of logic, in lines. Tables of data and generated lists are exempt by name.
const FILE_LINES_MAX: usize = 620;

/// Files that are one long table.
const TABLES: [&str; 5] = [
    "crates/schema/tests/schema/services.rs",
    "crates/expression/tests/expression/slow.rs",
    "crates/server/src/cli.rs",
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

/// Text for people that is no message: the sentences of generated mails.
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
            if denies || words.any(|word| DIALECT.contains(&word)) {
                odd.push(format!("{file}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(odd.is_empty(), "say it in the words of a manual:\n{}", odd.join("\n"));
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
