//! Common data of all benchmarks: one application, and mail-like documents that are the same on every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue};
use millrace_schema::{Application, Schema};
use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::Error;
use crate::random::BenchRandom;

/// Number of dimensions of a vector.
pub(crate) const DIMENSIONS: usize = 384;
/// Bytes of a stored vector: its cells are bfloat16.
pub(crate) const VECTOR_BYTES: usize = DIMENSIONS * 2;
/// The document type.
pub(crate) const TYPE: &str = "mail";
/// Number of different words in texts.
const WORDS: u64 = 20_000;

const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='mail' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents><document type='mail' mode='streaming'/></documents>
  </content>
</services>";

const SCHEMA: &str = "schema mail {
    document mail {
        field text type string {
            indexing: index | summary
            index: enable-bm25
        }
        field date type long { indexing: attribute | summary }
        field embedding type tensor<bfloat16>(x[384]) {
            indexing: attribute
            attribute { distance-metric: prenormalized-angular }
        }
    }
    fieldset default { fields: text }
    document-summary short { summary date {} }
    rank-profile default { first-phase { expression: bm25(text) } }
    rank-profile nearest {
        inputs { query(q) tensor<float>(x[384]) }
        first-phase { expression: closeness(field, embedding) }
    }
}";

/// Files of the application package.
pub(crate) fn files() -> BTreeMap<String, Vec<u8>> {
    files_with(SCHEMA)
}

/// The same files with this number of replicas of every bucket.
pub(crate) fn files_with_replicas(replicas: usize) -> BTreeMap<String, Vec<u8>> {
    let mut files = files();
    let services = SERVICES.replace("<min-redundancy>1<", &format!("<min-redundancy>{replicas}<"));
    files.insert("services.xml".to_owned(), services.into_bytes());
    files
}

fn files_with(schema: &str) -> BTreeMap<String, Vec<u8>> {
    let files = [("services.xml", SERVICES), ("schemas/mail.sd", schema)];
    files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect()
}

/// The application.
pub(crate) fn application() -> Result<Application, Error> {
    Application::from_files(files()).map_err(Error::failed)
}

/// Indexes over the dates of all mails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexesOfMail {
    /// Their number.
    pub count: usize,
    /// True to build them on request.
    pub deferred: bool,
}

/// Name of one of [`IndexesOfMail`].
pub(crate) fn index_name(number: usize) -> String {
    format!("by-date-{number}")
}

/// The application with indexes.
pub(crate) fn indexed(indexes: IndexesOfMail) -> Result<Application, Error> {
    let mut files = files();
    let build = if indexes.deferred { " build='deferred'" } else { "" };
    let each = (0..indexes.count).map(|number| {
        format!("<index name='{}' document='{TYPE}'{build}><key field='date'/></index>", index_name(number))
    });
    let service = format!("<index-service>{}</index-service></content>", each.collect::<String>());
    files.insert("services.xml".to_owned(), SERVICES.replace("</content>", &service).into_bytes());
    Application::from_files(files).map_err(Error::failed)
}

/// An application with this schema of the type [`TYPE`] in place of the usual one.
pub(crate) fn with_schema(schema: &str) -> Result<Application, Error> {
    Application::from_files(files_with(schema)).map_err(Error::failed)
}

/// Its only schema.
pub(crate) fn schema(application: &Application) -> Result<Arc<Schema>, Error> {
    let schema = application.schemas.get(TYPE).cloned();
    schema.ok_or_else(|| Error::failed("the schema of the benchmark is not there"))
}

/// Name of the group with this number.
pub(crate) fn group_name(number: u64) -> String {
    format!("user{number}")
}

/// Id of a document.
pub(crate) fn id(group: u64, name: u64) -> Result<DocumentId, Error> {
    DocumentId::new("bench", TYPE, &DocumentGroup::Name(group_name(group)), &name.to_string())
        .map_err(Error::failed)
}

/// Path of a document under the data port.
pub(crate) fn path(group: u64, name: u64) -> String {
    format!("/document/v1/bench/{TYPE}/group/{}/{name}", group_name(group))
}

/// The word with this number; low numbers are the frequent ones.
pub(crate) fn word(number: u64) -> String {
    // Letters derived from the number itself: three to ten of them, so that few words contain another.
    let mut random = BenchRandom::new(number.wrapping_mul(0x1234_5677));
    let length = 3 + random.below(8);
    (0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// Generator of documents.
pub(crate) struct DocumentMaker {
    random: BenchRandom,
    words: Vec<String>,
    tensor_type: TensorType,
}

impl DocumentMaker {
    /// Creates a generator; its documents are the same on every run.
    pub fn new() -> Result<Self, Error> {
        let tensor_type = TensorType::parse("tensor<bfloat16>(x[384])").map_err(Error::failed)?;
        Ok(DocumentMaker { random: BenchRandom::new(42), words: (0..WORDS).map(word).collect(), tensor_type })
    }

    /// Generates a text of at least this many bytes, with the word frequencies of natural text.
    pub fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 12);
        while text.len() < bytes {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&self.words[self.random.word(WORDS) as usize]);
        }
        text
    }

    /// Seconds since 1970, within 2001 to 2033.
    pub fn date(&mut self) -> i64 {
        1_000_000_000 + self.random.below(1_000_000_000) as i64
    }

    /// A vector of length 1.
    pub fn vector(&mut self) -> Vec<f32> {
        self.random.direction(DIMENSIONS)
    }

    /// A document with a text of this many bytes and a date.
    pub fn mail(&mut self, group: u64, name: u64, text_bytes: usize) -> Result<Document, Error> {
        let fields = vec![
            ("text".into(), DocumentValue::String(self.text(text_bytes))),
            ("date".into(), DocumentValue::Long(self.date())),
        ];
        Ok(Document { id: id(group, name)?, fields })
    }

    /// A document with a vector and a date.
    pub fn embedded(&mut self, group: u64, name: u64) -> Result<Document, Error> {
        let bytes: Vec<u8> =
            self.vector().into_iter().flat_map(|cell| half::bf16::from_f32(cell).to_le_bytes()).collect();
        let cells = TensorCells::from_bytes(self.tensor_type.cell(), &bytes);
        let tensor = Tensor::new(self.tensor_type.clone(), Vec::new(), cells).map_err(Error::failed)?;
        let fields = vec![
            ("date".into(), DocumentValue::Long(self.date())),
            ("embedding".into(), DocumentValue::Tensor(tensor)),
        ];
        Ok(Document { id: id(group, name)?, fields })
    }

    /// Body of a put with a text of this many bytes.
    pub fn mail_json(&mut self, text_bytes: usize) -> Vec<u8> {
        let (text, date) = (self.text(text_bytes), self.date());
        format!("{{\"fields\":{{\"text\":\"{text}\",\"date\":{date}}}}}").into_bytes()
    }

    /// Body of a put with 384 floats, as text.
    pub fn embedded_json(&mut self) -> Vec<u8> {
        let (text, date, vector) = (self.text(60), self.date(), vector_json(&self.vector()));
        format!("{{\"fields\":{{\"text\":\"{text}\",\"date\":{date},\"embedding\":{vector}}}}}").into_bytes()
    }
}

/// A vector as JSON.
pub(crate) fn vector_json(vector: &[f32]) -> String {
    let cells: Vec<String> = vector.iter().map(|cell| format!("{cell:.6}")).collect();
    format!("[{}]", cells.join(","))
}
