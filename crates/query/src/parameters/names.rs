//! Names of request parameters, and their aliases.

/// Aliases in lower case, with their full names; sorted.
const ALIASES: &[(&str, &str)] = &[
    ("bolding", "presentation.bolding"),
    ("count", "hits"),
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
    ("nocache", "noCache"),
    ("path", "model.searchPath"),
    ("profile", "trace.profile"),
    ("query", "model.queryString"),
    ("queryprofile", "queryProfile"),
    ("rankfeatures", "ranking.listFeatures"),
    ("ranking", "ranking.profile"),
    ("restrict", "model.restrict"),
    ("search", "model.sources"),
    ("searchchain", "searchChain"),
    ("searchgroup", "model.searchGroup"),
    ("sorting", "ranking.sorting"),
    ("sortspec", "ranking.sorting"),
    ("sources", "model.sources"),
    ("start", "offset"),
    ("summary", "presentation.summary"),
    ("timing", "presentation.timing"),
    ("tracelevel", "trace.level"),
    ("type", "model.type"),
    ("userid", "streaming.userid"),
];

/// Names that are read in any letter case.
const NAMES: &[&str] = &[
    "collapse.summary",
    "collapsefield",
    "collapsesize",
    "grouping.defaultMaxGroups",
    "grouping.defaultMaxHits",
    "grouping.defaultPrecisionFactor",
    "grouping.globalMaxGroups",
    "hitcountestimate",
    "hits",
    "model.defaultIndex",
    "model.filter",
    "model.language",
    "model.locale",
    "model.queryString",
    "model.restrict",
    "model.sources",
    "model.type",
    "model.type.composite",
    "model.type.isYqlDefault",
    "model.type.profile",
    "model.type.syntax",
    "model.type.tokenization",
    "offset",
    "presentation.bolding",
    "presentation.format",
    "presentation.format.tensors",
    "presentation.summary",
    "presentation.summaryFields",
    "presentation.timing",
    "ranking.freshness",
    "ranking.globalPhase.rankScoreDropLimit",
    "ranking.globalPhase.rerankCount",
    "ranking.keepRankCount",
    "ranking.listFeatures",
    "ranking.location",
    "ranking.profile",
    "ranking.rankScoreDropLimit",
    "ranking.secondPhase.rankScoreDropLimit",
    "ranking.secondPhase.rerankCount",
    "ranking.secondPhase.totalRerankCount",
    "ranking.significance.useModel",
    "ranking.softtimeout.enable",
    "ranking.softtimeout.factor",
    "ranking.sorting",
    "ranking.totalKeepRankCount",
    "recall",
    "renderer.json.jsonMaps",
    "renderer.json.jsonWsets",
    "rules.off",
    "rules.rulebase",
    "streaming.groupname",
    "streaming.groupnames",
    "streaming.selection",
    "streaming.userid",
    "timeout",
    "trace.explainLevel",
    "trace.level",
    "trace.profile",
    "trace.query",
    "trace.timestamps",
    "tracelevel.rules",
    "wand.field",
    "wand.heapSize",
    "wand.hits",
    "wand.scoreThreshold",
    "wand.tokens",
    "wand.type",
    "weakAnd.replace",
];

/// All listed names of parameters, and their aliases.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// Full name of a parameter that has aliases, or that is known in another letter case; any other name is
/// unchanged.
pub(super) fn canonical(name: &str) -> &str {
    let lower = name.to_ascii_lowercase();
    if let Ok(index) = ALIASES.binary_search_by(|(alias, _)| (*alias).cmp(&lower)) {
        return ALIASES[index].1;
    }
    NAMES.iter().find(|known| known.eq_ignore_ascii_case(name)).copied().unwrap_or(name)
}

/// Prefixes of parameter names that are not listed individually.
const FAMILIES: &[&str] = &[
    "dispatch.",
    "grouping.",
    "input.",
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

/// True if a name belongs to the query API.
pub(super) fn is_known(name: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "continue",
        super::FEDERATED,
        "yql",
        "queryProfile",
        "searchChain",
        "groupingSessionCache",
        "noCache",
        "user",
        "select",
        "timezone",
    ];
    let full = canonical(name);
    full != name
        || NAMES.contains(&full)
        || OTHERS.contains(&full)
        || FAMILIES.iter().any(|family| full.starts_with(family))
}

/// Rest of a name after one of `prefixes` (in any letter case).
pub(super) fn after<'a>(name: &'a str, prefixes: &[&str]) -> Option<&'a str> {
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
        assert_eq!(canonical("Count"), "hits");
        assert_eq!(canonical("MODEL.QUERYSTRING"), "model.queryString");
        assert_eq!(canonical("myOwn"), "myOwn");
        assert_eq!(after("Input.query(q)", &["input."]), Some("query(q)"));
    }
}
