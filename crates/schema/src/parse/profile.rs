//! Parser of `rank-profile`.

use super::cursor::{ConstructBody, Name, SchemaCursor};
use super::syntax::{FunctionDecl, ProfileDecl, RankDecl};
use super::{field, matching, model, phase};
use crate::Error;

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
    cursor.block("rank-profile", |cursor, word| element(cursor, word, &mut profile))?;
    Ok(profile)
}

fn element(cursor: &mut SchemaCursor<'_>, word: Name, profile: &mut ProfileDecl) -> Result<(), Error> {
    match word.value.as_str() {
        "function" | "macro" => {
            let function = function(cursor)?;
            profile.functions.push(function);
        }
        "inputs" => model::inputs(cursor, &mut profile.inputs)?,
        "constants" => model::constants(cursor, &mut profile.constants)?,
        "onnx-model" => profile.onnx_models.push(model::onnx_model(cursor)?),
        "first-phase" => profile.first_phase = Some(phase::phase(cursor, &word)?),
        "second-phase" => profile.second_phase = Some(phase::phase(cursor, &word)?),
        "global-phase" => profile.global_phase = Some(phase::phase(cursor, &word)?),
        "match-features" => profile.match_features = Some(phase::features(cursor, &word)?),
        "summary-features" => profile.summary_features = Some(phase::features(cursor, &word)?),
        "rank-features" => profile.rank_features = Some(phase::features(cursor, &word)?),
        "rank-properties" => properties(cursor, &mut profile.properties)?,
        "rank" => profile.rank.push(rank(cursor, &word)?),
        "rank-type" => {
            let name = cursor.name("field")?;
            cursor.expect(':')?;
            profile.rank_types.push((name, field::rank_type(cursor)?));
        }
        "weight" => {
            let name = cursor.name("field")?;
            profile.weights.push((name, cursor.number(&word, "a whole number")?));
        }
        "strict" => profile.strict = Some(cursor.switch()?),
        "diversity" => profile.diversity = diversity(cursor, &word)?.or(profile.diversity.take()),
        "match-phase" => match_phase(cursor, &word, profile)?,
        "significance" => cursor.block("significance", |cursor, word| {
            if word.value != "use-model" {
                return cursor.unknown("element of significance", &word, &["use-model"]);
            }
            profile.use_significance_model = Some(cursor.switch()?);
            Ok(())
        })?,
        "weakand" => cursor.block("weakand", |cursor, word| match word.value.as_str() {
            "stopword-limit" | "adjust-target" => {
                cursor.number::<f64>(&word, "a number between 0 and 1").map(drop)
            }
            "allow-drop-all" => cursor.switch().map(drop),
            _ => cursor.unknown(
                "element of weakand",
                &word,
                &["stopword-limit", "adjust-target", "allow-drop-all"],
            ),
        })?,
        "mutate" => {
            cursor.block_text("mutate")?;
            cursor.warn(&word.place, "mutate has no effect: queries do not change documents here");
        }
        "ignore-default-rank-features" => profile.ignore_default_rank_features = true,
        "rank-profile" | "model" => {
            let inner = rank_profile(cursor, Some(&profile.name.value))?;
            if !inner.inherits.iter().any(|name| name.value == profile.name.value) {
                let reason = format!(
                    "an inner rank-profile inherits the one around it: add 'inherits {}'",
                    profile.name.value
                );
                return cursor.error_at(inner.name.place, reason);
            }
            profile.inner.push(inner);
        }
        // Tensors are always read together with the rest of a chunk.
        "prefetch-tensors" => cursor.switch().map(drop)?,
        keyword if TUNING.contains(&keyword) => cursor.number::<f64>(&word, "a number").map(drop)?,
        _ => {
            let known: Vec<&str> = ELEMENTS.iter().chain(TUNING).copied().collect();
            return cursor.unknown("element of a rank-profile", &word, &known);
        }
    }
    Ok(())
}

/// Elements of a rank profile with an effect.
const ELEMENTS: &[&str] = &[
    "function",
    "inputs",
    "constants",
    "onnx-model",
    "first-phase",
    "second-phase",
    "global-phase",
    "match-features",
    "summary-features",
    "rank-features",
    "rank-properties",
    "rank",
    "rank-type",
    "weight",
    "strict",
    "diversity",
    "match-phase",
    "significance",
    "weakand",
    "mutate",
    "ignore-default-rank-features",
    "prefetch-tensors",
    "rank-profile",
];

/// Numeric tuning of features that do not exist here (threads of one search, approximate indexes, posting
/// lists): read and ignored.
const TUNING: &[&str] = &[
    "num-threads-per-search",
    "num-search-partitions",
    "min-hits-per-thread",
    "termwise-limit",
    "post-filter-threshold",
    "approximate-threshold",
    "filter-first-threshold",
    "filter-first-exploration",
    "exploration-slack",
    "target-hits-max-adjustment-factor",
    "filter-threshold",
];

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
    cursor.block("function", |cursor, word| {
        if word.value != "expression" {
            return cursor.unknown("element of a function", &word, &["expression"]);
        }
        body = Some(phase::expression(cursor, &word)?);
        Ok(())
    })?;
    match body {
        Some(body) => Ok(FunctionDecl { name, parameters, body, inline }),
        None => cursor.error_at(name.place, "this function has no expression: add 'expression: …'"),
    }
}

/// Parses `rank-properties { key: value … }`; keys may contain parentheses and quotes.
fn properties(cursor: &mut SchemaCursor<'_>, properties: &mut Vec<(String, String)>) -> Result<(), Error> {
    let opened = cursor.place();
    cursor.expect('{')?;
    while !cursor.eat('}') {
        if cursor.at_end() {
            return cursor.error_at(opened, "the '{' of rank-properties is not closed");
        }
        let place = cursor.place();
        let line = cursor.line("rank-properties")?;
        let unquoted = |text: &str| text.trim().replace(['"', '\''], "");
        match line.value.split_once(':') {
            Some((key, value)) if !key.trim().is_empty() => properties.push((unquoted(key), unquoted(value))),
            _ => return cursor.error_at(place, "expected 'key: value'"),
        }
    }
    Ok(())
}

fn rank(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<(Name, RankDecl), Error> {
    let name = cursor.name("field")?;
    let mut rank = RankDecl::default();
    matching::properties(cursor, keyword, |cursor, word| {
        match word.value.as_str() {
            "filter" => rank.filter = Some(rank.filter.unwrap_or(true)),
            "normal" => rank.filter = Some(false),
            "filter-threshold" => cursor.number::<f64>(&word, "a number between 0 and 1").map(drop)?,
            "element-gap" => {
                cursor.expect(':')?;
                let value = cursor.value("a whole number or 'infinity'")?;
                rank.element_gap = match (value.value.as_str(), value.value.parse()) {
                    ("infinity", _) => Some(None),
                    (_, Ok(gap)) => Some(Some(gap)),
                    _ => return cursor.error_at(value.place, "element-gap is a whole number or 'infinity'"),
                };
            }
            _ => {
                return cursor.unknown(
                    "rank setting",
                    &word,
                    &["filter", "normal", "filter-threshold", "element-gap"],
                );
            }
        }
        Ok(())
    })?;
    Ok((name, rank))
}

fn diversity(cursor: &mut SchemaCursor<'_>, keyword: &Name) -> Result<Option<(Name, usize)>, Error> {
    let (mut attribute, mut min_groups) = (None, None);
    cursor.block("diversity", |cursor, word| {
        match word.value.as_str() {
            "attribute" => {
                cursor.expect(':')?;
                attribute = Some(cursor.name("attribute")?);
            }
            "min-groups" => min_groups = Some(cursor.number(&word, "a whole number")?),
            "cutoff-factor" => cursor.number::<f64>(&word, "a number").map(drop)?,
            "cutoff-strategy" => {
                cursor.expect(':')?;
                cursor.value("'loose' or 'strict'")?;
            }
            _ => return cursor.unknown("element of diversity", &word, &["attribute", "min-groups"]),
        }
        Ok(())
    })?;
    match (attribute, min_groups) {
        (Some(attribute), Some(min_groups)) => Ok(Some((attribute, min_groups))),
        _ => cursor
            .error_at(keyword.place.clone(), "diversity needs both 'attribute: name' and 'min-groups: 10'"),
    }
}

/// Parses `match-phase`, which limits ranking by an attribute. All matches are ranked here, so only its
/// diversity is kept.
fn match_phase(
    cursor: &mut SchemaCursor<'_>,
    keyword: &Name,
    profile: &mut ProfileDecl,
) -> Result<(), Error> {
    cursor.block("match-phase", |cursor, word| {
        match word.value.as_str() {
            "attribute" => {
                cursor.expect(':')?;
                cursor.name("attribute")?;
            }
            "order" => {
                cursor.expect(':')?;
                let order = cursor.value("'ascending' or 'descending'")?;
                cursor.choose("order", &order, &[("ascending", ()), ("descending", ())])?;
            }
            "max-hits"
            | "total-max-hits"
            | "max-filter-coverage"
            | "evaluation-point"
            | "pre-post-filter-tipping-point" => {
                cursor.number::<f64>(&word, "a number").map(drop)?;
            }
            "diversity" if cursor.body() == ConstructBody::Block => {
                profile.diversity = diversity(cursor, &word)?
            }
            _ => {
                let known =
                    ["attribute", "order", "max-hits", "total-max-hits", "max-filter-coverage", "diversity"];
                return cursor.unknown("element of match-phase", &word, &known);
            }
        }
        Ok(())
    })?;
    cursor.warn(&keyword.place, "match-phase has no effect: every document that matches is ranked");
    Ok(())
}
