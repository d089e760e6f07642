//! Request parameters with plain values: names, aliases, values and limits.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_query::{FederatedPart, Query, QueryLimits, QuerySources, RankingTime, TracingOptions, sorting};

fn query(parameters: &[(&str, &str)]) -> Result<Query, String> {
    let mut all: BTreeMap<String, String> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.entry("yql".to_owned()).or_insert_with(|| "select * from sources * where true".to_owned());
    Query::from_parameters(all, &QueryLimits::default()).map_err(|error| error.to_string())
}

#[track_caller]
fn accepted(parameters: &[(&str, &str)]) -> Query {
    query(parameters).expect("these parameters are right")
}

#[track_caller]
fn refused(parameters: &[(&str, &str)], reason: &str) {
    assert_eq!(query(parameters).expect_err("these parameters are wrong"), reason);
}

#[test]
fn aliases_are_read_in_any_case() {
    for (count, start) in [("hits", "offset"), ("count", "start"), ("Count", "START")] {
        let query = accepted(&[(count, "7"), (start, "3")]);
        assert_eq!((query.hits, query.offset), (7, 3), "{count} {start}");
    }
    for name in ["ranking", "ranking.profile", "Ranking.Profile"] {
        assert_eq!(accepted(&[(name, "bm25")]).ranking.profile.as_deref(), Some("bm25"), "{name}");
    }
    for name in ["input.query(q)", "ranking.features.query(q)", "rankfeature.query(q)"] {
        assert_eq!(accepted(&[(name, "[1,2]")]).ranking.inputs["q"], "[1,2]", "{name}");
    }
}

/// Numbers that a form leaves empty.
#[test]
fn blank_numbers_count_as_none() {
    for name in [
        "hits",
        "count",
        "offset",
        "start",
        "tracelevel",
        "trace.explainLevel",
        "ranking.freshness",
        "ranking.rerankCount",
        "ranking.rankScoreDropLimit",
        "grouping.defaultMaxGroups",
        "grouping.defaultPrecisionFactor",
    ] {
        for blank in ["", " "] {
            let query = query(&[(name, blank)]).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((query.hits, query.offset), (10, 0), "{name}");
        }
    }
    refused(&[("streaming.userid", "")], "parameter 'streaming.userid': expected a whole number, found \"\"");
}

#[test]
fn timeouts_have_units() {
    for (text, milliseconds) in [("5", 5000), ("0.5", 500), ("500ms", 500), ("60 s", 60_000), ("2s", 2000)] {
        assert_eq!(accepted(&[("timeout", text)]).timeout, Duration::from_millis(milliseconds), "{text}");
    }
    assert_eq!(accepted(&[("timeout", "1e400")]).timeout, Duration::from_secs(60));
    for text in ["", "-1", "5 minutes", "ms"] {
        let error = query(&[("timeout", text)]).expect_err("this is not a timeout");
        assert!(error.contains("500ms"), "{error}");
    }
}

#[test]
fn ranking_has_its_numbers() {
    let ranking = accepted(&[
        ("ranking.secondPhase.rerankCount", "50"),
        ("ranking.rankScoreDropLimit", "0.5"),
        ("ranking.freshness", "now-3600"),
        ("ranking.properties.dotProduct.X", "{a:1}"),
        ("ranking.elementGap.chunks", "infinity"),
        ("ranking.elementGap.title", "3"),
        ("ranking.listFeatures", "true"),
    ])
    .ranking;
    assert_eq!(ranking.rerank_count, Some(50));
    assert_eq!(ranking.score_drop_limit, Some(0.5));
    assert_eq!(ranking.now, RankingTime::WallClock(Duration::from_secs(3600)));
    assert_eq!(ranking.properties["dotProduct.X"], "{a:1}");
    assert_eq!((ranking.element_gaps["chunks"], ranking.element_gaps["title"]), (None, Some(3)));
    assert!(ranking.list_features);
    assert_eq!(accepted(&[("ranking.freshness", "1700000000")]).ranking.now, RankingTime::At(1_700_000_000));
}

#[test]
fn rank_properties_of_the_engine_are_settings() {
    let ranking = accepted(&[
        ("rankproperty.vespa.hitcollector.heapsize", "7"),
        ("ranking.properties.vespa.hitcollector.arraysize", "8"),
        ("rankproperty.vespa.hitcollector.rankscoredroplimit", "0.5"),
        ("ranking.rankScoreDropLimit", "0.75"),
        ("rankproperty.vespa.hitcollector.secondphase.rankscoredroplimit", "-1.5"),
        ("rankproperty.vespa.softtimeout.enable", "false"),
        ("rankproperty.vespa.softtimeout.factor", "0.25"),
        ("rankproperty.vespa.term.2.significance", "0.125"),
        ("rankproperty.vespa.now", "17"),
        ("rankproperty.vespa.globalphase.rerankcount", "9"),
        ("rankproperty.vespa.globalphase.rankscoredroplimit", "0.25"),
        ("rankproperty.vespa.matching.element_gap.Lines", "3"),
        ("rankproperty.vespa.matching.element_gap.notes", "4"),
        ("ranking.elementGap.notes", "infinity"),
    ])
    .ranking;
    assert_eq!((ranking.global_rerank_count, ranking.global_phase_drop_limit), (Some(9), Some(0.25)));
    assert_eq!(ranking.element_gaps, [("Lines".to_owned(), Some(3)), ("notes".to_owned(), None)].into());
    assert_eq!((ranking.rerank_count, ranking.keep_rank_count), (Some(7), Some(8)));
    assert_eq!((ranking.score_drop_limit, ranking.second_phase_drop_limit), (Some(0.75), Some(-1.5)));
    assert_eq!((ranking.soft_timeout, ranking.soft_timeout_factor), (false, Some(0.25)));
    assert_eq!(ranking.term_significance, [(2, 0.125)].into());
    assert_eq!(ranking.now, RankingTime::At(17));
    for (name, value, part) in [
        ("rankproperty.vespa.hitcollector.heapsize", "-1", "expected a number"),
        ("rankproperty.vespa.softtimeout.factor", "2", "at most 1"),
        ("rankproperty.vespa.matching.element_gap.a", "wide", "a whole number or infinity"),
        ("rankproperty.vespa.term.x.significance", "1", "the number of a term"),
        ("rankproperty.vespa.term.1.significance", "much", "expected a number"),
    ] {
        let error = query(&[(name, value)]).expect_err("the value is invalid");
        assert!(error.contains(part) && error.contains(name), "{error}");
    }
}

#[test]
fn languages_are_given_or_follow_from_the_encoding() {
    for (given, expected) in [
        (&[("language", "de")][..], Some("de")),
        (&[("locale", "de-CH"), ("language", "fr")][..], Some("de-CH")),
        (&[("encoding", "Big5")][..], Some("zh-hant")),
        (&[("encoding", "gb2312")][..], Some("zh-hans")),
        (&[("encoding", "euc-jp")][..], Some("ja")),
        (&[("encoding", "iso-2022-jp")][..], Some("ja")),
        (&[("encoding", "shift-jis")][..], Some("ja")),
        (&[("model.encoding", "EUC-KR")][..], Some("ko")),
        (&[("encoding", "big5"), ("language", "en")][..], Some("en")),
        (&[("encoding", "utf-8")][..], None),
    ] {
        assert_eq!(accepted(given).language.as_deref(), expected, "{given:?}");
    }
}

#[test]
fn estimates_have_no_hits() {
    assert_eq!(accepted(&[("hits", "7"), ("hitCountEstimate", "true")]).hits, 0);
    assert_eq!(accepted(&[("hits", "7"), ("hitcountestimate", "false")]).hits, 7);
}

#[test]
fn tracing_is_asked_for_by_parts_or_as_a_profile() {
    let traced = |given: &[(&str, &str)]| accepted(given).tracing;
    assert_eq!(traced(&[]), TracingOptions::default());
    assert_eq!(traced(&[("tracelevel", "3")]), TracingOptions { level: 3, ..TracingOptions::default() });
    let explained = TracingOptions { explained: true, ..TracingOptions::default() };
    assert_eq!(traced(&[("explainlevel", "1")]), explained);
    assert_eq!(
        traced(&[("trace.timestamps", "true"), ("trace.query", "false")]),
        TracingOptions { timestamps: true, query: false, ..TracingOptions::default() }
    );
    let profile = TracingOptions { level: 1, explained: true, timestamps: true, query: true };
    assert_eq!(traced(&[("profile", "true")]), profile);
    assert_eq!(
        traced(&[("trace.profile", "true"), ("trace.level", "4")]),
        TracingOptions { level: 4, ..profile }
    );
    assert!(accepted(&[("profile", "true")]).presentation.timing);
}

#[test]
fn a_group_name_is_never_taken_apart() {
    assert_eq!(accepted(&[("streaming.groupname", "a,b [\"c\"]")]).streaming.groups, ["a,b [\"c\"]"]);
    assert_eq!(accepted(&[("streaming.groupnames", "[\"a,b\", \"c\"]")]).streaming.groups, ["a,b", "c"]);
    assert_eq!(accepted(&[("streaming.userid", "42")]).streaming.user, Some(42));
}

#[test]
fn collapsing_has_a_size_a_field() {
    let collapse =
        accepted(&[("collapsefield", "a, b"), ("collapsesize", "2"), ("collapsesize.b", "3")]).collapse;
    assert_eq!(collapse.expect("it is asked for").fields, [("a".to_owned(), 2), ("b".to_owned(), 3)]);
}

#[test]
fn errors_name_the_parameter() {
    refused(&[("hits", "many")], "parameter 'hits': expected a whole number from 0, found \"many\"");
    refused(
        &[("hits", "401")],
        "parameter 'hits': 401 hits requested, configured limit: 400; ask for fewer, or set maxHits in the query profile",
    );
    refused(
        &[("start", "1001")],
        "parameter 'offset': Offset of 1001 requested, configured limit: 1000; set maxOffset in the query profile for more",
    );
    refused(
        &[("bolding", "maybe")],
        "parameter 'presentation.bolding': expected true or false, found \"maybe\"",
    );
    refused(
        &[("yql", "")],
        "parameter 'yql': no query; for example: yql=select * from sources * where true, or query=words",
    );
    refused(
        &[("input.q", "3")],
        "parameter 'input.q': only query features are inputs; for example: input.query(user)=5",
    );
    refused(
        &[("streaming.groupname", "")],
        "parameter 'streaming.groupname': the name of the group is empty",
    );
    for name in ["streaming.groupname", "streaming.groupnames"] {
        let text = if name.ends_with('s') { "[\"ann\", \"b\\u0000b\"]" } else { "a\nb" };
        refused(
            &[(name, text)],
            "parameter 'streaming.groupname': the name of the group has a control character",
        );
    }
}

#[test]
fn sorting_specifications() {
    for (text, expected) in [
        ("+surname -yearofbirth", "Ascending surname | Descending yearofbirth"),
        ("surname", "surname"),
        ("+lowercase(surname)", "Ascending surname lowercase()"),
        ("+uca(surname,nb_NO,TERTIARY)", "Ascending surname uca(nb_NO,TERTIARY)"),
        ("-[relevance] +[docid]", "Descending [relevance] | Ascending [docid]"),
        ("-[relevancy] +[rank]", "Descending [relevance] | Ascending [relevance]"),
        ("-[Relevancy] +[RANK]", "Descending [relevance] | Ascending [relevance]"),
        ("+UCA(surname,nb_NO,tertiary)", "Ascending surname uca(nb_NO,TERTIARY)"),
        ("LowerCase(a) Raw(b)", "a lowercase() | b raw()"),
        ("-MISSING(Uca(a),Last)", "Descending a uca() missing last"),
        ("+missing(a,default)", "Ascending a"),
        ("+missing(attr,first)", "Ascending attr missing first"),
        (
            "-missing(lowercase(attr),as,\"nothing \\\"here\")",
            "Descending attr lowercase() missing as nothing \"here",
        ),
        ("missing(a,as,) +b", "a missing as  | Ascending b"),
        ("map.key", "map.key"),
        (
            "+",
            "! sorting: line 1, column 2: expected the name of an attribute, found the end; for example: -date +lowercase(sender)",
        ),
        (
            "+upper(a)",
            "! sorting: line 1, column 1: no sort function 'upper'; there are lowercase, raw and uca",
        ),
        (
            "+uca(a,en,NONE)",
            "! sorting: line 1, column 1: 'NONE' is not a strength; there are PRIMARY, SECONDARY, TERTIARY, QUATERNARY, IDENTICAL",
        ),
        (
            "+missing(a,maybe)",
            "! sorting: line 1, column 1: what to do with missing values is one of: missing(a,first), missing(a,last), missing(a,as,42)",
        ),
        (
            "+a(b",
            "! sorting: line 1, column 5: expected ',' or ')', found the end; for example: -date +lowercase(sender)",
        ),
    ] {
        let printed = match sorting::parse(text) {
            Err(error) => format!("! {error}"),
            Ok(keys) => {
                let print = |key: &millrace_query::QuerySortKey| {
                    let order = key.order.map(|order| format!("{order:?} ")).unwrap_or_default();
                    let function =
                        key.function.as_ref().map(|(name, rest)| format!(" {name}({})", rest.join(",")));
                    let missing = key.missing.as_ref().map(|(policy, value)| {
                        format!(
                            " missing {policy}{}",
                            value.as_ref().map(|value| format!(" {value}")).unwrap_or_default()
                        )
                    });
                    format!(
                        "{order}{}{}{}",
                        key.field,
                        function.unwrap_or_default(),
                        missing.unwrap_or_default()
                    )
                };
                keys.iter().map(print).collect::<Vec<_>>().join(" | ")
            }
        };
        assert_eq!(printed, expected, "{text}");
    }
}

#[test]
fn parameters_of_one_source_go_before_the_statement() {
    let yql = "select * from mail, files where true order by date limit 5 offset 1 timeout 100";
    let given = [("yql", yql), ("hits", "7"), ("offset", "2"), ("timeout", "3s"), ("sources", "mail")];
    let whole = accepted(&given);
    assert_eq!((whole.hits, whole.offset, whole.timeout), (4, 1, Duration::from_millis(100)));
    let mut of_source = given.to_vec();
    of_source.push(("federation.sources", "mail,files"));
    let of_source = accepted(&of_source);
    assert_eq!((of_source.hits, of_source.offset, of_source.timeout), (7, 2, Duration::from_secs(3)));
    assert_eq!(of_source.sources, QuerySources::Named(vec!["mail".to_owned()]));
    assert_eq!(of_source.sorting, whole.sorting);
}

#[test]
fn a_part_is_the_query_that_another_node_reads_from_its_parameters() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let part = |restrict: Option<&[&str]>| FederatedPart {
        sources: names(&["mail"]),
        restrict: restrict.map(names),
        all: names(&["mail", "files@disk"]),
        hits: 12,
        offset: 3,
        timeout: Duration::from_micros(1_234_567),
    };
    let yql = "select * from mail, files where title contains 'fox' order by date limit 5 offset 1";
    let requests: [&[(&str, &str)]; 6] = [
        &[("yql", yql)],
        &[
            ("yql", yql),
            ("hits", "7"),
            ("timeout", "3s"),
            ("sources", "files"),
            ("streaming.groupname", "ann"),
        ],
        &[("query", "fox"), ("model.restrict", "note,mail"), ("start", "2"), ("count", "3")],
        &[("query", "fox"), ("search", "mail"), ("streaming.userid", "7"), ("ranking", "new")],
        &[("yql", "select * from sources * where true"), ("trace.level", "2"), ("collapsefield", "a")],
        &[("yql", "select * from mail where true | all(group(a) each(output(count())))")],
    ];
    let limits = QueryLimits::default();
    for request in requests {
        let whole = accepted(request);
        for part in [part(None), part(Some(&["note"]))] {
            let derived = whole.part(&part);
            assert_eq!((derived.hits, derived.offset, derived.timeout), (12, 3, part.timeout), "{request:?}");
            let elsewhere = Query::from_parameters(derived.parameters.clone(), &limits).unwrap();
            assert_eq!(derived, elsewhere, "{request:?}");
            // Parameters of the source's own replace those of the part.
            let own = [("hits".to_owned(), "4".to_owned()), ("streaming.userid".to_owned(), "9".to_owned())];
            let own = whole.part_with(&part, &own.into(), &limits).unwrap();
            assert_eq!((own.hits, own.offset), (4, 3), "{request:?}");
            assert_eq!((own.streaming.user, own.streaming.groups.len()), (Some(9), 0), "{request:?}");
            assert_eq!(own.federated, Some(part.all.clone()), "{request:?}");
        }
    }
}
