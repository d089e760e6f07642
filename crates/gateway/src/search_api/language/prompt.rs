//! Prompts of a language model: pure functions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use millrace_document::{DocumentValue, json};
use millrace_result::{FieldValue, GroupList, ResultGroup, ResultHit};
use millrace_tensor::json::TensorFormat;

/// Placeholders of the hits and of the query's text in a prompt.
const CONTEXT: &str = "{context}";
const QUERY: &str = "@query";

/// Maximum size of a prompt in bytes: several times what models read.
pub(super) const PROMPT_BYTES_MAX: usize = 16 << 20;

/// Part of the hits that a prompt has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContextScope {
    /// All fields of their document summary.
    All,
    /// Those of these fields that they have.
    Fields(BTreeSet<String>),
    /// Nothing of them.
    Nothing,
}

impl ContextScope {
    fn has(&self, field: &str) -> bool {
        match self {
            ContextScope::All => true,
            ContextScope::Fields(fields) => fields.contains(field),
            ContextScope::Nothing => false,
        }
    }
}

/// Adds the hits in a group and in the groups inside, in their order.
pub(super) fn add_grouped<'r>(group: &'r ResultGroup, hits: &mut Vec<&'r ResultHit>) {
    for list in &group.lists {
        match list {
            GroupList::Groups { groups, .. } => groups.iter().for_each(|group| add_grouped(group, hits)),
            GroupList::Hits { hits: own, .. } => hits.extend(own),
        }
    }
}

/// Hits as text for a model: a line for each field, and an empty line between hits. Rank features are left
/// out.
pub(super) fn context(hits: &[&ResultHit], scope: &ContextScope) -> String {
    let mut text = String::new();
    for hit in hits {
        if !text.is_empty() {
            text.push('\n');
        }
        for (name, value) in hit.fields.iter().filter(|(name, _)| scope.has(name)) {
            let shown = match value {
                FieldValue::Value(DocumentValue::String(value)) => value.clone(),
                // Every document value has a JSON form.
                FieldValue::Value(value) => {
                    serde_json::to_string(&json::value(value, TensorFormat::default())).unwrap_or_default()
                }
                FieldValue::Strings(strings) => strings.join(" "),
                FieldValue::Features(_) => continue,
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {shown}");
        }
    }
    text
}

/// Fills in the placeholders of hits and query; the hits come first in a template without a placeholder for
/// them. Inserted text is not searched for placeholders. `None` if the prompt would be too large: a short
/// template can name the hits many times.
pub(super) fn fill(template: &str, query: &str, context: Option<&str>) -> Option<String> {
    let places = [(CONTEXT, context.unwrap_or_default()), (QUERY, query)];
    let mut pieces: Vec<&str> = Vec::new();
    if let Some(context) = context
        && !template.contains(CONTEXT)
    {
        pieces.extend([context, "\n"]);
    }
    let mut start = 0;
    for (at, _) in template.match_indices(['{', '@']) {
        let found = places.iter().find(|(place, _)| template[at..].starts_with(*place));
        let Some((place, text)) = found else { continue };
        pieces.extend([&template[start..at], *text]);
        start = at + place.len();
    }
    pieces.push(&template[start..]);
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    (bytes <= PROMPT_BYTES_MAX).then(|| pieces.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_query_are_put_where_the_prompt_says() {
        for (template, context, expected) in [
            ("@query", Some("a: b\n"), "a: b\n\nwhy @query?"),
            ("@query", None, "why @query?"),
            ("Be brief.", Some("a: b\n"), "a: b\n\nBe brief."),
            ("{context} @query Be brief.", Some("a: {context}\n"), "a: {context}\n why @query? Be brief."),
            ("{context}{context}", Some("x"), "xx"),
            ("{context}?", None, "?"),
            ("@que", Some(""), "\n@que"),
            ("{{context}} ä@@query{", Some("x"), "{x} ä@why @query?{"),
        ] {
            assert_eq!(fill(template, "why @query?", context).as_deref(), Some(expected), "{template}");
        }
    }

    #[test]
    fn a_prompt_has_a_bound() {
        let megabyte = "x".repeat(1 << 20);
        let bytes = |template: &str, query: &str, context: &str| {
            fill(template, query, Some(context)).map(|prompt| prompt.len())
        };
        assert_eq!(bytes(&"{context}".repeat(16), "", &megabyte), Some(PROMPT_BYTES_MAX));
        assert_eq!(bytes(&"{context}".repeat(17), "", &megabyte), None);
        assert_eq!(bytes(&"@query".repeat(17), &megabyte, ""), None);
        assert_eq!(bytes(&"{context}".repeat(100_000), "", &megabyte), None);
    }
}
