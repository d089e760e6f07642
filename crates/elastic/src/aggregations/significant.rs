//! `significant_terms` and `significant_text`: values more frequent in a bucket than in all documents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::OneAggregation;
use super::terms::WantedTerms;
use super::values::{AggregatedValue, FieldSource, ValueForm};
use crate::Error;
use crate::evaluation::words_of;
use crate::fields::all_at;
use crate::hit_scan::searched;
use crate::mapping::field_at;
use crate::query::{self, text_of};
use crate::search::SearchHit;

/// Where the values come from.
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
                let Some((_, place)) = field_at(&hit.index.entry.mappings, field) else { return Vec::new() };
                let texts = all_at(&hit.document, &place);
                let words = texts.into_iter().flat_map(|text| words_of(&text_of(text)));
                let mut words: Vec<AggregatedValue> = words.map(AggregatedValue::Text).collect();
                words.sort();
                words.dedup();
                words
            }
        }
    }
}

impl<'a> OneAggregation<'a> {
    pub(super) fn significant(&self) -> Result<(&'static str, Value), Error> {
        let (source, wanted, form) = match (self.asked.kind.as_str(), self.text_option("field")) {
            ("significant_text", Some(field)) => {
                (TermSource::Words(field), WantedTerms::default(), ValueForm::Text)
            }
            _ => {
                let source = self.source()?;
                let form = source.form;
                let wanted = WantedTerms::parse(&self.asked.options, &source)?;
                (TermSource::Values(source), wanted, form)
            }
        };
        let filter = self.option("background_filter").map(query::parse).transpose()?;
        let mut background: Vec<&SearchHit> = Vec::new();
        self.scope.each(self.scope.everything, |hit| {
            let is_inside = match &filter {
                Some(filter) => searched(hit).score(filter, &mut Vec::new())?.is_some(),
                None => true,
            };
            if is_inside {
                background.push(hit);
            }
            Ok(())
        })?;
        let mut parts: BTreeMap<AggregatedValue, Vec<&'a SearchHit>> = BTreeMap::new();
        self.each(|hit| {
            for value in source.of(hit).into_iter().filter(|value| wanted.has(value)) {
                parts.entry(value).or_default().push(hit);
            }
            Ok(())
        })?;
        let least = self.count_of("min_doc_count", 3)?;
        parts.retain(|_, hits| hits.len() >= least);
        let mut everywhere: BTreeMap<&AggregatedValue, usize> =
            parts.keys().map(|value| (value, 0)).collect();
        self.scope.each(&background, |hit| {
            for value in source.of(hit) {
                if let Some(count) = everywhere.get_mut(&value) {
                    *count += 1;
                }
            }
            Ok(())
        })?;
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        let scored = parts.iter().map(|(value, hits)| {
            let count = everywhere.get(value).copied().unwrap_or(0).max(hits.len());
            let (here, there) = (share(hits.len(), self.hits.len()), share(count, background.len()));
            (value, hits, count, (here - there) * here / there)
        });
        let mut scored: Vec<_> = scored.filter(|(.., score)| *score > 0.0).collect();
        scored.sort_by(|left, right| right.3.total_cmp(&left.3));
        scored.truncate(self.count_of("size", 10)?);
        let buckets = scored.into_iter().map(|(value, hits, count, score)| {
            let mut head = match &source {
                TermSource::Values(source) => Self::head(source, value),
                TermSource::Words(_) => [("key".to_owned(), value.json())].into_iter().collect(),
            };
            head.insert("score".to_owned(), json!(score));
            head.insert("bg_count".to_owned(), count.into());
            self.bucket(head, hits)
        });
        let buckets = self.listed(buckets.collect::<Result<_, _>>()?)?;
        let kind = match form {
            ValueForm::Unmapped => "umsigterms",
            ValueForm::Whole | ValueForm::Date | ValueForm::Boolean => "siglterms",
            _ => "sigsterms",
        };
        Ok((kind, json!({ "doc_count": self.hits.len(), "bg_count": background.len(), "buckets": buckets })))
    }
}
