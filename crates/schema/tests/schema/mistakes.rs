//! Packages with several errors: all of the user's errors are reported, in the order of files and lines,
//! without consequential ones.

use std::collections::BTreeMap;

use millrace_schema::Application;

const SERVICES: &str = "<services>
<container id='c'><search/></container>
<content id='mail'><documents>
<document type='x' mode='streaming'/>
</documents></content></services>";

/// Checks the report for a package of these files; a `services.xml` is added if it is missing.
#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::from([("services.xml".to_owned(), SERVICES.into())]);
    all.extend(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())));
    let faults = Application::from_files(all).expect_err("a refusal").to_string();
    assert_eq!(faults.lines().collect::<Vec<_>>(), expected, "{faults}");
}

/// A schema `x` with this text in its document, from line 3 on, and this text beside it, from the following
/// line on.
fn schema(document: &str, beside: &str) -> String {
    format!(
        "schema x {{ document x {{\nfield title type string {{ indexing: index }}\n{document}\n}}\n{beside}\n}}"
    )
}

/// Checks the error of a schema, or part of it.
#[track_caller]
fn refuses(text: &str, expected: &str) {
    let files = [("services.xml", SERVICES), ("schemas/x.sd", text)];
    match Application::from_files(files.map(|(path, text)| (path.to_owned(), text.into())).into()) {
        Ok(_) => panic!("is not refused: {text}"),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("schemas/x.sd:"), "no place in '{message}'");
            assert!(message.contains(expected), "'{message}' does not say '{expected}'");
        }
    }
}

#[test]
fn files_do_not_hide_each_other() {
    check(
        &[
            ("schemas/a.sd", "schema a { document a { field f typ int {} } field g type nosuch {} }"),
            ("schemas/a/p.profile", "rank-profile p { nosuch: 1 }"),
            ("schemas/x.sd", &schema("field a type int { bolding: on }", "")),
            ("search/query-profiles/one.xml", "<query-profile id='one' inherits='parent'/>"),
            ("search/query-profiles/two.xml", "<query-profile>"),
            ("services.xml", &SERVICES.replace("<search/>", "<serch/>").replace("streaming", "no")),
            ("validation-overrides.xml", "<overrides/>"),
        ],
        &[
            "schemas/a.sd:1:33: expected 'type' and the type of the field: field f type string { … }, found 'typ'",
            "schemas/a/p.profile:1:18: unknown element of a rank-profile 'nosuch': expected 'function', 'inputs', 'constants', 'onnx-model', 'first-phase', 'second-phase', 'global-phase', 'match-features', 'summary-features', 'rank-features', 'rank-properties', 'rank', 'rank-type', 'weight', 'strict', 'diversity', 'match-phase', 'significance', 'weakand', 'mutate', 'ignore-default-rank-features', 'prefetch-tensors', 'rank-profile', 'num-threads-per-search', 'num-search-partitions', 'min-hits-per-thread', 'termwise-limit', 'post-filter-threshold', 'approximate-threshold', 'filter-first-threshold', 'filter-first-exploration', 'exploration-slack', 'target-hits-max-adjustment-factor' or 'filter-threshold'",
            "schemas/x.sd:3:20: bolding is for strings and arrays of strings; 'a' is int",
            "search/query-profiles/one.xml:1:1: query profile 'one' uses 'parent', which is not declared",
            "search/query-profiles/two.xml:1:1: not well-formed XML: the root node was opened but never closed",
            "services.xml:2:19: unknown element <serch> in <container> (did you mean 'search'?)",
            "services.xml:4:1: unknown mode 'no': expected 'streaming', 'index' or 'store-only'",
            "validation-overrides.xml:1:1: expected <validation-overrides>, found <overrides>",
        ],
    );
}

#[test]
fn parts_of_a_schema_do_not_hide_each_other() {
    let document = "field a type strin {}\nfield b type array<strin> {}\nfield title type int {}\nfield c type int { alias: title }";
    let beside = "fieldset one { fields: title, nosuch }
fieldset two { fields: titel }
index nosuch { stemming: none }
constant k { type: tensor(x[2])
file: none.json }
rank-profile p inherits nosuch {}
rank-profile q { rank nosuch: filter }
rank-profile q {}
document-summary d { summary uno {}
summary due {} }
document-summary e inherits nosuch {}
onnx-model m { file: none.onnx }";
    check(
        &[("schemas/x.sd", &schema(document, beside))],
        &[
            "schemas/x.sd:3:14: unknown type 'strin' (did you mean 'string'?): use a type such as string, int, long, double, tensor(…), array<…>, or declare 'struct strin' in the document",
            "schemas/x.sd:4:20: unknown type 'strin' (did you mean 'string'?): use a type such as string, int, long, double, tensor(…), array<…>, or declare 'struct strin' in the document",
            "schemas/x.sd:5:7: field 'title' is declared at schemas/x.sd:2:7 already",
            "schemas/x.sd:6:7: 'title' is a field already, so it cannot be an alias of 'c'",
            "schemas/x.sd:9:24: fieldset 'two' names 'titel', which is not a field (did you mean 'title'?)",
            "schemas/x.sd:12:7: no file none.json in the package: the path is from the package's root",
            "schemas/x.sd:13:25: rank-profile 'p' inherits 'nosuch', which is not declared",
            "schemas/x.sd:15:14: rank-profile 'q' is declared at schemas/x.sd:14:14 already",
            "schemas/x.sd:16:30: no field 'uno' to show in summary 'uno': add 'source: <field>' or declare the field",
            "schemas/x.sd:17:9: no field 'due' to show in summary 'due': add 'source: <field>' or declare the field",
            "schemas/x.sd:18:29: unknown document-summary 'nosuch'",
            "schemas/x.sd:19:22: no file none.onnx in the package: the path is from the package's root",
        ],
    );
}

/// Parts whose dependency is invalid are not reported, even if they would be without that dependency.
#[test]
fn consequences_of_a_mistake_are_not_reported() {
    let unknown = |place: &str| {
        format!(
            "schemas/{place}: unknown type 'nosuch': use a type such as string, int, long, double, tensor(…), array<…>, or declare 'struct nosuch' in the document"
        )
    };
    let broken = "field a type nosuch { summary-to: made }";
    // Parts that refer to an invalid field.
    let beside = "fieldset default { fields: a, title }
index a { stemming: none }
rank-profile p { rank a: filter
weight a: 10 }
rank-profile q inherits hybrid {}
document-summary d { summary a {}
summary b { source: a } }
document-summary e inherits made {}";
    check(&[("schemas/x.sd", &schema(broken, beside))], &[&unknown("x.sd:3:14")]);
    // Parts that use an invalid struct, or one that inherits itself.
    let structs = "struct s { field a type nosuch {} }
struct t { field s type s {} }
field f type array<t> { struct-field s { indexing: attribute } }
struct u inherits v {}
struct v inherits u {}
field g type u {}";
    check(
        &[("schemas/x.sd", &schema(structs, ""))],
        &[
            &unknown("x.sd:3:25"),
            "schemas/x.sd:6:8: struct 'u' inherits itself",
            "schemas/x.sd:7:8: struct 'v' inherits itself",
        ],
    );
    // Parts that inherit an invalid one, or inherit in a cycle.
    let circles = "rank-profile p inherits nosuch {}
rank-profile q inherits p {}
rank-profile r inherits s {}
rank-profile s inherits r {}
document-summary d inherits e {}
document-summary e inherits d {}";
    check(
        &[("schemas/x.sd", &schema("", circles))],
        &[
            "schemas/x.sd:5:25: rank-profile 'p' inherits 'nosuch', which is not declared",
            "schemas/x.sd:7:14: rank-profile 'r' inherits itself: r → s → r",
            "schemas/x.sd:9:29: document-summary 'e' inherits itself",
        ],
    );
    let profile = "rank-profile p { nosuch: 1 }";
    let inheriting = schema("", "rank-profile q inherits p {}");
    let services = SERVICES.replace("'x'", "'y'");
    let faults = |files: &[(&str, &str)], count: usize| {
        let all = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        let faults = Application::from_files(all.collect()).expect_err("a refusal").to_string();
        assert_eq!(faults.lines().count(), count, "{faults}");
    };
    faults(&[("services.xml", SERVICES), ("schemas/x.sd", &inheriting), ("schemas/x/p.profile", profile)], 1);
    // A schema, the schemas that inherit it, the cluster that contains it, and rank profiles beside it.
    faults(
        &[
            ("services.xml", &services),
            ("schemas/y.sd", "schema y {"),
            ("schemas/y/p.profile", "rank-profile p {}"),
            ("schemas/z.sd", "schema z inherits y { document z inherits y { } }"),
        ],
        1,
    );
    faults(
        &[
            ("services.xml", &services),
            ("schemas/y.sd", "schema y inherits z { document y inherits z {} }"),
            ("schemas/z.sd", "schema z inherits y { document z inherits y { } }"),
        ],
        1,
    );
    // An inherited part is invalid in its own declaration.
    check(
        &[
            ("schemas/x.sd", &schema("field a type nosuch {}", "rank-profile p inherits nosuch {}")),
            (
                "schemas/y.sd",
                "schema y inherits x { document y inherits x { field b type nosuch {} } rank-profile q inherits p {} fieldset f { fields: a } }",
            ),
        ],
        &[
            &unknown("x.sd:3:14"),
            "schemas/x.sd:5:25: rank-profile 'p' inherits 'nosuch', which is not declared",
            &unknown("y.sd:1:60"),
        ],
    );
    check(
        &[
            ("schemas/x.sd", &schema("", "")),
            ("search/query-profiles/a.xml", "<query-profile id='a' inherits='b'/>"),
            ("search/query-profiles/b.xml", "<query-profile id='b' type='t'/>"),
            ("search/query-profiles/c.xml", "<query-profile id='c' inherits='d'/>"),
            ("search/query-profiles/d.xml", "<query-profile id='d' inherits='c'/>"),
            ("search/query-profiles/e.xml", "<query-profile id='e' inherits='c'/>"),
            ("search/query-profiles/types/s.xml", "<query-profile-type id='s' inherits='t'/>"),
            ("search/query-profiles/types/t.xml", "<query-profile-type id='t'><fild/></query-profile-type>"),
            ("search/query-profiles/types/u.xml", "<query-profile-type id='u' inherits='v'/>"),
            ("search/query-profiles/types/v.xml", "<query-profile-type id='v' inherits='u'/>"),
        ],
        &[
            "search/query-profiles/d.xml:1:1: query profile 'd' inherits or contains itself, or too much",
            "search/query-profiles/types/t.xml:1:28: unknown element <fild>: expected <field name='…' type='…'>, <strict/> or <match>",
            "search/query-profiles/types/v.xml:1:1: query profile type 'v' inherits itself, or too much",
        ],
    );
}

#[test]
fn components_do_not_hide_each_other() {
    let components = "<search/>
<component id='a' class='my.Java'/>
<component id='w' class='ai.vespa.llm.generation.LanguageModelFieldGenerator'/>
<component id='b' type='nosuch'/>
<handler id='h'/>";
    let services = SERVICES
        .replace("<search/>", components)
        .replace("'x'", "'y'")
        .replace("<documents>", "<redundancy>one</redundancy><documents>");
    check(
        &[("services.xml", &services), ("schemas/x.sd", &schema("", ""))],
        &[
            "services.xml:3:1: component 'a': Java components do not run here: remove it, and do its work in the client",
            "services.xml:5:1: unknown component type 'nosuch': expected 'hugging-face-embedder', 'bert-embedder', 'colbert-embedder', 'splade-embedder', 'hugging-face-tokenizer', 'openai-embedder', 'voyage-ai-embedder' or 'mistral-embedder'",
            "services.xml:6:1: handler 'h': Java components do not run here: remove it, and do its work in the client",
            "services.xml:7:20: 'one' in <redundancy> is not a number that it can hold",
        ],
    );
}

#[test]
fn twenty_mistakes_are_reported() {
    let fields = |count: usize| {
        (0..count).map(|at| format!("field f{at} type int {{ bolding: on }}\n")).collect::<String>()
    };
    let line = |at: usize| {
        let column = if at < 10 { 21 } else { 22 };
        format!(
            "schemas/x.sd:{}:{column}: bolding is for strings and arrays of strings; 'f{at}' is int",
            at + 3
        )
    };
    let mut lines: Vec<String> = (0..20).map(line).collect();
    let faults = |lines: &[String], count| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check(&[("schemas/x.sd", &schema(&fields(count), ""))], &lines);
    };
    faults(&lines, 20);
    lines.push("and 3 more".to_owned());
    faults(&lines, 23);
}

#[test]
fn refusals_name_place_cause_and_cure() {
    refuses("", "1:1: expected 'schema name { … }', found the end of the file");
    refuses("schema x {", "the '{' of this schema is not closed");
    refuses("schema x {}", "has no document: add 'document x { … }'");
    refuses("schema y { document y {} }", "name the file y.sd");
    refuses("schema x { document y {} }", "1:21: the document of schema 'x' is named 'x', not 'y'");
    refuses("schema x { document x {} } }", "1:28: expected the end of the file, found '}'");
    refuses("schema x { documnt x {} }", "unknown element of a schema 'documnt' (did you mean 'document'?)");
    refuses("schema x { document x { field a string {} } }", "expected 'type' and the type of the field");
    refuses(
        "schema x { document x { field a type strng {} } }",
        "unknown type 'strng' (did you mean 'string'?)",
    );
    refuses("schema x { document x { field a type tensor(x[]) {} } }", "needs a size");
    refuses("schema x { document x { field 9a type int {} } }", "'9a' cannot be the name of a field");
    refuses(
        "schema x { document x {\n  field a type int {\n    indexng: summary\n  } } }",
        "x.sd:3:5: unknown element of a field 'indexng' (did you mean 'indexing'?)",
    );
    refuses(
        "schema x { document x { field a type int {} field a type int {} } }",
        "is declared at schemas/x.sd:1:31 already",
    );
    refuses("schema x { document x { field a type reference<y> {} } }", "references are not supported");
    refuses("schema x { document x {} import field a.b as c {} }", "imported fields are not supported");
    refuses("schema x { document x {} rank-profile p inherits q {} }", "inherits 'q', which is not declared");
    refuses(
        "schema x { document x {} rank-profile p inherits q {} rank-profile q inherits p {} }",
        "inherits itself: p → q → p",
    );
    refuses(
        "schema x { document x {} document-summary s inherits r {} document-summary r inherits s {} }",
        "inherits itself",
    );
    refuses("schema x { document x {} fieldset f { fields: nme } }", "names 'nme', which is not a field");
    refuses("schema x { document x {} document-summary s { summary a {} } }", "no field 'a' to show");
    refuses(
        "schema x { document x { struct s inherits t {} struct t inherits s {} } }",
        "struct 's' inherits itself",
    );
    let pair = "struct s { field a type s {} field b type s {} field c type s {} field d type s {} }";
    refuses(&format!("schema x {{ document x {{ {pair} }} }}"), "struct 's' contains itself too often");
    refuses("schema x { document x { field a type int { bolding: on } } }", "bolding is for strings");
    refuses(
        "schema x { document x { field a type int { indexing: attribute\nattribute: distance-metric: angular } } }",
        "a distance-metric is for tensors",
    );
    refuses(
        "schema x { document x {} rank-profile p { first-phase { expression: } } }",
        "the value of 'expression' is missing",
    );
    refuses(
        "schema x { document x {} rank-profile p { first-phase { expression: file:nn } } }",
        "no file schemas/nn.expression",
    );
    refuses(
        "schema x { document x {} onnx-model m { file: models/m.onnx } }",
        "no file models/m.onnx in the package",
    );
    refuses("schema x inherits y { document x inherits y {} }", "no schema 'y' to inherit");
    refuses(
        "schema x { document x {} rank-profile a { function f() { expression: 1 } } rank-profile b { function f() { expression: 2 } } rank-profile c inherits a, b {} }",
        "different definitions of function 'f'",
    );
    refuses(
        "schema x { document x { field m type map<string,int> { struct-field k {} } } }",
        "a map has 'key' and 'value', not 'k'",
    );
}

/// Without a feature all elements are shown, so that a slip in its name would go unnoticed.
#[test]
fn a_feature_that_selects_elements_is_one_of_a_profile() {
    let warnings = |features: &str| {
        let text = schema(
            "field a type array<string> {\nindexing: summary\nsummary: select-elements-by: best_parts\n}",
            &format!("rank-profile p {{\nfunction best_part() {{ expression: 1 }}\n{features}\n}}"),
        );
        let files = [("services.xml", SERVICES), ("schemas/x.sd", text.as_str())];
        let read = Application::from_files(files.map(|(path, text)| (path.to_owned(), text.into())).into());
        let application = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let faults =
            application.warnings.into_iter().filter(|warning| warning.contains("select-elements-by"));
        faults.collect::<Vec<String>>()
    };
    let faults = warnings("summary-features: best_part");
    let [one] = &faults[..] else { panic!("one field: {faults:?}") };
    let expected = "select-elements-by: no rank profile has the summary feature 'best_parts' (did you mean 'best_part'?); all elements of 'a' are shown";
    assert!(one.starts_with("schemas/x.sd:3:") && one.ends_with(expected), "{one}");
    let right = "function best_parts() { expression: best_part }\nsummary-features: best_parts";
    assert_eq!(warnings(right), [""; 0]);
}
