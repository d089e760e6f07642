//! Names of request parameters: every native property of the query API and each of its aliases, in any letter
//! case. The table is Vespa's own (the argument types of its query model, and the parameters of its
//! searchers).

use std::collections::BTreeMap;

use millrace_query::{Query, QueryLimits};

/// Full name, its aliases separated by blanks, a value.
const PARAMETERS: &[(&str, &str, &str)] = &[
    ("hits", "count", "7"),
    ("jsoncallback", "", ""),
    ("renderer.json.jsonMaps", "", "false"),
    ("renderer.json.jsonWsets", "", "false"),
    ("renderer.json.rawAsBase64", "", "false"),
    ("offset", "start", "3"),
    ("queryProfile", "queryprofile", "default"),
    ("searchChain", "searchchain", "vespa"),
    ("noCache", "nocache", "true"),
    ("groupingSessionCache", "groupingsessioncache", "false"),
    ("timeout", "", "2s"),
    ("model.queryString", "query", "select * from sources * where true"),
    ("model.type", "type", "all"),
    ("model.type.composite", "", "and"),
    ("model.type.tokenization", "", "internal"),
    ("model.type.syntax", "", "simple"),
    ("model.type.profile", "", "main"),
    ("model.type.isYqlDefault", "", "true"),
    ("model.filter", "filter", "+a"),
    ("model.defaultIndex", "default-index", "title"),
    ("model.language", "language lang", "de"),
    ("model.locale", "locale", "de-DE"),
    ("model.encoding", "encoding", "utf-8"),
    ("model.sources", "sources search", "mail"),
    ("model.searchGroup", "searchgroup", "0"),
    ("model.searchPath", "searchpath path", "0/1"),
    ("model.restrict", "restrict", "mail"),
    ("select", "", "all(group(a) each(output(count())))"),
    ("select.grouping", "", "[]"),
    ("select.fields", "", "[\"a\"]"),
    ("dispatch.topKProbability", "", "0.99"),
    ("dispatch.docsumRetryLimit", "", "1"),
    ("dispatch.docsumRetryFactor", "", "1.5"),
    ("dispatch.compression", "", "lz4"),
    ("ranking.location", "location", "place:(2,10000000,60000000,1000,0,1,0)"),
    ("ranking.profile", "ranking", "bm25"),
    ("ranking.sorting", "sorting sortspec", "-date"),
    ("ranking.listFeatures", "rankfeatures", "true"),
    ("ranking.freshness", "datetime", "1700000000"),
    ("ranking.queryCache", "", "true"),
    ("ranking.keepRankCount", "", "10"),
    ("ranking.totalKeepRankCount", "", "10"),
    ("ranking.rankScoreDropLimit", "", "0.5"),
    ("ranking.secondPhase.rerankCount", "ranking.rerankCount", "5"),
    ("ranking.secondPhase.totalRerankCount", "", "5"),
    ("ranking.secondPhase.rankScoreDropLimit", "", "0.5"),
    ("ranking.globalPhase.rerankCount", "", "5"),
    ("ranking.globalPhase.rankScoreDropLimit", "", "0.5"),
    ("ranking.significance.useModel", "", "false"),
    ("ranking.softtimeout.enable", "", "false"),
    ("ranking.softtimeout.factor", "", "0.5"),
    ("ranking.softtimeout.tailcost", "", "0.1"),
    ("ranking.matchPhase.attribute", "matchPhase.attribute", "date"),
    ("ranking.matchPhase.ascending", "matchPhase.ascending", "true"),
    ("ranking.matchPhase.maxHits", "matchPhase.maxHits", "100"),
    ("ranking.matchPhase.totalMaxHits", "matchPhase.totalMaxHits", "100"),
    ("ranking.matchPhase.maxFilterCoverage", "matchPhase.maxFilterCoverage", "0.2"),
    ("ranking.matchPhase.diversity.attribute", "matchPhase.diversity.attribute", "a"),
    ("ranking.matchPhase.diversity.minGroups", "matchPhase.diversity.minGroups", "3"),
    (
        "ranking.matchPhase.diversity.cutoffFactor",
        "ranking.matchPhase.diversity.cutoff.factor matchPhase.diversity.cutoffFactor \
         matchPhase.diversity.cutoff.factor",
        "10",
    ),
    (
        "ranking.matchPhase.diversity.cutoffStrategy",
        "ranking.matchPhase.diversity.cutoff.strategy matchPhase.diversity.cutoffStrategy \
         matchPhase.diversity.cutoff.strategy",
        "loose",
    ),
    ("ranking.matching.termwiseLimit", "", "0.1"),
    ("ranking.matching.numThreadsPerSearch", "", "1"),
    ("ranking.matching.numSearchPartitions", "", "1"),
    ("ranking.matching.minHitsPerThread", "", "1"),
    ("ranking.matching.postFilterThreshold", "", "0.1"),
    ("ranking.matching.approximateThreshold", "", "0.1"),
    ("ranking.matching.filterFirstThreshold", "", "0.1"),
    ("ranking.matching.filterFirstExploration", "", "0.1"),
    ("ranking.matching.explorationSlack", "", "0.1"),
    ("ranking.matching.targetHitsMaxAdjustmentFactor", "", "2"),
    ("ranking.matching.lazyFilter", "", "true"),
    ("ranking.matching.filterThreshold", "", "0.1"),
    ("ranking.matching.anntimebudget", "", "10ms"),
    ("ranking.matching.anntimeout.enable", "", "true"),
    ("ranking.matching.anntimeout.factor", "", "0.5"),
    ("ranking.matching.weakand.stopwordLimit", "", "0.5"),
    ("ranking.matching.weakand.adjustTarget", "", "0.5"),
    ("ranking.matching.weakand.allowDropAll", "", "true"),
    ("ranking.elementGap.title", "", "5"),
    ("ranking.features.query(user)", "input.query(user) rankfeature.query(user)", "0.5"),
    ("ranking.features.$user", "input.$user rankfeature.$user", "0.5"),
    ("ranking.properties.a.b", "rankproperty.a.b", "c"),
    ("presentation.bolding", "bolding", "false"),
    ("presentation.timing", "timing", "true"),
    ("presentation.summary", "summary", "short"),
    ("presentation.summaryFields", "summaryFields", "a,b"),
    ("presentation.format", "format template", "json"),
    ("presentation.format.tensors", "format.tensors", "long"),
    ("trace.profile", "profile", "true"),
    ("trace.level", "tracelevel traceLevel", "3"),
    ("trace.explainLevel", "explainlevel explainLevel", "1"),
    ("trace.profileDepth", "", "10"),
    ("trace.timestamps", "", "true"),
    ("trace.query", "", "false"),
    ("trace.timingDetails", "", "true"),
    ("trace.profiling.matching.depth", "", "3"),
    ("trace.profiling.firstPhaseRanking.depth", "", "3"),
    ("trace.profiling.secondPhaseRanking.depth", "", "3"),
    ("boolean.field", "", "conditions"),
    ("boolean.attributes", "", "{a:b}"),
    ("boolean.rangeAttributes", "", "{a:5}"),
    ("collapsefield", "", "a"),
    ("collapsesize", "", "2"),
    ("collapse.summary", "", "short"),
    ("gram.match", "", "any"),
    ("grouping.defaultMaxGroups", "", "5"),
    ("grouping.defaultMaxHits", "", "5"),
    ("grouping.defaultPrecisionFactor", "", "2"),
    ("grouping.globalMaxGroups", "", "500"),
    ("hitcountestimate", "", "true"),
    ("nostemming", "", "true"),
    ("recall", "", "+a"),
    ("rules.off", "", "true"),
    ("rules.rulebase", "", "common"),
    ("sorting.degrading", "", "false"),
    ("streaming.groupname", "groupname", "ada"),
    ("streaming.maxbucketspervisitor", "", "3"),
    ("streaming.priority", "", "HIGH_1"),
    ("streaming.selection", "", "true"),
    ("streaming.userid", "userid", "17"),
    ("tracelevel.rules", "", "3"),
    ("wand.field", "", "weights"),
    ("wand.tokens", "", "{a:2}"),
    ("wand.type", "", "parallel"),
    ("wand.heapSize", "", "9"),
    ("wand.hits", "", "9"),
    ("wand.scoreThreshold", "", "2.5"),
    ("wand.thresholdBoostFactor", "", "1.5"),
    ("weakAnd.opportunistic.and", "", "true"),
    ("weakAnd.opportunistic.factor", "", "0.5"),
    ("weakAnd.replace", "", "true"),
    ("pos.ll", "", "63.4225N;10.3637E"),
    ("pos.xy", "", "10363700;63422500"),
    ("pos.bb", "", "n=63.45,s=63.25,e=10.61,w=10.01"),
];

/// The query of one parameter beside a statement.
fn query(name: &str, value: &str) -> Result<String, String> {
    let mut parameters = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    if !["query", "model.querystring"].contains(&name.to_ascii_lowercase().as_str()) {
        parameters.insert("yql".to_owned(), "select * from sources * where true".to_owned());
    } else {
        parameters.insert("type".to_owned(), "yql".to_owned());
    }
    if ["filter", "model.filter"].contains(&name.to_ascii_lowercase().as_str()) {
        parameters.insert("query".to_owned(), "word".to_owned());
    }
    if name.eq_ignore_ascii_case("wand.field") {
        parameters.insert("wand.tokens".to_owned(), "{a:2}".to_owned());
    }
    let query =
        Query::from_parameters(parameters, &QueryLimits::default()).map_err(|error| error.to_string())?;
    // The parameters as they were given are handed on too.
    Ok(format!("{:?}", Query { parameters: BTreeMap::new(), ..query }))
}

#[test]
fn each_name_is_known_by_each_alias_in_any_case() {
    let mut wrong = Vec::new();
    for (full, aliases, value) in PARAMETERS {
        let expected = match query(full, value) {
            Ok(query) => query,
            Err(error) => {
                wrong.push(format!("{full}={value}: {error}"));
                continue;
            }
        };
        // What comes after these is a name of the application.
        let has_own_name = ["ranking.features.", "ranking.properties.", "ranking.elementGap."];
        let is_open = has_own_name.iter().any(|prefix| full.starts_with(prefix));
        let cased = [full.to_ascii_lowercase(), full.to_ascii_uppercase()].into_iter().filter(|_| !is_open);
        for name in aliases.split_whitespace().map(str::to_owned).chain(cased) {
            match query(&name, value) {
                Ok(found) if found == expected => {}
                Ok(found) => wrong.push(format!("{name} is not {full}:\n  {found}\n  {expected}")),
                Err(error) => wrong.push(format!("{name}={value}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_family_does_not_have_is_refused() {
    for (name, reason) in [
        ("model.querystrng", "there are model.defaultIndex, model.encoding"),
        ("ranking.matching.termwise", "ranking.matching.termwiseLimit"),
        ("ranking.features", "ranking.features."),
        ("Ranking.foo.bar", "no such parameter"),
        ("presentation.format.tensor", "presentation.format.tensors"),
        ("select.were", "select.where"),
        ("trace.levels", "trace.level"),
        ("streaming.fromtimestamp", "streaming.groupname"),
        ("streaming.totimestamp", "streaming.groupname"),
        ("gram.match", "expected all, any, weakAnd, phrase, near or onear"),
    ] {
        let error = query(name, "1").expect_err(name);
        assert!(error.starts_with(&format!("parameter '{name}'")) && error.contains(reason), "{error}");
    }
    for name in ["mine", "my.own", "ranked.by", "input", "dispatch.other", "renderer.mine"] {
        query(name, "1").expect(name);
    }
}

#[test]
fn places_of_parameters() {
    let place = |parameters: &[(&str, &str)]| {
        let mut all: BTreeMap<String, String> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.insert("yql".to_owned(), "select * from sources * where true".to_owned());
        match Query::from_parameters(all, &QueryLimits::default()) {
            Ok(query) => query.root.to_string(),
            Err(error) => error.to_string(),
        }
    };
    let circle = "AND(TRUE CIRCLE(60 10 1.109km))";
    assert_eq!(place(&[("pos.xy", "10000000;60000000"), ("pos.radius", "10000")]), circle);
    assert_eq!(place(&[("pos.ll", "N60;E10"), ("pos.radius", "10000")]), circle);
    for radius in ["1e1km", "10 km", "10000 m", "1e4m", "6.2137119224 miles", "6.2137119224mi"] {
        let found = place(&[("pos.ll", "N60;E10"), ("pos.radius", radius)]);
        assert_eq!(found, "AND(TRUE CIRCLE(60 10 10.000km))", "{radius}");
    }
    for radius in ["1 deg", "1d"] {
        let found = place(&[("pos.ll", "N60;E10"), ("pos.radius", radius)]);
        assert_eq!(found, place(&[("pos.ll", "N60;E10"), ("pos.radius", "1000000")]), "{radius}");
    }
    // A negative radius has no end, with a unit and without one.
    let endless = place(&[("location", "(2,10000000,60000000,-1,0,1,0)")]);
    assert!(endless.contains("CIRCLE(60 10"), "{endless}");
    assert_eq!(place(&[("pos.ll", "N60;E10"), ("pos.radius", "-1")]), endless);
    let boxed = "AND(TRUE home:BOX(59 9 61 11))";
    assert_eq!(place(&[("pos.bb", "n=61,s=59,e=11,w=9"), ("pos.attribute", "home")]), boxed);
    for written in [
        "N=61,S=59,E=11,W=9",
        "s=59.0 w=9.0 n=61.0 e=11.0",
        "south:59,west:9,north:61,east:11",
        "South=59 West=9 North=61 East=11",
        " north:61 south:5.9e1, east:11 west:9 ",
    ] {
        assert_eq!(place(&[("pos.bb", written), ("pos.attribute", "home")]), boxed, "{written}");
    }
    assert_eq!(place(&[("location", "home:[2,9000000,59000000,11000000,61000000]")]), boxed);
    for (name, value) in [
        ("pos.xy", "10N;60E"),
        ("pos.xy", "10000000"),
        ("pos.bb", "n=61,s=59,e=11"),
        ("pos.bb", "n=59,s=61,e=11,w=9"),
        ("pos.bb", "n=61,n=61,s=59,e=11,w=9"),
        ("pos.radius", "5 furlongs"),
        ("pos.radius", "inf km"),
        ("pos.radius", "km"),
        ("ranking.location", "home"),
        ("ranking.location", "home:(2,1,1)"),
    ] {
        let given = [("pos.ll", "N60;E10"), (name, value)];
        let given = if name == "pos.xy" { &given[1..] } else { &given[..] };
        let error = place(given);
        assert!(error.starts_with(&format!("parameter '{name}': \"{value}\" is not")), "{error}");
    }
}
