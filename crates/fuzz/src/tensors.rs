//! Tensors in their literal and JSON forms.

use millrace_tensor::json::{ModifySeed, RemoveSeed, TensorSeed};
use millrace_tensor::{Tensor, TensorType};
use serde::de::DeserializeSeed;

use crate::{tells, text};

/// Types used to read the values.
const TYPES: [&str; 6] = [
    "tensor()",
    "tensor<float>(x[3])",
    "tensor<int8>(x[2],y[2])",
    "tensor(k{})",
    "tensor<bfloat16>(k{},x[2])",
    "tensor(a{},b{})",
];

/// A tensor as text, a type, and a tensor as JSON of several types.
pub(crate) fn tensor(input: &[u8]) {
    let text = text(input);
    match TensorType::parse(text) {
        Ok(parsed) => assert_eq!(TensorType::parse(&parsed.to_string()).as_ref(), Ok(&parsed), "{text}"),
        Err(error) => tells(&error),
    }
    match Tensor::parse(text, None) {
        Ok(tensor) => shown(&tensor),
        Err(error) => tells(&error),
    }
    for spec in TYPES {
        let tensor_type = TensorType::parse(spec).expect("the types of the table are right");
        match Tensor::parse(text, Some(&tensor_type)) {
            Ok(tensor) => {
                assert_eq!(tensor.tensor_type(), &tensor_type, "{text}");
                shown(&tensor);
            }
            Err(error) => tells(&error),
        }
        json(text, &tensor_type);
    }
}

fn json(text: &str, tensor_type: &TensorType) {
    match TensorSeed(tensor_type).deserialize(&mut serde_json::Deserializer::from_str(text)) {
        Ok(tensor) => {
            assert_eq!(tensor.tensor_type(), tensor_type, "{text}");
            shown(&tensor);
        }
        Err(error) => tells(&error),
    }
    if let Err(error) = ModifySeed(tensor_type).deserialize(&mut serde_json::Deserializer::from_str(text)) {
        tells(&error);
    }
    if let Err(error) = RemoveSeed(tensor_type).deserialize(&mut serde_json::Deserializer::from_str(text)) {
        tells(&error);
    }
}

/// Writes a tensor that was read as text and as JSON.
fn shown(tensor: &Tensor) {
    let format = millrace_tensor::json::TensorFormat::default();
    let written = serde_json::to_string(&tensor.rendered(format)).expect("a tensor is written as JSON");
    serde_json::from_str::<serde_json::Value>(&written).expect("what was written is JSON");
}
