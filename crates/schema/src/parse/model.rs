//! Parser of `constant`, `constants`, `inputs`, `onnx-model`: inputs of expressions other than documents.

use millrace_tensor::TensorType;

use super::cursor::{Name, SchemaCursor};
use super::syntax::{ConstantDecl, TextOrFile};
use super::types;
use crate::{Error, InputDef, InputType, ModelExecution, ModelFile, OnnxModelConfig, SourcedText};

/// Parses the text after `constant` in a schema: a name, a file and a type.
pub(super) fn constant(cursor: &mut SchemaCursor<'_>) -> Result<ConstantDecl, Error> {
    let name = feature_name(cursor, "constant")?;
    let (mut value, mut constant_type) = (None, None);
    cursor.block("constant", |cursor, word| {
        match word.value.as_str() {
            "file" => {
                cursor.expect(':')?;
                value = Some(TextOrFile::File(cursor.value("a path")?));
            }
            "uri" => return cursor.error_at(word.place, "constants are not fetched: put the file into the package, and write file: constants/name.json"),
            "type" => {
                cursor.expect(':')?;
                constant_type = Some(types::input_type(cursor)?);
            }
            "value" => value = Some(TextOrFile::Text(cursor.foreign(&word)?)),
            _ => return cursor.unknown("element of a constant", &word, &["file", "type", "value"]),
        }
        Ok(())
    })?;
    match (value, constant_type) {
        (Some(value), Some(constant_type)) => Ok(ConstantDecl { name, constant_type, value }),
        (None, _) => {
            cursor.error_at(name.place, "this constant has no value: add 'file: constants/name.json'")
        }
        (_, None) => {
            cursor.error_at(name.place, "this constant has no type: add 'type: tensor<float>(x[3])'")
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
    let (mut value, mut constant_type) = (None, InputType::Tensor(TensorType::scalar()));
    cursor.block("constant", |cursor, word| {
        match word.value.as_str() {
            "type" => {
                cursor.expect(':')?;
                constant_type = types::input_type(cursor)?;
            }
            "value" => value = Some(TextOrFile::Text(cursor.foreign(&word)?)),
            "file" => {
                cursor.expect(':')?;
                value = Some(TextOrFile::File(cursor.value("a path")?));
            }
            _ => return cursor.unknown("element of a constant", &word, &["type", "value", "file"]),
        }
        Ok(())
    })?;
    match value {
        Some(value) => Ok(ConstantDecl { name, constant_type, value }),
        None => cursor.error_at(name.place, "this constant has no value: add 'value: 1.0'"),
    }
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
            .error_at(word.place, format!("expected a name or {feature}(name), found '{}('", word.value));
    }
    Ok(word)
}

/// Parses the text after `onnx-model`.
pub(super) fn onnx_model(cursor: &mut SchemaCursor<'_>) -> Result<(Name, OnnxModelConfig), Error> {
    let name = cursor.name("onnx-model")?;
    let (mut file, mut sha256) = (None, None);
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut execution = ModelExecution::default();
    cursor.block("onnx-model", |cursor, word| {
        match word.value.as_str() {
            "file" => {
                cursor.expect(':')?;
                let path = cursor.value("a path")?;
                file = Some(SourcedText { value: ModelFile::Path(path.value), place: path.place });
            }
            "uri" | "url" => {
                cursor.expect(':')?;
                let url = cursor.value("an address")?;
                file = Some(SourcedText {
                    value: ModelFile::Url { url: url.value, sha256: None },
                    place: url.place,
                });
            }
            "sha256" => {
                cursor.expect(':')?;
                sha256 = Some(cursor.value("the SHA-256 of the file")?);
            }
            "input" => {
                let onnx = onnx_name(cursor)?;
                cursor.expect(':')?;
                inputs.push((onnx, cursor.line("input")?));
            }
            "output" => {
                let onnx = onnx_name(cursor)?;
                cursor.expect(':')?;
                outputs.push((onnx, cursor.line("output")?.value));
            }
            "gpu-device" => execution.gpu_device = Some(cursor.number(&word, "the number of a device")?),
            "intraop-threads" => {
                execution.intra_op_threads = Some(cursor.number(&word, "a number of threads")?);
            }
            "interop-threads" => {
                execution.inter_op_threads = Some(cursor.number(&word, "a number of threads")?);
            }
            "execution-mode" => {
                cursor.expect(':')?;
                let mode = cursor.value("sequential or parallel")?;
                execution.parallel = match mode.value.as_str() {
                    "parallel" => true,
                    "sequential" => false,
                    other => {
                        let reason = format!("expected sequential or parallel, found '{other}'");
                        return cursor.error_at(mode.place, reason);
                    }
                };
            }
            // Graphs are always optimized.
            "optimize-model" => cursor.switch().map(drop)?,
            _ => {
                let known = [
                    "file",
                    "uri",
                    "sha256",
                    "input",
                    "output",
                    "gpu-device",
                    "intraop-threads",
                    "interop-threads",
                    "execution-mode",
                    "optimize-model",
                ];
                return cursor.unknown("element of an onnx-model", &word, &known);
            }
        }
        Ok(())
    })?;
    if let (Some(SourcedText { value: file @ ModelFile::Url { .. }, .. }), Some(sha256)) = (&mut file, sha256)
    {
        match ModelFile::at_url(file.to_string(), Some(&sha256.value)) {
            Ok(checked) => *file = checked,
            Err(reason) => return cursor.error_at(sha256.place, reason),
        }
    }
    match file {
        Some(file) => Ok((name, OnnxModelConfig { file, inputs, outputs, execution })),
        None => cursor.error_at(name.place, "this onnx-model names no file: add 'file: models/name.onnx'"),
    }
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
