//! Hits as exchanged with nodes of other versions: the bytes of each protocol are fixed, see
//! `millrace_cluster::PROTOCOL`.

use millrace_codec::{self as codec, protocol_1};
use millrace_document::{DocumentId, DocumentValue};
use millrace_result::{FeatureValue, FieldValue, ResultHit, SearchCoverage, SortValue};
use millrace_tensor::Tensor;

const FIRST: &str = "82a66269647169643a6e3a6d61696c3a673d616e6e3a316d646f63756d656e745f74797065646d61696c6972656c6576616e6365f93800\
    6b736f72745f76616c75657383654669727374a1634b65794201ff644c617374666669656c647383826576616c7565a16556616c756547\
    0b01030700000082686665617475726573a16846656174757265738282666e756d626572a1664e756d626572f93e00826674656e736f72\
    a16654656e736f72581f0a1374656e736f723c666c6f61743e28785b325d2900080000803f000000408267737472696e6773a167537472\
    696e677381616166736f75726365656d61696c73a569646f63756d656e747319012c667461726765741901906974696d65645f6f7574f5\
    696e6f6e5f696465616cf4656e6f64657302";

const SECOND: &str = "1169643a6e3a6d61696c3a673d616e6e3a31046d61696c000000000000e03f0300010201ff02030576616c756500070b010307000000\
    0866656174757265730102066e756d62657200000000000000f83f0674656e736f72011f0a1374656e736f723c666c6f61743e28785b\
    325d2900080000803f0000004007737472696e677302010161056d61696c73ac029003010002";

#[test]
fn hits_keep_their_bytes() {
    let tensor = Tensor::parse("tensor<float>(x[2]):[1,2]", None).expect("a tensor");
    let features =
        vec![("number".into(), FeatureValue::Number(1.5)), ("tensor".into(), FeatureValue::Tensor(tensor))];
    let hit = ResultHit {
        id: DocumentId::parse("id:n:mail:g=ann:1").expect("an id"),
        document_type: "mail".into(),
        relevance: 0.5,
        sort_values: vec![SortValue::First, SortValue::Key(vec![1, 255]), SortValue::Last],
        fields: vec![
            ("value".into(), FieldValue::Value(DocumentValue::Array(vec![DocumentValue::Int(7)]))),
            ("features".into(), FieldValue::Features(features)),
            ("strings".into(), FieldValue::Strings(vec!["a".to_owned()])),
        ],
        source: "mails".into(),
    };
    let coverage =
        SearchCoverage { documents: 300, target: 400, timed_out: true, non_ideal: false, nodes: 2 };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected = (format!("{hit:?}"), coverage);
    let first = protocol_1::append(Vec::new(), &(&hit, coverage)).expect("it can be written");
    assert_eq!(hex(&first), FIRST);
    let (read, covered): (ResultHit, SearchCoverage) = protocol_1::decode(&first).expect("it can be read");
    assert_eq!((format!("{read:?}"), covered), expected);
    let second = codec::encode(&(&hit, coverage), 0).expect("it can be written");
    assert_eq!(hex(&second), SECOND);
    let (read, covered): (ResultHit, SearchCoverage) = codec::decode(&second).expect("it can be read");
    assert_eq!((format!("{read:?}"), covered), expected);
}
