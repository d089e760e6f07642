//! Parser of `document-summary`, and of `summary` inside it and in fields.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{SummaryDecl, SummaryFieldDecl, TypeDecl};
use super::types;
use crate::{Error, SummaryMode};

pub(super) static DOCUMENT_SUMMARY: KeywordTable<SummaryDecl> = KeywordTable {
    block: "document-summary",
    kind: "element of a document-summary",
    rows: keywords! {
        "summary", "summary title { source: name }", "A field of the summary.", summary_field;
        // Columns are always read from disk.
        "from-disk", "from-disk", "No effect: columns are always read from disk.", |_, _, _| Ok(());
        "omit-summary-features", "omit-summary-features", "The summary has no summary features.",
            |_, _, decl| { decl.omit_summary_features = true; Ok(()) };
    },
};

pub(super) static SUMMARY: KeywordTable<SummaryFieldDecl> = KeywordTable {
    block: "summary",
    kind: "summary property",
    rows: keywords! {
        "full" | "static", "full", "The whole value.",
            |_, _, decl| { decl.mode = Some(SummaryMode::Full); Ok(()) };
        "dynamic", "dynamic", "Snippets around the words of the query.",
            |_, _, decl| {
                // Beside a selection of elements both are meant; another form is replaced.
                decl.mode = Some(match decl.mode.take() {
                    None | Some(SummaryMode::Tokens) => SummaryMode::Dynamic,
                    Some(mode) => mode.with_snippets(true),
                });
                Ok(())
            };
        "matched-elements-only", "matched-elements-only", "The elements that match the query.",
            |_, _, decl| {
                decl.mode = Some(SummaryMode::MatchedElements { dynamic: is_dynamic(decl) });
                Ok(())
            };
        "select-elements-by", "select-elements-by: best_parts", "The elements that a summary feature names.",
            |cursor, _, decl| {
                cursor.expect(':')?;
                let feature = cursor.line("select-elements-by")?.value;
                decl.mode = Some(SummaryMode::SelectElementsBy { feature, dynamic: is_dynamic(decl) });
                Ok(())
            };
        "tokens", "tokens", "The words that are searched.",
            |_, _, decl| { decl.mode = Some(SummaryMode::Tokens); Ok(()) };
        "bolding", "bolding: true", "Query words are bold.",
            |cursor, _, decl| { decl.bolding = Some(cursor.switch()?); Ok(()) };
        "source", "source: title, artist", "The fields with the value.",
            |cursor, _, decl| { cursor.expect(':')?; decl.sources.extend(cursor.names("source field")?); Ok(()) };
        "to", "to: brief", "Document summaries that have the field.",
            |cursor, _, decl| { cursor.expect(':')?; decl.to.extend(cursor.names("document-summary")?); Ok(()) };
    },
};

/// True if snippets are declared before this.
fn is_dynamic(decl: &SummaryFieldDecl) -> bool {
    decl.mode.as_ref().is_some_and(SummaryMode::is_dynamic)
}

/// Parses the text after `document-summary`.
pub(super) fn document_summary(cursor: &mut SchemaCursor<'_>) -> Result<SummaryDecl, Error> {
    let name = cursor.name("document-summary")?;
    let inherits = cursor.inherits("document-summary")?;
    let mut decl = SummaryDecl { name, inherits, omit_summary_features: false, fields: Vec::new() };
    cursor.block("document-summary", |cursor, word| DOCUMENT_SUMMARY.read(cursor, word, &mut decl))?;
    Ok(decl)
}

fn summary_field(cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut SummaryDecl) -> Result<(), Error> {
    let field = summary(cursor, &word)?;
    if field.name.is_none() {
        return cursor
            .error_at(field.position, "a summary in a document-summary needs a name: summary title {}");
    }
    if let Some(to) = field.to.iter().find(|to| to.value != decl.name.value) {
        cursor.warn(&to.position, "'to' has no effect here: this summary is in its document-summary already");
    }
    decl.fields.push(field);
    Ok(())
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
        ConstructBody::Block => {
            cursor.block("summary", |cursor, word| SUMMARY.read(cursor, word, &mut decl))?
        }
        ConstructBody::Line => {
            cursor.expect(':')?;
            match cursor.word() {
                Some(word) => SUMMARY.read(cursor, word, &mut decl)?,
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
