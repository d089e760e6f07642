//! Groups and aggregates of numbers that are computed for many documents at once, compared with those of each
//! document.

use millrace_document::DocumentValue;
use millrace_grouping::{ArgumentKinds, FUNCTIONS, ReturnKind};

use crate::support::{TestPurchase, compare};

/// A field of each type of numbers, and numbers that are not of a field.
const OPERANDS: [&str; 9] = [
    "price",
    "date",
    "level",
    "paid",
    "rating",
    "tax",
    "3",
    "relevance()",
    "geo_distance(attribute(place), 1, 2).km",
];

/// Keys of an operand: its buckets, and expressions of several functions.
const KEYS: [fn(&str) -> String; 9] = [
    |operand| operand.to_owned(),
    |operand| format!("fixedwidth({operand}, 10)"),
    |operand| format!("fixedwidth({operand}, 0.5)"),
    |operand| format!("predefined({operand}, bucket(-1, 1), bucket(1, 1000))"),
    |operand| format!("predefined({operand}, bucket(-1.5, 0.25), bucket(0.25, inf))"),
    |operand| format!("add({operand}, price, tax, 1)"),
    |operand| format!("tolong(math.sqrt({operand} * {operand}) % 7 - level)"),
    |operand| format!("max({operand}, strlen(customer))"),
    |operand| format!("{operand} + strlen(tags)"),
];

/// Documents with seven values in each field, one of which is none: any two fields have all pairs of them.
fn documents() -> Vec<TestPurchase> {
    let texts = |texts: [&str; 2]| texts.map(|text| DocumentValue::String(text.to_owned()));
    let values: [(&str, [DocumentValue; 6]); 6] = [
        ("price", [0, 1, -1, 7, i32::MAX, i32::MIN].map(DocumentValue::Int)),
        ("date", [0, 3, -1, 1_230_767_999, i64::MAX, i64::MIN].map(DocumentValue::Long)),
        ("level", [0, 1, -1, 5, i8::MAX, i8::MIN].map(DocumentValue::Byte)),
        ("paid", [true, false, true, true, false, true].map(DocumentValue::Bool)),
        ("rating", [0.0, -0.0, 5.9, -1.5, f32::NAN, f32::INFINITY].map(DocumentValue::Float)),
        ("tax", [0.0, -0.0, 0.5, -2.5, 1e300, f64::NAN].map(DocumentValue::Double)),
    ];
    let document = |index: usize| {
        let mut fields = Vec::new();
        for (step, (name, values)) in values.iter().enumerate() {
            let value = values.get((index / 7 + step * index) % 7);
            fields.extend(value.map(|value| (*name, value.clone())));
        }
        if !index.is_multiple_of(3) {
            let (latitude, longitude) = (index as i32 * 100_000, 2_000_000);
            let [a, b] = texts(["a", "b"]);
            fields.push(("place", DocumentValue::Position { latitude, longitude }));
            fields.push(("customer", a.clone()));
            fields.push(("sizes", DocumentValue::Array([1, 2].map(DocumentValue::Int).to_vec())));
            fields.push(("tags", DocumentValue::Array(texts(["long", "longer"]).to_vec())));
            fields.push(("attributes", DocumentValue::Map(vec![(a.clone(), b.clone()), (b, a)])));
        }
        TestPurchase { name: index.to_string(), score: index as f64 / 3.0, fields }
    };
    (0..49).map(document).collect()
}

/// Compares aggregates of expressions, and groups by them inside others.
fn compare_all(expressions: &[String], documents: &[TestPurchase]) {
    let aggregates = |e: &String| {
        format!("sum({e}), avg({e}), min({e}), max({e}), xor({e}), stddev({e}), quantiles([0.5], {e})")
    };
    let aggregates: Vec<String> = expressions.iter().map(aggregates).collect();
    let list = |e: &String| format!("all(group({e}) each(output(count())))");
    let lists: Vec<String> = expressions.iter().map(list).collect();
    let (aggregates, lists) = (aggregates.join(", "), lists.join(" "));
    compare(&format!("all(group(paid) each(output(count(), {aggregates}) {lists}))"), documents);
}

#[test]
fn functions_of_columns_are_those_of_each_document() {
    let documents = documents();
    let of_numbers = FUNCTIONS.iter().filter(|function| {
        matches!(function.accepts, ArgumentKinds::Any | ArgumentKinds::Numbers)
            && matches!(function.returns, ReturnKind::Long | ReturnKind::Double | ReturnKind::Number)
    });
    for function in of_numbers {
        let name = function.name;
        if function.min_arguments == 1 {
            compare_all(&OPERANDS.map(|operand| format!("{name}({operand})")), &documents);
        }
        if function.max_arguments > 1 {
            for first in OPERANDS {
                compare_all(&OPERANDS.map(|second| format!("{name}({first}, {second})")), &documents);
            }
        }
    }
}

#[test]
fn keys_of_columns_are_those_of_each_document() {
    let documents = documents();
    for operand in OPERANDS {
        for key in KEYS.map(|key| key(operand)) {
            for outer in ["paid", "sizes", "attributes.key"] {
                for filter in ["", "filter(range(0, 2, level))"] {
                    compare(
                        &format!(
                            "all(group({outer}) {filter} each(output(count()) \
                             all(group({key}) {filter} each(output(count(), max({operand}))))))"
                        ),
                        &documents,
                    );
                }
            }
        }
    }
}
