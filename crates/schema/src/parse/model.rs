//! Parser of `constant`, `constants`, `inputs`, `onnx-model`: inputs of expressions other than documents.

use millrace_tensor::TensorType;

use super::cursor::{Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{ConstantDecl, TextOrFile};
use super::types;
use crate::{Error, InputDef, InputType, ModelExecution, ModelFile, OnnxModelConfig, SourcedText};

pub(super) static CONSTANT: KeywordTable<ConstantParts> = KeywordTable {
    block: "constant",
    kind: "element of a constant",
    rows: keywords! {
        "file", "file: constants/weights.json", "The file of the package with the value.", constant_file;
        "type", "type: tensor(x[3])", "The type.", constant_type;
        "value", "value: [1, 2, 3]", "The value.", constant_value;
        unlisted:
        "uri", "uri: http://example.com/weights.json", "An error: constants are not fetched.", constant_uri;
    },
};

/// The older form of a constant in `constants`.
pub(super) static OLD_CONSTANT: KeywordTable<ConstantParts> = KeywordTable {
    block: "constant, in constants",
    kind: "element of a constant",
    rows: keywords! {
        "type", "type: tensor(x[3])", "The type; double if not set.", constant_type;
        "value", "value: [1, 2, 3]", "The value.", constant_value;
        "file", "file: constants/weights.json", "The file of the package with the value.", constant_file;
    },
};

pub(super) static ONNX_MODEL: KeywordTable<OnnxModelParts> = KeywordTable {
    block: "onnx-model",
    kind: "element of an onnx-model",
    rows: keywords! {
        "file", "file: models/rerank.onnx", "The file of the package with the model.",
            |cursor, _, model| {
                cursor.expect(':')?;
                let path = cursor.value("a path")?;
                model.file = Some(SourcedText { value: ModelFile::Path(path.value), position: path.position });
                Ok(())
            };
        "uri" | "url", "uri: https://example.com/rerank.onnx", "The address of the model, which is fetched when the application is deployed.",
            |cursor, _, model| {
                cursor.expect(':')?;
                let url = cursor.value("an address")?;
                let value = ModelFile::Url { url: url.value, sha256: None };
                model.file = Some(SourcedText { value, position: url.position });
                Ok(())
            };
        "sha256", "sha256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", "The digest of the file at the address.",
            |cursor, _, model| {
                cursor.expect(':')?;
                model.sha256 = Some(cursor.value("the SHA-256 of the file")?);
                Ok(())
            };
        "input", "input \"input_ids\": tokens", "The expression of an input of the model.",
            |cursor, _, model| {
                let onnx = onnx_name(cursor)?;
                cursor.expect(':')?;
                model.inputs.push((onnx, cursor.line("input")?));
                Ok(())
            };
        "output", "output \"logits\": score", "The name of an output of the model in expressions.",
            |cursor, _, model| {
                let onnx = onnx_name(cursor)?;
                cursor.expect(':')?;
                model.outputs.push((onnx, cursor.line("output")?.value));
                Ok(())
            };
        "gpu-device", "gpu-device: 0", "The number of the device that runs the model.",
            |cursor, word, model| {
                model.execution.gpu_device = Some(cursor.number(&word, "the number of a device")?);
                Ok(())
            };
        "intraop-threads", "intraop-threads: 2", "Number of threads of one operation.",
            |cursor, word, model| {
                model.execution.intra_op_threads = Some(cursor.number(&word, "a number of threads")?);
                Ok(())
            };
        "interop-threads", "interop-threads: 2", "Number of operations that run at once.",
            |cursor, word, model| {
                model.execution.inter_op_threads = Some(cursor.number(&word, "a number of threads")?);
                Ok(())
            };
        "execution-mode", "execution-mode: parallel", "Operations run one after another (sequential) or at once (parallel).",
            execution_mode;
        // Graphs are always optimized.
        "optimize-model", "optimize-model: true", "No effect: graphs are always optimized.",
            |cursor, _, _| cursor.switch().map(drop);
    },
};

/// The elements of a constant.
#[derive(Default)]
pub(super) struct ConstantParts {
    value: Option<TextOrFile>,
    constant_type: Option<InputType>,
}

/// The elements of an `onnx-model`.
#[derive(Default)]
pub(super) struct OnnxModelParts {
    file: Option<SourcedText<ModelFile>>,
    sha256: Option<Name>,
    inputs: Vec<(String, SourcedText<String>)>,
    outputs: Vec<(String, String)>,
    execution: ModelExecution,
}

/// Parses the text after `constant` in a schema: a name, a file and a type.
pub(super) fn constant(cursor: &mut SchemaCursor<'_>) -> Result<ConstantDecl, Error> {
    let name = feature_name(cursor, "constant")?;
    let mut parts = ConstantParts::default();
    cursor.block("constant", |cursor, word| CONSTANT.read(cursor, word, &mut parts))?;
    match (parts.value, parts.constant_type) {
        (Some(value), Some(constant_type)) => Ok(ConstantDecl { name, constant_type, value }),
        (None, _) => {
            cursor.error_at(name.position, "this constant has no value: add 'file: constants/name.json'")
        }
        (_, None) => {
            cursor.error_at(name.position, "this constant has no type: add 'type: tensor<float>(x[3])'")
        }
    }
}

/// Parses `constants { name type: value … }`.
pub(super) fn constants(
    cursor: &mut SchemaCursor<'_>,
    constants: &mut Vec<ConstantDecl>,
) -> Result<(), Error> {
    cursor.block("constants", |cursor, word| {
        let name = argument(cursor, word, "constant")?;
        if cursor.sees('{') {
            // The older form: `name { type: … value: … }`.
            constants.push(old_constant(cursor, name)?);
            return Ok(());
        }
        let constant_type = optional_type(cursor)?;
        cursor.expect(':')?;
        let value = if cursor.eat_word("file") {
            cursor.expect(':')?;
            TextOrFile::File(cursor.value("a path")?)
        } else {
            TextOrFile::Text(cursor.literal("constant")?)
        };
        constants.push(ConstantDecl { name, constant_type, value });
        Ok(())
    })
}

fn old_constant(cursor: &mut SchemaCursor<'_>, name: Name) -> Result<ConstantDecl, Error> {
    let mut parts = ConstantParts::default();
    cursor.block("constant", |cursor, word| OLD_CONSTANT.read(cursor, word, &mut parts))?;
    let constant_type = parts.constant_type.unwrap_or(InputType::Tensor(TensorType::scalar()));
    match parts.value {
        Some(value) => Ok(ConstantDecl { name, constant_type, value }),
        None => cursor.error_at(name.position, "this constant has no value: add 'value: 1.0'"),
    }
}

fn constant_file(cursor: &mut SchemaCursor<'_>, _: Name, parts: &mut ConstantParts) -> Result<(), Error> {
    cursor.expect(':')?;
    parts.value = Some(TextOrFile::File(cursor.value("a path")?));
    Ok(())
}

fn constant_type(cursor: &mut SchemaCursor<'_>, _: Name, parts: &mut ConstantParts) -> Result<(), Error> {
    cursor.expect(':')?;
    parts.constant_type = Some(types::input_type(cursor)?);
    Ok(())
}

fn constant_value(cursor: &mut SchemaCursor<'_>, word: Name, parts: &mut ConstantParts) -> Result<(), Error> {
    parts.value = Some(TextOrFile::Text(cursor.foreign(&word)?));
    Ok(())
}

fn constant_uri(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut ConstantParts) -> Result<(), Error> {
    let reason =
        "constants are not fetched: put the file into the package, and write file: constants/name.json";
    cursor.error_at(word.position, reason)
}

/// Parses `inputs { query(name) type: default … }`.
pub(super) fn inputs(cursor: &mut SchemaCursor<'_>, inputs: &mut Vec<(Name, InputDef)>) -> Result<(), Error> {
    cursor.block("inputs", |cursor, word| {
        let name = argument(cursor, word, "query")?;
        let input_type = optional_type(cursor)?;
        let default = if cursor.sees(':') {
            cursor.expect(':')?;
            Some(cursor.literal("input")?)
        } else {
            None
        };
        inputs.push((name, InputDef { input_type, default }));
        Ok(())
    })
}

/// Parses a type in the same line; the default is a plain number.
fn optional_type(cursor: &mut SchemaCursor<'_>) -> Result<InputType, Error> {
    if cursor.sees_more_in_line() {
        types::input_type(cursor)
    } else {
        Ok(InputType::Tensor(TensorType::scalar()))
    }
}

fn feature_name(cursor: &mut SchemaCursor<'_>, feature: &str) -> Result<Name, Error> {
    match cursor.word() {
        Some(word) => argument(cursor, word, feature),
        None => cursor.expected(&format!("the name of a {feature}")),
    }
}

/// Parses `name`, or the full form `feature(name)`.
fn argument(cursor: &mut SchemaCursor<'_>, word: Name, feature: &str) -> Result<Name, Error> {
    if word.value == feature && cursor.eat('(') {
        let name = cursor.name(feature)?;
        cursor.expect(')')?;
        return Ok(name);
    }
    if cursor.sees('(') {
        return cursor
            .error_at(word.position, format!("expected a name or {feature}(name), found '{}('", word.value));
    }
    Ok(word)
}

/// Parses the text after `onnx-model`.
pub(super) fn onnx_model(cursor: &mut SchemaCursor<'_>) -> Result<(Name, OnnxModelConfig), Error> {
    let name = cursor.name("onnx-model")?;
    let mut parts = OnnxModelParts::default();
    cursor.block("onnx-model", |cursor, word| ONNX_MODEL.read(cursor, word, &mut parts))?;
    let OnnxModelParts { mut file, sha256, inputs, outputs, execution } = parts;
    if let (Some(SourcedText { value: file @ ModelFile::Url { .. }, .. }), Some(sha256)) = (&mut file, sha256)
    {
        match ModelFile::at_url(file.to_string(), Some(&sha256.value)) {
            Ok(checked) => *file = checked,
            Err(reason) => return cursor.error_at(sha256.position, reason),
        }
    }
    match file {
        Some(file) => Ok((name, OnnxModelConfig { file, inputs, outputs, execution })),
        None => cursor.error_at(name.position, "this onnx-model names no file: add 'file: models/name.onnx'"),
    }
}

fn execution_mode(cursor: &mut SchemaCursor<'_>, _: Name, model: &mut OnnxModelParts) -> Result<(), Error> {
    cursor.expect(':')?;
    let mode = cursor.value("sequential or parallel")?;
    model.execution.parallel = match mode.value.as_str() {
        "parallel" => true,
        "sequential" => false,
        other => {
            let reason = format!("expected sequential or parallel, found '{other}'");
            return cursor.error_at(mode.position, reason);
        }
    };
    Ok(())
}

/// Parses the name of an ONNX model's input or output, usually quoted.
fn onnx_name(cursor: &mut SchemaCursor<'_>) -> Result<String, Error> {
    match cursor.quoted()? {
        Some(name) => Ok(name.value),
        None => match cursor.word() {
            Some(name) => Ok(name.value),
            None => cursor.expected("the name in the ONNX model, in quotes"),
        },
    }
}
