//! Parser of `rank-profile`.

use super::cursor::{Name, SchemaCursor};
use super::keyword::{KeywordTable, keywords};
use super::syntax::{FunctionDecl, ProfileDecl, RankDecl, TextOrFile};
use super::{field, matching, model, phase};
use crate::Error;

pub(super) static PROFILE: KeywordTable<ProfileDecl> = KeywordTable {
    block: "rank-profile",
    kind: "element of a rank-profile",
    rows: keywords! {
        "function" | "macro", "function popularity(x) { expression: x * attribute(plays) }", "A function of expressions.",
            |cursor, _, profile| { profile.functions.push(function(cursor)?); Ok(()) };
        "inputs", "inputs { query(weight) double: 0.5 }", "Types and defaults of query features.",
            |cursor, _, profile| model::inputs(cursor, &mut profile.inputs);
        "constants", "constants { weight: 0.5 }", "Constants of expressions.",
            |cursor, _, profile| model::constants(cursor, &mut profile.constants);
        "onnx-model", "onnx-model rerank { file: models/rerank.onnx }", "A model that expressions call.",
            |cursor, _, profile| { profile.onnx_models.push(model::onnx_model(cursor)?); Ok(()) };
        "first-phase", "first-phase { expression: bm25(title) }", "The score of every match.",
            |cursor, word, profile| {
                profile.first_phase = Some(phase::phase(cursor, &word, &phase::FIRST_PHASE)?);
                Ok(())
            };
        "second-phase", "second-phase { expression: firstPhase * 2 rerank-count: 100 }", "The score of the best hits.",
            |cursor, word, profile| {
                profile.second_phase = Some(phase::phase(cursor, &word, &phase::SECOND_PHASE)?);
                Ok(())
            };
        "global-phase", "global-phase { expression: secondPhase rerank-count: 20 }",
            "The score of the best hits of all nodes.",
            |cursor, word, profile| {
                profile.global_phase = Some(phase::phase(cursor, &word, &phase::GLOBAL_PHASE)?);
                Ok(())
            };
        "match-features", "match-features: bm25(title) attribute(plays)", "Features that every hit shows, computed in matching.",
            |cursor, word, profile| { profile.match_features = Some(phase::features(cursor, &word)?); Ok(()) };
        "summary-features", "summary-features: bm25(title) attribute(plays)", "Features that the hits of an answer show.",
            |cursor, word, profile| { profile.summary_features = Some(phase::features(cursor, &word)?); Ok(()) };
        "rank-features", "rank-features: bm25(title) attribute(plays)", "Features that are shown with the query parameter `ranking.listFeatures`.",
            |cursor, word, profile| { profile.rank_features = Some(phase::features(cursor, &word)?); Ok(()) };
        "rank-properties", "rank-properties { fieldMatch(title).maxOccurrences: 20 }", "Settings of rank features.",
            |cursor, _, profile| properties(cursor, &mut profile.properties);
        "rank", "rank title: filter", "The part of a field in ranking.",
            |cursor, word, profile| { profile.rank.push(rank(cursor, &word)?); Ok(()) };
        "rank-type", "rank-type title: about", "The table set of rank features of a field.", rank_type;
        "weight", "weight title: 200", "The weight of a field in rank features.", weight;
        "strict", "strict: true", "Query features must be declared in `inputs`.",
            |cursor, _, profile| { profile.strict = Some(cursor.switch()?); Ok(()) };
        "diversity", "diversity { attribute: artist min-groups: 10 }", "Hits of many groups among the best.",
            |cursor, word, profile| {
                profile.diversity = diversity(cursor, &word)?.or(profile.diversity.take());
                Ok(())
            };
        "match-phase", "match-phase { attribute: plays max-hits: 1000 }", "No effect, except for its diversity: every match is ranked.",
            match_phase;
        "significance", "significance { use-model: true }", "The source of the significance of words.",
            |cursor, _, profile| cursor.block("significance", |cursor, word| SIGNIFICANCE.read(cursor, word, profile));
        "weakand", "weakand { stopword-limit: 0.6 }", "No effect: every match is ranked.",
            |cursor, _, _| cursor.block("weakand", |cursor, word| WEAK_AND.read(cursor, word, &mut ()));
        "mutate", "mutate { on-match { plays += 1 } }", "No effect: queries do not change documents.", mutate;
        "ignore-default-rank-features", "ignore-default-rank-features", "Lists of features have those of `rank-features` alone.",
            |_, _, profile| { profile.ignore_default_rank_features = true; Ok(()) };
        // Tensors are always read together with the rest of a chunk.
        "prefetch-tensors", "prefetch-tensors: true", "No effect: tensors are read with the rest of a chunk.",
            |cursor, _, _| cursor.switch().map(drop);
        "rank-profile" | "model", "rank-profile fresh inherits popular { }", "An inner profile, named after the outer one: popular.fresh.",
            inner_profile;
        // Numeric tuning of features that do not exist here: threads of one search, approximate indexes,
        // posting lists.
        "num-threads-per-search", "num-threads-per-search: 4", "No effect.", tuning;
        "num-search-partitions", "num-search-partitions: 4", "No effect.", tuning;
        "min-hits-per-thread", "min-hits-per-thread: 100", "No effect.", tuning;
        "termwise-limit", "termwise-limit: 0.5", "No effect.", tuning;
        "post-filter-threshold", "post-filter-threshold: 0.75", "No effect.", tuning;
        "approximate-threshold", "approximate-threshold: 0.05", "No effect.", tuning;
        "filter-first-threshold", "filter-first-threshold: 0.3", "No effect.", tuning;
        "filter-first-exploration", "filter-first-exploration: 0.3", "No effect.", tuning;
        "exploration-slack", "exploration-slack: 0.1", "No effect.", tuning;
        "target-hits-max-adjustment-factor", "target-hits-max-adjustment-factor: 20", "No effect.", tuning;
        "filter-threshold", "filter-threshold: 0.05", "No effect.", tuning;
    },
};

pub(super) static SIGNIFICANCE: KeywordTable<ProfileDecl> = KeywordTable {
    block: "significance",
    kind: "element of significance",
    rows: keywords! {
        "use-model", "use-model: true", "Significance of words by the models of services.xml.",
            |cursor, _, profile| { profile.use_significance_model = Some(cursor.switch()?); Ok(()) };
    },
};

pub(super) static WEAK_AND: KeywordTable<()> = KeywordTable {
    block: "weakand",
    kind: "element of weakand",
    rows: keywords! {
        "stopword-limit", "stopword-limit: 0.6", "No effect.", share;
        "adjust-target", "adjust-target: 0.01", "No effect.", share;
        "allow-drop-all", "allow-drop-all: true", "No effect.", |cursor, _, ()| cursor.switch().map(drop);
    },
};

pub(super) static FUNCTION: KeywordTable<Option<TextOrFile>> = KeywordTable {
    block: "function",
    kind: "element of a function",
    rows: keywords! {
        "expression", "expression: x * attribute(plays)", "The value of the function.",
            |cursor, word, body| { *body = Some(phase::expression(cursor, &word)?); Ok(()) };
    },
};

pub(super) static PROFILE_RANK: KeywordTable<RankDecl> = KeywordTable {
    block: "rank, in a rank-profile",
    kind: "rank setting",
    rows: keywords! {
        "filter", "filter", "Matches of the field are not ranked.",
            |_, _, rank| { rank.filter = Some(rank.filter.unwrap_or(true)); Ok(()) };
        "normal", "normal", "Matches of the field are ranked.",
            |_, _, rank| { rank.filter = Some(false); Ok(()) };
        "filter-threshold", "filter-threshold: 0.05", "No effect.",
            |cursor, word, _| cursor.number::<f64>(&word, "a number between 0 and 1").map(drop);
        "element-gap", "element-gap: 5", "Distance between the elements of an array for near; infinity if not set.", element_gap;
    },
};

pub(super) static DIVERSITY: KeywordTable<DiversityParts> = KeywordTable {
    block: "diversity",
    kind: "element of diversity",
    rows: keywords! {
        "attribute", "attribute: artist", "The attribute whose values are the groups.",
            |cursor, _, parts| { cursor.expect(':')?; parts.attribute = Some(cursor.name("attribute")?); Ok(()) };
        "min-groups", "min-groups: 10", "Number of groups among the hits of the first phase.",
            |cursor, word, parts| { parts.min_groups = Some(cursor.number(&word, "a whole number")?); Ok(()) };
        unlisted:
        "cutoff-factor", "cutoff-factor: 10", "No effect.",
            |cursor, word, _| cursor.number::<f64>(&word, "a number").map(drop);
        "cutoff-strategy", "cutoff-strategy: loose", "No effect.",
            |cursor, _, _| { cursor.expect(':')?; cursor.value("'loose' or 'strict'").map(drop) };
    },
};

pub(super) static MATCH_PHASE: KeywordTable<ProfileDecl> = KeywordTable {
    block: "match-phase",
    kind: "element of match-phase",
    rows: keywords! {
        "attribute", "attribute: plays", "No effect.",
            |cursor, _, _| { cursor.expect(':')?; cursor.name("attribute").map(drop) };
        "order", "order: descending", "No effect.", match_order;
        "max-hits", "max-hits: 1000", "No effect.", tuning;
        "total-max-hits", "total-max-hits: 1000", "No effect.", tuning;
        "max-filter-coverage", "max-filter-coverage: 0.2", "No effect.", tuning;
        "diversity", "diversity { attribute: artist min-groups: 10 }", "The diversity of the profile.",
            |cursor, word, profile| { profile.diversity = diversity(cursor, &word)?; Ok(()) };
        unlisted:
        "evaluation-point", "evaluation-point: 0.001", "No effect.", tuning;
        "pre-post-filter-tipping-point", "pre-post-filter-tipping-point: 1.0", "No effect.", tuning;
    },
};

/// Parses a `.profile` file: one rank profile.
pub(super) fn file(cursor: &mut SchemaCursor<'_>) -> Result<ProfileDecl, Error> {
    if !cursor.eat_word("rank-profile") && !cursor.eat_word("model") {
        return cursor.expected("'rank-profile', which a .profile file holds");
    }
    rank_profile(cursor, None)
}

/// Parses the text after `rank-profile`; the name of an inner profile is prefixed by that of the outer one.
pub(super) fn rank_profile(cursor: &mut SchemaCursor<'_>, outer: Option<&str>) -> Result<ProfileDecl, Error> {
    let mut name = cursor.name("rank-profile")?;
    if let Some(outer) = outer {
        name.value = format!("{outer}.{}", name.value);
    }
    let inherits = cursor.inherits("rank-profile")?;
    let mut profile = ProfileDecl::new(name, inherits);
    cursor.block("rank-profile", |cursor, word| PROFILE.read(cursor, word, &mut profile))?;
    Ok(profile)
}

fn rank_type(cursor: &mut SchemaCursor<'_>, _: Name, profile: &mut ProfileDecl) -> Result<(), Error> {
    let name = cursor.name("field")?;
    cursor.expect(':')?;
    profile.rank_types.push((name, field::rank_type(cursor)?));
    Ok(())
}

fn weight(cursor: &mut SchemaCursor<'_>, word: Name, profile: &mut ProfileDecl) -> Result<(), Error> {
    let name = cursor.name("field")?;
    profile.weights.push((name, cursor.number(&word, "a whole number")?));
    Ok(())
}

fn mutate(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut ProfileDecl) -> Result<(), Error> {
    cursor.block_text("mutate")?;
    cursor.warn(&word.position, "mutate has no effect: queries do not change documents here");
    Ok(())
}

fn inner_profile(cursor: &mut SchemaCursor<'_>, _: Name, profile: &mut ProfileDecl) -> Result<(), Error> {
    let inner = rank_profile(cursor, Some(&profile.name.value))?;
    if !inner.inherits.iter().any(|name| name.value == profile.name.value) {
        let reason = format!(
            "an inner rank-profile inherits the one around it: add 'inherits {}'",
            profile.name.value
        );
        return cursor.error_at(inner.name.position, reason);
    }
    profile.inner.push(inner);
    Ok(())
}

/// Reads a number without effect.
fn tuning(cursor: &mut SchemaCursor<'_>, word: Name, _: &mut ProfileDecl) -> Result<(), Error> {
    cursor.number::<f64>(&word, "a number").map(drop)
}

fn share(cursor: &mut SchemaCursor<'_>, word: Name, (): &mut ()) -> Result<(), Error> {
    cursor.number::<f64>(&word, "a number between 0 and 1").map(drop)
}

/// Parses the text after `function`: `inline name(a, b) { expression … }`.
fn function(cursor: &mut SchemaCursor<'_>) -> Result<FunctionDecl, Error> {
    let mut name = cursor.name("function")?;
    let inline = name.value == "inline" && !cursor.sees('(');
    if inline {
        name = cursor.name("function")?;
    }
    if !cursor.eat('(') {
        return cursor
            .expected(&format!("'(' after the name of the function: function {}() {{ … }}", name.value));
    }
    let mut parameters = Vec::new();
    while !cursor.eat(')') {
        if !parameters.is_empty() {
            cursor.expect(',')?;
        }
        parameters.push(cursor.name("parameter")?.value);
    }
    let inline = inline || cursor.eat_word("inline");
    let mut body = None;
    cursor.block("function", |cursor, word| FUNCTION.read(cursor, word, &mut body))?;
    match body {
        Some(body) => Ok(FunctionDecl { name, parameters, body, inline }),
        None => cursor.error_at(name.position, "this function has no expression: add 'expression: …'"),
    }
}

/// Parses `rank-properties { key: value … }`; keys may contain parentheses and quotes.
fn properties(cursor: &mut SchemaCursor<'_>, properties: &mut Vec<(String, String)>) -> Result<(), Error> {
    let opened = cursor.position();
    cursor.expect('{')?;
    while !cursor.eat('}') {
        if cursor.at_end() {
            return cursor.error_at(opened, "the '{' of rank-properties is not closed");
        }
        let position = cursor.position();
        let line = cursor.line("rank-properties")?;
        let unquoted = |text: &str| text.trim().replace(['"', '\''], "");
        match line.value.split_once(':') {
            Some((key, value)) if !key.trim().is_empty() => properties.push((unquoted(key), unquoted(value))),
            _ => return cursor.error_at(position, "expected 'key: value'"),
        }
    }
    Ok(())
}

fn rank(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<(Name, RankDecl), Error> {
    let name = cursor.name("field")?;
    let mut rank = RankDecl::default();
    matching::properties(cursor, keyword, |cursor, word| PROFILE_RANK.read(cursor, word, &mut rank))?;
    Ok((name, rank))
}

fn element_gap(cursor: &mut SchemaCursor<'_>, _: Name, rank: &mut RankDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    let value = cursor.value("a whole number or 'infinity'")?;
    rank.element_gap = match (value.value.as_str(), value.value.parse()) {
        ("infinity", _) => None,
        (_, Ok(gap)) => Some(gap),
        _ => return cursor.error_at(value.position, "element-gap is a whole number or 'infinity'"),
    };
    Ok(())
}

/// The elements of a `diversity` block.
#[derive(Default)]
pub(super) struct DiversityParts {
    attribute: Option<Name>,
    min_groups: Option<usize>,
}

fn diversity(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<Option<(Name, usize)>, Error> {
    let mut parts = DiversityParts::default();
    cursor.block("diversity", |cursor, word| DIVERSITY.read(cursor, word, &mut parts))?;
    match (parts.attribute, parts.min_groups) {
        (Some(attribute), Some(min_groups)) => Ok(Some((attribute, min_groups))),
        _ => cursor.error_at(
            keyword.position.clone(),
            "diversity needs both 'attribute: name' and 'min-groups: 10'",
        ),
    }
}

/// Parses `match-phase`, which limits ranking by an attribute. All matches are ranked here, so only its
/// diversity is kept.
fn match_phase(cursor: &mut SchemaCursor<'_>, keyword: Name, profile: &mut ProfileDecl) -> Result<(), Error> {
    cursor.block("match-phase", |cursor, word| MATCH_PHASE.read(cursor, word, profile))?;
    cursor.warn(&keyword.position, "match-phase has no effect: every document that matches is ranked");
    Ok(())
}

fn match_order(cursor: &mut SchemaCursor<'_>, _: Name, _: &mut ProfileDecl) -> Result<(), Error> {
    cursor.expect(':')?;
    let order = cursor.value("'ascending' or 'descending'")?;
    cursor.choose("order", &order, &[("ascending", ()), ("descending", ())])
}
