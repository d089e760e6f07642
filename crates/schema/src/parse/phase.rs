//! Parser of `first-phase`, `second-phase`, `global-phase`, and of lists of features.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::syntax::{FeaturesDecl, PhaseDecl, TextOrFile};
use crate::{Error, SourcedText};

/// Parses the body of a phase.
pub(super) fn phase(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<PhaseDecl, Error> {
    let mut phase = PhaseDecl::default();
    cursor.block(&keyword.value, |cursor, word| {
        let first = keyword.value == "first-phase";
        match word.value.as_str() {
            "expression" => phase.expression = Some(expression(cursor, &word)?),
            "rank-score-drop-limit" => phase.score_drop_limit = Some(cursor.number(&word, "a number")?),
            "keep-rank-count" if first => {
                let count = cursor.number(&word, "a whole number")?;
                phase.keep_rank_count = phase.keep_rank_count.or(Some(count));
            }
            "total-keep-rank-count" if first => {
                phase.keep_rank_count = Some(cursor.number(&word, "a whole number")?)
            }
            "rerank-count" if !first => {
                let count = cursor.number(&word, "a whole number")?;
                phase.rerank_count = phase.rerank_count.or(Some(count));
            }
            "total-rerank-count" if !first => {
                phase.rerank_count = Some(cursor.number(&word, "a whole number")?)
            }
            _ if first => {
                let known =
                    ["expression", "keep-rank-count", "total-keep-rank-count", "rank-score-drop-limit"];
                return cursor.unknown("element of first-phase", &word, &known);
            }
            _ => {
                let known = ["expression", "rerank-count", "total-rerank-count", "rank-score-drop-limit"];
                return cursor.unknown(&format!("element of {}", keyword.value), &word, &known);
            }
        }
        Ok(())
    })?;
    Ok(phase)
}

/// Parses the text after `expression`: text, or `file:name`.
pub(super) fn expression(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<TextOrFile, Error> {
    let text = cursor.foreign(keyword)?;
    if text.value.is_empty() {
        return cursor.error_at(text.place, "the expression is empty");
    }
    Ok(match text.value.strip_prefix("file:") {
        Some(path) => TextOrFile::File(Name { value: path.trim().to_owned(), place: text.place }),
        None => TextOrFile::Text(text),
    })
}

/// Parses the text after `match-features` and similar keywords: `: a b`, or `inherits p { a b }`.
pub(super) fn features(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<FeaturesDecl, Error> {
    let inherits = cursor.inherits("rank-profile")?;
    let text = match cursor.body() {
        ConstructBody::None if !inherits.is_empty() => None,
        ConstructBody::Line => {
            cursor.expect(':')?;
            // An empty list removes the inherited features.
            if cursor.sees_more_in_line() { Some(cursor.line(&keyword.value)?) } else { None }
        }
        ConstructBody::Block | ConstructBody::None => Some(cursor.foreign(keyword)?),
    };
    let Some(text) = text else { return Ok(FeaturesDecl { inherits, features: Vec::new() }) };
    Ok(FeaturesDecl { inherits, features: split(&text) })
}

/// Splits a list of features at white space outside of parentheses and quotes.
fn split(text: &SourcedText<String>) -> Vec<SourcedText<String>> {
    let mut features: Vec<SourcedText<String>> = Vec::new();
    let mut place = text.place.clone();
    let mut open = 0_usize;
    let mut quoted = false;
    let mut within = false;
    for c in text.value.chars() {
        let separates = c.is_whitespace() && open == 0 && !quoted;
        if !separates {
            if !within {
                features.push(SourcedText { value: String::new(), place: place.clone() });
            }
            if let Some(feature) = features.last_mut() {
                feature.value.push(c);
            }
        }
        within = !separates;
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => open += 1,
            ')' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
        if c == '\n' {
            place.line += 1;
            place.column = 1;
        } else {
            place.column += 1;
        }
    }
    features
}
