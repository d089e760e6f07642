//! Marks of texts of which most words are only counted, beside those with all words compared.

use std::cell::Cell;
use std::iter;

use millrace_linguistics::TextLanguage;
use millrace_plan::PlanContext;
use millrace_query::{Query, QueryLimits};
use millrace_schema::{Application, Schema};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const SCHEMA: &str = "
schema text {
    document text {
        field stemmed type string { indexing: summary | index }
        field plain type string { indexing: summary | index
            stemming: none
            normalizing: none }
        field cased type string { indexing: summary | index
            match: cased }
        field grams type string { indexing: summary | index
            match { gram
                gram-size: 2 } }
        field limited type string { indexing: summary | index
            match { max-occurrences: 3 } }
    }
}";

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/></container>
<content id='text' version='1.0'><min-redundancy>1</min-redundancy>
<documents><document type='text' mode='streaming'/></documents></content></services>";

const FIELDS: &[&str] = &["stemmed", "plain", "cased", "grams", "limited"];

const LANGUAGES: &[&str] = &["en", "de", "fi", "fr", "hu", "nl", "ro", "ru", "tr", "ja"];

/// Words of texts and of queries. Many have a stem in common with others, or begin as it, in some language.
const WORDS: &str = "fly flies Flying budget BUDGETS plan planned planes man maan manen leri hope hopes \
    hopping hop café Cafés cafe naïve книга книгами 東京 x1 x a dying die sky skies negligent negligemment \
    négligent indulgence indulgent yksikko yksikön yksiko minimalism minimalist soggy hoosyggyal croyante \
    Haus Häuser";

/// Separators of words in texts.
const GAPS: &[&str] =
    &[" ", " ", " ", "\n", ", ", ".", "-", "_", " — ", "—", " ' ", "\u{301} ", "\u{ad}", ""];

fn schema() -> Arc<Schema> {
    let files = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.as_bytes().to_vec()),
        ("schemas/text.sd".to_owned(), SCHEMA.as_bytes().to_vec()),
    ]);
    let application = Application::from_files(files).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&application.schemas["text"])
}

/// Each kind of condition on a field, by two words.
fn condition(field: &str, kind: usize, [first, second]: [&str; 2]) -> String {
    let start: String = first.chars().take(2).collect();
    let operator = match kind {
        0 => return format!("{field} in ('{first}', '{second}')"),
        1 => return format!("weightedSet({field}, {{'{first}': 1, '{second}x': 2}})"),
        2 => format!("({{distance: 2}}near('{first}', !'{second}'))"),
        3 => format!("phrase('{first}', '{second}')"),
        4 => format!("({{distance: 3}}near('{first}', '{second}'))"),
        5 => format!("({{distance: 5}}onear('{first}', phrase('{second}', '{first}')))"),
        6 => format!("equiv('{first}', '{second}')"),
        7 => format!("({{prefix: true}}'{start}')"),
        8 => format!("({{suffix: true}}'{start}')"),
        9 => format!("({{substring: true}}'{start}')"),
        10 => format!("({{prefixLength: 2}}fuzzy('{first}'))"),
        11 => format!("({{stem: false}}'{first}')"),
        12 => format!("({{accentDrop: false}}'{first}')"),
        _ => format!("'{first}'"),
    };
    format!("{field} contains {operator}")
}

/// The plan of a query; `None` if the field does not take one of its conditions.
fn plan(schema: &Arc<Schema>, language: &str, condition: &str) -> Option<Plan> {
    let parameters = BTreeMap::from([
        ("yql".to_owned(), format!("select * from sources * where {condition}")),
        ("language".to_owned(), language.to_owned()),
        ("streaming.groupname".to_owned(), "me".to_owned()),
    ]);
    let query = Query::from_parameters(parameters, &QueryLimits::default())
        .unwrap_or_else(|error| panic!("{condition}: {error}"));
    Plan::new(Arc::new(query), schema, &PlanContext::standalone()).ok()
}

fn highlighter(schema: &Schema, plan: &Plan, language: &str, field: &str) -> FieldHighlighter {
    let analyzer = FieldAnalyzer::new(&schema.fields[field].matching, TextLanguage::from_tag(language));
    FieldHighlighter::new(plan, field, analyzer).expect("the patterns are right")
}

#[test]
fn time_is_asked_for_where_a_text_has_no_white_space() {
    let schema = schema();
    let plan = plan(&schema, "en", "stemmed contains 'budget'").expect("the field takes the condition");
    let highlighter = highlighter(&schema, &plan, "en", "stemmed");
    let text = "budget,".repeat(100_000);
    let asked = Cell::new(0);
    let marks = |times: usize| {
        let stop = || asked.replace(asked.get() + 1) >= times;
        highlighter.marks(&text, &stop).marks.len()
    };
    assert_eq!(marks(usize::MAX), 100_000);
    assert!(asked.take() >= text.len() / BYTES_PER_STOP);
    assert_eq!(marks(5), 0, "there are no marks once the time is over");
}

fn words() -> impl Strategy<Value = &'static str> {
    select(WORDS.split_whitespace().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn words_that_are_only_counted_change_no_marks(
        field in select(FIELDS),
        language in select(LANGUAGES),
        conditions in prop::collection::vec((0usize..16, [words(), words()]), 1..4),
        operator in select(vec![" and ", " or "]),
        text in prop::collection::vec((words(), select(GAPS)), 0..60),
        times in 1usize..30,
    ) {
        let schema = schema();
        let of_field = |(kind, words): &(usize, [&str; 2])| condition(field, *kind, *words);
        let condition = conditions.iter().map(of_field).collect::<Vec<_>>().join(operator);
        let Some(plan) = plan(&schema, language, &condition) else {
            return Err(TestCaseError::reject("the field does not take the condition"));
        };
        let text: String = text.iter().flat_map(|(word, gap)| [*word, *gap]).collect();
        let text = text.repeat(times);
        let mut highlighter = highlighter(&schema, &plan, language, field);
        let quick = format!("{:?}", highlighter.marks(&text, &|| false));
        highlighter.beginnings = highlighter.analyzer.beginnings(iter::empty(), iter::once(""));
        highlighter.outcomes = WordOutcomes::default();
        let plain = format!("{:?}", highlighter.marks(&text, &|| false));
        prop_assert_eq!(quick, plain, "{}: {}", condition, text);
    }
}
