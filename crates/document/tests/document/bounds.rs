//! The memory that the collections and tensors of one document take, in each form in which they are given.

use millrace_document::json::{self, ParseOptions};
use millrace_document::{DataType, DocumentField, DocumentId, DocumentType, OperationKind};
use millrace_tensor::TensorType;

fn document_type() -> DocumentType {
    let field = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let array = |of| DataType::Array(Box::new(of));
    let weights = DataType::WeightedSet {
        element: Box::new(DataType::String),
        create_if_nonexistent: true,
        remove_if_zero: false,
    };
    let mixed = || DataType::Tensor(TensorType::parse("tensor<float>(l{},x[4096])").expect("a type"));
    DocumentType::new(
        "note",
        vec![
            field("numbers", array(DataType::Int)),
            field("lists", array(array(DataType::String))),
            field("weights", weights),
            field("names", DataType::Map(Box::new(DataType::Int), Box::new(DataType::Int))),
            field("one", mixed()),
            field("other", mixed()),
        ],
    )
}

fn parse(kind: OperationKind, fields: &str) -> Result<(), String> {
    let id = DocumentId::parse("id:n:note:g=me:1").expect("an id");
    let body = format!("{{\"fields\":{{{fields}}}}}");
    let parsed = json::parse(body.as_bytes(), kind, id, &document_type(), ParseOptions::default());
    parsed.map(drop).map_err(|error| error.to_string())
}

fn list(item: &str, count: usize) -> String {
    format!("[{item}{}]", format!(",{item}").repeat(count))
}

#[test]
fn elements_count_as_what_they_take() {
    const MANY: usize = 3_000_000;
    let put = OperationKind::Put;
    let blocks = |name: &str| {
        let cells: Vec<String> = (0..2_500)
            .map(|label| format!("{{\"address\":{{\"l\":\"{label}\",\"x\":\"0\"}},\"value\":1}}"))
            .collect();
        format!("\"{name}\":{{\"cells\":[{}]}}", cells.join(","))
    };
    for (kind, fields) in [
        (put, format!("\"numbers\":{}", list("0", MANY))),
        (put, format!("\"lists\":{}", list("[]", MANY))),
        (put, format!("\"lists\":[{}]", list("\"\"", MANY))),
        (put, format!("\"weights\":{{\"b\":1{}}}", ",\"a\":1".repeat(MANY))),
        (put, format!("\"names\":{{\"2\":1{}}}", ",\"1\":1".repeat(MANY))),
        (put, format!("\"numbers\":{0},\"numbers\":{0}", list("0", MANY / 2))),
        (put, format!("{},{}", blocks("one"), blocks("other"))),
        (OperationKind::Update, format!("\"numbers\":{{\"assign\":{}}}", list("0", MANY))),
        (OperationKind::Update, format!("\"numbers\":{{\"add\":{}}}", list("0", MANY))),
        (OperationKind::Update, format!("\"numbers\":{{\"remove\":{}}}", list("0", MANY))),
        (
            OperationKind::Update,
            format!("\"numbers\":{{\"assign\":[]{}}}", ",\"assign\":[]".repeat(MANY / 4)),
        ),
    ] {
        let shown: String = fields.chars().take(60).collect();
        let error = parse(kind, &fields).expect_err(&shown);
        assert!(error.contains(" MB in memory; divide it"), "{shown}: {error}");
    }
    assert_eq!(parse(put, &blocks("one")), Ok(()));
    assert_eq!(parse(put, &format!("\"numbers\":{}", list("0", 300_000))), Ok(()));
}
