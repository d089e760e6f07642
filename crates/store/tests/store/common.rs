//! A layout of a small schema, and a store that is driven by words.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;

use millrace_column::{Column, ColumnForm, ColumnKey, Compression, TokensBuilder, ValueBuilder, View, value};
use millrace_document::{DataType, Document, DocumentId, DocumentValue, EncodedDocument, Timestamp};
use millrace_store::{
    CommittedWrite, DocumentWrite, Error, Store, StoreChange, StoreLayout, StoreModification, StoreOptions,
    StoreVisit, VisitedVersion, WriteDurability, WriterId,
};

/// Every type except `unknown` has a text with words, and a number.
pub struct TestLayout;

impl StoreLayout for TestLayout {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        (document_type != "unknown")
            .then(|| vec![ColumnKey::value("number"), ColumnKey::value("text"), ColumnKey::tokens("text")])
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

    fn derive(&self, _: &str, _: &ColumnKey, value: &Column) -> Option<Column> {
        let Column::Bytes(texts) = value else { return None };
        let mut tokens = TokensBuilder::new();
        for index in 0..texts.len() {
            let text = texts.get(index).unwrap_or_default();
            text.split(|byte| *byte == b' ')
                .filter(|word| !word.is_empty())
                .for_each(|word| tokens.word(word));
            tokens.end_document();
        }
        Some(Column::Tokens(tokens.finish()))
    }

    fn compression(&self, _: &str, key: &ColumnKey) -> Compression {
        match (key.form, &*key.field) {
            (ColumnForm::Tokens, _) => Compression::Whole,
            (ColumnForm::Value, "text") => Compression::Blocks,
            _ => Compression::Small,
        }
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        match field {
            _ if document_type == "unknown" => None,
            "text" => Some(DataType::String),
            "number" => Some(DataType::Long),
            _ => None,
        }
    }
}

/// The value column of a field.
pub fn values_of(
    data_type: &DataType,
    key: &ColumnKey,
    documents: &[EncodedDocument<'_>],
) -> Result<Column, millrace_document::Error> {
    let mut values = ValueBuilder::new(data_type);
    documents.iter().try_for_each(|document| values.push_encoded(document.get(&key.field)))?;
    Ok(values.finish())
}

/// Options under which everything happens early, and nothing by itself.
pub fn options(directory: &std::path::Path) -> StoreOptions {
    StoreOptions {
        cache_bytes: 8 << 20,
        seal_idle: std::time::Duration::from_secs(3600),
        disk_reserve: 0,
        maintenance: false,
        columns_ahead: false,
        ..StoreOptions::new(directory)
    }
}

/// Polls until `holds` is true, for at most two minutes.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn open(options: StoreOptions) -> Store {
    Store::open(options, Arc::new(TestLayout)).expect("the store opens")
}

pub fn id(text: &str) -> DocumentId {
    DocumentId::parse(text).expect("the test's id is one")
}

pub fn document(id_text: &str, text: &str, number: i64) -> Document {
    Document {
        id: id(id_text),
        fields: vec![
            ("text".into(), DocumentValue::String(text.to_owned())),
            ("number".into(), DocumentValue::Long(number)),
        ],
    }
}

/// Writes and waits for the answer.
pub fn write(store: &Store, id: &DocumentId, change: StoreChange) -> Result<CommittedWrite, Error> {
    let (sender, answer) = mpsc::channel();
    store.write(DocumentWrite { id: id.clone(), change }, move |outcome| {
        let _ = sender.send(outcome);
    });
    answer.recv().expect("every write is answered")
}

pub fn put(store: &Store, id_text: &str, text: &str, number: i64) -> CommittedWrite {
    write(store, &id(id_text), StoreChange::Put(document(id_text, text, number)))
        .expect("the put is acknowledged")
}

pub fn remove(store: &Store, id_text: &str) -> CommittedWrite {
    write(store, &id(id_text), StoreChange::Remove).expect("the remove is acknowledged")
}

/// A modification: the number that the document has before, and its time; and the outcome.
pub type ModifiedVersion = (Option<(i64, Timestamp)>, CommittedWrite);

/// Modifies documents in one batch: each gets this number, or is removed.
pub fn modify_all(store: &Store, changes: &[(String, Option<i64>)]) -> Vec<ModifiedVersion> {
    let (sender, seen) = mpsc::channel();
    let modify = |(index, (id_text, wanted)): (usize, &(String, Option<i64>))| {
        let (sender, id_text, wanted) = (sender.clone(), id_text.clone(), *wanted);
        let id = id(&id_text);
        let change = StoreChange::Modify(Box::new(move |found| {
            let found = found.map(|(found, timestamp)| (number(&found), timestamp));
            sender.send((index, found)).expect("the test waits");
            Ok(match wanted {
                Some(wanted) => StoreModification::Put(document(&id_text, &format!("text {wanted}"), wanted)),
                None => StoreModification::Remove,
            })
        }));
        DocumentWrite { id, change }
    };
    let writes = changes.iter().enumerate().map(modify).collect();
    let (answer, outcomes) = mpsc::channel();
    store
        .write_batch(writes, WriterId::default(), WriteDurability::Synced, move |all| drop(answer.send(all)))
        .expect("the store takes the batch");
    let outcomes = outcomes.recv().expect("every batch is answered");
    let seen: BTreeMap<usize, Option<(i64, Timestamp)>> = seen.try_iter().collect();
    let written = outcomes.into_iter().map(|outcome| outcome.expect("the modification is acknowledged"));
    written.enumerate().map(|(index, written)| (seen[&index], written)).collect()
}

/// The number of a document, through [`Store::get`].
pub fn get(store: &Store, id_text: &str) -> Option<i64> {
    let found = store.get(&id(id_text)).expect("the store reads");
    found.map(|(document, _)| number(&document))
}

pub fn number(document: &Document) -> i64 {
    match document.get("number") {
        Some(DocumentValue::Long(number)) => *number,
        other => panic!("a document of the test has a number, not {other:?}"),
    }
}

/// Contents of a view: ids and numbers. Words of the texts are compared with the texts.
pub fn shown(view: &dyn View) -> BTreeMap<String, i64> {
    let chunks = view.chunks();
    let columns = |key: ColumnKey| view.columns(&key, 0..chunks.len()).expect("the view reads");
    let ids = columns(ColumnKey::id());
    let numbers = columns(ColumnKey::value("number"));
    let texts = columns(ColumnKey::value("text"));
    let tokens = columns(ColumnKey::tokens("text"));
    let mut shown = BTreeMap::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let Some(Column::Bytes(ids)) = &ids[index] else { panic!("a chunk has ids") };
        assert_eq!(ids.len(), chunk.documents);
        for row in 0..chunk.documents {
            if chunk.live.as_ref().is_some_and(|live| live[row / 64] >> (row % 64) & 1 == 0) {
                continue;
            }
            let id =
                String::from_utf8(ids.get(row).expect("every row has an id").to_vec()).expect("ids are text");
            let number = numbers[index].as_ref().and_then(|column| value(column, &DataType::Long, row));
            let Some(DocumentValue::Long(number)) = number else { panic!("{id} has a number") };
            let Some(Column::Bytes(texts)) = &texts[index] else { panic!("{id} has a text") };
            let Some(Column::Tokens(tokens)) = &tokens[index] else { panic!("{id} has words") };
            let words: Vec<&[u8]> = tokens.document(row).iter().map(|number| tokens.word(number)).collect();
            assert_eq!(words.join(&b' '), texts.get(row).expect("every row has a text"), "{id}");
            assert!(shown.insert(id.clone(), number).is_none(), "{id} is shown once");
        }
    }
    shown
}

/// Results of a visit, in its order: id, number (`None`: removed), timestamp.
pub fn visited(store: &Store, visit: &StoreVisit) -> Vec<(String, Option<i64>, Timestamp)> {
    let mut visit = visit.clone();
    let mut all = Vec::new();
    loop {
        let page = store.visit(&visit).expect("the visit reads");
        assert!(page.visited.len() <= visit.wanted);
        all.extend(page.visited.iter().map(|visited| match visited {
            VisitedVersion::Document(document, timestamp) => {
                (document.id.as_str().to_owned(), Some(number(document)), *timestamp)
            }
            VisitedVersion::Removed(id, timestamp) => (id.as_str().to_owned(), None, *timestamp),
        }));
        match page.continuation {
            Some(continuation) => visit.continuation = Some(continuation),
            None => return all,
        }
    }
}
