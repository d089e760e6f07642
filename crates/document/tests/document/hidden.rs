//! Updates of documents with values that were stored under another schema: such a value counts as none, and
//! stays where the update sets nothing in its place.

use std::sync::Arc;

use millrace_document::{
    ArithmeticOperator, DataType, Document, DocumentField, DocumentId, DocumentType, DocumentUpdate,
    DocumentValue, FieldUpdate, MissingNumber, StructType, UpdatePath, UpdatePathStep, ValueChange,
};

fn text(value: &str) -> DocumentValue {
    DocumentValue::String(value.to_owned())
}

fn field(name: &str, data_type: DataType) -> DocumentField {
    DocumentField { name: name.into(), data_type }
}

/// A document whose `number` was an int, whose `list` one of ints, and whose person's `age` was a text.
fn stored() -> Document {
    let person = vec![(Arc::from("name"), text("ann")), (Arc::from("age"), text("seven"))];
    let fields = vec![
        (Arc::from("number"), DocumentValue::Int(3)),
        (Arc::from("list"), DocumentValue::Array(vec![DocumentValue::Int(1)])),
        (Arc::from("person"), DocumentValue::Struct(person)),
        (Arc::from("gone"), text("x")),
    ];
    Document { id: DocumentId::parse("id:n:mail::1").expect("an id"), fields }
}

/// The document after one change, under a schema in which they are long.
fn updated(path: &str, change: ValueChange) -> Document {
    let person = StructType {
        name: "person".to_owned(),
        fields: vec![field("name", DataType::String), field("age", DataType::Long)],
    };
    let document_type = DocumentType::new(
        "mail",
        vec![
            field("number", DataType::Long),
            field("list", DataType::Array(Box::new(DataType::Long))),
            field("person", DataType::Struct(Arc::new(person))),
        ],
    );
    let (name, member) = path.split_once('.').unwrap_or((path, ""));
    let steps = if member.is_empty() { Vec::new() } else { vec![UpdatePathStep::Member(member.into())] };
    let path = UpdatePath { field: name.into(), steps };
    let update = DocumentUpdate { id: stored().id, fields: vec![FieldUpdate { path, change }] };
    update.apply(Some(stored()), &document_type).expect("applied")
}

#[test]
fn what_sets_nothing_keeps_a_hidden_value() {
    let increment = || ValueChange::Arithmetic(ArithmeticOperator::Add, 1.0, MissingNumber::Zero);
    let cases = [
        ("number", increment()),
        ("list", ValueChange::RemoveElements(vec![DocumentValue::Long(1)])),
        ("person.age", increment()),
    ];
    for (path, change) in cases {
        assert_eq!(updated(path, change), stored(), "{path}");
    }
}

#[test]
fn what_sets_or_clears_a_value_takes_the_place_of_a_hidden_one() {
    let number = updated("number", ValueChange::Assign(DocumentValue::Long(5)));
    assert_eq!(number.get("number"), Some(&DocumentValue::Long(5)));
    assert_eq!(number.get("gone"), Some(&text("x")));
    assert_eq!(updated("number", ValueChange::Clear).get("number"), None);
    let list = updated("list", ValueChange::AddElements(vec![DocumentValue::Long(9)]));
    assert_eq!(list.get("list"), Some(&DocumentValue::Array(vec![DocumentValue::Long(9)])));
    let person = updated("person.age", ValueChange::Assign(DocumentValue::Long(7)));
    let members = vec![(Arc::from("name"), text("ann")), (Arc::from("age"), DocumentValue::Long(7))];
    assert_eq!(person.get("person"), Some(&DocumentValue::Struct(members)));
}
