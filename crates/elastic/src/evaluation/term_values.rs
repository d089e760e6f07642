//! Values of a query of which a document must have one; where they are many, those of the document are looked
//! up among them.

use std::collections::HashSet;
use std::ops::Deref;

use serde_json::Value;

use super::{FieldValueKind, SearchedDocument, kind_of, number_of, stored_number};
use crate::Error;
use crate::fields::each_at;
use crate::mapping::{is_searched, type_of};
use crate::normalizer::ValueNormalizer;
use crate::query::text_of;
use crate::query_ranges::is_range;

/// Number of values from which on those of a document are looked up, and not compared with each.
const MANY: usize = 8;

/// Values of which a document must have one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TermValues {
    values: Vec<Value>,
    /// Their texts; none if they are few.
    texts: HashSet<String>,
    /// Their numbers; none if they are few, or not all are whole.
    numbers: HashSet<i128>,
}

impl TermValues {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        let (mut texts, mut numbers) = (HashSet::new(), None);
        if values.len() >= MANY {
            texts = values.iter().map(text_of).collect();
            numbers = values.iter().map(whole_number).collect();
        }
        TermValues { values, texts, numbers: numbers.unwrap_or_default() }
    }

    fn has_text(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.texts.contains(text),
            other => self.texts.contains(&text_of(other)),
        }
    }
}

impl Deref for TermValues {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.values
    }
}

impl SearchedDocument<'_> {
    /// True if the document has one of these values in a field.
    pub(super) fn has_any_term(
        &self,
        field: &str,
        values: &TermValues,
        ignores_case: bool,
    ) -> Result<bool, Error> {
        if !ignores_case && let Some(found) = self.has_listed(field, values) {
            return Ok(found);
        }
        for value in values.iter() {
            if self.has_term(field, value, ignores_case)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// [`SearchedDocument::has_any_term`] by a look-up; `None` if the field's values have to be compared.
    fn has_listed(&self, field: &str, values: &TermValues) -> Option<bool> {
        if values.texts.is_empty() || ["_index", "_ignored"].contains(&field) {
            return None;
        }
        if let Some(own) = self.meta(field) {
            return Some(values.texts.contains(&own));
        }
        let Some((definition, source_path)) = self.field(field) else { return Some(false) };
        let definition = &*definition;
        let (mut found, mut is_decided) = (false, true);
        match kind_of(type_of(definition)) {
            FieldValueKind::Keyword
                if !is_range(type_of(definition))
                    && ValueNormalizer::of(definition, self.settings).is_none() =>
            {
                each_at(self.source, &source_path, &mut |own| {
                    found = found || values.has_text(own) && is_searched(definition, own);
                });
            }
            FieldValueKind::Number if !self.is_log && !values.numbers.is_empty() => {
                each_at(self.source, &source_path, &mut |own| {
                    let own = stored_number(definition, own);
                    match whole_number(&own) {
                        Some(number) => found = found || values.numbers.contains(&number),
                        // Of others, one with a fraction certainly differs from all that are whole.
                        None => is_decided &= number_of(&own).is_none_or(|number| number.fract() != 0.0),
                    }
                });
            }
            _ => return None,
        }
        (found || is_decided).then_some(found)
    }
}

/// A whole number, or a text that is one.
pub(super) fn whole_number(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
