//! Random packages, queries, grouping requests and selections that Vespa's grammars accept: each is accepted,
//! or refused for a reason in docs/compatibility.md. `MILLRACE_FUZZ_CASES` sets their number for each
//! language.

use std::collections::{BTreeMap, BTreeSet};

use millrace_fuzz::{InputMutator, LANGUAGES, SentenceGrammar, SentenceRefusal};

const COMPATIBILITY: &str = include_str!("../../../../docs/compatibility.md");

/// The fragments of messages in the table of reasons.
fn reasons() -> Vec<&'static str> {
    let (_, table) =
        COMPATIBILITY.split_once("\n## Refused of what Vespa's grammars accept\n").expect("a section");
    let table = table.split_once("\n## ").map_or(table, |(table, _)| table);
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(fragment, _)| fragment).collect()
}

fn check(name: &str, default: u64) {
    let language = LANGUAGES.iter().find(|language| language.name == name).expect("a language of this name");
    let cases = std::env::var("MILLRACE_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    let grammar = SentenceGrammar::parse(language.grammar);
    let (reasons, nothing) = (reasons(), []);
    let mut random = InputMutator::new(&nothing, name.len() as u64);
    let (mut accepted, mut unknown, mut found) = (0, BTreeMap::new(), BTreeSet::new());
    let cases = cases.unwrap_or(default);
    for _ in 0..cases {
        let sentence = grammar.sentence(&mut random);
        let outcome = std::panic::catch_unwind(|| (language.check)(&sentence));
        let refusal = match outcome.unwrap_or_else(|_| panic!("this panics: {sentence}")) {
            Ok(()) => {
                accepted += 1;
                continue;
            }
            Err(SentenceRefusal(reason)) => reason,
        };
        match reasons.iter().find(|reason| refusal.contains(**reason)) {
            Some(reason) => {
                found.insert(*reason);
            }
            None => {
                unknown.entry(refusal).or_insert(sentence);
            }
        }
    }
    let shown: Vec<String> =
        unknown.iter().take(12).map(|(refusal, sentence)| format!("{refusal}\n    {sentence}")).collect();
    assert!(unknown.is_empty(), "{} reasons are not in the table:\n{}", unknown.len(), shown.join("\n"));
    println!("{name}: {accepted} of {cases} accepted; refused: {found:?}");
    assert!(accepted * 4 > cases * 3, "{accepted} of {cases} are accepted: {found:?}");
}

#[test]
fn schemas() {
    check("schema", 150);
}

#[test]
fn services() {
    check("services", 1000);
}

#[test]
fn yql() {
    check("yql", 3000);
}

#[test]
fn typed_text() {
    check("typed", 2000);
}

#[test]
fn grouping() {
    check("grouping", 3000);
}

#[test]
fn selections() {
    check("selection", 3000);
}
