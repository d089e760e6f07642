//! Passages of a text that a dynamic summary shows: the table of `passages.txt`.
//!
//! The text has 400 words (`w001` to `w400`, five bytes each with the space after it), and other words
//! instead of those at the places that the case says. A passage is shown as its first and its last word, with
//! the query's words in between in brackets.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::DocumentValue;
use millrace_fixtures::{cases, view};
use millrace_plan::{Plan, PlanContext};
use millrace_query::{Query, QueryLimits};
use millrace_result::FieldValue;
use millrace_schema::{Application, Schema, SnippetLengths};
use millrace_search::{HighlightStyle, HighlightStyles, SummaryFiller};
use millrace_tensor::Tensor;

const SCHEMA: &str = "
schema text {
    document text {
        field body type string { indexing: summary | index
            stemming: none
            summary: dynamic }
        field other type string { indexing: summary | index }
        field list type array<string> { indexing: summary | index
            stemming: none }
    }
    document-summary elements {
        summary matched { source: list
            matched-elements-only }
        summary snippets { source: list
            dynamic
            matched-elements-only }
        summary turned { source: list
            matched-elements-only
            dynamic }
        summary bold { source: list
            bolding: on
            matched-elements-only }
        summary selected { source: list
            dynamic
            select-elements-by: best }
        summary everything { source: list
            dynamic }
    }
}";

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/></container>
<content id='text' version='1.0'><min-redundancy>1</min-redundancy>
<documents><document type='text' mode='streaming'/></documents></content></services>";

pub(super) fn schema() -> Arc<Schema> {
    let files = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.as_bytes().to_vec()),
        ("schemas/text.sd".to_owned(), SCHEMA.as_bytes().to_vec()),
    ]);
    let application = Application::from_files(files).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&application.schemas["text"])
}

/// The numbered words with the words of `places` (`10 budget, 20 plan`) instead of those at these places.
fn text(places: &str) -> String {
    let mut words: Vec<String> = (1..=400).map(|number| format!("w{number:03}")).collect();
    for (place, word) in places.split(", ").filter_map(|place| place.split_once(' ')) {
        let place: usize = place.parse().expect("a place is a number");
        words[place - 1] = word.to_owned();
    }
    words.join(" ")
}

fn setting(parameters: &BTreeMap<String, String>, name: &str) -> Option<usize> {
    parameters.get(name).map(|number| number.parse().expect("a setting is a number"))
}

/// A passage by its first and its last word, and the words of the query in it.
fn outline(passage: &str) -> String {
    let words: Vec<&str> = passage.split_whitespace().collect();
    let marked = words
        .iter()
        .enumerate()
        .filter(|(at, word)| *at == 0 || *at + 1 == words.len() || word.contains("<hi>"));
    let shown: Vec<String> =
        marked.map(|(_, word)| word.replace("<hi>", "[").replace("</hi>", "]")).collect();
    shown.join(" ")
}

pub(super) fn plan(schema: &Arc<Schema>, yql: &str) -> Plan {
    let all = BTreeMap::from([
        ("yql".to_owned(), format!("select * from sources * where {yql}")),
        ("streaming.groupname".to_owned(), "me".to_owned()),
    ]);
    let query =
        Query::from_parameters(all, &QueryLimits::default()).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(Arc::new(query), schema, &PlanContext::standalone()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn passages_are_chosen_as_the_table_says() {
    let schema = schema();
    cases::check("tests/passages.txt", |yql, parameters| {
        let plan = plan(&schema, yql);
        let style = HighlightStyle::of(&SnippetLengths {
            length: setting(&parameters, "length"),
            max_matches: setting(&parameters, "max_matches"),
            min_length: setting(&parameters, "min_length"),
            surround_max: setting(&parameters, "surround_max"),
            window: setting(&parameters, "winsize"),
            max_candidates: setting(&parameters, "max_match_candidates"),
            prefix: parameters.get("prefix").map(|prefix| prefix == "true"),
        });
        let body = text(parameters.get("at").map_or("", String::as_str));
        let view = view(&schema, &[(BTreeMap::from([("body", DocumentValue::String(body))]), true)], 1);
        let filler = SummaryFiller::new(&plan, None, &style.into()).expect("the plan is right");
        let fields = filler.fill(&view, &[(0, 0)]).expect("it can be filled").remove(0);
        match fields.iter().find(|(name, _)| &**name == "body") {
            Some((_, FieldValue::Value(DocumentValue::String(text)))) => {
                text.split("<sep />").map(outline).collect::<Vec<_>>().join(" … ").trim().to_owned()
            }
            other => format!("{other:?}"),
        }
    });
}

/// Fields of the document summary `elements`. The elements are `plan` and a long one with `budget` at its
/// end.
#[rustfmt::skip]
const ELEMENTS: &[(&str, &str)] = &[
    ("matched", "LONG budget"),
    ("snippets", "<sep />w353 w354 w355 w356 w357 w358 w359 w360 w361 w362 w363 w364 w365 w366 w367 w368 w369 w370 w371 w372 w373 w374 w375 w376 w377 w378 w379 w380 w381 w382 w383 w384 w385 w386 w387 w388 w389 w390 w391 w392 w393 w394 w395 w396 w397 w398 w399 w400 <hi>budget</hi>"),
    ("turned", "<sep />w353 w354 w355 w356 w357 w358 w359 w360 w361 w362 w363 w364 w365 w366 w367 w368 w369 w370 w371 w372 w373 w374 w375 w376 w377 w378 w379 w380 w381 w382 w383 w384 w385 w386 w387 w388 w389 w390 w391 w392 w393 w394 w395 w396 w397 w398 w399 w400 <hi>budget</hi>"),
    ("bold", "LONG <hi>budget</hi>"),
    ("selected", "plan"),
    ("everything", "plan | <sep />w353 w354 w355 w356 w357 w358 w359 w360 w361 w362 w363 w364 w365 w366 w367 w368 w369 w370 w371 w372 w373 w374 w375 w376 w377 w378 w379 w380 w381 w382 w383 w384 w385 w386 w387 w388 w389 w390 w391 w392 w393 w394 w395 w396 w397 w398 w399 w400 <hi>budget</hi>"),
];

#[test]
fn elements_are_selected_and_their_texts_shown_in_any_form() {
    let schema = schema();
    let plan = plan(&schema, "list contains 'budget'");
    let texts = ["plan".to_owned(), format!("{} budget", text(""))];
    let list = DocumentValue::Array(texts.into_iter().map(DocumentValue::String).collect());
    let view = view(&schema, &[(BTreeMap::from([("list", list)]), true)], 1);
    let filler =
        SummaryFiller::new(&plan, Some("elements"), &HighlightStyles::default()).expect("the plan is right");
    let mut fields = filler.fill(&view, &[(0, 0)]).expect("it can be filled").remove(0);
    let best = Tensor::parse("tensor(x{}):{0:1}", None).expect("a tensor");
    filler.select_elements(&mut fields, |name| (name == "best").then_some(&best));
    let mut wrong = Vec::new();
    for (name, expected) in ELEMENTS {
        let shown = match fields.iter().find(|(field, _)| &**field == *name) {
            Some((_, FieldValue::Value(DocumentValue::Array(elements)))) => {
                let texts = elements.iter().map(|element| match element {
                    DocumentValue::String(text) => text.replace(&self::text(""), "LONG"),
                    other => format!("{other:?}"),
                });
                texts.collect::<Vec<_>>().join(" | ")
            }
            other => format!("{other:?}"),
        };
        if shown != *expected {
            wrong.push(format!("{name}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
