//! YQL as text, and the resulting tree as text: `yql.txt`.

use millrace_fixtures::cases;
use millrace_query::{Query, QueryLimits, QuerySources, SortOrder};

/// Prints all settings of a whole statement, or the tree of conditions.
fn run(input: &str, mut parameters: std::collections::BTreeMap<String, String>) -> String {
    let whole = input.to_ascii_lowercase().starts_with("select");
    let yql = if whole { input.to_owned() } else { format!("select * from sources * where {input}") };
    parameters.insert("yql".to_owned(), yql);
    let query = match Query::from_parameters(parameters, &QueryLimits::default()) {
        Ok(query) => query,
        Err(error) => return format!("! {error}"),
    };
    let mut lines = vec![query.root.to_string()];
    if !whole {
        return lines.remove(0);
    }
    match &query.sources {
        QuerySources::All => {}
        QuerySources::Named(names) => lines.push(format!("from {}", names.join(" "))),
        QuerySources::Restricted { schemas, within } => {
            lines.push(format!("restrict {} of {}", schemas.join(" "), within.join(" ")));
        }
    }
    if !query.presentation.fields.is_empty() {
        lines.push(format!("fields {}", query.presentation.fields.join(" ")));
    }
    for key in &query.sorting {
        let order = match key.order {
            Some(SortOrder::Ascending) => "up ",
            Some(SortOrder::Descending) => "down ",
            None => "",
        };
        let function =
            key.function.as_ref().map(|(name, arguments)| format!(" {name}({})", arguments.join(",")));
        let missing = key
            .missing
            .as_ref()
            .map(|(policy, value)| format!(" missing {policy} {}", value.clone().unwrap_or_default()));
        lines.push(format!(
            "sort {order}{}{}{}",
            key.field,
            function.unwrap_or_default(),
            missing.unwrap_or_default()
        ));
    }
    let usual = QueryLimits::default();
    if (query.hits, query.offset, query.timeout) != (usual.default_hits, 0, usual.default_timeout) {
        lines.push(format!("hits {} offset {} timeout {:?}", query.hits, query.offset, query.timeout));
    }
    lines.extend(query.grouping.iter().map(|request| format!("group {request}")));
    lines.join("\n")
}

#[test]
fn statements_mean_what_the_table_says() {
    cases::check("tests/yql.txt", run);
}

#[test]
fn items_have_a_short_form() {
    for (condition, expected) in [
        (
            "title contains 'a' and (default contains 'b' or c contains phrase('x', 'y'))",
            "AND title:a (OR b c:\"x y\")",
        ),
        ("true and !(a contains 'x')", "+TRUE -a:x"),
        ("rank(a contains 'x', b contains ({prefix:true}'y'))", "RANK a:x b:y*"),
        ("weakAnd(a contains 'x', range(n, 1, 5))", "WEAKAND a:x n:[1;5]"),
        ("n > 5 or n <= 3 or n = 4", "OR n:>5 n:[;3] n:4"),
        ("a contains near('x', 'y') or a contains equiv('x', 'y')", "OR a:NEAR(2){a:x a:y} a:EQUIV{a:x a:y}"),
        ("people contains sameElement(name contains 'x')", "people:{name:x}"),
        ("wand(t, {'x': 2}) or t in ('y', 'z') or t matches 'q'", "OR t:WAND{x:2} t:IN(y,z) t:/q/"),
        ("userInput('a b')", "\"a b\""),
    ] {
        let yql = format!("select * from sources * where {condition}");
        let parameters = std::collections::BTreeMap::from([("yql".to_owned(), yql)]);
        let query =
            Query::from_parameters(parameters, &QueryLimits::default()).expect("the condition is right");
        assert_eq!(millrace_query::BriefItem(&query.root).to_string(), expected, "{condition}");
    }
}
