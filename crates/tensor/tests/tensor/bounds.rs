//! The memory that one tensor takes is bounded before it is taken, in each form in which cells are named.

use millrace_tensor::json::{ModifySeed, RemoveSeed, TensorSeed};
use millrace_tensor::{CellOperation, TENSOR_BYTES_MAX, Tensor, TensorBuilder, TensorModify, TensorType};
use serde::de::DeserializeSeed;

const MIXED: &str = "tensor<float>(l{},x[4096])";
const SPARSE: &str = "tensor<int8>(l{})";
const TOO_LARGE: &str = "takes more than 64 MB in memory";

fn of(spec: &str) -> TensorType {
    TensorType::parse(spec).expect("a type")
}

/// Entries of so many labels, in the form of one.
fn entries(count: usize, entry: impl Fn(usize) -> String) -> String {
    (0..count).map(entry).collect::<Vec<_>>().join(",")
}

fn read<'j, S: DeserializeSeed<'j>>(seed: S, json: &'j str) -> Result<S::Value, String> {
    seed.deserialize(&mut serde_json::Deserializer::from_str(json)).map_err(|error| error.to_string())
}

#[track_caller]
fn refused<T>(read: Result<T, String>, form: &str) {
    let error = read.err().expect(form);
    assert!(error.contains(TOO_LARGE), "{form}: {error}");
}

#[test]
fn a_few_bytes_do_not_name_many_blocks() {
    // 16 KB each: 4,096 of them are 64 MB.
    let count = 4_200;
    let addressed =
        entries(count, |label| format!("{{\"address\":{{\"l\":\"{label}\",\"x\":\"0\"}},\"value\":1}}"));
    for json in [format!("[{addressed}]"), format!("{{\"cells\":[{addressed}]}}")] {
        refused(read(TensorSeed(&of(MIXED)), &json), "addressed cells");
    }
    let text = entries(count, |label| format!("{{l:{label},x:0}}:1"));
    for text in [format!("{{{text}}}"), format!("{MIXED}:{{{text}}}")] {
        refused(Tensor::parse(&text, Some(&of(MIXED))).map_err(|error| error.to_string()), "a literal");
    }
    let few = entries(1000, |label| format!("{{l:{label},x:0}}:1"));
    assert_eq!(Tensor::parse(&format!("{{{few}}}"), Some(&of(MIXED))).expect("16 MB").subspaces(), 1000);
}

#[test]
fn labels_count_as_what_they_take() {
    let json = format!("{{{}}}", entries(1_000_000, |label| format!("\"{label}\":1")));
    refused(read(TensorSeed(&of(SPARSE)), &json), "cells by label");
    let literal = format!("{{{}}}", entries(1_000_000, |label| format!("{{l:{label}}}:1")));
    refused(Tensor::parse(&literal, None).map_err(|error| error.to_string()), "a literal without a type");
    let addresses = entries(1_000_000, |label| format!("{{\"l\":\"{label}\"}}"));
    refused(read(RemoveSeed(&of(SPARSE)), &format!("{{\"addresses\":[{addresses}]}}")), "a removal");
    let few = format!("{{{}}}", entries(100_000, |label| format!("\"{label}\":1")));
    assert_eq!(read(TensorSeed(&of(SPARSE)), &few).expect("few MB").subspaces(), 100_000);
}

#[test]
fn an_update_is_bounded_as_it_is_read_and_as_it_is_applied() {
    let block = format!("[{}]", entries(4096, |_| "0".to_owned()));
    let blocks = entries(200, |label| format!("\"{label}\":{block}"));
    let json = format!("{{\"operation\":\"add\",\"create\":true,\"cells\":{{{blocks}}}}}");
    refused(read(ModifySeed(&of(MIXED)), &json), "a modification");
    let tensor_type = of(MIXED);
    let stored = |count: usize, name: &str| {
        let mut builder = TensorBuilder::new(&tensor_type);
        (0..count).for_each(|label| builder.cell(vec![format!("{name}{label}")], 0, 1.0).expect("it fits"));
        builder.finish()
    };
    let (half, other) = (stored(2_500, "a"), stored(2_500, "b"));
    refused(half.with_subspaces(&other).map_err(|error| error.to_string()), "an addition");
    assert_eq!(half.with_subspaces(&half).expect("they are the same").subspaces(), 2_500);
    let cells = (0..2_500).map(|label| (vec![format!("b{label}")], 0, 1.0)).collect();
    let modify = TensorModify { operation: CellOperation::Add, create: true, cells };
    refused(half.modified(&modify).map_err(|error| error.to_string()), "a modification that creates");
    let leaves = TensorModify { create: false, ..modify };
    assert_eq!(half.modified(&leaves).expect("nothing is created").subspaces(), 2_500);
}

#[test]
fn a_type_has_no_block_that_no_value_could_have() {
    let cells = TENSOR_BYTES_MAX / 4;
    let dense = |cells: usize| TensorType::parse(&format!("tensor<float>(x[{cells}])"));
    assert!(dense(cells).is_ok());
    let error = dense(cells + 1).expect_err("too large").to_string();
    assert!(error.contains("64 MB"), "{error}");
    assert!(TensorType::parse("tensor(x[4294967296],y[4294967296])").is_err());
    let whole = Tensor::parse("{}", Some(&dense(cells).expect("it may be so large"))).expect("zeroes");
    assert_eq!(whole.cells().len(), cells);
}
