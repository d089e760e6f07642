//! Documents that stop matching the selection of their cluster are removed in the background.

use hyper::Method;
use serde_json::json;

use crate::support::{NOTE, SERVICES, TestServer, poll};

/// Content of services.xml with garbage collection by this selection.
fn services(selection: &str) -> String {
    SERVICES
        .replace("<documents>", "<documents garbage-collection='true' garbage-collection-interval='1'>")
        .replace(
            "<document type='note' mode='streaming'/>",
            &format!("<document type='note' mode='streaming' selection='{selection}'/>"),
        )
}

#[test]
fn what_no_longer_belongs_is_removed_in_the_background() {
    let server = TestServer::start();
    let deploy = |selection: &str| {
        let (status, answer) =
            server.deploy(&[("services.xml", &services(selection)), ("schemas/note.sd", NOTE)]);
        assert_eq!(status, 200, "{answer}");
    };
    deploy("note.stars &gt; 3");
    let path = |number: u32| format!("/document/v1/n/note/group/ann/{number}");
    for number in 0..10 {
        server.put(&path(number), &format!("{{\"title\":\"text\",\"stars\":{}}}", 4 + number));
    }
    // Without the field the selection is neither true nor false, and the document stays.
    server.put(&path(10), "{\"stars\":9}");
    let (status, _) = server.call(Method::PUT, &path(10), "{\"fields\":{\"stars\":{\"assign\":null}}}");
    assert_eq!(status, 200);
    let (status, _) = server.call(Method::PUT, &path(0), "{\"fields\":{\"stars\":{\"assign\":1}}}");
    assert_eq!(status, 200, "an update can make a document one that does not belong");
    poll("the document goes", || server.get(&path(0)).0 == 404);
    assert_eq!(server.get(&path(1)).0, 200);
    deploy("note.stars &gt; 8");
    let count = || {
        let yql = [("yql", "select * from note where true"), ("streaming.groupname", "ann"), ("hits", "0")];
        server.query(&yql).1.pointer("/root/fields/totalCount").cloned()
    };
    poll("those that the new selection does not want go", || count() == Some(json!(6)));
    assert_eq!(server.get(&path(10)).0, 200);
    let removed =
        "/nodes/0/services/0/metrics/0/values/vds.idealstate.garbage_collection.documents_removed.count";
    // They are counted once the whole page that they were on is done.
    poll("all removals are counted", || {
        server.get("/metrics/v2/values").1.pointer(removed) == Some(&json!(5))
    });
}
