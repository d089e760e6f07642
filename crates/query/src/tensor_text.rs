//! Texts of tensors in requests.

use millrace_tensor::json::TensorSeed;
use millrace_tensor::{Error, Tensor, TensorType};
use serde::de::DeserializeSeed;

/// Reads a tensor of a type from its literal form, or from one of the JSON forms that documents have.
///
/// # Errors
/// The text is neither. The error is that of the form that the text resembles.
pub fn read_tensor(text: &str, tensor_type: &TensorType) -> Result<Tensor, Error> {
    Tensor::parse(text, Some(tensor_type)).or_else(|literal| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = TensorSeed(tensor_type).deserialize(&mut deserializer).and_then(|tensor| {
            deserializer.end()?;
            Ok(tensor)
        });
        let is_json = text.trim_start().trim_start_matches(['{', '[']).trim_start().starts_with('"');
        read.map_err(|json| match is_json {
            true => Error::Value { tensor_type: tensor_type.to_string(), reason: json.to_string() },
            false => literal,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_json_are_read() {
        for (spec, text, expected) in [
            ("tensor(x[2])", "[1,2]", "[1,2]"),
            ("tensor(x[2])", r#" {"values":[1,2]} "#, "[1,2]"),
            ("tensor(x[2])", r#"{"type":"tensor(x[2])","values":[1,2]}"#, "[1,2]"),
            ("tensor(x[2])", r#"{"cells":[{"address":{"x":"1"},"value":2}]}"#, "[0,2]"),
            ("tensor<int8>(x[2])", "01FE", "[1,-2]"),
            ("tensor<int8>(x[2])", r#""01FE""#, "[1,-2]"),
            ("tensor(k{})", "{a:1}", "{a:1}"),
            ("tensor(k{})", r#"{"a":1}"#, "{a:1}"),
            ("tensor(k{})", r#"{"cells":{"a":1}}"#, "{a:1}"),
            ("tensor(k{})", r#"{"cells":[{"address":{"k":"a"},"value":1}]}"#, "{a:1}"),
            ("tensor(k{})", r#"[{"address":{"k":"a"},"value":1}]"#, "{a:1}"),
            ("tensor(k{},x[2])", r#"{"blocks":{"a":[1,2]}}"#, "{a:[1,2]}"),
            ("tensor(k{},x[2])", r#"{"blocks":[{"address":{"k":"a"},"values":[1,2]}]}"#, "{a:[1,2]}"),
        ] {
            let tensor_type = TensorType::parse(spec).expect("a type");
            let expected = Tensor::parse(expected, Some(&tensor_type)).expect("a literal");
            assert_eq!(read_tensor(text, &tensor_type).expect(text), expected, "{spec} {text}");
        }
        for (spec, text, part) in [
            ("tensor(x[2])", "[1,2,3]", "expected 2 cells, got 3 (at character"),
            ("tensor(x[2])", r#"{"values":[1,2,3]}"#, "more than the 2 cells"),
            ("tensor(x[2])", r#"{"values":[1,2]} x"#, "trailing characters"),
            ("tensor(k{})", "words", "; write for example {a:1.5}"),
            ("tensor(k{})", r#"{"cells":{"a":"b"}}"#, "invalid"),
        ] {
            let tensor_type = TensorType::parse(spec).expect("a type");
            let error = read_tensor(text, &tensor_type).expect_err(text).to_string();
            assert!(error.contains(part), "{spec} {text}: {error}");
        }
    }
}
