//! OpenAI embeddings protocol and related ones: JSON out, JSON in.

use millrace_env::SequencePurpose;
use serde::{Deserialize, Serialize};

use crate::error::AnswerFault;

/// Protocol variant of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceDialect {
    /// OpenAI's, which many services use.
    OpenAi,
    /// Mistral's.
    Mistral,
    /// VoyageAI's.
    Voyage {
        /// True to truncate texts that are too long; otherwise they are refused.
        truncates: bool,
    },
    /// VoyageAI's for models that embed the texts of a call together, each in the context of the others.
    VoyageInContext,
}

/// Type of the cells of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorCells {
    /// Floating-point numbers.
    Float,
    /// Integers from -128 to 127.
    Int8,
    /// Eight dimensions each, as an integer from -128 to 127.
    Binary,
}

impl VectorCells {
    /// Number of cells of a vector with this number of dimensions.
    pub fn count(self, dimensions: usize) -> usize {
        match self {
            VectorCells::Float | VectorCells::Int8 => dimensions,
            VectorCells::Binary => dimensions.div_ceil(8),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            VectorCells::Float => "float",
            VectorCells::Int8 => "int8",
            VectorCells::Binary => "binary",
        }
    }
}

/// Request to a model.
pub(crate) struct EmbeddingQuestion<'q> {
    pub dialect: ServiceDialect,
    pub model: &'q str,
    pub dimensions: usize,
    pub cells: VectorCells,
    pub purpose: SequencePurpose,
    /// Texts, grouped by call.
    pub calls: Vec<Vec<&'q str>>,
}

#[derive(Serialize, Default)]
struct EmbeddingRequest<'r> {
    model: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Vec<&'r str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<&'r [Vec<&'r str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dtype: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding_format: Option<&'static str>,
}

#[derive(Deserialize)]
struct EmbeddingAnswer<T> {
    data: Vec<T>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingCall {
    index: usize,
    data: Vec<EmbeddingItem>,
}

impl EmbeddingQuestion<'_> {
    /// Body of the request.
    pub fn body(&self) -> Vec<u8> {
        let texts = || Some(self.calls.iter().flatten().copied().collect());
        let input_type = Some(match self.purpose {
            SequencePurpose::Query => "query",
            SequencePurpose::Feed => "document",
        });
        // Floating-point numbers are the default.
        let output_dtype = (self.cells != VectorCells::Float).then(|| self.cells.name());
        let (dimensions, basis) =
            (Some(self.dimensions), EmbeddingRequest { model: self.model, ..EmbeddingRequest::default() });
        let request = match self.dialect {
            ServiceDialect::OpenAi => {
                EmbeddingRequest { input: texts(), dimensions, encoding_format: Some("float"), ..basis }
            }
            // Its first model has a fixed number of dimensions, and refuses the parameter.
            ServiceDialect::Mistral if self.model.starts_with("mistral-embed") => {
                EmbeddingRequest { input: texts(), output_dtype, ..basis }
            }
            ServiceDialect::Mistral => {
                EmbeddingRequest { input: texts(), output_dimension: dimensions, output_dtype, ..basis }
            }
            ServiceDialect::Voyage { truncates } => EmbeddingRequest {
                input: texts(),
                input_type,
                truncation: Some(truncates),
                output_dimension: dimensions,
                output_dtype,
                ..basis
            },
            ServiceDialect::VoyageInContext => EmbeddingRequest {
                inputs: Some(&self.calls),
                input_type,
                output_dimension: dimensions,
                output_dtype,
                ..basis
            },
        };
        // Strings and numbers always have a JSON form.
        serde_json::to_vec(&request).unwrap_or_default()
    }

    /// Vectors in an answer, in the order of the texts.
    pub fn answer(&self, body: &[u8]) -> Result<Vec<Vec<f32>>, AnswerFault> {
        match self.dialect {
            ServiceDialect::OpenAi | ServiceDialect::Mistral | ServiceDialect::Voyage { .. } => {
                let texts = self.calls.iter().map(Vec::len).sum();
                self.in_order(parsed::<EmbeddingItem>(body)?, texts)
            }
            ServiceDialect::VoyageInContext => {
                let mut calls = parsed::<EmbeddingCall>(body)?;
                calls.sort_by_key(|call| call.index);
                if !calls.iter().map(|call| call.index).eq(0..self.calls.len()) {
                    return Err(AnswerFault::LacksArrays(self.calls.len()));
                }
                let vectors = calls.into_iter().zip(&self.calls);
                let vectors = vectors.map(|(call, texts)| self.in_order(call.data, texts.len()));
                Ok(vectors.collect::<Result<Vec<_>, AnswerFault>>()?.into_iter().flatten().collect())
            }
        }
    }

    fn in_order(&self, items: Vec<EmbeddingItem>, texts: usize) -> Result<Vec<Vec<f32>>, AnswerFault> {
        let expected = self.cells.count(self.dimensions);
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
        for EmbeddingItem { index, embedding } in items {
            if embedding.len() != expected {
                return Err(AnswerFault::Dimensions { found: embedding.len(), expected });
            }
            if self.cells != VectorCells::Float && !embedding.iter().all(is_int8) {
                return Err(AnswerFault::Cells(self.cells.name()));
            }
            match vectors.get_mut(index) {
                Some(place) => *place = Some(embedding),
                None => return Err(AnswerFault::Index { index, texts }),
            }
        }
        let all: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
        all.ok_or(AnswerFault::LacksVectors(texts))
    }
}

/// True if a cell is an integer from -128 to 127.
fn is_int8(cell: &f32) -> bool {
    cell.fract() == 0.0 && (-128.0..=127.0).contains(cell)
}

fn parsed<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<Vec<T>, AnswerFault> {
    let answer: EmbeddingAnswer<T> =
        serde_json::from_slice(body).map_err(|error| AnswerFault::NotUnderstood(error.to_string()))?;
    Ok(answer.data)
}

/// Error message in an answer.
pub(crate) fn message(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let stated = ["/error/message", "/message", "/error", "/detail"].iter().find_map(|at| json.pointer(at));
    match stated.and_then(serde_json::Value::as_str) {
        Some(stated) => stated.to_owned(),
        None => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn question<'q>(
        dialect: ServiceDialect,
        model: &'q str,
        cells: VectorCells,
        calls: &[&[&'q str]],
    ) -> EmbeddingQuestion<'q> {
        let calls = calls.iter().map(|texts| texts.to_vec()).collect();
        EmbeddingQuestion { dialect, model, dimensions: 16, cells, purpose: SequencePurpose::Feed, calls }
    }

    #[test]
    fn each_dialect_says_what_is_wanted_in_its_words() {
        let check = |question: EmbeddingQuestion<'_>, expected: Value| {
            let body: Value = serde_json::from_slice(&question.body()).expect("JSON");
            assert_eq!(body, expected);
        };
        let calls: &[&[&str]] = &[&["a", "b"], &["c"]];
        let (all, mistral) = (json!(["a", "b", "c"]), ServiceDialect::Mistral);
        check(
            question(ServiceDialect::OpenAi, "m", VectorCells::Float, calls),
            json!({ "model": "m", "input": all, "dimensions": 16, "encoding_format": "float" }),
        );
        check(
            question(mistral, "codestral-embed", VectorCells::Int8, calls),
            json!({ "model": "codestral-embed", "input": all, "output_dimension": 16, "output_dtype": "int8" }),
        );
        check(
            question(mistral, "mistral-embed", VectorCells::Float, calls),
            json!({ "model": "mistral-embed", "input": all }),
        );
        check(
            question(mistral, "mistral-embed-2312", VectorCells::Int8, calls),
            json!({ "model": "mistral-embed-2312", "input": all, "output_dtype": "int8" }),
        );
        let voyage = ServiceDialect::Voyage { truncates: false };
        let asked = json!({ "model": "v", "input": all, "input_type": "document", "truncation": false, "output_dimension": 16 });
        check(question(voyage, "v", VectorCells::Float, calls), asked);
        let asked = json!({
            "model": "v", "inputs": [["a", "b"], ["c"]], "input_type": "query", "output_dimension": 16, "output_dtype": "binary",
        });
        let context = question(ServiceDialect::VoyageInContext, "v", VectorCells::Binary, calls);
        check(EmbeddingQuestion { purpose: SequencePurpose::Query, ..context }, asked);
    }

    #[test]
    fn answers_are_put_in_order_and_checked() {
        let asked = |dimensions, texts: &[&'static str]| {
            let question = question(ServiceDialect::OpenAi, "m", VectorCells::Float, &[texts]);
            EmbeddingQuestion { dimensions, ..question }
        };
        let two = br#"{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}],"model":"m"}"#;
        assert_eq!(asked(2, &["a", "b"]).answer(two), Ok(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
        let check = |question: EmbeddingQuestion<'_>, body: &[u8], part: &str| {
            let error = question.answer(body).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        check(asked(3, &["a", "b"]), two, "have 2 dimensions, and 3 are expected");
        check(asked(2, &["a"]), two, "a vector for text 1");
        check(asked(2, &["a", "b", "c"]), two, "lacks vectors");
        check(asked(2, &["a"]), b"<html>", "not understood");
        let context =
            || question(ServiceDialect::VoyageInContext, "v", VectorCells::Binary, &[&["a", "b"], &["c"]]);
        let item = |index: usize, cell: i8| json!({ "index": index, "embedding": [cell, -1] });
        let last = json!({ "index": 1, "data": [item(0, 3)] });
        let first = json!({ "index": 0, "data": [item(1, 2), item(0, 1)] });
        let answer = |data: Value| json!({ "data": data }).to_string().into_bytes();
        let vectors = [1.0, 2.0, 3.0].map(|cell| vec![cell, -1.0]).to_vec();
        assert_eq!(context().answer(&answer(json!([last, first]))), Ok(vectors));
        check(context(), &answer(json!([last])), "lacks vectors");
        for cell in [json!(0.5), json!(128)] {
            let other = json!([first, { "index": 1, "data": [{ "index": 0, "embedding": [cell, 1] }] }]);
            check(context(), &answer(other), "other numbers than those of binary");
        }
        check(context(), &answer(json!([first, { "index": 1, "data": [] }])), "lacks vectors");
        for (body, stated) in [
            (&br#"{"error":{"message":"no"}}"#[..], "no"),
            (br#"{"detail":"Provided API key is invalid."}"#, "Provided API key is invalid."),
            (b"gone", "gone"),
        ] {
            assert_eq!(message(body), stated);
        }
    }
}
