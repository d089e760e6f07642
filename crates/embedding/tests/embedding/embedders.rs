//! Embedders over a tiny model with random weights, and over MiniLM if `scripts/models` has created it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use millrace_embedding::{EmbeddedText, EmbedderServices, Error, Files, TextEmbedder};
use millrace_model::{Error as ModelError, ModelCaller, ModelScheduler, SchedulerOptions, SequencePurpose};
use millrace_schema::Application;
use millrace_tensor::{Tensor, TensorType};

/// Word pieces of the tiny tokenizer: one token each.
const WORDS: &str = "the slow ferry runs fast";

/// Provides ONNX Runtime, which models need; downloads it if it is missing.
fn onnxruntime() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/onnxruntime");
        let fetched = Command::new(script).status().expect("the script runs");
        assert!(fetched.success(), "ONNX Runtime is not there and cannot be fetched");
    });
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The embedder of this type with these settings, over the files of a directory.
fn load(directory: &Path, embedder: &str, settings: &str) -> Result<TextEmbedder, Error> {
    onnxruntime();
    let vocabulary = match embedder {
        "bert-embedder" => "<tokenizer-vocab path='vocab.txt'/>",
        _ => "<tokenizer-model path='tokenizer.json'/>",
    };
    let services = format!(
        "<services><container id='c'><component id='e' type='{embedder}'><transformer-model path='model.onnx'/>{vocabulary}{settings}</component></container>
         <content id='s'><documents><document type='d' mode='streaming'/></documents></content></services>"
    );
    let files = [
        ("services.xml", services.as_str()),
        ("schemas/d.sd", "schema d { document d { field a type string { indexing: index } } }"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into();
    let application = Application::from_files(files).expect("the package is right");
    let config = &application.container.embedders[0];
    let files: Files =
        config.files().into_iter().map(|file| (file.clone(), directory.join(file.to_string()))).collect();
    let services = EmbedderServices {
        scheduler: scheduler(),
        http: &|| Err(Error::Setup("no service is asked here".to_owned())),
        secret: &|request| Err(Error::Setup(format!("no secret {}", request.name))),
    };
    TextEmbedder::load(config, &files, &services)
}

/// A scheduler shared by all tests of the process.
fn scheduler() -> &'static ModelScheduler {
    static SCHEDULER: OnceLock<ModelScheduler> = OnceLock::new();
    SCHEDULER.get_or_init(|| ModelScheduler::new(SchedulerOptions::default()).expect("threads"))
}

const TINY: &str = "<transformer-token-type-ids/><max-tokens>64</max-tokens>";

fn tiny(settings: &str) -> TextEmbedder {
    load(&data(), "hugging-face-embedder", &format!("{TINY}{settings}")).expect("the tiny model loads")
}

fn embed(
    embedder: &TextEmbedder,
    text: EmbeddedText<'_>,
    target: &str,
    purpose: SequencePurpose,
) -> Result<Tensor, Error> {
    let target = TensorType::parse(target).expect("a type");
    embedder.embed(text, &target, &[], &ModelCaller::without_deadline(purpose))
}

fn vector(embedder: &TextEmbedder, text: &str) -> Vec<f64> {
    let tensor = embed(embedder, EmbeddedText::One(text), "tensor<float>(x[16])", SequencePurpose::Feed)
        .expect("it embeds");
    tensor.cells().iter().collect()
}

fn near(one: &[f64], other: &[f64], tolerance: f64) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| (one - other).abs() <= tolerance)
}

#[test]
fn a_text_is_one_vector_and_settings_shape_it() {
    let plain = tiny("");
    let mean = vector(&plain, WORDS);
    assert!(near(&mean, &vector(&plain, "The SLOW ferry runs  fast"), 0.0), "case and spaces do not count");
    assert!(!near(&mean, &vector(&plain, "a red letter"), 1e-3));

    let unit = vector(&tiny("<normalize>true</normalize>"), WORDS);
    assert!((unit.iter().map(|cell| cell * cell).sum::<f64>() - 1.0).abs() < 1e-6);

    let first = vector(&tiny("<pooling-strategy>cls</pooling-strategy>"), WORDS);
    assert!(!near(&mean, &first, 1e-3));

    let prepended = tiny("<prepend><query>a red </query></prepend>");
    let of = |purpose| {
        embed(&prepended, EmbeddedText::One("letter"), "tensor<float>(x[16])", purpose).expect("it embeds")
    };
    assert_eq!(of(SequencePurpose::Query).cells().iter().collect::<Vec<_>>(), vector(&plain, "a red letter"));
    assert_eq!(of(SequencePurpose::Feed).cells().iter().collect::<Vec<_>>(), vector(&plain, "letter"));
}

#[test]
fn the_target_type_says_how_much_of_the_vector_is_kept() {
    let embedder = tiny("");
    let whole = vector(&embedder, WORDS);
    let of = |target: &str| {
        let tensor = embed(&embedder, EmbeddedText::One(WORDS), target, SequencePurpose::Feed).expect(target);
        tensor.cells().iter().collect::<Vec<_>>()
    };
    assert_eq!(of("tensor<float>(x[4])"), whole[..4]);
    assert!(near(&of("tensor<bfloat16>(x[16])"), &whole, 0.02));
    let bits = of("tensor<int8>(x[2])");
    for (at, cell) in whole.iter().enumerate() {
        let bit = (bits[at / 8] as i8).cast_unsigned() >> (7 - at % 8) & 1;
        assert_eq!(bit == 1, *cell > 0.0, "bit {at} of {bits:?} for {whole:?}");
    }
    let error = embed(&embedder, EmbeddedText::One("a"), "tensor<float>(x[17])", SequencePurpose::Feed)
        .expect_err("too many");
    assert!(error.to_string().contains("have 16 cells"), "{error}");
}

#[test]
fn chunks_have_a_vector_each_and_are_what_they_are_alone() {
    let embedder = tiny("");
    let texts = ["a letter", "the mill", "", WORDS, "a letter"];
    let tensor =
        embed(&embedder, EmbeddedText::Chunks(&texts), "tensor<float>(p{},x[16])", SequencePurpose::Feed)
            .expect("it embeds");
    // The one without words is left out.
    assert_eq!(tensor.all_labels(), ["0", "1", "3", "4"]);
    let cells: Vec<f64> = tensor.cells().iter().collect();
    for (text, chunk) in texts.iter().filter(|text| !text.is_empty()).zip(cells.chunks(16)) {
        assert!(near(chunk, &vector(&embedder, text), 1e-5), "{text}");
    }
    let wordless: [&[&str]; 2] = [&[], &[" "]];
    for texts in wordless {
        let none =
            embed(&embedder, EmbeddedText::Chunks(texts), "tensor<float>(p{},x[16])", SequencePurpose::Feed)
                .expect("it embeds");
        assert_eq!(none.subspaces(), 0);
    }
}

#[test]
fn a_long_text_is_cut() {
    let embedder = tiny("");
    let long = "mill ".repeat(100_000);
    assert!(near(&vector(&embedder, &long), &vector(&embedder, &"mill ".repeat(62)), 1e-6));
}

#[test]
fn a_text_that_the_model_fails_on_fails_alone() {
    // The model has 64 positions: 65 tokens exceed it.
    let embedder = load(&data(), "hugging-face-embedder", "<transformer-token-type-ids/>").expect("it loads");
    let long = "mill ".repeat(80);
    let error = embed(&embedder, EmbeddedText::One(&long), "tensor<float>(x[16])", SequencePurpose::Feed)
        .expect_err("too long");
    assert!(matches!(error, Error::Model(ModelError::Run { .. })), "{error}");
    assert!(near(&vector(&embedder, WORDS), &vector(&tiny(""), WORDS), 1e-6));
}

#[test]
fn other_embedders_make_other_tensors() {
    let of = |embedder: &str, settings: &str, target: &str, purpose| {
        let embedder = load(&data(), embedder, settings).expect("it loads");
        embed(&embedder, EmbeddedText::One("The slow mills, running."), target, purpose).expect(target)
    };
    let output = "<transformer-output>last_hidden_state</transformer-output><max-tokens>64</max-tokens>";

    let tokens = "<transformer-start-sequence-token>2</transformer-start-sequence-token><transformer-end-sequence-token>3</transformer-end-sequence-token>";
    let bert = format!("{output}{tokens}<transformer-token-type-ids/>");
    let bert = of("bert-embedder", &bert, "tensor<float>(x[16])", SequencePurpose::Feed);
    assert!(near(
        &bert.cells().iter().collect::<Vec<_>>(),
        &vector(&tiny(""), "The slow mills, running."),
        1e-6
    ));

    let colbert = format!(
        "{output}{tokens}<transformer-mask-token>4</transformer-mask-token><max-query-tokens>12</max-query-tokens>"
    );
    // [CLS] mark the slow mill ##s [UNK] [SEP]: documents are tokenized without punctuation.
    let document = of("colbert-embedder", &colbert, "tensor<int8>(token{},x[2])", SequencePurpose::Feed);
    assert_eq!(document.subspaces(), 8);
    let query = of("colbert-embedder", &colbert, "tensor<float>(token{},x[16])", SequencePurpose::Query);
    assert_eq!(query.subspaces(), 12);
    let unfilled = format!("{colbert}<attend-to-expansion-tokens>false</attend-to-expansion-tokens>");
    let query = of("colbert-embedder", &unfilled, "tensor<float>(token{},x[16])", SequencePurpose::Query);
    assert!(query.subspaces() < 12);

    let splade =
        format!("{output}<transformer-token-type-ids/><term-score-threshold>0.2</term-score-threshold>");
    let weights = of("splade-embedder", &splade, "tensor<float>(token{})", SequencePurpose::Feed);
    assert!(weights.subspaces() > 0 && weights.cells().iter().all(|weight| weight > 0.2));
    assert!(weights.all_labels().iter().any(|label| label == "[CLS]" || label == "the" || label == "[SEP]"));
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_what_was_expected_and_found() {
    let refused = |embedder: &str, settings: &str| match load(&data(), embedder, settings) {
        Ok(_) => panic!("{embedder} {settings} loads"),
        Err(error) => error.to_string(),
    };
    for (embedder, settings, expected) in [
        (
            "hugging-face-embedder",
            "",
            "Model does not contain required input: 'token_type_ids'. Model contains: 'input_ids' int64[batch_size,sequence_length]",
        ),
        (
            "hugging-face-embedder",
            "<transformer-token-type-ids/><transformer-output>test</transformer-output>",
            "Model does not contain required output: 'test'. Model contains: 'last_hidden_state' float[batch_size,sequence_length,16]",
        ),
        (
            "hugging-face-embedder",
            "<transformer-token-type-ids/><pooling-strategy>none</pooling-strategy>",
            "expected an output 'last_hidden_state' float[batch,cells], found 'last_hidden_state' float[batch_size,sequence_length,16]",
        ),
    ] {
        let reason = refused(embedder, settings);
        assert!(reason.contains(expected), "{reason}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let with = |model: &[u8], tokenizer: &[u8]| {
        std::fs::write(directory.path().join("model.onnx"), model).expect("it is written");
        std::fs::write(directory.path().join("tokenizer.json"), tokenizer).expect("it is written");
        load(directory.path(), "hugging-face-embedder", "<transformer-token-type-ids/>")
            .err()
            .map(|error| error.to_string())
    };
    let model = std::fs::read(data().join("model.onnx")).expect("the model");
    let tokenizer = std::fs::read(data().join("tokenizer.json")).expect("the tokenizer");
    assert_eq!(with(&model, &tokenizer), None);
    // Heads of seven cells instead of eight: detected when the model runs.
    let (heads, wrong) =
        ([0_i64, 0, 2, 8].map(i64::to_le_bytes).concat(), [0_i64, 0, 2, 7].map(i64::to_le_bytes).concat());
    let at = model.windows(heads.len()).position(|bytes| bytes == heads).expect("the model splits heads");
    let uneven = [&model[..at], &wrong, &model[at + wrong.len()..]].concat();
    for (model, tokenizer, expected) in [
        (&uneven[..], &tokenizer[..], "model.onnx: "),
        (&b"no model"[..], &tokenizer[..], "model.onnx: "),
        (&model[..model.len() / 2], &tokenizer[..], "model.onnx: "),
        (b"", &tokenizer[..], "model.onnx: "),
        (&model[..], b"{}", "tokenizer.json: "),
        (&model[..], b"\xff", "tokenizer.json: "),
    ] {
        let reason = with(model, tokenizer).expect("it is refused");
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn an_idle_model_goes_and_comes_back() {
    let embedder = tiny("");
    let before = vector(&embedder, WORDS);
    assert!(!embedder.unload_idle(Duration::from_secs(3600)) && embedder.is_loaded());
    assert!(embedder.unload_idle(Duration::ZERO) && !embedder.is_loaded());
    assert_eq!(vector(&embedder, WORDS), before);
    assert!(embedder.is_loaded());
    assert_eq!(embedder.usage().expect("it has a model").sequences, 2);
}

#[test]
fn a_caller_without_time_gets_a_timeout() {
    let embedder = tiny("");
    let target = TensorType::parse("tensor<float>(x[16])").expect("a type");
    let late = ModelCaller {
        deadline: Some(Instant::now()),
        ..ModelCaller::without_deadline(SequencePurpose::Query)
    };
    let error = embedder.embed(EmbeddedText::One("a"), &target, &[], &late).expect_err("no time");
    assert!(matches!(error, Error::Model(ModelError::Deadline { .. })), "{error}");
}

/// Expected first cells for these texts, from the Python package with MiniLM's weights.
const MINILM: [(&str, [f64; 6]); 3] = [
    ("Millrace reads one person's documents.", [-0.02327, 0.07797, -0.0909, -0.01609, -0.05862, -0.02619]),
    ("invoice for the workshop in Oslo", [-0.07884, 0.10819, -0.00692, -0.01668, -0.07524, 0.01147]),
    (
        "When does the train to Bergen leave tomorrow morning?",
        [-0.06505, 0.06683, -0.01477, 0.0915, 0.05013, 0.11019],
    ),
];

#[test]
fn minilm_gives_the_vectors_that_its_package_gives() {
    let Some(home) = std::env::home_dir() else { return };
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let directory = cache.join("millrace/models/minilm");
    if !directory.join("model.onnx").is_file() {
        eprintln!("skipped: run scripts/models minilm");
        return;
    }
    let embedder =
        load(&directory, "hugging-face-embedder", "<normalize>true</normalize>").expect("MiniLM loads");
    let texts = MINILM.map(|(text, _)| text);
    let tensor =
        embed(&embedder, EmbeddedText::Chunks(&texts), "tensor<float>(p{},x[384])", SequencePurpose::Feed)
            .expect("it embeds");
    let cells: Vec<f64> = tensor.cells().iter().collect();
    for ((text, expected), cells) in MINILM.iter().zip(cells.chunks(384)) {
        assert!(near(&cells[..6], expected, 2e-5), "{text}: {:?}", &cells[..6]);
    }
}
