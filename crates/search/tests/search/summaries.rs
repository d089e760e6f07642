//! Queries over one mail, and the fields of its summary.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::{BytesBuilder, Column, ColumnKey, MemoryView, ValueBuilder, ViewChunk};
use millrace_document::DocumentValue;
use millrace_plan::{Plan, PlanContext};
use millrace_query::{Query, QueryLimits};
use millrace_result::FieldValue;
use millrace_schema::{Application, Schema, SnippetLengths, SnippetSettings, SummaryMarkup};
use millrace_search::{HighlightStyle, HighlightStyles, SummaryFields, SummaryFiller, fill};
use millrace_tensor::Tensor;
use proptest::prelude::*;

const SCHEMA: &str = "
schema mail {
    document mail {
        struct person { field name type string {} field age type int {} }
        field subject type string { indexing: summary | index
            bolding: on }
        field body type string { indexing: summary | index
            summary: dynamic }
        field notes type array<string> { indexing: summary | index
            bolding: on }
        field drafts type array<string> { indexing: summary | index
            summary: dynamic }
        field folder type string { indexing: summary | attribute }
        field size type int { indexing: summary | attribute }
        field labels type array<string> { indexing: summary | attribute
            summary: matched-elements-only }
        field votes type weightedset<string> { indexing: summary | attribute
            summary: matched-elements-only }
        field people type array<person> {
            indexing: summary
            summary: matched-elements-only
            struct-field name { indexing: attribute }
            struct-field age { indexing: attribute }
        }
        field chunks type array<string> { indexing: summary | index
            summary: select-elements-by: best_chunks }
        field hidden type string { indexing: index }
    }
    document-summary short {
        summary title { source: subject }
        summary documentid {}
    }
    document-summary named {
        summary key { source: documentid }
    }
    document-summary words {
        summary tokens_of_subject {
            source: subject
            tokens
        }
        summary tokens_of_notes {
            source: notes
            tokens
        }
    }
}";

/// Fields and a summary beside those of [`SCHEMA`].
const COMPOSED_FIELDS: &str = "
        field place type position { indexing: attribute | summary }
        field route type array<position> { indexing: attribute | summary }
        field authors type array<person> {
            indexing: summary
            struct-field name { indexing: index }
        }
        field ages type map<string, person> { indexing: summary }
";
const COMPOSED_SUMMARY: &str = "
    document-summary composed {
        summary all { source: folder, labels, people.name, size }
        summary names { source: people.name }
        summary people { source: people.name }
        summary ages { source: ages.value.age }
        summary snippet { source: subject, authors.name dynamic }
        summary bold { source: authors.name, subject bolding: on }
        summary nothing { source: votes.missing, hidden.missing }
        summary as_numbers { source: route_zcurve }
        summary as_number { source: place_zcurve }
        summary as_place type position { source: place_zcurve }
        summary as_route type array<position> { source: route_zcurve }
    }
";

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/></container>
<content id='mail' version='1.0'><min-redundancy>1</min-redundancy>
<documents><document type='mail' mode='streaming'/></documents></content></services>";

fn schema() -> Arc<Schema> {
    schema_of(SCHEMA)
}

fn schema_of(text: &str) -> Arc<Schema> {
    let files = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.as_bytes().to_vec()),
        ("schemas/mail.sd".to_owned(), text.as_bytes().to_vec()),
    ]);
    let application = Application::from_files(files).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&application.schemas["mail"])
}

fn strings(texts: &[&str]) -> DocumentValue {
    DocumentValue::Array(texts.iter().map(|text| DocumentValue::String((*text).to_owned())).collect())
}

fn person(name: &str, age: i32) -> DocumentValue {
    DocumentValue::Struct(vec![
        ("name".into(), DocumentValue::String(name.to_owned())),
        ("age".into(), DocumentValue::Int(age)),
    ])
}

fn position(latitude: i32, longitude: i32) -> DocumentValue {
    DocumentValue::Position { latitude: latitude * 1_000_000, longitude: longitude * 1_000_000 }
}

fn mail() -> Vec<(&'static str, DocumentValue)> {
    let filler = "Nothing of note happens in this sentence, which is only here to take up room. ";
    let body = format!(
        "Dear all, the budget is ready. {}The café serves lunch at noon. {}Please read the budget and the plan. {}Regards",
        filler.repeat(6),
        filler.repeat(6),
        filler.repeat(4),
    );
    vec![
        ("subject", DocumentValue::String("Meetings about the Budget: meeting <today>".to_owned())),
        ("body", DocumentValue::String(body)),
        ("notes", strings(&["the budget", "no more", "Budgets everywhere"])),
        ("drafts", strings(&["short budget draft", &format!("{0}{0}{0}budget{0}{0}", filler)])),
        ("folder", DocumentValue::String("inbox".to_owned())),
        ("size", DocumentValue::Int(7)),
        ("labels", strings(&["work", "home", "work"])),
        (
            "votes",
            DocumentValue::WeightedSet(vec![
                (DocumentValue::String("ann".to_owned()), 3),
                (DocumentValue::String("bob".to_owned()), 1),
            ]),
        ),
        ("people", DocumentValue::Array(vec![person("ann", 30), person("bob", 20), person("ann", 20)])),
        ("chunks", strings(&["zero", "one", "two"])),
        ("place", position(1, 2)),
        ("route", DocumentValue::Array(vec![position(1, 2), position(3, 4)])),
        ("authors", DocumentValue::Array(vec![person("Ann Budget", 1), person("Bob", 2)])),
        ("ages", DocumentValue::Map(vec![(DocumentValue::String("x".to_owned()), person("ann", 30))])),
        ("hidden", DocumentValue::String("secret".to_owned())),
    ]
}

fn view(schema: &Schema, documents: &[Vec<(&'static str, DocumentValue)>]) -> MemoryView {
    let mut view = MemoryView::new();
    for (number, documents) in documents.chunks(2).enumerate() {
        let mut ids = BytesBuilder::new();
        (0..documents.len())
            .for_each(|index| ids.push(Some(format!("id:ns:mail:g=me:{number}-{index}").as_bytes())));
        let columns = schema.fields.values().map(|field| {
            let mut builder = ValueBuilder::new(&field.data_type);
            for document in documents {
                let value = document.iter().find(|(name, _)| *name == &*field.name);
                builder.push(value.map(|(_, value)| value));
            }
            (ColumnKey::value(&field.name), builder.finish())
        });
        let columns = columns.chain([(ColumnKey::id(), Column::Bytes(ids.finish()))]);
        view.push(ViewChunk { documents: documents.len(), live: None }, columns);
    }
    view
}

fn plan(schema: &Arc<Schema>, yql: &str, parameters: &[(&str, &str)]) -> Plan {
    let yql = if yql.starts_with("select") {
        yql.to_owned()
    } else {
        format!("select * from sources * where {yql}")
    };
    let mut all =
        BTreeMap::from([("yql".to_owned(), yql), ("streaming.groupname".to_owned(), "me".to_owned())]);
    all.extend(parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let query =
        Query::from_parameters(all, &QueryLimits::default()).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(Arc::new(query), schema, &PlanContext::standalone()).unwrap_or_else(|error| panic!("{error}"))
}

fn show(value: &DocumentValue) -> String {
    match value {
        DocumentValue::String(text) => text.clone(),
        DocumentValue::Int(number) => number.to_string(),
        DocumentValue::Long(number) => number.to_string(),
        DocumentValue::Position { latitude, longitude } => format!("{latitude},{longitude}"),
        DocumentValue::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}={}", show(key), show(value)));
            entries.collect::<Vec<_>>().join(" ")
        }
        DocumentValue::Array(values) => {
            format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(" | "))
        }
        DocumentValue::WeightedSet(values) => {
            let values = values.iter().map(|(value, weight)| format!("{}:{weight}", show(value)));
            format!("{{{}}}", values.collect::<Vec<_>>().join(" "))
        }
        DocumentValue::Struct(members) => {
            members.iter().map(|(_, value)| show(value)).collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    }
}

fn field(fields: &SummaryFields, name: &str) -> String {
    match fields.iter().find(|(field, _)| &**field == name) {
        Some((_, FieldValue::Value(value))) => show(value),
        Some((_, other)) => format!("{other:?}"),
        None => "-".to_owned(),
    }
}

/// Checks one field of the mail, as returned by a query.
fn check(yql: &str, name: &str, expected: &str) {
    let schema = schema();
    let plan = plan(&schema, yql, &[]);
    let fields = fill(&plan, &view(&schema, &[mail()]), &[(0, 0)]).expect("it can be filled");
    assert_eq!(field(&fields[0], name), expected, "{yql}: {name}");
}

/// Sources of summary fields: several, members of structs, and positions by their numbers on a z-curve.
#[test]
fn summaries_are_composed_of_sources() {
    let (hidden, short) = ("field hidden", "document-summary short");
    let text = SCHEMA.replace(hidden, &format!("{COMPOSED_FIELDS}{hidden}"));
    let schema = schema_of(&text.replace(short, &format!("{COMPOSED_SUMMARY}{short}")));
    let query = "subject contains 'budget' or authors.name contains 'budget'";
    let plan = plan(&schema, query, &[("presentation.summary", "composed")]);
    let fields = fill(&plan, &view(&schema, &[mail()]), &[(0, 0)]).expect("it can be filled");
    for (name, expected) in [
        ("all", "inbox work home work ann bob ann 7"),
        ("names", "ann bob ann"),
        ("people", "[ann | bob | ann]"),
        ("ages", "x=30"),
        (
            "snippet",
            "Meetings about the <hi>Budget</hi>: meeting <today><sep />Ann <hi>Budget</hi><sep />Bob",
        ),
        ("bold", "Ann <hi>Budget</hi><sep />Bob<sep />Meetings about the <hi>Budget</hi>: meeting <today>"),
        ("nothing", "-"),
        ("as_numbers", "[2192045531136 | 15340019490816]"),
        ("as_number", "2192045531136"),
        ("as_place", "1000000,2000000"),
        ("as_route", "[1000000,2000000 | 3000000,4000000]"),
    ] {
        assert_eq!(field(&fields[0], name), expected, "{name}");
    }
}

#[test]
fn words_are_bolded() {
    let subject = "Meetings about the Budget: meeting <today>";
    check("true", "subject", subject);
    check("subject contains 'budget'", "subject", "Meetings about the <hi>Budget</hi>: meeting <today>");
    check(
        "subject contains 'meeting'",
        "subject",
        "<hi>Meetings</hi> about the Budget: <hi>meeting</hi> <today>",
    );
    check(
        "subject contains 'TODAY' and subject contains 'budgets'",
        "subject",
        "Meetings about the <hi>Budget</hi>: meeting <<hi>today</hi>>",
    );
    check(
        "subject contains phrase('the', 'budget')",
        "subject",
        "Meetings about <hi>the</hi> <hi>Budget</hi>: meeting <today>",
    );
    check("subject contains phrase('about', 'budget')", "subject", subject);
    check(
        "subject contains ({prefix:true} 'mee')",
        "subject",
        "<hi>Meetings</hi> about the Budget: <hi>meeting</hi> <today>",
    );
    // Words are stored as stems, but these queries match letters of the written form.
    check(
        "subject contains ({prefix:true} 'meetings')",
        "subject",
        "<hi>Meetings</hi> about the Budget: meeting <today>",
    );
    check(
        "subject contains ({substring:true} 'eting')",
        "subject",
        "Me<hi>eting</hi>s about the Budget: me<hi>eting</hi> <today>",
    );
    check(
        "subject contains ({substring:true} 'dget') and subject contains 'meeting'",
        "subject",
        "<hi>Meetings</hi> about the Bu<hi>dget</hi>: <hi>meeting</hi> <today>",
    );
    check("true and !(subject contains 'budget')", "subject", subject);
    check("subject contains ({filter:true} 'budget')", "subject", subject);
    check(
        "rank(folder contains 'inbox', subject contains 'budget')",
        "subject",
        "Meetings about the <hi>Budget</hi>: meeting <today>",
    );
    check("body contains 'budget'", "subject", subject);
    check(
        "notes contains 'budget'",
        "notes",
        "[the <hi>budget</hi> | no more | <hi>Budgets</hi> everywhere]",
    );
    check("folder contains 'inbox'", "folder", "inbox");
}

/// Conditions of all kinds, each with the words that are bold.
#[rustfmt::skip]
const BOLDED: &[(&str, &str)] = &[
    ("notes contains 'budgets'", "budget Budgets"),
    ("notes contains ({stem: false} 'budgets')", "Budgets"),
    ("notes contains 'BUDGET'", "budget Budgets"),
    ("notes contains ({prefix: true} 'bud')", "budget Budgets"),
    ("notes contains ({suffix: true} 'where')", "everywhere"),
    ("notes contains ({substring: true} 'very')", "very"),
    ("notes contains fuzzy('budgat')", "budget Budgets"),
    ("notes matches 'bud.*'", ""),
    ("notes in ('budget', 'more')", "budget more Budgets"),
    ("weightedSet(notes, {'budget': 1, 'more': 2})", "budget more Budgets"),
    ("notes contains phrase('the', 'budget')", "the budget"),
    ("notes contains phrase('no', 'budget')", ""),
    ("notes contains near('the', 'budget')", "the budget"),
    ("notes contains near('budget', 'the')", "the budget"),
    ("notes contains ({distance: 1} near('everywhere', 'budgets'))", "Budgets everywhere"),
    ("notes contains onear('the', 'budget')", "the budget"),
    ("notes contains onear('budget', 'everywhere')", "Budgets everywhere"),
    ("notes contains near('the', 'budget') and notes contains 'budget'", "the budget Budgets"),
    ("notes contains equiv('the', 'budget')", "the budget Budgets"),
    ("notes contains alternatives({'the': 1.0, 'budget': 0.5})", "the budget Budgets"),
    ("notes contains sameElement('the', 'budget')", "the budget Budgets"),
    ("notes contains 'the' and notes contains 'more'", "the more"),
    ("notes contains 'the' or notes contains 'nothing'", "the"),
    ("weakAnd(notes contains 'the', notes contains 'more')", "the more"),
    ("notes contains 'the' and !(notes contains 'nothing')", "the"),
    ("rank(notes contains 'the', notes contains 'more')", "the more"),
    ("notes contains ({filter: true} 'the') and notes contains 'more'", "more"),
    ("notes contains ({ranked: false} 'the')", ""),
    ("subject contains 'budget'", ""),
    ("{defaultIndex: 'notes'}userInput('the +more')", "the more"),
    ("{defaultIndex: 'notes', grammar: 'any'}userInput('the budget -nothing')", "the budget Budgets"),
];

#[test]
fn words_of_all_kinds_of_conditions_are_bolded() {
    let schema = schema();
    let view = view(&schema, &[mail()]);
    let mut wrong = Vec::new();
    for (yql, expected) in BOLDED {
        let plan = plan(&schema, yql, &[]);
        let fields = fill(&plan, &view, &[(0, 0)]).expect("it can be filled");
        let notes = field(&fields[0], "notes");
        let bold = notes.split("<hi>").skip(1).filter_map(|rest| rest.split_once("</hi>"));
        let bold: Vec<&str> = bold.map(|(word, _)| word).collect();
        if bold.join(" ") != *expected {
            wrong.push(format!("{yql}\t{}", bold.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn snippets_stand_around_words() {
    let schema = schema();
    let view = view(&schema, &[mail()]);
    let mut wrong = Vec::new();
    for (yql, name, expected) in SNIPPETS {
        let plan = plan(&schema, yql, &[]);
        let fields = fill(&plan, &view, &[(0, 0)]).expect("it can be filled");
        let shown = field(&fields[0], name);
        if shown != *expected {
            wrong.push(format!("{yql}: {name}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A query, a field, and its snippets.
#[rustfmt::skip]
const SNIPPETS: &[(&str, &str, &str)] = &[
    ("body contains 'cafe'", "body", "<sep />sentence, which is only here to take up room. Nothing of note happens in this sentence, which is only here to take up room. The <hi>café</hi> serves lunch at noon. Nothing of note happens in this sentence, which is only here to take up room. Nothing of note happens in<sep />"),
    ("body contains 'budget'", "body", "Dear all, the <hi>budget</hi> is ready. Nothing of note happens in this sentence, which is only here<sep />in this sentence, which is only here to take up room. Please read the <hi>budget</hi> and the plan. Nothing of note happens in this sentence, which is only<sep />"),
    ("body contains 'budget' and body contains 'cafe' and body contains 'plan'", "body", "<sep />this sentence, which is only here to take up room. The <hi>café</hi> serves lunch at noon. Nothing of note happens in this<sep />which is only here to take up room. Please read the <hi>budget</hi> and the <hi>plan</hi>. Nothing of note happens in this sentence, which is<sep />"),
    ("true", "body", "Dear all, the budget is ready. Nothing of note happens in this sentence, which is only here to take up room. Nothing of note happens in this sentence, which is only here to take up room. Nothing of note happens in this sentence, which is only here to take<sep />"),
    ("drafts contains 'draft'", "drafts", "[short budget <hi>draft</hi> | Nothing of note happens in this sentence, which is only here to take up room. Nothing of note happens in this sentence, which is only here to take up room. Nothing of note happens in this sentence, which is only here to take up room. budgetNothing of note<sep />]"),
];

#[test]
fn only_matched_elements_are_shown() {
    check("labels contains 'work'", "labels", "[work | work]");
    check("labels contains 'home'", "labels", "[home]");
    check("true", "labels", "-");
    check("votes contains 'ann'", "votes", "{ann:3}");
    check("people.name contains 'ann'", "people", "[ann 30 | ann 20]");
    check("people contains sameElement(name contains 'ann', age = 20)", "people", "[ann 20]");
    check("folder contains 'inbox' and !(labels contains 'x')", "labels", "-");
}

#[test]
fn summaries_say_which_fields() {
    let schema = schema();
    let view = view(&schema, &[mail()]);
    let names = |yql: &str, parameters: &[(&str, &str)]| {
        let plan = plan(&schema, yql, parameters);
        let fields = fill(&plan, &view, &[(0, 0)]).expect("it can be filled");
        fields[0].iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names("labels contains 'work'", &[]),
        "sddocname documentid subject body notes drafts folder size labels chunks title"
    );
    assert_eq!(names("true", &[("presentation.summary", "short")]), "sddocname documentid title");
    assert_eq!(names("true", &[("presentation.summary", "named")]), "sddocname key");
    assert_eq!(names("select key from sources * where true", &[("presentation.summary", "named")]), "key");
    assert_eq!(names("select folder, documentid from sources * where true", &[]), "documentid folder");
    // What the request names and the summary lacks is returned as in the default summary.
    let named = [("presentation.summary", "named")];
    assert_eq!(names("select folder, documentid from sources * where true", &named), "documentid folder");
    let plan = plan(&schema, "subject contains 'budget'", &[("presentation.summary", "words")]);
    let fields = fill(&plan, &view, &[(0, 0)]).expect("it can be filled");
    assert_eq!(field(&fields[0], "tokens_of_subject"), "[meet | about | the | budget | meet | today]");
    assert_eq!(field(&fields[0], "tokens_of_notes"), "[[the | budget] | [no | more] | [budget | everywher]]");
    let Err(error) = SummaryFiller::new(&plan, Some("long"), &HighlightStyles::default()) else {
        panic!("no such summary")
    };
    assert_eq!(
        error.to_string(),
        "schema 'mail' has no document-summary 'long'; it has attributeprefetch, default, named, short, words"
    );
}

#[test]
fn bolding_can_be_switched_off_and_styled() {
    let schema = schema();
    let view = view(&schema, &[mail()]);
    let off = plan(&schema, "subject contains 'budget'", &[("presentation.bolding", "false")]);
    let fields = fill(&off, &view, &[(0, 0)]).expect("it can be filled");
    assert_eq!(field(&fields[0], "subject"), "Meetings about the Budget: meeting <today>");
    let drafts = plan(&schema, "drafts contains 'budget'", &[("presentation.bolding", "false")]);
    let fields = fill(&drafts, &view, &[(0, 0)]).expect("it can be filled");
    let shown = field(&fields[0], "drafts");
    assert!(shown.starts_with("[short budget draft | ") && !shown.contains("<hi>"), "{shown}");
    let on = plan(&schema, "subject contains 'budget'", &[]);
    let style = HighlightStyle { open: "*".to_owned(), close: "*".to_owned(), ..HighlightStyle::default() };
    let filler = SummaryFiller::new(&on, None, &style.into()).expect("the plan is right");
    let fields = filler.fill(&view, &[(0, 0)]).expect("it can be filled");
    assert_eq!(field(&fields[0], "subject"), "Meetings about the *Budget*: meeting <today>");
    let markup = SummaryMarkup { open: Some("[".to_owned()), close: Some("]".to_owned()), separator: None };
    let settings = SnippetSettings { markup, ..SnippetSettings::default() };
    let filler = SummaryFiller::new(&on, None, &HighlightStyles::of(&settings)).expect("the plan is right");
    let fields = filler.fill(&view, &[(0, 0)]).expect("it can be filled");
    assert_eq!(field(&fields[0], "subject"), "Meetings about the [Budget]: meeting <today>");
}

#[test]
fn a_snippet_without_words_is_the_beginning_or_nothing() {
    let schema = schema();
    let view = view(&schema, &[mail()]);
    let plan = plan(&schema, "subject contains 'budget'", &[]);
    let shown = |prefix| {
        let style = HighlightStyle { prefix, length: 20, min_length: 10, ..HighlightStyle::default() };
        let filler =
            SummaryFiller::new(&plan, None, &HighlightStyles { usual: style, ..HighlightStyles::default() })
                .expect("the plan is right");
        field(&filler.fill(&view, &[(0, 0)]).expect("it can be filled")[0], "body")
    };
    assert_eq!(shown(true), "Dear all, the budget<sep />");
    assert_eq!(shown(false), "");
}

#[test]
fn summary_fields_of_one_source_have_forms_of_their_own() {
    let forms = "document-summary forms {
        summary bold { source: body bolding: on }
        summary snippet { source: body dynamic }
    }
    document-summary words {";
    let schema = schema_of(&SCHEMA.replacen("document-summary words {", forms, 1));
    let plan = plan(&schema, "body contains 'budget'", &[]);
    let filler = SummaryFiller::new(&plan, Some("forms"), &HighlightStyles::default()).expect("it is there");
    let fields = filler.fill(&view(&schema, &[mail()]), &[(0, 0)]).expect("it can be filled").remove(0);
    let body = mail().into_iter().find_map(|(name, value)| match value {
        DocumentValue::String(text) if name == "body" => Some(text),
        _ => None,
    });
    let body = body.expect("a mail has a body");
    assert_eq!(field(&fields, "bold"), body.replace("budget", "<hi>budget</hi>"));
    let snippet = field(&fields, "snippet");
    assert!(snippet.contains("the <hi>budget</hi> is ready") && snippet.len() < body.len(), "{snippet}");
}

/// Settings of snippets, each with the snippets of a text that has the word six times.
#[rustfmt::skip]
const LENGTHS: &[(SnippetLengths, &str)] = &[
    (SnippetLengths { length: Some(120), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it<sep />it. Sentence 4 has the <hi>budget</hi> and some words after it<sep />"),
    (SnippetLengths { length: Some(120), max_matches: Some(1), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it. Sentence 2 has the <hi>budget</hi> and some words after it. Sentence<sep />"),
    (SnippetLengths { length: Some(120), max_matches: Some(0), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it. Sentence 2 has the <hi>budget</hi> and some words after it. Sentence<sep />"),
    (SnippetLengths { length: Some(120), max_matches: Some(2), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it<sep />it. Sentence 4 has the <hi>budget</hi> and some words after it<sep />"),
    (SnippetLengths { length: Some(60), max_matches: Some(2), surround_max: Some(10), min_length: Some(0), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words<sep />Sentence 4 has the <hi>budget</hi> and some words<sep />"),
    (SnippetLengths { length: Some(60), max_matches: Some(2), surround_max: Some(10), min_length: Some(60), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words<sep />Sentence 4 has the <hi>budget</hi> and some words<sep />"),
    (SnippetLengths { length: Some(60), max_matches: Some(2), surround_max: Some(10), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words<sep />Sentence 4 has the <hi>budget</hi> and some words<sep />"),
    (SnippetLengths { length: Some(20), max_matches: Some(1), ..NO_LENGTHS }, "<sep />1 has the <hi>budget</hi> and some<sep />"),
    (SnippetLengths { length: Some(0), ..NO_LENGTHS }, "<sep />1 has the <hi>budget</hi> and some<sep />4 has the <hi>budget</hi> and some<sep />"),
    (SnippetLengths { length: Some(273), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it. Sentence 2 has the <hi>budget</hi> and some words after it. Sentence 3 has the <hi>budget</hi> and some words after it. Sentence 4 has the <hi>budget</hi> and some words after it. Sentence 5 has the <hi>budget</hi> and some words after it<sep />"),
    (SnippetLengths { length: Some(274), ..NO_LENGTHS }, "Sentence 1 has the <hi>budget</hi> and some words after it. Sentence 2 has the <hi>budget</hi> and some words after it. Sentence 3 has the <hi>budget</hi> and some words after it. Sentence 4 has the <hi>budget</hi> and some words after it. Sentence 5 has the <hi>budget</hi> and some words after it. Sentence 6 has the <hi>budget</hi> and some words after it."),
];

const NO_LENGTHS: SnippetLengths = SnippetLengths {
    max_matches: None,
    length: None,
    surround_max: None,
    min_length: None,
    prefix: None,
    window: None,
    max_candidates: None,
};

#[test]
fn snippets_have_the_lengths_of_their_settings() {
    let schema = schema();
    let text: String =
        (1..=6).map(|number| format!("Sentence {number} has the budget and some words after it. ")).collect();
    let text = text.trim_end();
    assert_eq!(text.len(), 305);
    let view = view(&schema, &[vec![("body", DocumentValue::String(text.to_owned()))]]);
    let plan = plan(&schema, "body contains 'budget'", &[]);
    let mut wrong = Vec::new();
    for (lengths, expected) in LENGTHS {
        let style = HighlightStyle::of(lengths);
        let filler = SummaryFiller::new(&plan, None, &style.into()).expect("the plan is right");
        let shown = field(&filler.fill(&view, &[(0, 0)]).expect("it can be filled")[0], "body");
        if shown != *expected {
            wrong.push(format!("{lengths:?}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn elements_are_selected_by_a_summary_feature() {
    let schema = schema();
    let plan = plan(&schema, "true", &[]);
    let filler = SummaryFiller::new(&plan, None, &HighlightStyles::default()).expect("the plan is right");
    let mut fields = filler.fill(&view(&schema, &[mail()]), &[(0, 0)]).expect("it can be filled").remove(0);
    let best = Tensor::parse("tensor(chunk{}):{2:0.5,0:0.25}", None).expect("a tensor");
    filler.select_elements(&mut fields, |name| (name == "best_chunks").then_some(&best));
    assert_eq!(field(&fields, "chunks"), "[zero | two]");
}

#[test]
fn hits_of_many_chunks_keep_their_order() {
    let schema = schema();
    let documents: Vec<_> = (0..5).map(|size| vec![("size", DocumentValue::Int(size))]).collect();
    let plan = plan(&schema, "true", &[]);
    let places = [(2, 0), (0, 1), (1, 1), (0, 0)];
    let filled = fill(&plan, &view(&schema, &documents), &places).expect("they can be filled");
    let shown: Vec<String> = filled
        .iter()
        .map(|fields| format!("{} {}", field(fields, "documentid"), field(fields, "size")))
        .collect();
    assert_eq!(
        shown,
        ["id:ns:mail:g=me:2-0 4", "id:ns:mail:g=me:0-1 1", "id:ns:mail:g=me:1-1 3", "id:ns:mail:g=me:0-0 0"]
    );
    assert_eq!(filled[0].len(), 3, "fields without a value are not shown");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A snippet without markup consists of parts of the text in order, and is not much longer than the
    /// target length.
    #[test]
    fn snippets_are_parts_of_the_text(text in "(budget|plan|é|日本語|[a-z]{1,12}|[ ]{1,3}|\\.|\n){0,120}") {
        let schema = schema();
        let plan = plan(&schema, "body contains 'budget' or body contains 'plan'", &[]);
        let view = view(&schema, &[vec![("body", DocumentValue::String(text.clone()))]]);
        let fields = fill(&plan, &view, &[(0, 0)]).expect("it can be filled");
        let snippet = field(&fields[0], "body").replace("<hi>", "").replace("</hi>", "");
        let mut rest = text.as_str();
        for part in snippet.split("<sep />") {
            let at = rest.find(part);
            prop_assert!(at.is_some(), "{part:?} is in {rest:?}");
            rest = &rest[at.unwrap_or_default() + part.len()..];
        }
        prop_assert!(text.len() <= 256 || snippet.replace("<sep />", "").len() <= 2 * 256 + 64);
    }
}
