//! Selections at the endpoint of a group, where ids are written without it.

use millrace_document::{Document, DocumentGroup, DocumentId};
use millrace_selection::{DocumentSelection, SelectionOutcome};

/// A selection as it is written at the endpoint of the group `ann`, and as it is evaluated.
#[test]
fn ids_without_a_group_get_the_implied_one() {
    let ann = DocumentGroup::Name("ann".to_owned());
    for (written, evaluated) in [
        ("id == 'id:n:note::1'", "id == \"id:n:note:g=ann:1\""),
        ("'id:n:note::1' == id", "\"id:n:note:g=ann:1\" == id"),
        ("id != ( 'id:n:note::1' ) and true", "id != ( \"id:n:note:g=ann:1\" ) and true"),
        ("id >= \"id:n:note::1\"", "id >= \"id:n:note:g=ann:1\""),
        ("id = 'id:n:note::a*'", "id = \"id:n:note:g=ann:a*\""),
        ("id = 'id:*::a*'", "id = \"id:*:g=ann:a*\""),
        ("id = 'id:*:n*::a?'", "id = \"id:*:n*:g=ann:a?\""),
        (
            "id in ('id:n:note::1', 'x', 'id:n:note::2') or note.a == 'id:n:note::3'",
            "id in (\"id:n:note:g=ann:1\", 'x', \"id:n:note:g=ann:2\") or note.a == 'id:n:note::3'",
        ),
        ("'id:n:note::1' in (note.a, id, 'y', id)", "\"id:n:note:g=ann:1\" in (note.a, id, 'y', id)"),
        ("note.a == 'x' and id == 'id:n:note::1::2'", "note.a == 'x' and id == \"id:n:note:g=ann:1::2\""),
        ("id == 'id:n:note::a\\'\\\"\\\\'", "id == \"id:n:note:g=ann:a'\\\"\\\\\""),
    ] {
        let selection = DocumentSelection::parse(written).expect(written);
        assert_eq!(selection.text_within(&ann), evaluated, "{written}");
        let again = DocumentSelection::parse(evaluated).expect(evaluated);
        assert_eq!(again.text_within(&ann), evaluated, "{written}");
    }
    for unchanged in [
        "",
        "true",
        "id == 'id:n:note:g=ann:1'",
        "id == 'id:n:note:g=bob:1::2'",
        "id == 'id:n:note:g=ann::'",
        "id = 'id:*:g=ann::1'",
        "id = '*::1'",
        "id = 'id:*'",
        "id == 'note::1'",
        "id =~ '^id:n:note::1'",
        "id.group == 'ann'",
        "id.specific == 'id:n:note::1'",
        "id.lowercase() == 'id:n:note::1'",
        "id == 'id:n:note:' + ':1'",
        "note.a == 'id:n:note::1'",
        "note.a{'id:n:note::1'} == 1 and id == note.a",
    ] {
        let selection = DocumentSelection::parse(unchanged).expect(unchanged);
        assert_eq!(selection.text_within(&ann), unchanged);
    }
}

#[test]
fn a_shown_id_selects_its_document() {
    for group in [
        DocumentGroup::Name("ann".to_owned()),
        DocumentGroup::Name("a'b\"c\\d*?".to_owned()),
        DocumentGroup::Name("n=7".to_owned()),
        DocumentGroup::Number(7),
    ] {
        let id = DocumentId::new("n", "note", &group, "it's \"1\"").expect("an id");
        let shown = id.shown_within(Some(&group)).replace('\\', "\\\\").replace('"', "\\\"");
        let document = Document { id, fields: Vec::new() };
        for operator in ["==", "="] {
            let selection =
                DocumentSelection::parse(&format!("id {operator} \"{shown}\"")).expect("it is one");
            let within = DocumentSelection::parse(&selection.text_within(&group)).expect("it is one");
            assert_eq!(within.evaluate(&document, 0), SelectionOutcome::True, "{}", within.text());
            assert_eq!(selection.evaluate(&document, 0), SelectionOutcome::False, "{shown}");
        }
    }
}

/// Selections, and their text for the documents of ann.
#[test]
fn a_selection_is_restricted_to_a_group_unless_it_asks_for_others() {
    let ann = DocumentGroup::Name("ann".to_owned());
    for (written, expected) in [
        ("note.a == 1", Some("id.group == \"ann\" and (note.a == 1)")),
        ("note.a == 1 or note", Some("id.group == \"ann\" and (note.a == 1 or note)")),
        ("id = 'id:n:note:g=ann:*'", Some("id.group == \"ann\" and (id = 'id:n:note:g=ann:*')")),
        ("id.group != 'bob'", Some("id.group == \"ann\" and (id.group != 'bob')")),
        ("true", None),
        ("id.group == 'ann'", None),
        ("id.group == 'bob'", None),
        ("id.group != 'ann'", None),
        ("id = 'id:n:note:g=bob:*'", None),
        ("note.a == 1 or id.group == 'bob'", None),
    ] {
        let selection = DocumentSelection::parse(written).expect(written);
        assert_eq!(selection.text_of_group(&ann).as_deref(), expected, "{written}");
    }
    for group in [DocumentGroup::Name("a'b\"c\\d".to_owned()), DocumentGroup::Number(7)] {
        let selection = DocumentSelection::parse("note.a == 1").expect("a selection");
        let text = selection.text_of_group(&group).expect("it names no group");
        let groups = DocumentSelection::parse(&text).expect("a selection").groups().expect("a group");
        assert!(groups.iter().eq([&group]), "{text}");
    }
    let selection = DocumentSelection::parse("note.a == 1").expect("a selection");
    assert_eq!(selection.text_of_group(&DocumentGroup::None), None);
}
