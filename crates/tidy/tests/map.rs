//! ARCHITECTURE.md and CONTRIBUTING.md name what exists: functions on the journeys, tests behind each rule.

use millrace_tidy::{Workspace, quoted_names, section};

/// Documents whose names in backticks are checked.
const DOCUMENTS: [&str; 5] =
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design.md", "docs/extending.md", "docs/debugging.md"];

/// Journeys of ARCHITECTURE.md, whose steps name their functions.
const JOURNEYS: [&str; 3] = ["## A document's path", "## A query's path", "### Data moving"];

/// Tables of rules, each with the test or type that holds it in the second column.
const HELD: [(&str, &str); 2] =
    [("ARCHITECTURE.md", "## Invariants"), ("CONTRIBUTING.md", "## What tests hold")];

#[test]
fn names_in_documents_exist() {
    let workspace = Workspace::open();
    let crates = workspace.crates();
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        for name in quoted_names(&workspace.text(document)) {
            let (room, _) = name.split_once("::").expect("a quoted name has a path");
            let is_there = match crates.iter().any(|name| name == room) {
                true => workspace.defines(name),
                // A path within some crate, such as `Store::divide`.
                false => crates.iter().any(|room| workspace.defines(&format!("{room}::{name}"))),
            };
            if !is_there {
                missing.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "these are not in the sources:\n{}", missing.join("\n"));
}

#[test]
fn every_step_of_a_journey_names_a_function() {
    let workspace = Workspace::open();
    let map = workspace.text("ARCHITECTURE.md");
    let mut silent = Vec::new();
    for journey in JOURNEYS {
        let steps = steps(section(&map, journey));
        assert!(steps.len() >= 5, "{journey} has {} steps", steps.len());
        for step in steps {
            if !quoted_names(&step).any(|name| workspace.defines_function(name)) {
                silent.push(format!("{journey}: {}", step.trim()));
            }
        }
    }
    assert!(silent.is_empty(), "name the function of these steps:\n{}", silent.join("\n"));
}

#[test]
fn every_rule_names_what_holds_it() {
    let workspace = Workspace::open();
    let mut wrong = Vec::new();
    for (document, heading) in HELD {
        let text = workspace.text(document);
        let rows = section(&text, heading).lines().filter(|line| line.starts_with("| "));
        let rows: Vec<&str> = rows.skip(1).collect();
        assert!(rows.len() >= 8, "{document}: {heading} has {} rows", rows.len());
        for row in rows {
            let holder = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or(row);
            let mut names = quoted_names(holder).peekable();
            if names.peek().is_none() || !names.all(|name| workspace.defines(name)) {
                wrong.push(format!("{document}: {row}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "name the test or type that holds these, or delete them:\n{}",
        wrong.join("\n")
    );
}

/// The numbered steps of a section, each with the lines that continue it.
fn steps(section: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in section.lines() {
        let is_step = line.starts_with(|first: char| first.is_ascii_digit()) && line.contains(". ");
        match steps.last_mut() {
            _ if is_step => steps.push(line.to_owned()),
            Some(step) if line.starts_with("   ") => step.push_str(line),
            _ => {}
        }
    }
    steps
}
