//! Names of types say what they are by themselves, and comments read like a reference manual.

use std::collections::BTreeSet;

use millrace_tidy::{Workspace, defined_types};

/// Names that several crates share because they are always qualified by the crate.
const SHARED: [&str; 2] = ["Error", "Settings"];

/// Names that are defined once for each processor.
const BY_PROCESSOR: [&str; 1] = ["LoadWide"];

/// Type names of one word, in percent of all. They are the nouns of the field: `Document`, `Tensor`, `Store`.
const ONE_WORD_PERCENT_MAX: usize = 8;

/// Longest line of a comment, in columns.
const COMMENT_COLUMNS_MAX: usize = 110;

/// First words of doc comments that ask a question instead of naming a thing, in 1,000 doc lines at most.
const QUESTIONS_PER_MILLE_MAX: usize = 10;

const QUESTIONS: [&str; 9] = ["What", "Whether", "Who", "Whoever", "That", "Where", "How", "Why", "Which"];

/// Words that standard technical English does without, in 10,000 doc lines at most.
const DIALECT_PER_10_000_MAX: usize = 5;

const DIALECT: [&str; 7] = ["told", "nobody", "whoever", "anew", "somebody", "thereby", "whatever"];

#[test]
fn no_two_types_share_a_name() {
    let types = defined_types(&Workspace::open());
    let is_shared = |name: &str, files: &[String]| {
        files.len() > 1 && !SHARED.contains(&name) && !BY_PROCESSOR.contains(&name)
    };
    let shared = types.iter().filter(|(name, files)| is_shared(name, files));
    let shared: Vec<String> = shared.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    assert!(shared.is_empty(), "say what tells these from each other:\n{}", shared.join("\n"));
}

#[test]
fn few_types_are_named_by_one_word() {
    let types = defined_types(&Workspace::open());
    let all: usize = types.values().map(Vec::len).sum();
    let is_one_word = |name: &str| name.chars().skip(1).all(|letter| !letter.is_ascii_uppercase());
    let short: Vec<&String> = types.keys().filter(|name| is_one_word(name)).collect();
    let definitions: usize = short.iter().map(|name| types[*name].len()).sum();
    assert!(definitions * 100 <= all * ONE_WORD_PERCENT_MAX, "{definitions} of {all}: {short:?}");
}

#[test]
fn retired_names_stay_retired() {
    let types = defined_types(&Workspace::open());
    let retired: BTreeSet<&str> = include_str!("retired_names.txt").lines().collect();
    let back = types.iter().filter(|(name, _)| retired.contains(name.as_str()));
    let back: Vec<String> = back.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    assert!(back.is_empty(), "these names said nothing by themselves; qualify them:\n{}", back.join("\n"));
}

#[test]
fn comments_fit_the_width() {
    let workspace = Workspace::open();
    let mut wide = Vec::new();
    for file in workspace.files(".rs").filter(|file| file.starts_with("crates/")) {
        let text = workspace.text(file);
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            if !comment.starts_with("//") {
                is_code = false;
            } else if comment.contains("```") {
                is_code = !is_code;
            } else if !is_code && line.chars().count() > COMMENT_COLUMNS_MAX && comment.contains(' ') {
                wide.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "wrap at {COMMENT_COLUMNS_MAX} columns:\n{}", wide.join("\n"));
}

#[test]
fn doc_comments_state_facts() {
    let workspace = Workspace::open();
    let (mut lines, mut questions, mut dialect) = (0, Vec::new(), Vec::new());
    for file in workspace.files(".rs").filter(|file| file.starts_with("crates/") && !file.contains("/tidy/"))
    {
        for (number, line) in workspace.text(file).lines().enumerate() {
            let Some(doc) = line.trim_start().strip_prefix("///") else { continue };
            lines += 1;
            let words: Vec<&str> = doc.split_whitespace().collect();
            if words.first().is_some_and(|word| QUESTIONS.contains(word)) {
                questions.push(format!("{file}:{}", number + 1));
            }
            let bare = |word: &&str| word.trim_matches(|letter: char| !letter.is_alphabetic()).to_lowercase();
            if words.iter().any(|word| DIALECT.contains(&bare(word).as_str())) {
                dialect.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(
        questions.len() * 1_000 <= lines * QUESTIONS_PER_MILLE_MAX,
        "{} of {lines} doc lines begin with a question word:\n{}",
        questions.len(),
        questions.join("\n")
    );
    assert!(
        dialect.len() * 10_000 <= lines * DIALECT_PER_10_000_MAX,
        "{} of {lines} doc lines have a word of {DIALECT:?}:\n{}",
        dialect.len(),
        dialect.join("\n")
    );
}
