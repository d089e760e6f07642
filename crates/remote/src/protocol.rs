//! The OpenAI embeddings protocol: JSON out, JSON in.

use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Request<'r> {
    model: &'r str,
    input: &'r [&'r str],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

/// The body that asks for these texts.
pub(crate) fn request(model: &str, dimensions: Option<usize>, texts: &[&str]) -> Vec<u8> {
    let request = Request { model, input: texts, dimensions, encoding_format: "float" };
    // Strings and numbers always have a JSON form.
    serde_json::to_vec(&request).unwrap_or_default()
}

/// The vectors in an answer, in the order of the texts.
pub(crate) fn answer(body: &[u8], texts: usize, dimensions: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|error| format!("its answer is not understood: {error}"))?;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for Item { index, embedding } in answer.data {
        if embedding.len() != dimensions {
            return Err(format!(
                "its vectors have {} dimensions, and {dimensions} are expected",
                embedding.len()
            ));
        }
        match vectors.get_mut(index) {
            Some(place) => *place = Some(embedding),
            None => {
                return Err(format!("its answer has a vector for text {index}, and was asked for {texts}"));
            }
        }
    }
    let all: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
    all.ok_or_else(|| format!("its answer lacks vectors: {texts} texts were asked for"))
}

/// What an answer says went wrong.
pub(crate) fn message(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let told = json.pointer("/error/message").or_else(|| json.get("message")).or_else(|| json.get("error"));
    match told.and_then(serde_json::Value::as_str) {
        Some(told) => told.to_owned(),
        None => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_put_in_order_and_checked() {
        let two = br#"{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}],"model":"m"}"#;
        assert_eq!(answer(two, 2, 2), Ok(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
        let check = |texts, dimensions, part: &str| {
            let error = answer(two, texts, dimensions).expect_err(part);
            assert!(error.contains(part), "{error}");
        };
        check(2, 3, "have 2 dimensions, and 3 are expected");
        check(1, 2, "a vector for text 1");
        check(3, 2, "lacks vectors");
        assert!(answer(b"<html>", 1, 2).expect_err("no JSON").contains("not understood"));
        assert_eq!(message(br#"{"error":{"message":"no"}}"#), "no");
        assert_eq!(message(b"gone"), "gone");
    }
}
