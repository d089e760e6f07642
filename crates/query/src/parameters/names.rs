//! Names of request parameters, and their aliases.

use std::borrow::Cow;

/// Aliases in lower case, with their full names; sorted.
const ALIASES: &[(&str, &str)] = &[
    ("bolding", "presentation.bolding"),
    ("count", "hits"),
    ("datetime", "ranking.freshness"),
    ("default-index", "model.defaultIndex"),
    ("encoding", "model.encoding"),
    ("explainlevel", "trace.explainLevel"),
    ("filter", "model.filter"),
    ("format", "presentation.format"),
    ("format.tensors", "presentation.format.tensors"),
    ("groupname", "streaming.groupname"),
    ("lang", "model.language"),
    ("language", "model.language"),
    ("locale", "model.locale"),
    ("location", "ranking.location"),
    ("matchphase.ascending", "ranking.matchPhase.ascending"),
    ("matchphase.attribute", "ranking.matchPhase.attribute"),
    ("matchphase.diversity.attribute", "ranking.matchPhase.diversity.attribute"),
    ("matchphase.diversity.cutoff.factor", "ranking.matchPhase.diversity.cutoffFactor"),
    ("matchphase.diversity.cutoff.strategy", "ranking.matchPhase.diversity.cutoffStrategy"),
    ("matchphase.diversity.cutofffactor", "ranking.matchPhase.diversity.cutoffFactor"),
    ("matchphase.diversity.cutoffstrategy", "ranking.matchPhase.diversity.cutoffStrategy"),
    ("matchphase.diversity.mingroups", "ranking.matchPhase.diversity.minGroups"),
    ("matchphase.maxfiltercoverage", "ranking.matchPhase.maxFilterCoverage"),
    ("matchphase.maxhits", "ranking.matchPhase.maxHits"),
    ("matchphase.totalmaxhits", "ranking.matchPhase.totalMaxHits"),
    ("nocache", "noCache"),
    ("path", "model.searchPath"),
    ("profile", "trace.profile"),
    ("query", "model.queryString"),
    ("queryprofile", "queryProfile"),
    ("rankfeatures", "ranking.listFeatures"),
    ("ranking", "ranking.profile"),
    ("ranking.matchphase.diversity.cutoff.factor", "ranking.matchPhase.diversity.cutoffFactor"),
    ("ranking.matchphase.diversity.cutoff.strategy", "ranking.matchPhase.diversity.cutoffStrategy"),
    ("ranking.rerankcount", "ranking.secondPhase.rerankCount"),
    ("restrict", "model.restrict"),
    ("search", "model.sources"),
    ("searchchain", "searchChain"),
    ("searchgroup", "model.searchGroup"),
    ("searchpath", "model.searchPath"),
    ("sorting", "ranking.sorting"),
    ("sortspec", "ranking.sorting"),
    ("sources", "model.sources"),
    ("start", "offset"),
    ("summary", "presentation.summary"),
    ("summaryfields", "presentation.summaryFields"),
    ("template", "presentation.format"),
    ("timing", "presentation.timing"),
    ("tracelevel", "trace.level"),
    ("type", "model.type"),
    ("userid", "streaming.userid"),
];

/// Names that are read in any letter case: all of the query API, with those that have no effect here.
const NAMES: &[&str] = &[
    "boolean.attributes",
    "boolean.field",
    "boolean.rangeAttributes",
    "collapse.summary",
    "collapsefield",
    "collapsesize",
    "dispatch.compression",
    "dispatch.docsumRetryFactor",
    "dispatch.docsumRetryLimit",
    "dispatch.topKProbability",
    "gram.match",
    "grouping.defaultMaxGroups",
    "grouping.defaultMaxHits",
    "grouping.defaultPrecisionFactor",
    "grouping.globalMaxGroups",
    "groupingSessionCache",
    "hitcountestimate",
    "hits",
    "index.candidates-max",
    "index.consistency",
    "index.use",
    "jsoncallback",
    "model.defaultIndex",
    "model.encoding",
    "model.filter",
    "model.language",
    "model.locale",
    "model.queryString",
    "model.restrict",
    "model.searchGroup",
    "model.searchPath",
    "model.sources",
    "model.type",
    "model.type.composite",
    "model.type.isYqlDefault",
    "model.type.profile",
    "model.type.syntax",
    "model.type.tokenization",
    "noCache",
    "nostemming",
    "offset",
    "pos.attribute",
    "pos.bb",
    "pos.ll",
    "pos.radius",
    "pos.xy",
    "presentation.bolding",
    "presentation.format",
    "presentation.format.tensors",
    "presentation.summary",
    "presentation.summaryFields",
    "presentation.timing",
    "queryProfile",
    "ranking.freshness",
    "ranking.globalPhase.rankScoreDropLimit",
    "ranking.globalPhase.rerankCount",
    "ranking.keepRankCount",
    "ranking.listFeatures",
    "ranking.location",
    "ranking.matchPhase.ascending",
    "ranking.matchPhase.attribute",
    "ranking.matchPhase.diversity.attribute",
    "ranking.matchPhase.diversity.cutoffFactor",
    "ranking.matchPhase.diversity.cutoffStrategy",
    "ranking.matchPhase.diversity.minGroups",
    "ranking.matchPhase.maxFilterCoverage",
    "ranking.matchPhase.maxHits",
    "ranking.matchPhase.totalMaxHits",
    "ranking.matching.annTimeBudget",
    "ranking.matching.annTimeout.enable",
    "ranking.matching.annTimeout.factor",
    "ranking.matching.approximateThreshold",
    "ranking.matching.explorationSlack",
    "ranking.matching.filterFirstExploration",
    "ranking.matching.filterFirstThreshold",
    "ranking.matching.filterThreshold",
    "ranking.matching.lazyFilter",
    "ranking.matching.minHitsPerThread",
    "ranking.matching.numSearchPartitions",
    "ranking.matching.numThreadsPerSearch",
    "ranking.matching.postFilterThreshold",
    "ranking.matching.targetHitsMaxAdjustmentFactor",
    "ranking.matching.termwiseLimit",
    "ranking.matching.weakand.adjustTarget",
    "ranking.matching.weakand.allowDropAll",
    "ranking.matching.weakand.stopwordLimit",
    "ranking.profile",
    "ranking.queryCache",
    "ranking.rankScoreDropLimit",
    "ranking.secondPhase.rankScoreDropLimit",
    "ranking.secondPhase.rerankCount",
    "ranking.secondPhase.totalRerankCount",
    "ranking.significance.useModel",
    "ranking.softtimeout.enable",
    "ranking.softtimeout.factor",
    "ranking.softtimeout.tailcost",
    "ranking.sorting",
    "ranking.totalKeepRankCount",
    "recall",
    "renderer.json.jsonMaps",
    "renderer.json.jsonWsets",
    "renderer.json.rawAsBase64",
    "rules.off",
    "rules.rulebase",
    "searchChain",
    "select",
    "select.fields",
    "select.grouping",
    "select.where",
    "sorting.degrading",
    "streaming.groupname",
    "streaming.groupnames",
    "streaming.maxbucketspervisitor",
    "streaming.priority",
    "streaming.selection",
    "streaming.userid",
    "timeout",
    "trace.explainLevel",
    "trace.level",
    "trace.profile",
    "trace.profileDepth",
    "trace.profiling.firstPhaseRanking.depth",
    "trace.profiling.matching.depth",
    "trace.profiling.secondPhaseRanking.depth",
    "trace.query",
    "trace.timestamps",
    "trace.timingDetails",
    "tracelevel.rules",
    "wand.field",
    "wand.heapSize",
    "wand.hits",
    "wand.scoreThreshold",
    "wand.thresholdBoostFactor",
    "wand.tokens",
    "wand.type",
    "weakAnd.opportunistic.and",
    "weakAnd.opportunistic.factor",
    "weakAnd.replace",
];

/// All listed names of parameters, and their aliases.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// Beginnings of names that go on with a name of the application, with those that they stand for. Of several
/// in one query profile, the first in this list counts.
const FAMILY_ALIASES: &[(&str, &str)] = &[
    ("rankfeature.", "ranking.features."),
    ("input.", "ranking.features."),
    ("rankproperty.", "ranking.properties."),
];

/// Full name of a parameter that has aliases, or that is known in another letter case; any other name is
/// unchanged.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    let lower = name.to_ascii_lowercase();
    if let Ok(index) = ALIASES.binary_search_by(|(alias, _)| (*alias).cmp(&lower)) {
        return Cow::Borrowed(ALIASES[index].1);
    }
    for (alias, full) in FAMILY_ALIASES {
        if let Some(rest) = strip_prefix(name, &[*alias]).filter(|rest| !rest.is_empty()) {
            return Cow::Owned(format!("{full}{rest}"));
        }
    }
    Cow::Borrowed(NAMES.iter().find(|known| known.eq_ignore_ascii_case(name)).copied().unwrap_or(name))
}

/// Rank of a name among those that a query profile has for one parameter: the lowest counts, which is the
/// full name, but the beginnings of rank features and properties precede theirs.
pub(super) fn precedence(name: &str) -> usize {
    let family = FAMILY_ALIASES.iter().position(|(alias, _)| strip_prefix(name, &[*alias]).is_some());
    let listed = ALIASES.iter().position(|(alias, _)| alias.eq_ignore_ascii_case(name));
    match (family, listed) {
        (Some(place), _) => place,
        (None, None) => FAMILY_ALIASES.len(),
        (None, Some(place)) => FAMILY_ALIASES.len() + 1 + place,
    }
}

/// Prefixes of parameter names that are not listed individually.
const FAMILIES: &[&str] = &[
    "dispatch.",
    "grouping.",
    "metrics.",
    "model.",
    "presentation.",
    "ranking.",
    "rate.",
    "renderer.",
    "rules.",
    "select.",
    "trace.",
];

/// Families whose names are all in the tables: another name of theirs is a slip.
const CLOSED_FAMILIES: &[&str] = &["model", "presentation", "ranking", "select", "streaming", "trace"];

/// Prefixes of names that go on with a name of the application, such as that of a rank feature.
const OPEN_PREFIXES: &[&str] = &["ranking.elementGap.", "ranking.features.", "ranking.properties."];

/// The closed family that a name would belong to, if it has no such member.
pub(super) fn unknown_member_of(name: &str) -> Option<&'static str> {
    let (family, _) = name.split_once('.')?;
    let family = CLOSED_FAMILIES.iter().find(|known| known.eq_ignore_ascii_case(family))?;
    let is_open = strip_prefix(name, OPEN_PREFIXES).is_some_and(|rest| !rest.is_empty());
    let is_member = is_open || NAMES.contains(&&*canonical(name));
    (!is_member).then_some(*family)
}

/// The members of a family whose names begin like `name`, else all of them: a help for a slip.
pub(super) fn members_near(name: &str) -> Vec<&'static str> {
    let start = name.rfind('.').map_or(0, |end| end + 1);
    let members = NAMES.iter().chain(OPEN_PREFIXES).copied();
    members
        .filter(|known| known.get(..start).is_some_and(|head| head.eq_ignore_ascii_case(&name[..start])))
        .collect()
}

/// True if a name belongs to the query API.
pub(super) fn is_known(name: &str) -> bool {
    const OTHERS: [&str; 5] = ["continue", super::FEDERATED, "yql", "user", "timezone"];
    let full = canonical(name);
    let full = &*full;
    full != name
        || NAMES.contains(&full)
        || OTHERS.contains(&full)
        || FAMILIES.iter().any(|family| full.starts_with(family))
}

/// Prefixes of names that are read by other parts than the query API: those of one source.
const SOURCE_PREFIXES: &[&str] = &["provider.", "source."];

/// True for a name that some part of every node reads, whatever the application is.
pub(super) fn is_read(name: &str) -> bool {
    const OTHERS: [&str; 1] = ["prompt"];
    is_known(name)
        || OTHERS.contains(&name)
        || strip_prefix(name, SOURCE_PREFIXES).is_some_and(|rest| !rest.is_empty())
}

/// Rest of a name after one of `prefixes` (in any letter case).
pub(super) fn strip_prefix<'a>(name: &'a str, prefixes: &[&str]) -> Option<&'a str> {
    prefixes.iter().find_map(|prefix| {
        let head = name.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_and_names_are_found_in_any_case() {
        assert!(ALIASES.is_sorted(), "the aliases are searched by halves");
        let leads_nowhere = |full: &str| !NAMES.contains(&full);
        assert!(!ALIASES.iter().any(|(_, full)| leads_nowhere(full)), "each alias stands for a name");
        assert_eq!(canonical("Count"), "hits");
        assert_eq!(canonical("MODEL.QUERYSTRING"), "model.queryString");
        assert_eq!(canonical("myOwn"), "myOwn");
        assert_eq!(canonical("Input.query(q)"), "ranking.features.query(q)");
        assert_eq!(canonical("rankproperty.dotProduct.x"), "ranking.properties.dotProduct.x");
        assert_eq!(canonical("input."), "input.");
        assert_eq!(strip_prefix("Input.query(q)", &["input."]), Some("query(q)"));
    }
}
