//! Hostile text: every parser returns a result, without a panic or a stack overflow.

use std::collections::BTreeMap;

use millrace_schema::Application;
use proptest::prelude::*;

/// Deploys a package of these files; the result does not matter.
fn deploy(schema: &str, services: &str, other: (&str, &str)) {
    let files = [("schemas/x.sd", schema), ("services.xml", services), other];
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).collect();
    let _ = Application::from_files(files);
}

const SERVICES: &str =
    "<services><content id='c'><documents><document type='x' mode='index'/></documents></content></services>";
const SCHEMA: &str = "schema x { document x { struct s { field n type string {} } field f type array<s> { indexing: index | summary\n struct-field n { match { gram gram-size: 2 } } } } fieldset f { fields: f } rank-profile p inherits p { first-phase { expression: \"}\" + 1 } match-features { a(b) c } inputs { query(q) tensor<float>(x[2]): {x:1} } } document-summary d { summary f { dynamic } } }";

/// Parts of schemas in any order.
fn pieces() -> impl Strategy<Value = String> {
    let words =
        prop::sample::select(SCHEMA.split_inclusive(|c: char| !c.is_alphanumeric()).collect::<Vec<_>>());
    prop::collection::vec(words, 0..80).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        deploy(&text, SERVICES, ("validation-overrides.xml", &text));
        deploy(SCHEMA, &text, ("search/query-profiles/a.xml", &text));
        let _ = Application::from_zip(text.as_bytes());
        let _ = Application::from_tar_gz(text.as_bytes());
    }

    #[test]
    fn any_pieces(body in pieces()) {
        deploy(&body, SERVICES, ("ext/a", ""));
        deploy(&format!("schema x {{ document x {{ {body} }} }}"), SERVICES, ("ext/a", ""));
        deploy(&format!("schema x {{ document x {{}} {body} }}"), SERVICES, ("schemas/x/a.profile", &body));
    }

    #[test]
    fn a_schema_with_a_letter_changed(at in 0..SCHEMA.len(), letter in any::<char>()) {
        let mut text: Vec<char> = SCHEMA.chars().collect();
        text[at] = letter;
        deploy(&text.into_iter().collect::<String>(), SERVICES, ("ext/a", ""));
    }

    #[test]
    fn a_schema_cut_off(at in 0..SCHEMA.len()) {
        deploy(&SCHEMA[..at], SERVICES, ("ext/a", ""));
    }
}

#[test]
fn what_nests_deep_is_refused() {
    let check = |schema: &str, services: &str| deploy(schema, services, ("ext/a", ""));
    let deep = 100_000;
    check(&format!("schema x {{ document x {{ field f type {}", "array<".repeat(deep)), SERVICES);
    check(&"schema x { ".repeat(deep), SERVICES);
    check(
        &format!("schema x {{ document x {{ field f type s {{ {}", "struct-field a { ".repeat(deep)),
        SERVICES,
    );
    check(
        &format!("schema x {{ document x {{}} rank-profile p {{ {}", "rank-profile p { ".repeat(deep)),
        SERVICES,
    );
    check(
        &format!("schema x {{ document x {{}} rank-profile p {{ inputs {{ a: {}", "{".repeat(deep)),
        SERVICES,
    );
    check(SCHEMA, &"<services>".repeat(deep));
    check(
        &format!("schema x {{ document x {{ field f type string {{ indexing: a |{} b", "\n".repeat(deep)),
        SERVICES,
    );
}
