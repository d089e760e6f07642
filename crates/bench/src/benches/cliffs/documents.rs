//! Documents with fields of every kind, and the same values as plain columns.

use millrace_document::{Document, DocumentValue};
use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::Error;
use crate::application::{self, word};
use crate::random::BenchRandom;

/// Cells of a vector.
pub(super) const CELLS: usize = 96;
/// Vectors of the field with several.
pub(super) const CHUNKS: usize = 4;
/// Cells of a mapped tensor.
pub(super) const TOPICS: usize = 8;
/// Different values of a text, of a tag, and of a number.
pub(super) const VALUES: u64 = 1_000;
/// Elements of a collection.
const ELEMENTS: usize = 5;
/// Words of a text.
const WORDS: usize = 150;

/// Distance metrics, each with a field `v_METRIC` of its own; `hamming` is over `int8` cells.
pub(super) const METRICS: [&str; 5] =
    ["angular", "prenormalized_angular", "euclidean", "dotproduct", "hamming"];

pub(super) const SCHEMA: &str = "schema mail {
    document mail {
        struct person {
            field name type string {}
            field age type int {}
        }
        field date type long { indexing: attribute | summary }
        field number type long { indexing: attribute }
        field price type double { indexing: attribute }
        field label type string { indexing: attribute }
        field body type string { indexing: index\n index: enable-bm25\n stemming: none }
        field tags type array<string> { indexing: attribute }
        field marks type array<int> { indexing: attribute }
        field weights type weightedset<string> { indexing: attribute }
        field props type map<string, int> {
            struct-field key { indexing: attribute }
            struct-field value { indexing: attribute }
        }
        field people type array<person> {
            struct-field name { indexing: attribute }
            struct-field age { indexing: attribute }
        }
        field spot type position { indexing: attribute }
        field topics type tensor<float>(t{}) { indexing: attribute }
        field v_angular type tensor<bfloat16>(x[96]) { indexing: attribute\n attribute { distance-metric: angular } }
        field v_prenormalized_angular type tensor<bfloat16>(x[96]) {
            indexing: attribute
            attribute { distance-metric: prenormalized-angular }
        }
        field v_euclidean type tensor<float>(x[96]) { indexing: attribute\n attribute { distance-metric: euclidean } }
        field v_dotproduct type tensor<float>(x[96]) { indexing: attribute\n attribute { distance-metric: dotproduct } }
        field v_hamming type tensor<int8>(x[96]) { indexing: attribute\n attribute { distance-metric: hamming } }
        field chunks type tensor<bfloat16>(c{},x[96]) {
            indexing: attribute
            attribute { distance-metric: prenormalized-angular }
        }
    }
    fieldset default { fields: body }
    document-summary short { summary date {} }
    rank-profile unranked { first-phase { expression: 1 } }
    rank-profile sum { first-phase { expression: attribute(number) * 0.5 + attribute(price) } }
    rank-profile topics {
        inputs { query(t) tensor<float>(t{}) }
        first-phase { expression: sum(query(t) * attribute(topics)) }
    }
    rank-profile best_chunk {
        inputs { query(q) tensor<float>(x[96]) }
        first-phase { expression: reduce(sum(query(q) * attribute(chunks), x), max, c) }
    }
    rank-profile late_mean {
        inputs { query(l) tensor<float>(l{},x[96]) }
        first-phase { expression: sum(reduce(sum(query(l) * attribute(chunks), x), avg, c), l) }
    }
    rank-profile late_distance {
        inputs { query(l) tensor<float>(l{},x[96]) }
        first-phase { expression: sum(reduce(euclidean_distance(query(l), attribute(chunks), x), min, c), l) }
    }
    rank-profile top_topics { first-phase { expression: sum(top(3, attribute(topics))) } }
    rank-profile struct_tensor {
        inputs { query(s) tensor(name{}) }
        first-phase { expression: sum(query(s) * tensorFromStructs(attribute(people), name, age, double)) }
    }
    rank-profile first_mark { first-phase { expression: attribute(marks, 0) } }
    rank-profile count { first-phase { expression: attribute(tags).count } }
    rank-profile weight { first-phase { expression: attribute(weights, value0007).weight } }
    rank-profile marks_product { first-phase { expression: dotProduct(marks, v) } }
    rank-profile set_tensor {
        inputs { query(s) tensor(t{}) }
        first-phase { expression: sum(query(s) * tensorFromWeightedSet(attribute(weights), t)) }
    }
    rank-profile away { first-phase { expression: -distance(spot).km } }
    rank-profile label_hash { first-phase { expression: attribute(label) } }
    rank-profile set { first-phase { expression: rawScore(weights) } }
    rank-profile words { first-phase { expression: bm25(body) } }
    rank-profile nearest {
        inputs {
            query(q) tensor<float>(x[96])
            query(b) tensor<int8>(x[96])
        }
        first-phase { expression: 1 }
    }
}";

/// Texts one after another, with the end of each.
#[derive(Default)]
pub(super) struct TextColumn {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl TextColumn {
    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(u32::try_from(self.bytes.len()).expect("the columns of a benchmark have megabytes"));
    }

    /// The text with this number.
    pub fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    /// All texts.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| self.get(at))
    }
}

/// The values of all documents, field by field. A collection has five elements in every document, one after
/// another.
pub(super) struct PlainColumns {
    pub numbers: Vec<i64>,
    pub prices: Vec<f64>,
    pub labels: TextColumn,
    pub bodies: TextColumn,
    /// Texts of arrays, sets, keys of maps, and names of people.
    pub tags: TextColumn,
    /// Numbers of arrays, weights of sets, values of maps, and ages of people.
    pub marks: Vec<i32>,
    /// Latitude and longitude in millionths of a degree.
    pub spots: Vec<(i32, i32)>,
    /// Labels and cells of mapped tensors, eight in every document.
    pub topics: Vec<(u32, f32)>,
    /// Vectors of four chunks of every document, as floats.
    pub chunks: Vec<f32>,
}

impl PlainColumns {
    /// Generates the values of this number of documents; they are the same on every run.
    pub fn new(documents: u64) -> Self {
        let mut random = BenchRandom::new(42);
        let mut plain = PlainColumns {
            numbers: Vec::new(),
            prices: Vec::new(),
            labels: TextColumn::default(),
            bodies: TextColumn::default(),
            tags: TextColumn::default(),
            marks: Vec::new(),
            spots: Vec::new(),
            topics: Vec::new(),
            chunks: Vec::new(),
        };
        let words: Vec<String> = (0..20_000).map(word).collect();
        for _ in 0..documents {
            plain.numbers.push(random.below(VALUES) as i64);
            plain.prices.push(random.share());
            plain.labels.push(&value_name(random.below(VALUES)));
            let body: Vec<&str> =
                (0..WORDS).map(|_| words[random.word(words.len() as u64) as usize].as_str()).collect();
            plain.bodies.push(&body.join(" "));
            // A set has each value once.
            let first = random.below(VALUES);
            for element in 0..ELEMENTS as u64 {
                plain.tags.push(&value_name((first + element * 7) % VALUES));
                plain.marks.push(random.below(VALUES) as i32);
            }
            let degrees = |share: f64, width: f64| ((share - 0.5) * width * 1e6) as i32;
            plain.spots.push((degrees(random.share(), 120.0), degrees(random.share(), 340.0)));
            let first = random.below(VALUES) as u32;
            for topic in 0..TOPICS as u32 {
                plain.topics.push(((first + topic * 13) % VALUES as u32, random.share() as f32));
            }
            (0..CHUNKS).for_each(|_| plain.chunks.extend(random.direction(CELLS)));
        }
        plain
    }

    /// Elements of a collection of a document, as numbers in the columns.
    pub fn elements(at: usize) -> std::ops::Range<usize> {
        at * ELEMENTS..(at + 1) * ELEMENTS
    }

    /// The document with this number.
    pub fn document(&self, name: u64) -> Result<Document, Error> {
        let at = name as usize;
        let text = |bytes: &[u8]| DocumentValue::String(String::from_utf8_lossy(bytes).into_owned());
        let elements = || PlainColumns::elements(at).map(|at| (text(self.tags.get(at)), self.marks[at]));
        let person = |(name, age)| {
            DocumentValue::Struct(vec![("name".into(), name), ("age".into(), DocumentValue::Int(age))])
        };
        let (latitude, longitude) = self.spots[at];
        let mut fields = vec![
            ("date".into(), DocumentValue::Long(name as i64)),
            ("number".into(), DocumentValue::Long(self.numbers[at])),
            ("price".into(), DocumentValue::Double(self.prices[at])),
            ("label".into(), text(self.labels.get(at))),
            ("body".into(), text(self.bodies.get(at))),
            ("tags".into(), DocumentValue::Array(elements().map(|(tag, _)| tag).collect())),
            (
                "marks".into(),
                DocumentValue::Array(elements().map(|(_, mark)| DocumentValue::Int(mark)).collect()),
            ),
            ("weights".into(), DocumentValue::WeightedSet(elements().collect())),
            (
                "props".into(),
                DocumentValue::Map(elements().map(|(key, mark)| (key, DocumentValue::Int(mark))).collect()),
            ),
            ("people".into(), DocumentValue::Array(elements().map(person).collect())),
            ("spot".into(), DocumentValue::Position { latitude, longitude }),
            ("topics".into(), self.topics_tensor(at)?),
            ("chunks".into(), tensor("tensor<bfloat16>(c{},x[96])", CHUNKS, self.chunks_of(at), 1.0)?),
        ];
        let vector = &self.chunks_of(at)[..CELLS];
        for metric in METRICS {
            let (cell, scale) = match metric {
                "hamming" => ("int8", 100.0),
                "euclidean" | "dotproduct" => ("float", 1.0),
                _ => ("bfloat16", 1.0),
            };
            let value = tensor(&format!("tensor<{cell}>(x[96])"), 0, vector, scale)?;
            fields.push((format!("v_{metric}").into(), value));
        }
        Ok(Document { id: application::id(0, name)?, fields })
    }

    /// The vectors of a document.
    pub fn chunks_of(&self, at: usize) -> &[f32] {
        &self.chunks[at * CHUNKS * CELLS..(at + 1) * CHUNKS * CELLS]
    }

    fn topics_tensor(&self, at: usize) -> Result<DocumentValue, Error> {
        let topics = &self.topics[at * TOPICS..(at + 1) * TOPICS];
        let tensor_type = TensorType::parse("tensor<float>(t{})").map_err(Error::failed)?;
        let mut cells = TensorCells::with_capacity(tensor_type.cell(), TOPICS);
        topics.iter().for_each(|(_, cell)| cells.push(f64::from(*cell)));
        let labels = topics.iter().map(|(label, _)| topic_name(*label)).collect();
        Tensor::new(tensor_type, labels, cells).map(DocumentValue::Tensor).map_err(Error::failed)
    }
}

/// A tensor with these cells; `labels` is the number of labels of its mapped dimension, 0 without one.
fn tensor(type_text: &str, labels: usize, numbers: &[f32], scale: f64) -> Result<DocumentValue, Error> {
    let tensor_type = TensorType::parse(type_text).map_err(Error::failed)?;
    let mut cells = TensorCells::with_capacity(tensor_type.cell(), numbers.len());
    numbers.iter().for_each(|number| cells.push(f64::from(*number) * scale));
    let labels = (0..labels).map(|label| label.to_string()).collect();
    Tensor::new(tensor_type, labels, cells).map(DocumentValue::Tensor).map_err(Error::failed)
}

/// Text of a value of labels and tags.
pub(super) fn value_name(value: u64) -> String {
    format!("value{value:04}")
}

/// Label of a mapped tensor's cell.
pub(super) fn topic_name(topic: u32) -> String {
    format!("topic{topic}")
}
