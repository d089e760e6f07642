//! The table `requests.txt`: one request per line, and below it, indented, the groups or the error for the
//! same few purchases. `UPDATE_GOLDEN=1 cargo test` rewrites the results; review the diff.

use millrace_document::DocumentValue;
use millrace_grouping::GroupingRequest;

use crate::support::{TestPurchase, execute, schema, settings, show};

fn texts(list: &[&str]) -> DocumentValue {
    DocumentValue::Array(list.iter().map(|text| DocumentValue::String((*text).to_owned())).collect())
}

fn position(latitude: i32, longitude: i32) -> DocumentValue {
    DocumentValue::Position { latitude, longitude }
}

/// Seven purchases; the last has a value only for the customer.
fn purchases() -> Vec<TestPurchase> {
    let rows = [
        ("a", 0.9, "Smith", "Spark plug", 100, 0.25, 4.5f32, 1_157_526_000i64, true),
        ("b", 0.8, "Jones", "Oil pan", 250, 0.25, 3.0, 1_157_612_400, false),
        ("c", 0.7, "Smith", "Intake valve", 1000, 0.5, 5.0, 1_157_612_401, true),
        ("d", 0.6, "Brown", "Head", 8000, 0.125, 1.5, 1_157_698_800, true),
        ("e", 0.5, "Jones", "Head", 250, 0.125, 2.6, 1_160_000_000, false),
        ("f", 0.4, "Smith", "Ångström", 300, 0.5, 4.5, 0, false),
    ];
    let mut purchases: Vec<TestPurchase> = rows
        .into_iter()
        .enumerate()
        .map(|(index, (name, score, customer, item, price, tax, rating, date, paid))| TestPurchase {
            name: name.to_owned(),
            score,
            fields: vec![
                ("customer", DocumentValue::String(customer.to_owned())),
                ("item", DocumentValue::String(item.to_owned())),
                ("subject", DocumentValue::String(format!("Re: FWD: Re[2]: {item}"))),
                ("price", DocumentValue::Int(price)),
                ("tax", DocumentValue::Double(tax)),
                ("rating", DocumentValue::Float(rating)),
                ("date", DocumentValue::Long(date)),
                ("level", DocumentValue::Byte(index as i8 % 3)),
                ("paid", DocumentValue::Bool(paid)),
                ("digest", DocumentValue::Raw(vec![index as u8 % 2, 255])),
                (
                    "tags",
                    texts(
                        [&["new", "red"][..], &["red"], &[], &["old", "red", "red"], &["new"], &["x"]][index],
                    ),
                ),
                ("sizes", DocumentValue::Array((0..=index as i32).map(DocumentValue::Int).collect())),
                (
                    "curve",
                    DocumentValue::Array([0.0, 1.0, 2.0, 4.0, 8.0].map(DocumentValue::Double).to_vec()),
                ),
                (
                    "votes",
                    DocumentValue::WeightedSet(vec![
                        (DocumentValue::String("up".to_owned()), index as i32),
                        (DocumentValue::String(customer.to_lowercase()), 1),
                    ]),
                ),
                (
                    "attributes",
                    DocumentValue::Map(vec![
                        (
                            DocumentValue::String("rep".to_owned()),
                            DocumentValue::String(["Bo", "Al"][index % 2].to_owned()),
                        ),
                        (DocumentValue::String(customer.to_owned()), DocumentValue::String("own".to_owned())),
                    ]),
                ),
                (
                    "stock",
                    DocumentValue::Map(vec![(DocumentValue::Int(7), DocumentValue::Long(index as i64 * 10))]),
                ),
                (
                    "parts",
                    DocumentValue::Array(
                        ["nut", "bolt"][..1 + index % 2]
                            .iter()
                            .enumerate()
                            .map(|(at, part)| {
                                DocumentValue::Struct(vec![
                                    ("name".into(), DocumentValue::String((*part).to_owned())),
                                    ("count".into(), DocumentValue::Int((at + 1) as i32)),
                                ])
                            })
                            .collect(),
                    ),
                ),
                ("place", position(63_400_000 + 1_000_000 * index as i32, 10_400_000)),
                ("route", DocumentValue::Array(vec![position(0, 0), position(63_400_000, 10_400_000)])),
            ],
        })
        .collect();
    purchases.push(TestPurchase {
        name: "g".to_owned(),
        score: 0.1,
        fields: vec![("customer", DocumentValue::String("Void".to_owned()))],
    });
    purchases
}

fn answer(text: &str) -> String {
    let (zone, text) = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(' ').expect("a zone, a space and a request"),
        None => ("utc", text),
    };
    let purchases = purchases();
    let requests = match GroupingRequest::parse(text) {
        Ok(requests) => requests,
        Err(error) => return format!("error: {error}"),
    };
    let answers =
        requests.iter().map(|request| match execute(request, &schema(), &settings(zone), &[&purchases]) {
            Ok(result) => {
                let (front, back) = purchases.split_at(3);
                let merged =
                    execute(request, &schema(), &settings(zone), &[front, back]).expect("as in one part");
                if !text.starts_with("all(max(") {
                    assert_eq!(show(&merged), show(&result), "merged from two parts: {text}");
                }
                show(&result)
            }
            Err(error) => format!("error: {error}"),
        });
    answers.collect::<Vec<_>>().join(" | ")
}

#[test]
fn requests_give_their_groups() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/requests.txt");
    let table = std::fs::read_to_string(path).expect("the table is there");
    let mut written = String::new();
    let mut wrong = Vec::new();
    let mut lines = table.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        if line.is_empty() || line.starts_with('#') || line.starts_with("    ") {
            continue;
        }
        count += 1;
        let expected = lines.next_if(|line| line.starts_with("    ")).unwrap_or_default().trim();
        let answer = answer(line);
        if answer != expected {
            wrong.push(format!("{line}\n    expected {expected}\n    got      {answer}"));
        }
        written.push_str(&format!("    {answer}\n"));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, written).expect("the table can be written");
    } else {
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}
