//! Schemas: text in, a summary of the resolved schema or the error out.

use std::collections::BTreeMap;

use millrace_schema::{Application, MatchMode, PackageMistakes, Schema, SummaryMode};

const SERVICES: &str = "<services><container id='c'><search/></container><content id='mail'><documents>\
                        <document type='x' mode='streaming'/></documents></content></services>";

/// An application with the schema `x`, and further files.
fn application(schema: &str, files: &[(&str, &str)]) -> Result<Application, PackageMistakes> {
    let mut all: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    all.insert("services.xml".to_owned(), SERVICES.as_bytes().to_vec());
    all.insert("schemas/x.sd".to_owned(), schema.as_bytes().to_vec());
    Application::from_files(all)
}

fn schema(text: &str) -> Schema {
    let application = application(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Schema::clone(&application.schemas["x"])
}

/// One line per field: type, uses, matching.
fn describe(schema: &Schema, name: &str) -> String {
    let field = &schema.fields[name];
    let mut words = vec![field.data_type.to_string()];
    let mode = match field.matching.mode {
        MatchMode::Text => "text".to_owned(),
        MatchMode::Word => "word".to_owned(),
        MatchMode::Exact => "exact".to_owned(),
        MatchMode::Gram { size } => format!("gram{size}"),
        MatchMode::Uri(part) => format!("uri {part:?}"),
    };
    for (flag, word) in [
        (field.index.is_some(), format!("index:{mode}")),
        (field.attribute.is_some() && field.index.is_none(), format!("attribute:{mode}")),
        (field.attribute.is_some() && field.index.is_some(), "attribute".to_owned()),
        (field.in_summary, "summary".to_owned()),
        (field.summary == SummaryMode::Dynamic, "dynamic".to_owned()),
        (field.bolding, "bolding".to_owned()),
        (field.rank_filter, "filter".to_owned()),
        (field.matching.cased, "cased".to_owned()),
        (field.synthetic, "synthetic".to_owned()),
        (field.is_text(), format!("{:?}", field.matching.stemming)),
    ] {
        if flag {
            words.push(word);
        }
    }
    words.join(" ")
}

#[test]
fn fields_get_their_defaults_by_type() {
    let check = |field: &str, expected: &str| {
        let schema = schema(&format!(
            "schema x {{ document x {{ struct person {{ field name type string {{}} }}\n field f type {field} }} }}"
        ));
        assert_eq!(describe(&schema, "f"), expected, "{field}");
    };
    check("string { indexing: summary | index }", "string index:text summary Best");
    check("string { indexing: summary | attribute }", "string attribute:word summary");
    check("string { indexing: index | attribute }", "string index:text attribute Best");
    check("string {}", "string");
    check("uri { indexing: index }", "uri index:uri All None");
    check("array<uri> { indexing: summary | index }", "array<uri> index:uri All summary None");
    check("uri { indexing: attribute }", "uri attribute:word");
    check("string", "string");
    check("string { indexing: index\n match: exact }", "string index:exact filter");
    check("string { indexing: index\n match: exact\n rank: normal }", "string index:exact");
    check("string { indexing: index\n match { gram\n gram-size: 3 } }", "string index:gram3 None");
    check("string { indexing: index\n stemming: none }", "string index:text None");
    check("string { indexing: index\n match: cased }", "string index:text cased Best");
    check(
        "string { indexing: summary | index\n summary: dynamic\n bolding: on }",
        "string index:text summary dynamic Best",
    );
    check("string { indexing: index\n bolding: on }", "string index:text bolding Best");
    check(
        "string { indexing { input f | lowercase | index; # words\n input f | summary; } }",
        "string index:text summary Best",
    );
    check("string { indexing: input f |\n   lowercase\n | index }", "string index:text Best");
    check("string { indexing: \"index\" | attribute }", "string attribute:word");
    check("int { indexing: index }", "int attribute:word");
    check("array<string> { indexing: index }", "array<string> index:text Best");
    check("array<person> { indexing: index }", "array<person> index:text");
    check(
        "map<string, int> { indexing: summary\n struct-field key { indexing: attribute } }",
        "map<string,int> summary",
    );
    check(
        "weightedset<string> { indexing: attribute\n weightedset: remove-if-zero }",
        "weightedset<string> attribute:word",
    );
    check(
        "tensor<bfloat16>(x[384]) { indexing: attribute | index\n attribute { distance-metric: angular } }",
        "tensor<bfloat16>(x[384]) attribute:word",
    );
    check("string[] { indexing: attribute }", "array<string> attribute:word");
    check("tag { indexing: index }", "weightedset<string> index:word");
}

#[test]
fn every_body_of_a_field_is_read() {
    let schema = schema(
        r#"
        # A comment first
        schema x {
            document x {
                struct person {
                    field first_name type string {}
                    field age type int {}
                }
                compression { type: lz4 }
                field title type string {
                    indexing: summary | index
                    index { enable-bm25 stemming: shortest }
                    alias: headline
                    bolding: on
                    rank-type title: identity
                    weight: 200
                    normalizing: none
                    query-command: "exact @@"
                    id: 7
                    linguistics { profile { index: a search: b } }
                    match { max-length: 1000 max-occurrences: 5 max-token-length: 20 }
                    summary short_title { source: title, artist  dynamic }
                    summary-to: tiny, small
                }
                field artist type string {
                    indexing: attribute
                    attribute { fast-search paged sorting { order: descending function: uca strength: primary locale: "en" } }
                    dictionary { hash cased }
                    match { cased word exact-terminator: "@%" }
                }
                field people type map<string, person> {
                    indexing: summary
                    summary: matched-elements-only
                    struct-field key { indexing: attribute }
                    struct-field value { struct-field age { indexing: attribute attribute: fast-search } }
                    struct-field value.first_name { indexing: index match: prefix }
                }
                field vector type tensor<float>(x[4], m{}) {
                    indexing: attribute
                    attribute: distance-metric: prenormalized-angular
                    index { hnsw { max-links-per-node: 16 neighbors-to-explore-at-insert: 200 } }
                }
            }
            field year type int { indexing: input artist | to_int | attribute }
            fieldset default { fields: title, artist }
            stemming: multiple
            index title: enable-bm25
            raw-as-base64-in-summary: false
            documentid: attribute
        }
        "#,
    );
    let title = &schema.fields["title"];
    assert_eq!(title.weight, 200);
    assert_eq!(title.aliases, ["headline"]);
    assert_eq!(title.query_commands, ["exact @@"]);
    assert!(!title.matching.normalizing && title.index.as_ref().is_some_and(|index| index.enable_bm25));
    assert_eq!(describe(&schema, "title"), "string index:text summary bolding Shortest");
    assert_eq!(title.matching.max_token_length, Some(20));
    let artist = &schema.fields["artist"];
    let attribute = artist.attribute.as_ref().unwrap();
    assert!(attribute.dictionary.cased && attribute.paged && artist.matching.cased);
    let sorting: Vec<String> =
        attribute.sorting.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(sorting.join(" "), "order=descending function=uca strength=primary locale=en");
    let parts: Vec<String> = schema.fields["people"]
        .struct_fields
        .iter()
        .map(|(path, part)| format!("{path}:{}:{}", part.name, part.data_type))
        .collect();
    assert_eq!(
        parts,
        [
            "key:people.key:string",
            "value:people.value:person",
            "value.age:people.value.age:int",
            "value.first_name:people.value.first_name:string"
        ]
    );
    assert_eq!(describe(&schema, "year"), "int attribute:word synthetic");
    assert!(schema.document_type.field("year").is_none() && schema.document_type.makes("year"));
    assert!(!schema.raw_as_base64);
    let summaries: Vec<&str> = schema.summaries.keys().map(String::as_str).collect();
    assert_eq!(summaries, ["attributeprefetch", "default", "small", "tiny"]);
}

#[test]
fn summaries_are_inherited_and_completed() {
    let check = |body: &str, name: &str, expected: &str| {
        let schema = schema(&format!(
            "schema x {{ document x {{
                field a type string {{ indexing: summary | index\n summary: dynamic }}
                field b type string {{ indexing: summary | attribute }}
                field c type array<string> {{ indexing: index }}
            }} {body} }}"
        ));
        let fields: Vec<String> = schema.summaries[name]
            .fields
            .iter()
            .map(|field| {
                format!(
                    "{}={}:{:?}{}",
                    field.name,
                    field.source,
                    field.mode,
                    if field.bolding { "*" } else { "" }
                )
            })
            .collect();
        assert_eq!(fields.join(" "), expected, "{body}");
    };
    check("", "default", "a=a:Dynamic b=b:Full");
    check("document-summary s { summary b {} }", "s", "b=b:Full");
    check("document-summary s { summary c {} }", "default", "a=a:Dynamic b=b:Full c=c:Full");
    check("document-summary s { summary a type string { full } from-disk }", "s", "a=a:Full");
    check("document-summary s { summary t { source: a bolding: on } }", "s", "t=a:Full*");
    check(
        "document-summary s inherits r { summary b {} }\ndocument-summary r { summary a {} }",
        "s",
        "a=a:Dynamic b=b:Full",
    );
    check(
        "document-summary s { summary e { source: c select-elements-by: best } }",
        "s",
        "e=c:SelectElementsBy { feature: \"best\", dynamic: false }",
    );
    check(
        "document-summary s { summary e { source: c dynamic select-elements-by: best } }",
        "s",
        "e=c:SelectElementsBy { feature: \"best\", dynamic: true }",
    );
    check(
        "document-summary s { summary e { source: c matched-elements-only dynamic } }",
        "s",
        "e=c:MatchedElements { dynamic: true }",
    );
    check("document-summary s { summary e { source: c tokens dynamic } }", "s", "e=c:Dynamic");
    check(
        "document-summary s { summary e { source: c bolding: on matched-elements-only } }",
        "s",
        "e=c:MatchedElements { dynamic: false }*",
    );
    check(
        "document-summary s { summary documentid {} summary n: dynamic }\nfield n type string { indexing: input a | index }",
        "s",
        "documentid=documentid:Full n=n:Dynamic",
    );
}

/// Vespa's summary of the attributes: those of one value that no summary shows with marks or as a snippet.
#[test]
fn attributes_have_a_summary() {
    let check = |fields: &str, body: &str, expected: &str| {
        let schema = schema(&format!(
            "schema x {{ document x {{ struct s {{ field n type int {{}} }} {fields} }} {body} }}"
        ));
        let shown = schema.summaries.get("attributeprefetch").map(|summary| {
            let fields = summary.fields.iter().map(|field| format!("{}={}", field.name, field.source));
            fields.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref().unwrap_or("none"), expected, "{fields} {body}");
    };
    let of = |data_type: &str| format!("field a type {data_type} {{ indexing: attribute }}");
    for data_type in ["string", "int", "byte", "bool", "float16", "double", "raw"] {
        check(&of(data_type), "", "a=a");
    }
    for data_type in ["array<int>", "weightedset<string>", "tensor(x[2])", "array<position>"] {
        check(&of(data_type), "", "none");
    }
    check(&of("position"), "", "a_zcurve=a_zcurve");
    check("field m type s { indexing: summary\n struct-field n { indexing: attribute } }", "", "none");
    check("field a type string { indexing: summary | index }", "", "none");
    check("field a type string { indexing: attribute\n bolding: on }", "", "none");
    check(&of("string"), "document-summary short { summary a { dynamic } }", "none");
    check(
        "field b type int { indexing: attribute } field a type int { indexing: attribute }",
        "field c type int { indexing: input a | attribute }",
        "b=b a=a c=c",
    );
    check(
        &of("int"),
        "document-summary attributeprefetch { summary b { source: a } summary documentid {} }",
        "b=a documentid=documentid a=a",
    );
}

/// A field that the default summary shows under another name leaves it, unless it is asked for.
#[test]
fn a_renamed_field_is_shown_once() {
    let check = |field: &str, body: &str, expected: &str| {
        let schema = schema(&format!(
            "schema x {{ document x {{ field a type string {{ indexing: summary\n{field} }} field b type int {{ indexing: summary }} }} {body} }}"
        ));
        let names = |summary: &str| {
            schema.summaries[summary].fields.iter().map(|field| &*field.name).collect::<Vec<_>>().join(" ")
        };
        let others = schema.summaries.keys().filter(|name| *name != "default");
        let others: String = others.map(|name| format!(", {name}: {}", names(name))).collect();
        assert_eq!(format!("{}{others}", names("default")), expected, "{field} {body}");
    };
    check("", "", "a b");
    check("summary c { source: a }", "", "c b");
    check("summary c { source: b, a }", "", "c");
    check("summary c { source: a }\nsummary a {}", "", "a c b");
    check("summary c { source: a }\nbolding: on", "", "a c b");
    check("summary c { source: a }\nsummary-to: s", "", "a c b, s: a");
    check("summary c { source: a to: s }", "", "a b c, s: c");
    check("", "document-summary default { summary c { source: a } }", "b c");
    check("", "document-summary default { summary c { source: a } summary a {} }", "a b c");
    check("", "document-summary s { summary c { source: a } }", "a b c, s: c");
}

#[test]
fn aliases_denote_fields_and_fieldsets() {
    let aliases = |body: &str| {
        let schema = schema(&format!(
            "schema x {{ document x {{ field a type string {{ indexing: index\n{body} }} field b type int {{ indexing: attribute }} }}
             fieldset default {{ fields: a }} }}"
        ));
        let of_indexes = schema.index_aliases.iter().map(|(alias, index)| format!("{alias}={index}"));
        of_indexes.chain(schema.fields["a"].aliases.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(aliases("alias: head-line"), "head-line");
    assert_eq!(aliases("alias a: h"), "h");
    assert_eq!(aliases("alias default: all\nalias b: number"), "all=default number=b");
    assert_eq!(aliases("alias a: h\nalias: h"), "h h");
    assert_eq!(aliases("index: alias: i\nattribute { alias: j\n alias a: k }"), "j k i");
    // An index that does not exist: a warning.
    assert_eq!(aliases("alias nosuch: x"), "");
    // Parts of addresses.
    let text = "schema x { document x { field u type uri { indexing: index\n alias hostname: site } } }";
    assert_eq!(schema(text).index_aliases["site"], "u.hostname");
}

#[test]
fn rank_profiles_are_inherited() {
    let schema = schema(
        "schema x {
            document x { field a type string { indexing: index } field d type int { indexing: attribute } }
            rank-profile base {
                inputs { query(q) tensor<float>(x[2]): [1, 2]
                         limit: 0.5
                         plain double }
                constants { one: 1
                    constant(two) tensor(x[1]): [2] }
                function f(a, b) { expression: a + b }
                macro inline g() { expression { 1 +
                    2 } }
                first-phase { expression: f(1, 2)
                    keep-rank-count: 10 total-keep-rank-count: 20 rank-score-drop-limit: -1.5 }
                match-features: bm25 (a) attribute(d)
                summary-features { freshness(d) }
                rank-properties { bm25(a).k1: 1.2
                    \"other key\": \"some value\" }
                rank a { filter element-gap: 3 }
                rank-type a: tags
                strict: true
                diversity { attribute: d min-groups: 5 }
                num-threads-per-search: 1
                ignore-default-rank-features
                weakand { stopword-limit: 0.6 adjust-target: 0.01 allow-drop-all: true }
                match-phase { attribute: d order: ascending total-max-hits: 1000 }
                mutate { on-match { d += 1 } }
                significance { use-model: true }
                rank-profile inner inherits base { second-phase { expression: g()
                        rerank-count: 7 } }
            }
            rank-profile child inherits base {
                first-phase { expression: bm25(a) }
                match-features inherits base { now }
                summary-features {}
                global-phase { expression { onnx } rerank-count: 50 }
                rank a: normal
            }
        }",
    );
    let features = |profile: &str| {
        let list = &schema.rank_profiles[profile].match_features;
        list.iter().map(|feature| feature.value.as_str()).collect::<Vec<_>>().join(" ")
    };
    let base = &schema.rank_profiles["base"];
    let child = &schema.rank_profiles["child"];
    assert_eq!(base.first_phase.keep_rank_count, Some(20));
    assert_eq!(base.functions["g"].body.value.split_whitespace().collect::<Vec<_>>(), ["1", "+", "2"]);
    assert!(base.functions["g"].inline && base.strict && base.use_significance_model);
    assert_eq!(base.functions["f"].parameters, ["a", "b"]);
    assert_eq!(base.inputs["q"].default.as_ref().map(|text| text.value.as_str()), Some("[1, 2]"));
    assert_eq!(base.inputs.keys().collect::<Vec<_>>(), ["limit", "plain", "q"]);
    assert_eq!(base.constants["two"].value.value, "[2]");
    assert_eq!(
        base.properties,
        [("bm25(a).k1".into(), "1.2".into()), ("other key".into(), "some value".into())]
    );
    assert_eq!(
        (base.filter_fields.len(), base.element_gaps["a"], base.rank_types["a"].as_str()),
        (1, 3, "tags")
    );
    assert_eq!(base.diversity, Some(("d".into(), 5)));
    assert_eq!(features("base"), "bm25(a) attribute(d)");
    assert_eq!(features("child"), "bm25(a) attribute(d) now");
    assert!(child.summary_features.is_empty() && child.filter_fields.is_empty());
    assert_eq!(child.first_phase.expression.as_ref().map(|text| text.value.as_str()), Some("bm25(a)"));
    assert_eq!(child.first_phase.score_drop_limit, Some(-1.5));
    assert_eq!(child.global_phase.rerank_count, Some(50));
    assert_eq!(schema.rank_profiles["base.inner"].second_phase.rerank_count, Some(7));
    assert_eq!(base.match_features[1].position.to_string(), "schemas/x.sd:14:42");
}

#[test]
fn rank_properties_are_defaults_of_query_features() {
    let schema = schema(
        "schema x { document x { }
            rank-profile base {
                inputs { query(typed) tensor<float>(x[2])
                    query(own): 1 }
                rank-properties { query(plain): 4
                    $old: 2
                    $plain: 9
                    query(typed): [1,2]
                    query(own): 7
                    query(text): abc
                    query(broken: 5 }
            }
            rank-profile child inherits base { inputs { query(old): 6 }
                rank-properties { query(plain): 5
                    $old: 3 } } }",
    );
    for (profile, expected) in [
        ("base", "old=2 own=1 plain=4 typed=[1,2]"),
        ("child", "old=6 own=1 plain=5 typed=[1,2]"),
        ("default", ""),
    ] {
        let inputs = schema.rank_profiles[profile].inputs.iter();
        let faults = inputs.map(|(name, input)| {
            format!("{name}={}", input.default.as_ref().map_or("", |text| text.value.as_str()))
        });
        assert_eq!(faults.collect::<Vec<_>>().join(" "), expected, "{profile}");
    }
}

#[test]
fn files_of_the_package_are_read_in() {
    let text = "schema x {
        document x { field a type string { indexing: index } }
        constant sizes { file: constants/sizes.json type: tensor(x[2]) }
        onnx-model m { file: models/m.onnx input \"ids\": query(ids)
            output \"out\": score
            gpu-device: 0 }
        rank-profile p { first-phase { expression: file:own } constants { s tensor(x[2]): file:constants/sizes.json } }
    }";
    let files = [
        ("constants/sizes.json", "[1, 2]"),
        ("models/m.onnx", "model"),
        ("schemas/own.expression", "bm25(a)\n"),
        (
            "schemas/x/deep/extra.profile",
            "rank-profile extra inherits p { rank-profile part inherits extra { } }",
        ),
    ];
    let application = application(text, &files).unwrap();
    let schema = &application.schemas["x"];
    let phase = |name: &str| {
        schema.rank_profiles[name].first_phase.expression.as_ref().map(|text| text.value.clone())
    };
    assert_eq!(schema.constants["sizes"].value.value, "[1, 2]");
    assert_eq!(schema.onnx_models["m"].inputs[0].1.value, "query(ids)");
    assert_eq!(phase("p").as_deref(), Some("bm25(a)"));
    assert_eq!(phase("extra.part").as_deref(), Some("bm25(a)"));
    assert_eq!(phase("unranked").as_deref(), Some("0"));
    assert_eq!(phase("default"), None);
}

#[test]
fn schemas_inherit() {
    let parent = "schema parent {
        document parent { struct s { field n type string {} } field a type array<s> { indexing: summary } }
        field made type string { indexing: \"x\" | index }
        fieldset default { fields: made }
        document-summary short { summary a {} }
        rank-profile default { first-phase { expression: 1 } }
        stemming: none
    }";
    let child = "schema x inherits parent {
        document x inherits parent { field b type s {} }
        rank-profile default inherits default { second-phase { expression: 2 } }
    }";
    let application = application(child, &[("schemas/parent.sd", parent)]).unwrap();
    let schema = &application.schemas["x"];
    let names: Vec<&str> = schema.document_type.fields().iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(
        schema.document_type.makes("made") && !schema.document_type.makes("a"),
        "the parent's is made too"
    );
    assert_eq!(schema.ancestors.iter().map(|name| &**name).collect::<Vec<_>>(), ["parent"]);
    assert_eq!(describe(schema, "made"), "string index:text synthetic None");
    assert!(schema.fieldsets.contains_key("default") && schema.summaries.contains_key("short"));
    let default = &schema.rank_profiles["default"];
    assert!(default.first_phase.expression.is_some() && default.second_phase.expression.is_some());
}

#[test]
fn rank_profiles_inherit_those_of_inherited_documents() {
    let parent = "schema parent { document parent { field n type int { indexing: attribute } }
        rank-profile p { first-phase { expression: attribute(n) } match-features: attribute(n) } }";
    let child = "schema x { document x inherits parent { }
        rank-profile q inherits p { match-features inherits p { attribute(n) } }
        rank-profile default inherits default { } }";
    let application = application(child, &[("schemas/parent.sd", parent)]).unwrap();
    let profiles = &application.schemas["x"].rank_profiles;
    assert!(profiles["q"].first_phase.expression.is_some() && !profiles.contains_key("p"));
    let error = self::application("schema x { document x {} rank-profile q inherits p {} }", &[]).err();
    let message = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("'p', which is not declared"), "{message}");
}

#[test]
fn the_hybrid_profile_is_made_of_the_fields_of_a_schema() {
    let schema = |fields: &str, profile: &str| {
        let text = format!(
            "schema x {{ document x {{ field subject type string {{ indexing: index }} {fields} }}
                {profile} }}"
        );
        application(&text, &[]).map(|application| application.schemas["x"].clone())
    };
    let vector = "field v type tensor<bfloat16>(x[4]) { indexing: attribute }";
    let whole = format!(
        "{vector} field body type string {{ indexing: index }} field sent type long {{ indexing: attribute }}"
    );
    let found = schema(&whole, "rank-profile hybrid inherits hybrid { }").unwrap();
    let profile = &found.rank_profiles["hybrid"];
    let function = |name: &str| profile.functions[name].body.value.clone();
    assert_eq!(function("text_score"), "max(bm25(body), bm25(subject))");
    assert_eq!(function("vector_score"), "closeness(field, v)");
    assert_eq!(function("age_score"), "freshness(sent).logscale");
    assert!(profile.inputs.contains_key("v"));
    assert_eq!(profile.inputs["text_weight"].default.as_ref().unwrap().value, "0.15");
    let property = |name: &str| {
        profile.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(property("freshness(sent).maxAge"), Some("157680000"));
    assert_eq!(property("freshness(sent).halfResponse"), Some("15768000"));
    assert!(profile.global_phase.expression.is_some());
    let own = "fieldset default { fields: subject } rank-profile mine inherits hybrid { function age_score() { expression: 1 } }";
    let found = schema(&whole, own).unwrap();
    let profile = &found.rank_profiles["mine"];
    assert_eq!(profile.functions["text_score"].body.value, "bm25(subject)");
    assert_eq!(profile.functions["age_score"].body.value, "1");
    assert!(!found.rank_profiles.contains_key("hybrid"));
    for (fields, part) in [
        (
            "",
            "needs one tensor attribute with vectors, as in tensor<bfloat16>(x[384]), and the schema has none",
        ),
        (
            "field v type tensor<float>(x[4]) { indexing: attribute } field w type tensor<float>(x[4]) { indexing: attribute }",
            "has v, w",
        ),
    ] {
        let error = schema(fields, "rank-profile mine inherits hybrid { }").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // A declared profile replaces the built-in one.
    let declared =
        "rank-profile hybrid { first-phase { expression: 3 } } rank-profile mine inherits hybrid { }";
    let found = schema(vector, declared).unwrap();
    assert_eq!(found.rank_profiles["mine"].first_phase.expression.as_ref().unwrap().value, "3");
}

#[test]
fn a_package_can_ask_for_the_ranking_of_streaming_search() {
    let text = "schema x { document x { field f type string { indexing: index } field n type int { indexing: attribute } }
        rank-profile p { first-phase { expression: bm25(f) }
            second-phase { expression: 1
                rerank-count: 7 } }
        rank-profile q inherits p { rank-properties { bm25(f).averageFieldLength: 5 } } }";
    let with = |settings: &str| {
        let read = application(text, &[("millrace-package.toml", settings)]);
        read.map(|application| Schema::clone(&application.schemas["x"])).map_err(|error| error.to_string())
    };
    let plain = with("").unwrap();
    assert_eq!(plain.rank_profiles["p"].second_phase.rerank_count, Some(7));
    assert_eq!(with("search-like = 'documented'").unwrap(), plain);
    let like = with("search-like = 'vespa-streaming'").unwrap();
    assert_eq!(describe(&like, "f"), "string index:text None");
    assert!(like.rank_profiles["p"].second_phase.rerank_count.is_some_and(|count| count > 1_000_000_000));
    let lengths = |profile: &str| like.rank_profiles[profile].properties.clone();
    let length = |number: &str| vec![("bm25(f).averageFieldLength".to_owned(), number.to_owned())];
    assert_eq!((lengths("p"), lengths("q")), (length("100"), length("5")));
    let wrong = with("\nsearch-like = 'vespa'").unwrap_err();
    assert!(wrong.starts_with("millrace-package.toml:2:15: unknown variant `vespa`"), "{wrong}");
    assert!(with("serch-like = ''").unwrap_err().contains("unknown field `serch-like`"));
}
