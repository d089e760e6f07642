//! The first documents in an order are the beginning of the whole order, for all types of fields, with and
//! without values, in both directions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::{DataType, DocumentField, DocumentValue, StructType};
use millrace_fixtures::{Fields, field, plan, schema};
use millrace_plan::{LocaleCollation, MissingOrder, PlanNode, SortBy, SortColumn, TextOrder};
use millrace_ranking::CompiledProfile;
use millrace_schema::{RankProfile, Schema};
use millrace_search::{PreparedSearch, SearchDeadline};
use proptest::prelude::*;

/// Number of documents in a chunk.
const CHUNK: usize = 7;

/// A type of fields, an order of them, and a value for each of a few numbers.
struct SortedType {
    data_type: DataType,
    by: SortBy,
    value: fn(u8) -> DocumentValue,
}

/// A text with both cases, letters beyond ASCII, zero bytes and prefixes of others.
fn word(number: u8) -> String {
    let words =
        ["", "a", "A", "ab", "aB\0", "aB\0\0c", "b", "Ä", "ä", "aä", "AÄ", "z", "ſ", "\u{212a}", "k", "İ"];
    words[usize::from(number) % words.len()].to_owned()
}

/// A number with many ties, both zeros, infinities and NaN.
fn float(number: u8) -> f64 {
    let numbers = [0.0, -0.0, 1.5, -1.5, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 100.0, -7.0];
    numbers[usize::from(number) % numbers.len()]
}

fn array(of: DataType) -> DataType {
    DataType::Array(Box::new(of))
}

fn english() -> LocaleCollation {
    LocaleCollation::new("en_US", "PRIMARY").unwrap()
}

/// Structs with a name and an age, in an array.
fn people() -> DataType {
    let member = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let fields = vec![member("name", DataType::String), member("age", DataType::Int)];
    array(DataType::Struct(Arc::new(StructType { name: "person".to_owned(), fields })))
}

/// People, in number the remainder of a number; the first has no age.
fn person(number: u8, age: DocumentValue) -> DocumentValue {
    let one = |at: u8| {
        let name = ("name".into(), DocumentValue::String(word(number ^ at)));
        let age = (at > 0).then(|| ("age".into(), age.clone()));
        DocumentValue::Struct([name].into_iter().chain(age).collect())
    };
    DocumentValue::Array((0..number % 3).map(one).collect())
}

fn types() -> Vec<SortedType> {
    let number = || SortBy::Number("field".into());
    let text = |order| SortBy::Text("field".into(), order);
    let string = |number| DocumentValue::String(word(number));
    let sorted = |data_type, by, value| SortedType { data_type, by, value };
    vec![
        sorted(DataType::Bool, number(), |n| DocumentValue::Bool(n % 2 == 0)),
        sorted(DataType::Byte, number(), |n| DocumentValue::Byte(n as i8)),
        sorted(DataType::Int, number(), |n| DocumentValue::Int(i32::from(n) * 1_000_003 - i32::MAX / 16)),
        sorted(DataType::Long, number(), |n| DocumentValue::Long(i64::from(n as i8) << 56)),
        sorted(DataType::Float16, number(), |n| DocumentValue::Float(float(n) as f32)),
        sorted(DataType::Float, number(), |n| DocumentValue::Float(float(n) as f32)),
        sorted(DataType::Double, number(), |n| DocumentValue::Double(float(n))),
        sorted(DataType::String, text(TextOrder::Raw), string),
        sorted(DataType::String, text(TextOrder::Lowercase), string),
        sorted(DataType::String, text(TextOrder::Collated(english())), string),
        sorted(DataType::Raw, SortBy::Bytes("field".into()), |n| DocumentValue::Raw(word(n).into_bytes())),
        sorted(array(DataType::Long), number(), |n| {
            DocumentValue::Array((0..n % 3).map(|i| DocumentValue::Long(i64::from(n ^ i))).collect())
        }),
        sorted(array(DataType::String), text(TextOrder::Lowercase), |n| {
            DocumentValue::Array((0..n % 3).map(|i| DocumentValue::String(word(n ^ i))).collect())
        }),
        sorted(array(DataType::String), text(TextOrder::Collated(english())), |n| {
            DocumentValue::Array((0..n % 3).map(|i| DocumentValue::String(word(n ^ i))).collect())
        }),
        sorted(array(DataType::Float), number(), |n| {
            DocumentValue::Array((0..n % 4).map(|i| DocumentValue::Float(float(n ^ i) as f32)).collect())
        }),
        sorted(array(DataType::Raw), SortBy::Bytes("field".into()), |n| {
            DocumentValue::Array((0..n % 3).map(|i| DocumentValue::Raw(word(n ^ i).into_bytes())).collect())
        }),
        sorted(people(), SortBy::Number("field.age".into()), |n| person(n, DocumentValue::Int(i32::from(n)))),
        sorted(people(), SortBy::Text("field.name".into(), TextOrder::Lowercase), |n| {
            person(n, DocumentValue::Int(0))
        }),
        sorted(DataType::Long, SortBy::DocumentId, |n| DocumentValue::Long(i64::from(n))),
    ]
}

/// Names of the first `wanted` documents in an order, maybe after that by relevance, which all share.
fn first(
    sorted: &SortedType,
    values: &[Option<u8>],
    order: &SortColumn,
    by_relevance: bool,
    wanted: usize,
) -> Vec<String> {
    let fields = vec![field("field", sorted.data_type.clone(), false)];
    let profile = RankProfile { name: "default".to_owned(), ..RankProfile::default() };
    let rank_profiles = [(profile.name.clone(), profile)].into();
    let schema = Arc::new(Schema { rank_profiles, ..schema("test", fields) });
    let document = |number: &Option<u8>| {
        let fields: Fields = number.map(|number| ("field", (sorted.value)(number))).into_iter().collect();
        (fields, true)
    };
    let documents: Vec<(Fields, bool)> = values.iter().map(document).collect();
    let view = millrace_fixtures::view(&schema, &documents, CHUNK);
    let mut plan = plan(&schema, PlanNode::True, Vec::new());
    let last_first = SortColumn { by: SortBy::DocumentId, descending: true, missing: None };
    let relevance = SortColumn { by: SortBy::Relevance, descending: true, missing: None };
    plan.sorting = by_relevance.then_some(relevance).into_iter().chain([order.clone(), last_first]).collect();
    plan.hits = wanted;
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let search = PreparedSearch::new(Arc::new(plan), profile, "items".into());
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let outcome = search.run(&view, &deadline).unwrap();
    outcome.result.hits.iter().map(|hit| hit.id.name().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_first_documents_are_the_beginning_of_the_whole_order(
        values in proptest::collection::vec(proptest::option::weighted(0.8, 0..40u8), 1..40),
        of in 0..types().len(),
        descending: bool,
        missing in proptest::sample::select(vec![
            None,
            Some(MissingOrder::First),
            Some(MissingOrder::Last),
            Some(MissingOrder::As("1".into())),
        ]),
        by_relevance: bool,
        wanted in 1..6usize,
    ) {
        let sorted = &types()[of];
        let order = SortColumn { by: sorted.by.clone(), descending, missing };
        let whole = first(sorted, &values, &order, false, values.len());
        prop_assert_eq!(whole.len(), values.len());
        let some = first(sorted, &values, &order, by_relevance, wanted);
        prop_assert_eq!(&some, &whole[..wanted.min(whole.len())]);
    }

    #[test]
    fn the_first_of_several_values_represents_its_document(
        values in proptest::collection::vec(proptest::option::weighted(0.8, 0..40u8), 1..30),
        texts: bool,
        descending: bool,
    ) {
        let numbers = |n: u8| (0..n % 4).map(|i| i64::from(n ^ (i * 7))).collect::<Vec<_>>();
        let (data_type, by): (_, SortBy) = match texts {
            true => (DataType::String, SortBy::Text("field".into(), TextOrder::Raw)),
            false => (DataType::Long, SortBy::Number("field".into())),
        };
        let value = match texts {
            true => |n: u8| {
                let texts = (0..n % 4).map(|i| DocumentValue::String(format!("{:03}", n ^ (i * 7))));
                DocumentValue::Array(texts.collect())
            },
            false => |n: u8| {
                let numbers = (0..n % 4).map(|i| DocumentValue::Long(i64::from(n ^ (i * 7))));
                DocumentValue::Array(numbers.collect())
            },
        };
        let sorted = SortedType { data_type: array(data_type), by: by.clone(), value };
        let order = SortColumn { by, descending, missing: None };
        let found = first(&sorted, &values, &order, false, values.len());
        // A document without values comes last.
        let key = |at: usize| {
            let numbers = values[at].map(numbers).unwrap_or_default();
            let first = if descending { numbers.iter().max().map(|n| -n) } else { numbers.iter().min().copied() };
            first.unwrap_or(i64::MAX)
        };
        let at = |name: &String| name.trim_matches(char::is_alphabetic).parse::<usize>().unwrap();
        let keys: Vec<i64> = found.iter().map(|name| key(at(name))).collect();
        prop_assert!(keys.is_sorted(), "{:?}: {:?}", found, keys);
    }
}
