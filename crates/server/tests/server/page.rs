//! The page at `/`: for browsers only, complete in itself, and open only as far as it has no data.

use std::collections::{HashSet, VecDeque};

use hyper::Method;
use hyper::header::ACCEPT;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};

use crate::support::{TestServer, poll};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn get(server: &TestServer, path: &str, accept: &'static str) -> ClientAnswer {
    let request = OutgoingRequest::new(Method::GET, path).header(ACCEPT, accept);
    server.send(&server.url(), HttpProtocol::Http1, request)
}

fn text(answer: &ClientAnswer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Texts between two marks.
fn between<'t>(text: &'t str, start: &str, end: char) -> Vec<&'t str> {
    text.split(start).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

#[test]
fn a_browser_gets_a_page_that_is_complete() {
    let server = TestServer::start();
    let page = get(&server, "/", BROWSER);
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html;charset=utf-8");
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let html = text(&page);
    for accept in ["application/json", "*/*", "text/htmlx"] {
        assert!(get(&server, "/", accept).json()["handlers"].is_array(), "{accept}");
    }
    // Its files are there, also below the endpoint of a person, and nothing is loaded from elsewhere.
    let files = [between(&html, "href=\"page/", '"'), between(&html, "src=\"page/", '"')].concat();
    assert_eq!(files.len(), 2, "{html}");
    let mut sources = vec![html.clone()];
    let mut files: VecDeque<String> = files.into_iter().map(str::to_owned).collect();
    let mut known: HashSet<String> = files.iter().cloned().collect();
    while let Some(file) = files.pop_front() {
        for prefix in ["", "/person/ann"] {
            let answer = get(&server, &format!("{prefix}/page/{file}"), "*/*");
            assert_eq!(answer.status, 200, "{file}");
            let source = text(&answer);
            let imported = between(&source, "from \"./", '"').into_iter().map(str::to_owned);
            files.extend(imported.filter(|file| known.insert(file.clone())));
            sources.push(source);
        }
    }
    assert_eq!(sources.len(), 1 + 2 * 8, "page, style and seven scripts, twice");
    assert_eq!(text(&get(&server, "/person/ann/", BROWSER)), html);
    for source in &sources {
        assert!(!source.contains("://") && !source.contains("innerHTML") && !source.contains("eval("));
    }
    // Scripts find each element that they use, and each input has a label.
    for id in sources.iter().flat_map(|source| between(source, "element(\"", '"')) {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for name in ["token", "group", "words", "schema", "order"] {
        assert!(html.contains(&format!("<label for=\"{name}\">")), "{name}");
    }
}

#[test]
fn the_page_needs_no_credential_and_its_data_do() {
    let server = TestServer::with_notes();
    server.create_token(&["ann", "--read", "--group", "ann"]);
    poll("the credentials are used", || get(&server, "/search/", "*/*").status == 401);
    assert_eq!(get(&server, "/", BROWSER).status, 200);
    assert_eq!(get(&server, "/page/page.js", "*/*").status, 200);
    for path in ["/group/v1/", "/search/", "/ApplicationStatus", "/page/other", "//"] {
        assert_eq!(get(&server, path, BROWSER).status, 401, "{path}");
    }
    assert_eq!(get(&server, "/", "*/*").status, 401);
}
