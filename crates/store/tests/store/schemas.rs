//! The store against a map of typed values, while its schema changes at random: fields are removed and come
//! back with the same or another type, between writes, seals, merges, splits, moves to another store, drops
//! and restarts.
//!
//! Two properties hold after each step. A document has every value that was written to it and not replaced,
//! independent of the current schema. A view shows only those values whose type is the current type of the
//! field.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_column::{Column, ColumnForm, ColumnKey, TokensBuilder, value};
use millrace_document::{
    DataType, Document, DocumentField, DocumentValue, EncodedDocument, StructType, wire,
};
use millrace_store::{
    Store, StoreChange, StoreLayout, StoreModification, StoreOptions, StoreTuning, StoreVisit, ViewScope,
    VisitedVersion,
};
use millrace_tensor::{TensorBuilder, TensorType};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::{id, options, remove, values_of, write};
use crate::model::{GROUPS, TYPES, any_id, group, group_of, type_of};
use crate::transfer::{bytes, import};

const FIELDS: [&str; 3] = ["a", "b", "title"];
/// Types that a field can have, and that its values are of.
const KINDS: usize = 20;

fn tensor_type(spec: &str) -> TensorType {
    TensorType::parse(spec).expect("a type of the test")
}

fn person(members: &[(&str, DataType)]) -> DataType {
    let members = members.iter();
    let fields =
        members.map(|(name, of)| DocumentField { name: Arc::from(*name), data_type: of.clone() }).collect();
    DataType::Struct(Arc::new(StructType { name: "person".to_owned(), fields }))
}

fn data_type(kind: usize) -> DataType {
    let tensor = |spec: &str| DataType::Tensor(tensor_type(spec));
    match kind {
        0 => DataType::Int,
        1 => DataType::Long,
        2 => DataType::Double,
        3 => DataType::String,
        4 => DataType::Raw,
        5 => DataType::Bool,
        6 => DataType::Byte,
        7 => tensor("tensor<float>(x[2])"),
        8 => tensor("tensor<float>(x[3])"),
        9 => tensor("tensor<float>(y[3])"),
        10 => tensor("tensor<int8>(x[1])"),
        11 => tensor("tensor<float>(x{})"),
        12 => DataType::Array(Box::new(DataType::Int)),
        13 => DataType::Array(Box::new(DataType::String)),
        14 => DataType::WeightedSet {
            element: Box::new(DataType::String),
            create_if_nonexistent: false,
            remove_if_zero: false,
        },
        15 => DataType::Map(Box::new(DataType::String), Box::new(DataType::Int)),
        16 => DataType::Position,
        17 => person(&[("name", DataType::String)]),
        18 => person(&[("name", DataType::String), ("age", DataType::Int)]),
        _ => person(&[("name", DataType::String), ("age", DataType::Long)]),
    }
}

/// A value of a kind.
fn make(kind: usize, seed: u8) -> DocumentValue {
    let text = format!("word{seed} and others");
    let tensor = |spec: &str| DocumentValue::Tensor(TensorBuilder::new(&tensor_type(spec)).finish());
    let member = |name: &str, value: DocumentValue| (Arc::from(name), value);
    match kind {
        0 => DocumentValue::Int(seed.into()),
        1 => DocumentValue::Long(seed.into()),
        2 => DocumentValue::Double(seed.into()),
        3 => DocumentValue::String(text),
        // It looks like a value of another type.
        4 => DocumentValue::Raw(wire::encode_value(&DocumentValue::Array(vec![DocumentValue::Int(
            seed.into(),
        )]))),
        5 => DocumentValue::Bool(seed.is_multiple_of(2)),
        6 => DocumentValue::Byte(seed as i8),
        7 => dense("tensor<float>(x[2])", seed),
        8 => dense("tensor<float>(x[3])", seed),
        9 => dense("tensor<float>(y[3])", seed),
        10 => dense("tensor<int8>(x[1])", seed % 100),
        11 => tensor("tensor<float>(x{})"),
        12 => DocumentValue::Array(vec![DocumentValue::Int(seed.into()), DocumentValue::Int(7)]),
        13 => DocumentValue::Array(vec![DocumentValue::String(text)]),
        14 => DocumentValue::WeightedSet(vec![(DocumentValue::String(text), seed.into())]),
        15 => DocumentValue::Map(vec![(DocumentValue::String(text), DocumentValue::Int(seed.into()))]),
        16 => DocumentValue::Position { latitude: seed.into(), longitude: 7 },
        17 => DocumentValue::Struct(vec![member("name", DocumentValue::String(text))]),
        18 => DocumentValue::Struct(vec![
            member("name", DocumentValue::String(text)),
            member("age", DocumentValue::Int(seed.into())),
        ]),
        _ => DocumentValue::Struct(vec![
            member("name", DocumentValue::String(text)),
            member("age", DocumentValue::Long(seed.into())),
        ]),
    }
}

fn dense(spec: &str, seed: u8) -> DocumentValue {
    let of = tensor_type(spec);
    let mut cells = millrace_tensor::TensorCells::with_capacity(of.cell(), of.dense_size());
    (0..of.dense_size()).for_each(|at| cells.push(f64::from(seed) + at as f64));
    DocumentValue::Tensor(
        millrace_tensor::Tensor::new(of, Vec::new(), cells).expect("as many cells as the type has"),
    )
}

/// Expected view by a field of kind `declared` of a value of kind `of`.
fn shown(declared: usize, of: usize, value: &DocumentValue) -> Option<DocumentValue> {
    match value {
        _ if declared == of => Some(value.clone()),
        // A member that both have is of the same type only where both kinds are one.
        DocumentValue::Struct(members) if declared >= 17 => {
            Some(DocumentValue::Struct(members[..1].to_vec()))
        }
        _ => None,
    }
}

/// The kinds of the fields that are declared.
type Schema = BTreeMap<&'static str, usize>;

/// The schema of a test as a layout: the same for all types, of which one may be unknown, as to a node that
/// has not heard of it yet.
struct SchemaLayout {
    schema: Schema,
    unknown: Option<usize>,
}

impl SchemaLayout {
    fn knows(&self, document_type: &str) -> bool {
        self.unknown.is_none_or(|unknown| TYPES[unknown] != document_type)
    }
}

impl StoreLayout for SchemaLayout {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        if !self.knows(document_type) {
            return None;
        }
        let mut keys: Vec<ColumnKey> = self.schema.keys().map(|field| ColumnKey::value(field)).collect();
        keys.extend(
            self.schema.iter().filter(|(_, kind)| **kind == 3).map(|(field, _)| ColumnKey::tokens(field)),
        );
        keys.sort_unstable();
        Some(keys)
    }

    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let data_type = self.data_type(document_type, &key.field).unwrap_or(DataType::String);
        let values = values_of(&data_type, key, documents)?;
        Ok(match key.form {
            ColumnForm::Tokens => self.derive(document_type, key, &values).unwrap_or(values),
            _ => values,
        })
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, values: &Column) -> Option<Column> {
        let data_type = self.data_type(document_type, &key.field)?;
        let mut tokens = TokensBuilder::new();
        for row in 0..values.len() {
            if let Some(DocumentValue::String(text)) = value(values, &data_type, row) {
                text.split(' ').for_each(|word| tokens.word(word.as_bytes()));
            }
            tokens.end_document();
        }
        Some(Column::Tokens(tokens.finish()))
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        let kind = self.schema.get(field).filter(|_| self.knows(document_type));
        kind.map(|kind| data_type(*kind))
    }
}

#[derive(Debug, Clone)]
enum SchemaStep {
    /// A document with values of the types that are declared.
    Put(String, u8),
    /// A document with a value of any type, as a node has it that does not know the application of today.
    PutOther(String, usize, usize, u8),
    /// One field of a document is written; what else it has stays.
    Update(String, usize, u8),
    Remove(String),
    Fill(usize, u16, u8),
    Declare(usize, Option<usize>),
    /// This type is not known from now on, or all are.
    Forget(Option<usize>),
    /// All fields that are declared and have no value get one, as indexing statements make them.
    Reindex(usize),
    DropGroup(usize),
    DropType(usize),
    Seal,
    Maintain,
    Move,
    Reopen,
}

fn step() -> impl Strategy<Value = SchemaStep> {
    let field = || 0..FIELDS.len();
    Union::new_weighted(vec![
        (16, (any_id(), any::<u8>()).prop_map(|(id, seed)| SchemaStep::Put(id, seed)).boxed()),
        (
            3,
            (any_id(), field(), 0..KINDS, any::<u8>())
                .prop_map(|(id, field, kind, seed)| SchemaStep::PutOther(id, field, kind, seed))
                .boxed(),
        ),
        (
            5,
            (any_id(), field(), any::<u8>())
                .prop_map(|(id, field, seed)| SchemaStep::Update(id, field, seed))
                .boxed(),
        ),
        (2, any_id().prop_map(SchemaStep::Remove).boxed()),
        (
            2,
            (0..GROUPS.len(), 1..90u16, any::<u8>())
                .prop_map(|(group, count, seed)| SchemaStep::Fill(group, count, seed))
                .boxed(),
        ),
        (
            8,
            (field(), proptest::option::weighted(0.8, 0..KINDS))
                .prop_map(|(field, kind)| SchemaStep::Declare(field, kind))
                .boxed(),
        ),
        (2, proptest::option::of(0..TYPES.len()).prop_map(SchemaStep::Forget).boxed()),
        (1, (0..TYPES.len()).prop_map(SchemaStep::Reindex).boxed()),
        (1, (0..GROUPS.len()).prop_map(SchemaStep::DropGroup).boxed()),
        (1, (0..TYPES.len()).prop_map(SchemaStep::DropType).boxed()),
        (8, Just(SchemaStep::Seal).boxed()),
        (4, Just(SchemaStep::Maintain).boxed()),
        (1, Just(SchemaStep::Move).boxed()),
        (1, Just(SchemaStep::Reopen).boxed()),
    ])
}

/// The values of a document, with the kind that each was written as.
type Values = BTreeMap<&'static str, (usize, DocumentValue)>;

/// The store, what it should hold, and where it is.
struct SchemaModel {
    directory: tempfile::TempDir,
    /// `None` only while it is opened again.
    store: Option<Store>,
    schema: Schema,
    unknown: Option<usize>,
    model: BTreeMap<String, Values>,
}

/// Small enough to split, and to merge after a few seals.
fn small(directory: &std::path::Path) -> StoreOptions {
    let tuning = StoreTuning { split_documents: 40, split_bytes: 1 << 20, ..StoreTuning::default() };
    StoreOptions { tuning, ..options(directory) }
}

impl SchemaModel {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let schema = Schema::from([("a", 0), ("b", 7), ("title", 3)]);
        let store =
            Some(Self::open(directory.path(), SchemaLayout { schema: schema.clone(), unknown: None }));
        SchemaModel { directory, store, schema, unknown: None, model: BTreeMap::new() }
    }

    fn open(directory: &std::path::Path, layout: SchemaLayout) -> Store {
        Store::open(small(directory), Arc::new(layout)).expect("the store opens")
    }

    fn layout(&self) -> SchemaLayout {
        SchemaLayout { schema: self.schema.clone(), unknown: self.unknown }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn values(&self, seed: u8) -> Values {
        let of = |(at, (field, kind)): (usize, (&&'static str, &usize))| {
            // Not every document has every field.
            (seed as usize % (at + 2) != 1).then(|| (*field, (*kind, make(*kind, seed))))
        };
        self.schema.iter().enumerate().filter_map(of).collect()
    }

    fn put(&mut self, name: &str, values: Values) {
        write(self.store(), &id(name), StoreChange::Put(document(name, &values))).expect("acknowledged");
        self.model.insert(name.to_owned(), values);
    }

    fn take(&mut self, step: SchemaStep) {
        match step {
            SchemaStep::Put(name, seed) => self.put(&name, self.values(seed)),
            SchemaStep::PutOther(name, field, kind, seed) => {
                self.put(&name, Values::from([(FIELDS[field], (kind, make(kind, seed)))]));
            }
            SchemaStep::Update(name, field, seed) => self.update(&name, FIELDS[field], seed),
            SchemaStep::Remove(name) => {
                remove(self.store(), &name);
                self.model.remove(&name);
            }
            SchemaStep::Fill(group, count, seed) => {
                for number in 0..count {
                    let name = format!("id:n:mail:{}:fill{number:04}", GROUPS[group]);
                    self.put(&name, self.values(seed.wrapping_add(number as u8)));
                }
            }
            SchemaStep::Declare(field, kind) => {
                match kind {
                    Some(kind) => self.schema.insert(FIELDS[field], kind),
                    None => self.schema.remove(FIELDS[field]),
                };
                self.store().set_layout(Arc::new(self.layout()));
            }
            SchemaStep::Forget(unknown) => {
                self.unknown = unknown;
                self.store().set_layout(Arc::new(self.layout()));
            }
            SchemaStep::Reindex(of) => self.reindex(TYPES[of]),
            SchemaStep::DropGroup(name) => {
                self.store().drop_group(None, &group(GROUPS[name])).expect("dropped");
                self.model.retain(|id, _| group_of(id) != GROUPS[name]);
            }
            SchemaStep::DropType(of) => {
                self.store().drop_type(TYPES[of]).expect("dropped");
                self.model.retain(|id, _| type_of(id) != TYPES[of]);
            }
            SchemaStep::Seal => self.store().seal().expect("sealed"),
            SchemaStep::Maintain => self.store().maintain().expect("maintained"),
            SchemaStep::Move => self.relocate(),
            SchemaStep::Reopen => {
                self.store.take().expect("it is open").close();
                self.store = Some(Self::open(self.directory.path(), self.layout()));
            }
        }
    }

    fn update(&mut self, name: &str, field: &'static str, seed: u8) {
        let Some(kind) = self.schema.get(field).copied() else { return };
        let value = make(kind, seed);
        if let Some(values) = self.model.get_mut(name) {
            values.insert(field, (kind, value.clone()));
        }
        let modify = StoreChange::Modify(Box::new(move |stored| {
            let Some((mut document, _)) = stored else { return Ok(StoreModification::Nothing) };
            document.set(&Arc::from(field), value);
            Ok(StoreModification::Put(document))
        }));
        write(self.store(), &id(name), modify).expect("acknowledged");
    }

    fn reindex(&mut self, document_type: &str) {
        for (_, values) in self.model.iter_mut().filter(|(id, _)| type_of(id) == document_type) {
            for (field, kind) in &self.schema {
                if values.get(field).is_none_or(|(of, value)| shown(*kind, *of, value).is_none()) {
                    values.insert(field, (*kind, make(*kind, 42)));
                }
            }
        }
        let schema = self.schema.clone();
        let mut visit = StoreVisit { wanted: 31, ..StoreVisit::all(&[document_type]) };
        loop {
            let decide = |mut document: Document| {
                for (field, kind) in &schema {
                    let hidden = document.get(field).is_none_or(|stored| {
                        data_type(*kind).show_only(&mut stored.clone())
                            == millrace_document::ValueVisibility::Hidden
                    });
                    if hidden {
                        document.set(&Arc::from(*field), make(*kind, 42));
                    }
                }
                Ok(StoreModification::Put(document))
            };
            let swept = self.store().sweep(&visit, &decide).expect("swept");
            match swept.continuation {
                Some(continuation) => visit.continuation = Some(continuation),
                None => break,
            }
        }
    }

    /// Goes on with another store, which has got all buckets as files.
    fn relocate(&mut self) {
        let directory = tempfile::tempdir().expect("a directory");
        let target = Self::open(directory.path(), self.layout());
        let buckets: Vec<BucketId> = (0..8).map(|bits| BucketId::new(3, bits)).collect();
        for parcel in self.store().export(&buckets).expect("exported") {
            import(&target, &parcel, &bytes(&parcel)).expect("imported");
        }
        self.store.replace(target).expect("it is open").close();
        self.directory = directory;
    }

    fn check(&self) {
        for (name, values) in &self.model {
            let (found, _) =
                self.store().get(&id(name)).expect("read").unwrap_or_else(|| panic!("{name} is there"));
            assert_eq!(fields(&found), plain(values), "{name} under {:?}", self.schema);
        }
        let visit = StoreVisit { wanted: 57, ..StoreVisit::all(&TYPES) };
        let expected: BTreeMap<String, BTreeMap<String, DocumentValue>> =
            self.model.iter().map(|(name, values)| (name.clone(), plain(values))).collect();
        assert_eq!(visited(self.store(), visit), expected, "visited under {:?}", self.schema);
        for document_type in TYPES.into_iter().filter(|name| self.layout().knows(name)) {
            self.check_view(document_type, ViewScope::All, |_| true);
            for name in GROUPS {
                let scope = ViewScope::Groups(vec![group(name)]);
                self.check_view(document_type, scope, |id| group_of(id) == name);
            }
        }
    }

    fn check_view(&self, document_type: &str, scope: ViewScope, is_in: impl Fn(&str) -> bool) {
        let view = self.store().view(document_type, &scope).expect("a view");
        let chunks = view.chunks();
        let column = |key: ColumnKey| view.columns(&key, 0..chunks.len()).expect("read");
        let ids = column(ColumnKey::id());
        let mut found: BTreeMap<String, BTreeMap<&str, DocumentValue>> = BTreeMap::new();
        for (field, kind) in &self.schema {
            let data_type = data_type(*kind);
            let columns = column(ColumnKey::value(field));
            let words = (*kind == 3).then(|| column(ColumnKey::tokens(field)));
            for (chunk, of) in chunks.iter().enumerate() {
                let Some(Column::Bytes(ids)) = &ids[chunk] else { panic!("a chunk has ids") };
                for row in 0..of.documents {
                    if of.live.as_ref().is_some_and(|live| live[row / 64] >> (row % 64) & 1 == 0) {
                        continue;
                    }
                    let id = String::from_utf8(ids.get(row).expect("an id").to_vec()).expect("text");
                    let shown = columns[chunk].as_ref().and_then(|column| value(column, &data_type, row));
                    if let (Some(words), Some(DocumentValue::String(text))) = (&words, &shown) {
                        assert_eq!(words_of(words[chunk].as_ref(), row), *text, "{id}");
                    }
                    let values = found.entry(id).or_default();
                    shown.map(|value| values.insert(field, value));
                }
            }
        }
        let expected: BTreeMap<String, BTreeMap<&str, DocumentValue>> = self
            .model
            .iter()
            .filter(|(name, _)| type_of(name) == document_type && is_in(name) && !self.schema.is_empty())
            .map(|(name, values)| (name.clone(), self.shown(values)))
            .collect();
        assert_eq!(found, expected, "{document_type} {scope:?} under {:?}", self.schema);
    }

    fn shown(&self, values: &Values) -> BTreeMap<&'static str, DocumentValue> {
        let of = |(field, kind): (&&'static str, &usize)| {
            let (of, value) = values.get(field)?;
            Some((*field, shown(*kind, *of, value)?))
        };
        self.schema.iter().filter_map(of).collect()
    }
}

fn words_of(column: Option<&Column>, row: usize) -> String {
    let Some(Column::Tokens(tokens)) = column else { panic!("a text has words") };
    let words: Vec<&[u8]> = tokens.document(row).iter().map(|number| tokens.word(number)).collect();
    String::from_utf8(words.join(&b' ')).expect("words are text")
}

fn document(name: &str, values: &Values) -> Document {
    let fields = values.iter().map(|(field, (_, value))| (Arc::from(*field), value.clone())).collect();
    Document { id: id(name), fields }
}

fn plain(values: &Values) -> BTreeMap<String, DocumentValue> {
    values.iter().map(|(field, (_, value))| ((*field).to_owned(), value.clone())).collect()
}

fn fields(document: &Document) -> BTreeMap<String, DocumentValue> {
    let fields: BTreeMap<String, DocumentValue> =
        document.fields.iter().map(|(field, value)| (field.to_string(), value.clone())).collect();
    assert_eq!(fields.len(), document.fields.len(), "each field once");
    fields
}

fn visited(store: &Store, mut visit: StoreVisit) -> BTreeMap<String, BTreeMap<String, DocumentValue>> {
    let mut all = BTreeMap::new();
    loop {
        let page = store.visit(&visit).expect("read");
        for found in page.visited {
            let VisitedVersion::Document(document, _) = found else { panic!("no removals were asked for") };
            all.insert(document.id.as_str().to_owned(), fields(&document));
        }
        match page.continuation {
            Some(continuation) => visit.continuation = Some(continuation),
            None => return all,
        }
    }
}

fn run(steps: Vec<SchemaStep>) {
    let mut beside = SchemaModel::new();
    let end = [SchemaStep::Seal, SchemaStep::Maintain, SchemaStep::Reopen];
    let mut steps = steps.into_iter().chain(end).peekable();
    while let Some(step) = steps.next() {
        // Of puts one after another the last is enough.
        let is_one_of_many =
            matches!((&step, steps.peek()), (SchemaStep::Put(..), Some(SchemaStep::Put(..))));
        beside.take(step);
        if !is_one_of_many {
            beside.check();
        }
    }
    beside.store.take().expect("it is open").close();
    let report = millrace_store::check(beside.directory.path()).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Six, unless the environment says otherwise: all is compared after each step.
fn cases() -> u32 {
    std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn values_outlive_their_schema(steps in proptest::collection::vec(step(), 1..60)) {
        run(steps);
    }
}

/// Documents of two types of field `a`, the older ones last, so that a merge comes across them in that order.
fn two_types(first: usize, second: usize) -> Vec<SchemaStep> {
    let put = |range: std::ops::Range<u8>| {
        range
            .map(|number| SchemaStep::Put(format!("id:n:mail:g=ann:{number:03}"), number))
            .collect::<Vec<_>>()
    };
    [
        vec![SchemaStep::Declare(0, Some(first))],
        put(200..208),
        vec![SchemaStep::Seal],
        put(220..228),
        vec![SchemaStep::Seal, SchemaStep::Declare(0, None), SchemaStep::Declare(0, Some(second))],
        put(100..108),
        vec![SchemaStep::Seal],
        put(120..128),
        vec![
            SchemaStep::Seal,
            SchemaStep::Maintain,
            SchemaStep::Update("id:n:mail:g=ann:200".to_owned(), 1, 7),
            SchemaStep::Seal,
        ],
        vec![SchemaStep::Declare(0, Some(first)), SchemaStep::Maintain, SchemaStep::Declare(0, Some(second))],
    ]
    .concat()
}

#[test]
fn words_are_taken_of_a_text_that_was_stored_under_another_type() {
    let name = "id:n:note::0".to_owned();
    let (text, other) = (SchemaStep::Declare(2, Some(3)), SchemaStep::Declare(2, Some(11)));
    run(vec![SchemaStep::Put(name, 6), other, SchemaStep::Seal, SchemaStep::DropGroup(1), text]);
}

#[test]
fn a_field_that_comes_back_with_another_type_keeps_what_it_had() {
    // Types of one layout, of one kind of cells, and of neither.
    let pairs = [(0, 1), (3, 12), (12, 3), (3, 4), (8, 9), (7, 8), (13, 14), (18, 19), (6, 10), (15, 17)];
    for (first, second) in pairs {
        run(two_types(first, second));
    }
}
