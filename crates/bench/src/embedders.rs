//! Embedders of models that `scripts/models` makes, in a node's application and by themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millrace_embedding::Error::Setup;
use millrace_embedding::{EmbedderServices, TextEmbedder};
use millrace_model::ModelScheduler;
use millrace_schema::{Application, ModelFile};

use crate::Error;

const FILES: [&str; 2] = ["model.onnx", "tokenizer.json"];
const SCHEMA: &str = include_str!("../../../examples/mail/schemas/mail.sd");
const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'>
    <search/><document-api/>
    <component id='minilm' type='hugging-face-embedder'>
      <transformer-model path='models/model.onnx'/>
      <tokenizer-model path='models/tokenizer.json'/>
      <normalize>true</normalize>
    </component>
  </container>
  <content id='mail' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='mail' mode='streaming'/></documents>
  </content>
</services>";

/// Returns the directory where `scripts/models` puts this model; `None` if it did not make it.
pub(crate) fn model(name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))?;
    let model = cache.join("millrace/models").join(name);
    model.join("model.onnx").is_file().then_some(model)
}

/// The example's application for mail, whose vectors come from MiniLM in this directory instead of from the
/// client.
pub(crate) fn application(model: &Path) -> Result<Application, Error> {
    let cut = |text: &str, from: &str, to: &str| {
        let (from, to) = (text.find(from)?, text.find(to)?);
        Some((text.get(..from)?.to_owned(), text.get(to..)?.to_owned()))
    };
    let (before, after) = cut(SCHEMA, "        # Of length 1", "    fieldset default")
        .ok_or_else(|| Error::failed("the example's schema has another shape"))?;
    let schema = format!(
        "{before}    }}
    field embedding type tensor<bfloat16>(x[384]) {{
        indexing: (input subject || \"\") . \" \" . (input body || \"\") | embed minilm | attribute
        attribute {{ distance-metric: prenormalized-angular }}
    }}
{after}"
    );
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.into()),
        ("schemas/mail.sd".to_owned(), schema.into_bytes()),
    ]);
    for name in FILES {
        let path = model.join(name);
        files.insert(format!("models/{name}"), std::fs::read(&path).map_err(Error::file(&path))?);
    }
    Application::from_files(files).map_err(Error::failed)
}

/// An embedder over a model in this directory, as a node has it.
pub(crate) fn embedder(model: &Path, scheduler: &ModelScheduler) -> Result<TextEmbedder, Error> {
    let files = BTreeMap::from([("services.xml".to_owned(), SERVICES.into())])
        .into_iter()
        .chain([("schemas/mail.sd".to_owned(), b"schema mail { document mail { } }".to_vec())])
        .chain(FILES.map(|name| (format!("models/{name}"), Vec::new())));
    let application = Application::from_files(files.collect()).map_err(Error::failed)?;
    let config = application.container.embedders.first();
    let config = config.ok_or_else(|| Error::failed("the benchmark's application has no embedder"))?;
    let place = |name: &str| (ModelFile::Path(format!("models/{name}")), model.join(name));
    let services = EmbedderServices {
        scheduler,
        http: &|| Err(Setup("no other service is asked".to_owned())),
        secret: &|request| Err(Setup(format!("no secret '{}'", request.name))),
    };
    TextEmbedder::load(config, &FILES.map(place).into(), &services).map_err(Error::failed)
}
