//! The wire form as described in docs/format.md: files and nodes of other versions contain these bytes, so
//! they must never change.

use millrace_document::{Document, DocumentId, DocumentValue, EncodedDocument, wire};
use millrace_tensor::Tensor;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tensor(text: &str) -> DocumentValue {
    DocumentValue::Tensor(Tensor::parse(text, None).expect("a tensor"))
}

#[test]
fn values_are_the_bytes_that_they_ever_were() {
    let kept = [
        (DocumentValue::Bool(true), "0101"),
        (DocumentValue::Byte(-2), "02fe"),
        (DocumentValue::Int(7), "0307000000"),
        (DocumentValue::Long(1 << 40), "040000000000010000"),
        (DocumentValue::Float(1.5), "050000c03f"),
        (DocumentValue::Double(-2.0), "0600000000000000c0"),
        (DocumentValue::String("ä".to_owned()), "0702c3a4"),
        (DocumentValue::Raw(vec![1, 255]), "080201ff"),
        (DocumentValue::Position { latitude: 63_000_000, longitude: -10 }, "09c04dc103f6ffffff"),
        (
            tensor("tensor<float>(x[2]):[1,2]"),
            "0a1374656e736f723c666c6f61743e28785b325d2900080000803f00000040",
        ),
        (
            tensor("tensor(k{}):{a:1,bc:2}"),
            "0a0b74656e736f72286b7b7d2902016102626310000000000000f03f0000000000000040",
        ),
        (
            DocumentValue::Array(vec![DocumentValue::Int(1), DocumentValue::Int(2)]),
            "0b0203010000000302000000",
        ),
        (DocumentValue::WeightedSet(vec![(DocumentValue::Byte(1), -3)]), "0c010201fdffffff"),
        (DocumentValue::Map(vec![(DocumentValue::Byte(1), DocumentValue::Bool(false))]), "0d0102010100"),
        (DocumentValue::Struct(vec![("f".into(), DocumentValue::Byte(1))]), "0e0101660201"),
    ];
    for (value, expected) in kept {
        let bytes = wire::encode_value(&value);
        assert_eq!(hex(&bytes), expected, "{value:?}");
        assert_eq!(wire::decode_value(&bytes).expect("it can be read"), value);
        if !matches!(value, DocumentValue::Tensor(_)) {
            assert_eq!(value.stored_bytes(), bytes.len(), "{value:?}");
        }
    }
    let id = DocumentId::parse("id:n:mail:g=ann:1").expect("an id");
    let fields = vec![("a".into(), DocumentValue::Byte(1)), ("b".into(), DocumentValue::Bool(true))];
    let document = Document { id, fields };
    assert_eq!(hex(&wire::encode_fields(&document)), "020161020101620101");
    assert_eq!(document.stored_bytes(), 9);
}

#[test]
fn a_document_is_read_in_place() {
    let text = "id:n:mail:g=ann:1";
    let id = DocumentId::parse(text).expect("an id");
    let fields = vec![
        ("a".into(), DocumentValue::String("ä".to_owned())),
        ("b".into(), tensor("tensor(k{}):{a:1,bc:2}")),
        (
            "c".into(),
            DocumentValue::Array(vec![DocumentValue::Struct(vec![("f".into(), DocumentValue::Byte(1))])]),
        ),
        ("d".into(), DocumentValue::Map(vec![(DocumentValue::Byte(1), DocumentValue::Bool(false))])),
        ("e".into(), DocumentValue::WeightedSet(vec![(DocumentValue::Int(1), -3)])),
    ];
    let document = Document { id, fields };
    let bytes = wire::encode_fields(&document);
    let encoded = EncodedDocument::parse(text, &bytes).expect("it can be read");
    assert_eq!(encoded.decode().expect("it can be decoded"), document);
    for (name, value) in &document.fields {
        assert_eq!(encoded.get(name), Some(&*wire::encode_value(value)), "{name}");
    }
    assert_eq!(encoded.get("f"), None, "a member is not a field");
    for (name, found) in [("c", 2), ("c", 2), ("f", 2), ("a", 0), ("e", 4)] {
        let mut place = 2;
        assert_eq!(encoded.get_near(name, &mut place), encoded.get(name), "{name}");
        assert_eq!(place, found, "{name}");
    }
    assert_eq!(encoded.encode_some(|_, _| true), Some(bytes.clone()));
    assert_eq!(encoded.encode_some(|_, _| false), None);
    let some = encoded.encode_some(|place, name| place != 1 && name != "e").expect("it has others");
    let expected: Vec<_> =
        document.fields.iter().filter(|(name, _)| !["b", "e"].contains(&&**name)).cloned().collect();
    assert_eq!(wire::decode_named(&some).expect("it can be read"), expected);
    let read = wire::decode_some(&bytes, |name| !["b", "e"].contains(&name)).expect("it can be read");
    assert_eq!(read, expected);
    // Also where nothing is wanted, what is cut is refused.
    assert!((0..bytes.len()).all(|end| wire::decode_some(&bytes[..end], |_| false).is_err()));
    let empty = EncodedDocument::without_fields(text);
    assert!(empty.get("a").is_none() && empty.decode().is_ok_and(|document| document.fields.is_empty()));
    // Nothing that is cut or goes on is a document.
    assert!((0..bytes.len()).all(|end| EncodedDocument::parse(text, &bytes[..end]).is_err()));
    assert!(EncodedDocument::parse(text, &[&bytes[..], &[0]].concat()).is_err());
    assert!(EncodedDocument::parse(text, &[0x7f]).is_err(), "a count without fields");
    // A value is looked at when it is decoded.
    let not_utf8 = [1, 1, b'a', 7, 1, 0xff];
    let encoded = EncodedDocument::parse(text, &not_utf8).expect("its fields are found");
    assert!(encoded.decode().is_err());
}
