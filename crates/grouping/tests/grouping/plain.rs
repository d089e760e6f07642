//! Groups of generated documents, compared with simple code over the documents themselves; and a check that
//! no text makes the parser panic.

use std::collections::BTreeMap;

use millrace_document::DocumentValue;
use millrace_grouping::GroupingRequest;
use proptest::prelude::*;

use crate::support::{TestPurchase, execute, schema, settings, show};

#[derive(Debug, Clone)]
struct ReferenceRow {
    customer: Option<u8>,
    price: Option<i32>,
    sizes: Vec<i32>,
    score: u8,
}

fn rows() -> impl Strategy<Value = Vec<ReferenceRow>> {
    let row = (
        proptest::option::of(0..4u8),
        proptest::option::of(-20..20i32),
        proptest::collection::vec(0..5i32, 0..4),
        0..50u8,
    );
    let row = row.prop_map(|(customer, price, sizes, score)| ReferenceRow { customer, price, sizes, score });
    proptest::collection::vec(row, 1..40)
}

fn documents(rows: &[ReferenceRow]) -> Vec<TestPurchase> {
    let document = |(index, row): (usize, &ReferenceRow)| {
        let mut fields = vec![(
            "sizes",
            DocumentValue::Array(row.sizes.iter().copied().map(DocumentValue::Int).collect()),
        )];
        fields
            .extend(row.customer.map(|customer| ("customer", DocumentValue::String(format!("c{customer}")))));
        fields.extend(row.price.map(|price| ("price", DocumentValue::Int(price))));
        TestPurchase { name: index.to_string(), score: f64::from(row.score), fields }
    };
    rows.iter().enumerate().map(document).collect()
}

/// Groups with their members, in the order of the request `order(max(key))`.
type Grouped<K> = BTreeMap<K, Vec<ReferenceRow>>;

fn grouped<K: Ord>(rows: &[ReferenceRow], keys: impl Fn(&ReferenceRow) -> Vec<K>) -> Grouped<K> {
    let mut groups = Grouped::new();
    for row in rows {
        for key in keys(row) {
            groups.entry(key).or_insert_with(Vec::new).push(row.clone());
        }
    }
    groups
}

fn customer(row: &ReferenceRow) -> String {
    row.customer.map(|customer| format!("c{customer}")).unwrap_or_default()
}

fn price(row: &ReferenceRow) -> i64 {
    i64::from(row.price.unwrap_or(0))
}

fn answer(text: &str, rows: &[ReferenceRow], split: usize) -> String {
    let documents = documents(rows);
    let request = &GroupingRequest::parse(text).expect("the test's requests are right")[0];
    let (front, back) = documents.split_at(split % documents.len());
    show(&execute(request, &schema(), &settings("utc"), &[front, back]).expect("it can be done"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn aggregates_are_those_of_plain_code(rows in rows(), split in 0..40usize) {
        let text = "all(group(customer) order(max(customer)) each(output(count(), sum(price), min(price), max(price), xor(price), sum(sizes))))";
        let groups = grouped(&rows, |row| vec![customer(row)]);
        let expected: Vec<String> = groups.iter().map(|(key, rows)| {
            let prices = || rows.iter().map(price);
            format!(
                "'{key}'{{count()={} sum(price)={} min(price)={} max(price)={} xor(price)={} sum(sizes)={}}}",
                rows.len(),
                prices().sum::<i64>(),
                prices().min().unwrap_or_default(),
                prices().max().unwrap_or_default(),
                prices().fold(0, |a, b| a ^ b),
                rows.iter().flat_map(|row| &row.sizes).sum::<i32>(),
            )
        }).collect();
        prop_assert_eq!(answer(text, &rows, split), format!("customer[{}]", expected.join("  ")));
    }

    #[test]
    fn nested_groups_of_elements_are_those_of_plain_code(rows in rows(), split in 0..40usize) {
        let text = "all(group(sizes) order(-count(), max(sizes)) max(3) each(output(count()) all(group(price % 3) each(output(count())))))";
        let groups = grouped(&rows, |row| row.sizes.clone());
        let largest = |rows: &[ReferenceRow]| rows.iter().flat_map(|row| row.sizes.clone()).max();
        let best = |rows: &[ReferenceRow]| rows.iter().map(|row| row.score).max();
        let mut groups: Vec<(i32, Vec<ReferenceRow>)> = groups.into_iter().collect();
        groups.sort_by_key(|(key, rows)| (
            std::cmp::Reverse(rows.len()), largest(rows), std::cmp::Reverse(best(rows)), *key,
        ));
        let more = if groups.len() > 3 { ">" } else { "" };
        let shown: Vec<String> = groups.iter().take(3).map(|(key, rows)| {
            let mut inner: Vec<(i64, Vec<ReferenceRow>)> = grouped(rows, |row| vec![price(row) % 3]).into_iter().collect();
            inner.sort_by_key(|(key, rows)| (std::cmp::Reverse(best(rows)), *key));
            let inner: Vec<String> = inner.iter().map(|(key, rows)| format!("{key}{{count()={}}}", rows.len())).collect();
            format!("{key}{{count()={}}} mod(price, 3)[{}]", rows.len(), inner.join("  "))
        }).collect();
        prop_assert_eq!(answer(text, &rows, split), format!("sizes[{}]{more}", shown.join("  ")));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(all|each|group|\\(|\\)|output|count|,|'|\"|\\$|alias|max|predefined|bucket|\\{|\\[|[a-z0-9. -]|é){0,40}") {
        let _ = GroupingRequest::parse(&text);
    }

    #[test]
    fn no_damage_makes_the_parser_panic(at in 0..120usize, with in any::<char>()) {
        let text = "{ 'continuations': ['AB'] } all(group(predefined(a{\"k\"}.b, bucket[-inf, 1.5e3>)) filter(not regex('x', b)) order(-$s=sum(c)) each(output($s as(d))) as(e))";
        let damaged: String = text.chars().enumerate().map(|(index, c)| if index == at { with } else { c }).collect();
        let _ = GroupingRequest::parse(&damaged);
    }
}

#[test]
fn deep_and_wide_requests_are_refused() {
    let deep = format!("all(group({}1{}))", "(".repeat(100_000), ")".repeat(100_000));
    let error = GroupingRequest::parse(&deep).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than 64"), "{error}");
    let wide: String = (0..30).map(|step| format!("alias(a{}, $a{step} + $a{step})", step + 1)).collect();
    let error =
        GroupingRequest::parse(&format!("all(alias(a0, b) {wide})")).expect_err("too wide").to_string();
    assert!(error.contains("more than 10000 parts"), "{error}");
}
