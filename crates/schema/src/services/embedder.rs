//! Reader of embedders: components of known types, with their settings.

use roxmltree::Node;

use super::{FILE, number, one_of_these};
use crate::embedder::{
    ColbertTokens, EmbedderConfig, EmbedderImplementation, EmbedderKind, EmbeddingService, ModelExecution,
    ModelFile, PrependTexts, RemoteModel, TokenPooling, TransformerConfig, TransformerNames,
    VectorQuantization,
};
use crate::suggest::did_you_mean;
use crate::{Error, xml};

/// Default number of texts per request to an external service.
const REMOTE_BATCH: usize = 64;

/// Settings of all embedders with a local model.
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

/// Additional settings of a type.
fn own_settings(component_type: &str) -> &'static [&'static str] {
    match component_type {
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
        _ => &[],
    }
}

/// Types of components that convert text to tensors.
pub(super) const TYPES: &[&str] = &[
    "hugging-face-embedder",
    "bert-embedder",
    "colbert-embedder",
    "splade-embedder",
    "hugging-face-tokenizer",
    "openai-embedder",
    "voyage-ai-embedder",
    "mistral-embedder",
];

/// The embedder in a component of one of these types.
pub(super) fn read(node: Node<'_, '_>, component_type: &str) -> Result<EmbedderConfig, Error> {
    let Some(id) = node.attribute("id") else {
        return xml::invalid(FILE, node, "an embedder needs an id, which statements and queries call it by");
    };
    let settings = Settings { node };
    let means = match component_type {
        "hugging-face-tokenizer" => {
            settings.only(component_type, &["model"])?;
            EmbedderImplementation::Tokenizer(settings.model("model")?)
        }
        _ => match service_of(component_type) {
            Some((own, address)) => {
                EmbedderImplementation::Remote(remote(&settings, component_type, own, address)?)
            }
            None => EmbedderImplementation::Transformer(transformer(&settings, component_type)?),
        },
    };
    Ok(EmbedderConfig {
        id: id.to_owned(),
        means,
        prepend: settings.prepend(),
        place: xml::place(FILE, node),
    })
}

/// Component type of a service: its additional settings, and its default URL.
fn service_of(component_type: &str) -> Option<(&'static [&'static str], &'static str)> {
    Some(match component_type {
        "openai-embedder" => (&["endpoint", "prepend"], "https://api.openai.com/v1/embeddings"),
        "mistral-embedder" => (&["quantization"], "https://api.mistral.ai/v1/embeddings"),
        "voyage-ai-embedder" => {
            (&["endpoint", "truncate", "quantization"], "https://api.voyageai.com/v1/embeddings")
        }
        _ => return None,
    })
}

/// Settings of all embedders of external services.
const REMOTE: &[&str] = &["model", "dimensions", "api-key-secret-ref", "batching"];
/// Numbers of dimensions that VoyageAI supports.
const VOYAGE_DIMENSIONS: &[usize] = &[256, 512, 1024, 1536, 2048];
/// VoyageAI's URL for embedding the chunks of a document together.
const VOYAGE_IN_CONTEXT: &str = "https://api.voyageai.com/v1/contextualizedembeddings";

fn remote(
    settings: &Settings<'_, '_>,
    component_type: &str,
    own: &[&str],
    address: &str,
) -> Result<RemoteModel, Error> {
    settings.only(component_type, &[REMOTE, own].concat())?;
    let invalid = |reason: String| xml::invalid(FILE, settings.node, reason);
    let model = settings.required("model")?;
    let dimensions = match settings.required("dimensions")?.parse() {
        Ok(dimensions) if dimensions > 0 => dimensions,
        _ => return invalid("<dimensions> must be a number above 0".to_owned()),
    };
    let service = match component_type {
        "mistral-embedder" => EmbeddingService::Mistral,
        "voyage-ai-embedder" => {
            if !VOYAGE_DIMENSIONS.contains(&dimensions) {
                return invalid(format!(
                    "<dimensions> is {dimensions}: expected one of {VOYAGE_DIMENSIONS:?}"
                ));
            }
            if model.starts_with("voyage-multimodal") {
                return invalid(format!("<model> is '{model}': only models of text are asked"));
            }
            let truncates = settings.one_of("truncate", &[("true", true), ("false", false)])?;
            EmbeddingService::Voyage { truncates, in_context: model.starts_with("voyage-context-") }
        }
        _ => EmbeddingService::OpenAi,
    };
    let address = match service {
        EmbeddingService::Voyage { in_context: true, .. } => VOYAGE_IN_CONTEXT,
        _ => address,
    };
    let endpoint = settings.text("endpoint", address);
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return invalid(format!("<endpoint> is '{endpoint}': expected an address such as {address}"));
    }
    let secret = match service {
        EmbeddingService::OpenAi => settings.text("api-key-secret-ref", ""),
        _ => settings.required("api-key-secret-ref")?,
    };
    let batching = xml::child(settings.node, "batching");
    let batch_max =
        match batching.and_then(|batching| batching.attribute("max-size").map(|max| (batching, max))) {
            Some((batching, max)) => number(batching, max)?,
            None => REMOTE_BATCH,
        };
    let quantization = match service {
        EmbeddingService::OpenAi => VectorQuantization::Float,
        _ => settings.one_of(
            "quantization",
            &[
                ("auto", VectorQuantization::Auto),
                ("float", VectorQuantization::Float),
                ("int8", VectorQuantization::Int8),
                ("binary", VectorQuantization::Binary),
            ],
        )?,
    };
    Ok(RemoteModel {
        service,
        model: model.to_owned(),
        dimensions,
        endpoint: endpoint.to_owned(),
        secret: (!secret.is_empty()).then(|| secret.to_owned()),
        batch_max: batch_max.max(1),
        quantization,
    })
}

fn transformer(settings: &Settings<'_, '_>, component_type: &str) -> Result<TransformerConfig, Error> {
    let own = own_settings(component_type);
    let known: Vec<&str> = COMMON.iter().chain(own).copied().collect();
    settings.only(component_type, &known)?;
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
    Ok(TransformerConfig {
        kind: kind(settings, component_type, max_tokens)?,
        model: settings.model("transformer-model")?,
        tokenizer: settings.model(vocabulary)?,
        max_tokens,
        names: TransformerNames {
            ids: settings.text("transformer-input-ids", "input_ids").to_owned(),
            mask: settings.text("transformer-attention-mask", "attention_mask").to_owned(),
            types: (has_types && !types.is_empty()).then(|| types.to_owned()),
            output: settings.text("transformer-output", output).to_owned(),
        },
        execution: settings.execution("onnx-")?,
    })
}

fn kind(settings: &Settings<'_, '_>, component_type: &str, max_tokens: usize) -> Result<EmbedderKind, Error> {
    let start = settings.number("transformer-start-sequence-token", 101)?;
    let end = settings.number("transformer-end-sequence-token", 102)?;
    Ok(match component_type {
        "bert-embedder" => EmbedderKind::Bert {
            pooling: settings
                .one_of("pooling-strategy", &[("mean", TokenPooling::Mean), ("cls", TokenPooling::Cls)])?,
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
                &[("mean", TokenPooling::Mean), ("cls", TokenPooling::Cls), ("none", TokenPooling::None)],
            )?,
            normalize: settings.one_of("normalize", &[("false", false), ("true", true)])?,
        },
    })
}

/// Settings in a component.
pub(super) struct Settings<'a, 'i> {
    pub node: Node<'a, 'i>,
}

impl<'a> Settings<'a, '_> {
    /// Rejects settings that are not in `known`.
    fn only(&self, component_type: &str, known: &[&str]) -> Result<(), Error> {
        for child in xml::elements(self.node) {
            let name = child.tag_name().name();
            if !known.contains(&name) {
                let hint = did_you_mean(name, known.iter().copied());
                return xml::invalid(
                    FILE,
                    child,
                    format!("a {component_type} has no setting <{name}>{hint}"),
                );
            }
        }
        Ok(())
    }

    /// Text of a setting, or the default.
    fn text(&self, name: &str, default: &'a str) -> &'a str {
        xml::child(self.node, name).map_or(default, xml::content)
    }

    fn required(&self, name: &str) -> Result<&'a str, Error> {
        match xml::child(self.node, name).map(xml::content) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => xml::invalid(FILE, self.node, format!("this component needs <{name}>")),
        }
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
        one_of_these(child, values)
    }

    /// Source of a model's file.
    fn model(&self, name: &str) -> Result<ModelFile, Error> {
        let Some(child) = xml::child(self.node, name) else {
            let reason = format!(
                "this component needs <{name} path='…'/>, with the path of a file in the package, or <{name} url='…'/>"
            );
            return xml::invalid(FILE, self.node, reason);
        };
        match (child.attribute("path"), child.attribute("url")) {
            (Some(path), _) => Ok(ModelFile::Path(path.to_owned())),
            (None, Some(url)) => ModelFile::at_url(url.to_owned(), child.attribute("sha256"))
                .or_else(|reason| xml::invalid(FILE, child, reason)),
            (None, None) => xml::invalid(
                FILE,
                child,
                format!(
                    "no model hub: put the file into the package, and name it in <{name} path='…'/>, or give its address in <{name} url='…'/>"
                ),
            ),
        }
    }

    fn prepend(&self) -> PrependTexts {
        let of = |name: &str| {
            let child = xml::child(self.node, "prepend").and_then(|prepend| xml::child(prepend, name));
            child.and_then(|child| child.text()).unwrap_or_default().to_owned()
        };
        PrependTexts { query: of("query"), document: of("document") }
    }

    /// Execution settings of a model; the names of the settings start with `prefix`.
    pub fn execution(&self, prefix: &str) -> Result<ModelExecution, Error> {
        let name = |name: &str| format!("{prefix}{name}");
        let threads = |name: &str| -> Result<Option<usize>, Error> {
            xml::child(self.node, name).map(|child| number(child, xml::content(child))).transpose()
        };
        let device: i32 = self.number(&name("gpu-device"), -1)?;
        Ok(ModelExecution {
            intra_op_threads: threads(&name("intraop-threads"))?,
            inter_op_threads: threads(&name("interop-threads"))?,
            parallel: self.one_of(&name("execution-mode"), &[("sequential", false), ("parallel", true)])?,
            gpu_device: (device >= 0).then_some(device),
        })
    }
}
