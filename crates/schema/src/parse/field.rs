//! Parser of `field` and `struct-field`.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::syntax::{FieldDecl, IndexAliasDecl, MatchDecl, SummaryFieldDecl};
use super::{matching, summary, types};
use crate::{Error, SourcedText};

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
        cursor.block("field", |cursor, word| element(cursor, word, &mut field))?;
    }
    Ok(field)
}

fn element(cursor: &mut SchemaCursor<'_>, word: Name, field: &mut FieldDecl) -> Result<(), Error> {
    match word.value.as_str() {
        "indexing" => {
            if let Some(first) = &field.indexing {
                let reason =
                    format!("a field has one 'indexing'; there is another on line {}", first.place.line);
                return cursor.error_at(word.place, reason);
            }
            field.indexing = Some(cursor.foreign(&word)?);
        }
        "attribute" => {
            own_name(cursor, field, "attribute")?;
            matching::attribute(cursor, &word, field.attribute.get_or_insert_default(), &mut field.sorting)?;
        }
        "index" => {
            own_name(cursor, field, "index")?;
            matching::index(cursor, &word, field.index.get_or_insert_default())?;
        }
        "match" => matching::matching(cursor, &word, &mut field.matching)?,
        "sorting" => matching::sorting(cursor, &word, &mut field.sorting)?,
        "dictionary" => field.dictionary = Some(matching::dictionary(cursor, &word)?),
        "linguistics" => field.linguistics = Some(matching::linguistics(cursor, &word)?),
        "stemming" => field.stemming = Some(matching::stemming(cursor)?),
        "normalizing" => matching::properties(cursor, &word, |cursor, word| {
            field.normalizing = Some(cursor.choose(
                "normalizing",
                &word,
                &[
                    ("none", false),
                    ("codepoint", false),
                    ("lowercase", false),
                    ("accent", true),
                    ("all", true),
                ],
            )?);
            Ok(())
        })?,
        "bolding" => field.bolding = Some(SourcedText { value: cursor.switch()?, place: word.place }),
        "rank" => rank(cursor, &word, field)?,
        "rank-type" => {
            // The field's own name may be given.
            if !cursor.sees(':') {
                let name = cursor.name("rank-type")?;
                if name.value != field.name.value {
                    cursor.warn(
                        &name.place,
                        &format!(
                            "the rank-type of '{}' has no effect: a rank-type in a field is that field's",
                            name.value
                        ),
                    );
                    cursor.expect(':')?;
                    return rank_type(cursor).map(drop);
                }
            }
            cursor.expect(':')?;
            field.rank_type = Some(rank_type(cursor)?);
        }
        "weight" => field.weight = Some(cursor.number(&word, "a whole number")?),
        "weightedset" => matching::properties(cursor, &word, |cursor, word| {
            match word.value.as_str() {
                "create-if-nonexistent" => field.create_if_nonexistent = true,
                "remove-if-zero" => field.remove_if_zero = true,
                _ => {
                    return cursor.unknown(
                        "weightedset property",
                        &word,
                        &["create-if-nonexistent", "remove-if-zero"],
                    );
                }
            }
            Ok(())
        })?,
        "alias" => alias(cursor, field)?,
        "query-command" => field.query_commands.push(query_command(cursor)?),
        // Fields are identified by name; numbers are not needed.
        "id" => cursor.number::<u32>(&word, "a positive whole number").map(drop)?,
        "summary" => {
            let decl = summary::summary(cursor, &word)?;
            field.summaries.push(decl);
        }
        "summary-to" => summary_to(cursor, &word, field)?,
        // Entries of maps are always found by their key.
        "map" => matching::properties(cursor, &word, |cursor, word| match word.value.as_str() {
            "fast-search" => Ok(()),
            _ => cursor.unknown("map property", &word, &["fast-search"]),
        })?,
        "struct-field" => field.struct_fields.push(struct_field(cursor)?),
        "header" | "body" => {}
        _ => {
            let known = [
                "indexing",
                "attribute",
                "index",
                "match",
                "sorting",
                "dictionary",
                "linguistics",
                "stemming",
                "normalizing",
                "bolding",
                "rank",
                "rank-type",
                "weight",
                "weightedset",
                "alias",
                "query-command",
                "id",
                "summary",
                "summary-to",
                "struct-field",
                "map",
            ];
            return cursor.unknown("element of a field", &word, &known);
        }
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
            &name.place,
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

fn rank(cursor: &mut SchemaCursor<'_>, keyword: &Name, field: &mut FieldDecl) -> Result<(), Error> {
    matching::properties(cursor, keyword, |cursor, word| {
        match word.value.as_str() {
            "filter" => field.rank_filter = Some(field.rank_filter.unwrap_or(true)),
            "normal" => field.rank_filter = Some(false),
            "identity" | "literal" => {}
            "filter-threshold" => cursor.number::<f64>(&word, "a number between 0 and 1").map(drop)?,
            _ => return cursor.unknown("rank setting", &word, &["filter", "normal", "filter-threshold"]),
        }
        Ok(())
    })
}

/// Parses the name of a rank type.
pub(super) fn rank_type(cursor: &mut SchemaCursor<'_>) -> Result<String, Error> {
    let name = cursor.value("a rank type")?;
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
pub(super) fn fieldset(cursor: &mut SchemaCursor<'_>) -> Result<super::syntax::FieldsetDecl, Error> {
    let name = cursor.name("fieldset")?;
    let mut fieldset =
        super::syntax::FieldsetDecl { name, fields: Vec::new(), matching: MatchDecl::default() };
    cursor.block("fieldset", |cursor, word| {
        match word.value.as_str() {
            "fields" => {
                cursor.expect(':')?;
                fieldset.fields.extend(cursor.names("field")?);
            }
            "match" => matching::matching(cursor, &word, &mut fieldset.matching)?,
            "query-command" => {
                let place = word.place.clone();
                let command = query_command(cursor)?;
                cursor
                    .warn(&place, &format!("query-command '{command}' has no effect: no searcher reads it"));
            }
            _ => {
                return cursor.unknown("element of a fieldset", &word, &["fields", "match", "query-command"]);
            }
        }
        Ok(())
    })?;
    Ok(fieldset)
}
