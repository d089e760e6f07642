//! Parser of schema files: text to [`SchemaDecl`], with one module per construct.
//!
//! The language is regular: a keyword, usually a name, then `: value` to the end of the line or `{ … }`.
//! Embedded text of other languages (ranking expressions, indexing statements) is kept with its location.

mod cursor;
mod field;
mod keyword;
mod matching;
mod model;
mod phase;
mod profile;
mod schema;
mod summary;
pub(crate) mod syntax;
mod types;

#[cfg(test)]
mod documentation_tests;
#[cfg(test)]
mod keyword_tests;

use cursor::SchemaCursor;
pub(crate) use cursor::{Name, closing_quote};
pub use keyword::{SchemaBlock, SchemaKeyword};
use syntax::{ProfileDecl, SchemaDecl};

use crate::Error;

/// Maximum size of a schema file in bytes.
const FILE_SIZE_MAX: usize = 4 << 20;

/// Parses a schema (or document) file; adds its warnings to `warnings`.
pub(crate) fn schema_file(file: &str, text: &str, warnings: &mut Vec<String>) -> Result<SchemaDecl, Error> {
    read(file, text, warnings, schema::file)
}

/// Parses a `.profile` file.
pub(crate) fn profile_file(file: &str, text: &str, warnings: &mut Vec<String>) -> Result<ProfileDecl, Error> {
    read(file, text, warnings, profile::file)
}

/// The keywords of schema files, block by block.
pub fn schema_blocks() -> Vec<SchemaBlock> {
    vec![
        schema::FILE.documented(),
        schema::SCHEMA.documented(),
        schema::DOCUMENT.documented(),
        schema::STRUCT.documented(),
        types::TYPES.documented(),
        field::FIELD.documented(),
        matching::MATCH.documented(),
        matching::INDEX.documented(),
        matching::HNSW.documented(),
        matching::ATTRIBUTE.documented(),
        matching::SORTING.documented(),
        matching::DICTIONARY.documented(),
        matching::LINGUISTICS.documented(),
        matching::LINGUISTICS_SIDES.documented(),
        field::FIELD_RANK.documented(),
        field::WEIGHTED_SET.documented(),
        field::MAP.documented(),
        summary::SUMMARY.documented(),
        field::FIELDSET.documented(),
        summary::DOCUMENT_SUMMARY.documented(),
        model::CONSTANT.documented(),
        model::OLD_CONSTANT.documented(),
        model::ONNX_MODEL.documented(),
        profile::PROFILE.documented(),
        profile::FUNCTION.documented(),
        phase::FIRST_PHASE.documented(),
        phase::SECOND_PHASE.documented(),
        phase::GLOBAL_PHASE.documented(),
        profile::PROFILE_RANK.documented(),
        profile::DIVERSITY.documented(),
        profile::MATCH_PHASE.documented(),
        profile::SIGNIFICANCE.documented(),
        profile::WEAK_AND.documented(),
    ]
}

fn read<T>(
    file: &str,
    text: &str,
    warnings: &mut Vec<String>,
    parse: impl FnOnce(&mut SchemaCursor<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut cursor = SchemaCursor::new(file, text.get(..text.len().min(FILE_SIZE_MAX)).unwrap_or_default());
    if text.len() > FILE_SIZE_MAX {
        let position = cursor.position();
        return cursor.error_at(
            position,
            format!("larger than {FILE_SIZE_MAX} bytes: split it into several schemas or profiles"),
        );
    }
    let parsed = parse(&mut cursor)?;
    if !cursor.at_end() {
        return cursor.expected("the end of the file");
    }
    warnings.extend(cursor.into_warnings());
    Ok(parsed)
}
