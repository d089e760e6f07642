//! Groups of values that are read in place, compared with those of decoded values.

use std::sync::Arc;

use millrace_document::DocumentValue;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::support::{TestPurchase, compare};

/// Keys and values of groups: at least one for each form of path and each kind of value.
const KEYS: [&str; 26] = [
    "tags",
    "attribute(tags)",
    "strlen(tags)",
    "sizes",
    "curve",
    "votes",
    "marks",
    "attributes.key",
    "attributes.value",
    "attributes{\"a\"}",
    "attributes{attribute(customer)}",
    "stock.key",
    "stock.value",
    "stock{\"2\"}",
    "stock{attribute(price)}",
    "parts.name",
    "parts.count",
    "parts.size.width",
    "parts.size.heavy",
    "case.name",
    "case.size.heavy",
    "shelves.key",
    "shelves.value.count",
    "shelves{\"a\"}.size.width",
    "route_zcurve",
    "place_zcurve",
];

/// Expressions over whole fields, of one or of several.
const EXPRESSIONS: [&str; 49] = [
    "strlen(customer)",
    "strcat(customer, \"x\", customer)",
    "strcat(customer, price)",
    "uca(customer, \"en\")",
    "md5(customer, 64)",
    "xorbit(customer, 8)",
    "price + 1",
    "price * tax",
    "fixedwidth(price, 2)",
    "predefined(price, bucket(-1, 1), bucket(1, 3))",
    "tostring(tax)",
    "math.sqrt(tax)",
    "price + relevance()",
    "array.at(tags, price)",
    "strcat(docidnsspecific(), \"-\", tax, price)",
    "strcat(customer, tags)",
    "cat(price, customer, tax)",
    "toraw(customer)",
    "time.date(price * 100000)",
    "normalizesubject(strcat(\"Re[2]: fwd:\", customer))",
    "predefined(customer, bucket(\"a\", \"b\"), bucket(\"b\", \"c\"))",
    "strlen(strcat(customer, price)) + price",
    "md5(cat(price, tax), 128)",
    "xorbit(docidnsspecific(), 16)",
    "uca(strcat(customer, price), \"en\", \"TERTIARY\")",
    "strcat(\"a\", 1)",
    "min(price, strlen(customer))",
    "strcat(price + tax, relevance())",
    "size(tags) + size(customer)",
    "array.at(sizes, price)",
    "array.at(parts.name, 1)",
    "interpolatedlookup(curve, tax)",
    "interpolatedlookup(sizes, price)",
    "strcat(array.at(tags, 0), size(votes))",
    "strcat(case.name, case.count, case.size.width)",
    "digest",
    "paid",
    "cat(digest, paid, level, rating)",
    "md5(digest, 64)",
    "xorbit(digest, 16)",
    "strcat(rating, \"-\", paid, level, date)",
    "tostring(rating)",
    "max(rating, tax)",
    "mul(date, date)",
    "div(date, price)",
    "mod(date, 4)",
    "neg(date)",
    "fixedwidth(date, 10)",
    "fixedwidth(rating, 0.5)",
];

/// Aggregates inside the groups, with and without a bound element.
const AGGREGATES: [&str; 8] = [
    "count(), sum(sizes), max(tags)",
    "sum(parts.count), max(parts.name), min(parts.size.width)",
    "sum(stock.value), max(stock.key), max(stock{\"2\"})",
    "max(shelves.value.name), sum(shelves.value.count), max(shelves.key)",
    "max(attributes.value), min(attributes.key), max(attributes{\"a\"})",
    "min(geo_distance(attribute(place), 1, 2).km), min(geo_distance(attribute(route), 1, 2).km)",
    "max(route_zcurve), min(place_zcurve), sum(case.count)",
    "sum(marks), max(votes), avg(curve)",
];

const FILTERS: [&str; 11] = [
    "",
    "filter(range(0, 2, sizes))",
    "filter(regex(\"a\", tags))",
    "filter(range(1, 3, parts.count))",
    "filter(not range(1, 3, stock.value) or regex(\"b\", shelves.value.name))",
    "filter(istrue(parts.size.heavy))",
    "filter(regex(\"a.*\", customer))",
    "filter(not range(0, 2, price) or regex(\".*b1\", strcat(customer, price)))",
    "filter(range(0, 2, customer) or regex(\"a\", tags) and range(0, 1, tax))",
    "filter(istrue(paid) or range(0, 6, rating))",
    "filter(not regex(\"-?[0-9]\", strcat(level)))",
];

fn text() -> impl Strategy<Value = DocumentValue> {
    prop::sample::select(vec!["", "a", "b", "ab", "ä"])
        .prop_map(|text| DocumentValue::String(text.to_owned()))
}

fn int() -> impl Strategy<Value = DocumentValue> {
    (-1..4i32).prop_map(DocumentValue::Int)
}

fn array(of: impl Strategy<Value = DocumentValue>) -> impl Strategy<Value = DocumentValue> {
    vec(of, 0..4).prop_map(DocumentValue::Array)
}

fn set(of: impl Strategy<Value = DocumentValue>) -> impl Strategy<Value = DocumentValue> {
    vec((of, 0..3i32), 0..4).prop_map(DocumentValue::WeightedSet)
}

fn map(
    key: impl Strategy<Value = DocumentValue>,
    value: impl Strategy<Value = DocumentValue>,
) -> impl Strategy<Value = DocumentValue> {
    vec((key, value), 0..4).prop_map(DocumentValue::Map)
}

fn position() -> impl Strategy<Value = DocumentValue> {
    (-3..3i32, -3..3i32).prop_map(|(north, east)| DocumentValue::Position {
        latitude: north * 1_000_000,
        longitude: east * 1_000_000,
    })
}

/// A struct of these members, some of them missing.
fn members(of: Vec<(&'static str, BoxedStrategy<DocumentValue>)>) -> BoxedStrategy<DocumentValue> {
    let member = |(name, value): (&'static str, BoxedStrategy<DocumentValue>)| {
        option::weighted(0.8, value.prop_map(move |value| (Arc::from(name), value)))
    };
    let given: Vec<_> = of.into_iter().map(member).collect();
    given.prop_map(|given| DocumentValue::Struct(given.into_iter().flatten().collect())).boxed()
}

/// A part; few have a member that the type no longer declares, so that the value cannot be read in place.
fn part() -> impl Strategy<Value = DocumentValue> {
    let size = members(vec![
        ("width", (-1..3i8).prop_map(|width| DocumentValue::Double(f64::from(width) / 2.0)).boxed()),
        ("heavy", any::<bool>().prop_map(DocumentValue::Bool).boxed()),
    ]);
    let part = members(vec![("name", text().boxed()), ("count", int().boxed()), ("size", size)]);
    (part, 0..20u8).prop_map(|(mut part, dice)| {
        if let (DocumentValue::Struct(members), 0) = (&mut part, dice) {
            members.push((Arc::from("undeclared"), DocumentValue::Bool(true)));
        }
        part
    })
}

/// A purchase; an array of texts may hold numbers, as after a change of the field's type.
fn purchase() -> impl Strategy<Value = Vec<(&'static str, DocumentValue)>> {
    let tags = prop_oneof![19 => array(text()).boxed(), 1 => array(int()).boxed()];
    let decimal = (-2..3i8).prop_map(|number| DocumentValue::Double(f64::from(number) / 2.0));
    let long = (-1..4i64).prop_map(DocumentValue::Long);
    let rating = prop::sample::select(vec![-0.0, 0.0, 5.9, f32::NAN, f32::INFINITY]);
    let date = prop::sample::select(vec![i64::MIN, -7, 0, 5, i64::MAX]);
    let fields: Vec<(&str, BoxedStrategy<DocumentValue>)> = vec![
        ("customer", text().boxed()),
        ("price", int().boxed()),
        ("tax", prop::sample::select(vec![-0.0, 0.0, 0.5]).prop_map(DocumentValue::Double).boxed()),
        ("rating", rating.prop_map(DocumentValue::Float).boxed()),
        ("date", date.prop_map(DocumentValue::Long).boxed()),
        ("level", (-1..12i8).prop_map(DocumentValue::Byte).boxed()),
        ("paid", any::<bool>().prop_map(DocumentValue::Bool).boxed()),
        ("digest", vec(0..2u8, 0..18).prop_map(DocumentValue::Raw).boxed()),
        ("tags", tags.boxed()),
        ("sizes", array(int()).boxed()),
        ("curve", array(decimal).boxed()),
        ("votes", set(text()).boxed()),
        ("marks", set(int()).boxed()),
        ("attributes", map(text(), text()).boxed()),
        ("stock", map(int(), long).boxed()),
        ("parts", array(part()).boxed()),
        ("case", part().boxed()),
        ("shelves", map(text(), part()).boxed()),
        ("place", position().boxed()),
        ("route", array(position()).boxed()),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| option::weighted(0.9, value.prop_map(move |value| (name, value))))
        .collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect())
}

fn purchases() -> impl Strategy<Value = Vec<TestPurchase>> {
    let numbered = |fields: Vec<Vec<(&'static str, DocumentValue)>>| {
        let purchase =
            |(index, fields)| TestPurchase { name: format!("{index}"), score: index as f64, fields };
        fields.into_iter().enumerate().map(purchase).collect()
    };
    vec(purchase(), 1..14).prop_map(numbered)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_in_place_are_those_of_decoded_values(
        purchases in purchases(),
        (outer, inner) in (0..KEYS.len(), 0..KEYS.len()),
        (aggregates, filter) in (0..AGGREGATES.len(), 0..FILTERS.len()),
    ) {
        let (outer, inner, aggregates, filter) =
            (KEYS[outer], KEYS[inner], AGGREGATES[aggregates], FILTERS[filter]);
        compare(&format!("all(output({aggregates}))"), &purchases);
        compare(
            &format!(
                "all(group({outer}) {filter} each(output({aggregates}) \
                 all(group({inner}) {filter} each(output({aggregates}) each(output(summary()))))))"
            ),
            &purchases,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_of_expressions_are_those_of_each_document(
        purchases in purchases(),
        (outer, inner, filter) in (0..EXPRESSIONS.len(), 0..EXPRESSIONS.len(), 0..FILTERS.len()),
    ) {
        let (outer, inner, filter) = (EXPRESSIONS[outer], EXPRESSIONS[inner], FILTERS[filter]);
        compare(&format!("all(group({outer}) {filter} each(output(count(), max(tax))))"), &purchases);
        compare(
            &format!(
                "all(group({outer}) each(output(count()) all(group({inner}) {filter} each(output(sum(price))))))"
            ),
            &purchases,
        );
        compare("all(output(max(strcat(customer, price)), min(toraw(customer)), sum(customer)))", &purchases);
        compare("all(output(max(digest), xor(digest), min(rating), sum(date), max(strcat(paid))))", &purchases);
    }
}

#[test]
fn texts_that_are_too_long_to_be_joined_have_groups() {
    let purchase = |index: usize| {
        let text = DocumentValue::String(["a", "b"][index % 2].repeat(1 << 20));
        TestPurchase { name: index.to_string(), score: 0.0, fields: vec![("customer", text)] }
    };
    let purchases: Vec<TestPurchase> = (0..5).map(purchase).collect();
    let lengths = "all(group(strcat(customer, customer, \"-\")) each(output(count())))";
    let found = compare(lengths, &purchases).replace("aa", "").replace("bb", "");
    assert!(found.ends_with("['-'{count()=3}  '-'{count()=2}]"), "{found}");
}

#[test]
fn every_key_has_groups() {
    let text = |text: &str| DocumentValue::String(text.to_owned());
    let texts = || vec![text("a"), text("b")];
    let part = |name: &str, count| {
        let size = [("width", DocumentValue::Double(0.5)), ("heavy", DocumentValue::Bool(true))];
        let size = size.map(|(name, value)| (Arc::from(name), value)).to_vec();
        let part = [
            ("name", text(name)),
            ("count", DocumentValue::Int(count)),
            ("size", DocumentValue::Struct(size)),
        ];
        DocumentValue::Struct(part.map(|(name, value)| (Arc::from(name), value)).to_vec())
    };
    let place = DocumentValue::Position { latitude: 1_000_000, longitude: 2_000_000 };
    let fields = vec![
        ("customer", text("b")),
        ("price", DocumentValue::Int(2)),
        ("tags", DocumentValue::Array(texts())),
        ("sizes", DocumentValue::Array(vec![DocumentValue::Int(1), DocumentValue::Int(2)])),
        ("curve", DocumentValue::Array(vec![DocumentValue::Double(0.5)])),
        ("votes", DocumentValue::WeightedSet(texts().into_iter().zip(1..).collect())),
        ("marks", DocumentValue::WeightedSet(vec![(DocumentValue::Int(7), 1)])),
        ("attributes", DocumentValue::Map(texts().into_iter().zip(texts()).collect())),
        ("stock", DocumentValue::Map(vec![(DocumentValue::Int(2), DocumentValue::Long(3))])),
        ("parts", DocumentValue::Array(vec![part("a", 1), part("b", 2)])),
        ("case", part("c", 3)),
        ("shelves", DocumentValue::Map(texts().into_iter().zip([part("a", 1), part("b", 2)]).collect())),
        ("place", place.clone()),
        ("route", DocumentValue::Array(vec![place.clone(), place])),
    ];
    let purchase = [TestPurchase { name: "1".to_owned(), score: 1.0, fields }];
    let found = KEYS.map(|key| compare(&format!("all(group({key}) each(output(count())))"), &purchase));
    let expected = [
        "tags['a'{1}  'b'{1}]",
        "attribute(tags)['a'{1}  'b'{1}]",
        "strlen(tags)[1{2}]",
        "sizes[1{1}  2{1}]",
        "curve[0.5{1}]",
        "votes['a'{1}  'b'{1}]",
        "marks[7{1}]",
        "attributes.key['a'{1}  'b'{1}]",
        "attributes.value['a'{1}  'b'{1}]",
        "attributes{\"a\"}['a'{1}]",
        "attributes{attribute(customer)}['b'{1}]",
        "stock.key[2{1}]",
        "stock.value[3{1}]",
        "stock{\"2\"}[3{1}]",
        "stock{attribute(price)}[3{1}]",
        "parts.name['a'{1}  'b'{1}]",
        "parts.count[1{1}  2{1}]",
        "parts.size.width[0.5{2}]",
        "parts.size.heavy[true{2}]",
        "case.name['c'{1}]",
        "case.size.heavy[true{1}]",
        "shelves.key['a'{1}  'b'{1}]",
        "shelves.value.count[1{1}  2{1}]",
        "shelves{\"a\"}.size.width[0.5{1}]",
        "route_zcurve[2192045531136{2}]",
        "place_zcurve[2192045531136{1}]",
    ];
    assert_eq!(found.join("\n").replace("count()=", ""), expected.join("\n"));
}
