//! Parser of `document-summary`, and of `summary` inside it and in fields.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::syntax::{SummaryDecl, SummaryFieldDecl, TypeDecl};
use super::types;
use crate::{Error, SummaryMode};

/// Parses the text after `document-summary`.
pub(super) fn document_summary(cursor: &mut SchemaCursor<'_>) -> Result<SummaryDecl, Error> {
    let name = cursor.name("document-summary")?;
    let inherits = cursor.inherits("document-summary")?;
    let mut decl = SummaryDecl { name, inherits, omit_summary_features: false, fields: Vec::new() };
    cursor.block("document-summary", |cursor, word| {
        match word.value.as_str() {
            "summary" => {
                let field = summary(cursor, &word)?;
                if field.name.is_none() {
                    return cursor.error_at(
                        field.place,
                        "a summary in a document-summary needs a name: summary title {}",
                    );
                }
                if let Some(to) = field.to.iter().find(|to| to.value != decl.name.value) {
                    cursor.warn(
                        &to.place,
                        "'to' has no effect here: this summary is in its document-summary already",
                    );
                }
                decl.fields.push(field);
            }
            // Columns are always read from disk.
            "from-disk" => {}
            "omit-summary-features" => decl.omit_summary_features = true,
            _ => {
                return cursor.unknown(
                    "element of a document-summary",
                    &word,
                    &["summary", "from-disk", "omit-summary-features"],
                );
            }
        }
        Ok(())
    })?;
    Ok(decl)
}

/// Parses the text after `summary`: `: dynamic`, `title type string { … }`, `title: dynamic`, `{ … }`.
pub(super) fn summary(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<SummaryFieldDecl, Error> {
    let name = match cursor.body() {
        ConstructBody::None => Some(cursor.name("summary")?),
        ConstructBody::Line | ConstructBody::Block => None,
    };
    let mut decl = SummaryFieldDecl::new(name, keyword);
    if cursor.eat_word("type") {
        // The type is that of the source, which older schemas repeat here. Only positions can be shown in
        // two ways.
        decl.of_positions = is_position(&types::field_type(cursor)?);
    }
    match cursor.body() {
        ConstructBody::Block => cursor.block("summary", |cursor, word| property(cursor, word, &mut decl))?,
        ConstructBody::Line => {
            cursor.expect(':')?;
            match cursor.word() {
                Some(word) => property(cursor, word, &mut decl)?,
                None => return cursor.expected("a summary property, such as 'dynamic'"),
            }
        }
        ConstructBody::None => {}
    }
    Ok(decl)
}

fn is_position(data_type: &TypeDecl) -> bool {
    match data_type {
        TypeDecl::Named(name) => name.value == "position",
        TypeDecl::Array(element) => is_position(element),
        _ => false,
    }
}

fn property(cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut SummaryFieldDecl) -> Result<(), Error> {
    match word.value.as_str() {
        "full" | "static" => decl.mode = Some(SummaryMode::Full),
        "dynamic" => decl.mode = Some(SummaryMode::Dynamic),
        "matched-elements-only" => decl.mode = Some(SummaryMode::MatchedElements),
        "tokens" => decl.mode = Some(SummaryMode::Tokens),
        "select-elements-by" => {
            cursor.expect(':')?;
            decl.mode = Some(SummaryMode::SelectElementsBy(cursor.line("select-elements-by")?.value));
        }
        "bolding" => decl.bolding = Some(cursor.switch()?),
        "source" => {
            cursor.expect(':')?;
            decl.sources.extend(cursor.names("source field")?);
        }
        "to" => {
            cursor.expect(':')?;
            decl.to.extend(cursor.names("document-summary")?);
        }
        _ => {
            let known = [
                "full",
                "dynamic",
                "matched-elements-only",
                "select-elements-by",
                "tokens",
                "bolding",
                "source",
                "to",
            ];
            return cursor.unknown("summary property", &word, &known);
        }
    }
    Ok(())
}
