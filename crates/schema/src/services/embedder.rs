//! Embedders: components of known types, with their settings.

use roxmltree::Node;

use super::{FILE, number};
use crate::embedder::{ColbertTokens, Embedder, EmbedderKind, Execution, Pooling, Prepend, TransformerNames};
use crate::suggest::{did_you_mean, one_of};
use crate::{Error, xml};

/// Settings that all embedders have.
const COMMON: &[&str] = &[
    "transformer-model",
    "max-tokens",
    "transformer-input-ids",
    "transformer-attention-mask",
    "transformer-output",
    "onnx-execution-mode",
    "onnx-interop-threads",
    "onnx-intraop-threads",
    "onnx-gpu-device",
    "prepend",
];

/// The settings that a type has beside those; none for a type that is no embedder.
fn settings(component_type: &str) -> Option<&'static [&'static str]> {
    Some(match component_type {
        "hugging-face-embedder" => {
            &["tokenizer-model", "transformer-token-type-ids", "pooling-strategy", "normalize"]
        }
        "bert-embedder" => &[
            "tokenizer-vocab",
            "transformer-token-type-ids",
            "pooling-strategy",
            "transformer-start-sequence-token",
            "transformer-end-sequence-token",
        ],
        "colbert-embedder" => &[
            "tokenizer-model",
            "max-query-tokens",
            "max-document-tokens",
            "transformer-mask-token",
            "transformer-start-sequence-token",
            "transformer-end-sequence-token",
            "transformer-pad-token",
            "query-token-id",
            "document-token-id",
        ],
        "splade-embedder" => &["tokenizer-model", "transformer-token-type-ids", "term-score-threshold"],
        _ => return None,
    })
}

/// The embedder in a component; none for a component of another type.
pub(super) fn read(
    node: Node<'_, '_>,
    component_type: &str,
    warnings: &mut Vec<String>,
) -> Result<Option<Embedder>, Error> {
    let Some(own) = settings(component_type) else { return Ok(None) };
    let Some(id) = node.attribute("id") else {
        return xml::invalid(FILE, node, "an embedder needs an id, which statements and queries call it by");
    };
    for child in xml::elements(node) {
        let name = child.tag_name().name();
        if !COMMON.contains(&name) && !own.contains(&name) {
            let hint = did_you_mean(name, COMMON.iter().chain(own).copied());
            return xml::invalid(FILE, child, format!("a {component_type} has no setting <{name}>{hint}"));
        }
    }
    let settings = Settings { node };
    if let Some(gpu) = xml::child(node, "onnx-gpu-device")
        && settings.number("onnx-gpu-device", -1_i64)? >= 0
    {
        warnings.push(format!(
            "{}: <onnx-gpu-device> has no effect: models run on the processor",
            xml::place(FILE, gpu)
        ));
    }
    let vocabulary = if component_type == "bert-embedder" { "tokenizer-vocab" } else { "tokenizer-model" };
    let has_types = component_type != "colbert-embedder";
    let (max_tokens, output) = match component_type {
        "bert-embedder" => (384, "output_0"),
        "colbert-embedder" => (512, "contextual"),
        "splade-embedder" => (512, "logits"),
        _ => (512, "last_hidden_state"),
    };
    let max_tokens = settings.number("max-tokens", max_tokens)?;
    let types = settings.text("transformer-token-type-ids", "token_type_ids");
    Ok(Some(Embedder {
        id: id.to_owned(),
        kind: kind(&settings, component_type, max_tokens)?,
        transformer: settings.model("transformer-model")?,
        tokenizer: settings.model(vocabulary)?,
        max_tokens,
        names: TransformerNames {
            ids: settings.text("transformer-input-ids", "input_ids").to_owned(),
            mask: settings.text("transformer-attention-mask", "attention_mask").to_owned(),
            types: (has_types && !types.is_empty()).then(|| types.to_owned()),
            output: settings.text("transformer-output", output).to_owned(),
        },
        prepend: settings.prepend(),
        execution: settings.execution()?,
        place: xml::place(FILE, node),
    }))
}

fn kind(settings: &Settings<'_, '_>, component_type: &str, max_tokens: usize) -> Result<EmbedderKind, Error> {
    let start = settings.number("transformer-start-sequence-token", 101)?;
    let end = settings.number("transformer-end-sequence-token", 102)?;
    Ok(match component_type {
        "bert-embedder" => EmbedderKind::Bert {
            pooling: settings
                .one_of("pooling-strategy", &[("mean", Pooling::Mean), ("cls", Pooling::Cls)])?,
            start_token: start,
            end_token: end,
        },
        "colbert-embedder" => EmbedderKind::Colbert(ColbertTokens {
            query_max: settings.number("max-query-tokens", 32.min(max_tokens))?.min(max_tokens),
            document_max: settings.number("max-document-tokens", max_tokens)?.min(max_tokens),
            mask: settings.number("transformer-mask-token", 103)?,
            start,
            end,
            query: settings.number("query-token-id", 1)?,
            document: settings.number("document-token-id", 2)?,
        }),
        "splade-embedder" => {
            EmbedderKind::Splade { threshold: settings.number("term-score-threshold", 0.0)? }
        }
        _ => EmbedderKind::HuggingFace {
            pooling: settings.one_of(
                "pooling-strategy",
                &[("mean", Pooling::Mean), ("cls", Pooling::Cls), ("none", Pooling::None)],
            )?,
            normalize: settings.one_of("normalize", &[("false", false), ("true", true)])?,
        },
    })
}

/// The settings in a component.
struct Settings<'a, 'i> {
    node: Node<'a, 'i>,
}

impl<'a> Settings<'a, '_> {
    /// The text of a setting; the default where it is not there.
    fn text(&self, name: &str, default: &'a str) -> &'a str {
        xml::child(self.node, name).map_or(default, xml::content)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, Error> {
        match xml::child(self.node, name) {
            Some(child) => number(child, xml::content(child)),
            None => Ok(default),
        }
    }

    /// One of these values; the first is the default.
    fn one_of<T: Copy>(&self, name: &str, values: &[(&str, T)]) -> Result<T, Error> {
        let Some(child) = xml::child(self.node, name) else { return Ok(values[0].1) };
        let given = xml::content(child);
        match values.iter().find(|(value, _)| *value == given) {
            Some((_, value)) => Ok(*value),
            None => {
                let known = one_of(values.iter().map(|(value, _)| *value));
                xml::invalid(FILE, child, format!("<{name}> is '{given}': expected {known}"))
            }
        }
    }

    /// The path of a model's file in the package.
    fn model(&self, name: &str) -> Result<String, Error> {
        let Some(child) = xml::child(self.node, name) else {
            let reason =
                format!("an embedder needs <{name} path='…'/>, with the path of a file in the package");
            return xml::invalid(FILE, self.node, reason);
        };
        match child.attribute("path") {
            Some(path) => Ok(path.to_owned()),
            None => xml::invalid(
                FILE,
                child,
                format!(
                    "models are not downloaded: put the file into the package, and name it in <{name} path='…'/>"
                ),
            ),
        }
    }

    fn prepend(&self) -> Prepend {
        let of = |name: &str| {
            let child = xml::child(self.node, "prepend").and_then(|prepend| xml::child(prepend, name));
            child.and_then(|child| child.text()).unwrap_or_default().to_owned()
        };
        Prepend { query: of("query"), document: of("document") }
    }

    fn execution(&self) -> Result<Execution, Error> {
        let threads = |name: &str| -> Result<Option<usize>, Error> {
            xml::child(self.node, name).map(|child| number(child, xml::content(child))).transpose()
        };
        Ok(Execution {
            intra_op_threads: threads("onnx-intraop-threads")?,
            inter_op_threads: threads("onnx-interop-threads")?,
            parallel: self.one_of("onnx-execution-mode", &[("sequential", false), ("parallel", true)])?,
        })
    }
}
