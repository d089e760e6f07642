//! Summary fields made of several sources, or of members of structs: their texts in one, or the field itself
//! with only these members.

use std::ops::Range;

use millrace_document::{DocumentValue, scalar};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_matching::values_at;
use millrace_plan::Plan;
use millrace_schema::{Schema, SchemaField, SummaryField, SummaryMode};

use super::SummaryError;
use super::highlight::{FieldHighlighter, HighlightStyle, TextMarks, bolded, snippet_query};
use super::snippet::candidates::SnippetQuery;
use super::snippet::snippet;

/// Separator of texts while snippets are chosen. No word contains it.
const RECORD: char = '\u{1e}';

/// A source of a summary field: a field, or a path to members of its structs.
pub(super) struct SummarySource<'p> {
    pub field: &'p SchemaField,
    path: Vec<&'p str>,
}

/// The sources of a summary field that exist.
pub(super) fn sources<'p>(schema: &'p Schema, shown: &'p SummaryField) -> Vec<SummarySource<'p>> {
    let names = std::iter::once(&shown.source).chain(&shown.more_sources);
    let source = |name: &'p std::sync::Arc<str>| {
        if let Some(field) = schema.fields.get(name).or_else(|| schema.field_of_zcurve(name)) {
            return Some(SummarySource { field, path: Vec::new() });
        }
        let (field, path) = name.split_once('.')?;
        Some(SummarySource { field: schema.fields.get(field)?, path: path.split('.').collect() })
    };
    names.filter_map(source).collect()
}

/// True if the value of a field is shown as it is or in a form of its own.
pub(super) fn is_plain(sources: &[SummarySource<'_>]) -> bool {
    matches!(sources, [only] if only.path.is_empty())
}

enum ComposedForm {
    /// The field of the same name with only these members.
    Members,
    /// All texts, with spaces in between.
    Joined,
    /// All texts, with the query's words in bold.
    Bolded(Vec<FieldHighlighter>),
    /// Snippets of all texts.
    Snippet(Vec<FieldHighlighter>, SnippetQuery),
}

/// Sources of a summary field, and how they become one value.
pub(super) struct ComposedField<'p> {
    sources: Vec<SummarySource<'p>>,
    form: ComposedForm,
}

impl<'p> ComposedField<'p> {
    /// Prepares a summary field with these sources, of which there is at least one.
    pub fn new(
        plan: &'p Plan,
        shown: &'p SummaryField,
        sources: Vec<SummarySource<'p>>,
    ) -> Result<Self, SummaryError> {
        let is_own = |source: &SummarySource<'_>| source.field.name == shown.name && !source.path.is_empty();
        let highlighters = || {
            let language = TextLanguage::from_tag(plan.query.language.as_deref().unwrap_or_default());
            let highlighter = |source: &SummarySource<'_>| {
                let path = source.path.join(".");
                let part = if path.is_empty() { None } else { source.field.part(&path) };
                let field = part.unwrap_or(source.field);
                FieldHighlighter::new(plan, &field.name, FieldAnalyzer::new(&field.matching, language))
            };
            sources.iter().map(highlighter).collect::<Result<Vec<_>, _>>()
        };
        let form = match &shown.mode {
            SummaryMode::Dynamic => {
                let highlighters = highlighters()?;
                let query = snippet_query(plan, &highlighters.iter().collect::<Vec<_>>());
                ComposedForm::Snippet(highlighters, query)
            }
            _ if shown.bolding && plan.query.presentation.bolding => ComposedForm::Bolded(highlighters()?),
            _ if sources.iter().all(is_own) => ComposedForm::Members,
            _ => ComposedForm::Joined,
        };
        Ok(ComposedField { sources, form })
    }

    /// The value for a document, of the values of its sources; `None` if there is nothing to show.
    pub fn show(
        &self,
        values: Vec<Option<DocumentValue>>,
        style: &HighlightStyle,
        stop: &dyn Fn() -> bool,
    ) -> Option<DocumentValue> {
        match &self.form {
            ComposedForm::Members => {
                let mut value = values.into_iter().flatten().next()?;
                let paths: Vec<&[&str]> = self.sources.iter().map(|source| source.path.as_slice()).collect();
                keep_members(&mut value, &paths);
                Some(value)
            }
            ComposedForm::Joined => {
                let texts = self.texts(&values).into_iter().map(|(_, text)| text);
                let texts: Vec<String> = texts.collect();
                (!texts.is_empty()).then(|| DocumentValue::String(texts.join(" ")))
            }
            ComposedForm::Bolded(highlighters) => {
                let (text, TextMarks { marks, .. }) = self.marked(&values, highlighters, stop)?;
                let mut out = String::with_capacity(text.len() + 16 * marks.len());
                bolded(&text, Range { start: 0, end: text.len() }, &marks, style, &mut out);
                Some(DocumentValue::String(out.replace(RECORD, &style.separator)))
            }
            ComposedForm::Snippet(highlighters, query) => {
                let (text, found) = self.marked(&values, highlighters, stop)?;
                let snippet = snippet(&text, query, &found, style);
                Some(DocumentValue::String(snippet.replace(RECORD, &style.separator)))
            }
        }
    }

    /// The texts of all sources in order, each with the index of its source.
    fn texts(&self, values: &[Option<DocumentValue>]) -> Vec<(usize, String)> {
        let mut texts = Vec::new();
        for (index, (source, value)) in self.sources.iter().zip(values).enumerate() {
            let Some(value) = value else { continue };
            values_at(value, &source.path, &mut |value| {
                texts.extend(scalar::to_text(value).map(|text| (index, text)));
            });
        }
        texts
    }

    /// All texts as one, with the places of the query's words.
    fn marked(
        &self,
        values: &[Option<DocumentValue>],
        highlighters: &[FieldHighlighter],
        stop: &dyn Fn() -> bool,
    ) -> Option<(String, TextMarks)> {
        let (mut all, mut found) = (String::new(), TextMarks::default());
        for (number, (source, text)) in self.texts(values).into_iter().enumerate() {
            if number > 0 {
                all.push(RECORD);
            }
            let start = all.len();
            let first_term = highlighters[..source].iter().map(FieldHighlighter::terms).sum();
            found.append(highlighters[source].marks(&text, stop), start, first_term);
            all.push_str(&text);
        }
        (!all.is_empty()).then_some((all, found))
    }
}

/// Removes from the structs in a value the members that no path names.
fn keep_members(value: &mut DocumentValue, paths: &[&[&str]]) {
    match value {
        DocumentValue::Array(values) => values.iter_mut().for_each(|value| keep_members(value, paths)),
        DocumentValue::Map(entries) => {
            let of_values: Vec<&[&str]> =
                paths.iter().filter(|path| path.first() == Some(&"value")).map(|path| &path[1..]).collect();
            if !of_values.is_empty() {
                entries.iter_mut().for_each(|(_, value)| keep_members(value, &of_values));
            }
        }
        DocumentValue::Struct(members) if paths.iter().all(|path| !path.is_empty()) => {
            members.retain_mut(|(name, value)| {
                let own: Vec<&[&str]> =
                    paths.iter().filter(|path| path[0] == &**name).map(|path| &path[1..]).collect();
                keep_members(value, &own);
                !own.is_empty()
            });
        }
        _ => {}
    }
}
