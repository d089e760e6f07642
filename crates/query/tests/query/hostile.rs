//! No request makes the parsers panic, overflow the stack, or take long.

use std::collections::BTreeMap;

use millrace_query::{Query, QueryGrammar, QueryItem, QueryLimits, UserText, flatten, simple, sorting};
use proptest::prelude::*;

fn run(name: &str, text: &str) -> Result<Query, millrace_query::Error> {
    let parameters = BTreeMap::from([(name.to_owned(), text.to_owned()), ("p".to_owned(), text.to_owned())]);
    Query::from_parameters(parameters, &QueryLimits::default())
}

fn read(text: &str, grammar: &str) {
    let text = UserText {
        field: "default".to_owned(),
        text: text.to_owned(),
        grammar: QueryGrammar::from_type(grammar).expect("the table below has types only"),
        filter: Some(text.to_owned()),
        allow_empty: false,
        target_hits: 10,
        distance: 2,
        annotations: Default::default(),
    };
    let end = |name: &str| match name.len() {
        1 => Some(simple::TermEnd::Word),
        2 => Some(simple::TermEnd::Blank),
        3 => Some(simple::TermEnd::Terminator("!".to_owned())),
        _ => None,
    };
    let special = simple::SpecialTokenRules {
        at_start: &|text| {
            ["a b", "++", "(", "\""]
                .iter()
                .find_map(|token| text.starts_with(token).then(|| (token.len(), "x".to_owned())))
        },
        inside_words: grammar == "all",
    };
    let _ = simple::parse(&text, &end, special);
    let _ = simple::parse(&text, &end, simple::SpecialTokenRules::NONE);
}

/// Text made of tokens of the languages, which reaches deeper into the parsers than random text.
fn parts() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "select ",
        "* ",
        "from ",
        "sources ",
        "where ",
        "true ",
        "a ",
        "contains ",
        "matches ",
        "in ",
        "and ",
        "or ",
        "!",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ";",
        "\"x\" ",
        "'",
        "\"",
        "\\",
        "= ",
        "< ",
        ">= ",
        "5",
        "-",
        ".",
        "1e9 ",
        "@p ",
        "range",
        "phrase",
        "near",
        "sameElement",
        "wand",
        "nearestNeighbor",
        "userInput",
        "order by ",
        "limit ",
        "| ",
        "all(",
        "é",
        "\u{1F600}",
        "targetHits",
        "+",
        "lowercase(",
        "*",
        "OR ",
        "ANDNOT ",
        "NEAR(",
        "ab:",
        "abc:",
        "a:",
        "weight: ",
        "/*",
        "//",
        "\n",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(text in prop_oneof![parts(), ".{0,60}"]) {
        for name in ["yql", "query", "select", "sorting", "timeout", "ranking.freshness"] {
            let _ = run(name, &text);
        }
        for start in ["select * from sources * where ", "select * from sources * where a contains ", "select * from sources * where true "] {
            let _ = run("yql", &format!("{start}{text}"));
        }
        for grammar in ["all", "any", "weakAnd", "web", "phrase", "adv"] {
            read(&text, grammar);
        }
        let _ = sorting::parse(&text);
        let _ = flatten(text.as_bytes(), 1000);
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, inner: &str, close: &str| {
        format!("select * from sources * where {}{inner}{}", open.repeat(100_000), close.repeat(100_000))
    };
    for (open, inner, close) in [
        ("(", "true", ")"),
        ("!", "true", ""),
        ("!(", "true", ")"),
        ("rank(", "true", ")"),
        ("{a:", "1", "}"),
        ("[", "1", "]"),
        ("{a:1}", "true", ""),
        ("a contains sameElement(", "\"x\"", ")"),
        ("a contains (", "\"x\"", ")"),
    ] {
        let error = run("yql", &deep(open, inner, close)).err();
        // Any number of `!` counts as one.
        assert!(
            open == "!" || error.is_some_and(|error| error.to_string().contains("nested too deeply")),
            "{open}"
        );
    }
    let body = format!("{{\"select\":{{\"where\":{}true{}}}}}", "{\"and\":[".repeat(5000), "]}".repeat(5000));
    assert!(flatten(body.as_bytes(), 1000).is_err());
    assert!(run("sorting", &"missing(".repeat(100_000)).is_err());
    read(&"(".repeat(100_000), "all");
    read(&"(".repeat(100_000), "adv");
}

#[test]
fn long_lists_are_flat() {
    let condition = vec!["a contains \"x\""; 20_000].join(" or ");
    let query =
        run("yql", &format!("select * from sources * where {condition}")).expect("it is long, but right");
    assert!(matches!(query.root, QueryItem::Or(children) if children.len() == 20_000));
}
