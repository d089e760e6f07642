//! Parser of `first-phase`, `second-phase`, `global-phase`, and of lists of features.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::keyword::{KeywordRow, KeywordTable, keywords};
use super::syntax::{FeaturesDecl, PhaseDecl, TextOrFile};
use crate::{Error, SourcedText};

pub(super) static FIRST_PHASE: KeywordTable<PhaseDecl> = KeywordTable {
    block: "first-phase",
    kind: "element of first-phase",
    rows: keywords! {
        "expression", "expression: bm25(title)", "The score.", score;
        "keep-rank-count", "keep-rank-count: 1000", "Number of hits whose scores are kept.",
            |cursor, word, phase| {
                let count = cursor.number(&word, "a whole number")?;
                phase.keep_rank_count = phase.keep_rank_count.or(Some(count));
                Ok(())
            };
        "total-keep-rank-count", "total-keep-rank-count: 1000", "As keep-rank-count, over all nodes; preferred to it.",
            |cursor, word, phase| { phase.keep_rank_count = Some(cursor.number(&word, "a whole number")?); Ok(()) };
        "rank-score-drop-limit", "rank-score-drop-limit: 0.5", "Hits with this score or a lower one are dropped.", drop_limit;
    },
};

pub(super) static SECOND_PHASE: KeywordTable<PhaseDecl> =
    KeywordTable { block: "second-phase", kind: "element of second-phase", rows: LATER_PHASE };

pub(super) static GLOBAL_PHASE: KeywordTable<PhaseDecl> =
    KeywordTable { block: "global-phase", kind: "element of global-phase", rows: LATER_PHASE };

static LATER_PHASE: &[KeywordRow<PhaseDecl>] = keywords! {
    "expression", "expression: firstPhase * 2", "The score.", score;
    "rerank-count", "rerank-count: 100", "Number of hits that get this score.",
        |cursor, word, phase| {
            let count = cursor.number(&word, "a whole number")?;
            phase.rerank_count = phase.rerank_count.or(Some(count));
            Ok(())
        };
    "total-rerank-count", "total-rerank-count: 100", "As rerank-count, over all nodes; preferred to it.",
        |cursor, word, phase| { phase.rerank_count = Some(cursor.number(&word, "a whole number")?); Ok(()) };
    "rank-score-drop-limit", "rank-score-drop-limit: 0.5", "Hits with this score or a lower one are dropped.", drop_limit;
};

/// Parses the body of a phase.
pub(super) fn phase(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    elements: &KeywordTable<PhaseDecl>,
) -> Result<PhaseDecl, Error> {
    let mut phase = PhaseDecl::default();
    cursor.block(&keyword.value, |cursor, word| elements.read(cursor, word, &mut phase))?;
    Ok(phase)
}

fn score(cursor: &mut SchemaCursor<'_>, word: Name, phase: &mut PhaseDecl) -> Result<(), Error> {
    phase.expression = Some(expression(cursor, &word)?);
    Ok(())
}

fn drop_limit(cursor: &mut SchemaCursor<'_>, word: Name, phase: &mut PhaseDecl) -> Result<(), Error> {
    phase.score_drop_limit = Some(cursor.number(&word, "a number")?);
    Ok(())
}

/// Parses the text after `expression`: text, or `file:name`.
pub(super) fn expression(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<TextOrFile, Error> {
    let text = cursor.foreign(keyword)?;
    if text.value.is_empty() {
        return cursor.error_at(text.position, "the expression is empty");
    }
    Ok(match text.value.strip_prefix("file:") {
        Some(path) => TextOrFile::File(Name { value: path.trim().to_owned(), position: text.position }),
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

/// Splits a list of features at white space outside of parentheses and quotes. A feature may have white space
/// before its parentheses and around the point before its output.
fn split(text: &SourcedText<String>) -> Vec<SourcedText<String>> {
    let mut features: Vec<SourcedText<String>> = Vec::new();
    let mut position = text.position.clone();
    let mut open = 0_usize;
    let (mut quoted, mut escaped) = (false, false);
    let mut within = false;
    for c in text.value.chars() {
        let separates = c.is_whitespace() && open == 0 && !quoted;
        if !separates {
            let goes_on =
                matches!(c, '(' | '.') || features.last().is_some_and(|feature| feature.value.ends_with('.'));
            if features.is_empty() || !within && !goes_on {
                features.push(SourcedText { value: String::new(), position: position.clone() });
            }
            if let Some(feature) = features.last_mut() {
                feature.value.push(c);
            }
        }
        within = !separates;
        match c {
            _ if escaped => {}
            '"' => quoted = !quoted,
            '(' if !quoted => open += 1,
            ')' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        if c == '\n' {
            position.line += 1;
            position.column = 1;
        } else {
            position.column += 1;
        }
    }
    features
}
