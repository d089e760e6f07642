//! Parser of schema files: text to [`SchemaDecl`], with one module per construct.
//!
//! The language is regular: a keyword, usually a name, then `: value` to the end of the line or `{ … }`.
//! Embedded text of other languages (ranking expressions, indexing statements) is kept with its location.

mod cursor;
mod field;
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

pub(crate) use cursor::Name;
use cursor::SchemaCursor;
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

fn read<T>(
    file: &str,
    text: &str,
    warnings: &mut Vec<String>,
    parse: impl FnOnce(&mut SchemaCursor<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut cursor = SchemaCursor::new(file, text.get(..text.len().min(FILE_SIZE_MAX)).unwrap_or_default());
    if text.len() > FILE_SIZE_MAX {
        let place = cursor.place();
        return cursor.error_at(
            place,
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
