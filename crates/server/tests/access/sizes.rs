//! Limits of a credential on what is stored of a group.

use hyper::Method;
use serde_json::Value;

use super::{ClosedServer, create};

const DOCUMENT: &str = "{\"fields\":{\"title\":\"x\"}}";

#[test]
fn a_credential_writes_to_a_group_until_it_has_so_many_documents() {
    let closed = ClosedServer::start();
    let few = ["few", "--read", "--write", "--group", "carl", "--group-documents-max", "2"];
    let few = create(&closed.server, &few);
    closed.until(few, |status| status == 403);
    let send = |token, method: Method, name: &str| {
        let body = if method == Method::POST { DOCUMENT } else { "" };
        closed.ask(token, method, &format!("/document/v1/n/note/group/carl/{name}"), body)
    };
    let put = |token, name: &str| send(token, Method::POST, name);
    for name in ["1", "2"] {
        assert_eq!(put(few, name).status, 200, "{name}");
    }
    for name in ["1", "3"] {
        let refused = put(few, name);
        let text = String::from_utf8_lossy(&refused.body).into_owned();
        assert_eq!(refused.status, 507, "{text}");
        assert!(text.contains("group g=carl is full") && text.contains("limits.documents"), "{text}");
    }
    let operations = "{\"put\":\"id:n:note::4\",\"fields\":{}}\n{\"remove\":\"id:n:note::5\"}\n";
    let fed = closed.ask(few, Method::POST, "/feed/v1", operations);
    let fed = String::from_utf8_lossy(&fed.body).into_owned();
    assert!(fed.contains("\"status\":507") && fed.contains("\"ok\":1"), "{fed}");
    let bulk = "{\"index\":{\"_index\":\"note\",\"_id\":\"6\"}}\n{\"title\":\"x\"}\n";
    let items = closed.ask(few, Method::POST, "/elastic/_bulk", bulk).json();
    assert_eq!(items["items"][0]["index"]["status"], 429, "{items}");
    // Operations of one request count before the first of them is committed.
    let several = ["several", "--write", "--read", "--group", "dora", "--group-documents-max", "10"];
    let several = create(&closed.server, &several);
    closed.until(several, |status| status == 403);
    let puts = |from: u32| -> String {
        (from..from + 300)
            .map(|name| format!("{{\"put\":\"id:n:note::{name}\",\"fields\":{{}}}}\n"))
            .collect()
    };
    for (from, expected) in [(0, 10), (1000, 0)] {
        let fed = closed.ask(several, Method::POST, "/feed/v1", &puts(from));
        let fed = String::from_utf8_lossy(&fed.body).into_owned();
        let total: Value = serde_json::from_str(fed.lines().last().expect("totals")).expect("JSON");
        assert_eq!((&total["ok"], &total["complete"]), (&expected.into(), &true.into()), "{fed}");
    }
    // Updates of many documents at once are refused like those of one.
    let update = "{\"fields\":{\"title\":{\"assign\":\"longer\"}}}";
    let all_of_group = "/document/v1/n/note/group/carl/?cluster=notes&selection=true";
    let refused = closed.ask(few, Method::PUT, all_of_group, update);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(refused.status == 507 && text.contains("limits.documents"), "{}: {text}", refused.status);
    assert_eq!(closed.ask(closed.all, Method::PUT, all_of_group, update).json()["documentCount"], 2);
    // Others have no such limit, and what they write counts.
    assert_eq!(put(closed.all, "3").status, 200);
    assert_eq!(send(few, Method::DELETE, "1").status, 200);
    assert_eq!(put(few, "1").status, 507, "two are left");
    assert_eq!(send(few, Method::DELETE, "2").status, 200);
    assert_eq!(put(few, "1").status, 200, "removals make room");
}
