//! The wire form as described in docs/format.md: files and nodes of other versions contain these bytes, so
//! they must never change.

use millrace_document::{Document, DocumentId, Value, wire};
use millrace_tensor::Tensor;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tensor(text: &str) -> Value {
    Value::Tensor(Tensor::parse(text, None).expect("a tensor"))
}

#[test]
fn values_are_the_bytes_that_they_ever_were() {
    let kept = [
        (Value::Bool(true), "0101"),
        (Value::Byte(-2), "02fe"),
        (Value::Int(7), "0307000000"),
        (Value::Long(1 << 40), "040000000000010000"),
        (Value::Float(1.5), "050000c03f"),
        (Value::Double(-2.0), "0600000000000000c0"),
        (Value::String("ä".to_owned()), "0702c3a4"),
        (Value::Raw(vec![1, 255]), "080201ff"),
        (Value::Position { latitude: 63_000_000, longitude: -10 }, "09c04dc103f6ffffff"),
        (
            tensor("tensor<float>(x[2]):[1,2]"),
            "0a1374656e736f723c666c6f61743e28785b325d2900080000803f00000040",
        ),
        (
            tensor("tensor(k{}):{a:1,bc:2}"),
            "0a0b74656e736f72286b7b7d2902016102626310000000000000f03f0000000000000040",
        ),
        (Value::Array(vec![Value::Int(1), Value::Int(2)]), "0b0203010000000302000000"),
        (Value::WeightedSet(vec![(Value::Byte(1), -3)]), "0c010201fdffffff"),
        (Value::Map(vec![(Value::Byte(1), Value::Bool(false))]), "0d0102010100"),
        (Value::Struct(vec![("f".into(), Value::Byte(1))]), "0e0101660201"),
    ];
    for (value, expected) in kept {
        let bytes = wire::encode_value(&value);
        assert_eq!(hex(&bytes), expected, "{value:?}");
        assert_eq!(wire::decode_value(&bytes).expect("it can be read"), value);
    }
    let id = DocumentId::parse("id:n:mail:g=ann:1").expect("an id");
    let fields = vec![("a".into(), Value::Byte(1)), ("b".into(), Value::Bool(true))];
    assert_eq!(hex(&wire::encode_fields(&Document { id, fields })), "020161020101620101");
}
