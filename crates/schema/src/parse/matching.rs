//! Parser of `match`, `index`, `attribute`, `sorting`, `dictionary`, `linguistics`: matching and order of a
//! field.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{AttributeDecl, FieldDecl, IndexDecl, MatchDecl};
use crate::{
    DefaultTerm, DictionarySettings, DistanceMetric, Error, FieldStemming, LinguisticsProfile, MatchMode,
    SourcedText,
};

pub(super) static MATCH: KeywordTable<MatchDecl> = KeywordTable {
    block: "match",
    kind: "match property",
    rows: keywords! {
        "text" | "token", "text", "Words of the text, by the rules of its language.",
            |_, _, decl| { decl.mode = Some(MatchMode::Text); Ok(()) };
        "word", "word", "The whole value, as written.",
            |_, _, decl| { decl.mode = Some(MatchMode::Word); Ok(()) };
        "exact", "exact", "The whole value; queries write it up to a terminator.",
            |_, _, decl| { decl.mode = Some(MatchMode::Exact); Ok(()) };
        "gram", "gram", "Pieces of words, each of `gram-size` characters.",
            |_, _, decl| { decl.mode = Some(MatchMode::Gram { size: 2 }); Ok(()) };
        "gram-size", "gram-size: 3", "Number of characters of grams, 1 to 16; 2 if not set.", gram_size;
        "cased", "cased", "Upper and lower case differ.", |_, _, decl| { decl.cased = true; Ok(()) };
        "uncased", "uncased", "Upper and lower case are equal.", |_, _, decl| { decl.cased = false; Ok(()) };
        "prefix", "prefix", "Query words match words that begin with them.",
            |_, _, decl| { decl.default_term = Some(DefaultTerm::Prefix); Ok(()) };
        "substring", "substring", "Query words match words that contain them.",
            |_, _, decl| { decl.default_term = Some(DefaultTerm::Substring); Ok(()) };
        "suffix", "suffix", "Query words match words that end with them.",
            |_, _, decl| { decl.default_term = Some(DefaultTerm::Suffix); Ok(()) };
        "exact-terminator", "exact-terminator: \"@@\"", "The text that ends an exact value in a query.", exact_terminator;
        "max-length", "max-length: 1000", "Maximum number of characters of the text that can be found.",
            |cursor, word, decl| { decl.max_length = Some(cursor.number(&word, "a number of characters")?); Ok(()) };
        "max-occurrences", "max-occurrences: 100", "Maximum number of occurrences of a word that are counted.",
            |cursor, word, decl| { decl.max_occurrences = Some(cursor.number(&word, "a number")?); Ok(()) };
        "max-token-length", "max-token-length: 100", "Maximum number of characters of a word that can be found.",
            |cursor, word, decl| { decl.max_token_length = Some(cursor.number(&word, "a number of characters")?); Ok(()) };
    },
};

pub(super) static INDEX: KeywordTable<IndexDecl> = KeywordTable {
    block: "index",
    kind: "index property",
    rows: keywords! {
        "enable-bm25", "enable-bm25", "No effect: bm25 is always available.",
            |_, _, decl| { decl.enable_bm25 = true; Ok(()) };
        "stemming", "stemming: none", "Stemming of words: none, best, shortest or multiple.",
            |cursor, _, decl| { decl.stemming = Some(stemming(cursor)?); Ok(()) };
        "alias", "alias: name", "Another name of the field in queries.", index_alias;
        // Words can always be searched by prefix.
        "prefix", "prefix", "No effect: words can always be searched by prefix.", |_, _, _| Ok(());
        "hnsw", "hnsw { max-links-per-node: 16 }", "No effect: nearest neighbors are exact.", hnsw;
        "arity", "arity: 8", "No effect.", ignored_number;
        "lower-bound", "lower-bound: 0L", "No effect.", ignored_bound;
        "upper-bound", "upper-bound: 100L", "No effect.", ignored_bound;
        "dense-posting-list-threshold", "dense-posting-list-threshold: 0.4", "No effect.", ignored_number;
    },
};

pub(super) static HNSW: KeywordTable<IndexDecl> = KeywordTable {
    block: "hnsw",
    kind: "hnsw parameter",
    rows: keywords! {
        "max-links-per-node", "max-links-per-node: 16", "No effect.",
            |cursor, word, _| cursor.number::<u32>(&word, "a number").map(drop);
        "neighbors-to-explore-at-insert", "neighbors-to-explore-at-insert: 200", "No effect.",
            |cursor, word, _| cursor.number::<u32>(&word, "a number").map(drop);
        "multi-threaded-indexing", "multi-threaded-indexing: true", "No effect.", |cursor, _, _| cursor.switch().map(drop);
    },
};

pub(super) static ATTRIBUTE: KeywordTable<FieldDecl> = KeywordTable {
    block: "attribute",
    kind: "attribute property",
    rows: keywords! {
        "fast-search", "fast-search",
            "No effect by itself: every value is scanned. `<fast-search>` in services.xml keeps indexes of such fields.",
            |_, _, field| { settings(field).fast_search = true; Ok(()) };
        "fast-access", "fast-access", "No effect: documents can always be selected by the values.",
            |_, _, field| { settings(field).fast_access = true; Ok(()) };
        "fast-rank", "fast-rank", "No effect: tensors are always stored in the form that ranking reads.", |_, _, _| Ok(());
        "paged", "paged", "No effect: columns are always read from disk.",
            |_, _, field| { settings(field).paged = true; Ok(()) };
        "mutable", "mutable", "No effect: ranking does not change documents.",
            |_, _, field| { settings(field).mutable = true; Ok(()) };
        "sorting", "sorting: descending", "Order of results that are sorted by the field.",
            |cursor, word, field| sorting(cursor, &word, &mut field.sorting);
        "alias", "alias: name", "Another name of the field in queries.", attribute_alias;
        "distance-metric", "distance-metric: angular", "The distance between vectors of the field.", distance_metric;
        unlisted:
        "enable-bit-vectors" | "enable-only-bit-vector", "enable-bit-vectors", "No effect: bit vectors are not stored.",
            |_, _, _| Ok(());
    },
};

pub(super) static SORTING: KeywordTable<Vec<(String, String)>> = KeywordTable {
    block: "sorting",
    kind: "sorting property",
    rows: keywords! {
        "order", "order: descending", "Direction: ascending or descending.",
            |cursor, word, settings| sort_setting(cursor, word, settings, &["ascending", "descending"]);
        "function", "function: lowercase", "The key of texts: uca, lowercase or raw.",
            |cursor, word, settings| sort_setting(cursor, word, settings, &["uca", "lowercase", "raw"]);
        "strength", "strength: tertiary", "Differences that count in the order of a locale: primary, secondary, tertiary, quaternary or identical.",
            |cursor, word, settings| sort_setting(cursor, word, settings, STRENGTHS);
        "locale", "locale: sv", "The locale of the function uca.",
            |cursor, word, settings| sort_setting(cursor, word, settings, &[]);
        "missing", "missing: last", "Position of documents without a value: first, last or as(value).", sort_missing;
        unlisted:
        "ascending" | "descending", "descending", "The direction alone.",
            |_, word, settings| { settings.push(("order".to_owned(), word.value)); Ok(()) };
        "uca" | "lowercase" | "raw", "lowercase", "The function alone.",
            |_, word, settings| { settings.push(("function".to_owned(), word.value)); Ok(()) };
    },
};

/// Differences between texts that count in the order of a locale.
const STRENGTHS: &[&str] = &["primary", "secondary", "tertiary", "quaternary", "identical"];

pub(super) static DICTIONARY: KeywordTable<DictionarySettings> = KeywordTable {
    block: "dictionary",
    kind: "dictionary property",
    rows: keywords! {
        // Dictionaries are derived from columns; their structure cannot be selected.
        "btree", "btree", "No effect: the structure cannot be selected.", |_, _, _| Ok(());
        "hash", "hash", "No effect: the structure cannot be selected.", |_, _, _| Ok(());
        "cased", "cased", "Upper and lower case differ.", |_, _, dictionary| { dictionary.cased = true; Ok(()) };
        "uncased", "uncased", "Upper and lower case are equal.", |_, _, dictionary| { dictionary.cased = false; Ok(()) };
    },
};

pub(super) static LINGUISTICS: KeywordTable<LinguisticsProfile> = KeywordTable {
    block: "linguistics",
    kind: "linguistics property",
    rows: keywords! {
        "profile", "profile: whitespace", "The profile of documents and queries, or a block with one for each.",
            linguistics_profile;
    },
};

pub(super) static LINGUISTICS_SIDES: KeywordTable<LinguisticsProfile> = KeywordTable {
    block: "profile, in linguistics",
    kind: "linguistics profile",
    rows: keywords! {
        "index", "index: whitespace", "The profile of documents.",
            |cursor, _, profile| { profile.index = profile_name(cursor)?; Ok(()) };
        "search", "search: whitespace", "The profile of queries.",
            |cursor, _, profile| { profile.search = profile_name(cursor)?; Ok(()) };
    },
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
    decl.position = Some(keyword.position.clone());
    properties(cursor, keyword, |cursor, word| MATCH.read(cursor, word, decl))?;
    if let (Some(MatchMode::Gram { size }), Some(wanted)) = (&mut decl.mode, decl.gram_size) {
        *size = wanted;
    }
    Ok(())
}

fn gram_size(cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut MatchDecl) -> Result<(), Error> {
    let size: usize = cursor.number(&word, "a number")?;
    if !(1..=16).contains(&size) {
        return cursor.error_at(word.position, "gram-size is between 1 and 16");
    }
    decl.gram_size = Some(size);
    Ok(())
}

fn exact_terminator(cursor: &mut SchemaCursor<'_>, _: Name, decl: &mut MatchDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    decl.exact_terminator = Some(cursor.value("the terminator in quotes")?.value);
    Ok(())
}

/// Parses the settings of an index; after `:`, several may be given in a list.
pub(super) fn index(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    decl: &mut IndexDecl,
) -> Result<(), Error> {
    let in_line = cursor.body() == ConstructBody::Line;
    properties(cursor, keyword, |cursor, word| INDEX.read(cursor, word, decl))?;
    while in_line && cursor.eat(',') {
        let Some(word) = cursor.word() else { return cursor.expected("a property of 'index'") };
        INDEX.read(cursor, word, decl)?;
    }
    Ok(())
}

fn index_alias(cursor: &mut SchemaCursor<'_>, _: Name, decl: &mut IndexDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    decl.aliases.push(cursor.name("alias")?.value);
    Ok(())
}

fn hnsw(cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut IndexDecl) -> Result<(), Error> {
    decl.hnsw = Some(word.position);
    if cursor.sees('{') {
        cursor.block("hnsw", |cursor, word| HNSW.read(cursor, word, decl))?;
    }
    Ok(())
}

fn ignored_number(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut IndexDecl) -> Result<(), Error> {
    cursor.number::<f64>(&word, "a number").map(drop)
}

fn ignored_bound(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut IndexDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    let bound = cursor.value("a whole number")?;
    if bound.value.strip_suffix('L').unwrap_or(&bound.value).parse::<i64>().is_err() {
        let reason = format!("'{}' is not a whole number, which '{}' needs", bound.value, word.value);
        return cursor.error_at(bound.position, reason);
    }
    Ok(())
}

fn settings(field: &mut FieldDecl) -> &mut AttributeDecl {
    field.attribute.get_or_insert_default()
}

/// Parses `alias: name`, or `alias attribute: name`.
fn attribute_alias(cursor: &mut SchemaCursor<'_>, _: Name, field: &mut FieldDecl) -> Result<(), Error> {
    if !cursor.sees(':') {
        cursor.name("attribute")?;
    }
    cursor.expect(':')?;
    settings(field).aliases.push(cursor.name("alias")?.value);
    Ok(())
}

fn distance_metric(cursor: &mut SchemaCursor<'_>, _: Name, field: &mut FieldDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    let written = cursor.value("a metric, such as 'angular'")?;
    let value = written.value.to_ascii_lowercase().replace('_', "-");
    let name = Name { value, position: written.position };
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
    settings(field).distance_metric = Some(SourcedText { value, position: name.position });
    Ok(())
}

/// Parses sort settings, as pairs of property and value.
pub(super) fn sorting(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    settings: &mut Vec<(String, String)>,
) -> Result<(), Error> {
    properties(cursor, keyword, |cursor, word| SORTING.read(cursor, word, settings))
}

/// Parses `: value`; any value if there are no `choices`.
fn sort_setting(
    cursor: &mut SchemaCursor<'_>,
    property: Name,
    settings: &mut Vec<(String, String)>,
    choices: &[&'static str],
) -> Result<(), Error> {
    cursor.expect(':')?;
    let value = cursor.value("a value")?;
    let value = if choices.is_empty() {
        value.value
    } else {
        let lower = Name { value: value.value.to_lowercase(), position: value.position };
        let table: Vec<(&str, &str)> = choices.iter().map(|choice| (*choice, *choice)).collect();
        cursor.choose(&property.value, &lower, &table)?.to_owned()
    };
    settings.push((property.value, value));
    Ok(())
}

/// Parses `: first`, `: last` or `: as(value)`, which is kept as `as value`.
fn sort_missing(
    cursor: &mut SchemaCursor<'_>,
    property: Name,
    settings: &mut Vec<(String, String)>,
) -> Result<(), Error> {
    cursor.expect(':')?;
    let Some(written) = cursor.word() else { return cursor.expected("first, last or as(value)") };
    let policy = match written.value.to_lowercase().as_str() {
        policy @ ("first" | "last") => policy.to_owned(),
        "as" => {
            cursor.expect('(')?;
            let Some(value) = cursor.quoted()?.or_else(|| cursor.word()) else {
                return cursor.expected("a number, a word or quoted text");
            };
            cursor.expect(')')?;
            format!("as {}", value.value)
        }
        other => {
            let reason = format!("missing: {other} has no effect: positions are first, last and as(value)");
            cursor.warn(&written.position, &reason);
            return Ok(());
        }
    };
    settings.push((property.value, policy));
    Ok(())
}

pub(super) fn dictionary(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<DictionarySettings, Error> {
    let mut dictionary = DictionarySettings::default();
    properties(cursor, keyword, |cursor, word| DICTIONARY.read(cursor, word, &mut dictionary))?;
    Ok(dictionary)
}

/// Parses `linguistics { profile: x }` or `linguistics { profile { index: x search: y } }`.
pub(super) fn linguistics(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
) -> Result<LinguisticsProfile, Error> {
    let mut profile = LinguisticsProfile { index: String::new(), search: String::new() };
    properties(cursor, keyword, |cursor, word| LINGUISTICS.read(cursor, word, &mut profile))?;
    Ok(profile)
}

fn linguistics_profile(
    cursor: &mut SchemaCursor<'_>,
    _: Name,
    profile: &mut LinguisticsProfile,
) -> Result<(), Error> {
    if cursor.sees('{') {
        return cursor.block("profile", |cursor, word| LINGUISTICS_SIDES.read(cursor, word, profile));
    }
    profile.index = profile_name(cursor)?;
    profile.search.clone_from(&profile.index);
    Ok(())
}

fn profile_name(cursor: &mut SchemaCursor<'_>) -> Result<String, Error> {
    cursor.expect(':')?;
    Ok(cursor.value("the name of a profile")?.value)
}

/// Parses `: none`, `: best`, …
pub(super) fn stemming(cursor: &mut SchemaCursor<'_>) -> Result<FieldStemming, Error> {
    cursor.expect(':')?;
    let written = cursor.value("a kind of stemming")?;
    let name = Name { value: written.value.to_ascii_lowercase(), position: written.position };
    let table = [
        ("none", FieldStemming::None),
        ("best", FieldStemming::Best),
        ("shortest", FieldStemming::Shortest),
        ("multiple", FieldStemming::Multiple),
    ];
    cursor.choose("stemming setting", &name, &table)
}
