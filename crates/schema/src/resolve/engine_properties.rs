//! Rank properties that stand for elements of a rank profile, by the names with which Vespa tells its content
//! nodes of them. As in Vespa, such a property takes precedence over the element.

use std::str::FromStr;

use super::feature_properties::unknown_feature_property;
use crate::parse::Name;
use crate::parse::syntax::ProfileDecl;
use crate::suggest::did_you_mean;
use crate::{Error, FunctionDef, RankPhase, RankProfile, SourcedText};

/// Effect of a rank property in a profile.
enum PropertyEffect {
    /// Sets an element of the profile.
    Element(fn(&mut RankProfile, &EngineProperty<'_>) -> Result<(), Error>),
    /// None, and no influence on results: it tunes threads, limits and approximations that do not exist here.
    Tuning,
    /// None, for this reason.
    Without(&'static str),
}

use PropertyEffect::{Element, Tuning, Without};

const DECLARED: &str = "the schema declares the type";
const MATCH_PHASE: &str = "every document that matches is ranked";
const MUTATION: &str = "queries do not change documents here";
const OF_REQUEST: &str = "it belongs to a request";
const SOFT_TIMEOUT: &str = "a request sets ranking.softtimeout.enable and ranking.softtimeout.factor";

/// Names with their effects. After one that ends with a point, the name of a field, input or term follows.
static ENGINE_PROPERTIES: &[(&str, PropertyEffect)] = &[
    ("vespa.dump.feature", Element(|profile, given| given.feature(&mut profile.rank_features))),
    (
        "vespa.dump.ignoredefaultfeatures",
        Element(|profile, given| {
            profile.ignore_default_rank_features = given.truth()?;
            Ok(())
        }),
    ),
    ("vespa.eval.lazy_expressions", Tuning),
    ("vespa.eval.use_fast_forest", Tuning),
    ("vespa.execute.onmatch.attribute", Without(MUTATION)),
    ("vespa.execute.onmatch.operation", Without(MUTATION)),
    ("vespa.execute.onrerank.attribute", Without(MUTATION)),
    ("vespa.execute.onrerank.operation", Without(MUTATION)),
    ("vespa.execute.onsummary.attribute", Without(MUTATION)),
    ("vespa.execute.onsummary.operation", Without(MUTATION)),
    ("vespa.feature.rename", Without("features are shown under the names that the profile gives them")),
    (
        "vespa.fieldweight.",
        Element(|profile, given| {
            profile.weights.insert(given.rest.to_owned(), given.number("a whole number")?);
            Ok(())
        }),
    ),
    (
        "vespa.globalphase.rankscoredroplimit",
        Element(|profile, given| given.limit(&mut profile.global_phase)),
    ),
    ("vespa.globalphase.rerankcount", Element(|profile, given| given.count(&mut profile.global_phase))),
    ("vespa.hidden.matchfeature", Without("the features of a later phase are computed where it needs them")),
    (
        "vespa.hitcollector.arraysize",
        Element(|profile, given| {
            profile.first_phase.keep_rank_count = Some(given.number("a whole number")?);
            Ok(())
        }),
    ),
    ("vespa.hitcollector.estimatelimit", Tuning),
    ("vespa.hitcollector.estimatepoint", Tuning),
    ("vespa.hitcollector.heapsize", Element(|profile, given| given.count(&mut profile.second_phase))),
    (
        "vespa.hitcollector.rankscoredroplimit",
        Element(|profile, given| given.limit(&mut profile.first_phase)),
    ),
    (
        "vespa.hitcollector.secondphase.rankscoredroplimit",
        Element(|profile, given| given.limit(&mut profile.second_phase)),
    ),
    ("vespa.hitcollector.totalArraysize", Without(OF_REQUEST)),
    ("vespa.hitcollector.totalHeapsize", Without(OF_REQUEST)),
    (
        "vespa.isfilterfield.",
        Element(|profile, given| {
            let is_filter = given.truth()?;
            profile.filter_fields.retain(|field| field != given.rest);
            profile.filter_fields.extend(is_filter.then(|| given.rest.to_owned()));
            Ok(())
        }),
    ),
    ("vespa.label.", Without(OF_REQUEST)),
    ("vespa.match.feature", Element(|profile, given| given.feature(&mut profile.match_features))),
    (
        "vespa.matching.element_gap.",
        Element(|profile, given| {
            if given.value == "infinity" {
                profile.element_gaps.remove(given.rest);
            } else {
                let gap = given.number("a whole number or infinity")?;
                profile.element_gaps.insert(given.rest.to_owned(), gap);
            }
            Ok(())
        }),
    ),
    ("vespa.matching.filter_threshold", Tuning),
    ("vespa.matching.filter_threshold.", Tuning),
    ("vespa.matching.fuzzy.algorithm", Tuning),
    ("vespa.matching.global_filter.lower_limit", Tuning),
    ("vespa.matching.global_filter.upper_limit", Tuning),
    ("vespa.matching.keep_blueprint_order", Tuning),
    ("vespa.matching.minhitsperthread", Tuning),
    ("vespa.matching.nns.anntimebudget", Tuning),
    ("vespa.matching.nns.anntimeout.enable", Tuning),
    ("vespa.matching.nns.anntimeout.factor", Tuning),
    ("vespa.matching.nns.exploration_slack", Tuning),
    ("vespa.matching.nns.filter_first_exploration", Tuning),
    ("vespa.matching.nns.filter_first_upper_limit", Tuning),
    ("vespa.matching.nns.lazy_filter", Tuning),
    ("vespa.matching.nns.prefetch_tensors", Tuning),
    ("vespa.matching.nns.target_hits_max_adjustment_factor", Tuning),
    ("vespa.matching.numsearchpartitions", Tuning),
    ("vespa.matching.numthreadspersearch", Tuning),
    ("vespa.matching.sort_blueprints_by_cost", Tuning),
    ("vespa.matching.termwise_limit", Tuning),
    ("vespa.matching.weakand.allow_drop_all", Tuning),
    ("vespa.matching.weakand.stop_word_adjust_limit", Tuning),
    ("vespa.matching.weakand.stop_word_drop_limit", Tuning),
    ("vespa.matchphase.degradation.ascendingorder", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.attribute", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.maxfiltercoverage", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.maxhits", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.postfiltermultiplier", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.samplepercentage", Without(MATCH_PHASE)),
    ("vespa.matchphase.degradation.totalMaxhits", Without(OF_REQUEST)),
    (
        "vespa.matchphase.diversity.attribute",
        Element(|profile, given| {
            let groups = profile.diversity.as_ref().map_or(1, |(_, groups)| *groups);
            profile.diversity = Some((given.value.to_owned(), groups));
            Ok(())
        }),
    ),
    ("vespa.matchphase.diversity.cutoff.factor", Tuning),
    ("vespa.matchphase.diversity.cutoff.strategy", Tuning),
    // After the attribute, which it needs.
    (
        "vespa.matchphase.diversity.mingroups",
        Element(|profile, given| {
            let groups_min = given.number("a whole number")?;
            if let Some((_, groups)) = &mut profile.diversity {
                *groups = groups_min;
            }
            Ok(())
        }),
    ),
    ("vespa.mutate.allow_query_override", Without(MUTATION)),
    ("vespa.mutate.on_first_phase.attribute", Without(MUTATION)),
    ("vespa.mutate.on_first_phase.operation", Without(MUTATION)),
    ("vespa.mutate.on_match.attribute", Without(MUTATION)),
    ("vespa.mutate.on_match.operation", Without(MUTATION)),
    ("vespa.mutate.on_second_phase.attribute", Without(MUTATION)),
    ("vespa.mutate.on_second_phase.operation", Without(MUTATION)),
    ("vespa.mutate.on_summary.attribute", Without(MUTATION)),
    ("vespa.mutate.on_summary.operation", Without(MUTATION)),
    ("vespa.now", Without(OF_REQUEST)),
    ("vespa.rank.firstphase", Element(|profile, given| given.score(&mut profile.first_phase))),
    ("vespa.rank.globalphase", Element(|profile, given| given.score(&mut profile.global_phase))),
    ("vespa.rank.secondphase", Element(|profile, given| given.score(&mut profile.second_phase))),
    ("vespa.softtimeout.enable", Without(SOFT_TIMEOUT)),
    ("vespa.softtimeout.factor", Without(SOFT_TIMEOUT)),
    ("vespa.softtimeout.tailcost", Without(SOFT_TIMEOUT)),
    ("vespa.summary.feature", Element(|profile, given| given.feature(&mut profile.summary_features))),
    ("vespa.term.", Without(OF_REQUEST)),
    ("vespa.type.attribute.", Without(DECLARED)),
    ("vespa.type.feature.", Without("types of features follow from their parameters")),
    ("vespa.type.query.", Without("declare the type in inputs, as in inputs { query(a) tensor(x[3]) }")),
];

/// Names that tune other versions of Vespa, or that its own tests send.
static FOREIGN_TUNING: &[&str] = &[
    "vespa.matching.acorn_one.exploration",
    "vespa.matching.acorn_one.lower_limit",
    "vespa.matching.acorn_one.upper_limit",
    "vespa.matching.always_mark_phrase_expensive",
    "vespa.matching.anntimebudget",
    "vespa.matching.anntimeout.enable",
    "vespa.matching.anntimeout.factor",
    "vespa.matching.create_postinglist_when_non_strict",
    "vespa.matching.delay_unpacking_iterators",
    "vespa.matching.diskindex.bitvector_limit",
    "vespa.matching.global_filter_limit",
    "vespa.matching.nearest_neighbor.brute_force_limit",
    "vespa.matching.nns.acorn_one_exploration",
    "vespa.matching.nns.acorn_one_upper_limit",
    "vespa.matching.nns.adaptive_beam_search_slack",
    "vespa.matching.sort_blueprints_by_estimate",
    "vespa.matching.split_unpacking_iterators",
    "vespa.matching.use_estimate_for_fetch_postings",
    "vespa.matching.use_thread_bundle_for_fetch_postings",
    "vespa.matching.weakand.stop_word_limit",
    "vespa.matching.weakand.stop_word_score_limit",
    "vespa.matching.weakand.stop_word_strategy",
    "vespa.matchphase.diversity.cutofffactor",
    "vespa.matchphase.diversity.cutoffstrategy",
    "vespa.temporary.enable_nested_multivalue_grouping",
    "vespa.weakand.range",
];

/// A property of a profile.
struct EngineProperty<'a> {
    profile: &'a Name,
    key: &'a str,
    /// End of the key after a name that ends with a point.
    rest: &'a str,
    value: &'a str,
}

impl EngineProperty<'_> {
    fn number<T: FromStr>(&self, expected: &str) -> Result<T, Error> {
        self.value.parse().map_err(|_| Error::Invalid {
            position: self.profile.position.clone(),
            reason: format!(
                "rank-profile '{}': the rank property {} must be {expected}, found '{}'",
                self.profile.value, self.key, self.value
            ),
        })
    }

    fn truth(&self) -> Result<bool, Error> {
        self.number("true or false")
    }

    fn text(&self) -> SourcedText<String> {
        SourcedText { value: self.value.to_owned(), position: self.profile.position.clone() }
    }

    fn limit(&self, phase: &mut RankPhase) -> Result<(), Error> {
        let limit: f64 = self.number("a number")?;
        phase.score_drop_limit = (!limit.is_nan()).then_some(limit);
        Ok(())
    }

    fn count(&self, phase: &mut RankPhase) -> Result<(), Error> {
        phase.rerank_count = Some(self.number("a whole number")?);
        Ok(())
    }

    /// Sets the score of a phase. `rankingExpression(firstphase)` is the one that the first phase has.
    fn score(&self, phase: &mut RankPhase) -> Result<(), Error> {
        let script = self.value.strip_prefix("rankingExpression(").and_then(|rest| rest.strip_suffix(')'));
        if script != self.key.rsplit('.').next() {
            phase.expression = Some(self.text());
        }
        Ok(())
    }

    fn feature(&self, features: &mut Vec<SourcedText<String>>) -> Result<(), Error> {
        if !features.iter().any(|known| known.value == self.value) {
            features.push(self.text());
        }
        Ok(())
    }
}

/// End of a property's name after one of the table, if that stands for it.
fn rest_of<'k>(key: &'k str, known: &str) -> Option<&'k str> {
    let start = key.get(..known.len()).filter(|start| start.eq_ignore_ascii_case(known))?;
    let rest = &key[start.len()..];
    (rest.is_empty() != known.ends_with('.')).then_some(rest)
}

/// The script of `rankingExpression(name).rankingScript`, as the name of the phase or function.
fn scripted(key: &str) -> Option<&str> {
    key.strip_prefix("rankingExpression(")?.strip_suffix(").rankingScript")
}

/// The profile with the elements set for which its properties, inherited ones too, stand.
///
/// # Errors
/// A value is invalid.
pub(super) fn apply_expressions(profile: &RankProfile, name: &Name) -> Result<RankProfile, Error> {
    let mut applied = profile.clone();
    for (key, value) in &profile.properties {
        let Some(script) = scripted(key) else { continue };
        let text = SourcedText { value: value.clone(), position: name.position.clone() };
        match script {
            "firstphase" => applied.first_phase.expression = Some(text),
            "secondphase" => applied.second_phase.expression = Some(text),
            "globalphase" => applied.global_phase.expression = Some(text),
            function => {
                let function_def = FunctionDef { parameters: Vec::new(), body: text, inline: false };
                applied.functions.insert(function.to_owned(), function_def);
            }
        }
    }
    for (known, effect) in ENGINE_PROPERTIES {
        let Element(set) = effect else { continue };
        for (key, value) in &profile.properties {
            if let Some(rest) = rest_of(key, known) {
                set(&mut applied, &EngineProperty { profile: name, key, rest, value })?;
            }
        }
    }
    Ok(applied)
}

/// Warnings of a profile's own properties without an effect.
pub(super) fn warnings(decl: &ProfileDecl) -> impl Iterator<Item = String> {
    let reason = |key: &str| {
        let (_, effect) = ENGINE_PROPERTIES.iter().find(|(known, _)| rest_of(key, known).is_some())?;
        match effect {
            Without(reason) => Some((*reason).to_owned()),
            Element(_) | Tuning => None,
        }
    };
    decl.properties.iter().filter_map(move |(key, _)| {
        let unknown = || unknown_engine_property(key).or_else(|| unknown_feature_property(key));
        let reason = unknown().or_else(|| reason(key))?;
        let Name { value: profile, position } = &decl.name;
        Some(format!("{position}: rank-profile '{profile}': the rank property {key} has no effect: {reason}"))
    })
}

/// Tells that a rank property whose name begins like those of the engine is none of them, with a similar one;
/// `None` for all others.
pub fn unknown_engine_property(key: &str) -> Option<String> {
    let is_of_engine = key.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("vespa."));
    let names = ENGINE_PROPERTIES.iter().map(|(known, _)| *known);
    let mut all = names.clone().chain(FOREIGN_TUNING.iter().copied());
    if !is_of_engine || all.any(|known| rest_of(key, known).is_some()) {
        return None;
    }
    Some(format!("the engine has no such rank property{}", did_you_mean(key, names)))
}
