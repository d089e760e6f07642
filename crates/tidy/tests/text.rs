//! Links lead somewhere, names on the map exist, files stay short.

use millrace_tidy::Workspace;

/// Longest file of logic, in lines. Tables of data and generated lists are exempt by name.
const FILE_LINES_MAX: usize = 620;

/// Files that are one long table.
const TABLES: [&str; 5] = [
    "crates/schema/tests/services.rs",
    "crates/expression/tests/slow/mod.rs",
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

/// Names in backticks that begin with a crate's name, such as `store::view`, are defined in that crate.
#[test]
fn names_on_the_map_exist() {
    let workspace = Workspace::open();
    let map = workspace.text("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for name in map.split('`').skip(1).step_by(2).filter(|name| name.contains("::")) {
        let mut segments = name.split("::");
        let room = segments.next().expect("a split has one part at least");
        let Some(last) = segments.last() else { continue };
        let last = last.trim_end_matches("()");
        let folder = format!("crates/{room}/src/");
        if !workspace.exists(&folder) {
            continue;
        }
        let sources = workspace.files(".rs").filter(|file| file.starts_with(&folder));
        let is_module =
            |file: &str| file.ends_with(&format!("/{last}.rs")) || file.contains(&format!("/{last}/"));
        let is_there = |file: &str| is_module(file) || defines(&workspace.text(file), last);
        if !sources.into_iter().any(is_there) {
            missing.push(name.to_owned());
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:?}");
}

/// True if a source defines `name` as an item or a variant.
fn defines(source: &str, name: &str) -> bool {
    let is_item = |line: &str| {
        ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod "].iter().any(|keyword| {
            let after = line.split_once(keyword).map(|(_, after)| after);
            after.and_then(|after| after.strip_prefix(name)).is_some_and(ends_name)
        })
    };
    let is_variant = |line: &str| {
        line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with([',', '(', ' ']))
    };
    source.lines().any(|line| is_item(line) || is_variant(line))
}

fn ends_name(rest: &str) -> bool {
    !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
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
