use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, View, value};
use millrace_document::{DataType, DocumentValue, zcurve};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_matching::MatchedElements;
use millrace_plan::{Plan, QueryMemory};
use millrace_result::FieldValue;
use millrace_schema::{DocumentSummary, SchemaField, SummaryField, SummaryMode};
use millrace_tensor::Tensor;

use super::SummaryError;
use super::composed::{self, ComposedField};
use super::highlight::{FieldHighlighter, HighlightStyles, bolded, snippet_query};
use super::snippet::candidates::SnippetQuery;
use super::snippet::snippet;

/// Position of a hit in a view: index of the chunk, and index in the chunk.
pub type HitPosition = (usize, u16);

/// The fields of one hit in the summary's order.
pub type SummaryFields = Vec<(Arc<str>, FieldValue)>;

/// Fields of hits, one entry per hit, from the plan's own document summary in the default style.
///
/// # Errors
/// A column could not be read.
pub fn fill(plan: &Plan, view: &dyn View, hits: &[HitPosition]) -> Result<Vec<SummaryFields>, SummaryError> {
    SummaryFiller::new(plan, None, &HighlightStyles::default())?.fill(view, hits)
}

/// True if hits of a plan can have a field with this name: its document summary or the default one contains
/// it.
pub fn shows(plan: &Plan, name: &str) -> bool {
    const OF_ALL: [&str; 2] = ["sddocname", "documentid"];
    let default = plan.schema.summaries.get("default");
    let mut fields = default.into_iter().chain([&plan.summary]).flat_map(|summary| &summary.fields);
    OF_ALL.contains(&name) || fields.any(|field| &*field.name == name)
}

/// Renderer of a plan's hits by one document summary.
pub struct SummaryFiller<'p> {
    document_type: Arc<str>,
    shows_type: bool,
    /// Names under which the document id is returned.
    ids: Vec<Arc<str>>,
    fields: Vec<ShownField<'p>>,
    highlighters: SourceHighlighters<'p>,
    raw_as_base64: bool,
    styles: HighlightStyles,
    memory: &'p QueryMemory,
    /// True once there is no time left to look for words of the query in texts.
    stop: &'p dyn Fn() -> bool,
}

/// Highlighters by the field that they are for. Summary fields of one source share one, and so what it knows
/// of the words of the texts.
type SourceHighlighters<'p> = Vec<(&'p str, FieldHighlighter)>;

/// A prepared field of the summary.
struct ShownField<'p> {
    name: Arc<str>,
    /// The fields that are read: one, unless the field is composed.
    sources: Vec<&'p SchemaField>,
    how: ShowMode<'p>,
}

enum ShowMode<'p> {
    All(TextForm),
    Matched(MatchedElements<'p>, TextForm),
    Tokens(FieldAnalyzer),
    /// Elements selected later by a summary feature.
    Selected(&'p str, TextForm),
    /// Positions as their numbers on a z-curve.
    ZCurve,
    /// Several sources as one value.
    Composed(ComposedField<'p>),
}

/// Form of the texts in a value. Highlighters are given by their index.
enum TextForm {
    Whole,
    Bolded(usize),
    Snippet(usize, SnippetQuery),
}

impl<'p> SummaryFiller<'p> {
    /// Prepares a document summary of the plan's schema: the one with this name, or the plan's own.
    ///
    /// # Errors
    /// [`SummaryError::UnknownSummary`], or a pattern of the plan is invalid.
    pub fn new(
        plan: &'p Plan,
        summary: Option<&str>,
        styles: &HighlightStyles,
    ) -> Result<Self, SummaryError> {
        let summary: &DocumentSummary = match summary {
            None => &plan.summary,
            Some(name) => plan.schema.summaries.get(name).ok_or_else(|| SummaryError::UnknownSummary {
                schema: plan.schema.name.to_string(),
                summary: name.to_owned(),
                known: plan.schema.summaries.keys().cloned().collect::<Vec<_>>().join(", "),
            })?,
        };
        let wanted = |name: &str| plan.fields.is_empty() || plan.fields.iter().any(|field| field == name);
        // The id is returned under the names that the summary gives it, and as in the default summary if the
        // request names it.
        let by_name = summary.fields.iter().filter(|field| &*field.source == "documentid");
        let mut ids: Vec<Arc<str>> = by_name.map(|field| Arc::clone(&field.name)).collect();
        let is_of_default =
            summary.name == "default" || plan.fields.iter().any(|field| field == "documentid");
        if is_of_default && !ids.iter().any(|name| &**name == "documentid") {
            ids.push("documentid".into());
        }
        let has = |name: &str| summary.fields.iter().any(|field| &*field.name == name);
        // A field that the request names and the summary lacks is returned as in the default summary.
        let default = plan.schema.summaries.get("default").filter(|_| !plan.fields.is_empty());
        let more = default.into_iter().flat_map(|default| &default.fields).filter(|field| !has(&field.name));
        let mut highlighters = SourceHighlighters::new();
        let fields = summary
            .fields
            .iter()
            .chain(more)
            .filter(|field| wanted(&field.name))
            .filter_map(|field| ShownField::new(plan, field, &mut highlighters).transpose())
            .collect::<Result<_, _>>()?;
        Ok(SummaryFiller {
            document_type: Arc::clone(plan.schema.document_type.name()),
            shows_type: wanted("sddocname"),
            ids: ids.into_iter().filter(|name| wanted(name)).collect(),
            fields,
            highlighters,
            raw_as_base64: plan.schema.raw_as_base64,
            memory: &plan.memory,
            stop: &|| false,
            styles: if plan.query.presentation.bolding { styles.clone() } else { styles.without_marks() },
        })
    }

    /// Ends marking once `stop` returns true: later texts have no marks, and their start in place of
    /// snippets. It is called for each text, and now and then within one.
    #[must_use]
    pub fn until(self, stop: &'p dyn Fn() -> bool) -> Self {
        SummaryFiller { stop, ..self }
    }

    /// Announces the columns of a chunk that are about to be read, so that the disk fetches them in parallel.
    fn announce(&self, view: &dyn View, chunk: usize) {
        if !self.ids.is_empty() {
            view.will_read(&ColumnKey::id(), chunk..chunk + 1);
        }
        for source in self.fields.iter().flat_map(|field| &field.sources) {
            view.will_read(&ColumnKey::value(&source.name), chunk..chunk + 1);
        }
    }

    /// Fields of hits, one entry per hit, in order. Columns are read once for all hits of a chunk. Memory is
    /// taken value by value, so that a result that is too large is never in memory.
    ///
    /// # Errors
    /// A column could not be read, or the values take too much memory.
    pub fn fill(&self, view: &dyn View, hits: &[HitPosition]) -> Result<Vec<SummaryFields>, SummaryError> {
        let fields_max = 1 + self.ids.len() + self.fields.len();
        let mut filled: Vec<SummaryFields> =
            hits.iter().map(|_| SummaryFields::with_capacity(fields_max)).collect();
        let mut by_chunk: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (hit, (chunk, _)) in hits.iter().enumerate() {
            by_chunk.entry(*chunk).or_default().push(hit);
        }
        for chunk in by_chunk.keys() {
            self.announce(view, *chunk);
        }
        for (chunk, members) in by_chunk {
            let column = |key: &ColumnKey| -> Result<Option<Column>, SummaryError> {
                Ok(view.columns(key, chunk..chunk + 1)?.into_iter().next().flatten())
            };
            if self.shows_type {
                let name: Arc<str> = "sddocname".into();
                for &hit in &members {
                    let value = FieldValue::Value(DocumentValue::String(self.document_type.to_string()));
                    filled[hit].push((Arc::clone(&name), value));
                }
            }
            if !self.ids.is_empty()
                && let Some(Column::Bytes(ids)) = column(&ColumnKey::id())?
            {
                for &hit in &members {
                    let id = ids.get(usize::from(hits[hit].1)).unwrap_or_default();
                    let id = DocumentValue::String(String::from_utf8_lossy(id).into_owned());
                    let shown = self.ids.iter().map(|name| (Arc::clone(name), FieldValue::Value(id.clone())));
                    filled[hit].extend(shown);
                }
            }
            for field in &self.fields {
                let columns: Vec<Option<Column>> = field
                    .sources
                    .iter()
                    .map(|source| column(&ColumnKey::value(&source.name)))
                    .collect::<Result<_, _>>()?;
                for &hit in &members {
                    let row = usize::from(hits[hit].1);
                    let read = field.sources.iter().zip(&columns);
                    let mut values =
                        read.map(|(source, cells)| value(cells.as_ref()?, &source.data_type, row));
                    let shown = match &field.how {
                        ShowMode::Composed(composed) => {
                            composed.show(values.collect(), self.styles.of_field(&field.name), self.stop)
                        }
                        _ => values.next().flatten().and_then(|value| self.show(field, value)),
                    };
                    if let Some(shown) = shown {
                        self.memory.take(shown.memory_bytes())?;
                        filled[hit].push((Arc::clone(&field.name), FieldValue::Value(shown)));
                    }
                }
            }
        }
        Ok(filled)
    }

    /// Reduces fields with `select-elements-by` to the elements whose index is a label of their summary
    /// feature. A field without the feature stays whole.
    pub fn select_elements<'t>(
        &self,
        fields: &mut SummaryFields,
        feature: impl Fn(&str) -> Option<&'t Tensor>,
    ) {
        for shown in &self.fields {
            let ShowMode::Selected(name, _) = shown.how else { continue };
            let Some(tensor) = feature(name) else { continue };
            if let Some((_, FieldValue::Value(value))) =
                fields.iter_mut().find(|(field, _)| *field == shown.name)
            {
                let mut keep: Vec<usize> = (0..tensor.subspaces())
                    .filter_map(|subspace| tensor.labels(subspace).first()?.parse().ok())
                    .collect();
                keep.sort_unstable();
                retain_elements(value, &keep);
            }
        }
    }

    /// The value as returned in the summary; `None` if nothing of it is left.
    fn show(&self, field: &ShownField<'_>, mut value: DocumentValue) -> Option<DocumentValue> {
        match &field.how {
            ShowMode::All(texts) | ShowMode::Selected(_, texts) => {
                if !self.raw_as_base64 {
                    raw_to_text(&mut value);
                }
                self.show_texts(field, texts, &mut value);
            }
            ShowMode::ZCurve => positions_to_numbers(&mut value),
            ShowMode::Matched(matched, texts) => {
                let keep = matched.of(&value, self.stop);
                if keep.is_empty() {
                    return None;
                }
                retain_elements(&mut value, &keep);
                self.show_texts(field, texts, &mut value);
            }
            ShowMode::Tokens(analyzer) => value = tokens(&value, analyzer),
            // Values of composed fields are shown by themselves.
            ShowMode::Composed(_) => {}
        }
        Some(value)
    }

    fn show_texts(&self, field: &ShownField<'_>, texts: &TextForm, value: &mut DocumentValue) {
        match texts {
            TextForm::Whole => {}
            TextForm::Bolded(highlighter) => each_text(value, &|text| {
                let marks = self.highlighters[*highlighter].1.marks(text, self.stop).marks;
                let mut out = String::with_capacity(text.len() + 16 * marks.len());
                bolded(text, 0..text.len(), &marks, &self.styles.usual, &mut out);
                out
            }),
            TextForm::Snippet(highlighter, query) => {
                let style = self.styles.of_field(&field.name);
                let highlighter = &self.highlighters[*highlighter].1;
                each_text(value, &|text| snippet(text, query, &highlighter.marks(text, self.stop), style));
            }
        }
    }
}

impl<'p> ShownField<'p> {
    /// Prepares a field; `None` if it is not a document field.
    fn new(
        plan: &'p Plan,
        field: &'p SummaryField,
        highlighters: &mut SourceHighlighters<'p>,
    ) -> Result<Option<Self>, SummaryError> {
        let of_schema = composed::sources(&plan.schema, field);
        let sources: Vec<&SchemaField> = of_schema.iter().map(|source| source.field).collect();
        let Some(source) = sources.first().copied() else { return Ok(None) };
        if !composed::is_plain(&of_schema) {
            let how = ShowMode::Composed(ComposedField::new(plan, field, of_schema)?);
            return Ok(Some(ShownField { name: Arc::clone(&field.name), sources, how }));
        }
        if plan.schema.field_of_zcurve(&field.source).is_some() {
            return Ok(Some(ShownField { name: Arc::clone(&field.name), sources, how: ShowMode::ZCurve }));
        }
        let language = TextLanguage::from_tag(plan.query.language.as_deref().unwrap_or_default());
        let analyzer = || FieldAnalyzer::new(&source.matching, language);
        let mut texts = || {
            Ok::<_, SummaryError>(if !is_text(&source.data_type) {
                TextForm::Whole
            } else if field.mode.is_dynamic() {
                let highlighter = highlighter_of(plan, source, analyzer(), highlighters)?;
                TextForm::Snippet(highlighter, snippet_query(plan, &[&highlighters[highlighter].1]))
            } else if field.bolding && plan.query.presentation.bolding {
                TextForm::Bolded(highlighter_of(plan, source, analyzer(), highlighters)?)
            } else {
                TextForm::Whole
            })
        };
        let how = match &field.mode {
            SummaryMode::MatchedElements { .. } => {
                ShowMode::Matched(MatchedElements::new(plan, &source.name)?, texts()?)
            }
            SummaryMode::Tokens => ShowMode::Tokens(analyzer()),
            SummaryMode::SelectElementsBy { feature, .. } => ShowMode::Selected(feature, texts()?),
            SummaryMode::Full | SummaryMode::Dynamic => ShowMode::All(texts()?),
        };
        Ok(Some(ShownField { name: Arc::clone(&field.name), sources, how }))
    }
}

/// Index of the highlighter of a field, which is made if there is none.
fn highlighter_of<'p>(
    plan: &Plan,
    source: &'p SchemaField,
    analyzer: FieldAnalyzer,
    highlighters: &mut SourceHighlighters<'p>,
) -> Result<usize, SummaryError> {
    if let Some(known) = highlighters.iter().position(|(name, _)| *name == &*source.name) {
        return Ok(known);
    }
    highlighters.push((&*source.name, FieldHighlighter::new(plan, &source.name, analyzer)?));
    Ok(highlighters.len() - 1)
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::String => true,
        DataType::Array(element) => **element == DataType::String,
        _ => false,
    }
}

/// Converts bytes to the text they contain (`raw-as-base64-in-summary: false`).
fn raw_to_text(value: &mut DocumentValue) {
    match value {
        DocumentValue::Raw(bytes) => {
            *value = DocumentValue::String(String::from_utf8_lossy(bytes).into_owned())
        }
        DocumentValue::Array(values) => values.iter_mut().for_each(raw_to_text),
        DocumentValue::Map(entries) => entries.iter_mut().for_each(|(_, value)| raw_to_text(value)),
        DocumentValue::Struct(fields) => fields.iter_mut().for_each(|(_, value)| raw_to_text(value)),
        _ => {}
    }
}

/// Converts positions to their numbers on a z-curve.
fn positions_to_numbers(value: &mut DocumentValue) {
    match value {
        DocumentValue::Position { latitude, longitude } => {
            *value = DocumentValue::Long(zcurve(*latitude, *longitude));
        }
        DocumentValue::Array(values) => values.iter_mut().for_each(positions_to_numbers),
        _ => {}
    }
}

/// Replaces a text, or each text of an array.
fn each_text(value: &mut DocumentValue, replace: &impl Fn(&str) -> String) {
    match value {
        DocumentValue::String(text) => *text = replace(text),
        DocumentValue::Array(values) => values.iter_mut().for_each(|value| each_text(value, replace)),
        _ => {}
    }
}

/// Keeps the elements at these indices, which ascend.
fn retain_elements(value: &mut DocumentValue, keep: &[usize]) {
    fn retain<T>(list: &mut Vec<T>, keep: &[usize]) {
        let mut index = 0;
        list.retain(|_| {
            index += 1;
            keep.binary_search(&(index - 1)).is_ok()
        });
    }
    match value {
        DocumentValue::Array(values) => retain(values, keep),
        DocumentValue::WeightedSet(values) => retain(values, keep),
        DocumentValue::Map(entries) => retain(entries, keep),
        _ => {}
    }
}

/// Tokens of a text as a list; for a collection, one list per text.
fn tokens(value: &DocumentValue, analyzer: &FieldAnalyzer) -> DocumentValue {
    match value {
        DocumentValue::String(text) => {
            let mut words = Vec::new();
            analyzer.tokens(text, |token| words.push(DocumentValue::String(token.text.to_owned())));
            DocumentValue::Array(words)
        }
        DocumentValue::Array(values) => {
            DocumentValue::Array(values.iter().map(|value| tokens(value, analyzer)).collect())
        }
        DocumentValue::WeightedSet(values) => {
            DocumentValue::Array(values.iter().map(|(value, _)| tokens(value, analyzer)).collect())
        }
        _ => DocumentValue::Array(Vec::new()),
    }
}
