//! Queries over `schema.sd`, and the resulting plans or errors: `plans.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use millrace_fixtures::cases;
use millrace_linguistics::SpecialTokens;
use millrace_plan::{Plan, PlanContext, check_groupings};
use millrace_query::simple::TermEnd;
use millrace_query::{Query, QueryLimits};
use millrace_schema::{Application, Schema};
use proptest::prelude::*;

fn schema() -> Arc<Schema> {
    let services = "<services><content id='mail'><documents><document type='mail' mode='streaming'/></documents></content></services>";
    let files = [("services.xml", services), ("schemas/mail.sd", include_str!("../schema.sd"))];
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect();
    let application = Application::from_files(files).expect("the schema of the tests is right");
    Arc::clone(&application.schemas["mail"])
}

/// Plan of conditions, or of a whole statement, in the group `me` by default.
fn plan(schema: &Arc<Schema>, input: &str, mut parameters: BTreeMap<String, String>) -> String {
    if !parameters.keys().any(|name| name.starts_with("streaming.")) {
        parameters.insert("streaming.groupname".to_owned(), "me".to_owned());
    }
    let whole = input.to_ascii_lowercase().starts_with("select");
    let yql = if whole { input.to_owned() } else { format!("select * from sources * where {input}") };
    parameters.insert("yql".to_owned(), yql);
    let mut special_tokens = SpecialTokens::default();
    special_tokens.add("C++", None);
    special_tokens.add("tcp/ip", Some("tcpip"));
    let context = PlanContext {
        special_tokens: &special_tokens,
        clock: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        known_elsewhere: &|name| match name {
            "elsewhere" => Some(TermEnd::Word),
            "marked" => Some(TermEnd::Terminator("@@".to_owned())),
            _ => None,
        },
        ..PlanContext::standalone()
    };
    let query = match Query::from_parameters(parameters, &QueryLimits::default()) {
        Ok(query) => query,
        Err(error) => return format!("! {error}"),
    };
    let plan = Plan::new(Arc::new(query), schema, &context);
    match plan.and_then(|plan| check_groupings(std::iter::once(&plan)).map(|()| plan)) {
        Ok(plan) => {
            let text = plan.to_string();
            text.lines().filter(|line| *line != "in g=me").collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn queries_are_planned_as_the_table_says() {
    let schema = schema();
    cases::check("tests/plans.txt", |input, parameters| plan(&schema, input, parameters));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_query_over_any_field_panics(
        field in prop::sample::select(vec!["subject", "folder", "date", "score", "read", "people", "person.name", "headers", "headers{a}", "headers.key",
            "place", "vector", "default", "mixed", "topics", "ids", "numbers", "nothing", "numbers[2]", "starts", "grams", "sddocname"]),
        condition in prop::sample::select(vec!["contains \"T\"", "contains ({prefix:true}\"T\")", "contains fuzzy(\"T\")", "matches \"T\"",
            "contains phrase(\"T\", \"x\")", "contains near(\"T\", \"x\", !\"T\")", "contains equiv(\"T\", phrase(\"a\", \"T\"))",
            "contains alternatives({\"T\": 1})", "contains text(\"T\")", "in (\"T\", \"5\")", "< 5", "= 1e300", "= true",
            "contains sameElement(name contains \"T\", age > 3)", "contains sameElement(\"T\")", "contains ({implicitTransforms: false}\"T\")"]),
        text in "[a-zA-Z0-9é .*+()\\[-]{0,8}",
    ) {
        let schema = schema();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = plan(&schema, &format!("{field} {}", condition.replace('T', &text)), BTreeMap::new());
        let _ = plan(&schema, &format!("dotProduct({field}, {{\"{text}\": 2}})"), BTreeMap::new());
        let _ = plan(&schema, &format!("({{defaultIndex: \"{field}\"}}userInput(\"{text}\"))"), BTreeMap::new());
    }
}
