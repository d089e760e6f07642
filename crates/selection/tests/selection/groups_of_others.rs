//! Conditions by which a selection asks for documents of groups other than those of a caller.

use millrace_document::DocumentGroup;
use millrace_selection::DocumentSelection;

fn selects_other_groups(selection: &str, groups: &[DocumentGroup]) -> bool {
    DocumentSelection::parse(selection).expect(selection).foreign_group_condition(groups).is_some()
}

fn ann() -> Vec<DocumentGroup> {
    vec![DocumentGroup::Name("ann".to_owned())]
}

#[test]
fn each_way_to_name_another_group_asks_for_it() {
    for selection in [
        "id.group == 'bob'",
        "'bob' == id.group",
        "id.group = 'bob'",
        "id.group = 'b*'",
        "id.group =~ '^b'",
        "id.group in ('ann', 'bob')",
        "id.group == 'ann' or id.group == 'bob'",
        "id.group == 'bob' or true",
        "id.group == 'bob' and note.stars > 3",
        "not (note.stars > 3 or not id.group == 'bob')",
        "not id.group == 'ann'",
        "not id.group != 'bob'",
        "id.group != 'ann'",
        "id.group > 'ann'",
        "id.group < 'ann'",
        "id.group + 'x' == 'bobx'",
        "id.group.lowercase() == 'bob'",
        "id.user == 7",
        "7 == id.user",
        "id.user > 0",
        "id.user != 7",
        "not id.user == 7",
        "id.user % 2 == 1",
        "id == 'id:n:note:g=bob:1'",
        "'id:n:note:g=bob:1' == id",
        "id = 'id:n:note:g=bob:1'",
        "id = 'id:n:note:g=bob:*'",
        "id = 'id:*:g=bob:*'",
        "id = 'id:*:*:g=bob:*'",
        "id = '*:g=bob:*'",
        "id = 'id:?:note:n=7:*'",
        "id == 'id:n:note::1'",
        "id == 'id:n:note:n=7:1'",
        "id in ('id:n:note:g=ann:1', 'id:n:note:g=bob:1')",
    ] {
        assert!(selects_other_groups(selection, &ann()), "{selection}");
    }
}

#[test]
fn conditions_that_hold_in_the_own_group_do_not() {
    for selection in [
        "true",
        "note",
        "note.stars > 3",
        "id.group == 'ann'",
        "id.group = 'a*'",
        "id.group =~ 'n+$'",
        "id.group.lowercase() == 'ann'",
        "id.group >= 'ann'",
        "id.group != 'bob'",
        "not id.group == 'bob'",
        "not (id.group == 'bob' and note.stars > 3)",
        "id == 'id:n:note:g=ann:1'",
        "id = 'id:*'",
        "id = '*bob*'",
        "id = 'id:n:note:g=ann:g=bob:1'",
        "id = 'id:*:g=a?n:*'",
        "id = 'id:*:g=ann:http://*'",
        "id = 'id:*:g=b*'",
        "id != 'id:n:note:g=bob:1'",
        "not id = 'id:*:g=bob:*'",
        "id =~ 'g=bob'",
        "id.group == note.title",
        "id.namespace == 'bob'",
        "id.specific == 'bob'",
    ] {
        assert!(!selects_other_groups(selection, &ann()), "{selection}");
    }
}

#[test]
fn each_group_of_a_caller_counts() {
    let groups = [DocumentGroup::Name("ann".to_owned()), DocumentGroup::Number(7)];
    for selection in ["id.group == 'ann'", "id.user == 7", "id.user == 7 or id.group == 'ann'"] {
        assert!(!selects_other_groups(selection, &groups), "{selection}");
    }
    for selection in ["id.group == 'bob'", "id.user == 8", "id.user == 7 or id.group == 'bob'"] {
        assert!(selects_other_groups(selection, &groups), "{selection}");
    }
    assert!(selects_other_groups("id.group == 'ann'", &[]), "a caller of no group");
}
