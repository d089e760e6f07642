//! Continuations lead from page to page, and limits hold.

use millrace_document::DocumentValue;
use millrace_grouping::{GroupingRequest, Settings};
use millrace_query::GroupingDefaults;
use millrace_result::GroupList;

use crate::support::{TestPurchase, execute, page_bytes, schema, settings, show};

/// Nine purchases by three customers.
fn purchases() -> Vec<TestPurchase> {
    (0..9)
        .map(|index| TestPurchase {
            name: format!("{index}"),
            score: f64::from(9 - index),
            fields: vec![
                ("customer", DocumentValue::String(["ann", "bob", "cid"][index as usize % 3].to_owned())),
                ("price", DocumentValue::Int(index)),
            ],
        })
        .collect()
}

/// Result of a request with continuations, as text, with its own continuation and those of its first list.
fn page(text: &str, continuations: &[&str]) -> (String, String, Option<String>, Option<String>) {
    let list: Vec<String> = continuations.iter().map(|text| format!("'{text}'")).collect();
    let text = format!("{{ 'continuations': [{}] }} {text}", list.join(", "));
    let requests = GroupingRequest::parse(&text).expect("the test's requests are right");
    let purchases = purchases();
    let result = execute(&requests[0], &schema(), &settings("utc"), &[&purchases]).expect("it can be done");
    let (next, previous) = match &result.root.lists[0] {
        GroupList::Groups { continuation, .. } | GroupList::Hits { continuation, .. } => continuation.clone(),
    };
    (show(&result), result.continuation, next, previous)
}

#[test]
fn pages_of_groups_follow_each_other() {
    let request = "all(group(customer) order(max(customer)) max(2) each(output(count())))";
    let (first, this, next, previous) = page(request, &[]);
    assert_eq!(first, "customer['ann'{count()=3}  'bob'{count()=3}]>");
    assert_eq!((this.as_str(), previous), ("", None));
    let (second, this, none, previous) = page(request, &[&this, &next.expect("there are more groups")]);
    assert_eq!(second, "customer['cid'{count()=3}]<");
    assert_eq!(none, None);
    assert_eq!(page(request, &[&this]).0, second, "this gives the same page again");
    let back = page(request, &[&this, &previous.expect("there are groups before")]);
    assert_eq!(back.0, first, "the later continuation overrides");
}

#[test]
fn relevance_is_the_score_or_the_place_in_an_order() {
    let check = |request: &str, expected: &[f64]| {
        let parsed = GroupingRequest::parse(request).expect("the test's requests are right");
        let result =
            execute(&parsed[0], &schema(), &settings("utc"), &[&purchases()]).expect("it can be done");
        let GroupList::Groups { groups, .. } = &result.root.lists[0] else { panic!("a list of groups") };
        assert_eq!(groups.iter().map(|group| group.relevance).collect::<Vec<_>>(), expected, "{request}");
    };
    check("all(group(customer) each(output(count())))", &[9.0, 8.0, 7.0]);
    check("all(group(customer) order(-max(price)) each(output(count())))", &[1.0, 2.0 / 3.0, 1.0 / 3.0]);
    check("all(group(customer) order(-max(price)) max(2) each(output(count())))", &[1.0, 0.5]);
}

#[test]
fn pages_of_hits_in_groups_turn_apart() {
    let request = "all(group(customer) order(max(customer)) each(max(2) each(output(summary()))))";
    let purchases = purchases();
    let parsed = GroupingRequest::parse(request).expect("the test's request is right");
    let result = execute(&parsed[0], &schema(), &settings("utc"), &[&purchases]).expect("it can be done");
    assert_eq!(show(&result), "customer['ann' hits(0 3)>  'bob' hits(1 4)>  'cid' hits(2 5)>]");
    let GroupList::Groups { groups, .. } = &result.root.lists[0] else { panic!("a list of groups") };
    let GroupList::Hits { continuation: (Some(next), None), .. } = &groups[1].lists[0] else {
        panic!("bob's hits go on")
    };
    assert_eq!(page(request, &[next]).0, "customer['ann' hits(0 3)>  'bob' hits(7)<  'cid' hits(2 5)>]");
}

#[test]
fn defaults_limit_what_is_not_limited() {
    let defaults = GroupingDefaults { max_groups: Some(2), max_hits: Some(1), ..GroupingDefaults::default() };
    let settings = Settings::new(&defaults, 0).expect("utc");
    let purchases = purchases();
    let check = |text: &str, expected: &str| {
        let request = &GroupingRequest::parse(text).expect("the test's requests are right")[0];
        let answer = match execute(request, &schema(), &settings, &[&purchases]) {
            Ok(result) => show(&result),
            Err(error) => error.to_string(),
        };
        assert_eq!(answer, expected, "{text}");
    };
    check("all(group(customer) each(each(output(summary()))))", "customer['ann' hits(0)>  'bob' hits(1)>]>");
    check(
        "all(group(customer) max(inf) each(output(count())))",
        "grouping: the request could give an unlimited number of groups and hits, more than grouping.globalMaxGroups allows (10000); set a lower max(…) on every level, or raise the limit in a query profile",
    );
    check(
        "all(group(customer) max(200) each(max(50) each(output(summary()))))",
        "grouping: the request could give 10200 groups and hits, more than grouping.globalMaxGroups allows (10000); set a lower max(…) on every level, or raise the limit in a query profile",
    );
    check(
        "all(group(customer) max(100) each(output(count()) max(99) each(output(summary()))))",
        "customer['ann'{count()=3} hits(0 3 6)  'bob'{count()=3} hits(1 4 7)  'cid'{count()=3} hits(2 5 8)]",
    );
}

/// Lists inside lists multiply: a few numbers in one document are a million groups, which a limit on what is
/// shown does not keep out of memory.
#[test]
fn groups_in_memory_are_limited_whatever_is_shown() {
    let sizes = |count: i32| DocumentValue::Array((0..count).map(DocumentValue::Int).collect());
    let many =
        |count: i32| TestPurchase { name: "0".to_owned(), score: 0.0, fields: vec![("sizes", sizes(count))] };
    let text = "all(group(sizes) max(1) each(group(sizes) max(1) each(output(count()))))";
    let request = &GroupingRequest::parse(text).expect("it is right")[0];
    let answer = |count| execute(request, &schema(), &settings("utc"), &[&[many(count)]]);
    assert!(answer(100).is_ok());
    let error = answer(1_100).expect_err("there are 1,210,000 groups").to_string();
    assert!(error.contains("more than 1000000 groups"), "{error}");
}

#[test]
fn what_each_group_has_of_the_request_takes_memory() {
    let long = "x".repeat(10_000);
    let counts: Vec<String> = (0..100).map(|at| format!("count() as(c{at})")).collect();
    let shares: Vec<String> = (1..100).map(|percent| format!("0.{percent:02}")).collect();
    let (counts, shares, orders) = (counts.join(", "), shares.join(", "), ["count()"; 300].join(", "));
    // There are three groups.
    for (request, bytes) in [
        ("all(group(customer) each(output(count())))".to_owned(), 0..3_000),
        (format!("all(group(customer) each(output(count() as({long}))))"), 30_000..40_000),
        (
            format!("all(group(customer) each(all(group(price) each(output(count())) as({long}))))"),
            30_000..40_000,
        ),
        (format!("all(group(customer) each(output({counts})))"), 10_000..40_000),
        (format!("all(group(customer) order({orders}) each(output(count())))"), 12_000..80_000),
        (format!("all(group(customer) each(output(quantiles([{shares}], price))))"), 4_000..10_000),
    ] {
        let taken = page_bytes(&request, &purchases());
        assert!(bytes.contains(&taken), "{taken} bytes for {}", &request[..40]);
    }
}
