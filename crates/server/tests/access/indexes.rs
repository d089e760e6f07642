//! Credentials at the interfaces of Elasticsearch.

use hyper::Method;

use super::{ClosedServer, OTHERS, create, method_of, shows_others, shows_own};

#[test]
fn interfaces_over_all_groups_refuse_a_caller_of_one() {
    let closed = ClosedServer::start();
    let document = format!("{{\"title\":\"{OTHERS}\"}}");
    let made = closed.ask(closed.all, Method::PUT, "/elastic/logs/_doc/1?refresh=true", &document);
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let found = closed.ask(closed.all, Method::GET, "/elastic/logs/_search", "");
    assert!(shows_others(&found), "{}", String::from_utf8_lossy(&found.body));
    for (method, path, body) in [
        (Method::GET, "_search", ""),
        (Method::POST, "logs/_search", "{}"),
        (Method::GET, "logs/_doc/1", ""),
        (Method::GET, "_cat/indices", ""),
        (Method::GET, "_stats", ""),
        (Method::GET, "note/_stats", ""),
        (Method::GET, "_cluster/state", ""),
        (Method::POST, "note/_terms_enum", "{\"field\":\"title\"}"),
        (Method::POST, "note/_explain/1?routing=bob", "{\"query\":{\"match_all\":{}}}"),
        (Method::POST, "note/_update_by_query", "{\"script\":{\"source\":\"ctx.op = 'delete'\"}}"),
        (Method::PUT, "_search/pipeline/mine", "{\"phase_results_processors\":[]}"),
        (Method::GET, "note/_search?routing=bob", ""),
        (Method::GET, "note/_doc/id:n:note:g=bob:1", ""),
        (Method::GET, "note/_doc/id:n:note::1", ""),
        (Method::PUT, "note/_doc/1?routing=bob", "{}"),
        (Method::PUT, "logs/_doc/3", "{}"),
        (Method::DELETE, "logs", ""),
        (Method::POST, "v1/logs", "{}"),
    ] {
        for (token, prefix, expected) in
            [(closed.ann, "", 403), (closed.all, "/person/ann", 403), ("", "", 401)]
        {
            let path = format!("{prefix}/elastic/{path}");
            let answer = closed.ask(token, method.clone(), &path, body);
            assert_eq!(answer.status, expected, "{method} {path}");
            assert!(!shows_others(&answer), "{method} {path}");
        }
    }
}

#[test]
fn types_are_indexes_of_the_callers_own_groups() {
    let closed = ClosedServer::start();
    for (token, prefix) in [(closed.ann, ""), (closed.all, "/person/ann")] {
        for path in ["note/_search", "note/_doc/id:n:note:g=ann:1", "note/_search?routing=ann"] {
            let answer = closed.ask(token, Method::GET, &format!("{prefix}/elastic/{path}"), "");
            assert_eq!(answer.status, 200, "{prefix} {path}");
            assert!(shows_own(&answer) && !shows_others(&answer), "{prefix} {path}");
        }
        let lines = ["note\",\"_id\":\"2", "note\",\"routing\":\"bob", "logs"];
        let item = |line| format!("{{\"index\":{{\"_index\":\"{line}\"}}}}\n{{\"title\":\"x\"}}\n");
        let bulk: String = lines.into_iter().map(item).collect();
        let answer = closed.ask(token, Method::POST, &format!("{prefix}/elastic/_bulk"), &bulk).json();
        let items = answer["items"].as_array().expect("items").iter();
        let statuses: Vec<_> = items.map(|item| item["index"]["status"].as_u64()).collect();
        assert!(matches!(statuses[..], [Some(200 | 201), Some(403), Some(403)]), "{prefix} {answer}");
    }
    let kept = closed.ask(closed.all, Method::GET, "/elastic/note/_count?routing=bob", "").json();
    assert_eq!(kept["count"], 1, "a refused item is not written");
}

#[test]
fn requests_for_indexes_need_the_right_of_what_they_do() {
    let closed = ClosedServer::start();
    let reader = create(&closed.server, &["reader", "--read"]);
    let writer = create(&closed.server, &["writer", "--write"]);
    closed.until(reader, |status| status == 200);
    closed.until(writer, |status| status == 403);
    let ask = |token, (method, path, body): (&str, &str, &str)| {
        closed.ask(token, method_of(method), &format!("/elastic/{path}"), body)
    };
    let document = format!("{{\"title\":\"{OTHERS}\"}}");
    assert_eq!(ask(closed.all, ("PUT", "logs/_doc/1", &document)).status, 201);
    let gone = "{\"delete\":{\"_index\":\"logs\",\"_id\":\"1\"}}\n";
    for (request, refused) in [
        (("GET", "_bulk", gone), 405),
        (("GET", "logs/_bulk", gone), 405),
        (("POST", "_bulk", gone), 403),
        (("POST", "logs/_doc/_search", "{}"), 403),
        (("POST", "logs/_create/_count", "{}"), 403),
        (("POST", "logs/_update/_search", "{\"doc\":{}}"), 403),
        (("POST", "_template/_search", "{\"index_patterns\":[\"x\"]}"), 403),
        (("POST", "logs/_alias/scroll", "{}"), 403),
        (("DELETE", "logs", ""), 403),
    ] {
        let answer = ask(reader, request);
        assert_eq!(answer.status, refused, "{request:?}: {}", String::from_utf8_lossy(&answer.body));
    }
    let count = ask(closed.all, ("GET", "logs/_count", "")).json();
    assert_eq!(count["count"], 1, "a refused request changes nothing");
    for request in [
        ("GET", "", ""),
        ("POST", "logs/_search/", "{}"),
        ("POST", "logs/_refresh", ""),
        ("GET", "logs/_doc/1", ""),
    ] {
        assert_eq!(ask(reader, request).status, 200, "{request:?}");
    }
    let made = ask(reader, ("POST", "logs/_search?scroll=1m", "{}")).json();
    let id = made["_scroll_id"].as_str().expect("a scroll").to_owned();
    let next = format!("_search/scroll/{id}");
    assert_eq!(ask(reader, ("POST", &next, "")).status, 200);
    let clear = format!("{{\"scroll_id\":\"{id}\"}}");
    assert_eq!(ask(reader, ("DELETE", "_search/scroll", &clear)).status, 200);
    assert_eq!(ask(writer, ("GET", "", "")).status, 200);
    let update = "{\"doc\":{\"n\":1},\"_source\":true}";
    let item = "{\"update\":{\"_index\":\"logs\",\"_id\":\"1\"}}\n{\"doc\":{\"n\":2}}\n";
    for request in [
        ("GET", "logs/_doc/1", ""),
        ("POST", "logs/_search", "{}"),
        ("POST", "logs/_update/1", update),
        ("POST", "logs/_update/1?_source=true", "{\"doc\":{\"n\":1}}"),
        ("POST", "_bulk?_source=true", item),
    ] {
        let answer = ask(writer, request);
        assert!(!shows_others(&answer), "{request:?}");
        let status = answer.json()["items"][0]["update"]["status"].as_u64();
        assert_eq!(status.unwrap_or_else(|| answer.status.as_u16().into()), 403, "{request:?}");
    }
    assert_eq!(ask(writer, ("POST", "_bulk", item)).status, 200);
}
