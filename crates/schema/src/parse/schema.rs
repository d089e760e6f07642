//! Parser of `schema` (or `search`), `document`, `struct`.

use super::cursor::{Name, SchemaCursor};
use super::syntax::{DocumentDecl, SchemaDecl, StructDecl};
use super::{field, matching, model, profile, summary};
use crate::Error;

/// Parses a schema file: a schema, or a separate document.
pub(super) fn file(cursor: &mut SchemaCursor<'_>) -> Result<SchemaDecl, Error> {
    match cursor.word() {
        Some(word) if matches!(word.value.as_str(), "schema" | "search") => schema(cursor),
        Some(word) if word.value == "document" => {
            let document = document(cursor, None)?;
            let mut schema = empty(document.name.clone(), None);
            schema.document = Some(document);
            Ok(schema)
        }
        Some(word) => cursor.unknown("element", &word, &["schema", "document"]),
        None => cursor.expected("'schema name { … }'"),
    }
}

fn empty(name: Name, inherits: Option<Name>) -> SchemaDecl {
    SchemaDecl {
        name,
        inherits,
        document: None,
        structs: Vec::new(),
        fields: Vec::new(),
        indexes: Vec::new(),
        fieldsets: Vec::new(),
        summaries: Vec::new(),
        profiles: Vec::new(),
        constants: Vec::new(),
        onnx_models: Vec::new(),
        stemming: None,
        raw_as_base64: None,
    }
}

fn schema(cursor: &mut SchemaCursor<'_>) -> Result<SchemaDecl, Error> {
    let name = cursor.name("schema")?;
    let inherits = if cursor.eat_word("inherits") { Some(cursor.name("schema")?) } else { None };
    let mut schema = empty(name, inherits);
    cursor.block("schema", |cursor, word| element(cursor, word, &mut schema))?;
    Ok(schema)
}

fn element(cursor: &mut SchemaCursor<'_>, word: Name, schema: &mut SchemaDecl) -> Result<(), Error> {
    match word.value.as_str() {
        "document" => {
            let document = document(cursor, Some(&schema.name))?;
            if let Some(first) = &schema.document {
                let reason = format!("a schema has one document: the first is at {}", first.name.place);
                return cursor.error_at(document.name.place, reason);
            }
            schema.document = Some(document);
        }
        "field" => schema.fields.push(field::field(cursor)?),
        "fieldset" => schema.fieldsets.push(field::fieldset(cursor)?),
        "index" => {
            let name = cursor.name("index")?;
            let mut decl = super::syntax::IndexDecl::default();
            matching::index(cursor, &word, &mut decl)?;
            schema.indexes.push((name, decl));
        }
        "rank-profile" | "model" => schema.profiles.push(profile::rank_profile(cursor, None)?),
        "document-summary" => schema.summaries.push(summary::document_summary(cursor)?),
        "constant" => schema.constants.push(model::constant(cursor)?),
        "constants" => model::constants(cursor, &mut schema.constants)?,
        "onnx-model" => schema.onnx_models.push(model::onnx_model(cursor)?),
        "stemming" => schema.stemming = Some(matching::stemming(cursor)?),
        "raw-as-base64-in-summary" => {
            schema.raw_as_base64 = Some(if cursor.sees(':') { cursor.switch()? } else { true });
        }
        "documentid" => {
            cursor.expect(':')?;
            let setting = cursor.value("'from-disk' or 'attribute'")?;
            // Ids are a column like any other and always read on demand.
            cursor.choose("documentid setting", &setting, &[("from-disk", ()), ("attribute", ())])?;
        }
        "annotation" => annotation(cursor, &word)?,
        "import" => {
            let reason = "imported fields are not supported, since streamed documents have no references to others: \
                          feed the value with the document itself";
            return cursor.error_at(word.place, reason);
        }
        "struct" => schema.structs.push(struct_type(cursor)?),
        _ => {
            let known = [
                "document",
                "field",
                "struct",
                "fieldset",
                "index",
                "rank-profile",
                "document-summary",
                "constant",
                "onnx-model",
                "stemming",
                "raw-as-base64-in-summary",
                "documentid",
                "annotation",
                "import",
            ];
            return cursor.unknown("element of a schema", &word, &known);
        }
    }
    Ok(())
}

fn document(cursor: &mut SchemaCursor<'_>, schema: Option<&Name>) -> Result<DocumentDecl, Error> {
    let name = match schema {
        Some(schema) if cursor.sees('{') => schema.clone(),
        _ => cursor.name("document")?,
    };
    if let Some(schema) = schema.filter(|schema| schema.value != name.value) {
        let reason =
            format!("the document of schema '{0}' is named '{0}', not '{1}'", schema.value, name.value);
        return cursor.error_at(name.place, reason);
    }
    let inherits = cursor.inherits("document")?;
    let mut document = DocumentDecl { name, inherits, structs: Vec::new(), fields: Vec::new() };
    if cursor.sees('{') {
        cursor.block("document", |cursor, word| {
            match word.value.as_str() {
                "field" => document.fields.push(field::field(cursor)?),
                "struct" => document.structs.push(struct_type(cursor)?),
                "compression" => {
                    cursor.block_text("compression")?;
                    cursor
                        .warn(&word.place, "compression has no effect: columns are stored in their own form");
                }
                "annotation" => annotation(cursor, &word)?,
                "import" => {
                    return cursor.error_at(
                        word.place,
                        "imported fields are not supported: feed the value with the document itself",
                    );
                }
                _ => {
                    let known = ["field", "struct", "compression", "annotation"];
                    let outside = ["fieldset", "rank-profile", "document-summary", "constant", "onnx-model"];
                    if outside.contains(&word.value.as_str()) {
                        let reason = format!(
                            "'{}' belongs to the schema: move it out of the document block",
                            word.value
                        );
                        return cursor.error_at(word.place, reason);
                    }
                    return cursor.unknown("element of a document", &word, &known);
                }
            }
            Ok(())
        })?;
    }
    Ok(document)
}

fn struct_type(cursor: &mut SchemaCursor<'_>) -> Result<StructDecl, Error> {
    let name = cursor.name("struct")?;
    let inherits = cursor.inherits("struct")?;
    let mut decl = StructDecl { name, inherits, fields: Vec::new() };
    cursor.block("struct", |cursor, word| {
        if word.value != "field" {
            return cursor.unknown("element of a struct", &word, &["field"]);
        }
        decl.fields.push(field::field(cursor)?);
        Ok(())
    })?;
    Ok(decl)
}

fn annotation(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<(), Error> {
    cursor.name("annotation")?;
    cursor.inherits("annotation")?;
    if cursor.sees('{') {
        cursor.block_text("annotation")?;
    }
    cursor.warn(&keyword.place, "annotation has no effect: only document processors make annotations");
    Ok(())
}
