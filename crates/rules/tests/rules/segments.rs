//! Words that punctuation joins: rules find their parts.

use millrace_query::{BriefItem, ItemAnnotations, QueryItem, TermMatch, TermText};

use crate::rewriting::{check, rewriting, typed};

#[test]
fn words_with_punctuation_have_parts() {
    let sites = "[site] -> company:\"youtube com\";\n[site] :- http www youtube com, youtube com, youtube, utube com;";
    check(
        sites,
        &[
            ("youtube.com", "company:\"youtube com\""),
            ("youtube-com", "company:\"youtube com\""),
            ("utube.com", "company:\"youtube com\""),
            ("http://www.youtube.com", "company:\"youtube com\""),
            ("see youtube.com now", "AND see company:\"youtube com\" now"),
            ("youtube", "company:\"youtube com\""),
            ("see -youtube.com", "+see -company:\"youtube com\""),
        ],
    );
    check(
        "com -> org;",
        &[("youtube.com", "AND youtube org"), ("see youtube.com", "AND see (AND youtube org)")],
    );
    check("com -> ;", &[("youtube.com", "youtube")]);
    check("youtube com -> ;", &[("youtube.com", "youtube"), ("see youtube.com", "see")]);
    check("youtube +> video;", &[("youtube.com", "AND youtube video com")]);
    check("[w] -> title:[w]; [w] :- youtube com;", &[("youtube.com", "title:\"youtube com\"")]);
    check("title:com -> org;", &[("title:youtube.com", "AND title:youtube org")]);
    check("a ... c -> x;", &[("a.b.c", "AND x b")]);
    // The whole is a word as before.
    check("you-tube -> x;", &[("you-tube", "x"), ("see you.tube", "AND see x")]);
}

#[test]
fn what_has_no_parts_stays() {
    for (rules, query) in [
        // The parts follow each other, and nothing around them.
        ("see youtube -> x;", "see youtube.com"),
        (". youtube -> x;", "see youtube.com"),
        ("youtube . -> x;", "com.youtube see"),
        ("\"youtube com\" -> x;", "youtube.com"),
        ("com -> x;", "title:youtube.com"),
        ("youtube org -> x;", "youtube.com"),
    ] {
        assert_eq!(rewriting(rules, &typed(query), &[]), None, "{query} by {rules}");
    }
    let term = |text: &str, together: bool| QueryItem::Term {
        field: "default".to_owned(),
        text: TermText { text: text.to_owned(), origin: None, together },
        matching: TermMatch::Word,
        annotations: ItemAnnotations::default(),
    };
    let of_person = |item: QueryItem| QueryItem::Typed(Box::new(item));
    for (item, expected) in [
        (of_person(term("youtube.5", false)), Some("AND youtube x")),
        // In quotes.
        (of_person(term("youtube.5", true)), None),
        (of_person(term("5.5", false)), None),
        // A word of YQL.
        (term("youtube.5", false), None),
    ] {
        let found = rewriting("5 -> x;", &item, &[]);
        let found = found.map(|found| BriefItem(&found.root).to_string());
        assert_eq!(found.as_deref(), expected, "{item}");
    }
}
