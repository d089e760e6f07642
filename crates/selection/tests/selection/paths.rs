//! Selections on collections, structs and ids, production by production: a table of text and outcome.

use std::sync::Arc;

use millrace_document::{
    DataType, Document, DocumentField, DocumentId, DocumentType, DocumentValue, StructType,
};
use millrace_selection::{DocumentSelection, SelectionOutcome};

/// Each line: a selection, and its outcome for a document with values, `full`, and for one without, `bare`.
const TABLE: &str = r#"
# Nothing there: equal to null alone, and nothing else is known.
base.person                                                   => true false
base.person == null                                           => false true
base.person != null                                           => true false
null == base.person                                           => false true
base.count != 1234                                            => true true
base.count == 1234                                            => false false
base.count < 1234                                             => true invalid
base.count < 1234 and false                                   => false false
base.count < 1234 or true                                     => true true
base.count < 1234 and true                                    => true invalid
base.count and base.count < 1234                              => true false
null = null                                                   => true true
null = 0                                                      => false false
null < null                                                   => invalid invalid

# Values of different kinds are neither equal nor different.
30 != "x"                                                     => invalid invalid
30 < "x"                                                      => invalid invalid
base.title = 1                                                => invalid false
base.title == 1                                               => invalid false
not base.title == 1                                           => invalid true
base.title =~ 1                                               => invalid invalid
base.count = "2*"                                             => invalid invalid
base.count =~ "2"                                             => invalid invalid
base.title < base.count                                       => invalid invalid
base.bytes == base.bytes                                    => invalid true
base.bytes == 1                                              => invalid false
base.bytes != null                                           => true false
true == 1 and false == 0 and true != false                    => true true
base.flag == true and base.flag = 1                           => true false
base.flag == false                                            => false false

# Structs: compared member by member.
base.person.age == 14                                         => true false
base.person.name = "an?"                                      => true invalid
base.person.name =~ "^a"                                      => true invalid
base.person == base.person                                    => true true
base.person != base.person                                    => false false
base.person < base.person                                     => false invalid
base.person < 5                                               => invalid invalid
base.person == "x"                                            => invalid false
base.place.x == 10400000 and base.place.y > 63000000          => true false
base.place == 10400000 and base.place > 63000000              => true false
base.place == 1                                               => false false
base.place != null                                            => true false

# Collections: true if it is for one element; for another collection, if it is for all of them.
base.numbers == 84                                            => true false
base.numbers != 84                                            => true true
not base.numbers == 84                                        => false true
not base.numbers != 84                                        => false false
base.numbers < 13                                             => true invalid
base.numbers > 84                                             => false invalid
84 <= base.numbers                                            => true invalid
84 < base.numbers                                             => false invalid
base.numbers == base.numbers                                  => true true
base.numbers < base.numbers                                   => false invalid
base.numbers > base.single                                    => true invalid
base.numbers == "x"                                           => invalid false
base.numbers[1] == 84                                         => true false
base.numbers[ 1 ] == 84                                       => true false
base.numbers[9]                                               => false false
base.single + 1 == 8                                          => true invalid
base.numbers + 1 == 13                                        => invalid invalid
base.people                                                   => true false
base.people.age == 15                                         => true false
base.people[1].age = 16                                       => true false
base.people[4].age == 15                                      => false false
base.people.name = "b*"                                       => true invalid
base.people.name =~ "^b[0-9]$"                                => true invalid
base.people .name == "b1"                                     => true false
base . people . name == "b1"                                  => true false

# Maps and weighted sets: compared by their keys.
base.names == 3                                               => true false
base.names = 4                                                => false false
base.names{3} == "a"                                          => true false
base.names{ 3 } = "a"                                         => true invalid
base.names{9}                                                 => false false
base.names.value =~ "c"                                       => true invalid
base.names.value == "d"                                       => false false
base.names.key > 6                                            => true invalid
base.teams{"one and all"}                                     => true false
base.teams == "red"                                           => true false
base.weights                                                  => true false
base.weights{w1} == 1                                         => true false
base.weights{"w1"} == 2                                       => false false
base.weights = "w*" and base.weights =~ "w[12]"               => true invalid

# Variables stand for one element in all conditions.
base.people[$x].age == 15 AND base.people[$x].name == "b1"    => true false
base.people[$x].age == 15 AND base.people[$x].name == "b2"    => false false
base.people[$x].age == 15 AND base.people[$y].name == "b2"    => true false
base.people[$x].age > 20 OR base.people[$x].name == "b2"      => true invalid
not base.people[$x].age == 15                                 => true true
base.people[$x].age > 1 and base.count == 24                  => true false
base.count == 24 and base.people[$x].age > 1                  => true false
base.teams{$x}[$y].age == 15 AND base.teams{$x}[$y].name == "b1"     => true false
base.teams{$x}[$y].age == 15 AND base.teams{$x}[$y].name == "b2"     => false false
base.teams.value[$y].age == 15 AND base.teams.value[$y].name == "b1" => true false
base.teams{$x}[$y].age == 15 AND base.teams{$y}[$x].name == "b2"     => false false
base.teams{$x}.age == 15 AND base.weights{$x}                 => true false
base.teams{$x}.age == 17 AND base.weights{$x}                 => false false
base.teams{ $x }[ $x ].age == 15                              => false false
base.numbers[$x] == 84 and base.people[$x].age == 16          => true false
base.numbers[$x] == 12 and base.people[$x].age == 16          => false false

# Ids.
id.user == 1234                                               => invalid invalid
not id.user == 1234                                           => invalid invalid
id.user == null                                               => invalid invalid
id.group == 1234                                              => invalid invalid
id.bucket == 1234                                             => false false
id.bucket == 0x6000000000000000                               => false false
id.bucket == "x"                                              => invalid invalid
id.bucket < 1                                                 => invalid invalid
id.gid == "gid(0xab86a1e15573889ecd0a49fb)"           => true false
id.gid = "gid(0xab86a1e1*"                                  => true true
ID.Bucket == 0x40000000000086ab                               => true true
id.bucket = 0x40000000000086aa                                => false false
id.bucket != 0x40000000000086aa                               => true true
0xa00000cde1a186ab == id.bucket                              => true false

# Functions.
"bar".hash() == -2012135647395072713                          => true true
"bar".hash().abs() == 2012135647395072713                     => true true
null.hash() == 123                                            => invalid invalid
(0.234).hash() == 123                                         => false false
(0.234).lowercase() == 123                                    => invalid invalid
"ÆÅ" . lowercase ( ) == "æå"                                  => true true
"\u00e6\x41" == "æA"                                          => true true
34.0 % 4 = 4                                                  => invalid invalid
-6 % 10 = -6                                                  => true true
"x" + 4 == 25                                                 => invalid invalid

# Names that are words of the language elsewhere.
base.user.group == "me" or base.id == 1 or base.type          => invalid invalid
user                                                          => false false
now or nowhere or andor or ornot or nothing                   => false false
"#;

fn text(text: &str) -> DocumentValue {
    DocumentValue::String(text.to_owned())
}

fn person(name: &str, age: i32) -> DocumentValue {
    DocumentValue::Struct(vec![("name".into(), text(name)), ("age".into(), DocumentValue::Int(age))])
}

fn full() -> Document {
    let ints =
        |numbers: &[i32]| DocumentValue::Array(numbers.iter().copied().map(DocumentValue::Int).collect());
    let people = |all: &[(&str, i32)]| {
        DocumentValue::Array(all.iter().map(|(name, age)| person(name, *age)).collect())
    };
    let pairs = [("b1", 15), ("b2", 16)];
    let fields = vec![
        ("count", DocumentValue::Int(24)),
        ("title", text("Best")),
        ("flag", DocumentValue::Bool(true)),
        ("bytes", DocumentValue::Raw(vec![1])),
        ("person", person("ann", 14)),
        ("place", DocumentValue::Position { latitude: 63_400_000, longitude: 10_400_000 }),
        ("numbers", ints(&[12, 84])),
        ("single", ints(&[7])),
        ("people", people(&pairs)),
        (
            "names",
            DocumentValue::Map(
                [(3, "a"), (5, "b"), (7, "c")]
                    .map(|(key, value)| (DocumentValue::Int(key), text(value)))
                    .to_vec(),
            ),
        ),
        (
            "teams",
            DocumentValue::Map(vec![
                (text("red"), people(&pairs)),
                (text("one and all"), people(&pairs)),
                (text("blue"), people(&[("b3", 17), ("b4", 18)])),
            ]),
        ),
        ("weights", DocumentValue::WeightedSet(vec![(text("red"), 1), (text("w1"), 1), (text("w2"), 1)])),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Document { id: DocumentId::parse("id:mine:heir:g=me:n1").unwrap(), fields }
}

/// The type `heir`, which inherits `base`.
fn heir() -> DocumentType {
    let member = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let person = Arc::new(StructType {
        name: "person".to_owned(),
        fields: vec![member("name", DataType::String), member("age", DataType::Int)],
    });
    let array = |element| DataType::Array(Box::new(element));
    let map = |key, value| DataType::Map(Box::new(key), Box::new(value));
    let people = || array(DataType::Struct(Arc::clone(&person)));
    let weights = DataType::WeightedSet {
        element: Box::new(DataType::String),
        create_if_nonexistent: false,
        remove_if_zero: false,
    };
    let fields = vec![
        member("count", DataType::Int),
        member("title", DataType::String),
        member("flag", DataType::Bool),
        member("bytes", DataType::Raw),
        member("person", DataType::Struct(Arc::clone(&person))),
        member("place", DataType::Position),
        member("numbers", array(DataType::Int)),
        member("single", array(DataType::Int)),
        member("people", people()),
        member("names", map(DataType::Int, DataType::String)),
        member("teams", map(DataType::String, people())),
        member("weights", weights),
    ];
    DocumentType::new("heir", fields)
}

fn outcome(selection: &str, document: &Document) -> &'static str {
    let mut selection = DocumentSelection::parse(selection).unwrap_or_else(|error| panic!("{error}"));
    selection.bind(&heir(), &["base".into()]).unwrap_or_else(|error| panic!("{error}"));
    match selection.evaluate(document, 10_000) {
        SelectionOutcome::True => "true",
        SelectionOutcome::False => "false",
        SelectionOutcome::Invalid => "invalid",
    }
}

#[test]
fn selections_have_the_outcomes_of_the_table() {
    let (full, bare) =
        (full(), Document { id: DocumentId::parse("id:mine:heir:g=me:n2").unwrap(), fields: Vec::new() });
    let mut wrong = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (selection, expected) = line.split_once(" => ").unwrap();
        let outcomes = format!("{} {}", outcome(selection.trim(), &full), outcome(selection.trim(), &bare));
        if outcomes != expected {
            wrong.push(format!("{selection} => {outcomes}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_type_that_inherits_another_has_its_fields() {
    let mut selection = DocumentSelection::parse("base.count > 1 and other.count > 1").unwrap();
    assert_eq!(selection.fields("heir"), Vec::<&str>::new());
    assert_eq!(selection.evaluate(&full(), 0), SelectionOutcome::Invalid);
    selection.bind(&heir(), &["base".into()]).unwrap();
    assert_eq!(selection.fields("heir"), ["count"]);
    assert_eq!(selection.fields("base"), ["count"]);
    for (text, reason) in [
        ("base.people.x", "'.x' does not lead into array<person>"),
        ("heir.count[$x]", "'[$x]' does not lead into int"),
        ("heir.missing == 1", "no field 'missing'"),
    ] {
        let error = DocumentSelection::parse(text).unwrap().bind(&heir(), &["base".into()]).unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
}

#[test]
fn a_type_by_itself_is_exact() {
    assert_eq!(outcome("base", &full()), "false");
    assert_eq!(outcome("heir", &full()), "true");
}

#[test]
fn assignments_are_bounded() {
    let numbers = (0..20_000).map(DocumentValue::Int).collect();
    let document = Document {
        id: DocumentId::parse("id:mine:heir:g=me:n1").unwrap(),
        fields: vec![("numbers".into(), DocumentValue::Array(numbers))],
    };
    let pairs = "base.numbers[$x] == 1 and base.numbers[$y] == 2";
    assert_eq!(outcome("base.numbers[$x] > 1 and base.numbers[$x] < 3", &document), "true");
    assert_eq!(outcome(pairs, &document), "invalid");
}
