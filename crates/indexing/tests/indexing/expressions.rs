//! Every expression of the indexing language that is not in `scripts`, each with its options: statements in,
//! a value or a refusal out, as Vespa has it.

use millrace_document::DataType;
use millrace_indexing::IndexingCaller;

use crate::scripts::{check, compile, document, render, schema};

/// Every expression of the language that is not in another test, each with its options.
#[test]
fn every_expression_is_read() {
    check("double", "input price | sleep | attribute", "1.5");
    check("double", "input price | busy_wait | attribute", "1.5");
    check("string", "input title | optimize_predicate | index", r#""Best  of Bob""#);
    check("long", r#""N1;E2" | to_pos | zcurve | attribute"#, "2192045531136");
    check("long", r#""N37.5;W122" | to_pos | zcurve | attribute"#, "6145249532728928256");
    check("long", "input title | zcurve | attribute", "!zcurve needs a position");
    check("string", r#"input tags . ": " . input title | index"#, r#""[Rock, folk]: Best  of Bob""#);
    for statements in [
        "input title | tokenize | index",
        "input title | tokenize stem | index",
        "input title | tokenize stem:\"BEST\" normalize keep-case | index",
        "input title | tokenize profile:\"p\" max-length:100 max-occurrences:10 max-token-length:20 | index",
        "input title | exact | index",
        "input title | exact keep-case max-token-length:9 | index",
        "input title | ngram 2 | index",
        "input title | flatten | index",
        "input title | passthrough | index",
        "input title | echo | this | index",
        "clear_state | input title | index",
        "{ input title | index }",
        "guard { input title | index }",
        "input title | switch { case 'x': 'y' | index; default: _ | index; }",
        "select_input { title: _ | index; }",
        "if (input year > 1.5e2) { input title | index } else { 'x' | index }",
        "(input title) || 'x' | index",
    ] {
        check("string", statements, r#""Best  of Bob""#);
    }
    check("string", "input title | tokenize colour | index", "!normalize, stem, keep-case");
}

/// Names may be in quotes, with members of structs in them; `input` without a name reads the field itself.
#[test]
fn names_are_written_in_several_ways() {
    check("string", "input 'title' | index 'made'", r#""Best  of Bob""#);
    check("string", r#"input "person.name" | index"#, r#""Ann""#);
    check("string", "input person | get_field 'name' | set_var \"n\" | get_var 'n' | index", r#""Ann""#);
    check("string", "select_input { 'title': _ | index; }", r#""Best  of Bob""#);
    check("string", "documentid 'specific' | index", r#""1""#);
    let own = schema("input | lowercase | index", DataType::String, "");
    let given = document(&own, r#"{"title":"Best"}"#);
    let made = compile(&own).expect("it is right").run(given, &IndexingCaller::default());
    assert_eq!(render(&made.expect("it runs")), r#"{"title":"best"}"#);
}

#[test]
fn literals_are_those_of_vespa() {
    check("double", "1. + 2.5e-1 | attribute", "1.25");
    check("double", "2.f | to_double | attribute", "2.0");
    check("long", "0x10L | attribute", "16");
    // `\x` writes a byte, `\u` a character.
    check("string", r#""\xc3\xa9\u00e9\t\"" | index"#, r#""éé\t\"""#);
    check("bool", "true | attribute", "true");
}

#[test]
fn entries_of_maps_have_keys_and_values() {
    let pairs = r#"input names | for_each { get_field $key . ":" . get_field $value } | index"#;
    check("strings", pairs, r#"["a:x"]"#);
    check("strings", "input people | for_each { get_field $key . get_field name } | index", r#"["kBea"]"#);
    check("strings", "input people | for_each { get_field age } | index", "!has no field 'age'");
    check("string", "input names | get_field $key | index", "!get_field needs a struct, or within for_each");
    check("string", "input names | for_each { _ } | index", "!cannot be written to 'made'");
    check("string", "input names | get_field $ | index", "!'$' is not part of the language");
}

#[test]
fn collections_of_one_type_are_joined() {
    check("ints", "input numbers . input numbers . input numbers | attribute", "[1,2,1,2,1,2]");
    // Of equal elements the last counts.
    check("set", r#"input marks . ("x" | to_wset) | attribute"#, r#"{"y":3,"x":1}"#);
    check("string", "input tags . input numbers | index", r#""[Rock, folk][1, 2]""#);
    check("string", r#"input tags . input tags . "!" | index"#, r#""[Rock, folk][Rock, folk]!""#);
    check("string", r#"input marks . "!" | index"#, "!a single value is needed");
}

/// Results of conversions for values at the border of what they take.
#[test]
fn conversions_are_those_of_vespa() {
    for (made, statements, expected) in [
        ("bool", "0.5 | to_bool", "false"),
        ("bool", "-1.5 | to_bool", "true"),
        ("bool", r#""" | to_bool"#, "false"),
        ("long", r#""" | base64decode"#, "-9223372036854775808"),
        ("long", r#""" | hexdecode"#, "-9223372036854775808"),
        ("long", r#""ffffffffffffffff" | hexdecode"#, "-1"),
        ("long", r#""-ff" | hexdecode"#, "-255"),
        ("long", r#""1ffffffffffffffff" | hexdecode"#, "!is not a hexadecimal number of 64 bits"),
        ("long", r#""???" | hexdecode"#, "!is not a hexadecimal number of 64 bits"),
        ("strings", r#""abc" | split """#, r#"["a","b","c"]"#),
        ("strings", r#""-a-b-" | split "-""#, r#"["","a","b"]"#),
        ("strings", r#""" | split "-""#, "-"),
        ("string", "\"\\x01 a\u{a0} \" | trim", "\"a\u{a0}\""),
        // Accents go; ligatures, and the vowels that scripts combine, stay.
        (
            "string",
            "\"\u{c5} \u{fb01} \u{939}\u{93f}\u{902}\" | normalize",
            "\"A \u{fb01} \u{939}\u{93f}\u{902}\"",
        ),
        ("string", "input title | substring 9 6", "!substring ends at 6, before it begins at 9"),
        ("string", "input title | substring 20 30", "-"),
        ("double", "input price / 0.0", "!division by zero"),
        ("double", "input price % 0", "!division by zero"),
        ("string", "get_language", r#""un""#),
        ("string", r#""de-CH" | set_language | get_language"#, r#""de""#),
        ("string", r#""zh_CN" | set_language | get_language"#, r#""zh-hans""#),
        ("string", r#""no" | set_language | get_language"#, r#""nb""#),
        // A text without words has no embedding.
        ("tensor<float>(x[1])", r#""  " | embed lengths"#, "-"),
    ] {
        check(made, &format!("{statements} | attribute"), expected);
    }
}
