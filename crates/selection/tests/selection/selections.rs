//! Selections on documents: text in, outcome out.

use std::sync::Arc;

use millrace_document::{
    DataType, Document, DocumentField, DocumentGroup, DocumentId, DocumentType, DocumentValue, StructType,
};
use millrace_selection::{DocumentSelection, SelectionOutcome};
use proptest::prelude::*;

const NOW: i64 = 10_000;

fn text(text: &str) -> DocumentValue {
    DocumentValue::String(text.to_owned())
}

fn document(id: &str) -> Document {
    let person = |name: &str, age| {
        DocumentValue::Struct(vec![("name".into(), text(name)), ("age".into(), DocumentValue::Int(age))])
    };
    let fields = vec![
        ("title", text("Best of Bob")),
        ("year", DocumentValue::Int(1999)),
        ("price", DocumentValue::Double(1.5)),
        ("live", DocumentValue::Bool(true)),
        ("expire", DocumentValue::Long(9_000)),
        ("tags", DocumentValue::Array(vec![text("rock"), text("folk")])),
        ("codes", DocumentValue::WeightedSet(vec![(DocumentValue::Int(7), 3)])),
        ("names", DocumentValue::Map(vec![(text("a"), text("x")), (text("b c"), text("y"))])),
        ("people", DocumentValue::Array(vec![person("Ann", 30), person("Bo", 40)])),
        ("raw", DocumentValue::Raw(vec![1])),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
    Document { id: DocumentId::parse(id).unwrap(), fields }
}

fn evaluate(selection: &str) -> SelectionOutcome {
    DocumentSelection::parse(selection).unwrap().evaluate(&document("id:mine:music:g=me:n1"), NOW)
}

fn check(expected: SelectionOutcome, selections: &[&str]) {
    for selection in selections {
        assert_eq!(evaluate(selection), expected, "{selection}");
    }
}

#[test]
fn what_holds_is_selected() {
    check(
        SelectionOutcome::True,
        &[
            "",
            "music",
            "true",
            "TRUE and Not FALSE",
            "music.year > 5",
            "music and music.title == \"Best of Bob\"",
            "music.title = \"*Bob\" and music.title = 'B?st*'",
            "music.title =~ \"^B.*b$\"",
            "music.year == 1999.0",
            "5 < music.year",
            "music.year in (1998, 1999)",
            "not music.year in (1, 2)",
            "music.year / 3 > 10 and music.year % 1000 == 999",
            "(music.year + 1) * 2 == 4000",
            "music.year + 1 * 2 == 2001",
            "music.price * 2 == 3",
            "-3 == 0 - 3",
            // Every kind of number, each with a sign, which may stand apart.
            "0x7cf == music.year and 0X7CF == 1999",
            "0xffffffffffffffff == -1 and -0x10 == - 16",
            "music.year == + 1999 and - 3 == 0 - 3",
            "music.price == 1.5f and music.price == 1.5D and music.price == 15.e-1d",
            "music.year == 1999L and music.year == 1999l",
            "music.live == true",
            "music.expire > now() - 7200",
            "music.tags == \"folk\"",
            "music.tags[0] == \"rock\"",
            "music.tags = \"f*\"",
            "music.codes == 7",
            "music.codes{7} == 3",
            "music.codes.key == 7 and music.codes.value == 3",
            "music.names{a} == \"x\"",
            "music.names{\"b c\"} == \"y\"",
            "music.names == \"a\"",
            "music.names.key == \"b c\"",
            "music.names.value == \"y\"",
            "music.people.age > 35",
            "music.people[0].name.lowercase() == \"ann\"",
            "music.absent == null",
            "music.tags[9] == null",
            "music.year != null",
            "music.raw != null",
            "(music.title + \"!\").lowercase() = \"*bob!\"",
            "id == \"id:mine:music:g=me:n1\"",
            "id.scheme == \"id\" and id.namespace == \"mine\" and id.type == \"music\" and id.specific == \"n1\"",
            "ID.Group == \"me\"",
            "id.group.hash().abs() % 2 >= 0",
            "music.version() == 0",
            "\"a\\x41\\\"\" == \"aA\\\"\"",
            "false or music.year > 1 and true",
            "book or music",
            "1 == 1 or music.absent > 3",
        ],
    );
}

#[test]
fn what_does_not_hold_is_not() {
    check(
        SelectionOutcome::False,
        &[
            "false",
            "book",
            "music.absent",
            "not music",
            "music.year != 1999",
            "music.title == \"best of bob\"",
            "music.tags == \"jazz\"",
            "music.absent > 3 and false",
            "true and false or false",
            "null != null",
            "not music.tags == \"folk\"",
        ],
    );
}

#[test]
fn what_depends_on_what_is_not_there_is_invalid() {
    check(
        SelectionOutcome::Invalid,
        &[
            "music.absent > 3",
            "not music.absent > 3",
            "music.absent > 3 and true",
            "music.absent > 3 or false",
            "music.absent = \"x\"",
            "music.absent + 1 == 1",
            "book.year == 3",
            "music.year < \"x\"",
            "music.year / 0 == 1",
            "music.raw == 3",
            "music.title.abs() == 1",
            "music.year == \"1999\"",
            "music.year =~ \"1\"",
            "id.group == 5",
            "id.user == null",
        ],
    );
}

#[test]
fn wrong_text_is_refused_with_its_place() {
    for (selection, reason) in [
        ("music.year >", "expected a value before the end (character 13)"),
        ("music.year > 1 extra", "expected 'and', 'or' or the end (character 16)"),
        ("(music", "expected ')'"),
        ("music.year == 'x", "the quotes are not closed"),
        ("music.year == \"x", "quotes are not closed"),
        ("3", "expected a comparison, got a value alone (character 1)"),
        ("music == 3", "write music.field"),
        ("(music.year > 3) + 1 > 3", "got a condition"),
        ("music.title =~ \"(\"", "is not a regular expression: unclosed group"),
        ("music.people{$}.age > 3", "'$' is not a variable"),
        ("music.people[$a b].age > 3", "'$a b' is not a variable"),
        ("$x == 3", "a variable stands in a field path"),
        ("id.colour == 3", "an id has scheme"),
        ("music.year.round() == 3", "abs(), hash() and lowercase()"),
        ("and music", "expected a value, got 'and'"),
        ("music.x[a] == 1", "'a' is not an index"),
        ("@", "expected a value, got '@'"),
    ] {
        let error = DocumentSelection::parse(selection).map(drop).unwrap_err().to_string();
        assert!(error.contains(reason), "{selection}: {error}");
    }
    for deep in ["(".repeat(100_000), "not ".repeat(100_000), format!("1{}", "+1".repeat(100_000))] {
        assert!(DocumentSelection::parse(&deep).is_err());
    }
    let wide = format!("music{}", " or music".repeat(10_000));
    assert!(DocumentSelection::parse(&wide).is_ok());
}

#[test]
fn fields_are_checked_against_types() {
    let person = Arc::new(StructType {
        name: "person".to_owned(),
        fields: vec![DocumentField { name: "age".into(), data_type: DataType::Int }],
    });
    let people = DataType::Array(Box::new(DataType::Struct(person)));
    let music = DocumentType::new(
        "music",
        vec![
            DocumentField { name: "year".into(), data_type: DataType::Int },
            DocumentField { name: "people".into(), data_type: people },
        ],
    );
    let check = |selection: &str| {
        let selection = DocumentSelection::parse(selection).unwrap();
        selection.check(|name| (name == "music").then_some(&music)).map_err(|error| error.to_string())
    };
    assert_eq!(
        check("music and music.year > 1 and music.people.age > 3 and music.people[0].age == 1"),
        Ok(())
    );
    for (selection, reason) in [
        ("book", "no document type 'book'"),
        ("music.yaer > 1", "document type 'music' has no field 'yaer'"),
        ("music.people.name == 1", "'.name' does not lead into array<person>"),
        ("music.year{a} == 1", "'{a}' does not lead into int"),
        ("book.version() == 1", "no document type 'book'"),
    ] {
        assert!(check(selection).unwrap_err().contains(reason), "{selection}");
    }
    let selection =
        DocumentSelection::parse("music.year > 1 and (music.people.age == 1 or music.year < 3)").unwrap();
    assert_eq!(selection.fields("music"), ["people", "year"]);
}

#[test]
fn groups_of_a_selection_are_found() {
    let name = |name: &str| DocumentGroup::Name(name.to_owned());
    for (selection, expected) in [
        ("id.group == \"x\"", Some(vec![name("x")])),
        ("\"x\" == id.group and music", Some(vec![name("x")])),
        (
            "id.user == 3 or id.user == 18446744073709551615",
            Some(vec![DocumentGroup::Number(3), DocumentGroup::Number(u64::MAX)]),
        ),
        ("id.group in (\"a\", \"b\")", Some(vec![name("a"), name("b")])),
        ("id.group == \"x\" and id.group == \"y\"", Some(vec![])),
        ("id == \"id:a:music:g=x:1\"", Some(vec![name("x")])),
        ("id.group = \"x\"", Some(vec![name("x")])),
        ("false", Some(vec![])),
        ("id.group = \"x*\"", None),
        ("id.group == \"x\" or music.year > 3", None),
        ("not id.group == \"x\"", None),
        ("id.user == 3.5", None),
        ("true", None),
    ] {
        let groups = DocumentSelection::parse(selection).unwrap().groups();
        assert_eq!(groups.map(|groups| groups.into_iter().collect::<Vec<_>>()), expected, "{selection}");
    }
}

#[test]
fn a_selection_that_only_names_groups_is_the_list_of_them() {
    let name = |name: &str| DocumentGroup::Name(name.to_owned());
    for (selection, expected) in [
        ("id.group == \"x\"", Some(vec![name("x")])),
        ("id.group=='x' OR 5 == id.user", Some(vec![DocumentGroup::Number(5), name("x")])),
        ("id.group in (\"a\", \"b\")", Some(vec![name("a"), name("b")])),
        ("id.group = \"x\"", Some(vec![name("x")])),
        ("id.group = \"x*\"", None),
        ("id.group == \"x\" and music.year > 3", None),
        ("id.group == \"x\" or music.year > 3", None),
        ("id.group != \"x\"", None),
        ("not id.group == \"x\"", None),
        ("id == \"id:a:music:g=x:1\"", None),
        ("false", None),
        ("true", None),
    ] {
        let groups = DocumentSelection::parse(selection).unwrap().named_groups();
        let groups = groups.map(|groups| {
            let mut groups: Vec<DocumentGroup> = groups.into_iter().collect();
            groups.sort_by_key(|group| matches!(group, DocumentGroup::Name(_)));
            groups
        });
        assert_eq!(groups, expected, "{selection}");
    }
}

fn selections() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("id.group == \"me\"".to_owned()),
        Just("id.group == \"you\"".to_owned()),
        Just("id.user == 5".to_owned()),
        Just("music.year > 1".to_owned()),
        Just("music.absent > 1".to_owned()),
        Just("music".to_owned()),
        Just("false".to_owned()),
        Just("true".to_owned()),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} and {other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} or {other})")),
            inner.prop_map(|inner| format!("not ({inner})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_selected_document_is_outside_the_groups(selection in selections()) {
        let selection = DocumentSelection::parse(&selection).unwrap();
        if let Some(groups) = selection.groups() {
            for id in ["id:a:music:g=me:1", "id:a:music:g=you:1", "id:a:music:n=5:1", "id:a:music::1"] {
                let document = document(id);
                prop_assert!(!selection.matches(&document, NOW) || groups.contains(document.id.group()), "{}", id);
            }
        }
    }

    #[test]
    fn documents_of_named_groups_are_those_that_are_selected(selection in selections()) {
        let selection = DocumentSelection::parse(&selection).unwrap();
        if let Some(groups) = selection.named_groups() {
            for id in ["id:a:music:g=me:1", "id:a:music:g=you:1", "id:a:music:n=5:1", "id:a:music::1"] {
                let document = document(id);
                prop_assert_eq!(selection.matches(&document, NOW), groups.contains(document.id.group()), "{}", id);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_parser(pieces in proptest::collection::vec(prop_oneof![
        Just("music"), Just("."), Just("year"), Just("{"), Just("}"), Just("["), Just("]"), Just("("), Just(")"), Just("\""),
        Just("\\x4"), Just("id"), Just(" not "), Just(" and "), Just(" or "), Just(" in "), Just("=="), Just("=~"), Just("1e5"), Just("-"),
        Just("%"), Just("é"), Just("now()"), Just(".hash()"), Just(","), Just("$x"), Just("[$x]"), Just("null"),
    ], 0..12)) {
        if let Ok(selection) = DocumentSelection::parse(&pieces.concat()) {
            selection.evaluate(&document("id:a:music::1"), NOW);
            selection.groups();
        }
    }

    #[test]
    fn globs_agree_with_regular_expressions(pattern in "[ab*?]{0,6}", text in "[ab]{0,6}") {
        let regex = format!("^{}$", pattern.replace('*', ".*").replace('?', "."));
        let selection = format!("\"{text}\" = \"{pattern}\"");
        let expected = regex::Regex::new(&regex).unwrap().is_match(&text);
        prop_assert_eq!(evaluate(&selection) == SelectionOutcome::True, expected, "{}", selection);
    }
}
