//! Value columns that were written under several schemas, and by earlier releases, become one, and no value
//! is lost.

use std::sync::Arc;

use millrace_column::{
    BytesBuilder, BytesColumn, CellKind, Column, FixedBuilder, OverflowRows, StoredValues, ValueBuilder,
    ValueLayout, join_values, layout, value,
};
use millrace_document::{DataType, DocumentValue, wire};
use millrace_tensor::TensorType;

fn text(text: &str) -> DocumentValue {
    DocumentValue::String(text.to_owned())
}

fn column(of: &DataType, values: &[DocumentValue]) -> Column {
    let mut builder = ValueBuilder::new(of);
    values.iter().for_each(|value| builder.push(Some(value)));
    builder.finish()
}

/// A column of an earlier release: its header has no record.
fn bytes(values: &[&[u8]]) -> Column {
    let mut builder = BytesBuilder::new();
    values.iter().for_each(|value| builder.push(Some(value)));
    Column::Bytes(builder.finish())
}

fn fixed(cell: CellKind, width: usize, documents: &[&[u8]]) -> Column {
    let mut builder = FixedBuilder::new(cell, width);
    documents.iter().for_each(|value| builder.push(value));
    Column::Fixed(builder.finish())
}

fn tensor(spec: &str) -> DataType {
    DataType::Tensor(TensorType::parse(spec).expect("a type of the test"))
}

fn array() -> DataType {
    DataType::Array(Box::new(DataType::String))
}

/// Joins whole columns and takes the result apart: what the column shows of the declared type, then what the
/// rest has.
fn joined(
    declared: Option<&DataType>,
    columns: &[&Column],
) -> (Vec<Option<DocumentValue>>, Vec<DocumentValue>) {
    let parts: Vec<_> = columns.iter().map(|column| (Some(*column), 0..column.len())).collect();
    let none: Vec<_> = columns.iter().map(|column| (None, 0..column.len())).collect();
    let mut rest = OverflowRows::decode(&none).expect("there is none");
    let declared_layout = declared.map(layout);
    let column = join_values("f", declared_layout.as_ref(), &parts, &mut rest).expect("joined");
    let column = column.expect("there are values");
    let shown = |row| match declared {
        Some(declared) => value(&column, declared, row),
        None => StoredValues::new(column.clone(), None).value(row).expect("read"),
    };
    ((0..column.len()).map(shown).collect(), values_of(rest.column()))
}

fn values_of(rest: Option<Column>) -> Vec<DocumentValue> {
    let Some(Column::Bytes(rest)) = rest else { return Vec::new() };
    let rows = (0..rest.len()).filter_map(|row| BytesColumn::get(&rest, row));
    let fields = rows.flat_map(|bytes| wire::decode_named(bytes).expect("named values"));
    fields.map(|(_, value): (Arc<str>, DocumentValue)| value).collect()
}

#[test]
fn the_declared_type_decides_wherever_its_part_stands() {
    let old = column(&DataType::Int, &[DocumentValue::Int(1), DocumentValue::Int(2)]);
    let new = column(&DataType::Long, &[DocumentValue::Long(3)]);
    let long = DataType::Long;
    let rest = vec![DocumentValue::Int(1), DocumentValue::Int(2)];
    assert_eq!(
        joined(Some(&long), &[&new, &old]),
        (vec![Some(DocumentValue::Long(3)), None, None], rest.clone())
    );
    assert_eq!(joined(Some(&long), &[&old, &new]), (vec![None, None, Some(DocumentValue::Long(3))], rest));
    // Of a field that is not declared, the last type stays in the column.
    let left =
        (vec![None, Some(DocumentValue::Int(1)), Some(DocumentValue::Int(2))], vec![DocumentValue::Long(3)]);
    assert_eq!(joined(None, &[&new, &old]), left);
}

#[test]
fn types_of_one_layout_are_distinguished_by_their_record() {
    let word = text("word");
    let texts = column(&DataType::String, std::slice::from_ref(&word));
    let raws = column(&DataType::Raw, &[DocumentValue::Raw(b"raw".to_vec())]);
    let lists = column(&array(), &[DocumentValue::Array(vec![text("a")])]);
    let shown = joined(Some(&DataType::String), &[&texts, &raws, &lists]);
    let rest = vec![DocumentValue::Raw(b"raw".to_vec()), DocumentValue::Array(vec![text("a")])];
    assert_eq!(shown, (vec![Some(word.clone()), None, None], rest));
    // Encoded values have their types with them: all are kept in one column, and those of another type are
    // hidden.
    let shown = joined(Some(&array()), &[&texts, &raws, &lists]);
    assert_eq!(shown, (vec![None, None, Some(DocumentValue::Array(vec![text("a")]))], Vec::new()));

    let of = |spec: &str| {
        let zeros = DocumentValue::Tensor(
            millrace_tensor::TensorBuilder::new(&TensorType::parse(spec).expect("a type")).finish(),
        );
        (column(&tensor(spec), std::slice::from_ref(&zeros)), zeros)
    };
    let ((x, zeros_of_x), (y, zeros_of_y)) = (of("tensor<float>(x[6])"), of("tensor<float>(x[2],y[3])"));
    let shown = joined(Some(&tensor("tensor<float>(x[6])")), &[&x, &y]);
    assert_eq!(shown, (vec![Some(zeros_of_x), None], vec![zeros_of_y]));
    assert_eq!(value(&y, &tensor("tensor<float>(x[6])"), 0), None);
}

#[test]
fn columns_without_a_record_are_believed_as_far_as_they_can_be() {
    let encoded = wire::encode_value(&DocumentValue::Array(vec![text("a")]));
    let mixed = bytes(&[b"plain", &encoded]);
    let list = DocumentValue::Array(vec![text("a")]);
    assert_eq!(
        joined(Some(&DataType::String), &[&mixed]),
        (vec![Some(text("plain")), None], vec![list.clone()])
    );
    assert_eq!(joined(Some(&array()), &[&mixed]), (vec![None, Some(list.clone())], Vec::new()));
    assert_eq!(joined(None, &[&mixed]), (vec![Some(text("plain")), Some(list)], Vec::new()));
    let raw =
        (vec![Some(DocumentValue::Raw(b"plain".to_vec())), Some(DocumentValue::Raw(encoded))], Vec::new());
    assert_eq!(joined(Some(&DataType::Raw), &[&mixed]), raw);

    let number = fixed(CellKind::I32, 1, &[&7_i32.to_le_bytes()]);
    assert_eq!(joined(Some(&DataType::Int), &[&number]), (vec![Some(DocumentValue::Int(7))], Vec::new()));
    assert_eq!(joined(Some(&DataType::Long), &[&number]), (vec![None], vec![DocumentValue::Int(7)]));

    // The dimensions of a dense tensor were not recorded: it is read back as any type with the same number of
    // cells.
    let cells = fixed(CellKind::F32, 2, &[&[0; 8]]);
    let declared = tensor("tensor<float>(x[2])");
    let zeros = DocumentValue::Tensor(
        millrace_tensor::TensorBuilder::new(&TensorType::parse("tensor<float>(x[2])").expect("a type"))
            .finish(),
    );
    assert_eq!(joined(Some(&declared), &[&cells]), (vec![Some(zeros.clone())], Vec::new()));
    let (hidden, rest) = joined(Some(&DataType::String), &[&cells]);
    assert_eq!((hidden, rest.len()), (vec![None], 1));
    let row = wire::encode_named(&[(Arc::from("f"), rest[0].clone())]);
    let rest = bytes(&[&row]);
    let mut rest = OverflowRows::decode(&[(Some(&rest), 0..1)]).expect("named values");
    let back = join_values("f", Some(&layout(&declared)), &[(None, 0..1)], &mut rest).expect("joined");
    assert_eq!(value(&back.expect("a column"), &declared, 0), Some(zeros));
    assert_eq!(rest.values(), 0);
}

#[test]
fn a_column_records_what_its_values_are() {
    for spec in ["tensor<float>(x[2])", "tensor<int8>(a[3],b_2[4])", "tensor(x[1])"] {
        let of = tensor(spec);
        let recorded = ValueLayout::recorded(&column(&of, &[])).expect("a record");
        assert_eq!(recorded, layout(&of), "{spec}");
    }
    let long = format!("tensor<int8>({}[2],{}[2])", "a".repeat(30), "b".repeat(30));
    assert_eq!(ValueLayout::recorded(&column(&tensor(&long), &[])), None);
    for of in [DataType::Int, DataType::Bool, DataType::String, DataType::Raw, array()] {
        assert_eq!(ValueLayout::recorded(&column(&of, &[])), Some(layout(&of)), "{of}");
    }
}
