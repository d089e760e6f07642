//! Parser of `field` and `struct-field`.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{FieldDecl, FieldsetDecl, IndexAliasDecl, MatchDecl, SummaryFieldDecl};
use super::{matching, summary, types};
use crate::{Error, SourcedText};

pub(super) static FIELD: KeywordTable<FieldDecl> = KeywordTable {
    block: "field",
    kind: "element of a field",
    rows: keywords! {
        "indexing", "indexing: input title | lowercase | index", "Statements of the indexing language.", indexing;
        "attribute", "attribute: fast-search", "Settings of the field as an attribute.", attribute;
        "index", "index: enable-bm25", "Settings of the field as an index.", index;
        "match", "match: word", "How query words match the field.",
            |cursor, word, field| matching::matching(cursor, &word, &mut field.matching);
        "sorting", "sorting: descending", "Order of results that are sorted by the field.",
            |cursor, word, field| matching::sorting(cursor, &word, &mut field.sorting);
        "dictionary", "dictionary: cased", "Case of the words that queries compare.",
            |cursor, word, field| { field.dictionary = Some(matching::dictionary(cursor, &word)?); Ok(()) };
        "linguistics", "linguistics { profile: whitespace }", "The linguistic profile of the field.",
            |cursor, word, field| { field.linguistics = Some(matching::linguistics(cursor, &word)?); Ok(()) };
        "stemming", "stemming: none", "Stemming of words: none, best, shortest or multiple.",
            |cursor, _, field| { field.stemming = Some(matching::stemming(cursor)?); Ok(()) };
        "normalizing", "normalizing: none", "Removal of accents from words: none, codepoint, lowercase, accent or all.",
            normalizing;
        "bolding", "bolding: true", "Query words are bold in the summary.",
            |cursor, word, field| {
                field.bolding = Some(SourcedText { value: cursor.switch()?, position: word.position });
                Ok(())
            };
        "rank", "rank: filter", "The part of the field in ranking.",
            |cursor, word, field| matching::properties(cursor, &word, |cursor, word| FIELD_RANK.read(cursor, word, field));
        "rank-type", "rank-type: about", "The table set of rank features: identity, about, tags, empty, simple or default.",
            field_rank_type;
        "weight", "weight: 200", "The weight of the field in rank features.",
            |cursor, word, field| { field.weight = Some(cursor.number(&word, "a whole number")?); Ok(()) };
        "weightedset", "weightedset { create-if-nonexistent remove-if-zero }", "How updates change a weighted set.",
            |cursor, word, field| matching::properties(cursor, &word, |cursor, word| WEIGHTED_SET.read(cursor, word, field));
        "alias", "alias: name", "Another name of the field in queries.", |cursor, _, field| alias(cursor, field);
        "query-command", "query-command: phrase-segmenting",
            "phrase-segmenting: typed words that punctuation joins are a phrase. exact, word: typed text is one value, up to the text after exact, or a blank. Others have no effect.",
            |cursor, _, field| { field.query_commands.push(query_command(cursor)?); Ok(()) };
        // Fields are identified by name; numbers are not needed.
        "id", "id: 1001", "No effect: fields are identified by name.",
            |cursor, word, _| cursor.number::<u32>(&word, "a positive whole number").map(drop);
        "summary", "summary: dynamic", "The field in document summaries.",
            |cursor, word, field| { field.summaries.push(summary::summary(cursor, &word)?); Ok(()) };
        "summary-to", "summary-to: brief", "Document summaries that have the field.",
            |cursor, word, field| summary_to(cursor, &word, field);
        "struct-field", "struct-field name { indexing: attribute }", "Settings of a member of the field's struct.",
            |cursor, _, field| { field.struct_fields.push(struct_field(cursor)?); Ok(()) };
        "map", "map: fast-search", "No effect: entries of maps are always found by their key.",
            |cursor, word, field| matching::properties(cursor, &word, |cursor, word| MAP.read(cursor, word, field));
        unlisted:
        "header" | "body", "header", "No effect.", |_, _, _| Ok(());
    },
};

pub(super) static FIELD_RANK: KeywordTable<FieldDecl> = KeywordTable {
    block: "rank, in a field",
    kind: "rank setting",
    rows: keywords! {
        "filter", "filter", "Matches of the field are not ranked.",
            |_, _, field| { field.rank_filter = Some(field.rank_filter.unwrap_or(true)); Ok(()) };
        "normal", "normal", "Matches of the field are ranked.",
            |_, _, field| { field.rank_filter = Some(false); Ok(()) };
        "filter-threshold", "filter-threshold: 0.05", "No effect.",
            |cursor, word, _| cursor.number::<f64>(&word, "a number between 0 and 1").map(drop);
        unlisted:
        "identity", "identity", "No effect.", |_, _, _| Ok(());
        "literal", "literal", "Words of queries are also ranked as they are written, in a field with `_literal` after its name.",
            |_, word, field| { field.literal = Some(word.position); Ok(()) };
    },
};

pub(super) static WEIGHTED_SET: KeywordTable<FieldDecl> = KeywordTable {
    block: "weightedset",
    kind: "weightedset property",
    rows: keywords! {
        "create-if-nonexistent", "create-if-nonexistent", "Updates of a weight add the element if it is missing.",
            |_, _, field| { field.create_if_nonexistent = true; Ok(()) };
        "remove-if-zero", "remove-if-zero", "Updates that make a weight 0 remove the element.",
            |_, _, field| { field.remove_if_zero = true; Ok(()) };
    },
};

pub(super) static MAP: KeywordTable<FieldDecl> = KeywordTable {
    block: "map",
    kind: "map property",
    rows: keywords! {
        "fast-search", "fast-search", "No effect: entries of maps are always found by their key.", |_, _, _| Ok(());
    },
};

pub(super) static FIELDSET: KeywordTable<FieldsetDecl> = KeywordTable {
    block: "fieldset",
    kind: "element of a fieldset",
    rows: keywords! {
        "fields", "fields: title, artist", "The fields.", fieldset_fields;
        "match", "match: word", "How query words match, if the fields differ.",
            |cursor, word, fieldset| matching::matching(cursor, &word, &mut fieldset.matching);
        "query-command", "query-command: phrase-segmenting",
            "phrase-segmenting: typed words that punctuation joins are a phrase. exact, word: typed text is one value, up to the text after exact, or a blank. Others have no effect.", fieldset_command;
    },
};

/// Parses the text after `field`.
pub(super) fn field(cursor: &mut SchemaCursor<'_>) -> Result<FieldDecl, Error> {
    let name = cursor.name("field")?;
    if !cursor.eat_word("type") {
        return cursor.expected(&format!(
            "'type' and the type of the field: field {} type string {{ … }}",
            name.value
        ));
    }
    let data_type = types::field_type(cursor)?;
    body(cursor, FieldDecl::new(name, Some(data_type)))
}

/// Parses the text after `struct-field`.
fn struct_field(cursor: &mut SchemaCursor<'_>) -> Result<FieldDecl, Error> {
    let name = cursor.name("struct-field")?;
    body(cursor, FieldDecl::new(name, None))
}

fn body(cursor: &mut SchemaCursor<'_>, mut field: FieldDecl) -> Result<FieldDecl, Error> {
    if cursor.sees('{') {
        cursor.block("field", |cursor, word| FIELD.read(cursor, word, &mut field))?;
    }
    Ok(field)
}

fn indexing(cursor: &mut SchemaCursor<'_>, word: Name, field: &mut FieldDecl) -> Result<(), Error> {
    if let Some(first) = &field.indexing {
        let reason = format!("a field has one 'indexing'; there is another on line {}", first.position.line);
        return cursor.error_at(word.position, reason);
    }
    field.indexing = Some(cursor.foreign(&word)?);
    Ok(())
}

fn attribute(cursor: &mut SchemaCursor<'_>, word: Name, field: &mut FieldDecl) -> Result<(), Error> {
    own_name(cursor, field, "attribute")?;
    field.attribute.get_or_insert_default();
    matching::properties(cursor, &word, |cursor, word| matching::ATTRIBUTE.read(cursor, word, field))
}

fn index(cursor: &mut SchemaCursor<'_>, word: Name, field: &mut FieldDecl) -> Result<(), Error> {
    own_name(cursor, field, "index")?;
    matching::index(cursor, &word, field.index.get_or_insert_default())
}

fn normalizing(cursor: &mut SchemaCursor<'_>, word: Name, field: &mut FieldDecl) -> Result<(), Error> {
    matching::properties(cursor, &word, |cursor, word| {
        let forms =
            [("none", false), ("codepoint", false), ("lowercase", false), ("accent", true), ("all", true)];
        field.normalizing = Some(cursor.choose("normalizing", &word, &forms)?);
        Ok(())
    })
}

/// Parses `: type`, or `name: type`, where the field's own name may be given.
fn field_rank_type(cursor: &mut SchemaCursor<'_>, _: Name, field: &mut FieldDecl) -> Result<(), Error> {
    let other = match cursor.sees(':') {
        true => None,
        false => Some(cursor.name("rank-type")?).filter(|name| name.value != field.name.value),
    };
    if let Some(other) = &other {
        let message = format!(
            "the rank-type of '{}' has no effect: a rank-type in a field is that field's",
            other.value
        );
        cursor.warn(&other.position, &message);
    }
    cursor.expect(':')?;
    let rank_type = rank_type(cursor)?;
    if other.is_none() {
        field.rank_type = Some(rank_type);
    }
    Ok(())
}

/// Parses `attribute other_name: …` and `index other_name: …`; the name is kept as an alias of the field.
fn own_name(cursor: &mut SchemaCursor<'_>, field: &mut FieldDecl, what: &str) -> Result<(), Error> {
    if cursor.body() != ConstructBody::None {
        return Ok(());
    }
    let name = cursor.name(what)?;
    if name.value != field.name.value && !field.aliases.contains(&name.value) {
        cursor.warn(
            &name.position,
            &format!("an {what} name that differs from the field's is read as an alias; prefer a field '{}' outside the document", name.value),
        );
        field.index_names.push(name.value.clone());
        field.aliases.push(name.value);
    }
    Ok(())
}

/// Parses `summary-to: a, b`, or `summary-to name: a, b` for a summary field with another name.
fn summary_to(cursor: &mut SchemaCursor<'_>, keyword: &Name, field: &mut FieldDecl) -> Result<(), Error> {
    let name = if cursor.sees(':') { None } else { Some(cursor.name("summary")?) };
    cursor.expect(':')?;
    let to = cursor.names("document-summary")?;
    match name.filter(|name| name.value != field.name.value) {
        None => field.summary_to.extend(to),
        Some(name) => {
            field.summaries.push(SummaryFieldDecl { to, ..SummaryFieldDecl::new(Some(name), keyword) });
        }
    }
    Ok(())
}

/// Parses `alias: name`, or `alias index: name`, where the index is the field, a fieldset or another field.
fn alias(cursor: &mut SchemaCursor<'_>, field: &mut FieldDecl) -> Result<(), Error> {
    let index = if cursor.sees(':') { None } else { Some(cursor.name("index")?) };
    cursor.expect(':')?;
    let alias = cursor.name("alias")?;
    match index.filter(|index| index.value != field.name.value) {
        None => field.aliases.push(alias.value),
        Some(index) => field.index_aliases.push(IndexAliasDecl { index, alias }),
    }
    Ok(())
}

/// Parses the name of a rank type.
pub(super) fn rank_type(cursor: &mut SchemaCursor<'_>) -> Result<String, Error> {
    let written = cursor.value("a rank type")?;
    let name = Name { value: written.value.to_ascii_lowercase(), position: written.position };
    let table =
        [("identity", ()), ("about", ()), ("tags", ()), ("empty", ()), ("simple", ()), ("default", ())];
    cursor.choose("rank type", &name, &table)?;
    Ok(name.value)
}

/// Parses `: name` or `: "text"`.
pub(super) fn query_command(cursor: &mut SchemaCursor<'_>) -> Result<String, Error> {
    cursor.expect(':')?;
    Ok(cursor.value("a command")?.value)
}

/// Parses the text after `fieldset`.
pub(super) fn fieldset(cursor: &mut SchemaCursor<'_>) -> Result<FieldsetDecl, Error> {
    let name = cursor.name("fieldset")?;
    let mut fieldset =
        FieldsetDecl { name, fields: Vec::new(), matching: MatchDecl::default(), query_commands: Vec::new() };
    cursor.block("fieldset", |cursor, word| FIELDSET.read(cursor, word, &mut fieldset))?;
    Ok(fieldset)
}

fn fieldset_fields(cursor: &mut SchemaCursor<'_>, _: Name, fieldset: &mut FieldsetDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    fieldset.fields.extend(cursor.names("field")?);
    Ok(())
}

fn fieldset_command(
    cursor: &mut SchemaCursor<'_>,
    word: Name,
    fieldset: &mut FieldsetDecl,
) -> Result<(), Error> {
    let command = query_command(cursor)?;
    let has_effect = command.starts_with("phrase-segmenting")
        || command.starts_with("exact ")
        || matches!(command.as_str(), "exact" | "word");
    if !has_effect {
        cursor
            .warn(&word.position, &format!("query-command '{command}' has no effect: no searcher reads it"));
    }
    fieldset.query_commands.push(command);
    Ok(())
}
