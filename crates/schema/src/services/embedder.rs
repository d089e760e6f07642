//! Reader of embedders: components of known types.

use roxmltree::Node;

use super::FILE;
use super::embedder_settings::{
    BERT, COLBERT, EmbedderParts, HUGGING_FACE, MISTRAL, OPENAI, SPLADE, TOKENIZER, VOYAGE,
};
use super::settings::{SettingReader, SettingTable, settings};
use crate::embedder::{
    ColbertTokens, EmbedderConfig, EmbedderImplementation, EmbedderKind, EmbeddingService, ModelFile,
    RemoteModel, TokenPooling, TransformerConfig, TransformerNames, VectorQuantization,
};
use crate::{Error, xml};

/// Default number of texts per request to an external service.
const REMOTE_BATCH: usize = 64;

/// Function that makes an embedder of a component.
type EmbedderReader = fn(Node<'_, '_>, EmbedderParts) -> Result<EmbedderImplementation, Error>;

/// A type of embedder: its settings, and the embedder that they make.
pub(super) struct EmbedderType {
    settings: &'static SettingTable<SettingReader<EmbedderParts>>,
    make: EmbedderReader,
}

/// Types of components that convert text to tensors.
pub(super) static TYPES: SettingTable<EmbedderType> = SettingTable {
    block: "Types of embedders",
    rows: &[settings! {
        "hugging-face-embedder", "<component id='e5' type='hugging-face-embedder'/>", "One vector from a transformer.",
            EmbedderType { settings: &HUGGING_FACE, make: hugging_face };
        "bert-embedder", "<component id='bert' type='bert-embedder'/>", "One vector from a BERT model with its vocabulary.",
            EmbedderType { settings: &BERT, make: bert };
        "colbert-embedder", "<component id='colbert' type='colbert-embedder'/>", "A vector for each token.",
            EmbedderType { settings: &COLBERT, make: colbert };
        "splade-embedder", "<component id='splade' type='splade-embedder'/>", "A weight for each relevant token.",
            EmbedderType { settings: &SPLADE, make: splade };
        "hugging-face-tokenizer", "<component id='tokens' type='hugging-face-tokenizer'/>", "The ids of the tokens.",
            EmbedderType { settings: &TOKENIZER, make: tokenizer };
        "openai-embedder", "<component id='far' type='openai-embedder'/>", "A service with OpenAI's protocol.",
            EmbedderType { settings: &OPENAI, make: openai };
        "voyage-ai-embedder", "<component id='far' type='voyage-ai-embedder'/>", "The service of VoyageAI.",
            EmbedderType { settings: &VOYAGE, make: voyage };
        "mistral-embedder", "<component id='far' type='mistral-embedder'/>", "The service of Mistral.",
            EmbedderType { settings: &MISTRAL, make: mistral };
    }],
};

/// The embedder in a component of one of these types.
pub(super) fn read(
    node: Node<'_, '_>,
    component_type: &str,
    means: &EmbedderType,
    warnings: &mut Vec<String>,
) -> Result<EmbedderConfig, Error> {
    let Some(id) = node.attribute("id") else {
        return xml::invalid(FILE, node, "an embedder needs an id, which statements and queries call it by");
    };
    let mut parts = EmbedderParts::default();
    let unknown = |name: &str, hint: &str| format!("{component_type} has no setting <{name}>{hint}");
    means.settings.read_elements(node, &mut parts, warnings, unknown)?;
    let prepend = std::mem::take(&mut parts.prepend);
    Ok(EmbedderConfig {
        id: id.to_owned(),
        means: (means.make)(node, parts)?,
        prepend,
        position: xml::position_of(FILE, node),
    })
}

fn tokenizer(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    Ok(EmbedderImplementation::Tokenizer(model(node, "model", parts.tokenizer)?))
}

/// A model's file, which must be given.
fn model(node: Node<'_, '_>, name: &str, file: Option<ModelFile>) -> Result<ModelFile, Error> {
    file.map_or_else(
        || {
            let reason = format!(
                "this component needs <{name} path='…'/>, with the path of a file in the package, or <{name} url='…'/>"
            );
            xml::invalid(FILE, node, reason)
        },
        Ok,
    )
}

/// Defaults of a transformer, which differ between types.
struct TransformerDefaults {
    /// Setting of the tokenizer.
    tokenizer: &'static str,
    max_tokens: usize,
    /// Name of the output.
    output: &'static str,
    /// True if the transformer has an input for token types.
    has_types: bool,
}

impl TransformerDefaults {
    const USUAL: Self = TransformerDefaults {
        tokenizer: "tokenizer-model",
        max_tokens: 512,
        output: "last_hidden_state",
        has_types: true,
    };

    /// The embedder with these settings; `kind` is made of the settings and the maximum number of tokens.
    fn embedder(
        &self,
        node: Node<'_, '_>,
        parts: EmbedderParts,
        kind: impl FnOnce(&EmbedderParts, usize) -> EmbedderKind,
    ) -> Result<EmbedderImplementation, Error> {
        let max_tokens = parts.max_tokens.unwrap_or(self.max_tokens);
        let kind = kind(&parts, max_tokens);
        let or = |given: Option<String>, default: &str| given.unwrap_or_else(|| default.to_owned());
        let types = or(parts.types, "token_type_ids");
        Ok(EmbedderImplementation::Transformer(TransformerConfig {
            kind,
            model: model(node, "transformer-model", parts.model)?,
            tokenizer: model(node, self.tokenizer, parts.tokenizer)?,
            max_tokens,
            names: TransformerNames {
                ids: or(parts.ids, "input_ids"),
                mask: or(parts.mask, "attention_mask"),
                types: (self.has_types && !types.is_empty()).then_some(types),
                output: or(parts.output, self.output),
            },
            execution: parts.execution,
        }))
    }
}

/// Tokens at the start and the end of a text, where none are given.
const START_TOKEN: i64 = 101;
const END_TOKEN: i64 = 102;

fn hugging_face(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    TransformerDefaults::USUAL.embedder(node, parts, |parts, _| EmbedderKind::HuggingFace {
        pooling: parts.pooling.unwrap_or(TokenPooling::Mean),
        normalize: parts.normalize.unwrap_or(false),
    })
}

fn bert(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let defaults = TransformerDefaults {
        tokenizer: "tokenizer-vocab",
        max_tokens: 384,
        output: "output_0",
        ..TransformerDefaults::USUAL
    };
    defaults.embedder(node, parts, |parts, _| EmbedderKind::Bert {
        pooling: parts.pooling.unwrap_or(TokenPooling::Mean),
        start_token: parts.start_token.unwrap_or(START_TOKEN),
        end_token: parts.end_token.unwrap_or(END_TOKEN),
    })
}

fn colbert(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let defaults =
        TransformerDefaults { output: "contextual", has_types: false, ..TransformerDefaults::USUAL };
    defaults.embedder(node, parts, |parts, max_tokens| {
        EmbedderKind::Colbert(ColbertTokens {
            query_max: parts.query_tokens_max.unwrap_or(32).min(max_tokens),
            document_max: parts.document_tokens_max.unwrap_or(max_tokens).min(max_tokens),
            mask: parts.mask_token.unwrap_or(103),
            start: parts.start_token.unwrap_or(START_TOKEN),
            end: parts.end_token.unwrap_or(END_TOKEN),
            query: parts.query_token.unwrap_or(1),
            document: parts.document_token.unwrap_or(2),
            fills_query: parts.fills_query.unwrap_or(true),
        })
    })
}

fn splade(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let defaults = TransformerDefaults { output: "logits", ..TransformerDefaults::USUAL };
    defaults
        .embedder(node, parts, |parts, _| EmbedderKind::Splade { threshold: parts.threshold.unwrap_or(0.0) })
}

/// Numbers of dimensions that VoyageAI supports.
const VOYAGE_DIMENSIONS: &[usize] = &[256, 512, 1024, 1536, 2048];
/// VoyageAI's URL for embedding the chunks of a document together.
const VOYAGE_IN_CONTEXT: &str = "https://api.voyageai.com/v1/contextualizedembeddings";

fn openai(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let component = RemoteComponent::of(node, parts)?;
    component.embedder(EmbeddingService::OpenAi, "https://api.openai.com/v1/embeddings")
}

fn mistral(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let component = RemoteComponent::of(node, parts)?;
    component.embedder(EmbeddingService::Mistral, "https://api.mistral.ai/v1/embeddings")
}

fn voyage(node: Node<'_, '_>, parts: EmbedderParts) -> Result<EmbedderImplementation, Error> {
    let truncates = parts.truncates.unwrap_or(true);
    let component = RemoteComponent::of(node, parts)?;
    let RemoteComponent { model, dimensions, .. } = &component;
    if !VOYAGE_DIMENSIONS.contains(dimensions) {
        let reason = format!("<dimensions> is {dimensions}: expected one of {VOYAGE_DIMENSIONS:?}");
        return xml::invalid(FILE, node, reason);
    }
    if model.starts_with("voyage-multimodal") {
        return xml::invalid(FILE, node, format!("<model> is '{model}': only models of text are asked"));
    }
    let in_context = model.starts_with("voyage-context-");
    let address = if in_context { VOYAGE_IN_CONTEXT } else { "https://api.voyageai.com/v1/embeddings" };
    component.embedder(EmbeddingService::Voyage { truncates, in_context }, address)
}

/// A component of an external service, with the settings that all of them need.
struct RemoteComponent<'a, 'i> {
    node: Node<'a, 'i>,
    model: String,
    dimensions: usize,
    parts: EmbedderParts,
}

/// The text of a setting that must be given.
fn required_setting(node: Node<'_, '_>, name: &str, text: Option<&String>) -> Result<String, Error> {
    match text {
        Some(text) if !text.is_empty() => Ok(text.clone()),
        _ => xml::invalid(FILE, node, format!("this component needs <{name}>")),
    }
}

impl<'a, 'i> RemoteComponent<'a, 'i> {
    fn of(node: Node<'a, 'i>, parts: EmbedderParts) -> Result<Self, Error> {
        let model = required_setting(node, "model", parts.service_model.as_ref())?;
        let dimensions = match required_setting(node, "dimensions", parts.dimensions.as_ref())?.parse() {
            Ok(dimensions) if dimensions > 0 => dimensions,
            _ => return xml::invalid(FILE, node, "<dimensions> must be a number above 0"),
        };
        Ok(RemoteComponent { node, model, dimensions, parts })
    }

    /// The embedder of a service, which has this URL by default.
    fn embedder(self, service: EmbeddingService, address: &str) -> Result<EmbedderImplementation, Error> {
        let RemoteComponent { node, model, dimensions, parts } = self;
        let endpoint = parts.endpoint.unwrap_or_else(|| address.to_owned());
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let reason = format!("<endpoint> is '{endpoint}': expected an address such as {address}");
            return xml::invalid(FILE, node, reason);
        }
        let secret = match service {
            EmbeddingService::OpenAi => parts.secret.filter(|secret| !secret.is_empty()),
            _ => Some(required_setting(node, "api-key-secret-ref", parts.secret.as_ref())?),
        };
        let quantization = match service {
            EmbeddingService::OpenAi => VectorQuantization::Float,
            _ => parts.quantization.unwrap_or(VectorQuantization::Auto),
        };
        Ok(EmbedderImplementation::Remote(RemoteModel {
            service,
            model,
            dimensions,
            endpoint,
            secret,
            batch_max: parts.batch_max.unwrap_or(REMOTE_BATCH).max(1),
            quantization,
        }))
    }
}
