//! Queries and texts that repeat a word, on which an algorithm that compares each word with each takes
//! minutes.

use std::cell::Cell;
use std::collections::BTreeMap;

use millrace_document::DocumentValue;
use millrace_fixtures::view;
use millrace_result::FieldValue;
use millrace_search::{HighlightStyles, SummaryFiller};

use super::passages::{plan, schema};

/// The snippet of a body that a query gets. `stop` says when time is over.
fn snippet(yql: &str, body: &str, stop: &dyn Fn() -> bool) -> String {
    let schema = schema();
    let plan = plan(&schema, yql);
    let document = BTreeMap::from([("body", DocumentValue::String(body.to_owned()))]);
    let view = view(&schema, &[(document, true)], 1);
    let filler = SummaryFiller::new(&plan, None, &HighlightStyles::default()).expect("the plan is right");
    let fields = filler.until(stop).fill(&view, &[(0, 0)]).expect("it can be filled").remove(0);
    match fields.into_iter().find(|(name, _)| &**name == "body") {
        Some((_, FieldValue::Value(DocumentValue::String(text)))) => text,
        other => panic!("the body is {other:?}"),
    }
}

/// The words of a snippet that are marked.
fn marked(snippet: &str) -> Vec<&str> {
    snippet.split("<hi>").skip(1).filter_map(|rest| rest.split_once("</hi>")).map(|(word, _)| word).collect()
}

/// So many times `word`, and `last`, as the arguments of an operator.
fn repeated(word: &str, count: usize, last: &str) -> String {
    format!("{}'{last}'", format!("'{word}', ").repeat(count))
}

#[test]
fn snippets_of_repetitive_texts_show_what_the_query_looks_for() {
    let wide: Vec<String> = (0..2000).map(|number| format!("body contains 'w{number}'")).collect();
    let wide_text: String = (0..20_000).map(|number| format!("w{} ", number % 2000)).collect();
    let phrase = format!("body contains phrase({})", repeated("re", 1999, "foo"));
    let other = phrase.replace("'foo'", "'bar'");
    let cases = [
        // A phrase that nearly matches everywhere, and matches once.
        (phrase.clone(), format!("{0}foo {0}", "re ".repeat(9000)), "re", "foo", Some(2000)),
        (format!("{phrase} or {other}"), format!("{0}bar {0}", "re ".repeat(9000)), "re", "bar", Some(2000)),
        // One that matches everywhere.
        (
            format!("body contains phrase({})", repeated("re", 999, "re")),
            "re ".repeat(18_000),
            "re",
            "re",
            None,
        ),
        (
            format!("body contains ({{distance: 300}}near({}))", repeated("re", 200, "foo")),
            format!("foo {}", "re ".repeat(18_000)),
            "foo",
            "re",
            None,
        ),
        (
            format!("body contains ({{distance: 300}}onear({}))", repeated("re", 200, "foo")),
            format!("{}foo {}", "re ".repeat(200), "re ".repeat(18_000)),
            "re",
            "re",
            None,
        ),
        (wide.join(" or "), wide_text, "", "", None),
    ];
    for (yql, body, first, last, count) in cases {
        let snippet = snippet(&yql, &body, &|| false);
        let marked = marked(&snippet);
        let start = &yql[..yql.len().min(60)];
        assert!(!marked.is_empty(), "nothing is marked for {start}");
        if !first.is_empty() {
            let ends = (marked.first(), marked.last());
            assert_eq!(ends, (Some(&first), Some(&last)), "the marked words for {start}");
        }
        if let Some(count) = count {
            assert_eq!(marked.len(), count, "the number of marked words for {start}");
        }
    }
}

#[test]
fn a_text_has_no_marks_once_time_is_over() {
    let body = "the budget ".repeat(20_000);
    let calls = Cell::new(0);
    let stop_at = |call: usize| {
        calls.set(0);
        let stop = || {
            calls.set(calls.get() + 1);
            calls.get() >= call
        };
        snippet("body contains 'budget'", &body, &stop)
    };
    let whole = stop_at(usize::MAX);
    assert!(whole.starts_with("the <hi>budget</hi>"), "{whole}");
    let questions = calls.get();
    assert!(questions > 1, "a long text is not asked for the time within it");
    for call in 1..=questions {
        let cut = stop_at(call);
        assert!(cut.starts_with("the budget the budget") && !cut.contains("<hi>"), "{cut}");
    }
}
