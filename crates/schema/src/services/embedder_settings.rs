//! Settings of embedders and of ONNX models, by the type of component.

use roxmltree::Node;

use super::settings::{GivenSetting, SettingReader, SettingRow, SettingTable, settings};
use super::{FILE, number};
use crate::embedder::{ModelExecution, ModelFile, PrependTexts, TokenPooling, VectorQuantization};
use crate::{Error, xml};

/// Settings of an embedder, as they are given.
#[derive(Default)]
pub(super) struct EmbedderParts {
    pub model: Option<ModelFile>,
    pub tokenizer: Option<ModelFile>,
    pub max_tokens: Option<usize>,
    /// Names of inputs and of the output.
    pub ids: Option<String>,
    pub mask: Option<String>,
    pub types: Option<String>,
    pub output: Option<String>,
    pub execution: ModelExecution,
    pub prepend: PrependTexts,
    pub pooling: Option<TokenPooling>,
    pub normalize: Option<bool>,
    pub start_token: Option<i64>,
    pub end_token: Option<i64>,
    pub mask_token: Option<i64>,
    pub query_token: Option<i64>,
    pub document_token: Option<i64>,
    pub query_tokens_max: Option<usize>,
    pub fills_query: Option<bool>,
    pub document_tokens_max: Option<usize>,
    pub threshold: Option<f32>,
    /// Name of the model in an external service.
    pub service_model: Option<String>,
    /// Number of dimensions, as text.
    pub dimensions: Option<String>,
    pub endpoint: Option<String>,
    pub secret: Option<String>,
    pub batch_max: Option<usize>,
    pub quantization: Option<VectorQuantization>,
    pub truncates: Option<bool>,
}

type EmbedderRows = &'static [SettingRow<SettingReader<EmbedderParts>>];
type EmbedderSettings = SettingTable<SettingReader<EmbedderParts>>;

/// Settings of all embedders with a local model.
static COMMON: EmbedderRows = settings! {
    "transformer-model", "<transformer-model path='models/e5.onnx'/>", "The file of the model.",
        |given, parts| { parts.model = Some(file(given)?); Ok(()) };
    "max-tokens", "<max-tokens>512</max-tokens>", "Maximum number of tokens; longer texts are truncated.",
        |given, parts| { parts.max_tokens = given.number()?; Ok(()) };
    "transformer-input-ids", "<transformer-input-ids>input_ids</transformer-input-ids>", "Name of the input of token ids.",
        |given, parts| { parts.ids = Some(given.text.to_owned()); Ok(()) };
    "transformer-attention-mask", "<transformer-attention-mask>attention_mask</transformer-attention-mask>",
        "Name of the input of the attention mask.",
        |given, parts| { parts.mask = Some(given.text.to_owned()); Ok(()) };
    "transformer-output", "<transformer-output>last_hidden_state</transformer-output>", "Name of the output.",
        |given, parts| { parts.output = Some(given.text.to_owned()); Ok(()) };
    "onnx-execution-mode", "<onnx-execution-mode>parallel</onnx-execution-mode>", "`sequential` or `parallel` operators.",
        |given, parts| execution_mode(given, &mut parts.execution);
    "onnx-interop-threads", "<onnx-interop-threads>1</onnx-interop-threads>", "Threads for parallel operators; the node chooses where it is negative.",
        |given, parts| interop_threads(given, &mut parts.execution);
    "onnx-intraop-threads", "<onnx-intraop-threads>2</onnx-intraop-threads>", "Threads of one operator; the node chooses where it is negative.",
        |given, parts| intraop_threads(given, &mut parts.execution);
    "onnx-gpu-device", "<onnx-gpu-device>0</onnx-gpu-device>", "Number of the GPU; the CPU is used where it is negative.",
        |given, parts| gpu_device(given, &mut parts.execution);
    "onnx-optimize-model", "<onnx-optimize-model>true</onnx-optimize-model>", "No effect: models are always optimized.",
        |given, _| given.one_of(&[("false", ()), ("true", ())]).map(drop);
    "batching", "<batching max-size='8' max-delay='5ms'/>",
        "No effect: texts that wait for a model are given to it together, and none waits for others.", |_, _| Ok(());
    "concurrency", "<concurrency type='relative'>1.0</concurrency>",
        "No effect: all models of a node share its cores.", |given, _| given.number::<f64>().map(drop);
    "model-config-override", "<model-config-override>config.pbtxt</model-config-override>",
        "No effect: it is for models in a server of their own.",
        |given, _| { given.warn_of_no_effect("models run inside the node"); Ok(()) };
    "prepend", "<prepend><query>query: </query></prepend>", "Texts before those of queries and of documents.", prepend;
};

/// What every component may have inside.
static INSIDE: EmbedderRows = settings! {
    "config", "<config name='a.b'/>", "No effect: the settings of an embedder are its elements.",
        |given, _| { given.warn_of_no_effect("the settings of an embedder are its elements"); Ok(()) };
    "component", "<component id='a.B'/>", "No effect: components inside an embedder are Java.",
        |given, _| { given.warn_of_no_effect("components inside an embedder are Java"); Ok(()) };
};

static TOKENIZER_MODEL: EmbedderRows = settings! {
    "tokenizer-model", "<tokenizer-model path='models/tokenizer.json'/>", "The file of the tokenizer.",
        |given, parts| { parts.tokenizer = Some(file(given)?); Ok(()) };
};

static TOKEN_TYPES: EmbedderRows = settings! {
    "transformer-token-type-ids", "<transformer-token-type-ids/>",
        "Name of the input of token types; empty for models without it.",
        |given, parts| { parts.types = Some(given.text.to_owned()); Ok(()) };
};

static START_AND_END: EmbedderRows = settings! {
    "transformer-start-sequence-token", "<transformer-start-sequence-token>101</transformer-start-sequence-token>",
        "Token at the start of a text.",
        |given, parts| { parts.start_token = given.number()?; Ok(()) };
    "transformer-end-sequence-token", "<transformer-end-sequence-token>102</transformer-end-sequence-token>",
        "Token at the end of a text.",
        |given, parts| { parts.end_token = given.number()?; Ok(()) };
};

pub(super) static HUGGING_FACE: EmbedderSettings = SettingTable {
    block: "Settings of hugging-face-embedder",
    rows: &[
        COMMON,
        INSIDE,
        TOKENIZER_MODEL,
        TOKEN_TYPES,
        settings! {
            "pooling-strategy", "<pooling-strategy>cls</pooling-strategy>",
                "`mean` of the states, that of the first token (`cls`), or the model's own vector (`none`).",
                |given, parts| {
                    parts.pooling = given.one_of(&[
                        ("mean", TokenPooling::Mean),
                        ("cls", TokenPooling::Cls),
                        ("none", TokenPooling::None),
                    ])?;
                    Ok(())
                };
            "normalize", "<normalize>true</normalize>", "The vector is scaled to length 1.",
                |given, parts| {
                    parts.normalize = given.one_of(&[("false", false), ("true", true)])?;
                    Ok(())
                };
        },
    ],
};

pub(super) static BERT: EmbedderSettings = SettingTable {
    block: "Settings of bert-embedder",
    rows: &[
        COMMON,
        INSIDE,
        settings! {
            "tokenizer-vocab", "<tokenizer-vocab path='models/vocab.txt'/>", "The file of the vocabulary.",
                |given, parts| { parts.tokenizer = Some(file(given)?); Ok(()) };
        },
        TOKEN_TYPES,
        settings! {
            "pooling-strategy", "<pooling-strategy>cls</pooling-strategy>",
                "`mean` of the states, or that of the first token (`cls`).",
                |given, parts| {
                    parts.pooling =
                        given.one_of(&[("mean", TokenPooling::Mean), ("cls", TokenPooling::Cls)])?;
                    Ok(())
                };
        },
        START_AND_END,
    ],
};

pub(super) static COLBERT: EmbedderSettings = SettingTable {
    block: "Settings of colbert-embedder",
    rows: &[
        COMMON,
        INSIDE,
        TOKENIZER_MODEL,
        settings! {
            "max-query-tokens", "<max-query-tokens>32</max-query-tokens>", "Maximum number of tokens of a query.",
                |given, parts| { parts.query_tokens_max = given.number()?; Ok(()) };
            "max-document-tokens", "<max-document-tokens>512</max-document-tokens>",
                "Maximum number of tokens of a document.",
                |given, parts| { parts.document_tokens_max = given.number()?; Ok(()) };
            "transformer-mask-token", "<transformer-mask-token>103</transformer-mask-token>",
                "Token that fills up a query.",
                |given, parts| { parts.mask_token = given.number()?; Ok(()) };
        },
        START_AND_END,
        settings! {
            "transformer-pad-token", "<transformer-pad-token>0</transformer-pad-token>",
                "No effect: padding is masked.", |_, _| Ok(());
            "query-token-id", "<query-token-id>1</query-token-id>", "Token that marks a query.",
                |given, parts| { parts.query_token = given.number()?; Ok(()) };
            "document-token-id", "<document-token-id>2</document-token-id>", "Token that marks a document.",
                |given, parts| { parts.document_token = given.number()?; Ok(()) };
            "attend-to-expansion-tokens", "<attend-to-expansion-tokens>false</attend-to-expansion-tokens>",
                "The tokens that fill up a query have vectors, too.",
                |given, parts| {
                    parts.fills_query = given.one_of(&[("false", false), ("true", true)])?;
                    Ok(())
                };
        },
    ],
};

pub(super) static SPLADE: EmbedderSettings = SettingTable {
    block: "Settings of splade-embedder",
    rows: &[
        COMMON,
        INSIDE,
        TOKENIZER_MODEL,
        TOKEN_TYPES,
        settings! {
            "term-score-threshold", "<term-score-threshold>0.1</term-score-threshold>",
                "Weights that do not exceed it are left out.",
                |given, parts| { parts.threshold = given.number()?; Ok(()) };
        },
    ],
};

pub(super) static TOKENIZER: EmbedderSettings = SettingTable {
    block: "Settings of hugging-face-tokenizer",
    rows: &[
        settings! {
            "model", "<model path='models/tokenizer.json'/>", "The file of the tokenizer.",
                |given, parts| {
                    let mut others = given.node.next_siblings().skip(1);
                    if others.any(|other| other.tag_name() == given.node.tag_name()) {
                        given.warn_of_no_effect("a tokenizer has one model, the first, for all languages");
                    }
                    parts.tokenizer = Some(file(given)?);
                    Ok(())
                };
        },
        INSIDE,
    ],
};

/// Settings of all embedders of external services.
static REMOTE: EmbedderRows = settings! {
    "model", "<model>text-embedding-3-small</model>", "Name of the model in the service.",
        |given, parts| { parts.service_model = Some(given.text.to_owned()); Ok(()) };
    "dimensions", "<dimensions>256</dimensions>", "Number of dimensions of the vectors.",
        |given, parts| { parts.dimensions = Some(given.text.to_owned()); Ok(()) };
    "api-key-secret-ref", "<api-key-secret-ref>key</api-key-secret-ref>", "Name of the secret for authentication.",
        |given, parts| { parts.secret = Some(given.text.to_owned()); Ok(()) };
    "batching", "<batching max-size='8'/>", "Maximum number of texts per request.",
        |given, parts| {
            let max = given.node.attribute("max-size");
            parts.batch_max = max.map(|max| number(given.node, max)).transpose()?;
            Ok(())
        };
};

static ENDPOINT: EmbedderRows = settings! {
    "endpoint", "<endpoint>http://localhost:8000/v1/embeddings</endpoint>", "URL of the service.",
        |given, parts| { parts.endpoint = Some(given.text.to_owned()); Ok(()) };
};

static QUANTIZATION: EmbedderRows = settings! {
    "quantization", "<quantization>int8</quantization>", "Cells of the vectors: `auto`, `float`, `int8`, `binary`.",
        |given, parts| {
            parts.quantization = given.one_of(&[
                ("auto", VectorQuantization::Auto),
                ("float", VectorQuantization::Float),
                ("int8", VectorQuantization::Int8),
                ("binary", VectorQuantization::Binary),
            ])?;
            Ok(())
        };
};

pub(super) static OPENAI: EmbedderSettings = SettingTable {
    block: "Settings of openai-embedder",
    rows: &[
        REMOTE,
        INSIDE,
        ENDPOINT,
        settings! {
            "prepend", "<prepend><document>passage: </document></prepend>",
                "Texts before those of queries and of documents.", prepend;
        },
    ],
};

pub(super) static VOYAGE: EmbedderSettings = SettingTable {
    block: "Settings of voyage-ai-embedder",
    rows: &[
        REMOTE,
        INSIDE,
        ENDPOINT,
        settings! {
            "truncate", "<truncate>false</truncate>", "Texts that are too long are truncated; else they are errors.",
                |given, parts| {
                    parts.truncates = given.one_of(&[("true", true), ("false", false)])?;
                    Ok(())
                };
        },
        QUANTIZATION,
    ],
};

pub(super) static MISTRAL: EmbedderSettings =
    SettingTable { block: "Settings of mistral-embedder", rows: &[REMOTE, INSIDE, QUANTIZATION] };

/// Tables of all types of embedders.
pub(super) static TABLES: [&EmbedderSettings; 8] =
    [&HUGGING_FACE, &BERT, &COLBERT, &SPLADE, &TOKENIZER, &OPENAI, &VOYAGE, &MISTRAL];

/// Settings of a model of `<model-evaluation>`; others have no effect.
pub(super) static EXECUTION: SettingTable<SettingReader<ModelExecution>> = SettingTable {
    block: "Settings of a model of model-evaluation",
    rows: &[settings! {
        "execution-mode", "<execution-mode>parallel</execution-mode>", "`sequential` or `parallel` operators.",
            execution_mode;
        "interop-threads", "<interop-threads>1</interop-threads>", "Threads for parallel operators; the node chooses where it is negative.", interop_threads;
        "intraop-threads", "<intraop-threads>2</intraop-threads>", "Threads of one operator; the node chooses where it is negative.", intraop_threads;
        "gpu-device", "<gpu-device>0</gpu-device>", "Number of the GPU; the CPU is used where it is negative.", gpu_device;
        "optimize-model", "<optimize-model>true</optimize-model>", "No effect: models are always optimized.",
            |given, _| given.one_of(&[("false", ()), ("true", ())]).map(drop);
    }],
};

/// Execution settings of a model of `<model-evaluation>`.
pub(super) fn execution(model: Node<'_, '_>) -> Result<ModelExecution, Error> {
    let mut execution = ModelExecution::default();
    for row in EXECUTION.rows.iter().flat_map(|rows| *rows) {
        if let Some(child) = xml::child(model, row.setting.name) {
            (row.read)(&mut GivenSetting::element(child, &mut Vec::new()), &mut execution)?;
        }
    }
    Ok(execution)
}

fn execution_mode(given: &mut GivenSetting<'_, '_, '_>, execution: &mut ModelExecution) -> Result<(), Error> {
    execution.parallel =
        given.one_of(&[("sequential", false), ("parallel", true)])?.unwrap_or(execution.parallel);
    Ok(())
}

fn interop_threads(
    given: &mut GivenSetting<'_, '_, '_>,
    execution: &mut ModelExecution,
) -> Result<(), Error> {
    execution.inter_op_threads = threads(given)?;
    Ok(())
}

fn intraop_threads(
    given: &mut GivenSetting<'_, '_, '_>,
    execution: &mut ModelExecution,
) -> Result<(), Error> {
    execution.intra_op_threads = threads(given)?;
    Ok(())
}

/// A number of threads; `None` if the node chooses it, which negative numbers and zero ask for.
fn threads(given: &GivenSetting<'_, '_, '_>) -> Result<Option<usize>, Error> {
    let count: Option<i32> = given.number()?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0))
}

fn gpu_device(given: &mut GivenSetting<'_, '_, '_>, execution: &mut ModelExecution) -> Result<(), Error> {
    execution.gpu_device = given.number()?.filter(|device: &i32| *device >= 0);
    Ok(())
}

fn prepend(given: &mut GivenSetting<'_, '_, '_>, parts: &mut EmbedderParts) -> Result<(), Error> {
    let of = |name: &str| {
        let child = xml::child(given.node, name);
        child.and_then(|child| child.text()).unwrap_or_default().to_owned()
    };
    parts.prepend = PrependTexts { query: of("query"), document: of("document") };
    Ok(())
}

/// Source of a model's file.
fn file(given: &GivenSetting<'_, '_, '_>) -> Result<ModelFile, Error> {
    let (node, name) = (given.node, given.name);
    match (node.attribute("path"), node.attribute("url")) {
        (Some(path), _) => Ok(ModelFile::Path(path.to_owned())),
        (None, Some(url)) => ModelFile::at_url(url.to_owned(), node.attribute("sha256"))
            .or_else(|reason| xml::invalid(FILE, node, reason)),
        (None, None) => xml::invalid(
            FILE,
            node,
            format!(
                "no model hub: put the file into the package, and name it in <{name} path='…'/>, or give its address in <{name} url='…'/>"
            ),
        ),
    }
}
