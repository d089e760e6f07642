//! Indexes of a server, over HTTP and the command line: what they find is what streaming finds, whatever
//! happens to the server; each case ends with a comparison that finds no difference.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{SERVICES, TestServer, poll};

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field owner type string { indexing: summary | attribute }
    field stars type int { indexing: summary | attribute }
    field weight type double { indexing: summary | attribute }
    field done type bool { indexing: summary | attribute }
    field tags type array<string> { indexing: summary | attribute
      attribute: fast-search }
    field code type string { indexing: summary | attribute
      match: cased }
  }
  fieldset default { fields: title }
}";

const INDEXES: &str = "<index-service copies='1' slices='1'>
  <index name='by-owner' document='note'><key field='owner'/><key field='stars' order='descending'/><stored field='owner'/><stored field='weight'/></index>
  <index name='by-stars' document='note'><key field='stars'/></index>
  <index name='by-weight' document='note'><key field='weight' order='descending'/></index>
  <index name='by-code' document='note'><key field='code'/><key field='id.group'/></index>
  <index name='open' document='note' selection='note.stars &gt; 3'><key field='stars'/></index>
  <fast-search document='note'/>
</index-service>";

fn services(indexes: &str) -> String {
    SERVICES.replace("</documents>", &format!("</documents>{indexes}"))
}

fn deploy(server: &TestServer, indexes: &str) {
    let (status, answer) = server.deploy(&[("services.xml", &services(indexes)), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
}

const GROUPS: [&str; 10] = ["ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal", "ida", "jon"];

fn put(server: &TestServer, number: usize) {
    put_as(server, number, number);
}

/// Puts a document with the fields of another number.
fn put_as(server: &TestServer, id: usize, number: usize) {
    let group = GROUPS[id % 10];
    let fields = json!({
        "title": format!("note {number}"),
        "owner": format!("Öwner {}", number % 7),
        "stars": (number * 13) % 23,
        "weight": number as f64 / 4.0,
        "tags": [format!("t{}", number % 5), format!("t{}", number % 3)],
        "code": format!("C{}", number % 11),
    });
    server.put(&format!("/document/v1/n/note/group/{group}/{id}"), &fields.to_string());
}

fn filled(count: usize) -> TestServer {
    let server = TestServer::start();
    deploy(&server, INDEXES);
    (0..count).for_each(|number| put(&server, number));
    server
}

fn ids(server: &TestServer, condition: &str, more: &[(&str, &str)]) -> BTreeSet<String> {
    let yql = format!("select * from note where {condition}");
    let mut parameters = vec![("yql", yql.as_str()), ("hits", "400")];
    parameters.extend_from_slice(more);
    if !more.iter().any(|(name, _)| *name == "streaming.selection") {
        parameters.push(("streaming.selection", "true"));
    }
    let (status, answer) = server.query(&parameters);
    assert_eq!(status, 200, "{condition}: {answer}");
    let hits = answer.pointer("/root/children").and_then(Value::as_array).cloned().unwrap_or_default();
    hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect()
}

/// Indexes, and conditions that they answer.
const TABLE: [(&str, &str); 15] = [
    ("by-owner", "owner contains 'öwner 3'"),
    ("by-owner", "owner contains 'OWNER 3' and stars > 10"),
    ("by-owner", "owner in ('öwner 1', 'öwner 5') and title contains 'note'"),
    ("by-owner", "owner contains ({prefix:true}'öw')"),
    ("by-owner", "owner contains 'nobody'"),
    ("by-stars", "stars = 7"),
    ("by-stars", "stars >= 20"),
    ("by-stars", "stars in (1, 2, 3) and !(tags contains 't1')"),
    ("by-stars", "range(stars, 4, 6)"),
    ("by-weight", "weight > 3.1 and weight < 9"),
    ("by-code", "code contains 'C3'"),
    ("by-code", "code contains 'c3'"),
    ("note.tags", "tags contains 't4'"),
    ("note.tags", "tags contains 't0' and tags contains 't1'"),
    ("by-stars", "stars > 30"),
];

fn same_as_streaming(server: &TestServer, when: &str) {
    for (index, condition) in TABLE {
        let streamed = ids(server, condition, &[("index.use", "none")]);
        let found = ids(server, condition, &[("index.use", index)]);
        assert_eq!(found, streamed, "{when}: {index} for {condition}");
        assert_eq!(ids(server, condition, &[]), streamed, "{when}: {condition}");
    }
    let selection = [("streaming.selection", "note.stars > 3"), ("index.use", "open")];
    let streamed = [selection[0], ("index.use", "none")];
    assert_eq!(ids(server, "stars < 9", &selection), ids(server, "stars < 9", &streamed), "{when}: open");
}

/// Takes the scores of groups out, which follow from statistics of the documents that were read.
fn without_relevance(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("relevance");
            members.values_mut().for_each(without_relevance);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_relevance),
        _ => {}
    }
}

/// The ids of the hits in order, the total count and the groups of an answer.
fn answered(server: &TestServer, yql: &str, index: &str) -> (Vec<String>, Value, Value) {
    answered_with(server, yql, index, "100000")
}

/// The same with a maximum number of candidates.
fn answered_with(
    server: &TestServer,
    yql: &str,
    index: &str,
    candidates_max: &str,
) -> (Vec<String>, Value, Value) {
    let parameters = [
        ("yql", yql),
        ("hits", "7"),
        ("offset", "2"),
        ("streaming.selection", "true"),
        ("index.use", index),
        ("index.candidates-max", candidates_max),
    ];
    let (status, answer) = server.query(&parameters);
    assert_eq!(status, 200, "{yql}: {answer}");
    let children = answer.pointer("/root/children").and_then(Value::as_array).cloned().unwrap_or_default();
    let (groups, hits): (Vec<Value>, Vec<Value>) = children
        .into_iter()
        .partition(|child| child["id"].as_str().is_some_and(|id| id.starts_with("group:")));
    let ids = hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect();
    let mut groups = Value::Array(groups);
    without_relevance(&mut groups);
    (ids, answer["root"]["fields"]["totalCount"].clone(), groups)
}

#[test]
fn only_the_candidates_are_read() {
    let server = filled(300);
    verify_all(&server, "fed");
    for (index, condition) in TABLE {
        for order in ["stars desc, weight", "weight desc", "code, weight"] {
            let groups = "all(group(owner) order(min(weight)) each(output(count(), sum(stars))))";
            let yql = format!("select * from note where {condition} order by {order} | {groups}");
            assert_eq!(answered(&server, &yql, index), answered(&server, &yql, "none"), "{index}: {yql}");
        }
    }
    // Each of the ten groups has thirty documents, and two or one of them are candidates.
    let (status, answer) = server.query(&[
        ("yql", "select * from note where stars = 7 and weight > 10"),
        ("streaming.selection", "true"),
        ("index.use", "by-stars"),
        ("trace.level", "1"),
    ]);
    assert_eq!(status, 200, "{answer}");
    let candidates = (0..300).filter(|number| number * 13 % 23 == 7).count();
    assert_eq!(answer["root"]["coverage"]["documents"], json!(candidates), "{answer}");
    let traced = format!("index by-stars: {candidates} candidates in 10 groups, read by id");
    assert!(answer.to_string().contains(&traced), "{answer}");
}

/// Queries by an index, and whether it has all that they use of the documents.
const COVERED: [(&str, &str, bool); 14] = [
    ("by-stars", "select stars from note where stars in (3, 7)", true),
    ("by-stars", "select stars from note where stars > 3 and !(stars = 8) order by stars desc", true),
    ("by-stars", "select stars from note where stars > 30", true),
    (
        "by-stars",
        "select * from note where stars > 3 limit 0 \
         | all(group(stars) order(max(stars)) each(output(count(), sum(stars))))",
        true,
    ),
    ("by-weight", "select weight from note where weight > 2.1 and weight < 9", true),
    ("by-code", "select code from note where code in ('C1', 'C3')", true),
    ("by-code", "select stars from note where code contains 'C3'", false),
    ("by-stars", "select * from note where stars = 7", false),
    ("by-stars", "select stars from note where stars = 7 and weight > 10", false),
    ("by-stars", "select stars from note where stars = 7 order by weight", false),
    ("by-owner", "select owner, stars from note where owner contains 'OWNER 3' and weight > 2", true),
    (
        "by-owner",
        "select * from note where owner contains ({prefix: true}'öw') limit 0 \
         | all(group(owner) order(min(weight)) each(output(count(), sum(stars), max(weight))))",
        true,
    ),
    ("by-owner", "select code from note where owner contains 'öwner 3'", false),
    ("note.tags", "select tags from note where tags contains 't4'", false),
];

#[test]
fn what_the_keys_have_is_answered_from_the_index_alone() {
    let server = filled(300);
    verify_all(&server, "fed");
    let ask = |yql: &str, index: &str| {
        let (status, answer) = server.query(&[
            ("yql", yql),
            ("hits", "400"),
            ("streaming.selection", "true"),
            ("index.use", index),
            ("trace.level", "1"),
        ]);
        assert_eq!(status, 200, "{index}: {yql}: {answer}");
        let mut found: Vec<String> = Vec::new();
        for child in answer.pointer("/root/children").and_then(Value::as_array).into_iter().flatten() {
            let mut child = child.clone();
            without_relevance(&mut child);
            found.push(child.to_string());
        }
        found.sort_unstable();
        found.push(answer["root"]["fields"]["totalCount"].to_string());
        (found, answer["trace"].to_string().contains("read from the index alone"))
    };
    let check = |when: &str| {
        for (index, yql, is_covered) in COVERED {
            let (streamed, _) = ask(yql, "none");
            let (found, is_from_entries) = ask(yql, index);
            assert_eq!(found, streamed, "{when}: {index}: {yql}");
            assert_eq!(is_from_entries, is_covered, "{when}: {index}: {yql}");
        }
    };
    check("fed");
    let covered = COVERED.iter().filter(|(.., is_covered)| *is_covered).count();
    let counted = |name: &str| server.metric(&format!("millrace_index_{name}_count"));
    assert_eq!((counted("queries"), counted("covered")), (COVERED.len() as f64, covered as f64));
    assert!(counted("candidates") > counted("queries"));
    assert_eq!(server.metric("millrace_index_waiting"), 0.0);
    for own in ["index.use=by-stars", "index.candidates-max=1000", "index.consistency=now"] {
        let query = ["query", "select stars from note where stars = 7", "streaming.selection=true", own];
        let asked = server.millrace(&query);
        assert!(asked.status.success(), "{own}: {}", String::from_utf8_lossy(&asked.stderr));
    }
    for number in (0..300).step_by(3) {
        put_as(&server, number, number + 1000);
    }
    for number in (0..300).step_by(7) {
        let path = format!("/document/v1/n/note/group/{}/{number}", GROUPS[number % 10]);
        assert_eq!(server.call(Method::DELETE, &path, "").0, 200);
    }
    // A text that is longer than a key is in the document alone.
    check("changed");
    let long = json!({ "code": format!("C1{}", "x".repeat(2000)), "stars": 5 });
    server.put("/document/v1/n/note/group/ann/long", &long.to_string());
    let yql = "select code from note where code contains ({prefix: true}'C1')";
    assert!(ask("select code from note where code contains 'C1'", "by-code").1);
    assert_eq!(ask(yql, "by-code"), (ask(yql, "none").0, false));
    // So is the sign of -0.
    server.put("/document/v1/n/note/group/ann/zero", r#"{"weight":"-0.0"}"#);
    let yql = "select weight from note where weight > -1 and weight < 1";
    let found = ask(yql, "by-weight");
    assert!(found.0.iter().any(|hit| hit.contains("-0.0")), "{found:?}");
    assert_eq!(found, (ask(yql, "none").0, false));
}

#[test]
fn a_value_that_is_one_word_is_in_the_entries_whatever_its_language() {
    let server = TestServer::start();
    let note = "schema note { document note {
        field lang type string { indexing: set_language }
        field text type string {
            indexing: summary | index | attribute
            match: word
        }
        field stars type int { indexing: summary | attribute }
    } }";
    let indexes = "<index-service><index name='by-stars' document='note'>
        <key field='stars'/><stored field='text'/></index></index-service>";
    let (status, answer) = server.deploy(&[("services.xml", &services(indexes)), ("schemas/note.sd", note)]);
    assert_eq!(status, 200, "{answer}");
    let fields = json!({ "lang": "de", "text": "Häuser", "stars": 5 });
    server.put("/document/v1/n/note/group/ann/1", &fields.to_string());
    let waited = server.millrace(&["index", "wait", "--timeout", "60"]);
    assert!(waited.status.success(), "{}", String::from_utf8_lossy(&waited.stdout));
    let ask = |condition: &str, index: &str| {
        let (status, answer) = server.query(&[
            ("yql", &*format!("select stars from note where stars = 5{condition}")),
            ("model.language", "de"),
            ("ranking", "unranked"),
            ("streaming.selection", "true"),
            ("index.use", index),
            ("trace.level", "1"),
        ]);
        assert_eq!(status, 200, "{condition}: {answer}");
        let is_from_entries = answer["trace"].to_string().contains("read from the index alone");
        (answer["root"]["fields"]["totalCount"].clone(), is_from_entries)
    };
    assert_eq!(ask("", "by-stars"), (json!(1), true));
    let words = " and text contains 'häuser'";
    assert_eq!(ask(words, "none").0, json!(1));
    assert_eq!(ask(words, "by-stars"), (json!(1), true));
}

/// Indexes, and conditions and orders of which they have too many candidates to look at all. None of the
/// orders has equal places.
const ORDERS: [(&str, &str, &str); 9] = [
    ("by-owner", "owner contains 'öwner 3'", "stars desc, weight"),
    ("by-stars", "stars >= 0", "stars, weight"),
    ("by-stars", "stars > 3 and title contains 'note'", "stars asc, weight desc"),
    ("by-stars", "stars >= 0 and weight > 150", "stars, weight"),
    ("by-stars", "stars >= 0 and weight > 1000", "stars, weight"),
    ("by-stars", "stars in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)", "stars, code, weight"),
    ("by-weight", "weight >= 0.5", "weight desc"),
    ("by-weight", "weight < 140 and owner contains 'öwner 2'", "weight desc, stars"),
    ("by-code", "code in ('C1', 'C3', 'C4')", "raw(code), weight"),
];

#[test]
fn the_first_hits_in_the_order_of_an_index_are_read_alone() {
    let server = filled(700);
    verify_all(&server, "fed");
    let same = |when: &str| {
        for (index, condition, order) in ORDERS {
            let yql = format!("select * from note where {condition} order by {order}");
            let (found, ..) = answered_with(&server, &yql, index, "20");
            let (streamed, ..) = answered(&server, &yql, "none");
            assert_eq!(found, streamed, "{when}: {index}: {yql}");
        }
    };
    same("fed");
    // Documents leave their places, and go.
    for number in (0..700).step_by(3) {
        put_as(&server, number, number + 1000 + number % 5);
    }
    for number in (0..700).step_by(7) {
        let path = format!("/document/v1/n/note/group/{}/{number}", GROUPS[number % 10]);
        assert_eq!(server.call(Method::DELETE, &path, "").0, 200);
    }
    same("changed");
    verify_all(&server, "changed");

    let ask = |index: &str, rest: &str| {
        let yql = format!("select * from note where {rest}");
        server.query(&[
            ("yql", yql.as_str()),
            ("streaming.selection", "true"),
            ("index.use", index),
            ("index.candidates-max", "20"),
            ("trace.level", "1"),
        ])
    };
    let (status, answer) = ask("by-weight", "weight >= 0 order by weight desc");
    assert_eq!(status, 200, "{answer}");
    assert!(answer.to_string().contains("the first in the order of the hits, read by id"), "{answer}");
    let read = answer["root"]["coverage"]["documents"].as_u64();
    assert!(read.is_some_and(|read| (10..300).contains(&read)), "{answer}");
    // Other orders, and what needs more than the first hits.
    for (index, rest) in [
        ("by-weight", "weight >= 0"),
        ("by-weight", "weight >= 0 order by weight"),
        ("by-weight", "weight >= 0 order by stars"),
        ("by-weight", "weight >= 0 order by weight desc | all(group(owner) each(output(count())))"),
        ("by-stars", "stars >= 0 order by stars desc"),
        ("by-stars", "stars >= 0 order by missing(stars, last)"),
        ("by-owner", "owner contains ({prefix:true}'öw') order by stars desc"),
        ("by-owner", "owner contains ({prefix:true}'öw') order by raw(owner)"),
        ("by-owner", "owner in ('öwner 1', 'öwner 2') order by stars desc"),
        ("note.tags", "tags contains 't0' order by tags"),
    ] {
        let (status, answer) = ask(index, rest);
        assert_eq!(status, 400, "{index}: {rest}: {answer}");
        assert!(answer.to_string().contains("finds more than 20 candidates"), "{index}: {rest}: {answer}");
    }
}

#[test]
fn documents_that_change_take_no_other_out_of_its_place() {
    let server = filled(300);
    verify_all(&server, "fed");
    let yql = "select * from note where weight >= 0 and !(code contains 'X') order by weight desc";
    let expected = answered(&server, yql, "none").0;
    assert_eq!(expected.len(), 7);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Twenty documents go up and down among the others.
            for round in (0..20_000_usize).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let fields = json!({ "weight": (round * 37 % 400) as f64 / 4.0 - 10.0, "code": "X" });
                server.put(&format!("/document/v1/n/note/group/zoe/{}", round % 20), &fields.to_string());
            }
        });
        for round in 0..60 {
            let found = answered_with(&server, yql, "by-weight", "20").0;
            if round == 59 || found != expected {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, expected, "round {round}");
        }
    });
}

fn verify_all(server: &TestServer, when: &str) {
    let waited = server.millrace(&["index", "wait", "--timeout", "60"]);
    assert!(waited.status.success(), "{when}: {}", String::from_utf8_lossy(&waited.stdout));
    for name in ["by-owner", "by-stars", "by-weight", "by-code", "open", "note.tags"] {
        let answer = server.config(Method::POST, &format!("/index/v1/notes/{name}/verify")).1;
        assert_eq!(answer["differences"], json!(0), "{when}: {answer}");
        assert!(answer["documents"].as_u64() > Some(0), "{when}: {answer}");
        let checked = server.millrace(&["index", "verify", name]);
        assert!(checked.status.success(), "{when}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn an_index_finds_what_streaming_finds() {
    let server = filled(120);
    verify_all(&server, "fed");
    same_as_streaming(&server, "fed");
    // Every write is seen by the next query.
    for stars in [7, 8, 7] {
        let path = "/document/v1/n/note/group/zoe/1";
        server.put(path, &format!("{{\"stars\":{stars},\"title\":\"new\"}}"));
        let found = ids(&server, &format!("stars = {stars}"), &[("index.use", "by-stars")]);
        assert!(found.contains("id:n:note:g=zoe:1"), "{found:?}");
    }
    let remove = server.call(Method::DELETE, "/document/v1/n/note/group/zoe/1", "").0;
    assert_eq!(remove, 200);
    let drop = "/document/v1/n/note/group/ann/?selection=true&cluster=notes";
    assert_eq!(server.call(Method::DELETE, drop, "").0, 200);
    assert!(!ids(&server, "true", &[]).iter().any(|id| id.contains("g=ann")));
    verify_all(&server, "removed");
    same_as_streaming(&server, "removed");
    put(&server, 10);
    verify_all(&server, "written after a drop");
    same_as_streaming(&server, "written after a drop");
}

#[test]
fn an_index_is_built_and_is_whole_after_kills_and_damage() {
    let mut server = TestServer::start();
    deploy(&server, "");
    (0..90).for_each(|number| put(&server, number));
    assert!(!server.data_dir().join("indexes").exists(), "without a declaration there is not a byte");
    deploy(&server, INDEXES);
    verify_all(&server, "built");
    same_as_streaming(&server, "built");
    for round in 0..3 {
        (90 + round * 10..100 + round * 10).for_each(|number| put(&server, number));
        let drop = format!(
            "/document/v1/n/note/group/{}/?selection=true&cluster=notes",
            ["bob", "dan", "hal"][round]
        );
        assert_eq!(server.call(Method::DELETE, &drop, "").0, 200);
        match round {
            0 => server.kill_and_restart(),
            1 => server.restart(),
            _ => {
                server.kill();
                damage(&server);
                server.start_again();
            }
        }
        verify_all(&server, &format!("round {round}"));
        same_as_streaming(&server, &format!("round {round}"));
    }
}

/// Flips a byte in the middle of every file of the indexes.
fn damage(server: &TestServer) {
    let mut damaged = 0;
    for index in std::fs::read_dir(server.data_dir().join("indexes")).expect("indexes") {
        let index = index.expect("an entry").path();
        for file in index.is_dir().then(|| std::fs::read_dir(&index).expect("files")).into_iter().flatten() {
            let path = file.expect("an entry").path();
            let mut bytes = std::fs::read(&path).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 16;
            std::fs::write(&path, bytes).expect("the disk takes it");
            damaged += 1;
        }
    }
    assert!(damaged >= 6, "{damaged}");
}

#[test]
fn definitions_come_change_and_go() {
    let server = filled(40);
    let list = || server.config(Method::GET, "/index/v1/").1;
    let names = |answer: &Value| -> Vec<String> {
        let all = answer["indexes"].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|index| index["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(names(&list()), ["by-code", "by-owner", "by-stars", "by-weight", "note.tags", "open"]);
    let changed = INDEXES.replace("name='by-stars'", "name='by-stars' build='deferred'");
    let changed = changed.replace("<key field='weight' order='descending'/>", "<key field='stars'/>");
    deploy(&server, &changed);
    verify_all(&server, "changed");
    let shown = server.config(Method::GET, "/index/v1/notes/by-weight").1;
    assert_eq!(shown["keys"][0]["field"], json!("stars"), "{shown}");
    deploy(
        &server,
        "<index-service><index name='later' document='note' build='deferred'><key field='stars'/><stored field='weight'/></index></index-service>",
    );
    poll("others go", || names(&list()) == ["later"]);
    assert_eq!(server.config(Method::GET, "/index/v1/notes/later").1["stored"], json!(["weight"]));
    let shown = String::from_utf8_lossy(&server.millrace(&["index", "show", "later"]).stdout).into_owned();
    assert!(shown.contains("\n  keys: stars\n  stored: weight\n"), "{shown}");
    let refused = server.config(Method::POST, "/index/v1/notes/later/verify");
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(server.millrace(&["index", "build", "later"]).status.success());
    assert!(server.millrace(&["index", "wait"]).status.success());
    let found = ids(&server, "stars = 13", &[("index.use", "later")]);
    assert_eq!(found, ids(&server, "stars = 13", &[("index.use", "none")]));
    assert!(server.millrace(&["index", "rebuild", "later"]).status.success());
    assert!(server.millrace(&["index", "wait"]).status.success());
    assert!(server.millrace(&["index", "verify", "later"]).status.success());
    deploy(&server, "");
    assert_eq!(names(&list()), Vec::<String>::new());
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_reason() {
    let server = filled(30);
    verify_all(&server, "fed");
    let all = ("streaming.selection", "true");
    let refused = |condition: &str, more: &[(&str, &str)]| {
        let yql = format!("select * from note where {condition}");
        let mut parameters = vec![("yql", yql.as_str()), all];
        parameters.extend_from_slice(more);
        let (status, answer) = server.query(&parameters);
        (status, answer.to_string())
    };
    let check = |condition: &str, more: &[(&str, &str)], expected: &str| {
        let (status, text) = refused(condition, more);
        assert_eq!(status, 400, "{text}");
        assert!(text.contains(expected), "{text}");
    };
    check("stars = 1", &[("index.use", "by-starz")], "no index 'by-starz' (did you mean 'by-stars'?)");
    check("stars = 1", &[("index.use", "by-owner")], "its first key 'owner' has no condition");
    check("title contains 'note'", &[("index.use", "by-stars")], "its first key 'stars' has no condition");
    check("stars = 1", &[("index.use", "open")], "give streaming.selection the same text");
    let grouped = "stars = 1 limit 0 | all(where(true) group(stars) each(output(count())))";
    check(grouped, &[("index.use", "by-stars")], "where(true) groups all documents");
    let groups = |more: &[(&str, &str)]| refused(grouped, more).1.matches("\"count()\"").count();
    assert_eq!(groups(&[]), groups(&[("index.use", "none")]), "no index is chosen");
    assert!(groups(&[]) > 2);
    check("stars > 0", &[("index.use", "by-stars"), ("index.candidates-max", "5")], "more than 5 candidates");
    check(
        "stars > 0",
        &[("index.use", "by-stars"), ("index.candidates-max", "x")],
        "expected a whole number",
    );
    let (status, answer) = server.query(&[
        ("yql", "select * from note where stars = 1"),
        ("streaming.groupname", "ann"),
        ("index.use", "by-stars"),
    ]);
    assert_eq!(status, 400, "{answer}");
    check("stars > 0", &[("index.consistency", "later")], "expected 'now' or 'eventual'");
    for (method, path, status, expected) in [
        (Method::GET, "/index/v1/notes/none", 404, "no index 'none' in content cluster 'notes'"),
        (Method::GET, "/index/v1/other/by-stars", 404, "notes/by-stars"),
        (Method::POST, "/index/v1/notes/by-stars/dance", 404, "POST to build, rebuild or verify"),
        (Method::DELETE, "/index/v1/notes/by-stars", 405, "use GET"),
        (Method::GET, "/index/v1/a/b/c/d", 404, "indexes are at /index/v1/"),
        (
            Method::POST,
            "/index/v1/notes/by-stars/move",
            409,
            "its entries lie with the documents, and are not moved",
        ),
        (Method::GET, "/index/v1/plan", 409, "this server runs alone"),
        (Method::GET, "/index/v1/rebalance", 409, "this server runs alone"),
        (Method::POST, "/index/v1/rebalance", 409, "this server runs alone"),
        (Method::DELETE, "/index/v1/rebalance", 409, "this server runs alone"),
        (Method::GET, "/index/v1/settings", 409, "this server runs alone"),
        (Method::PUT, "/index/v1/settings", 409, "this server runs alone"),
        (Method::POST, "/index/v1/settings", 405, "use GET, PUT"),
    ] {
        let (found, answer) = server.config(method.clone(), path);
        assert_eq!(found, status, "{method} {path}: {answer}");
        assert!(answer.to_string().contains(expected), "{method} {path}: {answer}");
    }
    // A query without a scope stays refused; if an index answers it over all groups, that is said.
    for (condition, is_answered) in [("stars = 1", true), ("title contains 'note'", false)] {
        let (status, answer) = server.query(&[("yql", &*format!("select * from note where {condition}"))]);
        let text = answer.to_string();
        assert!(status == 400 && text.contains("streaming.selection=true for all"), "{status} {text}");
        assert_eq!(text.contains("for all, which index 'by-stars' answers"), is_answered, "{text}");
    }
}
