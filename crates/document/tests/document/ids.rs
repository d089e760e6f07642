//! Texts of document ids.

use millrace_document::{DocumentGroup, DocumentId};

/// An id, the group that is implied where it is shown, and its text there.
#[test]
fn an_implied_group_is_left_out_of_an_id() {
    let name = |name: &str| Some(DocumentGroup::Name(name.to_owned()));
    for (id, implied, shown) in [
        ("id:mail:mail:g=ann:1", None, "id:mail:mail:g=ann:1"),
        ("id:mail:mail:g=ann:1", name("ann"), "id:mail:mail::1"),
        ("id:mail:mail:g=ann:a:g=ann:b", name("ann"), "id:mail:mail::a:g=ann:b"),
        ("id:mail:mail:g=bob:1", name("ann"), "id:mail:mail:g=bob:1"),
        ("id:mail:mail:n=7:1", Some(DocumentGroup::Number(7)), "id:mail:mail::1"),
        ("id:mail:mail:n=007:1", Some(DocumentGroup::Number(7)), "id:mail:mail:n=007:1"),
        ("id:mail:mail:n=+7:1", Some(DocumentGroup::Number(7)), "id:mail:mail:n=+7:1"),
        ("id:mail:mail:n=0:1", Some(DocumentGroup::Number(0)), "id:mail:mail::1"),
        ("id:mail:mail:n=00:1", Some(DocumentGroup::Number(0)), "id:mail:mail:n=00:1"),
        ("id:mail:mail:g=7:1", Some(DocumentGroup::Number(7)), "id:mail:mail:g=7:1"),
        ("id:mail:mail:n=7:1", name("7"), "id:mail:mail:n=7:1"),
        ("id:mail:mail::1", name("ann"), "id:mail:mail::1"),
        ("id:mail:mail::1", Some(DocumentGroup::None), "id:mail:mail::1"),
        ("id:é:ü:g=ö:à", name("ö"), "id:é:ü::à"),
    ] {
        let parsed = DocumentId::parse(id).expect(id);
        assert_eq!(parsed.shown_within(implied.as_ref()), shown, "{id} within {implied:?}");
    }
}

#[test]
fn ids_have_no_control_characters() {
    for c in '\0'..='\u{180}' {
        let id = DocumentId::parse(&format!("id:n:mail::a name of some length with {c} in it"));
        assert_eq!(id.is_err(), c.is_control(), "{c:?}");
    }
}
