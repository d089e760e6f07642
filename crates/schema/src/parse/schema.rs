//! Parser of `schema` (or `search`), `document`, `struct`.

use super::cursor::{Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{DocumentDecl, IndexDecl, SchemaDecl, StructDecl};
use super::{field, matching, model, profile, summary};
use crate::Error;

pub(super) static FILE: KeywordTable<Option<SchemaDecl>> = KeywordTable {
    block: "schema file",
    kind: "element",
    rows: keywords! {
        "schema" | "search", "schema song { document song { } }", "A schema.",
            |cursor, _, file| { *file = Some(schema(cursor)?); Ok(()) };
        "document", "document song { field title type string { } }", "A document type in a file of its own.",
            |cursor, _, file| { *file = Some(separate_document(cursor)?); Ok(()) };
    },
};

pub(super) static SCHEMA: KeywordTable<SchemaDecl> = KeywordTable {
    block: "schema",
    kind: "element of a schema",
    rows: keywords! {
        "document", "document song { field title type string { } }",
            "The document type, with the name of the schema.", schema_document;
        "field", "field length type int { indexing: input title | to_int | attribute }",
            "A field that is computed from those of the document.",
            |cursor, _, schema| { schema.fields.push(field::field(cursor)?); Ok(()) };
        "struct", "struct person { field name type string { } }", "A type with members.",
            |cursor, _, schema| { schema.structs.push(struct_type(cursor)?); Ok(()) };
        "fieldset", "fieldset default { fields: title, artist }", "Fields that are searched by one name.",
            |cursor, _, schema| { schema.fieldsets.push(field::fieldset(cursor)?); Ok(()) };
        "index", "index title: enable-bm25", "Settings of the index of a field.", schema_index;
        "rank-profile" | "model", "rank-profile popular { first-phase { expression: attribute(plays) } }",
            "The definition of the scores.",
            |cursor, _, schema| { schema.profiles.push(profile::rank_profile(cursor, None)?); Ok(()) };
        "document-summary", "document-summary brief { summary title { } }", "The fields shown of a hit.",
            |cursor, _, schema| { schema.summaries.push(summary::document_summary(cursor)?); Ok(()) };
        "constant", "constant weights { file: constants/weights.json type: tensor(x[3]) }",
            "A constant of ranking expressions, whose value is in a file.",
            |cursor, _, schema| { schema.constants.push(model::constant(cursor)?); Ok(()) };
        "onnx-model", "onnx-model rerank { file: models/rerank.onnx }", "A model that ranking expressions call.",
            |cursor, _, schema| { schema.onnx_models.push(model::onnx_model(cursor)?); Ok(()) };
        "stemming", "stemming: none", "Stemming of the fields that do not set it: none, best, shortest or multiple.",
            |cursor, _, schema| { schema.stemming = Some(matching::stemming(cursor)?); Ok(()) };
        "raw-as-base64-in-summary", "raw-as-base64-in-summary: true", "Values of type raw are base64 in results.",
            raw_as_base64;
        "documentid", "documentid: attribute", "No effect: ids are a column like any other.", document_id;
        "annotation", "annotation person { }", "No effect: only document processors make annotations.",
            |cursor, word, _| annotation(cursor, &word);
        "import", "import field artist_ref.name as artist_name { }",
            "An error: streamed documents have no references to others.", schema_import;
        unlisted:
        "constants", "constants { weight: 0.5 }", "Constants of ranking expressions.",
            |cursor, _, schema| model::constants(cursor, &mut schema.constants);
    },
};

pub(super) static DOCUMENT: KeywordTable<DocumentDecl> = KeywordTable {
    block: "document",
    kind: "element of a document",
    rows: keywords! {
        "field", "field title type string { indexing: index | summary }", "A field of the documents.",
            |cursor, _, document| { document.fields.push(field::field(cursor)?); Ok(()) };
        "struct", "struct person { field name type string { } }", "A type with members.",
            |cursor, _, document| { document.structs.push(struct_type(cursor)?); Ok(()) };
        "compression", "compression { type: lz4 }", "No effect: columns are stored in their own form.", compression;
        "annotation", "annotation person { }", "No effect: only document processors make annotations.",
            |cursor, word, _| annotation(cursor, &word);
        unlisted:
        "import", "import field artist_ref.name as artist_name { }",
            "An error: streamed documents have no references to others.", document_import;
        "fieldset" | "rank-profile" | "document-summary" | "constant" | "onnx-model", "fieldset default { }",
            "An error: these belong to the schema.", outside_document;
    },
};

pub(super) static STRUCT: KeywordTable<StructDecl> = KeywordTable {
    block: "struct",
    kind: "element of a struct",
    rows: keywords! {
        "field", "field name type string { }", "A member.",
            |cursor, _, decl| { decl.fields.push(field::field(cursor)?); Ok(()) };
    },
};

/// Parses a schema file: a schema, or a separate document.
pub(super) fn file(cursor: &mut SchemaCursor<'_>) -> Result<SchemaDecl, Error> {
    let mut file = None;
    if let Some(word) = cursor.word() {
        FILE.read(cursor, word, &mut file)?;
    }
    match file {
        Some(file) => Ok(file),
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
    cursor.block("schema", |cursor, word| SCHEMA.read(cursor, word, &mut schema))?;
    Ok(schema)
}

fn separate_document(cursor: &mut SchemaCursor<'_>) -> Result<SchemaDecl, Error> {
    let document = document(cursor, None)?;
    let mut schema = empty(document.name.clone(), None);
    schema.document = Some(document);
    Ok(schema)
}

fn schema_document(cursor: &mut SchemaCursor<'_>, _: Name, schema: &mut SchemaDecl) -> Result<(), Error> {
    let document = document(cursor, Some(&schema.name))?;
    if let Some(first) = &schema.document {
        let reason = format!("a schema has one document: the first is at {}", first.name.position);
        return cursor.error_at(document.name.position, reason);
    }
    schema.document = Some(document);
    Ok(())
}

fn schema_index(cursor: &mut SchemaCursor<'_>, word: Name, schema: &mut SchemaDecl) -> Result<(), Error> {
    let name = cursor.name("index")?;
    let mut decl = IndexDecl::default();
    matching::index(cursor, &word, &mut decl)?;
    schema.indexes.push((name, decl));
    Ok(())
}

fn raw_as_base64(cursor: &mut SchemaCursor<'_>, _: Name, schema: &mut SchemaDecl) -> Result<(), Error> {
    schema.raw_as_base64 = Some(if cursor.sees(':') { cursor.switch()? } else { true });
    Ok(())
}

fn document_id(cursor: &mut SchemaCursor<'_>, _: Name, _: &mut SchemaDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    let setting = cursor.value("'from-disk' or 'attribute'")?;
    // Ids are a column like any other and always read on demand.
    cursor.choose("documentid setting", &setting, &[("from-disk", ()), ("attribute", ())])
}

fn schema_import(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut SchemaDecl) -> Result<(), Error> {
    let reason = "imported fields are not supported, since streamed documents have no references to others: \
                  feed the value with the document itself";
    cursor.error_at(word.position, reason)
}

fn document(cursor: &mut SchemaCursor<'_>, schema: Option<&Name>) -> Result<DocumentDecl, Error> {
    let name = match schema {
        Some(schema) if cursor.sees('{') => schema.clone(),
        _ => cursor.name("document")?,
    };
    if let Some(schema) = schema.filter(|schema| schema.value != name.value) {
        let reason =
            format!("the document of schema '{0}' is named '{0}', not '{1}'", schema.value, name.value);
        return cursor.error_at(name.position, reason);
    }
    let inherits = cursor.inherits("document")?;
    let mut document = DocumentDecl { name, inherits, structs: Vec::new(), fields: Vec::new() };
    if cursor.sees('{') {
        cursor.block("document", |cursor, word| DOCUMENT.read(cursor, word, &mut document))?;
    }
    Ok(document)
}

fn compression(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut DocumentDecl) -> Result<(), Error> {
    cursor.block_text("compression")?;
    cursor.warn(&word.position, "compression has no effect: columns are stored in their own form");
    Ok(())
}

fn document_import(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut DocumentDecl) -> Result<(), Error> {
    cursor
        .error_at(word.position, "imported fields are not supported: feed the value with the document itself")
}

fn outside_document(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut DocumentDecl) -> Result<(), Error> {
    let reason = format!("'{}' belongs to the schema: move it out of the document block", word.value);
    cursor.error_at(word.position, reason)
}

fn struct_type(cursor: &mut SchemaCursor<'_>) -> Result<StructDecl, Error> {
    let name = cursor.name("struct")?;
    let inherits = cursor.inherits("struct")?;
    let mut decl = StructDecl { name, inherits, fields: Vec::new() };
    cursor.block("struct", |cursor, word| STRUCT.read(cursor, word, &mut decl))?;
    Ok(decl)
}

fn annotation(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<(), Error> {
    cursor.name("annotation")?;
    cursor.inherits("annotation")?;
    if cursor.sees('{') {
        cursor.block_text("annotation")?;
    }
    cursor.warn(&keyword.position, "annotation has no effect: only document processors make annotations");
    Ok(())
}
