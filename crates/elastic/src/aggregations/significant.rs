//! `significant_terms` and `significant_text`: values more frequent in a bucket than in all documents.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::terms::WantedTerms;
use super::values::{AggregatedValue, FieldSource, ValueForm};
use super::{BucketAggregation, BucketContent};
use crate::Error;
use crate::fields::all_at;
use crate::hit_scan::searched;
use crate::query::{self, SearchQuery, text_of};
use crate::search::SearchHit;
use crate::small_sort::sort_few;

/// Source of the values.
enum TermSource {
    Values(FieldSource),
    /// Words of a text.
    Words(String),
}

impl TermSource {
    fn of(&self, hit: &SearchHit) -> Vec<AggregatedValue> {
        match self {
            TermSource::Values(source) => source.of(hit),
            TermSource::Words(field) => {
                let Some((definition, source_path)) = hit.index.searched_at(field) else {
                    return Vec::new();
                };
                let division = hit.index.analyzers.of_field(definition);
                let texts = all_at(hit.searched_members(), &source_path);
                let words = texts.into_iter().flat_map(|text| division.words(&text_of(text)).into_words());
                let words = words.take(division.words_max()).map(AggregatedValue::Text);
                let mut words: Vec<AggregatedValue> = words.collect();
                words.sort();
                words.dedup();
                words
            }
        }
    }
}

/// Division of documents by values that are compared with those of all documents.
pub(super) struct SignificantDivision {
    source: TermSource,
    wanted: WantedTerms,
    form: ValueForm,
    /// Filter of the documents to compare with.
    filter: Option<SearchQuery>,
}

impl SignificantDivision {
    /// Bytes that its regular expressions take, about.
    pub(super) fn pattern_bytes(&self) -> usize {
        self.wanted.pattern_bytes() + self.filter.as_ref().map_or(0, SearchQuery::pattern_bytes)
    }

    /// Adds the fields that the filter reads; `None` if it depends on more.
    pub(super) fn add_filter_fields<'d>(&'d self, fields: &mut Vec<&'d str>) -> Option<()> {
        self.filter.as_ref().map_or(Some(()), |filter| filter.add_fields(fields))
    }

    /// Values of a document of a bucket, each once.
    pub(super) fn values(&self, hit: &SearchHit) -> Vec<AggregatedValue> {
        let mut values = self.source.of(hit);
        values.retain(|value| self.wanted.has(value));
        values
    }
}

/// Documents to compare with, by the values that buckets have.
#[derive(Default)]
pub(super) struct TermBackground {
    documents: usize,
    counts: BTreeMap<AggregatedValue, usize>,
}

impl TermBackground {
    /// Has the documents with a value counted. Returns true if it is a new one.
    pub(super) fn note(&mut self, value: &AggregatedValue) -> bool {
        if self.counts.contains_key(value) {
            return false;
        }
        self.counts.insert(value.clone(), 0).is_none()
    }

    /// Counts some of all documents, which have the same values, after the values of all buckets are noted.
    ///
    /// # Errors
    /// The filter does not fit them.
    pub(super) fn count(
        &mut self,
        division: &SignificantDivision,
        hit: &SearchHit,
        documents: usize,
    ) -> Result<(), Error> {
        if let Some(filter) = &division.filter
            && searched(hit).score(filter, &mut Vec::new())?.is_none()
        {
            return Ok(());
        }
        self.documents += documents;
        for value in division.source.of(hit) {
            if let Some(count) = self.counts.get_mut(&value) {
                *count += documents;
            }
        }
        Ok(())
    }
}

impl<'a> BucketAggregation<'a> {
    pub(super) fn significant_division(&self) -> Result<SignificantDivision, Error> {
        let filter = self.option("background_filter").map(query::parse).transpose()?;
        let division = match (self.requested.kind.as_str(), self.text_option("field")) {
            ("significant_text", Some(field)) => SignificantDivision {
                source: TermSource::Words(field),
                wanted: WantedTerms::default(),
                form: ValueForm::Text,
                filter,
            },
            _ => {
                let source = self.source()?;
                let form = source.form;
                let wanted = WantedTerms::parse(&self.requested.options, &source)?;
                SignificantDivision { source: TermSource::Values(source), wanted, form, filter }
            }
        };
        Ok(division)
    }

    pub(super) fn significant(&self) -> Result<(&'static str, Value), Error> {
        let division = self.significant_division()?;
        let mut background = TermBackground::default();
        let mut parts: BTreeMap<AggregatedValue, Vec<&'a SearchHit>> = BTreeMap::new();
        self.each(|hit| {
            for value in division.values(hit) {
                background.note(&value);
                parts.entry(value).or_default().push(hit);
            }
            Ok(())
        })?;
        self.scope.each(self.scope.everything, |hit| background.count(&division, hit, 1))?;
        self.finish_significant(&division, self.hits.len(), parts, &background)
    }

    /// Buckets of the values that are more frequent in `documents` than in all.
    pub(super) fn finish_significant<K: Ord + Borrow<AggregatedValue>>(
        &self,
        division: &SignificantDivision,
        documents: usize,
        parts: BTreeMap<K, impl BucketContent>,
        background: &TermBackground,
    ) -> Result<(&'static str, Value), Error> {
        let documents_min = self.count_of("min_doc_count", 3)?;
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        let scored =
            parts.iter().filter(|(_, part)| part.documents() >= documents_min).map(|(value, part)| {
                let value: &AggregatedValue = value.borrow();
                let own = part.documents();
                let count = background.counts.get(value).copied().unwrap_or(0).max(own);
                let (here, there) = (share(own, documents), share(count, background.documents));
                (value, part, count, (here - there) * here / there)
            });
        let mut scored: Vec<_> = scored.filter(|(.., score)| *score > 0.0).collect();
        sort_few(&mut scored, |left, right| right.3.total_cmp(&left.3));
        scored.truncate(self.count_of("size", 10)?);
        let buckets = scored.into_iter().map(|(value, part, count, score)| {
            let mut head = match &division.source {
                TermSource::Values(source) => Self::head(source, value),
                TermSource::Words(_) => [("key".to_owned(), value.json())].into_iter().collect(),
            };
            head.insert("score".to_owned(), json!(score));
            head.insert("bg_count".to_owned(), count.into());
            self.bucket(head, part)
        });
        let buckets = self.listed(buckets.collect::<Result<_, _>>()?)?;
        let kind = match division.form {
            ValueForm::Unmapped => "umsigterms",
            ValueForm::Whole | ValueForm::Date | ValueForm::Boolean => "siglterms",
            _ => "sigsterms",
        };
        Ok((kind, json!({ "doc_count": documents, "bg_count": background.documents, "buckets": buckets })))
    }
}
