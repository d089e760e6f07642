//! Schemas, plans and views for tests, from little.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_column::{
    BytesBuilder, Chunk, Column, ColumnKey, Form, MemoryView, TokensBuilder, ValueBuilder,
};
use millrace_document::{DataType, DocumentType, Value};
use millrace_linguistics::{Analyzer, Language};
use millrace_plan::{Leaf, LeafId, Node, Plan, Predicate, Scope, Term, TermId};
use millrace_query::{Annotations, GroupingDefaults, Item, Presentation, Query, Ranking, Sources, Streaming};
use millrace_schema::{
    Attribute, DefaultTerm, DocumentSummary, IndexSettings, MatchMode, Matching, Place, Schema, SchemaField,
    Stemming, SummaryMode,
};

/// A field of a test's schema.
pub fn field(name: &str, data_type: DataType, text: bool) -> SchemaField {
    SchemaField {
        name: name.into(),
        data_type,
        synthetic: false,
        indexing: None,
        index: text.then(IndexSettings::default),
        attribute: (!text).then(Attribute::default),
        in_summary: true,
        bolding: false,
        summary: SummaryMode::Full,
        matching: Matching {
            mode: if text { MatchMode::Text } else { MatchMode::Word },
            cased: false,
            default_term: DefaultTerm::Word,
            exact_terminator: None,
            max_length: None,
            max_occurrences: None,
            max_token_length: None,
            stemming: Stemming::None,
            normalizing: true,
        },
        rank_filter: false,
        rank_type: None,
        weight: 100,
        linguistics: None,
        query_commands: Vec::new(),
        aliases: Vec::new(),
        struct_fields: Vec::new(),
        place: Place::default(),
    }
}

/// A schema of these fields.
pub fn schema(fields: Vec<SchemaField>) -> Arc<Schema> {
    Arc::new(Schema {
        name: "test".into(),
        document_type: Arc::new(DocumentType::new("test", Vec::new())),
        fields: fields.into_iter().map(|field| (Arc::clone(&field.name), field)).collect(),
        fieldsets: BTreeMap::new(),
        summaries: BTreeMap::new(),
        rank_profiles: BTreeMap::new(),
        constants: BTreeMap::new(),
        onnx_models: BTreeMap::new(),
        models: Arc::default(),
        ancestors: Vec::new(),
        raw_as_base64: true,
        stemming: Stemming::None,
        place: Place::default(),
    })
}

/// A plan over these leaves, each a term of its own.
pub fn plan(schema: &Arc<Schema>, root: Node, leaves: Vec<(&str, Predicate)>) -> Plan {
    let query = Query {
        root: Item::True,
        sources: Sources::All,
        streaming: Streaming::default(),
        hits: 10,
        offset: 0,
        sorting: Vec::new(),
        grouping: Vec::new(),
        grouping_defaults: GroupingDefaults::default(),
        recall: None,
        collapse: None,
        ranking: Ranking::default(),
        presentation: Presentation {
            summary: None,
            fields: Vec::new(),
            bolding: true,
            format: None,
            tensors: None,
            timing: false,
        },
        timeout: Duration::from_secs(1),
        trace_level: 0,
        language: None,
        linguistics_profile: None,
        parameters: BTreeMap::new(),
    };
    let term =
        |leaf| Term { text: String::new(), annotations: Annotations::default(), leaves: vec![LeafId(leaf)] };
    Plan {
        schema: Arc::clone(schema),
        scope: Scope::All { selection: None },
        root,
        terms: (0..leaves.len()).map(term).collect(),
        leaves: leaves
            .into_iter()
            .enumerate()
            .map(|(number, (field, predicate))| Leaf {
                field: field.into(),
                predicate,
                term: Some(TermId(number)),
                dot_product_above: None,
            })
            .collect(),
        profile: "default".to_owned(),
        inputs: BTreeMap::new(),
        feature_values: BTreeMap::new(),
        sorting: Vec::new(),
        hits: 10,
        offset: 0,
        summary: DocumentSummary {
            name: "default".to_owned(),
            fields: Vec::new(),
            omit_summary_features: false,
        },
        fields: Vec::new(),
        now: 0,
        timeout: Duration::from_secs(1),
        query: Arc::new(query),
    }
}

/// A document of a test: values by field.
pub type Fields = BTreeMap<&'static str, Value>;

/// The words of a value, its elements apart.
pub fn words(field: &SchemaField, value: &Value) -> Vec<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().flat_map(|value| words(field, value)).collect(),
        Value::String(text) => {
            let mut words = Vec::new();
            Analyzer::new(&field.matching, Language::Unknown)
                .tokens(text, |token| words.push(token.text.to_owned()));
            vec![words]
        }
        _ => Vec::new(),
    }
}

/// The columns of a chunk of these documents.
fn columns(schema: &Schema, documents: &[Fields]) -> Vec<(ColumnKey, Column)> {
    let column = |key: ColumnKey| {
        let field = &schema.fields[key.field.as_str()];
        let values = documents.iter().map(|document| document.get(key.field.as_str()));
        let column = if key.form == Form::Value {
            let mut builder = ValueBuilder::new(&field.data_type);
            values.for_each(|value| builder.push(value));
            builder.finish()
        } else {
            let mut builder = TokensBuilder::new();
            for value in values {
                for (number, element) in
                    value.map(|value| words(field, value)).unwrap_or_default().iter().enumerate()
                {
                    if number > 0 {
                        builder.boundary();
                    }
                    element.iter().for_each(|word| builder.word(word.as_bytes()));
                }
                builder.end_document();
            }
            Column::Tokens(builder.finish())
        };
        (key, column)
    };
    schema.columns().into_iter().map(column).collect()
}

/// A view of documents in chunks of `chunk` documents; dead ones are marked so. Their ids are `id:test:test:g=me:d0`, `…d1`, and so on.
pub fn view(schema: &Schema, documents: &[(Fields, bool)], chunk: usize) -> MemoryView {
    let mut view = MemoryView::new();
    for (number, documents) in documents.chunks(chunk).enumerate() {
        let fields: Vec<Fields> = documents.iter().map(|(fields, _)| fields.clone()).collect();
        let live = documents.iter().any(|(_, live)| !live).then(|| {
            let word = |documents: &[(Fields, bool)]| {
                documents
                    .iter()
                    .enumerate()
                    .fold(0u64, |word, (bit, (_, live))| word | u64::from(*live) << bit)
            };
            documents.chunks(64).map(word).collect()
        });
        let mut ids = BytesBuilder::new();
        for place in 0..fields.len() {
            ids.push(Some(format!("id:test:test:g=me:d{}", number * chunk + place).as_bytes()));
        }
        let mut columns = columns(schema, &fields);
        columns.push((ColumnKey::id(), Column::Bytes(ids.finish())));
        view.push(Chunk { documents: fields.len(), live }, columns);
    }
    view
}
