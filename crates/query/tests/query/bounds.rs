//! Limits of a query's resources: parameters, values, words and time.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_query::{Error, Query, QueryLimits, flatten};

const YQL: &str = "\"yql\":\"select * from sources * where true\"";

fn asked(yql: String) -> Result<Query, String> {
    let parameters = BTreeMap::from([("yql".to_owned(), yql)]);
    Query::from_parameters(parameters, &QueryLimits::default()).map_err(|error| error.to_string())
}

#[test]
fn a_list_a_map_or_a_tensor_is_one_parameter_and_stays_text() {
    let numbers = format!("[{}0]", "0, ".repeat(1_000_000));
    let map = (0..50_000).map(|at| format!("\"{at}\":1")).collect::<Vec<_>>().join(",");
    let body = format!("{{{YQL},\"input.query(q)\":{numbers},\"ids\":{{{map}}},\"other\":{numbers}}}");
    let parameters = flatten(body.as_bytes(), 4).expect("there are four");
    assert_eq!(parameters.len(), 4);
    assert_eq!(parameters["other"].len(), 2_000_003, "blanks go");
    assert!(parameters["ids"].starts_with("{\"0\":1,\"1\":1"));
    // Few entries are parameters as well.
    let few =
        flatten(format!("{{{YQL},\"source\":{{\"a\":{{\"hits\":5}}}}}}").as_bytes(), 1000).expect("few");
    assert_eq!((&*few["source.a.hits"], &*few["source"]), ("5", "{\"a\":{\"hits\":5}}"));
}

#[test]
fn there_are_only_so_many_parameters() {
    let body = |entries: &str| flatten(format!("{{{YQL}{entries}}}").as_bytes(), 1000);
    let distinct = |count: usize| (0..count).map(|at| format!(",\"a{at}\":1")).collect::<String>();
    assert_eq!(body(&distinct(999)).expect("just as many").len(), 1000);
    for entries in [
        distinct(1000),
        ",\"a\":null".repeat(1000),
        ",\"a\":1".repeat(1000),
        format!(",\"ranking\":{{\"a\":1{}}}", distinct(1000)),
        format!(",\"ranking\":{{\"features\":{{\"a\":1{}}}}}", distinct(1000)),
    ] {
        let error = body(&entries).expect_err("too many");
        assert!(matches!(error, Error::TooMany { max: 1000 }), "{error}");
    }
}

#[test]
fn nesting_is_bounded_without_following_it() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(300_000), close.repeat(300_000));
    for (name, value) in [
        ("ranking", deep("{\"a\":", "}")),
        ("a", deep("[", "]")),
        ("select", deep("{\"where\":", "}")),
        ("input.query(q)", deep("[", "]")),
    ] {
        let error = flatten(format!("{{{YQL},\"{name}\":{value}}}").as_bytes(), 1000).expect_err("too deep");
        assert!(error.to_string().contains("nested more than"), "{name}: {error}");
    }
}

#[test]
fn a_statement_has_only_so_many_words() {
    let numbers = |count: usize| format!("select * from a where b in ({}1)", "1,".repeat(count));
    assert!(asked(numbers(100_000)).is_ok());
    let error = asked(numbers(300_000)).expect_err("too many");
    assert!(error.contains("more than 400000 words and signs"), "{error}");
}

#[test]
fn a_condition_in_json_has_only_so_many_values() {
    let select = |item: &str, count: usize| {
        let list = format!("[\"a\"{}]", format!(",{item}").repeat(count));
        let parameters = BTreeMap::from([("select".to_owned(), format!("{{\"where\":{{\"in\":{list}}}}}"))]);
        Query::from_parameters(parameters, &QueryLimits::default()).map_err(|error| error.to_string())
    };
    assert!(select("1", 50_000).is_ok());
    assert!(select("\"a,[{,\"", 40_000).is_ok(), "signs in texts are not values");
    for item in ["1", "[]", "{}", "\"\""] {
        let error = select(item, 200_000).expect_err("too many");
        assert!(error.contains("more than 100000 values"), "{item}: {error}");
    }
}

#[test]
fn a_longer_timeout_is_cut() {
    let limits = QueryLimits { max_timeout: Duration::from_secs(3), ..QueryLimits::default() };
    let timeout = |yql: &str, given: &str| {
        let pairs = [("yql", yql), ("timeout", given)];
        let parameters = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Query::from_parameters(parameters, &limits).expect("the query is right").timeout
    };
    assert_eq!(timeout("select * from a where true", "2s"), Duration::from_secs(2));
    assert_eq!(timeout("select * from a where true", "1000000s"), Duration::from_secs(3));
    assert_eq!(timeout("select * from a where true timeout 60000", "1s"), Duration::from_secs(3));
    assert_eq!(QueryLimits::default().max_timeout, Duration::from_secs(60));
}

#[test]
fn there_is_only_so_much_text_to_search_for() {
    let words = |count: usize| "a ".repeat(count);
    let typed = |grammar: &str, count: usize| {
        let pairs = [("query", words(count)), ("type", grammar.to_owned())];
        let parameters = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Query::from_parameters(parameters, &QueryLimits::default())
            .map(drop)
            .map_err(|error| error.to_string())
    };
    for grammar in ["all", "any", "web", "phrase", "tokenize", "weakAnd", "linguistics", "adv"] {
        assert_eq!(typed(grammar, 60_000), Ok(()), "{grammar}");
        let error = typed(grammar, 70_000).expect_err(grammar);
        assert!(error.contains("bytes of text to search for"), "{grammar}: {error}");
    }
    for condition in [
        format!("a contains \"{}\"", words(70_000)),
        format!("a contains phrase(\"{}\", \"b\")", words(70_000)),
        format!("!(a contains \"{0}\") and a contains \"{0}\"", words(40_000)),
        format!("userInput(\"{}\")", words(70_000)),
        format!("a contains sameElement(b contains \"{}\")", words(70_000)),
    ] {
        let error =
            asked(format!("select * from a where {condition}")).map(drop).expect_err(&condition[..20]);
        assert!(error.contains("bytes of text to search for"), "{error}");
    }
}

#[test]
fn conditions_copy_only_so_much() {
    let long = "w".repeat(20_000);
    let many = |condition: &str, count: usize, separator: &str| vec![condition; count].join(separator);
    let labels = (0..2_000).map(|at| format!("a{at}:1")).collect::<Vec<_>>().join(",");
    let alternatives = many("alternatives({'a':1,'b':1})", 6, ",");
    let answer = |condition: &str| {
        let yql = format!("select * from a where {condition}");
        let long = long.as_str();
        let parameters = [("yql", yql.as_str()), ("p", long), ("query", long), ("model.filter", "+b")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let limits = QueryLimits { text_bytes_max: usize::MAX, ..QueryLimits::default() };
        Query::from_parameters(parameters, &limits).map(drop).map_err(|error| error.to_string())
    };
    // What one condition may have, many may not.
    for condition in [
        "b contains @p",
        "b matches @p",
        "b in (@p)",
        "b contains ({label: @p}'w')",
        "b contains phrase(@p, 'w')",
        "b contains near('w', @p)",
        "userInput(@p)",
        "userQuery()",
        "predicate(b, {'c': @p}, 0)",
    ] {
        assert_eq!(answer(&many(condition, 10, " or ")), Ok(()), "{condition}");
        let error = answer(&many(condition, 1_000, " or ")).expect_err(condition);
        assert!(error.contains("name a long parameter once"), "{condition}: {error}");
    }
    for (condition, is_right) in [
        // The words of long phrases are copied once; those of alternatives, with each of them.
        (format!("b contains phrase({})", many("'w'", 100_000, ",")), true),
        (format!("b contains phrase({alternatives},{})", many("'w'", 1_000, ",")), true),
        (format!("b contains phrase({alternatives},{})", many("'w'", 100_000, ",")), false),
        (format!("b contains phrase({},{alternatives})", many("'w'", 100_000, ",")), false),
        // Annotations are those of all conditions in an annotated one.
        (format!("({{{labels}}}({}))", many("b contains 'w'", 100, " or ")), true),
        (format!("({{{labels}}}({}))", many("b contains 'w'", 5_000, " or ")), false),
        (format!("b contains ({{{labels}}}near({}))", many("'w'", 5_000, ",")), false),
        (format!("({{label: '{long}'}}({}))", many("b contains 'w'", 10, " or ")), true),
        (format!("({{label: '{long}'}}({}))", many("b contains 'w'", 1_000, " or ")), false),
        (format!("({{label: '{long}'}}userInput('{}'))", "w ".repeat(1_000)), false),
    ] {
        let answer = answer(&condition);
        assert_eq!(answer.is_ok(), is_right, "{} {answer:?}", &condition[..60]);
        let mentions = |error: String| error.contains("annotate fewer conditions");
        assert!(answer.err().is_none_or(mentions), "{}", &condition[..60]);
    }
}

#[test]
fn names_of_fields_are_not_long() {
    let long = "w".repeat(513);
    for (name, value) in [
        ("yql", format!("select * from a where {long} contains 'w'")),
        ("yql", format!("select * from a where {long}[1] = 2")),
        ("yql", format!("select * from a where ({{defaultIndex: '{long}'}}userInput('w'))")),
        ("select", format!("{{\"where\":{{\"contains\":[\"{long}\",\"w\"]}}}}")),
        ("yql", format!("select * from a where predicate(b, {{'{long}': ['c', 'd']}}, 0)")),
        ("model.defaultIndex", long.clone()),
        ("wand.field", long.clone()),
        ("boolean.attributes", format!("{{{long}: [c, d]}}")),
        ("query", format!("(WORD {{\"index\" \"{long}\"}} \"w\")")),
    ] {
        let mut parameters = BTreeMap::from([(name.to_owned(), value)]);
        match name {
            "model.defaultIndex" => drop(parameters.insert("query".to_owned(), "w".to_owned())),
            "boolean.attributes" => drop(parameters.insert("boolean.field".to_owned(), "b".to_owned())),
            "query" => drop(parameters.insert("type".to_owned(), "prog".to_owned())),
            _ => {}
        }
        let error = Query::from_parameters(parameters, &QueryLimits::default()).expect_err(name).to_string();
        assert!(error.contains("has 513 bytes, and at most 512"), "{name}: {error}");
    }
}

#[test]
fn grouping_requests_are_continued_while_that_is_short() {
    let requests = |count: usize| {
        let select = "all(group(a) each(output(count())))".repeat(count);
        let pairs = [("query", "w".to_owned()), ("select", select), ("continue", "B".repeat(20_000))];
        let parameters = pairs.map(|(name, value)| (name.to_owned(), value)).into();
        Query::from_parameters(parameters, &QueryLimits::default()).map_err(|error| error.to_string())
    };
    assert_eq!(requests(2).expect("they are few").grouping.len(), 2);
    assert!(requests(100).expect_err("there are too many").contains("once for each grouping request"));
}
