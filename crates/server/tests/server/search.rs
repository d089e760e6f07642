//! Fed documents are found, by their group, at once.

use serde_json::json;

use crate::support::{self, TestServer};

#[test]
fn what_was_put_is_found_in_its_group_and_in_no_other() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"budget meeting","stars":3}"#);
    server.put("/document/v1/n/note/group/ann/2", r#"{"title":"holiday plans","stars":5}"#);
    server.put("/document/v1/n/note/group/bob/1", r#"{"title":"budget of bob","stars":1}"#);

    let yql = "select * from note where default contains 'budget'";
    let (status, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann")]);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer.pointer("/root/fields/totalCount"), Some(&json!(1)), "{answer}");
    assert_eq!(answer.pointer("/root/children/0/fields/documentid"), Some(&json!("id:n:note:g=ann:1")));
    assert_eq!(answer.pointer("/root/children/0/fields/stars"), Some(&json!(3)));
    assert_eq!(answer.pointer("/root/coverage/full"), Some(&json!(true)));
}

/// A document summary without the id has ids of the index over HTTP, as in Vespa. People get those that `get`
/// takes.
#[test]
fn hits_of_the_command_have_ids_of_documents() {
    let server = TestServer::start();
    let schema = support::NOTE.replacen(
        "fieldset default",
        "document-summary line { summary title {} }\n  fieldset default",
        1,
    );
    let files = [("services.xml", support::SERVICES), ("schemas/note.sd", &*schema)];
    assert_eq!(server.deploy(&files).0, 200);
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"budget meeting","stars":3}"#);
    let all = "select * from note where true";
    let yql = [("yql", all), ("streaming.groupname", "ann"), ("presentation.summary", "line")];
    let (_, answer) = server.query(&yql);
    let id = answer.pointer("/root/children/0/id").and_then(serde_json::Value::as_str);
    assert!(id.is_some_and(|id| id.starts_with("index:")), "{answer}");
    for arguments in [
        &["query", "budget", "--group", "ann"][..],
        &["query", "budget", "--group", "ann", "presentation.summary=line"],
        &["query", "budget", "--group", "ann", "summary=line"],
        &["query", all, "--group", "ann", "presentation.summary=line"],
        &["query", all, "--group", "ann", "presentation.summary=line", "presentation.summaryFields=title"],
        &["query", "select title from note where true", "--group", "ann", "presentation.summary=line"],
    ] {
        let output = server.millrace(arguments);
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("1. id:n:note:g=ann:1  ("), "{arguments:?}: {shown} {output:?}");
        assert!(shown.contains("title: "), "{arguments:?}: {shown}");
        let is_line = arguments.len() > 4;
        assert_eq!(shown.contains("stars: "), !is_line, "{arguments:?}: {shown}");
    }
}

#[test]
fn special_tokens_are_words_of_typed_text() {
    let server = TestServer::start();
    let deploy = |services: &str, rules: &str| {
        let (status, answer) = server.deploy(&[
            ("services.xml", services),
            ("schemas/note.sd", support::NOTE),
            ("rules/one.sr", rules),
        ]);
        assert_eq!(status, 200, "{answer}");
    };
    let count = |query: &str, more: &[(&str, &str)]| {
        let own = [("query", query), ("type", "all"), ("streaming.groupname", "ann")];
        let (status, answer) = server.query(&[&own[..], more].concat());
        assert_eq!(status, 200, "{answer}");
        answer.pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64)
    };
    let tokens = "<search/><document-api/><config name='vespa.configdefinition.specialtokens'><tokenlist><item><name>default</name><tokens>\
                  <item><token>c++</token><replace>cpp</replace></item></tokens></item></tokenlist></config>";
    deploy(&support::services_with(tokens), "compiler -> gcc;");
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"cpp with gcc"}"#);
    assert_eq!(count("C++", &[]), Some(1));
    assert_eq!(count("c+", &[]), Some(0));
    assert_eq!(count("gcc", &[("recall", "+c++")]), Some(1));
    assert_eq!(count("C++ compiler", &[("rules.rulebase", "one")]), Some(1));
    deploy(support::SERVICES, "compiler -> gcc;");
    assert_eq!(count("C++", &[]), Some(0));
}

#[test]
fn a_package_for_an_index_searches_everything() {
    let server = TestServer::start();
    let deploy = |services: &str| {
        let (status, answer) =
            server.deploy(&[("services.xml", services), ("schemas/note.sd", support::NOTE)]);
        assert_eq!(status, 200, "{answer}");
        answer.to_string()
    };
    let services = support::SERVICES.replace("streaming", "index");
    assert!(deploy(&services).contains("a query that names no group reads all documents"));
    server.put("/document/v1/n/note/docid/1", r#"{"title":"budget meeting"}"#);
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"budget of ann"}"#);
    let count = |more: &[(&str, &str)]| {
        let yql = [("yql", "select * from note where default contains 'budget'")];
        let (status, answer) = server.query(&[&yql[..], more].concat());
        (status, answer.pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64))
    };
    assert_eq!(count(&[]), (200, Some(2)));
    assert_eq!(count(&[("streaming.groupname", "ann")]), (200, Some(1)));
    assert_eq!(count(&[("streaming.selection", "false")]), (200, Some(0)));
    deploy(support::SERVICES);
    assert_eq!(count(&[]).0, 400);
}

#[test]
fn queries_come_as_lines_forms_and_json() {
    use hyper::Method;
    use millrace_client::{HttpProtocol, OutgoingRequest};
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"budget","stars":3}"#);
    let yql = "select * from note where stars = 3";
    let found = |request: OutgoingRequest| {
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        assert_eq!(answer.status, 200, "{}", answer.message());
        answer.json().pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64)
    };
    let line = OutgoingRequest::new(Method::GET, "/search/")
        .parameter("yql", yql)
        .parameter("streaming.groupname", "ann");
    assert_eq!(found(line), Some(1));
    let body = json!({ "yql": yql, "streaming": { "groupname": "ann" } }).to_string();
    assert_eq!(found(OutgoingRequest::new(Method::POST, "/search/").body("application/json", body)), Some(1));
    let form = "yql=select+*+from+note+where+stars+%3D+3&streaming.groupname=ann";
    assert_eq!(
        found(OutgoingRequest::new(Method::POST, "/search/").body("application/x-www-form-urlencoded", form)),
        Some(1)
    );
}

#[test]
fn groups_are_counted() {
    let server = TestServer::with_notes();
    for (name, stars) in [("1", 1), ("2", 2), ("3", 2)] {
        server.put(&format!("/document/v1/n/note/group/ann/{name}"), &format!("{{\"stars\":{stars}}}"));
    }
    let yql = "select * from note where true limit 0 | all(group(stars) each(output(count())))";
    let (status, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann")]);
    assert_eq!(status, 200, "{answer}");
    let groups = answer.pointer("/root/children/0/children/0/children").and_then(|groups| groups.as_array());
    let counts: Vec<_> =
        groups.into_iter().flatten().map(|group| (&group["value"], &group["fields"]["count()"])).collect();
    assert_eq!(counts, [(&json!("1"), &json!(1)), (&json!("2"), &json!(2))], "{answer}");
}

#[test]
fn a_result_comes_in_the_form_asked_for() {
    use hyper::Method;
    use hyper::header::HeaderName;
    use millrace_client::{HttpProtocol, OutgoingRequest};
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"blåbær","stars":3}"#);
    let ask = |parameters: &[(&str, &str)], header: (&'static str, &'static str)| {
        let all = [("query", "title:blåbær"), ("streaming.groupname", "ann")];
        let request =
            OutgoingRequest::new(Method::GET, "/search/").header(HeaderName::from_static(header.0), header.1);
        let request = all
            .iter()
            .chain(parameters)
            .fold(request, |request, (name, value)| request.parameter(name, value));
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        let header = |name: &str| {
            answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let figures =
            format!("{} {}", header("x-yahoo-vespa-numhits"), header("x-yahoo-vespa-nodessearched"));
        (header("content-type"), figures, answer.body.clone())
    };
    let (media, _, body) = ask(&[("format", "xml"), ("presentation.timing", "true")], ("accept", "*/*"));
    let text = String::from_utf8_lossy(&body);
    assert_eq!(media, "text/xml;charset=utf-8");
    assert!(text.contains("querytime=") && text.contains("<field name=\"title\">blåbær</field>"), "{text}");

    for (id, expected) in [
        ("XmlRenderer", "text/xml;charset=utf-8"),
        ("JsonRenderer", "application/json;charset=utf-8"),
        ("CborRenderer", "application/cbor"),
    ] {
        let (media, _, _) = ask(&[("format", id)], ("accept", "*/*"));
        assert_eq!(media, expected);
    }

    let (media, _, body) = ask(&[("format", "xml"), ("encoding", "iso-8859-1")], ("accept", "*/*"));
    assert_eq!(media, "text/xml;charset=iso-8859-1");
    assert!(body.windows(6).any(|bytes| bytes == b"bl\xe5b\xe6r"), "{body:?}");

    let (media, _, body) = ask(&[], ("accept", "application/cbor"));
    assert_eq!((media.as_str(), body[0] >> 5), ("application/cbor", 5), "{body:?}");
    let (media, _, _) = ask(&[("format", "json")], ("accept", "application/cbor"));
    assert_eq!(media, "application/json;charset=utf-8");

    let (_, figures, _) = ask(&[], ("x-yahoo-vespa-benchmarkdata", "1"));
    assert_eq!(figures, "1 ");
    let (_, figures, _) = ask(&[], ("x-yahoo-vespa-benchmarkdata-coverage", "1"));
    assert_eq!(figures, " 1");

    let (_, _, body) = ask(&[("format", "tabloid")], ("accept", "*/*"));
    assert!(String::from_utf8_lossy(&body).contains("no format 'tabloid', only json, cbor, xml and sse"));
}

#[test]
fn query_profiles_give_requests_what_they_lack() {
    let server = TestServer::start();
    let profile = "<query-profile id='default'>
        <dimensions>device</dimensions>
        <field name='yql'>select * from note where userQuery() and stars in (%{stars})</field>
        <field name='maxHits'>2</field><field name='hits'>1</field><field name='stars'>1, 2, 3</field>
        <field name='presentation.timing' overridable='false'>false</field>
        <query-profile for='big'><field name='hits'>2</field></query-profile></query-profile>";
    let files = [
        ("services.xml", support::SERVICES),
        ("schemas/note.sd", support::NOTE),
        ("search/query-profiles/default.xml", profile),
    ];
    let (status, answer) = server.deploy(&files);
    assert_eq!(status, 200, "{answer}");
    for stars in 1..4 {
        let fields = format!("{{\"title\":\"word\",\"stars\":{stars}}}");
        server.put(&format!("/document/v1/n/note/group/ann/{stars}"), &fields);
    }
    let ask = |more: &[(&str, &str)]| {
        let all = [("query", "word"), ("groupname", "ann")];
        let (_, answer) = server.query(&[&all, more].concat());
        let hits = answer.pointer("/root/children").and_then(|hits| hits.as_array()).map_or(0, Vec::len);
        let total = answer.pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64);
        (hits, total, answer)
    };
    assert!(matches!(ask(&[]), (1, Some(3), _)));
    assert!(matches!(ask(&[("device", "big")]), (2, Some(3), _)));
    assert!(matches!(ask(&[("count", "2"), ("stars", "2")]), (1, Some(1), _)));
    let (_, _, answer) = ask(&[("hits", "3")]);
    assert!(answer.to_string().contains("3 hits requested, configured limit: 2"), "{answer}");
    let (_, _, answer) = ask(&[("timing", "true")]);
    assert!(answer.get("timing").is_none(), "{answer}");
}

#[test]
fn a_trace_tells_what_was_done() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"budget","stars":3}"#);
    let ask = |more: &[(&str, &str)]| {
        let all = [("query", "budget title:plan"), ("groupname", "ann")];
        let (status, answer) = server.query(&[&all, more].concat());
        assert_eq!(status, 200, "{answer}");
        answer.get("trace").map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!(ask(&[]), "");
    let trace = ask(&[("tracelevel", "1")]);
    for part in [
        "No query profile is used",
        "query=[WEAKAND budget title:plan] timeout=500ms offset=0 hits=10",
        "schema note: 1 documents looked at, 1 matched",
        "Query time query 'WEAKAND budget title:plan': ",
    ] {
        assert!(trace.contains(part), "{part}: {trace}");
    }
    assert!(!trace.contains("plan: ") && !trace.contains("timestamp"), "{trace}");
    assert!(ask(&[("tracelevel", "2")]).contains("plan: OR(title"), "plans are shown");
    let trace = ask(&[("tracelevel", "1"), ("trace.query", "false"), ("trace.timestamps", "true")]);
    assert!(!trace.contains("budget") && trace.contains("timestamp"), "{trace}");
}

#[test]
fn hits_like_better_ones_are_collapsed() {
    let server = TestServer::with_notes();
    for (name, stars, tag) in [("1", 1, "a"), ("2", 2, "a"), ("3", 2, "b"), ("4", 2, "b"), ("5", 3, "a")] {
        let fields = format!("{{\"title\":\"word\",\"stars\":{stars},\"tags\":[\"{tag}\"]}}");
        server.put(&format!("/document/v1/n/note/group/ann/{name}"), &fields);
    }
    server.put("/document/v1/n/note/group/ann/6", r#"{"title":"word"}"#);
    server.put("/document/v1/n/note/group/ann/7", r#"{"title":"word"}"#);
    let check = |more: &[(&str, &str)], expected: &str| {
        let all = [
            ("yql", "select * from note where true order by \"[docid]\" asc"),
            ("streaming.groupname", "ann"),
            ("collapsefield", "stars"),
        ];
        let (status, answer) = server.query(&[&all, more].concat());
        assert_eq!(status, 200, "{answer}");
        let hits = answer.pointer("/root/children").and_then(|hits| hits.as_array());
        let names = hits.into_iter().flatten().filter_map(|hit| hit["id"].as_str()?.rsplit(':').next());
        assert_eq!(names.collect::<String>(), expected, "{more:?}");
        assert_eq!(answer.pointer("/root/fields/totalCount"), Some(&json!(7)));
    };
    check(&[], "12567");
    check(&[("hits", "2")], "12");
    check(&[("hits", "2"), ("offset", "1")], "25");
    check(&[("hits", "4"), ("offset", "3")], "67");
    check(&[("collapsesize", "2")], "123567");
    check(&[("collapsesize", "9"), ("collapsesize.stars", "1")], "12567");
    check(&[("collapsefield", "tags")], "1367");
    check(&[("collapsefield", "stars,tags")], "167");
    check(&[("collapsefield", "nothing")], "1234567");
}
