//! Parser of `match`, `index`, `attribute`, `sorting`, `dictionary`, `linguistics`: matching and order of a
//! field.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::syntax::{AttributeDecl, IndexDecl, MatchDecl};
use crate::{
    DefaultTerm, DictionarySettings, DistanceMetric, Error, FieldStemming, LinguisticsProfile, MatchMode,
    SourcedText,
};

/// Parses `: property` or `{ property … }`; calls `property` with the first word of each.
pub(super) fn properties(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    mut property: impl FnMut(&mut SchemaCursor<'_>, Name) -> Result<(), Error>,
) -> Result<(), Error> {
    match cursor.body() {
        ConstructBody::Block => cursor.block(&keyword.value, property),
        ConstructBody::Line => {
            cursor.expect(':')?;
            match cursor.word() {
                Some(word) => property(cursor, word),
                None => cursor.expected(&format!("a property of '{}'", keyword.value)),
            }
        }
        ConstructBody::None => cursor.expected(&format!("':' or '{{' after '{}'", keyword.value)),
    }
}

pub(super) fn matching(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    decl: &mut MatchDecl,
) -> Result<(), Error> {
    decl.place = Some(keyword.place.clone());
    properties(cursor, keyword, |cursor, word| {
        match word.value.as_str() {
            "text" | "token" => decl.mode = Some(MatchMode::Text),
            "word" => decl.mode = Some(MatchMode::Word),
            "exact" => decl.mode = Some(MatchMode::Exact),
            "gram" => decl.mode = Some(MatchMode::Gram { size: 2 }),
            "gram-size" => {
                let size: usize = cursor.number(&word, "a number")?;
                if !(1..=16).contains(&size) {
                    return cursor.error_at(word.place, "gram-size is between 1 and 16");
                }
                decl.gram_size = Some(size);
            }
            "cased" => decl.cased = true,
            "uncased" => decl.cased = false,
            "prefix" => decl.default_term = Some(DefaultTerm::Prefix),
            "substring" => decl.default_term = Some(DefaultTerm::Substring),
            "suffix" => decl.default_term = Some(DefaultTerm::Suffix),
            "exact-terminator" => {
                cursor.expect(':')?;
                decl.exact_terminator = Some(cursor.value("the terminator in quotes")?.value);
            }
            "max-length" => decl.max_length = Some(cursor.number(&word, "a number of characters")?),
            "max-occurrences" => decl.max_occurrences = Some(cursor.number(&word, "a number")?),
            "max-token-length" => {
                decl.max_token_length = Some(cursor.number(&word, "a number of characters")?)
            }
            _ => {
                let known = [
                    "text",
                    "word",
                    "exact",
                    "gram",
                    "gram-size",
                    "cased",
                    "uncased",
                    "prefix",
                    "substring",
                    "suffix",
                    "exact-terminator",
                    "max-length",
                    "max-occurrences",
                    "max-token-length",
                ];
                return cursor.unknown("match property", &word, &known);
            }
        }
        Ok(())
    })?;
    if let (Some(MatchMode::Gram { size }), Some(wanted)) = (&mut decl.mode, decl.gram_size) {
        *size = wanted;
    }
    Ok(())
}

/// Parses the settings of an index; after `:`, several may be given in a list.
pub(super) fn index(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    decl: &mut IndexDecl,
) -> Result<(), Error> {
    let in_line = cursor.body() == ConstructBody::Line;
    index_properties(cursor, keyword, decl)?;
    while in_line && cursor.eat(',') {
        let Some(word) = cursor.word() else { return cursor.expected("a property of 'index'") };
        index_property(cursor, word, decl)?;
    }
    Ok(())
}

fn index_properties(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    decl: &mut IndexDecl,
) -> Result<(), Error> {
    properties(cursor, keyword, |cursor, word| index_property(cursor, word, decl))
}

fn index_property(cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut IndexDecl) -> Result<(), Error> {
    match word.value.as_str() {
        "enable-bm25" => decl.enable_bm25 = true,
        "stemming" => decl.stemming = Some(stemming(cursor)?),
        "alias" => {
            cursor.expect(':')?;
            decl.aliases.push(cursor.name("alias")?.value);
        }
        // Words can always be searched by prefix.
        "prefix" => {}
        "hnsw" => {
            decl.hnsw = Some(word.place.clone());
            if cursor.sees('{') {
                cursor.block("hnsw", |cursor, word| {
                    let known =
                        ["max-links-per-node", "neighbors-to-explore-at-insert", "multi-threaded-indexing"];
                    match word.value.as_str() {
                        "multi-threaded-indexing" => cursor.switch().map(drop),
                        name if known.contains(&name) => cursor.number::<u32>(&word, "a number").map(drop),
                        _ => cursor.unknown("hnsw parameter", &word, &known),
                    }
                })?;
            }
        }
        "lower-bound" | "upper-bound" => {
            cursor.expect(':')?;
            let bound = cursor.value("a whole number")?;
            if bound.value.strip_suffix('L').unwrap_or(&bound.value).parse::<i64>().is_err() {
                let reason = format!("'{}' is not a whole number, which '{}' needs", bound.value, word.value);
                return cursor.error_at(bound.place, reason);
            }
        }
        "arity" | "dense-posting-list-threshold" => {
            cursor.number::<f64>(&word, "a number")?;
        }
        _ => {
            let known = [
                "enable-bm25",
                "stemming",
                "alias",
                "prefix",
                "hnsw",
                "arity",
                "lower-bound",
                "upper-bound",
                "dense-posting-list-threshold",
            ];
            return cursor.unknown("index property", &word, &known);
        }
    }
    Ok(())
}

pub(super) fn attribute(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    decl: &mut AttributeDecl,
    sorting_decl: &mut Vec<(String, String)>,
) -> Result<(), Error> {
    properties(cursor, keyword, |cursor, word| {
        match word.value.as_str() {
            "fast-search" => decl.fast_search = true,
            "fast-access" => decl.fast_access = true,
            "paged" => decl.paged = true,
            "mutable" => decl.mutable = true,
            // Tensors are always stored in the form that ranking reads; bit vectors are not stored.
            "fast-rank" | "enable-bit-vectors" | "enable-only-bit-vector" => {}
            "sorting" => sorting(cursor, &word, sorting_decl)?,
            "alias" => {
                // The name of the attribute may precede the colon.
                if !cursor.sees(':') {
                    cursor.name("attribute")?;
                }
                cursor.expect(':')?;
                decl.aliases.push(cursor.name("alias")?.value);
            }
            "distance-metric" => {
                cursor.expect(':')?;
                let written = cursor.value("a metric, such as 'angular'")?;
                let value = written.value.to_ascii_lowercase().replace('_', "-");
                let name = Name { value, place: written.place };
                let table = [
                    ("euclidean", DistanceMetric::Euclidean),
                    ("angular", DistanceMetric::Angular),
                    ("dotproduct", DistanceMetric::DotProduct),
                    ("prenormalized-angular", DistanceMetric::PrenormalizedAngular),
                    ("innerproduct", DistanceMetric::PrenormalizedAngular),
                    ("geodegrees", DistanceMetric::GeoDegrees),
                    ("hamming", DistanceMetric::Hamming),
                ];
                let value = cursor.choose("distance metric", &name, &table)?;
                decl.distance_metric = Some(SourcedText { value, place: name.place });
            }
            _ => {
                let known = [
                    "fast-search",
                    "fast-access",
                    "fast-rank",
                    "paged",
                    "mutable",
                    "sorting",
                    "alias",
                    "distance-metric",
                ];
                return cursor.unknown("attribute property", &word, &known);
            }
        }
        Ok(())
    })
}

/// Parses sort settings, as pairs of property and value.
pub(super) fn sorting(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    settings: &mut Vec<(String, String)>,
) -> Result<(), Error> {
    properties(cursor, keyword, |cursor, word| {
        let choices: &[(&str, &str)] = match word.value.as_str() {
            "ascending" | "descending" => {
                settings.push(("order".to_owned(), word.value));
                return Ok(());
            }
            "uca" | "lowercase" | "raw" => {
                settings.push(("function".to_owned(), word.value));
                return Ok(());
            }
            "order" => &[("ascending", "ascending"), ("descending", "descending")],
            "function" => &[("uca", "uca"), ("lowercase", "lowercase"), ("raw", "raw")],
            "strength" => &[
                ("primary", "primary"),
                ("secondary", "secondary"),
                ("tertiary", "tertiary"),
                ("quaternary", "quaternary"),
                ("identical", "identical"),
            ],
            "locale" => &[],
            "missing" => &[],
            _ => {
                return cursor.unknown(
                    "sorting property",
                    &word,
                    &["order", "function", "strength", "locale", "missing"],
                );
            }
        };
        cursor.expect(':')?;
        let value = cursor.value("a value")?;
        let value = if choices.is_empty() {
            value.value
        } else {
            let lower = Name { value: value.value.to_lowercase(), place: value.place };
            cursor.choose(&word.value, &lower, choices)?.to_owned()
        };
        settings.push((word.value, value));
        Ok(())
    })
}

pub(super) fn dictionary(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<DictionarySettings, Error> {
    let mut dictionary = DictionarySettings::default();
    properties(cursor, keyword, |cursor, word| {
        match word.value.as_str() {
            // Dictionaries are derived from columns; their structure cannot be selected.
            "btree" | "hash" => {}
            "cased" => dictionary.cased = true,
            "uncased" => dictionary.cased = false,
            _ => return cursor.unknown("dictionary property", &word, &["btree", "hash", "cased", "uncased"]),
        }
        Ok(())
    })?;
    Ok(dictionary)
}

/// Parses `linguistics { profile: x }` or `linguistics { profile { index: x search: y } }`.
pub(super) fn linguistics(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
) -> Result<LinguisticsProfile, Error> {
    let mut profile = LinguisticsProfile { index: String::new(), search: String::new() };
    properties(cursor, keyword, |cursor, word| {
        if word.value != "profile" {
            return cursor.unknown("linguistics property", &word, &["profile"]);
        }
        if cursor.sees('{') {
            return cursor.block("profile", |cursor, word| {
                let side = match word.value.as_str() {
                    "index" => &mut profile.index,
                    "search" => &mut profile.search,
                    _ => return cursor.unknown("linguistics profile", &word, &["index", "search"]),
                };
                cursor.expect(':')?;
                *side = cursor.value("the name of a profile")?.value;
                Ok(())
            });
        }
        cursor.expect(':')?;
        profile.index = cursor.value("the name of a profile")?.value;
        profile.search.clone_from(&profile.index);
        Ok(())
    })?;
    Ok(profile)
}

/// Parses `: none`, `: best`, …
pub(super) fn stemming(cursor: &mut SchemaCursor<'_>) -> Result<FieldStemming, Error> {
    cursor.expect(':')?;
    let written = cursor.value("a kind of stemming")?;
    let name = Name { value: written.value.to_ascii_lowercase(), place: written.place };
    let table = [
        ("none", FieldStemming::None),
        ("best", FieldStemming::Best),
        ("shortest", FieldStemming::Shortest),
        ("multiple", FieldStemming::Multiple),
    ];
    cursor.choose("stemming setting", &name, &table)
}
