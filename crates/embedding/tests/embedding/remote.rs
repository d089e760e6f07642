//! Embedders that call an external service, played by this test over real sockets. The request depends on the
//! tensor type.

use millrace_embedding::{EmbeddedText, EmbedderServices, Error, Files, TextEmbedder};
use millrace_model::{ModelCaller, ModelScheduler, SchedulerOptions, SequencePurpose};
use millrace_remote::{OutboundHttp, OutboundPolicy};
use millrace_schema::Application;
use millrace_tensor::TensorType;
use serde_json::json;

use crate::mock::{MockReply, MockRequest, MockServer};

/// A service whose vectors count from -2, as numbers, halved, or in the requested form.
fn service() -> MockServer {
    MockServer::start(|request: &MockRequest| {
        let body = request.json();
        let dimensions = body["output_dimension"].as_u64().expect("a number");
        let vector: Vec<f64> = match body["output_dtype"].as_str() {
            None => (0..dimensions).map(|cell| cell as f64 / 2.0 - 2.0).collect(),
            Some("int8") => (0..dimensions).map(|cell| (cell % 128) as f64 - 2.0).collect(),
            Some(_) => (0..dimensions / 8).map(|cell| -(cell as f64)).collect(),
        };
        let count = body["input"].as_array().expect("texts").len();
        let item = |index: usize| json!({ "index": index, "embedding": vector });
        MockReply::json(200, json!({ "data": (0..count).map(item).collect::<Vec<_>>() }))
    })
}

fn embedder(service: &MockServer, quantization: &str) -> TextEmbedder {
    let services = format!(
        "<services><container id='c'><component id='e' type='voyage-ai-embedder'>
           <model>voyage-4</model><dimensions>256</dimensions><api-key-secret-ref>k</api-key-secret-ref>
           <endpoint>{}</endpoint><quantization>{quantization}</quantization>
         </component></container>
         <content id='s'><documents><document type='d' mode='streaming'/></documents></content></services>",
        service.url("/v1/embeddings")
    );
    let files = [("services.xml", services.as_str()), ("schemas/d.sd", "schema d { document d { } }")];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into();
    let application = Application::from_files(files).expect("the package is right");
    let scheduler = ModelScheduler::new(SchedulerOptions::default()).expect("threads");
    let services = EmbedderServices {
        scheduler: &scheduler,
        http: &|| {
            OutboundHttp::new(OutboundPolicy::parse(&["127.0.0.1"])?)
                .map_err(|error| Error::Setup(error.to_string()))
        },
        secret: &|request| Ok(request.name.to_owned()),
    };
    TextEmbedder::load(&application.container.embedders[0], &Files::new(), &services).expect("it loads")
}

#[test]
fn vectors_come_as_the_tensor_has_them() {
    let service = service();
    let check = |quantization: &str, target: &str, expected: Result<&[f64], &str>| {
        let embedder = embedder(&service, quantization);
        let target = TensorType::parse(target).expect("a type");
        let caller = ModelCaller::without_deadline(SequencePurpose::Feed);
        let found = embedder.embed(EmbeddedText::One("a"), &target, &[], &caller);
        match (found, expected) {
            (Ok(tensor), Ok(first)) => {
                let cells: Vec<f64> = tensor.cells().iter().collect();
                assert_eq!((&cells[..first.len()], cells.len()), (first, tensor.cells().len()), "{target}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{quantization} {target}: {found:?}"),
        }
    };
    let (numbers, whole, packed) = ([-2.0, -1.5, -1.0], [-2.0, -1.0, 0.0, 1.0], [0.0, -1.0, -2.0]);
    check("auto", "tensor<float>(x[256])", Ok(&numbers));
    check("auto", "tensor<bfloat16>(x[256])", Ok(&numbers));
    check("auto", "tensor<int8>(x[256])", Ok(&whole));
    check("auto", "tensor<int8>(x[32])", Ok(&packed));
    check("float", "tensor<float>(x[128])", Ok(&numbers));
    check("int8", "tensor<int8>(x[256])", Ok(&whole));
    check("binary", "tensor<int8>(x[32])", Ok(&packed));
    check(
        "auto",
        "tensor<int8>(x[64])",
        Err("expected a type such as tensor<int8>(x[256]) or, for bits, tensor<int8>(x[32])"),
    );
    check("int8", "tensor<int8>(x[32])", Err("expected a type such as tensor<int8>(x[256]), found"));
    check("binary", "tensor<float>(x[256])", Err("expected a type such as tensor<int8>(x[32]), found"));
    check("auto", "tensor<float>(x[512])", Err("have 256 cells"));

    let target = TensorType::parse("tensor<int8>(chunk{},x[32])").expect("a type");
    let texts = EmbeddedText::Chunks(&["a", "b"]);
    let tensor = embedder(&service, "auto").embed(
        texts,
        &target,
        &[],
        &ModelCaller::without_deadline(SequencePurpose::Feed),
    );
    assert_eq!(tensor.expect("it embeds").all_labels(), ["0", "1"]);
}
