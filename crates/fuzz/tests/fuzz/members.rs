//! Every name in the lists of Vespa's source is in the table that a test walks; runs if the variable
//! `VESPA_SOURCE` names a checkout of Vespa's source. docs/extending.md lists the tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A list of names in Vespa's source, and the tables that have them.
struct NameList {
    /// Files and folders of Vespa's source.
    sources: &'static [&'static str],
    /// Finds the names of a line.
    names: fn(&str) -> Vec<&str>,
    /// Files here, from the root of the repository.
    tables: &'static [&'static str],
    /// Names that no table has, with the reason.
    without: &'static [(&'static str, &'static str)],
}

const NO_NAME: &str = "a description or a part of other names";
const OTHER_CHAIN: &str = "of a searcher that is in no chain by default";
const JAVA: &str = "of a component in Java, which is refused";
const IDENTIFIER: &str = "a word that may be a name, without a meaning of its own";

const LISTS: &[NameList] = &[
    NameList {
        sources: &["config-model/src/main/javacc/SchemaParser.jj"],
        names: tokens,
        tables: &["crates/schema/tests/grammar/schema.txt"],
        without: &[
            ("always", IDENTIFIER),
            ("contextual", IDENTIFIER),
            ("direct", IDENTIFIER),
            ("never", IDENTIFIER),
            ("on-demand", IDENTIFIER),
            ("operation", IDENTIFIER),
            ("override", IDENTIFIER),
            ("properties", IDENTIFIER),
            ("symmetric", IDENTIFIER),
            ("title", IDENTIFIER),
            ("url", IDENTIFIER),
        ],
    },
    NameList {
        // Without deployment.xml, which is for Vespa's cloud.
        sources: &[
            "config-model/src/main/resources/schema/admin.rnc",
            "config-model/src/main/resources/schema/common.rnc",
            "config-model/src/main/resources/schema/container.rnc",
            "config-model/src/main/resources/schema/containercluster.rnc",
            "config-model/src/main/resources/schema/content.rnc",
            "config-model/src/main/resources/schema/federation.rnc",
            "config-model/src/main/resources/schema/hosts.rnc",
            "config-model/src/main/resources/schema/processing.rnc",
            "config-model/src/main/resources/schema/routing.rnc",
            "config-model/src/main/resources/schema/searchchains.rnc",
            "config-model/src/main/resources/schema/services.rnc",
            "config-model/src/main/resources/schema/validation-overrides.rnc",
        ],
        names: elements,
        tables: &[
            "crates/schema/tests/grammar/services.txt",
            "crates/schema/tests/schema/services.rs",
            "crates/fuzz/grammars/services.txt",
        ],
        without: &[
            ("documentprocessors", JAVA),
            ("filter-config", JAVA),
            ("ident", "an older name of 'id'"),
            ("processor", JAVA),
            ("secret-ref", "files of models are fetched without a secret"),
            ("target-selector", JAVA),
        ],
    },
    NameList {
        sources: &["indexinglanguage/src/main/javacc/IndexingParser.jj"],
        names: tokens,
        tables: &[
            "crates/indexing/tests/indexing/scripts.rs",
            "crates/indexing/tests/indexing/expressions.rs",
        ],
        without: &[("create_if_non_existent", "an older way to write what `weightedset` of the field says")],
    },
    NameList {
        sources: &["searchlib/src/main/javacc/RankingExpressionParser.jj"],
        names: tokens,
        tables: &["crates/expression/tests/values.txt", "crates/expression/tests"],
        without: &[],
    },
    NameList {
        sources: &[
            "container-search/src/main/javacc/com/yahoo/search/grouping/request/parser/GroupingParser.jj",
        ],
        names: tokens,
        tables: &["crates/grouping/tests/requests.txt"],
        without: &[],
    },
    NameList {
        sources: &["document/src/main/javacc/SelectParser.jj"],
        names: tokens,
        tables: &["crates/selection/tests"],
        without: &[],
    },
    NameList {
        sources: &["searchlib/src/vespa/searchlib/features"],
        names: blueprints,
        tables: &["crates/ranking/tests/ranking/comparison.rs"],
        without: &[
            ("elementwiseBm25", "made by Vespa of `elementwise(bm25(…),…)`"),
            ("firstPhase", "a score, in `phases.rs`"),
            ("internalMaxReduceProdJoin", "made by Vespa of an expression"),
            ("rankingExpression", "an expression"),
            ("secondPhase", "a score, in `phases.rs`"),
        ],
    },
    NameList {
        sources: &["searchlib/src/vespa/searchlib/features"],
        names: lookups,
        tables: &[
            "crates/ranking/tests/ranking",
            "crates/schema/tests/schema/engine_properties.rs",
            "tests/features",
        ],
        without: &[
            ("expressionName", "an expression in a file of Vespa's own making"),
            ("maxAlternativeSegmentations", "bounds the work of `fieldMatch`"),
            ("numTerms", "the features that a list of all has"),
            ("seed", "random numbers"),
        ],
    },
    NameList {
        sources: &["searchlib/src/vespa/searchlib/fef/test/plugin"],
        names: blueprints,
        tables: &["crates/ranking/tests/ranking/features.rs"],
        without: &[("test_query", "query(name) does the same")],
    },
    NameList {
        sources: &[
            "searchlib/src/vespa/searchlib/fef/indexproperties.cpp",
            "searchlib/src/vespa/searchlib/fef/queryproperties.cpp",
        ],
        names: engine_properties,
        tables: &[
            "crates/schema/tests/grammar/schema.txt",
            "crates/schema/tests/schema/engine_properties.rs",
        ],
        without: &[("vespa.matching.element_gap", "the name of a field follows")],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo/search/yql/YqlParser.java"],
        names: constants,
        tables: &["crates/query/tests/yql.txt"],
        without: &[("grammar.", NO_NAME)],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo"],
        names: parameters,
        tables: &[
            "crates/query/tests/query/names.rs",
            "crates/server/tests/server/rates.rs",
            "tests/features",
        ],
        without: &[
            ("FieldFiller.disable", OTHER_CHAIN),
            ("FieldFilter.disable", "fields are left out where the summary is made"),
            ("IntentModel", JAVA),
            ("RewriteMeta", JAVA),
            ("cachecontrol.maxage", OTHER_CHAIN),
            ("cachecontrol.nocache", OTHER_CHAIN),
            ("cachecontrol.staleage", OTHER_CHAIN),
            ("chunk.limit.field", OTHER_CHAIN),
            ("chunk.limit.max", OTHER_CHAIN),
            ("chunk.limit.tensor", OTHER_CHAIN),
            ("connectioncontrol.maxlifetime", OTHER_CHAIN),
            ("dumpjson", OTHER_CHAIN),
            ("flatten", OTHER_CHAIN),
            ("grouping.flatten", OTHER_CHAIN),
            ("intentModel", JAVA),
            ("metrics.ignore", "accepted without effect, as `metrics.` is"),
            ("page.PageTemplateList", JAVA),
            ("page.id", JAVA),
            ("page.idList", JAVA),
            ("page.resolver", JAVA),
            ("providerName", NO_NAME),
            ("rate.idDimension", "the metric has no dimension"),
            ("relatedTo.embeddingField", OTHER_CHAIN),
            ("relatedTo.excludeSource", OTHER_CHAIN),
            ("relatedTo.exploreAdditionalHits", OTHER_CHAIN),
            ("relatedTo.id", OTHER_CHAIN),
            ("relatedTo.idField", OTHER_CHAIN),
            ("relatedTo.queryTensorName", OTHER_CHAIN),
            ("relatedTo.restrict", OTHER_CHAIN),
            ("relatedTo.summary", OTHER_CHAIN),
            ("renderer.json.debug", "accepted without effect, as `renderer.` is"),
            ("sourceName", NO_NAME),
            ("suggestonly", OTHER_CHAIN),
            ("to_be_removed_pagination", NO_NAME),
            ("unique", OTHER_CHAIN),
            ("validate_", NO_NAME),
        ],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo/search/query/SelectParser.java"],
        names: constants,
        tables: &["crates/query/tests"],
        without: &[("call", NO_NAME), ("grammar.", NO_NAME)],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo/search/query/profile/types/FieldType.java"],
        names: compared,
        tables: &["crates/schema/tests/schema/query_profiles.rs"],
        without: &[],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo/search/rendering"],
        names: constants,
        tables: &["crates/render/tests", "crates/server/tests", "tests/features"],
        without: &[("searchGroup", "of replicated groups of content nodes"), ("stackTrace", JAVA)],
    },
    NameList {
        sources: &["vespaclient-container-plugin/src/main/java/com/yahoo/document/restapi"],
        names: constants,
        tables: &["crates/gateway/tests", "crates/server/tests", "tests/features"],
        without: &[("VESPA_MBUS_THROTTLE_WINDOW_SIZE", "a variable of the process")],
    },
    NameList {
        sources: &["container-search/src/main/java/com/yahoo/search/query/Sorting.java"],
        names: constants,
        tables: &["crates/query/tests", "crates/plan/tests/plans.txt"],
        without: &[],
    },
    NameList {
        sources: &["document/src/main/java/com/yahoo/document/json"],
        names: constants,
        tables: &["crates/document/tests"],
        without: &[],
    },
    NameList {
        sources: &["model-evaluation/src/main/java"],
        names: constants,
        tables: &["crates/server/tests/server/model_evaluation.rs"],
        without: &[],
    },
    NameList {
        sources: &["config-model-api/src/main/java/com/yahoo/config/application/api/ValidationId.java"],
        names: identifiers_in_parentheses,
        tables: &["crates/fuzz/grammars/services.txt"],
        without: &[],
    },
];

#[test]
fn every_name_of_vespa_is_in_a_table() {
    let Some(root) = std::env::var_os("VESPA_SOURCE").map(PathBuf::from) else {
        eprintln!("skipped: VESPA_SOURCE names no checkout of Vespa's source");
        return;
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut missing = Vec::new();
    for list in LISTS {
        let text: String = list.sources.iter().map(|path| text_of(&root.join(path))).collect();
        let names: BTreeSet<&str> = text.lines().flat_map(list.names).collect();
        assert!(!names.is_empty(), "{:?}: no names", list.sources);
        let tables: String = list.tables.iter().map(|path| text_of(&own.join(path))).collect();
        let words = words(&tables.to_ascii_lowercase());
        println!("{:?}: {} names", list.sources, names.len());
        for name in names {
            let is_there = words.contains(&name.to_ascii_lowercase());
            let has_reason = list.without.iter().any(|(known, _)| *known == name);
            if !is_there && !has_reason {
                missing.push(format!("{name} of {:?} is in none of {:?}", list.sources, list.tables));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Text of a file, or of all files of a folder.
fn text_of(path: &Path) -> String {
    if path.is_file() {
        return String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().map(|path| text_of(path)).collect()
}

/// All words of a text, also those that points and hyphens join, and their parts.
fn words(text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-$".contains(c);
    for joined in text.split(|c| !is_part(c)) {
        all.insert(joined.trim_matches(['.', '-']).to_owned());
        all.extend(joined.split('.').map(str::to_owned));
        all.extend(joined.split(['.', '-']).map(str::to_owned));
    }
    all
}

/// True for names of letters, digits and signs that names have.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Texts in quotes of a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).filter(|text| is_name(text)).collect()
}

/// Words of a grammar: `< NAME: "word" >`.
fn tokens(line: &str) -> Vec<&str> {
    let line = line.trim_start_matches([' ', '|']);
    let is_token = line.starts_with('<') && line.contains(':');
    // Single letters are marks of numbers and times.
    let words = quoted(line).into_iter().filter(|word| is_token && word.len() > 1);
    words.collect()
}

/// Elements and attributes of a schema of XML: `element name`, `attribute name`.
fn elements(line: &str) -> Vec<&str> {
    let line = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| ["element", "attribute"].contains(&pair[0]));
    pairs.map(|pair| pair[1].trim_start_matches('\\')).filter(|name| is_name(name)).collect()
}

/// `Blueprint("name")`.
fn blueprints(line: &str) -> Vec<&str> {
    if line.contains("Blueprint(\"") { quoted(line).into_iter().take(1).collect() } else { Vec::new() }
}

/// `"name".equals(text)`.
fn compared(line: &str) -> Vec<&str> {
    if line.contains("\".equals(") { quoted(line).into_iter().take(1).collect() } else { Vec::new() }
}

/// `lookup(getName(), "name")`, `lookupTable(…)`.
fn lookups(line: &str) -> Vec<&str> {
    if line.contains("lookup(") || line.contains("lookupTable(") { quoted(line) } else { Vec::new() }
}

/// `NAME("vespa.name")`; of a name that ends with a point, its last part.
fn engine_properties(line: &str) -> Vec<&str> {
    let names = quoted(line).into_iter().filter(|name| name.starts_with("vespa."));
    names.filter_map(|name| if name.ends_with('.') { name.rsplit('.').nth(1) } else { Some(name) }).collect()
}

/// `static final String NAME = "name"`.
fn constants(line: &str) -> Vec<&str> {
    if line.contains("static final String ") {
        quoted(line).into_iter().take(1).collect()
    } else {
        Vec::new()
    }
}

/// `CompoundName.from("name")`.
fn parameters(line: &str) -> Vec<&str> {
    let calls = line.split("CompoundName.from(\"").skip(1);
    calls.filter_map(|rest| rest.split('"').next()).filter(|name| is_name(name)).collect()
}

/// `name("identifier")`.
fn identifiers_in_parentheses(line: &str) -> Vec<&str> {
    if line.contains("(\"") { quoted(line).into_iter().take(1).collect() } else { Vec::new() }
}
